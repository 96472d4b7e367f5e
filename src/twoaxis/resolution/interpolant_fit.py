r"""Matched fits of many datasets on an interpolant of the forward model.

A resolution fits hundreds of datasets that differ in their noise alone, so that their estimates
lie within a few standard errors of each other. There the predictions are smooth, and a polynomial
in the parameters replaces the simulator. In units of standard errors along the eigen-directions
of the Fisher information,

.. math:: q = q_0 + A z, \qquad |z_k| \le w, \qquad
   L^{-1} G(q) \approx \sum_{|\alpha| \le p} c_\alpha \prod_k T_{\alpha_k}(z_k / w),

with Chebyshev polynomials :math:`T` of total degree p. The model is solved at as many points as
there are coefficients, chosen so that the polynomial is well determined (pivoted QR of the basis,
approximate Fekete points), inside the parameter bounds. Fits on the polynomial cost no model run.

Accuracy is measured, never assumed:

- The points of the next degree are predicted before they are used. The norm of that error, in
  noise levels over all observations, bounds to first order what it does to an estimate, in
  standard errors. The degree rises until it is below `ERROR_ATOL`.
- Some replicas are fitted again with the model itself. The largest difference, in standard errors
  and in deviance, is in the result. Where it is above `CHECK_ATOL` the degree rises further.
- A replica whose estimate leaves the box, or that may have a lower minimum elsewhere, is fitted
  directly. Where many leave it, the box is widened.
- Where the accuracy is not reached with fewer runs than direct fits need, all are fitted directly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.linalg import qr

from twoaxis.forward import ForwardModel
from twoaxis.least_squares import GAIN_ATOL, Minimum, minimize
from twoaxis.progress import Advance
from twoaxis.resolution.direct_fit import DirectEstimator, multistart_fit, profile_deviance
from twoaxis.resolution.fisher import Information, predicted_spread
from twoaxis.resolution.layouts import WhitenedLayout
from twoaxis.resolution.matched_fit import Fits, joined, portions

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]

# Error of the interpolant at points that it has not seen: norm over all observations, in noise
# levels.
ERROR_ATOL = 0.002
# Differences to direct fits, in standard errors and in deviance, above which it is refined.
CHECK_ATOL = 0.05
# Half-widths of the box in standard errors. The next is taken where more than this share of the
# replicas leave it.
WIDTHS = (4.0, 8.0, 16.0)
MOST_LEAVING = 0.05
# Where more than this share leave the widest, an interpolant is no help.
MOST_DIRECTLY = 0.5
# Half-width of the box around an estimate from data, for its profile likelihood.
PROFILE_WIDTH = 5.0
# Singular values of the sensitivities below this share of the largest are rounding.
NULL_SHARE = 1e-7
# An estimate this close to the edge of the box has left it.
EDGE = 0.95
HIGHEST_DEGREE = 10
# Model runs that an interpolant may take, per replica; a direct fit takes more.
RUNS_PER_REPLICA = 4
# Fewer replicas than this are fitted directly by default.
FEWEST_REPLICAS = 20
# Steps of a fit. One that takes more walks along the edge of the box, and is made directly.
MOST_STEPS = 40
# Refinement below this error does not help any more.
LEAST_ERROR = 1e-6
# A place elsewhere whose chi2 comes this close to that of the estimate is looked at directly.
ELSEWHERE = 4.0


@dataclass(frozen=True)
class Box:
    """A box along the eigen-directions of the information, inside the parameter bounds.

    Attributes
    ----------
    center : array, shape (d,)
        Coordinates of its middle.
    axes : array, shape (d, d)
        Coordinate steps, one column for each direction, from the middle to a face.
    bounds : tuple of array
        Coordinates that no point leaves.
    """

    center: FloatArray
    axes: FloatArray
    bounds: tuple[FloatArray, FloatArray]

    @classmethod
    def around(
        cls,
        center: FloatArray,
        directions: FloatArray,
        reach: FloatArray,
        bounds: tuple[FloatArray, FloatArray],
    ) -> Box:
        """Return a box that reaches so far along each direction, or as wide as the bounds.

        Parameters
        ----------
        center : array, shape (d,)
        directions : array, shape (d, d)
            A row for each, in the coordinates.
        reach : array, shape (d,)
            Half-width along each direction, in multiples of it; may be infinite.
        bounds : tuple of array
        """
        with np.errstate(divide="ignore"):
            room = np.min((bounds[1] - bounds[0]) / np.abs(directions), axis=1)
        return cls(center, (directions * np.minimum(reach, room)[:, None]).T, bounds)

    def place(self, q: FloatArray) -> FloatArray:
        """Return where points (B, d) lie, (B, d): faces of the box are at -1 and 1."""
        return np.asarray(np.linalg.solve(self.axes, (q - self.center).T).T, dtype=float)

    def points(self, number: int, spread: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return points that fill the box; `spread` maps [0, 1] to where they lie along an axis."""
        from scipy.stats import qmc  # loads slowly

        fill = qmc.Halton(len(self.center), scramble=False).fast_forward(1)
        return np.clip(self.center + spread(fill.random(number)) @ self.axes.T, *self.bounds)


