"""What a pipeline answered on simulated data, candidate by candidate: a labelled result."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.files import write_whole
from twoaxis.parameters import Parameter
from twoaxis.remedies.calibration.ranks import Statistic, check_level, medians, rank_bounds
from twoaxis.remedies.calibration.set_result import ConfidenceSet, build_set
from twoaxis.remedies.calibration.words import warning_words

FloatArray = NDArray[np.float64]

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
        from twoaxis.remedies.calibration.observing import observed_estimate

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
