"""Is a residual affine in its physical parameters, all over the bounds?

A few values on one side of the centre do not tell: a clamp or a switch of regimes may lie on the
other. The affine form through the centre and one end of every parameter is compared with the
residual at the other ends, at values spread over each parameter with the others at the centre,
and at random values of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoaxis.exported.reduction import AffineForm
from twoaxis.frozen import FrozenResidual

FloatArray = NDArray[np.float64]

ALONG_EACH = 6  # values along each parameter, one in each sixth of its coordinate's bounds
TOGETHER = 6  # random values of all parameters, half uniform in coordinates, half in values


@dataclass(frozen=True)
class AffineTest:
    """What the comparison with an affine form has found.

    Attributes
    ----------
    form : AffineForm or None
        None when the residual is not affine.
    checked : int
        Number of parameter values at which form and residual were compared.
    deviation : float
        Largest deviation there, relative to the residual there and at the centre.
    largest : float
        Largest absolute residual value that was met.
    """

    form: AffineForm | None
    checked: int
    deviation: float
    largest: float


def affine_test(
    residual: Callable[[FloatArray], FloatArray],
    frozen: FrozenResidual,
    center: FloatArray,
    tolerance: float,
) -> AffineTest:
    """Compare a residual with an affine form over the whole box of its parameters.

    Parameters
    ----------
    residual : callable
        From coordinates, shape (d,), to residual values, shape (N,).
    frozen : FrozenResidual
        For the parameters and their bounds.
    center : array, shape (d,)
    tolerance : float
        Largest relative deviation of an affine residual; the test ends at a larger one.
    """
    low, high = frozen.coordinate_bounds
    middle, lower, upper = (_physical(frozen, q) for q in (center, low, high))
    # The end that is farther in physical units gives the better conditioned slope.
    up = upper - middle >= middle - lower
    far, near = np.where(up, high, low), np.where(up, low, high)
    at_center = residual(center)
    largest = float(np.abs(at_center).max())
    slopes = np.empty((len(at_center), len(center)))
    for j in range(len(center)):
        at_end = residual(_moved(center, j, far[j]))
        largest = max(largest, float(np.abs(at_end).max()))
        slopes[:, j] = (at_end - at_center) / ((upper if up[j] else lower)[j] - middle[j])
    form = AffineForm(at_center - slopes @ middle, slopes)
    checked, deviation = 0, 0.0
    for q in _places(frozen, center, near):
        found = residual(q)
        expected = form.residual(frozen.parameters, frozen.physical(q))
        top = float(np.abs(found).max())
        largest = max(largest, top)
        size = top + float(np.abs(at_center).max())
        checked += 1
        error = float(np.abs(found - expected).max())
        deviation = max(deviation, error / size if size > 0 else error)
        if deviation > tolerance:
            return AffineTest(None, checked, deviation, largest)
    return AffineTest(form, checked, deviation, largest)


def _places(frozen: FrozenResidual, center: FloatArray, near: FloatArray) -> Iterator[FloatArray]:
    """Coordinates to compare at: ends, values along each parameter, and values of all."""
    low, high = frozen.coordinate_bounds
    generator = np.random.default_rng(0)
    for j in range(len(center)):
        if near[j] != center[j]:
            yield _moved(center, j, near[j])
        shares = (np.arange(ALONG_EACH) + generator.random(ALONG_EACH)) / ALONG_EACH
        for share in shares:
            yield _moved(center, j, low[j] + share * (high[j] - low[j]))
    if len(center) > 1:
        yield low
        yield high
    ends = _physical(frozen, low), _physical(frozen, high)
    for number in range(TOGETHER):
        if number % 2:
            yield generator.uniform(low, high)
        else:
            values = dict(zip(frozen.names, generator.uniform(*ends).tolist(), strict=True))
            yield np.clip(frozen.coordinates(values), low, high)


def _moved(center: FloatArray, j: int, q: float) -> FloatArray:
    moved = center.copy()
    moved[j] = q
    return moved


def _physical(frozen: FrozenResidual, coordinates: FloatArray) -> FloatArray:
    return np.array(list(frozen.physical(coordinates).values()))