def exponents(dimension: int, degree: int) -> IndexArray:
    """Return all exponents of total degree up to `degree`, (N, d), the lowest first."""
    found = np.zeros((comb(dimension + degree, degree), dimension), dtype=np.intp)
    # A product of k factors is a choice of k coordinates, with repetition.
    chosen = [
        c for k in range(degree + 1) for c in combinations_with_replacement(range(dimension), k)
    ]
    for row, coordinates in enumerate(chosen):
        np.add.at(found[row], list(coordinates), 1)
    return found


def basis(x: FloatArray, powers: IndexArray) -> FloatArray:
    """Return products of Chebyshev polynomials at x, (B, d), shape (B, N)."""
    values = _factors(x, powers)
    return np.asarray(np.prod(values, axis=0))


def basis_slopes(x: FloatArray, powers: IndexArray) -> FloatArray:
    """Return the derivative of `basis` with respect to x, shape (B, N, d)."""
    values, degree = _factors(x, powers), int(powers.max())
    derivative = np.zeros((degree + 1, degree + 1))
    if degree:
        derivative[:-1] = chebyshev.chebder(np.eye(degree + 1))
    slopes = []
    for j in range(x.shape[1]):
        own = (chebyshev.chebvander(x[:, j], degree) @ derivative)[:, powers[:, j]]
        others = np.prod(np.delete(values, j, axis=0), axis=0)
        slopes.append(own * others)
    return np.stack(slopes, axis=-1)


def _factors(x: FloatArray, powers: IndexArray) -> FloatArray:
    degree = int(powers.max())
    return np.stack(
        [chebyshev.chebvander(x[:, j], degree)[:, powers[:, j]] for j in range(x.shape[1])]
    )


