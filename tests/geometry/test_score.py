"""The score against its formulas, in every view, and the algebra that the paper states."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from libraries import jax, jnp

import twoaxis as ta
from twoaxis import views

RNG = np.random.default_rng(0)
N = 60
POINTS = RNG.random((N, 2)) * [2.0, 0.5]
ROOT = RNG.normal(size=(N, 9))
VIEWS = {
    "pointwise": views.Pointwise(),
    "patch": views.Patch(cells=3),
    "Gaussian": views.Gaussian(bandwidth=0.2),
    "Gaussian, rank": views.Gaussian(rank=7),
    "Gaussian, trace": views.Gaussian(normalize="trace"),
    "weighted": views.Weighted(loss_weights=RNG.random(N)),
    "dense": views.Dense(ROOT @ ROOT.T),
    "blocks": views.Blocks([views.Patch(cells=2)], weights=[3.0]),
}
every_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


def affine(r, J, truth=None, coordinate="log", bounds=(0.05, 20.0)):
    """A residual with value r and slope J by the coordinates at the truth, exact slopes."""
    J = np.asarray(J, dtype=float).reshape(len(r), -1)
    truth = np.ones(J.shape[1]) if truth is None else np.asarray(truth, dtype=float)
    names = [f"p{i}" for i in range(J.shape[1])]
    parameters = {
        name: ta.Parameter(truth=t, bounds=bounds, coordinate=coordinate)
        for name, t in zip(names, truth, strict=True)
    }
    slope = J / truth if coordinate == "log" else J

    def residual(**p):
        return r + slope @ (np.array([p[name] for name in names]) - truth)

    points = POINTS if len(r) == N else np.linspace(0, 1, len(r))
    return ta.FrozenResidual(residual, parameters, points, jacobian=lambda **p: slope)  # noqa: ARG005


def vector(by_name):
    return np.array(list(by_name.values()))


@every_view
@pytest.mark.parametrize("d", [1, 2, 4])
def test_formulas_in_every_view(view, d):
    r, J = RNG.normal(size=N), RNG.normal(size=(N, d))
    M = view.bind(POINTS).matrix()
    found = ta.score(affine(r, J), view=view)
    B, H = J.T @ M @ r, J.T @ M @ J
    size = np.abs(M).sum() * 10  # of the sums that are rounded
    np.testing.assert_allclose(np.ravel(found.B), B, rtol=0, atol=1e-14 * size)
    np.testing.assert_allclose(np.reshape(found.H, (d, d)), H, rtol=0, atol=1e-14 * size)
    full = -np.linalg.solve(H, B)
    np.testing.assert_allclose(vector(found.displacement), full, rtol=1e-10)
    np.testing.assert_allclose(vector(found.diagonal_displacement), -B / np.diag(H), rtol=1e-10)
    np.testing.assert_allclose(
        vector(found.delta_percent), 100 * np.abs(np.exp(full) - 1), rtol=1e-9
    )
    norm, strength = np.sqrt(r @ M @ r), np.sqrt(np.diag(H))
    assert found.residual_norm == pytest.approx(norm, rel=1e-12)
    np.testing.assert_allclose(np.ravel(found.alignment), B / (strength * norm), rtol=1e-10)
    np.testing.assert_allclose(found.coupling, H / np.outer(strength, strength), rtol=1e-10)
    assert found.identified
    assert found.view == view.bind(POINTS).describe()


def test_one_parameter_has_numbers_and_several_have_arrays():
    r, J = RNG.normal(size=N), RNG.normal(size=(N, 2))
    one, two = (ta.score(affine(r, J[:, :d]), view=views.Pointwise()) for d in (1, 2))
    assert all(isinstance(v, float) for v in (one.B, one.H, one.C, one.alignment))
    assert [np.shape(v) for v in (two.B, two.H, two.C, two.alignment)] == [
        (2,),
        (2, 2),
        (2, 2),
        (2,),
    ]


@pytest.mark.parametrize("library", ["JAX", "NumPy"])
def test_the_curvature_term_is_the_second_derivative_under_the_view(library):
    f, g, a = RNG.normal(size=(3, N))
    view = VIEWS["Gaussian"]
    parameters = {
        "k": ta.Parameter(truth=0.7, bounds=(0.1, 4.0)),
        "m": ta.Parameter(truth=-0.4, bounds=(-2.0, 2.0), coordinate="linear"),
    }
    with jax.enable_x64(True):
        np_or_jnp = jnp if library == "JAX" else np

        def residual(k, m):
            return a + np_or_jnp.sin(k) * f + np_or_jnp.exp(k * m) * g

        found = ta.score(residual, parameters, view, points=POINTS)
        M = view.bind(POINTS).matrix()

        def half_profile(q):
            r = a + jnp.sin(jnp.exp(q[0])) * f + jnp.exp(jnp.exp(q[0]) * q[1]) * g
            return r @ jnp.asarray(M) @ r / 2

        q = jnp.array([jnp.log(0.7), -0.4])
        np.testing.assert_allclose(found.B, jax.grad(half_profile)(q), rtol=1e-5)
        # H + C is the curvature of the profile.
        np.testing.assert_allclose(found.H + found.C, jax.hessian(half_profile)(q), rtol=1e-4)


@every_view
def test_curvature_equals_the_score_where_the_residual_is_affine_in_p(view):
    r, J = RNG.normal(size=N), RNG.normal(size=N)
    found = ta.score(affine(r, J, truth=[0.37]), view=view)
    assert found.C == pytest.approx(found.B, rel=1e-10)  # noqa: SIM300
    linear = ta.score(affine(r, J, truth=[0.37], coordinate="linear"), view=view)
    assert abs(linear.C) <= 1e-10 * abs(linear.B)


@pytest.mark.parametrize("wanted", [-0.5, -0.2, 0.3, 0.8])
def test_a_newton_step_is_worse_than_the_displacement(wanted):
    # Why C is a flag: for a residual affine in p the exact answer is log(1 + D), and the
    # Newton step D / (1 - D) is farther from it.
    J = np.abs(RNG.normal(size=N)) + 0.1
    found = ta.score(affine(-wanted * J, J), view=views.Pointwise())
    D = found.displacement["p0"]
    newton = -found.B / (found.H + found.C)
    exact = np.log1p(D)
    assert pytest.approx(wanted, rel=1e-12) == D
    assert newton == pytest.approx(D / (1 - D), rel=1e-8)
    assert abs(newton - exact) > abs(D - exact)


def test_trust():
    J = np.ones(N)
    # C = B = -H D here, so the relative curvature is |D|.
    good = ta.score(affine(-0.19 * J, J), view=views.Pointwise())
    assert good.trusted
    assert good.doubts == []
    bent = ta.score(affine(-0.21 * J, J), view=views.Pointwise())
    assert not bent.trusted
    (doubt,) = bent.doubts
    assert (doubt.code, doubt.severity) == ("score.curvature", "warning")
    assert doubt.numbers == pytest.approx({"ratio": 0.21})
    lower = ta.score(affine(0.21 * J, J), view=views.Pointwise())
    assert lower.doubts[0].numbers == pytest.approx({"ratio": 0.21})  # whatever its sign
    hill = ta.score(affine(-1.1 * J, J), view=views.Pointwise())
    (doubt,) = hill.doubts
    assert doubt.code == "score.no_basin"
    assert doubt.numbers == pytest.approx({"lowest_relative_curvature": -0.1})
    blind = ta.score(affine(J, 0 * J), view=views.Pointwise())
    (doubt,) = blind.doubts
    assert (doubt.code, doubt.numbers) == ("score.null_direction", {"null_directions": 1})
    assert "depend on p0" in doubt.text
    assert not blind.identified
    assert f"warning: {hill.doubts[0].text}" in repr(hill)


def test_trust_of_several_parameters():
    J = RNG.normal(size=(N, 2))
    J, _ = np.linalg.qr(J)
    # Along the second parameter only the curvature is large.
    r = -J @ [0.05, 0.4]
    found = ta.score(affine(r, J), view=views.Pointwise())
    (doubt,) = found.doubts
    assert doubt.code == "score.curvature"
    assert doubt.numbers["ratio"] == pytest.approx(0.4, abs=0.005)
    half = ta.score(affine(r, J[:, [1, 1]]), view=views.Pointwise())
    assert half.doubts[0].code == "score.null_direction"
    assert half.doubts[0].text.endswith(("-0.71 p0 +0.71 p1", "+0.71 p0 -0.71 p1"))


def test_directions_and_weakness():
    Q, _ = np.linalg.qr(RNG.normal(size=(N, 3)))
    J = Q * np.sqrt(N) * [1.0, 0.01, 0.0]
    r = -J @ [0.1, 0.2, 0.3] + RNG.normal(size=N) * 0
    found = ta.score(affine(r, J, truth=[2.0, 5.0, 1.0]), view=views.Pointwise())
    table = found.directions()
    assert table["status"].tolist() == ["null", "weak", "seen"]
    np.testing.assert_allclose(table["eigenvalue"], [0.0, 1e-4, 1.0], rtol=1e-10, atol=1e-20)
    np.testing.assert_allclose(table["displacement"].abs(), [0.0, 0.2, 0.1], rtol=1e-9, atol=1e-12)
    # In the parameters' own units a log displacement of D is a step of p D, and the
    # directions add up to the whole.
    steps = table[["p0", "p1", "p2"]].sum()
    np.testing.assert_allclose(steps, [2.0 * 0.1, 5.0 * 0.2, 0.0], rtol=1e-9, atol=1e-12)


def test_units_of_linear_parameters_do_not_hide_a_direction():
    # The same problem in metres and micrometres: neither parameter is unseen.
    J, r = RNG.normal(size=(N, 2)), RNG.normal(size=N)
    units = np.array([1e-6, 1e6])
    parameters = {
        name: ta.Parameter(truth=t, bounds=(-9 * t, 9 * t), coordinate="linear")
        for name, t in zip("ab", units, strict=True)
    }
    frozen = ta.FrozenResidual(
        lambda a, b: r + J @ [a / units[0] - 1, b / units[1] - 1],
        parameters,
        POINTS,
        jacobian=lambda a, b: J / units,  # noqa: ARG005
    )
    found = ta.score(frozen, view=views.Pointwise())
    expected = -np.linalg.lstsq(J, r, rcond=None)[0] * units
    assert found.identified
    np.testing.assert_allclose(vector(found.displacement), expected, rtol=1e-8)


@pytest.mark.parametrize("rank", [1, 2, 3, 5, 8, N])
@pytest.mark.parametrize("d", range(1, 7))
def test_every_rank_of_the_view_and_singular_cases(rank, d):
    rng = np.random.default_rng(100 * rank + d)
    root = rng.normal(size=(N, rank)) / np.sqrt(N)
    r, J = rng.normal(size=N), rng.normal(size=(N, d))
    if d > 2:
        J[:, -1] = J[:, 0] - 2 * J[:, 1]  # a dependency that no view removes
    seen, left = root.T @ J, root.T @ r
    found = ta.score(affine(r, J), view=views.Dense(root @ root.T))
    expected = -np.linalg.pinv(seen, rcond=1e-9) @ left
    np.testing.assert_allclose(vector(found.displacement), expected, rtol=0, atol=1e-10)
    alive = np.linalg.matrix_rank(seen, tol=1e-9)
    assert found.data["null"].sum() == d - alive
    assert found.identified == (alive == d)
    null = found.data["eigenvector"].values[found.data["null"].values]
    np.testing.assert_allclose(null @ expected, 0, atol=1e-10)  # of minimum norm
    H, B = np.reshape(found.H, (d, d)), np.ravel(found.B)
    np.testing.assert_allclose(H @ -vector(found.displacement), B, rtol=0, atol=1e-10)
    assert sum(each.code == "score.null_direction" for each in found.doubts) == (alive < d)


# Integers over 8: extremes and ties, but no underflow of products.
entries = st.integers(-800, 800).map(lambda n: n / 8)
vectors = arrays(float, 12, elements=entries)
columns = st.integers(1, 4).flatmap(lambda d: arrays(float, (12, d), elements=entries))
positive = arrays(float, 12, elements=st.integers(0, 80).map(lambda n: n / 8))


@settings(max_examples=60, deadline=None)
@given(r=vectors, J=vectors, w=positive, c=st.floats(1e-9, 1e9))
def test_scale_invariance_and_factorization(r, J, w, c):
    assume(w.any())
    one = ta.score(affine(r, J), view=views.Weighted(w))
    other = ta.score(affine(r, J), view=views.Weighted(c * w))
    scale = one.residual_norm / np.sqrt(one.H) if one.H > 0 else 0.0
    D = one.displacement["p0"]
    assert abs(other.displacement["p0"] - D) <= 1e-13 * scale
    assert abs(other.alignment - one.alignment) <= 1e-13
    assert pytest.approx(c * one.H, rel=1e-13) == other.H
    assert -1 <= one.alignment <= 1
    assert abs(D) <= scale * (1 + 1e-14)  # Cauchy and Schwarz
    assert -one.alignment * scale == pytest.approx(D, rel=0, abs=1e-14 * scale)
    if one.H == 0:
        assert one.B == D == 0


@settings(max_examples=60, deadline=None)
@given(r=vectors, J=columns, w=positive)
def test_the_score_lies_in_the_range_of_the_strength(r, J, w):
    assume(w.any())
    found = ta.score(affine(r, J), view=views.Weighted(w))
    d = J.shape[1]
    B, H, D = np.ravel(found.B), np.reshape(found.H, (d, d)), vector(found.displacement)
    # Of order sqrt(threshold): directions below 1e-12 of the largest count as unseen.
    size = np.sqrt(np.trace(H)) * found.residual_norm
    np.testing.assert_allclose(H @ D, -B, rtol=0, atol=1e-6 * size + 1e-300)
    assert (np.abs(np.ravel(found.alignment)) <= 1).all()
    diagonal = vector(found.diagonal_displacement)
    np.testing.assert_allclose(diagonal * np.diag(H), -B, rtol=0, atol=1e-13 * size + 1e-300)


@settings(max_examples=60, deadline=None)
@given(r=vectors, J=arrays(float, (12, 2), elements=entries))
def test_the_gap_of_the_diagonal_step_is_the_coupling(r, J):
    # The paper's two-by-two identity, in the norm of H and in sensitivity-normalized length.
    found = ta.score(affine(r, J), view=views.Pointwise())
    H = found.H
    assume(np.linalg.eigvalsh(H)[0] > 1e-4 * np.trace(H))
    full, diagonal = vector(found.displacement), vector(found.diagonal_displacement)
    gap = diagonal - full
    coupling = abs(found.coupling[0, 1])
    assert np.sqrt(gap @ H @ gap) == pytest.approx(
        coupling * np.sqrt(full @ H @ full), rel=1e-6, abs=1e-8 * found.residual_norm
    )
    S = np.sqrt(np.diag(H))
    assert np.linalg.norm(S * gap) == pytest.approx(
        coupling * np.linalg.norm(S * full), rel=1e-6, abs=1e-8 * found.residual_norm
    )


@settings(max_examples=40, deadline=None)
@given(p=st.floats(0.1, 10.0), small=st.floats(-1e-3, 1e-3), seed=st.integers(0, 2**31))
def test_log_and_linear_coordinates_agree_to_first_order(p, small, seed):
    rng = np.random.default_rng(seed)
    J, noise = rng.normal(size=(2, 40))
    r = noise - J * (J @ noise) / (J @ J) - small * J
    log = ta.score(affine(r, J, truth=[p]), view=views.Pointwise())
    linear = ta.score(
        affine(r, J / p, truth=[p], coordinate="linear", bounds=(0.05, 20.0)),
        view=views.Pointwise(),
    )
    assert pytest.approx(p * linear.B, rel=1e-10, abs=1e-14) == log.B
    assert pytest.approx(p**2 * linear.H, rel=1e-12) == log.H
    by_log, by_linear = log.displacement["p0"], linear.displacement["p0"]
    assert by_linear == pytest.approx(p * by_log, rel=1e-10, abs=1e-14)
    moved = p * np.exp(by_log)
    assert abs(moved - (p + by_linear)) <= 0.51 * p * small**2 + 1e-14 * p


def test_centers():
    J, parameters = np.ones(N), {"p": ta.Parameter(truth=1.0, delivered=1.2, bounds=(0.5, 2.0))}

    def found(**at):
        return ta.score(lambda p: J * (p - 1.5), parameters, views.Pointwise(), points=POINTS, **at)

    for at, kind, value in (
        (dict(), "truth", 1.0),
        (dict(at="delivered"), "delivered", 1.2),
        (dict(at={"p": 1.4}), "point", 1.4),
    ):
        score = found(**at)
        assert (score.center.kind, score.center.values["p"]) == (kind, value)
        assert score.displacement["p"] == pytest.approx((1.5 - value) / value, rel=1e-6)
    candidate = {"p": ta.Parameter(delivered=1.2, bounds=(0.5, 2.0))}
    around = ta.score(lambda p: J * (p - 1.5), candidate, views.Pointwise(), points=POINTS)
    assert around.center.kind == "delivered"
    assert "delivered candidate" in repr(around)
    assert "error" not in repr(around)


def test_percentages_in_linear_coordinates():
    J = np.ones(N)

    def delta(**settings):
        parameter = ta.Parameter(coordinate="linear", bounds=(-4.0, 4.0), **settings)
        score = ta.score(
            lambda p: J * (p - 1.0), {"p": parameter}, views.Pointwise(), points=POINTS
        )
        return score.delta_percent["p"]

    assert delta(truth=-2.0) == pytest.approx(150.0, rel=1e-9)
    assert delta(truth=-2.0, scale=0.5) == pytest.approx(600.0, rel=1e-9)
    assert delta(truth=0.0, scale=0.5) == pytest.approx(200.0, rel=1e-9)


def test_a_displacement_beyond_all_measure_is_a_number():
    # H is a millionth of what it should be; the percentage overflows and must not warn.
    found = ta.score(affine(-np.ones(N), np.full(N, 1e-3)), view=views.Pointwise())
    assert found.displacement["p0"] == pytest.approx(1000.0)
    assert found.delta_percent["p0"] == np.inf


def test_tables_carry_the_same_numbers():
    r, J = RNG.normal(size=N), RNG.normal(size=(N, 2))
    found = ta.score(affine(r, J, truth=[0.5, 2.0]), view=VIEWS["patch"])
    table, data = found.summary(), found.data
    assert table.index.tolist() == data["parameter"].values.tolist() == ["p0", "p1"]
    for name in ("displacement", "delta_percent", "B", "alignment", "sampling_deviation", "center"):
        np.testing.assert_array_equal(table[name], data[name])
    np.testing.assert_array_equal(table["displacement"], vector(found.displacement))
    np.testing.assert_array_equal(table["center"], [0.5, 2.0])
    np.testing.assert_array_equal(table["H"], np.diag(data["H"]))
    np.testing.assert_array_equal(data["H"], found.H)
    np.testing.assert_array_equal(data["C"], found.C)
    assert data.attrs["centered_on"] == "truth"
    assert data.attrs["view"] == found.view
    assert float(data["residual_norm"]) == found.residual_norm
    assert all("long_name" in variable.attrs for variable in data.data_vars.values())


def test_the_displacement_of_an_affine_residual_is_that_of_its_least_squares_fit():
    generator = np.random.default_rng(8)
    a, b, c = generator.normal(size=(3, 40))
    a = a - 1.5 * b - 0.7 * c
    parameters = {
        "p": ta.Parameter(truth=1.2, bounds=(0.1, 10)),
        "q": ta.Parameter(truth=0.9, bounds=(-5, 5), coordinate="linear"),
    }
    view, points = views.Pointwise(), np.arange(40.0)
    found = ta.score(lambda p, q: a + p * b + q * c, parameters, view, points=points)
    p, q = -np.linalg.lstsq(np.column_stack([b, c]), a)[0]
    # The derivative by a difference in log p has an error of about 1e-7.
    assert found.affine_displacement["p"] == pytest.approx(np.log(p / 1.2), rel=1e-6)
    assert found.affine_displacement["q"] == pytest.approx(q - 0.9, rel=1e-9)
    assert found.displacement["p"] != pytest.approx(np.log(p / 1.2), rel=1e-2)


def test_an_affine_residual_whose_minimum_is_not_positive_has_none_in_log_coordinates():
    values = np.linspace(1, 2, 9)
    parameters = {"p": ta.Parameter(truth=1.0, bounds=(0.1, 10))}
    found = ta.score(lambda p: values * (p + 0.5), parameters, views.Pointwise(), points=values)
    assert found.displacement["p"] == pytest.approx(-1.5)
    assert found.affine_displacement["p"] == -np.inf
