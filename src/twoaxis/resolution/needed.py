r"""How many more observations of the present kind, or how much less noise, reach a tolerance.

At sites of the same kind, information grows in proportion to their number n and to the inverse
of the noise variance. To first order the error is the inverse square root of the information:

.. math:: E(n', \sigma') = E(n, \sigma)\, \sqrt{n / n'}\, \sigma' / \sigma .

Only the present error and n are needed, so a saved audit is enough. The rule knows no bias and
no bounds: where the present error is so large that estimates stop at the bounds, it is rough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from twoaxis.errors import InputError
from twoaxis.views.checks import is_whole


@dataclass(frozen=True)
class NeededObservations:
    """What would bring the error down to a tolerance.

    Attributes
    ----------
    error_percent, tolerance_percent : float
        The present mean error, and the one that is wanted.
    count : int
        How many observations there are now.
    factor : float
        So many times as many observations are needed, ``(error / tolerance)^2``; 1 or less where
        the tolerance is met already.
    observations : int
        The number needed in all; never below `count`.
    noise_factor : float
        With the present observations, the noise would have to be this share of what it is.
    """

    error_percent: float
    tolerance_percent: float
    count: int
    factor: float
    observations: int
    noise_factor: float

    @property
    def more(self) -> int:
        """How many observations have to be added."""
        return self.observations - self.count

    def __str__(self) -> str:
        if self.more == 0:
            return (
                f"A mean error of {self.error_percent:.3g}% is within {self.tolerance_percent:g}%: "
                f"the {self.count} observations are enough"
            )
        return (
            f"From {self.error_percent:.3g}% to {self.tolerance_percent:g}% takes "
            f"{self.factor:.3g} times as many observations of the present kind "
            f"({self.observations}, {self.more} more), or {self.noise_factor:.3g} of the noise"
        )


def needed_observations(
    error_percent: float, tolerance_percent: float, count: int
) -> NeededObservations:
    """Say how many observations of the present kind, or how much less noise, are needed.

    Parameters
    ----------
    error_percent : float
        Present mean error, such as ``resolution.error_percent.mean()`` or
        ``resolution.fisher_error_percent``.
    tolerance_percent : float
        The mean error that is wanted.
    count : int
        How many observations gave the present error.

    Examples
    --------
    >>> import twoaxis as ta
    >>> print(ta.needed_observations(error_percent=16.7, tolerance_percent=5.0, count=200))
    From 16.7% to 5% takes 11.2 times as many observations of the present kind (2232, 2032 more), \
or 0.299 of the noise
    """
    error = _positive("error_percent", error_percent)
    tolerance = _positive("tolerance_percent", tolerance_percent)
    if not is_whole(count) or count < 1:
        raise InputError(
            "count as a whole number of at least 1",
            f"count={count!r}",
            "give the number of observations that the error belongs to",
        )
    factor = (error / tolerance) ** 2
    # A ratio that is whole but for rounding must not ask for one observation more.
    needed = math.ceil(round(int(count) * factor, 6))
    return NeededObservations(
        error_percent=error,
        tolerance_percent=tolerance,
        count=int(count),
        factor=factor,
        observations=max(int(count), needed),
        noise_factor=tolerance / error,
    )


def _positive(name: str, value: Any) -> float:
    """Return a finite number above zero; an array with one entry counts as a number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(
            f"{name} as one finite number above zero",
            f"{name}={value!r}",
            "an infinite error means a direction that is not seen: more of the same sites will "
            "not help, and twoaxis.suggest_sites may"
            if number == math.inf
            else f"pass {name} in percent, as in {name}=5.0",
        )
    return number
