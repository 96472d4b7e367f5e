"""Put what was chosen and predicted under labels."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.remedies.observations.criterion import Criterion, mean_error_percent, unpacked
from twoaxis.remedies.observations.points import DesignPoints

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# Mean absolute value to standard deviation of a normal distribution.
TO_DEVIATION = np.sqrt(np.pi / 2)


def assemble(
    *,
    parameters: list[str],
    points: DesignPoints,
    names: list[str],
    positions: FloatArray,
    shape: tuple[int, ...],
    candidates: IndexArray,
    present: IndexArray,
    ordered: list[int],
    known: FloatArray,
    start: FloatArray,
    criterion: Criterion,
    swaps: int,
) -> xr.Dataset:
    """Return the labelled result of a search.

    Predictions leave out what the bounds know: like `fisher_error_percent` they speak of the
    observations alone.
    """
    k = len(ordered)
    # (P, k + 1, d, d): the information of the present layout and of each longer one.
    steps = np.moveaxis(unpacked(np.moveaxis(criterion.products[:, :, ordered], 1, 2)), 1, 0)
    zero = np.zeros((1, *known.shape))
    information = np.moveaxis(known + np.concatenate([zero, np.cumsum(steps, axis=0)]), 0, 1)
    # A site at random adds the mean information of the candidates.
    mean = unpacked(criterion.products.mean(axis=2))
    random = known[:, None] + np.arange(k + 1)[:, None, None] * mean[:, None]
    predicted = np.moveaxis(mean_error_percent(information), 1, 2)
    worth = np.full(len(positions), np.nan)
    last = start + information[:, -1] - known
    worth[candidates] = 100 * criterion.leverage(last) / len(parameters)
    sites = candidates[ordered]
    curve = ("point", "parameter", "observations")
    return xr.Dataset(
        {
            "index": ("site", sites),
            "site_position": (("site", "axis"), positions[sites]),
            "present": ("present_site", present),
            "value": (
                ("point", "parameter"),
                np.array([[one[name] for name in parameters] for one in points.values]),
            ),
            "predicted_error_percent": (curve, predicted),
            "predicted_sd_percent": (curve, predicted * TO_DEVIATION),
            "random_error_percent": (curve, np.moveaxis(mean_error_percent(random), 1, 2)),
            "worth_percent": ("entry", worth),
            "position": (("entry", "axis"), positions),
        },
        coords={
            "parameter": parameters,
            "axis": names,
            "site": np.arange(1, k + 1),
            "observations": len(present) + np.arange(k + 1),
        },
        attrs={"kind": points.kind, "shape": list(shape), "swaps": swaps},
    )
