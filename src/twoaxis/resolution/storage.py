"""Loading a saved resolution: nothing in the file is executed, and strange files are refused."""

from __future__ import annotations

import os

import xarray as xr

from twoaxis.errors import InputError
from twoaxis.files import existing_netcdf
from twoaxis.resolution.assemble import SCHEMA
from twoaxis.resolution.result import Resolution

# What every summary needs; a file of our schema without them has been tampered with.
REQUIRED = (
    "parameter",
    "layout",
    "replica",
    "center",
    "estimate",
    "error_percent",
    "gauss_newton_error_percent",
    "fisher_error_percent",
    "noiseless_bias_percent",
    "covered",
    "on_bound",
)


def load_resolution(path: str | os.PathLike[str]) -> Resolution:
    """Load a `Resolution` from a netCDF file. Nothing in the file is executed."""
    path = existing_netcdf(path)
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            data = opened.load()
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise InputError(
            "a netCDF file that Resolution.to_netcdf wrote",
            f"{str(path)!r}, which cannot be read ({type(error).__name__})",
            "write it again; the file may be damaged or of another kind",
        ) from error
    schema = data.attrs.get("schema")
    if schema != SCHEMA:
        raise InputError(
            f"a file with schema {SCHEMA!r}",
            f"schema {schema!r} in {str(path)!r}",
            "load it with the version of twoaxis that wrote it, or make it again",
        )
    missing = [name for name in REQUIRED if name not in data.variables]
    if missing:
        raise InputError(
            "a complete file",
            f"{str(path)!r} without {', '.join(missing)}",
            "write it again; the file was changed after it was saved",
        )
    return Resolution(data)
