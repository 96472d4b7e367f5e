r"""How the residual changes with the parameters, as exactly as its author allows.

First derivatives are exact where the residual brings its own, or where it is made of JAX or
PyTorch operations: these libraries are never imported here, but where a residual returns one
of their arrays, the library is loaded already and differentiates the residual forward. Any
other residual is differenced, centred, in the coordinate, with the published step 1e-3.

Derivatives by physical parameters, :math:`r_i` and :math:`r_{ij}`, become derivatives by
coordinates through the chain rule, with :math:`p' = p'' = p` in log coordinates:

.. math:: J_i = r_i\,p_i', \qquad
          \partial_i\partial_j r = r_{ij}\,p_i'\,p_j' + \delta_{ij}\,r_i\,p_i''.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual

FloatArray = NDArray[np.float64]
Derivative = Literal["auto", "exact", "difference"]

STEP = 1e-3
PUBLISHED_STEPS = (5e-4, 1e-3, 2e-3)


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
    """

    residual: FloatArray
    jacobian: FloatArray
    weighted_second: Callable[[FloatArray], FloatArray]
    source: str


def linearize(
    frozen: FrozenResidual,
    center: FloatArray,
    derivative: Derivative = "auto",
    step: float = STEP,
) -> Linearization:
    """Differentiate a frozen residual at coordinates `center`, shape (d,)."""
    if derivative not in ("auto", "exact", "difference"):
        raise InputError(
            'derivative "auto", "exact" or "difference"', repr(derivative), "choose one of them"
        )
    _check_step(step)
    values = frozen.physical(center)
    output = frozen.raw(values)
    residual = frozen.checked(output, values)
    if derivative != "difference":
        exact = _exact_jacobian(frozen, output, len(residual))
        if exact is not None:
            columns = exact[0](values)
            if frozen.jacobian is not None or not _loses_tangents(frozen, center, columns, step):
                return _from_exact(frozen, center, residual, columns, *exact, step)
        if derivative == "exact":
            raise InputError(
                "a residual whose derivatives are exact",
                "one that returns NumPy arrays, or loses its derivative on the way, and brings no "
                "jacobian",
                "write it with JAX or PyTorch operations, pass jacobian= to FrozenResidual, or "
                'use derivative="difference"',
            )
    return _by_differences(frozen, center, residual, step)


def _check_step(step: Any) -> None:
    real = isinstance(step, (int, float, np.integer, np.floating)) and not isinstance(step, bool)
    if not (real and 0 < step < 1):
        raise InputError("a step between 0 and 1", f"step={step!r}", "pass step=1e-3")


def _loses_tangents(
    frozen: FrozenResidual,
    center: FloatArray,
    columns: FloatArray,
    step: float,
) -> bool:
    """Tell whether a derivative that came out as zero is not zero at all.

    A residual that turns its parameter into a plain number, or computes in inference mode,
    drops the derivative without a word.
    """
    for j in np.flatnonzero(~columns.any(axis=0)).tolist():
        move = np.zeros(len(center))
        move[j] = step * _unit(frozen, center, j)
        ahead, behind = frozen.at(center + move), frozen.at(center - move)
        # At a stationary point the residual changes alike on both sides, and only then.
        odd = np.abs(same_size(ahead, behind) - behind).max()
        even = np.abs(ahead + behind - 2 * frozen.at(center)).max()
        if odd > 1e-3 * even + 1e-12 * np.abs(ahead).max():
            return True
    return False


