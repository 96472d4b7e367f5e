"""Every bad input ends in an error that says what was expected, what came and how to fix it."""

import numpy as np
import pytest

from twoaxis.errors import InputError
from twoaxis.views import Blocks, Dense, Gaussian, Patch, Pointwise, Weighted

X = np.random.default_rng(0).random((6, 2))
HOLES = X.copy()
HOLES[[1, 4], 0] = np.nan
NAN = float("nan")


def says(*words):
    """A pattern that finds the words in this order."""
    return "(?s)" + ".*".join(words)


BUILD = {
    "no cells": (lambda: Patch(cells=0), says("at least 1", "cells=0", "cells=8")),
    "negative cells": (lambda: Patch(cells=(8, -1)), says("at least 1", r"\(8, -1\)")),
    "fractional cells": (lambda: Patch(cells=2.5), says("integer", "2.5")),
    "boolean cells": (lambda: Patch(cells=True), says("integer", "True")),
    "empty cells": (lambda: Patch(cells=()), says("integer", r"cells=\(\)")),
    "words as cells": (lambda: Patch(cells="many"), says("integer", "many")),
    "too many cells": (lambda: Patch(cells=10**30), says("integer", "cells=10")),
    "zero bandwidth": (
        lambda: Gaussian(bandwidth=0.0),
        says("bandwidth from", "bandwidth=0.0", r"Pointwise\(\)"),
    ),
    "negative bandwidth": (lambda: Gaussian(bandwidth=-0.1), says("bandwidth", "-0.1")),
    "NaN bandwidth": (lambda: Gaussian(bandwidth=NAN), says("bandwidth", "nan")),
    "infinite bandwidth": (lambda: Gaussian(bandwidth=np.inf), says("inf", r"Patch\(cells=1\)")),
    "bandwidth not a number": (lambda: Gaussian(bandwidth="wide"), says("bandwidth", "wide")),
    "rank zero": (lambda: Gaussian(rank=0), says("rank", "rank=0", "rank=64")),
    "rank fractional": (lambda: Gaussian(rank=6.4), says("rank", "6.4")),
    "unknown normalization": (
        lambda: Gaussian(normalize="max"),
        says('normalize="sum" or "trace"', "max"),
    ),
    "negative weights": (
        lambda: Weighted(loss_weights=[1.0, -2.0, -3.0]),
        says("not negative", "2 negative of 3", "-3", "squares"),
    ),
    "all weights zero": (lambda: Weighted([0.0, 0.0]), says("at least one positive", "2 zeros")),
    "NaN weights": (lambda: Weighted([1.0, NAN]), says("finite loss_weights", "1 of 2", "index 1")),
    "weights in a table": (lambda: Weighted(np.ones((2, 2))), says("shape", r"\(2, 2\)")),
    "no weights": (lambda: Weighted([]), says("at least 1", r"\(0,\)")),
    "complex weights": (lambda: Weighted([1j]), says("real numbers", "complex128")),
    "matrix not square": (lambda: Dense(np.ones((3, 4))), says("square", r"\(3, 4\)")),
    "matrix a vector": (lambda: Dense(np.ones(3)), says("square", r"\(3,\)", "Weighted")),
    "empty matrix": (lambda: Dense(np.ones((0, 0))), says("square", r"\(0, 0\)")),
    "matrix not symmetric": (
        lambda: Dense([[1.0, 0.5], [0.0, 1.0]]),
        says("symmetric", "0.5", r"\(M \+ M.T\) / 2"),
    ),
    "matrix indefinite": (
        lambda: Dense([[1.0, 2.0], [2.0, 1.0]]),
        says("semidefinite", "smallest eigenvalue of -1"),
    ),
    "matrix zero": (lambda: Dense(np.zeros((2, 2))), says("not zero", "zeros only")),
    "matrix with NaN": (lambda: Dense([[NAN, 0], [0, 1.0]]), says("finite", "1 of 2", "index 0")),
    "no views": (lambda: Blocks([]), says("one view for each equation", r"\[\]")),
    "not views": (lambda: Blocks([Patch(), "patch"]), says("one view", "'patch'", "Blocks")),
    "weights of too few blocks": (
        lambda: Blocks([Patch(), Patch()], weights=[1.0]),
        says("each of the 2 views", "1 weights"),
    ),
    "negative weight of a block": (
        lambda: Blocks([Patch()], weights=[-1.0]),
        says("weights that are not negative"),
    ),
    "blocks without weight": (
        lambda: Blocks([Patch()] * 2, weights=[0.0, 0.0]),
        says("at least one positive"),
    ),
}


@pytest.mark.parametrize(("build", "message"), BUILD.values(), ids=BUILD)
def test_a_view_cannot_be_built(build, message):
    with pytest.raises(InputError, match=message):
        build()


