"""The printed figures as data."""

from __future__ import annotations

import math

import pytest

from twoaxis.studies.published import KINDS, Published, published_figures
from twoaxis.studies.registry import BLOCKS

FILES = sorted({block.published or block.name for block in BLOCKS.values()})


@pytest.mark.parametrize("name", FILES)
def test_every_block_has_printed_figures_that_can_be_read(name):
    figures = published_figures(name)
    assert len({figure.key for figure in figures}) == len(figures) > 0
    for figure in figures:
        low, high = figure.ends
        assert math.isfinite(figure.value)
        assert low <= figure.value <= high
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
    assert found.ends == (0.9656, 0.9659)
    assert found.value == pytest.approx(0.96575)
    assert not found.same(0.96575)
    assert figure(".960", interval=(".941", ".989")).ends == (0.941, 0.989)
