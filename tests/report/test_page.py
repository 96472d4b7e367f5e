"""The page as text: complete, escaped, the same bytes each time."""

import math
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from web_pages import Reader

import twoaxis as ta
from twoaxis.report.html import notebook_html, render
from twoaxis.report.theme import PALETTE

FORBIDDEN = re.compile("(?<!standard )error|truth", re.IGNORECASE)


def test_a_page_of_every_audit(audit_of, html_of, case):
    page = Reader(html_of(case))
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert not page.all("script")
    audit = audit_of(case)
    assert audit.route.advice in page.text
    assert audit.route.value in page.text.lower()
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        assert re.search(r"\d|flat|no mode|not see", svg["aria-label"])
    assert len(page.all("svg")) == len(page.all("figure"))
    assert "What this diagnosis does not claim" in page.text
    for message in audit.messages:
        start = re.sub(r"\W+", " ", message)[1:30]
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
    assert text.index(reason[1:]) < text.index("Measured and tolerated")
    assert text.index("put back into the solver") < text.index("Decision map")
    order = ["Decision map", "observations resolve", "frozen field prefers", "comes from"]
    order += ["residual modes carry", "preference to delivery", "Along training", "not claim"]
    places = [text.index(title) for title in order]
    assert places == sorted(places)
    row = audit.summary().loc["k"]
    for name in ("delivered_percent", "resolution_percent", "preference_percent"):
        assert f"{row[name]:.3g}\xa0%" in html


def test_alt_texts_state_the_numbers(audit_of, html_of):
    audit = audit_of("everything")
    alts = " ".join(svg["aria-label"] for svg in Reader(html_of("everything")).all("svg"))
    row = audit.summary().loc["k"]
    for value in ("preference_percent", "resolution_percent"):
        assert f"{row[value]:.3g}\xa0%" in alts
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
    assert "Not in this audit" not in Reader(html_of("everything")).text


def test_around_a_candidate_nobody_speaks_of_error_or_truth(audit_of, html_of, candidate_case):
    for html in (html_of(candidate_case), notebook_html(audit_of(candidate_case))):
        assert not FORBIDDEN.search(html), FORBIDDEN.search(html)
        assert "stability around the" in html


@pytest.mark.parametrize("where", ["page", "notebook"])
def test_names_stay_text(audit_of, html_of, strange_names, where):
    for kind, name in strange_names.items():
        named = f"named {kind}"
        page = Reader(html_of(named) if where == "page" else notebook_html(audit_of(named)))
        assert not page.all("script")
        assert not [a for _, a in page.tags if "onload" in a]
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
        assert shown in page.text


def test_words_of_a_file_stay_text(saved_tree):
    tree = saved_tree.copy(deep=True)
    bad = '"><img src=x onerror=alert(1)>'
    tree.attrs |= {
        "view": bad,
        "training_view": bad,
        "reason": bad,
        "written_by": bad,
        "route": bad,
    }
    tree["field"] = tree["field"].to_dataset(inherit=False).assign_coords(axis=[bad, "$x$"])
    tree["field"].attrs["field_name"] = bad
    tree["delivery"].attrs["view"] = bad
    tree["spectrum"].attrs["basis"] = bad
    tree["scan"].attrs["status"] = bad
    tree["resimulation"].attrs["layout"] = bad
    root = tree.to_dataset(inherit=False)
    root["message"] = xr.DataArray([bad], dims="sentence")
    tree.dataset = root
    for html in (render(tree, advice=bad), notebook_html(tree, advice=bad)):
        assert not Reader(html).all("img")
        assert "onerror" not in str(Reader(html).tags[0])
        assert not [a for _, a in Reader(html).tags if "onerror" in a]
        assert bad in Reader(html).text


def test_the_same_audit_gives_the_same_bytes(audit_of, saved_tree):
    audit = audit_of("everything")
    first = render(audit)
    with plt.style.context("dark_background"):
        plt.rcParams["font.size"] = 30
        plt.rcParams["text.usetex"] = True
        assert render(audit.data) == first
    assert render(saved_tree) == first
    assert notebook_html(audit) == notebook_html(audit.data)
    assert not re.search(r"\d{4}-\d{2}-\d{2}", re.sub(r"base64,[^\"]*", "", first))
    assert plt.get_fignums() == []


def test_an_assumed_tolerance_is_said_aloud(html_of, saved_tree):
    assert "Assumed, not declared" not in html_of("everything")
    tree = saved_tree.copy(deep=True)
    tree["verdict"].attrs["tolerance_origin"] = "assumed by the command line"
    page = render(tree)
    assert "Assumed, not declared" in page
    assert "assumed by the command line" in page
    assert "assumed by the command line" in notebook_html(tree)


def test_glyphs_that_matplotlib_lacks_are_left_to_the_page(audit_of):
    tree = audit_of("everything").data.copy(deep=True)
    tree["field"].attrs["field_name"] = "粘度 🌡"
    assert "粘度 🌡" in render(tree)


def test_what_is_no_audit_has_no_page():
    for data in (None, "audit.nc", xr.DataTree()):
        with pytest.raises(ta.InputError, match=r"twoaxis\.audit"):
            render(data)


def test_the_notebook_disturbs_nothing_around_it(audit_of):
    html = notebook_html(audit_of("two"), advice="Do this.")
    page = Reader(html)
    assert not {"html", "body", "head", "h1", "h2", "script"} & {tag for tag, _ in page.tags}
    assert "Do this." in page.text
    [style] = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    for selectors in re.findall(r"([^{}]+)\{", style):
        for selector in selectors.split(","):
            assert ".twoaxis-audit" in selector
    assert len(page.all("svg")) == 3


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
