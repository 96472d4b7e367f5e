r"""How the residual changes with the parameters, as exactly as its author allows.

First derivatives are exact where the residual brings its own, or where it is made of JAX or
PyTorch operations: these libraries are never imported here, but where a residual returns one
of their arrays, the library is loaded already and differentiates the residual forward. Any
other residual is differentiated by central differences in the coordinate, with the published
step 1e-3; next to a bound the difference is shifted inward, and stays of second order: the
residual is never evaluated outside the bounds.

Exact derivatives are compared with differences before they are used
(`twoaxis.geometry.derivative_check`): a plain number, a detached tensor or ``stop_gradient`` in
one term of the residual drops that term's derivative without an error.

Derivatives by physical parameters, :math:`r_i` and :math:`r_{ij}`, become derivatives by
coordinates through the chain rule, with :math:`p' = p'' = p` in log coordinates:

.. math:: J_i = r_i\,p_i', \qquad
          \partial_i\partial_j r = r_{ij}\,p_i'\,p_j' + \delta_{ij}\,r_i\,p_i''.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import is_real
from twoaxis.errors import AccuracyWarning, InputError, refuse_masked
from twoaxis.frozen import (
    FrozenResidual,
    called,
    check_magnitude,
    check_repeatable,
    rounding_unit,
    same_size,
)
from twoaxis.geometry.derivative_check import (
    Disagreement,
    difference_weights,
    disagreements,
    offsets_inside,
    step_dependence,
)

FloatArray = NDArray[np.float64]
Derivative = Literal["auto", "exact", "difference"]

STEP = 1e-3
# Below it a difference is nothing but rounding.
SMALLEST_STEP = 1e-12
# A parameter whose derivative is zero may be rounded: steps so many times smaller and larger tell.
WIDE = 100.0
PUBLISHED_STEPS = (5e-4, 1e-3, 2e-3)
# PyTorch has one level of dual numbers for all threads.
_DUAL_NUMBERS = RLock()


@dataclass(frozen=True)
class Linearization:
    """The residual and its derivatives by the coordinates, at one point.

    Attributes
    ----------
    residual : array, shape (N,)
    jacobian : array, shape (N, d)
    weighted_second : callable
        ``weighted_second(w)``: the matrix of ``w . d_i d_j r``, shape (d, d).
    source : str
        Where the first derivatives come from.
    exact : bool
        Whether they are exact, and not differences.
    requested : {"auto", "exact", "difference"}
        What `linearize` was asked for.
    """

    residual: FloatArray
    jacobian: FloatArray
    weighted_second: Callable[[FloatArray], FloatArray]
    source: str
    exact: bool
    requested: Derivative = "auto"


def linearize(
    frozen: FrozenResidual,
    center: FloatArray,
    derivative: Derivative = "auto",
    step: float = STEP,
    *,
    check: bool = True,
) -> Linearization:
    """Differentiate a frozen residual at coordinates `center`, shape (d,).

    Parameters
    ----------
    frozen : FrozenResidual
    center : array, shape (d,)
    derivative : {"auto", "exact", "difference"}
    step : float
    check : bool
        Compare exact derivatives with differences, and two evaluations with each other. A
        caller that has done so nearby, as a scan has at its center, may leave it out.
    """
    if derivative not in ("auto", "exact", "difference"):
        raise InputError(
            'derivative "auto", "exact" or "difference"', repr(derivative), "choose one of them"
        )
    _check_step(step)
    values = frozen.physical(center)
    output = frozen.raw(values)
    residual = frozen.checked(output, values)
    if check:
        check_repeatable(frozen, output, residual, values)
        check_magnitude(float(np.abs(residual).max()), "residual", tiny=False)
    around = _Neighbors(frozen, center, residual, step)
    doubt = ""
    if derivative != "difference":
        exact = _exact_jacobian(frozen, output, len(residual))
        if exact is None:
            doubt = "one that returns NumPy arrays and has no jacobian"
        else:
            columns, doubt = _verified(frozen, center, output, residual, exact, check)
            if columns is not None:
                if check:
                    _check_rounded(around, columns)
                found = replace(_from_exact(around, columns, *exact), requested=derivative)
                return _representable(found, frozen) if check else found
        if derivative == "exact":
            raise InputError(
                "a residual whose derivatives are exact",
                doubt,
                "write it with JAX or PyTorch operations, without float(), .detach() or "
                "stop_gradient on a parameter, pass jacobian= to FrozenResidual, or use "
                'derivative="difference"',
            )
        if exact is not None:
            warnings.warn(
                AccuracyWarning(
                    f"the automatic derivative of the residual is not used: {doubt}; differences "
                    "replace it. float(), .detach() or stop_gradient on a parameter inside the "
                    "residual cuts its derivative"
                ),
                stacklevel=3,
            )
    found = _by_differences(around, doubt if derivative != "difference" and exact else "")
    found = replace(found, requested=derivative)
    if not check:
        return found
    if _check_smooth(around, found.jacobian, rounding_unit(output)):
        _check_rounded(around, found.jacobian)
    return _representable(found, frozen)


def _check_smooth(around: _Neighbors, columns: FloatArray, rounding: float) -> bool:
    """Warn where differences depend on their step, as no derivative does; else return True."""
    off = np.zeros(len(around.center))
    for factor in (1 / math.pi, math.pi):  # which fit no grid of rounded values
        other = replace(around, step=around.step * factor)
        again = _by_differences(other, "").jacobian
        least = np.minimum(around.sizes, other.sizes)
        for j in range(len(off)):
            parts = columns[:, j], again[:, j], around.residual
            off[j] = max(off[j], step_dependence(*parts, float(least[j]), rounding))
    rough = [
        f"{name} (by {100 * share:.0f}%)"
        for name, share in zip(around.frozen.names, off, strict=True)
        if share
    ]
    if rough:
        warnings.warn(
            AccuracyWarning(
                "differences of the residual are not reliable: with steps three times smaller or "
                f"larger they are others, along {', '.join(rough)}. The residual rounds or jumps, "
                "a solver inside of it stops too early, or it changes within one step: leave "
                f"rounding out, or pass another step than step={around.step:g}, such as 0.05 "
                "against rounding"
            ),
            stacklevel=4,
        )
    return not rough


def _check_rounded(around: _Neighbors, columns: FloatArray) -> None:
    """Warn of parameters without a derivative that change the residual further away."""
    near, wide = (replace(around, step=around.step * by) for by in (1 / WIDE, WIDE))

    def same(there: _Neighbors, j: int) -> bool:
        return all(np.array_equal(there.along(j, k), there.residual) for k, _ in there.rule(j, 1))

    rounded = [
        name
        for j, name in enumerate(around.frozen.names)
        if not columns[:, j].any() and same(near, j) and not same(wide, j)
    ]
    if rounded:
        warnings.warn(
            AccuracyWarning(
                f"the residual does not change with {', '.join(rounded)} in small steps, only in "
                "wide ones, as if it rounded: leave rounding out"
            ),
            stacklevel=4,
        )


def _verified(
    frozen: FrozenResidual,
    center: FloatArray,
    output: Any,
    residual: FloatArray,
    exact: tuple[Callable[[dict[str, float]], FloatArray], str],
    check: bool,
) -> tuple[FloatArray | None, str]:
    """Return the exact physical columns, or None and why they cannot be used."""
    jacobian, source = exact
    given = frozen.jacobian is not None
    try:
        columns = jacobian(frozen.physical(center))
    except InputError as error:
        if given:
            raise
        # The residual could be evaluated, but not with the numbers that carry derivatives.
        return None, f"{source.removeprefix('exact, by ')} cannot differentiate it ({error.got})"
    if not check:
        return columns, ""
    first, _ = _slopes_of_values(frozen, center)
    units = np.array([_unit(frozen, center, j) for j in range(len(center))])
    wrong = disagreements(frozen, center, output, residual, columns * first, units)
    if not wrong:
        return columns, ""
    differences = "; ".join(_in_words(each, frozen, first) for each in wrong)
    if given:
        raise InputError(
            "a jacobian that agrees with differences of the residual",
            differences,
            "correct signs, factors and the order of its columns: they are derivatives by the "
            "physical parameters, not by their logarithms; from an adapter, remove float(), "
            ".detach() and stop_gradient on the parameter in the equation",
        )
    return None, f"{source.removeprefix('exact, by ')} disagrees with differences: {differences}"


def _in_words(found: Disagreement, frozen: FrozenResidual, first: FloatArray) -> str:
    """Say by how much a column and its differences disagree, per physical parameter."""
    slope = abs(float(first[found.column]))
    sizes = (found.exact / slope, found.difference / slope, found.deviation / slope)
    return (
        f"the derivative by {frozen.names[found.column]} has the root mean square {sizes[0]:.4g}, "
        f"differences have {sizes[1]:.4g}, and they differ by {sizes[2]:.4g}"
    )


def _representable(found: Linearization, frozen: FrozenResidual) -> Linearization:
    """Return `found`, unless squares of its columns cannot be represented."""
    for name, column in zip(frozen.names, found.jacobian.T, strict=True):
        check_magnitude(float(np.abs(column).max()), f"derivative of the residual by {name}")
    return found


def _check_step(step: Any) -> None:
    real = is_real(step)
    if not (real and SMALLEST_STEP <= step < 1):
        expected = f"a step from {SMALLEST_STEP:g} to 1"
        raise InputError(expected, f"step={step!r}", "pass step=1e-3")


def _slopes_of_values(frozen: FrozenResidual, center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First and second derivative of the physical values by the coordinates, (d,) each."""
    logarithmic = np.array([p.coordinate == "log" for p in frozen.parameters.values()])
    values = np.array(list(frozen.physical(center).values()))
    return np.where(logarithmic, values, 1.0), np.where(logarithmic, values, 0.0)


