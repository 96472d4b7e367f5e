"""An array of unknown coefficients under one name: a vector of rates, a matrix of interactions.

Each entry is a parameter with the index in its name, such as ``"i[0,1]"``; the user's functions
receive the whole array.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import as_array
from twoaxis.errors import InputError
from twoaxis.unknown_function import stacked

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ParameterArray:
    """Several unknown coefficients in one array, in place of a `Parameter`.

    A forward model and a residual receive it under its name as an array of its shape, with a
    leading axis for batches where a forward model is vectorized.

    Parameters
    ----------
    bounds : tuple of float
        Lower and upper limit of every entry.
    truth, delivered, start : array or float, optional
        As for `Parameter`; one number stands for all entries.
    shape : tuple of int or int, optional
        Needed where no array says it.
    coordinate : {"log", "linear"}
        As for `Parameter`, for every entry.
    scale : float, optional
        As for `Parameter`, for every entry. By default percentages refer to the magnitude of the
        entry itself, but to no less than a quarter of the root mean square of all entries, so that
        an entry of zero has a percentage, too.
    nuisance : bool
    unit, label : str
        As for `Parameter`.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> a = ta.ParameterArray(
    ...     truth=[[1.0, 0.0], [0.5, -2.0]], bounds=(-3, 3), coordinate="linear"
    ... )
    >>> x = np.linspace(0, 1, 20)
    >>> found = ta.score(
    ...     lambda a: np.concatenate([a[0, 0] * x + a[0, 1] - x, a[1, 0] * x + a[1, 1] - x]),
    ...     {"a": a}, ta.views.Pointwise(), points=np.tile(x, 2),
    ... )
    >>> {name: round(value, 6) + 0.0 for name, value in found.displacement.items()}
    {'a[0,0]': 0.0, 'a[0,1]': 0.0, 'a[1,0]': 0.5, 'a[1,1]': 2.0}
    """

    bounds: tuple[float, float]
    truth: Any = None
    delivered: Any = None
    start: Any = None
    shape: Any = None
    coordinate: Literal["log", "linear"] = "log"
    scale: float | None = None
    nuisance: bool = False
    unit: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        given = {f: getattr(self, f) for f in ("truth", "delivered", "start")}
        arrays = {f: _as_array(f, value) for f, value in given.items() if value is not None}
        shape = self._shape([array.shape for array in arrays.values()])
        object.__setattr__(self, "shape", shape)
        for f, array in arrays.items():
            object.__setattr__(self, f, np.broadcast_to(array, shape or array.shape).copy())

    def _shape(self, found: list[tuple[int, ...]]) -> tuple[int, ...] | None:
        shapes = {shape for shape in found if shape}
        if self.shape is not None:
            try:
                shapes.add(tuple(int(n) for n in np.atleast_1d(self.shape)))
            except (TypeError, ValueError):
                shapes.add(())
        shape = next(iter(shapes), ())
        if not shapes:  # an adapter reads it from the model
            return None
        if len(shapes) != 1 or not shape or min(shape) < 1:
            raise InputError(
                "one shape of the array, from truth, delivered, start or shape=...",
                ", ".join(map(str, sorted(shapes))) or "none",
                "pass arrays of one shape, or shape=(4, 4); one number alone is a Parameter",
            )
        return shape

    def members(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the fields of the `Parameter` of each entry, by its name."""
        if self.shape is None:
            raise InputError(
                f"the shape of the array {name}",
                "neither shape nor an array of values",
                "pass shape=(4, 4), or truth=... as an array; one number alone is a Parameter",
            )
        shared = {
            field: getattr(self, field)
            for field in ("bounds", "coordinate", "scale", "nuisance", "unit")
        }
        found = {}
        for index in np.ndindex(*self.shape):
            own = {
                f: None if getattr(self, f) is None else float(getattr(self, f)[index])
                for f in ("truth", "delivered", "start")
            }
            place = ",".join(map(str, index))
            label = f"{self.label}[{place}]" if self.label else ""
            found[entry_name(name, index)] = {**shared, **own, "label": label, "array": name}
        return found


def entry_name(name: str, index: tuple[int, ...]) -> str:
    """Return the name of one entry of an array, such as ``"i[0,1]"``."""
    return f"{name}[{','.join(map(str, index))}]"


def entry_index(name: str) -> tuple[str, tuple[int, ...] | None]:
    """Return the array and the index that the name of an entry says; no index: a whole leaf.

    >>> entry_index("i[0,1]"), entry_index("nu")
    (('i', (0, 1)), ('nu', None))
    """
    leaf, bracket, rest = name.partition("[")
    parts = rest.removesuffix("]").replace(" ", "").split(",")
    if not bracket or not rest.endswith("]") or not all(part.isdecimal() for part in parts):
        return name, None
    return leaf, tuple(map(int, parts))


@dataclass(frozen=True)
class ArrayGroup:
    """The parameters that are entries of one array.

    Attributes
    ----------
    name : str
    members : tuple of str
        Names of the parameters, the last index fastest.
    shape : tuple of int
    """

    name: str
    members: tuple[str, ...]
    shape: tuple[int, ...]

    def together(self, values: Mapping[str, Any]) -> Any:
        """Return the array of values by parameter name; batches of values lead its shape."""
        flat = stacked([values[member] for member in self.members])
        return flat.reshape(tuple(flat.shape[:-1]) + self.shape)

    def apart(self, array: Any) -> dict[str, Any]:
        """Return the entries of an array of any library, the inverse of `together`."""
        whole = array if hasattr(array, "reshape") else np.asarray(array, dtype=float)
        batch = tuple(whole.shape)[: max(whole.ndim - len(self.shape), 0)]
        if tuple(whole.shape) != batch + self.shape:
            raise InputError(
                f"values of {self.name} as an array of shape {self.shape}",
                f"the shape {tuple(whole.shape)}",
                "give every entry its value",
            )
        flat = whole.reshape((*batch, -1))
        at = (...,) if batch else ()
        return {member: flat[(*at, k)] for k, member in enumerate(self.members)}


def arrays_among(arrays: Mapping[str, str]) -> dict[str, ArrayGroup]:
    """Return the arrays among parameters by name, from the array that each belongs to, or ""."""
    members: dict[str, list[str]] = {}
    for name, array in arrays.items():
        if array:
            members.setdefault(array, []).append(name)
    found = {}
    for array, names in members.items():
        places = [entry_index(name)[1] or () for name in names]
        shape = tuple(n + 1 for n in places[-1])
        complete = places == list(np.ndindex(*shape)) and array not in arrays
        if not complete or any(entry_index(name)[0] != array for name in names):
            raise InputError(
                f"the entries of the array {array} in order, {math.prod(shape)} of them",
                ", ".join(names),
                "declare it once, as twoaxis.ParameterArray(truth=..., bounds=...)",
            )
        found[array] = ArrayGroup(array, tuple(names), shape)
    return found


def _as_array(what: str, given: Any) -> FloatArray:
    try:
        array = as_array(what, given).astype(float)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if not np.isfinite(array).all():
        raise InputError(f"{what} as finite numbers", repr(given)[:80], "pass an array of floats")
    return array
