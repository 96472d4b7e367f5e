r"""Has training finished? How far the parameter still has to go, from its path or from its loss.

**From its path.** The last 40% of the recorded steps are cut into two windows of length
:math:`L`. In each, a straight line gives the speed of the coordinate, :math:`s_1` and
:math:`s_2`. A parameter that relaxes exponentially has :math:`s_2 / s_1 = e^{-L/\tau}`, and from
the last step on it still moves by

.. math:: \text{remaining} = \frac{\tau\, s_2\, e^{-x}}{f(x)}, \qquad x = \frac{L}{2\tau}, \quad
   f(x) = 3\,\frac{x \cosh x - \sinh x}{x^3},

where :math:`f` is the speed of the straight line over that at the middle of the window.

This is limited to one more training of the same length at the last speed, which is also what
a parameter that does not slow down (:math:`s_2 \ge s_1`) has at least to go; one that has just
turned back, one more window. A speed that cannot be told from the fluctuations of its window
counts as zero.

An extrapolation is as good as the path is smooth. In a slow valley of the loss, as second-order
methods follow it, a parameter pauses and goes on: its path tells little left to go, and the next
doubling of the steps moves it as far as the last one did. So the range of the coordinate over the
last half of the steps stands beside what is left: that training has settled rests on both.

**From its loss.** Where no path was recorded but the training loss is known, a few steps of a
second-order method from the delivered state may move the parameter far: then training has not
finished (`twoaxis.training_loss.probe`). If they do not, nothing is known of many more steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.io import Layout, Variable, labelled
from twoaxis.parameters import Parameters
from twoaxis.training_loss import Probe

FloatArray = NDArray[np.float64]

# The share of the steps in which the speed is measured, and the fewest records in a window.
LAST_SHARE = 0.4
FEWEST = 4
# A speed counts when it is this many of its standard errors from zero.
SIGNIFICANT = 4.0
# A path that slows down by less than this within half a window does not slow down.
SMALLEST_DECAY = 1e-3

_P = ("parameter",)
TRAINING_LAYOUT: Layout = {
    "parameter": Variable(_P, "text", "name of the parameter"),
    "remaining": Variable(_P, "float", "distance still to go, in coordinates; NaN: not known"),
    "traveled": Variable(
        _P, "float", "distance between the extremes of its path, in coordinates; NaN: not known"
    ),
    "late_range": Variable(
        _P, "float", "range over the last half of the steps, in coordinates; NaN: not known"
    ),
    "records": Variable(_P, "int", "number of records of its path"),
    "remaining_steps": Variable(_P, "float", "steps until a tenth of it is left; NaN: not known"),
    "steady": Variable(_P, "bool", "whether it does not slow down, so that more may follow"),
    "loss_fall": Variable((), "float", "share of the loss lost in the last window; NaN: not known"),
    "loss_records": Variable((), "int", "number of records of the loss"),
    "probe_iterations": Variable((), "int", "iterations of the probe; 0: none"),
    "probe_moved": Variable(_P, "float", "displacement by the probe, in coordinates; NaN: none"),
    "probe_loss_fall": Variable((), "float", "share of the loss that the probe removed; NaN: none"),
}


class Path(NamedTuple):
    """What is left of the path of one coordinate; NaN where it is not known."""

    remaining: float
    steps: float
    steady: bool


def remaining_path(step: FloatArray, coordinate: FloatArray) -> Path:
    """Extrapolate a recorded path; see the head of this module.

    Parameters
    ----------
    step, coordinate : array, shape (T,)
        Recorded steps, ascending, and the coordinate there.

    Examples
    --------
    A relaxation with a time of 1,000 steps, cut off after 2,000:

    >>> step = np.arange(0.0, 2001.0, 2)
    >>> found = remaining_path(step, 1 - np.exp(-step / 1000))
    >>> round(found.remaining, 3), round(float(np.exp(-2)), 3)
    (0.135, 0.135)
    """
    unknown = Path(np.nan, np.nan, False)
    known = np.isfinite(step) & np.isfinite(coordinate)
    step, coordinate = step[known], coordinate[known]
    if len(step) < 2:
        return unknown
    end, length = step[-1], LAST_SHARE * (step[-1] - step[0]) / 2
    late = step > end - length
    early = (step > end - 2 * length) & ~late
    if min(len(np.unique(step[window])) for window in (late, early)) < FEWEST:
        return unknown
    before, _ = _speed(step[early], coordinate[early])
    speed, error = _speed(step[late], coordinate[late])
    if abs(speed) <= SIGNIFICANT * error:
        return Path(0.0, 0.0, False)
    ratio, whole = before / speed, float(step[-1] - step[0])
    if ratio <= 0:  # it has just turned back
        return Path(speed * float(length), float(length), True)
    half = np.log(ratio) / 2 if ratio > 1 else 0.0
    if half < SMALLEST_DECAY:
        return Path(speed * whole, whole, True)
    time = float(length / (2 * half))
    curved = 3 * (half * np.cosh(half) - np.sinh(half)) / half**3
    left = time * np.exp(-half) / curved
    if left >= whole:
        return Path(speed * whole, whole, True)
    return Path(float(speed * left), time * np.log(10), False)


def _speed(step: FloatArray, coordinate: FloatArray) -> tuple[float, float]:
    """Return the slope of a straight line, and its standard error with correlated deviations."""
    moved = step - step.mean()
    spread = float(moved @ moved)
    slope = float(moved @ coordinate) / spread
    rest = coordinate - coordinate.mean() - slope * moved
    power = float(rest @ rest)
    if power == 0:
        return slope, 0.0
    # Neighboring records of one path are correlated: fewer of them are independent.
    correlation = np.clip(float(rest[1:] @ rest[:-1]) / power, 0.0, 0.95)
    deviation = np.sqrt(power / (len(step) - 2) / spread)
    return slope, float(deviation * np.sqrt((1 + correlation) / (1 - correlation)))


def _late_range(step: FloatArray, coordinate: FloatArray) -> float:
    """Return the range over the last half of the steps; NaN: not recorded."""
    known = np.isfinite(step) & np.isfinite(coordinate)
    step, coordinate = step[known], coordinate[known]
    return float(np.ptp(coordinate[2 * step >= step[0] + step[-1]])) if len(step) else np.nan


def loss_fall(step: FloatArray, loss: FloatArray) -> float:
    """Return the share that a loss loses within the last fifth of its steps; NaN: not known.

    Medians of the two halves of that part are compared, so that single peaks do not count, and
    the fall between them is doubled to cover the whole of it.
    """
    known = np.isfinite(step) & np.isfinite(loss) & (loss > 0)
    step, loss = step[known], loss[known]
    if len(step) < 2:
        return np.nan
    length = LAST_SHARE / 2 * (step[-1] - step[0])
    late = step > step[-1] - length / 2
    early = (step > step[-1] - length) & ~late
    if min(late.sum(), early.sum()) < FEWEST:
        return np.nan
    return float(1 - (np.median(loss[late]) / np.median(loss[early])) ** 2)


def training_group(
    parameters: Parameters,
    history: xr.Dataset | None,
    snapshots: xr.Dataset | None,
    probe: Probe | None = None,
) -> xr.Dataset | None:
    """Return the group ``/training``, or None where nothing is known of the training."""
    paths = [Path(np.nan, np.nan, False)] * len(parameters)
    traveled, late = np.full((2, len(parameters)), np.nan)
    records = np.zeros(len(parameters), dtype=np.int64)
    fall, loss_records = np.nan, 0
    source = next(
        (g for g in (history, snapshots) if g is not None and "value" in g),
        None,
    )
    if source is not None:
        values = source["value"].transpose("step", "parameter").values
        steps = np.asarray(source["step"].values, dtype=float)
        with np.errstate(invalid="ignore", divide="ignore"):
            path = parameters.coordinates(dict(zip(parameters, values.T, strict=True)))
        paths = [remaining_path(steps, column) for column in path.T]
        # Libraries record a parameter at fewer steps than its loss.
        kept = [column[np.isfinite(column)] for column in path.T]
        records = np.array([len(known) for known in kept])
        traveled = np.array([np.ptp(known) if len(known) > 1 else np.nan for known in kept])
        late = np.array([_late_range(steps, column) for column in path.T])
    if history is not None:
        loss = _whole_loss(history)
        fall, loss_records = loss_fall(*loss), len(loss[0])
    moved = np.full(len(parameters), np.nan)
    lowered, iterations = np.nan, 0
    if probe is not None:
        moved = np.array([probe.displacement.get(name, np.nan) for name in parameters])
        lowered, iterations = probe.relative_decrease, probe.iterations
    if probe is None and not loss_records and not records.any():
        return None
    return labelled(
        TRAINING_LAYOUT,
        {
            "parameter": parameters.names,
            "remaining": [p.remaining for p in paths],
            "traveled": traveled,
            "late_range": late,
            "records": records,
            "remaining_steps": [p.steps for p in paths],
            "steady": [p.steady for p in paths],
            "loss_fall": fall,
            "loss_records": loss_records,
            "probe_iterations": iterations,
            "probe_moved": moved,
            "probe_loss_fall": lowered,
        },
        {},
    )


def _whole_loss(history: xr.Dataset) -> tuple[FloatArray, FloatArray]:
    """Return steps and values of what is called the loss; of several such, of their sum."""
    names = [str(name) for name in history["quantity"].values]
    losses = [n for n in names if n == "loss"] or [n for n in names if "loss" in n.lower()]
    if not losses:
        return np.empty(0), np.empty(0)
    recorded = history["recorded"].transpose("step", "quantity").values
    whole = recorded[:, [names.index(n) for n in losses]].sum(axis=1)
    kept = np.isfinite(whole)
    return np.asarray(history["step"].values, dtype=float)[kept], whole[kept]
