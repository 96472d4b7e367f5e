r"""The signed preference of a frozen field: score, strength and displacement.

With the residual :math:`r`, its derivative :math:`J` by the coordinates and a residual view
:math:`M`, all frozen at the centre,

.. math:: B = J^\top M r, \qquad H = J^\top M J, \qquad D = -H^\dagger B,

``B`` is the signed score, ``H`` the strength with which the residual sees the parameters, and
``D`` the displacement of the coordinates that minimises the linearised profile: exact for a
residual that is affine in the coordinate. For one parameter it factors into what remains of
the residual, how it aligns with the sensitivity, and the strength,

.. math:: D = -\rho\,\lVert r\rVert_M / \sqrt H, \qquad
          \rho = B / (\lVert J\rVert_M\,\lVert r\rVert_M).

The curvature term :math:`C = r^\top M\,\partial^2 r` measures how far the profile is from its
linearised model. It makes a trust flag and not a correction: for a residual affine in the
physical parameter, the full Newton step is worse than ``D``.

A score as its reader meets it: labelled, with its doubts said aloud.

The array core of the score: what follows from r, J and M alone.

How much of a displacement is the field's preference, and how much the sample of points?

Two answers. The influence of every single point on the displacement gives its standard error
over samples of points, from one product with the metric. Where the residual can be evaluated
elsewhere, the same field is scored again on fresh, denser points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry.derivatives import STEP, Derivative, linearize
from twoaxis.parameters import Center, Parameter, Parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

# Eigenvalues of H below this share of the largest are rounding: nothing is seen there.
NULL_SHARE = 1e-12


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
        Directions that the residual does not see.
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
    null: NDArray[np.bool_]
    residual_norm: float
    alignment: FloatArray


def score_terms(residual: FloatArray, jacobian: FloatArray, metric: Any) -> Terms:
    """Compute the score of residual (N,) and Jacobian (N, d) under a bound view."""
    together = np.column_stack([jacobian, residual])
    gram = metric.quadratic(together, together)
    gram = (gram + gram.T) / 2
    H, B = gram[:-1, :-1], gram[:-1, -1]
    norm = float(np.sqrt(max(gram[-1, -1], 0.0)))
    values, vectors = np.linalg.eigh(H)
    strength = np.sqrt(np.maximum(np.diag(H), 0.0))
    displacement, nullity = _displacement(H, B, strength)
    sizes = strength * norm
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
        residual_norm=norm,
        alignment=alignment,
    )


def _displacement(H: FloatArray, B: FloatArray, strength: FloatArray) -> tuple[FloatArray, int]:
    """Return ``-H^+ B`` and the dimension of what H does not see.

    What is seen is decided with every parameter in units of its own strength, so that the
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


def check_metric_size(metric: Any, residual: FloatArray) -> None:
    """Refuse a view that is bound to another number of residual values."""
    if metric.size != len(residual):
        raise InputError(
            f"a view of {len(residual)} residual values",
            f"one of {metric.size}",
            "for several equations use twoaxis.views.Blocks, with one view for each",
        )


IndexArray = NDArray[np.intp]


@dataclass(frozen=True)
class PointSample:
    """What the choice of residual points does to the displacement.

    Attributes
    ----------
    standard_error : array, shape (d,)
        Standard error of the displacement over samples of as many points.
    fresh_displacement : array, shape (d,), optional
        The displacement on fresh points, and
    fresh_points : int, optional
        how many there are.
    """

    standard_error: FloatArray
    fresh_displacement: FloatArray | None = None
    fresh_points: int | None = None


