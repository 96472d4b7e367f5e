"""The weak directions: combinations of parameters that the residual hardly determines."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.diagnosis import Audit
from twoaxis.report.inputs import as_audit
from twoaxis.report.theme import (
    SMALL_SIZE,
    WIDE,
    axis_or_new,
    color,
    color_bar,
    diverging,
    label,
    named,
    plain,
)
from twoaxis.text import number, percent, visible

# Weakest directions in a picture; `Audit.directions` has all.
SHOWN = 4


def plot_directions(audit: Any, *, count: int = SHOWN, ax: Any = None) -> Any:
    """Draw the weakest directions of the strength as shares of the parameters.

    A row is an eigenvector of H in units of 100%; parameters of one color move together, those of
    opposite colors against each other. Beside it stands its strength relative to that of the
    strongest direction.

    Parameters
    ----------
    audit : Audit
    count : int
        How many directions, weakest first.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    verdict = as_audit(audit).verdict
    vectors = verdict["direction_vector"].transpose("direction", "parameter").values[:count]
    ax = axis_or_new(ax, size_of(audit, count))
    drawn = ax.imshow(vectors, cmap=diverging(), vmin=-1, vmax=1, aspect="auto")
    parameters = {name: audit.parameters[name] for name in audit.names}
    texts = [named(p, name, 12) for name, p in parameters.items()]
    ax.set_xticks(range(len(texts)), texts, rotation=45, ha="right", rotation_mode="anchor")
    for text, parameter in zip(ax.get_xticklabels(), parameters.values(), strict=True):
        plain(text, of=parameter)
    ax.set_yticks(range(len(vectors)), strengths_of(audit)[:count])
    ax.tick_params(length=0)
    label(ax, y="relative strength")
    for side in ax.spines.values():
        side.set_visible(False)
    if vectors.size <= 48:
        for j, k in np.ndindex(vectors.shape):
            text = ax.text(k, j, number(float(vectors[j, k]), "+.2f"), ha="center", va="center")
            text.set(fontsize=SMALL_SIZE - 1, color=color("ink"))
            plain(text)
    color_bar(ax, drawn, "share")
    return ax


def size_of(audit: Audit, count: int = SHOWN) -> tuple[float, float]:
    """Return the size of the figure, in inches."""
    return WIDE[0], 1.1 + 0.36 * min(count, audit.verdict.sizes["direction"])


def strengths_of(audit: Audit) -> list[str]:
    """Return the strength of each direction relative to the strongest, in words."""
    strength = audit.verdict["direction_strength"].values
    largest = float(strength.max()) or 1.0
    status = [str(one) for one in audit.verdict["direction_status"].values]
    return [
        f"{visible(word)}, {percent(100 * float(value) / largest)}"
        for word, value in zip(status, strength, strict=True)
    ]


def describe(audit: Audit) -> str:
    """Return the weakest direction as text."""
    verdict = audit.verdict
    vector = verdict["direction_vector"].transpose("direction", "parameter").values[0]
    parts = [
        f"{number(float(s), '+.2f')} {visible(n)}" for s, n in zip(vector, audit.names, strict=True)
    ]
    return (
        f"The weakest of {verdict.sizes['direction']} directions is {' '.join(parts)} "
        f"({strengths_of(audit)[0]} of the largest strength)."
    )
