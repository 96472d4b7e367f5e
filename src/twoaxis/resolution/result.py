"""What axis 1 found: how well the observations resolve the parameters, as one labelled dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Parameter, Parameters
from twoaxis.resolution.fisher import directions_of_interest, leaves_bounds, predicted_spread
from twoaxis.resolution.function import FunctionResolution, resolve_function
from twoaxis.resolution.layouts import ALL_LAYOUTS
from twoaxis.result import (
    CENTER_LAYOUT,
    DERIVED_RTOL,
    MESSAGE_LAYOUT,
    PARAMETER_LAYOUT,
    CenteredResult,
    Message,
    messages_from,
    require,
)
from twoaxis.statistics import (
    Interval,
    bootstrap_estimates,
    cluster_bootstrap,
    squares_limit,
    weighted_mean,
    weighted_quantile,
)

if TYPE_CHECKING:
    from twoaxis.resolution.data_fit import LiveModel

FloatArray = NDArray[np.float64]
Statistic = Literal["mean", "median", "p90"]

# Draws and seed of the bootstrap are those published for the recoverability block.
BOOTSTRAP_DRAWS = 20_000
# Fewer where so many replicas would be drawn that printing takes long, but at least so many.
MOST_DRAWN, FEWEST_DRAWS = 32_000_000, 2_000
BOOTSTRAP_SEED = 20260719
DATA_TITLE = "Matched fit to the data"
# Directions in a file must be eigenvectors of its information, up to this share of the largest
# eigenvalue.
EIGEN_RTOL = 1e-6

_REPLICA = ("parameter", "layout", "replica")
_FIT = ("layout", "replica")
_LAYOUT = ("parameter", "layout")
_MATRIX = ("layout", "parameter", "other_parameter")
_SITE = ("layout", "observation")
_UNIT, _DATA_UNIT = "unit of the parameter", "unit of the data"

_REPLICA_LAYOUT: Layout = {
    "replica": Variable(("replica",), "int", "number of the noise replica"),
    "estimate": Variable(_REPLICA, "float", "matched estimate", _UNIT, finite=True),
    "deviation_percent": Variable(_REPLICA, "float", "|estimate - center|, relative", "%"),
    "gauss_newton": Variable(_REPLICA, "float", "one Gauss-Newton step", _UNIT, finite=True),
    "gauss_newton_deviation_percent": Variable(
        _REPLICA, "float", "|Gauss-Newton step - center|, relative", "%"
    ),
    "on_bound": Variable(_REPLICA, "bool", "estimate at the end of the usable range"),
    "deviance": Variable(_REPLICA, "float", "profile deviance of the center", least=0),
    "covered": Variable(_REPLICA, "bool", "likelihood-profile set contains the center"),
    "joint_deviance": Variable(
        _FIT, "float", "deviance of the center, all parameters held", least=0
    ),
    "jointly_covered": Variable(_FIT, "bool", "joint likelihood set contains the center"),
    "chi2": Variable(_FIT, "float", "minimum of the whitened sum of squares"),
    "converged": Variable(_FIT, "bool", "the fit converged"),
    "agreeing_starts": Variable(_FIT, "int", "starting points that led to this minimum", least=0),
    "set_lower": Variable(
        _REPLICA, "float", "lower end of the likelihood-profile set", _UNIT, required=False
    ),
    "set_upper": Variable(
        _REPLICA, "float", "upper end of the likelihood-profile set", _UNIT, required=False
    ),
    "set_open_lower": Variable(
        _REPLICA, "bool", "the set reaches the lower end of the usable range", required=False
    ),
    "set_open_upper": Variable(
        _REPLICA, "bool", "the set reaches the upper end of the usable range", required=False
    ),
}
_PER_LAYOUT: Layout = {
    "layout": Variable(("layout",), "text", "name of the layout"),
    "observations": Variable(("layout",), "int", "number of observations"),
    "site": Variable(
        _SITE, "int", "flat index into the output of the forward model; -1: none", least=-1
    ),
    "noise_deviation": Variable(
        _SITE, "float", "standard deviation of the noise; NaN: no observation", _DATA_UNIT, least=0
    ),
    "noiseless_estimate": Variable(_LAYOUT, "float", "fit to noise-free data", _UNIT, finite=True),
    "noiseless_bias_percent": Variable(
        _LAYOUT, "float", "fit to noise-free data - center, relative", "%"
    ),
    "derivative_error": Variable(
        _LAYOUT, "float", "relative difference between sensitivities of two step sizes", least=0
    ),
    "other_parameter": Variable(("other_parameter",), "text", "name of the parameter"),
    "fisher_information": Variable(
        _MATRIX, "float", "Fisher information about the coordinates", finite=True
    ),
    "direction_vector": Variable(
        ("layout", "direction", "parameter"),
        "float",
        "eigenvector of the Fisher information, least resolved first, in units of 100%",
        finite=True,
    ),
    "direction_sd_percent": Variable(
        ("layout", "direction"), "float", "standard error along the direction", "%", least=0
    ),
    "direction_poorly_resolved": Variable(
        ("layout", "direction"), "bool", "one standard error leaves the parameter bounds"
    ),
    "fisher_sd_percent": Variable(_LAYOUT, "float", "predicted standard error", "%"),
    "fisher_deviation_percent": Variable(
        _LAYOUT, "float", "predicted mean of |estimate - center|, relative", "%"
    ),
    "correlation": Variable(_MATRIX, "float", "predicted correlation of the estimates"),
}
_EXCLUDED: Layout = {
    "excluded": Variable(
        ("excluded",), "float", "value at which the forward model failed", _UNIT, required=False
    ),
    "excluded_reason": Variable(("excluded",), "text", "reason of the failure", required=False),
}
_OF_DATA = ("layout",)
_DATA_ROWS: tuple[tuple[str, tuple[str, ...], Literal["float", "bool"], str, str], ...] = (
    ("data_estimate", _LAYOUT, "float", "matched estimate from the data", _UNIT),
    ("data_deviation_percent", _LAYOUT, "float", "|data estimate - center|, relative", "%"),
    ("data_gauss_newton", _LAYOUT, "float", "one Gauss-Newton step from the data", _UNIT),
    (
        "data_gauss_newton_deviation_percent",
        _LAYOUT,
        "float",
        "|Gauss-Newton step from the data - center|, relative",
        "%",
    ),
    ("data_on_bound", _LAYOUT, "bool", "data estimate at the end of the usable range", ""),
    ("data_set_lower", _LAYOUT, "float", "lower end of the profile set of the data", _UNIT),
    ("data_set_upper", _LAYOUT, "float", "upper end of the profile set of the data", _UNIT),
    ("data_set_open_lower", _LAYOUT, "bool", "that set reaches the lower end", ""),
    ("data_set_open_upper", _LAYOUT, "bool", "that set reaches the upper end", ""),
    ("data_noise_scale", _OF_DATA, "float", "RMS residual of the matched fit", _DATA_UNIT),
    ("data_size_p_value", _OF_DATA, "float", "p-value: size of the residuals", ""),
    ("data_outliers_p_value", _OF_DATA, "float", "p-value: outliers among the residuals", ""),
    ("data_normality_p_value", _OF_DATA, "float", "p-value: normality of the residuals", ""),
    ("data_whiteness_p_value", _OF_DATA, "float", "p-value: whiteness of the residuals", ""),
)
_DATA: Layout = {
    name: Variable(
        dims,
        kind,
        meaning,
        units,
        required=False,
        least=0 if name.endswith(("_p_value", "_scale")) else -np.inf,
        most=1 if name.endswith("_p_value") else np.inf,
    )
    for name, dims, kind, meaning, units in _DATA_ROWS
}


class Resolution(CenteredResult):
    """How well observations resolve the parameters; the result of `twoaxis.resolve`.

    Properties hold the parameters of interest, and lose the dimension "parameter" where there is
    only one. Nuisance parameters are fitted along with them in every replica, profile set and
    standard error; their own numbers are in `data` and at the end of the tables.

    Attributes
    ----------
    data : xarray.Dataset
    live : LiveModel or None
        The forward model and the noise, for data that come later. It is never saved or pickled:
        a resolution from a file or from another process has none.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> found = ta.resolve(lambda k: np.exp(-k * t), known, noise=0.02, replicas=50, progress=False)
    >>> round(float(found.error_percent.mean()), 2), round(found.fisher_error_percent.item(), 2)
    (1.01, 1.03)
    >>> found.layout_names, found.replicas
    (['all'], 50)
    """

    schema = "resolution"
    layouts: ClassVar = {
        "/": {
            **PARAMETER_LAYOUT,
            **CENTER_LAYOUT,
            **_PER_LAYOUT,
            **_REPLICA_LAYOUT,
            **_EXCLUDED,
            **_DATA,
            **MESSAGE_LAYOUT,
        }
    }
    attributes: ClassVar = {
        "/": (
            "centered_on",
            "method",
            "level",
            "seed",
            "starts",
            "noise",
            "fit_forward",
            "bank_check_percent",
            "interpolant_error",
            "interpolant_check_standard_errors",
            "interpolant_check_deviance",
            "model_runs",
        )
    }

    def __init__(self, data: xr.Dataset, live: LiveModel | None = None) -> None:
        super().__init__(data)
        self.live = live

    def __getstate__(self) -> dict[str, Any]:
        # Forward models are the user's code, and need not survive the way to another process.
        return {"data": self.data, "live": None}

    # ------------------------------------------------------------- what follows from the rest

    def derived(self) -> dict[str, Any]:
        """Return percentages, coverage and Fisher predictions, computed from the fits.

        ``deviation_percent = 100 |estimate / center - 1|``; a set covers the center where the
        deviance is at most the `level` quantile of chi-square with 1 or d degrees of freedom.
        """
        data, parameters = self.data, self.parameters
        level = float(data.attrs["level"])
        center = self.center.values

        def percent(name: str) -> FloatArray | None:
            if name not in data:
                return None
            values = np.moveaxis(data[name].values, 0, -1)
            return np.moveaxis(parameters.percent(values, center), -1, 0)

        def size(name: str) -> FloatArray | None:
            signed = percent(name)
            return None if signed is None else np.abs(signed)

        spread = self._predicted()
        return {
            "other_parameter": parameters.names,
            "replica": np.arange(data.sizes["replica"]),
            "observations": (data["site"].values >= 0).sum(axis=1),
            "deviation_percent": size("estimate"),
            "gauss_newton_deviation_percent": size("gauss_newton"),
            "noiseless_bias_percent": percent("noiseless_estimate"),
            "data_deviation_percent": size("data_estimate"),
            "data_gauss_newton_deviation_percent": size("data_gauss_newton"),
            "covered": data["deviance"].values <= squares_limit(level),
            "jointly_covered": (
                data["joint_deviance"].values <= squares_limit(level, len(parameters))
            ),
            **spread,
        }

    def _predicted(self) -> dict[str, FloatArray | NDArray[np.bool_]]:
        """Return what the eigen-directions of the information predict, for each layout."""
        parameters, center = self.parameters, self.center.values
        units = parameters.percent_units(center)
        deviations, correlations, poorly = [], [], []
        for vectors, percent in zip(
            self.data["direction_vector"].values,
            self.data["direction_sd_percent"].values,
            strict=True,
        ):
            deviation, correlation = predicted_spread(vectors, percent / 100)
            deviations.append(100 * deviation)
            correlations.append(correlation)
            poorly.append(
                leaves_bounds(
                    vectors * units,
                    percent / 100,
                    parameters.coordinates(center),
                    parameters.coordinate_bounds,
                )
            )
        sd = np.stack(deviations, axis=1)
        return {
            "fisher_sd_percent": sd,
            # The mean size of a normal variable is sqrt(2 / pi) standard deviations.
            "fisher_deviation_percent": np.sqrt(2 / np.pi) * sd,
            "correlation": np.stack(correlations),
            "direction_poorly_resolved": np.stack(poorly),
        }

    def check(self) -> None:
        """Raise `InputError` if values contradict each other."""
        for name in ("parameter", "layout"):
            if len(set(self.data[name].values.tolist())) != self.data.sizes[name]:
                raise InputError(f"each {name} once", "a repeated name", "rename them")
        if ("excluded" in self.data) != ("excluded_reason" in self.data):
            raise InputError("a reason for each excluded value", "one without the other", "add it")
        data, level = self.data, self.data.attrs["level"]
        observed = data["site"].values >= 0
        require(
            {
                "a level between 0 and 1": isinstance(level, float) and 0 < level < 1,
                "noise at every site, and nowhere else": np.array_equal(
                    np.isfinite(data["noise_deviation"].values), observed
                ),
                "each site once": all(
                    len(np.unique(row[seen])) == seen.sum()
                    for row, seen in zip(data["site"].values, observed, strict=True)
                ),
                # Infinite where the model fails at the center.
                "deviances that are known": not any(
                    np.isnan(data[name].values).any() for name in ("deviance", "joint_deviance")
                ),
                "ends of sets in ascending order inside the bounds": all(
                    self._ordered(prefix) for prefix in ("set", "data_set")
                ),
            }
        )
        super().check()
        self._check_directions()

    def _ordered(self, prefix: str) -> bool:
        """Whether the lower ends of sets lie below the upper ones, and both inside the bounds."""
        names = [f"{prefix}_lower", f"{prefix}_upper"]
        if not any(name in self.data for name in names):
            return True
        ends = [np.moveaxis(self.data[name].values, 0, -1) for name in names]
        low, high = (self.data[name].values for name in ("lower_bound", "upper_bound"))
        room = DERIVED_RTOL * (high - low)
        return bool(
            all(np.isfinite(each).all() for each in ends)
            and (ends[0] >= low - room).all()
            and (ends[1] <= high + room).all()
            and (ends[0] <= ends[1] + room).all()
        )

    def _check_directions(self) -> None:
        """Compare the stored directions with the stored information."""
        units = self.parameters.percent_units(self.center.values)
        matrix = self.data["fisher_information"].values * np.outer(units, units)
        vectors = self.data["direction_vector"].values
        error = self.data["direction_sd_percent"].values / 100
        precision = np.where(np.isinf(error), 0.0, 1 / error**2)
        found = np.einsum("lkp,lpq,lmq->lkm", vectors, matrix, vectors)
        expected = np.einsum("lk,km->lkm", precision, np.eye(len(units)))
        largest = precision.max(axis=1)[:, None, None]
        if not (np.abs(found - expected) <= EIGEN_RTOL * largest).all():
            raise InputError(
                "directions that are eigenvectors of the Fisher information",
                "others",
                "write the file again; it was changed after it was saved",
            )

    # ------------------------------------------------------------- properties

    @property
    def centered_on(self) -> str:
        """What the replicas were simulated at: "truth", "delivered" or "point"."""
        return str(self.data.attrs["centered_on"])

    @property
    def layout_names(self) -> list[str]:
        """Names of the layouts."""
        return [str(name) for name in self.data["layout"].values]

    @property
    def replicas(self) -> int:
        """Number of noise replicas."""
        return int(self.data.sizes["replica"])

    @property
    def model_runs(self) -> int:
        """Number of parameter points that the forward models were solved at."""
        return int(self.data.attrs["model_runs"])

    def _of_parameters(self, variable: str) -> xr.DataArray:
        array: xr.DataArray = self.data[variable]
        names = self.parameters.of_interest
        if len(names) < array.sizes["parameter"]:
            array = array.sel(parameter=names)
        if array.sizes["parameter"] > 1:
            return array
        one: xr.DataArray = array.isel(parameter=0, drop=True)
        return one

    @property
    def estimate(self) -> xr.DataArray:
        """Matched maximum-likelihood estimates, in physical units, (layout, replica)."""
        return self._of_parameters("estimate")

    @property
    def error_percent(self) -> xr.DataArray:
        """``100 |estimate / center - 1|``, (layout, replica): an error around a truth only."""
        return self._of_parameters("deviation_percent")

    @property
    def gauss_newton_error_percent(self) -> xr.DataArray:
        """The same for one Gauss-Newton step from the delivered value, or from the center."""
        return self._of_parameters("gauss_newton_deviation_percent")

    @property
    def fisher_error_percent(self) -> xr.DataArray:
        """First-order prediction of the mean error, (layout,)."""
        return self._of_parameters("fisher_deviation_percent")

    @property
    def noiseless_bias_percent(self) -> xr.DataArray:
        """Signed error of the fit to noise-free data, (layout,): the bias of the solver."""
        return self._of_parameters("noiseless_bias_percent")

    @property
    def covered(self) -> xr.DataArray:
        """Whether each likelihood-profile set contains the center, (layout, replica)."""
        return self._of_parameters("covered")

    @property
    def coverage(self) -> xr.DataArray:
        """Share of likelihood-profile sets that contain the center."""
        return self.covered.mean(("layout", "replica"))

    @property
    def excluded_parameters(self) -> dict[float, str]:
        """Values at which the forward model failed, and why."""
        if "excluded_reason" not in self.data:
            return {}
        reasons = self.data["excluded_reason"]
        return dict(zip(reasons["excluded"].values.tolist(), reasons.values.tolist(), strict=True))

    @property
    def messages(self) -> list[Message]:
        """What a reader must know before using the numbers."""
        return messages_from(self.data)

    # ------------------------------------------------------------- tables

    def interval(
        self,
        statistic: Statistic = "mean",
        *,
        parameter: str | None = None,
        layout: str | None = None,
        level: float = 0.95,
    ) -> Interval | None:
        """Return the percentile cluster-bootstrap interval of the mean, median or p90 error.

        The clusters are the replicas: layouts that share a noise vector stay together. None
        with a single replica, which says nothing about the spread between replicas.
        """
        errors = self.select(parameter, layout)["deviation_percent"].transpose("layout", "replica")
        if self.replicas < 2:
            return None
        values = errors.values.ravel()
        clusters = np.broadcast_to(errors["replica"].values, errors.shape).ravel()
        return cluster_bootstrap(
            lambda weights: weighted_statistic(statistic, values, weights),
            clusters,
            draws=self._draws,
            seed=BOOTSTRAP_SEED,
            level=level,
        )

    def select(self, parameter: str | None = None, layout: str | None = None) -> xr.Dataset:
        """Return the part of the data about one parameter, on one layout or on all.

        The parameter may be left out where only one is of interest.
        """
        of_interest = self.parameters.of_interest
        if parameter is None and len(of_interest) == 1:
            parameter = of_interest[0]
        if parameter not in self.names:
            raise InputError(
                f"one of the parameters {', '.join(self.names)}",
                f"parameter={parameter!r}",
                f'name one, as in parameter="{of_interest[0]}"',
            )
        if layout is not None and layout not in self.layout_names:
            raise InputError(
                f"one of the layouts {', '.join(self.layout_names)}",
                f"layout={layout!r}",
                "name one, or leave it out for all of them",
            )
        chosen: xr.Dataset = self.data.sel(parameter=parameter)
        return chosen if layout is None else chosen.sel(layout=[layout])

    def in_order_of(self, parameters: Mapping[str, Parameter]) -> Resolution:
        """Return the same resolution with its parameters in the order of a residual's.

        The parameters of interest must be the same. Each side may have nuisance parameters of its
        own, such as an initial amount that only the simulator has: those of the resolution come
        last, and those of the residual are not in it.

        Parameters
        ----------
        parameters : mapping of str to Parameter
            Those of the residual.
        """
        own, others = self.parameters, Parameters(parameters)
        if set(own.of_interest) != set(others.of_interest):
            extra = sorted(set(own.of_interest) ^ set(others.of_interest))
            raise InputError(
                f"a resolution of the parameters {', '.join(others.of_interest)}",
                f"one of {', '.join(own.of_interest)}",
                "resolve the parameters that the residual takes; where only the simulator or only "
                f"the residual has {' and '.join(extra)}, declare Parameter(nuisance=True, ...)",
            )
        shared = [name for name in others if name in own]
        order = [*shared, *(name for name in own if name not in others)]
        return Resolution(self.data.sel(parameter=order, other_parameter=order), self.live)

    def summary(self) -> pd.DataFrame:
        """Return a table: a row for each layout, and one for all of them together.

        Errors are in percent; ``ci_low`` and ``ci_high`` are the 95% interval of the mean. With
        several parameters the rows are indexed by parameter and layout, nuisance parameters last.
        """
        return self._summary.copy()

    @cached_property
    def _summary(self) -> pd.DataFrame:
        rows, parameters = {}, self.parameters
        for parameter in sorted(parameters, key=lambda name: parameters[name].nuisance):
            chosen = self.data.sel(parameter=parameter)
            for layout in self.layout_names:
                rows[parameter, layout] = _row(chosen.sel(layout=[layout]))
            if len(self.layout_names) > 1:
                rows[parameter, ALL_LAYOUTS] = _row(chosen)
        table = pd.DataFrame.from_dict(rows, orient="index")
        if self.replicas > 1:
            low, high = self._mean_intervals(list(dict.fromkeys(name for name, _ in rows)))
            table.insert(1, "ci_low", low)
            table.insert(2, "ci_high", high)
        table.index = pd.MultiIndex.from_tuples(rows, names=["parameter", "layout"])
        if parameters.nuisance.any():
            table["nuisance"] = [parameters[name].nuisance for name, _ in rows]
        return table.droplevel("parameter") if len(self.names) == 1 else table

    @property
    def _draws(self) -> int:
        return min(BOOTSTRAP_DRAWS, max(FEWEST_DRAWS, MOST_DRAWN // self.replicas))

    def _mean_intervals(self, names: list[str]) -> tuple[FloatArray, FloatArray]:
        """Return the 95% ends of every mean in the summary, from one bootstrap for all."""
        # (parameter, layout, replica)
        errors = self.data["deviation_percent"].sel(parameter=names).values
        if len(self.layout_names) > 1:
            errors = np.concatenate([errors, errors.mean(axis=1, keepdims=True)], axis=1)
        by_replica = errors.reshape(-1, self.replicas)
        estimates = bootstrap_estimates(
            lambda weights: weights @ by_replica.T / self.replicas,
            np.arange(self.replicas),
            draws=self._draws,
            seed=BOOTSTRAP_SEED,
        )
        low, high = np.quantile(estimates, [0.025, 0.975], axis=0)
        return low, high

    def function(self, name: str | None = None, *, layout: str | None = None) -> FunctionResolution:
        """Return what the observations determine of an unknown function, as a band over places.

        Parameters
        ----------
        name : str, optional
            Needed when there are several functions.
        layout : str, optional
            Needed when there are several layouts.
        """
        return resolve_function(self, name, layout)

    def data_summary(self) -> pd.DataFrame | None:
        """Return the matched fit to the data, or None without data.

        ``lower`` and ``upper`` are the ends of the likelihood-profile set at the chosen level.
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
            for parameter in self.names
            for layout in self.layout_names
        }
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index = pd.MultiIndex.from_tuples(rows, names=["parameter", "layout"])
        return table

    def directions(self) -> pd.DataFrame:
        """Return the directions of the parameters of interest, least resolved first.

        They are the eigen-directions of the Fisher information, or with nuisance parameters those
        of what is left when they are fitted along. A row for each layout and direction: its
        standard error in percent, whether one standard error leaves the parameter bounds
        (``poorly_resolved``), and its component along every parameter of interest.
        """
        rows, parameters, center = [], self.parameters, self.center.values
        units = parameters.percent_units(center)
        for layout in self.layout_names:
            chosen = self.data.sel(layout=layout)
            vectors, errors = directions_of_interest(
                chosen["direction_vector"].values,
                chosen["direction_sd_percent"].values / 100,
                parameters.nuisance,
            )
            poorly = leaves_bounds(
                vectors * units,
                errors,
                parameters.coordinates(center),
                parameters.coordinate_bounds,
            )
            for k, vector in enumerate(vectors):
                shares = parameters.named(vector)
                rows.append(
                    {
                        "layout": layout,
                        "direction": k,
                        "standard_error_percent": 100 * float(errors[k]),
                        "poorly_resolved": bool(poorly[k]),
                        **{name: shares[name] for name in parameters.of_interest},
                    }
                )
        return pd.DataFrame(rows).set_index(["layout", "direction"])

    def to_dict(self) -> dict[str, Any]:
        """Return the main numbers as plain Python values, ready for JSON."""
        per = {name: self._parameter_dict(name) for name in self.names}
        table = self.data_summary()
        return {
            "parameters": self.names,
            "nuisance": [name for name, p in self.parameters.items() if p.nuisance],
            "centered_on": self.centered_on,
            "center": self.center.values,
            "layouts": self.layout_names,
            "replicas": self.replicas,
            **({"by_parameter": per} if len(per) > 1 else per[self.names[0]]),
            "level": float(self.data.attrs["level"]),
            "method": str(self.data.attrs["method"]),
            "excluded_parameters": [
                {"value": value, "reason": reason}
                for value, reason in self.excluded_parameters.items()
            ],
            **({} if table is None else {"data": table.reset_index().to_dict(orient="records")}),
            "messages": [_plain(message) for message in self.messages],
        }

    @cached_property
    def _intervals(self) -> dict[tuple[str, Statistic], list[float]]:
        """The 95% ends of every error by parameter and statistic, from one bootstrap for all.

        They are those of `interval`; empty with a single replica.
        """
        if self.replicas < 2:
            return {}
        errors = self.data["deviation_percent"].transpose("parameter", "layout", "replica")
        rows = errors.values.reshape(len(self.names), -1)
        clusters = np.broadcast_to(errors["replica"].values, errors.shape[1:]).ravel()
        kinds: tuple[Statistic, ...] = ("mean", "median", "p90")
        estimates = bootstrap_estimates(
            lambda weights: np.stack(
                [weighted_statistic(kind, row, weights) for row in rows for kind in kinds], axis=-1
            ),
            clusters,
            draws=self._draws,
            seed=BOOTSTRAP_SEED,
        )
        ends = np.quantile(estimates, [0.025, 0.975], axis=0).T.tolist()
        return dict(zip(((n, kind) for n in self.names for kind in kinds), ends, strict=True))

    def _parameter_dict(self, parameter: str) -> dict[str, Any]:
        chosen = self.data.sel(parameter=parameter)
        errors = chosen["deviation_percent"].values.ravel()
        fisher = chosen["fisher_deviation_percent"]
        names = self.layout_names
        by_layout = dict(zip(names, map(_finite, fisher.values.tolist()), strict=True))
        bias = dict(zip(names, chosen["noiseless_bias_percent"].values.tolist(), strict=True))
        return {
            "error_percent": {
                "mean": float(errors.mean()),
                "median": float(np.median(errors)),
                "p90": float(np.quantile(errors, 0.9)),
                "ci95": self._intervals.get((parameter, "mean")),
                "median_ci95": self._intervals.get((parameter, "median")),
                "p90_ci95": self._intervals.get((parameter, "p90")),
            },
            "fisher_error_percent": {"by_layout": by_layout, "mean": _finite(float(fisher.mean()))},
            "gauss_newton_error_percent": float(chosen["gauss_newton_deviation_percent"].mean()),
            "noiseless_bias_percent": bias,
            "coverage": float(chosen["covered"].mean()),
            "on_bound": int(chosen["on_bound"].sum()),
        }

    def __repr__(self) -> str:
        names = self.parameters.of_interest
        summary, data = self.summary(), self.data_summary()
        if len(names) < len(self.names):
            summary = summary.loc[names].drop(columns="nuisance")
            data = None if data is None else data.loc[names]
        table = summary.to_string(float_format=_short)
        fitted = [] if data is None else [DATA_TITLE, data.to_string(float_format=_short)]
        notes = [f"! {message}" for message in self.messages]
        return "\n".join([self._headline(), table, *fitted, *notes])

    def _headline(self) -> str:
        center = self.parameters.value_words(self.center.values)
        quantity = {
            "truth": f"relative error around the truth {center}",
            "delivered": f"relative deviation from the delivered {center}, not from a truth",
            "point": f"relative deviation from {center}",
        }[self.centered_on]
        layouts, replicas = len(self.layout_names), self.replicas
        return (
            f"Resolution of {layouts} layout{'s' * (layouts != 1)} under {replicas} noise "
            f"replica{'s' * (replicas != 1)}: {quantity}, in percent"
        )


