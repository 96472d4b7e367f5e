"""The scoreboard as a result: means over layouts, tables, the page and the file."""

import numpy as np
import pytest
from scipy import stats

import twoaxis as ta
from twoaxis.diagnosis.scoreboard import mean_over_layouts

HOSTILE = "<script>alert(1)</script>|x"


def row(method, dataset, seed, error, **changed):
    return {
        "key": f"{method}-{dataset}-{seed}",
        "problem": "burgers",
        "method": method,
        "parameter": "nu",
        "dataset": dataset,
        "seed": seed,
        "delivered": 0.01 * (1 + error / 100),
        "error_percent": error,
        "displacement_percent": abs(error) + 1,
        "local_percent": abs(error),
        "gap_percent": -1.0,
        "time": 2.0,
        "status": "finished",
        "device": "CPU",
    } | changed


def board(rows, skipped=()):
    matched = [
        {"problem": "burgers", "parameter": "nu", "dataset": d, "matched_percent": 1.0}
        | {"resolution_percent": r}
        for d, r in (("8", 10.0), ("9", 20.0))
    ]
    return ta.Scoreboard.of(rows, matched, skipped, {"versions": "jax 0", "replicas": 3})


TWO = [row("rba", "8", 0, 5.0), row("rba", "8", 1, -7.0), row("rba", "9", 0, 30.0)]


def test_every_layout_counts_the_same_and_signs_do_not_cancel():
    found = board([*TWO, row("adam", "8", 0, -4.0)]).summary().set_index("method")
    assert found.loc["rba", "error"] == pytest.approx((6 + 30) / 2)
    assert found.loc["rba", "gap"] == 1
    assert found.loc["rba", "matched"] == 15
    assert found.loc["rba", ["runs", "layouts"]].tolist() == [3, 2]
    # One run on a layout says nothing about its spread.
    assert np.isnan(found.loc["adam", "error_high"])


def test_the_interval_is_that_of_student_on_one_layout():
    values = np.array([3.0, 5.0, 4.0, 8.0])
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert mean_over_layouts(values, ["8"] * 4)[1:] == pytest.approx((low, high))


def test_the_interval_covers_the_mean_as_often_as_it_says():
    generator = np.random.default_rng(0)
    layouts = np.repeat([8, 9, 10, 11], [2, 2, 3, 5])
    means = np.array([0.0, 5.0, -3.0, 10.0])
    centers = np.repeat(means, [2, 2, 3, 5])
    hits = 0
    for _ in range(2000):
        found = mean_over_layouts(centers + generator.standard_normal(12), layouts)
        hits += found.low <= means.mean() <= found.high
    # 95% of 2,000 within three standard deviations of a binomial number.
    assert abs(hits - 1900) < 3 * np.sqrt(2000 * 0.95 * 0.05)


def test_values_that_are_missing_leave_the_mean_open():
    rows = [row("rba", "8", 0, 5.0, displacement_percent=np.nan, gap_percent=np.nan)]
    found = board(rows).summary().iloc[0]
    assert np.isnan([found["displacement"], found["gap"]]).all()
    assert "–" in board(rows).to_markdown()


def test_a_board_survives_its_file(tmp_path):
    skipped = [{"problem": "darcy", "method": "mine", "reason": "it has no ansatz"}]
    one = board([*TWO, row("patch", "8", 0, 1.0, device="")], skipped)
    again = ta.load(one.save(tmp_path / "board.nc"))
    assert repr(again) == repr(one)
    assert again.to_markdown() == one.to_markdown()
    assert "Skipped: mine on darcy: it has no ansatz." in one.notes
    assert any(note.startswith("1 of 4 runs were not trained") for note in one.notes)


def test_a_run_that_did_not_finish_is_counted():
    rows = [row("rba", "8", 0, 5.0), row("rba", "8", 1, 5.0, status="diverged at step 3")]
    assert "| 1 of 2 finished, 1 of 2 layouts |" in board(rows).to_markdown()
    assert "| 3 |" in board(TWO).to_markdown()


def test_the_page_shows_every_problem_and_escapes_names(tmp_path):
    hostile = board([*TWO, row(HOSTILE, "8", 0, 2.0, parameter=HOSTILE, problem=HOSTILE)])
    text = hostile.to_html(tmp_path / "board.html").read_text()
    assert text.count("<svg") == 2
    assert "<script" not in text
    assert "matched error 15%" in text


def test_the_picture_names_what_it_lacks():
    with pytest.raises(ta.InputError, match="one of the problems burgers"):
        board(TWO).plot(problem="darcy")
    axes = board(TWO).plot(problem="burgers")
    assert [text.get_text() for text in axes.get_yticklabels()] == ["rba"]
