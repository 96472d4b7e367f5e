r"""The signed preference of a frozen field: score, strength and displacement.

With the residual :math:`r`, its derivative :math:`J` by the coordinates and a residual view
:math:`M`, all frozen at the center,

.. math:: B = J^\top M r, \qquad H = J^\top M J, \qquad D = -H^\dagger B,

``B`` is the signed score, ``H`` the strength with which the residual depends on the parameters,
and ``D`` the displacement of the coordinates that minimizes the linearized profile: exact for a
residual that is affine in the coordinate. For one parameter it factors into what remains of
the residual, how it aligns with the sensitivity, and the strength,

.. math:: D = -\rho\,\lVert r\rVert_M / \sqrt H, \qquad
          \rho = B / (\lVert J\rVert_M\,\lVert r\rVert_M).

The curvature term :math:`C = r^\top M\,\partial^2 r` measures how far the profile is from its
linearized model. It decides whether ``D`` is trusted and does not correct it: for a residual
affine in the physical parameter, the full Newton step is worse than ``D``.

Nuisance parameters are fitted along with the others and projected out. With the parameters in two
groups, interest (i) and nuisance (n), the nuisance parameters leave of the residual and of its
derivative

.. math:: \tilde r = r - J_n H_{nn}^\dagger B_n, \qquad
          \tilde J_i = J_i - J_n H_{nn}^\dagger H_{ni},

and what the residual says about the parameters of interest is the score and the strength of these,

.. math:: b = \tilde J_i^\top M \tilde r = B_i - H_{in} H_{nn}^\dagger B_n, \qquad
          S = \tilde J_i^\top M \tilde J_i = H_{ii} - H_{in} H_{nn}^\dagger H_{ni}, \qquad
          D_i = -S^\dagger b .

``S`` is the Schur complement of the nuisance block. Eigen-directions, alignment, spectrum and
regions of the parameters of interest refer to :math:`\tilde r` and :math:`\tilde J_i`; the
displacement of the nuisance parameters, :math:`-H_{nn}^\dagger(B_n + H_{ni} D_i)`, is what goes
with that of the others. In which coordinates the nuisance parameters are written changes nothing.

Two numbers tell how much of a displacement is due to the sample of points. The influence of
every single point on ``D`` gives its standard deviation over samples of points, from one product
with the metric. Where the residual can be evaluated elsewhere, the same field is scored again on
new, denser points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.arrays import check_seed, is_integer
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry.derivatives import STEP, Derivative, Linearization, linearize
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Center, Parameters, Unknowns
from twoaxis.result import (
    CENTER_LAYOUT,
    PARAMETER_LAYOUT,
    CenteredResult,
    Message,
    interest_first,
    interest_only,
    require,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.geometry.function import FunctionPreference
    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]

# Eigenvalues of H below this share of the largest are rounding: the direction is null.
NULL_SHARE = 1e-12
# A parameter belongs to an unseen direction when its share of it is above rounding.
UNSEEN_SHARE = 1e-6
# Eigenvalues of H below this share of the largest are weak: along such a direction the residual
# changes thirty times less than along the best one.
WEAK_SHARE = 1e-3
# The displacement is trusted while the curvature term stays below this share of H.
TRUSTED_CURVATURE = 0.2
# Stored matrices may deviate from symmetry and semidefiniteness by rounding.
ROUNDING = 1e-8
# Fresh points for each of the old ones.
MOST_FRESH = 10_000


# ---------------------------------------------------------------- the array core


@dataclass(frozen=True)
class Terms:
    """The array core: what follows from r, J and M alone, for d parameters, m of interest.

    Attributes
    ----------
    B : array, shape (d,)
    H : array, shape (d, d)
    score : array, shape (d,)
        ``b``, the score with nuisance parameters projected out; that of a nuisance parameter is
        its own B.
    strength : array, shape (m, m)
        ``S``, the Schur complement of the nuisance block; H without nuisance parameters.
    displacement : array, shape (d,)
        ``-S^+ b``, of minimum norm in the coordinates, and what goes with it.
    diagonal_displacement : array, shape (d,)
        ``-b_i / S_ii``: each parameter by itself; zero where ``S_ii`` is.
    eigenvalues, eigenvectors
        Of S, weakest first; directions in rows, shape (m, d), zero along nuisance parameters.
    null : array of bool, shape (m,)
        Directions on which the residual does not depend, or not otherwise than on the nuisance
        parameters.
    residual_norm : float
        ``sqrt(r^T M r)``.
    remaining_norm : float
        The norm of what nuisance parameters leave of the residual.
    alignment : array, shape (d,)
        ``b_i / (|J_i| |r|)`` of what nuisance parameters leave, zero by convention where a norm
        vanishes.
    absorbed : array, shape (d,)
        Share of ``H_ii`` that nuisance parameters absorb, ``1 - S_ii / H_ii``.
    """

    B: FloatArray
    H: FloatArray
    score: FloatArray
    strength: FloatArray
    displacement: FloatArray
    diagonal_displacement: FloatArray
    eigenvalues: FloatArray
    eigenvectors: FloatArray
    null: BoolArray
    residual_norm: float
    remaining_norm: float
    alignment: FloatArray
    absorbed: FloatArray


def score_terms(
    residual: FloatArray, jacobian: FloatArray, metric: Any, nuisance: BoolArray | None = None
) -> Terms:
    """Compute the score of residual (N,) and Jacobian (N, d) under a bound view.

    `nuisance`, shape (d,), says which parameters are projected out; by default none.
    """
    together = np.column_stack([jacobian, residual])
    gram = metric.quadratic(together, together)
    gram = (gram + gram.T) / 2
    norm = float(np.sqrt(max(gram[-1, -1], 0.0)))
    return terms_of(gram[:-1, -1], gram[:-1, :-1], norm, nuisance)


def terms_of(
    B: FloatArray, H: FloatArray, residual_norm: float, nuisance: BoolArray | None = None
) -> Terms:
    """Compute what follows from the score (d,), the strength (d, d) and the residual norm."""
    hidden = np.zeros(len(B), dtype=bool) if nuisance is None else nuisance
    kept = ~hidden
    inverse = _seen_inverse(H[np.ix_(hidden, hidden)])
    across = H[np.ix_(kept, hidden)]
    S = H[np.ix_(kept, kept)] - across @ inverse @ across.T
    S = (S + S.T) / 2
    b = B.copy()
    b[kept] -= across @ inverse @ B[hidden]
    remaining = max(residual_norm**2 - float(B[hidden] @ inverse @ B[hidden]), 0.0)
    own = np.maximum(np.diag(H), 0.0)
    squares = own.copy()
    squares[kept] = np.maximum(np.diag(S), 0.0)
    # What is left of a strength that nuisance parameters absorb is rounding.
    squares = np.where(squares > NULL_SHARE * own, squares, 0.0)
    step, nullity = least_step(S, b[kept], np.sqrt(own[kept]))
    displacement = np.zeros(len(B))
    displacement[kept] = step
    displacement[hidden] = -inverse @ (B[hidden] + across.T @ step)
    values, vectors = np.linalg.eigh(S)
    directions = np.zeros((len(values), len(B)))
    directions[:, kept] = vectors.T
    norms = np.where(hidden, residual_norm, np.sqrt(remaining))
    sizes = np.sqrt(squares) * norms
    # Rounding may lift a perfect alignment over one.
    alignment = np.clip(np.where(sizes > 0, b / np.where(sizes > 0, sizes, 1.0), 0.0), -1, 1)
    seen = squares > 0
    return Terms(
        B=B,
        H=H,
        score=b,
        strength=S,
        displacement=displacement,
        diagonal_displacement=np.where(seen, -b / np.where(seen, squares, 1.0), 0.0),
        eigenvalues=np.maximum(values, 0.0),
        eigenvectors=directions,
        null=np.arange(len(values)) < nullity,
        residual_norm=residual_norm,
        remaining_norm=float(np.sqrt(remaining)),
        alignment=alignment,
        absorbed=np.where(own > 0, 1 - squares / np.where(own > 0, own, 1.0), 0.0),
    )


def without_nuisance(
    residual: FloatArray, jacobian: FloatArray, metric: Any, nuisance: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return what nuisance parameters leave of a residual (N,) and of its derivative (N, d).

    Columns of the nuisance parameters stay as they are.
    """
    if not nuisance.any():
        return residual, jacobian
    columns, kept = jacobian[:, nuisance], ~nuisance
    inverse = _seen_inverse(metric.quadratic(columns, columns))
    together = np.column_stack([residual, jacobian[:, kept]])
    left = together - columns @ (inverse @ metric.quadratic(columns, together))
    projected = jacobian.copy()
    projected[:, kept] = left[:, 1:]
    return left[:, 0], projected


