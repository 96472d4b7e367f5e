"""What pictures show, in words and numbers, for readers who do not see them."""

from __future__ import annotations

import math

import numpy as np

from twoaxis.report.audited import Audited
from twoaxis.report.decision_map import places_of
from twoaxis.report.delivery_figure import steps_of
from twoaxis.report.resolution_figure import spread_of
from twoaxis.report.spectrum_figure import modes_of
from twoaxis.text import number, percent, visible


def decision_map(audited: Audited) -> str:
    """Coordinates, tolerances and routes."""
    parts = [
        f"{visible(p.name)}: displacement {_known(p.x)}, {audited.matched_noun} {_known(p.y)}, "
        f"route {visible(p.route)}"
        for p in places_of(audited, audited.names)
    ]
    limits = [audited.tolerance("preference"), audited.tolerance("resolution")]
    declared = (
        "no tolerance declared"
        if math.isnan(limits[0])
        else f"tolerated are {percent(limits[0])} and {percent(limits[1])}"
    )
    return f"Decision map. {'; '.join(parts)}; {declared}."


def resolution(audited: Audited, name: str) -> str:
    """Size and shape of the repeated-noise distribution."""
    spread = spread_of(audited, name)
    fisher = spread.fisher[np.isfinite(spread.fisher)]
    theory = (
        f"Fisher information predicts a standard deviation of {percent(float(fisher.mean()))}"
        if fisher.size
        else "Fisher information predicts none"
    )
    marks = "".join(
        f"; {kind} {number(value)} lies {percent(off, '+')} off"
        for kind, (value, off) in spread.marks.items()
    )
    return (
        f"Histogram of {spread.deviation.size} refits of {visible(name)} around the "
        f"{spread.around} {number(spread.center)}: mean {spread.noun} {percent(spread.mean)}, "
        f"standard deviation {percent(float(spread.deviation.std()))}; {theory}{marks}."
    )


def profile(audited: Audited, name: str) -> str:
    """Minimum, centre and delivered value of the frozen profile."""
    minimum = audited.value("/scan", "minimum", name)
    low = audited.value("/", "lower_bound", name)
    high = audited.value("/", "upper_bound", name)
    status = visible(audited.need("/scan").attrs.get("status", ""))
    where = "it is flat and has no minimum"
    if not math.isnan(minimum):
        where = f"its minimum lies at {number(minimum)} ({status})"
    delivered = audited.delivered(name)
    end = "" if math.isnan(delivered) else f", the delivered value is {number(delivered)}"
    return (
        f"Frozen profile along {visible(name)} from {number(low)} to {number(high)}: {where}; "
        f"the {audited.center_word} is {number(audited.center(name))}{end}."
    )


def field(audited: Audited) -> str:
    """Range of the learned field."""
    group = audited.need("/field")
    values = group["field"].values
    return (
        f"The learned field {visible(group.attrs.get('field_name', ''))} at {values.size} "
        f"points: from {number(float(values.min()))} to {number(float(values.max()))}."
    )


def residual(audited: Audited) -> str:
    """Range and norm of the residual."""
    values = audited.need("/field")["residual"].values
    norm = float(audited.need("/score")["residual_norm"])
    return (
        f"The residual at the {audited.center_word} at {values.size} points: from "
        f"{number(float(values.min()))} to {number(float(values.max()))}, norm under the view "
        f"{number(norm)}."
    )


def evidence(audited: Audited, name: str) -> str:
    """Sum and signs of the evidence."""
    found = audited.array("/field", "contribution", name)
    values = np.asarray(found, dtype=float)
    size = float(np.abs(values).sum()) or 1.0
    down = 100 * float(values[values > 0].sum()) / size
    score = audited.value("/score", "B", name)
    return (
        f"Signed evidence about {visible(name)} at {values.size} points: {percent(down)} of it "
        f"pulls the parameter down and {percent(100 - down if values.any() else 0.0)} up; the "
        f"score B is {number(score)}."
    )


def spectrum(audited: Audited, name: str) -> str:
    """Strength held and evidence left after cancellation."""
    modes = modes_of(audited, name)
    if modes is None:
        return f"Empty: the residual does not see {visible(name)}."
    half = int(np.searchsorted(modes.strength, 0.5)) + 1
    held = (
        f"the first {half} hold half of the strength"
        if half <= len(modes.strength)
        else "together they hold less than half of the strength"
    )
    return (
        f"Running sums over {len(modes.net)} residual modes for {visible(name)}: {held}, all "
        f"of them {percent(100 * float(modes.strength[-1]))}; {percent(100 * float(modes.up[-1]))} "
        f"of the evidence pulls up and {percent(-100 * float(modes.down[-1]))} down, which leaves "
        f"{percent(100 * float(modes.net[-1]), '+')}."
    )


def delivery(audited: Audited, name: str) -> str:
    """The steps of the waterfall."""
    parts = [
        f"{step.word} {number(step.end - step.start, '+.4f')} ({percent(step.percent, '+')})"
        for step in steps_of(audited, name)
    ]
    return f"Delivery of {visible(name)} in its coordinate: {'; '.join(parts)}."


def along_training(audited: Audited, quantity: str, name: str) -> str:
    """First and last values of what is drawn."""
    history, snapshots = audited.group("/history"), audited.group("/snapshots")
    if quantity == "loss" and history is not None:
        recorded = history["recorded"].transpose("quantity", "step").values
        parts = [
            f"{visible(label)} from {number(float(row[0]))} to {number(float(row[-1]))}"
            for label, row in zip(history["quantity"].values, recorded, strict=True)
        ]
        return f"Recorded along {recorded.shape[1]} steps: {'; '.join(parts)}."
    j = audited.index(name)
    shown = visible(name)
    if snapshots is None:
        values = audited.need("/history")["value"].isel(parameter=j).values
        return f"{shown} along training: {_ends(values)}."
    one = snapshots.isel(parameter=j)
    words = {
        "parameter": f"{shown} along {one.sizes['step']} snapshots: {_ends(one['delivered'])}",
        "strength": (
            f"Strength of {shown} along training: {_ends(one['strength'].isel(other_parameter=j))}"
        ),
        "gap": f"Delivery gap of {shown} along training: {_ends(one['gap'], '+.3g')}",
    }[quantity]
    return f"{words}; preference minus centre {_ends(one['preference'], '+.3g')}."


def _ends(values: object, form: str = ".4g") -> str:
    row = np.asarray(getattr(values, "values", values), dtype=float)
    return f"from {number(float(row[0]), form)} to {number(float(row[-1]), form)}"


def _known(value: float) -> str:
    return "not known" if math.isnan(value) else percent(value)
