"""Refinement to Observations: the same as to arrays, elsewhere and with missing readings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import least_squares

import twoaxis as ta
from twoaxis.gauss_newton import Continuation

torch = pytest.importorskip("torch")

TIMES = np.linspace(0, 4, 40)
GENERATOR = np.random.default_rng(3)
NOISE, RATE = 0.02, 0.7
DATA = np.exp(-RATE * TIMES) + NOISE * GENERATOR.standard_normal(40)
GAPS = DATA.copy()
GAPS[[3, 17]] = np.nan
PRESENT = ~np.isnan(GAPS)


def equation(model, t, rate):
    u = model(t)
    du = [torch.autograd.grad(u[:, k].sum(), t, create_graph=True)[0][:, 0] for k in range(2)]
    return du[0] + rate * u[:, 0], du[1] - rate * u[:, 0]


def initial(model):
    return model(torch.zeros(1, 1, dtype=torch.float64)) - torch.tensor([1.0, 0.0])


def frozen(observed=None, **options):
    """An untrained network of two states, u' = -rate u and v' = rate u."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)]
    return ta.from_torch(
        torch.nn.Sequential(*layers).double(),
        equation,
        {"rate": ta.Parameter(delivered=1.4, bounds=(0.05, 10.0))},
        points=np.linspace(0, 4, 60)[:, None],
        conditions=initial,
        observed=observed,
        **options,
    )


def refined(subject, data, **options):
    return ta.refine(subject, data, progress=False, **options)


@pytest.fixture(scope="module")
def plain():
    """Refined to the present readings as arrays."""
    return refined(
        frozen(TIMES[PRESENT, None], field=lambda model, t: model(t)[:, 0]),
        DATA[PRESENT],
        noise=NOISE,
    )


def test_missing_readings_are_left_out_and_counted(plain):
    for subject, data in [
        (frozen(), ta.Observations(GAPS, at=TIMES, noise=NOISE, of=0)),
        (frozen(TIMES[:, None]), ta.Observations(GAPS, noise=NOISE, of=0)),
        (
            frozen(TIMES[:, None], field=lambda model, t: model(t)[:, 0]),
            ta.Observations(GAPS, noise=NOISE),
        ),
    ]:
        found = refined(subject, data)
        assert_allclose(found.values["rate"], plain.values["rate"], rtol=1e-9)
        assert_allclose(found.standard_error["rate"], plain.standard_error["rate"], rtol=1e-9)
        assert_allclose(found.data["site"], plain.data["site"])
        assert "data.dropped" in [message.code for message in found.messages]


def test_a_refinement_to_observations_is_audited(plain):
    data = ta.Observations(GAPS, at=TIMES, noise=NOISE, of=0)
    found = refined(frozen(), data)
    for field in ("after", "before"):
        audit = ta.audit(found, field=field, replicas=5, probe=False, progress=False)
        expected = ta.audit(plain, field=field, replicas=5, probe=False, progress=False)
        for name in ("/observations", "/field_fit"):
            for key, values in expected.group(name).items():
                if values.dtype.kind == "f":
                    assert_allclose(audit.group(name)[key], values, rtol=1e-6, atol=1e-9)


def test_several_outputs_with_gaps():
    both = np.column_stack([GAPS, 1 - DATA])
    both[30:, 1] = np.nan
    found = refined(frozen(), ta.Observations(both, at=TIMES, noise=NOISE))
    assert found.data.sizes["observation"] == 38 + 30
    fitted, _ = found.predict(TIMES[:, None])
    assert_allclose(found.data["fitted"], fitted[~np.isnan(both).ravel()])
    assert abs(found.values["rate"] - RATE) < 4 * found.standard_error["rate"]
    turned = ta.Observations(both[:, ::-1], at=TIMES, noise=NOISE, of=(1, 0))
    assert_allclose(refined(frozen(), turned).values["rate"], found.values["rate"], rtol=1e-8)


def test_noise_of_unknown_size(plain):
    found = refined(frozen(), ta.Observations(GAPS, at=TIMES, of=0))
    assert_allclose(float(found.data.attrs["noise"]), NOISE, rtol=0.4)
    assert_allclose(found.values["rate"], plain.values["rate"], rtol=1e-3)