def _seen_inverse(H: FloatArray) -> FloatArray:
    """Return an inverse of a strength (d, d) on the directions that it sees."""
    basis = _seen_basis(H)
    return basis.T @ basis


def _seen_basis(H: FloatArray) -> FloatArray:
    """Return directions, in rows, that are orthonormal under a strength and span what it sees.

    What is null is determined with every parameter in units of its own strength.
    """
    if not len(H):
        return H
    strength = np.sqrt(np.maximum(np.diag(H), 0.0))
    scale = np.where(strength > 0, strength, 1.0)
    values, vectors = np.linalg.eigh((H + H.T) / 2 / np.outer(scale, scale))
    seen = values > NULL_SHARE * max(values[-1], 0.0)
    return np.asarray((vectors[:, seen] / np.sqrt(values[seen])).T / scale)


def least_step(
    S: FloatArray, b: FloatArray, strength: FloatArray
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return ``-S^+ b`` and the dimension of the null space of S; the step is linear in b.

    Parameters
    ----------
    S : array, shape (..., d, d)
    b : array, shape (..., d)
    strength : array, shape (..., d)
        ``sqrt(H_ii)`` of the parameters, with nuisance parameters not yet projected out.

    Notes
    -----
    The null space is determined with every parameter in units of its own strength, sqrt(H_ii), so
    that neither the units in which parameters are written nor nuisance parameters that absorb
    everything can hide a direction.
    """
    scale = np.where(strength > 0, strength, 1.0)
    values, vectors = np.linalg.eigh(S / (scale[..., :, None] * scale[..., None, :]))
    # The largest eigenvalue is at least one where no nuisance parameter absorbs anything.
    largest = np.maximum(values[..., -1:], strength.any(axis=-1, keepdims=True))
    null = values <= NULL_SHARE * largest
    along = np.einsum("...ij,...i->...j", vectors, b / scale)
    along = np.where(null, 0.0, along / np.where(null, 1.0, values))
    step = -np.einsum("...ij,...j->...i", vectors, along) / scale
    if null.any():  # of all solutions, the one of least norm in the coordinates
        # Null directions come first, so that the first columns of Q span them.
        span = np.linalg.qr(vectors / scale[..., :, None]).Q
        blind = np.where(null[..., None, :], span, 0.0)
        step = step - np.einsum("...ij,...kj,...k->...i", blind, blind, step)
    return step, null.sum(axis=-1)


def directions_in(units: FloatArray, S: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues (m,) and eigenvectors, in rows, of a strength S (m, m) in some units.

    `units` (m,) are steps of the coordinates. Linear coordinates have the units of their parameter:
    eigenvectors in the coordinates themselves would point along the one with the smallest numbers.
    """
    values, vectors = np.linalg.eigh(S * np.outer(units, units))
    return values, vectors.T


def unseen_parameters(parameters: Parameters, S: FloatArray, null: BoolArray) -> set[str]:
    """Return parameters that take part in a direction which the residual does not see.

    With the strength `S` (m, m) of the parameters of interest, and the null flags (m,) of its
    directions. Shares are those of the distance between the bounds.
    """
    low, high = parameters.coordinate_bounds
    _, rows = directions_in((high - low)[~parameters.nuisance], S)
    shares = np.abs(rows[: int(null.sum())]).max(axis=0, initial=0.0)
    return {
        name
        for name, share in zip(parameters.of_interest, shares, strict=True)
        if share > UNSEEN_SHARE
    }


def direction_status(eigenvalues: FloatArray, null: BoolArray) -> list[str]:
    """Return "null", "weak" or "seen" for each eigen-direction of a strength, weakest first.

    A direction is weak where its eigenvalue is below `WEAK_SHARE` of the largest.
    """
    weak = eigenvalues < WEAK_SHARE * eigenvalues[-1]
    return ["null" if n else "weak" if w else "seen" for n, w in zip(null, weak, strict=True)]


def check_metric_size(metric: Any, residual: FloatArray) -> None:
    """Refuse a view that is bound to another number of residual values."""
    if metric.size != len(residual):
        raise InputError(
            f"a view of {len(residual)} residual values",
            f"one of {metric.size}",
            "for several equations use twoaxis.views.Blocks, with one view for each",
        )


def sampling_error(
    residual: FloatArray, jacobian: FloatArray, displacement: FloatArray, H: FloatArray, metric: Any
) -> FloatArray:
    r"""Return the standard deviation of the displacement over samples of points, shape (d,).

    With :math:`e = r + J D`, what the displacement leaves of the residual, taking point i away
    moves the displacement, to first order, by :math:`H^\dagger g_i` with

    .. math:: g_i = J_i (M e)_i + (M J)_i\,e_i - J_i M_{ii}\,e_i,

    and the squares of these influences add up to the variance over independent points. A view
    that averages over cells divides by the number of points in each, so that only deviations
    from the mean of the cell count.
    """
    e = residual + jacobian @ displacement
    applied = metric.apply(np.column_stack([e, jacobian]))
    influence = (
        jacobian * applied[:, :1]
        + applied[:, 1:] * e[:, None]
        - jacobian * (metric.diagonal() * e)[:, None]
    )
    for block in metric.blocks:
        cells = getattr(block.view, "cells", None)
        if cells is not None:
            influence[block.rows] = _within(influence[block.rows], cells)
    # As the displacement itself: in units of each strength, so that no parameter is lost to units.
    moved, _ = least_step(H, influence, np.sqrt(np.maximum(np.diag(H), 0.0)))
    return np.asarray(np.sqrt(np.sum(moved**2, axis=0)))


def _within(values: FloatArray, cells: IndexArray) -> FloatArray:
    """Deviations from the mean of each cell, scaled for the degree of freedom that it takes."""
    counts = np.bincount(cells)
    means = np.column_stack([np.bincount(cells, column) / counts for column in values.T])
    correction = np.sqrt(counts / np.maximum(counts - 1, 1))
    return np.asarray((values - means[cells]) * correction[cells][:, None])


# ---------------------------------------------------------------- the labelled result

_PAIR = ("parameter", "other_parameter")
LAYOUT: Layout = {
    **PARAMETER_LAYOUT,
    **CENTER_LAYOUT,
    "B": Variable(("parameter",), "float", "signed score J^T M r", finite=True),
    "H": Variable(_PAIR, "float", "strength J^T M J", finite=True),
    "C": Variable(_PAIR, "float", "curvature term r^T M d2r", finite=True),
    "other_parameter": Variable(("other_parameter",), "text", "name of the parameter"),
    "residual_norm": Variable((), "float", "sqrt(r^T M r) at the center", finite=True),
    "strength": Variable(
        _PAIR, "float", "H without nuisance parameters, S; 0 in their rows", finite=True
    ),
    "remaining_norm": Variable(
        (), "float", "residual norm that nuisance parameters leave", finite=True
    ),
    "displacement": Variable(
        ("parameter",), "float", "displacement D = -S^+ b of the coordinate", finite=True
    ),
    "diagonal_displacement": Variable(
        ("parameter",), "float", "displacement of each parameter by itself, -b_i / S_ii"
    ),
    "delta_percent": Variable(
        ("parameter",), "float", "relative size of the displacement, 100 |exp(D) - 1|", "%"
    ),
    "alignment": Variable(
        ("parameter",), "float", "alignment of residual and sensitivity, -1 to 1", finite=True
    ),
    "absorbed": Variable(
        ("parameter",), "float", "share of H_ii that nuisance parameters absorb", finite=True
    ),
    "sampling_deviation": Variable(
        ("parameter",),
        "float",
        "standard deviation of the displacement over samples of points",
    ),
    "eigenvalue": Variable(("eigen",), "float", "eigenvalues of S, weakest first", finite=True),
    "eigenvector": Variable(
        ("eigen", "parameter"), "float", "eigenvectors of S in the coordinates", finite=True
    ),
    "null": Variable(("eigen",), "bool", "whether the residual does not depend on the direction"),
    "direction_status": Variable(("eigen",), "text", '"null", "weak" or "seen"'),
    "fresh_displacement": Variable(
        ("parameter",), "float", "displacement on fresh points", required=False, finite=True
    ),
    "fresh_points": Variable((), "int", "number of fresh points", required=False),
}


@final
class Score(CenteredResult):
    """What the frozen field prefers, to first order, around a center.

    Made by `twoaxis.score`. For one parameter `B`, `H`, `C` and `alignment` are floats; for
    several they are arrays in the order of `names`, nuisance parameters included. `strength` is
    what remains of `H` for the parameters of interest.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> found = ta.score(frozen)
    >>> round(found.B, 4), round(found.H, 4), round(found.displacement["k"], 3), found.trusted
    (-0.0097, 0.0776, 0.125, True)
    """

    schema = "score"
    layouts = {"/": LAYOUT}  # noqa: RUF012
    attributes = {"/": ("view", "derivative", "centered_on")}  # noqa: RUF012

    def derived(self) -> dict[str, Any]:
        """Return what follows from B, H, the residual norm and the parameters."""
        data = self.data
        parameters, center = self.parameters, self.center.values
        hidden = parameters.nuisance
        norm = float(data["residual_norm"])
        terms = terms_of(data["B"].values, data["H"].values, norm, hidden)
        strength = np.zeros_like(terms.H)
        strength[np.ix_(~hidden, ~hidden)] = terms.strength
        return {
            "other_parameter": parameters.names,
            "strength": strength,
            "remaining_norm": terms.remaining_norm,
            "displacement": terms.displacement,
            "diagonal_displacement": terms.diagonal_displacement,
            "delta_percent": parameters.displacement_percent(terms.displacement, center),
            "alignment": terms.alignment,
            "absorbed": terms.absorbed,
            "eigenvalue": terms.eigenvalues,
            "null": terms.null,
            "direction_status": direction_status(terms.eigenvalues, terms.null),
        }

    def check(self) -> None:
        """Raise `InputError` unless B, H and the residual norm can come from one residual."""
        data = self.data
        B, H, C = (data[name].values for name in ("B", "H", "C"))
        norm = float(data["residual_norm"])
        gram = np.block([[H, B[:, None]], [B[None, :], np.full((1, 1), norm**2)]])
        root = np.sqrt(np.maximum(np.diag(gram), 0.0))
        scale = np.where(root > 0, root, 1.0)
        gram = gram / np.outer(scale, scale)
        vectors, values = data["eigenvector"].values, data["eigenvalue"].values
        S = data["strength"].values
        off = S @ vectors.T - vectors.T * values
        size = max(float(np.abs(H).max()), np.finfo(float).tiny)
        consistent = {
            "a symmetric strength H": np.abs(H - H.T).max() <= ROUNDING * size,
            "a symmetric curvature term C": np.allclose(C, C.T, rtol=ROUNDING),
            "B, H and a residual norm of one residual": norm >= 0
            and np.linalg.eigvalsh(gram)[0] >= -ROUNDING * len(gram),
            "orthonormal eigenvectors of the strength": np.abs(off).max() <= ROUNDING * size
            and np.allclose(vectors @ vectors.T, np.eye(len(values)), atol=ROUNDING)
            and not vectors[:, self.parameters.nuisance].any(),
            "standard deviations that are not negative": (
                data["sampling_deviation"].values >= 0
            ).all(),
        }
        require(consistent)
        super().check()

    def _array(self, name: str) -> FloatArray:
        array: FloatArray = self.data[name].values
        return array

    def _scalar(self, name: str) -> Any:
        array = self._array(name)
        return float(array.reshape(())) if array.size == 1 else array

    @property
    def view(self) -> str:
        """The view, in words."""
        return str(self.data.attrs["view"])

    @property
    def derivative(self) -> str:
        """Where the derivatives come from, in words."""
        return str(self.data.attrs["derivative"])

    @property
    def B(self) -> Any:
        """Signed score ``J^T M r``."""
        return self._scalar("B")

    @property
    def H(self) -> Any:
        """Strength ``J^T M J``."""
        return self._scalar("H")

    @property
    def strength(self) -> Any:
        """H with nuisance parameters projected out, by parameters of interest.

        A float for one, else shape (m, m).
        """
        kept = ~self.parameters.nuisance
        array = self._array("strength")[np.ix_(kept, kept)]
        return float(array.reshape(())) if array.size == 1 else array

    @property
    def C(self) -> Any:
        """Curvature term ``r^T M d^2 r``."""
        return self._scalar("C")

    @property
    def alignment(self) -> Any:
        """Signed alignment of the residual with each sensitivity, in [-1, 1].

        Of what nuisance parameters leave of both.
        """
        return self._scalar("alignment")

    @property
    def residual_norm(self) -> float:
        """``sqrt(r^T M r)``."""
        return float(self.data["residual_norm"])

    @property
    def remaining_norm(self) -> float:
        """The norm of what nuisance parameters leave of the residual."""
        return float(self.data["remaining_norm"])

    @property
    def identified(self) -> bool:
        """Whether the residual depends on every direction of the parameters of interest.

        A direction on which it depends in the same way as on nuisance parameters does not count.
        """
        return not bool(self.data["null"].values.any())

    @property
    def displacement(self) -> dict[str, float]:
        """Displacement D of each coordinate; minimum norm where a direction is null."""
        return self.named("displacement")

    @property
    def affine_displacement(self) -> dict[str, float]:
        r"""Displacement to the minimum of a residual that is affine in the physical parameters.

        In log coordinates the minimum lies at :math:`p_0 (1 + D)`, a displacement of
        :math:`\log(1 + D)`: minus infinity where that is not positive. In linear coordinates it
        is D. Most coefficients of equations are affine; `twoaxis.frozen_scan` tests it.
        """
        return {
            name: float(np.log1p(D) if D > -1 else -np.inf)
            if self.parameters[name].coordinate == "log"
            else D
            for name, D in self.displacement.items()
        }

    @property
    def diagonal_displacement(self) -> dict[str, float]:
        """The displacement that ignores the coupling between parameters."""
        return self.named("diagonal_displacement")

    @property
    def delta_percent(self) -> dict[str, float]:
        """Relative size of the displacement in percent, unsigned.

        ``100 |exp(D) - 1|`` in log coordinates, ``100 |D| / scale`` in linear ones.
        """
        return self.named("delta_percent")

    @property
    def sampling_deviation(self) -> dict[str, float]:
        """Standard deviation of each displacement over samples of as many points."""
        return self.named("sampling_deviation")

    @property
    def fresh_displacement(self) -> dict[str, float] | None:
        """The displacement on `fresh_points` fresh points, where that was asked for."""
        return self.named("fresh_displacement") if "fresh_displacement" in self.data else None

    @property
    def fresh_points(self) -> int | None:
        """Number of fresh points."""
        return int(self.data["fresh_points"]) if "fresh_points" in self.data else None

    @property
    def coupling(self) -> FloatArray:
        """``H_ij / sqrt(H_ii H_jj)``, shape (d, d); zero where ``H_ii`` is."""
        H = self._array("H")
        strength = np.sqrt(np.maximum(np.diag(H), 0.0))
        size = np.outer(strength, strength)
        return np.where(size > 0, H / np.where(size > 0, size, 1.0), 0.0)

    @property
    def doubts(self) -> list[Message]:
        """Why the displacement cannot be trusted; empty when it can.

        The codes are "score.null_direction", "score.no_basin" and "score.curvature".
        """
        reasons = []
        null = self.data["null"].values
        if null.any():
            directions = self._directions()[1][: int(null.sum())]
            blind = "; ".join(map(self.parameters.direction_words, directions))
            text = f"the residual does not depend on {blind}"
            if (self._array("absorbed") >= 1 - NULL_SHARE).any():
                text += ", or not otherwise than on nuisance parameters"
            reasons.append(
                Message(
                    "score.null_direction",
                    text,
                    "warning",
                    {"null_directions": float(null.sum())},
                )
            )
        if null.all():
            return reasons
        ratio, lowest = self._relative_curvature()
        if lowest <= 0:
            text = "H + C is not positive definite: the center does not lie in a basin"
            numbers = {"lowest_relative_curvature": lowest}
            reasons.append(Message("score.no_basin", text, "warning", numbers))
        elif ratio > TRUSTED_CURVATURE:
            text = f"the curvature term is {ratio:.2f} of H: rely on the frozen scan"
            reasons.append(Message("score.curvature", text, "warning", {"ratio": ratio}))
        return reasons

    @cached_property
    def unseen(self) -> set[str]:
        """Parameters that take part in a direction which the residual does not see."""
        kept = ~self.parameters.nuisance
        S = self._array("strength")[np.ix_(kept, kept)]
        return unseen_parameters(self.parameters, S, self.data["null"].values)

    @property
    def trusted(self) -> bool:
        """Whether the displacement may be used without a scan."""
        return not self.doubts

    def _directions(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues (m,) and directions (m, d) of the strength, in units of 100%."""
        kept = ~self.parameters.nuisance
        units = self.parameters.percent_units(self.center.values)[kept]
        values, own = directions_in(units, self._array("strength")[np.ix_(kept, kept)])
        rows = np.zeros((len(own), len(kept)))
        rows[:, kept] = own
        return values, rows

    def _relative_curvature(self) -> tuple[float, float]:
        """Size of C relative to S, and the least curvature relative to it, where S is not null.

        Nuisance parameters are projected out of ``H + C`` as they are out of H; where the profile
        is not convex along them, theirs is the least curvature.
        """
        hidden = self.parameters.nuisance
        kept, H, C = ~hidden, self._array("H"), self._array("C")
        seen = ~self.data["null"].values
        values, rows = (each[seen] for each in self._directions())
        units = self.parameters.percent_units(self.center.values)
        basis = (rows * units)[:, kept] / np.sqrt(values)[:, None]
        extra = C[np.ix_(kept, kept)]
        if hidden.any():
            own = _seen_basis(H[np.ix_(hidden, hidden)])
            curved = np.eye(len(own)) + own @ C[np.ix_(hidden, hidden)] @ own.T
            lowest = float(np.linalg.eigvalsh(curved).min(initial=np.inf))
            if lowest <= 0:
                return np.inf, lowest
            flat = own @ H[np.ix_(hidden, kept)]
            both = flat + own @ C[np.ix_(hidden, kept)]
            extra = extra - both.T @ np.linalg.solve(curved, both) + flat.T @ flat
        relative = np.linalg.eigvalsh(basis @ extra @ basis.T)
        return float(np.abs(relative).max()), float(1 + relative.min())

    def directions(self) -> pd.DataFrame:
        """Return the eigen-directions of the strength, weakest first.

        Columns: eigenvalue, the displacement along the direction, its status ("null", "weak"
        or "seen"), and the step in the units of each parameter of interest that the displacement
        means.
        """
        parameters, center = self.parameters, self.center.values
        slope = np.array(
            [center[n] if p.coordinate == "log" else 1.0 for n, p in parameters.items()]
        )
        vectors = self._array("eigenvector")
        along = vectors @ self._array("displacement")
        table: dict[str, Any] = {
            "eigenvalue": self._array("eigenvalue"),
            "displacement": along,
            "status": [str(each) for each in self.data["direction_status"].values],
        }
        steps = along[:, None] * vectors * slope
        table |= {n: steps[:, self.names.index(n)] for n in parameters.of_interest}
        return pd.DataFrame(table).rename_axis("direction")

    def function(self, name: str | None = None) -> FunctionPreference:
        """Return the displacement of an unknown function as a curve, and its weak directions.

        Parameters
        ----------
        name : str, optional
            Needed when there are several functions.
        """
        # At call time: it builds upon this module.
        from twoaxis.geometry.function import function_preference

        return function_preference(self, name)

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter, nuisance parameters last."""
        table = {
            "center": self._array("center"),
            "displacement": self._array("displacement"),
            "delta_percent": self._array("delta_percent"),
            "diagonal_displacement": self._array("diagonal_displacement"),
            "B": self._array("B"),
            "H": np.diag(self._array("H")),
            "C": np.diag(self._array("C")),
            "alignment": self._array("alignment"),
            "sampling_deviation": self._array("sampling_deviation"),
        }
        if "fresh_displacement" in self.data:
            table["fresh_displacement"] = self._array("fresh_displacement")
        if self.parameters.nuisance.any():
            table["absorbed"] = self._array("absorbed")
        return interest_first(table, self.parameters)

    def __repr__(self) -> str:
        lines = [
            f"Score around the {self.center_words}, view: {self.view}, "
            f"derivatives: {self.derivative}",
            interest_only(self.summary()).to_string(float_format=lambda v: f"{v:.5g}"),
            *(f"warning: {doubt}" for doubt in self.doubts),
        ]
        return "\n".join(lines)


# ---------------------------------------------------------------- the calls


def score(
    residual: Residual,
    parameters: Unknowns | None = None,
    view: View | BoundView | None = None,
    *,
    points: Points = None,
    at: str | Mapping[str, float] | None = None,
    derivative: Derivative = "auto",
    step: float = STEP,
    fresh: int | None = None,
    seed: int = 0,
) -> Score:
    """Score a frozen field: which way, and how far, does its residual push the parameters?

    Parameters
    ----------
    residual : callable or FrozenResidual
        ``residual(**parameters)`` at the points. A frozen residual carries its parameters,
        points and training view.
    parameters : mapping of str to Parameter or UnknownFunction
    view : View or BoundView
        The residual metric; by default the one that the frozen residual was trained under. A
        view bound to the same points may be shared between calls.
    points : array, shape (N, k)
        The residual points.
    at : {"truth", "delivered"} or mapping of str to float, optional
        The center. By default the truth where it is known, else the delivered values: the
        displacement then measures stability around the candidate, not error.
    derivative : {"auto", "exact", "difference"}
        Exact derivatives where the residual allows them, else central differences.
    step : float
        Step of the differences, in log coordinates, or relative in linear ones.
    fresh : int, optional
        Score the field also on this many times as many new points, distributed uniformly over
        the bounding box of the points; needs a frozen residual with ``residual_at``.
    seed : int
        Of the fresh points.

    Returns
    -------
    Score

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 50)
    >>> found = ta.score(
    ...     lambda k: k * np.ones(50) - 1.1 - 0.01 * np.cos(9 * x),
    ...     {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))},
    ...     ta.views.Pointwise(), points=x,
    ... )
    >>> round(found.displacement["k"], 2), found.trusted
    (0.1, True)
    """
    frozen = as_frozen(residual, parameters, points)
    known = Parameters(frozen.parameters)
    center = known.center(at)
    known.percent_units(center.values)  # a center of zero without a scale is refused here
    metric = bound_view(frozen, view)
    local = linearize(frozen, frozen.coordinates(center.values), derivative, step)
    elsewhere = None
    if fresh is not None:
        chosen = view if view is not None else frozen.view
        moved, bound = _fresh(frozen, chosen, fresh, seed)
        again = linearize(moved, moved.coordinates(center.values), derivative, step)
        terms = score_terms(again.residual, again.jacobian, bound, known.nuisance)
        elsewhere = terms.displacement, bound.size
    return score_from(local, metric, known, center, fresh=elsewhere)


def score_from(
    local: Linearization,
    metric: Any,
    parameters: Parameters,
    center: Center,
    *,
    fresh: tuple[FloatArray, int] | None = None,
) -> Score:
    """Return the score of a residual that is linearized at `center`, under a bound view.

    Parameters
    ----------
    local : Linearization
        May be shared with `scan_from` and `spectrum_from`.
    metric : BoundView
    parameters : Parameters
    center : Center
    fresh : tuple of array and int, optional
        The displacement, shape (d,), on fresh points, and their number.
    """
    check_metric_size(metric, local.residual)
    terms = score_terms(local.residual, local.jacobian, metric, parameters.nuisance)
    values = {
        **parameters.variables(),
        "center": [center.values[name] for name in parameters],
        "B": terms.B,
        "H": terms.H,
        "C": local.weighted_second(metric.apply(local.residual)),
        "residual_norm": terms.residual_norm,
        "sampling_deviation": sampling_error(
            local.residual, local.jacobian, terms.displacement, terms.H, metric
        ),
        "eigenvector": terms.eigenvectors,
    }
    if fresh is not None:
        values |= {"fresh_displacement": fresh[0], "fresh_points": fresh[1]}
    about = {
        "view": metric.describe(),
        "derivative": local.source,
        "centered_on": center.kind,
    }
    return Score.from_values(values, about)


def _fresh(
    frozen: FrozenResidual, view: View | BoundView | None, times: int, seed: int
) -> tuple[FrozenResidual, Any]:
    """Return the same field and view on `times` as many uniform points in the same box."""
    if not is_integer(times) or not 1 <= times <= MOST_FRESH:
        raise InputError(
            f"fresh as an integer from 1 to {MOST_FRESH}", f"{times!r}"[:40], "pass fresh=4"
        )
    if isinstance(frozen.points, tuple):
        raise InputError(
            "one set of points for a score on fresh ones",
            f"{len(frozen.points)} sets, one for each equation",
            "score the frozen residual of each equation by itself",
        )
    check_seed(seed)
    points = frozen.points
    low, high = points.min(axis=0), points.max(axis=0)
    generator = np.random.default_rng(seed)
    fresh = generator.uniform(low, high, (times * len(points), points.shape[1]))
    moved = frozen.moved_to(fresh)
    if view is None or not hasattr(view, "bind"):
        raise InputError(
            "a view that can be bound to other points",
            "one that is bound to its points already" if view is not None else "none",
            "pass the view itself, for instance twoaxis.views.Pointwise()",
        )
    try:
        return moved, view.bind(fresh)
    except InputError as error:
        raise InputError(
            "a view that can be bound to other points",
            f"{view.describe()}, which holds values for its own points ({error.got})",
            "leave fresh out, or use a view that needs points alone, such as views.Pointwise()",
        ) from error
