"""The page as text: complete, escaped, the same bytes each time."""

import importlib
import math
import re
from concurrent.futures import ThreadPoolExecutor

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from web_pages import Reader

import twoaxis as ta
from twoaxis import report
from twoaxis.report.theme import PALETTE
from twoaxis.result import CLASSES
from twoaxis.text import visible

FORBIDDEN = re.compile("(?<!standard )error|truth", re.IGNORECASE)


def test_a_page_of_every_audit(audit_of, html_of, case):
    page = Reader(html_of(case))
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert not page.all("script")
    audit = audit_of(case)
    assert audit.next_step in page.text
    assert audit.route.value in page.text.lower()
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        assert re.search(r"\d|flat|no mode|not see", svg["aria-label"])
    assert len(page.all("svg")) == len(page.all("figure"))
    assert "What this diagnosis does not claim" in page.text
    for message in audit.messages:
        start = re.sub(r"\W+", " ", visible(message.text))[1:30]
        assert start in re.sub(r"\W+", " ", page.text)


def test_nothing_points_outside(html_of, case):
    page = Reader(html_of(case))
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for key in ("src", "href", "xlink:href", "action"):
            assert attributes.get(key, "#").startswith(("#", "data:"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert "@import" not in html_of(case)


def test_the_verdict_comes_first_and_has_its_numbers(audit_of, html_of):
    audit, html = audit_of("everything"), html_of("everything")
    text = Reader(html).text
    reason = " ".join(audit.reason.split())
    assert reason[1:] in text
    [h1] = re.findall("<h1>(.*?)</h1>", html)
    assert Reader(h1).text == audit.answer
    assert text.index(audit.answer) < text.index(reason[1:]) < text.index("First things first")
    order = ["First things first", "What to do next", "Data, field and solver"]
    order += ["Measurements and tolerances", "Decision map", "Resolution of the observations"]
    order += ["frozen field prefers", "over the domain", "evidence by mode", "Along training"]
    order += ["Forward model at the delivered value", "not claim"]
    places = [text.index(title) for title in order]
    assert places == sorted(places)
    row = audit.summary().loc["k"]
    for name in ("delivered_percent", "resolution_percent", "preference_percent"):
        assert f"{row[name]:.3g}%" in html


def test_a_system_has_pictures_for_each_equation(html_of):
    alts = [svg["aria-label"] for svg in Reader(html_of("several equations")).all("svg")]
    for equation in ("mass", "heat"):
        assert sum(f"residual of {equation} at" in alt for alt in alts) == 1
        assert sum(f"evidence of {equation} about k" in alt for alt in alts) == 1


def test_alt_texts_state_the_numbers(audit_of, html_of):
    audit = audit_of("everything")
    alts = " ".join(svg["aria-label"] for svg in Reader(html_of("everything")).all("svg"))
    row = audit.summary().loc["k"]
    for value in ("preference_percent", "resolution_percent"):
        assert f"{row[value]:.3g}%" in alts
    assert f"minimum lies at {audit.scan.minimum['k']:.4g}" in alts
    assert f"{audit.score.B:.4g}".replace("-", "−") in alts
    assert f"{audit.delivery.gap['k']:+.4f}".replace("-", "−") in alts


def test_what_is_missing_is_named_with_its_call(html_of):
    text = Reader(html_of("axis two alone")).text
    for call in (
        "resolution=twoaxis.resolve(forward",
        "data=...",
        "Parameter(delivered=...",
        "FrozenResidual(..., field=...)",
        "snapshots=twoaxis.follow(",
        "history=...",
        "tolerance=twoaxis.Tolerance(",
    ):
        assert call in text
    assert "spectrum=True" in Reader(html_of("no resolution")).text
    assert "flat and has no minimum" in Reader(html_of("flat")).text
    assert "fitted=..." in Reader(html_of("everything")).text
    assert Reader(html_of("everything")).text.count("Not in this audit") == 1


def test_the_head_says_what_it_is_about_and_how_it_stands(audit_of, html_of):
    audit, html = audit_of("decay"), html_of("decay")
    assert audit.severity == "bad"
    assert Reader(html).all("header")[0]["class"].split()[:2] == ["verdict", "bad"]
    head = Reader(html[html.index("<header") : html.index("</header>")]).text
    assert "Problem decay Seed 5 Date" in head
    assert audit.about["call"] in head
    for question in audit.questions:
        row = re.search(f"{re.escape(question.asked)}.*?</tr>", html, re.DOTALL)
        assert Reader(row.group()).text.split("?")[1].strip().startswith(question.answer)
    roles = re.findall('class="answer-(good|bad|neutral)"', html)
    expected = {"yes": "good", "no": "bad", "not known": "neutral"}
    assert roles == [expected[question.answer] for question in audit.questions]


def test_a_page_of_many_parameters_stays_short(audit_of, html_of):
    page, audit = Reader(html_of("many")), audit_of("many")
    alts = [svg["aria-label"] for svg in page.all("svg")]
    assert len(alts) <= 8
    assert any("Deviation of 8 parameters" in alt for alt in alts)
    assert any(alt.startswith("Correlation of the estimates of 8") for alt in alts)
    assert any(alt.startswith("The weakest of 7 directions") for alt in alts)
    assert "Frozen profile along" not in page.text
    for name in audit.names:  # a row each, not a table each
        assert html_of("many").count(f'<th scope="row">{name}</th>') == 1
    note = re.search('<p class="note nuisance">(.*?)</p>', html_of("many"), re.DOTALL)
    assert "a2 = 1" in note.group(1)
    assert len(html_of("many")) < 3 * len(html_of("decay"))


def test_around_a_candidate_nobody_speaks_of_error_or_truth(audit_of, html_of, candidate_case):
    for html in (html_of(candidate_case), audit_of(candidate_case)._repr_html_()):
        assert not FORBIDDEN.search(html), FORBIDDEN.search(html)
        assert "stability around the" in html


@pytest.mark.parametrize("where", ["page", "notebook"])
def test_names_stay_text(audit_of, html_of, strange_names, strange, where):
    named = f"named {strange}"
    page = Reader(html_of(named) if where == "page" else audit_of(named)._repr_html_())
    assert not page.all("script")
    assert not [a for _, a in page.tags if "onload" in a]
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in strange_names[strange])
    assert shown in page.text


def test_words_of_a_file_stay_text(loaded):
    bad = '"><img src=x onerror=alert(1)>'
    tree = loaded.data.copy(deep=True)
    tree.attrs |= {"reason": bad, "written_by": bad}
    tree["field"] = tree["field"].to_dataset(inherit=False).assign_coords(axis=[bad, "$x$"])
    for path, name in (
        ("score", "view"),
        ("field", "field_name"),
        ("delivery", "view"),
        ("spectrum", "basis"),
        ("scan", "status"),
        ("resimulation", "layout"),
    ):
        tree[path].attrs[name] = bad
    audit = ta.Audit(tree).with_messages([ta.Message("note", bad)])
    for html in (report.page(audit), audit._repr_html_()):
        page = Reader(html)
        assert not page.all("img")
        assert not [a for _, a in page.tags if "onerror" in a]
        assert bad in page.text


def test_the_same_audit_gives_the_same_bytes(audit_of, loaded):
    audit = audit_of("everything")
    first = report.page(audit)
    with plt.style.context("dark_background"):
        plt.rcParams["font.size"] = 30
        plt.rcParams["text.usetex"] = True
        assert report.page(loaded) == first
    assert audit._repr_html_() == loaded._repr_html_()
    # No date but that of the audit itself.
    without = re.sub(r"base64,[^\"]*", "", first).replace(audit.about["date"], "")
    assert not re.search(r"\d{4}-\d{2}-\d{2}", without)
    assert plt.get_fignums() == []


@pytest.mark.filterwarnings("ignore:Starting a Matplotlib GUI")
def test_threads_write_the_same_pages_and_leave_the_settings_of_the_reader(audit_of):
    """Settings of matplotlib are those of the process, and threads take turns with them."""
    audit = audit_of("everything")
    parts = [audit.score, audit.scan, audit.delivery, audit.spectrum]
    alone = [report.page(part) for part in parts]
    with plt.rc_context({"text.color": "#123456"}):
        before = dict(plt.rcParams)

        def draw(k):
            # Half of the threads draw for the reader, while the others write pages.
            return [
                report.page(parts[k])
                if k % 2
                else parts[k].plot().title.get_color()  # of the settings that it was made with
                for _ in range(4)
            ]

        with ThreadPoolExecutor(4) as pool:
            both = list(pool.map(draw, range(4)))
            pages = list(pool.map(report.page, parts))
        assert pages == alone
        assert both == [["#123456"] * 4, [alone[1]] * 4, ["#123456"] * 4, [alone[3]] * 4]
        assert dict(plt.rcParams) == before
    plt.close("all")


def test_an_assumed_tolerance_is_a_message_and_stands_on_the_page(audit_of, html_of):
    assert "Assumed tolerances" not in html_of("everything")
    audit = audit_of("assumed tolerance")
    assert "tolerance.assumed" in [message.code for message in audit.messages]
    for html in (html_of("assumed tolerance"), audit._repr_html_()):
        assert "Assumed tolerances" in html


def test_glyphs_that_matplotlib_lacks_are_left_to_the_page(audit_of):
    tree = audit_of("everything").data.copy(deep=True)
    tree["field"].attrs["field_name"] = "粘度 🌡"
    assert "粘度 🌡" in report.page(ta.Audit(tree))


def test_what_is_no_result_has_no_page():
    for data in (None, "audit.nc", xr.DataTree()):
        with pytest.raises(ta.InputError, match=r"twoaxis\.audit"):
            report.page(data)


def test_every_part_has_a_picture_a_page_and_a_notebook_view(audit_of):
    audit = audit_of("everything")
    parts = ("score", "scan", "delivery", "resolution", "spectrum", "snapshots")
    for part in [*(getattr(audit, name) for name in parts), ta.compare([audit, audit])]:
        ax = part.plot()
        ax.figure.canvas.draw()
        assert ax.has_data()
        page = Reader(report.page(part))
        assert len(page.all("svg")) == 1
        assert not page.all("script")
        fragment = Reader(part._repr_html_())
        assert fragment.all("table")
        assert len(fragment.all("svg")) == 1


def test_every_kind_of_result_has_a_picture_but_a_residual():
    assert set(CLASSES) - set(report.PLOTS) == {"residual"}
    for where in report.PLOTS.values():
        module, _, function = where.partition(":")
        found = importlib.import_module(f"twoaxis.report.figures.{module}")
        assert callable(getattr(found, function))


def test_the_notebook_disturbs_nothing_around_it(audit_of):
    html = audit_of("two")._repr_html_()
    page = Reader(html)
    assert not {"html", "body", "head", "h1", "h2", "script"} & {tag for tag, _ in page.tags}
    assert audit_of("two").route.advice in page.text
    [style] = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    for selectors in re.findall(r"([^{}]+)\{", style):
        for selector in selectors.split(","):
            assert ".twoaxis-audit" in selector
    # Data, all parameters, the map, and two profiles.
    assert len(page.all("svg")) == 5


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_colours_can_be_seen_on_their_ground():
    for theme in (0, 1):
        ground = luminance(PALETTE["paper"][theme])
        for name, pair in PALETTE.items():
            if name in ("paper", "rule"):
                continue
            light, dark = sorted((luminance(pair[theme]), ground), reverse=True)
            assert (light + 0.05) / (dark + 0.05) > 4.5, name
    assert len({pair[0] for pair in PALETTE.values()}) == len(PALETTE)


# Linear RGB as readers without green or red cones see it (Viénot, Brettel and Mollon 1999).
BLIND = {
    "green": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
    "red": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
}


@pytest.mark.parametrize("cones", BLIND)
def test_marks_can_be_told_apart_without_a_kind_of_cone(cones):
    def seen(name):
        colour = PALETTE[name][0]
        parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]) ** 2.2
        return np.clip(np.array(BLIND[cones]) @ parts, 0, 1) ** (1 / 2.2)

    kinds = ("ink", "delivered", "preferred", "matched")
    for j, first in enumerate(kinds):
        for second in kinds[j + 1 :]:
            assert math.dist(seen(first), seen(second)) > 0.15, (first, second)
