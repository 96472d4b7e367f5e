"""A confidence set for the parameter that a pipeline delivers, the pipeline's own bias included.

`confidence_set` calibrates the pipeline (`twoaxis.remedies.calibrate`), inverts the rank tests at
the candidates (`twoaxis.remedies.inversion`, which has the formulas) and adds candidates around
the edges of the set until they stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import is_real
from twoaxis.diagnosis.actions import Action, Number
from twoaxis.errors import InputError
from twoaxis.io import Layout, Variable, labelled
from twoaxis.parameters import Parameter
from twoaxis.remedies.calibrate import (
    FITTED,
    Calibration,
    Rerun,
    extended,
    first_round,
    prepare,
    warning_line,
)
from twoaxis.remedies.inversion import (
    Correction,
    SetInterval,
    Statistic,
    check_level,
    correct,
    crossings,
    edge_pieces,
    guaranteed_level,
    intervals,
    medians,
    monte_carlo,
    p_values,
    rank_bounds,
    refined,
    settled,
    stepwise,
)
from twoaxis.remedies.simulator import check_count
from twoaxis.result import Message, Result

FloatArray = NDArray[np.float64]

# A Monte Carlo error of an edge above this share of the width calls for more replicas.
ROUGH = 0.2


class ConfidenceSet(Result[xr.DataTree]):
    """The parameter values that could have led to what the pipeline delivered.

    Made by `twoaxis.confidence_set` or `Calibration.confidence_set`.

    Attributes
    ----------
    data : xarray.DataTree
        The intervals and the corrected value; the group ``/calibration`` is the `Calibration`.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> found = ta.confidence_set(
    ...     lambda values, seed: 1.3 * values.mean(), lambda h: h * np.ones(20),
    ...     {"h": ta.Parameter(bounds=(0.5, 2.0))}, noise=0.2, data=np.ones(20),
    ...     candidates=5, replicas=19, progress=False,
    ... )
    >>> found.contains(1.0), found.contains(1.3), found.level
    (True, False, 0.9)
    """

    schema = "confidence-set"
    layouts: ClassVar[Mapping[str, Layout]] = {
        "/": {
            "low": Variable(("interval",), "float", "lower end", finite=True),
            "high": Variable(("interval",), "float", "upper end", finite=True),
            "open_low": Variable(("interval",), "bool", "reaches the smallest candidate"),
            "open_high": Variable(("interval",), "bool", "reaches the largest candidate"),
            "corrected": Variable((), "float", "bias-corrected value; NaN: none"),
            "guaranteed_level": Variable((), "float", "coverage at a candidate, at least"),
        },
        "/calibration": Calibration.layouts["/"],
    }
    attributes: ClassVar[Mapping[str, Iterable[str]]] = {
        "/": (
            "delivered",
            "level",
            "statistic",
            "budget",
            "rounds",
            "pipeline_runs",
        ),
        "/calibration": ("schema", "written_by", *Calibration.attributes["/"]),
    }

    @classmethod
    def _inverted(cls, calibration: Calibration, attributes: Mapping[str, Any]) -> ConfidenceSet:
        """Return the set that a calibration and a delivered value lead to."""
        groups = {"/": labelled({}, {}, attributes), "/calibration": calibration.data}
        values = cls.from_groups(groups).derived()
        groups["/"] = labelled(cls.layouts["/"], values, attributes)
        found = cls.from_groups(groups)
        found.calibration = calibration  # the very one, with its pipeline
        return found

    def derived(self) -> dict[str, Any]:
        """Return intervals, corrected value and guaranteed level, from the calibration."""
        known, parts = self.calibration, self.parts
        to_value, ends = known.parameter.to_value, known.candidates
        first, last = known.coordinates[[0, -1]]
        # An end there is the outermost candidate itself, without rounding of the coordinate.
        low = [ends[0] if part.low == first else float(to_value(part.low)) for part in parts]
        high = [ends[-1] if part.high == last else float(to_value(part.high)) for part in parts]
        corrected = self.correction.value
        return {
            "low": np.array(low, dtype=float),
            "high": np.array(high, dtype=float),
            "open_low": np.array([part.open_low for part in parts], dtype=bool),
            "open_high": np.array([part.open_high for part in parts], dtype=bool),
            "corrected": np.nan if corrected is None else corrected,
            "guaranteed_level": guaranteed_level(known.replicas, self.level, self.statistic),
        }

    def check(self) -> None:
        """Raise `InputError` if the set does not follow from its calibration."""
        self.calibration.check()
        check_level(self.level, self.statistic, self.calibration.replicas)
        checked_estimate(self.calibration.parameter, self.estimate)
        super().check()

    @cached_property
    def calibration(self) -> Calibration:
        """How the pipeline behaves at every candidate."""
        return Calibration(self.data.children["calibration"].to_dataset(inherit=False))

    @property
    def estimate(self) -> float:
        """What the pipeline delivered on the observed data."""
        return float(self.data.attrs["delivered"])

    @property
    def level(self) -> float:
        """The requested confidence level."""
        return float(self.data.attrs["level"])

    @property
    def statistic(self) -> Statistic:
        """What was ranked: "signed" or "absolute" errors."""
        found: Statistic = self.data.attrs["statistic"]
        return found

    @property
    def guaranteed_level(self) -> float:
        """The probability with which a true candidate is kept, at least."""
        return float(self.data["guaranteed_level"])

    @property
    def retrainings(self) -> int:
        """Number of runs of the pipeline for this set, including one on the observed data."""
        return self.calibration.retrainings + int(self.data.attrs["pipeline_runs"])

    @property
    def observed(self) -> float:
        """The coordinate of the delivered value."""
        return float(self.calibration.parameter.to_coordinate(self.estimate))

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Rank bounds of every candidate, in coordinates, each of shape (K,)."""
        known = self.calibration
        return rank_bounds(known.estimates, known.coordinates, self.level, self.statistic)

    @cached_property
    def parts(self) -> tuple[SetInterval, ...]:
        """The intervals of the set in coordinates, lowest first."""
        whole = stepwise(self.calibration.estimates)
        return tuple(intervals(self.calibration.coordinates, *self.bounds, self.observed, whole))

    @cached_property
    def correction(self) -> Correction:
        """The candidate whose median answer is the delivered value."""
        known = self.calibration
        q, curve = known.coordinates, medians(known.estimates)
        return correct(known.parameter, q, curve, self.observed, self.parts)

    @property
    def corrected(self) -> float | None:
        """The delivered value minus its bias; None where there is no unique one (`messages`)."""
        value = float(self.data["corrected"])
        return None if np.isnan(value) else value

    @property
    def intervals(self) -> tuple[SetInterval, ...]:
        """The intervals of the set in physical units, lowest first; none where it is empty."""
        columns = (self.data.ds[name].values.tolist() for name in SetInterval._fields)
        return tuple(SetInterval(*row) for row in zip(*columns, strict=True))

    @property
    def interval(self) -> SetInterval:
        """From the lowest to the highest value of the set."""
        if not self.intervals:
            raise InputError(
                "a set that is not empty",
                "an empty one",
                "read messages: the estimate is unlike everything that was simulated",
            )
        first, last = self.intervals[0], self.intervals[-1]
        return SetInterval(first.low, last.high, first.open_low, last.open_high)

    @property
    def is_open(self) -> bool:
        """Whether the set reaches an end of what was tested, and may extend beyond."""
        return any(part.open_low or part.open_high for part in self.intervals)

    @property
    def width_percent(self) -> float:
        """Total length of the set in % of the delivered value; of the tested part if open."""
        total = sum(part.high - part.low for part in self.intervals)
        return abs(float(self.calibration.parameter.percent(self.estimate + total, self.estimate)))

    @cached_property
    def monte_carlo(self) -> pd.DataFrame:
        """Standard errors of edges and corrected value from the finite number of replicas.

        A bootstrap over replicas with a fixed seed. Rows ``low``, ``high`` and ``corrected``;
        columns ``value``, ``standard_error`` in physical units, ``standard_error_percent`` of the
        delivered value, and ``found``, the share of resamples that have such a value.
        """
        known = self.calibration
        corrected = self.corrected
        hull = (np.nan, np.nan) if not self.intervals else self.interval[:2]
        values = {
            "low": hull[0],
            "high": hull[1],
            "corrected": np.nan if corrected is None else corrected,
        }
        return monte_carlo(
            known.parameter,
            known.coordinates,
            known.estimates,
            self.observed,
            self.level,
            self.statistic,
            values,
            self.estimate,
        )

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """A row per candidate: p-value, whether it is kept, median and rank bounds."""
        known, to_value = self.calibration, self.calibration.parameter.to_value
        lower, upper = self.bounds
        found, q = known.estimates, known.coordinates
        return pd.DataFrame(
            {
                "p_value": p_values(found, q, self.observed, self.statistic),
                "kept": (lower <= self.observed) & (self.observed <= upper),
                "median": to_value(medians(found)),
                "lower": to_value(lower),
                "upper": to_value(upper),
                "failures": np.isnan(found).sum(axis=1),
                "round": known.data["round"].values,
            },
            index=pd.Index(known.candidates, name=known.name),
        )

    @property
    def messages(self) -> list[Message]:
        """What a reader must know before using the set."""
        return [*_set_messages(self), *self.calibration.messages]

    def contains(self, value: float) -> bool:
        """Return whether a value between the outermost candidates lies in the set."""
        tested = self.calibration.candidates
        low, high = float(tested[0]), float(tested[-1])
        real = is_real(value)
        if not (real and low <= value <= high):
            raise InputError(
                f"a value within the tested range, {low:g} to {high:g}",
                repr(value),
                "calibrate over a wider interval",
            )
        known = self.calibration
        # In coordinates, where the edges were found.
        ends = known.coordinates[[0, -1]]
        place = float(np.clip(known.parameter.to_coordinate(value), *ends))
        return any(part.low <= place <= part.high for part in self.parts)

    def summary(self) -> pd.DataFrame:
        """Return one row: delivered and corrected value, the set and the number of retrainings."""
        known = self.calibration
        hull = self.interval if self.intervals else SetInterval(np.nan, np.nan)
        table = self.monte_carlo["standard_error"]
        return pd.DataFrame(
            {
                "delivered": self.estimate,
                "corrected": np.nan if self.corrected is None else self.corrected,
                "low": hull.low,
                "high": hull.high,
                "intervals": len(self.intervals),
                "open": self.is_open,
                "width_percent": self.width_percent,
                "level": self.level,
                "low_error": table["low"],
                "high_error": table["high"],
                "corrected_error": table["corrected"],
                "retrainings": self.retrainings,
                "failures": known.failures,
            },
            index=pd.Index([known.name], name="parameter"),
        )

    def actions(self) -> list[Action]:
        """Return what to do with the set, for the actions of an audit."""
        name = self.calibration.name
        inside = " and ".join(map(interval_text, self.intervals)) or "no value"
        text = (
            f"The {100 * self.level:g}% confidence set of {name} for this pipeline contains "
            f"{inside}; it took {self.retrainings} retrainings."
        )
        numbers = [
            Number(f"delivered {name}", self.estimate),
            Number("width of the set", self.width_percent, "%"),
        ]
        if self.corrected is not None:
            text += f" The bias-corrected value is {self.corrected:.5g}."
            numbers.append(Number("bias-corrected", self.corrected))
        call = "twoaxis.confidence_set(pipeline, forward, parameters, noise, data)"
        return [
            Action("bias", f"Report {name} with its confidence set", text, call, tuple(numbers))
        ]

    def __repr__(self) -> str:
        known, error = self.calibration, self.monte_carlo["standard_error"]
        corrected = (
            f"{self.corrected:.5g} ± {error['corrected']:.2g} (bias-corrected)"
            if self.corrected is not None
            else "no corrected value"
        )
        inside = " and ".join(map(interval_text, self.intervals)) or "empty"
        budget = self.data.attrs["budget"]
        allowed = f" (budget: {budget})" if budget else ""
        hidden = ", ".join(map(str, known.nuisance))
        plug_in = [f"  {hidden} fitted to the data at every candidate"]
        lines = [
            f"{100 * self.level:g}% confidence set of {known.name}: {inside}",
            f"  delivered {self.estimate:.5g}; {corrected}",
            f"  width {self.width_percent:.3g}% of the delivered value; Monte Carlo error of the "
            f"edges {error['low']:.2g} and {error['high']:.2g}",
            f"  {len(known.candidates)} candidates, {known.replicas} replicas each; "
            f"{self.retrainings} runs of the pipeline{allowed}",
            *(plug_in if known.plug_in == FITTED else []),
        ]
        return "\n".join([*lines, *map(warning_line, self.messages)])


