"""A simulated audit as its reader meets it: the bias of a pipeline, measured in simulations."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.diagnosis import Route
from twoaxis.files import write_whole
from twoaxis.frozen import FrozenResidual
from twoaxis.remedies.calibration.answers import Answer, is_constant
from twoaxis.remedies.simulated.replicas import known_truth
from twoaxis.remedies.simulated.route import CLEAR, parameter_of, sizes_percent
from twoaxis.remedies.simulated.views import rank_views
from twoaxis.views import View

ASSUMPTIONS = (
    "The simulator and the noise model describe the real data.",
    "The bias is about the same at the simulated value and at the truth.",
)
WIDTH = 96
ROUNDING = 1e-12
TERMS = {
    "delivered": "delivered_error",
    "displacement": "displacement",
    "preferred": "preferred_error",
    "gap": "gap",
    "matched": "matched_error",
}


class SimulatedAudit:
    """What a pipeline does to data whose truth is its own delivered value.

    Made by `twoaxis.simulated_audit`. Differences are differences of coordinates; signs are those
    of simulated truth subtracted.

    Attributes
    ----------
    data : xarray.Dataset
        ``delivered_error``, ``displacement``, ``preferred_error``, ``gap`` and ``matched_error``
        by parameter and replica.
    assumptions : tuple of str
        What the corrected value rests on.
    """

    assumptions = ASSUMPTIONS

    def __init__(self, data: xr.Dataset, answers: tuple[Answer, ...] = ()) -> None:
        self.data = data
        self._answers = answers

    def __getstate__(self) -> dict[str, Any]:
        # Answers are the user's objects, which need not survive the way to another process.
        return {"data": self.data, "_answers": ()}

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters."""
        return [str(name) for name in self.data["parameter"].values]

    @property
    def replicas(self) -> int:
        """Simulated datasets."""
        return int(self.data.sizes["replica"])

    @property
    def failures(self) -> int:
        """Runs of the pipeline that gave no usable value."""
        return int(self.data["delivered"].isnull().any("parameter").sum())

    @property
    def delivered(self) -> dict[str, float]:
        """The real delivered values, which are to be corrected."""
        return dict(zip(self.parameters, self.data["given"].values.tolist(), strict=True))

    @property
    def simulated_at(self) -> dict[str, float]:
        """The parameter values of the simulation."""
        return dict(zip(self.parameters, self.data["center"].values.tolist(), strict=True))

    @property
    def frozen(self) -> list[FrozenResidual]:
        """Frozen residuals of the replicas, with the simulated truth; none from a file."""
        return [
            known_truth(answer.frozen, self.simulated_at, answer.delivered)
            for answer in self._answers
            if not answer.failure and answer.frozen is not None
        ]

    @cached_property
    def _means(self) -> dict[str, dict[str, tuple[float, float]]]:
        """By term and parameter: mean over the replicas, and its standard error."""
        return {
            term: {name: self._mean(variable, name) for name in self.parameters}
            for term, variable in TERMS.items()
            if variable in self.data
        }

    def _mean(self, variable: str, name: str) -> tuple[float, float]:
        values = self.data[variable].sel(parameter=name).values
        known = values[~np.isnan(values)]
        if len(known) < 2:
            return (float(known.mean()) if known.size else np.nan), np.nan
        return float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known)))

    @property
    def bias(self) -> dict[str, float]:
        """Mean delivered error in the simulations, in coordinates: the bias of the pipeline."""
        return {name: mean for name, (mean, _) in self._means["delivered"].items()}

    @property
    def bias_error(self) -> dict[str, float]:
        """Standard error of `bias`."""
        return {name: error for name, (_, error) in self._means["delivered"].items()}

    @property
    def displacement(self) -> dict[str, float]:
        """Mean displacement D of the frozen fields: what the fields explain of the bias."""
        return {name: mean for name, (mean, _) in self._means["displacement"].items()}

    @property
    def displacement_error(self) -> dict[str, float]:
        """Standard error of `displacement`."""
        return {name: error for name, (_, error) in self._means["displacement"].items()}

    @property
    def corrected(self) -> dict[str, float]:
        """The delivered values less the bias, in physical units.

        NaN for a parameter that the pipeline returns unchanged on every dataset.
        """
        return {
            name: float(p.to_value(p.to_coordinate(self.delivered[name]) - self.bias[name]))
            if name not in self._constant
            else np.nan
            for name, p in ((name, parameter_of(self.data, name)) for name in self.parameters)
        }

    @property
    def corrected_error(self) -> dict[str, float]:
        """Standard error of the correction over replicas, in physical units.

        It says how well the bias is known, not how far the corrected value is from the truth: for
        that, see `twoaxis.confidence_set`.
        """
        return {
            name: self.bias_error[name]
            * (value if parameter_of(self.data, name).coordinate == "log" else 1.0)
            for name, value in self.corrected.items()
        }

    @property
    def _constant(self) -> list[str]:
        """Parameters that the pipeline returns unchanged on every dataset."""
        values = self.data["delivered"]
        return [n for n in self.parameters if is_constant(values.sel(parameter=n).values)]

    @property
    def route(self) -> Route:
        """What to do next, read from the simulated replicas."""
        return Route(self.data.attrs["route"])

    @property
    def reason(self) -> str:
        """The measurements that the route rests on, in words."""
        return str(self.data.attrs["reason"])

    @property
    def messages(self) -> list[str]:
        """What a reader must know before using the numbers, as sentences."""
        told = []
        if self.failures:
            # A run with a value may carry a status, too: such as that its field cannot be scored.
            failed = self.data["delivered"].isnull().any("parameter").values
            reasons = [str(s) for s in self.data["status"].values[failed]]
            told.append(
                f"{self.failures} of {self.replicas} runs failed and are left out of the means; "
                f"the first: {reasons[0]}"
            )
        scatter = self.summary()["sd"].to_dict()
        for name in self.parameters:
            mean, error = self._means["delivered"][name]
            if name in self._constant:
                told.append(
                    f"the pipeline returns the same {name} on every simulated dataset: it does not "
                    "depend on the data, and there is no corrected value"
                )
                continue
            if abs(mean) < CLEAR * error:
                told.append(
                    f"the bias of {name} is not told from zero: {mean:+.3g} with a standard error "
                    f"of {error:.2g}"
                )
            elif abs(mean) < scatter[name, "delivered"]:
                told.append(
                    f"the bias of {name} is smaller than the scatter of single runs "
                    f"({scatter[name, 'delivered']:.2g}): it says how this pipeline errs on "
                    "average, and the corrected value may be farther from the truth than the "
                    "delivered one"
                )
            low, high = parameter_of(self.data, name).bounds
            if not low <= self.corrected[name] <= high:
                told.append(
                    f"the corrected {name} = {self.corrected[name]:.4g} lies outside its bounds "
                    f"{low:g} to {high:g}: the bias is not constant over such a distance"
                )
        return told

    def summary(self) -> pd.DataFrame:
        """Return a row for each parameter and term: mean, standard error, spread, mean size.

        ``mean``, ``standard_error`` and ``sd`` are in coordinates; ``mean_size_percent`` is what
        the decision map compares.
        """
        rows = {}
        for term, by_parameter in self._means.items():
            for name, (mean, error) in by_parameter.items():
                values = self.data[TERMS[term]].sel(parameter=name).values
                sizes = sizes_percent(self.data, name, TERMS[term])
                known = ~np.isnan(values)
                rows[name, term] = {
                    "mean": mean,
                    "standard_error": error,
                    "sd": float(values[known].std(ddof=1)) if known.sum() > 1 else np.nan,
                    "mean_size_percent": float(sizes[known].mean()) if known.any() else np.nan,
                    "replicas": int(known.sum()),
                }
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index = pd.MultiIndex.from_tuples(rows, names=["parameter", "term"])
        return table.sort_index(level="parameter", sort_remaining=False)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for each parameter and replica."""
        kept = ["delivered", *(v for v in TERMS.values() if v in self.data), "status"]
        return self.data[kept].to_dataframe()

    def rank_views(
        self, views: Mapping[str, View] | Iterable[View], *, parameter: str | None = None
    ) -> pd.DataFrame:
        """Rank views by the displacement that they give the simulated fields; see `rank_views`."""
        return rank_views(self.frozen, views, parameter=parameter)

    def __repr__(self) -> str:
        at = ", ".join(f"{name} = {value:.5g}" for name, value in self.simulated_at.items())
        lines = [f"Simulated audit at {at}: {self.replicas} replicas, {self.data.attrs['view']}"]
        for name in self.parameters:
            if name in self._constant:
                lines.append(f"  {name}: delivered {self.delivered[name]:.5g}; no corrected value")
                continue
            lines.append(
                f"  {name}: delivered {self.delivered[name]:.5g}; bias {self.bias[name]:+.3g} ± "
                f"{self.bias_error[name]:.2g} in its coordinate; corrected "
                f"{self.corrected[name]:.5g} ± {self.corrected_error[name]:.2g}"
            )
        lines.append(self.summary().to_string(float_format=_short))
        lines.append(f"Route, if the real data are like these: {self.route.value}")
        lines.append(_wrapped(self.reason, "  "))
        lines += [_wrapped(f"assumes: {line}", "  ") for line in self.assumptions]
        return "\n".join([*lines, *(_wrapped(line, "! ") for line in self.messages)])

    def to_netcdf(self, path: str | os.PathLike[str]) -> Path:
        """Write everything but the fields to one netCDF file, whole or not at all."""
        return write_whole(path, lambda target: self.data.to_netcdf(target, engine="h5netcdf"))


def _wrapped(words: str, before: str) -> str:
    """Return a sentence in lines of a terminal's width."""
    return textwrap.fill(words, WIDTH, initial_indent=before, subsequent_indent="  ")


def _short(value: float) -> str:
    """Four digits; rounding in place of an exact zero is shown as zero."""
    return f"{value:.4g}" if np.isnan(value) or abs(value) > ROUNDING else "0"
