"""A frozen residual as labelled data: one netCDF file in place of a model and its library.

The file holds points, parameters, the training view, r and J at a center, and the residual as
a function of the parameters: "affine", ``r(p) = constant + slope p``, or "sampled" at Chebyshev
nodes of the coordinates, with an accuracy that was measured. Everything is one
`xarray.Dataset`, described in `LAYOUT`; plain xarray opens it.

Points of equations that have their own are stored one set after another, in ``points``;
``point_set_size`` and ``point_set_axes`` say how many rows and columns belong to each. Likewise
``nodes`` holds the nodes of all parameters one after another, ``node_count`` of each, and
``samples`` one row for each combination of them, the last parameter changing fastest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
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
from twoaxis.files import ensure_writable
from twoaxis.frozen import FrozenResidual, check_repeatable, rounding_unit
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Parameters
from twoaxis.result import (
    CENTER_LAYOUT,
    MESSAGE_LAYOUT,
    PARAMETER_LAYOUT,
    Message,
    Result,
    message_variables,
    messages_from,
)
from twoaxis.views.encoding import view_from_plain, view_to_plain
from twoaxis.views.view import View

FloatArray = NDArray[np.float64]

# More axes than these are in no array of observations.
MOST_AXES = 8
# The code of a note that is a plain text.
NOTE = "note"


def _optional(dims: tuple[str, ...], kind: Any, long_name: str, *, finite: bool = True) -> Variable:
    return Variable(dims, kind, long_name, required=False, finite=finite and kind == "float")


LAYOUT: Layout = {
    **PARAMETER_LAYOUT,
    **CENTER_LAYOUT,
    **MESSAGE_LAYOUT,
    "equation_size": Variable(("equation",), "int", "number of residual values of each equation"),
    "residual_center": Variable(("value",), "float", "residual at the center", finite=True),
    "jacobian_center": Variable(
        ("value", "parameter"),
        "float",
        "derivatives of the residual at the center by the physical parameters",
        finite=True,
    ),
    "constant": _optional(("value",), "float", "residual where all parameters are zero"),
    "slope": _optional(
        ("value", "parameter"), "float", "derivatives of the residual by the physical parameters"
    ),
    "node_count": _optional(("parameter",), "int", "number of nodes of each parameter"),
    "nodes": _optional(("node",), "float", "Chebyshev nodes of the coordinates"),
    "samples": _optional(("sample", "value"), "float", "residual at the nodes"),
    "points": Variable(("point", "axis"), "float", "residual points; NaN: no such coordinate"),
    "point_set_size": Variable(("point_set",), "int", "number of points of each set"),
    "point_set_axes": Variable(("point_set",), "int", "number of coordinates of each set"),
    "field": _optional(("point",), "float", "learned field at the points, for figures"),
    "axis_name": _optional(("named_axis",), "text", "name of the coordinate of a point"),
    "fitted": _optional(("fitted_value",), "float", "what the field predicts for the observations"),
    "data": _optional(("datum",), "float", "observed values; NaN: no reading", finite=False),
    "observed": _optional(("observation", "observed_axis"), "float", "observed points"),
    "about_key": _optional(("about_entry",), "text", "what is said of the field"),
    "about_value": _optional(("about_entry",), "text", "for the head of a page"),
    "equation_name": _optional(("named_equation",), "text", "name of an equation"),
    "observed_field": _optional(("named_field",), "text", "name of an observed field"),
    "view_array": _optional(("view_row", "view_column"), "float", "numbers of the training view"),
}
ATTRIBUTES = (
    "form",
    "accuracy",
    "checked",
    "tolerance",
    "calls",
    "derivative",
    "several_points",
    "field_name",
    "view",
    "fitted_shapes",
    "data_shape",
    "sha256",
)


@final
class ExportedResidual(Result[xr.Dataset]):
    """The content of an exported residual; `twoaxis.load` returns its `frozen`."""

    schema = "residual"
    version = 2
    layouts = {"/": LAYOUT}  # noqa: RUF012
    attributes = {"/": ATTRIBUTES}  # noqa: RUF012

    def check(self) -> None:
        """Raise `InputError` unless the file is complete, unchanged and consistent."""
        if self.data.attrs["sha256"] != seal(self.data):
            raise _changed("another checksum than its content has")
        _check_center(self.frozen, _form(self.data), self.data)
        super().check()

    @property
    def opened(self) -> FrozenResidual:
        """What `twoaxis.load` returns: the frozen residual."""
        return self.frozen

    @property
    def frozen(self) -> FrozenResidual:
        """The frozen residual; it cannot be moved to other points."""
        data = self.data
        parameters = Parameters.from_dataset(data)
        sizes = [int(n) for n in data["equation_size"].values]
        if not sizes or min(sizes) < 1 or sum(sizes) != data.sizes["value"]:
            raise _changed(f"equations of {sizes[:9]} values, {data.sizes['value']} in all")
        form = _form(data)
        residual, jacobian = as_functions(form, parameters, sizes)
        accuracy, checked = _accuracy(data), int(data.attrs["checked"])
        loaded = Message(
            "residual.exported",
            f"loaded from an export: {form.in_words()}, accurate to {accuracy:.1g} at "
            f"{checked} parameter values where the two were compared",
            numbers={"accuracy": accuracy, "checked": float(checked)},
        )
        notes = [each.text if each.code == NOTE else each for each in messages_from(data)]
        frozen = FrozenResidual(
            residual,
            parameters,
            _points(data),
            view=_view(data),
            jacobian=jacobian if data.attrs["derivative"] == "exact" else None,
            field=data["field"].values if "field" in data else None,
            field_name=str(data.attrs["field_name"]),
            axes=_names(data, "axis_name"),
            notes=(*notes, loaded),
            **_observations(data),
            about=_about(data),
            equations=_names(data, "equation_name"),
            fields=_names(data, "observed_field"),
        )
        if frozen.view is not None:
            bound = frozen.view.bind(frozen.points)
            if bound.size != sum(sizes):
                raise _changed(f"a view of {bound.size} values, and {sum(sizes)} of the residual")
        return frozen

    def summary(self) -> pd.DataFrame:
        """Return the parameters as a table."""
        columns = ("center", "lower_bound", "upper_bound", "truth", "delivered", "coordinate")
        names = [str(name) for name in self.data["parameter"].values]
        table = {name: self.data[name].values for name in columns}
        return pd.DataFrame(table, index=pd.Index(names, name="parameter"))

    def __repr__(self) -> str:
        return f"Exported residual, {self.data.attrs['form']}: {self.frozen!r}"


def save_residual(frozen: FrozenResidual, path: str | os.PathLike[str]) -> Path:
    """Write what an audit needs of a frozen residual; see `FrozenResidual.save`."""
    ensure_writable(path)  # sampling may take a while
    return export(frozen).save(path)


def export(frozen: FrozenResidual) -> ExportedResidual:
    """Reduce a frozen residual to numbers."""
    center = _center(frozen)
    values = frozen.physical(center)
    output = frozen.raw(values)
    parts = output if isinstance(output, (tuple, list)) else [output]
    at_center = frozen.checked(output, values)
    check_repeatable(frozen, output, at_center, values)
    reduced = reduce_residual(frozen, center, single=rounding_unit(output) > 1e-12)
    plain, array = None, None
    if frozen.view is not None:
        plain, array = view_to_plain(frozen.view, frozen.points)
    notes = [n if isinstance(n, Message) else Message(NOTE, str(n)) for n in frozen.notes]
    variables = {
        **Parameters(frozen.parameters).variables(),
        "center": list(values.values()),
        **message_variables(notes),
        "equation_size": [int(np.prod(np.shape(part))) for part in parts],
        "residual_center": at_center,
        "jacobian_center": reduced.form.jacobian(frozen.parameters, values),
        **_form_variables(reduced.form),
        **_point_variables(frozen),
        **_observation_variables(frozen),
        "about_key": [str(key) for key in frozen.about] or None,
        "about_value": [str(value) for value in frozen.about.values()] or None,
        "equation_name": [str(name) for name in frozen.equations] or None,
        "observed_field": [str(name) for name in frozen.fields] or None,
    }
    if array is not None:
        variables["view_array"] = np.atleast_2d(array)
    attributes = {
        "form": "affine" if isinstance(reduced.form, AffineForm) else "sampled",
        "accuracy": reduced.accuracy,
        "checked": reduced.checked,
        "tolerance": reduced.tolerance,
        "calls": reduced.calls,
        "derivative": "exact" if _differentiable(frozen, parts[0]) else "difference",
        "several_points": int(isinstance(frozen.points, tuple)),
        "field_name": str(frozen.field_name),
        "view": json.dumps(plain),
        "fitted_shapes": json.dumps([[name, part.shape] for name, part in _fitted_parts(frozen)]),
        "data_shape": json.dumps(None if frozen.data is None else frozen.data.shape),
        "sha256": "",
    }
    found = ExportedResidual.from_values(variables, attributes)
    found.data.attrs["sha256"] = seal(found.data)
    return found


def seal(data: xr.Dataset) -> str:
    """Return the checksum of all variables and attributes, whatever their order in the file."""
    found = hashlib.sha256()
    for name in sorted(str(each) for each in data.variables):
        variable = data.variables[name]
        found.update(f"{name}{variable.dims}{variable.shape}".encode())
        values = np.asarray(variable.values)
        if values.dtype.kind in "iufb":
            found.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
        else:
            found.update("\0".join(map(str, values.ravel().tolist())).encode())
    for name in ATTRIBUTES:
        if name != "sha256":
            found.update(f"\0{name}={data.attrs[name]}".encode())
    return found.hexdigest()


# ---------------------------------------------------------------- writing


def _center(frozen: FrozenResidual) -> FloatArray:
    """Coordinates of the truth, else of what was delivered, else of the middle of the bounds."""
    parameters = Parameters(frozen.parameters)
    known = parameters.truth or parameters.delivered
    if known is not None:
        return parameters.coordinates(known)
    low, high = parameters.coordinate_bounds
    return np.asarray((low + high) / 2)


def _differentiable(frozen: FrozenResidual, first: Any) -> bool:
    """Whether scores of this residual have exact derivatives rather than differences.

    The loaded residual then brings its exact ones along, and otherwise leaves them to the same
    differences: both ways a score is what it was.
    """
    libraries = {base.__module__.partition(".")[0] for base in type(first).__mro__}
    return frozen.jacobian is not None or bool(libraries & {"jax", "jaxlib", "torch"})


def _form_variables(form: Form) -> dict[str, Any]:
    if isinstance(form, AffineForm):
        return {"constant": form.constant, "slope": form.slopes}
    return {
        "node_count": list(form.grid.shape),
        "nodes": np.concatenate(form.grid.nodes),
        "samples": form.samples.reshape(-1, form.samples.shape[-1]),
    }


def _point_variables(frozen: FrozenResidual) -> dict[str, Any]:
    sets = frozen.points if isinstance(frozen.points, tuple) else (frozen.points,)
    width = max(part.shape[1] for part in sets)
    padded = [
        np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=np.nan) for part in sets
    ]
    return {
        "points": np.concatenate(padded),
        "point_set_size": [len(part) for part in sets],
        "point_set_axes": [part.shape[1] for part in sets],
        "field": frozen.field,
        "axis_name": [str(name) for name in frozen.axes] or None,
    }


def _fitted_parts(frozen: FrozenResidual) -> list[tuple[str | None, FloatArray]]:
    """Return what the field predicts, by layout; the name None stands for an array alone."""
    if isinstance(frozen.fitted, Mapping):
        return list(frozen.fitted.items())
    return [] if frozen.fitted is None else [(None, frozen.fitted)]


def _observation_variables(frozen: FrozenResidual) -> dict[str, Any]:
    parts = [part.ravel() for _, part in _fitted_parts(frozen)]
    return {
        "fitted": np.concatenate(parts) if parts else None,
        "data": None if frozen.data is None else frozen.data.ravel(),
        "observed": frozen.observed,
    }


# ---------------------------------------------------------------- reading


def _changed(fault: str) -> InputError:
    return InputError(
        "a complete, unchanged export", fault, "save the residual again from its model"
    )


def _points(data: xr.Dataset) -> Any:
    """Return the points, in sets where there are several."""
    values = data["points"].values
    sizes, widths = (data[name].values for name in ("point_set_size", "point_set_axes"))
    several = data.attrs["several_points"]
    fits = len(sizes) and (sizes >= 1).all() and sizes.sum() == len(values)
    fits = fits and (widths >= 1).all() and (widths <= values.shape[1]).all()
    if not fits or several not in (0, 1) or (not several and len(sizes) != 1):
        raise _changed(f"sets of {sizes[:9]} points, and several_points={several}")
    parts = np.split(values, np.cumsum(sizes)[:-1])
    each = tuple(part[:, :width] for part, width in zip(parts, widths, strict=True))
    return each if several else each[0]


def _observations(data: xr.Dataset) -> dict[str, Any]:
    """Return fitted values, data and observed points as they were."""
    shapes = json.loads(str(data.attrs["fitted_shapes"]))
    good = isinstance(shapes, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], (str, type(None)))
        for pair in shapes
    )
    if not good:
        raise _changed(f"shapes of fitted values {shapes!r:.80}")
    names = [name for name, _ in shapes]
    if None in names and names != [None]:
        raise _changed(f"fitted values of {names!r:.80}")
    parts = _shaped(data, "fitted", [shape for _, shape in shapes])
    shape = json.loads(str(data.attrs["data_shape"]))
    fitted: Any = dict(zip(names, parts, strict=True))
    return {
        "fitted": parts[0] if names == [None] else fitted or None,
        "data": next(iter(_shaped(data, "data", [] if shape is None else [shape])), None),
        "observed": data["observed"].values if "observed" in data else None,
    }


def _shaped(data: xr.Dataset, name: str, shapes: list[Any]) -> list[FloatArray]:
    """Return the parts of a flat variable, each in its shape."""
    values = data[name].values if name in data else np.empty(0)
    fits = all(
        isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        for shape in shapes
    )
    # As floats: the product of large integers may wrap around.
    sizes = [float(np.prod(np.array(shape, dtype=float))) for shape in shapes] if fits else []
    if not fits or sum(sizes) != values.size or max(map(len, shapes), default=0) > MOST_AXES:
        raise _changed(f"{values.size} numbers of {name} in the shapes {shapes!r:.80}")
    ends = np.cumsum([int(size) for size in sizes])[:-1]
    parts = np.split(values, ends) if shapes else []
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _names(data: xr.Dataset, variable: str) -> tuple[str, ...]:
    return tuple(map(str, data[variable].values)) if variable in data else ()


def _about(data: xr.Dataset) -> dict[str, str]:
    keys, values = _names(data, "about_key"), _names(data, "about_value")
    if len(keys) != len(values):
        raise _changed(f"{len(keys)} keys and {len(values)} values about the field")
    return dict(zip(keys, values, strict=True))


def _form(data: xr.Dataset) -> Form:
    """Return the residual as a function of the parameters."""
    names = {"affine": ("constant", "slope"), "sampled": ("node_count", "nodes", "samples")}
    kind = data.attrs["form"]
    if kind not in names:
        raise _changed(f"the form {str(kind)[:40]!r}")
    for name in names[kind]:
        if name not in data:
            raise _changed(f"no variable {name}")
    if kind == "affine":
        return AffineForm(data["constant"].values, data["slope"].values)
    counts = data["node_count"].values
    values, samples = data["nodes"].values, data["samples"].values
    # As floats: the product of large integers may wrap around.
    if (counts < 2).any() or counts.sum() != len(values) or np.prod(1.0 * counts) != len(samples):
        raise _changed(f"{len(samples)} samples on {counts.tolist()} nodes")
    nodes = np.split(values, np.cumsum(counts)[:-1])
    for (name, parameter), own in zip(Parameters.from_dataset(data).items(), nodes, strict=True):
        low, high = parameter.coordinate_bounds
        if np.abs(own - nodes_between(low, high, len(own))).max() > 1e-9 * (high - low):
            raise _changed(f"nodes of {name} that are not Chebyshev nodes over the bounds")
    shape = (*counts.tolist(), samples.shape[1])
    return SampledForm(TensorGrid(tuple(nodes)), samples.reshape(shape))


def _check_center(frozen: FrozenResidual, form: Form, data: xr.Dataset) -> None:
    """The form must give back what the file says of the center."""
    values = dict(zip(frozen.names, data["center"].values.tolist(), strict=True))
    limit = 10 * float(data.attrs["tolerance"])
    residual = frozen.checked(frozen.raw(values), values)
    for name, found in (
        ("residual_center", residual),
        ("jacobian_center", form.jacobian(frozen.parameters, values)),
    ):
        stored = data[name].values
        size = float(np.abs(stored).max()) + float(np.abs(residual).max())
        if not np.abs(found - stored).max() <= limit * size:
            raise _changed(f"{name} that the rest of the file does not give")


def _accuracy(data: xr.Dataset) -> float:
    accuracy, tolerance = float(data.attrs["accuracy"]), float(data.attrs["tolerance"])
    if not 0 <= accuracy <= tolerance < 1:
        raise _changed(f"an accuracy of {accuracy:g} and a tolerance of {tolerance:g}")
    return accuracy


def _view(data: xr.Dataset) -> View | None:
    plain = json.loads(str(data.attrs["view"]))
    if plain is None:
        return None
    array = data["view_array"].values if "view_array" in data else None
    matrix = isinstance(plain, dict) and plain.get("kind") == "dense"
    if array is not None and not matrix:
        if len(array) != 1:
            raise _changed(f"an array of shape {array.shape} for the view {plain!r:.80}")
        array = array[0]
    return view_from_plain(plain, array)
