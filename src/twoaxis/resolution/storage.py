"""Loading a saved resolution: nothing in the file is executed, and strange files are refused."""

from __future__ import annotations

import os

import xarray as xr

from twoaxis.errors import InputError
from twoaxis.files import existing_netcdf
from twoaxis.netcdf import check_schema, contradiction, load_dataset, read_netcdf, refuse
from twoaxis.resolution.assemble import SCHEMA
from twoaxis.resolution.result import Resolution

REPLICA = ("parameter", "layout", "replica")
LAYOUT = ("parameter", "layout")
# What every summary needs, and its dimensions; a file of our schema without it was changed.
REQUIRED: dict[str, tuple[str, ...]] = {
    "parameter": ("parameter",),
    "layout": ("layout",),
    "replica": ("replica",),
    "center": ("parameter",),
    "estimate": REPLICA,
    "error_percent": REPLICA,
    "gauss_newton_error_percent": REPLICA,
    "fisher_error_percent": LAYOUT,
    "noiseless_bias_percent": LAYOUT,
    "covered": REPLICA,
    "on_bound": REPLICA,
}
NAMES = ("parameter", "layout")
# What summaries and pictures ask of the attributes.
ATTRIBUTES = ("centered_on", "messages", "level", "method")


def load_resolution(path: str | os.PathLike[str]) -> Resolution:
    """Load a `Resolution` from a netCDF file. Nothing in the file is executed."""
    path = existing_netcdf(path)
    data = read_netcdf(path, load_dataset, "Resolution.to_netcdf", "write it again")
    again = "load it with the version of twoaxis that wrote it, or make it again"
    check_schema(data.attrs, SCHEMA, path, again)
    missing = [name for name in REQUIRED if name not in data.variables]
    if missing:
        raise InputError(
            "a complete file",
            f"{str(path)!r} without {', '.join(missing)}",
            "write it again; the file was changed after it was saved",
        )
    found = Resolution(data)
    refuse(path, _first_fault(data) or contradiction(lambda: _use(found)))
    return found


def _first_fault(data: xr.Dataset) -> str:
    """Compare attributes, dimensions and kinds with the layout; say what differs."""
    for name in ATTRIBUTES:
        if name not in data.attrs:
            return f"no attribute {name}"
    for name, dims in REQUIRED.items():
        variable = data.variables[name]
        if variable.dims != dims:
            return f"the dimensions {variable.dims} of {name}"
        if not variable.size or variable.dtype.kind not in ("UOT" if name in NAMES else "biuf"):
            return f"{variable.size} values of {variable.dtype} as {name}"
    for name in NAMES:
        if len(set(data[name].values.tolist())) != data.sizes[name]:
            return f"a {name} that stands there twice"
    return ""


def _use(found: Resolution) -> None:
    """Do what a reader will ask of it."""
    repr(found), found._repr_html_(), found.excluded_parameters
    if "direction_vector" in found.data:
        found.directions()
