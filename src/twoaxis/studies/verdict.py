r"""How agreement is judged: a rule that was written down before any field was trained.

*exact*
    Ours, from initialization 0, is the same to the printed digits.
*agrees*
    It is not, but the published value, or its interval, overlaps our 95% interval.
*differs*
    It does not. The figure stays, with its most likely reason.

Our interval is, in this order:

1. the percentile interval of the cluster bootstrap with the published unit, where there is one.
   Over several initializations their draws are pooled, so that it covers both the sampling of
   clusters and that of initializations;
2. the 95% prediction interval for one more initialization,
   :math:`\bar x \pm t_{n-1} s \sqrt{1 + 1/n}`, cut off where the figure cannot go, from
   :data:`ENOUGH` initializations upwards: a published single run is one more draw;
3. none. A figure inside a printed interval or range then agrees. Of the others, one that does
   not depend on chance is *exact* or *differs*, and one that does is not judged.

A figure that the paper states as a bound (*below* .00234) is met or not: *agrees* or *differs*,
unless it is the same to the printed digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from twoaxis.studies.published import Published
from twoaxis.studies.resampling import Figure

LEVEL = 0.95
# Initializations from which their spread makes an interval.
ENOUGH = 5


class Verdict(StrEnum):
    """Three words, and one for a figure that cannot be judged."""

    EXACT = "exact"
    AGREES = "agrees"
    DIFFERS = "differs"
    OPEN = "not judged"


@dataclass(frozen=True)
class Outcome:
    """A published figure beside ours.

    Attributes
    ----------
    published : Published
    values : array, shape (n,)
        Ours, for every initialization; the first is the one that is shown.
    interval : tuple of float, optional
        Our 95% interval.
    source : str
        What the interval is.
    verdict : Verdict
    percentile : float, optional
        Where the published value stands among our initializations, from 0 to 100; one that is
        the same to the printed digits counts half.
    """

    published: Published
    values: NDArray[np.float64]
    interval: tuple[float, float] | None
    source: str
    verdict: Verdict
    percentile: float | None

    @property
    def ours(self) -> float:
        """The figure of initialization 0."""
        return float(self.values[0])

    @property
    def reason(self) -> str:
        """Why it may differ, where it does."""
        return self.published.if_differs if self.verdict is Verdict.DIFFERS else ""


def judge(
    published: Published, figures: Sequence[Figure], *, judged: bool = True, chance: bool = True
) -> Outcome:
    """Compare a published figure with ours.

    Parameters
    ----------
    published : Published
    figures : sequence of Figure
        Ours, one for each initialization.
    judged : bool
        False at a scale that proves nothing.
    chance : bool
        Whether the figure depends on noise or initialization at all.
    """
    values = np.array([figure.value for figure in figures])
    interval, source = _interval(published, figures, values)
    verdict = _verdict(published, float(values[0]), interval, chance) if judged else Verdict.OPEN
    percentile = None
    if len(values) >= ENOUGH:
        # To the printed digits: a figure without chance is no draw above or below its rounding.
        same = np.array([published.same(value) for value in values])
        below = np.mean(~same & (values < published.value)) + same.mean() / 2
        percentile = float(100 * below)
    return Outcome(published, values, interval, source, verdict, percentile)


def _interval(
    published: Published, figures: Sequence[Figure], values: NDArray[np.float64]
) -> tuple[tuple[float, float] | None, str]:
    draws = [figure.draws for figure in figures if figure.draws is not None]
    if draws and len(draws) == len(figures):
        low, high = np.quantile(np.concatenate(draws), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        several = f" over {len(draws)} initializations" if len(draws) > 1 else ""
        return (float(low), float(high)), f"cluster bootstrap{several}"
    if len(values) >= ENOUGH and np.isfinite(values).all():
        n = len(values)
        reach = student.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) * np.sqrt(1 + 1 / n)
        low, high = np.clip([values.mean() - reach, values.mean() + reach], *published.limits)
        return (float(low), float(high)), f"one more initialization, from {n}"
    return None, ""


def _verdict(
    published: Published, ours: float, interval: tuple[float, float] | None, chance: bool
) -> Verdict:
    if not np.isfinite(ours):
        return Verdict.DIFFERS
    if published.same(ours):
        return Verdict.EXACT
    if published.bound:
        met = ours < published.value if published.bound == "below" else ours > published.value
        return Verdict.AGREES if met else Verdict.DIFFERS
    low, high = published.ends
    if interval is None:
        inside = low < high and low <= ours <= high
        return Verdict.AGREES if inside else (Verdict.OPEN if chance else Verdict.DIFFERS)
    return Verdict.AGREES if interval[0] <= high and low <= interval[1] else Verdict.DIFFERS
