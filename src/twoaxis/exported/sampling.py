"""From a residual function to numbers that replace it, and how accurately they do."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.exported.affine import affine_test
from twoaxis.exported.chebyshev import TensorGrid, coefficient_sizes, nodes_between
from twoaxis.exported.reduction import Form, SampledForm
from twoaxis.frozen import FrozenResidual

FloatArray = NDArray[np.float64]

# Relative error of the interpolated residual that is tolerated, for residuals in double and in
# single precision. The samples aim at far less, because derivatives lose some digits.
TOLERANCE = 1e-8
SINGLE_TOLERANCE = 1e-5
AIMS = (1e-5, 1e-4, 1e-3, 1e-2)  # of the tolerance, the best that the budget allows
# A residual counts as affine when it deviates from it by less than this share of the tolerance.
AFFINE_SHARE = 1e-3
# What sampling may cost: calls of the residual, and numbers in the file (200 megabytes).
MOST_CALLS = 5_000
MOST_NUMBERS = 25_000_000
FIRST_COUNT = 9
MOST_NODES = 513  # along one coordinate


@dataclass(frozen=True)
class Reduced:
    """Numbers in place of a residual.

    Attributes
    ----------
    form : AffineForm or SampledForm
    accuracy : float
        Largest relative error found at parameter values that were not used.
    checked : int
        Number of those values.
    tolerance : float
    calls : int
        How often the residual was evaluated.
    """

    form: Form
    accuracy: float
    checked: int
    tolerance: float
    calls: int


def reduce_residual(frozen: FrozenResidual, center: FloatArray, single: bool) -> Reduced:
    """Reduce a residual to an affine form or to samples.

    Parameters
    ----------
    frozen : FrozenResidual
    center : array, shape (d,)
        Coordinates in whose neighbourhood accuracy is checked, too.
    single : bool
        Whether the residual is computed in single precision, whose rounding no number of
        samples removes.
    """
    tolerance = SINGLE_TOLERANCE if single else TOLERANCE
    counted = _Counted(frozen)
    share = 1.0 if single else AFFINE_SHARE
    test = affine_test(counted, frozen, center, share * tolerance)
    if test.form is not None:
        return Reduced(test.form, test.deviation, test.checked, tolerance, counted.calls)
    return _sampled(counted, center, tolerance)


class _Counted:
    """The residual at coordinates, with a count of the calls."""

    def __init__(self, frozen: FrozenResidual) -> None:
        self.frozen = frozen
        self.calls = 0
        self.size = 0

    def __call__(self, coordinates: FloatArray) -> FloatArray:
        self.calls += 1
        values = self.frozen.at(coordinates)
        if self.size and len(values) != self.size:
            raise InputError(
                "a residual of the same length for every parameter",
                f"{self.size} values first and {len(values)} later",
                "evaluate the residual at the same points for every parameter",
            )
        self.size = len(values)
        return values


def _sampled(residual: _Counted, center: FloatArray, tolerance: float) -> Reduced:
    """Sample on as many nodes as lines through the centre call for; measure the error between."""
    low, high = residual.frozen.coordinate_bounds
    lines = [_line(residual, center, j, low[j], high[j], tolerance) for j in range(len(low))]
    shape = _shape(residual, lines, tolerance)
    scale = float(np.abs(residual(center)).max())
    while True:
        _check_budget(residual, shape, tolerance)
        ends = zip(low, high, shape, strict=True)
        grid = TensorGrid(tuple(nodes_between(*each) for each in ends))
        form = SampledForm(grid, _filled(residual, grid))
        checks = _between(grid, center)
        worst = _worst(residual, form, checks, scale)
        if worst <= tolerance:
            return Reduced(form, worst, len(checks), tolerance, residual.calls)
        # Lines through the centre do not see everything that happens between them.
        shape = tuple(n + (n + 1) // 2 for n in shape)


def _line(
    residual: _Counted, center: FloatArray, j: int, low: float, high: float, tolerance: float
) -> FloatArray:
    """Chebyshev coefficients along coordinate j through the centre, until they have died out."""
    count, before = FIRST_COUNT, np.inf
    while count <= MOST_NODES:
        values = []
        for q in nodes_between(low, high, count):
            where = center.copy()
            where[j] = q
            values.append(residual(where))
        sizes = coefficient_sizes(np.array(values))
        tail = float(sizes[-3:].max())
        # Rounding does not go away with more nodes.
        if tail <= AIMS[0] * tolerance or before / 10 < tail < AIMS[-1] * tolerance:
            return np.maximum(sizes - 2 * tail, 0.0)
        count, before = 2 * count - 1, tail
    name = residual.frozen.names[j]
    raise InputError(
        f"a residual that is smooth in {name}, so that samples describe it to {tolerance:g}",
        f"one that {MOST_NODES} samples describe to about {tail:.1g}",
        "narrow the bounds to where it is smooth, and not random",
    )


def _shape(residual: _Counted, lines: list[FloatArray], tolerance: float) -> tuple[int, ...]:
    """Numbers of nodes for the best accuracy that can be paid for."""
    for aim in AIMS:
        counts = (int(np.flatnonzero(sizes > aim * tolerance).max(initial=0)) for sizes in lines)
        shape = tuple(max(count + 2, 3) for count in counts)
        if _affordable(residual, shape):
            break
    return shape


def _worst(residual: _Counted, form: Form, checks: list[FloatArray], scale: float) -> float:
    """Largest error at some coordinates, relative to the residual there and at the centre."""
    parameters, worst = residual.frozen.parameters, 0.0
    for where in checks:
        expected = residual(where)
        found = form.residual(parameters, residual.frozen.physical(where))
        error = float(np.abs(found - expected).max())
        size = scale + float(np.abs(expected).max())
        worst = max(worst, error / size if size > 0 else error)
    return worst


def _filled(residual: _Counted, grid: TensorGrid) -> FloatArray:
    first = residual(np.array([nodes[0] for nodes in grid.nodes]))
    samples = np.empty((*grid.shape, len(first)))
    for index in product(*map(range, grid.shape)):
        where = np.array([nodes[i] for nodes, i in zip(grid.nodes, index, strict=True)])
        samples[index] = residual(where) if any(index) else first
    return samples


def _between(grid: TensorGrid, center: FloatArray) -> list[FloatArray]:
    """Coordinates between the nodes: along each axis through the centre, and anywhere."""
    found = [center]
    for j, nodes in enumerate(grid.nodes):
        gaps = (nodes[1:] + nodes[:-1]) / 2
        for q in gaps[np.unique(np.linspace(0, len(gaps) - 1, 16).round().astype(int))]:
            where = center.copy()
            where[j] = q
            found.append(where)
    low, high = (np.array([nodes[k] for nodes in grid.nodes]) for k in (0, -1))
    return [*found, *np.random.default_rng(0).uniform(low, high, (24, len(center)))]


def _affordable(residual: _Counted, shape: tuple[int, ...]) -> bool:
    count = int(np.prod(shape))
    return count <= MOST_CALLS and count * max(residual.size, 1) <= MOST_NUMBERS


def _check_budget(residual: _Counted, shape: tuple[int, ...], tolerance: float) -> None:
    if not _affordable(residual, shape):
        raise InputError(
            f"a residual whose dependence on its parameters can be sampled to {tolerance:g} with "
            f"at most {MOST_CALLS:,} calls and {MOST_NUMBERS:,} numbers",
            f"one that needs {' x '.join(map(str, shape))} samples of {residual.size:,} values",
            "narrow the bounds, export fewer points or fewer parameters, or make it smooth in them",
        )
