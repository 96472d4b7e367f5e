r"""The evidence map: where in the domain, and in which residual modes, a displacement arises.

A displacement :math:`D = -H^\dagger B` is one number for the whole field. Its score is a sum over
the residual points, :math:`B = \sum_i J_i (M r)_i`, and so is its strength; sums over regions tell
where the contributions come from. How much of the displacement a region *causes* is another
question, as contributions cancel and a region adds strength as well. It is answered by leaving the
region out, exactly. With :math:`X = [J, r]` and :math:`X_R` its rows in region R, all others zero,
the Gram matrix of the rest is

.. math:: (X - X_R)^\top M\,(X - X_R),

the metric's submatrix on the other points; nothing is fitted again, and the view is not bound to
the remaining points anew. It contains :math:`B_{-R}` and :math:`H_{-R}`,

.. math:: B_{-R} = B - J_R^\top (M r)_R - (M J)_R^\top r_R + J_R^\top M_{RR}\,r_R,

and the displacement without the region is :math:`-H_{-R}^\dagger B_{-R}`. Regions are ranked by how
much of the displacement disappears with them: those that cause it come first, those that oppose it
last. The metric acts on the columns :math:`X_R` of many regions at once; it is never formed.

Nuisance parameters are fitted again without each region. Contributions to score and strength of
the other parameters are those with nuisance parameters projected out, as in `twoaxis.score`.
Equations with points of their own have regions of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.diagnosis.actions import Action, Number
from twoaxis.diagnosis.audit import mode_count
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, Points, Residual, as_frozen, bound_view
from twoaxis.geometry import Score
from twoaxis.geometry.derivatives import STEP, Derivative, linearize
from twoaxis.geometry.regions import Regions, regions_of
from twoaxis.geometry.score import NULL_SHARE, least_step, score_from, without_nuisance
from twoaxis.geometry.spectrum import spectrum_from
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Parameters, Unknowns
from twoaxis.progress import progress_bar
from twoaxis.result import (
    CENTER_LAYOUT,
    MESSAGE_LAYOUT,
    PARAMETER_LAYOUT,
    CenteredResult,
    Message,
    message_variables,
    messages_from,
)
from twoaxis.views.view import BoundDiagonal

if TYPE_CHECKING:
    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# Numbers held at once while the metric acts on the columns of many regions.
VALUES_AT_ONCE = 8_000_000
# By default modes are computed up to this many points, or where the view has few.
CHEAP_POINTS = 800
CHEAP_RANK = 256
# Rows of the printed table.
SHOWN = 6
# Shares of a displacement from which on a region carries most or some of it.
MOST, SOME = 0.5, 0.1

ONE = ("region", "parameter")
TWO = ("region", "parameter", "other_parameter")
BY_MODE = ("mode", "parameter")


class EvidenceMap(CenteredResult):
    """Regions of the domain, ranked by how much of the displacement disappears with them.

    The first ones cause the displacement; the last ones oppose it, and without them it would be
    larger. Made by `twoaxis.evidence_map`.

    Attributes
    ----------
    data : xarray.Dataset
        Everything, by region (in the order of the ranking), parameter and mode.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> found = ta.evidence_map(frozen, regions=2, progress=False)
    >>> found.leading().name, round(found.displacement["k"], 3)
    ('x0 2.5 to 5.0', 0.125)
    """

    schema = "evidence-map"
    layouts: ClassVar[Mapping[str, Layout]] = {
        "/": {
            **PARAMETER_LAYOUT,
            **CENTER_LAYOUT,
            "other_parameter": Variable(("other_parameter",), "text", "name of the parameter"),
            "axis": Variable(("axis",), "text", "name of the axis"),
            "displacement": Variable(("parameter",), "float", "displacement D", finite=True),
            "strength": Variable(("parameter",), "float", "strength H", finite=True),
            "region": Variable(("region",), "text", "name of the region"),
            "points_in_region": Variable(("region",), "int", "residual values in the region"),
            "low": Variable(("region", "axis"), "float", "lower end of the region", finite=True),
            "high": Variable(("region", "axis"), "float", "upper end of the region", finite=True),
            "B": Variable(ONE, "float", "contribution J (M r) to the score B", finite=True),
            "B_share": Variable(ONE, "float", "B relative to the sum of absolute contributions"),
            "H": Variable(TWO, "float", "contribution J (M J) to the strength H", finite=True),
            "H_share": Variable(ONE, "float", "share of the strength"),
            "residual_norm": Variable(("region",), "float", "residual norm of the region"),
            "alignment": Variable(ONE, "float", "residual with sensitivity inside the region"),
            "B_without": Variable(ONE, "float", "score B without the region", finite=True),
            "H_without": Variable(TWO, "float", "strength H without the region", finite=True),
            "displacement_without": Variable(ONE, "float", "D without the region", finite=True),
            "change": Variable(ONE, "float", "D without the region minus D"),
            "seen_without": Variable(("region",), "bool", "all directions are still seen"),
            "region_of_point": Variable(("point",), "int", "row of the region of the point"),
            "points": Variable(("point", "axis"), "float", "residual points", finite=True),
            "mode": Variable(("mode",), "int", "residual mode", required=False),
            "mode_eigenvalue": Variable(("mode",), "float", "eigenvalue", required=False),
            "mode_strength": Variable(BY_MODE, "float", "contribution to H", required=False),
            "mode_signed": Variable(BY_MODE, "float", "contribution to B", required=False),
            **MESSAGE_LAYOUT,
        }
    }
    attributes: ClassVar[Mapping[str, Iterable[str]]] = {
        "/": ("view", "centered_on", "cells", "modes_basis", "modes_complete")
    }

    def derived(self) -> dict[str, Any]:
        """Return shares of score and strength, and changes of the displacement."""
        data = self.data
        strength = np.diagonal(data["H"].values, axis1=1, axis2=2)
        score_sizes = np.abs(data["B"].values).sum(axis=0)
        return {
            "B_share": _ratio(data["B"].values, score_sizes),
            "H_share": _ratio(strength, data["strength"].values),
            "change": data["displacement_without"].values - data["displacement"].values,
        }

    @property
    def displacement(self) -> dict[str, float]:
        """Displacement D of the whole field, by parameter."""
        return self.named("displacement")

    @property
    def doubts(self) -> list[Message]:
        """Reasons not to take the numbers at face value."""
        found = messages_from(self.data)
        lost = self.data["region"].values[~self.data["seen_without"].values]
        if lost.size:
            some = "; ".join(map(str, lost[:3])) + ("; ..." if lost.size > 3 else "")
            text = f"without one of these regions a parameter is no longer seen: {some}"
            numbers = {"regions": float(lost.size)}
            found.append(Message("evidence.region_needed", text, "warning", numbers))
        return found

    def leading(self, parameter: str | None = None) -> pd.Series[Any]:
        """Return the row of the region that causes most of the displacement."""
        return self.summary(self._chosen(parameter)).iloc[0]

    def summary(self, parameter: str | None = None) -> pd.DataFrame:
        """Return a row per region, the main cause of the displacement first.

        Parameters
        ----------
        parameter : str, optional
            The regions are ranked for this parameter. Without it the table has the rows of all
            parameters of interest, with their names as the first level of the index where there
            are several.

        Returns
        -------
        pandas.DataFrame
            ``points``; ``B`` and ``H``, the contributions; ``B_share``, relative to the sum of
            absolute contributions, and ``H_share``; ``residual_norm`` and ``alignment`` inside the
            region; ``without``, the displacement without it, and ``change``, that minus D.
        """
        names = self.parameters.of_interest
        if parameter is None and len(names) > 1:
            tables = {name: self.summary(name) for name in names}
            return pd.concat(tables, names=["parameter"])
        name = self._chosen(parameter)
        own = self.data.sel(parameter=name)
        columns: dict[str, Any] = {
            "points": own["points_in_region"].values,
            "B": own["B"].values,
            "B_share": own["B_share"].values,
            "H": own["H"].sel(other_parameter=name).values,
            "H_share": own["H_share"].values,
            "residual_norm": own["residual_norm"].values,
            "alignment": own["alignment"].values,
            "without": own["displacement_without"].values,
            "change": own["change"].values,
        }
        table = pd.DataFrame(columns, index=pd.Index(self.data["region"].values, name="region"))
        return table.iloc[ranking(columns["change"][:, None], np.array([self.displacement[name]]))]

    def modes(self, parameter: str | None = None) -> pd.DataFrame:
        """Return strength, signed contribution and their shares by residual mode.

        The modes are the view's own eigenvectors. A view that weighs every point separately has
        none that are meaningful, and is resolved in those of the Gaussian kernel.
        """
        if "mode_strength" not in self.data:
            raise InputError(
                "an evidence map with modes",
                f"one of {self.data.attrs['view']}, for which they were not computed",
                "pass modes=128 to evidence_map",
            )
        own = self.data.sel(parameter=self._chosen(parameter))
        strength, signed = own["mode_strength"].values, own["mode_signed"].values
        total, size = float(own["strength"]), float(np.abs(signed).sum())
        columns = {
            "eigenvalue": own["mode_eigenvalue"].values,
            "strength": strength,
            "strength_share": strength / total if total > 0 else 0 * strength,
            "signed": signed,
            "signed_share": signed / size if size > 0 else 0 * signed,
        }
        return pd.DataFrame(columns, index=pd.Index(own["mode"].values, name="mode"))

    def actions(self) -> list[Action]:
        """Return where to look at the residual, for the actions of an audit."""
        sentences, numbers = [], []
        for name in self.parameters.of_interest:
            moved, table = self.displacement[name], self.summary(name)
            first, share = table.iloc[0], table["points"].iloc[0] / table["points"].sum()
            where = f"{first.name} ({share:.0%} of the points)"
            becomes = f"D is {first['without']:+.3g} instead of {moved:+.3g}"
            carried = 1 - first["without"] / moved if moved else 0.0
            if carried > MOST:
                sentences.append(
                    f"One region causes most of the displacement of {name}: without {where}, "
                    f"{becomes}."
                )
            elif carried > SOME:
                sentences.append(
                    f"One region causes a part of the displacement of {name}: without {where}, "
                    f"{becomes}."
                )
            else:
                sentences.append(
                    f"No single region causes the displacement of {name}: without the leading one, "
                    f"{where}, {becomes}."
                )
            last = table.iloc[-1]
            if abs(last["without"]) > (1 + SOME) * abs(moved):
                sentences.append(
                    f"The region {last.name} opposes it: without that one D is "
                    f"{last['without']:+.3g}."
                )
            numbers += [
                Number(f"{name}: D without its leading region", float(first["without"])),
                Number(f"{name}: alignment inside that region", float(first["alignment"])),
            ]
        title = "Look at the residual where the displacement arises"
        call = "twoaxis.evidence_map(frozen)"
        return [Action("evidence", title, " ".join(sentences), call, tuple(numbers))]

    def check(self) -> None:
        """Raise `InputError` if shares, changes, regions or points contradict each other."""
        number, data = self.data["region_of_point"].values, self.data
        count = np.bincount(number, minlength=data.sizes["region"])
        if not np.array_equal(count, data["points_in_region"].values):
            raise InputError(
                "as many points in each region as it has", f"{count}", "write the file again"
            )
        super().check()

    def _chosen(self, parameter: str | None) -> str:
        names, of_interest = self.names, self.parameters.of_interest
        if parameter is None and len(of_interest) == 1:
            return of_interest[0]
        if parameter not in names:
            raise InputError(
                f"one of the parameters {', '.join(names)}", f"parameter={parameter!r}", "name one"
            )
        return parameter

    def __repr__(self) -> str:
        view = self.data.attrs["view"]
        blocks = [f"Evidence map of {self.data.sizes['region']} regions, view: {view}"]
        for name in self.parameters.of_interest:
            displacement, table = self.displacement[name], self.summary(name)
            shown = table.head(SHOWN).drop(columns=["B", "H", "points"])
            first = table.iloc[0]
            blocks += [
                f"D of {name} is {displacement:+.4g}; without {first.name} it would be "
                f"{first['without']:+.4g}",
                shown.to_string(float_format=lambda v: f"{v:.3g}"),
            ]
        blocks += [f"! {message.text}" for message in self.doubts]
        return "\n".join(blocks)


def ranking(change: FloatArray, displacement: FloatArray) -> NDArray[np.intp]:
    """Order regions by how much of the displacement (d,) disappears with them; changes are (R, d).

    That is the part of the change that is opposite to the displacement. Where there is no
    displacement, contributions cancel, and the size of the change decides.
    """
    size = float(np.linalg.norm(displacement))
    gone = -change @ displacement / size if size > 0 else np.linalg.norm(change, axis=1)
    return np.argsort(-gone, kind="stable")


# ------------------------------------------------------------------ leaving regions out


@dataclass(frozen=True)
class RegionTerms:
    """What each of R regions holds, and what remains without it; d parameters.

    Attributes
    ----------
    B : array, shape (R, d)
        ``J_R^T (M r)_R``; sums to the score, nuisance parameters projected out.
    H : array, shape (R, d, d)
        ``J_R^T (M J)_R``, made symmetric; sums to the strength, likewise.
    residual_norm : array, shape (R,)
        ``sqrt(r_R^T M_RR r_R)``: what the metric sees of the region's residual by itself.
    alignment : array, shape (R, d)
        Of residual and sensitivity inside the region, under ``M_RR``; zero where one vanishes.
    B_without, H_without : array, shape (R, d) and (R, d, d)
        Score and strength without the region.
    displacement_without : array, shape (R, d)
    seen_without : array of bool, shape (R,)
        Whether every direction that the whole residual sees is still seen.
    """

    B: FloatArray
    H: FloatArray
    residual_norm: FloatArray
    alignment: FloatArray
    B_without: FloatArray
    H_without: FloatArray
    displacement_without: FloatArray
    seen_without: BoolArray


def region_terms(
    residual: FloatArray,
    jacobian: FloatArray,
    metric: Any,
    regions: Regions,
    progress: bool = True,
    nuisance: BoolArray | None = None,
) -> RegionTerms:
    """Take residual (N,) and Jacobian (N, d) apart by region, under a bound view.

    `nuisance`, shape (d,), says which parameters are projected out of the others.
    """
    columns = np.column_stack([jacobian, residual])
    applied = metric.apply(columns)
    inside, without = _grams(columns, applied, metric, regions, progress)
    whole = jacobian.T @ applied[:, :-1]
    hidden = np.zeros(jacobian.shape[1], dtype=bool) if nuisance is None else nuisance
    pulls = np.broadcast_to(applied[:, -1:], jacobian.shape)
    if hidden.any():
        left, jacobian = without_nuisance(residual, jacobian, metric, hidden)
        applied = metric.apply(np.column_stack([jacobian, left]))
        pulls = np.where(hidden, pulls, applied[:, -1:])
    share = regions.sums(jacobian[:, :, None] * applied[:, None, :-1])
    share = (share + share.transpose(0, 2, 1)) / 2
    own = regions.sums(jacobian * pulls)
    strength = np.sqrt(np.maximum(np.diagonal(inside, axis1=1, axis2=2), 0.0))
    size = strength[:, :-1] * strength[:, -1:]
    alignment = np.where(size > 0, inside[:, :-1, -1] / np.where(size > 0, size, 1.0), 0.0)
    displacement, nullity = displacements(without[:, :-1, :-1], without[:, :-1, -1], whole)
    _, unseen = displacements(whole[None], np.zeros((1, len(whole))), whole)
    return RegionTerms(
        B=own,
        H=share,
        residual_norm=strength[:, -1],
        alignment=np.clip(alignment, -1, 1),
        B_without=without[:, :-1, -1],
        H_without=without[:, :-1, :-1],
        displacement_without=displacement,
        seen_without=nullity <= unseen[0],
    )


def _grams(
    columns: FloatArray, applied: FloatArray, metric: Any, regions: Regions, progress: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrices inside each region and without it, each (R, d + 1, d + 1)."""
    size, width = columns.shape
    inside = np.zeros((len(regions), width, width))
    without = np.zeros_like(inside)
    with progress_bar("leaving regions out", len(regions), progress) as advance:
        for chunk in _chunks(len(regions), max(1, VALUES_AT_ONCE // (size * width))):
            member = regions.number[:, None] == np.arange(chunk.start, chunk.stop)
            held = np.where(member[:, :, None], columns[:, None, :], 0.0)
            seen = metric.apply(held.reshape(size, -1)).reshape(held.shape)
            inside[chunk] = np.einsum("nrk,nrl->rkl", held, seen, optimize=True)
            rest = columns[:, None, :] - held
            left = applied[:, None, :] - seen
            without[chunk] = np.einsum("nrk,nrl->rkl", rest, left, optimize=True)
            advance(chunk.stop - chunk.start)
    return tuple((each + each.transpose(0, 2, 1)) / 2 for each in (inside, without))  # type: ignore[return-value]


def _chunks(count: int, most: int) -> Iterator[slice]:
    for start in range(0, count, most):
        yield slice(start, min(start + most, count))


def displacements(
    H: FloatArray, B: FloatArray, whole: FloatArray
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return ``-H^+ B`` of many strengths (R, d, d) and scores (R, d), and what each misses.

    As in `twoaxis.score`, every parameter is taken in units of its own strength before it is
    decided what is seen; here strength below rounding of the *whole* one counts as none.
    """
    diagonal = np.diagonal(H, axis1=1, axis2=2)
    lost = diagonal <= NULL_SHARE * np.maximum(np.diagonal(whole), 0.0)
    kept = np.where(lost[:, :, None] | lost[:, None, :], 0.0, H)
    strength = np.sqrt(np.where(lost, 0.0, diagonal))
    return least_step(kept, np.where(lost, 0.0, B), strength)


# ------------------------------------------------------------------ the function


def evidence_map(
    residual: Residual,
    parameters: Unknowns | None = None,
    view: View | BoundView | None = None,
    *,
    points: Points = None,
    at: str | Mapping[str, float] | None = None,
    regions: Any = None,
    modes: bool | int | None = None,
    derivative: Derivative = "auto",
    step: float = STEP,
    progress: bool = True,
) -> EvidenceMap:
    """Find the regions and residual modes from which the displacement of a field comes.

    Parameters
    ----------
    residual, parameters, view, points, at, derivative, step
        As for `twoaxis.score`.
    regions : int or array of labels, optional
        Number of cells along every axis of the box of the points, 8 by default, for each equation
        where equations have points of their own; or an integer or string for each residual value
        that names its region (for each point, where several equations share their points).
    modes : bool or int, optional
        Resolve score and strength in this many leading modes, too. By default 128 where that is
        cheap: up to 800 points, or a view of low rank.
    progress : bool
        Show a progress bar where it takes long.

    Returns
    -------
    EvidenceMap

    Examples
    --------
    The field is wrong by a bump around x = 0.7, and the displacement arises there:

    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 400)
    >>> bump = 2 * np.exp(-((x - 0.7) / 0.03) ** 2)
    >>> found = evidence_map(
    ...     lambda k: k * np.ones(400) - 1.0 - bump,
    ...     {"k": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))},
    ...     ta.views.Pointwise(), points=x, regions=5,
    ... )
    >>> found.leading().name
    'x0 0.60 to 0.80'
    """
    frozen = as_frozen(residual, parameters, points)
    metric = bound_view(frozen, view)
    places = _places(frozen, metric.size)
    divided = regions_of(
        regions,
        places,
        frozen.axis_names,
        frozen.size or len(places),
        frozen.equation_of(len(places)) if isinstance(frozen.points, tuple) else None,
    )
    count = mode_count(_cheap(metric) if modes is None else modes, metric)
    known = Parameters(frozen.parameters)
    center = known.center(at)
    local = linearize(frozen, known.coordinates(center.values), derivative, step)
    whole = score_from(local, metric, known, center)
    terms = region_terms(local.residual, local.jacobian, metric, divided, progress, known.nuisance)
    values = _values(whole, divided, terms, places, frozen.axis_names)
    attributes = {
        "view": whole.view,
        "centered_on": whole.center.kind,
        "cells": int(divided.cells),
        "modes_basis": "",
        "modes_complete": 0,
    }
    if count:
        found = spectrum_from(
            local, metric, frozen, center, modes=count, smooth=True, keep_points=False
        )
        names = ("eigenvalue", "strength", "signed")
        values |= {"mode": found.data["mode"].values}
        values |= {f"mode_{name}": found.data[name].values for name in names}
        attributes |= {"modes_basis": found.basis, "modes_complete": int(found.complete)}
    return EvidenceMap.from_values(values, attributes)


def _cheap(metric: BoundView) -> bool:
    """Whether modes take less time than the regions."""
    single = any(isinstance(block.view, BoundDiagonal) for block in metric.blocks)
    few = metric.rank <= CHEAP_RANK and not single
    return few or metric.size <= CHEAP_POINTS


def _places(frozen: FrozenResidual, size: int) -> FloatArray:
    """Return where the residual values lie; a view of another length is refused by the score."""
    count = len(frozen.places(0)) if isinstance(frozen.points, tuple) else frozen.size
    return frozen.places(size if size % count == 0 else count)


def _values(
    whole: Score, regions: Regions, terms: RegionTerms, places: FloatArray, axes: list[str]
) -> dict[str, Any]:
    """Return the basic variables; the region that causes most of the displacement comes first."""
    known = whole.parameters
    units = known.percent_units(whole.center.values)
    displacement = np.array([whole.displacement[name] for name in known])
    change = terms.displacement_without - displacement
    kept = ~known.nuisance
    order = ranking((change / units)[:, kept], (displacement / units)[kept])
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    by_region = {
        "region": np.array(regions.names, dtype=object),
        "points_in_region": regions.count,
        "low": regions.low,
        "high": regions.high,
        "B": terms.B,
        "H": terms.H,
        "residual_norm": terms.residual_norm,
        "alignment": terms.alignment,
        "B_without": terms.B_without,
        "H_without": terms.H_without,
        "displacement_without": terms.displacement_without,
        "seen_without": terms.seen_without,
    }
    return {
        **known.variables(),
        "center": [whole.center.values[name] for name in known],
        "other_parameter": known.names,
        "axis": axes,
        "displacement": displacement,
        "strength": np.einsum("rdd->d", terms.H),
        **{name: values[order] for name, values in by_region.items()},
        "region_of_point": rank[regions.number],
        "points": places,
        **message_variables(whole.doubts),
    }


def _ratio(values: FloatArray, total: FloatArray) -> FloatArray:
    """Return shares (R, d) of totals (d,), zero where there is nothing to share."""
    return np.where(total > 0, values / np.where(total > 0, total, 1.0), 0.0)
