r"""Has a parameter settled while its model trains, and at what the field prefers?

Under a loss with many scales a parameter slows down without end: it moves as far in the next
doubling of the steps as in the last. So its coordinate :math:`q` is expected to move by the range
of its values over the whole last half of the steps since it began to move, once for every doubling
that is left of the training (at least one; three where its length is not known). It counts as
settled where that is little, and as settled at what its field prefers where the delivery gap is
small, too:

.. math:: n\,(\max q - \min q) \le \varepsilon\sigma, \qquad
   |q - q_{preferred}| \le \varepsilon\sigma, \qquad
   n = \max\left(1, \log_2 \frac{T - t_0}{t - t_0}\right).

The unit :math:`\sigma` is the standard error of the parameter or, without a resolution, the
material tolerance. A parameter that sits where its field wants it would be moved by another field
alone. One that has settled elsewhere is not being trained: a warm-up holds it, it has a learning
rate of its own, or the loss does not reach it. A field that rests although it does not fit the
data may rest on a plateau, which no path tells from an end: where the noise is known, training has
not finished there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twoaxis.arrays import FloatArray
from twoaxis.diagnosis.follow import Row
from twoaxis.diagnosis.training_check import FEWEST, remaining_path
from twoaxis.parameters import Parameters
from twoaxis.result import Message

SETTLED = "follower.settled"
# How far, in the unit, a settled parameter may still move; measurements in a row that say so.
DRIFT, PATIENCE = 0.05, 3
# RMS misfits, in noise levels, at which data count as fitted.
FITTED = 1.1
# Doublings of the steps that are expected of a training whose length is not known.
DOUBLINGS = 3.0


class Unit(NamedTuple):
    """What distances are measured in: sizes (d,) in coordinates, and the name of the unit."""

    size: FloatArray
    name: str


class Standing(NamedTuple):
    """Where one parameter stands, in the unit; NaN where it is not known.

    Attributes
    ----------
    moved : float
        The range of its coordinate over the last half of the steps.
    ahead : float
        The same for every doubling of the steps that is left.
    gap : float
        The delivery gap.
    remaining, steps : float
        How far it still has to go, extrapolated from its path, and in how many steps
        (`twoaxis.diagnosis.training_check`).
    """

    name: str
    moved: float
    ahead: float
    gap: float
    remaining: float
    steps: float


def standings(
    rows: Sequence[Row], parameters: Parameters, unit: Unit, length: int | None = None
) -> list[Standing]:
    """Return where each parameter of interest stands in a training of `length` steps."""
    known = [row for row in rows if row.measured]
    steps = np.array([row.step for row in known], dtype=float)
    values, preferred = (
        np.array([getattr(row, name) for row in known]).reshape(-1, len(parameters))
        for name in ("value", "preferred")
    )
    path, wanted = (
        parameters.coordinates(dict(zip(parameters, each.T, strict=True)))
        for each in (values, preferred)
    )
    found = []
    for j, name in enumerate(parameters):
        if parameters[name].nuisance:
            continue
        start = steps[_departure(path[:, j])]
        late = steps >= (start + steps[-1]) / 2
        left, size = remaining_path(steps, path[:, j]), unit.size[j]
        moved = float(np.ptp(path[late, j])) / size if late.sum() >= FEWEST else np.nan
        ahead = moved * _doublings(start, steps[-1], length)
        gap = float(path[-1, j] - wanted[-1, j]) / size
        found.append(Standing(name, moved, ahead, gap, left.remaining / size, float(left.steps)))
    return found


def _doublings(start: float, now: float, length: int | None) -> float:
    """Return how many times the steps since `start` double until the end, at least once."""
    if length is None:
        return DOUBLINGS
    return float(max(1.0, np.log2(max(length - start, 1.0) / max(now - start, 1.0))))


def _departure(path: FloatArray) -> int:
    """Return the last of the first equal values: a parameter that rests shows nothing yet."""
    changed = np.flatnonzero(path != path[0])
    return int(changed[0]) - 1 if changed.size else 0


def settling(
    rows: Sequence[Row],
    parameters: Parameters,
    unit: Unit | None,
    limit: float,
    length: int | None = None,
) -> Message:
    """Return the state of a training of `length` steps after its last row.

    Its code tells the states apart:

    ``follower.not_measured``, ``follower.no_unit``, ``follower.too_early``, ``follower.moving``,
    ``follower.overfitting`` (moving with its field, which fits the data to the noise),
    ``follower.not_trained`` (settled, but not where the field prefers), ``follower.not_fitted``
    (settled there, but the field does not fit the data) and ``follower.settled``.
    """
    last = rows[-1] if rows else None
    if last is None or not last.measured:
        return Message("follower.not_measured", "the last step could not be measured", "warning")
    if unit is None:
        text = "whether the parameter has settled needs a resolution or a tolerance to compare with"
        return Message("follower.no_unit", text)
    all_found = standings(rows, parameters, unit, length)
    if any(np.isnan(each.moved) for each in all_found):
        text = "too few measurements to tell whether the parameter has settled"
        return Message("follower.too_early", text, numbers={"measurements": float(len(rows))})
    worst = max(all_found, key=lambda each: each.moved)
    numbers = {
        "moved": worst.moved,
        "ahead": worst.ahead,
        "gap": worst.gap,
        "remaining": worst.remaining,
        "steps": float(worst.steps),
        "data_misfit": last.data_misfit,
    }
    if worst.ahead > limit:
        return _moving(worst, last, unit, limit, numbers)
    off = max(all_found, key=lambda each: abs(each.gap) if np.isfinite(each.gap) else np.inf)
    if not abs(off.gap) <= limit:
        where = "nothing inside the bounds" if np.isnan(off.gap) else "another value"
        text = (
            f"{off.name} no longer moves, but the field prefers {where}"
            + ("" if np.isnan(off.gap) else f" (delivery gap {off.gap:+.2g} {unit.name})")
            + ": training does not move the parameter"
        )
        return Message("follower.not_trained", text, "warning", {**numbers, "gap": off.gap})
    numbers["gap"] = off.gap
    text = (
        f"{worst.name} has settled (it moved by {worst.moved:.2g} {unit.name} in the last half of "
        f"the steps) at what its field prefers (delivery gap {off.gap:+.2g} {unit.name})"
    )
    if last.data_misfit > FITTED:
        text += (
            f", but the field does not fit the data ({last.data_misfit:.3g} noise levels): it may "
            "rest on a plateau, or the network may be too small"
        )
        return Message("follower.not_fitted", text, "warning", numbers)
    fit = (
        ""
        if np.isnan(last.data_misfit)
        else f", with the data fitted ({last.data_misfit:.3g} noise levels)"
    )
    return Message(SETTLED, text + fit + ": training longer will not change it", "info", numbers)


def _moving(
    worst: Standing, last: Row, unit: Unit, limit: float, numbers: dict[str, float]
) -> Message:
    how = f"{worst.name} moved by {worst.moved:.2g} {unit.name} in the last half of the steps"
    with_field = np.isfinite(worst.gap) and abs(worst.gap) <= limit
    if with_field and last.data_misfit <= FITTED:
        text = (
            f"{how}, together with what its field prefers, although the field fits the data to "
            f"the noise ({last.data_misfit:.3g} noise levels): it follows a field that fits noise"
        )
        return Message("follower.overfitting", text, "info", numbers)
    left = ""
    if np.isfinite(worst.remaining):
        left = f", and has about {abs(worst.remaining):.2g} {unit.name} to go"
    return Message("follower.moving", how + left, numbers=numbers)
