"""Loading an exported residual: nothing in the file is executed, strange files are refused."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.exported.chebyshev import TensorGrid, nodes_between
from twoaxis.exported.layout import AFFINE, ATTRIBUTES, OPTIONAL, SCHEMA, TEXT, VARIABLES, seal
from twoaxis.exported.reduction import AffineForm, Form, SampledForm, as_functions
from twoaxis.files import existing_netcdf
from twoaxis.frozen import FrozenResidual
from twoaxis.netcdf import read_netcdf
from twoaxis.parameters import Parameter
from twoaxis.views.storage import view_from_plain
from twoaxis.views.view import View

FloatArray = NDArray[np.float64]


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
    parameters = _parameters(data)
    points = _points(data)
    sizes = [int(n) for n in data["equation_size"].values]
    if not sizes or min(sizes) < 1 or sum(sizes) != data.sizes["value"]:
        raise ValueError(f"equations of {sizes[:9]} values, {data.sizes['value']} in all")
    form = _form(data, parameters)
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


def _parameters(data: xr.Dataset) -> dict[str, Parameter]:
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


def _form(data: xr.Dataset, parameters: dict[str, Parameter]) -> Form:
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
