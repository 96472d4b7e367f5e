"""How much of a displacement is the sample of points: the jackknife and fresh points."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis import views

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


def wavy(points):
    x, y = points.T
    return 1 + 0.5 * np.sin(3 * x), 0.3 * np.sin(17 * x + 1) * np.cos(29 * y) + 0.1


VIEWS = {
    "patch": views.Patch(cells=3),
    "Gaussian": views.Gaussian(),
    "Gaussian, rank": views.Gaussian(rank=12),
    "weighted": views.Weighted(np.random.default_rng(1).random(150)),
    "dense": views.Dense(np.eye(150) + np.ones((150, 150))),
}


def rough(points):
    """A residual with structure finer than a cell, as that of a badly trained field."""
    x, y = points.T
    return 1 + 0.5 * np.sin(3 * x), 0.3 * np.sin(170 * x + 31) * np.cos(190 * y) + 0.1


@pytest.mark.parametrize("field", [rough, wavy], ids=["rough", "smooth"])
@pytest.mark.parametrize(
    ("view", "samples", "size"),
    [
        (views.Pointwise(), 100, 200),
        (views.Pointwise(), 60, 2000),
        (views.Patch(cells=4), 100, 400),
        (views.Gaussian(bandwidth=0.2), 60, 300),
    ],
    ids=["pointwise", "pointwise, many", "patch", "Gaussian"],
)
def test_the_standard_error_is_the_spread_over_samples(field, view, samples, size):
    displacements, errors = [], []
    for seed in range(samples):
        points = np.random.default_rng(seed).random((size, 2))
        found = ta.score(frozen_at(points, field), view=view)
        displacements.append(found.displacement["k"])
        errors.append(found.sampling_deviation["k"])
    spread = np.std(displacements, ddof=1)
    assert 0.7 < np.sqrt(np.mean(np.square(errors))) / spread < 1.4


def test_the_influence_of_a_point_is_what_its_removal_does():
    points = np.random.default_rng(3).random((300, 2))
    J, r = wavy(points)

    def displacement(kept):
        return -(J[kept] @ r[kept]) / (J[kept] @ J[kept])

    whole = displacement(np.ones(300, dtype=bool))
    moved = [displacement(np.arange(300) != i) - whole for i in range(300)]
    found = ta.score(frozen_at(points, wavy), view=views.Pointwise()).sampling_deviation["k"]
    assert found == pytest.approx(np.sqrt(np.sum(np.square(moved))), rel=0.02)


def test_several_parameters_have_standard_errors_of_their_own():
    spread, errors = [], []
    for seed in range(80):
        points = np.random.default_rng(seed).random((300, 2))
        x, y = points.T
        J = np.column_stack([1 + x, np.cos(3 * y)])
        r = 0.3 * np.sin(40 * x) * np.cos(37 * y) + 0.1
        names = {n: ta.Parameter(truth=1.0, bounds=(0.1, 10)) for n in "ab"}
        frozen = ta.FrozenResidual(lambda a, b, r=r, J=J: r + J @ np.log([a, b]), names, points)
        found = ta.score(frozen, view=views.Pointwise())
        spread.append(list(found.displacement.values()))
        errors.append(list(found.sampling_deviation.values()))
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / np.std(spread, axis=0, ddof=1)
    assert (ratio > 0.75).all()
    assert (ratio < 1.35).all()


def test_no_spread_where_every_point_says_the_same():
    points = np.random.default_rng(0).random((200, 2))
    found = ta.score(
        frozen_at(points, lambda p: (np.ones(len(p)), np.full(len(p), 0.3))),
        view=views.Pointwise(),
    )
    assert found.displacement["k"] == pytest.approx(-0.3)
    assert found.sampling_deviation["k"] < 1e-14


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
    assert 0 < found.sampling_deviation["k"] < 0.1


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
        D, fresh = found.displacement["k"], found.fresh_displacement["k"]
        assert found.fresh_points == 8000
        assert abs(D) > 0.1
        # 8,000 points leave 1 / sqrt(8000) of the ripple, about 0.006.
        assert fresh == pytest.approx(0.2 if remains else 0.0, abs=0.02)
        # The jackknife alone warns already.
        assert (abs(D) > 3 * found.sampling_deviation["k"]) == remains
        assert found.summary()["fresh_displacement"].tolist() == [fresh]
        assert found.data["fresh_displacement"].values.tolist() == [fresh]


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
    assert found.fresh_displacement["k"] == pytest.approx(alone, rel=1e-5)
    again = ta.score(copied, view=view, fresh=4, seed=7)
    assert again.fresh_displacement == found.fresh_displacement
    other = ta.score(copied, view=view, fresh=4, seed=8)
    assert other.fresh_displacement != found.fresh_displacement
