"""A physical parameter and the coordinate in which it is diagnosed.

Everything that the method calls a *displacement* is a difference of coordinates.
A positive parameter uses its logarithm, ``q = log p``, so that a displacement is a
relative change; a parameter that may cross zero uses itself, ``q = p``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.parameter_array import ArrayGroup, ParameterArray, arrays_among
from twoaxis.unknown_function import (
    BASES,
    Basis,
    Function,
    FunctionGroup,
    FunctionNode,
    UnknownFunction,
    axes_of,
    check_reached,
)

if TYPE_CHECKING:
    import xarray as xr

# The variables that encode parameters in a labelled dataset (`Parameters.variables`).
ENCODED = (
    "parameter",
    "lower_bound",
    "upper_bound",
    "coordinate",
    "scale",
    "truth",
    "delivered",
    "start",
    "nuisance",
    "unit",
    "label",
    "function",
    "function_node",
    "function_basis",
    "function_argument",
    "array",
)

# A value nearer to a bound than this share of the distance between bounds lies on it.
ON_BOUND = 1e-9
# A smaller share of the bounds is zero but for rounding.
ROUNDING = 1e-10
# Percentages of a value that is smaller than this share of the array or function that it belongs
# to (root mean square) refer to that share: near zero a value has no magnitude of its own.
SHARE_OF_SIZE = 0.25

FloatArray = NDArray[np.float64]
Coordinate = Literal["log", "linear"]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    r"""One unknown coefficient: where it may lie and what is known about it.

    Parameters
    ----------
    bounds : tuple of float
        Lower and upper limit, in physical units.
    truth : float, optional
        The true value, where a benchmark knows it.
    delivered : float, optional
        The value that training returned.
    start : float, optional
        The value at which training starts.
    coordinate : {"log", "linear"}
        ``q = log p`` (the default, for positive parameters) or ``q = p``.
    scale : float, optional
        For linear coordinates: the magnitude to which percentages refer. Without
        it they refer to the magnitude of the value itself, but in an array or a function to no
        less than a quarter of its `size`.
    nuisance : bool
        Whether the parameter is estimated along with the others but is of no interest itself,
        such as an initial amount or an offset. No headline names it. It needs one known value to
        be diagnosed at: a delivered value, a start or, around a truth, its own.
    unit : str
        Unit of the values, for labels, such as ``"m^2/s"``.
    label : str
        Label for figures instead of the name, such as ``r"$\nu$"``.
    node : FunctionNode, optional
        Set where the parameter is one node value of a `twoaxis.UnknownFunction`.
    array : str
        Set where the parameter is an entry of a `twoaxis.ParameterArray`: its name.
    size : float
        Set where the parameter belongs to an array or a function: the root mean square of its
        entries or node values (of the truth, else of the delivered values, else of the start).

    Examples
    --------
    >>> viscosity = Parameter(truth=0.01, bounds=(0.002, 0.05))
    >>> round(float(viscosity.to_coordinate(0.01)), 4)
    -4.6052
    >>> round(float(viscosity.percent(0.012, center=0.01)), 6)
    20.0
    """

    bounds: tuple[float, float]
    truth: float | None = None
    delivered: float | None = None
    start: float | None = None
    coordinate: Coordinate = "log"
    scale: float | None = None
    nuisance: bool = False
    unit: str = ""
    label: str = ""
    node: FunctionNode | None = None
    array: str = ""
    size: float = 0.0

    def __post_init__(self) -> None:
        if self.coordinate not in ("log", "linear"):
            raise InputError(
                'coordinate "log" or "linear"',
                repr(self.coordinate),
                'use "log" for a positive parameter and "linear" for one that may cross zero',
            )
        object.__setattr__(self, "bounds", _checked_bounds(self.bounds))
        for field in ("truth", "delivered", "start"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, self._checked_value(field, value))
        if self.coordinate == "log" and self.bounds[0] <= 0:
            raise InputError(
                "bounds above zero for a parameter in log coordinates",
                f"bounds={self.bounds}",
                'raise the lower bound above zero, or pass coordinate="linear"',
            )
        if self.scale is not None and not (_is_number(self.scale) and self.scale > 0):
            raise InputError(
                "a positive, finite scale",
                f"scale={self.scale!r}",
                "give the magnitude, in physical units, that 100% stands for",
            )
        if not isinstance(self.nuisance, (bool, np.bool_)):
            raise InputError(
                "nuisance as True or False", f"nuisance={self.nuisance!r}", "pass nuisance=True"
            )
        object.__setattr__(self, "nuisance", bool(self.nuisance))
        for field in ("unit", "label"):
            if not isinstance(getattr(self, field), str):
                raise InputError(
                    f"{field} as text", f"{field}={getattr(self, field)!r}", f'pass {field}="..."'
                )

    def _checked_value(self, field: str, value: Any) -> float:
        """Return `value` as a float that lies inside the bounds."""
        if not _is_number(value):
            raise InputError(f"a finite number as {field}", repr(value), f"give {field} as a float")
        if self.coordinate == "log" and value <= 0:
            raise InputError(
                f"a positive {field} for a parameter in log coordinates",
                f"{field}={value:g}",
                'pass coordinate="linear" if the parameter may be zero or negative',
            )
        low, high = self.bounds
        if not low <= value <= high:
            raise InputError(
                f"{field} inside the bounds [{low:g}, {high:g}]",
                f"{field}={value:g}",
                f"widen bounds until they hold the value, or correct {field}",
            )
        return float(value)

    def to_coordinate(self, value: ArrayLike) -> NDArray[np.float64]:
        """Physical value to coordinate, elementwise."""
        value = np.asarray(value, dtype=float)
        return np.log(value) if self.coordinate == "log" else value

    def to_value(self, coordinate: ArrayLike) -> NDArray[np.float64]:
        """Coordinate to physical value, elementwise."""
        coordinate = np.asarray(coordinate, dtype=float)
        return np.exp(coordinate) if self.coordinate == "log" else coordinate

    def holding(self, value: float) -> Parameter:
        """Return the same parameter with bounds that are wide enough for `value`."""
        low, high = self.bounds
        return replace(self, bounds=(min(low, value), max(high, value)))

    @property
    def coordinate_bounds(self) -> tuple[float, float]:
        """The bounds as coordinates."""
        low, high = self.to_coordinate(self.bounds)
        return float(low), float(high)

    def bound_at(self, value: float, share: float = ON_BOUND) -> Literal["lower", "upper", ""]:
        """Return which bound a value lies on, to within a share of the range; empty: neither.

        >>> nu = Parameter(bounds=(1e-3, 1.0))
        >>> nu.bound_at(1e-3), nu.bound_at(0.5), nu.bound_at(1.0)
        ('lower', '', 'upper')
        """
        low, high = self.coordinate_bounds
        at, room = float(self.to_coordinate(value)), share * (high - low)
        if at <= low + room:
            return "lower"
        return "upper" if at >= high - room else ""

    def percent_unit(self, center: float) -> float:
        """Return the step in the coordinate that stands for 100%, to first order.

        It is 1 in log coordinates. In linear ones it is the declared scale, or else the magnitude
        of `center`, ``max(|center|, size / 4)`` in an array or a function. A nuisance parameter
        that stands at zero, such as an offset, refers to the largest magnitude that its bounds
        allow.
        """
        if self.coordinate == "log":
            return 1.0
        if not self.has_percentages(center):
            raise InputError(
                "a magnitude to which percentages of this parameter refer",
                f"a center of {'zero' if center == 0 else f'{center:.3g}, zero but for rounding,'} "
                "in linear coordinates, and no scale",
                "declare one, as in Parameter(scale=0.1, ...)",
            )
        return self.magnitude(center) or max(map(abs, self.bounds))

    def magnitude(self, value: float) -> float:
        """Return what 100% of a value in linear coordinates are; 0: nothing says it."""
        least = SHARE_OF_SIZE * self.size
        return self.scale or max(0.0 if self.is_zero(value) else abs(value), least)

    def percent_of(self, value: float) -> str:
        """Say what percentages of a value refer to, where that is not the value itself."""
        least = SHARE_OF_SIZE * self.size
        if self.coordinate == "log" or self.scale is not None or abs(value) >= least:
            return ""
        group = self.array if self.node is None else self.node.function
        return f" (of a quarter of the size of {group})"

    def has_percentages(self, center: float) -> bool:
        """Whether there is a magnitude to which percentages of `center` refer; see `percent_unit`.

        >>> offset = Parameter(bounds=(-1, 1), coordinate="linear")
        >>> offset.has_percentages(0.5), offset.has_percentages(0.0)
        (True, False)
        """
        return self.coordinate == "log" or self.nuisance or self.magnitude(center) > 0

    def is_zero(self, value: float) -> bool:
        """Whether a value is zero, or what is left of zero after a calculation."""
        return abs(value) <= ROUNDING * max(map(abs, self.bounds))

    def percent_from(
        self, value: ArrayLike, reference: float, center: float
    ) -> NDArray[np.float64]:
        """Return ``100 (p - reference) / |reference|``, signed, for another value than the center.

        Where that is zero, such as an estimate on a bound of zero, percentages refer to the center.
        """
        if self.coordinate == "log" or self.magnitude(reference):
            return self.percent(value, reference)
        return 100.0 * (np.asarray(value, dtype=float) - reference) / self.percent_unit(center)

    def percent(self, value: ArrayLike, center: float) -> NDArray[np.float64]:
        """Return ``100 (p - center) / |center|``, signed; the scale replaces ``|center|``."""
        reference = abs(center) if self.coordinate == "log" else self.percent_unit(center)
        return 100.0 * (np.asarray(value, dtype=float) - center) / reference


@dataclass(frozen=True)
class Center:
    """The point that a diagnosis refers to, and what kind of point it is.

    Parameters
    ----------
    kind : {"truth", "delivered", "point"}
        Only around a truth is a deviation an error.
    values : dict of str to float
        Physical values by parameter name.
    """

    kind: str
    values: dict[str, float]


# What functions of the library take as parameters.
Unknowns = (
    Mapping[str, Parameter]
    | Mapping[str, UnknownFunction]
    | Mapping[str, ParameterArray]
    | Mapping[str, Parameter | UnknownFunction | ParameterArray]
    | Mapping[str, tuple[Any, Parameter]]
)


class Parameters(Mapping[str, Parameter]):
    """The parameters of a problem, in order: an immutable mapping from names to `Parameter`.

    Every function that takes a dict of parameters turns it into this once. Arrays of
    coordinates or physical values have the parameters along their last axis, of length d.

    An unknown function becomes one parameter for each of its nodes, an array one for each entry;
    `functions` and `arrays` say which belong together, and `arguments` puts them together again for
    the user's own functions.

    Parameters
    ----------
    parameters : mapping of str to Parameter, UnknownFunction or ParameterArray
        Also pairs of a library's own variable and its `Parameter`, as `twoaxis.from_deepxde` takes
        them; the variable is not read.

    Examples
    --------
    >>> known = Parameters({"nu": Parameter(truth=0.01, bounds=(0.002, 0.05))})
    >>> known.coordinates({"nu": 0.01}).round(4)
    array([-4.6052])
    >>> known.center(None).kind
    'truth'
    """

    def __init__(self, parameters: Unknowns) -> None:
        if not isinstance(parameters, Mapping) or not parameters:
            raise InputError(
                "a mapping from parameter names to twoaxis.Parameter",
                f"{type(parameters).__name__} {parameters!r}",
                'write parameters={"nu": twoaxis.Parameter(truth=0.01, bounds=(0.002, 0.05))}',
            )
        by_name = by_member_name(parameters)
        if all(p.nuisance for p in by_name.values()):
            raise InputError(
                "at least one parameter of interest",
                f"nuisance=True for {', '.join(parameters)}",
                "leave nuisance out for what you want to know",
            )
        self._by_name = by_name
        self._functions = _grouped(by_name)
        self._arrays = arrays_among({name: p.array for name, p in by_name.items()})
        groups = [g.members for g in self._functions.values()]
        groups += [g.members for g in self._arrays.values()]
        for members in groups:
            size = _size_of([by_name[member] for member in members])
            for member in members:
                if by_name[member].size != size:
                    by_name[member] = replace(by_name[member], size=size)

    def __getitem__(self, name: str) -> Parameter:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Parameters({self._by_name!r})"

    @property
    def names(self) -> list[str]:
        """Names, in order."""
        return list(self._by_name)

    @property
    def of_interest(self) -> list[str]:
        """Names of the parameters that are not nuisance parameters, in order."""
        return [name for name, p in self.items() if not p.nuisance]

    @property
    def nuisance(self) -> NDArray[np.bool_]:
        """Which parameters are nuisance parameters, shape (d,)."""
        return np.array([p.nuisance for p in self.values()])

    # ------------------------------------------------------------- unknown functions

    @property
    def functions(self) -> dict[str, FunctionGroup]:
        """The unknown functions by name, each with the parameters that are its node values."""
        return dict(self._functions)

    def function(self, name: str | None = None) -> FunctionGroup:
        """Return one unknown function; its name may be left out where there is only one."""
        if name is None and len(self._functions) == 1:
            return next(iter(self._functions.values()))
        if name is None or name not in self._functions:
            known = ", ".join(self._functions)
            raise InputError(
                f"one of the unknown functions {known}" if known else "an unknown function",
                f"{name!r} among the parameters {', '.join(self)}",
                f'name one, as in "{next(iter(self._functions))}"'
                if known
                else "declare it as twoaxis.UnknownFunction(nodes=..., bounds=...)",
            )
        return self._functions[name]

    @property
    def scalars(self) -> list[str]:
        """Names of the parameters that are numbers, not node values of a function."""
        return [name for name, p in self.items() if p.node is None]

    @property
    def arrays(self) -> dict[str, ArrayGroup]:
        """The arrays by name, each with the parameters that are its entries."""
        return dict(self._arrays)

    @property
    def subjects(self) -> list[str]:
        """Names of what is discussed: numbers, entries of arrays, whole functions; in order."""
        own = [name if p.node is None else p.node.function for name, p in self.items()]
        return list(dict.fromkeys(own))

    @property
    def argument_names(self) -> list[str]:
        """Keywords with which a forward model or a residual is called, in order."""
        own = [p.array or (name if p.node is None else p.node.function) for name, p in self.items()]
        return list(dict.fromkeys(own))

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values by parameter name as the keywords of a forward model or a residual.

        The node values of an unknown function become one `Function`, the entries of an array one
        array.
        """
        if not self._functions and not self._arrays:
            return dict(values)
        found = {name: values[name] for name in self.argument_names if name in values}
        for name, group in self._functions.items():
            found[name] = Function(group.basis, [values[member] for member in group.members])
        found |= {name: group.together(values) for name, group in self._arrays.items()}
        return {name: found[name] for name in self.argument_names}

    def by_member(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return keyword values by parameter name: the inverse of `arguments`.

        An unknown function may be given as a `Function`, a callable, an array with a value for
        each node, or one number, an array as it is; values that are by parameter name already stay.
        """
        found: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in self._functions:
                group = self._functions[name]
                found |= zip(group.members, group.at_nodes("values", value), strict=True)
            elif name in self._arrays:
                found |= self._arrays[name].apart(value)
            else:
                found[name] = value
        return found

    def value_words(self, values: Mapping[str, float]) -> str:
        """Return values by parameter name as ``nu = 0.01``, nuisance parameters left out.

        An unknown function or an array is named once, with the range of its values:
        ``k(x) = 0.8 to 1.4``.
        """
        words = []
        for name in self.argument_names:
            group = self._functions.get(name) or self._arrays.get(name)
            members = (name,) if group is None else group.members
            if self[members[0]].nuisance:
                continue
            own = [values[member] for member in members]
            if group is None:
                words.append(f"{name} = {own[0]:g}")
                continue
            ends = dict.fromkeys(f"{end:.4g}" for end in (min(own), max(own)))
            what = f"{name}({group.argument})" if isinstance(group, FunctionGroup) else name
            words.append(f"{what} = {' to '.join(ends)}")
        return ", ".join(words)

    def direction_words(self, direction: ArrayLike) -> str:
        """Return a direction (d,) as ``+0.71 nu -0.71 kappa``, nuisance parameters left out.

        So are components that round to zero, and of an array those below a tenth of the largest. A
        direction along one parameter is its name. An unknown function is named once, by its
        largest component: ``+0.94 k near x = 0.5``.
        """
        shares = self.named(direction)
        least = 0.1 * max(map(abs, shares.values()))
        words = []
        for name in self.subjects:
            if name not in self._functions:
                small = abs(shares[name]) < (least if self[name].array else 0.005)
                if not self[name].nuisance and not small:
                    words.append(f"{shares[name]:+.2f} {name}")
                continue
            group = self._functions[name]
            own = [shares[member] for member in group.members]
            k = int(np.argmax(np.abs(own)))
            if not self[group.members[k]].nuisance:
                words.append(f"{own[k]:+.2f} {name} near {group.place_of(group.members[k])}")
        if len(words) == 1:
            return words[0].removeprefix("+1.00 ").removeprefix("-1.00 ")
        return " ".join(words)

    def main_function(self, direction: ArrayLike) -> FunctionGroup | None:
        """Return the function whose node values are most of a direction (d,), if there is one."""
        squares = np.asarray(direction, dtype=float) ** 2
        for group in self._functions.values():
            if squares[group.columns].sum() > 0.5 * squares.sum():
                return group
        return None

    def check_reached(self, what: str, arguments: Mapping[str, Any]) -> None:
        """Refuse nodes that a function of the user, just called with `arguments`, did not use."""
        for name, group in self._functions.items():
            check_reached(what, group, arguments[name])

    # ------------------------------------------------------------- values and coordinates

    def coordinates(self, values: Mapping[str, Any]) -> FloatArray:
        """Return coordinates of physical values given by name, shape (..., d)."""
        columns = [p.to_coordinate(values[name]) for name, p in self.items()]
        return np.stack(np.broadcast_arrays(*columns), axis=-1)

    def physical(self, coordinates: ArrayLike) -> FloatArray:
        """Return physical values of coordinates (..., d), as an array of the same shape.

        (`Mapping.values` has a meaning already, so the inverse of `coordinates` is not called
        ``values``.)
        """
        array = np.asarray(coordinates, dtype=float)
        return np.stack([p.to_value(array[..., j]) for j, p in enumerate(self.values())], axis=-1)

    def named(self, array: ArrayLike) -> dict[str, float]:
        """Return the entries of an array of shape (d,) by parameter name."""
        return dict(zip(self._by_name, np.asarray(array, dtype=float).tolist(), strict=True))

    @property
    def coordinate_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the coordinates, each of shape (d,)."""
        low, high = self._coordinate_bounds  # asked for at every evaluation of a scan
        return low.copy(), high.copy()

    @cached_property
    def _coordinate_bounds(self) -> FloatArray:
        return np.array([p.coordinate_bounds for p in self.values()]).T

    def percent_units(self, center: Mapping[str, float]) -> FloatArray:
        """Return the coordinate steps that stand for 100% to first order, shape (d,)."""
        return np.array([p.percent_unit(center[name]) for name, p in self.items()])

    def percent(self, values: ArrayLike, center: Mapping[str, float]) -> FloatArray:
        """Return signed relative deviations of physical values (..., d) from `center`, in %."""
        array = np.asarray(values, dtype=float)
        columns = [p.percent(array[..., j], center[n]) for j, (n, p) in enumerate(self.items())]
        return np.stack(columns, axis=-1)

    def displacement_percent(
        self, displacement: ArrayLike, center: Mapping[str, float]
    ) -> FloatArray:
        """Return relative sizes of coordinate displacements (..., d) in %, unsigned.

        ``100 |exp(D) - 1|`` in log coordinates, ``100 |D| / scale`` in linear ones.
        """
        array = np.asarray(displacement, dtype=float)
        logarithmic = np.array([p.coordinate == "log" for p in self.values()])
        with np.errstate(over="ignore"):
            relative = np.where(logarithmic, np.expm1(array), array / self.percent_units(center))
        return np.asarray(np.abs(100 * relative))

    @property
    def delivered(self) -> dict[str, float] | None:
        """Values that training delivered, by name; None unless all of interest have one.

        Training may not know a nuisance parameter, which then stands at its start.
        """
        return self._known("delivered")

    @property
    def truth(self) -> dict[str, float] | None:
        """True values by name; None unless all parameters of interest have one.

        A nuisance parameter without a truth stands at its delivered value, or else at its start.
        """
        return self._known("truth")

    def _known(self, field: Literal["truth", "delivered"]) -> dict[str, float] | None:
        known = {name: _value_of(p, field) for name, p in self.items()}
        found = {name: value for name, value in known.items() if value is not None}
        return found if len(found) == len(self) else None

    def require(self, field: Literal["truth", "delivered"]) -> dict[str, float]:
        """Return the truth or the delivered values, or raise for parameters without one."""
        known = self._known(field)
        if known is None:
            self.nuisance_values(field)  # says which nuisance parameter has none
            missing = [name for name, p in self.items() if _value_of(p, field) is None]
            raise InputError(
                f"a {field} value for every parameter",
                f"none for {', '.join(missing)}",
                f"add it, as in Parameter({field}=..., bounds=...)",
            )
        return known

    def nuisance_values(
        self, field: Literal["truth", "delivered"] = "delivered"
    ) -> dict[str, float]:
        """Return the values at which nuisance parameters stand (see `delivered`), by name."""
        known = {name: _value_of(p, field) for name, p in self.items() if p.nuisance}
        unknown = [name for name, value in known.items() if value is None]
        if unknown:
            raise InputError(
                "a value at which each nuisance parameter is held for the diagnosis",
                f"no {field} value and no start for {', '.join(unknown)}",
                "add one, as in Parameter(nuisance=True, start=..., bounds=...)",
            )
        return {name: value for name, value in known.items() if value is not None}

    def center(self, at: str | Mapping[str, float] | None = None) -> Center:
        """Resolve `at` into the point around which a diagnosis is made.

        Parameters
        ----------
        at : {"truth", "delivered"}, mapping of str to float, or None
            None takes the truth where every parameter of interest has one, else the delivered
            values. A mapping may leave out nuisance parameters that have a value to stand at
            (see `delivered`).
        """
        if at is None:
            at = "truth" if self.truth is not None else "delivered"
        field: Literal["truth", "delivered"]
        for field in ("truth", "delivered"):
            if at == field:
                return Center(kind=field, values=self.require(field))
        if not isinstance(at, Mapping):
            raise InputError(
                'at="truth", at="delivered" or a mapping from names to values',
                f"at={at!r}",
                "choose one of the three",
            )
        standing = {n: _value_of(p, "delivered") for n, p in self.items() if p.nuisance}
        given = {**{n: v for n, v in standing.items() if v is not None}, **self.by_member(at)}
        if set(given) != set(self):
            raise InputError(
                f"at to name the parameters {sorted(self.argument_names)}",
                f"the names {sorted(at)}",
                "give one value for each parameter",
            )
        values = {name: p._checked_value("at", given[name]) for name, p in self.items()}
        return Center(kind="point", values=values)

    def replace(self, **fields: Mapping[str, Any] | None) -> Parameters:
        """Return the same parameters with some fields changed.

        Each keyword is a field of `Parameter` with a mapping from names to values, or None to
        remove it from every parameter: ``parameters.replace(truth=None)``.
        """
        changed = {}
        by_name = {f: None if v is None else self.by_member(v) for f, v in fields.items()}
        for name, parameter in self.items():
            new: dict[str, Any] = {f: None if v is None else v[name] for f, v in by_name.items()}
            changed[name] = replace(parameter, **new)
        return Parameters(changed)

    def delivering(self, values: Mapping[str, float]) -> Parameters:
        """Return the same parameters with other delivered values, and bounds that hold these."""
        every = {name: float(values[name]) for name in self}
        return Parameters(
            {n: replace(p.holding(every[n]), delivered=every[n]) for n, p in self.items()}
        )

    # ------------------------------------------------------------- as labelled data

    def variables(self) -> dict[str, Any]:
        """Return the values of `PARAMETER_LAYOUT`: the one encoding in every labelled result."""
        columns: dict[str, Any] = {
            "parameter": self.names,
            "lower_bound": [p.bounds[0] for p in self.values()],
            "upper_bound": [p.bounds[1] for p in self.values()],
            "coordinate": [p.coordinate for p in self.values()],
        }
        for field in ("scale", "truth", "delivered", "start"):
            values = [getattr(p, field) for p in self.values()]
            columns[field] = [math.nan if value is None else value for value in values]
        for field in ("nuisance", "unit", "label", "array"):
            columns[field] = [getattr(p, field) for p in self.values()]
        nodes = [p.node for p in self.values()]
        columns["function"] = ["" if n is None else n.function for n in nodes]
        columns["function_node"] = [math.nan if n is None else n.at[0] for n in nodes]
        second = [math.nan if n is None or len(n.at) == 1 else n.at[1] for n in nodes]
        if not all(map(math.isnan, second)):
            columns["function_second"] = second
        columns["function_basis"] = ["" if n is None else n.basis for n in nodes]
        columns["function_argument"] = ["" if n is None else n.argument for n in nodes]
        return columns

    @classmethod
    def from_dataset(cls, data: xr.Dataset) -> Parameters:
        """Return the parameters that a labelled dataset holds (see `variables`)."""
        # Each variable is read once: a dataset looks up a name slowly.
        column = {name: data[name].values.tolist() for name in ENCODED}
        second = data["function_second"].values.tolist() if "function_second" in data else []

        def optional(field: str, row: int) -> Any:
            value = float(column[field][row])
            return None if math.isnan(value) else value

        found: dict[str, Parameter] = {}
        for row, name in enumerate(map(str, column["parameter"])):
            if name in found:
                raise InputError(
                    "parameters of different names", f"{name!r} twice", "rename one of them"
                )
            coordinate: Any = str(column["coordinate"][row])
            basis: Any = str(column["function_basis"][row])
            function, argument = (str(column[f][row]) for f in ("function", "function_argument"))
            at: tuple[float, ...] = (float(column["function_node"][row]),)
            if second and not math.isnan(second[row]):
                at += (float(second[row]),)
            node = FunctionNode(function, at, basis, argument)
            found[name] = Parameter(
                bounds=(float(column["lower_bound"][row]), float(column["upper_bound"][row])),
                coordinate=coordinate,
                nuisance=bool(column["nuisance"][row]),
                unit=str(column["unit"][row]),
                label=str(column["label"][row]),
                node=node if function else None,
                array=str(column["array"][row]),
                **{f: optional(f, row) for f in ("scale", "truth", "delivered", "start")},
            )
        return cls(found)


def by_member_name(parameters: Unknowns) -> dict[str, Parameter]:
    """Return parameters by name, entries and nodes in place of arrays and functions."""
    found: dict[str, Parameter] = {}
    for name, given in parameters.items():
        parameter = _without_variable(given)
        if isinstance(name, str) and isinstance(parameter, (UnknownFunction, ParameterArray)):
            members = parameter.members(name)
            own = {member: _made(member, fields) for member, fields in members.items()}
        elif isinstance(name, str) and isinstance(parameter, Parameter):
            own = {name: parameter}
        else:
            raise InputError(
                "names that are strings and values that are twoaxis.Parameter",
                f"{name!r}: {parameter!r}",
                "wrap the bounds and the truth in twoaxis.Parameter(...)",
            )
        if twice := [member for member in own if member in found]:
            raise InputError(
                "names that no entry of an array and no node of a function has already",
                f"{twice[0]!r} twice",
                "give one of the two another name, or leave out what stands there twice",
            )
        found |= own
    return found


def _made(name: str, fields: Mapping[str, Any]) -> Parameter:
    """Return one member of a function or an array; an error names it."""
    try:
        return Parameter(**fields)
    except InputError as error:
        raise InputError(f"{name}: {error.expected}", error.got, error.fix) from error


def _without_variable(given: Any) -> Any:
    """Return the parameter of a pair (variable, parameter); anything else as it is."""
    pair = isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[1], Parameter)
    return given[1] if pair else given


