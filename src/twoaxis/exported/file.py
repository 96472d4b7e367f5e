"""Writing a frozen residual without the code behind it.

Loading an exported residual: nothing in the file is executed, strange files are refused.

The layout of an exported residual: one netCDF file that plain xarray opens.

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
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.exported.interpolant import (
    AffineForm,
    Form,
    SampledForm,
    TensorGrid,
    as_functions,
    nodes_between,
    reduce_residual,
)
from twoaxis.files import ensure_writable, existing_netcdf, write_whole
from twoaxis.frozen import FrozenResidual, check_repeatable, rounding_unit
from twoaxis.netcdf import read_netcdf
from twoaxis.parameters import Parameter
from twoaxis.version import __version__
from twoaxis.views.encoding import view_from_plain, view_to_plain
from twoaxis.views.view import View

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


def load_residual(path: str | os.PathLike[str]) -> FrozenResidual:
    """Load a frozen residual that `FrozenResidual.export` wrote. Nothing in it is executed.

    Neither the library that trained the field nor the field itself is needed. Scores, scans,
    spectra and audits of the loaded residual have the numbers of the original one, to the
    accuracy that its last note tells; it cannot be moved to other points.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    FrozenResidual

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> frozen = ta.FrozenResidual(
    ...     lambda k: np.exp(-k * np.arange(4.0)) - 0.2, points=np.arange(4.0),
    ...     parameters={"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))},
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = load_residual(frozen.export(folder + "/residual.nc"))
    >>> bool(abs(loaded.residual(k=1.3) - frozen.residual(k=1.3)).max() < 1e-11)
    True
    """
    path = existing_netcdf(path)
    data = _opened(path)
    try:
        return _frozen(data)
    except InputError as error:
        fault = str(error)
        cause: Exception = error
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
        fault = f"values that contradict each other ({type(error).__name__}: {error})"
        cause = error
    raise _changed(path, fault) from cause


def _opened(path: Path) -> xr.Dataset:
    """Return the checked content of a file, or say why it cannot be had."""
    data = read_netcdf(path, _loaded, "FrozenResidual.export", "export it again")
    schema = data.attrs.get("schema")
    if schema != SCHEMA:
        raise InputError(
            f"a file with schema {SCHEMA!r}",
            f"schema {str(schema)[:80]!r} in {str(path)!r}",
            "load it with the version of twoaxis that wrote it, or export it again",
        )
    fault = _first_fault(data)
    if fault:
        raise _changed(path, fault)
    return data


def _loaded(path: Path) -> xr.Dataset:
    with xr.open_dataset(path, engine="h5netcdf", decode_cf=False) as opened:
        return opened.load()


def _changed(path: Path, fault: str) -> InputError:
    return InputError(
        "a complete, unchanged export",
        f"{str(path)!r} with {fault}",
        "export it again; the file was changed or damaged after it was written",
    )


def _first_fault(data: xr.Dataset) -> str:
    """Compare attributes, variables, dimensions and kinds with the layout; say what differs."""
    for name in ATTRIBUTES:
        if name not in data.attrs:
            return f"no attribute {name}"
    wanted: dict[str, tuple[tuple[str, ...], bool]] = {
        name: (dims, units == TEXT) for name, (dims, units, _) in VARIABLES.items()
    }
    if data.attrs["form"] not in ("affine", "sampled"):
        return f"the form {str(data.attrs['form'])[:40]!r}"
    if data.attrs["form"] == "affine":
        wanted |= {name: (dims, False) for name, (dims, _, _) in AFFINE.items()}
    else:
        nodes = tuple(f"node_{j}" for j in range(data.sizes.get("parameter", 0)))
        wanted |= {f"nodes_{j}": ((each,), False) for j, each in enumerate(nodes)}
        wanted["samples"] = ((*nodes, "value"), False)
    for name in [*wanted, "points_0"]:
        if name not in data.variables:
            return f"no variable {name}"
    for name, (own, units, _) in OPTIONAL.items():
        if name in data.variables:
            wanted[name] = (own, units == TEXT)
    for name, (dims, text) in wanted.items():
        variable = data.variables[name]
        if variable.dims != dims:
            return f"the dimensions {variable.dims} of {name}"
        if variable.size and variable.dtype.kind not in ("OUTS" if text else "iuf"):
            return f"values of {variable.dtype} as {name}"
    if data.attrs.get("sha256") != seal(data):
        return "another checksum than its content has"
    return ""


def _frozen(data: xr.Dataset) -> FrozenResidual:
    parameters = _parameters_reading(data)
    points = _points(data)
    sizes = [int(n) for n in data["equation_size"].values]
    if not sizes or min(sizes) < 1 or sum(sizes) != data.sizes["value"]:
        raise ValueError(f"equations of {sizes[:9]} values, {data.sizes['value']} in all")
    form = _form_reading(data, parameters)
    residual, jacobian = as_functions(form, parameters, sizes)
    told = (
        f"loaded from an export: {form.in_words()}, accurate to {_accuracy(data):.1g} at "
        f"{int(data.attrs['checked'])} parameter values where the two were compared"
    )
    frozen = FrozenResidual(
        residual,
        parameters,
        points,
        view=_view(data),
        jacobian=jacobian if data.attrs["derivative"] == "exact" else None,
        field=data["field"].values if "field" in data else None,
        field_name=str(data.attrs["field_name"]),
        axes=tuple(_texts(data, "axis_name")) if "axis_name" in data else (),
        notes=(*_texts(data, "note"), told),
    )
    _check_center(frozen, form, data)
    if frozen.view is not None:
        bound = frozen.view.bind(frozen.points)
        if bound.size != sum(sizes):
            raise ValueError(f"a view of {bound.size} values, and {sum(sizes)} of the residual")
    return frozen


def _parameters_reading(data: xr.Dataset) -> dict[str, Parameter]:
    names = _texts(data, "parameter")
    if len(set(names)) != len(names):
        raise ValueError("parameters of the same name")
    columns: dict[str, Any] = {
        name: [None if math.isnan(v) else float(v) for v in data[name].values.astype(float)]
        for name in ("lower_bound", "upper_bound", "truth", "delivered", "start", "scale")
    }
    kinds: list[Any] = _texts(data, "coordinate")
    return {
        name: Parameter(
            bounds=(columns["lower_bound"][j], columns["upper_bound"][j]),
            coordinate=kinds[j],
            **{key: columns[key][j] for key in ("truth", "delivered", "start", "scale")},
        )
        for j, name in enumerate(names)
    }


def _points(data: xr.Dataset) -> Any:
    count = sum(str(name).startswith("points_") for name in data.variables)
    each = tuple(np.asarray(data[f"points_{n}"].values, dtype=float) for n in range(count))
    several = int(data.attrs["several_points"])
    if several not in (0, 1) or (not several and count != 1):
        raise ValueError(f"{count} sets of points, and several_points={several}")
    return each if several else each[0]


def _form_reading(data: xr.Dataset, parameters: dict[str, Parameter]) -> Form:
    if data.attrs["form"] == "affine":
        return AffineForm(*(_finite(data, name) for name in ("constant", "slope")))
    nodes = []
    for j, parameter in enumerate(parameters.values()):
        own = _finite(data, f"nodes_{j}")
        low, high = parameter.coordinate_bounds
        slack = 1e-9 * (high - low)
        right = len(own) >= 2 and own[0] <= low + slack and own[-1] >= high - slack
        if not right or np.abs(own - nodes_between(own[0], own[-1], len(own))).max() > slack:
            raise ValueError(f"nodes_{j} that are not Chebyshev nodes over the bounds")
        nodes.append(own)
    return SampledForm(TensorGrid(tuple(nodes)), _finite(data, "samples"))


def _check_center(frozen: FrozenResidual, form: Form, data: xr.Dataset) -> None:
    """The form must give back what the file says of the centre."""
    values = dict(zip(frozen.names, data["center"].values.astype(float).tolist(), strict=True))
    limit = 10 * float(data.attrs["tolerance"])
    for name, found in (
        ("residual_center", frozen.checked(frozen.raw(values), values)),
        ("jacobian_center", form.jacobian(frozen.parameters, values)),
    ):
        stored = _finite(data, name)
        size = float(np.abs(stored).max()) + float(
            np.abs(frozen.at(frozen.coordinates(values))).max()
        )
        if not np.abs(found - stored).max() <= limit * size:
            raise ValueError(f"{name} that the rest of the file does not give")


def _accuracy(data: xr.Dataset) -> float:
    accuracy, tolerance = float(data.attrs["accuracy"]), float(data.attrs["tolerance"])
    if not 0 <= accuracy <= tolerance < 1:
        raise ValueError(f"an accuracy of {accuracy:g} and a tolerance of {tolerance:g}")
    return accuracy


def _view(data: xr.Dataset) -> View | None:
    plain = json.loads(str(data.attrs["view"]))
    array = np.asarray(data["view_array"].values, dtype=float) if "view_array" in data else None
    return None if plain is None else view_from_plain(plain, array)


def _finite(data: xr.Dataset, name: str) -> FloatArray:
    values = np.asarray(data[name].values, dtype=float)
    if not np.isfinite(values).all():
        raise ValueError(f"values of {name} that are not finite")
    return values


def _texts(data: xr.Dataset, name: str) -> list[str]:
    return [each.decode() if isinstance(each, bytes) else str(each) for each in data[name].values]
