"""What a pipeline answered on simulated data, candidate by candidate: a labelled result.

A confidence set as its reader meets it: intervals, a corrected estimate, and their doubts.

Loading calibrations and sets: nothing in the file is executed, strange files are refused.

What a confidence set must say beside its numbers.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.files import existing_netcdf, write_whole
from twoaxis.netcdf import (
    check_schema,
    contradiction,
    layout_fault,
    load_dataset,
    read_netcdf,
    refuse,
)
from twoaxis.netcdf.contents import Layout
from twoaxis.parameters import Parameter
from twoaxis.remedies.calibration.inversion import (
    Correction,
    SetInterval,
    correct,
    edge_pieces,
    intervals,
)
from twoaxis.remedies.calibration.ranks import (
    Statistic,
    check_level,
    guaranteed_level,
    medians,
    monte_carlo,
    p_values,
    rank_bounds,
)

# Monte Carlo error of an edge, as a share of the width, above which more replicas are advised.
ROUGH = 0.2
WIDTH = 96


def interval_words(part: SetInterval) -> str:
    """Return an interval as text; an open end is not closed by a bracket.

    >>> interval_words(SetInterval(0.5, 2.0, open_high=True))
    '[0.5, 2 and perhaps beyond)'
    """
    low = f"(perhaps below {part.low:.5g}" if part.open_low else f"[{part.low:.5g}"
    high = f"{part.high:.5g} and perhaps beyond)" if part.open_high else f"{part.high:.5g}]"
    return f"{low}, {high}"


def warning_words(line: str) -> str:
    """Return a message in lines of a terminal's width."""
    return textwrap.fill(line, WIDTH, initial_indent="! ", subsequent_indent="  ")


def set_messages(found: ConfidenceSet) -> list[str]:
    """Return what a reader must know before using the set."""
    told = []
    known = found.calibration
    low, high = known.candidates[0], known.candidates[-1]
    if not found.intervals:
        told.append(_why_empty(found))
    for word, end, is_open in (
        ("smallest", low, any(part.open_low for part in found.intervals)),
        ("largest", high, any(part.open_high for part in found.intervals)),
    ):
        if is_open:
            told.append(
                f"the set reaches the {word} candidate tested, {end:.5g}, and may go on beyond it"
            )
    if len(found.intervals) > 1:
        told.append(
            f"the set has {len(found.intervals)} separate intervals: the pipeline gives the same "
            "answer for different truths"
        )
    if found.correction.status != "found":
        told.append(found.correction.status)
    told.extend(_coarse_edges(found))
    told.extend(_rough_edges(found))
    return told


def _why_empty(found: ConfidenceSet) -> str:
    lower, upper = found.bounds
    side = "above" if (found.observed > upper).all() else "below"
    if not ((found.observed > upper).all() or (found.observed < lower).all()):
        side = "unlike"
    return (
        f"the set is empty: the delivered {found.estimate:.5g} lies {side} what the pipeline "
        "returns at every candidate. Test a wider interval; if that does not help, simulator or "
        "noise do not describe these data"
    )


def _coarse_edges(found: ConfidenceSet) -> list[str]:
    known, q = found.calibration, found.calibration.coordinates
    width = sum(part.high - part.low for part in found.parts)
    wide = [j for j in edge_pieces(q, found.parts) if q[j + 1] - q[j] > width]
    if not wide:
        return []
    low, high = known.candidates[[wide[0], wide[0] + 1]]
    return [
        f"an edge lies between the candidates {low:.5g} and {high:.5g}, which are farther apart "
        "than the set is wide: there it is interpolated, not tested. More candidates, a narrower "
        "interval or more rounds of refinement would settle it"
    ]


def _rough_edges(found: ConfidenceSet) -> list[str]:
    table = found.monte_carlo
    width = sum(part.high - part.low for part in found.intervals)
    errors = table.loc[["low", "high"], "standard_error"].to_numpy()
    rough = not np.isnan(errors).all() and width > 0 and np.nanmax(errors) > ROUGH * width
    if not rough:
        return []
    share = 100 * float(np.nanmax(errors)) / width
    return [
        f"an edge has a Monte Carlo error of {share:.0f}% of the width: more replicas would "
        "settle it"
    ]


FloatArray = NDArray[np.float64]

SET_SCHEMA = "twoaxis-confidence-set-1"
# What a set has beside its calibration.
OF_SETS = ("set_estimate", "level", "statistic", "runs_used", "budget", "rounds", "rerun")