def _slopes_of_values(frozen: FrozenResidual, center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First and second derivative of the physical values by the coordinates, (d,) each."""
    logarithmic = np.array([p.coordinate == "log" for p in frozen.parameters.values()])
    values = np.array(list(frozen.physical(center).values()))
    return np.where(logarithmic, values, 1.0), np.where(logarithmic, values, 0.0)


def _from_exact(
    frozen: FrozenResidual,
    center: FloatArray,
    residual: FloatArray,
    physical: FloatArray,
    jacobian: Callable[[dict[str, float]], FloatArray],
    source: str,
    step: float,
) -> Linearization:
    """Return exact first derivatives; second ones are differences of the exact first ones."""
    first, bend = _slopes_of_values(frozen, center)

    def weighted_second(w: FloatArray) -> FloatArray:
        dimension = len(center)
        matrix = np.empty((dimension, dimension))
        for j in range(dimension):
            move = step * np.eye(dimension)[j] * _unit(frozen, center, j)
            ahead = jacobian(frozen.physical(center + move))
            behind = jacobian(frozen.physical(center - move))
            by_coordinate = (ahead - behind) / (2 * move[j])  # d/dq_j of r_i
            matrix[:, j] = first * (w @ by_coordinate)
        matrix += np.diag(bend * (w @ physical))
        return (matrix + matrix.T) / 2

    return Linearization(residual, physical * first, weighted_second, source)


def _unit(frozen: FrozenResidual, center: FloatArray, j: int) -> float:
    """What stands for 100 percent of coordinate j, as the scale of a difference's step."""
    parameter = list(frozen.parameters.values())[j]
    if parameter.coordinate == "log":
        return 1.0
    low, high = parameter.coordinate_bounds
    size = parameter.scale or abs(float(center[j]))
    # A centre at or near zero has no magnitude of its own; the width of the bounds gives one.
    return size if size > 1e-6 * (high - low) else high - low


def _by_differences(
    frozen: FrozenResidual, center: FloatArray, residual: FloatArray, step: float
) -> Linearization:
    dimension = len(center)
    moves = [step * _unit(frozen, center, j) * np.eye(dimension)[j] for j in range(dimension)]
    ahead = [same_size(frozen.at(center + m), residual) for m in moves]
    behind = [same_size(frozen.at(center - m), residual) for m in moves]
    sizes = [float(np.abs(m).sum()) for m in moves]
    columns = [(a - b) / (2 * h) for a, b, h in zip(ahead, behind, sizes, strict=True)]

    def weighted_second(w: FloatArray) -> FloatArray:
        matrix = np.empty((dimension, dimension))
        for i in range(dimension):
            bend = (ahead[i] - 2 * residual + behind[i]) / sizes[i] ** 2
            matrix[i, i] = w @ bend
            for j in range(i):
                cross = (
                    frozen.at(center + moves[i] + moves[j])
                    - frozen.at(center + moves[i] - moves[j])
                    - frozen.at(center - moves[i] + moves[j])
                    + frozen.at(center - moves[i] - moves[j])
                ) / (4 * sizes[i] * sizes[j])
                matrix[i, j] = matrix[j, i] = w @ cross
        return matrix

    source = f"centred differences, step {step:g}"
    return Linearization(residual, np.column_stack(columns), weighted_second, source)


def same_size(values: FloatArray, residual: FloatArray) -> FloatArray:
    """Return `values`, unless the residual has changed its length with the parameter."""
    if len(values) != len(residual):
        raise InputError(
            "a residual of the same length for every parameter",
            f"{len(residual)} values at the centre and {len(values)} beside it",
            "evaluate the residual at the same points for every parameter",
        )
    return values


def _exact_jacobian(
    frozen: FrozenResidual, output: Any, size: int
) -> tuple[Callable[[dict[str, float]], FloatArray], str] | None:
    """Return a function for the physical Jacobian, and its origin, where there is one."""
    given = frozen.jacobian
    if given is not None:
        return (
            lambda values: _given_jacobian(given(**values), frozen, size)
        ), "given with the residual"
    first = output[0] if isinstance(output, (tuple, list)) else output
    libraries = {base.__module__.partition(".")[0] for base in type(first).__mro__}
    if libraries & {"jax", "jaxlib"}:
        return (lambda values: _jax_jacobian(frozen, values)), "exact, by JAX"
    if "torch" in libraries:
        return (lambda values: _torch_jacobian(frozen, values)), "exact, by PyTorch"
    return None


def _given_jacobian(output: Any, frozen: FrozenResidual, size: int) -> FloatArray:
    array = np.asarray(output)
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
    with warnings.catch_warnings(), forward.dual_level():
        # The first dual number loads parts of PyTorch that use its own deprecated functions.
        warnings.filterwarnings("ignore", r"`torch\.jit", DeprecationWarning)
        forward.make_dual(torch.zeros(()), torch.zeros(()))
    columns = []
    for name in values:
        with forward.dual_level():
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