def sampling_error(
    residual: FloatArray, jacobian: FloatArray, displacement: FloatArray, H: FloatArray, metric: Any
) -> FloatArray:
    r"""Standard error of the displacement over samples of residual points, shape (d,).

    With :math:`e = r + J D`, what the displacement leaves of the residual, taking point i away
    moves the displacement, to first order, by :math:`H^\dagger g_i` with

    .. math:: g_i = J_i (M e)_i + (M J)_i\,e_i - J_i M_{ii}\,e_i,

    and the squares of these influences add up to the variance over independent points. A view
    that averages over cells divides by the number of points in each, so that only deviations
    from the cell's mean count.
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


def on_fresh_points(
    sample: PointSample,
    frozen: FrozenResidual,
    view: View | BoundView | None,
    times: int,
    seed: int,
    displacement: Callable[[FrozenResidual, Any], FloatArray],
) -> PointSample:
    """Score the same field on `times` as many uniform points in the same bounding box."""
    if not isinstance(times, (int, np.integer)) or times < 1:
        raise InputError("fresh as a whole number of at least 1", repr(times), "pass fresh=4")
    if isinstance(frozen.points, tuple):
        raise InputError(
            "one set of points for a score on fresh ones",
            f"{len(frozen.points)} sets, one for each equation",
            "score each equation's frozen residual by itself",
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
        metric = view.bind(fresh)
    except InputError as error:
        raise InputError(
            "a view that can be bound to other points",
            f"{view.describe()}, which holds values for its own points ({error.got})",
            "leave fresh out, or use a view that needs points alone, such as views.Pointwise()",
        ) from error
    return replace(sample, fresh_displacement=displacement(moved, metric), fresh_points=len(fresh))


# Eigenvalues of H below this share of the largest are weak: such a direction is seen thirty
# times less than the best one.
WEAK_SHARE = 1e-3
# The local reading is trusted while the curvature term stays below this share of H.
TRUSTED_CURVATURE = 0.2


@dataclass(frozen=True, eq=False)
class Score:
    """What the frozen field prefers, to first order, around a centre.

    Made by `twoaxis.score`. For one parameter `B`, `H`, `C` and `alignment` are floats; for
    several they are arrays in the order of `names`.

    Attributes
    ----------
    parameters : dict of str to Parameter
    center : Center
    terms : Terms
    curvature : array, shape (d, d)
        The matrix C.
    view : str
        The view, in words.
    derivative : str
        Where the derivatives come from.
    sample : PointSample
        How much of the displacement is the sample of points.
    """

    parameters: dict[str, Parameter]
    center: Center
    terms: Terms
    curvature: FloatArray
    view: str
    derivative: str
    sample: PointSample = field(repr=False)

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return list(self.parameters)

    def _scalar(self, array: FloatArray) -> Any:
        return float(array.reshape(())) if array.size == 1 else array

    @property
    def B(self) -> Any:
        """Signed score ``J^T M r``."""
        return self._scalar(self.terms.B)

    @property
    def H(self) -> Any:
        """Strength ``J^T M J``."""
        return self._scalar(self.terms.H)

    @property
    def C(self) -> Any:
        """Curvature term ``r^T M d^2 r``."""
        return self._scalar(self.curvature)

    @property
    def alignment(self) -> Any:
        """Signed alignment of the residual with each sensitivity, in [-1, 1]."""
        return self._scalar(self.terms.alignment)

    @property
    def residual_norm(self) -> float:
        """``sqrt(r^T M r)``."""
        return self.terms.residual_norm

    @property
    def identified(self) -> bool:
        """Whether the residual sees every direction of the parameters."""
        return not bool(self.terms.null.any())

    @property
    def displacement(self) -> dict[str, float]:
        """Displacement D of each coordinate; minimum norm where a direction is not seen."""
        return dict(zip(self.names, self.terms.displacement.tolist(), strict=True))

    @property
    def diagonal_displacement(self) -> dict[str, float]:
        """The displacement that ignores the coupling between parameters."""
        return dict(zip(self.names, self.terms.diagonal_displacement.tolist(), strict=True))

    @property
    def delta_percent(self) -> dict[str, float]:
        """Relative size of the displacement in percent, unsigned.

        ``100 |exp(D) - 1|`` in log coordinates, ``100 |D| / scale`` in linear ones.
        """
        return {
            name: _percent(parameter, self.center.values[name], self.displacement[name])
            for name, parameter in self.parameters.items()
        }

    @property
    def coupling(self) -> FloatArray:
        """``H_ij / sqrt(H_ii H_jj)``, shape (d, d); zero where a parameter is not seen."""
        strength = np.sqrt(np.maximum(np.diag(self.terms.H), 0.0))
        size = np.outer(strength, strength)
        return np.where(size > 0, self.terms.H / np.where(size > 0, size, 1.0), 0.0)

    @property
    def doubts(self) -> list[str]:
        """Why the local reading is not to be trusted, as sentences; empty when it is."""
        reasons = []
        if self.terms.null.any():
            blind = [
                self._in_words(row)
                for row, null in zip(self.terms.eigenvectors, self.terms.null, strict=True)
                if null
            ]
            reasons.append(f"the residual does not see {'; '.join(blind)}")
        if self.terms.null.all():
            return reasons
        ratio, lowest = self._relative_curvature()
        if lowest <= 0:
            reasons.append("H + C is not positive: the centre does not lie in a basin")
        elif ratio > TRUSTED_CURVATURE:
            reasons.append(f"the curvature term is {ratio:.2f} of H: let the frozen scan decide")
        return reasons

    @property
    def trusted(self) -> bool:
        """Whether the displacement may be read without a scan."""
        return not self.doubts

    def _in_words(self, direction: FloatArray) -> str:
        return " ".join(f"{s:+.2f} {n}" for s, n in zip(direction, self.names, strict=True))

    def _relative_curvature(self) -> tuple[float, float]:
        """Size of C relative to H, and the least curvature relative to H, where H sees."""
        seen = ~self.terms.null
        basis = self.terms.eigenvectors[seen] / np.sqrt(self.terms.eigenvalues[seen])[:, None]
        relative = np.linalg.eigvalsh(basis @ self.curvature @ basis.T)
        return float(np.abs(relative).max()), float(1 + relative.min())

    def directions(self) -> pd.DataFrame:
        """Return the eigen-directions of H, weakest first.

        Columns: eigenvalue, the displacement along the direction, its status ("null", "weak"
        or "seen"), and the step in each parameter's own units that the displacement means.
        """
        terms = self.terms
        slope = np.array(
            [
                value if p.coordinate == "log" else 1.0
                for p, value in zip(
                    self.parameters.values(), self.center.values.values(), strict=True
                )
            ]
        )
        rows = []
        for value, direction, null in zip(
            terms.eigenvalues, terms.eigenvectors, terms.null, strict=True
        ):
            along = float(direction @ terms.displacement)
            weak = value < WEAK_SHARE * terms.eigenvalues[-1]
            step = dict(zip(self.names, along * direction * slope, strict=True))
            status = "null" if null else "weak" if weak else "seen"
            rows.append({"eigenvalue": value, "displacement": along, "status": status, **step})
        return pd.DataFrame(rows).rename_axis("direction")

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter."""
        terms = self.terms
        table = {
            "center": list(self.center.values.values()),
            "displacement": terms.displacement,
            "delta_percent": list(self.delta_percent.values()),
            "diagonal": terms.diagonal_displacement,
            "B": terms.B,
            "H": np.diag(terms.H),
            "C": np.diag(self.curvature),
            "alignment": terms.alignment,
        }
        table["standard_error"] = self.sample.standard_error
        if self.sample.fresh_displacement is not None:
            table["fresh_displacement"] = self.sample.fresh_displacement
        return pd.DataFrame(table, index=pd.Index(self.names, name="parameter"))

    def to_dataset(self) -> xr.Dataset:
        """Return everything as a labelled dataset."""
        terms, one, two = self.terms, ["parameter"], ["parameter", "other_parameter"]
        variables: dict[str, Any] = {
            "center": (one, list(self.center.values.values()), {"long_name": "expansion point"}),
            "B": (one, terms.B, {"long_name": "signed score J^T M r"}),
            "H": (two, terms.H, {"long_name": "strength J^T M J"}),
            "C": (two, self.curvature, {"long_name": "curvature term r^T M d2r"}),
            "displacement": (one, terms.displacement, {"long_name": "displacement -H^+ B"}),
            "diagonal_displacement": (
                one,
                terms.diagonal_displacement,
                {"long_name": "displacement of each parameter by itself"},
            ),
            "delta_percent": (
                one,
                list(self.delta_percent.values()),
                {"long_name": "relative size of the displacement", "units": "percent"},
            ),
            "alignment": (one, terms.alignment, {"long_name": "residual-sensitivity alignment"}),
        }
        variables["standard_error"] = (
            one,
            self.sample.standard_error,
            {"long_name": "standard error of the displacement over samples of points"},
        )
        if self.sample.fresh_displacement is not None:
            variables["fresh_displacement"] = (
                one,
                self.sample.fresh_displacement,
                {"long_name": "displacement on fresh points"},
            )
        attributes = {
            "centered_on": self.center.kind,
            "view": self.view,
            "derivative": self.derivative,
            "residual_norm": terms.residual_norm,
            "doubts": "\n".join(self.doubts),
        }
        coordinates = {"parameter": self.names, "other_parameter": self.names}
        return xr.Dataset(variables, coordinates, attributes)

    def __repr__(self) -> str:
        lines = [
            f"Score around the {_center_word(self.center)}, view: {self.view}, "
            f"derivatives: {self.derivative}",
            self.summary().to_string(float_format=lambda v: f"{v:.5g}"),
            *(f"! {line}" for line in self.doubts),
        ]
        return "\n".join(lines)


