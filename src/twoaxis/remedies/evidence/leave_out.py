r"""The score with every region left out in turn, exactly and for all regions together.

With :math:`X = [J, r]` and :math:`X_R` its rows in region R, all others zero, the Gram matrix of
what remains is

.. math:: (X - X_R)^\top M\,(X - X_R),

the metric's submatrix on the other points and nothing else: no region is fitted again, and the
metric is not bound to the remaining points anew. It holds :math:`B_{-R}` and :math:`H_{-R}`,

.. math:: B_{-R} = B - J_R^\top (M r)_R - (M J)_R^\top r_R + J_R^\top M_{RR}\,r_R,

and the displacement without the region is :math:`-H_{-R}^\dagger B_{-R}`. The metric acts on the
columns :math:`X_R` of many regions at once; it is never formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.geometry.terms import NULL_SHARE
from twoaxis.progress import progress_bar
from twoaxis.remedies.evidence.regions import Regions

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Numbers held at once while the metric acts on the columns of many regions.
VALUES_AT_ONCE = 8_000_000


@dataclass(frozen=True)
class RegionTerms:
    """What each of R regions holds, and what remains without it; d parameters.

    Attributes
    ----------
    B : array, shape (R, d)
        ``J_R^T (M r)_R``; sums to the score.
    H : array, shape (R, d, d)
        ``J_R^T (M J)_R``, made symmetric; sums to the strength.
    residual_norm : array, shape (R,)
        ``sqrt(r_R^T M_RR r_R)``: what the metric sees of the region's residual by itself.
    alignment : array, shape (R, d)
        Of residual and sensitivity inside the region, under ``M_RR``; zero where one vanishes.
    B_without, H_without : array, shape (R, d) and (R, d, d)
        Score and strength without the region.
    displacement_without : array, shape (R, d)
    seen_without : array of bool, shape (R,)
        Whether every direction that the whole residual sees is still seen.
    """

    B: FloatArray
    H: FloatArray
    residual_norm: FloatArray
    alignment: FloatArray
    B_without: FloatArray
    H_without: FloatArray
    displacement_without: FloatArray
    seen_without: BoolArray


def region_terms(
    residual: FloatArray,
    jacobian: FloatArray,
    metric: Any,
    regions: Regions,
    progress: bool = True,
) -> RegionTerms:
    """Take residual (N,) and Jacobian (N, d) apart by region, under a bound view."""
    columns = np.column_stack([jacobian, residual])
    applied = metric.apply(columns)
    inside, without = _grams(columns, applied, metric, regions, progress)
    share = regions.sums(columns[:, :, None] * applied[:, None, :])
    share = (share + share.transpose(0, 2, 1)) / 2
    own = regions.sums(jacobian * applied[:, -1:])
    whole = np.sum(share, axis=0)[:-1, :-1]
    strength = np.sqrt(np.maximum(np.diagonal(inside, axis1=1, axis2=2), 0.0))
    size = strength[:, :-1] * strength[:, -1:]
    alignment = np.where(size > 0, inside[:, :-1, -1] / np.where(size > 0, size, 1.0), 0.0)
    displacement, nullity = displacements(without[:, :-1, :-1], without[:, :-1, -1], whole)
    _, unseen = displacements(whole[None], np.zeros((1, len(whole))), whole)
    return RegionTerms(
        B=own,
        H=share[:, :-1, :-1],
        residual_norm=strength[:, -1],
        alignment=np.clip(alignment, -1, 1),
        B_without=without[:, :-1, -1],
        H_without=without[:, :-1, :-1],
        displacement_without=displacement,
        seen_without=nullity <= unseen[0],
    )


def _grams(
    columns: FloatArray, applied: FloatArray, metric: Any, regions: Regions, progress: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrices inside each region and without it, each (R, d + 1, d + 1)."""
    size, width = columns.shape
    inside = np.zeros((len(regions), width, width))
    without = np.zeros_like(inside)
    with progress_bar("leaving regions out", len(regions), progress) as advance:
        for chunk in _chunks(len(regions), max(1, VALUES_AT_ONCE // (size * width))):
            member = regions.number[:, None] == np.arange(chunk.start, chunk.stop)
            held = np.where(member[:, :, None], columns[:, None, :], 0.0)
            seen = metric.apply(held.reshape(size, -1)).reshape(held.shape)
            inside[chunk] = np.einsum("nrk,nrl->rkl", held, seen, optimize=True)
            rest = columns[:, None, :] - held
            left = applied[:, None, :] - seen
            without[chunk] = np.einsum("nrk,nrl->rkl", rest, left, optimize=True)
            advance(chunk.stop - chunk.start)
    return tuple((each + each.transpose(0, 2, 1)) / 2 for each in (inside, without))  # type: ignore[return-value]


def _chunks(count: int, most: int) -> Iterator[slice]:
    for start in range(0, count, most):
        yield slice(start, min(start + most, count))


def displacements(
    H: FloatArray, B: FloatArray, whole: FloatArray
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return ``-H^+ B`` of many strengths (R, d, d) and scores (R, d), and what each misses.

    As in `twoaxis.score`, every parameter is taken in units of its own strength before it is
    decided what is seen; here strength below rounding of the *whole* one counts as none.
    """
    total = np.maximum(np.diagonal(whole), 0.0)
    diagonal = np.diagonal(H, axis1=1, axis2=2)
    lost = diagonal <= NULL_SHARE * total
    scale = np.where(lost, 1.0, np.sqrt(np.where(lost, 1.0, diagonal)))
    kept = ~(lost[:, :, None] | lost[:, None, :])
    scaled = np.where(kept, H / (scale[:, :, None] * scale[:, None, :]), 0.0)
    values, vectors = np.linalg.eigh(scaled)
    null = values <= NULL_SHARE * np.maximum(values[:, -1:], 0.0)
    along = np.einsum("rij,ri->rj", vectors, np.where(lost, 0.0, B / scale))
    along = np.where(null, 0.0, along / np.where(null, 1.0, values))
    step = -np.einsum("rij,rj->ri", vectors, along) / scale
    # Of all solutions, the one of least norm in the coordinates.
    blind = np.where(null[:, None, :], vectors / scale[:, :, None], 0.0)
    excess = np.einsum("rij,rj->ri", np.linalg.pinv(blind), step)
    step = step - np.einsum("rij,rj->ri", blind, excess)
    return step, null.sum(axis=1)
