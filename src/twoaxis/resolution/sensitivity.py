"""The derivative of the predictions, and a check that it is one.

Centred differences with steps ``h`` and ``h/2`` are combined so that their leading errors
cancel (Richardson); how far the two lie apart is the check.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.parameters import coordinate_box

FloatArray = NDArray[np.float64]

# Step of a centred difference, as a fraction of what stands for 100 percent.
STEP = 1e-3


@dataclass(frozen=True)
class Sensitivities:
    """Derivative of the predictions with respect to the coordinates.

    Attributes
    ----------
    slope : array, shape (entries, d)
    coarse : array, shape (entries, d)
        The same from the larger step alone.
    """

    slope: FloatArray
    coarse: FloatArray


def sensitivities(model: ForwardModel, center: FloatArray, units: FloatArray) -> Sensitivities:
    """Differentiate the predictions at `center`, shape (d,)."""
    steps = STEP * units
    low, high = coordinate_box(model.parameters)
    # At a bound the derivative is taken a step inside: the model is not called beyond it.
    center = np.clip(center, low + steps, high - steps)
    lattice = np.concatenate([np.diag(f * steps) for f in (1.0, -1.0, 0.5, -0.5)])
    values, reasons = model(center + lattice)
    failed = [reason for reason in reasons if reason]
    if failed:
        raise InputError(
            f"{model.name} to work close to the centre, where its derivative is taken",
            failed[0],
            "move the centre away from the edge of where the model works",
        )
    ahead, behind, half_ahead, half_behind = np.split(values, 4)
    coarse = (ahead - behind) / (2 * steps[:, None])
    fine = (half_ahead - half_behind) / steps[:, None]
    return Sensitivities(slope=((4 * fine - coarse) / 3).T, coarse=coarse.T)
