"""One contract for every view: it acts like the dense matrix that its formula says.

The matrices are written out here by loops, independently of the source.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from twoaxis.views import (
    Blocks,
    BoundView,
    Dense,
    Gaussian,
    Patch,
    Pointwise,
    View,
    Weighted,
)

RNG = np.random.default_rng(7)
PLANE = np.column_stack([RNG.uniform(-3, 5, 60), RNG.gamma(2.0, size=60)])
LINE = RNG.normal(size=45)
SPACE = RNG.random((50, 3))
FIVE = RNG.random((40, 5))
WEIGHTS = np.where(RNG.random(60) < 0.2, 0.0, RNG.random(60))
PUBLISHED = 1 / (8 * np.sqrt(6))
ROOT = RNG.normal(size=(60, 9))


def unit(points):
    points = np.asarray(points, dtype=float).reshape(len(points), -1)
    columns = []
    for column in points.T:
        low, high = min(column), max(column)
        columns.append([(c - low) / (high - low) if high > low else 0.0 for c in column])
    return np.array(columns).T


def patch_matrix(points, cells):
    members = {}
    for i, c in enumerate(unit(points)):
        key = tuple(min(int(np.floor(x * n)), n - 1) for x, n in zip(c, cells, strict=True))
        members.setdefault(key, []).append(i)
    A = np.zeros((len(members), len(points)))
    for row, own in enumerate(members.values()):
        A[row, own] = 1 / len(own)
    return A.T @ A / len(members)


def kernel(points, bandwidth=PUBLISHED):
    c = unit(points)
    K = np.empty((len(c), len(c)))
    for i in range(len(c)):
        K[i] = np.exp(-((c - c[i]) ** 2).sum(axis=1) / (2 * bandwidth**2))
    return K


def truncated(K, rank):
    values, vectors = np.linalg.eigh(K)
    return vectors[:, -rank:] @ np.diag(values[-rank:]) @ vectors[:, -rank:].T


def block(*matrices):
    size = sum(map(len, matrices))
    joined, start = np.zeros((size, size)), 0
    for m in matrices:
        joined[start : start + len(m), start : start + len(m)] = m
        start += len(m)
    return joined


@dataclass
class Case:
    view: View
    points: Any
    matrix: np.ndarray
    rank: int = 0  # 0: that of the matrix

    def __post_init__(self):
        self.rank = self.rank or np.linalg.matrix_rank(self.matrix)


CASES = {
    "pointwise": Case(Pointwise(), PLANE, np.eye(60) / 60, 60),
    "patch": Case(Patch(), PLANE, patch_matrix(PLANE, (8, 8))),
    "patch, cells an axis": Case(Patch((2, 5)), PLANE, patch_matrix(PLANE, (2, 5))),
    "patch, one axis": Case(Patch(cells=7), LINE, patch_matrix(LINE, (7,))),
    "patch, five axes": Case(Patch(cells=2), FIVE, patch_matrix(FIVE, (2,) * 5)),
    "Gaussian": Case(Gaussian(), PLANE, kernel(PLANE) / kernel(PLANE).sum(), 60),
    "Gaussian, trace": Case(Gaussian(normalize="trace"), PLANE, kernel(PLANE) / 60, 60),
    "Gaussian, one axis": Case(Gaussian(), LINE, kernel(LINE) / kernel(LINE).sum(), 45),
    "Gaussian, three axes": Case(
        Gaussian(bandwidth=0.3), SPACE, kernel(SPACE, 0.3) / kernel(SPACE, 0.3).sum(), 50
    ),
    "Gaussian, five axes": Case(
        Gaussian(bandwidth=0.5), FIVE, kernel(FIVE, 0.5) / kernel(FIVE, 0.5).sum(), 40
    ),
    "Gaussian, rank": Case(
        Gaussian(rank=6), PLANE, truncated(kernel(PLANE), 6) / kernel(PLANE).sum(), 6
    ),
    "Gaussian, rank and trace": Case(
        Gaussian(rank=6, normalize="trace"), PLANE, truncated(kernel(PLANE), 6) / 60, 6
    ),
    "weighted": Case(
        Weighted(loss_weights=WEIGHTS), PLANE, np.diag(WEIGHTS) / 60, np.count_nonzero(WEIGHTS)
    ),
    "dense": Case(Dense(ROOT @ ROOT.T), PLANE, ROOT @ ROOT.T, 60),
    "blocks, shared points": Case(
        Blocks([Patch(cells=3), Pointwise()], weights=[2.0, 0.25]),
        LINE,
        block(2.0 * patch_matrix(LINE, (3,)), 0.25 * np.eye(45) / 45),
        48,
    ),
    "blocks, own points": Case(
        Blocks([Gaussian(rank=4), Weighted(WEIGHTS), Patch(cells=2)], weights=[3.0, 1.0, 0.0]),
        [LINE, PLANE, SPACE],
        block(
            3.0 * truncated(kernel(LINE), 4) / kernel(LINE).sum(),
            np.diag(WEIGHTS) / 60,
            np.zeros((50, 50)),
        ),
        4 + np.count_nonzero(WEIGHTS),
    ),
}
BOUND = {name: case.view.bind(case.points) for name, case in CASES.items()}
every_view = pytest.mark.parametrize("name", CASES)


def close(found, wanted, scale):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * scale)


def test_every_view_is_here():
    # Views that other tests made for themselves are not ours.
    final = {view for view in View.__subclasses__() if view.__module__.startswith("twoaxis.")}
    assert final == {type(case.view) for case in CASES.values()}
    assert not any(view.__subclasses__() for view in final)  # final: nothing is overridden


@every_view
def test_matrix_is_the_formula_written_out(name):
    case, bound = CASES[name], BOUND[name]
    assert isinstance(bound, BoundView)
    assert bound.size == len(case.matrix)
    assert bound.rank == case.rank
    matrix = bound.matrix()
    assert matrix.shape == case.matrix.shape
    close(matrix, case.matrix, np.abs(case.matrix).max())
    close(bound.diagonal(), np.diag(case.matrix), np.abs(case.matrix).max())
    close(matrix, matrix.T, np.abs(matrix).max())


@every_view
def test_eigenpairs_reconstruct_the_matrix(name):
    case, bound = CASES[name], BOUND[name]
    values, vectors = bound.eigenpairs()
    size = np.abs(case.matrix).sum(axis=1).max()
    assert vectors.shape == (bound.size, values.size)
    assert values.size == case.rank
    assert (np.diff(values) <= 0).all()
    assert values.min() >= -1e-14 * values.max()
    close(vectors.T @ vectors, np.eye(values.size), 1)
    close(vectors @ np.diag(values) @ vectors.T, case.matrix, size)
    close(values, np.linalg.eigvalsh(case.matrix)[::-1][: values.size], size)


@every_view
def test_leading_eigenpairs_are_the_first_of_all(name):
    bound = BOUND[name]
    everything, _ = bound.eigenpairs()
    for count in (1, 3, 10_000):
        values, vectors = bound.eigenpairs(count)
        assert values.size == vectors.shape[1] == min(count, bound.rank)
        close(values, everything[: values.size], everything[0])
        close(bound.apply(vectors), vectors * values, everything[0])
        close(vectors.T @ vectors, np.eye(values.size), 1)


@every_view
def test_the_largest_entry_of_an_eigenvector_is_positive(name):
    _, vectors = BOUND[name].eigenpairs(5)
    assert (vectors.max(axis=0) >= -vectors.min(axis=0)).all()


@every_view
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_algebra(name, data):
    case, bound = CASES[name], BOUND[name]
    numbers = st.floats(-1e3, 1e3)
    left, right = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    a = data.draw(arrays(float, (bound.size, left), elements=numbers))
    b = data.draw(arrays(float, (bound.size, right), elements=numbers))
    # The size that rounding is measured against: the same sums without signs.
    scale = np.abs(a).sum() * np.abs(case.matrix).max() * np.abs(b).sum() + 1e-300
    close(bound.apply(b), case.matrix @ b, np.abs(case.matrix).max() * np.abs(b).sum() + 1e-300)
    close(bound.quadratic(a, b), a.T @ case.matrix @ b, scale)
    close(bound.quadratic(a, b), bound.quadratic(b, a).T, scale)
    close(bound.quadratic(a, b), a.T @ bound.apply(b), scale)
    one = bound.quadratic(a, a)
    assert (np.diag(one) >= 0).all()
    assert np.linalg.eigvalsh((one + one.T) / 2)[0] >= -1e-12 * np.abs(one).max()
    close(bound.quadratic(-2.0 * a, b), -2.0 * bound.quadratic(a, b), 2 * scale)


@every_view
def test_shapes(name):
    bound = BOUND[name]
    a, b = RNG.normal(size=(bound.size, 2)), RNG.normal(size=(bound.size, 3))
    table = bound.quadratic(a, b)
    assert table.shape == (2, 3)
    assert bound.apply(a).shape == a.shape
    assert bound.apply(a[:, 0]).shape == (bound.size,)
    np.testing.assert_allclose(bound.apply(a[:, 0]), bound.apply(a)[:, 0], rtol=1e-12)
    scalar = bound.quadratic(a[:, 1], b[:, 2])
    assert isinstance(scalar, float)
    np.testing.assert_allclose(scalar, table[1, 2], rtol=1e-9)
    np.testing.assert_allclose(bound.quadratic(a[:, 1], b), table[1], rtol=1e-9)
    np.testing.assert_allclose(bound.quadratic(a, b[:, 2]), table[:, 2], rtol=1e-9)


@every_view
def test_what_comes_out_is_a_copy(name):
    bound, size = BOUND[name], BOUND[name].size
    before = bound.apply(np.ones(size))
    for array in (bound.matrix(), bound.diagonal(), *bound.eigenpairs(2)):
        array += 1.0
    np.testing.assert_array_equal(bound.apply(np.ones(size)), before)


@every_view
def test_descriptions_are_words(name):
    assert len(CASES[name].view.describe()) > 4
    assert "points" in BOUND[name].describe()


@pytest.mark.parametrize(
    "view",
    [Pointwise(), Patch(), Patch(cells=(3, 1)), Gaussian(), Gaussian(bandwidth=3.0)],
    ids=str,
)
def test_a_constant_residual_of_one_has_loss_one(view):
    ones = np.ones(60)
    assert view.bind(PLANE).quadratic(ones, ones) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("view", [Patch(cells=5), Gaussian(), Gaussian(rank=5)], ids=str)
@settings(max_examples=20, deadline=None)
@given(
    steps=st.tuples(st.integers(-8, 8), st.integers(-8, 8)),
    shift=st.integers(-4, 4),
    swap=st.booleans(),
)
def test_units_and_order_of_coordinates_do_not_matter(view, steps, shift, swap):
    # Whole numbers and powers of two: the change of units is exact.
    points = np.random.default_rng(3).integers(0, 100, (40, 2)).astype(float)
    moved = points * 2.0 ** np.array(steps) + shift * 2.0 ** np.array(steps)
    moved = moved[:, ::-1] if swap else moved
    r = np.random.default_rng(4).normal(size=40)
    expected = view.bind(points).quadratic(r, r)
    assert view.bind(moved).quadratic(r, r) == pytest.approx(expected, rel=1e-9)
