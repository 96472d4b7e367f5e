"""Closed forms: residuals affine in the coordinate, and in the physical parameter.

Every case is built so that its answer is known: ``r = e + J (c(p) - goal)`` with ``J^T M e = 0``
has its minimum at ``c(p) = goal``, whatever the semidefinite M.
"""

import itertools

import numpy as np
import pytest
from libraries import jnp, torch

import twoaxis as ta
from twoaxis import views
from twoaxis.geometry.affine import affine_in_bounds, affine_profile

N = 24
POINTS = np.arange(float(N))


pytestmark = pytest.mark.usefixtures("double")


def case(rank, d, seed=0, size=1.0):
    """A semidefinite M of a rank, columns J (N, d) and a rest with ``J^T M rest = 0``."""
    rng = np.random.default_rng([rank, d, seed])
    root = rng.normal(size=(N, rank)) / np.sqrt(N)
    J, e = rng.normal(size=(N, d)), rng.normal(size=N)
    rest = e - J @ (np.linalg.pinv(root.T @ J) @ (root.T @ e))
    return views.Dense(root @ root.T), J, size * rest, rng


def names(d):
    return [f"p{i}" for i in range(d)]


def parameters(truth, bounds, coordinate):
    return {
        name: ta.Parameter(truth=t, bounds=bounds(t), coordinate=coordinate)
        for name, t in zip(names(len(truth)), truth, strict=True)
    }


def wide(t):
    return t / 6, 6 * t


def stacked(p):
    return np.array(list(p.values()))


def stacked_jax(p):
    return jnp.stack([jnp.asarray(value) for value in p.values()])


def stacked_torch(p):
    return torch.stack([torch.as_tensor(value, dtype=torch.float64) for value in p.values()])


# How each library makes an array, stacks the parameters and takes a logarithm.
LIBRARIES = {
    "given": (np.asarray, stacked, np.log),
    "JAX": (lambda a: jnp.asarray(a), stacked_jax, lambda p: jnp.log(p)),
    "PyTorch": (lambda a: torch.as_tensor(a), stacked_torch, lambda p: torch.log(p)),
}
CASES = [
    *[
        (rank, d, "given")
        for rank, d in itertools.product([1, 2, 3, 6, 13, N], range(1, 7))
        if d <= rank
    ],
    *itertools.product([6], [1, 2], ["JAX", "PyTorch"]),
    *itertools.product([N], [1, 3], ["JAX", "PyTorch"]),
]
every_case = pytest.mark.parametrize(("rank", "d", "library"), CASES)


def vector(by_name):
    return np.array(list(by_name.values()))


def both(residual, given, view, library, jacobian):
    """Score and scan, with the Jacobian by the library or, in NumPy, as it is given."""
    frozen = ta.FrozenResidual(
        residual, given, POINTS, jacobian=jacobian if library == "given" else None
    )
    score = ta.score(frozen, view=view, derivative="exact")
    assert library in score.derivative
    candidates = 81 if len(given) == 1 else 9  # the grid only begins the refinement
    return score, ta.frozen_scan(frozen, view=view, candidates=candidates)


@every_case
def test_affine_in_a_log_coordinate(rank, d, library):
    """D is the scan's refined displacement: the profile is a parabola in log p."""
    array, stack, log = LIBRARIES[library]
    view, J, rest, rng = case(rank, d)
    truth, goal = rng.uniform(0.2, 3.0, d), rng.uniform(-1.0, 1.0, d)
    a, slope = array(rest - J @ (goal + np.log(truth))), array(J)
    score, scan = both(
        lambda **p: a + slope @ log(stack(p)), parameters(truth, wide, "log"), view, library,
        lambda **p: J / stacked(p),
    )  # fmt: skip
    np.testing.assert_allclose(vector(score.displacement), goal, rtol=0, atol=1e-10)
    assert scan.status == "interior"
    np.testing.assert_allclose(vector(scan.displacement), goal, rtol=0, atol=1e-10)
    assert scan.start_spread < 1e-6


@every_case
def test_affine_in_a_linear_coordinate(rank, d, library):
    """D is the scan's refined displacement, and the scan is exact."""
    array, stack, _ = LIBRARIES[library]
    view, J, rest, rng = case(rank, d, seed=1)
    truth, goal = rng.uniform(-1.0, 1.0, d), rng.uniform(-1.0, 1.0, d)
    a, slope = array(rest - J @ (goal + truth)), array(J)
    given = parameters(truth, lambda t: (t - 2.0, t + 2.5), "linear")
    score, scan = both(
        lambda **p: a + slope @ stack(p), given, view, library, lambda **_: J
    )  # fmt: skip
    np.testing.assert_allclose(vector(score.displacement), goal, rtol=0, atol=1e-10)
    assert (scan.status, scan.affine) == ("interior", True)
    np.testing.assert_allclose(vector(scan.displacement), goal, rtol=0, atol=1e-10)


