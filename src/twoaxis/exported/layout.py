"""The layout of an exported residual: one netCDF file that plain xarray opens.

Dimensions: ``parameter``; ``value``, all residual values, equation after equation; ``equation``;
``note``; and some that are numbered, because equations may have points of their own.

Always there
    ``parameter``, the names; ``lower_bound``, ``upper_bound``, ``truth``, ``delivered``,
    ``start``, ``scale`` (NaN where there is none), ``coordinate``, ``center`` (parameter).
    ``equation_size`` (equation): how many values belong to each. ``residual_center`` (value) and
    ``jacobian_center`` (value, parameter): r, and its derivatives by the physical parameters.
    ``note`` (note). ``points_0`` (point_0, axis_0), and ``points_1`` and so on where equations
    have points of their own.
Form "affine"
    ``constant`` (value), ``slope`` (value, parameter): r(p) = constant + slope p.
Form "sampled"
    ``nodes_0`` (node_0) and so on: Chebyshev nodes of each coordinate; ``samples`` (node_0, ...,
    value): the residual there.
Where the frozen residual has them
    ``field`` (place), ``axis_name`` (named_axis), ``view_array`` (view_0, ...).
Attributes of the file
    ``schema``, ``title``, ``written_by``; ``form``; ``accuracy`` and ``tolerance``, relative;
    ``checked``: the number of parameter values at which accuracy was measured; ``calls``;
    ``derivative``: "exact" or "difference"; ``several_points`` (0 or 1); ``field_name``;
    ``view``: JSON; ``sha256``, over everything else.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import xarray as xr

SCHEMA = "twoaxis.residual/1"

PHYSICAL = "unit of the parameter"
RESIDUAL = "unit of the residual"
TEXT = "text"

# Name: dimensions, unit, meaning.
VARIABLES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "parameter": (("parameter",), TEXT, "names of the parameters"),
    "lower_bound": (("parameter",), PHYSICAL, "lower bound"),
    "upper_bound": (("parameter",), PHYSICAL, "upper bound"),
    "truth": (("parameter",), PHYSICAL, "true value; NaN where unknown"),
    "delivered": (("parameter",), PHYSICAL, "value that training returned; NaN where unknown"),
    "start": (("parameter",), PHYSICAL, "value at which training started; NaN where unknown"),
    "scale": (("parameter",), PHYSICAL, "what percentages refer to; NaN for the value itself"),
    "coordinate": (("parameter",), TEXT, "log or linear"),
    "center": (("parameter",), PHYSICAL, "where residual_center and jacobian_center are taken"),
    "equation_size": (("equation",), "1", "number of residual values of each equation"),
    "residual_center": (("value",), RESIDUAL, "residual at the centre"),
    "jacobian_center": (
        ("value", "parameter"),
        "unit of the residual per unit of the parameter",
        "derivatives of the residual at the centre by the physical parameters",
    ),
    "note": (("note",), TEXT, "what a reader must know"),
}
AFFINE = {
    "constant": (("value",), RESIDUAL, "residual where all parameters are zero"),
    "slope": (
        ("value", "parameter"),
        "unit of the residual per unit of the parameter",
        "derivatives of the residual by the physical parameters, the same everywhere",
    ),
}
OPTIONAL = {
    "field": (("place",), "unit of the field", "learned field at the points, for pictures"),
    "axis_name": (("named_axis",), TEXT, "names of the coordinates of a point"),
}
ATTRIBUTES = (
    "title",
    "written_by",
    "form",
    "accuracy",
    "checked",
    "tolerance",
    "calls",
    "derivative",
    "several_points",
    "field_name",
    "view",
)


def labelled(dims: tuple[str, ...], values: Any, units: str, meaning: str) -> xr.Variable:
    """Return a variable that says what it is."""
    return xr.Variable(dims, values, {"long_name": meaning, "units": units})


def seal(data: xr.Dataset) -> str:
    """Return the checksum of all variables and attributes, whatever their order in the file."""
    found = hashlib.sha256()
    for name in sorted(str(each) for each in data.variables):
        variable = data.variables[name]
        found.update(f"{name}{variable.dims}{variable.shape}".encode(errors="surrogatepass"))
        values = np.asarray(variable.values)
        if values.dtype.kind in "iufb":
            found.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
        else:
            found.update(
                "\0".join(map(str, values.ravel().tolist())).encode(errors="surrogatepass")
            )
    for name in sorted(map(str, data.attrs)):
        if name != "sha256":
            found.update(f"\0{name}={data.attrs[name]}".encode(errors="surrogatepass"))
    return found.hexdigest()