class ConfidenceSet:
    """The parameters that could have led to what the pipeline delivered.

    Made by `twoaxis.confidence_set` or `Calibration.confidence_set`.

    Attributes
    ----------
    calibration : Calibration
    data : xarray.Dataset
        The calibration with the observed estimate, level and statistic as attributes.
    """

    def __init__(self, calibration: Calibration, data: xr.Dataset) -> None:
        self.calibration = calibration
        self.data = data

    @property
    def estimate(self) -> float:
        """What the pipeline delivered on the observed data."""
        return float(self.data.attrs["set_estimate"])

    @property
    def level(self) -> float:
        """The confidence level that was asked for."""
        return float(self.data.attrs["level"])

    @property
    def statistic(self) -> Statistic:
        """What was ranked: "signed" or "absolute" errors."""
        found: Statistic = self.data.attrs["statistic"]
        return found

    @property
    def guaranteed_level(self) -> float:
        """The probability with which a true candidate is kept, at least."""
        return guaranteed_level(self.calibration.replicas, self.level, self.statistic)

    @property
    def retrainings(self) -> int:
        """How often the pipeline ran for this set, the run on the observed data with it."""
        return int(self.data.attrs["runs_used"])

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
        return tuple(intervals(self.calibration.coordinates, *self.bounds, self.observed))

    @cached_property
    def intervals(self) -> tuple[SetInterval, ...]:
        """The intervals of the set in physical units, lowest first; none where it is empty."""
        known, ends = self.calibration, self.calibration.parameter.to_value
        # An open end is the outermost candidate itself, without the way there and back.
        return tuple(
            part._replace(
                low=float(known.candidates[0] if part.open_low else ends(part.low)),
                high=float(known.candidates[-1] if part.open_high else ends(part.high)),
            )
            for part in self.parts
        )

    @property
    def interval(self) -> SetInterval:
        """From the lowest to the highest value of the set."""
        if not self.intervals:
            raise InputError(
                "a set that holds something",
                "an empty one",
                "read messages: the estimate is unlike everything that was simulated",
            )
        first, last = self.intervals[0], self.intervals[-1]
        return SetInterval(first.low, last.high, first.open_low, last.open_high)

    @property
    def is_open(self) -> bool:
        """Whether the set reaches an end of what was tested, and may go on beyond."""
        return any(part.open_low or part.open_high for part in self.intervals)

    @property
    def width_percent(self) -> float:
        """Total length of the set in percent of the delivered value; of the tested part if open."""
        total = sum(part.high - part.low for part in self.intervals)
        return abs(float(self.calibration.parameter.percent(self.estimate + total, self.estimate)))

    @cached_property
    def correction(self) -> Correction:
        """The candidate whose median answer is the delivered value, and how that went."""
        known = self.calibration
        q, curve = known.coordinates, medians(known.estimates)
        return correct(known.parameter, q, curve, self.observed, self.parts)

    @property
    def corrected(self) -> float | None:
        """The delivered value less its bias; None where `correction` says why not."""
        return self.correction.value

    @cached_property
    def monte_carlo(self) -> pd.DataFrame:
        """How much edges and corrected value owe to the finite number of replicas.

        A bootstrap over replicas with a fixed seed. Rows ``low``, ``high`` and ``corrected``;
        columns ``value``, ``standard_error`` in physical units, ``standard_error_percent`` of the
        delivered value, and ``found``, the share of resamples in which there was such a value.
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
        """A row for each candidate: p-value, whether it is kept, median and rank bounds."""
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
    def messages(self) -> list[str]:
        """What a reader must know before using the set, as sentences."""
        return [*set_messages(self), *self.calibration.messages]

    def contains(self, value: float) -> bool:
        """Whether a value lies in the set; only values that were tested can be asked about."""
        tested = self.calibration.candidates
        low, high = float(tested[0]), float(tested[-1])
        real = isinstance(value, (int, float, np.integer, np.floating))
        if not (real and low <= value <= high):
            raise InputError(
                f"a value among those tested, {low:g} to {high:g}",
                repr(value),
                "calibrate over a wider interval to ask about it",
            )
        known = self.calibration
        # In coordinates, where the edges were found.
        ends = known.coordinates[[0, -1]]
        place = float(np.clip(known.parameter.to_coordinate(value), *ends))
        return any(part.low <= place <= part.high for part in self.parts)

    def summary(self) -> pd.DataFrame:
        """Return one row: what was delivered, the corrected value, the set and what it cost."""
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

    def __repr__(self) -> str:
        known, error = self.calibration, self.monte_carlo["standard_error"]
        corrected = (
            f"{self.corrected:.5g} ± {error['corrected']:.2g} (bias-corrected)"
            if self.corrected is not None
            else "no corrected value"
        )
        inside = " and ".join(interval_words(part) for part in self.intervals) or "empty"
        budget = self.data.attrs["budget"]
        allowed = f" of {budget} allowed" if budget else ""
        lines = [
            f"{100 * self.level:g}% confidence set of {known.name}: {inside}",
            f"  delivered {self.estimate:.5g}; {corrected}",
            f"  width {self.width_percent:.3g}% of the delivered value; Monte Carlo error of the "
            f"edges {error['low']:.2g} and {error['high']:.2g}",
            f"  {len(known.candidates)} candidates, {known.replicas} replicas each; "
            f"{self.retrainings} runs of the pipeline{allowed}",
        ]
        return "\n".join([*lines, *(warning_words(line) for line in self.messages)])

    def plot(self, ax: Any = None) -> Any:
        """Draw simulated estimates over the candidates, the observed line and the set.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        from twoaxis.remedies.calibration.figure import plot_set

        return plot_set(self, ax)

    def to_netcdf(self, path: str | os.PathLike[str]) -> Path:
        """Write the set and its calibration to one netCDF file, whole or not at all."""
        return write_whole(path, lambda target: self.data.to_netcdf(target, engine="h5netcdf"))


