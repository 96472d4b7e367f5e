"""The unknowns among the equation parameters of jinns: leaves, entries of leaves, transforms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from twoaxis.adapters.building import as_numpy, foreign
from twoaxis.errors import InputError

Transform = tuple[Callable[[Any], Any], Callable[[Any], Any]]


@dataclass(frozen=True)
class Unknown:
    """One number among the equation parameters.

    Attributes
    ----------
    name : str
        As the user spells it: ``"nu"`` or ``"growth[1]"``.
    leaf : str
        The field of ``eq_params``.
    place : int
        Which entry of it, counted through.
    delivered : float
        The physical value that training returned.
    transform : pair of functions, optional
        Stored value to physical value, and back.
    """

    name: str
    leaf: str
    place: int
    delivered: float
    transform: Transform | None

    def placed(self, params: Any, physical: Any) -> Any:
        """Return the parameters with this unknown replaced."""
        equinox = foreign("equinox", "jinns", "twoaxis.from_jinns")
        stored = physical if self.transform is None else self.transform[1](physical)
        old = getattr(params.eq_params, self.leaf)
        new = old.reshape(-1).at[self.place].set(stored).reshape(old.shape)
        return equinox.tree_at(lambda p: getattr(p.eq_params, self.leaf), params, new)


def read_unknowns(
    jax: Any, params: Any, names: Iterable[str], transform: Mapping[str, Transform]
) -> list[Unknown]:
    """Find the named unknowns in ``params.eq_params``, with the values they have there."""
    names = list(names)
    for name in transform:
        if name not in names:
            raise InputError(
                f"transforms of the named parameters: {', '.join(names)}",
                repr(name),
                "spell it as in parameters",
            )
    return [_read(jax, params.eq_params, name, transform.get(name)) for name in names]


def _read(jax: Any, eq_params: Any, name: str, transform: Transform | None) -> Unknown:
    stored = {field.name: getattr(eq_params, field.name) for field in fields(eq_params)}
    split = re.fullmatch(r"(.+?)(?:\[(\d+)\])?", name)
    leaf, place = (split[1], split[2]) if split else (name, None)
    if leaf not in stored:
        raise InputError(
            f"names among eq_params: {', '.join(stored)}", repr(name), "spell it as in Params"
        )
    values = as_numpy(stored[leaf]).reshape(-1)
    if (place is None and values.size != 1) or int(place or 0) >= values.size:
        raise InputError(
            f"one number of eq_params.{leaf}, which has {values.size}",
            repr(name),
            f"name one entry, as in '{leaf}[0]'" if values.size > 1 else f"write '{leaf}'",
        )
    value = float(values[int(place or 0)])
    if not np.isfinite(value):
        raise InputError(
            f"a finite value of {name} from training",
            f"{value}",
            "train again with a smaller step: jinns returns the last finite parameters",
        )
    if transform is not None:
        value = _checked_physical(jax, name, transform, value)
    return Unknown(name, leaf, int(place or 0), value, transform)


def _checked_physical(jax: Any, name: str, transform: Transform, stored: float) -> float:
    """Return the physical value of a stored one, if the transform can be undone."""
    if not (isinstance(transform, tuple) and len(transform) == 2 and all(map(callable, transform))):
        raise InputError(
            f"the transform of {name} as two functions, stored to physical and back",
            repr(transform),
            f"write transform={{{name!r}: (jax.numpy.exp, jax.numpy.log)}}",
        )
    with jax.enable_x64(True):
        physical = transform[0](jax.numpy.asarray(stored, "float64"))
        back = float(transform[1](physical))
    if not np.isclose(back, stored, rtol=1e-9, atol=1e-12):
        raise InputError(
            f"a transform of {name} whose second function undoes its first",
            f"{back:g} back from {stored:g}",
            f"write transform={{{name!r}: (jax.numpy.exp, jax.numpy.log)}}, or the like",
        )
    return float(physical)
