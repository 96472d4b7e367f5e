"""Nuisance parameters in axis 2: the Schur complement, and everything that follows from it.

The residual is affine, ``r = e + J_i p + J_n a`` in linear coordinates, so that every formula has
a closed form, here by plain dense linear algebra or by eliminating the nuisance parameters by
least squares.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import twoaxis as ta
from twoaxis import views
from twoaxis.errors import InputError
from twoaxis.geometry.score import terms_of, without_nuisance

N = 30
POINTS = np.linspace(0.0, 1.0, N)


def number(truth, *, nuisance=False, **more):
    known = {"start": truth} if nuisance else {"truth": truth}
    return ta.Parameter(
        bounds=(-50.0, 50.0), coordinate="linear", scale=1.0, nuisance=nuisance, **known, **more
    )


def made_up(seed=0, columns=3):
    """A dense metric, a residual at zero and a derivative with `columns` columns."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(N, N)) / np.sqrt(N)
    return root @ root.T, rng.normal(size=N), rng.normal(size=(N, columns))


def affine(e, J):
    """A residual of p0, a (nuisance, in the middle) and p1, and its parameters."""
    parameters = {
        "p0": number(0.5, delivered=0.6),
        "a": number(0.2, nuisance=True),
        "p1": number(-0.3, delivered=-0.1),
    }

    def residual(p0, a, p1):
        return e + J[:, 0] * p0 + J[:, 1] * a + J[:, 2] * p1

    return residual, parameters, np.array([0.5, 0.2, -0.3])


@pytest.fixture(scope="module")
def case():
    M, e, J = made_up()
    residual, parameters, center = affine(e, J)
    found = ta.score(residual, parameters, views.Dense(M), points=POINTS)
    r = e + J @ center
    i, n = [0, 2], [1]
    H, B = J.T @ M @ J, J.T @ M @ r
    gain = H[np.ix_(i, n)] @ np.linalg.inv(H[np.ix_(n, n)])
    return {
        "M": M,
        "e": e,
        "J": J,
        "r": r,
        "found": found,
        "residual": residual,
        "parameters": parameters,
        "S": H[np.ix_(i, i)] - gain @ H[np.ix_(n, i)],
        "b": B[i] - gain @ B[n],
        "H": H,
        "B": B,
    }


def test_strength_and_displacement_are_those_of_the_schur_complement(case):
    found = case["found"]
    assert_allclose(found.H, case["H"], rtol=1e-8)
    assert_allclose(found.B, case["B"], rtol=1e-8)
    assert_allclose(found.strength, case["S"], rtol=1e-8)
    step = -np.linalg.solve(case["S"], case["b"])
    moved = found.displacement
    assert_allclose([moved["p0"], moved["p1"]], step, rtol=1e-8)
    # The same minimum over all parameters together.
    assert_allclose(list(moved.values()), -np.linalg.solve(case["H"], case["B"]), rtol=1e-8)
    own = found.diagonal_displacement
    assert_allclose([own["p0"], own["p1"]], -case["b"] / np.diag(case["S"]), rtol=1e-8)


def test_what_nuisance_parameters_leave_has_the_factors_of_the_displacement(case):
    """With one parameter of interest ``D = -rho |r| / sqrt(S)``, of what is left of r and J."""
    M, J, e = case["M"], case["J"], case["e"]
    parameters = {"p": number(0.5), "a": number(0.2, nuisance=True), "b": number(0, nuisance=True)}
    found = ta.score(
        lambda p, a, b: e + J @ np.array([p, a, b]), parameters, views.Dense(M), points=POINTS
    )
    r = e + J @ np.array([0.5, 0.2, 0.0])
    root = np.linalg.cholesky(M).T
    hidden = root @ J[:, 1:]
    left = np.eye(N) - hidden @ np.linalg.pinv(hidden)
    residual, column = left @ root @ r, left @ root @ J[:, 0]
    assert found.remaining_norm == pytest.approx(np.linalg.norm(residual))
    assert found.residual_norm == pytest.approx(np.linalg.norm(root @ r))
    assert found.strength == pytest.approx(column @ column)
    rho = column @ residual / np.linalg.norm(column) / np.linalg.norm(residual)
    assert found.alignment[0] == pytest.approx(rho)
    assert found.displacement["p"] == pytest.approx(
        -rho * found.remaining_norm / np.sqrt(found.strength)
    )
    absorbed = 1 - column @ column / found.H[0, 0]
    assert found.summary().loc["p", "absorbed"] == pytest.approx(absorbed)


def test_directions_have_no_part_along_nuisance_parameters(case):
    found = case["found"]
    values = np.linalg.eigvalsh(case["S"])
    table = found.directions()
    assert_allclose(table["eigenvalue"], values, rtol=1e-8)
    assert list(table.columns) == ["eigenvalue", "displacement", "status", "p0", "p1"]
    vectors = found.data["eigenvector"].values
    assert vectors.shape == (2, 3)
    assert not vectors[:, 1].any()
    assert_allclose(table["displacement"] ** 2 @ np.ones(2), _squares(found), rtol=1e-8)


