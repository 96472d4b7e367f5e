"""The picture of axis 1: where the refitted estimates fall, and where theory puts them."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.errors import InputError
from twoaxis.resolution import Resolution

ESTIMATES = "#4C78A8"
THEORY = "#E45756"
CENTER = "#222222"


def plot_resolution(
    resolution: Resolution,
    *,
    parameter: str | None = None,
    layout: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the distribution of the repeated-noise estimates of one parameter.

    Bars: signed relative deviation of the estimates from the centre. Line: the normal
    distribution that Fisher information predicts. A bar at the far end that towers over its
    neighbours holds estimates that stopped at a bound.

    Parameters
    ----------
    resolution : Resolution
    parameter : str, optional
        Needed when there are several.
    layout : str, optional
        One layout; by default all of them together.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    import matplotlib.pyplot as plt

    if not isinstance(resolution, Resolution):
        raise InputError(
            "what twoaxis.resolve returned", type(resolution).__name__, "pass a Resolution"
        )
    data = resolution.select(parameter, layout)
    name = str(data["parameter"].values)
    center = float(data["center"])
    # error_percent has the right reference; the estimate gives it its sign.
    deviation = np.sign(data["estimate"].values - center) * data["error_percent"].values
    fisher = data["fisher_error_percent"].values * np.sqrt(np.pi / 2)
    if ax is None:
        ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")[1]
    ax.hist(deviation.ravel(), bins=40, density=True, color=ESTIMATES, alpha=0.65, label="refits")
    _draw_theory(ax, fisher)
    kind = resolution.centered_on
    ax.axvline(0, color=CENTER, lw=1, label={"truth": "truth"}.get(kind, f"{kind} value"))
    mean = float(data["error_percent"].mean())
    word = "mean error" if kind == "truth" else "mean deviation"
    ax.set_title(f"{name} = {center:g}: {word} {mean:.2f}% over {deviation.size} refits")
    ax.set_xlabel(f"estimate of {name} relative to the {kind if kind != 'point' else 'centre'}, %")
    ax.set_yticks([])
    ax.legend(frameon=False)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    return ax


def _draw_theory(ax: Any, deviations: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Draw the mean of the layouts' predicted normal densities, where there is one."""
    finite = deviations[np.isfinite(deviations)]
    if not finite.size:
        return
    reach = 4 * finite.max()
    x = np.linspace(-reach, reach, 400)[:, None]
    density = np.exp(-0.5 * (x / finite) ** 2) / (finite * np.sqrt(2 * np.pi))
    ax.plot(x, density.mean(axis=1), color=THEORY, lw=2, label="Fisher prediction")
