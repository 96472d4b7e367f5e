"""Views as plain values and back: the same operator, and nothing but views from a file."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from twoaxis.errors import InputError
from twoaxis.views import Blocks, Dense, Gaussian, Patch, Pointwise, View, Weighted
from twoaxis.views.encoding import view_from_plain, view_to_plain

POINTS = np.random.default_rng(0).uniform([-1, 0], [1, 1], (12, 2))
FACTOR = np.random.default_rng(1).normal(size=(5, 12))

VIEWS = {
    "pointwise": Pointwise(),
    "patch": Patch(cells=3),
    "patch with cells of each axis": Patch(cells=(3, 2)),
    "gaussian": Gaussian(),
    "gaussian with options": Gaussian(bandwidth=0.3, rank=4, normalize="trace"),
    "weighted": Weighted(loss_weights=np.linspace(0, 1, 12) ** 3),
    "dense": Dense(FACTOR.T @ FACTOR),
}


def through_json(plain):
    return json.loads(json.dumps(plain))


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_round_trip(view):
    plain, array = view_to_plain(view, POINTS)
    loaded = view_from_plain(through_json(plain), array)
    assert type(loaded) is type(view)
    assert loaded.describe() == view.describe()
    np.testing.assert_array_equal(loaded.bind(POINTS).matrix(), view.bind(POINTS).matrix())
    again, same = view_to_plain(loaded, POINTS)
    assert through_json(again) == through_json(plain)
    np.testing.assert_array_equal(same, array)


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("weighted", "dense")])
def test_views_of_options_are_equal(name):
    plain, array = view_to_plain(VIEWS[name], POINTS)
    assert array is None
    assert view_from_plain(through_json(plain)) == VIEWS[name]


@dataclass(frozen=True)
class Own(View):
    """A view of one's own: every second point."""

    def bind(self, points):
        return Weighted(loss_weights=np.arange(len(points)) % 2.0).bind(points)

    def describe(self):
        return "every second point"


def test_a_view_of_ones_own_becomes_its_matrix():
    plain, array = view_to_plain(Own(), POINTS)
    assert plain == {"kind": "dense", "was": "every second point"}
    loaded = view_from_plain(through_json(plain), array)
    r = np.arange(12.0)
    wanted = Own().bind(POINTS).quadratic(r, r)
    assert loaded.bind(POINTS).quadratic(r, r) == pytest.approx(wanted, rel=1e-12)


BLOCKS = {
    "without arrays": (Blocks([Pointwise(), Patch(cells=(3, 2))], weights=[1.0, 0.5]), 2),
    "with arrays": (Blocks([VIEWS["weighted"], Gaussian(rank=4), VIEWS["dense"]]), 3),
    "with a view of one's own": (Blocks([Own(), VIEWS["weighted"]], weights=[0.25, 4.0]), 2),
}


