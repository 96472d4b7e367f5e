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
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.frozen import Points, Residual, as_frozen, bound_view
from twoaxis.geometry.derivatives import STEP, Derivative, linearize
from twoaxis.geometry.sampling import PointSample, on_fresh_points, sampling_error
from twoaxis.geometry.score_result import Score
from twoaxis.geometry.terms import check_metric_size, score_terms
from twoaxis.parameters import Center, Parameter, center_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]


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
    center = center_of(frozen.parameters, at)
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
            lambda other, bound: _displacement(other, bound, center, derivative, step),
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


def _displacement(
    frozen: Any, metric: Any, center: Center, derivative: Derivative, step: float
) -> FloatArray:
    local = linearize(frozen, frozen.coordinates(center.values), derivative, step)
    return score_terms(local.residual, local.jacobian, metric).displacement
