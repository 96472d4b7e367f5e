r"""Choose k candidates: greedily, then by exchange until no swap helps.

Greedy choice takes the candidate that adds most, again and again. For one parameter at one point
under a rule of one site a cell it is exact: the best site of each cell, and of those the best k.
Elsewhere an exchange follows: each chosen site is taken up and the best free candidate is put in
its place, until a whole round changes nothing. Each swap raises the criterion, so this ends.

What makes a layout good: the average log information over the design points.

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

Where an observation may be placed: candidates, forbidden regions, spacing and cells.

Two rules keep sites apart. *Spacing*: two sites lie at least so far from each other in the given
coordinates, ``sum_j ((a_j - b_j) / s_j)^2 >= 1``. *Cells*: the output of the forward model is cut
into equal blocks of entries, and each block holds at most one site. Present observations count:
a new site keeps away from them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree

from twoaxis.errors import InputError, refuse_masked
from twoaxis.progress import Advance
from twoaxis.resolution.fisher import NULL_SHARE
from twoaxis.resolution.layouts import checked_points, real_array

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


IndexArray = NDArray[np.intp]


# Sites exactly one spacing apart are far enough, whatever rounding makes of their distance.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Rules:
    """Candidates, and which of them a chosen site takes away.

    Attributes
    ----------
    candidates : array of int, shape (n,)
        Flat indices, ascending.
    cell : array of int, shape (N,), optional
        Number of the cell that holds each entry.
    scaled : array, shape (N, k), optional
        Positions of all entries, in units of the spacing.
    """

    candidates: IndexArray
    cell: IndexArray | None = None
    scaled: FloatArray | None = None

    @cached_property
    def _tree(self) -> KDTree | None:
        return None if self.scaled is None else KDTree(self.scaled[self.candidates])

    @cached_property
    def _by_cell(self) -> tuple[IndexArray, IndexArray]:
        """Candidates in the order of their cells, and those cells."""
        assert self.cell is not None
        cells = self.cell[self.candidates]
        order = np.argsort(cells, kind="stable")
        return order, cells[order]

    def taken_by(self, site: int) -> IndexArray:
        """Places, among the candidates, that a site takes away: its own, and those too near.

        The site is a flat index and need not be a candidate itself.
        """
        place = int(np.searchsorted(self.candidates, site))
        own = place < len(self.candidates) and self.candidates[place] == site
        taken = [np.array([place] if own else [], dtype=np.intp)]
        if self.cell is not None:
            order, cells = self._by_cell
            first, last = np.searchsorted(cells, [self.cell[site], self.cell[site] + 1])
            taken.append(order[first:last])
        if self._tree is not None and self.scaled is not None:
            near = self._tree.query_ball_point(self.scaled[site], 1 - ROUNDING)
            taken.append(np.array(near, dtype=np.intp))
        return np.unique(np.concatenate(taken))


class Free:
    """Which candidates may still be chosen, as sites are put down and taken up again."""

    def __init__(self, rules: Rules, present: IndexArray) -> None:
        self._rules = rules
        self._taken = np.zeros(len(rules.candidates), dtype=np.intp)
        for site in present:
            self._taken[rules.taken_by(int(site))] += 1

    @property
    def mask(self) -> BoolArray:
        """Whether each candidate may be chosen now."""
        return np.asarray(self._taken == 0)

    def put(self, place: int) -> None:
        """Choose a candidate."""
        self._change(place, 1)

    def take_up(self, place: int) -> None:
        """Undo the choice of a candidate."""
        self._change(place, -1)

    def _change(self, place: int, by: int) -> None:
        self._taken[self._rules.taken_by(int(self._rules.candidates[place]))] += by


def checked_rules(
    allowed: BoolArray,
    shape: tuple[int, ...],
    positions: FloatArray,
    spacing: Any,
    cells: Any,
) -> Rules:
    """Return the rules over the allowed entries, after a look at spacing and cells."""
    return Rules(
        candidates=np.flatnonzero(allowed),
        cell=None if cells is None else _cell_numbers(cells, shape),
        scaled=None if spacing is None else positions / _checked_spacing(spacing, positions),
    )


def named_positions(
    coordinates: ArrayLike | Mapping[str, ArrayLike] | None, shape: tuple[int, ...]
) -> tuple[list[str], FloatArray]:
    """Return names and values of the coordinates of all entries, (N, k)."""
    if not isinstance(coordinates, Mapping):
        positions = checked_points(coordinates, shape)
        word = "index" if coordinates is None else "coordinate"
        return [f"{word} {j}" for j in range(positions.shape[1])], positions
    columns = []
    for name, values in coordinates.items():
        array = real_array(values, f"coordinates[{name!r}]")
        if array.shape not in (shape, (int(np.prod(shape)),)):
            raise InputError(
                f"coordinates[{name!r}] in the shape {shape} of forward's output",
                f"the shape {array.shape}",
                "give one value for each entry, for instance with numpy.meshgrid or broadcast_to",
            )
        columns.append(array.ravel())
    if not columns:
        raise InputError("at least one coordinate", "an empty mapping", "leave coordinates out")
    return [str(name) for name in coordinates], checked_points(np.column_stack(columns), shape)


def allowed_entries(
    forbidden: ArrayLike | Callable[[FloatArray], ArrayLike] | None,
    shape: tuple[int, ...],
    positions: FloatArray,
) -> BoolArray:
    """Return which of the N entries may be observed."""
    size = len(positions)
    if forbidden is None:
        return np.ones(size, dtype=bool)
    if callable(forbidden):
        return ~_called(forbidden, positions)
    refuse_masked("forbidden", forbidden)
    try:
        array = np.asarray(forbidden)
    except ValueError:  # a ragged list
        array = np.empty(0, dtype=object)
    if array.size == 0 and array.dtype.kind != "O":
        return np.ones(size, dtype=bool)
    if array.dtype.kind == "b" and array.shape in (shape, (size,)):
        return ~array.ravel()
    if array.dtype.kind in "iu" and array.ndim == 1 and ((array >= 0) & (array < size)).all():
        return ~np.isin(np.arange(size), array)
    raise InputError(
        f"forbidden as a mask of shape {shape}, as flat indices from 0 to {size - 1}, or as a "
        "function of the coordinates",
        f"an array of {array.dtype} with shape {array.shape}",
        "mark what must not be observed with True, or write forbidden=lambda x: x[:, 0] < 0.1",
    )


def _called(forbidden: Callable[[FloatArray], ArrayLike], positions: FloatArray) -> BoolArray:
    wanted = f"forbidden to return True or False for each of the {len(positions)} rows it is given"
    mend = "write forbidden=lambda x: x[:, 0] < 0.1, with a column for each coordinate"
    try:
        given = forbidden(positions)
        marked = np.asarray(given)
    except Exception as error:  # the user's own function may fail in any way
        raise InputError(wanted, f"{type(error).__name__}: {error}", mend) from error
    refuse_masked("what forbidden returns", given)
    if marked.dtype.kind != "b" or marked.shape != (len(positions),):
        raise InputError(wanted, f"an array of {marked.dtype} with shape {marked.shape}", mend)
    return marked


def _checked_spacing(spacing: Any, positions: FloatArray) -> FloatArray:
    """Return one spacing for each coordinate; an infinite one takes a coordinate out."""
    array = real_array(spacing, "spacing")
    width = positions.shape[1]
    if array.shape not in ((), (width,)) or not (array > 0).all() or not np.isfinite(array).any():
        raise InputError(
            f"spacing as one distance above zero, or one for each of the {width} coordinates",
            f"spacing={spacing!r}",
            "pass spacing=0.1; an infinite entry leaves its coordinate out of the distance",
        )
    return np.broadcast_to(array, (width,))


def _cell_numbers(cells: Any, shape: tuple[int, ...]) -> IndexArray:
    """Number the cells of a cell shape, and return that of each entry."""
    refuse_masked("cells", cells)
    array = np.asarray(cells)
    if array.dtype.kind not in "iu" or array.shape != (len(shape),) or (array < 1).any():
        raise InputError(
            f"cells as the shape of a cell, {len(shape)} whole numbers of at least 1",
            f"cells={cells!r}",
            f"give one number of entries for each axis of forward's output, whose shape is {shape}",
        )
    grid = tuple(-(-n // c) for n, c in zip(shape, array.tolist(), strict=True))
    index = np.unravel_index(np.arange(int(np.prod(shape))), shape)
    inside = [axis // c for axis, c in zip(index, array.tolist(), strict=True)]
    return np.asarray(np.ravel_multi_index(inside, grid), dtype=np.intp)


# A swap that raises the average log information by less is rounding.
SMALLEST_GAIN = 1e-10
# Two gains that differ by this share are told apart by rounding alone.
SEARCH_ROUNDING = 1e-6


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
        part = Criterion(criterion.products[:, :, short])
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
    least = (-np.log(room)).mean(axis=0).min()
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
    part = Criterion(criterion.products[:, :, chosen])
    alone = Free(Rules(np.arange(len(chosen))), np.empty(0, dtype=np.intp))
    return [chosen[i] for i in greedy(part, start, alone, len(chosen))]
