"""Contributions of modes, points and regions: they add up, with their signs."""

import sys

import numpy as np
import pytest

import twoaxis as ta
from twoaxis import views

RNG = np.random.default_rng(0)
N = 60
POINTS = RNG.random((N, 2)) * [2.0, 0.5]
ROOT = RNG.normal(size=(N, 9))
J, R = RNG.normal(size=(2, N))
K = {"k": ta.Parameter(truth=1.0, bounds=(0.1, 10.0))}
VIEWS = {
    "pointwise": views.Pointwise(),
    "patch": views.Patch(cells=3),
    "Gaussian": views.Gaussian(bandwidth=0.2),
    "Gaussian, rank": views.Gaussian(rank=7),
    "weighted": views.Weighted(loss_weights=np.where(np.arange(N) % 4, RNG.random(N), 0.0)),
    "dense": views.Dense(ROOT @ ROOT.T),
    "blocks": views.Blocks([views.Patch(cells=2)], weights=[3.0]),
}
every_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


def frozen_of(J=J, r=R, points=POINTS):
    return ta.FrozenResidual(
        lambda k: r + J * np.log(k), K, points, jacobian=lambda k: J / k
    )  # fmt: skip


@every_view
def test_contributions_sum_to_the_score(view):
    found = ta.spectrum(frozen_of(), view=view)
    score = ta.score(frozen_of(), view=view)
    size = np.sqrt(score.H) * score.residual_norm
    assert pytest.approx(score.B, rel=1e-12) == found.B
    assert pytest.approx(score.H, rel=1e-12) == found.H
    assert found.strength.sum() == pytest.approx(score.H, rel=1e-10)
    assert found.signed.sum() == pytest.approx(score.B, rel=0, abs=1e-10 * size)
    assert found.point_contributions.sum() == pytest.approx(score.B, rel=0, abs=1e-10 * size)
    assert (found.strength >= 0).all()
    assert found.complete
    assert f"all {len(found.eigenvalues)} modes" in repr(found)
    assert found.cumulative_strength[-1] == pytest.approx(1.0, rel=1e-10)
    assert found.cumulative_signed[-1] == pytest.approx(score.B, rel=0, abs=1e-10 * size)


@every_view
def test_modes_are_the_eigenvectors_of_the_matrix(view):
    found = ta.spectrum(frozen_of(), view=view)
    M = view.bind(POINTS).matrix()
    values, vectors = np.linalg.eigh(M)
    # Equal eigenvalues share their contributions: compare sums over groups of them.
    groups = np.round(found.eigenvalues / found.eigenvalues[0], 9)
    for level in np.unique(groups[groups > 1e-8]):
        same = np.abs(values / found.eigenvalues[0] - level) < 1e-8
        along_j, along_r = vectors[:, same].T @ J, vectors[:, same].T @ R
        mine = groups == level
        lambda_ = found.eigenvalues[mine][0]
        assert mine.sum() == same.sum()
        np.testing.assert_allclose(found.strength[mine].sum(), lambda_ * along_j @ along_j)
        np.testing.assert_allclose(
            found.signed[mine].sum(), lambda_ * along_j @ along_r,
            rtol=0, atol=1e-10 * lambda_ * N,
        )  # fmt: skip
        np.testing.assert_allclose(found.pointwise_strength[mine].sum(), along_j @ along_j / N)
    assert (np.diff(found.eigenvalues) <= 0).all()


@every_view
def test_contributions_of_points_are_of_the_rows_of_the_matrix(view):
    found = ta.spectrum(frozen_of(), view=view)
    M = view.bind(POINTS).matrix()
    expected = (J * (M @ R) + R * (M @ J)) / 2
    np.testing.assert_allclose(
        found.point_contributions, expected, rtol=0, atol=1e-13 * M.max() * N
    )
    np.testing.assert_array_equal(found.points, POINTS)