@every_case
def test_affine_in_p_under_log_coordinates(rank, d, library):
    """The refined displacement is log(1 + D), parameter by parameter."""
    array, stack, _ = LIBRARIES[library]
    view, J, rest, rng = case(rank, d, seed=2)
    truth, D = rng.uniform(0.2, 3.0, d), rng.uniform(-0.7, 1.5, d)
    a, slope = array(rest - J @ (1 + D)), array(J / truth)
    score, scan = both(
        lambda **p: a + slope @ stack(p), parameters(truth, wide, "log"), view, library,
        lambda **_: J / truth,
    )  # fmt: skip
    np.testing.assert_allclose(vector(score.displacement), D, rtol=0, atol=1e-10)
    assert (scan.status, scan.affine) == ("interior", True)
    np.testing.assert_allclose(vector(scan.displacement), np.log1p(D), rtol=0, atol=1e-10)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("rank", [1, 5, N])
def test_one_parameter_with_a_small_and_a_large_rest(rank, size):
    # A large rest hides the minimum in the rounding of the profile, not of its slope.
    view, J, rest, _ = case(rank, 1, seed=3, size=size)
    given = parameters([1.0], wide, "log")
    in_q = ta.frozen_scan(
        lambda p0: jnp.asarray(rest) + jnp.asarray(J[:, 0]) * (jnp.log(p0) - 0.3),
        given, view, points=POINTS,
    )  # fmt: skip
    in_p = ta.frozen_scan(
        lambda p0: jnp.asarray(rest) + jnp.asarray(J[:, 0]) * (p0 - 1.3),
        given, view, points=POINTS,
    )  # fmt: skip
    tolerance = 1e-10 * max(1.0, size)
    assert in_q.displacement["p0"] == pytest.approx(0.3, abs=tolerance)
    assert in_p.displacement["p0"] == pytest.approx(np.log(1.3), abs=tolerance)


@pytest.mark.parametrize("D", [-1.0, -1.5, -40.0])
def test_no_interior_minimum_at_or_below_minus_one(D):
    view, J, rest, _ = case(6, 1)
    given = parameters([0.01], wide, "log")
    a, slope = rest - J[:, 0] * (1 + D), J[:, 0] / 0.01
    frozen = ta.FrozenResidual(
        lambda p0: a + slope * p0, given, POINTS, jacobian=lambda p0: slope  # noqa: ARG005
    )  # fmt: skip
    score, scan = ta.score(frozen, view=view), ta.frozen_scan(frozen, view=view)
    assert score.displacement["p0"] == pytest.approx(D, rel=1e-10)
    assert scan.status == "on the lower bound of p0"
    assert scan.minimum["p0"] == pytest.approx(0.01 / 6, rel=1e-14)
    assert score.trusted is False


def test_a_minimum_beyond_the_upper_bound():
    view, J, rest, _ = case(6, 1)
    given = parameters([0.01], wide, "log")
    scan = ta.frozen_scan(lambda p0: rest + J[:, 0] * (p0 / 0.01 - 7.0), given, view, points=POINTS)
    assert scan.status == "on the upper bound of p0"
    assert scan.minimum["p0"] == pytest.approx(0.06, rel=1e-14)


def test_several_parameters_with_the_minimum_outside_the_box():
    # On the face of the box the other parameters take their best values there.
    view, J, rest, _ = case(N, 3)
    given = parameters([1.0, 1.0, 1.0], lambda t: (t / 2, 2 * t), "log")
    goal = np.array([1.2, 3.0, 0.9])
    scan = ta.frozen_scan(
        lambda p0, p1, p2: rest + J @ (np.array([p0, p1, p2]) - goal), given, view, points=POINTS
    )
    assert scan.status == "on the upper bound of p1"
    M = view.bind(POINTS).matrix()
    H = J.T @ M @ J
    free = [0, 2]
    expected = goal[free] - np.linalg.solve(H[np.ix_(free, free)], H[free, 1] * (2.0 - 3.0))
    assert scan.minimum["p1"] == pytest.approx(2.0, rel=1e-14)
    np.testing.assert_allclose(vector(scan.minimum)[free], expected, rtol=1e-8)