POINTS = {
    "no points": (np.empty((0, 2)), says("at least one point", r"\(0, 2\)")),
    "no coordinates": (np.empty((3, 0)), says("at least one point", r"\(3, 0\)")),
    "a number": (3.0, says("shape", r"\(\)", "column_stack")),
    "a cube": (np.zeros((2, 2, 2)), says("shape", r"\(2, 2, 2\)")),
    "NaN": (HOLES, says("finite points", "2 of 6", "index 1, 4", "drop")),
    "infinity": (np.array([0.0, np.inf]), says("finite points", "1 of 2")),
    "complex": (np.array([1j, 2]), says("real numbers", "complex128")),
    "words": (np.array(["a", "b"]), says("real numbers", "U1")),
    "ragged": ([[0.0], [0.0, 1.0]], says("array of numbers")),
}
ANY = [Pointwise(), Patch(), Gaussian(), Gaussian(rank=2), Weighted(np.ones(6)), Dense(np.eye(6))]


@pytest.mark.parametrize("view", ANY, ids=lambda view: view.describe())
@pytest.mark.parametrize(("points", "message"), POINTS.values(), ids=POINTS)
def test_points_cannot_be_used(view, points, message):
    with pytest.raises(InputError, match=message):
        view.bind(points)
    with pytest.raises(InputError, match=message):
        Blocks([view]).bind([points])


BIND = {
    "cells of other axes": (
        Patch(cells=(2, 2, 2)),
        X,
        says("each of the 2 coordinates", r"cells=\(2, 2, 2\)"),
    ),
    "weights of other points": (Weighted(np.ones(5)), X, says("each of the 6 points", "5 weights")),
    "matrix of other points": (Dense(np.eye(5)), X, says("6 by 6", r"\(5, 5\)")),
    "points of too few blocks": (
        Blocks([Patch(), Patch()]),
        [X, X, X],
        says("a list of 2 arrays", "a list of 3", "asarray"),
    ),
}


@pytest.mark.parametrize(("view", "points", "message"), BIND.values(), ids=BIND)
def test_view_and_points_do_not_fit(view, points, message):
    with pytest.raises(InputError, match=message):
        view.bind(points)


VECTORS = {
    "too short": (np.ones(5), says(r"shape \(6,\)", r"\(5,\)", "bound to")),
    "a row": (np.ones((1, 6)), says(r"\(6, d\)", r"\(1, 6\)")),
    "a cube": (np.ones((6, 1, 1)), says(r"\(6, d\)", r"\(6, 1, 1\)")),
    "a number": (1.0, says(r"\(6, d\)", r"\(\)")),
    "complex": (1j * np.ones(6), says("real numbers", "complex128")),
    "NaN": (HOLES, says("finite", "2 of 6", "index 1, 4")),
}


@pytest.mark.parametrize("view", [*ANY, Blocks([Pointwise()])], ids=lambda view: view.describe())
@pytest.mark.parametrize(("vectors", "message"), VECTORS.values(), ids=VECTORS)
def test_vectors_cannot_be_used(view, vectors, message):
    bound, good = view.bind(X), np.ones(6)
    for call in (
        lambda: bound.apply(vectors),
        lambda: bound.quadratic(vectors, good),
        lambda: bound.quadratic(good, vectors),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_many_bad_entries_are_counted_and_some_named():
    r = np.full(6, NAN)
    with pytest.raises(InputError, match=says("6 of 6", "0, 1, 2, 3, 4, ...")):
        Pointwise().bind(X).apply(r)


def test_finite_numbers_whose_sum_is_not_are_accepted():
    r = np.full(6, 1.7e308)
    np.testing.assert_allclose(Pointwise().bind(X).apply(r), r / 6)


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "all"])
def test_count_of_eigenpairs(count):
    with pytest.raises(InputError, match=says("count", "count=")):
        Patch().bind(X).eigenpairs(count)


def test_rounding_errors_of_a_dense_matrix_are_forgiven():
    root = np.random.default_rng(0).normal(size=(30, 4))
    M = root @ root.T
    M[3, 5] += 1e-12
    matrix = Dense(M - 1e-12 * np.eye(30)).bind(np.arange(30.0)).matrix()
    np.testing.assert_array_equal(matrix, matrix.T)
    with pytest.raises(InputError, match="semidefinite"):
        Dense(M - 1e-6 * np.eye(30))
    M[3, 5] += 1e-6
    with pytest.raises(InputError, match="symmetric"):
        Dense(M)


def test_large_matrices_are_formed_only_on_demand():
    bound = Patch(cells=4).bind(np.linspace(0, 1, 20_001))
    with pytest.raises(InputError, match=says("20,000", "20,001", "3 GB", "force=True")):
        bound.matrix()
    values, _ = bound.eigenpairs()
    assert values.size == 4
    for view in (Pointwise(), Gaussian()):
        with pytest.raises(InputError, match=says("eigenvectors", r"count=64\)")):
            view.bind(np.linspace(0, 1, 20_001)).eigenpairs()
