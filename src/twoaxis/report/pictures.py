"""The pictures of a page in their order, each with its alt text and one line on reading it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from twoaxis.report import alt
from twoaxis.report.audited import MISSING, Audited
from twoaxis.report.decision_map import SIZE as MAP_SIZE
from twoaxis.report.decision_map import plot_decision_map
from twoaxis.report.delivery_figure import SIZE as DELIVERY_SIZE
from twoaxis.report.delivery_figure import plot_delivery
from twoaxis.report.evidence_figure import plot_evidence
from twoaxis.report.profile_figure import plot_profile
from twoaxis.report.resolution_figure import plot_resolution
from twoaxis.report.spectrum_figure import plot_spectrum
from twoaxis.report.theme import MIDDLE, SMALL, inline_svg
from twoaxis.report.training_figure import (
    Quantity,
    plot_along_training,
    quantities_along_training,
)
from twoaxis.text import number, visible


class Picture(NamedTuple):
    """One drawing, what it shows, and one line that says how to read it."""

    svg: str
    caption: str
    reading: str


class Missing(NamedTuple):
    """What a section lacks, and the call that adds it."""

    what: str
    call: str


class Section(NamedTuple):
    """A heading with its pictures: one wide one a row, or two or three beside each other."""

    anchor: str
    title: str
    pictures: list[Picture]
    missing: list[Missing]
    beside: int = 1


def sections(audited: Audited) -> Iterator[Section]:
    """Draw all pictures of an audit, in the order of the page."""
    yield map_section(audited)
    yield _resolution(audited)
    yield profile_section(audited)
    yield _evidence(audited)
    yield _spectrum(audited)
    yield _delivery(audited)
    yield _training(audited)


def _missing(path: str) -> list[Missing]:
    return [Missing(*MISSING[path])]


def map_section(audited: Audited) -> Section:
    """Draw the decision map."""
    reading = (
        "The lines are the tolerances, and the cell that holds the point names the next step; a "
        "hollow point is within tolerance or undetermined, and a dashed line lacks a coordinate."
        if audited.around_truth
        else "The lines are the tolerances; no cell speaks of residual evidence, because around "
        "a candidate a displacement tells where training stopped, not where it should have."
    )
    svg = inline_svg(plot_decision_map, audited, alt=alt.decision_map(audited), size=MAP_SIZE)
    caption = "How far the field moves the parameter, against what the observations resolve."
    return Section("decision-map", "Decision map", [Picture(svg, caption, reading)], [])


def _resolution(audited: Audited) -> Section:
    pictures, missing = [], []
    reading = (
        "A value among the bars is one that these observations could have produced by noise "
        "alone; the curve is what Fisher information predicts for the bars."
    )
    if audited.group("/resolution") is None:
        missing = _missing("/resolution")
    else:
        for name in audited.names:
            words = alt.resolution(audited, name)
            svg = inline_svg(plot_resolution, audited, alt=words, parameter=name)
            caption = f"Matched fits of {visible(name)} to repeated noise."
            pictures.append(Picture(svg, caption, reading))
    return Section("resolution", "What the observations resolve", pictures, missing)


def profile_section(audited: Audited) -> Section:
    """Draw the frozen profiles."""
    reading = (
        f"The field, held as it is, prefers the lowest point; its distance from the "
        f"{audited.center_word} is the displacement, and where the dashed parabola leaves the "
        "curve the local reading ends."
    )
    pictures = []
    for name in audited.names:
        caption = f"Frozen profile along {visible(name)}"
        svg = inline_svg(plot_profile, audited, alt=alt.profile(audited, name), parameter=name)
        under = ", under the audited view." if audited.cross_view else "."
        pictures.append(Picture(svg, f"{caption}{under}", reading))
        if audited.cross_view:
            trained = audited.value("/training_view/scan", "minimum", name)
            words = f"{caption} under the training view: minimum at {number(trained)}."
            svg = inline_svg(plot_profile, audited, alt=words, parameter=name, training_view=True)
            under = ", under the training view."
            also = "Delivery is read from this one: the delivered value should lie at its minimum."
            pictures.append(Picture(svg, f"{caption}{under}", also))
    return Section("profile", "What the frozen field prefers", pictures, [])


def _evidence(audited: Audited) -> Section:
    pictures, missing = [], []
    if "field" in audited.need("/field"):
        svg = _drawn(plot_evidence, audited, alt.field(audited), SMALL, quantity="field")
        reading = "It may look right everywhere and still displace the parameter."
        pictures.append(Picture(svg, "The learned field.", reading))
    else:
        missing = _missing("field")
    svg = _drawn(plot_evidence, audited, alt.residual(audited), SMALL, quantity="residual")
    reading = "Strong colours are places where the field does not meet the equation."
    caption = f"Residual at the {audited.center_word}."
    pictures.append(Picture(svg, caption, reading))
    for name in audited.names:
        words, shown = alt.evidence(audited, name), visible(name)
        svg = _drawn(plot_evidence, audited, words, SMALL, parameter=name)
        reading = f"Plus (red) pulls {shown} down, minus (blue) pulls it up; pale places are mute."
        pictures.append(Picture(svg, f"Signed evidence about {shown}.", reading))
    return Section("evidence", "Where the preference comes from", pictures, missing, 3)


def _drawn(draw: Any, audited: Audited, words: str, size: Any, **options: Any) -> str:
    return inline_svg(draw, audited, alt=words, size=size, **options)


def _spectrum(audited: Audited) -> Section:
    pictures, missing = [], []
    reading = (
        "Where the dashed line rises the modes see the parameter; areas on both sides of zero "
        "with the line between them near it are pulls that cancel."
    )
    group = audited.group("/spectrum")
    if group is None:
        missing = _missing("/spectrum")
    else:
        basis = visible(group.attrs.get("basis", ""))
        for name in audited.names:
            words = alt.spectrum(audited, name)
            svg = inline_svg(plot_spectrum, audited, alt=words, parameter=name)
            caption = f"Residual modes and {visible(name)}; modes are {basis}."
            pictures.append(Picture(svg, caption, reading))
    return Section("spectrum", "Which residual modes carry it", pictures, missing)


def _delivery(audited: Audited) -> Section:
    pictures, missing = [], []
    reading = (
        "Steps add up in the coordinate: what the field prefers, and the gap that training left, "
        "make what was delivered."
        if audited.around_truth
        else "The full bar is the step from the delivered value to what its own field prefers, "
        "the hatched one the delivery gap that leads back."
    )
    group = audited.group("/delivery")
    if group is None and all(math.isfinite(audited.delivered(n)) for n in audited.names):
        what = MISSING["/delivery"][0]
        missing = [Missing(f"{what}, since the frozen profile is flat and has no minimum", "")]
    elif group is None:
        missing = _missing("/delivery")
    else:
        view = visible(group.attrs.get("view", ""))
        for name in audited.names:
            words = alt.delivery(audited, name)
            svg = _drawn(plot_delivery, audited, words, DELIVERY_SIZE, parameter=name)
            caption = f"How {visible(name)} was delivered, under the training view ({view})."
            pictures.append(Picture(svg, caption, reading))
    return Section("delivery", "From preference to delivery", pictures, missing)


READINGS_ALONG: dict[Quantity, tuple[str, str]] = {
    "loss": ("What training recorded.", "Flat ends have converged; what still falls has not."),
    "parameter": (
        "{} and what the field of each step prefers.",
        "A band that closes is a parameter that follows its field.",
    ),
    "strength": (
        "Strength H of {}.",
        "Where it rises, the residual holds the parameter more firmly.",
    ),
    "gap": (
        "Preference and delivery gap of {}, in its coordinate.",
        "A gap at zero with a preference away from it is a field that is displaced as a whole.",
    ),
}


def _training(audited: Audited) -> Section:
    pictures = []
    found = quantities_along_training(audited)
    for quantity in found:
        caption, reading = READINGS_ALONG[quantity]
        for name in audited.names[: 1 if quantity == "loss" else None]:
            words = alt.along_training(audited, quantity, name)
            svg = _drawn(
                plot_along_training,
                audited,
                words,
                MIDDLE,
                quantity=quantity,
                parameter=None if quantity == "loss" else name,
            )
            shown = caption.format(visible(name))
            if quantity == "parameter" and audited.group("/snapshots") is None:
                shown, reading = f"{visible(name)} along training.", "A flat end has converged."
            pictures.append(Picture(svg, shown, reading))
    missing = [
        one
        for path in ("/history", "/snapshots")
        if audited.group(path) is None
        for one in _missing(path)
    ]
    return Section("training", "Along training", pictures, missing, 2)
