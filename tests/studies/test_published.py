"""The printed figures as data."""

from __future__ import annotations

import math

import pytest

from twoaxis.studies.published import KINDS, Published, published_figures
from twoaxis.studies.registry import BLOCKS

FILES = sorted({b.figures_of for b in BLOCKS.values() if b.published is not None})


@pytest.mark.parametrize("name", FILES)
def test_every_block_has_printed_figures_that_can_be_read(name):
    figures = published_figures(name)
    assert len({figure.key for figure in figures}) == len(figures) > 0
    for figure in figures:
        low, high = figure.rounded
        assert math.isfinite(figure.value)
        assert low <= figure.value <= high
        if figure.interval:
            assert float(figure.interval[0]) <= figure.value <= float(figure.interval[1])
        assert figure.label
        assert figure.where
        least, most = KINDS[figure.kind]
        assert least <= figure.value <= most
        # A printed number is told as it was printed.
        if "–" not in figure.printed:
            assert figure.same(figure.value)


def test_the_headline_figures_are_marked():
    named = {
        (name, figure.key)
        for name in FILES
        for figure in published_figures(name)
        if figure.headline
    }
    for wanted in (
        ("development", "pooled_r"),
        ("holdout", "pooled_r"),
        ("architecture", "pooled_r"),
        ("fresh-noise", "profile_r"),
        ("fresh-noise", "aligned_signed_r"),
        ("fresh-noise", "aligned_directions"),
        ("fresh-noise", "excess_burgers"),
        ("fresh-noise", "excess_allen-cahn"),
    ):
        assert wanted in named


def figure(printed, **options):
    return Published(key="k", label="l", printed=printed, kind="signed", **options)


def test_digits_follow_the_printed_number():
    assert figure(".960").shown(0.96049) == "0.960"
    assert figure(".960").same(0.9604)
    assert not figure(".960").same(0.9606)
    assert figure("9.72e-8").shown(9.7249e-8) == "9.72e-08"
    assert figure("9.72e-8").same(9.7249e-8)
    assert figure("-3.54").shown(-0.001) == "0.00"
    assert figure("2.47").shown(3.1e40) == "3.10e+40"
    assert figure("2.47").shown(float("nan")) == "undefined"


def test_a_count_is_its_numerator():
    found = Published(key="k", label="l", printed="237/240", kind="count")
    assert (found.value, found.of, found.limits) == (237, 240, (0, 240))
    assert found.same(237)
    assert not found.same(236)


def test_a_range_has_ends_and_is_no_single_number():
    found = figure(".9656–.9659")
    assert found.rounded == pytest.approx((0.96555, 0.96595), abs=1e-12)
    assert found.value == pytest.approx(0.96575)
    assert not found.same(0.96575)


@pytest.mark.parametrize(
    ("printed", "low", "high"),
    [
        (".960", 0.9595, 0.9605),
        ("-3.54", -3.545, -3.535),
        ("615", 614.5, 615.5),
        ("9.72e-8", 9.715e-8, 9.725e-8),
        ("+1.8", 1.75, 1.85),
    ],
)
def test_a_printed_number_stands_for_what_rounds_to_it(printed, low, high):
    assert figure(printed).rounded == pytest.approx((low, high), rel=1e-12)


def test_counts_are_not_rounded_and_bounds_are_open():
    assert Published(key="k", label="l", printed="237/240", kind="count").rounded == (237, 237)
    assert figure("2.0", bound="below").rounded == (-math.inf, pytest.approx(2.05))
    assert figure("2.0", bound="above").rounded == (pytest.approx(1.95), math.inf)


def test_more_digits_from_another_place_are_judged_and_the_printed_ones_shown():
    found = figure(".982", precise=".98174")
    assert found.rounded == pytest.approx((0.981735, 0.981745), abs=1e-12)
    assert found.shown(0.97) == "0.970"
    for name in FILES:
        for each in published_figures(name):
            if each.precise and "–" not in each.precise:
                assert each.same(each.value), (name, each.key)


def test_the_head_of_a_file_says_what_chance_decides():
    resolution = {each.key: each.chance for each in published_figures("resolution")}
    assert resolution["mean_burgers"] == "noise"
    assert resolution["fisher_burgers"] == "none"
    proxies = {each.key: each.chance for each in published_figures("proxies")}
    assert proxies["development_field"] == "initialization"
    assert proxies["fresh_aligned_field"] == "noise"
