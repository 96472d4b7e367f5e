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
    The mean product of each residual with its nearest neighbors, relative to the mean square,
    against 999 random permutations (99 beyond 50,000 residuals); beyond all of them, the normal
    tail with their mean and standard deviation. Neighbors are near in the points that the caller
    gives, or else in the indices of the output of the forward model: a field indexed by time and
    space is checked in time and space, whatever the order of its sites.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr

from twoaxis.statistics import squares_above, squares_below

FloatArray = NDArray[np.float64]

# A misfit is reported when a p-value, times the number of checks of the call, is below this.
ALARM = 0.01
PERMUTATIONS = 999
# Beyond this many residuals 99 permutations do: what they do not reach has a normal tail.
MANY_RESIDUALS, FEWER_PERMUTATIONS = 50_000, 99
NEIGHBORS = 4
# Residuals shuffled in one array: a bound on memory.
SHUFFLED_AT_ONCE = 2_000_000
# With fewer residuals than this the checks have no power.
FEWEST = 8


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


def check_residuals(
    residuals: FloatArray,
    fitted: int,
    position: FloatArray,
    *,
    noise_known: bool,
    seed: int = 0,
) -> list[Check]:
    """Check whitened residuals of a matched fit.

    Parameters
    ----------
    residuals : array, shape (n,)
    fitted : int
        Number of fitted parameters.
    position : array, shape (n, k)
        Where each residual lies.
    noise_known : bool
        The size can be checked only against noise that was not estimated from the same fit.
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
        checks.append(_whiteness(residuals, position, seed))
    return checks


def _size(residuals: FloatArray, freedom: int) -> Check:
    total = float(residuals @ residuals)
    p = 2 * min(squares_below(total, freedom), squares_above(total, freedom))
    rms = float(np.sqrt(total / freedom))
    times = f"{rms:.2f}" if rms >= 0.1 else f"{rms:.1g}"
    meaning = (
        f"residuals are {times} times as large as the declared noise: the noise is declared "
        f"too {'small, or the forward model is incomplete' if rms > 1 else 'large'}"
    )
    return Check("size", rms, float(min(p, 1.0)), meaning)


def _outliers(residuals: FloatArray, freedom: int, noise_known: bool) -> Check:
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
        f"{readings} far from the matched fit, up to {largest:.1f} standard deviations of the "
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


def _whiteness(residuals: FloatArray, position: FloatArray, seed: int) -> Check:
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
    meaning = (
        f"neighboring residuals are correlated ({observed:+.2f}): the forward model is "
        "incomplete, or the noise is correlated"
    )
    return Check("whiteness", observed, float(p), meaning)


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
