r"""The delivered value less its bias: the candidate whose median answer it is.

With the median :math:`m(q)` of the simulated answers at each candidate, the corrected estimate
solves :math:`m(q) = \hat q`. It is median-unbiased where :math:`m` rises, and needs no assumption
that the bias is constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoaxis.parameters import Parameter
from twoaxis.remedies.calibration.invert import SetInterval, crossings

FloatArray = NDArray[np.float64]

# A crossing on an edge may come out a rounding beside it; a share of the tested range.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Correction:
    """The bias-corrected estimate.

    Attributes
    ----------
    value : float or None
        In physical units; None where there is no single one.
    status : str
        "found", or a sentence.
    crossings : tuple of float
        All candidates whose median answer is the delivered value.
    """

    value: float | None
    status: str
    crossings: tuple[float, ...]


def correct(
    parameter: Parameter,
    q: FloatArray,
    curve: FloatArray,
    observed: float,
    parts: Sequence[SetInterval],
) -> Correction:
    """Solve for the candidate whose median is the observed estimate.

    Parameters
    ----------
    parameter : Parameter
    q, curve : array, shape (K,)
        Candidates and the medians there, in coordinates.
    observed : float
    parts : sequence of SetInterval
        The intervals of the set, in coordinates.
    """
    found = crossings(q, curve, observed)
    found = found[~np.isnan(found)]
    values = tuple(float(v) for v in parameter.to_value(found))
    if not values:
        return Correction(None, _without(parameter, curve, observed), values)
    if len(values) == 1:
        return Correction(values[0], "found", values)
    shown = f"{len(values)} times between {values[0]:.4g} and {values[-1]:.4g}"
    # Crossings in one interval are the noise of one; in several they are different truths.
    slack = ROUNDING * float(q[-1] - q[0])
    if any(part.low - slack <= found[0] and found[-1] <= part.high + slack for part in parts):
        which = "middle one" if len(values) % 2 else "middle between the two inner ones"
        status = f"the median answer takes the delivered value {shown}; the {which} is given"
        return Correction(float(parameter.to_value(np.median(found))), status, values)
    status = (
        f"the median answer takes the delivered value {shown}, in separate parts of the set: there "
        "is no single corrected value"
    )
    return Correction(None, status, values)


def _without(parameter: Parameter, curve: FloatArray, observed: float) -> str:
    known = curve[~np.isnan(curve)]
    if not known.size:
        return "no candidate has a median answer"
    low, high = parameter.to_value([known.min(), known.max()])
    value = float(parameter.to_value(observed))
    return (
        f"no tested candidate leads to the delivered value {value:.4g}: their median answers go "
        f"from {low:.4g} to {high:.4g}"
    )
