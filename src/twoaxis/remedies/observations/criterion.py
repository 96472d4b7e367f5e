r"""What makes a layout good: the average log information over the design points.

One observation with whitened sensitivity :math:`y_p(s)` (in units of 100 percent, at design point
p) adds :math:`y_p y_p^\top` to the Fisher information. A layout S is worth

.. math::

   \Phi(S) = \frac1P \sum_p \log\det\Big(\Lambda_p + \sum_{s \in S} y_p(s)\, y_p(s)^\top\Big),

D-optimality for one point and Bayesian D-optimality for several. With one parameter and one
point it is the Fisher information itself. :math:`\Lambda_p` is what the declared bounds know, the
inverse variance of a uniform distribution between them; it keeps the logarithm finite before the
first observation and matters no more once there are some.

*Why the average logarithm.* Up to a constant it is the average log *efficiency*, the share of the
information that a layout made for point p alone would have, so no point counts more because it is
easier to see. :math:`\Phi` is also submodular: an observation adds less to a larger layout. Greedy
choice is then sure of :math:`1 - 1/e` of the best gain, or of half under a rule of one site a cell,
and a cheap bound finds each choice without a look at most candidates. The worst efficiency over
the points has neither property, and its optimum spends on the one value that is hardest to serve;
`SuggestedSites.efficiency` reports it.

Products :math:`y_a y_b` are kept *packed*, the upper triangle as one axis, so that a quadratic
form over all candidates is one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twoaxis.resolution.fisher import NULL_SHARE

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Places = NDArray[np.intp] | list[int] | slice


def packed(slopes: FloatArray) -> FloatArray:
    """Return the products of sensitivities (..., n, d) as (..., m, n), m = d (d + 1) / 2."""
    first, second = np.triu_indices(slopes.shape[-1])
    return np.ascontiguousarray(np.moveaxis(slopes[..., first] * slopes[..., second], -1, -2))


def unpacked(products: FloatArray) -> FloatArray:
    """Return packed products (..., m) as symmetric matrices (..., d, d)."""
    d = int((np.sqrt(8 * products.shape[-1] + 1) - 1) / 2)
    first, second = np.triu_indices(d)
    matrix = np.empty((*products.shape[:-1], d, d))
    matrix[..., first, second] = products
    matrix[..., second, first] = products
    return matrix


def mean_error_percent(information: FloatArray) -> FloatArray:
    """First-order mean absolute error for information matrices (..., d, d), as (..., d).

    ``100 sqrt(2/pi) sqrt(diag(I^-1))``; infinite for a parameter that has a share in a
    direction that is not seen.
    """
    values, vectors = np.linalg.eigh(information)
    null = values <= NULL_SHARE * np.maximum(values[..., -1:], 0.0)
    inverse = np.where(null, 0.0, 1 / np.where(null, 1.0, values))
    variance = np.einsum("...jk,...k->...j", vectors**2, inverse)
    unseen = (null[..., None, :] & (np.abs(vectors) > 1e-6)).any(axis=-1)
    return np.where(unseen, np.inf, 100 * np.sqrt(2 / np.pi) * np.sqrt(variance))


@dataclass(frozen=True)
class Criterion:
    """The average log information of layouts over a fixed set of candidates.

    Attributes
    ----------
    products : array, shape (P, m, n)
        Packed products of the whitened sensitivities of n candidates at P points.
    """

    products: FloatArray

    @cached_property
    def _upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
        """Rows and columns of a packed matrix, and how often each entry stands in the whole one."""
        m = self.products.shape[1]
        first, second = np.triu_indices(int((np.sqrt(8 * m + 1) - 1) / 2))
        return first, second, np.where(first == second, 1.0, 2.0)

    def add(self, information: FloatArray, place: int, sign: float = 1.0) -> FloatArray:
        """Return the information (P, d, d) with a candidate added, or taken away."""
        return information + sign * unpacked(self.products[:, :, place])

    def forms(self, information: FloatArray, places: Places = slice(None)) -> FloatArray:
        """Return ``y_p^T I_p^-1 y_p`` of candidates, (P, n)."""
        weights = self._weights(information)
        return np.asarray(np.einsum("pm,pmn->pn", weights, self.products[:, :, places]))

    def gains(self, information: FloatArray, places: Places) -> FloatArray:
        """Return what each candidate adds: ``mean_p log(1 + y_p^T I_p^-1 y_p)``."""
        return np.asarray(np.log1p(self.forms(information, places)).mean(axis=0))

    def leverage(self, information: FloatArray) -> FloatArray:
        """Return ``mean_p y_p^T I_p^-1 y_p`` of every candidate, never below its gain."""
        points, m, count = self.products.shape
        weights = self._weights(information).reshape(-1)
        return np.asarray(weights @ self.products.reshape(points * m, count) / points)

    def best(self, information: FloatArray, free: BoolArray) -> tuple[int, float]:
        """Return the free candidate that adds most, and what it adds.

        ``log(1 + x) <= x``: a candidate whose leverage lies below the gain of another cannot win.
        """
        bound = np.where(free, self.leverage(information), -np.inf)
        top = int(np.argmax(bound))
        gain = float(self.gains(information, [top])[0])
        if len(self.products) == 1:  # one point: leverage and gain have one order
            return top, gain
        # Rounding may put the leverage of the top one a last digit below its own gain.
        hopeful = np.union1d(np.flatnonzero(bound >= gain), [top])
        gains = self.gains(information, hopeful)
        winner = int(np.argmax(gains))
        return int(hopeful[winner]), float(gains[winner])

    def _weights(self, information: FloatArray) -> FloatArray:
        """Coefficients of ``y^T I^-1 y`` on packed products, shape (P, m)."""
        first, second, times = self._upper
        return np.asarray(np.linalg.inv(information)[:, first, second] * times)
