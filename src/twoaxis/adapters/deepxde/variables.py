"""Which variable of a DeepXDE model is which parameter, and what training made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twoaxis.adapters.deepxde.backend import Backend
from twoaxis.adapters.foreign import check_names, refuse_functions
from twoaxis.adapters.unknowns import Unknown, read_unknown, with_delivered
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.result import Message

PAIR = "(C, twoaxis.Parameter(bounds=(low, high)))"


def named_unknowns(
    backend: Backend,
    external: Sequence[Any],
    parameters: Any,
    unknowns: Mapping[str, Any] | None,
    transform: Mapping[str, Any] | None,
    held: Sequence[Any],
) -> dict[str, tuple[Unknown, Parameter | None]]:
    """Return the unknown behind each name, and its parameter where one was given."""
    if not isinstance(parameters, Mapping) or not parameters:
        raise InputError(
            "a mapping from names to the variables of the model",
            f"{type(parameters).__name__} {parameters!r}",
            'write parameters={"C": ' + PAIR + "}",
        )
    refuse_functions(parameters, "twoaxis.from_deepxde")
    given = {name: _split(each) for name, each in parameters.items()}
    check_names("unknowns", unknowns or {}, given)
    check_names("transform", transform or {}, given)
    twice = [name for name in unknowns or {} if given[name][0] is not None]
    if twice:
        raise InputError(
            f"one variable for {twice[0]}",
            "one in parameters and one in unknowns",
            "leave one of them out",
        )
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
        stored, function = backend.value_of(external[place]), (transform or {}).get(name)
        found[name] = read_unknown(name, place, stored, backend.arithmetic, function)
    _check_all_named(backend, external, [n for n in free if n not in taken])
    return {name: (found[name], given[name][1]) for name in given}


def _check_all_named(backend: Backend, external: Sequence[Any], left: Sequence[int]) -> None:
    """Refuse a variable that training moved and that has no name."""
    if left:
        values = ", ".join(str(backend.value_of(external[n]).tolist())[:40] for n in left)
        raise InputError(
            f"a name for each of the {len(external)} external trainable variables of the model",
            f"{len(left)} without one, holding {values}",
            "add them to parameters, or list one that is no parameter in held=[variable], where it "
            "keeps its value",
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


def delivered(
    unknown: Unknown, parameter: Parameter | None, trained: bool
) -> tuple[Parameter, list[Message]]:
    """Return the parameter with the value from training, and notes about it."""
    name, value = unknown.name, unknown.delivered
    if not trained and (parameter is None or parameter.delivered is None):
        raise InputError(
            f"the value that training delivered for {name}",
            "a model that has not been trained in this process, whose variable still holds "
            f"{value:g}; a saved DeepXDE model contains the network, not the unknown",
            f"train it, or pass the value as twoaxis.Parameter(delivered=..., ...) for {name}",
        )
    if parameter is not None:
        return with_delivered(parameter, unknown)
    if value <= 0:
        raise InputError(
            f"bounds for {name}, which is not positive",
            f"{name}={value:g}",
            f'write parameters={{"{name}": (variable, twoaxis.Parameter(bounds=(low, high), '
            'coordinate="linear"))}',
        )
    bounds = (value / 10, value * 10)
    text = f"no bounds were given for {name}: {bounds[0]:g} to {bounds[1]:g} are assumed"
    numbers = {"lower": bounds[0], "upper": bounds[1]}
    note = Message("parameter.assumed_bounds", text, "warning", numbers)
    return Parameter(bounds=bounds, delivered=value), [note]
