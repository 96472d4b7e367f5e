"""The unknowns of a PINA problem: ranges, delivered values, and the transforms of an equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from twoaxis.adapters.building import with_delivered
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter, checked_parameters

Transform = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def unknown_parameters(
    torch: Any,
    problem: Any,
    given: Mapping[str, Parameter] | None,
    transform: Mapping[str, Transform],
) -> tuple[dict[str, Parameter], list[str]]:
    """Return every unknown as a Parameter with its delivered value, and what to tell of it."""
    stored = problem.unknown_parameters
    known = checked_parameters(given) if given is not None else {}
    for what, names in (("parameters", known), ("transform", transform)):
        strange = [name for name in names if name not in stored]
        if strange:
            raise InputError(
                f"{what} with names of the problem's unknowns: {', '.join(stored)}",
                ", ".join(map(repr, strange)),
                "spell them as in unknown_parameter_domain",
            )
    for name, pair in transform.items():
        _check_transform(torch, name, pair, stored[name])
    unknowns, told = {}, []
    for name, tensor in stored.items():
        if tensor.numel() != 1:
            raise InputError(
                f"one number as the unknown {name}",
                f"a tensor of shape {tuple(tensor.shape)}",
                "give each entry a name of its own in unknown_parameter_domain",
            )
        value = _physical(torch, transform, name, float(tensor.detach()))
        if name in known:
            unknowns[name] = with_delivered({name: known[name]}, {name: value})[name]
        else:
            limits = problem.unknown_parameter_domain.range[name]
            ends = sorted(_physical(torch, transform, name, float(end)) for end in limits)
            unknowns[name], words = _from_range(name, (ends[0], ends[1]), value)
            told += words
    return unknowns, told


def to_stored(transform: Mapping[str, Transform], name: str, physical: Any) -> Any:
    """Return what the equation is given for a physical value, as a tensor."""
    return transform[name][1](physical) if name in transform else physical


def _physical(torch: Any, transform: Mapping[str, Transform], name: str, stored: float) -> float:
    if name not in transform:
        return stored
    with torch.no_grad():
        return float(transform[name][0](torch.tensor(stored, dtype=torch.float64)))


def _from_range(
    name: str, bounds: tuple[float, float], value: float
) -> tuple[Parameter, list[str]]:
    """Return the Parameter that a problem's range describes."""
    told = []
    low, high = bounds
    if not low < value < high:
        # PINA clamps the unknowns before a step and not after it.
        told.append(
            f"training ended with {name} = {value:.6g} at the edge of its range [{low:g}, {high:g}]"
        )
        low, high = min(low, value), max(high, value)
    if low > 0:
        return Parameter(bounds=(low, high), delivered=value), told
    told.append(
        f"the range of {name} holds zero or negative values, so it is diagnosed in linear "
        f"coordinates; pass parameters={{{name!r}: twoaxis.Parameter(...)}} to choose"
    )
    linear = Parameter(bounds=(low, high), coordinate="linear")
    return replace(linear, delivered=value), told


def _check_transform(torch: Any, name: str, pair: Any, stored: Any) -> None:
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(map(callable, pair))):
        raise InputError(
            f"the transform of {name} as two functions, stored to physical and back",
            repr(pair),
            f"write transform={{{name!r}: (torch.exp, torch.log)}}",
        )
    value = stored.detach().double()
    back = pair[1](pair[0](value))
    if not torch.allclose(back, value, rtol=1e-9, atol=1e-12):
        raise InputError(
            f"a transform of {name} whose second function undoes its first",
            f"{float(back):g} back from {float(value):g}",
            f"write transform={{{name!r}: (torch.exp, torch.log)}}, or the like",
        )
