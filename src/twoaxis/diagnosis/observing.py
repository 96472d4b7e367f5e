"""Axis 1 as an audit reads it: one number a parameter, and the layouts it comes from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis.directions import Directions
from twoaxis.diagnosis.tolerance import Statistic
from twoaxis.diagnosis.tree import NO_UNIT, PARAMETER_UNIT, PERCENT, TEXT
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.resolution import Resolution

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Observing:
    """A resolution, seen from one audit.

    Attributes
    ----------
    resolution : Resolution
        With its parameters in the audit's order.
    parameters : dict of str to Parameter
        The audit's.
    layout : str, optional
        The layout that the field's data come from; None for all of them together.
    statistic : {"mean", "p90"}
    """

    resolution: Resolution
    parameters: dict[str, Parameter]
    layout: str | None
    statistic: Statistic

    @property
    def data(self) -> xr.Dataset:
        """The layouts that count."""
        data = self.resolution.data
        return data if self.layout is None else data.sel(layout=[self.layout])

    def percent(self, name: str) -> float:
        """Matched deviation of a parameter, in percent."""
        return self._statistic(self.data["error_percent"].sel(parameter=name).values)

    def along(self, found: Directions) -> list[float]:
        """Matched deviation along each direction, in percent."""
        data = self.data.transpose("parameter", "layout", "replica", ...)
        columns = []
        for name, parameter in self.parameters.items():
            one = data.sel(parameter=name)
            home = parameter.to_coordinate(float(one["center"]))
            columns.append(parameter.to_coordinate(one["estimate"].values) - home)
        sizes = found.percent(found.along(np.stack(columns, axis=-1)))
        return [self._statistic(sizes[..., k]) for k in range(sizes.shape[-1])]

    def _statistic(self, values: FloatArray) -> float:
        return float(values.mean() if self.statistic == "mean" else np.quantile(values, 0.9))


def observing(
    resolution: Resolution | None,
    parameters: dict[str, Parameter],
    layout: object,
    statistic: Statistic,
) -> Observing | None:
    """Check that a resolution speaks of the audited parameters."""
    if resolution is None:
        if layout is not None:
            raise InputError(
                "a resolution that has layouts",
                f"layout={layout!r} and no resolution",
                "pass resolution=twoaxis.resolve(...), or leave layout out",
            )
        return None
    if not isinstance(resolution, Resolution):
        raise InputError(
            "what twoaxis.resolve returned as resolution",
            type(resolution).__name__,
            "pass resolution=twoaxis.resolve(forward, parameters, noise=...)",
        )
    if set(resolution.parameters) != set(parameters):
        raise InputError(
            f"a resolution of the parameters {', '.join(parameters)}",
            f"one of {', '.join(resolution.parameters)}",
            "resolve the same parameters that the residual takes",
        )
    chosen = None if layout is None else str(layout)
    resolution.select(resolution.parameters[0], chosen)  # an unknown layout is refused here
    names = list(parameters)
    data = resolution.data.sel(parameter=names, other_parameter=names)
    return Observing(Resolution(data, resolution.live), parameters, chosen, statistic)


# Units of the variables of a resolution; what is not listed has none.
_UNITS = {
    **dict.fromkeys(
        ("estimate", "gauss_newton", "center", "lower_bound", "upper_bound", "excluded"),
        PARAMETER_UNIT,
    ),
    **dict.fromkeys(("set_lower", "set_upper", "data_estimate"), PARAMETER_UNIT),
    **dict.fromkeys(("data_gauss_newton", "data_set_lower", "data_set_upper"), PARAMETER_UNIT),
    **dict.fromkeys(("noise_deviation", "data_noise_scale"), "unit of the data"),
    **dict.fromkeys(
        ("parameter", "other_parameter", "layout", "coordinate", "excluded_reason"), TEXT
    ),
}
_MEANINGS = {
    "parameter": "names of the parameters",
    "other_parameter": "names of the parameters, again",
    "layout": "names of the observation layouts",
    "replica": "number of the noise replica",
    "direction": "number of the eigen-direction, weakest first",
    "excluded": "values at which the forward model could not be used",
}


def to_group(seen: Observing) -> xr.Dataset:
    """Return the resolution as a group of the tree, with a meaning and units everywhere."""
    data = seen.resolution.data
    renamed = data.rename({str(n): str(n).replace("error", "deviation") for n in data.variables})
    for old in data.variables:
        variable = renamed[str(old).replace("error", "deviation")]
        meaning = variable.attrs.get("long_name", _MEANINGS.get(str(old), str(old)))
        variable.attrs = {
            "long_name": meaning.replace("standard error", "standard deviation"),
            "units": variable.attrs.get("units", _UNITS.get(str(old), NO_UNIT)),
            "resolution_name": str(old),
        }
    messages = "\n".join(seen.resolution.messages).replace("standard error", "standard deviation")
    renamed.attrs = {**data.attrs, "messages": messages}
    used = np.array([seen.layout in (None, name) for name in seen.resolution.layouts])
    # The mean size of a normal deviate is sqrt(2 / pi) standard deviations.
    deviation = renamed["fisher_deviation_percent"] * np.sqrt(np.pi / 2)
    meaning = {"long_name": "predicted standard deviation of the estimates", "units": PERCENT}
    renamed["fisher_sd_percent"] = deviation.assign_attrs(meaning)
    about = {"long_name": "whether the layout counts for this audit", "units": NO_UNIT}
    renamed["used"] = (["layout"], used, about)
    return renamed


def from_group(group: xr.Dataset) -> Resolution:
    """Return the resolution that a group of the tree holds, without its forward model."""
    data = group.drop_vars(["fisher_sd_percent", "used"])
    back = {str(n): str(v.attrs.get("resolution_name", n)) for n, v in data.variables.items()}
    return Resolution(data.rename(back))
