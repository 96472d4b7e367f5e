"""One property for each public door: a call gives a usable result or an `InputError`.

Mutated calls are those of ``benchmarks/fuzz_calls.py``: what comes back is summarized, drawn, shown
as a page, saved and loaded again. Below, results are compared with an independent evaluation,
wherever one is cheap.
"""

import importlib
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import twoaxis as ta

ROOT = Path(__file__).resolve().parent.parent
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT / "benchmarks"))
    calls = importlib.import_module("fuzz_calls")

X = np.linspace(0.0, 1.0, 9)
POINTS = X[:, None]
VIEW = ta.views.Pointwise()
# Numbers that are neither lost beside each other nor beyond what a residual may be.
numbers = st.floats(-100, 100, allow_subnormal=False).map(lambda x: round(x, 6))
vectors = arrays(float, 9, elements=numbers)
inside = st.floats(0.55, 1.9)
seeds = st.integers(0, 2**31)


def parameter(truth=1.0, delivered=1.1):
    return {"k": ta.Parameter(truth=truth, delivered=delivered, bounds=(0.5, 2.0))}


def needed(door):
    if calls.DOORS[door].library:
        pytest.importorskip(calls.DOORS[door].library)


def check_call(door, seed):
    needed(door)
    outcome, words = calls.outcome_of(door, Random(seed))
    assert outcome in ("refused", "used"), words


# Every version of hypothesis draws others of these calls. All of them are made by the long test.
@pytest.mark.parametrize("door", sorted(calls.DOORS))
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(seed=st.integers(0, 99))
def test_a_call_gives_a_usable_result_or_is_refused(door, seed):
    check_call(door, seed)


@pytest.mark.long
@pytest.mark.parametrize("door", sorted(calls.DOORS))
def test_many_calls_give_usable_results_or_are_refused(door):
    for seed in range(100):
        check_call(door, seed)


@pytest.mark.parametrize("door", sorted(calls.DOORS))
def test_a_sound_call_is_used(door):
    needed(door)
    found = calls.DOORS[door]
    calls.use(found.call(**found.arguments()))


# ------------------------------------------------------------------ results that are right


@settings(derandomize=True)
@given(slope=vectors, constant=vectors, truth=inside)
def test_score_and_scan_of_an_affine_residual(slope, constant, truth):
    assume(np.abs(slope).max() > 1e-2)

    def residual(k):
        return k * slope - constant

    score = ta.score(residual, parameter(truth), VIEW, points=POINTS)
    J, r = truth * slope, truth * slope - constant
    assert score.displacement["k"] == pytest.approx(-(J @ r) / (J @ J), rel=1e-6, abs=1e-6)
    scan = ta.frozen_scan(residual, parameter(truth), VIEW, points=POINTS, candidates=9)
    lowest = np.clip(slope @ constant / (slope @ slope), 0.5, 2.0)
    assert scan.minimum["k"] == pytest.approx(lowest, rel=1e-6)


@settings(derandomize=True)
@given(slope=vectors, constant=vectors)
def test_modes_sum_to_the_score(slope, constant):
    assume(np.abs(slope).max() > 1e-2)
    M = ta.views.Gaussian().bind(POINTS).matrix()
    found = ta.spectrum(
        lambda k: k * slope - constant, parameter(), ta.views.Gaussian(), points=POINTS
    )
    size = np.abs(slope) @ np.abs(M) @ (np.abs(slope) + np.abs(constant))
    assert pytest.approx(slope @ M @ (slope - constant), abs=1e-6 * size) == found.B
    assert found.strength.sum() == pytest.approx(slope @ M @ slope, abs=1e-6 * size)


@settings(derandomize=True)
@given(slope=vectors, constant=vectors)
def test_regions_sum_to_the_whole(slope, constant):
    assume(np.abs(slope).max() > 1e-2)
    found = ta.evidence_map(
        lambda k: k * slope - constant, parameter(), VIEW, points=POINTS, progress=False
    )
    assert found.summary()["H_share"].sum() == pytest.approx(1.0, abs=1e-6)


@settings(derandomize=True)
@given(delivered=inside, preferred=inside, truth=inside)
def test_delivery_is_a_sum(delivered, preferred, truth):
    found = ta.delivery(parameter(truth, delivered), {"k": preferred})
    assert found.gap["k"] == pytest.approx(np.log(delivered / preferred), abs=1e-12)
    assert found.total["k"] == pytest.approx(found.preference["k"] + found.gap["k"], abs=1e-12)