@pytest.mark.parametrize(("view", "count"), BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("shared", [True, False], ids=["the same points", "points of their own"])
def test_blocks(view, count, shared):
    points = POINTS if shared else [POINTS[::-1].copy() for _ in range(count)]
    plain, array = view_to_plain(view, points)
    loaded = view_from_plain(through_json(plain), array)
    np.testing.assert_allclose(
        loaded.bind(points).matrix(), view.bind(points).matrix(), rtol=1e-13, atol=1e-300
    )
    assert loaded.bind(points).matrix().shape == (12 * count, 12 * count)


def deep(levels):
    plain = {"kind": "pointwise"}
    for _ in range(levels):
        plain = {"kind": "blocks", "views": [plain], "weights": [1.0]}
    return plain


WEIGHTED = {"kind": "weighted", "shape": [3]}
BROKEN_BLOCKS = {
    "no blocks": ({"kind": "blocks", "views": [], "weights": []}, None),
    "blocks that are a number": ({"kind": "blocks", "views": 3, "weights": [1.0]}, None),
    "blocks that are text": ({"kind": "blocks", "views": "all", "weights": [1.0]}, None),
    "more weights than blocks": (
        {"kind": "blocks", "views": [{"kind": "pointwise"}], "weights": [1.0, 1.0]},
        None,
    ),
    "weights of text": (
        {"kind": "blocks", "views": [{"kind": "pointwise"}], "weights": ["a"]},
        None,
    ),
    "no array": ({"kind": "blocks", "views": [WEIGHTED], "weights": [1.0]}, None),
    "half an array": ({"kind": "blocks", "views": [WEIGHTED], "weights": [1.0]}, np.ones(2)),
    "too much of an array": ({"kind": "blocks", "views": [WEIGHTED], "weights": [1.0]}, np.ones(4)),
    "a shape below zero": (
        {"kind": "blocks", "views": [{"kind": "weighted", "shape": [-3]}], "weights": [1.0]},
        np.ones(3),
    ),
    "a shape of text": (
        {"kind": "blocks", "views": [{"kind": "weighted", "shape": "3"}], "weights": [1.0]},
        np.ones(3),
    ),
    "a shape beyond all memory": (
        {"kind": "blocks", "views": [{"kind": "dense", "shape": [10**30] * 2}], "weights": [1.0]},
        np.ones(3),
    ),
    "an option that is not for files": (
        {"kind": "blocks", "views": [], "weights": [], "depth": -9},
        None,
    ),
    "blocks without end": (deep(60), None),
}


@pytest.mark.parametrize(("plain", "array"), BROKEN_BLOCKS.values(), ids=BROKEN_BLOCKS)
def test_blocks_that_are_none(plain, array):
    with pytest.raises(InputError):
        view_from_plain(plain, array)


def test_blocks_within_blocks():
    assert view_from_plain(deep(3)).bind(POINTS).size == 12


STRANGE = {
    "nothing": None,
    "a list": ["pointwise"],
    "text": "pointwise",
    "no kind": {},
    "an unknown kind": {"kind": "../../views"},
    "a kind that is a list": {"kind": ["pointwise"]},
    "a class by name": {"kind": "twoaxis.views.Pointwise"},
    "an unknown option": {"kind": "gaussian", "colour": "red"},
    "a rank of text": {"kind": "gaussian", "rank": "64"},
    "a bandwidth below zero": {"kind": "gaussian", "bandwidth": -1.0},
    "no cells": {"kind": "patch", "cells": 0},
    "cells of cells": {"kind": "patch", "cells": [[1], [2, 3]]},
    "weights without an array": {"kind": "weighted"},
    "a matrix without an array": {"kind": "dense"},
    "an option beside a matrix": {"kind": "dense", "matrix": [[1.0]]},
}


@pytest.mark.parametrize("plain", STRANGE.values(), ids=STRANGE)
def test_what_is_no_view(plain):
    with pytest.raises(InputError) as caught:
        view_from_plain(plain)
    assert caught.value.expected
    assert caught.value.got
    assert caught.value.fix


ARRAYS = {
    "negative weights": ({"kind": "weighted"}, -np.ones(3)),
    "weights of zero": ({"kind": "weighted"}, np.zeros(3)),
    "weights in two dimensions": ({"kind": "weighted"}, np.ones((3, 3))),
    "weights that are NaN": ({"kind": "weighted"}, np.full(3, np.nan)),
    "weights of text": ({"kind": "weighted"}, np.array(["a"])),
    "a matrix that is none": ({"kind": "dense"}, np.ones(3)),
    "a matrix that is not symmetric": ({"kind": "dense"}, np.triu(np.ones((3, 3)))),
    "a matrix that is indefinite": ({"kind": "dense"}, -np.eye(3)),
    "an option beside the array": ({"kind": "dense", "matrix": 3}, np.eye(3)),
}


@pytest.mark.parametrize(("plain", "array"), ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_make_no_view(plain, array):
    with pytest.raises(InputError):
        view_from_plain(plain, array)


def test_a_matrix_for_other_points_is_refused_when_it_is_bound():
    plain, array = view_to_plain(VIEWS["dense"], POINTS)
    with pytest.raises(InputError, match="matrix"):
        view_from_plain(plain, array).bind(POINTS[:5])
