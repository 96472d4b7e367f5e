"""An unknown of a DeepXDE model: read through its transform, and set by value.

Which variable of a DeepXDE model is which parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twoaxis.adapters.deepxde.backend import Backend
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter


@dataclass(frozen=True)
class Unknown:
    """One physical parameter, and the variable that stores it.

    Parameters
    ----------
    name : str
    place : int
        Its place among the model's external trainable variables.
    start : float
        The number that the variable holds.
    backend : Backend
    to_physical, to_raw : callable, optional
        From the stored number to the physical parameter, and back.
    """

    name: str
    place: int
    start: float
    backend: Backend
    to_physical: Callable[[Any], Any] | None = None
    to_raw: Callable[[Any], Any] | None = None

    def physical(self, raw: float) -> tuple[float, float]:
        """Return the physical parameter and its derivative by the stored number."""
        if self.to_physical is None:
            return raw, 1.0
        try:
            return self.backend.slope(self.to_physical, raw)
        except Exception as error:
            raise InputError(
                f"a transform of {self.name} that takes and returns arrays of the backend",
                f"{type(error).__name__}: {error}",
                'write it with its functions, as in transform={"C": torch.exp}',
            ) from error

    def raw(self, value: float) -> float:
        """Return the number to store, so that the physical parameter has this value."""
        if self.to_physical is None:
            return value
        if self.to_raw is None:
            return self._solved(value)
        raw = self.backend.call(self.to_raw, value)
        found = self.physical(raw)[0]
        if not abs(found - value) <= 1e-6 * abs(value) + 1e-12:
            raise InputError(
                f"an inverse of the transform of {self.name}",
                f"{self.name}={value:g}, which becomes {raw:g} and then {found:g}",
                'write transform={"C": (to_physical, to_stored)}, or leave the inverse out',
            )
        return raw

    def _solved(self, value: float) -> float:
        """Invert the transform: Newton's method from the stored number, never away from it."""
        raw = self.start
        found, slope = self.physical(raw)
        magnitude = max(abs(value), 1e-4 * abs(found))  # of a value that may be zero
        for _ in range(200):
            miss = found - value
            step = -miss / slope if slope else 0.0
            for _ in range(80):
                other = self.physical(raw + step)
                if abs(other[0] - value) < abs(miss):  # also false where it is not a number
                    break
                step /= 2
            else:
                break
            raw, (found, slope) = raw + step, other
        if abs(found - value) <= 1e-8 * magnitude:
            return raw
        raise InputError(
            f"values of {self.name} that its transform can reach",
            f"{self.name}={value:g}; from the stored {self.start:g} one comes to {found:g}",
            "move the bounds inside the transform's range, or give its inverse too, as in "
            'transform={"C": (to_physical, to_stored)}',
        )


def delivered(
    unknown: Unknown, parameter: Parameter | None, trained: bool
) -> tuple[Parameter, list[str]]:
    """Return the parameter with the value that training delivered, and what to know about it."""
    name, value = unknown.name, unknown.physical(unknown.start)[0]
    given = None if parameter is None else parameter.delivered
    if given is None and not trained:
        raise InputError(
            f"the value that training delivered for {name}",
            "a model that has not been trained in this process, whose variable still holds "
            f"{value:g}; a saved DeepXDE model contains the network, not the unknown",
            f"train it, or write down the value: twoaxis.Parameter(delivered=..., ...) for {name}",
        )
    if parameter is None:
        if value <= 0:
            raise InputError(
                f"bounds for {name}, which is not positive",
                f"{name}={value:g}",
                f'write parameters={{"{name}": (variable, twoaxis.Parameter(bounds=(low, high), '
                'coordinate="linear"))}',
            )
        bounds = (value / 10, value * 10)
        note = f"no bounds were given for {name}: {bounds[0]:g} to {bounds[1]:g} are assumed"
        return Parameter(bounds=bounds, delivered=value), [note]
    if given is None:
        try:
            return replace(parameter, delivered=value), []
        except InputError as error:
            raise InputError(f"{name}: {error.expected}", error.got, error.fix) from error
    if abs(given - value) > 1e-6 * abs(value):
        return parameter, [
            f"{name} is audited as delivered={given:g}, which was given; the variable of the "
            f"model holds {value:g}"
        ]
    return parameter, []


PAIR = "(C, twoaxis.Parameter(bounds=(low, high)))"


