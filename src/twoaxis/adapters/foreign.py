"""Foreign libraries: their imports, arrays and precision, and the errors of a user's code."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pandas as pd

from twoaxis.arrays import FloatArray, as_array, checked_points
from twoaxis.errors import InputError, check_words
from twoaxis.frozen import refuse_random, rounding_unit
from twoaxis.labels import Labels, named_columns
from twoaxis.parameters import Parameter
from twoaxis.result import Message
from twoaxis.unknown_function import UnknownFunction

#: Values at a point that differ by this share of the largest, with other points, depend on them.
COUPLED = 1e-4
#: What a residual is evaluated in: double precision, whatever the weights have, or the precision
#: of the model itself.
Precision = Literal["float64", "model"]


def foreign(module: str, extra: str, call: str) -> Any:
    """Import a foreign library, or name the extra that installs it.

    Parameters
    ----------
    module : str
        Such as ``"torch"``.
    extra : str
        The extra of this package that installs it.
    call : str
        The function that needs it, such as ``"twoaxis.from_torch"``.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # the library is there; one of its own dependencies is not
        raise InputError(
            f"the library {module} for {call}",
            "an environment without it",
            f"run pip install 'twoaxis[{extra}]'",
        ) from error


def about_model(library: str, package: str, network: Any, weights: int, own: str) -> dict[str, str]:
    """Return what a model is, for the head of a page.

    Parameters
    ----------
    library, package : str
        The name of the library, and that of its package on PyPI.
    network : object
        Named by its class.
    weights : int
        How many numbers training moved in it.
    own : str
        The data type of the weights.
    """
    found = {"library": f"{library} {importlib.metadata.version(package)}"}
    found["network"] = getattr(network, "__name__", type(network).__name__)
    return {**found, "weights": f"{weights:,}", "precision": own}


# ---------------------------------------------------------------- arrays


def as_numpy(array: Any) -> FloatArray:
    """Return a copy of an array of any library as a NumPy array of float64."""
    array = as_array("the values", array)
    return np.array(array, dtype=float)  # a copy: training may go on in the same memory


def as_points(points: Any) -> FloatArray:
    """Return a copy of points of any library as a finite float64 array (N, k)."""
    array = checked_points(as_numpy(points) if hasattr(points, "dtype") else points)
    return np.array(array, order="C")  # PyTorch takes no array that runs backwards


def as_observed(observed: Any, points: Any, axes: Sequence[str]) -> Any:
    """Return a copy of the observed points (n, k), with the labels of its rows if it has some.

    Columns with names are in the order of those of the residual points, or of `axes`.
    """
    names = points.columns if isinstance(points, pd.DataFrame) else as_names("axes", axes)
    labels = Labels.of(observed, "observed")
    array = as_points(named_columns(observed, list(names)))
    index = None if labels is None else labels.indexes[0]
    return array if index is None else pd.DataFrame(array, index)


def equations_of(output: Any) -> tuple[Any, ...]:
    """Return what a residual function returned, one entry per equation."""
    if isinstance(output, Mapping):
        return tuple(output.values())
    return tuple(output) if isinstance(output, (tuple, list)) else (output,)


def alone(parts: Sequence[Any]) -> Any:
    """Return the only equation by itself, and several as a tuple."""
    return parts[0] if len(parts) == 1 else tuple(parts)


def check_program(jax: Any, what: str, function: Callable[..., Any], *arrays: Any) -> None:
    """Refuse a JAX function that draws random numbers of Python or NumPy.

    They become constants of the compiled program, so that two calls agree, but not two programs.
    """
    texts = [jax.jit(lambda *given: function(*given)).lower(*arrays).as_text() for _ in range(2)]
    if texts[0] != texts[1]:
        refuse_random(what, "compile to two programs")


#: What to do about an unknown that is a field, such as another output of the network.
UNKNOWN_FIELD = (
    "an unknown that is a field, an output of the network, is not supported by adapters: write "
    "the residual as a function of a twoaxis.UnknownFunction and pass it to twoaxis.from_torch or "
    "twoaxis.from_jax"
)


def refuse_functions(parameters: Any, what: str) -> None:
    """Refuse an unknown function where every parameter is a number that a library trains."""
    given = parameters if isinstance(parameters, Mapping) else {}
    found = [
        str(name)
        for name, each in given.items()
        for one in (each if isinstance(each, tuple) else (each,))
        if isinstance(one, UnknownFunction) or getattr(one, "node", None) is not None
    ]
    if found:
        raise InputError(
            f"parameters that are numbers, for {what}",
            f"the unknown function {found[0]!r}",
            "write the residual yourself and pass it to twoaxis.from_torch, twoaxis.from_jax or "
            "twoaxis.FrozenResidual, with the trained function as delivered",
        )


