"""From arrays to one labelled dataset, in which every variable says what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import chi2 as chi2_distribution

from twoaxis.parameters import Center, Parameter
from twoaxis.resolution.data_fit import DataFit
from twoaxis.resolution.design import Design
from twoaxis.resolution.estimator import Fits
from twoaxis.resolution.fisher import Information
from twoaxis.version import __version__

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