def build_set(
    calibration: Calibration,
    estimate: float,
    level: float,
    statistic: Statistic,
    extra: Mapping[str, Any],
) -> ConfidenceSet:
    """Return the set; `extra` says what it cost: runs_used, budget, rounds, rerun."""
    attributes = {
        **calibration.data.attrs,
        "schema": SET_SCHEMA,
        "set_estimate": float(estimate),
        "level": float(level),
        "statistic": str(statistic),
        "runs_used": calibration.retrainings,
        "budget": 0,
        "rounds": 0,
        "rerun": 0,
        **extra,
    }
    return ConfidenceSet(calibration, calibration.data.assign_attrs(attributes))


SCHEMA = "twoaxis-calibration-1"


class Calibration:
    """How a pipeline behaves at every candidate. Made by `twoaxis.calibrate`.

    One calibration serves any number of observed datasets of the same layout and noise.

    Attributes
    ----------
    data : xarray.Dataset
        ``estimate`` and ``reason`` by candidate and replica, in physical units; plain xarray
        can open the file that `to_netcdf` writes.
    live : object or None
        The pipeline and the simulator, for observed data that come later; never saved.
    """

    def __init__(self, data: xr.Dataset, live: Any = None) -> None:
        self.data = data
        self.live = live

    def __getstate__(self) -> dict[str, Any]:
        # Pipelines are the user's code, which need not survive the way to another process.
        return {"data": self.data, "live": None}

    @property
    def name(self) -> str:
        """Name of the parameter."""
        return str(self.data.attrs["parameter"])

    @cached_property
    def parameter(self) -> Parameter:
        """The parameter: its bounds and coordinate."""
        known = self.data.attrs
        scale = float(known["scale"])
        return Parameter(
            bounds=(float(known["lower_bound"]), float(known["upper_bound"])),
            coordinate=known["coordinate"],
            scale=scale if scale > 0 else None,
        )

    @property
    def candidates(self) -> FloatArray:
        """Physical values of the candidates, ascending, shape (K,)."""
        return np.asarray(self.data["candidate"].values, dtype=float)

    @property
    def replicas(self) -> int:
        """Simulated datasets for each candidate."""
        return int(self.data.sizes["replica"])

    @property
    def retrainings(self) -> int:
        """How often the pipeline ran."""
        return int(self.data.attrs["retrainings"])

    @property
    def failures(self) -> int:
        """How many of these runs gave no usable value."""
        return int(self.data["estimate"].isnull().sum())

    @cached_property
    def coordinates(self) -> FloatArray:
        """Coordinates of the candidates, shape (K,)."""
        return self.parameter.to_coordinate(self.candidates)

    @cached_property
    def estimates(self) -> FloatArray:
        """Coordinates of the simulated estimates, shape (K, R); NaN where the pipeline failed."""
        return self.parameter.to_coordinate(self.data["estimate"].values)

    @property
    def messages(self) -> list[str]:
        """What a reader must know before using the numbers, as sentences."""
        return str(self.data.attrs["messages"]).splitlines()

    def confidence_set(
        self,
        data: Any = None,
        *,
        estimate: float | None = None,
        level: float = 0.9,
        statistic: Statistic = "signed",
    ) -> ConfidenceSet:
        """Return the candidates that could have led to what the pipeline delivered.

        The guarantee holds at the candidates of the calibration. Between them the bounds are
        interpolated linearly in the coordinate; nothing is refined here, and a message says where
        candidates are farther apart than the set is wide.

        Parameters
        ----------
        data : array, optional
            The observed values: the pipeline runs on them once more. Not possible with a
            calibration from a file, which holds no pipeline.
        estimate : float, optional
            What the pipeline delivered on the observed values, in place of `data`.
        level : float
            Confidence level.
        statistic : {"signed", "absolute"}
            See `twoaxis.confidence_set`.
        """
        check_level(level, statistic, self.replicas)
        # At call time: what runs a pipeline builds upon this module.
        from twoaxis.remedies.calibration.confidence_set import observed_estimate

        delivered, extra = observed_estimate(self, data, estimate)
        return build_set(self, delivered, level, statistic, extra)

    def summary(self, level: float = 0.9) -> pd.DataFrame:
        """Return a row for each candidate: median estimate, bias, spread, bounds and failures.

        ``bias_percent`` and ``sd_percent`` refer to the candidate; ``lower`` and ``upper`` are
        the estimates between which it is kept at `level`.
        """
        check_level(level, "signed", self.replicas)
        p, q, found = self.parameter, self.coordinates, self.estimates
        lower, upper = rank_bounds(found, q, level, "signed")
        known = [row[~np.isnan(row)] for row in found]
        spread = np.array([row.std(ddof=1) if len(row) > 1 else np.nan for row in known])
        unit = np.array([p.unit(value) for value in self.candidates])
        middle = p.to_value(medians(found))
        bias = [float(p.percent(m, c)) for m, c in zip(middle, self.candidates, strict=True)]
        return pd.DataFrame(
            {
                "median": middle,
                "bias_percent": bias,
                "sd_percent": 100 * spread / unit,
                "lower": p.to_value(lower),
                "upper": p.to_value(upper),
                "failures": np.isnan(found).sum(axis=1),
            },
            index=pd.Index(self.candidates, name=self.name),
        )

    def __repr__(self) -> str:
        head = (
            f"Calibration of {self.name}: {len(self.candidates)} candidates, {self.replicas} "
            f"replicas each, {self.retrainings} runs of the pipeline"
        )
        return "\n".join([head, *(warning_words(line) for line in self.messages)])

    def to_netcdf(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one netCDF file, whole or not at all."""
        return write_whole(path, lambda target: self.data.to_netcdf(target, engine="h5netcdf"))


BOTH = ("candidate", "replica")
REQUIRED: Layout = {
    "candidate": (("candidate",), "iuf"),
    "replica": (("replica",), "iu"),
    "estimate": (BOTH, "f"),
    "reason": (BOTH, "UOT"),
    "round": (("candidate",), "iu"),
    "simulated": (("candidate",), "biu"),
}
ATTRIBUTES = (
    "parameter",
    "coordinate",
    "lower_bound",
    "upper_bound",
    "scale",
    "seed",
    "retrainings",
    "messages",
)


def load_calibration(path: str | os.PathLike[str]) -> Calibration:
    """Load a `Calibration` from a netCDF file. It holds no pipeline any more."""
    path = existing_netcdf(path)
    data = _read(path, SCHEMA, "Calibration.to_netcdf", ATTRIBUTES)
    found = Calibration(data)

    def use() -> None:
        _check(found)
        repr(found)

    refuse(path, contradiction(use))
    return found


def load_confidence_set(path: str | os.PathLike[str]) -> ConfidenceSet:
    """Load a `ConfidenceSet`, with its calibration, from a netCDF file."""
    path = existing_netcdf(path)
    data = _read(path, SET_SCHEMA, "ConfidenceSet.to_netcdf", (*ATTRIBUTES, *OF_SETS))
    plain = {k: v for k, v in data.attrs.items() if k not in OF_SETS} | {"schema": SCHEMA}
    calibration = Calibration(data.drop_attrs().assign_attrs(plain))
    found = ConfidenceSet(calibration, data)

    def use() -> None:
        _check(calibration)
        check_level(found.level, found.statistic, calibration.replicas)
        repr(found), found.summary(), found.candidates

    refuse(path, contradiction(use))
    return found


def _read(path: Path, schema: str, writer: str, attributes: tuple[str, ...]) -> xr.Dataset:
    data = read_netcdf(path, load_dataset, writer, "write it again")
    check_schema(data.attrs, schema, path, f"load a file that {writer} wrote")
    refuse(path, layout_fault(data, attributes, REQUIRED))
    return data


def _check(found: Calibration) -> None:
    """Look for numbers that no calibration has."""
    values = found.candidates
    if len(values) < 2 or not (np.isfinite(values).all() and (np.diff(values) > 0).all()):
        raise ValueError("candidates that do not ascend")
    if found.parameter.coordinate == "log" and values[0] <= 0:
        raise ValueError("candidates that are not positive")
    with np.errstate(all="raise"):
        coordinates = found.estimates
    known = found.data["estimate"].values
    if not (np.isfinite(coordinates) | np.isnan(known)).all():
        raise ValueError("estimates that are not finite")