def is_pointwise(evaluate: Callable[[Any], Any], points: Any, values: Sequence[Any]) -> bool:
    """Whether a residual at a point depends on that point alone, as half of the points tell.

    The residual of an integral or a fractional derivative takes other points, too, and one with
    values of its own at the points cannot be evaluated elsewhere.
    """
    try:
        wanted = [as_numpy(part)[::2] for part in values]
        found = [as_numpy(part) for part in equations_of(evaluate(points[::2]))]
    except Exception:  # whatever a user's code raises about points that it does not know
        return False
    if [each.shape for each in found] != [each.shape for each in wanted]:
        return False
    if rounding_unit(list(values)) > COUPLED**2:
        return True  # rounding may be as large as the residual
    with np.errstate(invalid="ignore"):  # values that are not finite are refused for that
        return all(
            np.abs(one - other).max(initial=0.0) <= COUPLED * np.abs(other).max(initial=0.0)
            for one, other in zip(found, wanted, strict=True)
        )


COUPLED_NOTE = Message(
    "residual.coupled",
    "the residual at a point depends on other points, or is known at these alone: it is evaluated "
    "at exactly these points",
)


def first_output(values: Any, count: int) -> FloatArray | None:
    """Return the first output of a field at `count` points, or None for any other shape."""
    array = as_numpy(values)
    if array.size == 0 or array.size % count:
        return None
    return array.reshape(count, -1)[:, 0]


def as_names(what: str, names: Any) -> tuple[Any, ...]:
    """Return a user's names of axes, fields or equations, or raise for what is no sequence."""
    check_words(what, names)
    return tuple(names)


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Return names, those that occur several times with a number.

    >>> numbered(["flow", "flow", "inlet"])
    ('flow 1', 'flow 2', 'inlet')
    """
    every = list(names)
    return tuple(
        f"{name} {every[: n + 1].count(name)}" if every.count(name) > 1 else name
        for n, name in enumerate(every)
    )


def space_axes(count: int) -> tuple[str, ...]:
    """Return the names of `count` coordinates of space."""
    return ("x", "y", "z")[:count] if count <= 3 else tuple(f"x{n}" for n in range(count))


# ---------------------------------------------------------------- a user's code


def typical_values(parameters: Mapping[str, Parameter]) -> dict[str, float]:
    """Return values at which the residual should be defined."""
    return {
        name: next(
            (value for value in (p.delivered, p.truth, p.start) if value is not None),
            sum(p.bounds) / 2,
        )
        for name, p in parameters.items()
    }


FIELD_EXPECTED = "a field that can be evaluated at the points, field(model, points)"
FIELD_FIX = "make that call by itself and correct it, or leave field out"


def call_words(values: Mapping[str, Any]) -> str:
    """Return parameter values as the arguments of a call."""
    return ", ".join(f"{name}={float(value):.6g}" for name, value in values.items())


@contextmanager
def explained(expected: str, fix: str) -> Iterator[None]:
    """Turn whatever a user's function or their library raises into an `InputError`."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        # Messages of JAX and PyTorch may run over pages; the first line says what happened.
        # Those of TorchScript begin with its own traceback, and the last line says it.
        lines = str(error).strip().splitlines() or [""]
        said = lines[-1] if "TorchScript" in lines[0] else lines[0]
        kind = f"{type(error).__name__}: "
        raise InputError(expected, kind + said.removeprefix(kind), fix) from error


def check_names(what: str, given: Any, known: Iterable[str]) -> None:
    """Refuse a mapping (`what`) with keys other than the names of the parameters."""
    names = list(known)
    if not isinstance(given, Mapping):
        raise InputError(
            f"{what} as a mapping from parameter names",
            type(given).__name__,
            f'write {what}={{"{names[0] if names else "k"}": ...}}',
        )
    unknown = [repr(name) for name in given if name not in names]
    if unknown:
        raise InputError(
            f"{what} with the names {', '.join(map(repr, names))}",
            ", ".join(unknown),
            "use the same names in both places",
        )


# ---------------------------------------------------------------- precision


def check_precision(precision: Any) -> None:
    """Refuse anything but the two choices."""
    if precision not in ("float64", "model"):
        raise InputError('precision "float64" or "model"', repr(precision), "choose one of them")


def dtype_name(dtype: Any) -> str:
    """Return the name of a data type of any library, such as ``"float32"``."""
    return str(dtype).removeprefix("torch.")


def precision_notes(evaluated: str, used: str, own: str) -> list[Message]:
    """Return what a reader must know of the precision.

    Parameters
    ----------
    evaluated, used, own : str
        The data types of the residual values, of its evaluation and of the model's weights.
    """
    if evaluated != used:
        text = f"the residual comes in {evaluated}: part of it is computed in lower precision"
        return [Message("precision.residual", text, "warning")]
    if used != "float64":
        text = (
            f"the residual is evaluated in {used}, the model's own precision; "
            'precision="float64" evaluates a copy of the model in double precision'
        )
        return [Message("precision.model", text)]
    if own != "float64":
        text = f"the model was trained in {own}; a copy of it is evaluated in float64"
        return [Message("precision.copy", text)]
    return []