def named_unknowns(
    backend: Backend,
    external: Sequence[Any],
    parameters: Any,
    unknowns: Mapping[str, Any] | None,
    transform: Mapping[str, Any] | None,
    held: Sequence[Any],
) -> dict[str, tuple[Unknown, Parameter | None]]:
    """Bring together what the user names and what the model was compiled with."""
    if not isinstance(parameters, Mapping) or not parameters:
        raise InputError(
            "a mapping from names to the variables of the model",
            f"{type(parameters).__name__} {parameters!r}",
            'write parameters={"C": ' + PAIR + "}",
        )
    given = {name: _split(each) for name, each in parameters.items()}
    _check_names(given, unknowns, transform)
    several = [held] if backend.is_variable(held) else held
    kept = [_place(backend, external, each, "held") for each in several]
    free = [n for n in range(len(external)) if n not in kept]
    found: dict[str, Unknown] = {}
    taken: dict[int, str] = {}
    for name, (variable, _) in given.items():
        variable = (unknowns or {}).get(name) if variable is None else variable
        if variable is None and not (len(given) == len(free) == 1):
            raise InputError(
                f"the variable that stores {name}",
                f"a model with {len(external)} external trainable variables, and none named",
                f'write parameters={{"{name}": {PAIR}}}, or unknowns={{"{name}": C}} beside it',
            )
        place = free[0] if variable is None else _place(backend, external, variable, name)
        if place in taken or place in kept:
            raise InputError(
                "a variable of its own for each name",
                f"the same one for {name} and {taken.get(place, 'held')}",
                "correct the variables",
            )
        taken[place] = name
        found[name] = _unknown(backend, external, name, place, (transform or {}).get(name))
    _check_all_named(backend, external, [n for n in free if n not in taken])
    return {name: (found[name], given[name][1]) for name in given}


def _check_names(given: Mapping[str, tuple[Any, Any]], unknowns: Any, transform: Any) -> None:
    """Say so where names differ, or a variable is given twice."""
    for wanted, mapping in (("unknowns", unknowns), ("transform", transform)):
        if not isinstance(mapping or {}, Mapping):
            raise InputError(
                f"{wanted} as a mapping from the names of the parameters",
                type(mapping).__name__,
                f'write {wanted}={{"{next(iter(given))}": ...}}',
            )
        strange = sorted(set(mapping or {}) - set(given), key=str)
        if strange:
            raise InputError(
                f"{wanted} under the names of the parameters, {', '.join(map(repr, given))}",
                ", ".join(map(repr, strange)),
                "use the same names in both",
            )
    for name in unknowns or {}:
        if given[name][0] is not None:
            raise InputError(
                f"one variable for {name}",
                "one in parameters and one in unknowns",
                "leave one of them out",
            )


def _check_all_named(backend: Backend, external: Sequence[Any], left: Sequence[int]) -> None:
    """Say so where a variable that training moved has no name."""
    if left:
        values = ", ".join(str(backend.stored(external[n]).tolist())[:40] for n in left)
        raise InputError(
            f"a name for each of the {len(external)} external trainable variables of the model",
            f"{len(left)} without one, holding {values}",
            "add them to parameters; one that is no parameter goes to held=[variable] and keeps "
            "its value",
        )


def _split(given: Any) -> tuple[Any, Parameter | None]:
    """Return the variable and the parameter, each where it was given."""
    if isinstance(given, Parameter):
        return None, given
    if isinstance(given, (tuple, list)):
        if len(given) != 2 or not isinstance(given[1], Parameter):
            raise InputError(
                "a variable and its twoaxis.Parameter",
                f"{len(given)} things: {', '.join(type(each).__name__ for each in given)}",
                'write parameters={"C": ' + PAIR + "}",
            )
        return given[0], given[1]
    return given, None


def _place(backend: Backend, external: Sequence[Any], variable: Any, name: str) -> int:
    if not backend.is_variable(variable):
        raise InputError(
            f"the dde.Variable that stores {name}",
            type(variable).__name__,
            "pass the variable itself, not its value",
        )
    for place, each in enumerate(external):
        if each is variable:
            return place
    raise InputError(
        f"for {name} one of the variables that the model was compiled with",
        f"a variable that is not among its {len(external)} external trainable variables",
        "pass the very object that went to external_trainable_variables in the last call of "
        "model.compile",
    )


def _unknown(
    backend: Backend, external: Sequence[Any], name: str, place: int, transform: Any
) -> Unknown:
    stored = backend.stored(external[place])
    if stored.size != 1 or not np.isfinite(stored).all():
        raise InputError(
            f"one finite number in the variable of {name}",
            f"an array of shape {stored.shape}" if stored.size != 1 else str(stored.item()),
            "use a variable of its own for each number"
            if stored.size != 1
            else "look at the training, which has diverged",
        )
    both = tuple(transform) if isinstance(transform, (tuple, list)) else (transform, None)
    if transform is not None and not (
        len(both) == 2 and callable(both[0]) and (both[1] is None or callable(both[1]))
    ):
        raise InputError(
            f"the transform of {name} as a function, or a function and its inverse",
            repr(transform),
            'write transform={"C": torch.exp}, from the stored number to the parameter',
        )
    return Unknown(name, place, float(stored.item()), backend, *both)