def interval_text(part: SetInterval) -> str:
    """Return an interval as text; an end at the last candidate is marked as not tested beyond.

    >>> interval_text(SetInterval(0.5, 2.0, open_high=True))
    '[0.5, 2 or beyond)'
    """
    low = f"({part.low:.5g} or below" if part.open_low else f"[{part.low:.5g}"
    high = f"{part.high:.5g} or beyond)" if part.open_high else f"{part.high:.5g}]"
    return f"{low}, {high}"


def _set_messages(found: ConfidenceSet) -> list[Message]:
    messages = []
    candidates = found.calibration.candidates
    if not found.intervals:
        messages.append(_empty(found))
    for side, word, end in (
        ("low", "smallest", candidates[0]),
        ("high", "largest", candidates[-1]),
    ):
        if found.data.ds[f"open_{side}"].values.any():
            text = f"the set reaches the {word} candidate, {end:.5g}, and may extend beyond it"
            numbers = {"candidate": float(end)}
            messages.append(Message(f"set.open_{side}", text, "warning", numbers))
    if (count := len(found.intervals)) > 1:
        text = (
            f"the set has {count} separate intervals: the pipeline gives the same answer for "
            "different truths"
        )
        numbers = {"intervals": float(count)}
        messages.append(Message("set.several_intervals", text, "warning", numbers))
    if found.correction.message is not None:
        messages.append(found.correction.message)
    return [*messages, *_coarse_edges(found), *_rough_edges(found)]