@dataclass
class _Neighbors:
    """The residual around a center, in steps of its differences, inside the bounds.

    Attributes
    ----------
    frozen : FrozenResidual
    center : array, shape (d,)
    residual : array, shape (N,)
        At the center.
    step : float
    sizes : array, shape (d,)
        The step of each coordinate, at most an eighth of the distance between its bounds.
    """

    frozen: FrozenResidual
    center: FloatArray
    residual: FloatArray
    step: float
    sizes: FloatArray = field(init=False)
    _known: dict[tuple[int, int], FloatArray] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        low, high = self.frozen.coordinate_bounds
        units = [_unit(self.frozen, self.center, j) for j in range(len(self.center))]
        self.sizes = np.minimum(self.step * np.array(units), (high - low) / 8)

    def offsets(self, j: int, count: int) -> tuple[int, ...]:
        """Return `count` successive steps of coordinate j that stay inside the bounds."""
        low, high = (float(end[j]) for end in self.frozen.coordinate_bounds)
        return offsets_inside(low, high, float(self.center[j]), float(self.sizes[j]), count)

    def rule(self, j: int, order: int) -> list[tuple[int, float]]:
        """Steps of coordinate j and their weights in a difference, of second order in the step.

        The weighted sum is still to be divided by the step to the power of `order`: divided
        before, equal terms would no longer cancel exactly.
        """
        offsets = self.offsets(j, 3)
        if order == 2 and offsets != (-1, 0, 1):
            offsets = self.offsets(j, 4)  # a shifted second difference needs one value more
        weights = difference_weights(offsets, order)
        return [(k, w) for k, w in zip(offsets, weights.tolist(), strict=True) if w != 0]

    def where(self, steps: dict[int, int]) -> FloatArray:
        """Coordinates so many steps away from the center."""
        moved = self.center.copy()
        for j, k in steps.items():
            moved[j] += k * self.sizes[j]
        return np.clip(moved, *self.frozen.coordinate_bounds) if any(steps.values()) else moved

    def along(self, j: int, k: int) -> FloatArray:
        """Residual k steps along coordinate j."""
        if k == 0:
            return self.residual
        if (j, k) not in self._known:
            self._known[j, k] = self.at({j: k})
        return self._known[j, k]

    def at(self, steps: dict[int, int]) -> FloatArray:
        """Residual so many steps away from the center."""
        return same_size(self.frozen.at(self.where(steps)), self.residual)

    @property
    def shifted(self) -> list[str]:
        """Names of the parameters whose differences are shifted inward from a bound."""
        return [n for j, n in enumerate(self.frozen.names) if self.offsets(j, 3) != (-1, 0, 1)]


