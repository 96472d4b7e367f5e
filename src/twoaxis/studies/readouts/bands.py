"""Which modes of the Gaussian kernel see the parameter, and what a cutoff among them changes.

Modes are numbered from 1, largest eigenvalue first. Two readings of a band's share are kept
apart: the *pointwise* share of ``j_k^2``, which is the published one, and the *weighted* share
of ``lambda_k j_k^2``, which adds up to H under the kernel. The centre is the truth.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.geometry import frozen_scan, spectrum
from twoaxis.studies.readouts.profiles import CANDIDATES, STEP, in_published_box
from twoaxis.studies.readouts.readout import Readout
from twoaxis.studies.scale import Scale
from twoaxis.training import Run
from twoaxis.views import BoundView, Gaussian
from twoaxis.views.low_rank import BoundLowRank

FloatArray = NDArray[np.float64]

# The published residual has 2,000 points, so that the last band holds all remaining modes.
BANDS = {"1_64": (1, 64), "65_256": (65, 256), "257_2000": (257, 2000)}
READINGS = ("pointwise", "weighted")
RANKS = (64, 256)
# Eigenvectors of 2,000 points take 32 MB: this many sets of points are remembered.
REMEMBERED = 8


def kernel_modes(points: FloatArray, rank: int | None = None) -> BoundView:
    """Return the Gaussian kernel at `points` (N, k) as its eigenpairs, all or the leading ones.

    Fields of one problem, dataset and initialisation have the same points, and both readouts
    of a field do: the decomposition is remembered.
    """
    values, vectors = _pairs(points.tobytes(), points.shape[1])
    described = Gaussian(rank=rank).describe()
    return BoundLowRank(values[:rank], vectors[:, :rank], f"{described}, {len(points):,} points")


@lru_cache(maxsize=REMEMBERED)
def _pairs(points: bytes, axes: int) -> tuple[FloatArray, FloatArray]:
    pairs = Gaussian().bind(np.frombuffer(points).reshape(-1, axes)).eigenpairs()
    for array in pairs:
        array.flags.writeable = False
    return pairs


def _shares(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    frozen = in_published_box(run)
    found = spectrum(frozen, view=kernel_modes(frozen.points), derivative="difference", step=STEP)
    row: dict[str, Any] = {"H": found.H, "pointwise_H": found.pointwise_H}
    for name, band in BANDS.items():
        row[f"pointwise_{name}"] = found.pointwise_strength_share(band)
        row[f"weighted_{name}"] = found.strength_share(band)
    return [row]


def _cutoffs(run: Run, scale: Scale) -> list[dict[str, Any]]:
    """Return one row: the grid minimum of the profile under each rank."""
    del scale
    frozen = in_published_box(run)
    (name,) = frozen.parameters
    row: dict[str, Any] = {}
    for rank in RANKS:
        scan = frozen_scan(frozen, view=kernel_modes(frozen.points, rank), candidates=CANDIDATES)
        moved = scan.grid_displacement
        step = np.nan if moved is None else moved[name]
        row[f"displacement_{rank}"] = step
        row[f"error_percent_{rank}"] = 100 * abs(np.expm1(step))
        row[f"status_{rank}"] = scan.status
    return [row]


SHARES = Readout("bands", 1, _shares)
CUTOFFS = Readout("cutoffs", 1, _cutoffs)
