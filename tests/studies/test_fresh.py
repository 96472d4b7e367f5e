"""The fresh-noise fields, and that the matched fits are those of the very same data."""

from __future__ import annotations

import numpy as np
import pytest

from twoaxis.observations import fresh_dataset
from twoaxis.resolution import resolve
from twoaxis.studies.fields import LAYOUTS, PROBLEMS, fresh_fields
from twoaxis.studies.matched import matched_fits
from twoaxis.studies.scale import FULL, SMOKE


def test_the_study_has_240_fresh_fields() -> None:
    fields = fresh_fields(FULL)
    assert len(fields) == len(set(fields)) == 240
    assert {field.method for field in fields} == {"rba"}
    for problem in PROBLEMS:
        of_problem = {(f.dataset, f.replica) for f in fields if f.problem == problem}
        assert of_problem == {(layout, k) for layout in LAYOUTS for k in range(20)}


@pytest.mark.parametrize(
    ("problem", "layout", "replica"),
    [
        pytest.param("burgers", 8, 0, marks=pytest.mark.long),
        pytest.param("buckley-leverett", 11, 1, marks=pytest.mark.long),
        ("allen-cahn", 9, 1),
    ],
)
def test_matched_fits_are_those_of_the_fields_own_data(
    problem: str, layout: int, replica: int
) -> None:
    (field,) = [
        f
        for f in fresh_fields(SMOKE)
        if (f.problem, f.dataset, f.replica) == (problem, layout, replica)
    ]
    values = field.observations().values
    expected = fresh_dataset(problem, layout=layout, replica=replica).values
    np.testing.assert_array_equal(values, expected)
    alone = resolve(
        problem, layouts=[layout], replicas=1, data={layout: values}, validate=0, progress=False
    )
    fits = matched_fits(problem, SMOKE.fresh_replicas).estimate
    assert fits.sel(layout=str(layout), replica=replica).item() == pytest.approx(
        alone.data["data_estimate"].item(), rel=1e-12
    )


def test_matched_fits_are_computed_once() -> None:
    assert matched_fits("burgers", 2) is matched_fits("burgers", 2)


def test_a_replica_is_the_same_in_a_longer_series() -> None:
    short, long = (matched_fits("allen-cahn", n).estimate for n in (2, 3))
    np.testing.assert_allclose(short.values, long.values[:, :2], rtol=1e-12)