def _from_exact(
    around: _Neighbors,
    physical: FloatArray,
    jacobian: Callable[[dict[str, float]], FloatArray],
    source: str,
) -> Linearization:
    """Return exact first derivatives; second ones are differences of the exact first ones."""
    frozen, center = around.frozen, around.center
    first, bend = _slopes_of_values(frozen, center)

    def weighted_second(w: FloatArray) -> FloatArray:
        dimension = len(center)
        matrix = np.empty((dimension, dimension))
        for j in range(dimension):
            slopes = {
                k: physical if k == 0 else jacobian(frozen.physical(around.where({j: k})))
                for k, _ in around.rule(j, 1)
            }
            by_coordinate = sum(weight * (w @ slopes[k]) for k, weight in around.rule(j, 1))
            matrix[:, j] = first * by_coordinate / around.sizes[j]  # d/dq_j of r_i
        matrix += np.diag(bend * (w @ physical))
        return (matrix + matrix.T) / 2

    return Linearization(around.residual, physical * first, weighted_second, source, exact=True)


def _unit(frozen: FrozenResidual, center: FloatArray, j: int) -> float:
    """What stands for 100% of coordinate j, as the scale of a difference's step."""
    parameter = list(frozen.parameters.values())[j]
    if parameter.coordinate == "log":
        return 1.0
    low, high = parameter.coordinate_bounds
    size = parameter.magnitude(float(center[j]))
    # A center at or near zero has no magnitude of its own; the width of the bounds gives one.
    return size if size > 1e-6 * (high - low) else high - low