def test_bands():
    found = ta.spectrum(frozen_of(), view=VIEWS["Gaussian"])
    bands = [(1, 5), (6, 20), (21, N)]
    for values, share, total in (
        (found.strength, found.strength_share, found.H),
        (found.pointwise_strength, found.pointwise_strength_share, J @ J / N),
        (found.signed, found.signed_share, np.abs(found.signed).sum()),
    ):
        for first, last in bands:
            expected = values[first - 1 : last].sum() / total
            assert share((first, last)) == pytest.approx(expected, rel=1e-9)
    assert sum(found.strength_share(b) for b in bands) == pytest.approx(1.0, rel=1e-10)
    assert sum(found.pointwise_strength_share(b) for b in bands) == pytest.approx(1.0, rel=1e-10)
    signed = sum(found.signed_share(b) for b in bands)
    assert signed == pytest.approx(found.B / np.abs(found.signed).sum(), rel=1e-9)
    assert found.strength_share((3, 3)) == pytest.approx(found.strength[2] / found.H)


def test_the_two_readings_of_strength_differ():
    # A rough sensitivity: pointwise it counts in the late modes, under the view hardly.
    x = np.linspace(0, 1, 200)
    slope = np.sin(2 * np.pi * x) + np.sin(60 * np.pi * x)
    found = ta.spectrum(frozen_of(slope, slope, x), view=views.Gaussian())
    assert found.strength_share((1, 10)) > 0.99
    assert found.pointwise_strength_share((1, 10)) == pytest.approx(0.5, abs=0.02)
    assert found.pointwise_H == pytest.approx(slope @ slope / 200, rel=1e-12)


def test_the_pointwise_reading_of_the_pointwise_view_is_its_strength():
    found = ta.spectrum(frozen_of(), view=views.Pointwise())
    np.testing.assert_allclose(found.pointwise_strength, found.strength, rtol=1e-13)


def test_cancellation():
    one_sign = ta.spectrum(frozen_of(J, 0.3 * J), view=VIEWS["Gaussian"])
    assert one_sign.cancellation == pytest.approx(0.0, abs=1e-12)
    swapped = np.where(np.arange(N) % 2, 1.0, -1.0)
    whole = ta.spectrum(frozen_of(np.ones(N), swapped), view=views.Pointwise())
    assert whole.cancellation == 1.0
    assert whole.B == 0.0
    part = ta.spectrum(frozen_of(np.ones(4), np.array([3.0, -1, 0, 0]), np.arange(4.0)),
                       view=views.Pointwise())  # fmt: skip
    assert part.cancellation == pytest.approx(0.5)  # 1 - (3 - 1) / (3 + 1)


def test_the_smallest_rank_that_retains_a_share():
    slope = np.sqrt(np.array([0.5, 0.3, 0.15, 0.05]))
    weights = np.array([4.0, 3.0, 2.0, 1.0])  # the order of the modes
    found = ta.spectrum(
        frozen_of(slope / np.sqrt(weights), slope, np.arange(4.0)), view=views.Weighted(weights)
    )
    np.testing.assert_allclose(found.cumulative_strength, [0.5, 0.8, 0.95, 1.0])
    assert [found.rank_for(s) for s in (0.4, 0.51, 0.8, 0.9, 1.0)] == [1, 2, 2, 3, 4]
    few = ta.spectrum(
        frozen_of(slope / np.sqrt(weights), slope, np.arange(4.0)),
        view=views.Weighted(weights), modes=2,
    )  # fmt: skip
    assert few.rank_for(0.8) == 2
    assert few.rank_for(0.9) is None
    assert not few.complete


def test_regions():
    found = ta.spectrum(frozen_of(), view=VIEWS["Gaussian"])
    for cells in (1, 3, 8):
        table = found.region_contributions(cells)
        assert table["contribution"].sum() == pytest.approx(found.B, rel=1e-9)
        assert table["points"].sum() == N
    # One region by hand.
    table = found.region_contributions(2)
    low = POINTS.min(axis=0)
    unit = (POINTS - low) / np.ptp(POINTS, axis=0)
    inside = (unit < 0.5).all(axis=1)
    row = table[
        (table["points"] == inside.sum()) & np.isclose(table["x0"], POINTS[inside, 0].mean())
    ]
    assert len(row) == 1
    assert row["contribution"].item() == pytest.approx(found.point_contributions[inside].sum())
    assert row["x1"].item() == pytest.approx(POINTS[inside, 1].mean())


