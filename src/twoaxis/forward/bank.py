"""A bank: predictions at many values of one parameter, and a curve through them.

Every dataset that shares the forward model can be fitted from one bank: 2,400 fits cost a few
hundred solves. Between entries the predictions follow
PCHIP, SciPy's monotone piecewise cubic, one curve for each observed entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from twoaxis.errors import InputError
from twoaxis.forward.model import ForwardModel
from twoaxis.parameters import Parameter
from twoaxis.progress import Advance

FloatArray = NDArray[np.float64]

# An entry whose predictions are larger than this multiple of those at the center is not used:
# interpolation and squares would leave the range of float64.
LARGEST_GROWTH = 1e75
# Curves are made in portions: PCHIP takes several times the memory of its result.
CURVES_AT_ONCE = 10_000


@dataclass(frozen=True)
class Bank:
    """Predictions along one coordinate.

    Attributes
    ----------
    knots : array, shape (K,)
        Coordinates of the usable entries, ascending.
    pieces : array, shape (4, K - 1, n)
        Cubic coefficients on each interval, highest power first, in ``q - knots[k]``.
    excluded : dict of float to str
        Physical values that were left out, and why.
    """

    knots: FloatArray
    pieces: FloatArray
    excluded: dict[float, str]

    def __call__(self, coordinate: float) -> FloatArray:
        """Predictions at one coordinate, shape (n,)."""
        return self._powers(coordinate, derivative=False)

    def slope(self, coordinate: float) -> FloatArray:
        """Derivative of the predictions with respect to the coordinate, shape (n,)."""
        return self._powers(coordinate, derivative=True)

    def _powers(self, coordinate: float, *, derivative: bool) -> FloatArray:
        k = int(np.clip(np.searchsorted(self.knots, coordinate) - 1, 0, len(self.knots) - 2))
        d = coordinate - self.knots[k]
        powers = [3 * d**2, 2 * d, 1.0, 0.0] if derivative else [d**3, d**2, d, 1.0]
        return np.array(powers) @ self.pieces[:, k]


def build_bank(
    model: ForwardModel, center: float, size: int, advance: Advance | None = None
) -> Bank:
    """Solve for `size` evenly spaced coordinates and keep the usable run around `center`.

    Parameters
    ----------
    model : ForwardModel
        Of one parameter.
    center : float
        A coordinate inside the bounds. The bank keeps the entries that are connected to it
        without a gap: across a gap there is nothing to interpolate.
    size : int
        Number of entries, the bounds included.
    """
    (name, parameter), *_ = model.parameters.items()
    knots = np.linspace(*parameter.coordinate_bounds, size)
    values, reasons = model(knots[:, None], advance)
    scale = float(np.abs(model.center_values[model.entries]).max()) or 1.0
    for entry in np.flatnonzero(np.abs(values / scale).max(axis=1) > LARGEST_GROWTH).tolist():
        reasons[entry] = (
            f"{model.name} returned more than {LARGEST_GROWTH:g} times its value at the center"
        )
    good = np.array([not reason for reason in reasons])
    left = int(np.clip(np.searchsorted(knots, center, side="right") - 1, 0, size - 2))
    around = slice(left, left + 2)
    if np.isclose(center, knots[around], rtol=0, atol=1e-9 * (knots[1] - knots[0])).any():
        # On a knot, the neighbors on both sides count, as far as the bounds allow.
        knot = left + int(np.argmin(np.abs(knots[around] - center)))
        around = slice(max(knot - 1, 0), knot + 2)
    if not good[around].all():
        at = parameter.to_value(knots[around][~good[around]])[0]
        reason = next(r for r in reasons[around] if r)
        raise InputError(
            f"{model.name} to work on both sides of the center",
            f"a failure at {name}={at:g} ({reason})",
            f"choose bounds in which {model.name} works, or a finer bank",
        )
    gaps = np.flatnonzero(~good)
    first = max((int(g) + 1 for g in gaps if g < around.start), default=0)
    last = min((int(g) - 1 for g in gaps if g >= around.stop), default=size - 1)
    used, values = knots[first : last + 1], values[first : last + 1]
    pieces = np.empty((4, len(used) - 1, values.shape[1]))
    # PCHIP divides by slopes: for one that is almost zero the quotient overflows, as it may.
    with np.errstate(over="ignore"):
        for start in range(0, values.shape[1], CURVES_AT_ONCE):
            some = slice(start, start + CURVES_AT_ONCE)
            pieces[..., some] = PchipInterpolator(used, values[:, some], axis=0).c
    return Bank(used, pieces, _excluded(parameter, knots, reasons, first, last))


def _excluded(
    parameter: Parameter, knots: FloatArray, reasons: list[str], first: int, last: int
) -> dict[float, str]:
    """Return the entries outside the usable run, each with its reason."""
    beyond = "lies beyond a value at which the forward model failed"
    physical = parameter.to_value(knots)
    return {
        float(physical[i]): reasons[i] or beyond
        for i in range(len(knots))
        if not first <= i <= last
    }
