"""The paper's figures: they show the numbers of the tables, and leave out what is not there."""

import copy
import re
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.image import imread

from twoaxis.report.theme import house_style
from twoaxis.studies import figures
from twoaxis.studies.figures.panels import ALONE


def drawn(panel):
    """Return the axis of a panel after it was drawn."""
    with house_style(ALONE):
        figure, ax = plt.subplots(figsize=panel.size, layout="constrained")
        assert panel.draw(ax=ax) is ax
        figure.canvas.draw()
    plt.close(figure)
    return ax


def points(ax):
    """All marked points of an axis, in any order."""
    lines = [line for line in ax.get_lines() if line.get_marker() not in ("None", "|")]
    return np.concatenate([line.get_xydata() for line in lines])


def column(record, table, name):
    found = record["tables"][table]
    return [row[found["columns"].index(name)] for row in found["rows"]]


def by_name(records):
    return {record["name"]: record for record in records}


def sorted_rows(array):
    rows = np.asarray(array, float)
    return rows[np.lexsort(rows.T)]


def test_all_figures_and_panels(records):
    made = figures.draw(records)
    assert {name: len(one.panels) for name, one in made.items()} == {
        "score": 2,
        "mechanisms": 3,
        "darcy": 3,
    }
    for one in made.values():
        for panel in one.panels:
            assert re.search(r"\d", panel.alt)
            assert 'role="img"' in panel.svg()


@pytest.mark.parametrize(
    ("panel", "block", "table", "across"),
    [
        (0, "development", "profiles", "grid_error_percent"),
        (1, "fresh-noise", "runs", "delivered_error_percent"),
    ],
)
def test_the_score_is_drawn_point_by_point(records, panel, block, table, across):
    own = by_name(records)[block]
    wanted = np.column_stack([column(own, table, across), column(own, table, "delta_percent")])
    ax = drawn(figures.draw(records)["score"].panels[panel])
    np.testing.assert_allclose(sorted_rows(points(ax)), sorted_rows(wanted))
    # One scale on both axes, so that the line of equality is one.
    assert ax.get_xlim() == ax.get_ylim()
    assert ax.get_xscale() == ax.get_yscale()
    (identity,) = [line for line in ax.get_lines() if line.get_linestyle() == "--"]
    assert (identity.get_xdata() == identity.get_ydata()).all()


def test_the_correlation_is_noted_beside_the_published_one(records):
    panel = figures.draw(records)["score"].panels[0]
    words = "r = 0.955 (published .960)"
    assert words in panel.alt
    assert words in [text.get_text() for text in drawn(panel).texts]


def test_problems_differ_without_colour(records):
    ax = drawn(figures.draw(records)["score"].panels[0])
    styles = {
        (line.get_markeredgecolor(), line.get_markerfacecolor()[3])
        for line in ax.get_lines()
        if len(line.get_xdata()) and line.get_marker() not in ("None",)
    }
    assert len({edge for edge, _ in styles}) == 3
    assert len({fill for _, fill in styles}) == 3


def test_a_point_far_out_stands_at_the_edge_and_is_told(records):
    changed = copy.deepcopy(records)
    table = by_name(changed)["fresh-noise"]["tables"]["runs"]
    where = table["columns"].index("delta_percent")
    table["rows"][0][where] = 1e30
    panel = figures.draw(changed)["score"].panels[1]
    ax = drawn(panel)
    assert points(ax)[:, 1].max() == pytest.approx(ax.get_ylim()[1])
    assert "1 lie beyond" in panel.alt


def test_shares_stack_up_to_the_table(records):
    ax = drawn(figures.draw(records)["mechanisms"].panels[0])
    thick = [bar for bar in ax.patches if bar.get_height() > 0.3]
    thin = [bar for bar in ax.patches if bar.get_height() < 0.3]
    assert len(thick) == len(thin) == 18
    # Development and holdout of Burgers first; the reading that was not published is not drawn.
    assert [bar.get_width() for bar in thick[:6]] == [5, 17, 78, 5, 17, 78]
    assert [bar.get_x() for bar in thick[:3]] == [0, 5, 22]
    assert {bar.get_width() for bar in thin} == {30.0}
    # Thin bars lie above their thick ones: the axis points down.
    assert all(t.get_y() < b.get_y() for t, b in zip(thin, thick, strict=True))


