"""The page of a reproduction in a real browser: silent, and readable on screen, phone and paper."""

import re
from itertools import pairwise

import pytest
from web_pages import CONTRAST, TEXTS, opened

OUTSIDE = """
width => [...document.querySelectorAll('body *:not(.skip)')].filter(
  e => !e.closest('.scroll') && e.getBoundingClientRect().right > width + 1
).map(e => e.outerHTML.slice(0, 80))
"""


@pytest.mark.long
@pytest.mark.parametrize("width", [360, 390])
@pytest.mark.parametrize("kind", ["full", "smoke", "hostile"])
def test_a_phone_never_scrolls_sideways(chromium, html, smoke, hostile_html, kind, width):
    text = {"full": html, "smoke": smoke, "hostile": hostile_html}[kind]
    with opened(chromium, text, width=width, is_mobile=True, device_scale_factor=2) as tab:
        tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate(OUTSIDE, width) == []
        # Tables scroll inside containers that the keyboard reaches.
        hidden = tab.eval_on_selector_all(
            ".scroll", "all => all.filter(e => e.scrollWidth > e.clientWidth && e.tabIndex < 0)"
        )
        assert hidden == []


@pytest.mark.long
def test_tables_open_without_script(chromium, html):
    with opened(chromium, html, java_script_enabled=False) as tab:
        shown = tab.locator("details").first
        assert not shown.locator("table, ol, p").first.is_visible()
        shown.locator("summary").click()
        assert shown.locator("table, ol, p").first.is_visible()


@pytest.mark.parametrize("width", [pytest.param(390, marks=pytest.mark.long), 1100])
def test_labels_are_neither_clipped_nor_over_each_other(chromium, html, width):
    with opened(chromium, html, width=width) as tab:
        pictures = tab.eval_on_selector_all("figure svg, svg.marks", TEXTS)
        assert tab.locator("figure svg").count() == 8
        assert tab.locator("svg.marks").count() == 2
    for picture in pictures:
        frame, boxes = picture["frame"], picture["boxes"]
        assert frame["w"] > 200
        for box in boxes:
            where = (picture["name"], box["words"])
            assert box["x"] > frame["x"] - 3, where
            assert box["x"] + box["w"] < frame["x"] + frame["w"] + 3, where
        for j, a in enumerate(boxes):
            for b in boxes[j + 1 :]:
                wide = min(a["x"] + a["w"], b["x"] + b["w"]) - max(a["x"], b["x"])
                high = min(a["y"] + a["h"], b["y"] + b["h"]) - max(a["y"], b["y"])
                over = wide > 2 and high > 0.4 * min(a["h"], b["h"])
                assert not over, (picture["name"], a["words"], b["words"])


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_every_text_has_contrast_and_every_picture_words(chromium, html, scheme):
    with opened(chromium, html, scheme=scheme) as tab:
        found = tab.evaluate(CONTRAST)
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        named = tab.eval_on_selector_all(
            "svg", "all => all.map(s => s.getAttribute('role') + s.getAttribute('aria-label'))"
        )
    assert len(found) > 300
    assert [words for words, ratio in found if ratio < 4.5] == []
    assert all(re.match("img.+", name) for name in named)
    lightness = [int(c) for c in re.findall(r"\d+", ground)[:3]]
    assert min(lightness) > 240 if scheme == "light" else max(lightness) < 50


def test_verdicts_have_a_color_and_a_word(chromium, html):
    with opened(chromium, html) as tab:
        found = tab.eval_on_selector_all(
            ".figures .judged", "all => all.map(s => [s.textContent, getComputedStyle(s).color])"
        )
    assert {word for word, _ in found} == {"exact", "agrees", "differs", "not judged"}
    assert len({colour for _, colour in found}) == len({tuple(pair) for pair in found}) == 4


def test_headings_are_in_order(chromium, html):
    with opened(chromium, html) as tab:
        levels = tab.eval_on_selector_all(
            "h1, h2, h3, h4, h5, h6", "all => all.map(h => Number(h.tagName[1]))"
        )
        heads = tab.eval_on_selector_all("th", "all => all.map(h => h.getAttribute('scope'))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert set(heads) == {"row", "col", "rowgroup"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper(chromium, html, scheme):
    with opened(chromium, html, width=680, scheme=scheme) as tab:
        assert tab.pdf(format="A4").startswith(b"%PDF")
        tab.emulate_media(media="print")
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        widths = tab.eval_on_selector_all("table", "all => all.map(t => t.offsetWidth)")
        head = tab.locator(".headlines thead").is_visible()
    assert min(int(c) for c in re.findall(r"\d+", ground)[:3]) > 240
    assert max(widths) <= 680
    assert head