def weighted_statistic(statistic: Statistic, values: Any, weights: Any) -> Any:
    """Return the mean, median or 90th percentile of `values` under bootstrap counts."""
    if statistic == "mean":
        return weighted_mean(values, weights)
    if statistic not in ("median", "p90"):
        raise InputError('statistic "mean", "median" or "p90"', repr(statistic), "choose one")
    return weighted_quantile(values, weights, 0.5 if statistic == "median" else 0.9)


def _row(chosen: xr.Dataset) -> dict[str, float]:
    """Return the summary of one parameter on the chosen layouts, without its interval."""
    errors = chosen["deviation_percent"].values.ravel()
    return {
        "mean": float(errors.mean()),
        "median": float(np.median(errors)),
        "p90": float(np.quantile(errors, 0.9)),
        "fisher": float(chosen["fisher_deviation_percent"].mean()),
        "gauss_newton": float(chosen["gauss_newton_deviation_percent"].mean()),
        "bias": float(chosen["noiseless_bias_percent"].mean()),
        "coverage": float(chosen["covered"].mean()),
        "on_bound": int(chosen["on_bound"].sum()),
    }


def _short(value: float) -> str:
    """Return four digits; a rounding error in place of an exact zero is shown as zero."""
    return f"{value:.4g}" if abs(value) > 1e-9 else "0"


def _finite(value: float) -> float | None:
    """Return None for infinity, which JSON does not have: the parameter is not resolved."""
    return value if np.isfinite(value) else None


def _plain(message: Message) -> dict[str, Any]:
    numbers = {name: _finite(value) for name, value in message.numbers.items()}
    return {**asdict(message), "numbers": numbers}