def _empty(found: ConfidenceSet) -> Message:
    lower, upper = found.bounds
    side = "unlike"
    if (found.observed > upper).all():
        side = "above"
    elif (found.observed < lower).all():
        side = "below"
    text = (
        f"the set is empty: the delivered {found.estimate:.5g} lies {side} what the pipeline "
        "returns at every candidate. Test a wider interval; if that does not help, the simulator "
        "or the noise model does not describe these data"
    )
    return Message("set.empty", text, "warning", {"delivered": found.estimate})


def _coarse_edges(found: ConfidenceSet) -> list[Message]:
    known, q = found.calibration, found.calibration.coordinates
    # Edges between candidates, also where a piece is kept as a whole.
    parts = intervals(q, *found.bounds, found.observed)
    width = sum(part.high - part.low for part in parts)
    wide = [j for j in edge_pieces(q, parts) if q[j + 1] - q[j] > width]
    if not wide:
        return []
    low, high = known.candidates[[wide[0], wide[0] + 1]].tolist()
    text = (
        f"an edge lies between the candidates {low:.5g} and {high:.5g}, which are farther apart "
        "than the set is wide, and nothing is tested between them. Use more candidates, a "
        "narrower interval or more rounds of refinement"
    )
    return [Message("set.coarse_edge", text, "warning", {"low": low, "high": high})]


