"""What axis 1 found: a labelled result that can be read, saved and loaded.

From arrays to one labelled dataset, in which every variable says what it is.

Loading a saved resolution: nothing in the file is executed, and strange files are refused.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import chi2 as chi2_distribution

from twoaxis.errors import InputError
from twoaxis.files import existing_netcdf, write_whole
from twoaxis.netcdf import check_schema, contradiction, load_dataset, read_netcdf, refuse
from twoaxis.parameters import Center, Parameter
from twoaxis.resolution.data_fit import DataFit
from twoaxis.resolution.design import ALL_LAYOUTS, Design
from twoaxis.resolution.estimator import Fits
from twoaxis.resolution.fisher import Information
from twoaxis.statistics import (
    Interval,
    bootstrap_estimates,
    cluster_bootstrap,
    weighted_mean,
    weighted_quantile,
)
from twoaxis.version import __version__

if TYPE_CHECKING:
    from twoaxis.resolution.data_fit import LiveModel

DATA_TITLE = "Matched fit to the data"

Statistic = Literal["mean", "median", "p90"]

# Draws and seed of the bootstrap are those published for the recoverability block.
BOOTSTRAP_DRAWS = 20_000
BOOTSTRAP_SEED = 20260719


class Resolution:
    """How well these observations resolve the parameters.

    Made by `twoaxis.resolve`. Everything is in ``data``, an `xarray.Dataset` that plain
    xarray can open again; the attributes below are views of it. With several parameters each
    of them has a leading dimension ``parameter``.

    Attributes
    ----------
    data : xarray.Dataset
    live : LiveModel or None
        The forward model and the noise, for data that come later; never saved, so that a
        resolution from a file or from another process has none.
    """

    def __init__(self, data: xr.Dataset, live: LiveModel | None = None) -> None:
        self.data = data
        self.live = live

    def __getstate__(self) -> dict[str, Any]:
        # Forward models are the user's code, which need not survive the way to another process.
        return {"data": self.data, "live": None}

    def _of_parameters(self, variable: str) -> xr.DataArray:
        array = self.data[variable]
        return array.isel(parameter=0, drop=True) if array.sizes["parameter"] == 1 else array

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters."""
        return [str(name) for name in self.data["parameter"].values]

    @property
    def layouts(self) -> list[str]:
        """Names of the layouts."""
        return [str(name) for name in self.data["layout"].values]

    @property
    def replicas(self) -> int:
        """Number of noise replicas."""
        return int(self.data.sizes["replica"])

    @property
    def centered_on(self) -> str:
        """What the replicas were simulated at: "truth", "delivered" or "point"."""
        return str(self.data.attrs["centered_on"])

    @property
    def estimate(self) -> xr.DataArray:
        """Matched maximum-likelihood estimates, in physical units, (layout, replica)."""
        return self._of_parameters("estimate")

    @property
    def error_percent(self) -> xr.DataArray:
        """``100 |estimate / center - 1|``, (layout, replica): an error around a truth only."""
        return self._of_parameters("error_percent")

    @property
    def gauss_newton_error_percent(self) -> xr.DataArray:
        """The same for one Gauss–Newton step from the delivered value, or from the centre."""
        return self._of_parameters("gauss_newton_error_percent")

    @property
    def fisher_error_percent(self) -> xr.DataArray:
        """First-order prediction of the mean error, (layout,)."""
        return self._of_parameters("fisher_error_percent")

    @property
    def noiseless_bias_percent(self) -> xr.DataArray:
        """Signed error of the fit to noise-free data, (layout,): the solver's own bias."""
        return self._of_parameters("noiseless_bias_percent")

    @property
    def covered(self) -> xr.DataArray:
        """Whether each likelihood-profile set holds the centre, (layout, replica)."""
        return self._of_parameters("covered")

    @property
    def coverage(self) -> xr.DataArray:
        """Share of likelihood-profile sets that hold the centre."""
        return self.covered.mean(("layout", "replica"))

    @property
    def excluded_parameters(self) -> dict[float, str]:
        """Values at which the forward model could not be used, and why."""
        if "excluded_reason" not in self.data:
            return {}
        reasons = self.data["excluded_reason"]
        return dict(zip(reasons["excluded"].values.tolist(), reasons.values.tolist(), strict=True))

    @property
    def messages(self) -> list[str]:
        """What a reader must know before using the numbers, as sentences."""
        return str(self.data.attrs["messages"]).splitlines()

    def interval(
        self,
        statistic: Statistic = "mean",
        *,
        parameter: str | None = None,
        layout: str | None = None,
        level: float = 0.95,
    ) -> Interval | None:
        """Percentile cluster-bootstrap interval of the error's mean, median or p90.

        The clusters are the replicas: layouts that share a noise vector stay together. None
        with a single replica, which says nothing about the spread between replicas.
        """
        errors = self._errors(parameter, layout)
        if self.replicas < 2:
            return None
        values = errors.values.ravel()
        clusters = np.broadcast_to(errors["replica"].values, errors.shape).ravel()
        return cluster_bootstrap(
            lambda weights: weighted_statistic(statistic, values, weights),
            clusters,
            draws=BOOTSTRAP_DRAWS,
            seed=BOOTSTRAP_SEED,
            level=level,
        )

    def _errors(self, parameter: str | None, layout: str | None) -> xr.DataArray:
        """Return the errors of one parameter, on one layout or all, (layout, replica)."""
        chosen = self.select(parameter, layout)["error_percent"]
        return chosen.transpose("layout", "replica")

    def select(self, parameter: str | None = None, layout: str | None = None) -> xr.Dataset:
        """Return the part of the data about one parameter, on one layout or on all.

        The parameter may be left out where there is only one.
        """
        if parameter is None and len(self.parameters) == 1:
            parameter = self.parameters[0]
        if parameter not in self.parameters:
            raise InputError(
                f"one of the parameters {', '.join(self.parameters)}",
                f"parameter={parameter!r}",
                f'name one, as in parameter="{self.parameters[0]}"',
            )
        if layout is not None and layout not in self.layouts:
            raise InputError(
                f"one of the layouts {', '.join(self.layouts)}",
                f"layout={layout!r}",
                "name one, or leave it out for all of them",
            )
        chosen = self.data.sel(parameter=parameter)
        return chosen if layout is None else chosen.sel(layout=[layout])

    def summary(self) -> pd.DataFrame:
        """Return a table: a row for each layout, and one for all of them together.

        Errors are in percent; ``ci_low`` and ``ci_high`` bound the mean. With several
        parameters the rows are indexed by parameter and layout.
        """
        return self._summary.copy()

    @cached_property
    def _summary(self) -> pd.DataFrame:
        rows = {}
        for parameter in self.parameters:
            chosen = self.data.sel(parameter=parameter)
            for layout in self.layouts:
                rows[parameter, layout] = _row(chosen.sel(layout=[layout]))
            if len(self.layouts) > 1:
                rows[parameter, ALL_LAYOUTS] = _row(chosen)
        table = pd.DataFrame.from_dict(rows, orient="index")
        if self.replicas > 1:
            low, high = self._mean_intervals()
            table.insert(1, "ci_low", low)
            table.insert(2, "ci_high", high)
        table.index = pd.MultiIndex.from_tuples(rows, names=["parameter", "layout"])
        return table.droplevel("parameter") if len(self.parameters) == 1 else table

    def _mean_intervals(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """95% ends of every mean in the summary, from one bootstrap for all of them."""
        errors = self.data["error_percent"].values  # (parameter, layout, replica)
        if len(self.layouts) > 1:
            errors = np.concatenate([errors, errors.mean(axis=1, keepdims=True)], axis=1)
        by_replica = errors.reshape(-1, self.replicas)
        estimates = bootstrap_estimates(
            lambda weights: weights @ by_replica.T / self.replicas,
            np.arange(self.replicas),
            draws=BOOTSTRAP_DRAWS,
            seed=BOOTSTRAP_SEED,
        )
        low, high = np.quantile(estimates, [0.025, 0.975], axis=0)
        return low, high

    def data_summary(self) -> pd.DataFrame | None:
        """Return the matched fit to the data: estimate, profile set, noise; None without data.

        ``lower`` and ``upper`` bound the likelihood-profile set at the chosen level.
        """
        if "data_estimate" not in self.data:
            return None
        columns = {
            "estimate": "data_estimate",
            "lower": "data_set_lower",
            "upper": "data_set_upper",
            "gauss_newton": "data_gauss_newton",
            "noise_scale": "data_noise_scale",
        }
        rows = {
            (parameter, layout): {
                name: float(self.select(parameter, layout)[variable].item())
                for name, variable in columns.items()
            }
            for parameter in self.parameters
            for layout in self.layouts
        }
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index = pd.MultiIndex.from_tuples(rows, names=["parameter", "layout"])
        return table

    def directions(self) -> pd.DataFrame:
        """Return the eigen-directions of the Fisher information, weakest first.

        A row for each layout and direction: its standard error in percent, whether it is
        weak, and its share of every parameter.
        """
        rows = []
        for layout in self.layouts:
            chosen = self.data.sel(layout=layout)
            for k in chosen["direction"].values:
                one = chosen.sel(direction=k)
                shares = dict(zip(self.parameters, one["direction_vector"].values, strict=True))
                rows.append(
                    {
                        "layout": layout,
                        "direction": int(k),
                        "standard_error_percent": float(one["direction_error_percent"]),
                        "weak": bool(one["direction_weak"]),
                        **shares,
                    }
                )
        return pd.DataFrame(rows).set_index(["layout", "direction"])

    def to_dict(self) -> dict[str, Any]:
        """Return the headline numbers as plain Python values, ready for JSON."""
        several = len(self.parameters) > 1
        per = {name: self._parameter_dict(name) for name in self.parameters}
        numbers = {"by_parameter": per} if several else per[self.parameters[0]]
        return {
            "parameters": self.parameters,
            "centered_on": self.centered_on,
            "center": dict(zip(self.parameters, self.data["center"].values.tolist(), strict=True)),
            "layouts": self.layouts,
            "replicas": self.replicas,
            **numbers,
            "level": float(self.data.attrs["level"]),
            "method": str(self.data.attrs["method"]),
            "excluded_parameters": [
                {"value": value, "reason": reason}
                for value, reason in self.excluded_parameters.items()
            ],
            **self._data_dict(),
            "messages": self.messages,
        }

    def _data_dict(self) -> dict[str, Any]:
        table = self.data_summary()
        if table is None:
            return {}
        return {"data": table.reset_index().to_dict(orient="records")}

    def _parameter_dict(self, parameter: str) -> dict[str, Any]:
        chosen = self.data.sel(parameter=parameter)
        errors = chosen["error_percent"].values.ravel()
        fisher = chosen["fisher_error_percent"]
        by_layout = dict(zip(self.layouts, map(_finite, fisher.values.tolist()), strict=True))
        bias = dict(
            zip(self.layouts, chosen["noiseless_bias_percent"].values.tolist(), strict=True)
        )
        return {
            "error_percent": {
                "mean": float(errors.mean()),
                "median": float(np.median(errors)),
                "p90": float(np.quantile(errors, 0.9)),
                "ci95": _ends(self.interval("mean", parameter=parameter)),
                "median_ci95": _ends(self.interval("median", parameter=parameter)),
                "p90_ci95": _ends(self.interval("p90", parameter=parameter)),
            },
            "fisher_error_percent": {"by_layout": by_layout, "mean": _finite(float(fisher.mean()))},
            "gauss_newton_error_percent": float(chosen["gauss_newton_error_percent"].mean()),
            "noiseless_bias_percent": bias,
            "coverage": float(chosen["covered"].mean()),
            "on_bound": int(chosen["on_bound"].sum()),
        }

    def __repr__(self) -> str:
        table = self.summary().to_string(float_format=_short)
        data = self.data_summary()
        fitted = [] if data is None else [DATA_TITLE, data.to_string(float_format=_short)]
        notes = [f"! {line}" for line in self.messages]
        return "\n".join([self._headline(), table, *fitted, *notes])

    def _repr_html_(self) -> str:
        table = self.summary().to_html(float_format=_short, border=0)
        data = self.data_summary()
        if data is not None:
            table += f"<p>{DATA_TITLE}</p>" + data.to_html(float_format=_short, border=0)
        notes = "".join(f"<li>{escape(line)}</li>" for line in self.messages)
        return f"<p>{escape(self._headline())}</p>{table}" + (f"<ul>{notes}</ul>" if notes else "")

    def _headline(self) -> str:
        center = ", ".join(
            f"{name} = {value:g}"
            for name, value in zip(self.parameters, self.data["center"].values, strict=True)
        )
        quantity = {
            "truth": f"relative error around the truth {center}",
            "delivered": f"spread around the delivered {center}, not around a truth",
            "point": f"spread around {center}",
        }[self.centered_on]
        return (
            f"Resolution of {len(self.layouts)} layout(s) under {self.replicas} noise replica(s): "
            f"{quantity}, in percent"
        )

    def to_netcdf(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one netCDF file, whole or not at all."""
        return write_whole(path, lambda target: self.data.to_netcdf(target, engine="h5netcdf"))


def weighted_statistic(statistic: Statistic, values: Any, weights: Any) -> Any:
    """Mean, median or 90th percentile of `values` under bootstrap counts."""
    if statistic == "mean":
        return weighted_mean(values, weights)
    if statistic not in ("median", "p90"):
        raise InputError('statistic "mean", "median" or "p90"', repr(statistic), "choose one")
    return weighted_quantile(values, weights, 0.5 if statistic == "median" else 0.9)


def _row(chosen: xr.Dataset) -> dict[str, float]:
    """Return the summary of one parameter on the chosen layouts, without its interval."""
    errors = chosen["error_percent"].values.ravel()
    return {
        "mean": float(errors.mean()),
        "median": float(np.median(errors)),
        "p90": float(np.quantile(errors, 0.9)),
        "fisher": float(chosen["fisher_error_percent"].mean()),
        "gauss_newton": float(chosen["gauss_newton_error_percent"].mean()),
        "bias": float(chosen["noiseless_bias_percent"].mean()),
        "coverage": float(chosen["covered"].mean()),
        "on_bound": int(chosen["on_bound"].sum()),
    }


def _short(value: float) -> str:
    """Four digits; rounding in place of an exact zero is shown as zero."""
    return f"{value:.4g}" if abs(value) > 1e-9 else "0"


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _finite(value: float) -> float | None:
    """JSON has no infinity: an unresolved parameter has no predicted error."""
    return value if np.isfinite(value) else None


FloatArray = NDArray[np.float64]

SCHEMA = "twoaxis.resolution/1"


@dataclass(frozen=True)
class Findings:
    """All that one call of `resolve` has computed; lists have one item for each layout."""

    parameters: dict[str, Parameter]
    center: Center
    designs: list[Design]
    replicas: int
    fits: list[Fits]
    gauss_newton: list[FloatArray]
    information: list[Information]
    data_fits: list[DataFit] | None
    excluded: dict[float, str]
    bank_check_percent: float | None
    settings: dict[str, Any]

    def values(self, coordinates: FloatArray) -> FloatArray:
        """Physical values of coordinates whose last axis is the parameter; that axis first."""
        columns = [p.to_value(coordinates[..., j]) for j, p in enumerate(self.parameters.values())]
        return np.stack(columns)

    def percent(self, values: FloatArray) -> FloatArray:
        """Signed percent deviation from the centre; the parameter is the first axis."""
        rows = [
            p.percent(values[j], self.center.values[name])
            for j, (name, p) in enumerate(self.parameters.items())
        ]
        return np.stack(rows)


def assemble(found: Findings) -> xr.Dataset:
    """Return the dataset behind a `Resolution`."""
    noun = "error" if found.center.kind == "truth" else "deviation from the centre"
    variables = {
        **_replica_variables(found, noun),
        **_layout_variables(found, noun),
        **_data_variables(found, noun),
    }
    coordinates: dict[str, Any] = {
        "parameter": list(found.parameters),
        "layout": [d.name for d in found.designs],
        "replica": np.arange(found.replicas),
        "direction": np.arange(len(found.parameters)),
        "other_parameter": list(found.parameters),
    }
    if found.excluded:
        coordinates["excluded"] = np.array(list(found.excluded))
        variables["excluded_reason"] = _labelled(
            ["excluded"], list(found.excluded.values()), "why this value could not be used"
        )
    attributes = {
        "schema": SCHEMA,
        "title": "twoaxis: what these observations can resolve",
        "written_by": f"twoaxis {__version__}",
        "centered_on": found.center.kind,
        "bank_check_percent": (
            "not checked" if found.bank_check_percent is None else found.bank_check_percent
        ),
        **found.settings,
    }
    return xr.Dataset(variables, coordinates, attributes)


def _labelled(
    dims: list[str], values: Any, meaning: str, units: str | None = None
) -> tuple[list[str], Any, dict[str, str]]:
    attributes = {"long_name": meaning}
    if units is not None:
        attributes["units"] = units
    return dims, values, attributes


def _replica_variables(found: Findings, noun: str) -> dict[str, Any]:
    """Variables with one value a replica: (parameter, layout, replica)."""
    dims = ["parameter", "layout", "replica"]
    level = found.settings["level"]

    def per_parameter(name: str) -> FloatArray:
        stacked: FloatArray = np.stack([getattr(f, name)[1:] for f in found.fits])
        return stacked

    estimate = found.values(per_parameter("estimate"))
    newton = found.values(np.stack(found.gauss_newton)[:, 1:])
    percent = "percent"
    variables = {
        "estimate": _labelled(dims, estimate, "matched maximum-likelihood estimate"),
        "error_percent": _labelled(
            dims, np.abs(found.percent(estimate)), f"absolute relative {noun}", percent
        ),
        "gauss_newton": _labelled(dims, newton, "one Gauss–Newton step of the matched model"),
        "gauss_newton_error_percent": _labelled(
            dims, np.abs(found.percent(newton)), f"absolute relative {noun} of that step", percent
        ),
        "on_bound": _labelled(
            dims,
            np.moveaxis(per_parameter("on_bound"), -1, 0),
            "estimate at the usable range's end",
        ),
        "covered": _labelled(
            dims,
            np.moveaxis(per_parameter("deviance"), -1, 0) <= chi2_distribution.ppf(level, 1),
            "whether the likelihood-profile set holds the centre",
        ),
        "jointly_covered": _labelled(
            dims[1:],
            per_parameter("joint_deviance") <= chi2_distribution.ppf(level, len(found.parameters)),
            "whether the joint likelihood set holds the centre",
        ),
        "chi2": _labelled(dims[1:], per_parameter("chi2"), "least whitened sum of squares"),
        "converged": _labelled(dims[1:], per_parameter("converged"), "whether the fit converged"),
        "agreeing_starts": _labelled(
            dims[1:], per_parameter("agreeing_starts"), "starts that led to this minimum"
        ),
    }
    if found.fits[0].lower is not None:
        for end in ("lower", "upper"):
            variables[f"set_{end}"] = _labelled(
                dims, found.values(per_parameter(end)), f"{end} end of the likelihood-profile set"
            )
            variables[f"set_open_{end}"] = _labelled(
                dims,
                np.moveaxis(per_parameter(f"open_{end}"), -1, 0),
                f"whether the set runs into the usable range's {end} end",
            )
    return variables


def _layout_variables(found: Findings, noun: str) -> dict[str, Any]:
    """Variables with one value a layout, and those of the centre."""
    facts = found.information
    dims = ["parameter", "layout"]
    noiseless = found.values(np.stack([f.estimate[0] for f in found.fits]))
    center = np.array([found.center.values[name] for name in found.parameters])
    return {
        "center": _labelled(
            ["parameter"], center, f"what the replicas are simulated at: {found.center.kind}"
        ),
        "lower_bound": _labelled(
            ["parameter"], [p.bounds[0] for p in found.parameters.values()], "lower bound"
        ),
        "upper_bound": _labelled(
            ["parameter"], [p.bounds[1] for p in found.parameters.values()], "upper bound"
        ),
        "coordinate": _labelled(
            ["parameter"], [p.coordinate for p in found.parameters.values()], "coordinate"
        ),
        "observations": _labelled(
            ["layout"], np.array([len(d.sites) for d in found.designs]), "number of observations"
        ),
        "site": _labelled(
            ["layout", "observation"],
            _padded([d.sites for d in found.designs], -1),
            "flat index into the forward model's output; -1 where the layout has ended",
        ),
        "noise_deviation": _labelled(
            ["layout", "observation"],
            _padded([d.white.deviations for d in found.designs], 0.0),
            "standard deviation of the noise; 0 where the layout has ended",
        ),
        "fisher_error_percent": _labelled(
            dims,
            np.stack([f.error_percent for f in facts], axis=1),
            f"first-order prediction of the mean absolute relative {noun}",
            "percent",
        ),
        "noiseless_bias_percent": _labelled(
            dims, found.percent(noiseless), f"signed relative {noun} without noise", "percent"
        ),
        "derivative_error": _labelled(
            dims,
            np.stack([f.derivative_error for f in facts], axis=1),
            "relative difference between sensitivities of two step sizes",
        ),
        "fisher_information": _labelled(
            ["layout", "parameter", "other_parameter"],
            np.stack([f.matrix for f in facts]),
            "information about the coordinates",
        ),
        "correlation": _labelled(
            ["layout", "parameter", "other_parameter"],
            np.stack([f.correlation for f in facts]),
            "predicted correlation of the estimates",
        ),
        "direction_vector": _labelled(
            ["layout", "direction", "parameter"],
            np.stack([f.directions for f in facts]),
            "eigen-directions of the information, weakest first, in units of 100 percent",
        ),
        "direction_error_percent": _labelled(
            ["layout", "direction"],
            np.stack([f.direction_percent for f in facts]),
            "standard error along the direction",
            "percent",
        ),
        "direction_weak": _labelled(
            ["layout", "direction"],
            np.stack([f.weak for f in facts]),
            "whether one standard error along it leaves the bounds",
        ),
    }


def _padded(rows: list[Any], end: float) -> Any:
    """Stack rows of unequal length, filled up with `end`."""
    width = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, width - len(row)), constant_values=end) for row in rows])


def _data_variables(found: Findings, noun: str) -> dict[str, Any]:
    """Variables of the fit to real observations, where there are any."""
    if found.data_fits is None:
        return {}
    fits = [fit.fits for fit in found.data_fits]
    dims = ["parameter", "layout"]
    estimate = found.values(np.stack([f.estimate[0] for f in fits]))
    newton = found.values(np.stack([f.gauss_newton for f in found.data_fits]))
    variables = {
        "data_estimate": _labelled(dims, estimate, "matched estimate from the data"),
        "data_error_percent": _labelled(
            dims, np.abs(found.percent(estimate)), f"its absolute relative {noun}", "percent"
        ),
        "data_gauss_newton": _labelled(dims, newton, "one Gauss–Newton step from the data"),
        "data_gauss_newton_error_percent": _labelled(
            dims, np.abs(found.percent(newton)), f"its absolute relative {noun}", "percent"
        ),
        "data_on_bound": _labelled(
            dims, np.stack([f.on_bound[0] for f in fits], axis=1), "estimate at the range's end"
        ),
        "data_noise_scale": _labelled(
            ["layout"],
            np.array([fit.noise_scale for fit in found.data_fits]),
            "root mean square residual of the matched fit, in the units of the data",
        ),
    }
    for end in ("lower", "upper"):
        ends = np.stack([getattr(f, end)[0] for f in fits])
        variables[f"data_set_{end}"] = _labelled(
            dims, found.values(ends), f"{end} end of the data's likelihood-profile set"
        )
        is_open = np.stack([getattr(f, f"open_{end}")[0] for f in fits], axis=1)
        variables[f"data_set_open_{end}"] = _labelled(
            dims, is_open, f"whether that set runs into the usable range's {end} end"
        )
    for check in found.data_fits[0].checks:
        same = [c for f in found.data_fits for c in f.checks if c.name == check.name]
        if len(same) < len(found.data_fits):  # some layout was too small for this check
            continue
        variables[f"data_{check.name}_p_value"] = _labelled(
            ["layout"],
            np.array([c.p_value for c in same]),
            f"p-value of the {check.name} of the residuals",
        )
    return variables


REPLICA = ("parameter", "layout", "replica")
LAYOUT = ("parameter", "layout")
# What every summary needs, and its dimensions; a file of our schema without it was changed.
REQUIRED: dict[str, tuple[str, ...]] = {
    "parameter": ("parameter",),
    "layout": ("layout",),
    "replica": ("replica",),
    "center": ("parameter",),
    "estimate": REPLICA,
    "error_percent": REPLICA,
    "gauss_newton_error_percent": REPLICA,
    "fisher_error_percent": LAYOUT,
    "noiseless_bias_percent": LAYOUT,
    "covered": REPLICA,
    "on_bound": REPLICA,
}
NAMES = ("parameter", "layout")
# What summaries and pictures ask of the attributes.
ATTRIBUTES = ("centered_on", "messages", "level", "method")


def load_resolution(path: str | os.PathLike[str]) -> Resolution:
    """Load a `Resolution` from a netCDF file. Nothing in the file is executed."""
    path = existing_netcdf(path)
    data = read_netcdf(path, load_dataset, "Resolution.to_netcdf", "write it again")
    again = "load it with the version of twoaxis that wrote it, or make it again"
    check_schema(data.attrs, SCHEMA, path, again)
    missing = [name for name in REQUIRED if name not in data.variables]
    if missing:
        raise InputError(
            "a complete file",
            f"{str(path)!r} without {', '.join(missing)}",
            "write it again; the file was changed after it was saved",
        )
    found = Resolution(data)
    refuse(path, _first_fault(data) or contradiction(lambda: _use(found)))
    return found


def _first_fault(data: xr.Dataset) -> str:
    """Compare attributes, dimensions and kinds with the layout; say what differs."""
    for name in ATTRIBUTES:
        if name not in data.attrs:
            return f"no attribute {name}"
    for name, dims in REQUIRED.items():
        variable = data.variables[name]
        if variable.dims != dims:
            return f"the dimensions {variable.dims} of {name}"
        if not variable.size or variable.dtype.kind not in ("UOT" if name in NAMES else "biuf"):
            return f"{variable.size} values of {variable.dtype} as {name}"
    for name in NAMES:
        if len(set(data[name].values.tolist())) != data.sizes[name]:
            return f"a {name} that stands there twice"
    return ""


def _use(found: Resolution) -> None:
    """Do what a reader will ask of it."""
    repr(found), found._repr_html_(), found.excluded_parameters
    if "direction_vector" in found.data:
        found.directions()