def test_the_profile_is_the_quadratic_of_the_inner_products():
    view, J, rest, rng = case(9, 2)
    given = parameters([1.0, 2.0], wide, "log")
    frozen = ta.FrozenResidual(lambda p0, p1: rest + J @ [p0, p1], given, POINTS)
    center = np.log([1.0, 2.0])
    test = affine_in_bounds(frozen, center, frozen.at(center))
    np.testing.assert_allclose(test.form.slopes, J, rtol=0, atol=1e-13)
    np.testing.assert_allclose(test.form.constant, rest, rtol=0, atol=1e-13)
    profile = affine_profile(test.form, view.bind(POINTS))
    M = view.bind(POINTS).matrix()
    for p in rng.uniform(0.5, 9.0, (5, 2)):
        r = rest + J @ p
        assert profile(p) == pytest.approx(r @ M @ r, rel=1e-11)
    best = profile.minimizer()
    np.testing.assert_allclose(J.T @ M @ (rest + J @ best), 0, atol=1e-12)


# At 3.1 and 7.3 the center lies where a fixed check inside the bounds might lie.
BENT = {
    "a square": lambda p: p**2,
    "a logarithm": np.log,
    "nearly affine": lambda p: p + 1e-3 * p**2,
    "a sine": lambda p: np.sin(3 * p),
}


@pytest.mark.parametrize("function", BENT.values(), ids=BENT)
@pytest.mark.parametrize("truth", [0.5, 1.0, 3.1, 3.5, 7.3, 9.0])
@pytest.mark.parametrize("coordinate", ["log", "linear"])
def test_what_is_not_affine_is_not_taken_for_it(function, truth, coordinate):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, N))
    low = 1e-3 if coordinate == "log" else 0.0
    given = {"p": ta.Parameter(truth=truth, bounds=(low, 10.0 + low), coordinate=coordinate)}
    if coordinate == "linear" and function is np.log:
        given = {"p": ta.Parameter(truth=truth, bounds=(0.1, 10.0), coordinate=coordinate)}
    scan = ta.frozen_scan(lambda p: a + b * function(p), given, views.Pointwise(), points=POINTS)
    assert not scan.affine


@pytest.mark.parametrize("coordinate", ["log", "linear"])
@pytest.mark.parametrize("truth", [0.3, 1.0, 3.1, 7.3, 10.0])
def test_what_is_affine_is_recognised_around_any_center(truth, coordinate):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, N))
    given = {"p": ta.Parameter(truth=truth, bounds=(0.3, 10.0), coordinate=coordinate)}
    calls = []

    def residual(p):
        calls.append(p)
        return a - 5.0 * b + b * p

    scan = ta.frozen_scan(residual, given, views.Pointwise(), points=POINTS)
    assert scan.affine
    assert len(calls) <= 23  # the whole profile comes from a few evaluations
    assert min(calls) == 0.3
    assert max(calls) == 10.0
    assert 14 <= scan.affine_checked <= 20
    assert f"at the {scan.affine_checked} values" in repr(scan)
    assert scan.affine_deviation < 1e-13
    assert scan.minimum["p"] == pytest.approx(5.0 - a @ b / (b @ b), rel=1e-12)


def test_affine_in_each_but_not_together():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, N))
    given = parameters([1.0, 2.0], wide, "log")
    scan = ta.frozen_scan(
        lambda p0, p1: a + b * p0 * p1, given, views.Pointwise(), points=POINTS, candidates=9
    )
    assert not scan.affine


@pytest.mark.parametrize("seed", range(8))
def test_single_precision_at_a_bound(seed):
    # A field in float32 is affine to its own rounding, which must not make a minimum on the
    # bound look like one beside it.
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 50)).astype(np.float32)
    a -= np.float32((a @ b) / (b @ b) - 0.1) * b  # the minimum lies at -0.1
    given = {"p": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))}
    scan = ta.frozen_scan(
        lambda p: torch.tensor(a) + torch.tensor(b) * p,
        given,
        views.Pointwise(),
        points=np.arange(50.0),
    )
    assert scan.status == "on the lower bound of p"
    assert scan.minimum["p"] == pytest.approx(0.2, rel=1e-12)


REGIMES = {
    "a clamp below the center": lambda p: max(p, 0.5),
    "a clamp above the center": lambda p: min(p, 2.0),
    "a switch below the center": lambda p: p if p > 0.6 else 3.0 - p,
    "another slope in the middle": lambda p: p + 0.5 * max(min(p, 3.0) - 1.5, 0.0),
}


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES)
@pytest.mark.parametrize("truth", [0.15, 1.0, 4.5])
@pytest.mark.parametrize("coordinate", ["log", "linear"])
def test_another_regime_is_not_affine(regime, truth, coordinate):
    a, b = np.random.default_rng(0).normal(size=(2, N))
    given = {"p": ta.Parameter(truth=truth, bounds=(0.1, 5.0), coordinate=coordinate)}
    scan = ta.frozen_scan(lambda p: a + b * regime(p), given, views.Pointwise(), points=POINTS)
    assert not scan.affine
    assert scan.affine_deviation > 1e-3