def _squares(found):
    return sum(found.displacement[name] ** 2 for name in ("p0", "p1"))


def test_spectrum_sums_to_the_schur_complement(case):
    found = ta.spectrum(case["residual"], case["parameters"], views.Dense(case["M"]), points=POINTS)
    for j, name in enumerate(("p0", "p1")):
        one = found.of(name)
        assert pytest.approx(case["S"][j, j]) == one.H
        assert pytest.approx(case["b"][j]) == one.B
        assert one.strength.sum() == pytest.approx(case["S"][j, j])
        assert one.signed.sum() == pytest.approx(case["b"][j])
        assert one.point_contributions.sum() == pytest.approx(case["b"][j])
    data = found.data.sel(parameter="a")
    assert float(data["strength_total"]) == pytest.approx(case["H"][1, 1])
    assert float(data["signed"].sum()) == pytest.approx(case["B"][1])
    with pytest.raises(InputError, match="one of the parameters p0, p1"):
        found.of("a")


def test_projected_modes_are_those_of_the_residual_after_the_fit(case):
    r, J = without_nuisance(case["r"], case["J"], _bound(case["M"]), np.array([0, 1, 0], bool))
    assert_allclose(J[:, 1], case["J"][:, 1])
    # M-orthogonal to the nuisance column, and nothing else taken away.
    assert_allclose(case["J"][:, 1] @ case["M"] @ np.column_stack([r, J[:, [0, 2]]]), 0, atol=1e-10)
    assert np.linalg.matrix_rank(np.column_stack([case["r"] - r, case["J"][:, 1]])) == 1


def _bound(M):
    return views.Dense(M).bind(POINTS)


def test_scan_is_minimized_over_nuisance_parameters(case):
    scan = ta.frozen_scan(
        case["residual"], case["parameters"], views.Dense(case["M"]), points=POINTS, candidates=21
    )
    best = -np.linalg.solve(case["H"], case["J"].T @ case["M"] @ case["e"])
    assert_allclose([scan.minimum[n] for n in ("p0", "a", "p1")], best, rtol=1e-7)
    # Along p0 the other parameter of interest is held and the nuisance parameter is fitted.
    values, profile = scan.slices["p0"]
    root = np.linalg.cholesky(case["M"]).T
    hidden = root @ case["J"][:, 1]
    held = root @ (case["e"][:, None] + np.outer(case["J"][:, 0], values))
    held += (root @ case["J"][:, 2])[:, None] * -0.3
    left = held - np.outer(hidden, hidden @ held) / (hidden @ hidden)
    fitted = -(hidden @ held) / (hidden @ hidden)
    inside = np.abs(fitted) <= 50
    assert inside.all()
    assert_allclose(profile, np.sum(left**2, axis=0), rtol=1e-8)


def test_scan_of_a_residual_that_is_not_affine_is_fitted_inside_the_bounds():
    x = np.linspace(0.1, 1, N)
    truth = np.exp(-2.0 * x) * 1.5

    def residual(k, a):
        return a * np.exp(-k * x) - truth + 0.01 * np.cos(20 * x)

    parameters = {
        "k": ta.Parameter(truth=2.0, bounds=(0.5, 6.0)),
        "a": ta.Parameter(nuisance=True, start=1.0, bounds=(0.5, 2.0)),
    }
    scan = ta.frozen_scan(residual, parameters, views.Pointwise(), points=x, candidates=9)
    values, profile = scan.slices["k"]
    goal = truth - 0.01 * np.cos(20 * x)
    columns = np.exp(-values[:, None] * x)
    best = np.clip(columns @ goal / np.sum(columns**2, axis=1), 0.5, 2.0)
    assert (best == 2.0).any()  # the bounds matter at some candidates and not at others
    assert (best < 2.0).any()
    assert_allclose(profile, np.mean((best[:, None] * columns - goal) ** 2, axis=1), rtol=1e-7)


def test_quadratic_model_of_a_scan_touches_its_profile(case):
    """For an affine residual the linearized model is the fitted profile itself."""
    audit = ta.audit(
        case["residual"], case["parameters"], views.Dense(case["M"]), points=POINTS, candidates=11
    )
    data = audit.scan.data
    assert_allclose(data["quadratic_model"].values, data["profile"].values, rtol=1e-8)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100.0))
def test_no_basis_of_the_nuisance_parameters_changes_the_others(seed, scale):
    M, r, J = made_up(seed, columns=4)
    rng = np.random.default_rng(seed + 1)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0] @ np.diag([1.0, scale])
    again = np.column_stack([J[:, :2], J[:, 2:] @ turn])
    hidden = np.array([False, False, True, True])

    def terms(J):
        return terms_of(J.T @ M @ r, J.T @ M @ J, float(np.sqrt(r @ M @ r)), hidden)

    one, two = terms(J), terms(again)
    assert_allclose(one.displacement[:2], two.displacement[:2], rtol=1e-6, atol=1e-9)
    assert_allclose(one.strength, two.strength, rtol=1e-6)
    assert_allclose(one.alignment[:2], two.alignment[:2], rtol=1e-6, atol=1e-9)
    assert_allclose(one.remaining_norm, two.remaining_norm, rtol=1e-6)
    # The nuisance parameters move along to the same place.
    assert_allclose(one.displacement[2:], turn @ two.displacement[2:], rtol=1e-5, atol=1e-8)


