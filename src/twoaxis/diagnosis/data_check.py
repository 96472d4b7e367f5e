"""The data of this one field: the matched fit to them, and the solver run again.

Before any diagnosis users ask one thing: put the delivered parameter back into the solver; does
it explain the data? And how far would the matched estimator have come with the same data? What
it does better is the excess of the neural pipeline.

Axis 1 as an audit reads it: one number a parameter, and the layouts it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2 as chi2_distribution

from twoaxis.diagnosis.decision_map import Statistic
from twoaxis.diagnosis.directions import Directions
from twoaxis.diagnosis.tree import NO_UNIT, labelled
from twoaxis.errors import InputError
from twoaxis.parameters import Center, Parameter
from twoaxis.resolution import Resolution
from twoaxis.resolution.data_fit import LiveModel, Observed
from twoaxis.resolution.misfit import ALARM

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
        return self._statistic(self.data["deviation_percent"].sel(parameter=name).values)

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
    resolution.select(resolution.names[0], chosen)  # an unknown layout is refused here
    names = list(parameters)
    data = resolution.data.sel(parameter=names, other_parameter=names)
    return Observing(Resolution(data, resolution.live), parameters, chosen, statistic)


def to_group(seen: Observing) -> xr.Dataset:
    """Return the resolution as a group of the tree, with the layouts that count marked."""
    group = seen.resolution.data.copy()
    for variable in group.variables.values():
        variable.attrs = {"units": NO_UNIT, **variable.attrs}
    used = np.array([seen.layout in (None, name) for name in seen.resolution.layout_names])
    about = {"long_name": "whether the layout counts for this audit", "units": NO_UNIT}
    group["used"] = (["layout"], used, about)
    return group


def from_group(group: xr.Dataset) -> Resolution:
    """Return the resolution that a group of the tree holds, without its forward model."""
    return Resolution(group.drop_vars("used"))


FROM_A_FILE = (
    "the resolution came from a file and carries no forward model, so that the data are neither "
    "fitted nor simulated: pass what twoaxis.resolve(...) returned in this session"
)
SEVERAL_LAYOUTS = (
    "the resolution holds fits to the data of several layouts: name the one that the field was "
    'trained on, as in layout="{}"'
)


@dataclass(frozen=True, eq=False)
class Matching:
    """What the data of the field say.

    Attributes
    ----------
    matched : xarray.Dataset, optional
        The group ``/matched``.
    resimulation : xarray.Dataset, optional
        The group ``/resimulation``.
    messages : list of str
    """

    matched: xr.Dataset | None
    resimulation: xr.Dataset | None
    messages: list[str]


def match(
    seen: Observing | None,
    data: ArrayLike | Mapping[Any, ArrayLike] | None,
    parameters: Mapping[str, Parameter],
    center: Center,
) -> Matching:
    """Fit and simulate the data, as far as what is at hand allows."""
    if seen is None:
        told = (
            "data are given without a forward model to compare them with: add "
            "resolution=twoaxis.resolve(forward, parameters, noise=...)"
        )
        return Matching(None, None, [] if data is None else [told])
    live = seen.resolution.live
    if live is None and data is not None:
        return Matching(None, None, [FROM_A_FILE])
    chosen = data if data is not None else live.data if live is not None else None
    if live is not None and chosen is not None:
        if data is None and seen.layout is None and len(seen.resolution.layout_names) > 1:
            first = seen.resolution.layout_names[0]
            return Matching(None, None, [SEVERAL_LAYOUTS.format(first)])
        return _from_live(live, live.observed(chosen, seen.layout), parameters, center)
    return _from_file(seen, parameters, center)


def _from_live(
    live: LiveModel, observed: Observed, parameters: Mapping[str, Parameter], center: Center
) -> Matching:
    fit = live.fit(observed)
    order = [list(live.setup.parameters).index(name) for name in parameters]

    def physical(coordinates: Any) -> FloatArray:
        row = coordinates[0][order]
        return np.array(
            [float(p.to_value(q)) for p, q in zip(parameters.values(), row, strict=True)]
        )

    fits: Any = fit.fits  # with its sets, which a fit to data always has
    estimate = physical(fits.estimate)
    matched = {
        "estimate": estimate,
        "lower": physical(fits.lower),
        "upper": physical(fits.upper),
        "open_lower": fits.open_lower[0][order],
        "open_upper": fits.open_upper[0][order],
        "noise_scale": fit.noise_scale,
    }
    name = observed.layout.name
    group = labelled(
        "/matched",
        {**matched, **_comparison(estimate, parameters, center)},
        {"layout": name},
    )
    values = {"matched": dict(zip(parameters, estimate.tolist(), strict=True))}
    delivered = {n: p.delivered for n, p in parameters.items() if p.delivered is not None}
    if len(delivered) == len(parameters):
        values = {"delivered": delivered, **values}
    if center.kind == "truth":
        values["truth"] = center.values
    messages = [
        f"the matched fit to the data: {check.meaning} (p = {check.p_value:.2g})"
        for check in fit.checks
        if check.p_value * len(fit.checks) < ALARM
    ]
    again = _resimulate(live, observed, values, parameters)
    messages += [
        f"the {label} value could not be simulated: {status}"
        for label, status in zip(again["value_of"].values, again["status"].values, strict=True)
        if status != "simulated"
    ]
    return Matching(group, again, messages)


def _from_file(seen: Observing, parameters: Mapping[str, Parameter], center: Center) -> Matching:
    """Take the matched fit that was made with the resolution, where there is one."""
    data = seen.data
    if "data_estimate" not in data:
        return Matching(None, None, [])
    if data.sizes["layout"] > 1:
        return Matching(None, None, [SEVERAL_LAYOUTS.format(seen.resolution.layout_names[0])])
    one = data.isel(layout=0)
    estimate = one["data_estimate"].values
    group = {
        "estimate": estimate,
        "lower": one["data_set_lower"].values,
        "upper": one["data_set_upper"].values,
        "open_lower": one["data_set_open_lower"].values,
        "open_upper": one["data_set_open_upper"].values,
        "noise_scale": float(one["data_noise_scale"]),
        **_comparison(estimate, parameters, center),
    }
    told = (
        "the matched estimate is the one that the resolution was saved with; without its forward "
        "model nothing is simulated again"
    )
    layout = str(one["layout"].values)
    return Matching(labelled("/matched", group, {"layout": layout}), None, [told])


def _comparison(
    estimate: FloatArray, parameters: Mapping[str, Parameter], center: Center
) -> dict[str, FloatArray]:
    """Compare delivered and matched; from the truth as well, where the audit knows it."""
    delivered = [p.delivered for p in parameters.values()]
    pairs = list(zip(parameters.items(), estimate, strict=True))
    result = {}
    if all(value is not None for value in delivered):
        result["difference_percent"] = np.array(
            [float(p.percent(p.delivered or 0.0, float(e))) for (_, p), e in pairs]
        )
    if center.kind == "truth":
        own = np.array([abs(float(p.percent(e, center.values[n]))) for (n, p), e in pairs])
        result["deviation_percent"] = own
        if "difference_percent" in result:
            theirs = [
                abs(float(p.percent(p.delivered or 0.0, center.values[n]))) for (n, p), _ in pairs
            ]
            result["excess_percent"] = np.array(theirs) - own
    return result


def _resimulate(
    live: LiveModel,
    observed: Observed,
    values: dict[str, dict[str, float]],
    parameters: Mapping[str, Parameter],
) -> xr.Dataset:
    """Whitened misfit of the forward model at each value."""
    count = len(observed.values)
    residuals, reasons = {}, {}
    for label, point in values.items():
        residuals[label], reasons[label] = live.misfit(observed, point)
    chi_square = np.array([float(r @ r) for r in residuals.values()])
    fitted = np.array([len(parameters) if label == "matched" else 0 for label in values])
    freedom = np.maximum(count - fitted, 1)
    # A bank's estimate may miss the minimum by a hair: no value is better than the best.
    deviance = np.maximum(chi_square - chi_square[list(values).index("matched")], 0.0)
    return labelled(
        "/resimulation",
        {
            "value_of": list(values),
            "value": [[point[name] for name in parameters] for point in values.values()],
            "chi_square": chi_square,
            "freedom": freedom,
            "reduced_chi_square": chi_square / freedom,
            "rms": np.sqrt(chi_square / count),
            "deviance": deviance,
            "p_value": chi2_distribution.sf(deviance, len(parameters)),
            "status": [reasons[label] or "simulated" for label in values],
        },
        {"layout": observed.layout.name, "observations": count},
    )
