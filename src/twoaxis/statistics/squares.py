r"""Sums of squares in units of the noise, where the noise is known or was estimated.

A sum :math:`Q` of k squares of standard normal numbers follows chi-square with k degrees of
freedom. Where the standard deviation that they were divided by was itself estimated, from f
degrees of freedom that are independent of them, :math:`Q / k` follows Fisher's F with k and f
degrees of freedom; for one square that is the square of Student's t. With many data the two agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import chdtr, chdtrc, chdtri, fdtr, fdtrc, fdtri

# Degrees of freedom of noise that was declared.
KNOWN = np.inf


def squares_above(total: Any, count: Any, freedom: float = KNOWN) -> Any:
    """Return the probability of a larger sum of `count` squares."""
    if np.isinf(freedom):
        return chdtrc(count, total)
    return fdtrc(count, freedom, np.divide(total, count))


def squares_below(total: Any, count: Any, freedom: float = KNOWN) -> Any:
    """Return the probability of a smaller sum of `count` squares."""
    if np.isinf(freedom):
        return chdtr(count, total)
    return fdtr(count, freedom, np.divide(total, count))


def squares_limit(level: float, count: int = 1, freedom: float = KNOWN) -> float:
    """Return what a sum of `count` squares stays below with the probability `level`.

    Examples
    --------
    The deviance at the ends of a 95% interval, with known noise and with noise from ten degrees of
    freedom:

    >>> round(squares_limit(0.95), 2), round(squares_limit(0.95, freedom=10), 2)
    (3.84, 4.96)
    """
    if np.isinf(freedom):
        return float(chdtri(count, 1 - level))
    return float(count * fdtri(count, freedom, level))