def test_regions_push_in_their_direction():
    x = np.linspace(0, 1, 100)
    r = np.where(x < 0.5, 0.2, -0.3)
    found = ta.spectrum(frozen_of(np.ones(100), r, x), view=views.Pointwise())
    table = found.region_contributions(2)
    np.testing.assert_allclose(table["contribution"], [0.1, -0.15])


def test_negative_rounding_is_clipped_and_counted():
    dense = views.Dense(ROOT @ ROOT.T)  # rank 9 of 60
    values, _ = dense.bind(POINTS).eigenpairs()
    found = ta.spectrum(frozen_of(), view=dense)
    assert found.clipped == (values < 0).sum() > 0
    assert found.eigenvalues.min() == 0.0
    assert found.strength.min() >= 0.0
    assert ta.spectrum(frozen_of(), view=views.Pointwise()).clipped == 0


def test_leading_modes_are_the_beginning_of_all():
    whole = ta.spectrum(frozen_of(), view=VIEWS["Gaussian"])
    few = ta.spectrum(frozen_of(), view=VIEWS["Gaussian"], modes=10)
    assert len(few.eigenvalues) == 10
    assert not few.complete
    assert "leading 10 modes" in repr(few)
    for name in ("eigenvalues", "strength", "signed", "pointwise_strength"):
        np.testing.assert_allclose(getattr(few, name), getattr(whole, name)[:10], rtol=1e-8)
    assert (few.B, few.H, few.pointwise_H) == (whole.B, whole.H, whole.pointwise_H)
    assert few.strength_share((1, 10)) == pytest.approx(whole.strength_share((1, 10)))


def test_leading_modes_by_iteration_are_those_of_the_matrix(monkeypatch):
    points = np.random.default_rng(1).random((300, 2))
    slope, r = np.sin(5 * points[:, 0]), np.cos(7 * points[:, 1])
    frozen, view = frozen_of(slope, r, points), views.Gaussian(bandwidth=0.15)
    whole = ta.spectrum(frozen, view=view)
    monkeypatch.setattr("twoaxis.views.gaussian.DENSE_PAIRS_LIMIT", 100)
    few = ta.spectrum(frozen, view=view, modes=12)
    np.testing.assert_allclose(few.eigenvalues, whole.eigenvalues[:12], rtol=1e-9)
    np.testing.assert_allclose(few.strength, whole.strength[:12], rtol=0, atol=1e-8 * whole.H)
    np.testing.assert_allclose(few.signed, whole.signed[:12], rtol=0, atol=1e-8 * whole.H)
    assert (few.B, few.H) == (whole.B, whole.H)


def test_beyond_a_number_of_points_leading_modes_are_the_default(monkeypatch):
    module = sys.modules["twoaxis.geometry.spectrum"]  # the function has its name
    assert (module.ALL_MODES, module.LEADING_MODES) == (5000, 256)
    monkeypatch.setattr(module, "ALL_MODES", N - 1)
    monkeypatch.setattr(module, "LEADING_MODES", 10)
    found = ta.spectrum(frozen_of(), view=VIEWS["Gaussian"])
    assert len(found.eigenvalues) == 10
    assert not found.complete
    monkeypatch.setattr(module, "ALL_MODES", N)
    assert ta.spectrum(frozen_of(), view=VIEWS["Gaussian"]).complete


def test_a_band_of_modes_that_were_not_computed_is_refused():
    # Zero would be read as: nothing is there.
    few = ta.spectrum(frozen_of(), view=VIEWS["Gaussian"], modes=10)
    for share in (few.strength_share, few.pointwise_strength_share, few.signed_share):
        with pytest.raises(ta.InputError, match=r"(?s)10.*\(5, 20\).*modes="):
            share((5, 20))
    whole = ta.spectrum(frozen_of(), view=views.Patch(cells=3))
    assert whole.strength_share((1, N)) == pytest.approx(1.0)  # a patch has no other modes


