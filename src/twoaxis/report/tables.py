"""The tables of a page: what was measured beside what is tolerated, row by row."""

from __future__ import annotations

import math
from typing import NamedTuple

from twoaxis.report.audited import Audited
from twoaxis.text import number, percent, visible


class Row(NamedTuple):
    """One measured coordinate.

    Attributes
    ----------
    label, measured, tolerated : str
    reading : str
        The side of the tolerance on which it lies, in one word.
    note : str
    within : bool or None
        Whether it is tolerated; None where nothing is declared or known.
    """

    label: str
    measured: str
    tolerated: str = ""
    reading: str = ""
    note: str = ""
    within: bool | None = None


def coordinate_rows(audited: Audited, name: str) -> list[Row]:
    """Return the table of one parameter."""
    rows = []
    if math.isfinite(audited.delivered(name)):
        rows.append(Row("delivered value", number(audited.delivered(name), ".5g")))
    if audited.around_truth:
        words = ("does not matter", "material")
        rows.append(_compared(audited, name, "delivered error", "material", words))
    kind = "mean" if audited.statistic == "mean" else "p90 of the"
    label = f"{kind} {audited.matched_noun}"
    rows.append(_compared(audited, name, label, "resolution", ("tight", "weak")))
    rows.append(_displacement(audited, name))
    status = str(audited.need("/scan").attrs.get("status", "")).partition(":")[0]
    scanned = audited.value("/verdict", "scan_percent", name)
    where = "" if status == "interior" else visible(status)
    rows.append(Row("the same by frozen scan", percent(scanned), note=where))
    if "training_preference_percent" in audited.verdict:
        trained = audited.value("/verdict", "training_preference_percent", name)
        rows.append(Row("under the training view", percent(trained)))
    gap = audited.value("/verdict", "gap_percent", name)
    if not math.isnan(gap):
        rows.append(Row("delivery gap", percent(gap, "+"), note=_identity(audited, name)))
    return rows + _matched_rows(audited, name)


def _compared(audited: Audited, name: str, label: str, kind: str, words: tuple[str, str]) -> Row:
    variable = {"material": "delivered", "resolution": "resolution", "preference": "preference"}
    value = audited.value("/verdict", f"{variable[kind]}_percent", name)
    limit = audited.tolerance(kind)
    tolerated = "" if math.isnan(limit) else percent(limit)
    if math.isnan(value):
        return Row(label, "–", tolerated, "not known")
    if math.isnan(limit):
        return Row(label, percent(value))
    return Row(label, percent(value), tolerated, words[value > limit], within=value <= limit)


def _displacement(audited: Audited, name: str) -> Row:
    row = _compared(audited, name, "field's displacement", "preference", ("small", "large"))
    moved = audited.value("/score", "displacement", name)
    doubt = audited.value("/score", "sampling_deviation", name)
    if math.isnan(audited.value("/verdict", "preference_percent", name)):
        return row._replace(reading="not determined")
    return row._replace(note=f"D = {number(moved, '+.4f')} ± {number(doubt, '.1g')}")


def _identity(audited: Audited, name: str) -> str:
    """Delivered minus truth = preference + gap, in coordinates."""
    total, preference, gap = (
        audited.value("/delivery", part, name) for part in ("total", "preference", "gap")
    )
    if math.isnan(total):
        return ""
    return f"{number(total, '+.4f')} = {number(preference, '+.4f')} {number(gap, '+.4f')}"


def _matched_rows(audited: Audited, name: str) -> list[Row]:
    if audited.group("/matched") is None:
        return []

    def value(variable: str) -> float:
        return audited.value("/matched", variable, name)

    ends = f"likely {number(value('lower'))} to {number(value('upper'))}"
    rows = [Row("matched estimate", number(value("estimate"), ".5g"), note=ends)]
    own, excess, apart = map(value, ("deviation_percent", "excess_percent", "difference_percent"))
    if not math.isnan(own):
        rows.append(Row("its error", percent(own), note="on the same data"))
    if not math.isnan(excess):
        size = f"{number(excess, '+.3g')}\xa0pt"
        rows.append(Row("excess of the field", size, note="delivered less matched"))
    elif not math.isnan(apart):
        rows.append(Row("delivered over matched", percent(apart, "+")))
    return rows


class Resimulated(NamedTuple):
    """The forward model at one value, against the data."""

    label: str
    values: str
    rms: str
    reduced: str
    deviance: str
    p_value: str
    status: str


def resimulation_rows(audited: Audited) -> list[Resimulated]:
    """Return the rows of the re-simulation; empty where there is none."""
    group = audited.group("/resimulation")
    if group is None:
        return []
    rows = []
    for k, kind in enumerate(group["value_of"].values):
        one = group.isel(value_of=k)
        several = len(audited.names) > 1
        values = ", ".join(
            f"{f'{visible(n)} = ' if several else ''}{number(float(v), '.5g')}"
            for n, v in zip(audited.names, one["value"].values, strict=True)
        )
        rms, reduced, deviance, p = (
            float(one[name]) for name in ("rms", "reduced_chi_square", "deviance", "p_value")
        )
        status = str(one["status"].values)
        rows.append(
            Resimulated(
                visible(kind),
                values,
                number(rms, ".3f"),
                number(reduced, ".3f"),
                number(deviance, ".2f"),
                "< 1e−300" if p == 0 else number(p, ".2g"),
                "" if status == "simulated" else visible(status),
            )
        )
    return rows


class Direction(NamedTuple):
    """One eigen-direction of the strength."""

    words: str
    status: str
    displacement: str
    resolution: str
    route: str


def direction_rows(audited: Audited) -> list[Direction]:
    """Return the eigen-directions of several parameters, weakest first."""
    if len(audited.names) == 1:
        return []
    verdict = audited.verdict
    rows = []
    for k in range(verdict.sizes["direction"]):
        one = verdict.isel(direction=k)
        shares = zip(one["direction_vector"].values, audited.names, strict=True)
        words = " ".join(f"{number(float(s), '+.2f')} {visible(n)}" for s, n in shares)
        resolution = math.nan
        if "direction_resolution_percent" in one:
            resolution = float(one["direction_resolution_percent"])
        rows.append(
            Direction(
                words,
                visible(one["direction_status"].values),
                percent(float(one["direction_preference_percent"])),
                percent(resolution),
                visible(one["direction_route"].values),
            )
        )
    return rows
