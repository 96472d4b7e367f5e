"""Every region's numbers against a direct computation from the dense matrix, under every view."""

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twoaxis as ta
from twoaxis.remedies import evidence_map

RNG = np.random.default_rng(3)
POINTS = np.column_stack([RNG.uniform(-1, 2, 90), RNG.random(90)])
FIELDS = RNG.normal(size=(4, 90))
ROOT = RNG.normal(size=(90, 20))
VIEWS = {
    "pointwise": ta.views.Pointwise(),
    "weighted": ta.views.Weighted(loss_weights=np.where(RNG.random(90) < 0.2, 0, RNG.random(90))),
    "patch": ta.views.Patch(cells=5),
    "gaussian": ta.views.Gaussian(),
    "gaussian, wide": ta.views.Gaussian(bandwidth=0.3),
    "gaussian, rank 12": ta.views.Gaussian(rank=12),
    "dense": ta.views.Dense(ROOT @ ROOT.T),
}
ONE = {"nu": ta.Parameter(truth=0.5, bounds=(0.05, 5.0))}
TWO = {**ONE, "c": ta.Parameter(truth=2.0, bounds=(0.2, 20.0), coordinate="linear")}


def one(nu):
    return FIELDS[0] - nu * FIELDS[1]


def two(nu, c):
    return FIELDS[0] - nu * FIELDS[1] + c * FIELDS[2] - 0.1 * nu**2 * FIELDS[3]


def directly(r, J, M, keep):
    """Score, strength and displacement of the rows that are kept, from the submatrix."""
    r, J, M = r[keep], J[keep], M[np.ix_(keep, keep)]
    B, H = J.T @ M @ r, J.T @ M @ J
    return B, H, -np.linalg.pinv(H, rcond=1e-12, hermitian=True) @ B


