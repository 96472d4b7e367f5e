"""An unknown of a DeepXDE model: read through its transform, and set by value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

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
            raise InputError(f"{name}: {error.wanted}", error.got, error.fix) from error
    if abs(given - value) > 1e-6 * abs(value):
        return parameter, [
            f"{name} is audited as delivered={given:g}, which was given; the variable of the "
            f"model holds {value:g}"
        ]
    return parameter, []
