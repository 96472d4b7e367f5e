"""What a confidence set must say beside its numbers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from twoaxis.remedies.calibration.grid import edge_pieces
from twoaxis.remedies.calibration.invert import SetInterval

if TYPE_CHECKING:
    from twoaxis.remedies.calibration.set_result import ConfidenceSet

# Monte Carlo error of an edge, as a share of the width, above which more replicas are advised.
ROUGH = 0.2
WIDTH = 96


def interval_words(part: SetInterval) -> str:
    """Return an interval as text; an open end is not closed by a bracket.

    >>> interval_words(SetInterval(0.5, 2.0, open_high=True))
    '[0.5, 2 and perhaps beyond)'
    """
    low = f"(perhaps below {part.low:.5g}" if part.open_low else f"[{part.low:.5g}"
    high = f"{part.high:.5g} and perhaps beyond)" if part.open_high else f"{part.high:.5g}]"
    return f"{low}, {high}"


def warning_words(line: str) -> str:
    """Return a message in lines of a terminal's width."""
    return textwrap.fill(line, WIDTH, initial_indent="! ", subsequent_indent="  ")


def set_messages(found: ConfidenceSet) -> list[str]:
    """Return what a reader must know before using the set."""
    told = []
    known = found.calibration
    low, high = known.candidates[0], known.candidates[-1]
    if not found.intervals:
        told.append(_why_empty(found))
    for word, end, is_open in (
        ("smallest", low, any(part.open_low for part in found.intervals)),
        ("largest", high, any(part.open_high for part in found.intervals)),
    ):
        if is_open:
            told.append(
                f"the set reaches the {word} candidate tested, {end:.5g}, and may go on beyond it"
            )
    if len(found.intervals) > 1:
        told.append(
            f"the set has {len(found.intervals)} separate intervals: the pipeline gives the same "
            "answer for different truths"
        )
    if found.correction.status != "found":
        told.append(found.correction.status)
    told.extend(_coarse_edges(found))
    told.extend(_rough_edges(found))
    return told


def _why_empty(found: ConfidenceSet) -> str:
    lower, upper = found.bounds
    side = "above" if (found.observed > upper).all() else "below"
    if not ((found.observed > upper).all() or (found.observed < lower).all()):
        side = "unlike"
    return (
        f"the set is empty: the delivered {found.estimate:.5g} lies {side} what the pipeline "
        "returns at every candidate. Test a wider interval; if that does not help, simulator or "
        "noise do not describe these data"
    )


def _coarse_edges(found: ConfidenceSet) -> list[str]:
    known, q = found.calibration, found.calibration.coordinates
    width = sum(part.high - part.low for part in found.parts)
    wide = [j for j in edge_pieces(q, found.parts) if q[j + 1] - q[j] > width]
    if not wide:
        return []
    low, high = known.candidates[[wide[0], wide[0] + 1]]
    return [
        f"an edge lies between the candidates {low:.5g} and {high:.5g}, which are farther apart "
        "than the set is wide: there it is interpolated, not tested. More candidates, a narrower "
        "interval or more rounds of refinement would settle it"
    ]


def _rough_edges(found: ConfidenceSet) -> list[str]:
    table = found.monte_carlo
    width = sum(part.high - part.low for part in found.intervals)
    errors = table.loc[["low", "high"], "standard_error"].to_numpy()
    rough = not np.isnan(errors).all() and width > 0 and np.nanmax(errors) > ROUGH * width
    if not rough:
        return []
    share = 100 * float(np.nanmax(errors)) / width
    return [
        f"an edge has a Monte Carlo error of {share:.0f}% of the width: more replicas would "
        "settle it"
    ]