def test_parameters_are_named():
    frozen = ta.FrozenResidual(
        lambda a, b: R + J * np.log(a) + np.log(b), {"a": K["k"], "b": K["k"]}, POINTS
    )
    score = ta.score(frozen, view=views.Pointwise())
    for i, name in enumerate("ab"):
        found = ta.spectrum(frozen, view=views.Pointwise(), parameter=name)
        assert found.names == [name]
        assert found.data.identical(ta.spectrum(frozen, view=views.Pointwise()).of(name).data)
        assert pytest.approx(score.B[i], rel=1e-12) == found.B
        assert pytest.approx(score.H[i, i], rel=1e-12) == found.H


def test_several_equations_repeat_their_points():
    both = ta.FrozenResidual(
        lambda k: (R + J * np.log(k), 2 * R), K, POINTS,
        jacobian=lambda k: np.concatenate([J / k, 0 * J]),
    )  # fmt: skip
    view = views.Blocks([views.Pointwise(), views.Patch()])
    found = ta.spectrum(both, view=view)
    np.testing.assert_array_equal(found.points, np.vstack([POINTS, POINTS]))
    assert found.region_contributions(4)["contribution"].sum() == pytest.approx(found.B, rel=1e-10)


@pytest.mark.parametrize("mixed", [False, True], ids=["alike", "mixed"])
def test_several_equations_on_their_own_points(mixed):
    own = [POINTS[:40], POINTS[40:, :1] if mixed else POINTS[40:]]
    both = ta.FrozenResidual(
        lambda k: ((R + J * np.log(k))[:40], (R + J * np.log(k))[40:]), K, own,
        jacobian=lambda k: J / k,
    )  # fmt: skip
    found = ta.spectrum(both, view=views.Blocks([views.Pointwise(), views.Pointwise()]))
    assert found.signed.sum() == pytest.approx(found.B, rel=1e-10)
    assert len(found.point_contributions) == N


def without_patch_means(r, points, cells=8):
    """Subtract the mean of every cell."""
    unit = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    index = np.minimum((unit * cells).astype(int), cells - 1)
    left = r.copy()
    for cell in np.unique(index, axis=0):
        own = (index == cell).all(axis=1)
        left[own] -= left[own].mean()
    return left


def test_a_residual_without_patch_means_pushes_nothing_there():
    rng = np.random.default_rng(0)
    points = rng.random((300, 2))
    r = without_patch_means(rng.normal(size=300), points)
    slope = 1 + points[:, 0]
    frozen = frozen_of(slope, r, points)
    patch, gauss, dots = (
        ta.score(frozen, view=view)
        for view in (views.Patch(cells=8), views.Gaussian(), views.Pointwise())
    )
    assert patch.residual_norm < 1e-15
    assert abs(patch.B) < 1e-16
    assert abs(patch.displacement["k"]) < 1e-15
    assert gauss.residual_norm**2 > 0.01 * dots.residual_norm**2
    assert abs(gauss.B) > 1e-4 * np.sqrt(gauss.H) * gauss.residual_norm
    # No mode of the patch view carries any of it, one of the Gaussian view does.
    assert np.abs(ta.spectrum(frozen, view=views.Patch(cells=8)).signed).max() < 1e-16
    assert np.abs(ta.spectrum(frozen, view=views.Gaussian()).signed).max() > 1e-6


def test_the_dataset_carries_everything():
    found = ta.spectrum(frozen_of(), view=VIEWS["patch"])
    data = found.data.sel(parameter="k")
    np.testing.assert_array_equal(data["strength"], found.strength)
    np.testing.assert_array_equal(data["signed"], found.signed)
    np.testing.assert_array_equal(data["pointwise_strength"], found.pointwise_strength)
    np.testing.assert_array_equal(data["point_contribution"], found.point_contributions)
    np.testing.assert_array_equal(data["mode"], np.arange(1, len(found.strength) + 1))
    assert (data["signed_total"], data["strength_total"]) == (found.B, found.H)
    assert data.attrs["complete"] == 1
