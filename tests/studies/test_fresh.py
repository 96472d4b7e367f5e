"""The fresh-noise fields, and that the matched fits are those of the very same data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from twoaxis.datasets import fresh_dataset
from twoaxis.resolution import resolve
from twoaxis.studies.block import Measured
from twoaxis.studies.blocks import fresh_noise
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


VALUES = {"burgers": (17.0, -3.5), "buckley-leverett": (7.0, 3.4), "allen-cahn": (2.4, 7.4)}


def orders(values: dict[str, tuple[float, float]]) -> dict[str, float]:
    rows = pd.DataFrame([{"problem": p, "replica": k} for p in PROBLEMS for k in range(20)])
    matched, excess = (
        rows["problem"].map({p: pair[k] for p, pair in values.items()}).to_numpy() for k in (0, 1)
    )
    measured = Measured()
    fresh_noise._put_orders(measured, rows, matched, excess, SMOKE)
    assert all(figure.draws is not None for figure in measured.figures.values())
    return {key: figure.value for key, figure in measured.figures.items()}


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({}, (1, 2, 1, 2, 1)),
        ({"burgers": (17.0, 1.0)}, (1, 2, 1, 2, 0)),
        ({"burgers": (4.0, 5.0)}, (0, 1, 0, 2, 0)),
        ({"allen-cahn": (6.0, -1.0)}, (1, 1, 0, 1, 1)),
    ],
)
def test_orders_are_those_of_the_printed_text(changed, outcome) -> None:
    found = orders(VALUES | changed)
    wanted = ["resolution_order", "rows_of_map", "excess_order"]
    wanted += ["positive_excess", "negative_excess"]
    assert tuple(found[key] for key in wanted) == outcome


def test_problems_are_routed_by_their_means() -> None:
    rows = pd.DataFrame({"problem": PROBLEMS, "delta_percent": [15.0, 3.0, 9.0]})
    ours, matched = pd.Series([14.0, 10.0, 10.0]), pd.Series([17.0, 7.0, 2.4])
    table = fresh_noise._routes(rows, ours, matched).set_index("problem")["route"]
    assert table.to_dict() == {
        "Burgers": "co-design observations and residual evidence",
        "Buckley–Leverett": "improve observations",
        "Allen–Cahn": "strengthen residual evidence",
    }


def test_far_displacements_are_exact_in_the_coordinate_of_an_affine_residual() -> None:
    step = np.array([-0.4, -0.1, 0.2, 0.9, 0.3, -0.2])
    exact = np.where([True, True, True, True, False, False], np.log1p(step), step)
    rows = pd.DataFrame(
        {
            "problem": ["burgers"] * 2 + ["allen-cahn"] * 2 + ["buckley-leverett"] * 2,
            "displacement": step,
            "delivered_displacement": exact,
            "grid_error_percent": 100 * np.abs(np.expm1(exact)),
        }
    )
    table = fresh_noise._far(rows)
    assert table["runs"].tolist() == [6, 5, 6]
    for column in ("signed_r", "absolute_r", "profile_r"):
        assert table[column].iloc[:2].max() < 1 - 1e-3
        assert table[column].iloc[2] == pytest.approx(1, abs=1e-12)