@settings(max_examples=10, derandomize=True)
@given(pattern=vectors, noise=st.floats(1e-3, 10), seed=seeds)
def test_estimates_of_a_linear_model_are_least_squares(pattern, noise, seed):
    assume(pattern @ pattern > 1e-2)
    error = noise / np.sqrt(pattern @ pattern)
    known = {
        "k": ta.Parameter(
            truth=0.0, bounds=(-100 * error, 100 * error), coordinate="linear", scale=error
        )
    }
    found = ta.resolve(
        lambda k: k * pattern, known, noise, replicas=6, seed=seed, bank=41, progress=False
    )
    draws = np.random.default_rng(seed).standard_normal((6, 9))
    expected = noise * draws @ pattern / (pattern @ pattern)
    np.testing.assert_allclose(found.data["estimate"].values[0, 0], expected, atol=1e-3 * error)
    assert found.data["fisher_sd_percent"].values[0, 0] == pytest.approx(100.0, rel=1e-4)


@settings(max_examples=10, derandomize=True)
@given(pattern=vectors)
def test_the_first_site_is_the_most_sensitive_one(pattern):
    sizes = np.sort(np.abs(pattern))
    assume(sizes[-1] > 1.01 * sizes[-2] + 1e-2)
    found = ta.suggest_sites(
        lambda k: np.log(k) * pattern, parameter(), 0.1, 1, points=POINTS, progress=False
    )
    assert list(found.sites) == [int(np.argmax(np.abs(pattern)))]


@settings(max_examples=10, derandomize=True)
@given(preferred=st.lists(inside, min_size=2, max_size=3))
def test_a_comparison_averages_preferences(preferred):
    audits = [
        ta.audit(lambda k, p=p: (k - p) * np.exp(-X), parameter(), VIEW, points=POINTS)
        for p in preferred
    ]
    table = ta.compare(audits).summary()
    assert table.loc[("k", "preference"), "mean"] == pytest.approx(
        np.log(preferred).mean(), abs=1e-6
    )


@settings(max_examples=10, derandomize=True)
@given(share=st.floats(0, 1), constant=vectors)
def test_a_cut_derivative_of_pytorch_never_reaches_the_score(share, constant):
    torch = pytest.importorskip("torch")
    slope, rest = torch.tensor(np.exp(-X)), torch.tensor(constant)

    def residual(model, points, k):  # noqa: ARG001
        return ((1 - share) * k + share * float(k)) * slope - rest

    def plain(k):
        return k * np.exp(-X) - constant

    expected = ta.score(plain, parameter(delivered=None), VIEW, points=POINTS).displacement["k"]
    frozen = ta.from_torch(
        torch.nn.Linear(1, 1), residual, parameter(delivered=None), VIEW, points=POINTS
    )
    with warnings.catch_warnings():  # differences replace what disagrees with them, with a warning
        warnings.simplefilter("ignore", ta.AccuracyWarning)
        found = ta.score(frozen).displacement["k"]
    assert found == pytest.approx(expected, rel=1e-2, abs=1e-6)


@settings(max_examples=10, derandomize=True)
@given(shares=arrays(float, 9, elements=st.floats(0, 1)) | st.just(np.zeros(9)), constant=vectors)
def test_a_cut_derivative_of_jax_never_reaches_the_score(shares, constant):
    jax = pytest.importorskip("jax")

    def residual(model, points, k):
        held = jax.lax.stop_gradient(k)
        return ((1 - shares) * k + shares * held) * jax.numpy.exp(-model * points[:, 0]) - constant

    frozen = ta.from_jax(
        np.ones(()), residual, parameter(delivered=None), VIEW, points=POINTS
    )  # fmt: skip
    slope = np.exp(-X)
    try:
        found = ta.score(frozen).displacement["k"]
    except ta.InputError:
        assert shares.max() > 1e-5  # a derivative that is whole is not refused
        return
    assert np.linalg.norm(shares * slope) < 1e-3 * np.linalg.norm(slope)
    expected = -(slope @ (slope - constant)) / (slope @ slope)
    assert found == pytest.approx(expected, rel=1e-2, abs=1e-6)


@settings(max_examples=10, derandomize=True)
@given(curve=numbers, constant=vectors, truth=inside)
def test_the_score_of_a_curved_residual_of_jax(curve, constant, truth):
    pytest.importorskip("jax")

    def residual(model, points, k):
        return k * model + curve * k**2 * points[:, 0] - constant

    frozen = ta.from_jax(np.exp(-X), residual, parameter(truth), VIEW, points=POINTS)
    J = truth * (np.exp(-X) + 2 * curve * truth * X)  # by the log of k
    assume(np.abs(J).max() > 1e-2)
    r = truth * np.exp(-X) + curve * truth**2 * X - constant
    assert ta.score(frozen).displacement["k"] == pytest.approx(-(J @ r) / (J @ J), rel=1e-9)
    with tempfile.TemporaryDirectory() as folder:
        again = ta.load(frozen.save(folder + "/residual.nc"))
    np.testing.assert_allclose(again.residual(k=truth), r, atol=1e-7 * (1 + np.abs(r).max()))


