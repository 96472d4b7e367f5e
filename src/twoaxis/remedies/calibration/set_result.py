"""A confidence set as its reader meets it: intervals, a corrected estimate, and their doubts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.files import write_whole
from twoaxis.remedies.calibration.correction import Correction, correct
from twoaxis.remedies.calibration.invert import SetInterval, intervals
from twoaxis.remedies.calibration.monte_carlo import monte_carlo
from twoaxis.remedies.calibration.ranks import (
    Statistic,
    guaranteed_level,
    medians,
    p_values,
    rank_bounds,
)
from twoaxis.remedies.calibration.words import interval_words, set_messages, warning_words

if TYPE_CHECKING:
    from twoaxis.remedies.calibration.calibration import Calibration

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
        from twoaxis.remedies.calibration.picture import plot_set

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
