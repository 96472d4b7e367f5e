"""The Gaussian view: accuracy against the dense formula, eigenpairs and memory."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from twoaxis.views import DEFAULT_BANDWIDTH, Gaussian
from twoaxis.views import kernel as pairs
from twoaxis.views.kernel import GridKernel, PairKernel, gaussian_kernel, layout_for

# What the docstring of Gaussian states for an entry of K, whose largest is 1.
ACCURACY = 1e-14


def dense(c, bandwidth):
    squares = sum((c[:, None, k] - c[None, :, k]) ** 2 for k in range(c.shape[1]))
    return np.exp(-squares / (2 * bandwidth**2))


def unit_points(size, axes, seed=0):
    points = np.random.default_rng(seed).random((size, axes))
    return (points - points.min(axis=0)) / np.ptp(points, axis=0)


def lattice(n, axes):
    c = np.linspace(0, 1, n)
    return np.stack(np.meshgrid(*[c] * axes, indexing="ij"), axis=-1).reshape(-1, axes)


def lattice_eigenvalues(n, axes, bandwidth):
    """All products of eigenvalues of one axis, descending."""
    one = np.linalg.eigvalsh(dense(np.linspace(0, 1, n)[:, None], bandwidth))
    products = one
    for _ in range(axes - 1):
        products = np.multiply.outer(products, one).ravel()
    return np.sort(products)[::-1]


def test_default_bandwidth_is_the_published_one():
    assert pytest.approx(0.051031, abs=5e-7) == DEFAULT_BANDWIDTH
    assert Gaussian().bandwidth == DEFAULT_BANDWIDTH


@pytest.mark.parametrize(
    ("axes", "bandwidth"),
    [
        *[(1, b) for b in (1e-3, 0.02, DEFAULT_BANDWIDTH, 0.3, 5.0)],
        *[(2, b) for b in (0.005, 0.02, DEFAULT_BANDWIDTH, 0.3, 5.0)],
        *[(3, b) for b in (DEFAULT_BANDWIDTH, 0.3, 5.0)],
    ],
)
@pytest.mark.parametrize("size", [300, 1500])
def test_grid_entries_are_accurate(size, axes, bandwidth):
    c = unit_points(size, axes)
    grid = GridKernel(c, layout_for(c, bandwidth))
    K = dense(c, bandwidth)
    some = np.eye(size)[:, :: size // 12]
    assert np.abs(grid.apply(some) - K @ some).max() <= ACCURACY
    r = np.random.default_rng(1).normal(size=(size, 2))
    ones = np.abs(r).sum(axis=0)
    assert np.abs(grid.apply(r) - K @ r).max() <= ACCURACY * ones.max()
    errors = np.abs(grid.quadratic(r, r) - r.T @ K @ r)
    assert (errors <= ACCURACY * np.outer(ones, ones)).all()
    # Sums of positive terms keep their relative accuracy.
    assert grid.total == pytest.approx(K.sum(), rel=1e-13)
    # So do smooth residuals, and white ones lose no more than dense arithmetic does.
    assert grid.quadratic(r, r).trace() == pytest.approx((r * (K @ r)).sum(), rel=1e-12)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("bandwidth", [0.02, DEFAULT_BANDWIDTH, 0.3])
def test_every_entry_is_accurate_however_points_are_boxed(axes, bandwidth):
    # The corners are nearest to the ends of the grid; a box for almost every point leaves
    # each of them its own smallest window.
    corners = lattice(2, axes)
    c = np.concatenate([corners, unit_points(120, axes), lattice(9, axes)])
    K = dense(c, bandwidth)
    layout = layout_for(c, bandwidth)
    for boxes in (1, 3, 500):
        grid = GridKernel(c, replace(layout, boxes=(boxes,) * axes))
        assert np.abs(grid.apply(np.eye(len(c))) - K).max() <= ACCURACY


def test_grid_handles_uneven_points():
    rng = np.random.default_rng(2)
    clump = 0.5 + 1e-4 * rng.normal(size=(900, 2))
    c = np.concatenate([clump, rng.random((100, 2)), [[0, 0], [1, 1]], clump[:50]])
    c = (c - c.min(axis=0)) / np.ptp(c, axis=0)
    r = rng.normal(size=(len(c), 1))
    K = dense(c, 0.01)
    grid = GridKernel(c, layout_for(c, 0.01))
    assert np.abs(grid.apply(r) - K @ r).max() <= ACCURACY * np.abs(r).sum()


def test_pairs_in_slabs(monkeypatch):
    monkeypatch.setattr(pairs, "SLAB_ENTRIES", 1000)  # 3 rows at a time, the last slab 1
    c = unit_points(301, 2)
    r = np.random.default_rng(1).normal(size=(301, 2))
    kernel, K = PairKernel(c, 0.1), dense(c, 0.1)
    np.testing.assert_allclose(kernel.apply(r), K @ r, atol=1e-12)
    np.testing.assert_allclose(kernel.quadratic(r, r), r.T @ K @ r, atol=1e-11)
    assert kernel.total == pytest.approx(K.sum(), rel=1e-14)


@pytest.mark.parametrize(
    ("size", "axes", "bandwidth", "kind"),
    [
        (2000, 1, DEFAULT_BANDWIDTH, GridKernel),
        (2000, 2, DEFAULT_BANDWIDTH, GridKernel),
        (4000, 3, DEFAULT_BANDWIDTH, GridKernel),
        (2000, 2, 0.01, GridKernel),
        (5, 2, DEFAULT_BANDWIDTH, PairKernel),
        (1000, 3, DEFAULT_BANDWIDTH, PairKernel),
        (2000, 6, DEFAULT_BANDWIDTH, PairKernel),
        (2000, 2, 1e-4, PairKernel),
        (50, 2, 1e-12, PairKernel),
        (50, 2, 1e12, GridKernel),
    ],
)
def test_the_faster_way_is_taken(size, axes, bandwidth, kind):
    c = unit_points(size, axes)
    kernel = gaussian_kernel(c, bandwidth)
    assert isinstance(kernel, kind)
    assert kernel.total == pytest.approx(dense(c, bandwidth).sum(), rel=1e-12)


@pytest.mark.parametrize("normalize", ["sum", "trace"])
def test_truncation_keeps_the_divisor_of_the_whole_kernel(normalize):
    c = unit_points(400, 2)
    K = dense(c, DEFAULT_BANDWIDTH)
    values, vectors = np.linalg.eigh(K)
    low = vectors[:, -64:] @ np.diag(values[-64:]) @ vectors[:, -64:].T
    divisor = K.sum() if normalize == "sum" else np.trace(K)
    bound = Gaussian(rank=64, normalize=normalize).bind(c)
    np.testing.assert_allclose(bound.matrix(), low / divisor, atol=1e-12 / divisor)
    np.testing.assert_allclose(bound.eigenpairs()[0], values[::-1][:64] / divisor, rtol=1e-10)


def test_a_truncated_kernel_is_semidefinite_where_rounding_is_not():
    points = unit_points(100, 1)
    assert Gaussian(bandwidth=1.0).bind(points).eigenpairs()[0].min() < 0
    assert Gaussian(bandwidth=1.0, rank=99).bind(points).eigenpairs()[0].min() == 0


# Each takes another way: products with K; a grid smaller than the points, iteratively; the
# same, decomposed whole; all pairs.
LEADING = {
    "points": (40, 2, DEFAULT_BANDWIDTH, 60),
    "points, three axes": (12, 3, 0.3, 30),
    "grid": (66, 2, 0.2, 40),
    "grid, whole": (400, 1, DEFAULT_BANDWIDTH, 20),
    "pairs": (5, 4, 0.1, 5),
    "pairs, six axes": (3, 6, 0.2, 7),
}


@pytest.mark.parametrize(
    ("n", "axes", "bandwidth", "count"),
    [
        pytest.param(*values, id=name, marks=[pytest.mark.long] * (name == "points, three axes"))
        for name, values in LEADING.items()
    ],
)
def test_leading_eigenpairs_without_the_matrix(n, axes, bandwidth, count):
    # A lattice has closed-form eigenvalues, most of them multiple: a Krylov space of one
    # vector misses copies (it does, with four and six axes).
    kernel = gaussian_kernel(lattice(n, axes), bandwidth)
    values, vectors = kernel.leading(count)
    expected = lattice_eigenvalues(n, axes, bandwidth)[:count]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * expected[0])
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(count), atol=1e-12)
    residual = kernel.apply(vectors) - vectors * values
    assert np.linalg.norm(residual, axis=0).max() <= 1e-11 * values[0]


def test_leading_eigenpairs_of_pairs_in_slabs(monkeypatch):
    monkeypatch.setattr(pairs, "HELD_POINTS", 0)
    kernel = PairKernel(lattice(20, 2), 0.2)
    values, _ = kernel.leading(6)
    np.testing.assert_allclose(values, lattice_eigenvalues(20, 2, 0.2)[:6], rtol=1e-11)


def test_leading_eigenpairs_of_many_points():
    points = unit_points(3200, 2)
    bound = Gaussian(bandwidth=0.1).bind(points)
    values, vectors = bound.eigenpairs(30)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(30), atol=1e-12)
    residual = bound.matrix() @ vectors - vectors * values
    assert np.linalg.norm(residual, axis=0).max() <= 1e-11 * values[0]
    # No eigenvalue above the last was missed: what is left has no larger one.
    left = bound.matrix() - vectors @ np.diag(values) @ vectors.T
    start = np.random.default_rng(0).normal(size=3200)
    for _ in range(30):
        start = left @ start
        start /= np.linalg.norm(start)
    assert start @ left @ start <= values[-1]


def test_no_more_eigenpairs_than_are_resolved():
    bound = Gaussian(bandwidth=0.5).bind(np.linspace(0, 1, 5000))
    values, vectors = bound.eigenpairs(200)
    assert 5 < values.size < 40
    assert values[-1] > 1e-13 * values[0]
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(values.size), atol=1e-12)
    truncated = Gaussian(bandwidth=0.5, rank=200).bind(np.linspace(0, 1, 5000))
    assert truncated.rank == values.size
    r = np.random.default_rng(0).normal(size=5000)
    assert truncated.quadratic(r, r) == pytest.approx(bound.quadratic(r, r), rel=1e-9)


def test_equal_input_gives_equal_eigenvectors():
    points = unit_points(3500, 2)
    one, other = (Gaussian(bandwidth=0.3).bind(points).eigenpairs(8) for _ in range(2))
    np.testing.assert_array_equal(one[1], other[1])


def test_memory_is_linear_in_the_number_of_points():
    """Beside the points: at most 150 bytes for each and 32 MB; the matrix would be 320 GB."""
    size = 200_000
    points = np.random.default_rng(0).random((size, 2))
    r = np.random.default_rng(1).normal(size=size)
    tracemalloc.start()
    bound = Gaussian().bind(points)
    loss = bound.quadratic(r, r)
    product = bound.apply(r)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 150 * size + 32 * 2**20
    assert loss == pytest.approx(r @ product, rel=1e-10)
    some = np.arange(0, size, size // 20)
    c = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    squares = ((c[some, None, :] - c[None, :, :]) ** 2).sum(axis=2)
    exact = np.exp(-squares / (2 * DEFAULT_BANDWIDTH**2)) @ r
    # The same divisor on both sides: only the product is compared here.
    divisor = 1 / bound.diagonal()[0]
    np.testing.assert_allclose(product[some] * divisor, exact, atol=ACCURACY * np.abs(r).sum())