def _rough_edges(found: ConfidenceSet) -> list[Message]:
    width = sum(part.high - part.low for part in found.intervals)
    errors = found.monte_carlo.loc[["low", "high"], "standard_error"].to_numpy()
    if np.isnan(errors).all() or not width > 0 or np.nanmax(errors) <= ROUGH * width:
        return []
    share = 100 * float(np.nanmax(errors)) / width
    text = f"an edge has a Monte Carlo error of {share:.0f}% of the width: use more replicas"
    return [Message("set.monte_carlo_error", text, "warning", {"percent_of_width": share})]


def confidence_set(
    pipeline: Callable[..., Any],
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike,
    data: ArrayLike | None = None,
    *,
    estimate: float | None = None,
    level: float = 0.9,
    statistic: Statistic = "signed",
    layout: ArrayLike | None = None,
    candidates: int | ArrayLike = 17,
    interval: tuple[float, float] | None = None,
    replicas: int = 59,
    refine: int = 4,
    budget: int | None = None,
    seed: int | Sequence[int] = 0,
    vectorized: bool = False,
    vectorized_pipeline: bool | None = None,
    progress: bool = True,
) -> ConfidenceSet:
    """Find the parameters that could have led to what the pipeline delivered.

    The pipeline is run again on data simulated at a grid of candidates. A candidate stays in the
    set when the delivered value is typical of what the pipeline answers there, by its rank. The
    set then holds the truth with the stated probability, however biased the pipeline is, if the
    simulator and the noise describe the data.

    With nuisance parameters the data of every candidate are simulated at their fit to the observed
    data, with the candidate held, and the pipeline estimates them again on each simulated dataset.
    The level is then approximate: it would be exact if the answers did not depend on their true
    values, or if these were known. Holding them fixed in forward and pipeline instead gives sets
    that are too narrow.

    The guarantee holds for a truth at a candidate. Between candidates the bounds are interpolated
    linearly in the coordinate, and refinement puts candidates where that matters. Where answers
    repeat exactly, as those of a grid search or rounded ones do, the whole interval between two
    candidates is kept if either of them is.

    Parameters
    ----------
    pipeline, forward, parameters, noise, layout, candidates, interval, replicas, seed
        As for `twoaxis.calibrate`.
    vectorized, vectorized_pipeline, progress
        As for `twoaxis.calibrate`.
    data : array, optional
        The observed values, in the order of `layout` or in the shape of forward's output. The
        pipeline runs on them once, and nuisance parameters are fitted to them.
    estimate : float, optional
        What the pipeline delivered, in place of `data`. Without both, ``delivered`` of the
        parameter.
    level : float
        Confidence level; the default is that of the published coverage experiments, for which 59
        replicas make the ranks exact.
    statistic : {"signed", "absolute"}
        Rank the signed error, with equal tails, or its size. The signed one moves with a bias,
        where the absolute one widens.
    refine : int
        The most rounds in which candidates are added where the edges of the set lie. They end
        as soon as a round moves every edge by less than a tenth of the set's width.
    budget : int, optional
        Runs of the pipeline that are allowed. The grid must fit in; refinement stops there.

    Returns
    -------
    ConfidenceSet

    Examples
    --------
    >>> import numpy as np
    >>> from twoaxis import Parameter
    >>> found = confidence_set(
    ...     lambda values, seed: 1.3 * values.mean(),
    ...     lambda height: height * np.ones(20),
    ...     {"height": Parameter(bounds=(0.5, 2.0))}, noise=0.2, data=np.full(20, 1.0),
    ...     candidates=5, replicas=19,
    ... )
    >>> found.contains(1.0), found.contains(1.3), found.estimate
    (True, False, 1.3)
    """
    count = check_count("replicas", replicas, 2)
    check_level(level, statistic, count)
    check_count("refine", refine, 0)
    rerun, grid = prepare(
        pipeline,
        forward,
        parameters,
        noise,
        layout=layout,
        candidates=candidates,
        interval=interval,
        replicas=replicas,
        seed=seed,
        vectorized=vectorized,
        vectorized_pipeline=vectorized_pipeline,
        progress=progress,
    )
    allowed = _checked_budget(budget, len(grid) * count + (data is not None), len(grid), count)
    delivered, cost = _delivered(rerun, data, estimate)
    if data is not None:
        rerun = replace(rerun, observed=rerun.simulator.observed(data))
    found = first_round(rerun, grid, seed)
    found, rounds = _refined(found, rerun, delivered, level, statistic, refine, allowed - cost)
    return _set(found, delivered, level, statistic, cost, budget or 0, rounds)