def test_a_parameter_that_a_nuisance_parameter_absorbs_is_not_seen():
    M, e, J = made_up(columns=1)
    parameters = {"p": number(0.5), "a": number(0.2, nuisance=True)}
    found = ta.score(
        lambda p, a: e + J[:, 0] * (p + 3 * a), parameters, views.Dense(M), points=POINTS
    )
    assert not found.identified
    assert found.displacement["p"] == 0
    assert [doubt.code for doubt in found.doubts] == ["score.null_direction"]
    assert found.summary().loc["p", "absorbed"] == 1.0


def test_a_nuisance_parameter_that_is_not_seen_does_no_harm():
    M, e, J = made_up(columns=1)
    parameters = {"p": number(0.5), "a": number(0.2, nuisance=True)}
    found = ta.score(
        lambda p, a: e + J[:, 0] * p + 0 * a, parameters, views.Dense(M), points=POINTS
    )
    alone = ta.score(lambda p: e + J[:, 0] * p, {"p": number(0.5)}, views.Dense(M), points=POINTS)
    assert found.identified
    assert found.displacement["p"] == pytest.approx(alone.displacement["p"])
    assert found.displacement["a"] == 0
    assert found.strength == pytest.approx(alone.H)


def test_curvature_is_that_of_the_fitted_profile():
    """Compared with S: the second difference of the profile with the nuisance fitted."""
    x = np.linspace(0.1, 1, N)

    def residual(k, a):
        return np.exp(-k * x) + a * x - 0.55 + 0.1 * np.cos(9 * x)

    parameters = {
        "k": ta.Parameter(truth=1.0, bounds=(0.2, 5.0)),
        "a": ta.Parameter(nuisance=True, start=0.1, bounds=(-2, 2), coordinate="linear", scale=1.0),
    }
    center = {"k": 1.0, "a": _fitted(residual, 1.0)}
    found = ta.score(residual, parameters, views.Pointwise(), points=x, at=center)
    ratio, lowest = found._relative_curvature()
    h = 1e-3
    low, middle, high = (
        np.mean(residual(np.exp(q), _fitted(residual, np.exp(q))) ** 2) for q in (-h, 0.0, h)
    )
    curvature = (low - 2 * middle + high) / h**2 / 2
    assert lowest == pytest.approx(curvature / found.strength, rel=1e-4)
    assert ratio == pytest.approx(abs(lowest - 1), rel=1e-9)


def _fitted(residual, k):
    x = np.linspace(0.1, 1, N)
    rest = residual(k, 0.0)
    return -float(rest @ x / (x @ x))


def test_tables_list_nuisance_parameters_last_and_headlines_leave_them_out(case):
    found = case["found"]
    assert list(found.summary().index) == ["p0", "p1", "a"]
    assert list(found.summary()["nuisance"]) == [False, False, True]
    scan = ta.frozen_scan(
        case["residual"], case["parameters"], views.Dense(case["M"]), points=POINTS, candidates=9
    )
    spectrum = ta.spectrum(
        case["residual"], case["parameters"], views.Dense(case["M"]), points=POINTS
    )
    delivery = ta.delivery(case["parameters"], scan.minimum)
    for each in (scan, spectrum, delivery):
        assert list(each.summary().index) == ["p0", "p1", "a"]
    assert list(scan.local_minima.columns[:3]) == ["p0", "p1", "a"]
    for each in (found, scan, spectrum, delivery):
        rows = [line.split() for line in repr(each).splitlines()]
        assert not any("a" in row or "a," in row for row in rows)


def test_what_training_did_not_deliver_has_no_gap(case):
    terms = ta.delivery(case["parameters"], {"p0": 0.4, "a": 0.0, "p1": -0.2})
    assert np.isnan(terms.gap["a"])
    assert terms.gap["p0"] == pytest.approx(0.2)
    assert terms.total["p1"] == pytest.approx(0.2)
    again = type(terms)(terms.data)
    again.check()


def test_saved_and_loaded(case, tmp_path):
    loaded = ta.load(case["found"].save(tmp_path / "score.nc"))
    assert loaded.displacement == case["found"].displacement
    assert loaded.parameters["a"].nuisance


def test_routes_ignore_nuisance_parameters(case):
    tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
    audit = ta.audit(
        case["residual"],
        case["parameters"],
        views.Dense(case["M"]),
        points=POINTS,
        tolerance=tolerance,
    )
    assert audit.names == ["p0", "p1"]
    assert set(audit.routes) == {"p0", "p1"}
    assert list(audit.directions().columns[:2]) == ["share of p0", "share of p1"]
    assert_allclose(audit.directions()["strength"], np.linalg.eigvalsh(case["S"]), rtol=1e-8)
    audit.check()
