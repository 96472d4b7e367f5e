r"""The frozen scan: the profile of a frozen field over the bounds, not its value at one point.

The profile :math:`\phi(q) = r(q)^\top M\,r(q)` is evaluated over the bounds with the field
held. It is a slice through the training objective, never a profile likelihood: nothing is
fitted again. The scan tests the local displacement, finds minima elsewhere, and says when
there is none inside the bounds.

Nuisance parameters belong to the search: the minimum is one over all parameters. Along a parameter
the profile is shown with the other parameters of interest at the center, and with the nuisance
parameters, which the field leaves free too, at their own minimum.

`twoaxis.geometry.minima` searches the profile.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import AccuracyWarning, InputError
from twoaxis.frozen import (
    FrozenResidual,
    Points,
    Residual,
    as_frozen,
    bound_view,
    check_magnitude,
    check_repeatable,
)
from twoaxis.geometry.affine import affine_in_bounds, affine_profile
from twoaxis.geometry.derivatives import Linearization
from twoaxis.geometry.minima import PROFILE_TOLERANCE, Found, Profile, find_minima
from twoaxis.geometry.score import check_metric_size, score_terms, terms_of
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Center, Parameters, Unknowns
from twoaxis.result import (
    CENTER_LAYOUT,
    PARAMETER_LAYOUT,
    CenteredResult,
    interest_first,
    require,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.geometry.function import FunctionPreference
    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

# Each candidate costs a residual.
MOST_CANDIDATES, MOST_STARTS = 100_000, 10_000
INTERIOR = "interior"
FLAT_STATUS = "flat: the residual does not depend on the parameter, so there is no minimum"


# ---------------------------------------------------------------- the labelled result

_SLICE = ("parameter", "candidate")
LAYOUT: Layout = {
    **PARAMETER_LAYOUT,
    **CENTER_LAYOUT,
    "candidate_value": Variable(_SLICE, "float", "candidate values of the scan", finite=True),
    "profile": Variable(
        _SLICE,
        "float",
        "frozen profile r^T M r, others at the center, nuisance parameters at their minimum",
        finite=True,
    ),
    "quadratic_model": Variable(
        _SLICE, "float", "linearized model of the profile at the center", required=False
    ),
    "profile_at_center": Variable((), "float", "frozen profile at the center", finite=True),
    "grid_minimum": Variable(("parameter",), "float", "global minimum on the grid; NaN: none"),
    "minimum": Variable(("parameter",), "float", "lowest minimum that was found; NaN: none"),
    "displacement": Variable(
        ("parameter",), "float", "coordinate of the refined minimum minus center; NaN: none"
    ),
    "local_minimum": Variable(
        ("local", "parameter"), "float", "all minima that were found, lowest first", finite=True
    ),
    "local_profile": Variable(("local",), "float", "frozen profile at the minima", finite=True),
    "local_status": Variable(("local",), "text", '"interior", or on which bound it lies'),
    "local_holds_center": Variable(
        ("local",), "bool", "whether the basin of the minimum holds the center"
    ),
}


@final
class FrozenScan(CenteredResult):
    """The profile of a frozen field over the bounds, and its minima.

    Made by `twoaxis.frozen_scan`. Figures of the study use the grid minimum; `minimum` is the
    continuously refined one.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> found = ta.frozen_scan(frozen)
    >>> round(found.minimum["k"], 6), found.status, found.affine
    (0.9, 'interior', True)
    """

    schema = "frozen-scan"
    layouts = {"/": LAYOUT}  # noqa: RUF012
    attributes = {  # noqa: RUF012
        "/": (
            "view",
            "centered_on",
            "status",
            "affine",
            "affine_checked",
            "affine_deviation",
            "start_spread",
            "undersampled",
        )
    }

    def derived(self) -> dict[str, Any]:
        """Return what follows from the local minima: the global one and where each lies."""
        parameters, minima = self.parameters, self.data["local_minimum"].values
        lowest = np.full(len(parameters), np.nan) if self.flat else minima[0]
        return {
            "minimum": lowest,
            "displacement": self._displaced(lowest),
            "local_status": np.array(
                [bound_status(parameters, row) for row in minima], dtype=object
            ),
        }

    def check(self) -> None:
        """Raise `InputError` unless candidates, profile and minima fit the bounds."""
        data, parameters = self.data, self.parameters
        low, high = (data[name].values for name in ("lower_bound", "upper_bound"))
        candidates, minima = data["candidate_value"].values, data["local_minimum"].values
        room = 1e-9 * (high - low)
        values, flat = data["local_profile"].values, not len(minima)
        inside = [
            (rows >= low - room).all() and (rows <= high + room).all()
            for rows in (candidates.T, minima)
        ]
        grid = data["grid_minimum"].values
        lowest = min(float(data["profile"].min()), float(data["profile_at_center"]))
        consistent = {
            "candidates in ascending order inside the bounds": inside[0]
            and (np.diff(candidates, axis=1) >= 0).all(),
            "a profile that is not negative": (data["profile"].values >= 0).all()
            and (values >= 0).all()
            and float(data["profile_at_center"]) >= 0,
            "minima inside the bounds, lowest first": inside[1] and (np.diff(values) >= 0).all(),
            "minima that are not above the profile": flat
            or values[0] <= lowest + PROFILE_TOLERANCE * float(data["profile"].max()),
            "one minimum whose basin holds the center": flat
            or data["local_holds_center"].values.sum() >= 1,
            "a grid minimum inside the bounds": np.isnan(grid).all()
            if flat
            else ((grid >= low - room) & (grid <= high + room)).all(),
            "the status of the lowest minimum": data.attrs["status"]
            == (FLAT_STATUS if flat else bound_status(parameters, minima[0])),
            "affine as 0 or 1, and numbers that are not negative": data.attrs["affine"] in (0, 1)
            and data.attrs["affine_checked"] >= 0
            and data.attrs["affine_deviation"] >= 0
            and data.attrs["start_spread"] >= 0
            and data.attrs["undersampled"] >= 0,
        }
        require(consistent)
        super().check()

    def _displaced(self, minimum: FloatArray) -> FloatArray:
        """Coordinates of physical values (d,) minus those of the center."""
        center = self.center.values
        found = []
        for (name, p), value in zip(self.parameters.items(), minimum, strict=True):
            here = float(p.to_coordinate(center[name]))
            moved = float(p.to_coordinate(value)) - here
            # A minimum at the center itself has no direction, whatever rounding makes of it.
            found.append(0.0 if abs(moved) <= 1e-14 * max(1.0, abs(here)) else moved)
        return np.array(found)

    @property
    def view(self) -> str:
        """The view, in words."""
        return str(self.data.attrs["view"])

    @property
    def status(self) -> str:
        """Whether the minimum is "interior", on which bound it lies, or that there is none."""
        return str(self.data.attrs["status"])

    @property
    def flat(self) -> bool:
        """Whether the profile is the same everywhere, so that there is no minimum."""
        return not self.data.sizes["local"]

    @property
    def cut_off(self) -> bool:
        """Whether the bounds decide: the minimum lies on one of them, or there is none."""
        return self.status != INTERIOR

    @property
    def affine(self) -> bool:
        """Whether the residual is affine in the physical parameters, wherever it was checked.

        All of the profile is then exact; `affine_checked` says what was checked.
        """
        return bool(self.data.attrs["affine"])

    @property
    def affine_checked(self) -> int:
        """Number of parameter values at which the residual was compared with an affine form.

        Over the bounds, and, where it is affine there, at the minima that are reported, at the
        candidates beside the lowest of them and at random values. The comparison ends where it
        fails. Another regime that is narrower than the distances between these values, and holds
        no minimum of the affine form, is not seen.
        """
        return int(self.data.attrs["affine_checked"])

    @property
    def affine_deviation(self) -> float:
        """Largest relative deviation found there."""
        return float(self.data.attrs["affine_deviation"])

    @property
    def start_spread(self) -> float:
        """Largest distance, in coordinates, between starts that reached the global minimum.

        Zero for one parameter.
        """
        return float(self.data.attrs["start_spread"])

    @property
    def undersampled(self) -> int:
        """Number of intervals between candidates in which a deeper minimum may lie unseen.

        With one parameter the scan also looks between candidates where the derivatives of the
        residual say that it can be lower there. It counts those that were too many; with several,
        all along each parameter through the lowest minimum. More `candidates` or narrower bounds
        help.
        """
        return int(self.data.attrs["undersampled"])

    @property
    def doubt(self) -> str:
        """Why the lowest minimum that was found may not be the lowest one; empty: no reason."""
        if not self.undersampled:
            return ""
        return (
            f"the residual changes too fast for the {self.data.sizes['candidate']} candidates of "
            f"the scan: in {self.undersampled} intervals a deeper minimum may lie between them"
        )

    @property
    def slices(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Candidate values of each parameter and the profile with the others at the center.

        Nuisance parameters are at their minimum for every candidate.
        """
        candidates, profile = self.data["candidate_value"].values, self.data["profile"].values
        return {name: (candidates[j], profile[j]) for j, name in enumerate(self.names)}

    @property
    def minimum(self) -> dict[str, float] | None:
        """Physical values at the lowest minimum that was found; None when the profile is flat."""
        return None if self.flat else self.named("minimum")

    @property
    def grid_minimum(self) -> dict[str, float] | None:
        """Physical values at the lowest grid point; None when the profile is flat."""
        return None if self.flat else self.named("grid_minimum")

    @property
    def displacement(self) -> dict[str, float] | None:
        """Coordinate of the refined minimum minus that of the center."""
        return None if self.flat else self.named("displacement")

    @property
    def grid_displacement(self) -> dict[str, float] | None:
        """The same for the grid minimum; exactly zero counts as no direction."""
        if self.flat:
            return None
        return self.parameters.named(self._displaced(self.data["grid_minimum"].values))

    @property
    def local_minima(self) -> pd.DataFrame:
        """All minima that were found, lowest first.

        Columns: the parameters, nuisance parameters last, the profile, the status of each, and
        whether its basin holds the center.
        """
        data = self.data
        columns = dict(zip(self.names, data["local_minimum"].values.T, strict=True))
        names = sorted(self.names, key=lambda name: self.parameters[name].nuisance)
        table: dict[str, Any] = {name: columns[name] for name in names}
        table["profile"] = data["local_profile"].values
        table["status"] = [str(each) for each in data["local_status"].values]
        table["holds_center"] = data["local_holds_center"].values
        return pd.DataFrame(table)

    @property
    def basin_minimum(self) -> dict[str, float] | None:
        """The minimum of the basin that holds the center."""
        holds = np.flatnonzero(self.data["local_holds_center"].values)
        if not holds.size:
            return None
        return self.parameters.named(self.data["local_minimum"].values[holds[0]])

    @cached_property
    def error_percent(self) -> dict[str, float] | None:
        """Unsigned distance of the refined minimum from the center, in percent."""
        if self.flat:
            return None
        parameters = self.parameters
        minimum = self.data["minimum"].values
        return parameters.named(np.abs(parameters.percent(minimum, self.center.values)))

    def function(self, name: str | None = None) -> FunctionPreference:
        """Return the minimum in an unknown function as a curve.

        Parameters
        ----------
        name : str, optional
            Needed when there are several functions.
        """
        # At call time: it builds upon this module.
        from twoaxis.geometry.function import function_preference

        return function_preference(self, name)

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter: the center and the minimum.

        Nuisance parameters come last.
        """
        columns = ("center", "minimum", "displacement", "grid_minimum")
        table: dict[str, Any] = {name: self.data[name].values for name in columns}
        table["status"] = self.status
        return interest_first(table, self.parameters)

    def __repr__(self) -> str:
        checked = f"exact, residual affine at the {self.affine_checked} values checked"
        how = checked if self.affine else "refined"
        lines = [
            f"Frozen scan around the {self.center_words}, view: {self.view}; "
            f"minimum ({how}): {self.status}"
        ]
        if not self.flat:
            hidden = [name for name, parameter in self.parameters.items() if parameter.nuisance]
            table = self.local_minima.drop(columns=hidden)
            lines.append(table.to_string(float_format=lambda v: f"{v:.6g}"))
        if self.doubt:
            lines.append(f"warning: {self.doubt}")
        return "\n".join(lines)


def bound_status(parameters: Parameters, values: FloatArray) -> str:
    """Say whether physical values lie inside the bounds, or on which of them."""
    for (name, parameter), value in zip(parameters.items(), values, strict=True):
        side = parameter.bound_at(value)
        if side:
            return f"on the {side} bound of {name}"
    return INTERIOR


# ---------------------------------------------------------------- the calls


def check_candidates(candidates: Any) -> None:
    """Refuse a number of candidates that makes no profile, or one that no memory holds."""
    if not is_integer(candidates) or not 3 <= candidates <= MOST_CANDIDATES:
        raise InputError(
            f"from 3 to {MOST_CANDIDATES} candidates", f"candidates={candidates!r}", "pass 81"
        )


def frozen_scan(
    residual: Residual,
    parameters: Unknowns | None = None,
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
        Candidates along a parameter, evenly spaced in its coordinate. With one parameter the scan
        also looks between them where derivatives of the residual say that it can be lower there,
        and an `AccuracyWarning` says where that would take too long. With two parameters the grid
        has this many along each; with more, fewer, so that it stays affordable, and a warning says
        where the residual changes too fast for it.
    starts : int
        With several parameters: how many of the lowest grid points are refined by bounded
        nonlinear least squares, beside the center.

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
    frozen = as_frozen(residual, parameters, points)
    center = Parameters(frozen.parameters).center(at)
    found = scan_from(frozen, bound_view(frozen, view), center, candidates, starts)
    if found.doubt:
        words = f"{found.doubt}; pass more candidates, or narrower bounds"
        warnings.warn(AccuracyWarning(words), stacklevel=2)
    return found


def scan_from(
    frozen: FrozenResidual,
    metric: Any,
    center: Center,
    candidates: int = 81,
    starts: int = 5,
    local: Linearization | None = None,
    places: int | None = None,
) -> FrozenScan:
    """Scan the profile of a frozen residual under a bound view.

    Parameters
    ----------
    frozen : FrozenResidual
    metric : BoundView
    center : Center
    candidates, starts : int
        As for `frozen_scan`.
    local : Linearization, optional
        Of the residual at the center, where it is known already. The scan then holds the
        quadratic model of the profile, too.
    places : int, optional
        The most places of the grid over several parameters, where each costs a residual.
    """
    check_candidates(candidates)
    if not is_integer(starts) or not 0 <= starts <= MOST_STARTS:
        raise InputError(
            f"starts as an integer from 0 to {MOST_STARTS}", f"starts={starts!r}", "pass starts=5"
        )
    q = frozen.coordinates(center.values)
    if local is None:
        values = frozen.physical(q)
        output = frozen.raw(values)
        at_center = frozen.checked(output, values)
        check_metric_size(metric, at_center)
        check_repeatable(frozen, output, at_center, values)
    else:
        at_center = local.residual
        check_metric_size(metric, at_center)
    test = affine_in_bounds(frozen, q, at_center)
    check_magnitude(test.largest, "residual")
    exact = None if test.form is None else affine_profile(test.form, metric)
    profile = Profile(frozen, metric, q, exact, local)
    found = find_minima(profile, candidates, starts, places)
    checked, deviation = test.checked, test.deviation
    if test.form is not None:
        count, off, agrees = profile.checked_directly(found, test.form)
        checked, deviation = checked + count, max(deviation, off)
        if not agrees:  # another regime, which the test did not meet
            profile = replace(profile, exact=None)
            found = find_minima(profile, candidates, starts, places)
    return _labelled(
        profile, found, center, float(metric.quadratic(at_center, at_center)), checked, deviation
    )


def _labelled(
    profile: Profile,
    found: Found,
    center: Center,
    at_center: float,
    checked: int,
    deviation: float,
) -> FrozenScan:
    frozen, known = profile.frozen, Parameters(profile.frozen.parameters)

    def physical(q: FloatArray) -> list[float]:
        return list(frozen.physical(q).values())

    minima = np.array([physical(q) for q, _, _ in found.minima]).reshape(-1, len(known))
    grid = found.grid_minimum
    values = {
        **known.variables(),
        "center": [center.values[name] for name in known],
        "candidate_value": found.candidates,
        "profile": found.profile,
        "profile_at_center": at_center,
        "grid_minimum": np.full(len(known), np.nan) if grid is None else physical(grid),
        "local_minimum": minima,
        "local_profile": np.array([value for _, value, _ in found.minima]),
        "local_holds_center": np.array([holds for _, _, holds in found.minima], dtype=bool),
    }
    if profile.local is not None:
        local = profile.local
        terms = score_terms(local.residual, local.jacobian, profile.metric)
        model = np.empty(found.profile.shape)
        for j, (parameter, row) in enumerate(zip(known.values(), found.candidates, strict=True)):
            step = parameter.to_coordinate(row) - profile.q[j]
            free = profile.free_along(j)
            own = terms_of(terms.B, terms.H, terms.residual_norm, free)
            strength = np.diag(own.strength)[int((~free[:j]).sum())]
            absorbed = own.residual_norm**2 - own.remaining_norm**2
            model[j] = at_center - absorbed + 2 * own.score[j] * step + strength * step**2
        values["quadratic_model"] = model
    about = {
        "view": profile.metric.describe(),
        "centered_on": center.kind,
        "status": FLAT_STATUS if not len(minima) else bound_status(known, minima[0]),
        "affine": int(profile.exact is not None),
        "affine_checked": checked,
        "affine_deviation": deviation,
        "start_spread": found.spread,
        "undersampled": found.undersampled,
    }
    return FrozenScan.from_values(values, about)
