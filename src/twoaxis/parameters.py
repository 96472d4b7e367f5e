"""A physical parameter and the coordinate in which it is diagnosed.

Everything that the method calls a *displacement* is a difference of coordinates.
A positive parameter uses its logarithm, ``q = log p``, so that a displacement is a
relative change; a parameter that may cross zero uses itself, ``q = p``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError

Coordinate = Literal["log", "linear"]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One unknown coefficient: where it may lie and what is known about it.

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
        it they refer to the magnitude of the value itself.

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
                "give the magnitude, in physical units, that 100 percent stands for",
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

    def unit(self, center: float) -> float:
        """Return the step in the coordinate that stands for 100 percent, to first order.

        It is 1 in log coordinates and the declared scale, or else the magnitude of
        `center`, in linear ones.
        """
        if self.coordinate == "log":
            return 1.0
        if self.scale is not None:
            return self.scale
        if center == 0:
            raise InputError(
                "a magnitude to which percentages of this parameter refer",
                "a centre of zero in linear coordinates, and no scale",
                "declare one, as in Parameter(scale=0.1, ...)",
            )
        return abs(center)

    def percent(self, value: ArrayLike, center: float) -> NDArray[np.float64]:
        """Return ``100 (p - center) / |center|``, signed; the scale replaces ``|center|``."""
        reference = abs(center) if self.coordinate == "log" else self.unit(center)
        return 100.0 * (np.asarray(value, dtype=float) - center) / reference


def checked_parameters(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the mapping as a dict, or say what is wrong with it."""
    if not isinstance(parameters, Mapping) or not parameters:
        raise InputError(
            "a mapping from parameter names to twoaxis.Parameter",
            f"{type(parameters).__name__} {parameters!r}",
            'write parameters={"nu": twoaxis.Parameter(truth=0.01, bounds=(0.002, 0.05))}',
        )
    for name, parameter in parameters.items():
        if not isinstance(name, str) or not isinstance(parameter, Parameter):
            raise InputError(
                "names that are strings and values that are twoaxis.Parameter",
                f"{name!r}: {parameter!r}",
                "wrap the bounds and the truth in twoaxis.Parameter(...)",
            )
    return dict(parameters)


def delivered_values(parameters: Mapping[str, Parameter]) -> dict[str, float]:
    """Return what training delivered, by name, or say for which parameter that is not known."""
    known = {name: p.delivered for name, p in parameters.items() if p.delivered is not None}
    missing = [name for name in parameters if name not in known]
    if missing:
        raise InputError(
            "a delivered value for every parameter",
            f"none for {', '.join(missing)}",
            "add it, as in Parameter(delivered=..., bounds=...)",
        )
    return known


def coordinate_box(
    parameters: Mapping[str, Parameter],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bounds of the coordinates, each of shape (d,)."""
    low, high = np.array([p.coordinate_bounds for p in parameters.values()]).T
    return low, high


def physical_values(
    parameters: Mapping[str, Parameter], coordinates: NDArray[np.float64]
) -> dict[str, float]:
    """Return physical values by name, for coordinates of shape (d,)."""
    return {
        name: float(p.to_value(q))
        for (name, p), q in zip(parameters.items(), coordinates, strict=True)
    }


def center_of(parameters: Mapping[str, Parameter], at: str | Mapping[str, float] | None) -> Center:
    """Resolve `at` into the point around which a diagnosis is made.

    Parameters
    ----------
    parameters : mapping of str to Parameter
    at : {"truth", "delivered"}, mapping of str to float, or None
        None takes the truth where every parameter has one, else the delivered values.
    """
    if at is None:
        known = all(p.truth is not None for p in parameters.values())
        at = "truth" if known else "delivered"
    if isinstance(at, str):
        if at not in ("truth", "delivered"):
            raise InputError(
                'at="truth", at="delivered" or a mapping from names to values',
                f"at={at!r}",
                "choose one of the three",
            )
        values = {name: getattr(p, at) for name, p in parameters.items()}
        missing = [name for name, value in values.items() if value is None]
        if missing:
            raise InputError(
                f"a value of {at} for every parameter",
                f"none for {', '.join(missing)}",
                "add the truth, or the value that training delivered, as in "
                f"Parameter({at}=..., bounds=...)",
            )
        return Center(kind=at, values=values)
    if not isinstance(at, Mapping):
        raise InputError(
            'at="truth", at="delivered" or a mapping from names to values',
            f"at={at!r}",
            "choose one of the three",
        )
    if set(at) != set(parameters):
        raise InputError(
            f"at to name the parameters {sorted(parameters)}",
            f"the names {sorted(at)}",
            "give one value for each parameter",
        )
    values = {name: p._checked_value("at", at[name]) for name, p in parameters.items()}
    return Center(kind="point", values=values)


@dataclass(frozen=True)
class Center:
    """The point a diagnosis refers to, and what kind of point it is.

    Parameters
    ----------
    kind : {"truth", "delivered", "point"}
        Only around a truth may a deviation be called an error.
    values : dict of str to float
    """

    kind: str
    values: dict[str, float]


def _is_number(value: Any) -> bool:
    """Whether `value` is a finite real number."""
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):
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
