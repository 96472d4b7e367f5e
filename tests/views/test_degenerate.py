"""One point, one cell, repeated points, points on a line, fewer points than the rank."""

import numpy as np
import pytest

from twoaxis.views import Blocks, Dense, Gaussian, Patch, Pointwise, Weighted

VIEWS = {
    "pointwise": Pointwise(),
    "patch": Patch(),
    "Gaussian": Gaussian(),
    "Gaussian, rank": Gaussian(rank=64),
    "weighted": Weighted(loss_weights=[1.0]),
    "dense": Dense([[1.0]]),
    "blocks": Blocks([Patch()]),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("points", [[3.0], [[3.0, -1.0]], [[0.0] * 7]], ids=["1", "2", "7"])
def test_one_point_makes_every_view_the_square(view, points):
    bound = view.bind(np.array(points))
    assert (bound.size, bound.rank) == (1, 1)
    assert bound.quadratic([3.0], [3.0]) == pytest.approx(9.0, rel=1e-13)
    assert bound.apply([2.0]) == pytest.approx([2.0], rel=1e-13)
    values, vectors = bound.eigenpairs()
    np.testing.assert_allclose(values, [1.0], rtol=1e-13)
    np.testing.assert_array_equal(vectors, [[1.0]])


def test_one_cell_is_the_square_of_the_mean():
    r = np.array([1.0, 2.0, 6.0])
    bound = Patch(cells=1).bind([[0, 0], [1, 2], [3, 4]])
    assert bound.rank == 1
    assert bound.quadratic(r, r) == 9.0
    values, vectors = bound.eigenpairs()
    np.testing.assert_allclose(values, [1 / 3])
    np.testing.assert_allclose(vectors, np.full((3, 1), 3**-0.5))


@pytest.mark.parametrize("size", [2, 5000])
@pytest.mark.parametrize("view", [Patch(), Gaussian(), Gaussian(rank=9)], ids=str)
def test_all_points_the_same_is_the_square_of_the_mean(view, size):
    bound = view.bind(np.full((size, 2), 0.3))
    r = np.random.default_rng(0).normal(size=size) + 1
    assert bound.quadratic(r, r) == pytest.approx(r.mean() ** 2, rel=1e-12)
    values, vectors = bound.eigenpairs(1)
    np.testing.assert_allclose(values, [1 / size], rtol=1e-12)
    np.testing.assert_allclose(vectors[:, 0], size**-0.5, rtol=1e-10)


@pytest.mark.parametrize("view", [Patch(), Gaussian(), Gaussian(rank=3)], ids=str)
def test_repeated_points_are_seen_as_one(view):
    points = np.repeat([[0.0, 0.0], [0.2, 0.9], [1.0, 0.4]], [2, 3, 1], axis=0)
    bound = view.bind(points)
    apart = np.array([1.0, -1.0, 2.0, -1.0, -1.0, 0.0])
    assert abs(bound.quadratic(apart, apart)) <= 1e-30 + 1e-15 * (view != Patch())
    assert np.count_nonzero(bound.eigenpairs()[0] > 1e-14) == 3


@pytest.mark.parametrize(
    "view", [Patch(), Gaussian(), Gaussian(rank=20), Gaussian(bandwidth=0.01)], ids=str
)
def test_a_constant_coordinate_does_not_count(view):
    along = np.random.default_rng(0).random(300)
    r = np.random.default_rng(1).normal(size=300)
    alone = view.bind(along).quadratic(r, r)
    flat = np.column_stack([np.full(300, 1e6), along, np.zeros(300)])
    assert view.bind(flat).quadratic(r, r) == pytest.approx(alone, rel=1e-11)


def test_points_on_a_diagonal_occupy_the_diagonal_cells():
    t = np.linspace(0, 1, 80)
    assert Patch(cells=8).bind(np.column_stack([t, 2 * t + 1])).rank == 8


def test_cells_are_half_open_and_the_last_one_closed():
    bound = Patch(cells=4).bind([0.0, 0.2499, 0.25, 0.5, 0.75, 1.0])
    same = bound.matrix() > 0
    expected = np.array([0, 0, 1, 2, 3, 3])
    np.testing.assert_array_equal(same, expected[:, None] == expected)


def test_more_rank_than_points_keeps_them_all():
    points = np.random.default_rng(0).random((10, 2))
    bound = Gaussian(rank=64).bind(points)
    assert bound.rank == 10
    np.testing.assert_allclose(bound.matrix(), Gaussian().bind(points).matrix(), rtol=1e-14)


def test_coordinates_of_any_size():
    r = np.array([1.0, -2.0, 4.0])
    plain = [view.bind([0.0, 0.5, 1.0]).quadratic(r, r) for view in (Patch(3), Gaussian())]
    for points in ([-1.7e308, 0.0, 1.7e308], [1e-300, 2e-300, 3e-300], [7, 8, 9]):
        found = [view.bind(points).quadratic(r, r) for view in (Patch(3), Gaussian())]
        np.testing.assert_allclose(found, plain, rtol=1e-12)


def test_extreme_bandwidths():
    points, r = np.linspace(0, 1, 6), np.arange(6.0)
    narrow = Gaussian(bandwidth=1e-12).bind(points)
    assert narrow.quadratic(r, r) == pytest.approx(Pointwise().bind(points).quadratic(r, r))
    wide = Gaussian(bandwidth=1e12).bind(points)
    assert wide.quadratic(r, r) == pytest.approx(r.mean() ** 2)


def test_many_axes_and_cells_do_not_overflow():
    points = np.random.default_rng(0).random((50, 40))
    bound = Patch(cells=1000).bind(points)
    assert bound.rank == 50
    assert bound.quadratic(np.ones(50), np.ones(50)) == pytest.approx(1.0)


def test_blocks_of_blocks_and_of_one():
    points = np.random.default_rng(0).random((30, 2))
    r = np.random.default_rng(1).normal(size=90)
    nested = Blocks([Blocks([Patch(), Gaussian()], weights=[1.0, 2.0]), Pointwise()], [3.0, 4.0])
    flat = Blocks([Patch(), Gaussian(), Pointwise()], [3.0, 6.0, 4.0])
    assert nested.bind(points).quadratic(r, r) == pytest.approx(flat.bind(points).quadratic(r, r))


def test_a_view_does_not_change_with_the_array_it_was_made_from():
    w, M = np.ones(3), np.eye(3)
    views = [Weighted(loss_weights=w), Dense(M), Blocks([Pointwise()] * 3, weights=w)]
    w[:], M[:] = 7.0, 7.0
    points = np.arange(3.0)
    losses = [view.bind(points).quadratic(*[np.ones(view.bind(points).size)] * 2) for view in views]
    np.testing.assert_allclose(losses, [1.0, 3.0, 3.0])
