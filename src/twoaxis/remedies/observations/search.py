"""Choose k candidates: greedily, then by exchange until no swap helps.

Greedy choice takes the candidate that adds most, again and again. For one parameter at one point
under a rule of one site a cell it is exact: the best site of each cell, and of those the best k.
Elsewhere an exchange follows: each chosen site is taken up and the best free candidate is put in
its place, until a whole round changes nothing. Each swap raises the criterion, so this ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.progress import Advance
from twoaxis.remedies.observations.criterion import Criterion, unpacked
from twoaxis.remedies.observations.rules import Free, Rules

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# A swap that raises the average log information by less is rounding.
SMALLEST_GAIN = 1e-10
# Two gains that differ by this share are told apart by rounding alone.
ROUNDING = 1e-6


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
    return np.union1d(np.flatnonzero(limit >= least * (1 - ROUNDING)), chosen).astype(np.intp)


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
