r"""A residual function reduced to numbers that replace it, and how accurately they do.

Where the residual is affine in the physical parameters, ``r(p) = a + sum_j p_j b_j``, the
vectors ``a`` and ``b_j`` are all of it, everywhere. Whether it is, a few values on one side of
the center do not tell: a clamp or a switch of regimes may lie on the other. The affine form
through the center and one end of every parameter is compared with the residual at the other
ends, at values spread over each parameter with the others at the center, and at random values
of all of them.

Any other residual is sampled on a tensor grid of Chebyshev nodes of the coordinates, inside the
bounds, until interpolation between them is accurate. A smooth function on an interval is known
almost everywhere from its values at

.. math:: q_i = \tfrac{a+b}{2} - \tfrac{b-a}{2}\cos\frac{i\pi}{n-1}, \qquad i = 0, \dots, n-1,

through the barycentric formula: the error falls geometrically with ``n`` for an analytic
function, and rounding does not grow. The Chebyshev coefficients of the samples tell how many
nodes are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.parameters import Parameter, Parameters

FloatArray = NDArray[np.float64]


def nodes_between(low: float, high: float, count: int) -> FloatArray:
    """Return `count` Chebyshev nodes from `low` to `high`, both included.

    Examples
    --------
    >>> nodes_between(0.0, 1.0, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    # The sine form is symmetric to the last digit.
    angles = np.pi * np.arange(-(count - 1), count, 2) / (2 * (count - 1))
    nodes = (low + high) / 2 + (high - low) / 2 * np.sin(angles)
    nodes[0], nodes[-1] = low, high
    return nodes


@dataclass(frozen=True)
class TensorGrid:
    """Nodes along every coordinate, and interpolation between them.

    Attributes
    ----------
    nodes : tuple of arrays
        One array of ascending nodes for each coordinate.

    Examples
    --------
    >>> grid = TensorGrid((nodes_between(-1.0, 1.0, 9),))
    >>> values = np.exp(grid.nodes[0])[:, None]
    >>> float(abs(grid.at(values, np.array([0.3]))[0] - np.exp(0.3))) < 1e-7
    True
    """

    nodes: tuple[FloatArray, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes along each coordinate."""
        return tuple(len(each) for each in self.nodes)

    def at(self, samples: FloatArray, where: FloatArray) -> FloatArray:
        """Interpolate samples (n_1, ..., n_d, N) at coordinates (d,); the result is (N,)."""
        return self._contract(samples, [self._row(j, q) for j, q in enumerate(where)])

    def slopes(self, samples: FloatArray, where: FloatArray) -> FloatArray:
        """Return the exact derivatives of the interpolant by the coordinates, (N, d)."""
        rows = [self._row(j, q) for j, q in enumerate(where)]
        columns = []
        for j, own in enumerate(self.nodes):
            turned = [*rows]
            turned[j] = rows[j] @ differentiation(own)
            columns.append(self._contract(samples, turned))
        return np.stack(columns, axis=1)

    def _row(self, j: int, q: float) -> FloatArray:
        """Weights with which the nodes of coordinate j enter at q; they sum to one."""
        nodes = self.nodes[j]
        apart = q - nodes
        hit = np.flatnonzero(apart == 0)
        if hit.size:
            return np.asarray(np.eye(len(nodes))[hit[0]])
        weights = barycentric(len(nodes)) / apart
        return np.asarray(weights / weights.sum())

    @staticmethod
    def _contract(samples: FloatArray, rows: list[FloatArray]) -> FloatArray:
        for row in rows:
            samples = np.tensordot(row, samples, axes=1)
        return samples


def barycentric(count: int) -> FloatArray:
    """Return the barycentric weights of Chebyshev nodes: alternating, half at the ends."""
    weights = np.where(np.arange(count) % 2, -1.0, 1.0)
    weights[[0, -1]] /= 2
    return weights


def differentiation(nodes: FloatArray) -> FloatArray:
    """Return the matrix from values at the nodes to derivatives of the interpolant there."""
    weights = barycentric(len(nodes))
    apart = nodes[:, None] - nodes
    np.fill_diagonal(apart, 1.0)
    matrix = (weights / weights[:, None]) / apart
    # A constant has no derivative: this choice of the diagonal keeps that true when rounded.
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return np.asarray(matrix)


def coefficient_sizes(samples: FloatArray) -> FloatArray:
    """Return the sizes of the Chebyshev coefficients of samples (n, N), relative to the largest.

    Coefficient k is the largest over the N functions, shape (n,). Where they are small from some
    k on, k + 1 nodes describe the functions as well as n do.
    """
    found = np.abs(dct(samples, type=1, axis=0)).max(axis=1)
    found[[0, -1]] /= 2
    top = found.max()
    return np.asarray(found / top if top > 0 else found)


@dataclass(frozen=True)
class AffineForm:
    """``r(p) = constant + slopes @ p``, in physical parameters.

    Attributes
    ----------
    constant : array, shape (N,)
    slopes : array, shape (N, d)
    """

    constant: FloatArray
    slopes: FloatArray

    def residual(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        """Return the residual, shape (N,), at physical values by name."""
        physical = np.array([float(values[name]) for name in parameters])
        return np.asarray(self.constant + self.slopes @ physical)

    def jacobian(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        """Return derivatives by the physical parameters, shape (N, d)."""
        del parameters, values  # the same everywhere
        return self.slopes.copy()

    def deviation(
        self, frozen: FrozenResidual, coordinates: FloatArray, found: FloatArray
    ) -> float:
        """Return how far residual values (N,) are from it, as a share of its terms there.

        A share of the residual itself would be one of rounding where the residual vanishes.
        """
        physical = _physical(frozen, coordinates)
        terms = np.abs(self.constant) + np.abs(self.slopes) @ np.abs(physical)
        off = float(np.abs(found - (self.constant + self.slopes @ physical)).max())
        return off / size if (size := float(terms.max())) > 0 else off

    def in_words(self) -> str:
        """Say how the residual is stored."""
        return "affine in its parameters and stored exactly"


@dataclass(frozen=True)
class SampledForm:
    """Samples on a tensor grid of Chebyshev nodes of the coordinates.

    Attributes
    ----------
    grid : TensorGrid
    samples : array, shape (n_1, ..., n_d, N)
    """

    grid: TensorGrid
    samples: FloatArray

    def residual(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        """Return the interpolated residual, shape (N,), at physical values by name."""
        return self.grid.at(self.samples, self._coordinates(parameters, values))

    def jacobian(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        """Return the interpolant's derivatives by the physical parameters, shape (N, d)."""
        where = self._coordinates(parameters, values)
        # dr/dp = dr/dq / (dp/dq), and dp/dq = p in log coordinates.
        stretch = [
            float(values[name]) if p.coordinate == "log" else 1.0 for name, p in parameters.items()
        ]
        return np.asarray(self.grid.slopes(self.samples, where) / np.array(stretch))

    def in_words(self) -> str:
        """Say how the residual is stored."""
        return f"interpolated between {' x '.join(map(str, self.grid.shape))} samples"

    def _coordinates(
        self, parameters: Mapping[str, Parameter], values: Mapping[str, Any]
    ) -> FloatArray:
        found = []
        for (name, parameter), nodes in zip(parameters.items(), self.grid.nodes, strict=True):
            value = float(values[name])
            low, high = (float(parameter.to_value(q)) for q in nodes[[0, -1]])
            # The ends themselves may leave the range by rounding, through exp and log.
            slack = 1e-12 * max(abs(low), abs(high))
            if not low - slack <= value <= high + slack:
                raise InputError(
                    f"{name} where the residual was sampled, {low:g} to {high:g}",
                    f"{name}={value:g}",
                    "stay inside, or save the residual again from its model with wider bounds",
                )
            inside = min(max(value, low), high)
            q = float(parameter.to_coordinate(inside))
            found.append(min(max(q, nodes[0]), nodes[-1]))
        return np.array(found)


Form = AffineForm | SampledForm


def as_functions(
    form: Form, parameters: Parameters, sizes: list[int]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return ``residual(**values)`` and ``jacobian(**values)``, equations in a tuple."""
    ends = np.cumsum(sizes)[:-1]

    def residual(**values: Any) -> Any:
        found = form.residual(parameters, parameters.by_member(values))
        return tuple(np.split(found, ends)) if len(ends) else found

    def jacobian(**values: Any) -> FloatArray:
        return form.jacobian(parameters, parameters.by_member(values))

    return residual, jacobian


ALONG_EACH = 6  # values along each parameter, one in each sixth of its coordinate's bounds
TOGETHER = 6  # random values of all parameters, half uniform in coordinates, half in values


@dataclass(frozen=True)
class AffineTest:
    """What the comparison with an affine form has found.

    Attributes
    ----------
    form : AffineForm or None
        None when the residual is not affine.
    checked : int
        Number of parameter values at which form and residual were compared.
    deviation : float
        Largest deviation there, relative to the residual there and at the center.
    largest : float
        Largest absolute residual value that was met.
    """

    form: AffineForm | None
    checked: int
    deviation: float
    largest: float


def affine_test(
    residual: Callable[[FloatArray], FloatArray],
    frozen: FrozenResidual,
    center: FloatArray,
    tolerance: float,
) -> AffineTest:
    """Compare a residual with an affine form over the whole box of its parameters.

    Parameters
    ----------
    residual : callable
        From coordinates, shape (d,), to residual values, shape (N,).
    frozen : FrozenResidual
        For the parameters and their bounds.
    center : array, shape (d,)
    tolerance : float
        Largest relative deviation of an affine residual; the test ends at a larger one.
    """
    low, high = frozen.coordinate_bounds
    middle, lower, upper = (_physical(frozen, q) for q in (center, low, high))
    # The end that is farther in physical units gives the better conditioned slope.
    up = upper - middle >= middle - lower
    far, near = np.where(up, high, low), np.where(up, low, high)
    at_center = residual(center)
    largest = float(np.abs(at_center).max())
    slopes = np.empty((len(at_center), len(center)))
    for j in range(len(center)):
        at_end = residual(_moved(center, j, far[j]))
        largest = max(largest, float(np.abs(at_end).max()))
        slopes[:, j] = (at_end - at_center) / ((upper if up[j] else lower)[j] - middle[j])
    form = AffineForm(at_center - slopes @ middle, slopes)
    checked, deviation = 0, 0.0
    for q in _places(frozen, center, near):
        found = residual(q)
        expected = form.residual(frozen.parameters, frozen.physical(q))
        top = float(np.abs(found).max())
        largest = max(largest, top)
        size = top + float(np.abs(at_center).max())
        checked += 1
        error = float(np.abs(found - expected).max())
        deviation = max(deviation, error / size if size > 0 else error)
        if deviation > tolerance:
            return AffineTest(None, checked, deviation, largest)
    return AffineTest(form, checked, deviation, largest)


def _places(frozen: FrozenResidual, center: FloatArray, near: FloatArray) -> Iterator[FloatArray]:
    """Coordinates to compare at: ends, values along each parameter, and values of all."""
    low, high = frozen.coordinate_bounds
    generator = np.random.default_rng(0)
    for j in range(len(center)):
        if near[j] != center[j]:
            yield _moved(center, j, near[j])
        shares = (np.arange(ALONG_EACH) + generator.random(ALONG_EACH)) / ALONG_EACH
        for share in shares:
            yield _moved(center, j, low[j] + share * (high[j] - low[j]))
    if len(center) > 1:
        yield low
        yield high
    ends = _physical(frozen, low), _physical(frozen, high)
    for number in range(TOGETHER):
        if number % 2:
            yield generator.uniform(low, high)
        else:
            values = dict(zip(frozen.names, generator.uniform(*ends).tolist(), strict=True))
            yield np.clip(frozen.coordinates(values), low, high)


def _moved(center: FloatArray, j: int, q: float) -> FloatArray:
    moved = center.copy()
    moved[j] = q
    return moved


def _physical(frozen: FrozenResidual, coordinates: FloatArray) -> FloatArray:
    return np.array(list(frozen.physical(coordinates).values()))


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
        Coordinates in whose neighborhood accuracy is checked, too.
    single : bool
        Whether the residual is computed in single precision, whose rounding no number of
        samples removes.
    """
    tolerance = SINGLE_TOLERANCE if single else TOLERANCE
    counted = _Counted(frozen)
    share = 1.0 if single else AFFINE_SHARE
    test = affine_test(counted, frozen, center, share * tolerance)
    places = _declared(frozen)
    if test.form is not None:
        places.append(_preferred(test.form, frozen))
        off = [test.form.deviation(frozen, q, counted(q)) for q in places]
        worst = max(test.deviation, *off)
        if worst <= share * tolerance:
            checked = test.checked + len(places)
            return Reduced(test.form, worst, checked, tolerance, counted.calls)
    return _sampled(counted, center, tolerance, places)


def _declared(frozen: FrozenResidual) -> list[FloatArray]:
    """Coordinates of the truth and of what was delivered, where they are known."""
    known = frozen.known
    return [known.coordinates(each) for each in (known.truth, known.delivered) if each is not None]


def _preferred(form: AffineForm, frozen: FrozenResidual) -> FloatArray:
    """Coordinates at which an affine form is smallest, under the training view if there is one.

    A scan of the stored residual reports this place, and cannot look at the original.
    """
    from scipy.optimize import lsq_linear

    low, high = (_physical(frozen, q) for q in frozen.coordinate_bounds)
    # In shares of the bounds, so that all columns are of the residual's own size.
    columns = np.column_stack([form.slopes * (high - low), form.constant + form.slopes @ low])
    columns /= np.abs(columns).max() or 1.0
    if frozen.view is not None:
        values, vectors = np.linalg.eigh(bound_view(frozen, None).quadratic(columns, columns))
        columns = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    share = lsq_linear(columns[:, :-1], -columns[:, -1], (0.0, 1.0)).x
    best = np.clip(low + share * (high - low), low, high).tolist()
    return frozen.coordinates(dict(zip(frozen.names, best, strict=True)))


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


def _sampled(
    residual: _Counted, center: FloatArray, tolerance: float, places: list[FloatArray]
) -> Reduced:
    """Sample on as many nodes as lines through the center call for.

    The error is measured between the nodes, and at `places`.
    """
    low, high = residual.frozen.coordinate_bounds
    lines = [_line(residual, center, j, low[j], high[j], tolerance) for j in range(len(low))]
    shape = _shape(residual, lines, tolerance)
    scale = float(np.abs(residual(center)).max())
    while True:
        _check_budget(residual, shape, tolerance)
        ends = zip(low, high, shape, strict=True)
        grid = TensorGrid(tuple(nodes_between(*each) for each in ends))
        form = SampledForm(grid, _filled(residual, grid))
        checks = [*_between(grid, center), *places]
        worst = _worst(residual, form, checks, scale)
        if worst <= tolerance:
            return Reduced(form, worst, len(checks), tolerance, residual.calls)
        # Lines through the center do not see everything that happens between them.
        shape = tuple(n + (n + 1) // 2 for n in shape)


def _line(
    residual: _Counted, center: FloatArray, j: int, low: float, high: float, tolerance: float
) -> FloatArray:
    """Chebyshev coefficients along coordinate j through the center, until they have died out."""
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
    """Largest error at some coordinates, relative to the residual there and at the center."""
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
    """Coordinates between the nodes: along each axis through the center, and anywhere."""
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
            "narrow the bounds, save fewer points or fewer parameters, or make it smooth in them",
        )