@dataclass(frozen=True)
class Interpolant:
    """A polynomial in place of the forward model, on one layout.

    Attributes
    ----------
    box : Box
    powers : array of int, shape (N, d)
    coefficients : array, shape (N, r)
        Of the whitened deviations, in an orthonormal basis of what they span.
    span : array, shape (n, r)
        That basis.
    center : array, shape (d,)
        Coordinates of the point the replicas are simulated at.
    error : float
        Norm of the error at points that were not used, in noise levels.
    """

    box: Box
    powers: IndexArray
    coefficients: FloatArray
    span: FloatArray
    center: FloatArray
    error: float

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper coordinate bounds, each of shape (d,)."""
        return self.box.bounds

    def refit(
        self,
        layout: WhitenedLayout,  # noqa: ARG002
        rows: FloatArray,
        start: FloatArray,
        free: BoolArray | None = None,
        gain_atol: float = GAIN_ATOL,
    ) -> Minimum:
        """Fit each row from one start; coordinates that are not free, (R, d), stay."""
        reduced = rows @ self.span
        rest = np.concatenate(
            [
                np.sum((some - some @ self.span @ self.span.T) ** 2, axis=1)
                for some in portions(rows, len(rows))
            ]
        )

        def misfit(q: FloatArray, which: IndexArray) -> FloatArray:
            x = self.box.place(q)
            predicted = basis(x, self.powers) @ self.coefficients
            # Beyond the box there is no prediction: such a step is not taken.
            predicted[np.abs(x).max(axis=1) > 1 + 1e-9] = np.nan
            return np.asarray(reduced[which] - predicted)

        def sensitivity(q: FloatArray, r: FloatArray, which: IndexArray) -> FloatArray:  # noqa: ARG001
            return self._slopes(q)

        found = minimize(
            misfit, sensitivity, start, *self.bounds, free, gain_atol, max_iterations=MOST_STEPS
        )
        return found._replace(chi2=found.chi2 + rest)

    def slope(self, layout: WhitenedLayout, coordinates: FloatArray) -> FloatArray:  # noqa: ARG002
        """Derivative of the whitened predictions at one point, (n, d)."""
        return np.asarray(self.span @ self._slopes(coordinates[None])[0])

    def _slopes(self, q: FloatArray) -> FloatArray:
        """Derivative of the reduced predictions at points (B, d), shape (B, r, d)."""
        slopes = basis_slopes(self.box.place(q), self.powers) @ np.linalg.inv(self.box.axes)
        found: FloatArray = self.coefficients.T @ slopes
        return found

    def left(self, q: FloatArray) -> BoolArray:
        """Return whether points (B, d) lie at the edge of the box or beyond."""
        return np.asarray(np.abs(self.box.place(q)).max(axis=1) > EDGE)


class Builder:
    """Solve the model at more and more points of a box until a polynomial predicts the next.

    Parameters
    ----------
    model : ForwardModel
    layout : WhitenedLayout
    box : Box
    center : array, shape (d,)
    budget : int
        Number of points that may be solved.
    advance : callable, optional
    """

    def __init__(
        self,
        model: ForwardModel,
        layout: WhitenedLayout,
        box: Box,
        center: FloatArray,
        budget: int,
        advance: Advance | None = None,
    ) -> None:
        self._model, self._layout, self._box, self._center = model, layout, box, center
        self._budget, self._advance = budget, advance
        self._q: FloatArray = np.empty((0, len(center)))
        self._values: FloatArray = np.empty((0, len(layout.sites)))
        self._degree = 0
        self.error, self.reason = np.inf, ""

    def build(self, error_atol: float) -> Interpolant | None:
        """Raise the degree until the error is at most this; None where that is not reached."""
        if not self._degree and not self._add(1):
            return None
        while self._add(self._degree + 1):
            if self.error <= error_atol:
                return self._interpolant()
        return None

    def _add(self, degree: int) -> bool:
        """Solve the points that this degree needs, after predicting them with the last one."""
        if degree > HIGHEST_DEGREE or comb(len(self._center) + degree, degree) > self._budget:
            self.reason = (
                f"a polynomial of degree {self._degree - 1} misses the model by {self.error:.2g} "
                "noise levels"
            )
            return False
        powers = exponents(len(self._center), degree)
        chosen = self._chosen(powers, len(powers) - len(self._q))
        values, reasons = self._model(chosen, self._advance)
        failed = [reason for reason in reasons if reason]
        if failed:
            self.reason = f"the model failed inside the box ({failed[0]})"
            return False
        white = self._layout.deviations(values)
        if self._degree:
            known, coefficients = self._solved()
            missed = white - basis(self._box.place(chosen), known) @ coefficients
            self.error = float(np.sqrt(np.max(np.sum(missed**2, axis=1))))
        self._q, self._values = np.vstack([self._q, chosen]), np.vstack([self._values, white])
        self._degree = degree
        return True

    def _chosen(self, powers: IndexArray, number: int) -> FloatArray:
        """Return points at which the columns of the basis are best told apart."""
        candidates = self._box.points(max(200, 4 * len(powers)), lambda u: -np.cos(np.pi * u))
        rows = basis(self._box.place(candidates), powers)
        if len(self._q):  # what the points so far determine needs no others
            known = qr(basis(self._box.place(self._q), powers).T, mode="economic")[0]
            rows = rows - rows @ known @ known.T
        _, order = qr(rows.T, mode="r", pivoting=True)
        return np.asarray(candidates[order[:number]])

    def _solved(self) -> tuple[IndexArray, FloatArray]:
        powers = exponents(len(self._center), self._degree)
        matrix = basis(self._box.place(self._q), powers)
        solved = np.linalg.lstsq(matrix, self._values, rcond=None)[0]
        return powers, np.asarray(solved, dtype=float)

    def _interpolant(self) -> Interpolant:
        powers, coefficients = self._solved()
        span, reduced = np.linalg.qr(coefficients.T)
        return Interpolant(self._box, powers, reduced.T, span, self._center, self.error)


@dataclass(frozen=True)
class InterpolantFits:
    """The fits of all rows on one layout, and how they were made.

    Attributes
    ----------
    fits : Fits
    used : bool
        Whether an interpolant was accurate enough; else all rows were fitted directly.
    directly : int
        Number of rows that were fitted directly.
    error : float
        Of the interpolant at points that it had not seen: norm in noise levels.
    standard_errors, deviance : float
        Largest differences between checked rows and direct fits: of an estimate, in standard
        errors, and of a profile deviance. NaN where none was checked.
    reason : str
        Why no interpolant was used; empty where one was.
    """

    fits: Fits
    used: bool
    directly: int
    error: float = np.nan
    standard_errors: float = np.nan
    deviance: float = np.nan
    reason: str = ""


def fit_on_interpolant(
    direct: DirectEstimator,
    layout: WhitenedLayout,
    fact: Information,
    rows: FloatArray,
    validate: int,
    advance: Advance | None = None,
) -> InterpolantFits:
    """Fit rows of whitened deviations from the center; the first is without noise.

    Parameters
    ----------
    direct : DirectEstimator
        Fits what the interpolant cannot.
    layout : WhitenedLayout
    fact : Information
        Of this layout.
    rows : array, shape (R, n)
    validate : int
        Number of rows that are fitted again with the model itself.
    advance : callable, optional
        Advances a progress bar by fitted rows.
    """
    noiseless = direct.fit(layout, rows[:1])
    noisy = rows[1:]
    budget = RUNS_PER_REPLICA * len(noisy)
    best: InterpolantFits | None = None
    reason = ""
    for width in WIDTHS:
        box = Box.around(
            noiseless.estimate[0],
            fact.directions * direct.units,
            width * fact.standard_error,
            direct.bounds,
        )
        builder = Builder(
            direct.model, layout, box, direct.center, budget, _noting(advance, layout)
        )
        found = _checked_fits(direct, layout, fact, noisy, validate, builder)
        if found is None:
            reason = reason or builder.reason
            break
        fits, interpolant, checks = found
        leaving = _undecided(fits, interpolant) | (
            _lowest_elsewhere(direct, layout, noisy, interpolant, noiseless) < fits.chi2 + ELSEWHERE
        )
        best = InterpolantFits(fits, True, int(leaving.sum()), interpolant.error, *checks)
        best_leaving = leaving
        if leaving.mean() <= MOST_LEAVING:
            break
    if best is not None and best.directly > MOST_DIRECTLY * len(noisy):
        reason = f"{best.directly} of {len(noisy)} replicas leave its region"
        best = None
    if best is None:
        fits = direct.fit(layout, noisy, advance)
        return InterpolantFits(_joined(noiseless, fits), False, len(rows), reason=reason)
    fits = best.fits
    again = np.flatnonzero(best_leaving)
    if advance is not None:
        advance(len(noisy) - len(again))
    if again.size:
        fits = _replaced(fits, again, direct.fit(layout, noisy[again], advance))
    return replace(best, fits=_joined(noiseless, fits), directly=len(again) + 1)


def local_interpolant(
    direct: DirectEstimator,
    layout: WhitenedLayout,
    estimate: FloatArray,
    slope: FloatArray,
    budget: int,
) -> Interpolant | None:
    """Return an interpolant around an estimate, for its profile likelihood.

    It reaches `PROFILE_WIDTH` standard errors along each eigen-direction of the information that
    the whitened sensitivities `slope`, (n, d), hold at the estimate. None where its accuracy is
    not reached with `budget` model runs.
    """
    # All directions, null ones included, and never an n by n matrix.
    _, singular, directions = np.linalg.svd(
        slope * direct.units, full_matrices=len(slope) < len(estimate)
    )
    size = np.zeros(len(estimate))
    size[: len(singular)] = singular
    with np.errstate(divide="ignore"):
        reach = PROFILE_WIDTH / np.where(size > NULL_SHARE * size.max(), size, 0.0)
    box = Box.around(estimate, directions * direct.units, reach, direct.bounds)
    return Builder(direct.model, layout, box, direct.center, budget).build(ERROR_ATOL)


def _noting(advance: Advance | None, layout: WhitenedLayout) -> Advance | None:
    """Return an advance by model runs that shows their number next to a bar of replicas."""
    if advance is None:
        return None
    runs = 0

    def noted(steps: int, note: str = "") -> None:  # noqa: ARG001
        nonlocal runs
        runs += steps
        advance(0, f"interpolant of layout {layout.name}: {runs} model runs")

    return noted


def _checked_fits(
    direct: DirectEstimator,
    layout: WhitenedLayout,
    fact: Information,
    rows: FloatArray,
    validate: int,
    builder: Builder,
) -> tuple[Fits, Interpolant, tuple[float, float]] | None:
    """Fit on an interpolant that is refined until it agrees with direct fits of some rows."""
    error_atol = ERROR_ATOL
    while True:
        interpolant = builder.build(error_atol)
        if interpolant is None:
            return None
        box = interpolant.box
        inside = box.points(direct.starts - 1, lambda u: u - 0.5) if direct.starts > 1 else None
        starts = np.vstack([box.center[None]] + ([] if inside is None else [inside]))
        spread = np.broadcast_to(starts, (len(rows), *starts.shape))
        fits = joined(
            [
                multistart_fit(interpolant, layout, some, np.array(spread[: len(some)]))
                for some in portions(rows, len(rows))
            ]
        )
        checks = _check(direct, layout, fact, rows, fits, interpolant, validate)
        if not max(checks) > CHECK_ATOL:  # NaN where nothing is checked
            return fits, interpolant, checks
        builder.reason = (
            f"estimates differ from direct fits by {checks[0]:.2g} standard errors and "
            f"{checks[1]:.2g} in deviance"
        )
        if builder.error < LEAST_ERROR:
            return None
        error_atol = builder.error / 10


def _check(
    direct: DirectEstimator,
    layout: WhitenedLayout,
    fact: Information,
    rows: FloatArray,
    fits: Fits,
    interpolant: Interpolant,
    validate: int,
) -> tuple[float, float]:
    """Largest differences to direct fits, in standard errors and in deviance.

    The checked rows are spread evenly from the estimate nearest to the middle of the box to the
    one farthest from it that the interpolant is used for.
    """
    distance = np.abs(interpolant.box.place(fits.estimate)).max(axis=1)
    used = ~_undecided(fits, interpolant)
    ranked = np.argsort(np.where(used, distance, np.inf))[: int(used.sum())]
    if not validate or not len(ranked):
        return np.nan, np.nan
    chosen = ranked[np.unique(np.linspace(0, len(ranked) - 1, validate).round().astype(int))]
    found = direct.refit(layout, rows[chosen], fits.estimate[chosen])
    held, _, found = profile_deviance(direct, layout, rows[chosen], found)
    error = predicted_spread(fact.directions, fact.standard_error)[0] * direct.units
    moved = np.abs(found.q - fits.estimate[chosen]) / error
    return float(moved.max()), float(np.abs(held - fits.deviance[chosen]).max())


def _undecided(fits: Fits, interpolant: Interpolant) -> BoolArray:
    """Return which fits left the box, with or without a parameter held, or did not converge."""
    assert fits.held is not None  # of a multistart fit
    held = [interpolant.left(fits.held[:, j]) for j in range(fits.held.shape[1])]
    unknown = ~np.isfinite(fits.deviance).all(axis=1)
    left = interpolant.left(fits.estimate) | np.any(held, axis=0)
    return np.asarray(~fits.converged | unknown | left)


def _lowest_elsewhere(
    direct: DirectEstimator,
    layout: WhitenedLayout,
    rows: FloatArray,
    interpolant: Interpolant,
    noiseless: Fits,
) -> FloatArray:
    """Return how low chi2 of each row comes outside the box, (R,), as far as that is known.

    At a starting point outside, or near another minimum of the noise-free data. Near such a
    minimum, with misfit ``r`` and sensitivities ``S`` there, chi2 is about
    ``|r|^2 - |P_S r|^2``, where ``P_S`` projects onto the span of ``S``.
    """
    outside = interpolant.left(direct.seeds)
    lowest = np.full(len(rows), np.inf)
    size = np.einsum("rn,rn->r", rows, rows)
    if outside.any():
        lowest = direct.seed_misfits(layout, rows)[:, outside].min(axis=1) + size
    assert noiseless.minima is not None  # of a direct fit
    others = noiseless.minima[0][interpolant.left(noiseless.minima[0])]
    for point in others:
        away = direct.predict(layout, point)
        span = np.linalg.qr(direct.slope(layout, point))[0]
        misfit = size - 2 * rows @ away + away @ away
        lowest = np.fmin(lowest, misfit - np.sum((rows @ span - away @ span) ** 2, axis=1))
    return lowest


def _shared(*parts: Fits) -> list[str]:
    """Return the names of the fields that all parts have and that describe single rows."""
    names = [field.name for field in fields(Fits) if field.name not in ("minima", "minima_chi2")]
    return [name for name in names if all(getattr(part, name) is not None for part in parts)]


def _joined(first: Fits, rest: Fits) -> Fits:
    values: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(rest, name)])
        for name in _shared(first, rest)
    }
    return Fits(**values)


def _replaced(fits: Fits, which: IndexArray, new: Fits) -> Fits:
    values: dict[str, Any] = {}
    for name in _shared(fits, new):
        values[name] = getattr(fits, name).copy()
        values[name][which] = getattr(new, name)
    return Fits(**values)
