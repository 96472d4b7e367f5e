r"""The frozen scan: the whole profile of a frozen field, not its value at one point.

The profile :math:`\phi(q) = r(q)^\top M\,r(q)` is evaluated over the bounds with the field
held. It is a slice through the training objective, never a profile likelihood: nothing is
fitted again. The scan tests the local displacement, finds minima elsewhere, and says when
there is none inside the bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from twoaxis.errors import InputError
from twoaxis.frozen import (
    Points,
    Residual,
    as_frozen,
    bound_view,
    check_magnitude,
    check_repeatable,
)
from twoaxis.geometry.affine import affine_in_bounds, affine_profile
from twoaxis.geometry.profile import PROFILE_TOLERANCE, Profile
from twoaxis.geometry.scan_one import OneParameterScan
from twoaxis.geometry.scan_result import FrozenScan
from twoaxis.geometry.scan_several import SeveralParameterScan
from twoaxis.geometry.terms import check_metric_size
from twoaxis.parameters import Parameter, center_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.views import BoundView, View


def frozen_scan(
    residual: Residual,
    parameters: Mapping[str, Parameter] | None = None,
    view: View | BoundView | None = None,
    *,
    points: Points = None,
    candidates: int = 81,
    at: str | Mapping[str, float] | None = None,
    starts: int = 5,
) -> FrozenScan:
    """Scan the residual profile of a frozen field over the bounds of its parameters.

    Parameters
    ----------
    residual, parameters, view, points, at
        As for `twoaxis.score`.
    candidates : int
        Candidates along a parameter, evenly spaced in its coordinate. With two parameters
        the grid has this many along each; with more, fewer, so that it stays affordable.
    starts : int
        With several parameters: how many of the lowest grid points are refined by bounded
        nonlinear least squares, beside the centre.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 50)
    >>> scan = ta.frozen_scan(
    ...     lambda k: k * np.ones(50) - 1.1 - 0.01 * np.cos(9 * x),
    ...     {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))},
    ...     ta.views.Pointwise(), points=x,
    ... )
    >>> scan.status, round(scan.minimum["k"], 3)
    ('interior', 1.1)
    """
    if not isinstance(candidates, (int, np.integer)) or candidates < 3:
        raise InputError("at least 3 candidates", f"candidates={candidates!r}", "pass 81")
    if not isinstance(starts, (int, np.integer)) or starts < 0:
        raise InputError(
            "starts as a whole number from 0 upwards", f"starts={starts!r}", "pass starts=5"
        )
    frozen = as_frozen(residual, parameters, points)
    center = center_of(frozen.parameters, at)
    metric = bound_view(frozen, view)
    q = frozen.coordinates(center.values)
    values = frozen.physical(q)
    output = frozen.raw(values)
    at_center = frozen.checked(output, values)
    check_metric_size(metric, at_center)
    check_repeatable(frozen, output, at_center, values)
    test = affine_in_bounds(frozen, q, at_center)
    check_magnitude(test.largest, "residual")
    exact = None if test.form is None else affine_profile(test.form, metric)
    profile = Profile(frozen, metric, center, q, exact, metric.describe())
    found = _scanned(profile, candidates, starts)
    checked, deviation = test.checked, test.deviation
    if exact is not None:
        count, off = profile.checked_directly(found)
        checked, deviation = checked + count, max(deviation, off)
        if off > PROFILE_TOLERANCE:  # another regime, which the test did not meet
            found = _scanned(replace(profile, exact=None), candidates, starts)
    return replace(found, affine_checked=checked, affine_deviation=deviation)


def _scanned(profile: Profile, candidates: int, starts: int) -> FrozenScan:
    if len(profile.q) == 1:
        return OneParameterScan(profile).run(candidates)
    return SeveralParameterScan(profile).run(candidates, starts)