def test_a_zero_in_the_other_regime_is_found():
    # Above 0.5 the residual points to 1.93; below, its slope is another and it has a zero.
    b = np.random.default_rng(0).normal(size=N)
    given = {"p": ta.Parameter(truth=1.0, bounds=(0.1, 5.0))}

    def residual(p):
        return b * (0.2 * (p - 1.93)) if p > 0.5 else b * (p - 0.3)

    scan = ta.frozen_scan(residual, given, views.Pointwise(), points=POINTS)
    assert not scan.affine
    found = sorted(scan.local_minima["p"])
    np.testing.assert_allclose(found, [0.3, 1.93], rtol=1e-6)


def test_a_regime_of_two_parameters_together():
    a, b, c = np.random.default_rng(0).normal(size=(3, N))
    given = parameters([1.0, 1.0], wide, "log")

    def residual(p0, p1):
        return a + b * p0 + c * p1 + (0.1 * b if p0 > 2 and p1 > 2 else 0.0)

    scan = ta.frozen_scan(residual, given, views.Pointwise(), points=POINTS, candidates=9)
    assert not scan.affine


def test_a_regime_that_the_test_misses_is_found_at_the_minimum(monkeypatch):
    # The final comparison with direct evaluations stands by itself.
    monkeypatch.setattr("twoaxis.exported.interpolant.ALONG_EACH", 0)
    monkeypatch.setattr("twoaxis.exported.interpolant.TOGETHER", 0)
    b = np.random.default_rng(0).normal(size=N)
    given = {"p": ta.Parameter(truth=1.0, bounds=(0.1, 5.0))}

    def residual(p):
        return b * (p - 2.0) + (0.1 if 1.9 < p < 2.1 else 0.0)

    scan = ta.frozen_scan(residual, given, views.Pointwise(), points=POINTS)
    assert not scan.affine
    assert scan.affine_deviation > 1e-8


# The lowest value of the affine form is 2; candidates lie 0.06125 apart.
@pytest.mark.parametrize("place", [2.0, 2.0 - 0.06125, 2.0 + 0.06125])
@pytest.mark.parametrize("height", [1e-6, 1.0, -1.0])
def test_a_narrow_bump_where_a_scan_reports_is_found(place, height):
    b = np.random.default_rng(0).normal(size=N)
    given = {"p": ta.Parameter(truth=1.0, bounds=(0.1, 5.0), coordinate="linear")}

    def residual(p):
        return b * (p - 2.0) + (height if abs(p - place) < 1e-3 else 0.0)

    scan = ta.frozen_scan(residual, given, views.Pointwise(), points=POINTS)
    assert not scan.affine
    assert scan.affine_deviation > 1e-8
    r = residual(scan.minimum["p"])
    assert scan.local_minima["profile"][0] == pytest.approx(r @ r / N, rel=1e-9)


def test_a_narrow_bump_at_the_minimum_of_two_parameters_is_found():
    b, c = np.random.default_rng(0).normal(size=(2, N))
    given = parameters([1.0, 1.0], wide, "log")

    def residual(p0, p1):
        bump = 0.1 if abs(p0 - 2.0) < 1e-3 and abs(p1 - 0.5) < 1e-3 else 0.0
        return b * (p0 - 2.0) + c * (p1 - 0.5) + bump

    scan = ta.frozen_scan(residual, given, views.Pointwise(), points=POINTS, candidates=9)
    assert not scan.affine


def test_a_perfect_fit_at_the_center_stays_affine():
    # There the residual is rounding alone, and no share of it.
    b, c = np.random.default_rng(0).normal(size=(2, N))
    given = {"p": ta.Parameter(truth=0.1, bounds=(0.01, 5.0))}
    scan = ta.frozen_scan(
        lambda p: (c + b * p) - (c + 0.1 * b), given, views.Pointwise(), points=POINTS
    )
    assert scan.affine
    assert scan.minimum["p"] == pytest.approx(0.1, rel=1e-12)


def test_tiny_slopes_of_a_large_parameter():
    # Squares of the slopes underflow; those of the residual do not.
    b = np.random.default_rng(0).normal(size=N)
    given = {"p": ta.Parameter(truth=1e100, bounds=(1e99, 1e101))}
    scan = ta.frozen_scan(
        lambda p: 1e-170 * b * (p - 2e100), given, views.Pointwise(), points=POINTS
    )
    assert scan.affine
    assert scan.minimum["p"] == pytest.approx(2e100, rel=1e-10)
