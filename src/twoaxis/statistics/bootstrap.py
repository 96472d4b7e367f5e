"""Cluster bootstrap: intervals for averages and correlations of clustered observations.

Observations that share a noise draw or a learned field move together, so counting them as
independent makes an interval too narrow. The cluster bootstrap draws as many clusters as there
are, with replacement, takes every observation as often as its cluster was drawn, and computes
the estimate again. The central part of many such estimates is the percentile interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.statistics.weighted import checked_labels

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# The weights of all draws together can outgrow memory (20,000 draws of 10,000
# observations are 1.6 GB), so a statistic sees them in chunks of about this size.
CHUNK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Interval:
    """A confidence interval: two ends and the share of estimates between them.

    Parameters
    ----------
    low, high : float
        The ends, ``low <= high``.
    level : float
        The nominal coverage, strictly between 0 and 1.

    Examples
    --------
    >>> Interval(2.1, 3.4)
    Interval(low=2.1, high=3.4, level=0.95)
    """

    low: float
    high: float
    level: float = 0.95

    def __post_init__(self) -> None:
        # Written so that a NaN end fails too.
        if not self.low <= self.high:
            raise InputError(
                "an interval whose low end is not above its high end",
                f"low={self.low!r}, high={self.high!r}",
                "give the ends in ascending order",
            )
        _check_level(self.level)


def cluster_bootstrap(
    statistic: Callable[[Floats], ArrayLike],
    clusters: ArrayLike,
    *,
    draws: int = 20_000,
    seed: int,
    strata: ArrayLike | None = None,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of a statistic, with whole clusters resampled.

    The ends are the ``(1 - level) / 2`` and ``(1 + level) / 2`` quantiles of the estimates
    that `bootstrap_estimates` draws; the other arguments are explained there.

    Examples
    --------
    >>> from twoaxis.statistics import weighted_mean
    >>> error = np.array([4.1, 4.3, 6.0, 6.2, 5.1, 5.0])
    >>> noise_draw = [0, 0, 1, 1, 2, 2]
    >>> interval = cluster_bootstrap(lambda w: weighted_mean(error, w), noise_draw, seed=0)
    >>> round(interval.low, 2), round(interval.high, 2)
    (4.2, 6.1)
    """
    _check_level(level)
    estimates = bootstrap_estimates(statistic, clusters, draws=draws, seed=seed, strata=strata)
    if estimates.ndim != 1:
        raise InputError(
            "one estimate per row of weights",
            f"estimates of shape {estimates.shape[1:]} from the statistic",
            "reduce over the last axis of the weights, or use bootstrap_estimates",
        )
    low, high = np.quantile(estimates, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), float(level))


def bootstrap_estimates(
    statistic: Callable[[Floats], ArrayLike],
    clusters: ArrayLike,
    *,
    draws: int = 20_000,
    seed: int,
    strata: ArrayLike | None = None,
) -> Floats:
    r"""Estimates of a statistic under resampling of whole clusters.

    With :math:`K` clusters, draw :math:`b` takes the cluster counts
    :math:`c_b \sim \mathrm{Multinomial}(K; 1/K, \dots, 1/K)` and gives observation
    :math:`i` the weight :math:`w_{bi} = c_{b,k(i)}`; the result is :math:`T(w_b)`.

    Parameters
    ----------
    statistic : callable
        Takes weights of shape ``(chunk, n)``, integers as floats, and returns
        estimates of shape ``(chunk, ...)``, each from its own row alone.
    clusters : array_like, shape (n,)
        The cluster of each observation; labels of any sortable type.
    draws : int
        The number of resamples.
    seed : int
        Seed of :func:`numpy.random.default_rng`. Equal seeds give equal draws, and a
        label keeps its draws whatever order the observations come in.
    strata : array_like, shape (n,), optional
        A coarser label. Each stratum then redraws its own number of clusters from its
        own, so that differences between strata, which a new sample would repeat, do
        not widen the interval. Without it all clusters are resampled together.

    Returns
    -------
    array, shape (draws, ...)

    Raises
    ------
    InputError
        If there are fewer than two clusters in a stratum or altogether, if a cluster
        lies in two strata, or if any draw has no finite estimate.
    """
    for name, number, least in (("draws", draws, 1), ("seed", seed, 0)):
        if not isinstance(number, int | np.integer) or number < least:
            raise InputError(
                f"{name} as an integer of at least {least}",
                f"{name}={number!r}",
                f"pass {name} as an int",
            )
    cluster_of, members = _resampling_plan(clusters, strata)
    return np.concatenate(
        [
            _checked_estimates(statistic(weights), len(weights))
            for weights in _weight_chunks(cluster_of, members, int(draws), int(seed))
        ]
    )