def _refined(
    found: Calibration,
    rerun: Rerun,
    delivered: float,
    level: float,
    statistic: Statistic,
    rounds: int,
    allowed: float,
) -> tuple[Calibration, int]:
    """Add candidates where the edges lie, until they stand still; return how many rounds did.

    Pieces that are kept as a whole must not move an edge, either.
    """
    observed = float(found.parameter.to_coordinate(delivered))
    parts, _ = _parts(found, observed, level, statistic)
    for number in range(1, rounds + 1):
        more = _more(found, observed, parts)
        room = (allowed - found.retrainings) / found.replicas
        more = more[: int(min(room, len(more)))]
        if not len(more):
            return found, number - 1
        found = extended(found, rerun, more, number)
        before, (parts, widened) = parts, _parts(found, observed, level, statistic)
        if settled(before, parts) and settled(parts, widened):
            return found, number
    return found, rounds


def _parts(
    found: Calibration, observed: float, level: float, statistic: Statistic
) -> tuple[list[SetInterval], list[SetInterval]]:
    """Return the intervals so far, in coordinates: interpolated, and those of the set."""
    q = found.coordinates
    bounds = rank_bounds(found.estimates, q, level, statistic)
    whole = stepwise(found.estimates)
    return intervals(q, *bounds, observed), intervals(q, *bounds, observed, whole)


