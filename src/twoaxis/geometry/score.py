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

Two numbers tell how much of a displacement is due to the sample of points. The influence of
every single point on ``D`` gives its standard deviation over samples of points, from one product
with the metric. Where the residual can be evaluated elsewhere, the same field is scored again on
new, denser points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry.derivatives import STEP, Derivative, Linearization, linearize
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Center, Parameters, Unknowns
from twoaxis.result import CENTER_LAYOUT, PARAMETER_LAYOUT, CenteredResult, Message, require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IndexArray = NDArray[np.intp]

# Eigenvalues of H below this share of the largest are rounding: the direction is null.
NULL_SHARE = 1e-12
# Eigenvalues of H below this share of the largest are weak: along such a direction the residual
# changes thirty times less than along the best one.
WEAK_SHARE = 1e-3
# The displacement is trusted while the curvature term stays below this share of H.
TRUSTED_CURVATURE = 0.2
# Stored matrices may deviate from symmetry and semidefiniteness by rounding.
ROUNDING = 1e-8


# ---------------------------------------------------------------- the array core


@dataclass(frozen=True)
class Terms:
    """The array core: what follows from r, J and M alone.

    Attributes
    ----------
    B : array, shape (d,)
    H : array, shape (d, d)
    displacement : array, shape (d,)
        ``-H^+ B``, of minimum norm in the coordinates.
    diagonal_displacement : array, shape (d,)
        ``-B_i / H_ii``: each parameter by itself; zero where ``H_ii`` is.
    eigenvalues, eigenvectors
        Of H, weakest first; directions in rows, shape (d, d).
    null : array of bool, shape (d,)
        Directions on which the residual does not depend.
    residual_norm : float
        ``sqrt(r^T M r)``.
    alignment : array, shape (d,)
        ``B_i / (|J_i| |r|)``, zero by convention where a norm vanishes.
    """

    B: FloatArray
    H: FloatArray
    displacement: FloatArray
    diagonal_displacement: FloatArray
    eigenvalues: FloatArray
    eigenvectors: FloatArray
    null: BoolArray
    residual_norm: float
    alignment: FloatArray


def score_terms(residual: FloatArray, jacobian: FloatArray, metric: Any) -> Terms:
    """Compute the score of residual (N,) and Jacobian (N, d) under a bound view."""
    together = np.column_stack([jacobian, residual])
    gram = metric.quadratic(together, together)
    gram = (gram + gram.T) / 2
    return terms_of(gram[:-1, -1], gram[:-1, :-1], float(np.sqrt(max(gram[-1, -1], 0.0))))


def terms_of(B: FloatArray, H: FloatArray, residual_norm: float) -> Terms:
    """Compute what follows from the score (d,), the strength (d, d) and the residual norm."""
    values, vectors = np.linalg.eigh(H)
    strength = np.sqrt(np.maximum(np.diag(H), 0.0))
    displacement, nullity = _displacement(H, B, strength)
    sizes = strength * residual_norm
    # Rounding may lift a perfect alignment over one.
    alignment = np.clip(np.where(sizes > 0, B / np.where(sizes > 0, sizes, 1.0), 0.0), -1, 1)
    seen = strength > 0
    return Terms(
        B=B,
        H=H,
        displacement=displacement,
        diagonal_displacement=np.where(seen, -B / np.where(seen, strength, 1.0) ** 2, 0.0),
        eigenvalues=np.maximum(values, 0.0),
        eigenvectors=vectors.T,
        null=np.arange(len(values)) < nullity,
        residual_norm=residual_norm,
        alignment=alignment,
    )


