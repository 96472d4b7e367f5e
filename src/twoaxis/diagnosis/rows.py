"""What an audit says, row by row: the contents of its tables, before anybody lays them out.

Everything is made from the tree alone. Around a candidate the words change: there are
deviations and displacements, and nothing is called by a name that presumes a known value.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import xarray as xr

from twoaxis.diagnosis.tree import group_of


class Row(NamedTuple):
    """One line of the table."""

    label: str
    measured: str
    tolerated: str
    note: str


def headline(tree: xr.DataTree) -> str:
    """Say around what the audit is made."""
    root = group_of(tree, "/")
    values = ", ".join(
        f"{printable(str(name))} = {value:.6g}"
        for name, value in zip(root["parameter"].values, root["center"].values, strict=True)
    )
    return {
        "truth": f"Audit around the truth {values}",
        "delivered": f"Audit of the stability around the candidate {values}",
        "point": f"Audit of the stability around the point {values}",
    }[str(tree.attrs["centered_on"])]


def parameter_rows(tree: xr.DataTree) -> dict[str, list[Row]]:
    """Return the table of each parameter."""
    names = group_of(tree, "/")["parameter"].values
    return {printable(str(name)): _rows(tree, j) for j, name in enumerate(names)}


def _rows(tree: xr.DataTree, j: int) -> list[Row]:
    verdict, score = group_of(tree, "/verdict"), group_of(tree, "/score")
    known = tree.attrs["centered_on"] == "truth"
    noun = "error" if known else "deviation"
    statistic = {"mean": "mean", "p90": "p90 of"}[str(verdict.attrs.get("statistic", "mean"))]

    def value(name: str) -> float | None:
        return float(verdict[name].values[j]) if name in verdict else None

    def limit(name: str) -> float | None:
        variable = f"tolerance_{name}"
        return float(verdict[variable]) if variable in verdict else None

    rows = []
    root = group_of(tree, "/")
    if "delivered" in root:
        delivered = float(root["delivered"].values[j])
        rows.append(Row("delivered value", f"{delivered:.5g}", "", ""))
    if known:
        words = ("does not matter", "material")
        rows.append(
            _compared("delivered error", value("delivered_percent"), limit("material"), words)
        )
    label = f"{statistic} matched {noun}"
    rows.append(
        _compared(label, value("resolution_percent"), limit("resolution"), ("tight", "weak"))
    )
    row = _compared(
        "field's displacement", value("preference_percent"), limit("preference"), ("small", "large")
    )
    moved, doubt = (float(score[n].values[j]) for n in ("displacement", "sampling_deviation"))
    signed = f"D = {moved:+.4f} ± {doubt:.1g}"
    note = f"{row.note}, {signed}" if row.note not in ("", "not known") else signed
    undetermined = math.isnan(value("preference_percent") or 0.0)
    rows.append(row._replace(note="not determined" if undetermined else note))
    status = str(group_of(tree, "/scan").attrs["status"]).partition(":")[0]
    where = "" if status == "interior" else status
    rows.append(Row("the same by frozen scan", _percent(value("scan_percent")), "", where))
    training = value("training_preference_percent")
    if training is not None:
        rows.append(Row("under the training view", _percent(training), "", ""))
    gap = value("gap_percent")
    if gap is not None:
        rows.append(Row("delivery gap", _percent(gap, "+"), "", _identity(tree, j)))
    return rows + _matched_rows(tree, j)


def _matched_rows(tree: xr.DataTree, j: int) -> list[Row]:
    if "matched" not in tree.children:
        return []
    matched = group_of(tree, "/matched")
    ends = [float(matched[n].values[j]) for n in ("lower", "upper")]
    note = f"likely {ends[0]:.4g} to {ends[1]:.4g}"
    rows = [Row("matched estimate", f"{float(matched['estimate'].values[j]):.5g}", "", note)]
    if "deviation_percent" in matched:
        own = float(matched["deviation_percent"].values[j])
        rows.append(Row("its error", _percent(own), "", "on the same data"))
    if "excess_percent" in matched:
        excess = float(matched["excess_percent"].values[j])
        rows.append(Row("excess of the field", f"{excess:+.3g} pt", "", "delivered less matched"))
    elif "difference_percent" in matched:
        apart = float(matched["difference_percent"].values[j])
        rows.append(Row("delivered over matched", _percent(apart, "+"), "", ""))
    return rows


def _identity(tree: xr.DataTree, j: int) -> str:
    """Total = preference + gap, in coordinates."""
    delivery = group_of(tree, "/delivery")
    if "total" not in delivery:
        return ""
    total, preference, gap = (
        float(delivery[name].values[j]) for name in ("total", "preference", "gap")
    )
    return f"{total:+.4f} = {preference:+.4f} {gap:+.4f}"


def resimulation_rows(tree: xr.DataTree) -> list[tuple[str, ...]]:
    """Return head and rows of the re-simulation; empty where there is none."""
    if "resimulation" not in tree.children:
        return []
    again = group_of(tree, "/resimulation")
    rows: list[tuple[str, ...]] = [("", "rms misfit", "chi2 / freedom", "deviance", "p")]
    for k, label in enumerate(again["value_of"].values):
        if str(again["status"].values[k]) != "simulated":
            rows.append((str(label), "failed", "", "", ""))
            continue
        rms, reduced, deviance, p = (
            float(again[name].values[k])
            for name in ("rms", "reduced_chi_square", "deviance", "p_value")
        )
        rows.append(
            (
                str(label),
                f"{rms:.3f}",
                f"{reduced:.3f}",
                f"{deviance:.2f}",
                f"{p:.2g}" if p > 0 else "< 1e-300",
            )
        )
    return rows


def resimulation_title(tree: xr.DataTree) -> str:
    """Say what is compared with what."""
    again = group_of(tree, "/resimulation")
    return (
        f"Put back into the solver, against {int(again.attrs['observations'])} observations "
        f"(layout {again.attrs['layout']}; misfit in standard deviations of the noise)"
    )


def direction_rows(tree: xr.DataTree) -> list[str]:
    """Return a sentence for each eigen-direction of several parameters."""
    verdict = group_of(tree, "/verdict")
    names = [str(name) for name in verdict["parameter"].values]
    if len(names) == 1:
        return []
    lines = []
    for k, status in enumerate(verdict["direction_status"].values):
        vector = verdict["direction_vector"].values[k]
        words = " ".join(f"{s:+.2f} {printable(n)}" for s, n in zip(vector, names, strict=True))
        route = str(verdict["direction_route"].values[k])
        size = float(verdict["direction_preference_percent"].values[k])
        shown = "not determined" if math.isnan(size) else f"{size:.3g} percent"
        lines.append(f"{words} ({status}): displacement {shown}; {route}")
    return lines


def _compared(label: str, value: float | None, limit: float | None, words: tuple[str, str]) -> Row:
    if value is None:
        return Row(label, "-", "" if limit is None else _percent(limit), "not known")
    note = "" if limit is None or math.isnan(value) else words[value > limit]
    return Row(label, _percent(value), "" if limit is None else _percent(limit), note)


def view_in_words(tree: xr.DataTree) -> str:
    """Name the audited view, and the training view where that is another one."""
    attributes = tree.attrs
    if attributes["view_relation"] == "another view":
        return f"{attributes['view']}; the field was trained under {attributes['training_view']}"
    return f"{attributes['view']} ({attributes['view_relation']})"


def _percent(value: float | None, sign: str = "") -> str:
    return "-" if value is None or math.isnan(value) else f"{value:{sign}.3g} %"


def printable(text: str) -> str:
    """Escape what would act on a terminal instead of being seen."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
