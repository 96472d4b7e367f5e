"""How much of a displacement is the sample of points: the jackknife and fresh points."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis import views
from twoaxis.geometry.sampling import cell_numbers

K = {"k": ta.Parameter(truth=1.0, bounds=(0.1, 10.0))}


def frozen_at(points, field):
    """A residual affine in log k at points, from a field of (J, r)."""
    J, r = field(points)

    def residual_at(where, k):
        slope, value = field(where)
        return value + slope * np.log(k)

    return ta.FrozenResidual(
        lambda k: r + J * np.log(k), K, points, jacobian=lambda k: J / k, residual_at=residual_at
    )


def cells_by_hand(points, per_axis):
    """Cells on min-max normalised axes, the last one closed, by loops."""
    low, high = points.min(axis=0), points.max(axis=0)
    keys = []
    for point in points:
        unit = [(c - a) / (b - a) for c, a, b in zip(point, low, high, strict=True)]
        keys.append(tuple(min(int(u * per_axis), per_axis - 1) for u in unit))
    return keys


def jackknife_by_hand(displacements):
    g = len(displacements)
    mean = sum(displacements) / g
    return np.sqrt((g - 1) / g * sum((D - mean) ** 2 for D in displacements))


@pytest.mark.parametrize(("axes", "per_axis"), [(1, 64), (2, 8), (3, 4), (6, 2)])
def test_cells(axes, per_axis):
    points = np.random.default_rng(axes).normal(size=(200, axes)) * 10.0 ** np.arange(axes)
    numbers = cell_numbers(points, per_axis)
    keys = cells_by_hand(points, per_axis)
    assert numbers.min() == 0
    assert numbers.max() + 1 == len(set(keys))
    pairs = set(zip(keys, numbers.tolist(), strict=True))
    assert len(pairs) == len(set(keys))  # one number for each cell
    frozen = frozen_at(points, lambda p: (np.ones(len(p)), p[:, 0]))
    assert ta.score(frozen, view=views.Pointwise()).sample.cells == len(set(keys))


def wavy(points):
    x, y = points.T
    return 1 + 0.5 * np.sin(3 * x), 0.3 * np.sin(17 * x + 1) * np.cos(29 * y) + 0.1


def test_a_cell_left_out_is_a_cell_removed():
    # Pointwise, the points can really be removed: the 1 / N cancels in D.
    points = np.random.default_rng(0).random((300, 2))
    keys = cells_by_hand(points, 8)
    left_out = []
    for key in sorted(set(keys)):
        kept = points[[other != key for other in keys]]
        J, r = wavy(kept)
        left_out.append(-(J @ r) / (J @ J))
    found = ta.score(frozen_at(points, wavy), view=views.Pointwise()).sample
    assert found.cells == len(left_out)
    assert found.standard_error[0] == pytest.approx(jackknife_by_hand(left_out), rel=1e-10)


VIEWS = {
    "patch": views.Patch(cells=3),
    "Gaussian": views.Gaussian(),
    "Gaussian, rank": views.Gaussian(rank=12),
    "weighted": views.Weighted(np.random.default_rng(1).random(150)),
    "dense": views.Dense(np.eye(150) + np.ones((150, 150))),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_cell_left_out_of_any_view_is_its_submatrix_removed(view):
    rng = np.random.default_rng(0)
    points = rng.random((150, 2))
    J, r = rng.normal(size=(150, 2)), rng.normal(size=150)
    parameters = dict.fromkeys("ab", K["k"])
    frozen = ta.FrozenResidual(
        lambda a, b: r + J @ [np.log(a), np.log(b)], parameters, points,
        jacobian=lambda a, b: J / [a, b],
    )  # fmt: skip
    M = view.bind(points).matrix()
    keys = cells_by_hand(points, 8)
    left_out = []
    for key in sorted(set(keys)):
        kept = np.array([other != key for other in keys])
        inner = M[np.ix_(kept, kept)]
        H, B = J[kept].T @ inner @ J[kept], J[kept].T @ inner @ r[kept]
        left_out.append(-np.linalg.solve(H, B))
    found = ta.score(frozen, view=view).sample
    np.testing.assert_allclose(found.standard_error, jackknife_by_hand(left_out), rtol=1e-7)


def test_large_samples_in_portions(monkeypatch):
    points = np.random.default_rng(0).random((100, 2))
    frozen = frozen_at(points, wavy)
    whole = ta.score(frozen, view=views.Gaussian()).sample.standard_error
    monkeypatch.setattr("twoaxis.geometry.sampling.VALUES_AT_ONCE", 2000)
    portions = ta.score(frozen, view=views.Gaussian()).sample.standard_error
    np.testing.assert_allclose(portions, whole, rtol=1e-9)


def rough(points):
    """A residual with structure finer than a cell, as that of a badly trained field."""
    x, y = points.T
    return 1 + 0.5 * np.sin(3 * x), 0.3 * np.sin(170 * x + 31) * np.cos(190 * y) + 0.1


@pytest.mark.parametrize(
    ("view", "samples", "size"),
    [(views.Pointwise(), 100, 200), (views.Patch(), 100, 200), (views.Gaussian(), 40, 150)],
    ids=["pointwise", "patch", "Gaussian"],
)
def test_the_standard_error_is_the_spread_over_samples(view, samples, size):
    displacements, errors = [], []
    for seed in range(samples):
        points = np.random.default_rng(seed).random((size, 2))
        found = ta.score(frozen_at(points, rough), view=view)
        displacements.append(found.displacement["k"])
        errors.append(found.sample.standard_error[0])
    spread = np.std(displacements, ddof=1)
    assert 0.7 < np.sqrt(np.mean(np.square(errors))) / spread < 1.4


def test_the_standard_error_of_a_smooth_residual_is_not_too_small():
    # Whole cells go together, so that a smooth residual is judged with caution.
    displacements, errors = [], []
    for seed in range(40):
        points = np.random.default_rng(seed).random((300, 2))
        found = ta.score(frozen_at(points, wavy), view=views.Pointwise())
        displacements.append(found.displacement["k"])
        errors.append(found.sample.standard_error[0])
    assert min(errors) > 0.7 * np.std(displacements, ddof=1)


def test_no_spread_where_every_cell_says_the_same():
    points = np.random.default_rng(0).random((200, 2))
    found = ta.score(
        frozen_at(points, lambda p: (np.ones(len(p)), np.full(len(p), 0.3))),
        view=views.Pointwise(),
    )
    assert found.displacement["k"] == pytest.approx(-0.3)
    assert found.sample.standard_error[0] < 1e-14


def test_one_cell_has_no_standard_error():
    points = np.full((20, 2), 0.3)
    found = ta.score(
        frozen_at(points, lambda p: (np.ones(len(p)), np.arange(len(p)))), view=views.Pointwise()
    ).sample
    assert (found.cells, found.standard_error.tolist()) == (1, [0.0])


def test_the_standard_error_may_be_left_out():
    points = np.random.default_rng(0).random((200, 2))
    found = ta.score(frozen_at(points, wavy), view=views.Pointwise(), standard_error=False)
    assert found.sample.standard_error is None
    assert "standard_error" not in found.summary().columns
    assert "standard_error" not in found.to_dataset()
    repr(found)


def test_equations_on_the_same_points_lose_a_cell_together():
    points = np.random.default_rng(0).random((120, 2))
    J, r = wavy(points)
    twice = ta.FrozenResidual(
        lambda k: (r + J * np.log(k), r + J * np.log(k)), K, points,
        jacobian=lambda k: np.concatenate([J, J]) / k,
    )  # fmt: skip
    both = ta.score(twice, view=views.Blocks([views.Pointwise(), views.Pointwise()]))
    one = ta.score(frozen_at(points, wavy), view=views.Pointwise())
    assert both.displacement == pytest.approx(one.displacement, rel=1e-12)
    assert both.sample.standard_error == pytest.approx(one.sample.standard_error, rel=1e-9)


@pytest.mark.parametrize("shapes", [((80, 2), (50, 2)), ((80, 2), (50, 1))], ids=["alike", "mixed"])
def test_equations_on_their_own_points(shapes):
    # Points inside and points on an edge, which may have fewer coordinates.
    rng = np.random.default_rng(0)
    points = [rng.random(shape) for shape in shapes]
    values = [rng.normal(size=len(part)) for part in points]
    found = ta.score(
        lambda k: tuple(k * np.ones(len(v)) - 1.1 + 0.1 * v for v in values), K,
        views.Blocks([views.Pointwise(), views.Pointwise()]), points=points,
    )  # fmt: skip
    expected = np.mean([0.1 - 0.1 * v.mean() for v in values])
    assert found.displacement["k"] == pytest.approx(expected, rel=1e-5)
    assert 0 < found.sample.standard_error[0] < 0.1


# Fresh points ------------------------------------------------------------------------------


def accident(points):
    """A fine ripple of mean zero: at a few points its mean is not zero."""
    x, y = points.T
    return np.ones(len(points)), np.sin(9431 * x) * np.cos(7919 * y)


def real(points):
    return np.ones(len(points)), accident(points)[1] * 0.1 - 0.2


def test_fresh_points_tell_a_preference_from_an_accident():
    points = np.random.default_rng(13).random((40, 2))
    for field, remains in ((accident, False), (real, True)):
        found = ta.score(frozen_at(points, field), view=views.Pointwise(), fresh=200)
        D, fresh = found.displacement["k"], found.sample.fresh_displacement[0]
        assert found.sample.fresh_points == 8000
        assert abs(D) > 0.1
        # 8,000 points leave 1 / sqrt(8000) of the ripple, about 0.006.
        assert fresh == pytest.approx(0.2 if remains else 0.0, abs=0.02)
        # The jackknife alone warns already.
        assert (abs(D) > 3 * found.sample.standard_error[0]) == remains
        assert found.summary()["fresh_displacement"].tolist() == [fresh]
        assert found.to_dataset()["fresh_displacement"].values.tolist() == [fresh]


@pytest.mark.parametrize("view", [views.Patch(cells=3), views.Gaussian()], ids=["patch", "G"])
def test_fresh_points_fill_the_same_box_under_the_same_view(view):
    rng = np.random.default_rng(0)
    points = rng.uniform([-2.0, 5.0], [3.0, 5.5], (50, 2))
    seen = []
    frozen = frozen_at(points, wavy)

    def residual_at(where, k):
        seen.append(where)
        return frozen.residual_at(where, k)

    copied = ta.FrozenResidual(frozen.residual, K, points, residual_at=residual_at)
    found = ta.score(copied, view=view, fresh=4, seed=7)
    fresh = seen[0]
    assert fresh.shape == (200, 2)
    assert (fresh >= points.min(axis=0)).all()
    assert (fresh <= points.max(axis=0)).all()
    assert np.ptp(fresh, axis=0) == pytest.approx(np.ptp(points, axis=0), rel=0.1)
    alone = ta.score(frozen_at(fresh, wavy), view=view).displacement["k"]
    assert found.sample.fresh_displacement[0] == pytest.approx(alone, rel=1e-5)
    again = ta.score(copied, view=view, fresh=4, seed=7)
    assert again.sample.fresh_displacement == found.sample.fresh_displacement
    other = ta.score(copied, view=view, fresh=4, seed=8)
    assert other.sample.fresh_displacement != found.sample.fresh_displacement
