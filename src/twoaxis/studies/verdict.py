r"""How agreement is judged: one rule for every figure.

*exact*
    A figure without chance that is the same to the printed digits.
*agrees*
    The printed value, with its rounding, meets our 95% interval.
*not contradicted*
    It does, but our interval is at least as wide as the figure itself, so that hardly any value
    could have differed.
*differs*
    It does not. The figure stays, with its most likely reason.

A printed number stands for all that round to it: .960 is [.9595, .9605]. A count is itself, a range
reaches from end to end, and a bound (*below* .00234) is met or not.

Our interval is for one more draw of what chance decides in a figure (`Published.chance`):

``"initialization"``
    The data are those of the study, and networks and residual sites are drawn. It is the 95%
    prediction interval :math:`\bar x \pm t_{n-1} s \sqrt{1 + 1/n}` from :data:`ENOUGH`
    initializations upwards, cut off where the figure cannot go: a published run is one more draw.
``"noise"``
    The noise is drawn, too. It is the same interval over repetitions with noise of their own, and
    an initialization of their own where there is one, from :data:`ENOUGH` of them upwards. With
    fewer it is the percentile interval of the cluster bootstrap with the published unit, the draws
    of all initializations pooled. That one leaves out that the published noise is a draw as well,
    and is narrower.
``"none"``
    Nothing is drawn. A figure that rests on rounded numbers has the interval that their rounding
    leaves open.

A figure of chance without an interval is not judged, and its printed interval has no part in this.
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

FloatArray = NDArray[np.float64]

LEVEL = 0.95
# Repetitions from which their spread makes an interval.
ENOUGH = 5


class Verdict(StrEnum):
    """Four words, and one for a figure that cannot be judged."""

    EXACT = "exact"
    AGREES = "agrees"
    NOT_CONTRADICTED = "not contradicted"
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
    values: FloatArray
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
    published: Published,
    figures: Sequence[Figure],
    redrawn: Sequence[Figure] = (),
    *,
    judged: bool = True,
) -> Outcome:
    """Compare a published figure with ours.

    Parameters
    ----------
    published : Published
    figures : sequence of Figure
        Ours, one for each initialization.
    redrawn : sequence of Figure
        Ours from other noise and another initialization each, as far as there are any.
    judged : bool
        False at a scale that proves nothing.
    """
    values = _values(figures)
    interval, source = _interval(published, figures, redrawn)
    verdict = _verdict(published, float(values[0]), interval) if judged else Verdict.OPEN
    return Outcome(published, values, interval, source, verdict, _percentile(published, values))


def _interval(
    published: Published, figures: Sequence[Figure], redrawn: Sequence[Figure]
) -> tuple[tuple[float, float] | None, str]:
    if published.chance == "none":
        return figures[0].ends, "what rounding leaves open" if figures[0].ends else ""
    if published.chance == "initialization":
        found = one_more(published, _values(figures))
        return found, f"one more initialization, from {len(figures)}" if found else ""
    if found := one_more(published, _values(redrawn)):
        return found, f"one more repetition with other noise, from {len(redrawn)}"
    draws = [figure.draws for figure in figures if figure.draws is not None]
    if not draws or len(draws) < len(figures):
        return None, ""
    low, high = np.quantile(np.concatenate(draws), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    several = f" over {len(draws)} initializations" if len(draws) > 1 else ""
    return (float(low), float(high)), f"cluster bootstrap{several}"


def one_more(published: Published, values: FloatArray) -> tuple[float, float] | None:
    """Return the 95% prediction interval for one more value, or nothing from too few."""
    n = len(values)
    if n < ENOUGH or not np.isfinite(values).all():
        return None
    reach = student.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) * np.sqrt(1 + 1 / n)
    low, high = np.clip([values.mean() - reach, values.mean() + reach], *published.limits)
    return float(low), float(high)


def _verdict(published: Published, ours: float, interval: tuple[float, float] | None) -> Verdict:
    if not np.isfinite(ours):
        return Verdict.DIFFERS
    if published.chance == "none" and published.same(ours):
        return Verdict.EXACT
    if interval is None and published.chance != "none" and not published.bound:
        return Verdict.OPEN
    low, high = interval or (ours, ours)
    printed_low, printed_high = published.rounded
    if high < printed_low or printed_high < low:
        return Verdict.DIFFERS
    wide = not published.bound and high - low >= abs(published.value) and high > low
    return Verdict.NOT_CONTRADICTED if wide else Verdict.AGREES


def _values(figures: Sequence[Figure]) -> FloatArray:
    return np.array([figure.value for figure in figures])


def _percentile(published: Published, values: FloatArray) -> float | None:
    if len(values) < ENOUGH or published.chance == "none":
        return None
    # To the printed digits: what prints the same is no draw above or below.
    same = np.array([published.same(value) for value in values])
    below = np.mean(~same & (values < published.value)) + same.mean() / 2
    return float(100 * below)
