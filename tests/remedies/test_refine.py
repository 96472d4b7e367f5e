"""Refinement: a damped oscillation in closed form, what is reported, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from bad_refinements import FEW, assert_bad_refinements_are_told
from numpy.testing import assert_allclose

import twoaxis as ta
from twoaxis.errors import InputError
from twoaxis.gauss_newton import Continuation
from twoaxis.remedies.refine.of_model import OF_A_MODEL
from twoaxis.remedies.refine.result import NOT_SETTLED, SETTLED, Path
from twoaxis.remedies.refine.stacked_model import StackedModel
from twoaxis.remedies.refine.stages import _exhausted, drawn_points

torch = pytest.importorskip("torch")

TIMES = np.linspace(0, 4, 40)
NOISE, RATE, FIRST = 0.02, 0.7, 1.5
TOLERANCE = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)


def decay(rate):
    """The solution of u' = -rate u."""
    return FIRST * np.exp(-np.asarray(rate)[..., None] * TIMES)


DATA = decay(RATE) + NOISE * np.random.default_rng(3).standard_normal(40)


def network(seed=0, width=8):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(1, width), torch.nn.Tanh(), torch.nn.Linear(width, width)]
    return torch.nn.Sequential(*layers, torch.nn.Tanh(), torch.nn.Linear(width, 1)).double()


def equation(model, t, rate):
    u = model(t)
    (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    return slope + rate * u


def initial(model):
    return model(torch.zeros(1, 1, dtype=torch.float64)) - FIRST


def frozen(delivered=1.4, *, observed=TIMES[:, None], conditions=initial, **options):
    """An untrained network, and a rate that is off by a factor of two."""
    return ta.from_torch(
        network(),
        equation,
        {"rate": ta.Parameter(delivered=delivered, bounds=(0.05, 10.0))},
        points=np.linspace(0, 4, 60)[:, None],
        observed=observed,
        conditions=conditions,
        **options,
    )


@pytest.fixture(scope="module")
def refined():
    return ta.refine(frozen(), DATA, noise=NOISE, progress=False)


def closed_form(*, known_start=True):
    """Return estimate and standard error of the log of the rate, by Gauss-Newton on decay."""
    q, first = np.log(RATE), FIRST
    for _ in range(30):
        u = first / FIRST * decay(np.exp(q))
        slopes = np.stack([-np.exp(q) * TIMES * u, u / first], axis=1)[:, : 2 - known_start]
        step = np.linalg.lstsq(slopes, DATA - u, rcond=None)[0]
        q, first = q + step[0], first + step[1:].sum()
    return np.exp(q), NOISE * np.sqrt(np.linalg.inv(slopes.T @ slopes)[0, 0])


def test_the_refined_value_is_that_of_least_squares_with_the_exact_solution(refined):
    value, error = closed_form()
    assert refined.status == SETTLED
    assert refined.trusted
    assert_allclose(refined.values["rate"], value, rtol=0.1 * error)
    assert_allclose(refined.standard_error["rate"], value * error, rtol=0.05)
    low, high = refined.interval["rate"]
    assert low < value < high


def test_without_conditions_the_start_of_the_field_is_fitted_too_and_told(refined):
    assert "refine.free_field" not in [m.code for m in refined.messages]
    found = ta.refine(frozen(conditions=None), DATA, noise=NOISE, progress=False)
    value, error = closed_form(known_start=False)
    assert error > 1.3 * closed_form()[1]
    assert_allclose(found.values["rate"], value, rtol=0.1 * error)
    assert_allclose(found.standard_error["rate"], value * error, rtol=0.02)
    (told,) = (m for m in found.messages if m.code == "refine.free_field")
    assert_allclose(told.numbers["directions"], 1.0, atol=0.02)
    assert told.severity == "info"
    assert found.trusted
    # The present observations decided on the start; others would have to do it again.
    assert "forward.free_field" not in [m.code for m in ta.resolve(found, replicas=2).messages]
    some = ta.resolve(found, layouts={"some": np.arange(20)}, replicas=2, progress=False)
    assert "forward.free_field" in [m.code for m in some.messages if m.severity == "warning"]
    for present in (None, []):
        sites = ta.suggest_sites(found, 4, points=TIMES[:, None], present=present, progress=False)
        where = np.append(TIMES if present is None else [], sites.points.values[:, 0])
        u = np.interp(where, TIMES, found.data["fitted"].values)
        slopes = np.stack([-value * where * u, u], axis=1) / NOISE  # by log rate, and by the start
        exact = np.sqrt(2 / np.pi * np.linalg.inv(slopes.T @ slopes)[0, 0])
        predicted = sites.predicted.sel(parameter="rate").values[-1]
        assert_allclose(predicted, 100 * exact, rtol=0.02)


def test_observations_beyond_the_residual_points_are_told():
    far = np.append(TIMES[:-2], [5.0, 6.0])[:, None]
    data = np.append(DATA[:-2], FIRST * np.exp(-RATE * far[-2:, 0]))
    found = ta.refine(frozen(observed=far), data, noise=NOISE, continuation=FEW, progress=False)
    (told,) = (m for m in found.messages if m.code == "refine.outside")
    assert told.numbers["count"] == 2
    assert not found.trusted
    with pytest.raises(InputError, match="within the range of the residual points"):
        ta.refine(frozen(observed=TIMES[:, None] + 9), DATA, noise=NOISE, progress=False)


def test_sensitivities_are_those_of_the_solution(refined):
    value, _ = closed_form()
    expected = -value * TIMES * decay(value)
    assert_allclose(refined.data["sensitivity"].values[:, 0], expected, atol=0.001)
    _, elsewhere = refined.predict(np.array([[1.0], [3.0]]))
    assert_allclose(
        elsewhere[:, 0],
        -value * np.array([1, 3]) * FIRST * np.exp(-value * np.array([1, 3])),
        atol=0.001,
    )


class Polynomial(torch.nn.Module):
    def __init__(self, degree):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(degree + 1, dtype=torch.float64))

    def forward(self, t):
        return (
            torch.cat([(t / 4) ** k for k in range(len(self.weights))], 1) @ self.weights[:, None]
        )


