r"""Exact derivatives compared with differences of the residual.

Each exact column :math:`J` is compared with a difference :math:`D_5` of five evaluations, as
root mean squares over the points of each equation. It is accepted where

.. math:: \lVert J - D_5\rVert \le 3\,\lVert D_5 - D_3\rVert
          + 4\,\textstyle\sum_k |w_k|\,\eta / h + 10^{-4}\,\max(\lVert J\rVert, \lVert D_5\rVert).

:math:`D_3`, the difference of three of the same values, is of lower order, so that
:math:`D_5 - D_3` bounds the truncation of :math:`D_5` for any curvature that the step resolves.
:math:`\eta` is the rounding of one value: the unit of the residual's own floating-point type,
and what the fourth difference of the five values shows, which no smooth change with the
parameter explains. A disagreement has to hold with a smaller step, too.

Difference formulas on evenly spaced values that stay inside an interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoaxis.frozen import FrozenResidual, rounding_unit, same_size

FloatArray = NDArray[np.float64]

# Steps that leave an interval by less than this share of a step do so by rounding.
SLACK = 1e-9


def offsets_inside(
    low: float, high: float, center: float, size: float, count: int
) -> tuple[int, ...]:
    """Return `count` successive integers k with ``low <= center + k size <= high``.

    They are as centered as the interval allows, and zero is among them while the interval is at
    least ``2 (count - 1)`` steps wide.

    Examples
    --------
    >>> offsets_inside(0.0, 1.0, 0.5, 0.01, 3), offsets_inside(0.0, 1.0, 0.0, 0.01, 3)
    ((-1, 0, 1), (0, 1, 2))
    """
    lowest = math.ceil((low - center) / size - SLACK)
    highest = math.floor((high - center) / size + SLACK) - (count - 1)
    start = min(max(-(count // 2), lowest), highest)
    return tuple(range(start, start + count))


def difference_weights(offsets: tuple[int, ...], order: int) -> FloatArray:
    r"""Return weights :math:`w_k` with :math:`f^{(order)}(0) \approx \sum_k w_k f(k)`.

    They are exact for polynomials of a degree below the number of offsets, at most five.

    Examples
    --------
    >>> difference_weights((0, 1, 2), 1).tolist()
    [-1.5, 2.0, -0.5]
    """
    powers = np.vander(np.array(offsets, dtype=float), increasing=True).T
    target = np.zeros(len(offsets))
    target[order] = math.factorial(order)
    # With at most five neighboring integers all weights are multiples of 1/12.
    return np.asarray(np.round(12 * np.linalg.solve(powers, target)) / 12)


State = Literal["agrees", "differs", "rounding", "truncation"]

# Smaller errors than this share of a column are not looked for.
AGREEMENT = 1e-4
# An error estimate above this share of the column leaves the question open.
UNCLEAR = 0.1


@dataclass(frozen=True)
class Disagreement:
    """A column that differences contradict; sizes are root mean squares of one equation.

    Attributes
    ----------
    column : int
    exact, difference, deviation : float
        Sizes of the exact column, of its difference, and of what lies between them.
    """

    column: int
    exact: float
    difference: float
    deviation: float


def disagreements(
    frozen: FrozenResidual,
    center: FloatArray,
    output: Any,
    residual: FloatArray,
    columns: FloatArray,
    units: FloatArray,
) -> list[Disagreement]:
    """Compare exact derivatives by the coordinates, shape (N, d), with differences.

    Parameters
    ----------
    frozen : FrozenResidual
    center : array, shape (d,)
    output : array or sequence of array
        What the residual returned at the center: its precision and its equations.
    residual : array, shape (N,)
        The same as a vector.
    columns : array, shape (N, d)
    units : array, shape (d,)
        What stands for 100% of each coordinate.
    """
    rounding = rounding_unit(output)
    parts = output if isinstance(output, (tuple, list)) else [output]
    ends = np.cumsum([int(np.prod(np.shape(part))) for part in parts])[:-1]
    found = []
    for j, column in enumerate(columns.T):
        # Truncation and rounding balance near the fourth root of the rounding.
        coarse = max(1e-3, rounding**0.25)
        first = _compared(frozen, center, residual, column, j, coarse * units[j], rounding, ends)
        state, worst = _overall(first)
        if state in ("agrees", "rounding"):
            continue
        finer = coarse / (100 if rounding < 1e-12 else 10)
        second = _compared(frozen, center, residual, column, j, finer * units[j], rounding, ends)
        again, confirmed = _overall(second)
        if again == "differs":
            found.append(confirmed)
        elif again == "rounding" and state == "differs":
            found.append(worst)
    return found


def _overall(each: list[tuple[State, Disagreement]]) -> tuple[State, Disagreement]:
    """Return the state of a column from those of its equations, the most serious first."""
    order: list[State] = ["differs", "truncation", "rounding", "agrees"]
    return min(each, key=lambda item: order.index(item[0]))


def _compared(
    frozen: FrozenResidual,
    center: FloatArray,
    residual: FloatArray,
    column: FloatArray,
    j: int,
    size: float,
    rounding: float,
    ends: NDArray[np.int_],
) -> list[tuple[State, Disagreement]]:
    """Compare one column with differences of one step, equation by equation."""
    low, high = frozen.coordinate_bounds
    h = min(size, (high[j] - low[j]) / 8)
    offsets = offsets_inside(float(low[j]), float(high[j]), float(center[j]), float(h), 5)
    values = np.empty((5, len(residual)))
    for row, k in enumerate(offsets):
        moved = center.copy()
        moved[j] = np.clip(center[j] + k * h, low[j], high[j])
        values[row] = residual if k == 0 else same_size(frozen.at(moved), residual)
    five = difference_weights(offsets, 1)
    # The three values nearest to the center.
    begin = min(max(offsets.index(0) - 1, 0), 2)
    three = np.zeros(5)
    three[begin : begin + 3] = difference_weights(offsets[begin : begin + 3], 1)
    fourth = difference_weights(offsets, 4)
    logarithmic = list(frozen.parameters.values())[j].coordinate == "log"
    position = 1.0 if logarithmic else abs(float(center[j]))
    return [
        _state(block, exact, five, three, fourth, h, rounding, position, j)
        for block, exact in _by_equation(values, column, ends)
    ]


def _by_equation(
    values: FloatArray, column: FloatArray, ends: NDArray[np.int_]
) -> Iterator[tuple[FloatArray, FloatArray]]:
    return zip(np.split(values, ends, axis=1), np.split(column, ends), strict=True)


def _state(
    values: FloatArray,
    exact: FloatArray,
    five: FloatArray,
    three: FloatArray,
    fourth: FloatArray,
    h: float,
    rounding: float,
    position: float,
    j: int,
) -> tuple[State, Disagreement]:
    difference = five @ values / h
    deviation, truncation = _size(exact - difference), _size((five - three) @ values) / h
    sizes = _size(exact), _size(difference)
    scale = max(sizes)
    # The weights of a fourth difference are 1, 4, 6, 4, 1, with squares that add up to 70.
    noise = _size(fourth @ values) / 70**0.5 + rounding * (_size(values) + position * scale)
    blur = 4 * float(np.abs(five).sum()) * noise / h
    found = Disagreement(j, *sizes, deviation)
    if deviation > 3 * truncation + blur + AGREEMENT * scale:
        return "differs", found
    if 3 * truncation > UNCLEAR * scale:
        return "truncation", found
    return ("rounding" if blur > UNCLEAR * scale else "agrees"), found


def step_dependence(
    coarse: FloatArray, fine: FloatArray, residual: FloatArray, h: float, rounding: float
) -> float:
    """Return by what share two differences of one derivative (N,) disagree; 0: by little.

    Parameters
    ----------
    coarse, fine : array, shape (N,)
        Differences of two steps.
    residual : array, shape (N,)
    h : float
        The finer step.
    rounding : float
        Unit of the residual's floating-point type, whose rounding counts for nothing.
    """
    scale, apart = max(_size(coarse), _size(fine)), _size(coarse - fine)
    unavoidable = 4 * rounding * _size(residual) / h
    return apart / scale if apart > UNCLEAR * scale + unavoidable else 0.0


def _size(values: FloatArray) -> float:
    """Root mean square, scaled so that squares of tiny or huge values can be represented."""
    top = float(np.abs(values).max())
    return top * float(np.sqrt(np.mean((values / top) ** 2))) if top > 0 else 0.0