def _by_differences(around: _Neighbors, doubt: str) -> Linearization:
    dimension = len(around.center)

    def derived(j: int, order: int) -> FloatArray:
        total = sum(weight * around.along(j, k) for k, weight in around.rule(j, order))
        return np.asarray(total / around.sizes[j] ** order)

    def weighted_second(w: FloatArray) -> FloatArray:
        matrix = np.empty((dimension, dimension))
        for i in range(dimension):
            matrix[i, i] = w @ derived(i, 2)
            for j in range(i):
                cross = sum(
                    one * other * (w @ around.at({i: k, j: m}))
                    for k, one in around.rule(i, 1)
                    for m, other in around.rule(j, 1)
                )
                matrix[i, j] = matrix[j, i] = cross / (around.sizes[i] * around.sizes[j])
        return matrix

    source = f"central differences, step {around.step:g}"
    if around.shifted:
        source += f", one-sided at a bound of {', '.join(around.shifted)}"
    if doubt:
        source += f" ({doubt})"
    columns = np.column_stack([derived(j, 1) for j in range(dimension)])
    return Linearization(around.residual, columns, weighted_second, source, exact=False)


def _exact_jacobian(
    frozen: FrozenResidual, output: Any, size: int
) -> tuple[Callable[[dict[str, float]], FloatArray], str] | None:
    """Return a function for the physical Jacobian, and its origin, where there is one."""
    given = frozen.jacobian
    if given is not None:
        return (
            lambda values: _given_jacobian(given, values, frozen, size)
        ), "given with the residual"
    first = output[0] if isinstance(output, (tuple, list)) else output
    libraries = {base.__module__.partition(".")[0] for base in type(first).__mro__}
    if libraries & {"jax", "jaxlib"}:
        return (lambda values: _jax_jacobian(frozen, values)), "exact, by JAX"
    if "torch" in libraries:
        return (lambda values: _torch_jacobian(frozen, values)), "exact, by PyTorch"
    return None


def _given_jacobian(
    given: Callable[..., Any], values: dict[str, float], frozen: FrozenResidual, size: int
) -> FloatArray:
    came = called("jacobian", given, frozen.known.arguments(values))
    refuse_masked("the jacobian", came)
    array = np.asarray(came)
    if array.dtype.kind not in "iuf":
        raise InputError(
            "a jacobian of real numbers",
            f"an array of {array.dtype}",
            "return floats from jacobian",
        )
    array = array.astype(float)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape != (size, len(frozen.parameters)):
        raise InputError(
            f"a jacobian of shape (N, {len(frozen.parameters)}), N = {size}, a column for each "
            "parameter",
            f"the shape {array.shape}",
            "stack the derivatives by each physical parameter as columns",
        )
    bad = int((~np.isfinite(array)).any(axis=1).sum())
    if bad:
        raise InputError(
            "a jacobian that is finite at every point",
            f"{bad} of {size} rows not finite",
            "leave those points out, or correct jacobian there",
        )
    return array


def _jax_jacobian(frozen: FrozenResidual, values: dict[str, float]) -> FloatArray:
    """Derivatives by the physical parameters, one forward pass for each."""
    jax = sys.modules["jax"]
    names = list(values)
    primals = [jax.numpy.asarray(v, dtype=float) for v in values.values()]

    def residual(*arguments: Any) -> Any:
        return frozen.raw(dict(zip(names, arguments, strict=True)))

    columns = []
    for j in range(len(names)):
        tangents = [jax.numpy.ones_like(p) * (i == j) for i, p in enumerate(primals)]
        _, tangent = jax.jvp(residual, primals, tangents)
        columns.append(frozen.checked(tangent, values))
    return np.column_stack(columns)


def _torch_jacobian(frozen: FrozenResidual, values: dict[str, float]) -> FloatArray:
    """The same with PyTorch's forward-mode automatic differentiation."""
    torch: Any = sys.modules["torch"]
    forward = torch.autograd.forward_ad
    with _DUAL_NUMBERS, warnings.catch_warnings(), forward.dual_level():
        # The first dual number loads parts of PyTorch that use its own deprecated functions.
        warnings.filterwarnings("ignore", r"`torch\.jit", DeprecationWarning)
        forward.make_dual(torch.zeros(()), torch.zeros(()))
    columns = []
    for name in values:
        with _DUAL_NUMBERS, forward.dual_level():
            arguments = {}
            for other, value in values.items():
                primal = torch.tensor(value, dtype=torch.float64)
                tangent = torch.ones_like(primal) if other == name else torch.zeros_like(primal)
                arguments[other] = forward.make_dual(primal, tangent)
            output = frozen.raw(arguments)
            parts = output if isinstance(output, (tuple, list)) else [output]
            tangents = []
            for part in parts:
                primal, tangent = forward.unpack_dual(part)
                # A residual that does not see this parameter has no tangent.
                tangents.append(torch.zeros_like(primal) if tangent is None else tangent)
            columns.append(frozen.checked(tangents if len(parts) > 1 else tangents[0], values))
    return np.column_stack(columns)