def test_estimates_have_their_intervals(records):
    ax = drawn(figures.draw(records)["mechanisms"].panels[1])
    lines = [line for line in ax.get_lines() if line.get_marker() == "None"]
    ends = {tuple(line.get_xdata()) for line in lines}
    assert ends == {(4.5 + k, 6.0 + k) for k in range(4)} | {(4.0 + k, 6.0 + k) for k in range(4)}
    values = points(ax)[:, 0]
    assert sorted(values) == sorted([*np.arange(5, 9), *np.arange(5, 9), *np.arange(4.8, 8.5)])


def test_the_excess_has_a_line_at_zero(records):
    ax = drawn(figures.draw(records)["mechanisms"].panels[2])
    assert [0.0, 0.0] in [list(line.get_xdata()) for line in ax.get_lines()]
    names = ["Burgers", "Buckley–Leverett", "Allen–Cahn", "overall"]
    assert [text.get_text() for text in ax.texts] == names


@pytest.mark.parametrize(("panel", "step"), [(0, "full"), (1, "diagonal")])
def test_darcy_steps_against_the_refined_minimum(records, panel, step):
    own = by_name(records)["darcy"]
    wanted = np.concatenate(
        [
            np.column_stack(
                [column(own, "fields", f"refined_{c}"), column(own, "fields", f"{step}_{c}")]
            )
            for c in (0, 1)
        ]
    )
    panels = figures.draw(records)["darcy"].panels
    np.testing.assert_allclose(sorted_rows(points(drawn(panels[panel]))), sorted_rows(wanted))
    assert drawn(panels[0]).get_xlim() == drawn(panels[1]).get_xlim()


def test_missing_blocks_and_columns_leave_panels_out(records):
    assert figures.draw([]) == {}
    named = by_name(records)
    assert list(figures.draw([named["repeated"]])) == []
    only = figures.draw([named["fresh-noise"]])
    assert {name: len(one.panels) for name, one in only.items()} == {"score": 1, "mechanisms": 1}
    changed = copy.deepcopy(named["darcy"])
    columns = changed["tables"]["fields"]["columns"]
    columns[columns.index("refined_0")] = "another"
    assert len(figures.draw([changed])["darcy"].panels) == 1
    changed["tables"]["fields"]["rows"] = []
    assert figures.draw([changed]) == {}


@pytest.mark.parametrize(
    "strange",
    [None, 1e300, *(pytest.param(value, marks=pytest.mark.long) for value in (0.0, -1.0, -1e300))],
)
def test_strange_numbers_do_no_harm(records, strange):
    changed = copy.deepcopy(records)
    for record in changed:
        for table in record["tables"].values():
            for row in table["rows"]:
                for k, value in enumerate(row):
                    if isinstance(value, float):
                        row[k] = strange
        for figure in record["figures"]:
            figure["ours"] = strange
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one in figures.draw(changed).values():
            for panel in one.panels:
                panel.svg()


def test_names_from_a_table_are_no_mathematics(records):
    changed = copy.deepcopy(records)
    table = by_name(changed)["development"]["tables"]["profiles"]
    where = table["columns"].index("view")
    for row in table["rows"]:
        row[where] = "$<b>{x}"
    svg = figures.draw(changed)["score"].panels[0].svg()
    assert "$&lt;b&gt;{x}" in svg


def test_files_are_the_same_each_time(records, tmp_path):
    made = figures.draw(records)
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        # What a reader has set does not count.
        with plt.rc_context({"axes.grid": True, "font.size": 20, "svg.hashsalt": name}):
            written.append(figures.save(made, tmp_path / name))
    names = [path.name for path in written[0]]
    assert names == [f"{k}.{s}" for k in ("score", "mechanisms", "darcy") for s in ("png", "svg")]
    for one, two in zip(*written, strict=True):
        assert one.read_bytes() == two.read_bytes()
    height, width, _ = imread(tmp_path / "one" / "score.png").shape
    assert width > 2 * height > 600
    assert b"tIME" not in (tmp_path / "one" / "score.png").read_bytes()
    assert "dc:date" not in (tmp_path / "one" / "score.svg").read_text()
    assert not list((tmp_path / "one").glob(".twoaxis*"))