def test_standard_errors_are_those_of_the_data_where_the_network_cannot_follow_the_solution():
    # u' = 0.3 + (rate - RATE) [t > 2]: a line at the right rate, and one with a kink at any other.
    def kinked(model, t, rate):
        u = model(t)
        (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return slope - 0.3 - (rate - RATE) * (t > 2)

    residual = ta.from_torch(
        Polynomial(8),
        kinked,
        {"rate": ta.Parameter(delivered=1.4, bounds=(0.05, 10.0))},
        points=np.linspace(0, 4, 60)[:, None],
        observed=TIMES[:, None],
        conditions=lambda model: model(torch.zeros(1, 1, dtype=torch.float64)),
    )
    data = 0.3 * TIMES + NOISE * np.random.default_rng(3).standard_normal(40)
    found = ta.refine(residual, data, noise=NOISE, progress=False)
    ramp = np.maximum(TIMES - 2, 0)
    error = NOISE / np.sqrt(ramp @ ramp)
    expected = RATE + ramp @ (data - 0.3 * TIMES) / (ramp @ ramp)
    # It is drawn to the rate that the polynomials can follow, by less than a standard error.
    assert abs(found.values["rate"] - expected) < error
    assert_allclose(found.standard_error["rate"], error, rtol=0.03)
    resolved = ta.resolve(found, replicas=2, progress=False)
    mean = 100 * found.standard_error["rate"] / found.values["rate"] * np.sqrt(2 / np.pi)
    assert_allclose(resolved.fisher_error_percent[0], mean, rtol=1e-3)
    told = {message.code: message.numbers for message in found.messages}
    assert told["refine.standard_error"]["rate"] > 3
    assert not found.trusted


def test_a_parameter_that_acts_where_nobody_observes_is_not_determined():
    def equation_and_source(model, t, rate, source):
        return equation(model, t, rate) + (source - 1) * torch.relu(t - 4.5)

    residual = ta.from_torch(
        network(),
        equation_and_source,
        {
            "rate": ta.Parameter(delivered=1.4, bounds=(0.05, 10.0)),
            "source": ta.Parameter(delivered=1.2, bounds=(0.1, 10.0)),
        },
        points=np.linspace(0, 6, 90)[:, None],
        observed=TIMES[:, None],
        conditions=initial,
    )
    found = ta.refine(residual, DATA, noise=NOISE, progress=False)
    _, error = closed_form()
    assert_allclose(found.standard_error["rate"], found.values["rate"] * error, rtol=0.02)
    assert found.standard_error["source"] > 1
    assert "refine.standard_error" in [m.code for m in found.messages]
    assert not found.trusted


def test_standard_errors_belong_to_the_sensitivities_of_the_field_as_it_ended(refined):
    slopes = refined.data["sensitivity"].values / NOISE
    assert_allclose(refined.data["covariance"].values, np.linalg.inv(slopes.T @ slopes), rtol=1e-6)
    along = refined.data["standard_error_along"].values[-1]
    assert_allclose(along**2, np.diag(refined.data["covariance"].values))


def test_axis_1_without_a_solver(refined):
    _, error = closed_form()
    found = ta.resolve(refined, replicas=50, progress=False)
    # The mean of |z| is sqrt(2 / pi) standard errors.
    assert_allclose(found.fisher_error_percent[0], 100 * error * np.sqrt(2 / np.pi), rtol=0.06)
    assert "forward.linearized" in [m.code for m in found.messages]


def test_an_audit_without_a_solver_has_both_axes_and_agrees_with_the_closed_form(refined):
    value, error = closed_form()
    after = ta.audit(refined, tolerance=TOLERANCE, progress=False)
    assert after.route in (ta.Route.CONSISTENT_WITH_DATA, ta.Route.WITHIN_TOLERANCE)
    expected = 100 * error * np.sqrt(2 / np.pi)
    assert_allclose(after.resolution.fisher_error_percent[0], expected, rtol=0.06)
    matched = after.group("/matched")
    assert_allclose(float(matched["estimate"][0]), value, rtol=0.1 * error)
    assert_allclose(float(matched["lower"][0]), value * (1 - 1.96 * error), rtol=0.2 * error)


def test_the_field_as_it_was_is_audited_against_the_same_axis_1(refined):
    before = ta.audit(refined, field="before", tolerance=TOLERANCE, progress=False)
    assert before.route == ta.Route.FIELD_DOES_NOT_FIT
    resolution = ta.resolve(refined, progress=False)
    alone = ta.audit(frozen(), data=DATA, resolution=resolution, tolerance=TOLERANCE)
    assert alone.route == before.route
    assert alone.score.displacement == before.score.displacement
    assert alone.group("/matched").equals(before.group("/matched"))
    with pytest.raises(InputError, match="which is neither"):
        ta.audit(refined, field="middle")


CANDIDATES = np.linspace(0, 4, 33)


@pytest.mark.parametrize("present", [True, False])
def test_sites_from_a_refinement_are_those_of_a_simulator(refined, present):
    times = np.append(CANDIDATES, TIMES) if present else CANDIDATES
    options = {"spacing": 0.02 if present else 0.3, "progress": False}
    expected = ta.suggest_sites(
        lambda rate: FIRST * np.exp(-rate * times),
        {"rate": ta.Parameter(delivered=refined.values["rate"], bounds=(0.05, 10.0))},
        NOISE,
        4,
        points=times[:, None],
        present=np.arange(33, len(times)),
        **options,
    )
    own = None if present else []
    found = ta.suggest_sites(refined, 4, points=CANDIDATES, present=own, **options)
    assert found.sites.tolist() == expected.sites.tolist()
    assert_allclose(found.predicted[-1], expected.predicted[-1], rtol=0.02)


def test_present_observations_of_a_refinement_count(refined):
    found = ta.suggest_sites(refined, 3, points={"t": CANDIDATES}, progress=False)
    assert found.data["axis"].values.tolist() == ["t"]
    assert found.data.sizes["present_site"] == 40
    assert (found.sites < 33).all()
    _, error = closed_form()
    expected = 100 * error * np.sqrt(2 / np.pi)
    assert_allclose(found.predicted[0], expected, rtol=0.06)
    never = CANDIDATES > 1  # a mask of the candidates alone
    kept = ta.suggest_sites(refined, 3, points=CANDIDATES, forbidden=never, progress=False)
    assert (CANDIDATES[kept.sites] <= 1).all()
    with pytest.raises(InputError, match="candidate sites"):
        ta.suggest_sites(refined, 3)


def test_unknown_noise_is_estimated():
    found = ta.refine(frozen(), DATA, progress=False)
    rest = found.data["fitted"].values - DATA
    assert_allclose(found.data.attrs["noise"], np.sqrt((rest**2).sum() / 39), rtol=1e-3)
    assert "noise.estimated" in [m.code for m in found.messages]


def heat(model, points, k):
    """u_t - k u_xx of columns x and t."""
    u = model(points)
    u_x, u_t = torch.autograd.grad(u.sum(), points, create_graph=True)[0].T
    u_xx = torch.autograd.grad(u_x.sum(), points, create_graph=True)[0][:, 0]
    return u_t - k * u_xx


def plane(width, points):
    """An untrained network of x and t, and a conductivity that is off by a factor of three."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, width)]
    grid = np.meshgrid(np.linspace(0, 1, 9), np.linspace(0.1, 1, 10))
    return ta.from_torch(
        torch.nn.Sequential(*layers, torch.nn.Tanh(), torch.nn.Linear(width, 1)).double(),
        heat,
        {"k": ta.Parameter(delivered=0.03, bounds=(0.005, 5.0))},
        points=np.random.default_rng(0).random((points, 2)),
        observed=np.stack(grid, axis=-1).reshape(-1, 2),
    )


def test_precise_data_release_a_parameter_that_they_contradict():
    """Held until the equation outweighs the data, it would leave a field that cannot come back."""
    subject = plane(width=8, points=400)
    x, t = subject.observed.T
    found = ta.refine(
        subject, np.exp(-0.1 * np.pi**2 * t) * np.cos(np.pi * x), noise=0.005, progress=False
    )
    assert found.trusted
    assert_allclose(found.values["k"], 0.1, atol=0.1 * found.standard_error["k"])


@pytest.mark.parametrize(
    ("residual", "exhausted"),
    [(0.1, True), (0.06, True), (0.05, False), (0.001, False)],
)
def test_a_term_of_the_equation_that_grows_with_its_weight_is_told(residual, exhausted):
    """From 1 to 3 times the weight: of 0.1 to less than 0.058 the term falls."""
    path = Path(weight=[1e4, 3e4], residual=[0.1, residual])
    assert _exhausted(path, 40) == exhausted


@pytest.mark.long
def test_the_weight_grows_no_further_than_the_network_can_follow():
    """Four units cannot obey the equation; at the largest weights the rest would decide on k."""
    subject = plane(width=4, points=200)
    x, t = subject.observed.T
    data = np.exp(-0.1 * np.pi**2 * t) * np.cos(np.pi * x)
    found = ta.refine(subject, data, noise=0.002, continuation=OF_A_MODEL, progress=False)
    assert "refine.residual" in [m.code for m in found.messages]
    gain = (data**2).sum() / 0.002**2 / 2000
    assert found.data["weight"].values[-1] < 0.3 * Continuation().last * gain
    assert_allclose(found.values["k"], 0.1, rtol=0.02)


def test_a_step_has_more_rows_than_weights():
    """With fewer of them it fits the drawn points, and the equation is where it was in between."""
    subject = plane(width=24, points=3000)
    model = StackedModel(subject, ta.Observations(np.zeros(90), at=subject.observed, noise=0.1))
    drawn = drawn_points(model, model.weights.start, model.start, np.random.default_rng(0))
    assert len(drawn) + 90 == 2 * model.weights.start.size > 1000
    assert len(np.unique(drawn, axis=0)) == len(drawn)


@pytest.mark.long
def test_a_wrong_noise_level_is_told():
    found = ta.refine(frozen(), DATA, noise=NOISE / 4, progress=False)
    assert "refine.misfit_size" in [m.code for m in found.messages]
    assert not found.trusted


def test_what_did_not_settle_says_so():
    weights = {"first": 10, "free": 1e2, "plateau": 1e6, "last": 1e6}
    short = Continuation(**weights, steps=3, free_steps=5, more=2, settled=1e-9)
    found = ta.refine(frozen(), DATA, noise=NOISE, continuation=short, progress=False)
    assert found.status == NOT_SETTLED
    assert "refine.not_settled" in [m.code for m in found.messages]


def test_a_file_keeps_all_but_the_field(refined, tmp_path):
    loaded = ta.load(refined.save(tmp_path / "refined.nc"))
    assert loaded.summary().equals(refined.summary())
    assert repr(loaded) == repr(refined)
    assert_allclose(loaded.forward(rate=0.8), refined.forward(rate=0.8))
    with pytest.raises(InputError, match="file"):
        loaded.predict([[1.0]])
    assert loaded.plot().get_lines()


def test_the_page_of_an_audit_shows_it(refined, tmp_path):
    audit = ta.remedy(ta.audit(refined, field="before", progress=False), refined)
    assert "evidence" in [action.kind for action in audit.actions]
    audit.to_html(tmp_path / "page.html")


@pytest.mark.parametrize(
    ("subject", "options"),
    [
        (lambda: frozen(observed=None), {"data": DATA}),
        (frozen, {}),
        (frozen, {"data": DATA[:-1]}),
        (frozen, {"data": np.where(TIMES > 1, DATA, np.inf)}),
        (frozen, {"data": DATA, "noise": -1.0}),
        (frozen, {"data": DATA, "continuation": 3}),
        (frozen, {"data": DATA, "store": "runs"}),
        (frozen, {"data": DATA, "seed": 0.5}),
        (frozen, {"data": DATA, "noise": 1e-200}),
        (lambda: "burgers", {"data": DATA}),
        (
            lambda: ta.FrozenResidual(
                lambda k: k * TIMES, {"k": ta.Parameter(delivered=1.0, bounds=(0.5, 2))}, TIMES
            ),
            {"data": DATA},
        ),
    ],
)
def test_bad_input_is_refused(subject, options):
    with pytest.raises(InputError):
        ta.refine(subject(), progress=False, **options)


@pytest.mark.long
def test_fewer_data_than_parameters_are_refused():
    one = frozen(observed=TIMES[:1, None])
    two = ta.from_torch(
        network(),
        lambda model, t, a, b: equation(model, t, a + b),
        {n: ta.Parameter(delivered=1.0, bounds=(0.1, 10)) for n in ("a", "b")},
        points=np.linspace(0, 4, 20)[:, None],
        observed=TIMES[:1, None],
    )
    with pytest.raises(InputError, match="as many observations"):
        ta.refine(two, DATA[:1], noise=NOISE, progress=False)
    assert ta.refine(one, DATA[:1], noise=NOISE, progress=False).data.sizes["observation"] == 1


def test_bad_refinements_of_pytorch_are_told():
    two = ta.from_torch(
        network(),
        lambda model, t, a, b: equation(model, t, a) + b,
        {n: ta.Parameter(delivered=1.0, bounds=(0.1, 10)) for n in ("a", "b")},
        points=np.linspace(0, 4, 60)[:, None],
        observed=TIMES[:, None],
    )
    assert_bad_refinements_are_told(replace(two, data=DATA))
