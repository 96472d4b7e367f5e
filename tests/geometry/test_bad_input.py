"""Every bad input ends in an error that says what was expected, what came and how to fix it."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis import views

N = 20
X = np.linspace(0, 1, N)
K = {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))}
POINTWISE = views.Pointwise()
FUNCTIONS = {"score": ta.score, "scan": ta.frozen_scan, "spectrum": ta.spectrum}
every_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def good(k):
    return np.cos(X) - k * X


def says(*words):
    """A pattern that finds the words in this order."""
    return "(?s)" + ".*".join(words)


def with_holes(*where):
    def residual(k):
        values = good(k)
        values[list(where)] = np.nan
        return values

    return residual


def growing(k):
    return np.ones(N if abs(k - 1) < 1e-12 else N + 1) * k


def overflowing(k):
    values = good(k)
    values[3] = np.inf
    return values


RESIDUALS = {
    "changes its length": (growing, says("as many residual values as points, 20", "21 for k=")),
    "complex": (lambda k: good(k) * 1j, says("real floating-point", "complex128", "float")),
    "integers": (
        lambda k: np.arange(N) * int(k),
        says("real floating-point", "int64", "cast was forgotten"),
    ),
    "booleans": (lambda k: k < X, says("real floating-point", "bool")),
    "words": (lambda k: np.array(["a"] * N), says("real floating-point", "U1")),  # noqa: ARG005
    "nothing": (lambda k: None, says("real floating-point", "object")),  # noqa: ARG005
    "NaN at two points": (
        with_holes(4, 11),
        says("finite residual at every point", "2 of 20", "k=1", r"points 4, 11\)", "leave"),
    ),
    "NaN at many points": (
        with_holes(*range(7)),
        says("finite", "7 of 20", r"points 0, 1, 2, 3, 4, ...\)"),
    ),
    "infinity": (overflowing, says("finite", "1 of 20", r"points 3\)")),
    "too short": (
        lambda k: good(k)[:-1],
        says("as points, 20", "19 for k=1", "exactly the points"),
    ),
    "empty": (lambda k: good(k)[:0], says(r"shape \(N,\)", r"\(0,\)")),
    "a number": (lambda k: np.float64(k), says(r"shape \(N,\)", r"shape \(\)")),
    "a square": (lambda k: np.ones((N, N)) * k, says(r"\(N, 1\)", r"\(20, 20\)", "tuple")),
    "two columns": (lambda k: np.ones((N, 2)) * k, says(r"\(N, 1\)", r"\(20, 2\)", "tuple")),
    "numbers in a list": (lambda k: [k] * N, says(r"shape \(N,\)", r"shape \(\)")),
    "not callable": (good(1.0), says("function of the parameters", "ndarray", "lambda")),
    "other names": (lambda nu: good(nu), says("keywords k", "nu", "lambda")),
    "too many names": (lambda k, m: good(k) + m, says("keywords k", r"\(k, m\)")),
    "no names": (lambda: X, says("keywords k", r"residual\(\)")),
}


@every_function
@pytest.mark.parametrize(("residual", "message"), RESIDUALS.values(), ids=RESIDUALS)
def test_residuals(function, residual, message):
    with pytest.raises(ta.InputError, match=message):
        function(residual, K, POINTWISE, points=X)


@every_function
def test_tensors_of_integers(function):
    torch = pytest.importorskip("torch")
    with pytest.raises(ta.InputError, match=says("real floating-point", "int64")):
        function(lambda k: torch.arange(N) + int(k), K, POINTWISE, points=X)


@every_function
def test_complex_jax_arrays(function):
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(ta.InputError, match=says("real floating-point", "complex64")):
        function(lambda k: jnp.ones(N) * 1j * k, K, POINTWISE, points=X)


def test_a_residual_of_several_equations_that_changes_its_length():
    with pytest.raises(ta.InputError, match=says("same length", "40.*at the center", "41")):
        ta.score(lambda k: (good(k), growing(k)), K, views.Blocks([POINTWISE, POINTWISE]), points=X)
    with pytest.raises(ta.InputError, match=says("40", "41")):
        ta.frozen_scan(
            lambda k: (good(k), growing(k)), K, views.Blocks([POINTWISE, POINTWISE]), points=X
        )


def test_a_residual_that_fails_far_from_the_center_is_named_there():
    def fails(k):
        return good(k) if k < 1.9 else good(k) * np.nan

    ta.score(fails, K, POINTWISE, points=X)
    with pytest.raises(ta.InputError, match=says("finite", "20 of 20", r"k=(1\.9|2)")):
        ta.frozen_scan(fails, K, POINTWISE, points=X)


POINTS = {
    "none": (np.empty((0, 2)), says(r"shape \(N, k\)", r"\(0, 2\)", "column_stack")),
    "an empty list": ([], says(r"shape \(N, k\)", r"\(0,\)")),
    "of another length": (X[:-1], says("as points, 19", "20 for k=1")),
    "in rows": (np.vstack([X, X]), says("as points, 2,", "20 for k=1")),
    "a pair of coordinates": ((X, X), says(r"shape \(n, d\)", "lengths 20, 20")),
    "a cube": (np.ones((N, 1, 1)), says(r"shape \(N, k\)", r"\(20, 1, 1\)")),
    "a number": (3.0, says(r"shape \(N, k\)", r"\(\)")),
    "NaN": (np.where(X > 0.9, np.nan, X), says("finite points", "NaN or infinity in 2 of 20")),
    "complex": (X * 1j, says("points as real numbers", "complex")),
    "words": (["a"] * N, says("points as real numbers")),
    "missing": (None, says("no points", "points=")),
}


@every_function
@pytest.mark.parametrize(("points", "message"), POINTS.values(), ids=POINTS)
def test_points(function, points, message):
    with pytest.raises(ta.InputError, match=message):
        function(good, K, POINTWISE, points=points)


VIEWS = {
    "missing": (None, says("a view", "carries no training view", r"Pointwise\(\)")),
    "a name": ("patch", says("a view", "str", r"Patch\(cells=8\)")),
    "a matrix": (np.eye(N), says("a view", "ndarray", r"Dense|views")),
    "a class": (views.Pointwise, says("a view", "Pointwise|type")),
    "weights of other points": (views.Weighted(np.ones(5)), says("20 points", "5 weights")),
    "matrix of other points": (views.Dense(np.eye(5)), says("20 by 20", r"\(5, 5\)")),
    "bound to other points": (
        POINTWISE.bind(X[:5]),
        says("view of 20 residual values", "one of 5"),
    ),
    "two equations": (
        views.Blocks([POINTWISE, POINTWISE]),
        says("view of 20 residual values", "one of 40", "Blocks"),
    ),
}


@every_function
@pytest.mark.parametrize(("view", "message"), VIEWS.values(), ids=VIEWS)
def test_views(function, view, message):
    with pytest.raises(ta.InputError, match=message):
        function(good, K, view, points=X)


BUILT = {
    "not square": (lambda: views.Dense(np.ones((N, 3))), says("square", r"\(20, 3\)")),
    "not symmetric": (
        lambda: views.Dense(np.triu(np.ones((N, N)))),
        says("symmetric", "mirror image", r"M \+ M.T"),
    ),
    "indefinite": (
        lambda: views.Dense(np.eye(N) - 0.1 * np.ones((N, N))),
        says("semidefinite", "smallest eigenvalue of -1", "A.T @ A"),
    ),
    "negative weights": (
        lambda: views.Weighted(X - 0.5),
        says("not negative", "10 negative of 20", "-0.5"),
    ),
    "weights all zero": (lambda: views.Weighted(0 * X), says("at least one positive", "20 zeros")),
}


@every_function
@pytest.mark.parametrize(("make", "message"), BUILT.values(), ids=BUILT)
def test_metrics(function, make, message):
    with pytest.raises(ta.InputError, match=message):
        function(good, K, make(), points=X)


CENTERS = {
    "above its bounds": ({"k": 9.0}, says(r"inside the bounds \[0.5, 2\]", "at=9", "widen")),
    "below its bounds": ({"k": 0.1}, says(r"inside the bounds \[0.5, 2\]", "at=0.1")),
    "not positive": ({"k": -1.0}, says("positive", "at=-1")),
    "NaN": ({"k": np.nan}, says("finite number", "nan")),
    "another name": ({"nu": 1.0}, says("parameters", "k", "nu")),
    "an unknown word": ("prior", says("truth", "delivered", "prior")),
    "delivered, but none": ("delivered", says("delivered value", "none for k")),
    "a number": (1.0, says("truth", "delivered", "mapping", "1.0")),
}


@every_function
@pytest.mark.parametrize(("at", "message"), CENTERS.values(), ids=CENTERS)
def test_centers(function, at, message):
    with pytest.raises(ta.InputError, match=message):
        function(good, K, POINTWISE, points=X, at=at)


PARAMETERS = {
    "no mapping": (["k"], says("mapping", "list")),
    "empty": ({}, says("mapping")),
    "bounds alone": ({"k": (0.5, 2.0)}, says("twoaxis.Parameter", r"\(0.5, 2.0\)")),
    "neither truth nor delivered": (
        {"k": ta.Parameter(bounds=(0.5, 2.0))},
        says("delivered value", "none for k"),
    ),
    "missing": (None, says("no parameters", "parameters=")),
}


@every_function
@pytest.mark.parametrize(("parameters", "message"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters(function, parameters, message):
    with pytest.raises(ta.InputError, match=message):
        function(good, parameters, POINTWISE, points=X)


def test_a_center_of_zero_needs_a_scale():
    zero = {"k": ta.Parameter(truth=0.0, bounds=(-1.0, 1.0), coordinate="linear")}
    advice = says("magnitude", "center of zero in linear coordinates, and no scale", "scale=")
    with pytest.raises(ta.InputError, match=advice):
        ta.score(good, zero, POINTWISE, points=X).delta_percent  # noqa: B018
    with pytest.raises(ta.InputError, match=advice):
        ta.frozen_scan(good, zero, POINTWISE, points=X).error_percent  # noqa: B018


@pytest.mark.parametrize("function", [ta.score, ta.spectrum], ids=["score", "spectrum"])
@pytest.mark.parametrize("name", ["newton", None, 1, "Exact"])
def test_unknown_derivatives(function, name):
    with pytest.raises(ta.InputError, match=says('"auto", "exact" or "difference"', f"{name!r}")):
        function(good, K, POINTWISE, points=X, derivative=name)


@pytest.mark.parametrize("function", [ta.score, ta.spectrum], ids=["score", "spectrum"])
@pytest.mark.parametrize("step", [0.0, -1e-3, np.nan, np.inf, "small", 1e-3j, None])
def test_steps(function, step):
    with pytest.raises(ta.InputError, match=says("step")):
        function(good, K, POINTWISE, points=X, step=step)


def test_robustness_settings():
    with pytest.raises(ta.InputError, match=says("step")):
        ta.step_robustness(good, K, POINTWISE, points=X, steps=[0.0])
    with pytest.raises(ta.InputError, match=says("from 3 to 100000 candidates", "candidates=1")):
        ta.step_robustness(good, K, POINTWISE, points=X, candidates=[1])


@pytest.mark.parametrize("candidates", [2, 0, -81, 8.5, "many", None, True, 10**9])
def test_candidates(candidates):
    with pytest.raises(ta.InputError, match=says("from 3 to", "candidates=", "81")):
        ta.frozen_scan(good, K, POINTWISE, points=X, candidates=candidates)


@pytest.mark.parametrize("starts", [-1, 2.5, "many", None])
def test_starts(starts):
    both = {"k": K["k"], "m": K["k"]}
    with pytest.raises(ta.InputError, match=says("starts")):
        ta.frozen_scan(lambda k, m: good(k) + m, both, POINTWISE, points=X, starts=starts)


def test_parameters_of_a_spectrum():
    both = {"k": K["k"], "m": K["k"]}
    found = ta.spectrum(lambda k, m: good(k) + m, both, POINTWISE, points=X)
    readings = (
        lambda: found.strength_share((1, 2)),
        lambda: found.cancellation,
        lambda: found.rank_for(0.9),
        lambda: found.region_contributions(),
    )
    for reading in readings:
        with pytest.raises(ta.InputError, match=says("one parameter", "k, m", r"of\(\"k\"\)")):
            reading()
    for name in ("nu", 3):
        with pytest.raises(ta.InputError, match=says("one of the parameters k, m", f"{name!r}")):
            ta.spectrum(lambda k, m: good(k) + m, both, POINTWISE, points=X, parameter=name)
    with pytest.raises(ta.InputError, match=says("one of the parameters k", "'nu'")):
        ta.spectrum(good, K, POINTWISE, points=X, parameter="nu")


@pytest.mark.parametrize("modes", [0, -1, 2.5, "all"])
def test_modes(modes):
    with pytest.raises(ta.InputError, match=says("at least one mode", "modes=", "modes=64")):
        ta.spectrum(good, K, POINTWISE, points=X, modes=modes)


@pytest.mark.parametrize(
    "band", [(0, 3), (3, 2), (-2, 4), (1.5, 3), (1,), 5, None, "ab", (1, 2, 3)]
)
def test_bands(band):
    found = ta.spectrum(good, K, POINTWISE, points=X)
    for share in (found.strength_share, found.pointwise_strength_share, found.signed_share):
        with pytest.raises(ta.InputError, match=says("band of modes", r"\(1, 64\)")):
            share(band)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, np.nan, "most", None])
def test_shares(share):
    found = ta.spectrum(good, K, POINTWISE, points=X)
    with pytest.raises(ta.InputError, match=says("share above 0", "share=0.9")):
        found.rank_for(share)


@pytest.mark.parametrize("cells", [0, -1, 2.5, "many", None])
def test_cells_of_regions(cells):
    found = ta.spectrum(good, K, POINTWISE, points=X)
    with pytest.raises(ta.InputError, match=says("from 1 to", "cells per axis", "pass 8")):
        found.region_contributions(cells)


JACOBIANS = {
    "too short": (lambda k: -X[:-1], says("jacobian", "20", "19")),  # noqa: ARG005
    "too wide": (lambda k: np.ones((N, 2)), says(r"shape \(N, 1\)", r"\(20, 2\)")),  # noqa: ARG005
    "complex": (lambda k: -X * 1j, says("jacobian", "complex")),  # noqa: ARG005
    "NaN": (lambda k: -X * np.nan, says("jacobian", "finite", "20 of 20")),  # noqa: ARG005
    "nothing": (lambda k: None, says("jacobian")),  # noqa: ARG005
    "words": (lambda k: np.array(["a"] * N), says("jacobian")),  # noqa: ARG005
}


@pytest.mark.parametrize("function", [ta.score, ta.spectrum], ids=["score", "spectrum"])
@pytest.mark.parametrize(("jacobian", "message"), JACOBIANS.values(), ids=JACOBIANS)
def test_jacobians(function, jacobian, message):
    with pytest.raises(ta.InputError, match=message):
        function(ta.FrozenResidual(good, K, X, view=POINTWISE, jacobian=jacobian))


FRESH = {
    "zero": (dict(fresh=0), says("integer from 1 to", "0", "fresh=4")),
    "a fraction": (dict(fresh=2.5), says("integer", "2.5")),
    "a bound view": (
        dict(fresh=2, view=POINTWISE.bind(X)),
        says("bound to other points", "bound to its points already"),
    ),
    "a view with values of its own": (
        dict(fresh=2, view=views.Weighted(np.ones(N))),
        says("bound to other points", "weighted", r"Pointwise\(\)"),
    ),
}


@pytest.mark.parametrize(("settings", "message"), FRESH.values(), ids=FRESH)
def test_fresh_points(settings, message):
    frozen = ta.FrozenResidual(
        good, K, X, view=POINTWISE, residual_at=lambda points, k: np.cos(points[:, 0]) - k
    )
    with pytest.raises(ta.InputError, match=message):
        ta.score(frozen, **settings)


def test_fresh_points_need_a_field():
    with pytest.raises(ta.InputError, match=says("evaluated elsewhere", "residual_at=")):
        ta.score(good, K, POINTWISE, points=X, fresh=2)
    stays = ta.FrozenResidual(good, K, X, view=POINTWISE, residual_at=lambda points, k: good(k))  # noqa: ARG005
    with pytest.raises(ta.InputError, match=says("as points, 60", "20 for k=1")):
        ta.score(stays, fresh=3)
    own = ta.FrozenResidual(
        lambda k: (good(k), good(k)), K, [X[:, None], X[:, None]],
        residual_at=lambda points, k: good(k),  # noqa: ARG005
    )  # fmt: skip
    with pytest.raises(ta.InputError, match=says("one set of points", "2 sets")):
        ta.score(own, view=views.Blocks([POINTWISE, POINTWISE]), fresh=3)


def test_an_error_has_three_parts():
    with pytest.raises(ta.InputError) as caught:
        ta.score(with_holes(3), K, POINTWISE, points=X)
    assert all((caught.value.expected, caught.value.got, caught.value.fix))
    assert str(caught.value).startswith("expected ")


LINE, TIME = np.linspace(0, 1, 9), np.linspace(0, 2, 9)
DOORS = {
    "score": lambda points: ta.score(
        lambda k: k * LINE - 1.2, KNOWN, ta.views.Pointwise(), points=points
    ),
    "view": lambda points: ta.views.Patch(cells=2).bind(points),
    "resolve": lambda points: ta.resolve(
        lambda k: np.exp(-k * LINE), KNOWN, 0.1, points=points, replicas=2, bank=21, progress=False
    ),
    "observed": lambda points: ta.FrozenResidual(
        lambda k: k * LINE - 1.2, KNOWN, LINE, observed=points
    ),
}
KNOWN = {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_coordinates_is_told_to_be_one_array(door, kind):
    with pytest.raises(ta.InputError, match=r"shape \(n, d\).*np\.column_stack\(\[x, t\]\)"):
        DOORS[door](kind([LINE, TIME]))
    DOORS[door](np.column_stack([LINE, TIME]))
    DOORS[door](kind(np.column_stack([LINE, TIME])))  # rows that are arrays of their own


def test_points_that_were_transposed_are_told():
    with pytest.raises(ta.InputError, match=r"pass points\.T"):
        DOORS["score"](np.array([LINE, TIME]))
