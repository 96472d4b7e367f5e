r"""Choose sites: greedily, then by exchange until no swap improves the layout.

One observation with whitened sensitivity :math:`y_p(s)` (in units of 100%, at design point p) adds
:math:`y_p y_p^\top` to the Fisher information. The criterion of a layout S is its average log
information over the design points,

.. math::

   \Phi(S) = \frac1P \sum_p \log\det\Big(\Lambda_p + \sum_{s \in S} y_p(s)\, y_p(s)^\top\Big),

D-optimality for one point and Bayesian D-optimality for several. With one parameter and one
point it is the Fisher information itself. :math:`\Lambda_p` is the information of the declared
bounds, the inverse variance of a uniform distribution between them; it keeps the logarithm finite
before the first observation and is negligible once there are some.

*Nuisance parameters* are fitted along with the others and of no interest. The information about the
others is then the Schur complement of the nuisance block, and the criterion its log determinant,
:math:`\log\det I - \log\det I_{nn}` (D_s-optimality): a site adds
:math:`\log(1 + y^\top I^{-1} y) - \log(1 + y_n^\top I_{nn}^{-1} y_n)`.

*Why the average logarithm.* Up to a constant it is the average log *efficiency*, the share of the
information that a layout made for point p alone would have, so no point counts more because it is
easier to see. Without nuisance parameters :math:`\Phi` is also submodular: an observation adds
less to a larger layout. The greedy choice then achieves at least :math:`1 - 1/e` of the best gain,
or half under a rule of one site per cell, and a cheap bound finds each choice without evaluating
most candidates. The worst efficiency over the points has neither property, and its optimum spends
observations on the one value that is hardest to serve; `SuggestedSites.efficiency` reports it.

*Greedy* takes the candidate that adds most, again and again. For one parameter at one point under
a rule of one site per cell it is exact: the best site of each cell, and of those the best k.
Elsewhere *exchange* follows: each chosen site is removed and the best free candidate put in its
place, until a complete round changes nothing. Each swap increases the criterion, so this ends.

Products :math:`y_a y_b` are kept *packed*, the upper triangle as one axis, so that a quadratic
form over all candidates is one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.progress import Advance
from twoaxis.remedies.sites.rules import Free, Rules
from twoaxis.resolution.fisher import NULL_SHARE

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]
Places = NDArray[np.intp] | list[int] | slice

# A swap that raises the average log information by less is rounding.
SMALLEST_GAIN = 1e-10
# Two gains that differ by less than this share differ by rounding alone.
SEARCH_ROUNDING = 1e-6


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
    direction that is not seen. Every parameter is taken in units of its own strength: a small one
    is not an unseen one.
    """
    own = np.einsum("...jj->...j", information)
    strength = np.sqrt(np.where(own > 0, own, 1.0))
    values, vectors = np.linalg.eigh(
        information / (strength[..., :, None] * strength[..., None, :])
    )
    null = values <= NULL_SHARE * np.maximum(values[..., -1:], 0.0)
    inverse = np.where(null, 0.0, 1 / np.where(null, 1.0, values))
    variance = np.einsum("...jk,...k->...j", vectors**2, inverse) / strength**2
    unseen = (null[..., None, :] & (np.abs(vectors) > 1e-6)).any(axis=-1)
    return np.where(unseen, np.inf, 100 * np.sqrt(2 / np.pi) * np.sqrt(variance))


