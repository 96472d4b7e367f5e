"""The result of a simulated audit: the bias of a pipeline, and the route that it leads to."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis import Route, Tolerance
from twoaxis.diagnosis.actions import Action, Number
from twoaxis.diagnosis.decision_map import Measured, Verdict, decide, join
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Parameters
from twoaxis.remedies.calibrate import WIDTH, warning_line
from twoaxis.remedies.pipeline import Answer, is_constant
from twoaxis.remedies.simulated.rank_views import rank_views
from twoaxis.result import CENTER_LAYOUT, PARAMETER_LAYOUT, Message, Result
from twoaxis.text import sentence
from twoaxis.views import View

FloatArray = NDArray[np.float64]

ASSUMPTIONS = (
    "The simulator and the noise model describe the real data.",
    "The bias is about the same at the simulated value and at the truth.",
)
# A mean smaller than this many standard errors does not differ clearly from zero.
CLEAR = 2.0
# Smaller numbers are zero but for rounding.
ROUNDING = 1e-12
BOTH = ("parameter", "replica")
# Terms of the bookkeeping, and the variables that hold them.
TERMS = {
    "delivered": "delivered_error",
    "displacement": "displacement",
    "preferred": "preferred_error",
    "gap": "gap",
    "matched": "matched_error",
}
LIMITS = ("material", "resolution", "preference")


class SimulatedAudit(Result[xr.Dataset]):
    """What a pipeline does to data whose truth is its own delivered value.

    Made by `twoaxis.simulated_audit`. All differences are differences of coordinates, with the
    simulated truth subtracted.

    Attributes
    ----------
    data : xarray.Dataset
        ``delivered_error``, ``displacement``, ``preferred_error``, ``gap`` and ``matched_error``
        by parameter and replica.
    assumptions : tuple of str
        What the corrected value rests on.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> known = {"k": ta.Parameter(delivered=1.2, bounds=(0.2, 5.0))}
    >>> def pipeline(values, seed):
    ...     best = 1.2 * values.mean()  # a training that is 20% too high
    ...     mine = {"k": ta.Parameter(delivered=best, bounds=(0.2, 5.0))}
    ...     return ta.FrozenResidual(
    ...         lambda k: k * np.ones(8) - best, mine, np.arange(8.0), view=ta.views.Pointwise()
    ...     )
    >>> found = ta.simulated_audit(
    ...     pipeline, lambda k: k * np.ones(30), known, noise=0.05, replicas=10, progress=False
    ... )
    >>> round(found.bias["k"], 2), round(found.corrected["k"], 2)
    (0.18, 1.0)
    """

    schema = "simulated-audit"
    layouts: ClassVar[Mapping[str, Layout]] = {
        "/": {
            **PARAMETER_LAYOUT,
            **CENTER_LAYOUT,
            "replica": Variable(("replica",), "int", "simulated dataset"),
            "estimate": Variable(BOTH, "float", "value delivered by the pipeline; NaN: failed"),
            "status": Variable(("replica",), "text", '"measured", or why it could not be'),
            "delivered_error": Variable(BOTH, "float", "estimate minus center, in coordinates"),
            "displacement": Variable(BOTH, "float", "displacement D of the frozen field at center"),
            "training_displacement": Variable(BOTH, "float", "D under the training view"),
            "preferred_error": Variable(BOTH, "float", "frozen scan minimum minus center"),
            "gap": Variable(BOTH, "float", "estimate minus frozen scan minimum, in coordinates"),
            "matched_error": Variable(
                BOTH, "float", "matched fit minus center, in coordinates", required=False
            ),
            "route": Variable(("parameter",), "text", "what to do next"),
        }
    }
    attributes: ClassVar[Mapping[str, Iterable[str]]] = {
        "/": ("seed", "view", *(f"tolerance_{name}" for name in LIMITS), "tolerance_statistic")
    }
    assumptions = ASSUMPTIONS
    _answers: tuple[Answer, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        # Answers are the user's objects, which need not survive the way to another process.
        return {"data": self.data}

    def derived(self) -> dict[str, Any]:
        """Return errors of the estimates, delivery gaps and routes."""
        known, data = self.parameters, self.data
        delivered = known.coordinates(dict(zip(known, data["estimate"].values, strict=True)))
        error = (delivered - known.coordinates(self.simulated_at)).T
        whole = SimulatedAudit(data.assign(delivered_error=(BOTH, error)))
        return {
            "delivered_error": error,
            "gap": error - data["preferred_error"].values,
            "route": [verdict.route.value for verdict in whole._verdicts.values()],
        }

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters, with the real delivered values."""
        return Parameters.from_dataset(self.data)

    @property
    def replicas(self) -> int:
        """Number of simulated datasets."""
        return int(self.data.sizes["replica"])

    @property
    def failures(self) -> int:
        """Number of runs of the pipeline without a usable value."""
        return int(self._failed.sum())

    @property
    def _failed(self) -> NDArray[np.bool_]:
        return np.asarray(self.data["estimate"].isnull().any("parameter").values)

    @property
    def delivered(self) -> dict[str, float]:
        """The real delivered values, which are to be corrected."""
        return self.parameters.require("delivered")

    @property
    def simulated_at(self) -> dict[str, float]:
        """The parameter values of the simulation."""
        return self.parameters.named(self.data["center"].values)

    @property
    def tolerance(self) -> Tolerance | None:
        """The tolerances of the route; None where none was declared."""
        material, resolution, preference = (
            float(self.data.attrs[f"tolerance_{name}"]) for name in LIMITS
        )
        if np.isnan([material, resolution, preference]).any():
            return None
        statistic = self.data.attrs["tolerance_statistic"]
        return Tolerance(material, resolution, preference, statistic)

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
        if not known.size:
            return np.nan, np.nan
        return float(known.mean()), self._sd(variable, name) / np.sqrt(len(known))

    def _sd(self, variable: str, name: str) -> float:
        """Standard deviation over the replicas; NaN with fewer than two."""
        values = self.data[variable].sel(parameter=name).values
        known = values[~np.isnan(values)]
        return float(known.std(ddof=1)) if len(known) > 1 else np.nan

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
        """The delivered values minus the bias, in physical units.

        NaN for a parameter that the pipeline returns unchanged on every dataset.
        """
        return {
            name: float(p.to_value(p.to_coordinate(self.delivered[name]) - self.bias[name]))
            if name not in self._constant
            else np.nan
            for name, p in self.parameters.items()
        }

    @property
    def corrected_error(self) -> dict[str, float]:
        """Standard error of the correction over replicas, in physical units.

        It says how well the bias is known, not how far the corrected value is from the truth; see
        `twoaxis.confidence_set` for that.
        """
        return {
            name: self.bias_error[name]
            * (value if self.parameters[name].coordinate == "log" else 1.0)
            for name, value in self.corrected.items()
        }

    @property
    def _constant(self) -> list[str]:
        """Parameters that the pipeline returns unchanged on every dataset."""
        values = self.data["estimate"]
        return [n for n in self.parameters if is_constant(values.sel(parameter=n).values)]

    @cached_property
    def _verdicts(self) -> dict[str, Verdict]:
        """The decision map, by parameter: sizes averaged over the replicas, then compared."""
        limits = self.tolerance
        return {name: decide(self._measured(name, limits), limits) for name in self.parameters}

    @property
    def route(self) -> Route:
        """What to do next, read from the simulated replicas."""
        return join(self._verdicts).route

    @property
    def reason(self) -> str:
        """The measurements that the route rests on, in words."""
        return join(self._verdicts).reason

    def _measured(self, name: str, tolerance: Tolerance | None) -> Measured:
        preference = _mean(self._percent(name, "displacement"))
        training = _mean(self._percent(name, "training_displacement"))
        resolution = None
        if "matched_error" in self.data:
            sizes = self._percent(name, "matched_error")
            p90 = tolerance is not None and tolerance.statistic == "p90"
            known = sizes[~np.isnan(sizes)]
            resolution = float(np.quantile(known, 0.9)) if p90 and known.size else _mean(known)
        no_field = "no simulated field has a displacement"
        return Measured(
            around="truth",
            preference=preference,
            obstacle="" if preference is not None else no_field,
            delivered=_mean(self._percent(name, "delivered_error")),
            resolution=resolution,
            training_preference=training,
            training_obstacle="" if training is not None else no_field,
            # Equal numbers come from equal views: then delivery can be read under the audited one.
            cross_view=not np.array_equal(
                self.data["displacement"].values,
                self.data["training_displacement"].values,
                equal_nan=True,
            ),
        )

    def _percent(self, name: str, variable: str) -> FloatArray:
        """Return coordinate differences as unsigned percentages, shape (replica,)."""
        p, center = self.parameters[name], self.simulated_at[name]
        moved = p.to_coordinate(center) + self.data[variable].sel(parameter=name).values
        return np.abs(p.percent(p.to_value(moved), center))

    @property
    def messages(self) -> list[Message]:
        """What a reader must know before using the numbers."""
        found = []
        if self.failures:
            # A run with a value may carry a status, too: such as that its field cannot be scored.
            reasons = [str(s) for s in self.data["status"].values[self._failed]]
            text = (
                f"{self.failures} of {self.replicas} runs failed and are left out of the means; "
                f"the first: {reasons[0]}"
            )
            numbers = {"failures": float(self.failures), "replicas": float(self.replicas)}
            found.append(Message("simulation.failures", text, "warning", numbers))
        for name in self.parameters:
            found += self._bias_messages(name)
        return found

    def _bias_messages(self, name: str) -> list[Message]:
        if name in self._constant:
            text = (
                f"the pipeline returns the same {name} on every simulated dataset: it does not "
                "depend on the data, and there is no corrected value"
            )
            return [Message("simulation.constant", text, "warning")]
        found = []
        mean, error = self._means["delivered"][name]
        scatter = self._sd(TERMS["delivered"], name)
        numbers = {"bias": mean, "standard_error": error, "sd": scatter}
        if abs(mean) < CLEAR * error:
            text = (
                f"the bias of {name} is not clearly different from zero: {mean:+.3g} with a "
                f"standard error of {error:.2g}"
            )
            found.append(Message("simulation.bias_unclear", text, "info", numbers))
        elif abs(mean) < scatter:
            text = (
                f"the bias of {name} is smaller than the standard deviation of single runs "
                f"({scatter:.2g}): it is an average over runs, and the corrected value may be "
                "farther from the truth than the delivered one"
            )
            found.append(Message("simulation.bias_within_scatter", text, "warning", numbers))
        (low, high), corrected = self.parameters[name].bounds, self.corrected[name]
        if not low <= corrected <= high:
            text = (
                f"the corrected {name} = {corrected:.4g} lies outside its bounds {low:g} to "
                f"{high:g}: the bias is not constant over such a distance"
            )
            numbers = {"corrected": corrected, "low": low, "high": high}
            found.append(Message("simulation.outside_bounds", text, "warning", numbers))
        return found

    def summary(self) -> pd.DataFrame:
        """Return a row per parameter and term: mean, standard error, spread, mean size.

        ``mean``, ``standard_error`` and ``sd`` are in coordinates; ``mean_size_percent`` is what
        the decision map compares.
        """
        rows = {}
        for term, by_parameter in self._means.items():
            for name, (mean, error) in by_parameter.items():
                values = self.data[TERMS[term]].sel(parameter=name).values
                sizes = self._percent(name, TERMS[term])
                known = ~np.isnan(values)
                rows[name, term] = {
                    "mean": mean,
                    "standard_error": error,
                    "sd": self._sd(TERMS[term], name),
                    "mean_size_percent": float(sizes[known].mean()) if known.any() else np.nan,
                    "replicas": int(known.sum()),
                }
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index = pd.MultiIndex.from_tuples(rows, names=["parameter", "term"])
        return table.sort_index(level="parameter", sort_remaining=False)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row per parameter and replica."""
        kept = ["estimate", *(v for v in TERMS.values() if v in self.data), "status"]
        table: pd.DataFrame = self.data[kept].to_dataframe()
        return table

    def rank_views(
        self, views: Mapping[str, View] | Iterable[View], *, parameter: str | None = None
    ) -> pd.DataFrame:
        """Rank views by the displacement that they give the simulated fields.

        The fields are held fixed. A view that displaces them less weighs their residual better;
        whether a field *trained* under it is displaced less, too, only training can tell.

        Parameters
        ----------
        views : mapping of str to View, or iterable of View
        parameter : str, optional
            Which one, where there are several.

        Returns
        -------
        pandas.DataFrame
            A row per view, the smallest displacement first: ``mean_size`` is the mean size of D,
            ``mean`` and ``sd`` those of D itself, ``worst`` its largest size, ``fields`` how many
            could be scored, ``status`` why others could not.
        """
        return rank_views(self.frozen, views, parameter=parameter)

    def actions(self) -> list[Action]:
        """Return what to do with the bias, for the actions of an audit."""
        sentences, numbers = [], []
        for name, corrected in self.corrected.items():
            if np.isnan(corrected):  # the messages say why
                continue
            sentences.append(
                f"On {self.replicas} datasets simulated at {name} = {self.simulated_at[name]:.4g}, "
                f"the delivered value had a bias of {self.bias[name]:+.3g} ± "
                f"{self.bias_error[name]:.1g} in its coordinate, of which the fields explain "
                f"{self.displacement[name]:+.3g}. With the same bias here, the corrected value is "
                f"{name} = {corrected:.5g} instead of {self.delivered[name]:.5g}."
            )
            numbers += [
                Number(f"bias of {name}", self.bias[name]),
                Number(f"standard error of the bias of {name}", self.bias_error[name]),
                Number(f"mean displacement D of {name}", self.displacement[name]),
                Number(f"corrected {name}", corrected),
            ]
        sentences += [sentence(message.text) for message in self.messages]
        call = "twoaxis.simulated_audit(pipeline, forward, parameters, noise)"
        title = "Subtract the bias that simulations show"
        return [Action("bias", title, " ".join(sentences), call, tuple(numbers))]

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
        lines.append(_wrapped(self.reason))
        lines += [_wrapped(f"assumption: {line}") for line in self.assumptions]
        return "\n".join([*lines, *map(warning_line, self.messages)])


def _mean(sizes: FloatArray) -> float | None:
    known = sizes[~np.isnan(sizes)]
    return float(known.mean()) if known.size else None


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ")


def _short(value: float) -> str:
    """Four digits; rounding in place of an exact zero is shown as zero."""
    return f"{value:.4g}" if np.isnan(value) or abs(value) > ROUNDING else "0"


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