def _resampling_plan(
    clusters: ArrayLike, strata: ArrayLike | None
) -> tuple[Indices, list[Indices]]:
    """Return each observation's cluster number and each stratum's cluster numbers."""
    names, cluster_of = checked_labels("clusters", clusters)
    if strata is None:
        members = [np.arange(names.size)]
    else:
        _, stratum_of = checked_labels("strata", strata, cluster_of.size)
        pairs = np.unique(np.stack([cluster_of, stratum_of]), axis=1)
        repeated = pairs[0, 1:][pairs[0, 1:] == pairs[0, :-1]]
        if repeated.size:
            raise InputError(
                "every cluster inside one stratum",
                f"cluster {names[repeated[0]]!s} in several strata",
                "make the stratum part of the cluster's label, such as 'burgers-3'",
            )
        members = [pairs[0, pairs[1] == stratum] for stratum in np.unique(pairs[1])]
    smallest = min(member.size for member in members)
    if smallest < 2:
        raise InputError(
            "at least two clusters (in every stratum, where strata are given), without which an "
            "interval is not defined",
            f"{smallest} cluster" + (" in a stratum" if strata is not None else ""),
            "add independent replicates, merge strata or leave them out, or report the "
            "estimate without an interval",
        )
    return cluster_of, members


def _weight_chunks(
    cluster_of: Indices, members: list[Indices], draws: int, seed: int
) -> Iterator[Floats]:
    """Yield the weights of all draws, (chunk, n) at a time."""
    # One stream per stratum: with a shared one, the random numbers of a stratum would
    # depend on the chunk size. A single stratum is the unstratified case.
    parent = np.random.default_rng(seed)
    streams = [parent, *parent.spawn(len(members) - 1)]
    clusters = sum(member.size for member in members)
    rows = max(1, CHUNK_BYTES // (cluster_of.size * np.dtype(float).itemsize))
    for start in range(0, draws, rows):
        counts = np.empty((min(rows, draws - start), clusters))
        for stream, member in zip(streams, members, strict=True):
            chances = np.full(member.size, 1 / member.size)
            counts[:, member] = stream.multinomial(member.size, chances, size=len(counts))
        yield np.take(counts, cluster_of, axis=1)


def _checked_estimates(estimates: ArrayLike, rows: int) -> Floats:
    """Return what the statistic gave for a chunk, finite numbers for each of `rows` rows."""
    result = np.asarray(estimates, dtype=float)
    if result.shape[:1] != (rows,):
        raise InputError(
            f"estimates for each row of weights, shape ({rows}, ...)",
            f"shape {result.shape} from the statistic",
            "reduce over the last axis of the weights only",
        )
    undefined = int(np.count_nonzero(~np.isfinite(result)))
    if undefined:
        raise InputError(
            "a finite estimate from every draw",
            f"NaN or infinity in {undefined} of {result.size} estimates",
            "remove missing values first, and use more clusters or a statistic that is "
            "defined when one cluster is drawn many times",
        )
    return result


def _check_level(level: float) -> None:
    """Refuse a level that is no probability strictly between 0 and 1."""
    if not 0 < level < 1:
        raise InputError(
            "a level strictly between 0 and 1",
            f"level={level!r}",
            "pass 0.95 for a 95% interval",
        )
