"""The page of a reproduction as text: complete, escaped, the same bytes each time."""

import copy
import re

import pytest
from web_pages import Reader

from twoaxis.studies import figures, page
from twoaxis.studies.page import MARGIN, MOST_ROWS, strip_of


def cells(html, row):
    """The texts of the cells of the first row that holds a text."""
    (found,) = [line for line in re.findall("<tr.*?</tr>", html, re.DOTALL) if row in line][:1]
    return [Reader(cell).text for cell in re.findall("<t[hd].*?</t[hd]>", found, re.DOTALL)]


def test_counts(records, html):
    words = ("exact", "agrees", "not contradicted", "differs", "not judged")
    verdicts = [figure["verdict"] for record in records for figure in record["figures"]]
    total = [str(verdicts.count(word)) for word in words]
    assert total == ["5", "29", "0", "2", "1"]
    assert Reader(html).text.count("5 exact, 29 agree, 2 differ, 1 not judged") == 2
    assert cells(html, 'scope="row">all')[1:6] == total
    for record in records:
        own = [figure["verdict"] for figure in record["figures"]]
        row = cells(html, f'href="#block-{record["name"]}">')
        assert row[:6] == [record["title"], *(str(own.count(word)) for word in words)]


def test_figures_that_a_block_of_our_own_borrows_count_once(made):
    own = made.record(
        "fresh-noise", [made.figure("a", verdict="differs")], figures_of="fresh-noise"
    )
    borrowed = made.record("noise-draws", [made.figure("a")], figures_of="fresh-noise")
    html = page.render([own, borrowed], {})
    assert "1 differs." in Reader(html).text
    assert cells(html, 'scope="row">all')[1:6] == ["0", "0", "0", "1", "0"]


def test_figures_outside_all_initializations_are_counted_beside_chance(made):
    drawn = [
        made.figure(f"k{k}", 0.5, initializations=9, percentile=percentile)
        for k, percentile in enumerate((0.0, 100.0, 50.0, 20.0))
    ]
    still = made.figure("still", 0.5, initializations=9, percentile=0.0, values=[0.4] * 9)
    noisy = made.figure("noisy", 0.5, initializations=9, percentile=0.0, chance="noise")
    single = made.figure("single")
    found = page.outside_all([made.record("x", [*drawn, still, noisy, single])])
    assert found == (2, 4, pytest.approx(20))
    assert page.outside_all([made.record("x", [single])]) is None
    assert (
        "2 of 4 retrained figures (50%)" in Reader(page.render([made.record("x", drawn)], {})).text
    )


def test_verdicts_of_both_rules_stand_beside_each_other(made):
    told = [
        made.figure("a", verdict="agrees"),
        made.figure("b", verdict="not contradicted"),
        made.figure("c", verdict="differs"),
    ]
    first = {("x", "a"): "exact", ("x", "b"): "agrees"}
    html = page.render([made.record("x", told, figures_of="x")], {}, first)
    assert cells(html, '<tr><th scope="row">exact')[1:] == ["0", "1", "0", "0", "0", "1"]
    assert cells(html, '<tr><th scope="row">agrees')[1:] == ["0", "0", "1", "0", "0", "1"]
    assert cells(html, '<tr><th scope="row">added since')[1:] == ["0", "0", "0", "1", "0", "1"]
    assert "first rule" not in page.render([made.record("x", told, figures_of="x")], {})


def test_bars_are_as_long_as_counts():
    counts = {"exact": 1, "agrees": 0, "differs": 3, "not judged": 0}
    assert page.bar(counts, 8) == [("exact", 0.0, 12.5), ("differs", 12.5, 37.5)]


def test_main_claims_come_first(records, html):
    text = Reader(html).text
    start, end = text.index("Main claims"), text.index("Scores against frozen minima")
    assert start < end
    for record in records:
        for figure in record["figures"]:
            assert text.count(figure["label"]) >= 1 + figure["headline"]
            assert (figure["label"] in text[start:end]) == figure["headline"]
    assert text.index("How agreement is judged") < start
    assert end < text.index("What differs") < text.index("May show what resolution shows.")


def test_a_block_tells_everything(records, html):
    text = Reader(html).text
    for record in records:
        assert record["claim"] in text
        assert record["notes"][0] in text
        for call in record["calls"]:
            assert call["command"] in text
    assert "12 fields trained for 1 initialization, 6 min 52 s on CPU" in text
    assert "twoaxis 0.1.0, jax 0.11.0" in text
    assert "No call trained anything for this block." in text
    row = cells(html, 'id="block-repeated-1"')
    wanted = ["the figure one Table A1", "0.5 [-0.50, 1.50]", "0.500 [0.40, 0.70]"]
    assert row == [*wanted, "0.525 [0.500, 0.550]", "5", "agrees"]
    assert len(cells(html, 'id="block-darcy-1"')) == 4
    assert "Our intervals: cluster bootstrap." in text


