"""Matched fits of one parameter from a bank of solved values, for all datasets at once.

Between two knots every prediction is a cubic in ``d = q - q_k``, so the whitened misfit

``chi2(d) = | y - a_0 - a_1 d - a_2 d^2 - a_3 d^3 |^2``

is a polynomial of degree six whose coefficients need inner products alone: of the ``a_i``
among themselves, once per layout, and of each ``a_i`` with the data. Minima and ends of
likelihood-profile sets are roots of such polynomials, found by bisection.

Whether the bank is fine enough is checked by direct optimization of some datasets
(`check_bank`). A bank that is too coarse is refined until its estimates agree (`entries_needed`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import elementwise

from twoaxis.errors import InputError
from twoaxis.forward import Bank, ForwardModel
from twoaxis.least_squares import Minimum
from twoaxis.progress import Advance
from twoaxis.resolution.fisher import Information
from twoaxis.resolution.layouts import WhitenedLayout
from twoaxis.resolution.matched_fit import Estimator, Fits, joined, stacked_parts
from twoaxis.resolution.setup import Setup
from twoaxis.statistics import squares_limit

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# Bisections that narrow an interval between knots down to rounding.
BISECTIONS = 60
# Rows are taken in portions, so that the polynomials of many replicas fit in memory.
ROWS_AT_ONCE = 2048
# Observations are summed in portions, too.
OBSERVATIONS_AT_ONCE = 10_000
# A bank takes at most this many bytes; more observations need another method.
BANK_BYTES = 2**30


@dataclass(frozen=True)
class Polynomials:
    """chi2 between the knots: ascending coefficients, shape (7, K - 1, R)."""

    knots: FloatArray
    coefficients: FloatArray

    def value(self, interval: IndexArray, row: IndexArray, d: FloatArray) -> FloatArray:
        """chi2 of data row `row` at ``knots[interval] + d``."""
        c = self.coefficients[:, interval, row]
        total: FloatArray = c[6]
        for power in range(5, -1, -1):
            total = total * d + c[power]
        return total

    def slope(self, interval: IndexArray, row: IndexArray, d: FloatArray) -> FloatArray:
        """Derivative of `value` with respect to the coordinate."""
        c = self.coefficients[:, interval, row]
        total: FloatArray = 6 * c[6]
        for power in range(5, 0, -1):
            total = total * d + power * c[power]
        return total

    @cached_property
    def at_knots(self) -> tuple[FloatArray, FloatArray]:
        """chi2 and its derivative at every knot, each of shape (K, R)."""
        rows = np.arange(self.coefficients.shape[2])
        last = np.full_like(rows, len(self.knots) - 2)
        width = np.full(len(rows), self.knots[-1] - self.knots[-2])
        value = np.vstack([self.coefficients[0], self.value(last, rows, width)])
        slope = np.vstack([self.coefficients[1], self.slope(last, rows, width)])
        return value, slope

    def locate(self, coordinate: FloatArray) -> tuple[IndexArray, FloatArray]:
        """Interval that holds each coordinate, and the distance from its left knot."""
        interval = np.searchsorted(self.knots, coordinate, side="right") - 1
        interval = np.clip(interval, 0, len(self.knots) - 2)
        return interval, coordinate - self.knots[interval]


@dataclass(frozen=True)
class BankEstimator:
    """The matched Gaussian maximum-likelihood estimator on a bank.

    Attributes
    ----------
    bank : Bank
    center : float
        Coordinate of the point the replicas are simulated at.
    level : float
        Confidence level of the likelihood-profile sets of replicas, whose noise is known.
    """

    bank: Bank
    center: float
    level: float
    method: str = "bank"
    starts: int = 1

    def fit(self, layout: WhitenedLayout, rows: FloatArray, advance: Advance | None = None) -> Fits:
        """Fit rows of whitened deviations from the center, and their profile sets."""
        found = []
        for start in range(0, len(rows), ROWS_AT_ONCE):
            portion = rows[start : start + ROWS_AT_ONCE]
            found.append(self._fit(polynomials(self.bank, layout, portion)))
            if advance is not None:
                advance(len(portion))
        return joined(found)

    def sets(
        self,
        layout: WhitenedLayout,
        rows: FloatArray,
        fits: Fits,
        limit: float,
        advance: Advance | None = None,
    ) -> Fits:
        """Return the fits with the ends of the sets in which the deviance is below `limit`."""
        chi2 = polynomials(self.bank, layout, rows)
        found = _with_sets(fits, chi2, limit)
        if advance is not None:
            advance(2 * len(rows))  # both ends of each set
        return replace(found, parts=_parts(found, chi2, limit))

    def refit(
        self,
        layout: WhitenedLayout,
        rows: FloatArray,
        start: FloatArray,
        free: NDArray[np.bool_] | None = None,
    ) -> Minimum:
        """Fit each row, or evaluate chi2 at `start`, (R, 1), where the parameter is not free.

        chi2 is infinite outside the usable range of the bank.
        """
        chi2 = polynomials(self.bank, layout, rows)
        q, lowest, _, _ = _minima(chi2, 0.0)
        moved = np.broadcast_to(np.True_ if free is None else free, start.shape)[:, 0]
        interval, d = chi2.locate(start[:, 0])
        here = chi2.value(interval, np.arange(len(rows)), d)
        first, last = self.bank.knots[[0, -1]]
        inside = (start[:, 0] >= first) & (start[:, 0] <= last)
        return Minimum(
            q=np.where(moved, q, start[:, 0])[:, None],
            chi2=np.where(moved, lowest, np.where(inside, here, np.inf)),
            converged=np.ones(len(rows), dtype=bool),
        )

    def predict(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:
        """Whitened deviations of the bank's curve at one point."""
        return layout.deviations(self.bank(float(coordinates[0])))

    def linearize(
        self, layout: WhitenedLayout, coordinates: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Whitened deviations and slope of the bank's curve at one point."""
        return self.predict(layout, coordinates), self.slope(layout, coordinates)

    def slope(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:
        """Slope of the bank's curve at one point."""
        return layout.white(self.bank.slope(float(coordinates[0]))[layout.columns])[:, None]

    def _fit(self, chi2: Polynomials) -> Fits:
        limit = squares_limit(self.level)
        estimate, minimum, on_bound, alone = _minima(chi2, limit)
        rows = np.arange(len(estimate))
        interval, d = chi2.locate(np.full(len(rows), self.center))
        deviance = np.maximum(chi2.value(interval, rows, d) - minimum, 0.0)
        rise = minimum + np.maximum(limit, deviance)
        fits = Fits(
            estimate=estimate[:, None],
            chi2=minimum,
            on_bound=on_bound[:, None],
            converged=np.ones(len(rows), dtype=bool),
            deviance=deviance[:, None],
            joint_deviance=deviance,
            agreeing_starts=np.ones(len(rows), dtype=np.intp),
            center_won=alone & (_highest_between(chi2, estimate, self.center, rows) <= rise),
        )
        return _with_sets(fits, chi2, limit)


def _with_sets(fits: Fits, chi2: Polynomials, limit: float) -> Fits:
    """Return the fits with the ends of the sets in which the deviance is below `limit`."""
    highest = fits.chi2 + limit
    # A part of a set may lie between two knots: its minimum is known.
    first, last = fits.estimate[:, 0].copy(), fits.estimate[:, 0].copy()
    row, place, lowest, _ = _local_minima(chi2)
    good = lowest <= highest[row]
    np.minimum.at(first, row[good], place[good])
    np.maximum.at(last, row[good], place[good])
    lower, open_lower = _set_end(chi2, first, highest, upper=False)
    upper, open_upper = _set_end(chi2, last, highest, upper=True)
    return replace(
        fits,
        lower=lower[:, None],
        upper=upper[:, None],
        open_lower=open_lower[:, None],
        open_upper=open_upper[:, None],
    )


def _parts(fits: Fits, chi2: Polynomials, limit: float) -> FloatArray:
    """Return the separate intervals of each set, as far as knots and local minima show them."""
    assert fits.lower is not None
    assert fits.upper is not None
    of_row, place, _, _ = _local_minima(chi2)
    found = []
    for row, highest in enumerate((fits.chi2 + limit).tolist()):
        points = np.union1d(chi2.knots, place[of_row == row])
        interval, d = chi2.locate(points)
        inside = chi2.value(interval, np.full(len(points), row), d) <= highest
        change = np.flatnonzero(inside[1:] != inside[:-1])
        crossing = _crossings(chi2, row, highest, points, change, inside)
        ends = np.concatenate([points[:1][inside[:1]], crossing, points[-1:][inside[-1:]]])
        ends[0], ends[-1] = fits.lower[row, 0], fits.upper[row, 0]
        found.append([list(zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True))])
    return stacked_parts(found)


def _crossings(
    chi2: Polynomials,
    row: int,
    highest: float,
    points: FloatArray,
    change: IndexArray,
    inside: NDArray[np.bool_],
) -> FloatArray:
    """Return where chi2 of a row is `highest`, after each point at which it changes side."""
    interval, _ = chi2.locate(points[change])
    origin, rows = chi2.knots[interval], np.full(len(change), row)
    near = points[np.where(inside[change], change, change + 1)] - origin
    far = points[np.where(inside[change], change + 1, change)] - origin
    return origin + _bisect(lambda at: chi2.value(interval, rows, at) > highest, near, far)


def polynomials(bank: Bank, layout: WhitenedLayout, rows: FloatArray) -> Polynomials:
    """Return chi2 of every data row between every pair of knots."""
    coefficients = np.zeros((7, len(bank.knots) - 1, len(rows)))
    for some, part in layout.parts(OBSERVATIONS_AT_ONCE):
        a = part.white(bank.pieces[::-1][..., part.columns])  # ascending, (4, K - 1, n)
        a[0] -= part.base
        gram = np.einsum("ikn,jkn->ijk", a, a)
        cross = np.tensordot(a, rows[:, some], axes=(2, 1))  # (4, K - 1, R)
        for i in range(4):
            coefficients[i] -= 2 * cross[i]
            for j in range(4):
                coefficients[i + j] += gram[i, j][:, None]
    coefficients[0] += np.einsum("rn,rn->r", rows, rows)
    return Polynomials(bank.knots, coefficients)


def _minima(
    chi2: Polynomials, limit: float
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
    """Global minimum of every row.

    Returns where it is, chi2 there, whether that is the end of the bank, and whether no other
    minimum is as good: within `limit`, beyond a rise above that.
    """
    row, place, lowest, on_bound = _local_minima(chi2)
    order = np.lexsort((lowest, row))
    best = order[np.unique(row[order], return_index=True)[1]]
    level = lowest[best] + limit
    good = np.flatnonzero(lowest <= level[row])
    apart = _highest_between(chi2, place[good], place[best][row[good]], row[good])
    alone = np.ones(len(best), dtype=bool)
    alone[row[good[apart > level[row[good]]]]] = False
    return place[best], lowest[best], on_bound[best], alone


def _local_minima(
    chi2: Polynomials,
) -> tuple[IndexArray, FloatArray, FloatArray, NDArray[np.bool_]]:
    """Refine each knot that is lower than its neighbors.

    Returns the row of each minimum, where it is, chi2 there, and whether that is the end of the
    bank.
    """
    value, slope = chi2.at_knots
    count = len(chi2.knots)
    padded = np.pad(value, ((1, 1), (0, 0)), constant_values=np.inf)
    knot, row = np.nonzero((value <= padded[:-2]) & (value <= padded[2:]))
    # The slope at the knot says on which side of it the minimum lies.
    falling = slope[knot, row] < 0
    interval = np.where(falling, knot, knot - 1)
    on_bound = (interval < 0) | (interval > count - 2)
    inside = np.clip(interval, 0, count - 2)
    width = np.diff(chi2.knots)[inside]
    d = _bisect(lambda at: chi2.slope(inside, row, at) > 0, np.zeros(len(row)), width)
    d = np.where(on_bound, np.where(interval < 0, 0.0, width), d)
    return row, chi2.knots[inside] + d, chi2.value(inside, row, d), on_bound


def _highest_between(
    chi2: Polynomials, one: FloatArray, other: FloatArray | float, row: IndexArray
) -> FloatArray:
    """Return the highest chi2 of data rows at knots between two coordinates, shape (R,)."""
    knots = chi2.knots[:, None]
    between = (knots > np.minimum(one, other)) & (knots < np.maximum(one, other))
    return np.asarray(np.where(between, chi2.at_knots[0][:, row], -np.inf).max(axis=0))


def _set_end(
    chi2: Polynomials, estimate: FloatArray, limit: FloatArray, *, upper: bool
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Outermost crossing of `limit` on one side, and whether there is none before the end.

    The outermost knot inside the set, or the minimum where that lies farther out, is one
    end of a bracket; the next knot beyond it lies outside the set and is the other.
    """
    knots, rows = chi2.knots, np.arange(len(estimate))
    last = len(knots) - 1
    inside = chi2.at_knots[0] <= limit
    any_inside = inside.any(axis=0)
    if upper:
        knot = np.where(any_inside, last - np.argmax(inside[::-1], axis=0), -1)
        beyond = (knot < 0) | (estimate > knots[knot])
    else:
        knot = np.where(any_inside, np.argmax(inside, axis=0), last)
        beyond = ~any_inside | (estimate < knots[knot])
    anchor = np.where(beyond, estimate, knots[knot])
    is_open = anchor >= knots[-1] if upper else anchor <= knots[0]
    interval, _ = chi2.locate(anchor)
    if not upper:  # an anchor on a knot has its bracket to the left
        interval = np.where((anchor <= knots[interval]) & (interval > 0), interval - 1, interval)
    near = anchor - knots[interval]
    far = np.diff(knots)[interval] if upper else np.zeros(len(rows))
    d = _bisect(lambda at: chi2.value(interval, rows, at) > limit, near, far)
    return np.where(is_open, anchor, knots[interval] + d), is_open


def _bisect(
    past: Callable[[FloatArray], NDArray[np.bool_]], start: FloatArray, end: FloatArray
) -> FloatArray:
    """Halve ``[start, end]`` toward the place where ``past(d)`` turns from false to true.

    Elementwise; `end` may lie on either side of `start`.
    """
    for _ in range(BISECTIONS):
        middle = (start + end) / 2
        beyond = past(middle)
        start, end = np.where(beyond, start, middle), np.where(beyond, middle, end)
    return (start + end) / 2


def direct_minimum(
    model: ForwardModel,
    layouts: list[WhitenedLayout],
    rows: list[FloatArray],
    near: FloatArray,
    step: float,
    limits: tuple[float, float],
    atol: float = 1e-8,
) -> FloatArray:
    """Minimize chi2 with the forward model itself, as a check on the bank.

    Parameters
    ----------
    model : ForwardModel
    layouts, rows
        The layout and the whitened deviations of each of V datasets.
    near : array, shape (V,)
        Estimates to start from.
    step : float
        Half-width of the first bracket around an estimate, in the coordinate.
    limits : tuple of float
        Coordinates that the search does not leave. A minimum may lie on either.
    atol : float
        Accuracy in the coordinate; minima of rounded numbers have no better one.

    Returns
    -------
    array, shape (V,)
        NaN where the search did not converge.
    """

    def chi2(q: FloatArray, index: FloatArray) -> FloatArray:
        predictions = model(q.reshape(-1, 1)).values
        total = np.empty(len(predictions))
        for i, k in enumerate(index.astype(int).ravel()):
            misfit = rows[k] - layouts[k].deviations(predictions[i])
            total[i] = misfit @ misfit
        return np.where(np.isfinite(total), total, np.inf).reshape(q.shape)

    low, high = limits
    number = np.arange(len(near), dtype=float)
    # The middle of a bracket lies inside the limits, also where an estimate is on one of them.
    middle = np.clip(near, low + 1e-3 * step, high - 1e-3 * step)
    ends = elementwise.bracket_minimum(
        chi2,
        middle,
        xl0=np.maximum(middle - step, low),
        xr0=np.minimum(middle + step, high),
        xmin=low,
        xmax=high,
        args=(number,),
        maxiter=60,
    )
    # Without a bracket the values fall all the way to a limit: that end of it is the minimum.
    edge = np.where(ends.f_bracket[0] <= ends.f_bracket[2], ends.bracket[0], ends.bracket[2])
    found = np.where((edge == low) | (edge == high), edge, np.nan)
    inner = np.flatnonzero(ends.success)
    if inner.size:
        minima = elementwise.find_minimum(
            chi2,
            tuple(side[inner] for side in ends.bracket),
            args=(number[inner],),
            tolerances={"xatol": atol, "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0},
            maxiter=60,
        )
        found[inner] = np.where(minima.success, minima.x, np.nan)
    return np.asarray(found)


# Accuracy of a direct search, as a share of what stands for 100%, and of a standard error.
DIRECT_ATOL, DIRECT_ERRORS = 1e-8, 1e-3
# A bank is good enough when it moves estimates by less than this share of a standard error.
BANK_ACCURACY = 0.05
# A bank is not refined beyond this many entries.
MOST_ENTRIES = 4000


@dataclass(frozen=True)
class BankCheck:
    """Largest difference between bank and direct estimates, in % and in standard errors."""

    percent: float
    standard_errors: float


def check_bank(
    setup: Setup,
    estimator: Estimator,
    layouts: list[WhitenedLayout],
    fits: list[Fits],
    facts: list[Information],
    draws: FloatArray,
    validate: int,
) -> BankCheck | None:
    """Compare bank estimates with direct optimization.

    The checked datasets are spread evenly over the range of the estimates, from the smallest to
    the largest; the data are among them. Estimates on a bound are checked only where there are
    no others.

    Returns
    -------
    BankCheck, optional
        None without a bank or with ``validate=0``. The differences are infinite where a direct
        search did not converge.
    """
    if not isinstance(estimator, BankEstimator) or not validate:
        return None
    rows = [draws[1:, : len(layout.sites)] for layout in layouts]
    estimates = np.stack([f.estimate[1:, 0] for f in fits])
    if setup.data is not None:
        real = [each.row(setup.data[each.name])[None] for each in layouts]
        own = [
            estimator.fit(each, row).estimate[:, 0] for each, row in zip(layouts, real, strict=True)
        ]
        estimates = np.hstack([estimates, own])
        rows = [np.vstack(both) for both in zip(rows, real, strict=True)]
    first, last = estimator.bank.knots[[0, -1]].tolist()
    inside = (estimates > first) & (estimates < last)
    ranked = np.argsort(np.where(inside, estimates, np.inf), axis=None)
    ranked = ranked[: inside.sum() or None]
    chosen = ranked[np.unique(np.linspace(0, len(ranked) - 1, validate).round().astype(int))]
    place, number = np.divmod(chosen, estimates.shape[1])
    near = estimates[place, number]
    standard_error = np.array([1 / np.sqrt(facts[k].matrix[0, 0]) for k in place])
    atol = min(DIRECT_ATOL * float(setup.units[0]), DIRECT_ERRORS * float(standard_error.min()))
    found = direct_minimum(
        setup.fit_model,
        [layouts[k] for k in place],
        [rows[k][r] for k, r in zip(place, number, strict=True)],
        near,
        step=float(np.diff(estimator.bank.knots).min()),
        limits=(first, last),
        atol=atol,
    )
    # A search that ends where it began says no more than its own accuracy.
    gap = np.where(np.isfinite(found), np.maximum(np.abs(near - found), atol), np.inf)
    return BankCheck(
        percent=float(100 * np.max(gap) / setup.units[0]),
        standard_errors=float(np.max(gap / standard_error)),
    )


def refuse_useless(bank: int, check: BankCheck | None) -> None:
    """Refuse a bank whose own error is larger than that of the noise, however fine it is."""
    if check is not None and np.isfinite(check.percent) and check.standard_errors > 1:
        raise InputError(
            "a bank whose estimates differ from direct optimization by less than a standard error",
            f"{check.percent:.3g}%, or {check.standard_errors:.3g} standard errors, with "
            f"{bank} entries",
            'pass method="direct", or narrower bounds',
        )


def entries_needed(bank: int, check: BankCheck | None, before: BankCheck | None) -> int:
    """Return how many entries the bank needs after this check: `bank`, or nearly twice as many.

    The new entries lie halfway between the old ones. Refinement stops where the last one did
    not halve the difference: the forward model is then not smooth, and no bank is fine enough.
    """
    if check is None or check.standard_errors <= BANK_ACCURACY or bank > MOST_ENTRIES / 2:
        return bank
    if before is not None and check.standard_errors > before.standard_errors / 2:
        return bank
    return 2 * bank - 1