def _displacement(H: FloatArray, B: FloatArray, strength: FloatArray) -> tuple[FloatArray, int]:
    """Return ``-H^+ B`` and the dimension of the null space of H.

    The null space is determined with every parameter in units of its own strength, so that the
    units in which parameters are written cannot hide a direction.
    """
    scale = np.where(strength > 0, strength, 1.0)
    values, vectors = np.linalg.eigh(H / np.outer(scale, scale))
    null = values <= NULL_SHARE * max(values[-1], 0.0)
    along = vectors.T @ (B / scale)
    step = -(vectors @ np.where(null, 0.0, along / np.where(null, 1.0, values))) / scale
    if null.any():  # of all solutions, the one of least norm in the coordinates
        blind, _ = np.linalg.qr(vectors[:, null] / scale[:, None])
        step = step - blind @ (blind.T @ step)
    return step, int(null.sum())


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
    cells = getattr(metric, "cells", None)
    if cells is not None:
        influence = _within(influence, cells)
    moved = influence @ np.linalg.pinv(H, rcond=1e-12, hermitian=True)
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
    "displacement": Variable(
        ("parameter",), "float", "displacement D = -H^+ B of the coordinate", finite=True
    ),
    "diagonal_displacement": Variable(
        ("parameter",), "float", "displacement of each parameter by itself, -B_i / H_ii"
    ),
    "delta_percent": Variable(
        ("parameter",), "float", "relative size of the displacement, 100 |exp(D) - 1|", "%"
    ),
    "alignment": Variable(
        ("parameter",), "float", "alignment of residual and sensitivity, -1 to 1", finite=True
    ),
    "sampling_deviation": Variable(
        ("parameter",),
        "float",
        "standard deviation of the displacement over samples of points",
    ),
    "eigenvalue": Variable(("eigen",), "float", "eigenvalues of H, weakest first", finite=True),
    "eigenvector": Variable(
        ("eigen", "parameter"), "float", "eigenvectors of H in the coordinates", finite=True
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
    several they are arrays in the order of `names`.
    """

    schema = "score"
    layouts = {"/": LAYOUT}  # noqa: RUF012
    attributes = {"/": ("view", "derivative", "centered_on")}  # noqa: RUF012

    def derived(self) -> dict[str, Any]:
        """Return what follows from B, H, the residual norm and the parameters."""
        data = self.data
        terms = terms_of(data["B"].values, data["H"].values, float(data["residual_norm"]))
        parameters, center = self.parameters, self.center.values
        return {
            "other_parameter": parameters.names,
            "displacement": terms.displacement,
            "diagonal_displacement": terms.diagonal_displacement,
            "delta_percent": parameters.displacement_percent(terms.displacement, center),
            "alignment": terms.alignment,
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
        off = H @ vectors.T - vectors.T * values
        size = max(float(np.abs(H).max()), np.finfo(float).tiny)
        consistent = {
            "a symmetric strength H": np.abs(H - H.T).max() <= ROUNDING * size,
            "a symmetric curvature term C": np.allclose(C, C.T, rtol=ROUNDING),
            "B, H and a residual norm of one residual": norm >= 0
            and np.linalg.eigvalsh(gram)[0] >= -ROUNDING * len(gram),
            "orthonormal eigenvectors of H": np.abs(off).max() <= ROUNDING * size
            and np.allclose(vectors @ vectors.T, np.eye(len(H)), atol=ROUNDING),
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
    def C(self) -> Any:
        """Curvature term ``r^T M d^2 r``."""
        return self._scalar("C")

    @property
    def alignment(self) -> Any:
        """Signed alignment of the residual with each sensitivity, in [-1, 1]."""
        return self._scalar("alignment")

    @property
    def residual_norm(self) -> float:
        """``sqrt(r^T M r)``."""
        return float(self.data["residual_norm"])

    @property
    def identified(self) -> bool:
        """Whether the residual depends on every direction of the parameters."""
        return not bool(self.data["null"].values.any())

    @property
    def displacement(self) -> dict[str, float]:
        """Displacement D of each coordinate; minimum norm where a direction is null."""
        return self.named("displacement")

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
            blind = "; ".join(map(self._in_words, self._array("eigenvector")[null]))
            reasons.append(
                Message(
                    "score.null_direction",
                    f"the residual does not depend on {blind}",
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

    @property
    def trusted(self) -> bool:
        """Whether the displacement may be used without a scan."""
        return not self.doubts

    def _in_words(self, direction: FloatArray) -> str:
        return direction_words(direction, self.names)

    def _relative_curvature(self) -> tuple[float, float]:
        """Size of C relative to H, and the least curvature relative to H, where H is not null."""
        seen = ~self.data["null"].values
        values = self._array("eigenvalue")[seen]
        basis = self._array("eigenvector")[seen] / np.sqrt(values)[:, None]
        relative = np.linalg.eigvalsh(basis @ self._array("C") @ basis.T)
        return float(np.abs(relative).max()), float(1 + relative.min())

    def directions(self) -> pd.DataFrame:
        """Return the eigen-directions of H, weakest first.

        Columns: eigenvalue, the displacement along the direction, its status ("null", "weak"
        or "seen"), and the step in the units of each parameter that the displacement means.
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
        table |= {name: steps[:, j] for j, name in enumerate(self.names)}
        return pd.DataFrame(table).rename_axis("direction")

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter."""
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
        return pd.DataFrame(table, index=pd.Index(self.names, name="parameter"))

    def __repr__(self) -> str:
        lines = [
            f"Score around the {center_words(self.center)}, view: {self.view}, "
            f"derivatives: {self.derivative}",
            self.summary().to_string(float_format=lambda v: f"{v:.5g}"),
            *(f"warning: {doubt}" for doubt in self.doubts),
        ]
        return "\n".join(lines)


def direction_words(direction: FloatArray, names: Sequence[str]) -> str:
    """Return a direction as ``+0.71 nu -0.71 kappa``."""
    return " ".join(f"{share:+.2f} {name}" for share, name in zip(direction, names, strict=True))


def center_words(center: Center) -> str:
    """Return what a center is, with its values."""
    values = ", ".join(f"{name} = {value:g}" for name, value in center.values.items())
    kind = {"truth": "truth", "delivered": "delivered candidate", "point": "point"}[center.kind]
    return f"{kind} {values}"


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
        terms = score_terms(again.residual, again.jacobian, bound)
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
    terms = score_terms(local.residual, local.jacobian, metric)
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
    if not isinstance(times, (int, np.integer)) or times < 1:
        raise InputError("fresh as an integer of at least 1", repr(times), "pass fresh=4")
    if isinstance(frozen.points, tuple):
        raise InputError(
            "one set of points for a score on fresh ones",
            f"{len(frozen.points)} sets, one for each equation",
            "score the frozen residual of each equation by itself",
        )
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