def check(found, r, J, M):
    """Compare every number of a map with loops over regions."""
    data = found.data
    label = data["region_of_point"].values
    for k in range(found.data.sizes["region"]):
        inside = label == k
        B, H, D = directly(r, J, M, ~inside)
        np.testing.assert_allclose(data["B_without"][k], B, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(data["H_without"][k], H, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(data["displacement_without"][k], D, rtol=1e-10, atol=1e-13)
        own_B, own_H, _ = directly(r, J, M, inside)
        norm = np.sqrt(r[inside] @ M[np.ix_(inside, inside)] @ r[inside])
        np.testing.assert_allclose(data["residual_norm"][k], norm, rtol=1e-10, atol=1e-13)
        size = np.sqrt(np.diag(own_H)) * norm
        expected = np.divide(own_B, size, out=np.zeros_like(own_B), where=size > 0)
        np.testing.assert_allclose(data["alignment"][k], expected, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(data["B"][k], (J * (M @ r)[:, None])[inside].sum(axis=0))
        assert data["points_in_region"][k] == inside.sum()


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("regions", [3, RNG.integers(0, 5, 90)], ids=["cells", "labels"])
def test_one_parameter(name, regions):
    view = VIEWS[name]
    J = -0.5 * FIELDS[1][:, None]
    M = view.bind(POINTS).matrix()
    exact = ta.FrozenResidual(one, ONE, POINTS, jacobian=lambda **_: -FIELDS[1])
    found = evidence_map(exact, view=view, regions=regions, modes=False)
    check(found, one(0.5), J, M)
    whole = ta.score(exact, view=view)
    assert found.data["B"].sum() == pytest.approx(whole.B, rel=1e-12)
    assert found.data["H"].sum() == pytest.approx(whole.H, rel=1e-12)


@pytest.mark.parametrize("name", VIEWS)
def test_two_parameters(name):
    view = VIEWS[name]

    def jacobian(nu, **_):
        return np.column_stack([-FIELDS[1] - 0.2 * nu * FIELDS[3], FIELDS[2]])

    frozen = ta.FrozenResidual(two, TWO, POINTS, jacobian=jacobian)
    found = evidence_map(frozen, view=view, regions=3, modes=False)
    J = jacobian(0.5) * [0.5, 1.0]
    check(found, two(0.5, 2.0), J, view.bind(POINTS).matrix())
    whole = ta.score(frozen, view=view)
    np.testing.assert_allclose(found.data["B"].sum("region"), whole.B, rtol=1e-11)
    np.testing.assert_allclose(found.data["H"].sum("region"), whole.H, rtol=1e-11)
    np.testing.assert_allclose(found.data["strength"], np.diag(whole.H), rtol=1e-12)


def test_blocks_on_points_of_their_own():
    first, second = POINTS[:50], POINTS[50:]
    view = ta.views.Blocks([ta.views.Gaussian(), ta.views.Patch(cells=2)], weights=[1.0, 3.0])
    frozen = ta.FrozenResidual(
        lambda nu: (one(nu)[:50], one(nu)[50:]), ONE, (first, second), view=view,
        jacobian=lambda **_: -FIELDS[1],
    )  # fmt: skip
    found = evidence_map(frozen, regions=2)
    check(found, one(0.5), -0.5 * FIELDS[1][:, None], view.bind([first, second]).matrix())


def test_blocks_that_share_their_points():
    view = ta.views.Blocks([ta.views.Pointwise(), ta.views.Gaussian()])
    shared = POINTS[:45]
    frozen = ta.FrozenResidual(
        lambda nu: (one(nu)[:45], one(nu)[45:]), ONE, shared, view=view,
        jacobian=lambda **_: -FIELDS[1],
    )  # fmt: skip
    labels = np.arange(45) % 4
    found = evidence_map(frozen, regions=labels)
    check(found, one(0.5), -0.5 * FIELDS[1][:, None], view.bind(shared).matrix())
    np.testing.assert_array_equal(found.data["points_in_region"].sum(), 90)


def test_regions_are_taken_in_chunks(monkeypatch):
    whole = evidence_map(one, ONE, VIEWS["gaussian"], points=POINTS, regions=4)
    module = importlib.import_module("twoaxis.remedies.evidence_map")
    monkeypatch.setattr(module, "VALUES_AT_ONCE", 90 * 2 * 3)
    parts = evidence_map(one, ONE, VIEWS["gaussian"], points=POINTS, regions=4)
    np.testing.assert_allclose(parts.data["change"], whole.data["change"], rtol=1e-12)


def test_a_parameter_that_only_one_region_sees():
    seen = (POINTS[:, 0] > 1.0).astype(float)
    found = evidence_map(
        lambda nu: FIELDS[0] - nu * seen, ONE, VIEWS["pointwise"], points=POINTS,
        regions=(POINTS[:, 0] > 1.0).astype(int),
    )  # fmt: skip
    lost = found.data.sel(region="1")
    assert not lost["seen_without"]
    assert float(lost["displacement_without"][0]) == 0.0  # of least norm: nothing moves it
    (doubt,) = (each for each in found.doubts if each.code == "evidence.region_needed")
    assert doubt.numbers == {"regions": 1}


def test_minimum_norm_where_two_parameters_act_alike():
    known = {"a": ONE["nu"], "b": ONE["nu"]}
    found = evidence_map(
        lambda a, b: FIELDS[0] - (a * b) * FIELDS[1], known, VIEWS["patch"], points=POINTS,
        regions=2,
    )  # fmt: skip
    without = found.data["displacement_without"].values
    np.testing.assert_allclose(without[:, 0], without[:, 1], rtol=1e-9)
    assert np.isfinite(without).all()


@settings(max_examples=25, deadline=None)
@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 10_000))
def test_scale_of_the_metric_does_not_matter(scale, seed):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(40, 8))
    r, j = generator.normal(size=(2, 40))
    labels = generator.permutation(np.arange(40) % 4)

    def change(factor):
        view = ta.views.Dense(factor * root @ root.T)
        found = evidence_map(
            lambda nu: r - nu * j, ONE, view, points=np.arange(40.0), regions=labels, modes=False
        )
        return found.data["change"].sortby("region").values

    np.testing.assert_allclose(change(scale), change(1.0), rtol=1e-7, atol=1e-9)