@dataclass(frozen=True)
class Criterion:
    """The average log information of layouts over a fixed set of candidates.

    Attributes
    ----------
    products : array, shape (P, m, n)
        Packed products of the whitened sensitivities of n candidates at P points.
    nuisance : array of bool, shape (d,), optional
        Which parameters are of no interest; by default none.
    """

    products: FloatArray
    nuisance: BoolArray | None = None

    def of(self, places: Places) -> Criterion:
        """Return the same criterion over some of the candidates."""
        return Criterion(self.products[:, :, places], self.nuisance)

    def at(self, point: int) -> Criterion:
        """Return the same criterion for one design point alone."""
        return Criterion(self.products[point : point + 1], self.nuisance)

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
        return self._quadratic(_inverse(information), places)

    def absorbed(self, information: FloatArray, places: Places = slice(None)) -> FloatArray:
        """Return ``y_n^T I_nn^-1 y_n``: what is about the nuisance parameters alone, (P, n)."""
        return self._quadratic(self._nuisance_inverse(information), places)

    def gains(self, information: FloatArray, places: Places) -> FloatArray:
        """Return what each candidate adds to the average log information of interest."""
        gain = np.log1p(self.forms(information, places))
        if self.nuisance is not None:
            gain -= np.log1p(self.absorbed(information, places))
        return np.asarray(gain.mean(axis=0))

    def leverage(self, information: FloatArray) -> FloatArray:
        """Return ``mean_p (y^T I^-1 y - y_n^T I_nn^-1 y_n)`` of every candidate.

        It is never below the gain: ``log((1 + x) / (1 + z)) <= x - z`` for ``x >= z``.
        """
        points, m, count = self.products.shape
        inverse = _inverse(information)
        if self.nuisance is not None:
            inverse = inverse - self._nuisance_inverse(information)
        weights = self._weights(inverse).reshape(-1)
        return np.asarray(weights @ self.products.reshape(points * m, count) / points)

    def best(self, information: FloatArray, free: BoolArray) -> tuple[int, float]:
        """Return the free candidate that adds most, and what it adds.

        A candidate whose leverage lies below the gain of another cannot win.
        """
        bound = np.where(free, self.leverage(information), -np.inf)
        top = int(np.argmax(bound))
        gain = float(self.gains(information, [top])[0])
        if len(self.products) == 1 and self.nuisance is None:  # gains are in the same order
            return top, gain
        # Rounding may put the leverage of the top one a last digit below its own gain.
        hopeful = np.union1d(np.flatnonzero(bound >= gain), [top])
        gains = self.gains(information, hopeful)
        winner = int(np.argmax(gains))
        return int(hopeful[winner]), float(gains[winner])

    def log_information(self, information: FloatArray) -> FloatArray:
        """Return the log determinant of the information of interest, (P,)."""
        whole = np.linalg.slogdet(information)[1]
        if self.nuisance is not None:
            block = information[:, self.nuisance][:, :, self.nuisance]
            whole = whole - np.linalg.slogdet(block)[1]
        return np.asarray(whole)

    def _nuisance_inverse(self, information: FloatArray) -> FloatArray:
        """``I_nn^-1`` in the place of its block, zero elsewhere, (P, d, d)."""
        inverse = np.zeros_like(information)
        assert self.nuisance is not None
        own = np.ix_(np.arange(len(information)), *[np.flatnonzero(self.nuisance)] * 2)
        inverse[own] = _inverse(information[own])
        return inverse

    def _quadratic(self, inverse: FloatArray, places: Places) -> FloatArray:
        """Return ``y_p^T A_p y_p`` of candidates for symmetric matrices (P, d, d), (P, n)."""
        weights, products = self._weights(inverse), self.products[:, :, places]
        return np.asarray(np.einsum("pm,pmn->pn", weights, products))

    def _weights(self, inverse: FloatArray) -> FloatArray:
        """Coefficients of ``y^T A y`` on packed products, shape (P, m)."""
        first, second, times = self._upper
        return np.asarray(inverse[:, first, second] * times)


def _inverse(matrices: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(matrices), dtype=float)


