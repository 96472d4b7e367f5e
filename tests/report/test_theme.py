"""Legends leave the axes as they are, and labels are read as mathematics only where they are."""

import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import twoaxis as ta
from twoaxis.report.theme import axis_or_new, inline_svg, label, legend_above, named

NU = ta.Parameter(truth=0.01, bounds=(0.002, 0.05))


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def drawn_height(count, ax=None):
    """Height of the axes, in inches, beneath a legend of so many lines."""
    ax = axis_or_new(ax)
    for k in range(count):
        ax.plot([0, 1], [0, k], label=f"entry number {k}")
    legend_above(ax, columns=1)
    label(ax, "x", "y")
    ax.figure.canvas.draw()
    return ax.get_position().height * ax.figure.get_size_inches()[1]


def test_a_legend_does_not_shrink_the_axes_of_a_new_figure():
    one, six = drawn_height(1), drawn_height(6)
    assert six == pytest.approx(one, rel=0.03)


def test_a_legend_does_not_shrink_the_readers_axes():
    figure, axes = plt.subplots(1, 2, layout="constrained")
    size = tuple(figure.get_size_inches())
    drawn_height(6, axes[0])
    assert tuple(figure.get_size_inches()) == size
    left, right = (ax.get_position().height for ax in axes)
    assert left == pytest.approx(right)
    frame = axes[0].get_legend().get_window_extent()
    assert axes[0].get_window_extent().contains(frame.x0, frame.y0)
    assert axes[0].get_window_extent().contains(frame.x1, frame.y1)


@pytest.mark.parametrize(
    ("given", "name", "shown"),
    [
        ({}, "nu", "nu"),
        ({"label": "viscosity"}, "nu", "viscosity"),
        ({"label": r"$\nu$"}, "nu", r"$\nu$"),
        ({"unit": "m^2/s"}, "nu", "nu (m^2/s)"),
        ({"label": r"$\nu$", "unit": r"$\mathrm{m}^2$/s"}, "nu", r"$\nu$ ($\mathrm{m}^2$/s)"),
        # Mathematics that cannot be read is passed over; a dollar in a name stays one.
        ({"label": r"$\frac{"}, "nu", "nu"),
        ({"label": "$" + "x" * 100 + "$"}, "nu", "nu"),
        ({"unit": "$"}, "a$b", "a$b ($)"),
        ({"unit": r"$\mu$m"}, "a$b", r"a\$b ($\mu$m)"),
    ],
)
def test_what_a_figure_calls_a_parameter(given, name, shown):
    assert named(replace(NU, **given), name, unit=True) == shown


def test_labels_and_units_in_pictures():
    x = np.linspace(0, 1, 30)
    own = replace(NU, label=r"$\nu$", unit=r"m$^2$/s", delivered=0.012)
    score = ta.score(lambda nu: nu * (1 + x) - 0.011, {"nu": own}, ta.views.Pointwise(), points=x)
    scan = ta.frozen_scan(
        lambda nu: nu * (1 + x) - 0.011, {"nu": own}, ta.views.Pointwise(), points=x
    )
    assert scan.plot().get_xlabel() == r"$\nu$ (m$^2$/s)"
    assert score.plot().get_yticklabels()[0].get_text() == r"$\nu$"
    picture = inline_svg(ta.plots.plot_profile, scan, alt="profile")
    texts = re.findall(r"<text[^>]*>(.*?)</text>", picture, re.DOTALL)
    [words] = [t for t in texts if "ν" in t]
    assert "$" not in words


def test_a_dollar_in_a_name_is_drawn_beside_mathematics():
    known = {"a$b": replace(NU, unit=r"$\mu$m")}
    x = np.linspace(0, 1, 30)
    scan = ta.frozen_scan(
        lambda **p: p["a$b"] * (1 + x) - 0.011, known, ta.views.Pointwise(), points=x
    )
    picture = inline_svg(ta.plots.plot_profile, scan, alt="profile")
    texts = [re.sub("<[^>]*>", "", t) for t in re.findall(r"<text.*?</text>", picture, re.DOTALL)]
    [words] = [t for t in texts if "μ" in t]
    assert "".join(words.split()).startswith("a$b(")
