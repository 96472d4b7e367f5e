"""Writing a frozen residual without the code behind it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.exported.layout import AFFINE, OPTIONAL, SCHEMA, VARIABLES, labelled, seal
from twoaxis.exported.reduction import AffineForm, Form
from twoaxis.exported.sampling import reduce_residual
from twoaxis.files import ensure_writable, write_whole
from twoaxis.frozen import FrozenResidual, check_repeatable, rounding_unit
from twoaxis.version import __version__
from twoaxis.views.storage import view_to_plain

FloatArray = NDArray[np.float64]


def export_residual(frozen: FrozenResidual, path: str | os.PathLike[str]) -> Path:
    """Write what an audit needs of a frozen residual; see `FrozenResidual.export`."""
    ensure_writable(path)  # sampling may take a while
    center = _center(frozen)
    values = frozen.physical(center)
    output = frozen.raw(values)
    parts = output if isinstance(output, (tuple, list)) else [output]
    at_center = frozen.checked(output, values)
    check_repeatable(frozen, output, at_center, values)
    reduced = reduce_residual(frozen, center, single=rounding_unit(output) > 1e-12)
    plain, array = (None, None)
    if frozen.view is not None:
        plain, array = view_to_plain(frozen.view, frozen.points)
    variables = {
        **_parameters(frozen, values),
        "equation_size": _known("equation_size", [int(np.prod(np.shape(p))) for p in parts]),
        "residual_center": _known("residual_center", at_center),
        "jacobian_center": _known(
            "jacobian_center", reduced.form.jacobian(frozen.parameters, values)
        ),
        **_form(reduced.form, frozen.names),
        **_places(frozen),
    }
    if array is not None:
        dims = tuple(f"view_{k}" for k in range(array.ndim))
        variables["view_array"] = labelled(dims, array, "1", "numbers of the training view")
    attributes = {
        "schema": SCHEMA,
        "title": f"twoaxis: a frozen residual, {reduced.form.in_words()}",
        "written_by": f"twoaxis {__version__}",
        "form": "affine" if isinstance(reduced.form, AffineForm) else "sampled",
        "accuracy": reduced.accuracy,
        "checked": reduced.checked,
        "tolerance": reduced.tolerance,
        "calls": reduced.calls,
        "derivative": "exact" if _differentiable(frozen, parts[0]) else "difference",
        "several_points": int(isinstance(frozen.points, tuple)),
        "field_name": str(frozen.field_name),
        "view": json.dumps(plain),
    }
    data = xr.Dataset(variables, attrs=attributes)
    return write_whole(path, lambda target: _write(data, target))


def _write(data: xr.Dataset, target: Path) -> None:
    try:
        data.attrs["sha256"] = seal(data)
        data.to_netcdf(target, engine="h5netcdf")
    except (ValueError, TypeError) as error:  # text that HDF5 cannot hold
        raise InputError(
            "names and notes that a netCDF file can hold",
            f"{type(error).__name__}: {error}",
            "leave NUL characters and broken Unicode out of them",
        ) from error


def _center(frozen: FrozenResidual) -> FloatArray:
    """Coordinates of the truth, else of what was delivered, else of the middle of the bounds."""
    for kind in ("truth", "delivered"):
        known = {name: getattr(p, kind) for name, p in frozen.parameters.items()}
        if all(value is not None for value in known.values()):
            return frozen.coordinates(known)
    low, high = frozen.coordinate_bounds
    return np.asarray((low + high) / 2)


def _differentiable(frozen: FrozenResidual, first: Any) -> bool:
    """Whether scores of this residual have exact derivatives rather than differences.

    The loaded residual then brings its exact ones along, and otherwise leaves them to the same
    differences: both ways a score is what it was.
    """
    libraries = {base.__module__.partition(".")[0] for base in type(first).__mro__}
    return frozen.jacobian is not None or bool(libraries & {"jax", "jaxlib", "torch"})


def _known(name: str, values: Any) -> xr.Variable:
    dims, units, meaning = (VARIABLES | AFFINE | OPTIONAL)[name]
    return labelled(dims, np.asarray(values), units, meaning)


def _text(name: str, values: list[str]) -> xr.Variable:
    dims, units, meaning = (VARIABLES | OPTIONAL)[name]
    return labelled(dims, np.array(values, dtype=object), units, meaning)


def _parameters(frozen: FrozenResidual, center: dict[str, float]) -> dict[str, xr.Variable]:
    known = list(frozen.parameters.values())
    found = {
        "parameter": _text("parameter", frozen.names),
        "coordinate": _text("coordinate", [p.coordinate for p in known]),
        "note": _text("note", [str(note) for note in frozen.notes]),
        "lower_bound": _known("lower_bound", [p.bounds[0] for p in known]),
        "upper_bound": _known("upper_bound", [p.bounds[1] for p in known]),
        "center": _known("center", list(center.values())),
    }
    for name in ("truth", "delivered", "start", "scale"):
        values = [getattr(p, name) for p in known]
        found[name] = _known(name, [np.nan if v is None else float(v) for v in values])
    return found


def _form(form: Form, names: list[str]) -> dict[str, xr.Variable]:
    if isinstance(form, AffineForm):
        return {
            "constant": _known("constant", form.constant),
            "slope": _known("slope", form.slopes),
        }
    dims = tuple(f"node_{j}" for j in range(len(names)))
    found = {
        f"nodes_{j}": labelled(
            (dims[j],), nodes, "coordinate of the parameter", f"Chebyshev nodes of parameter {j}"
        )
        for j, nodes in enumerate(form.grid.nodes)
    }
    meaning = "residual at the nodes"
    return found | {
        "samples": labelled((*dims, "value"), form.samples, "unit of the residual", meaning)
    }


def _places(frozen: FrozenResidual) -> dict[str, xr.Variable]:
    several = frozen.points if isinstance(frozen.points, tuple) else (frozen.points,)
    meaning = "where the residual is evaluated, a row for each point"
    found = {
        f"points_{n}": labelled((f"point_{n}", f"axis_{n}"), each, "unit of the axis", meaning)
        for n, each in enumerate(several)
    }
    if frozen.field is not None:
        found["field"] = _known("field", frozen.field)
    if frozen.axes:
        found["axis_name"] = _text("axis_name", [str(name) for name in frozen.axes])
    return found