def greedy(
    criterion: Criterion, start: FloatArray, free: Free, k: int, advance: Advance | None = None
) -> list[int]:
    """Choose k candidates one after the other, given the information `start`, (P, d, d)."""
    chosen: list[int] = []
    information = start
    for _ in range(k):
        mask = free.mask
        if not mask.any():
            raise InputError(
                f"room for {k} new observations under the rules",
                f"room for {len(chosen)}",
                "ask for fewer, or loosen spacing, cells or forbidden",
            )
        place, _ = criterion.best(information, mask)
        free.put(place)
        information = criterion.add(information, place)
        chosen.append(place)
        if advance is not None:
            advance(1)
    return chosen


def exchange(
    criterion: Criterion,
    start: FloatArray,
    free: Free,
    chosen: list[int],
    advance: Advance | None = None,
) -> tuple[list[int], int]:
    """Swap chosen candidates for better ones until none is left; return the number of swaps.

    Most candidates can never win a place. The rounds look at a shortlist, which is made anew until
    one that is sure for the final layout brings no swap.
    """
    swaps = 0
    while True:
        short = shortlist(criterion, start, chosen)
        part = criterion.of(short)
        places = np.searchsorted(short, chosen).tolist()
        places, new = _rounds(part, start, free, short, places, advance)
        chosen = short[places].tolist()
        if new == 0:
            return chosen, swaps
        swaps += new


def shortlist(criterion: Criterion, start: FloatArray, chosen: list[int]) -> IndexArray:
    r"""Return the candidates that might replace a chosen one, ascending; chosen ones included.

    With :math:`h_p(y) = y^\top I_p^{-1} y` under the whole layout, taking up site i leaves at most
    :math:`h_p(y) / (1 - h_p(i))` (Sherman and Morrison, then Cauchy and Schwarz). A candidate whose
    gain stays below that of every chosen site even so is in no swap that helps.
    """
    information = total(criterion, start, chosen)
    forms = criterion.forms(information)
    held = forms[:, chosen]
    room = np.maximum(1 - held, np.finfo(float).eps)
    limit = np.log1p(forms / room.min(axis=1, keepdims=True)).mean(axis=0)
    # What a chosen site adds to the others: log(1 + h / (1 - h)) = -log(1 - h), exactly.
    added = -np.log(room)
    if criterion.nuisance is not None:
        added += np.log1p(-criterion.absorbed(information, chosen))
    least = added.mean(axis=0).min()
    return np.union1d(np.flatnonzero(limit >= least * (1 - SEARCH_ROUNDING)), chosen).astype(
        np.intp
    )


def _rounds(
    criterion: Criterion,
    start: FloatArray,
    free: Free,
    short: IndexArray,
    chosen: list[int],
    advance: Advance | None,
) -> tuple[list[int], int]:
    """Try every chosen site in turn, until all have been found best in their places."""
    swaps = unchanged = turn = 0
    while unchanged < len(chosen):
        slot = turn % len(chosen)
        turn += 1
        old = chosen[slot]
        # Summed afresh, so that a long search does not gather rounding.
        others = total(criterion, start, chosen[:slot] + chosen[slot + 1 :])
        free.take_up(int(short[old]))
        new, gain = criterion.best(others, free.mask[short])
        if gain <= float(criterion.gains(others, [old])[0]) + SMALLEST_GAIN:
            new, unchanged = old, unchanged + 1
        else:
            swaps, unchanged = swaps + 1, 1
        free.put(int(short[new]))
        chosen[slot] = new
        if advance is not None:
            advance(1)
    return chosen, swaps


def total(criterion: Criterion, start: FloatArray, chosen: list[int]) -> FloatArray:
    """Return the information of a layout, (P, d, d)."""
    return start + unpacked(criterion.products[:, :, chosen].sum(axis=2))


def by_worth(criterion: Criterion, start: FloatArray, chosen: list[int]) -> list[int]:
    """Order chosen candidates so that every beginning of the list is a good layout."""
    part = criterion.of(chosen)
    alone = Free(Rules(np.arange(len(chosen))), np.empty(0, dtype=np.intp))
    return [chosen[i] for i in greedy(part, start, alone, len(chosen))]