def _more(found: Calibration, observed: float, parts: list[SetInterval]) -> Any:
    """Return physical values of further candidates."""
    p, q = found.parameter, found.coordinates
    middle = crossings(q, medians(found.estimates), observed)
    fresh = p.to_value(refined(q, parts, middle[~np.isnan(middle)]))
    # Halving ends where neighbors are one rounding apart.
    return fresh[~np.isin(fresh, found.candidates)]


def _delivered(rerun: Rerun, data: Any, estimate: float | None) -> tuple[float, int]:
    """Return the delivered value and how many runs it cost."""
    if data is not None and estimate is not None:
        raise _either("both")
    if data is not None:
        return delivered_on(rerun, data), 1
    known = rerun.parameter.delivered if estimate is None else estimate
    if known is None:
        raise _either("neither")
    return checked_estimate(rerun.parameter, known), 0


def _checked_budget(budget: Any, needed: int, candidates: int, replicas: int) -> float:
    if budget is None:
        return np.inf
    if check_count("budget", budget, 1) < needed:
        raise InputError(
            f"a budget of at least {needed} runs for {candidates} candidates with {replicas} "
            "replicas each",
            f"budget={budget}",
            "allow more runs, or ask for fewer candidates or replicas",
        )
    return float(budget)


def set_from_calibration(
    found: Calibration, data: Any, estimate: float | None, level: float, statistic: Statistic
) -> ConfidenceSet:
    """Return the set of a calibration for observed data, or for what the pipeline made of them."""
    if (data is None) == (estimate is None):
        raise _either("neither" if data is None else "both")
    if data is not None and found.rerun is None:
        raise InputError(
            "a calibration that still has its pipeline, to run it on the data",
            "one from a file or from another process",
            "run the pipeline on the data and pass estimate=...",
        )
    fitted_to = None if found.rerun is None else found.rerun.observed
    if data is not None and found.rerun is not None and found.plug_in == FITTED:
        observed = found.rerun.simulator.observed(data)
        if fitted_to is None or not np.array_equal(observed, fitted_to):
            raise InputError(
                "the data that nuisance parameters were fitted to at every candidate",
                "others",
                "call twoaxis.confidence_set with these data, which fits them again",
            )
    delivered, runs = (
        (checked_estimate(found.parameter, estimate), 0)
        if found.rerun is None or data is None
        else (delivered_on(found.rerun, data), 1)
    )
    return _set(found, delivered, level, statistic, runs)


def _set(
    found: Calibration,
    delivered: float,
    level: float,
    statistic: Statistic,
    pipeline_runs: int,
    budget: int = 0,
    rounds: int = 0,
) -> ConfidenceSet:
    """Return the set; `pipeline_runs` are those on the observed data, `budget` 0 is no limit."""
    attributes = {
        "delivered": float(delivered),
        "level": float(level),
        "statistic": str(statistic),
        "budget": int(budget),
        "rounds": int(rounds),
        "pipeline_runs": pipeline_runs,
    }
    return ConfidenceSet._inverted(found, attributes)


def _either(got: str) -> InputError:
    return InputError(
        "the observed data, or the estimate that the pipeline made of them",
        got,
        "pass one of data=... and estimate=..., or give the parameter its delivered value",
    )


def checked_estimate(parameter: Parameter, estimate: Any) -> float:
    """Return an estimate as a float that the parameter's coordinate can hold."""
    real = is_real(estimate)
    real = real and not isinstance(estimate, bool) and bool(np.isfinite(estimate))
    if not real or (parameter.coordinate == "log" and estimate <= 0):
        kind = "a positive, finite number" if parameter.coordinate == "log" else "a finite number"
        raise InputError(
            f"the estimate as {kind}", f"estimate={estimate!r}", "pass what the pipeline delivered"
        )
    # Says what is missing where percentages would not be defined.
    parameter.percent_unit(float(estimate))
    return float(estimate)


def delivered_on(rerun: Rerun, data: Any) -> float:
    """Run the pipeline on the observed data."""
    values = rerun.simulator.observed(data)
    (answer,) = rerun.answers(values[None], rerun.seeds[:1], "the observed data")
    if answer.failure:
        raise InputError(
            "a pipeline that answers on the observed data",
            answer.failure,
            "correct it first: without an estimate no candidate can be ruled out",
        )
    return checked_estimate(rerun.parameter, answer.delivered[rerun.name])
