"""Where sites may lie: forbidden entries, spacing, cells and present sites."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import twoaxis as ta
from twoaxis.remedies.sites.suggest import suggest_sites

X, Y = (a.ravel() for a in np.meshgrid(np.linspace(0, 1, 16), np.linspace(0, 2, 12)))
PLACE = {"x": X, "y": Y}
PARAMETERS = {
    "a": ta.Parameter(truth=1.0, bounds=(0.1, 10)),
    "b": ta.Parameter(truth=2.0, bounds=(0.1, 10)),
}


def forward(a, b):
    return (a * np.exp(-b * X) * (1 + Y)).reshape(12, 16)


def suggest(k=6, **options):
    return suggest_sites(forward, PARAMETERS, 0.1, k, **options)


def test_spacing_is_kept_in_the_given_coordinates():
    free = pdist(suggest(points=PLACE).points.values)
    assert free.min() < 0.3
    assert pdist(suggest(points=PLACE, spacing=0.4).points.values).min() >= 0.4 - 1e-9


def test_each_coordinate_may_have_a_spacing_of_its_own():
    chosen = suggest(points=PLACE, spacing=[0.1, 0.5]).points.values
    assert pdist(chosen / [0.1, 0.5]).min() >= 1 - 1e-9
    columns = suggest(4, points=PLACE, spacing=[0.15, np.inf]).points.values[:, 0]
    assert np.diff(np.sort(columns)).min() >= 0.15 - 1e-9


def test_sites_exactly_one_spacing_apart_are_far_enough():
    t = 0.1 * np.arange(8)
    found = suggest_sites(
        lambda a: a * np.ones(8),
        {"a": ta.Parameter(truth=1.0, bounds=(0.1, 9))},
        0.1,
        4,
        points=t[:, None],
        spacing=0.2,
    )
    assert np.diff(np.sort(found.sites)).tolist() == [2, 2, 2]


def test_a_cell_holds_one_site():
    rows, columns = np.unravel_index(suggest(12, cells=(4, 4)).sites, (12, 16))
    assert len(set(zip(rows // 4, columns // 4, strict=True))) == 12


def test_cells_and_spacing_hold_together():
    found = suggest(5, cells=(6, 4), points=PLACE, spacing=0.5)
    rows, columns = np.unravel_index(found.sites, (12, 16))
    assert len(set(zip(rows // 6, columns // 4, strict=True))) == 5
    assert pdist(found.points.values).min() >= 0.5 - 1e-9


def test_present_sites_keep_new_ones_away():
    free = suggest(1)
    assert suggest(1, present=free.sites).sites[0] != free.sites[0]
    row, column = divmod(int(free.sites[0]), 16)
    beside = suggest(3, present=free.sites, cells=(4, 4))
    rows, columns = np.unravel_index(beside.sites, (12, 16))
    assert not ((rows // 4 == row // 4) & (columns // 4 == column // 4)).any()
    apart = suggest(3, present=free.sites, points=PLACE, spacing=0.5)
    place = np.column_stack([X, Y])[apart.layout]
    assert pdist(place).min() >= 0.5 - 1e-9


@pytest.mark.parametrize("form", ["mask", "flat mask", "indices", "function"])
def test_forbidden_sites_are_never_chosen(form):
    forbidden = Y > 1
    given = {
        "mask": forbidden.reshape(12, 16),
        "flat mask": forbidden,
        "indices": np.flatnonzero(forbidden),
        "function": lambda place: place[:, 1] > 1,
    }[form]
    assert (Y[suggest().sites] > 1).any()
    assert (Y[suggest(points=PLACE, forbidden=given).sites] <= 1).all()


def test_nothing_forbidden_is_allowed():
    assert suggest(forbidden=[]).sites.tolist() == suggest().sites.tolist()


def test_what_is_not_predicted_cannot_be_observed():
    def holed(a, b):
        return np.where(Y.reshape(12, 16) > 1, np.nan, forward(a, b))

    found = suggest_sites(holed, PARAMETERS, 0.1, 6)
    assert (Y[found.sites] <= 1).all()
    assert np.isfinite(found.predicted[:, -1]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"spacing": 0.0}, "above zero"),
        ({"spacing": -1.0}, "above zero"),
        ({"spacing": np.nan}, "above zero"),
        ({"spacing": [1.0, 2.0, 3.0]}, "2 coordinates"),
        ({"spacing": [np.inf, np.inf]}, "2 coordinates"),
        ({"spacing": "far"}, "real numbers"),
        ({"cells": (3,)}, "shape of a cell"),
        ({"cells": (3, 0)}, "shape of a cell"),
        ({"cells": (3.5, 2)}, "shape of a cell"),
        ({"cells": 4}, "shape of a cell"),
        ({"forbidden": np.ones(5, dtype=bool)}, "mask of shape"),
        ({"forbidden": [500]}, "flat indices"),
        ({"forbidden": [[1], [2, 3]]}, "mask of shape"),
        ({"forbidden": lambda place: place[:, 7] > 0}, "IndexError"),
        ({"forbidden": lambda place: place}, "array of float64"),
        ({"forbidden": np.ones((12, 16), dtype=bool)}, "room for 0"),
        ({"cells": (12, 16)}, "room for 1"),
        ({"present": np.arange(189)}, "room for 3"),
        ({"present": [3, 3]}, "each index"),
        ({"present": [-1]}, "from 0 to 191"),
        ({"points": np.zeros((5, 2))}, "a row for each entry"),
        ({"points": {"x": np.zeros(5)}}, "in the shape"),
        ({"points": {}}, "at least one coordinate"),
        ({"points": {"x": np.full(192, np.nan)}}, "finite"),
    ],
)
def test_rules_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ta.InputError, match=words):
        suggest(**options)
