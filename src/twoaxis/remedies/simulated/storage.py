"""Loading a simulated audit: nothing in the file is executed, strange files are refused."""

from __future__ import annotations

import os
from pathlib import Path

import xarray as xr

from twoaxis.errors import InputError
from twoaxis.files import existing_netcdf
from twoaxis.netcdf import read_netcdf
from twoaxis.remedies.simulated.assemble import BOTH, SCHEMA
from twoaxis.remedies.simulated.result import SimulatedAudit

ONE = ("parameter",)
REQUIRED: dict[str, tuple[tuple[str, ...], str]] = {
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
    data = read_netcdf(path, _opened, "SimulatedAudit.to_netcdf", "write it again")
    if data.attrs.get("schema") != SCHEMA:
        raise InputError(
            f"a file with schema {SCHEMA!r}",
            f"schema {data.attrs.get('schema')!r} in {str(path)!r}",
            "load a file that SimulatedAudit.to_netcdf wrote",
        )
    found = SimulatedAudit(data)
    fault = _first_fault(data) or _unusable(found)
    if fault:
        raise InputError(
            "a complete file",
            f"{str(path)!r} with {fault}",
            "write it again; the file was changed after it was saved",
        )
    return found


def _opened(path: Path) -> xr.Dataset:
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        return opened.load()


def _first_fault(data: xr.Dataset) -> str:
    for name in ATTRIBUTES:
        if name not in data.attrs:
            return f"no attribute {name}"
    for name, (dims, kinds) in REQUIRED.items():
        if name not in data.variables:
            return f"no {name}"
        variable = data.variables[name]
        if variable.dims != dims or not variable.size or variable.dtype.kind not in kinds:
            return f"{name} of {variable.dtype} with dimensions {variable.dims}"
    return ""


def _unusable(found: SimulatedAudit) -> str:
    """Try what a reader will ask of it."""
    try:
        repr(found), found.to_dataframe()
    # Whatever it is that contradictory values lead to.
    except Exception as error:
        return f"values that contradict each other ({type(error).__name__}: {error})"
    return ""
