"""The figure of the Darcy fields: full and diagonal step against the refined minimum."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from twoaxis.report.theme import color, label, legend_above, open_frame
from twoaxis.studies.figures.panels import THIRD, Drawing, FloatArray, Found, Panel, numbers
from twoaxis.text import number, shortened

COMPONENTS = (0, 1)
UNKNOWNS = ("λ₀", "λ₁")
SHAPES = ("o", "s")
ROLES = ("minus", "observe")
NAMES = {"pcgrad": "PCGrad", "patch": "PatchEvidence"}
STEPS = ("full", "diagonal")
# Fields that were hardly trained may step anywhere; beyond this a step stands at the edge.
LARGEST = 1e3
# A logarithmic axis that is shorter has marks at 1, 2 and 5 too.
FEW_DECADES = 200.0


def darcy_drawing(found: Found) -> Drawing | None:
    """Return the figure of the Darcy fields, with the panels whose columns are there."""
    panels = [_steps(found, step) for step in STEPS]
    drawn = tuple(panel for panel in (*panels, _errors(found)) if panel is not None)
    title = "Steps of Darcy fields against the refined minimum"
    return Drawing("darcy", title, drawn, 3) if drawn else None


def _steps(found: Found, step: str) -> Panel | None:
    columns = [f"{kind}_{c}" for kind in ("refined", *STEPS) for c in COMPONENTS]
    rows = found.table("darcy", "method", *columns)
    if rows is None:
        return None
    # Both panels have one scale, so that they can be compared by eye.
    every = np.concatenate([numbers(rows[column]) for column in columns])
    limits = _limits(every)
    parts = [
        f"{UNKNOWNS[c]}: largest miss "
        + number(_largest(numbers(rows[f"{step}_{c}"]) - numbers(rows[f"refined_{c}"])), ".3g")
        for c in COMPONENTS
    ]
    reading = {
        "full": "A point on the line is a step that ends at the minimum.",
        "diagonal": "The diagonal step leaves the coupling of the two unknowns out.",
    }[step]
    return Panel(
        partial(_draw_steps, rows, step, limits),
        f"The {step} step against the displacement of the refined minimum, {len(rows)} fields.",
        reading,
        f"{step.capitalize()} step of {len(rows)} fields against the displacement of the refined "
        f"minimum, for both unknowns. {'; '.join(parts)}.",
        THIRD,
    )


def _limits(values: FloatArray) -> tuple[float, float]:
    """Return ends of an axis that shows all values, and zero."""
    known = np.clip(values[np.isfinite(values)], -LARGEST, LARGEST)
    low, high = float(known.min(initial=0.0)), float(known.max(initial=0.0))
    room = 0.06 * (high - low) or 1.0
    return low - room, high + room


def _draw_steps(rows: pd.DataFrame, step: str, limits: tuple[float, float], *, ax: Any) -> Any:
    ax.plot(limits, limits, color=color("muted"), lw=1.0, ls="--", zorder=1)
    for component, shape in zip(COMPONENTS, SHAPES, strict=True):
        for k, (_, own) in enumerate(rows.groupby("method", sort=False)):
            ax.plot(
                np.clip(numbers(own[f"refined_{component}"]), *limits),
                np.clip(numbers(own[f"{step}_{component}"]), *limits),
                **_style(k, shape),
            )
    for unknown, shape in zip(UNKNOWNS, SHAPES, strict=True):
        hollow = _style(0, shape) | {"mec": color("ink"), "mfc": "none"}
        ax.plot([], [], **hollow, label=unknown)
    for k, method in enumerate(dict.fromkeys(rows["method"])):
        ax.plot([], [], **_style(k, "o"), label=_name(method))
    ax.set_xlim(limits)
    ax.set_ylim(limits)
    label(ax, "refined displacement", f"{step} step")
    open_frame(ax)
    legend_above(ax, columns=2, margin=0.0)
    return ax


def _errors(found: Found) -> Panel | None:
    for names in (("full_error", "diagonal_error"), STEPS):
        rows = found.table("darcy", "method", "dataset", *names)
        if rows is not None:
            break
    else:
        return None
    full, diagonal = (numbers(rows[name]) for name in names)
    if not np.isfinite(full).any() or not np.isfinite(diagonal).any():
        return None
    middle = [number(float(np.nanmedian(values)), ".3g") for values in (full, diagonal)]
    wins = int((full < diagonal).sum())
    return Panel(
        partial(_draw_errors, rows, names),
        f"Relative error of both steps, {len(rows)} fields.",
        "Below the line the full step is nearer to the minimum than the diagonal one.",
        f"Relative error of the full step against that of the diagonal step, {len(rows)} fields: "
        f"medians {middle[0]} and {middle[1]}; the full step is nearer in {wins}.",
        THIRD,
    )


def _draw_errors(rows: pd.DataFrame, names: tuple[str, str], *, ax: Any) -> Any:
    from matplotlib.ticker import LogLocator, NullLocator

    every = np.concatenate([numbers(rows[name]) for name in names])
    known = every[np.isfinite(every) & (every > 0)]
    low, high = (known.min(), known.max()) if known.size else (0.1, 1.0)
    ends = float(low / 1.6), float(high * 1.6)
    marks = (1.0, 2.0, 5.0) if ends[1] < FEW_DECADES * ends[0] else (1.0,)
    ax.plot(ends, ends, color=color("muted"), lw=1.0, ls="--", zorder=1)
    for k, (method, own) in enumerate(rows.groupby("method", sort=False)):
        full, diagonal = (np.maximum(numbers(own[name]), ends[0]) for name in names)
        ax.plot(diagonal, full, **_style(k, "o"), label=_name(method))
    for axis, scale, limits in (
        (ax.xaxis, ax.set_xscale, ax.set_xlim),
        (ax.yaxis, ax.set_yscale, ax.set_ylim),
    ):
        scale("log")
        limits(*ends)
        axis.set_major_locator(LogLocator(subs=marks, numticks=8))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_locator(NullLocator())
    label(ax, "relative error, diagonal step", "relative error, full step")
    open_frame(ax)
    legend_above(ax, columns=2, margin=0.0)
    return ax


def _style(number_: int, shape: str) -> dict[str, Any]:
    """Return how a method is drawn: the first filled, the second hollow."""
    shade = color(ROLES[number_ % len(ROLES)])
    fill = shade if number_ == 0 else "none"
    return {"ls": "", "marker": shape, "ms": 5, "mec": shade, "mew": 1.0, "mfc": fill, "zorder": 3}


def _name(method: object) -> str:
    return NAMES.get(str(method), shortened(method))


def _largest(values: FloatArray) -> float:
    return float(np.nanmax(np.abs(values), initial=0.0))
