"""Loading calibrations and sets: nothing in the file is executed, strange files are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

from twoaxis.errors import InputError
from twoaxis.files import existing_netcdf
from twoaxis.netcdf import read_netcdf
from twoaxis.remedies.calibration.calibration import SCHEMA, Calibration
from twoaxis.remedies.calibration.ranks import check_level
from twoaxis.remedies.calibration.set_result import OF_SETS, SET_SCHEMA, ConfidenceSet

BOTH = ("candidate", "replica")
REQUIRED: dict[str, tuple[tuple[str, ...], str]] = {
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
    data, where = _read(path, SCHEMA, "Calibration.to_netcdf", ATTRIBUTES)
    found = Calibration(data)

    def used() -> None:
        _check(found)
        repr(found)

    _try(where, used)
    return found


def load_confidence_set(path: str | os.PathLike[str]) -> ConfidenceSet:
    """Load a `ConfidenceSet`, with its calibration, from a netCDF file."""
    wanted = (*ATTRIBUTES, *OF_SETS)
    data, where = _read(path, SET_SCHEMA, "ConfidenceSet.to_netcdf", wanted)
    plain = {k: v for k, v in data.attrs.items() if k not in OF_SETS} | {"schema": SCHEMA}
    calibration = Calibration(data.drop_attrs().assign_attrs(plain))
    found = ConfidenceSet(calibration, data)

    def used() -> None:
        _check(calibration)
        check_level(found.level, found.statistic, calibration.replicas)
        repr(found), found.summary(), found.candidates

    _try(where, used)
    return found


def _read(
    path: str | os.PathLike[str], schema: str, writer: str, attributes: tuple[str, ...]
) -> tuple[xr.Dataset, str]:
    path = existing_netcdf(path)
    data = read_netcdf(path, _opened, writer, "write it again")
    came = data.attrs.get("schema")
    if came != schema:
        raise InputError(
            f"a file with schema {schema!r}",
            f"schema {came!r} in {str(path)!r}",
            f"load a file that {writer} wrote",
        )
    fault = _first_fault(data, attributes)
    if fault:
        raise _changed(str(path), fault)
    return data, str(path)


def _opened(path: Path) -> xr.Dataset:
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        return opened.load()


def _first_fault(data: xr.Dataset, attributes: tuple[str, ...]) -> str:
    for name in attributes:
        if name not in data.attrs:
            return f"no attribute {name}"
    for name, (dims, kinds) in REQUIRED.items():
        if name not in data.variables:
            return f"no {name}"
        variable = data.variables[name]
        if variable.dims != dims or not variable.size or variable.dtype.kind not in kinds:
            return f"{name} of {variable.dtype} with dimensions {variable.dims}"
    return ""


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


def _try(where: str, use: Callable[[], None]) -> None:
    """Try what a reader will ask of it."""
    try:
        use()
    # Whatever it is that contradictory values lead to.
    except Exception as error:
        fault = f"values that contradict each other ({type(error).__name__}: {error})"
        raise _changed(where, fault) from error


def _changed(where: str, fault: str) -> InputError:
    return InputError(
        "a complete file",
        f"{where!r} with {fault}",
        "write it again; the file was changed after it was saved",
    )
