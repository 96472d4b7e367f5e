"""Loading a saved audit: nothing in the file is executed, and strange files are refused."""

from __future__ import annotations

import os
from pathlib import Path

import xarray as xr

from twoaxis.diagnosis.result import Audit
from twoaxis.diagnosis.tree import REQUIRED_GROUPS, SCHEMA, TEXT, TREE, Variable, group_of
from twoaxis.files import existing_netcdf
from twoaxis.netcdf import check_schema, contradiction, read_netcdf, refuse

ATTRIBUTES = {
    "/": ("centered_on", "route", "reason", "view", "training_view", "view_relation"),
    "/score": ("view", "derivative"),
    "/scan": (
        "status",
        "affine",
        "affine_checked",
        "affine_deviation",
        "start_spread",
        "view",
    ),
    "/field": ("points_total", "points_kept", "field_name"),
    "/spectrum": ("basis", "complete"),
    "/resimulation": ("layout", "observations"),
    "/matched": ("layout",),
}
# What the words and pictures of axis 1 need; its other variables are its own affair.
RESOLUTION = (
    "estimate",
    "center",
    "deviation_percent",
    "fisher_deviation_percent",
    "fisher_sd_percent",
    "used",
)


def load_audit(path: str | os.PathLike[str]) -> Audit:
    """Load an `Audit` from a netCDF file. Nothing in the file is executed.

    Parameters
    ----------
    path : path-like
        Written by ``audit.to_netcdf``.
    """
    path = existing_netcdf(path)
    tree = read_netcdf(path, _opened, "Audit.to_netcdf", "write it again")
    again = "load it with the version of twoaxis that wrote it, or make it again"
    check_schema(tree.attrs, SCHEMA, path, again)
    audit = Audit(tree)
    refuse(path, _first_fault(tree) or contradiction(lambda: _use(audit)))
    tree.name = "audit"
    return audit


def _opened(path: Path) -> xr.DataTree:
    with xr.open_datatree(path, engine="h5netcdf", phony_dims="sort") as opened:
        return opened.load()


def _first_fault(tree: xr.DataTree) -> str:
    """Compare groups, variables, dimensions and kinds with the layout; say what differs."""
    present = {node.path for node in tree.subtree}
    for path in REQUIRED_GROUPS:
        if path not in present:
            return f"no group {path}"
    for path in [p for p in TREE if p in present]:
        data = group_of(tree, path)
        for name in ATTRIBUTES.get(path, ()):
            if name not in data.attrs:
                return f"no attribute {name} in {path}"
        for name, known in TREE[path].items():
            if name in data.variables:
                fault = _variable_fault(data, path, name, known)
            else:
                fault = f"no variable {name} in {path}" if known.required else ""
            if fault:
                return fault
    if "/resolution" in present:
        for name in RESOLUTION:
            if name not in group_of(tree, "/resolution").variables:
                return f"no variable {name} in /resolution"
    return ""


def _variable_fault(data: xr.Dataset, path: str, name: str, known: Variable) -> str:
    variable = data[name]
    if variable.dims != known.dims:
        return f"the dimensions {variable.dims} of {name} in {path}"
    # An empty list of texts comes back without a kind.
    kinds = "UOT" if known.units == TEXT else "biuf"
    if variable.size and variable.dtype.kind not in kinds:
        return f"values of {variable.dtype} as {name} in {path}"
    return ""


def _use(audit: Audit) -> None:
    """Do everything that a reader will ask of it."""
    repr(audit), audit._repr_html_(), audit.summary(), audit.directions()
    repr(audit.score), repr(audit.scan), audit.delivery, audit.resolution, audit.tolerance