def _grouped(parameters: Mapping[str, Parameter]) -> dict[str, FunctionGroup]:
    """Return the functions whose node values are among the parameters, by name."""
    columns: dict[str, list[int]] = {}
    nodes = [p.node for p in parameters.values()]
    for column, node in enumerate(nodes):
        if node is not None:
            columns.setdefault(node.function, []).append(column)
    names, found = list(parameters), {}
    for name, own in columns.items():
        places = [node for node in (nodes[column] for column in own) if node is not None]
        at = [node.at for node in places]
        axes = axes_of(at)
        kinds = {(node.basis, node.argument) for node in places}
        if name in parameters or len(kinds) > 1 or axes is None or places[0].basis not in BASES:
            raise InputError(
                f"node values of the unknown function {name} in ascending order, on one basis",
                f"nodes {at}" + (" and a parameter of that name" * (name in parameters)),
                "declare it once, as twoaxis.UnknownFunction(nodes=..., bounds=...)",
            )
        basis = Basis(axes, places[0].basis)
        members = tuple(names[column] for column in own)
        found[name] = FunctionGroup(name, members, np.array(own), basis, places[0].argument)
    return found


def _size_of(members: list[Parameter]) -> float:
    """Return the root mean square of the best known values of an array or a function; 0: none."""
    for kind in ("truth", "delivered", "start"):
        values = [getattr(member, kind) for member in members]
        if None not in values and any(values):
            return float(np.sqrt(np.mean(np.square(values))))
    return 0.0


def _value_of(parameter: Parameter, field: Literal["truth", "delivered"]) -> float | None:
    """Return a truth or delivered value; of a nuisance parameter, else the next best known one."""
    first: float | None = getattr(parameter, field)
    if first is not None or not parameter.nuisance:
        return first
    # A delivered value may stand in for the truth; around a candidate no truth is known.
    return parameter.start if parameter.delivered is None else parameter.delivered


def _is_number(value: Any) -> bool:
    """Whether `value` is a finite real number."""
    try:
        return math.isfinite(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # a tensor may have no value
        return False


def _checked_bounds(bounds: Any) -> tuple[float, float]:
    """Return bounds as two floats in order."""
    try:
        low, high = bounds
    except (TypeError, ValueError):
        low = high = None
    if not (_is_number(low) and _is_number(high)):
        raise InputError("bounds as two finite numbers", repr(bounds), "write bounds=(low, high)")
    if low >= high:
        raise InputError(
            "bounds with the lower one first",
            f"bounds=({low:g}, {high:g})",
            f"write bounds=({min(low, high):g}, {max(low, high):g}) if they were reversed"
            if low != high
            else "leave room between them",
        )
    return float(low), float(high)
