"""Every block from beginning to end at smoke scale: the shape and the sanity of each table.

A few minutes on two cores, most of them compilation, hence marked ``long``; `test_reproduce` covers
one block from training to page in the default run. Fields of forty steps are poor: what holds for
them holds for any field.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from twoaxis.runs import RunStore
from twoaxis.studies.published import published_figures
from twoaxis.studies.record import table_frame
from twoaxis.studies.registry import BLOCKS
from twoaxis.studies.reproduce import reproduce

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    out = tmp_path_factory.mktemp("smoke")
    return reproduce(BLOCKS, scale="smoke", device="cpu", out=out, progress=False)


@pytest.fixture(scope="module")
def tables(smoke):
    return {
        record["name"]: {name: table_frame(t) for name, t in record["tables"].items()}
        for record in smoke.records
    }


def printed_of(record):
    block = BLOCKS[record["name"]]
    return [] if block.published is None else published_figures(block.figures_of)


def test_every_block_has_every_published_figure_and_nothing_is_judged(smoke):
    assert [record["name"] for record in smoke.records] == list(BLOCKS)
    for record in smoke.records:
        expected = [each.key for each in printed_of(record)]
        assert [figure["key"] for figure in record["figures"]] == expected
        assert {figure["verdict"] for figure in record["figures"]} <= {"not judged"}
        assert smoke.seconds[record["name"]] > 0


def test_figures_stay_inside_what_they_can_be(smoke):
    for record in smoke.records:
        printed = {p.key: p for p in printed_of(record)}
        for figure in record["figures"]:
            value = figure["ours"]
            if value is None:  # shown as undefined
                assert figure["ours_text"] == "undefined"
                continue
            low, high = printed[figure["key"]].limits
            assert low - 1e-9 <= value <= high + 1e-9, (record["name"], figure["key"], value)


def test_few_figures_are_undefined(smoke):
    figures = [figure for record in smoke.records for figure in record["figures"]]
    undefined = [figure["key"] for figure in figures if figure["ours"] is None]
    # Correlations with minima that all lie on one bound, which poor fields have.
    assert len(undefined) < 0.1 * len(figures)
    assert all("r" in key.split("_") or "centered" in key for key in undefined), undefined


def test_the_files_hold_the_same(smoke):
    listed = pd.read_csv(smoke.directory / "figures.csv")
    assert len(listed) == sum(len(record["figures"]) for record in smoke.records)
    for record in smoke.records:
        stored = json.loads((smoke.directory / "blocks" / f"{record['name']}.json").read_text())
        assert stored == record
    for name in ("score", "mechanisms", "darcy"):
        assert (smoke.directory / "figures" / f"{name}.png").stat().st_size > 5000
        assert (smoke.directory / "figures" / f"{name}.svg").exists()
    assert "<script" not in smoke.page.read_text()


def test_no_field_was_trained_twice(smoke):
    keys = RunStore(smoke.directory / "fields").keys()
    trained = sum(call["trained"] for record in smoke.records for call in record["calls"])
    assert trained == len(keys) == len(set(keys)) > 0


@pytest.mark.parametrize(
    ("block", "table", "rows"),
    [
        ("development", "agreement", 4),
        ("development", "profiles", 72),
        ("holdout", "agreement", 4),
        ("holdout", "other_pairs_of_methods", 3),
        ("architecture", "agreement", 3),
        ("fresh-noise", "endpoints", 2),
        ("fresh-noise", "paired", 4),
        ("fresh-noise", "runs", 24),
        ("fresh-noise", "far_displacements", 3),
        ("noise-draws", "paired", 4),
        ("proxies", "correlations", 5),
        ("view-alignment", "endpoints", 8),
        ("robustness", "correlations", 8),
        ("darcy", "fields", 4),
        ("darcy", "boundary_weights", 9),
        ("darcy", "medians", 3),
    ],
)
def test_tables_have_their_rows(tables, block, table, rows):
    assert len(tables[block][table]) == rows


def test_the_paired_table_adds_up(tables):
    paired = tables["fresh-noise"]["paired"].set_index("problem")
    assert paired["pairs"].tolist() == [8, 8, 8, 24]
    np.testing.assert_allclose(paired["excess"], paired["rba"] - paired["matched"])
    np.testing.assert_allclose(paired["excess"].iloc[:3].mean(), paired["excess"].iloc[3])
    runs = tables["fresh-noise"]["runs"]
    means = runs.groupby("problem", sort=False)["delivered_error_percent"].mean()
    np.testing.assert_allclose(means, paired["rba"].iloc[:3])


def test_repetition_zero_of_other_noise_is_the_fresh_block(tables):
    pd.testing.assert_frame_equal(tables["noise-draws"]["runs"], tables["fresh-noise"]["runs"])


def test_a_scan_never_leaves_the_published_box(tables):
    profiles = tables["development"]["profiles"]
    for problem, own in profiles.groupby("problem"):
        bounds = {"burgers": (0.2, 5), "buckley-leverett": (0.25, 2), "allen-cahn": (0.2, 2)}
        low, high = np.log(bounds[problem])
        assert own["grid_displacement"].between(low - 1e-9, high + 1e-9).all()


def test_the_resolution_table_does_not_depend_on_the_scale_where_noise_has_no_part(smoke):
    (record,) = (record for record in smoke.records if record["name"] == "resolution")
    figures = {figure["key"]: figure for figure in record["figures"]}
    for key in ("fisher_burgers", "fisher_buckley-leverett", "fisher_allen-cahn"):
        assert float(figures[key]["ours_text"]) == figures[key]["published"]
