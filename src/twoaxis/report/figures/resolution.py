"""The picture of axis 1: where the refitted estimates fall, and where theory puts them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.report.inputs import choose
from twoaxis.report.theme import (
    axis_or_new,
    color,
    label,
    legend_above,
    mark,
    named,
    open_frame,
    plain,
)
from twoaxis.resolution import Resolution
from twoaxis.text import number, percent, visible

FloatArray = NDArray[np.float64]

# A value further out than this many times the reach of bars and curve is an arrow at the edge.
FAR = 6.0


@dataclass(frozen=True)
class Spread:
    """Repeated-noise estimates of one parameter, relative to the center of the replicas.

    Attributes
    ----------
    name : str
    parameter : Parameter
    center : float
    around : str
        A word for the center of the replicas.
    noun : str
        What a deviation is called.
    deviation : array
        Signed, in percent.
    fisher : array
        Predicted standard deviation of each layout, in percent.
    marks : dict of str to (float, float)
        Values to mark, and how far off they are in percent.
    """

    name: str
    parameter: Parameter
    center: float
    around: str
    noun: str
    deviation: FloatArray
    fisher: FloatArray
    marks: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean size of the deviations."""
        return float(np.abs(self.deviation).mean())


def plot_resolution(
    resolution: Any,
    *,
    parameter: str | None = None,
    layout: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the distribution of the repeated-noise estimates of one parameter.

    Bars: signed relative deviation of the estimates from the center. Line: the normal
    distribution that Fisher information predicts. A bar at the far end that towers over its
    neighbors holds estimates that stopped at a bound. From an audit, the delivered value and
    the matched estimate of its own data are marked; what lies far outside is an arrow.

    Parameters
    ----------
    resolution : Resolution or Audit
    parameter : str, optional
        Needed when there are several.
    layout : str, optional
        One layout; by default all of them together, or those that the audit counts.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    if isinstance(resolution, Resolution):
        spread = _from_resolution(resolution, parameter, layout)
    elif isinstance(resolution, Audit):
        spread = spread_of(resolution, parameter, layout)
    else:
        raise InputError(
            "what twoaxis.resolve or twoaxis.audit returned",
            type(resolution).__name__,
            "pass a Resolution or an Audit",
        )
    return _draw(axis_or_new(ax), spread)


def _from_resolution(found: Resolution, parameter: str | None, layout: str | None) -> Spread:
    data = found.select(parameter, layout)
    kind = found.centered_on
    return Spread(
        name=str(data["parameter"].values),
        parameter=found.parameters[str(data["parameter"].values)],
        around={"truth": "truth", "delivered": "delivered value"}.get(kind, "center"),
        noun="error" if kind == "truth" else "deviation",
        **_estimates(data),
    )


def _estimates(data: Any) -> dict[str, Any]:
    """Return center, signed deviations and predicted standard deviations of one parameter."""
    center = float(data["center"])
    return {
        "center": center,
        # deviation_percent has the right reference; the estimate gives it its sign.
        "deviation": np.sign(data["estimate"].values - center) * data["deviation_percent"].values,
        "fisher": data["fisher_sd_percent"].values,
    }


def spread_of(audit: Audit, parameter: str | None, layout: str | None = None) -> Spread:
    """Return the repeated-noise estimates that an audit holds."""
    group = audit.used_layouts if layout is None else audit.need("/resolution")
    name = choose(audit.names, parameter)
    layouts = [str(one) for one in group["layout"].values]
    if layout is not None and layout not in layouts:
        raise InputError(
            f"one of the layouts {', '.join(layouts)}",
            f"layout={layout!r}",
            "name one, or leave it out for the layouts that the audit uses",
        )
    chosen = layouts if layout is None else [layout]
    found = _estimates(group.sel(parameter=name, layout=chosen))
    # The replicas may have been simulated elsewhere than at the center of the audit.
    home = audit.center.values[name]
    same = bool(np.isclose(found["center"], home, rtol=1e-9, atol=0.0))
    matched, delivered = audit.group("/matched"), audit.parameters[name].delivered
    values = {
        "truth": home if audit.around_truth and not same else np.nan,
        "delivered": np.nan if delivered is None else delivered,
        "matched": np.nan if matched is None else float(matched["estimate"].sel(parameter=name)),
    }
    if audit.centered_on == "delivered" and same:
        values.pop("delivered")
    marks = {
        kind: (value, audit.off(name, value, found["center"]))
        for kind, value in values.items()
        if np.isfinite(value)
    }
    return Spread(
        name=name,
        parameter=audit.parameters[name],
        around=audit.center_word if same else "center of the replicas",
        noun="error" if audit.around_truth else "deviation",
        marks=marks,
        **found,
    )


def describe(audit: Audit, name: str) -> str:
    """Return size and shape of the repeated-noise distribution as text."""
    spread = spread_of(audit, name)
    fisher = spread.fisher[np.isfinite(spread.fisher)]
    theory = (
        f"Fisher information predicts a standard deviation of {percent(float(fisher.mean()))}"
        if fisher.size
        else "Fisher information predicts none"
    )
    marks = "".join(
        f"; {kind} {number(value)} deviates by {percent(off, '+')}"
        for kind, (value, off) in spread.marks.items()
    )
    return (
        f"Histogram of {spread.deviation.size} matched fits of {visible(name)} around the "
        f"{spread.around} {number(spread.center)}: mean {spread.noun} {percent(spread.mean)}, "
        f"standard deviation {percent(float(spread.deviation.std()))}; {theory}{marks}."
    )


def _draw(ax: Any, spread: Spread) -> Any:
    own = spread.parameter
    name = named(own, spread.name)
    ax.hist(
        spread.deviation.ravel(),
        bins=int(np.clip(2 * np.sqrt(spread.deviation.size), 8, 40)),
        density=True,
        color=color("matched"),
        alpha=0.45,
        label="matched fits to repeated noise",
    )
    _draw_theory(ax, spread.fisher)
    reach = max([np.abs(spread.deviation).max(), *np.abs(ax.get_xlim())])
    mark(ax, "truth", 0.0, f"{spread.around} {number(spread.center)}", "center")
    for kind, (value, off) in spread.marks.items():
        word = {"matched": "matched estimate"}.get(kind, kind)
        text = f"{word} {number(value)} ({percent(off, '+')})"
        if abs(off) <= FAR * reach:
            mark(ax, kind, off, text)
        else:
            _draw_arrow(ax, kind, np.sign(off), text)
    size = spread.deviation.size
    title = f"{name} = {spread.center:g}: mean {spread.noun} {spread.mean:.2f}% over {size} fits"
    open_frame(ax, "top", "right", "left")
    ax.set_yticks([])
    label(ax, f"estimate of {name} relative to the {spread.around}, %", of=own)
    rows = legend_above(ax, columns=2, margin=15.0)
    plain(ax.set_title(title, fontsize="medium", pad=8 + 14 * rows), of=own)
    return ax


def _draw_theory(ax: Any, deviations: FloatArray) -> None:
    """Draw the mean of the layouts' predicted normal densities, where there is one."""
    finite = deviations[np.isfinite(deviations) & (deviations > 0)]
    if not finite.size:
        return
    reach = 4 * finite.max()
    x = np.linspace(-reach, reach, 400)[:, None]
    density = np.exp(-0.5 * (x / finite) ** 2) / (finite * np.sqrt(2 * np.pi))
    ax.plot(x, density.mean(axis=1), color=color("theory"), lw=2, label="Fisher prediction")


def _draw_arrow(ax: Any, kind: str, side: float, text: str) -> None:
    """Say with an arrow at the edge that a value lies far outside."""
    ax.plot(
        [0.985 if side > 0 else 0.015],
        [{"delivered": 0.55, "matched": 0.4}.get(kind, 0.7)],
        marker=">" if side > 0 else "<",
        ls="",
        ms=9,
        color=color(kind),
        transform=ax.transAxes,
        label=f"{text}, outside",
        zorder=4,
    )
