"""Is the predicted error true? Refits of simulated data on the suggested layout answer it.

For each parameter value, `twoaxis.resolve` adds noise to the noise-free observations of the
layout, fits them again and takes the mean error; a bootstrap over the replicas gives its interval.
The prediction is first order: it fails where the error is so large that the model bends within it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import center_of
from twoaxis.remedies.observations.live import Live
from twoaxis.resolution import Resolution, resolve

IndexArray = NDArray[np.intp]
# Of more points than this the printed table shows the mean and the worst; summary() has them all.
SHOWN_POINTS = 8


class Verification:
    """Predicted beside verified mean error of a layout, in percent.

    Made by `SuggestedSites.verify`. Where there is one parameter, or one point, its dimension is
    left out.

    Attributes
    ----------
    data : xarray.Dataset
        ``value``, ``predicted``, ``verified``, ``low``, ``high`` and ``inside``, all over (point,
        parameter).
    resolutions : list of Resolution
        The refits behind each point.
    """

    def __init__(self, data: xr.Dataset, resolutions: list[Resolution]) -> None:
        self.data = data
        self.resolutions = resolutions

    def _of(self, name: str) -> xr.DataArray:
        array = self.data[name]
        alone = {dim: 0 for dim in ("point", "parameter") if array.sizes[dim] == 1}
        return array.isel(alone, drop=True)

    @property
    def predicted(self) -> xr.DataArray:
        """First-order prediction of the mean error."""
        return self._of("predicted")

    @property
    def verified(self) -> xr.DataArray:
        """Mean error of the refits."""
        return self._of("verified")

    @property
    def interval(self) -> xr.DataArray:
        """Ends of the verified mean's interval, with a last dimension ``end``."""
        ends = xr.concat([self._of("low"), self._of("high")], "end").assign_coords(
            end=["low", "high"]
        )
        return ends.transpose(..., "end")

    @property
    def inside(self) -> xr.DataArray:
        """Whether the prediction lies inside the interval."""
        return self._of("inside")

    def summary(self) -> pd.DataFrame:
        """Return a table with a row for each point and parameter."""
        table = self.data.to_dataframe().reset_index()
        columns = ["parameter", "value", "predicted", "verified", "low", "high", "inside"]
        return table[columns].set_index("parameter")

    def __repr__(self) -> str:
        inside = self.data["inside"].values
        attrs = self.data.attrs
        # Only around a truth may a deviation be called an error.
        truth = all(one.centered_on == "truth" for one in self.resolutions)
        head = (
            f"Mean {'error' if truth else 'deviation'} in percent over {attrs['replicas']} refits "
            f"on {attrs['observations']} sites: {int(inside.sum())} of {inside.size} "
            f"prediction(s) inside the {100 * attrs['level']:g}% interval"
        )
        table = self.summary() if len(inside) <= SHOWN_POINTS else self._overview()
        return head + "\n" + table.to_string(float_format=lambda v: f"{v:.4g}")

    def _overview(self) -> pd.DataFrame:
        """Return a table with a row for each parameter, over all points."""
        rows = self.summary().groupby(level="parameter", sort=False)
        return pd.DataFrame(
            {
                "points": rows.size(),
                "from": rows["value"].min(),
                "to": rows["value"].max(),
                "predicted": rows["predicted"].mean(),
                "verified": rows["verified"].mean(),
                "worst": rows["verified"].max(),
                "inside": rows["inside"].sum(),
            }
        )


def verify_layout(
    suggested: xr.Dataset,
    layout: IndexArray,
    live: Live,
    at: str | Mapping[str, float] | None,
    *,
    replicas: int,
    level: float,
    **options: Any,
) -> Verification:
    """Refit simulated data on a layout, at every design point or at `at`.

    Further options are those of `twoaxis.resolve`.
    """
    if replicas == 1:
        raise InputError("at least two replicas", "replicas=1", "pass replicas=200")
    forward = live.forward_at(layout)
    names = list(live.parameters)
    found = [
        resolve(
            forward,
            live.parameters,
            live.deviations[layout],
            {"suggested": np.arange(len(layout))},
            replicas=replicas,
            at=where,
            coordinates=live.positions[layout],
            vectorized=True,
            level=level,
            **options,
        )
        for where in _where(suggested, live, at)
    ]
    intervals = [[one.interval(parameter=n, level=level) for n in names] for one in found]
    low = [[np.nan if i is None else i.low for i in row] for row in intervals]
    high = [[np.nan if i is None else i.high for i in row] for row in intervals]

    def per_point(variable: str) -> Any:
        return np.array([one.data[variable].values.reshape(len(names), -1) for one in found])

    predicted = per_point("fisher_error_percent").mean(axis=2)
    verified = per_point("error_percent").mean(axis=2)
    both = ("point", "parameter")
    data = xr.Dataset(
        {
            "value": (both, per_point("center")[..., 0]),
            "predicted": (both, predicted),
            "verified": (both, verified),
            "low": (both, np.array(low)),
            "high": (both, np.array(high)),
            "inside": (both, (np.array(low) <= predicted) & (predicted <= np.array(high))),
        },
        coords={"parameter": names},
        attrs={"replicas": replicas, "observations": len(layout), "level": level},
    )
    return Verification(data, found)


def _where(suggested: xr.Dataset, live: Live, at: Any) -> list[Any]:
    """Return what `twoaxis.resolve` is told to simulate at, one for each point."""
    if at is not None:
        center_of(live.parameters, at)  # a wrong one is found out before any refit
        return [at]
    if suggested.attrs["kind"] in ("truth", "delivered"):
        return [suggested.attrs["kind"]]
    names = [str(name) for name in suggested["parameter"].values]
    return [dict(zip(names, row, strict=True)) for row in suggested["value"].values.tolist()]
