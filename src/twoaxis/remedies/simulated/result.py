r"""A simulated audit as its reader meets it: the bias of a pipeline, measured in simulations.

Replicas as labelled data, with their means, messages and the verdict they lead to.

Loading a simulated audit: nothing in the file is executed, strange files are refused.

The decision map, read from simulated replicas: sizes averaged, then compared.

One simulated replica, measured where its truth is known.

The data were simulated at :math:`q_0`, so for the field that the pipeline trained on them the
bookkeeping of the diagnosis closes without any unknown:

.. math:: \hat q - q_0 = (q_{\rm profile} - q_0) + (\hat q - q_{\rm profile}),

delivered error = preference of the frozen field + delivery gap. The score adds the displacement
:math:`D` of the field at :math:`q_0`.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.diagnosis import Route, Tolerance
from twoaxis.diagnosis.decision_map import Measured, Verdict, decide, join
from twoaxis.errors import InputError
from twoaxis.files import existing_netcdf, write_whole
from twoaxis.frozen import FrozenResidual
from twoaxis.geometry import frozen_scan, score
from twoaxis.netcdf import (
    check_schema,
    contradiction,
    layout_fault,
    load_dataset,
    read_netcdf,
    refuse,
)
from twoaxis.netcdf.contents import Layout
from twoaxis.parameters import Center, Parameter
from twoaxis.remedies.calibration.pipeline import Answer, is_constant
from twoaxis.remedies.simulated.rank_views import rank_views
from twoaxis.resolution import Resolution
from twoaxis.views import View

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


NO_FROZEN = "the answer carries no frozen residual"


@dataclass(frozen=True)
class Replica:
    """What one simulated dataset led to; differences of coordinates, by parameter.

    Attributes
    ----------
    delivered : dict of str to float
        Physical values.
    error : dict of str to float
        Delivered minus the parameter of the simulation.
    displacement : dict of str to float
        D of the frozen field under the audited view; NaN where `status` says why.
    training_displacement : dict of str to float
        The same under the view of the training.
    preferred : dict of str to float
        Minimum of the frozen scan minus the parameter of the simulation; NaN on a bound.
    status : str
        "measured", or a sentence.
    """

    delivered: dict[str, float]
    error: dict[str, float]
    displacement: dict[str, float]
    training_displacement: dict[str, float]
    preferred: dict[str, float]
    status: str


def measure_replica(
    answer: Answer, parameters: Mapping[str, Parameter], at: Mapping[str, float], view: View | None
) -> Replica:
    """Score and scan the field of one answer at the parameter that its data were simulated at."""
    nothing = dict.fromkeys(parameters, np.nan)
    if answer.failure:
        return Replica(nothing, nothing, nothing, nothing, nothing, answer.failure)
    error = {
        name: float(p.to_coordinate(answer.delivered[name]) - p.to_coordinate(at[name]))
        for name, p in parameters.items()
    }
    if answer.frozen is None:
        return Replica(answer.delivered, error, nothing, nothing, nothing, NO_FROZEN)
    frozen = known_truth(answer.frozen, at, answer.delivered)
    found = score(frozen, view=view, at="truth")
    own = found if view is None or frozen.view is None else score(frozen, at="truth")
    scan = frozen_scan(frozen, view=view, at="truth")
    status = "measured"
    displacement = found.displacement
    if not found.identified:
        displacement, status = nothing, found.doubts[0].text
    elif scan.cut_off:
        status = f"the minimum of the frozen profile: {scan.status}"
    return Replica(
        answer.delivered,
        error,
        displacement,
        own.displacement if own.identified else nothing,
        # A minimum on a bound is where the scan was cut off, not what the field prefers.
        nothing if scan.cut_off else scan.displacement or nothing,
        status,
    )


def known_truth(
    frozen: FrozenResidual, truth: Mapping[str, float], delivered: Mapping[str, float] | None = None
) -> FrozenResidual:
    """Return a frozen residual whose parameters carry the truth of its simulation."""
    if set(frozen.parameters) != set(truth):
        raise InputError(
            f"frozen residuals of the parameters {', '.join(truth)}",
            f"one of {', '.join(frozen.parameters)}",
            "give the frozen residual of the pipeline the same parameters",
        )
    changed = {}
    for name, p in frozen.parameters.items():
        values: dict[str, Any] = {"truth": truth[name]}
        wide = p.holding(truth[name])
        if delivered is not None:
            values["delivered"] = delivered[name]
            wide = wide.holding(delivered[name])
        changed[name] = replace(wide, **values)
    return replace(frozen, parameters=changed)


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


SCHEMA = "twoaxis-simulated-audit-1"
BOTH = ("parameter", "replica")
LABELS = {
    "delivered": "what the pipeline delivered on each simulated dataset",
    "delivered_error": "delivered minus the parameter of the simulation, in coordinates",
    "displacement": "displacement D of the frozen field at the parameter of the simulation",
    "training_displacement": "the same under the view of the training",
    "preferred_error": "minimum of the frozen scan minus the parameter of the simulation",
    "gap": "delivered minus preferred, in coordinates",
    "matched_error": "matched fit minus the parameter of the simulation, in coordinates",
}


def assemble(
    found: Sequence[Replica],
    parameters: Mapping[str, Parameter],
    center: Center,
    fits: Resolution | None,
    tolerance: Tolerance | None,
    seed: int | Sequence[int],
    view: View | None,
) -> xr.Dataset:
    """Return everything that was measured as one dataset."""
    names = list(parameters)
    arrays = {
        "delivered": _array(found, "delivered", names),
        "delivered_error": _array(found, "error", names),
        "displacement": _array(found, "displacement", names),
        "training_displacement": _array(found, "training_displacement", names),
        "preferred_error": _array(found, "preferred", names),
    }
    arrays["gap"] = arrays["delivered_error"] - arrays["preferred_error"]
    if fits is not None:
        arrays["matched_error"] = _matched(fits, parameters, center)
    given = [parameters[name].delivered for name in names]
    data = xr.Dataset(
        {name: (BOTH, array, {"long_name": LABELS[name]}) for name, array in arrays.items()}
        | {
            "status": ("replica", np.array([each.status for each in found], dtype=object)),
            "center": ("parameter", [center.values[name] for name in names]),
            "given": ("parameter", np.array(given, dtype=float)),
            "lower_bound": ("parameter", [parameters[name].bounds[0] for name in names]),
            "upper_bound": ("parameter", [parameters[name].bounds[1] for name in names]),
            "coordinate": ("parameter", [parameters[name].coordinate for name in names]),
            "scale": ("parameter", [parameters[name].scale or 0.0 for name in names]),
        },
        {"parameter": names, "replica": np.arange(len(found))},
    )
    data.attrs = {
        "schema": SCHEMA,
        "seed": " ".join(map(str, np.atleast_1d(seed))),
        "view": "the view of the training" if view is None else view.describe(),
        # Equal numbers come of equal views: then delivery can be read under the audited one.
        "cross_view": int(
            not np.array_equal(
                arrays["displacement"], arrays["training_displacement"], equal_nan=True
            )
        ),
    }
    return judge(data, tolerance)


def _array(found: Sequence[Replica], field: str, names: list[str]) -> Any:
    return np.array([[getattr(each, field)[name] for each in found] for name in names])


def _matched(fits: Resolution, parameters: Mapping[str, Parameter], center: Center) -> Any:
    """Return matched fits to the same datasets as errors in coordinates, (parameter, replica)."""
    estimates = fits.data["estimate"].isel(layout=0).transpose(*BOTH).values
    return np.array(
        [
            p.to_coordinate(row) - p.to_coordinate(center.values[name])
            for (name, p), row in zip(parameters.items(), estimates, strict=True)
        ]
    )


ONE = ("parameter",)
REQUIRED: Layout = {
    "parameter": (ONE, "UOT"),
    "replica": (("replica",), "iu"),
    "delivered": (BOTH, "f"),
    "delivered_error": (BOTH, "f"),
    "displacement": (BOTH, "f"),
    "training_displacement": (BOTH, "f"),
    "preferred_error": (BOTH, "f"),
    "gap": (BOTH, "f"),
    "status": (("replica",), "UOT"),
    "center": (ONE, "f"),
    "given": (ONE, "f"),
    "lower_bound": (ONE, "f"),
    "upper_bound": (ONE, "f"),
    "coordinate": (ONE, "UOT"),
    "scale": (ONE, "f"),
}
ATTRIBUTES = ("seed", "view", "cross_view", "route", "reason")


def load_simulated_audit(path: str | os.PathLike[str]) -> SimulatedAudit:
    """Load a `SimulatedAudit` from a netCDF file. It holds no frozen residuals any more."""
    path = existing_netcdf(path)
    data = read_netcdf(path, load_dataset, "SimulatedAudit.to_netcdf", "write it again")
    check_schema(data.attrs, SCHEMA, path, "load a file that SimulatedAudit.to_netcdf wrote")
    found = SimulatedAudit(data)
    fault = layout_fault(data, ATTRIBUTES, REQUIRED)
    refuse(path, fault or contradiction(lambda: (repr(found), found.to_dataframe())))
    return found
