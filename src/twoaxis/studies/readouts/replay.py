r"""What the final weights of an adaptive training follow, and on how many points they rest.

Spearman correlations of the weights with four magnitudes at the residual points: the residual at
the delivered parameter, the residual :math:`r` at the truth, the sensitivity :math:`J` and the
pointwise score :math:`J r`, both at the truth. The effective support is

.. math:: \big(\textstyle\sum_i m_i\big)^2 / \sum_i m_i^2

over the diagonal m of the frozen view, N for equal weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from twoaxis.frozen import bound_view
from twoaxis.geometry.derivatives import linearize
from twoaxis.parameters import center_of
from twoaxis.studies.readouts.profiles import STEP
from twoaxis.studies.readouts.readout import Readout
from twoaxis.studies.scale import Scale
from twoaxis.training import Run

FloatArray = NDArray[np.float64]

FOLLOWED = ("residual", "truth_residual", "sensitivity", "score")


def _read(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    frozen = run.frozen
    # Ranks of the weights w and of the diagonal w^2 / N are the same.
    entries = bound_view(frozen, run.view).diagonal()
    truth = center_of(frozen.parameters, "truth").values
    local = linearize(frozen, frozen.coordinates(truth), "difference", STEP)
    current, sensitivity = frozen.at(frozen.coordinates(run.delivered)), local.jacobian[:, 0]
    magnitudes = (current, local.residual, sensitivity, sensitivity * local.residual)
    row: dict[str, Any] = {
        f"weights_with_{name}": float(spearmanr(entries, np.abs(values)).statistic)
        for name, values in zip(FOLLOWED, magnitudes, strict=True)
    }
    return [row | {"effective_support": effective_support(entries), "points": len(entries)}]


def effective_support(entries: FloatArray) -> float:
    """Return ``(sum m)^2 / sum m^2``."""
    return float(entries.sum() ** 2 / np.sum(entries**2))


REPLAY = Readout("replay", 1, _read)
