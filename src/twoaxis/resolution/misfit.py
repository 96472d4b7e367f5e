"""Do the data look like the model plus the declared noise? Axis 1 assumes it.

Four checks on the whitened residuals of the matched fit, each with a p-value:

size
    The sum of squares follows chi-square with n - d degrees of freedom. A value too large means
    that the noise was declared too small or that the model is incomplete; a value too small,
    that the noise was declared too large.
outliers
    The largest of n residuals, in standard deviations: ``p = n P(|Z| > z)``, Bonferroni's bound.
    Where the noise was estimated from the same residuals, its externally studentized value
    against Student's t, which is Grubbs' test.
normality
    Shapiro-Wilk; beyond 5,000 residuals, D'Agostino's K^2.
whiteness
    The smaller of two p-values, for two tests (Šidák). *Neighbors*: the mean product of each
    residual with its nearest ones, relative to the mean square, against 999 random permutations
    (99 beyond 50,000 residuals); beyond all of them, the normal tail with their mean and standard
    deviation. *Waves*: the share of the sum of squares in the m smoothest cosines, which for white
    Gaussian residuals follows a beta distribution; what a wrong equation leaves is smooth. Both
    look at the points that the caller gives, or else at the indices of the output of the forward
    model: a field indexed by time and space is checked in time and space, whatever the order of
    its sites.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, ndtr, ndtri, stdtr

from twoaxis.statistics import squares_above, squares_below

FloatArray = NDArray[np.float64]

# A misfit is reported when a p-value, times the number of checks of the call, is below this.
ALARM = 0.01
PERMUTATIONS = 999
# Beyond this many residuals 99 permutations do: what they do not reach has a normal tail.
MANY_RESIDUALS, FEWER_PERMUTATIONS = 50_000, 99
NEIGHBORS = 4
# Part of a cosine that those before it do not have, relative to its size, from which on it counts.
WAVE_RTOL = 1e-6
# Cosines for each residual, and at most; with very many residuals fewer, which take memory.
WAVES, MOST_WAVES, FEWER_WAVES = 0.2, 40, 12
# Residuals shuffled in one array: a bound on memory.
SHUFFLED_AT_ONCE = 2_000_000
# With fewer residuals than this the checks have no power.
FEWEST = 8
# Residuals that are too large by a test speak against the model beyond this many noise levels.
FAR = 1.1
# Data are noise-free where a fit leaves less than this share of their standard deviation: they
# come from a solver.
NOISE_FREE = 1e-4
# So they may be where it leaves less than this many standard deviations of a declared noise: unless
# what is left looks like noise, which was then declared far too large.
SILENT = 1e-2


@dataclass(frozen=True)
class Check:
    """One check of the residuals.

    Attributes
    ----------
    name : str
        "size", "outliers", "normality" or "whiteness".
    statistic : float
        Root mean square; largest size; W or K^2; correlation of neighbors.
    p_value : float
    meaning : str
        What a failed check means, as a sentence.
    """

    name: str
    statistic: float
    p_value: float
    meaning: str


def against(checks: Iterable[Check], alarm: float) -> list[Check]:
    """Return the checks that speak against the model or its noise, the most telling first.

    Their p-value is below `alarm`. Residuals that are too small or not Gaussian are no reason to
    doubt an estimate, and those that are hardly too large none that matters.
    """
    failed = {check.name: check for check in checks if check.p_value < alarm}
    if "size" in failed and failed["size"].statistic <= FAR:
        del failed["size"]
    return [failed[name] for name in ("size", "whiteness", "outliers") if name in failed]


def is_noise_free(
    residuals: FloatArray, scale: float, size: float, checks: Iterable[Check], *, fitted: float
) -> bool:
    """Whether data come from a solver: a fit leaves next to nothing of them, and no noise.

    Parameters
    ----------
    residuals : array, shape (n,)
        In noise levels.
    scale, size : float
        Standard deviations of the residuals and of the data, in the units of the data.
    checks : iterable of Check
        Of these residuals: what a solver leaves is correlated in space and time.
    fitted : float
        Number of fitted parameters.
    """
    freedom = len(residuals) - fitted
    white = all(check.p_value >= ALARM for check in checks if check.name == "whiteness")
    silent = freedom > 1 and float(residuals @ residuals) < freedom * SILENT**2
    return silent and (scale < NOISE_FREE * size or not white)


def check_residuals(
    residuals: FloatArray,
    fitted: float,
    position: FloatArray,
    *,
    noise_known: bool,
    moves: FloatArray | None = None,
    seed: int = 0,
) -> list[Check]:
    """Check whitened residuals of a matched fit.

    Parameters
    ----------
    residuals : array, shape (n,)
    fitted : float
        Number of fitted parameters, or of directions in which a field was fitted.
    position : array, shape (n, k)
        Where each residual lies.
    noise_known : bool
        The size can be checked only against noise that was not estimated from the same fit.
    moves : array, shape (n, p), optional
        How what was fitted moves the whitened predictions: nothing along these is left in the
        residuals, and correlation shows the better where that is known.
    seed : int
        Of the permutations.
    """
    checks = []
    freedom = len(residuals) - fitted
    if noise_known and freedom >= 1:
        checks.append(_size(residuals, freedom))
    if len(residuals) >= FEWEST and freedom >= 2 and np.ptp(residuals) > 0:
        checks.append(_outliers(residuals, freedom, noise_known))
        checks.append(_normality(residuals))
        checks.append(_whiteness(residuals, position, moves, seed))
    return checks


def _size(residuals: FloatArray, freedom: float) -> Check:
    total = float(residuals @ residuals)
    p = 2 * min(squares_below(total, freedom), squares_above(total, freedom))
    rms = float(np.sqrt(total / freedom))
    times = f"{rms:.2f}" if rms >= 0.1 else f"{rms:.1g}"
    meaning = (
        f"residuals are {times} times as large as the declared noise: the noise is declared "
        f"too {'small, or the model is incomplete' if rms > 1 else 'large'}"
    )
    return Check("size", rms, float(min(p, 1.0)), meaning)


def _outliers(residuals: FloatArray, freedom: float, noise_known: bool) -> Check:
    count = len(residuals)
    sizes = np.abs(residuals)
    if not noise_known:  # in units of the scale that the same residuals gave
        sizes = sizes / np.sqrt(residuals @ residuals / freedom)
    largest = float(sizes.max())
    if noise_known:
        p = 2 * count * float(ndtr(-largest))
    else:  # one residual cannot exceed the whole sum of squares
        rest = max(freedom - largest**2, np.finfo(float).tiny)
        p = 2 * count * float(stdtr(freedom - 1, -largest * np.sqrt((freedom - 1) / rest)))
    limit = float(-ndtri(ALARM / (2 * count)))
    beyond = max(int(np.sum(sizes > limit)), 1)
    readings = "1 reading lies" if beyond == 1 else f"{beyond} readings lie"
    meaning = (
        f"{readings} far from the fit, up to {largest:.1f} standard deviations of the "
        f"noise (number {int(np.argmax(sizes))}, counted from 0): an outlier, or noise with "
        "heavier tails than declared"
    )
    return Check("outliers", largest, min(p, 1.0), meaning)


def _normality(residuals: FloatArray) -> Check:
    from scipy import stats  # loads slowly

    test = stats.shapiro if len(residuals) <= 5000 else stats.normaltest
    result = test(residuals)
    meaning = "residuals are not Gaussian: another kind of noise than declared"
    return Check("normality", float(result.statistic), float(result.pvalue), meaning)


def _whiteness(
    residuals: FloatArray, position: FloatArray, moves: FloatArray | None, seed: int
) -> Check:
    extent = np.ptp(position, axis=0)
    position = position / np.where(extent > 0, extent, 1.0)
    count = min(NEIGHBORS, len(residuals) - 1)
    neighbors = _neighbors(position, count)
    centered = residuals - residuals.mean()

    def correlation(values: FloatArray) -> FloatArray:
        product = np.einsum("...n,...nk->...", values, values[..., neighbors])
        result: FloatArray = product / (count * np.sum(values**2, axis=-1))
        return result

    observed = float(correlation(centered))
    generator = np.random.default_rng(seed)
    shuffles: list[FloatArray] = []
    permutations = PERMUTATIONS if len(residuals) <= MANY_RESIDUALS else FEWER_PERMUTATIONS
    for block in _blocks(permutations, max(1, SHUFFLED_AT_ONCE // len(residuals))):
        shuffled = generator.permuted(np.tile(centered, (block, 1)), axis=1)
        shuffles.append(correlation(shuffled))
    null = np.concatenate(shuffles)
    middle = null.mean()
    as_extreme = int(np.sum(np.abs(null - middle) >= abs(observed - middle)))
    p = (1 + as_extreme) / (1 + permutations)
    if not as_extreme:  # beyond all permutations, the normal tail says how far
        p = min(p, 2 * ndtr(-abs(observed - middle) / null.std()))
    p = min(p, _in_waves(centered, position, moves))
    p = p * (2 - p)
    meaning = (
        f"neighboring residuals are correlated ({observed:+.2f}): the forward model is "
        "incomplete, or the noise is correlated"
    )
    return Check("whiteness", observed, float(p), meaning)


def _in_waves(centered: FloatArray, position: FloatArray, moves: FloatArray | None) -> float:
    """Return the p-value of the share of centered residuals (n,) in the smoothest cosines.

    With p moves, and m cosines that these and the mean do not hold already, it is that of a beta
    distribution with m/2 and (n - 1 - p - m)/2.
    """
    count, axes = position.shape
    known = np.ones((count, 1))
    if moves is not None:
        known = np.column_stack([known, moves / np.maximum(np.abs(moves).max(axis=0), 1e-300)])
    most = MOST_WAVES if count <= MANY_RESIDUALS else FEWER_WAVES
    waves = int(np.clip(WAVES * count, 3, most))
    # Frequencies along all axes, by their sum of squares: the first are the smoothest.
    each = np.arange(math.ceil((waves + 1) ** (1 / axes)) + 1 if axes > 1 else waves + 1)
    frequency = np.stack(np.meshgrid(*[each] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
    order = np.argsort((frequency**2).sum(axis=1), kind="stable")[: waves + 1]
    angles = np.pi * (position - position.min(axis=0))
    cosines = np.ones((count, len(order)))
    for axis in range(axes):
        cosines *= np.cos(angles[:, axis, None] * frequency[order, axis])
    # What a column adds to those before it; an axis without extent adds nothing.
    basis, factor = np.linalg.qr(np.concatenate([known, cosines[:, 1:]], axis=1))
    new = np.abs(np.diag(factor)) > WAVE_RTOL * np.sqrt(count)
    held, new[: known.shape[1]] = int(new[: known.shape[1]].sum()), False
    used = int(new.sum())
    left = count - held - used
    if not used or left < 1:
        return 1.0
    share = float(((basis[:, new].T @ centered) ** 2).sum() / (centered @ centered))
    return float(betaincc(used / 2, left / 2, min(share, 1.0)))


def _neighbors(position: FloatArray, count: int) -> NDArray[np.intp]:
    """Return the nearest other residuals of each one, shape (n, count)."""
    from scipy.spatial import cKDTree

    found = cKDTree(position).query(position, k=count + 1)[1]
    # A residual is its own nearest neighbor; where others share its place, it may come later in
    # its row or not at all, and the farthest is dropped instead.
    own = found == np.arange(len(position))[:, None]
    own[~own.any(axis=1), -1] = True
    others: NDArray[np.intp] = found[~own].reshape(len(position), count)
    return others


def _blocks(total: int, size: int) -> list[int]:
    """Split `total` into blocks of at most `size`."""
    return [min(size, total - start) for start in range(0, total, size)]
