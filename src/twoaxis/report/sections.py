"""The sections of a page, in order: pictures with alt text and one line on how to read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from twoaxis.diagnosis import Audit
from twoaxis.diagnosis.result import MISSING
from twoaxis.report.figures import (
    correlation,
    decision_map,
    delivery,
    directions,
    evidence,
    forest,
    function,
    likelihood,
    misfit,
    observations,
    profile,
    resolution,
    spectrum,
)
from twoaxis.report.figures import training as along
from twoaxis.report.theme import MIDDLE, SMALL, inline_svg
from twoaxis.text import percent, visible


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
    """A heading with its pictures: one wide picture per row, or two or three side by side."""

    anchor: str
    title: str
    pictures: list[Picture]
    missing: list[Missing]
    beside: int = 1


# With more parameters of interest than this, they have pictures and a table together instead of
# pictures and tables each.
MANY = 6


def one_by_one(audit: Audit) -> list[str]:
    """Return the parameters that have pictures of their own; none where there are many.

    Node values of an unknown function have none: the function has.
    """
    return audit.scalars if len(audit.scalars) <= MANY else []


def leading_sections(audit: Audit) -> Iterator[Section]:
    """Draw what a reader looks for first: the data, and all parameters side by side."""
    yield data_section(audit)
    for name in audit.functions:
        yield function_section(audit, name)
    if len(audit.scalars) > 1:
        yield parameters_section(audit)


def function_section(audit: Audit, name: str) -> Section:
    """Draw an unknown function with its band, its displacement and its weak directions."""
    words = function.describe(audit, name)
    two = len(audit.functions[name].basis.axes) > 1
    band = (
        "Hatched is where the data do not determine the function: the band reaches its bounds. "
        f"{'Dots' if two else 'Ticks'} are the nodes."
    )
    drawings: list[tuple[Any, str, str]] = [
        (function.plot_function, "The function with what the data allow.", band),
        (
            function.plot_function_displacement,
            f"Displacement that the frozen field prefers, from the {audit.center_word}.",
            f"{'Where it is red' if two else 'Above zero'} the field prefers larger values, "
            f"{'where it is blue' if two else 'below zero'} smaller ones.",
        ),
        (
            function.plot_function_directions,
            "The least determined changes of the function.",
            "A change of this shape alters the residual least: the frozen field hardly sees it.",
        ),
    ]
    pictures = []
    for draw, caption, reading in drawings:
        svg = inline_svg(
            draw, audit, alt=f"{caption} {words}", size=MIDDLE, panels=True, function=name
        )
        pictures.append(Picture(svg, caption, reading))
    anchor = f"function-{list(audit.parameters.functions).index(name)}"
    return Section(anchor, f"The function {visible(name)}", pictures, [], 1 if two else 2)


def data_section(audit: Audit) -> Section:
    """Draw data, field and solver, what they leave of the data, and the likelihood."""
    title = "Data, field and solver"
    group = audit.group("/observations")
    if group is None:
        return Section("data", title, [], _missing("/observations"))
    svg = inline_svg(
        observations.plot_observations,
        audit,
        alt=observations.describe(audit),
        size=observations.size_of(audit),
        panels=True,
    )
    reading = (
        "Where the line of the field leaves the band, the network has not fitted the data; where "
        "that of the solver at the delivered value does, the data contradict the parameter."
    )
    pictures = [Picture(svg, "What was observed and what is predicted there.", reading)]
    if misfit.series_of(group):
        words, size = misfit.describe(audit), misfit.size_of(audit)
        svg = inline_svg(misfit.plot_misfit, audit, alt=words, size=size)
        reading = (
            "Dots of a good fit scatter about zero, two of three within the inner band. A field "
            "whose dots crowd at zero has fitted the noise."
        )
        pictures.append(Picture(svg, "What is left of the data, in noise levels.", reading))
    if audit.group("/likelihood") is not None:
        for name in one_by_one(audit):
            if likelihood.curve_of(audit, name) is not None:
                pictures.append(_likelihood(audit, name))
    missing = [] if "field" in group else [Missing(*WITHOUT_FITTED)]
    return Section("data", title, pictures, missing)


WITHOUT_FITTED = ("what the field predicts for the observations", "twoaxis.audit(..., fitted=...)")


def _likelihood(audit: Audit, name: str) -> Picture:
    svg = inline_svg(
        likelihood.plot_likelihood,
        audit,
        alt=likelihood.describe(audit, name),
        size=likelihood.SIZE,
        panels=True,
        parameter=name,
    )
    alone = (
        "The lower curve is the loss of the trained field alone with the other parameters held; "
        "the joint minimum is what it prefers."
        if profile.sliced(audit.scan)
        else "The lower curve is what the trained field alone prefers; its width says nothing "
        "about the data."
    )
    reading = f"Values below the line of 2σ are those that the data allow. {alone}"
    return Picture(
        svg, f"Likelihood of {visible(name)}, and the {profile.curve_word(audit.scan)}.", reading
    )


def parameters_section(audit: Audit) -> Section:
    """Draw all parameters side by side, how they are tied, and the weakest combinations."""
    words, size = forest.describe(audit), forest.size_of(audit)
    svg = inline_svg(forest.plot_forest, audit, alt=words, size=size)
    reading = "A delivered value outside of the green interval is not what the data say."
    pictures = [Picture(svg, "All parameters side by side.", reading)]
    if len(audit.names) > 2 and not audit.parameters.functions:
        words = correlation.describe(audit)
        svg = inline_svg(correlation.plot_correlation, audit, alt=words, size=correlation.SIZE)
        reading = "Near 1 or −1, only a combination of the two parameters is determined."
        pictures.append(Picture(svg, "How parameters are tied to each other.", reading))
        words, size = directions.describe(audit), directions.size_of(audit)
        svg = inline_svg(directions.plot_directions, audit, alt=words, size=size)
        reading = "Parameters may move together in these shares and change the residual little."
        pictures.append(Picture(svg, "The weakest directions of the residual.", reading))
    return Section("parameters", "Parameters together", pictures, [])


def sections(audit: Audit) -> Iterator[Section]:
    """Draw the pictures of both axes and of training, in the order of the page."""
    yield map_section(audit)
    if not one_by_one(audit):
        yield _evidence(audit)
        yield _training(audit)
        return
    yield _resolution(audit)
    yield profile_section(audit)
    yield _evidence(audit)
    yield _spectrum(audit)
    yield _delivery(audit)
    yield _training(audit)


def _missing(path: str) -> list[Missing]:
    return [Missing(*MISSING[path])]


def map_section(audit: Audit) -> Section:
    """Draw the decision map."""
    reading = (
        "Lines are the tolerances, and the cell of the point is the route. A hollow point is "
        "within tolerance or undetermined; a dashed line means that a coordinate is not known."
        if audit.around_truth
        else "Lines are the tolerances. There is no column for residual evidence: around a "
        "candidate a displacement shows where training stopped, not where it should have."
    )
    words = decision_map.describe(audit)
    svg = inline_svg(decision_map.plot_decision_map, audit, alt=words, size=decision_map.SIZE)
    caption = f"{audit.matched_noun.capitalize()} against field displacement."
    if audit.tolerance is not None:
        reading += f" {_in_words(audit.routes_by_tolerance())}"
    return Section("decision-map", "Decision map", [Picture(svg, caption, reading)], [])


def _in_words(routes: pd.DataFrame) -> str:
    """Say at which tolerances the route changes."""
    if len(routes) == 1:
        return f"The route is {routes['route'][0]} at any tolerance."
    parts = [f"{routes['route'][0]} below {percent(routes['upper'][0])}"]
    for route, lower in zip(routes["route"][1:], routes["lower"][1:], strict=True):
        parts.append(f"{route} from {percent(lower)} on")
    return f"With one tolerance for all, the route is {', '.join(parts)}."


def _resolution(audit: Audit) -> Section:
    pictures, missing = [], []
    reading = (
        "A value inside the histogram can be produced from these observations by noise alone; "
        "the curve is the prediction from Fisher information."
    )
    if audit.resolution is None:
        missing = _missing("/resolution")
    else:
        for name in audit.names:
            words = resolution.describe(audit, name)
            svg = inline_svg(resolution.plot_resolution, audit, alt=words, parameter=name)
            caption = f"Matched fits of {visible(name)} to repeated noise."
            pictures.append(Picture(svg, caption, reading))
    return Section("resolution", "Resolution of the observations", pictures, missing)


def profile_section(audit: Audit, *, close: bool = True) -> Section:
    """Draw the frozen profiles; `close` to marked values again, where the bounds are far wider."""
    lowest = (
        "With the other parameters held at the center, the lowest point of this curve is not what "
        "the frozen field prefers: that is the joint minimum, and its"
        if profile.sliced(audit.scan)
        else "The frozen field prefers the lowest point; its"
    )
    reading = (
        f"{lowest} distance from the {audit.center_word} is the displacement. Where the dashed "
        "parabola leaves the curve, the local displacement is not reliable."
    )
    pictures = []
    for name in one_by_one(audit):
        caption = f"{profile.curve_word(audit.scan).capitalize()} along {visible(name)}"
        words = profile.describe(audit.scan, name)
        svg = inline_svg(profile.plot_profile, audit, alt=words, parameter=name)
        under = ", under the audited view." if audit.cross_view else "."
        pictures.append(Picture(svg, f"{caption}{under}", reading))
        near = profile.close_limits(audit.scan, name)
        if close and near is not None:
            options: dict[str, Any] = {"parameter": name, "limits": near}
            svg = inline_svg(profile.plot_profile, audit, alt=f"Close. {words}", **options)
            pictures.append(Picture(svg, f"{caption}, close to the marked values.", reading))
        if audit.cross_view:
            words = f"Training view. {profile.describe(audit.training.scan, name)}"
            svg = inline_svg(
                profile.plot_profile, audit, alt=words, parameter=name, training_view=True
            )
            also = "Delivery is assessed here: the delivered value should lie at this minimum."
            pictures.append(Picture(svg, f"{caption}, under the training view.", also))
    return Section("profile", "Value that the frozen field prefers", pictures, [])


def _evidence(audit: Audit) -> Section:
    def drawn(quantity: evidence.Quantity, name: str = "", equation: str | None = None) -> str:
        words = evidence.describe(audit, quantity, name, equation)
        options: dict[str, Any] = {"quantity": quantity, "parameter": name or None}
        options["equation"] = equation
        return inline_svg(evidence.plot_evidence, audit, alt=words, size=SMALL, **options)

    pictures, missing = [], []
    if "field" in audit.field:
        reading = "A field that looks right can still displace the parameter."
        pictures.append(Picture(drawn("field"), "The learned field.", reading))
    else:
        missing = _missing("field")
    equations: list[str | None] = [*evidence.equations_of(audit)] or [None]
    for equation in equations:
        reading = "Strong colors are places where the field does not satisfy the equation."
        of = "" if equation is None else f" of {visible(equation)}"
        caption = f"Residual{of} at the {audit.center_word}."
        pictures.append(Picture(drawn("residual", "", equation), caption, reading))
        for name in one_by_one(audit):
            shown = visible(name)
            reading = (
                f"Positive (red) pulls {shown} down, negative (blue) pulls it up; pale regions "
                "contribute little."
            )
            caption = f"Signed evidence{of} about {shown}."
            pictures.append(Picture(drawn("evidence", name, equation), caption, reading))
    return Section("evidence", "Residual evidence over the domain", pictures, missing, 3)


def _spectrum(audit: Audit) -> Section:
    pictures, missing = [], []
    reading = (
        "The modes where the dashed line rises carry the strength. Areas on both sides of zero "
        "with a net line near zero are contributions that cancel."
    )
    if audit.spectrum is None:
        missing = _missing("/spectrum")
    else:
        basis = visible(audit.spectrum.basis)
        for name in audit.names:
            words = spectrum.describe(audit.spectrum, name)
            svg = inline_svg(spectrum.plot_spectrum, audit, alt=words, parameter=name)
            caption = f"Residual modes and {visible(name)}; modes are {basis}."
            pictures.append(Picture(svg, caption, reading))
    return Section("spectrum", "Residual evidence by mode", pictures, missing)


def _delivery(audit: Audit) -> Section:
    pictures, missing = [], []
    reading = (
        "Differences add up in the coordinate: preferred minus true, plus the delivery gap, is "
        "delivered minus true."
        if audit.around_truth
        else "The full bar leads from the delivered value to the one that its own field prefers, "
        "the hatched bar is the delivery gap back."
    )
    if audit.delivery is None and audit.parameters.delivered is not None:
        what = MISSING["/delivery"][0]
        missing = [Missing(f"{what}: {audit.training.bound_obstacle}", "")]
    elif audit.delivery is None:
        missing = _missing("/delivery")
    else:
        view = visible(audit.delivery.view)
        for name in audit.names:
            words = delivery.describe(audit.delivery, name)
            svg = inline_svg(
                delivery.plot_delivery, audit, alt=words, size=delivery.SIZE, parameter=name
            )
            caption = f"Delivery of {visible(name)}, under the training view ({view})."
            pictures.append(Picture(svg, caption, reading))
    return Section("delivery", "Delivery", pictures, missing)


READINGS_ALONG: dict[along.Quantity, tuple[str, str]] = {
    "loss": ("Recorded losses.", "A loss that still falls at the end has not converged."),
    "parameter": (
        "{} and the value that the field prefers at each step.",
        "A band that closes is a parameter that follows its field.",
    ),
    "strength": (
        "Strength H of {}.",
        "Where it rises, the residual determines the parameter more firmly.",
    ),
    "gap": (
        "Preferred value minus center, and delivery gap, of {} in its coordinate.",
        "A gap at zero with a preferred value away from zero is a field that is displaced.",
    ),
}


def _training(audit: Audit) -> Section:
    pictures = []
    for quantity in along.Recorded.of(audit).quantities:
        caption, reading = READINGS_ALONG[quantity]
        for name in audit.names[:1] if quantity == "loss" else one_by_one(audit):
            words = along.describe(audit, quantity, name)
            only = None if quantity == "loss" else name
            options: dict[str, Any] = {"quantity": quantity, "parameter": only}
            svg = inline_svg(along.plot_along_training, audit, alt=words, size=MIDDLE, **options)
            shown = caption.format(visible(name))
            if quantity == "parameter" and audit.snapshots is None:
                shown = f"{visible(name)} along training."
                reading = "A parameter that still moves at the end has not converged."
            pictures.append(Picture(svg, shown, reading))
    missing = [
        one
        for path in ("/history", "/snapshots")
        if audit.group(path) is None
        for one in _missing(path)
    ]
    return Section("training", "Along training", pictures, missing, 2)