def _percent(parameter: Parameter, center: float, displacement: float) -> float:
    if parameter.coordinate == "log":
        with np.errstate(over="ignore"):  # a displacement beyond all measure is infinite
            return float(100 * abs(np.expm1(displacement)))
    return float(100 * abs(displacement) / parameter.unit(center))


def _center_word(center: Center) -> str:
    values = ", ".join(f"{name} = {value:g}" for name, value in center.values.items())
    kind = {"truth": "truth", "delivered": "delivered candidate", "point": "point"}[center.kind]
    return f"{kind} {values}"


def score(
    residual: Residual,
    parameters: Mapping[str, Parameter] | None = None,
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
    parameters : mapping of str to Parameter
    view : View or BoundView
        The residual metric; by default the one that the frozen residual was trained under. A
        view bound to the same points may be shared between calls.
    points : array, shape (N, k)
        The residual points.
    at : {"truth", "delivered"} or mapping of str to float, optional
        The centre. By default the truth where it is known, else the delivered values: the
        displacement then speaks of stability around the candidate, not of error.
    derivative : {"auto", "exact", "difference"}
        Exact derivatives where the residual allows them, else centred differences.
    step : float
        Step of the differences, in log coordinates, or relative in linear ones.
    fresh : int, optional
        Score the field also on this many times as many new points, spread uniformly over the
        points' bounding box; needs a frozen residual with ``residual_at``.
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
    center = Parameters(frozen.parameters).center(at)
    for name, parameter in frozen.parameters.items():
        parameter.unit(center.values[name])  # a centre of zero without a scale is refused here
    metric = bound_view(frozen, view)
    local = linearize(frozen, frozen.coordinates(center.values), derivative, step)
    check_metric_size(metric, local.residual)
    terms = score_terms(local.residual, local.jacobian, metric)
    chosen = view if view is not None else frozen.view
    sample = PointSample(
        sampling_error(local.residual, local.jacobian, terms.displacement, terms.H, metric)
    )
    if fresh is not None:
        sample = on_fresh_points(
            sample,
            frozen,
            chosen,
            fresh,
            seed,
            lambda other, bound: _displacement_score(other, bound, center, derivative, step),
        )
    return Score(
        parameters=dict(frozen.parameters),
        center=center,
        terms=terms,
        curvature=local.weighted_second(metric.apply(local.residual)),
        view=metric.describe(),
        derivative=local.source,
        sample=sample,
    )


def _displacement_score(
    frozen: Any, metric: Any, center: Center, derivative: Derivative, step: float
) -> FloatArray:
    local = linearize(frozen, frozen.coordinates(center.values), derivative, step)
    return score_terms(local.residual, local.jacobian, metric).displacement
