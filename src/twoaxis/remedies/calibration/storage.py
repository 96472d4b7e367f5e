"""Loading calibrations and sets: nothing in the file is executed, strange files are refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import xarray as xr

from twoaxis.files import existing_netcdf
from twoaxis.netcdf import (
    check_schema,
    contradiction,
    layout_fault,
    load_dataset,
    read_netcdf,
    refuse,
)
from twoaxis.netcdf.contents import Layout
from twoaxis.remedies.calibration.calibration import SCHEMA, Calibration
from twoaxis.remedies.calibration.ranks import check_level
from twoaxis.remedies.calibration.set_result import OF_SETS, SET_SCHEMA, ConfidenceSet

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
