"""The page in a real browser: silent, alone, readable on a screen, a phone and paper."""

import re
from itertools import pairwise

import pytest
from web_pages import CONTRAST, TEXTS, opened

MOST = (
    "candidate",
    "decay",
    "many",
    "scattered",
    "several equations",
    "two",
    "axis two alone",
    "another view",
    "flat",
    "on a bound",
    "tiny tolerance",
    "huge tolerance",
    "named long",
)
PAGES = (
    "everything",
    "named script",
    "sensors",
    *(pytest.param(kind, marks=pytest.mark.long) for kind in MOST),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", PAGES)
def test_pictures_are_there_and_silent(chromium, html_of, kind, scheme):
    with opened(chromium, html_of(kind), scheme=scheme) as page:
        boxes = page.eval_on_selector_all(
            "figure svg",
            "all => all.map(s => s.getBoundingClientRect()).map(b => [b.width, b.height])",
        )
        assert len(boxes) >= 5
        assert all(width > 200 and height > 80 for width, height in boxes)
        images = page.eval_on_selector_all(
            "svg image", "all => all.map(i => i.href.baseVal.slice(0, 15))"
        )
        assert all(image == "data:image/png;" for image in images)
        assert page.locator("script").count() == 0
        named = page.eval_on_selector_all(
            "svg[role=img], img", "all => all.map(s => s.getAttribute('aria-label') || s.alt)"
        )
        assert all(named)
        assert len(named) == page.locator("svg, img").count()


def test_dark_is_dark(chromium, html_of):
    grounds = {}
    for scheme in ("light", "dark"):
        with opened(chromium, html_of("everything"), scheme=scheme) as page:
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            line = page.evaluate(
                "[...document.querySelectorAll('figure svg text')].map("
                "t => getComputedStyle(t).fill)[0]"
            )
            grounds[scheme] = [int(c) for c in re.findall(r"\d+", ground)[:3]], line
    assert min(grounds["light"][0]) > 240
    assert max(grounds["dark"][0]) < 50
    assert grounds["light"][1] != grounds["dark"][1]


@pytest.mark.parametrize("kind", PAGES)
def test_a_phone_shows_all_of_it(chromium, html_of, kind):
    with opened(chromium, html_of(kind), width=360, is_mobile=True, device_scale_factor=2) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        outside = page.evaluate(
            "[...document.querySelectorAll('body *:not(.skip)')].filter("
            "e => e.getBoundingClientRect().right > 361).map(e => e.outerHTML.slice(0, 80))"
        )
        assert outside == []


@pytest.mark.parametrize("kind", PAGES)
def test_labels_are_neither_clipped_nor_over_each_other(chromium, html_of, kind):
    with opened(chromium, html_of(kind)) as page:
        pictures = page.eval_on_selector_all("figure svg", TEXTS)
    assert pictures
    for picture in pictures:
        frame, boxes = picture["frame"], picture["boxes"]
        for box in boxes:
            where = (picture["name"], box["words"])
            assert box["x"] > frame["x"] - 3, where
            assert box["x"] + box["w"] < frame["x"] + frame["w"] + 3, where
            assert box["y"] > frame["y"] - 3, where
            assert box["y"] + box["h"] < frame["y"] + frame["h"] + 3, where
        for j, a in enumerate(boxes):
            for b in boxes[j + 1 :]:
                wide = min(a["x"] + a["w"], b["x"] + b["w"]) - max(a["x"], b["x"])
                high = min(a["y"] + a["h"], b["y"] + b["h"]) - max(a["y"], b["y"])
                # Boxes of lines include room above and below the letters.
                over = wide > 2 and high > 0.4 * min(a["h"], b["h"])
                assert not over, (picture["name"], a["words"], b["words"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["everything", "candidate", "two", "axis two alone"])
def test_every_text_has_contrast(chromium, html_of, kind, scheme):
    with opened(chromium, html_of(kind), scheme=scheme) as page:
        found = page.evaluate(CONTRAST)
    assert len(found) > 100
    assert [words for words, ratio in found if ratio < 4.5] == []


@pytest.mark.parametrize("kind", PAGES)
def test_headings_are_in_order(chromium, html_of, kind):
    with opened(chromium, html_of(kind)) as page:
        levels = page.eval_on_selector_all(
            "h1, h2, h3, h4, h5, h6", "all => all.map(h => Number(h.tagName[1]))"
        )
        heads = page.eval_on_selector_all("th", "all => all.map(h => h.getAttribute('scope'))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert set(heads) == {"row", "col"}


def test_the_keyboard_reaches_the_content(chromium, html_of):
    with opened(chromium, html_of("everything")) as page:
        page.keyboard.press("Tab")
        skip = page.locator(":focus")
        assert skip.inner_text() == "Skip to the measurements"
        assert skip.bounding_box()["x"] >= 0
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"


def test_a_parameter_named_script_stays_text(chromium, html_of):
    with opened(chromium, html_of("named script")) as page:
        assert page.locator("script").count() == 0
        assert "<script>alert(1)</script>" in page.inner_text("body")
        assert "<script>alert(1)" in "".join(page.locator("svg text").all_text_contents())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["everything", "two"])
def test_paper(chromium, html_of, kind, scheme):
    with opened(chromium, html_of(kind), scheme=scheme, width=700) as page:
        sheet = page.pdf(format="A4")
        page.emulate_media(media="print")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        kept = page.eval_on_selector_all(
            "figure, table",
            "all => all.map(f => [getComputedStyle(f).breakInside, f.offsetHeight])",
        )
    assert sheet.startswith(b"%PDF")
    assert min(int(c) for c in re.findall(r"\d+", ground)[:3]) > 240
    # 265 mm are left of a sheet of A4 between its margins.
    assert all(rule == "avoid" and height < 265 / 25.4 * 96 for rule, height in kept)


def test_a_page_from_a_file(chromium, html_of, tmp_path):
    path = tmp_path / "audit.html"
    path.write_text(html_of("everything"), encoding="utf-8")
    context = chromium.new_context(offline=True)
    page = context.new_page()
    told = []
    page.on("console", lambda message: told.append(message.text))
    page.goto(path.as_uri())
    assert page.locator("figure svg").count() >= 10
    assert told == []
    context.close()


@pytest.mark.parametrize("theme", ["true", "false"])
def test_the_notebook_in_a_host_page(chromium, audit_of, theme):
    fragment = audit_of("everything")._repr_html_()
    head = '<!DOCTYPE html><title>n</title><link rel="icon" href="data:,">'
    body = f'<body data-jp-theme-light="{theme}"><p id="own">own</p>'
    host = f"{head}{body}{fragment}{fragment}"
    with opened(chromium, host, width=600) as page:
        assert page.locator("figure svg").count() == 6
        assert (
            page.evaluate("getComputedStyle(document.querySelector('#own')).color")
            == "rgb(0, 0, 0)"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= 600
        inside = [pair for pair in page.evaluate(CONTRAST) if pair[0] != "own"]
        assert [words for words, ratio in inside if ratio < 4.5] == []
