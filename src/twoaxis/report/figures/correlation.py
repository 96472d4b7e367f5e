"""How strongly parameters are tied to each other, by the observations or by the residual."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from twoaxis.diagnosis import Audit
from twoaxis.errors import InputError
from twoaxis.parameters import Parameters
from twoaxis.report.theme import (
    SMALL_SIZE,
    axis_or_new,
    color,
    color_bar,
    diverging,
    named,
    plain,
)
from twoaxis.resolution import Resolution
from twoaxis.text import number, visible

FloatArray = NDArray[np.float64]
Source = Literal["observations", "residual"]

SIZE = (4.3, 3.6)
# Up to so many parameters, numbers are written into the cells.
WRITTEN = 8


def plot_correlation(result: Any, *, source: Source | None = None, ax: Any = None) -> Any:
    """Draw how parameters are tied to each other.

    "observations": the correlation of matched estimates that Fisher information predicts; near
    one or minus one, data determine only a combination of the two. "residual": ``H_jk / sqrt(H_jj
    H_kk)``, the coupling of two parameters in the loss of the frozen field.

    Parameters
    ----------
    result : Resolution or Audit
    source : {"observations", "residual"}, optional
        By default the observations, where an audit has a resolution.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    parameters, matrix, source = matrix_of(result, source)
    ax = axis_or_new(ax, SIZE)
    count = len(matrix)
    drawn = ax.imshow(matrix, cmap=diverging(), vmin=-1, vmax=1, aspect="equal")
    texts = [named(p, name, 12) for name, p in parameters.items()]
    ax.set_xticks(range(count), texts, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(count), texts)
    for ticks in (ax.get_xticklabels(), ax.get_yticklabels()):
        for text, parameter in zip(ticks, parameters.values(), strict=True):
            plain(text, of=parameter)
            if parameter.nuisance:
                text.set(fontsize=SMALL_SIZE - 1.5, color=color("muted"))
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    if count <= WRITTEN:
        for j, k in np.ndindex(matrix.shape):
            if j != k and np.isfinite(matrix[j, k]):
                text = ax.text(k, j, number(float(matrix[j, k]), "+.2f"), ha="center", va="center")
                text.set(fontsize=SMALL_SIZE - 1, color=color("ink"))
                plain(text)
    words = "correlation of estimates" if source == "observations" else "coupling in the residual"
    color_bar(ax, drawn, words)
    return ax


def matrix_of(result: Any, source: Source | None) -> tuple[Parameters, FloatArray, Source]:
    """Return the parameters, their matrix (d, d), and what it was made from."""
    if source is not None and source not in get_args(Source):
        raise InputError('source "observations" or "residual"', repr(source), "choose one of them")
    if isinstance(result, Resolution) and source != "residual":
        return result.parameters, _correlation(result.data), "observations"
    if not isinstance(result, Audit):
        raise InputError(
            "a resolution or an audit",
            type(result).__name__,
            "pass what twoaxis.resolve, twoaxis.audit or twoaxis.load returned",
        )
    if source == "observations" or (source is None and result.resolution is not None):
        found = result.used_layouts
        return Parameters.from_dataset(found), _correlation(found), "observations"
    H = result.score.data["H"].values
    scale = np.sqrt(np.diag(H))
    with np.errstate(invalid="ignore", divide="ignore"):
        return result.parameters, H / np.outer(scale, scale), "residual"


def _correlation(data: Any) -> FloatArray:
    """Return the predicted correlation; of several layouts, their mean."""
    both = ("parameter", "other_parameter")
    return np.asarray(data["correlation"].mean("layout").transpose(*both).values, dtype=float)


def describe(result: Any, source: Source | None = None) -> str:
    """Return the most strongly tied pair as text."""
    parameters, matrix, kind = matrix_of(result, source)
    names = list(parameters)
    away = np.where(np.eye(len(names), dtype=bool), 0.0, np.nan_to_num(matrix))
    j, k = np.unravel_index(int(np.argmax(np.abs(away))), away.shape)
    what = "Correlation of the estimates" if kind == "observations" else "Coupling in the residual"
    return (
        f"{what} of {len(names)} parameters; the largest is {number(float(away[j, k]), '+.2f')}, "
        f"of {visible(names[int(j)])} and {visible(names[int(k)])}."
    )
