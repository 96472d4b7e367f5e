"""The decision map, read from simulated replicas: sizes averaged, then compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from twoaxis.diagnosis import Tolerance
from twoaxis.diagnosis.decision import Measured, Verdict, decide, join
from twoaxis.parameters import Parameter

# A mean below this many standard errors is not told from zero.
CLEAR = 2.0


def parameter_of(data: xr.Dataset, name: str) -> Parameter:
    """Return a parameter as the dataset knows it."""
    one = data.sel(parameter=name)
    scale = float(one["scale"])
    return Parameter(
        bounds=(float(one["lower_bound"]), float(one["upper_bound"])),
        coordinate=str(one["coordinate"].item()),  # type: ignore[arg-type]
        scale=scale if scale > 0 else None,
    )


def sizes_percent(data: xr.Dataset, name: str, variable: str) -> Any:
    """Return errors of coordinates as unsigned percentages, shape (replica,)."""
    p, center = parameter_of(data, name), float(data["center"].sel(parameter=name))
    moved = p.to_value(p.to_coordinate(center) + data[variable].sel(parameter=name).values)
    return np.abs(p.percent(moved, center))


def judge(data: xr.Dataset, tolerance: Tolerance | None) -> xr.Dataset:
    """Add the verdict of every parameter, and that of all together."""
    names = [str(name) for name in data["parameter"].values]
    verdicts = {name: decide(_measured(data, name, tolerance), tolerance) for name in names}
    whole: Verdict = join(verdicts)
    found = data.assign(
        route=("parameter", np.array([v.route.value for v in verdicts.values()], dtype=object)),
        reason=("parameter", np.array([v.reason for v in verdicts.values()], dtype=object)),
    )
    return found.assign_attrs(route=whole.route.value, reason=whole.reason)


def _measured(data: xr.Dataset, name: str, tolerance: Tolerance | None) -> Measured:
    preference = _mean(sizes_percent(data, name, "displacement"))
    training = _mean(sizes_percent(data, name, "training_displacement"))
    resolution = None
    if "matched_error" in data:
        sizes = sizes_percent(data, name, "matched_error")
        p90 = tolerance is not None and tolerance.statistic == "p90"
        known = sizes[~np.isnan(sizes)]
        resolution = float(np.quantile(known, 0.9)) if p90 and known.size else _mean(known)
    blind = "no simulated field has a displacement"
    return Measured(
        around="truth",
        preference=preference,
        obstacle="" if preference is not None else blind,
        delivered=_mean(sizes_percent(data, name, "delivered_error")),
        resolution=resolution,
        training_preference=training,
        training_obstacle="" if training is not None else blind,
        cross_view=bool(data.attrs["cross_view"]),
    )


def _mean(sizes: Any) -> float | None:
    known = sizes[~np.isnan(sizes)]
    return float(known.mean()) if known.size else None
