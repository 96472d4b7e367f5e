"""What the application tolerates: declared by the user, never by the library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from twoaxis.errors import InputError

Statistic = Literal["mean", "p90"]


@dataclass(frozen=True)
class Tolerance:
    """Three tolerated sizes, in percent of the parameter.

    Parameters
    ----------
    material : float
        A delivered value that is off by no more than this needs no remedy.
    resolution : float
        Observations are *tight* when matched fits to repeated noise deviate by no more than
        this, and *weak* otherwise.
    preference : float
        The field's displacement is *small* when it is no more than this, and *large* otherwise.
    statistic : {"mean", "p90"}
        What is compared with `resolution`: the mean matched deviation or its 90th percentile.

    Examples
    --------
    >>> Tolerance(material=5.0, resolution=5.0, preference=5.0).statistic
    'mean'
    """

    material: float
    resolution: float
    preference: float
    statistic: Statistic = "mean"

    def __post_init__(self) -> None:
        for name in ("material", "resolution", "preference"):
            value = getattr(self, name)
            if not _is_positive(value):
                raise InputError(
                    f"{name} as a positive, finite number of percent",
                    f"{name}={value!r}",
                    f"pass {name}=5.0 if five percent would not matter",
                )
            object.__setattr__(self, name, float(value))
        if self.statistic not in ("mean", "p90"):
            raise InputError(
                'statistic "mean" or "p90"', f"statistic={self.statistic!r}", "choose one of them"
            )


def _is_positive(value: Any) -> bool:
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return real and math.isfinite(value) and value > 0