@settings(max_examples=10, derandomize=True)
@given(
    slope=vectors,
    constant=vectors,
    weights=arrays(float, 9, elements=st.floats(0.01, 100)),
    delivered=inside,
)
def test_polishing_moves_the_parameter_to_weighted_least_squares(
    slope, constant, weights, delivered
):
    assume(np.abs(slope).max() > 1e-2)
    frozen = ta.FrozenResidual(
        lambda k: k * slope - constant,
        parameter(None, delivered),
        X,
        view=ta.views.Weighted(weights),
    )
    found = ta.polish(frozen, progress=False)
    # Bounds are ten times wider than declared: training does not know them.
    best = np.clip((weights * slope) @ constant / ((weights * slope) @ slope), 0.05, 20.0)
    assert found.frozen_minimum["k"] == pytest.approx(best, rel=1e-6)
    if 0.06 < best < 19:
        assert found.gap_before["k"] == pytest.approx(100 * (delivered / best - 1), abs=1e-4)
    left = weights @ (best * slope - constant) ** 2 / 9
    table = found.summary()["residual_loss"]
    assert table["frozen minimum", "k"] == pytest.approx(left, rel=1e-6, abs=1e-9)
    calls.use(found)


@dataclass
class Ramp:
    """A cubic u with u(0) = 1 and the equation u' = k (1 + bend x), linear in all unknowns."""

    bend: float
    start: np.ndarray
    how = "in closed form"

    def residual(self, weights, points, k):
        return _derivatives(points) @ weights - k * (1 + self.bend * points[:, 0])

    def residual_jacobian(self, weights, points, k):  # noqa: ARG002
        return _derivatives(points), -(1 + self.bend * points)

    def field(self, weights, points=POINTS):
        return self.field_jacobian(weights, points) @ weights

    def field_jacobian(self, weights, points=POINTS):  # noqa: ARG002
        return points ** np.arange(4)

    def conditions(self, weights):
        return weights[:1] - 1.0

    def conditions_jacobian(self, weights):  # noqa: ARG002
        return np.eye(4)[:1]

    def frozen(self, weights, values):
        return ta.FrozenResidual(
            lambda k: self.residual(weights, POINTS, k),
            parameter(None, values["k"]),
            POINTS,
            view=VIEW,
            weights=replace(self, start=weights),
            observed=POINTS,
            fitted=self.field(weights),
        )

    def network(self, weights):
        return weights


def _derivatives(points):
    return np.column_stack([0 * points[:, 0], *(n * points[:, 0] ** (n - 1) for n in (1, 2, 3))])


@settings(max_examples=8, derandomize=True)
@given(
    bend=st.floats(-0.5, 2),
    truth=st.floats(0.8, 1.4),
    delivered=inside,
    noise=st.floats(0.01, 0.1),
    start=arrays(float, 4, elements=st.floats(-2, 2)),
    seed=seeds,
)
def test_refinement_of_a_linear_problem_is_least_squares(
    bend, truth, delivered, noise, start, seed
):
    pattern = X + bend * X**2 / 2  # the solution is 1 + k pattern
    draws = np.random.default_rng(seed).standard_normal(9)
    data = 1 + truth * pattern + noise * draws
    expected = truth + noise * (draws @ pattern) / (pattern @ pattern)
    assume(0.55 < expected < 1.9)
    frozen = Ramp(bend, start).frozen(start, {"k": delivered})
    found = ta.refine(frozen, data, noise=noise, progress=False)
    error = noise / np.linalg.norm(pattern)
    assert found.status == "settled"
    assert found.values["k"] == pytest.approx(expected, abs=0.1 * error)
    assert found.standard_error["k"] == pytest.approx(error, rel=0.02)
    calls.use(found)


# ------------------------------------------------------------------ files


@settings(derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), signed=st.booleans())
def test_any_bytes_are_refused(tmp_path, content, signed):
    path = tmp_path / "file.nc"
    path.write_bytes((b"\x89HDF\r\n\x1a\n" if signed else b"") + content)
    with pytest.raises(ta.InputError):
        ta.load(path)


@settings(derandomize=True)
@given(name=st.text(max_size=300))
def test_any_name_without_a_file_is_refused(name):
    with pytest.raises(ta.InputError):
        ta.load("nowhere/" + name)