def test_what_differs_has_its_reason(html):
    text = Reader(html).text
    assert text.count("It is drawn by chance.") == 2
    assert "No reason is known." in text


def test_kinds_of_intervals_are_told_apart(made):
    both = [
        made.bounded("a", 1.0, 0.5, 1.5),
        made.bounded("b", 1.0, 0.5, 1.5) | {"interval_source": "another kind"},
    ]
    text = page.render([made.record("x", both)], {})
    assert cells(text, 'id="block-x-2"')[2] == "1.000 [0.50, 1.50] b"
    assert "a cluster bootstrap; b another kind." in Reader(text).text


def test_a_figure_without_a_value(made):
    values = {"ours": None, "ours_text": "nan", "values": [None] * 6, "mean_text": "nan"}
    figures_ = [made.figure("a", 1.0, "differs", 6, headline=True) | values]
    text = Reader(page.render([made.record("x", figures_)], {})).text
    assert "no value" in text
    assert "nan" not in text


def test_nothing_is_judged_at_smoke_scale(smoke, html):
    banner = "Smoke scale. A few steps on a few points prove that every part works"
    # At the top, and at each of both blocks.
    assert Reader(smoke).text.count(banner) == 3
    assert banner not in Reader(html).text
    assert "9 not judged." in Reader(smoke).text


def test_long_tables_are_cut_and_say_so(made):
    rows = [{"n": k, "x": 1 / 3, "yes": k == 0, "none": None} for k in range(MOST_ROWS + 5)]
    html = page.render([made.record("x", [made.figure("a")], {"t": made.table(rows)})], {})
    text = Reader(html).text
    assert f"The first {MOST_ROWS} rows; all of them are in tables/x-t.csv" in text
    assert "0 0.3333 yes –" in text
    assert f"{MOST_ROWS - 1} 0.3333 no –" in text
    assert f"{MOST_ROWS} 0.3333" not in text


def test_the_same_bytes_each_time(records, html):
    assert page.render(copy.deepcopy(records), figures.draw(records)) == html


def test_an_empty_reproduction_has_a_page():
    assert "nothing yet" in page.render([], {})


def test_nothing_points_outside(html):
    found = Reader(html)
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for key in ("src", "href", "xlink:href"):
            target = attributes.get(key, "data:")
            assert target.startswith("data:") or target[1:] in ids
    assert not found.all("script")
    assert "@import" not in html


def test_two_blocks_of_one_name_have_two_anchors(made):
    names = [made.record(name, [made.figure("a")]) for name in ("A b", "a-b")]
    ids = [tag["id"] for _, tag in Reader(page.render(names, {})).tags if "id" in tag]
    assert len(ids) == len(set(ids))


def test_hostile_texts_stay_texts(hostile_html):
    found = Reader(hostile_html)
    assert not found.all("script")
    assert not found.all("img")
    assert "\u0007" not in hostile_html
    assert found.text.count("<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;") > 10


def test_a_strip_to_scale(made):
    # From .3 to .8: a quarter of the way is .425.
    figure = made.figure("a", 0.8, initializations=6)
    figure |= {"values": [0.3, 0.425, 0.55, 0.675, 0.8, 0.3], "interval": [0.425, 0.675]}
    strip = strip_of(figure)
    wide = 100 - 2 * MARGIN
    quarters = [MARGIN + wide * k / 4 for k in range(5)]
    assert [x for x, _ in strip.dots] == pytest.approx([*quarters, quarters[0]], abs=0.01)
    assert strip.band == pytest.approx((quarters[1], quarters[3]), abs=0.01)
    assert strip.published == pytest.approx(quarters[4], abs=0.01)
    assert strip.printed_band is None
    assert (strip.low, strip.high) == ("0.30", "0.80")
    assert "6 initializations from 0.3 to 0.8" in strip.alt


def test_a_strip_with_close_and_with_equal_values(made):
    close = made.figure("a", 0.999994, initializations=6)
    close["values"] = [0.999991 + 1e-6 * k for k in range(6)]
    assert strip_of(close).low == "0.9999910"
    equal = made.figure("a", 72.0, initializations=6) | {"values": [72.0] * 6}
    assert {x for x, _ in strip_of(equal).dots} == {50.0}
    assert strip_of(equal).low == ""
    assert strip_of(made.figure("a", 0.5, initializations=4)) is None
