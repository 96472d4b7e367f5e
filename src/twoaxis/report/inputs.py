"""What drawing functions accept: an audit or one of its parts, and the name of a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from twoaxis.diagnosis import Audit
from twoaxis.diagnosis.result import MISSING
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.result import Result

Part = TypeVar("Part", bound=Result[Any])


def as_audit(result: Any) -> Audit:
    """Return an audit, or raise an error that says what was passed instead."""
    if not isinstance(result, Audit):
        raise InputError(
            "an audit", type(result).__name__, "pass what twoaxis.audit or twoaxis.load returned"
        )
    return result


def part_of(result: Any, cls: type[Part], name: str) -> Part:
    """Return a result of a class: the given one, or the one that an audit holds as `name`."""
    if isinstance(result, cls):
        return result
    if not isinstance(result, Audit):
        raise InputError(
            f"a {cls.__name__} or an audit",
            type(result).__name__,
            f"pass what twoaxis.audit, twoaxis.load or the function that makes a {cls.__name__} "
            "returned",
        )
    found: Part | None = getattr(result, name)
    if found is None:
        what, call = MISSING[f"/{name}"]
        raise InputError(f"an audit with {what}", "one without it", f"use {call}")
    return found


def choose(parameters: Sequence[str] | Mapping[str, Parameter], parameter: str | None) -> str:
    """Return the name of one parameter, which may be left out where only one is of interest."""
    names = list(parameters)
    interest = names
    if isinstance(parameters, Mapping):
        interest = [name for name, one in parameters.items() if not one.nuisance]
    if parameter is None and len(interest) == 1:
        return interest[0]
    if parameter is None or parameter not in names:
        raise InputError(
            f"one of the parameters {', '.join(names)}",
            f"parameter={parameter!r}",
            f'name one, as in parameter="{names[0]}"',
        )
    return parameter


def center_word(kind: str) -> str:
    """Return a center in words: truth, candidate or chosen point."""
    return {"truth": "truth", "delivered": "candidate"}.get(kind, "chosen point")
