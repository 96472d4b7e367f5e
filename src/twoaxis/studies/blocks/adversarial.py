r"""Residuals that the patch view cannot see, and how much of them other views see.

White residuals lose their mean in every occupied patch. What is left has zero patch loss and a
positive pointwise loss. The ratio of a view's loss to the pointwise loss then tells how much of
such a residual the view sees,

.. math:: 100 \cdot r^\top M r \,/\, (r^\top r / N).

Kernel views are divided by the sum of K, as everywhere in the study, or by its trace.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.views import BoundView, Gaussian, Patch, Pointwise

FloatArray = NDArray[np.float64]

SEED = 20260715
# As many sets of residual points as there are development cases, and residuals at each.
SETS, RESIDUALS = 6, 100
RANK = 64


# The sets of points do not depend on any field: every initialisation shares the answer.
@lru_cache(maxsize=2)
def adversarial_percentages(points: int) -> pd.DataFrame:
    """Return one row for each residual: percent of the pointwise loss under every view.

    Parameters
    ----------
    points : int
        Residual points of each set, uniform in the unit square.
    """
    parts = []
    for number in range(SETS):
        generator = np.random.default_rng([SEED, number])
        places = generator.random((points, 2))
        white = generator.standard_normal((points, RESIDUALS))
        seen = percentages(places, without_patch_means(places, white))
        parts.append(pd.DataFrame({"set": number, **seen}))
    return pd.concat(parts, ignore_index=True)


def without_patch_means(points: FloatArray, residuals: FloatArray) -> FloatArray:
    """Return residuals, as columns, with zero mean in every occupied patch."""
    # The eigenvectors of the patch view are the normalised indicators of its cells.
    _, cells = Patch(cells=8).bind(points).eigenpairs()
    left: FloatArray = residuals - cells @ (cells.T @ residuals)
    return left


def percentages(points: FloatArray, residuals: FloatArray) -> dict[str, FloatArray]:
    """Return the percent of the pointwise loss that each view gives to each residual."""
    base = _losses(Pointwise().bind(points), residuals)
    full, by_trace = Gaussian().bind(points), Gaussian(normalize="trace").bind(points)
    views = {"patch": Patch(cells=8).bind(points), "full": full}
    views[f"rank_{RANK}"] = Gaussian(rank=RANK).bind(points)
    seen = {name: 100 * _losses(view, residuals) / base for name, view in views.items()}
    # The two normalisations differ by the divisor alone, whatever the rank.
    factor = by_trace.diagonal()[0] / full.diagonal()[0]
    for name in ("full", f"rank_{RANK}"):
        seen[f"{name}_by_trace"] = factor * seen[name]
    return seen


def _losses(view: BoundView, residuals: FloatArray) -> FloatArray:
    return np.diagonal(view.quadratic(residuals, residuals))
