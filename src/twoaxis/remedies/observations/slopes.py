"""How much every candidate knows: whitened sensitivities at every design point."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import AccuracyWarning, InputError
from twoaxis.parameters import coordinate_box
from twoaxis.progress import progress_bar
from twoaxis.remedies.observations.live import described
from twoaxis.remedies.observations.request import Request
from twoaxis.resolution.messages import DERIVATIVE_ACCURACY
from twoaxis.resolution.sensitivity import sensitivities

FloatArray = NDArray[np.float64]

# What the bounds know at the least, as a share of what the best candidate knows.
LEAST_SHARE = 1e-9
# Squares of larger numbers, and sums of many of them, overflow.
LARGEST = 1e145


def whitened_slopes(request: Request, progress: bool) -> tuple[FloatArray, FloatArray]:
    """Whitened sensitivities of candidates (P, n, d) and present sites (P, n', d)."""
    model, points = request.model, request.points
    entries = np.union1d(request.rules.candidates, request.present).astype(np.intp)
    model.observe(entries)
    deviations = request.deviations[entries][:, None]
    candidate = np.searchsorted(entries, request.rules.candidates)
    present = np.searchsorted(entries, request.present)
    count, d = points.coordinates.shape
    slopes = np.empty((count, len(candidate), d))
    present_slopes = np.empty((count, len(present), d))
    worst = np.zeros(d)
    with progress_bar("differentiating the forward model", count, progress) as advance:
        for p in range(count):
            try:
                found = sensitivities(model, points.coordinates[p], points.units[p])
            except InputError as error:
                raise InputError(
                    f"forward to work around {described(points.values[p])}, for which the layout "
                    "is made",
                    error.got,
                    "move that value to where the model works, or narrow the interval",
                ) from None
            white = found.slope / deviations * points.units[p]
            if not (np.abs(white) < LARGEST).all():
                raise InputError(
                    f"sensitivities below {LARGEST:g} times the noise, whose squares are numbers",
                    "some that overflow",
                    "check the units of noise and of forward: the noise is far too small",
                )
            rough = (found.slope - found.coarse) / deviations * points.units[p]
            size = np.linalg.norm(white, axis=0)
            worst = np.maximum(worst, np.linalg.norm(rough, axis=0) / np.where(size > 0, size, 1.0))
            slopes[p], present_slopes[p] = white[candidate], white[present]
            advance(1)
    for name, share in zip(model.parameters, worst.tolist(), strict=True):
        if share > DERIVATIVE_ACCURACY:
            text = (
                f"the derivative with respect to {name} changes by {100 * share:.1f} percent with "
                "the step: the forward model is not smooth there, and the choice is rough"
            )
            warnings.warn(text, AccuracyWarning, stacklevel=4)
    return slopes, present_slopes


def bounds_information(request: Request, slopes: FloatArray) -> FloatArray:
    """What the bounds know: inverse variance of a uniform distribution, (P, d, d).

    It is never taken as less than a small share of what the best candidate knows, so that the
    information of the first few sites can be inverted however small the noise is.
    """
    low, high = coordinate_box(request.model.parameters)
    precision = 12 * (request.points.units / (high - low)) ** 2
    most = np.sum(slopes**2, axis=2).max(axis=1)
    precision = np.maximum(precision, LEAST_SHARE * most[:, None])
    return np.asarray(precision[:, :, None] * np.eye(len(low)))