def exact(data):
    """Return least squares of the logarithm of the rate, and its standard error."""

    def rest(q):
        return data.whiten(data.take(np.exp(-np.exp(q[0]) * TIMES)) - data.readings)

    found = least_squares(rest, [np.log(RATE)], xtol=1e-12, ftol=1e-12)
    return float(np.exp(found.x[0])), float(np.exp(found.x[0]) / np.linalg.norm(found.jac))


@pytest.mark.parametrize(
    "noise",
    [
        dict(noise=np.linspace(0.01, 0.03, 40)),
        dict(noise=0.02**2 * 0.8 ** np.abs(np.subtract.outer(np.arange(40), np.arange(40)))),
        dict(noise=0.1, transform="log"),
    ],
)
def test_noise_of_any_kind(noise):
    data = ta.Observations(np.abs(GAPS), at=TIMES, of=0, **noise)
    found = refined(frozen(), data)
    value, error = exact(data)
    assert_allclose(found.values["rate"], value, atol=0.02 * error)
    assert_allclose(found.standard_error["rate"], error, rtol=0.02)
    assert found.data.attrs["how"].startswith("a field of")
    loaded = ta.resolve(found, replicas=5, progress=False)
    assert_allclose(loaded.fisher_error_percent[0], 100 * error / value * 0.7979, rtol=0.03)


def test_noise_of_unknown_size_by_sensor():
    sensors = np.arange(40) % 2
    smooth = np.exp(-RATE * TIMES)
    values = smooth + np.where(sensors, 5.0, 1.0) * (DATA - smooth)
    found = refined(frozen(), ta.Observations(values, at=TIMES, of=0, sensors=sensors))
    levels = found.data["noise_level"].values
    assert_allclose(levels[:2], [NOISE, 5 * NOISE], rtol=0.4)
    assert abs(found.values["rate"] - RATE) < 3 * found.standard_error["rate"]


def half_of(model, points):
    return model(points)[:, 0] / 2


def test_a_function_of_the_model_that_was_observed():
    half = ta.Observations(DATA / 2, at=TIMES, noise=NOISE / 2, of=half_of)
    whole = ta.Observations(DATA, at=TIMES, noise=NOISE, of=0)
    some, every = (refined(frozen(), data) for data in (half, whole))
    assert_allclose(some.values["rate"], every.values["rate"], rtol=1e-5)
    assert_allclose(some.standard_error["rate"], every.standard_error["rate"], rtol=1e-3)


def test_the_network_itself_takes_one_size_of_noise():
    data = ta.Observations(GAPS, at=TIMES, of=0, noise=np.linspace(0.01, 0.03, 40))
    with pytest.raises(ta.InputError, match="for a refinement") as error:
        refined(frozen(), data, continuation=Continuation())
    assert "one number as noise" in error.value.fix


def test_places_and_noise_are_known_once():
    data = ta.Observations(GAPS, at=TIMES, noise=NOISE, of=0)
    with pytest.raises(ta.InputError, match="noise in one place"):
        refined(frozen(), data, noise=NOISE)
    with pytest.raises(ta.InputError, match="where they were taken"):
        refined(frozen(), ta.Observations(GAPS, noise=NOISE))


def test_what_was_refined_is_refined_again():
    data = ta.Observations(DATA, at=TIMES, noise=NOISE, of=0)
    once = refined(frozen(), data)
    again = refined(once.frozen, data)
    assert again.data.attrs["how"].startswith("a field of")
    assert_allclose(again.values["rate"], once.values["rate"], rtol=1e-4)
    assert again.trusted


def test_several_kinds_of_readings():
    """Two states, read by themselves, are as good as both in one table."""
    both = np.column_stack([DATA, 1 - DATA])
    kinds = [ta.Observations(both[:, k], at=TIMES, noise=NOISE, of=k) for k in range(2)]
    apart = refined(frozen(), kinds)
    together = refined(frozen(), ta.Observations(both, at=TIMES, noise=NOISE))
    assert_allclose(apart.values["rate"], together.values["rate"], rtol=1e-5)
    assert_allclose(apart.standard_error["rate"], together.standard_error["rate"], rtol=1e-4)
    experiments = refined(frozen(), {"first": kinds[0], "second": kinds[0]})
    assert_allclose(
        experiments.standard_error["rate"],
        refined(frozen(), kinds[0]).standard_error["rate"] / np.sqrt(2),
        rtol=1e-3,
    )
    with pytest.raises(ta.InputError, match="one kind of readings"):
        refined(frozen(), kinds, continuation=Continuation())
