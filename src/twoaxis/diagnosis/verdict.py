"""From measurements to verdicts: each parameter and each eigen-direction gets its coordinates.

`judge` reads the parts of an audit (score, scan, delivery, resolution, tolerance), asks the
questions that come first (`twoaxis.diagnosis.questions`), places every parameter and every
eigen-direction of the strength on the decision map, and returns the group ``/verdict``. It needs
nothing but the parts, so a loaded audit is judged again and compared.

One displacement leads: the exact one, from the center to the minimum of the frozen scan. The local
D = -B/H is the diagnostic beside it. Where the two conflict the scan decides, and where it has two
basins of nearly the same depth, nothing does.

Nuisance parameters have no place on the map: the strength and the displacement of the others are
those with nuisance parameters projected out.

Coupled parameters are assessed along the eigen-directions of the strength, with every
parameter in units of 100% (`Parameter.percent_unit`): a step of 0.05 along a direction is a change
of 5%, whatever the units of the parameters. In log coordinates they are the coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.diagnosis.decision_map import Measured, Tolerance, Verdict, decide
from twoaxis.diagnosis.questions import Question
from twoaxis.geometry import FrozenScan, Score
from twoaxis.geometry.score import direction_status
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twoaxis.diagnosis.result import Audit

FloatArray = NDArray[np.float64]

# Two basins are equally deep when the objective differs by less than this share of itself.
BASIN_RTOL = 0.01
# ... or by less than this share of the highest value of the profile, which is rounding.
ZERO_DEPTH = 1e-9
# ... and apart when they differ by more than this, in percent of the center.
BASINS_APART = 5.0
UNDELIVERED = "no delivered value: delivery cannot be assessed"

_P, _D = ("parameter",), ("direction",)
LAYOUT: Layout = {
    "parameter": Variable(_P, "text", "name of the parameter"),
    "route": Variable(_P, "text", "what to do next about the parameter"),
    "reason": Variable(_P, "text", "measurements that the route rests on"),
    "preference_percent": Variable(
        _P,
        "float",
        "field displacement: distance of the frozen scan minimum from the center; NaN: not "
        "determined",
        "%",
    ),
    "local_percent": Variable(
        _P, "float", "size of the local displacement D; NaN: not determined", "%"
    ),
    "delivered_percent": Variable(_P, "float", "delivered error; NaN: not known", "%"),
    "resolution_percent": Variable(
        _P, "float", "matched deviation under repeated noise, mean or p90; NaN: not known", "%"
    ),
    "gap_percent": Variable(
        _P, "float", "delivered value relative to the preferred one, signed; NaN: not known", "%"
    ),
    "training_preference_percent": Variable(
        _P, "float", "field displacement under the training view; NaN: the same view", "%"
    ),
    "direction": Variable(_D, "int", "number of the eigen-direction, weakest first"),
    "direction_vector": Variable(
        ("direction", "parameter"), "float", "direction in units of 100% of each parameter"
    ),
    "direction_strength": Variable(_D, "float", "strength along the direction"),
    "direction_status": Variable(_D, "text", '"seen", "weak" or "null"'),
    "direction_displacement": Variable(
        _D, "float", "field displacement along the direction, in units of 100%"
    ),
    "direction_preference_percent": Variable(
        _D, "float", "size of that displacement; NaN: not determined", "%"
    ),
    "direction_delivered_percent": Variable(
        _D, "float", "delivered error along the direction; NaN: not known", "%"
    ),
    "direction_resolution_percent": Variable(
        _D, "float", "matched deviation along the direction; NaN: not known", "%"
    ),
    "direction_route": Variable(_D, "text", "what to do next about the direction"),
    "direction_reason": Variable(_D, "text", "measurements that this route rests on"),
}


@dataclass(frozen=True, eq=False)
class Reading:
    """Score and scan of one frozen field under one view, and what prevents their use.

    Attributes
    ----------
    score : Score
    scan : FrozenScan
    """

    score: Score
    scan: FrozenScan

    def obstacle(self, name: str) -> str:
        """Say why the displacement of a parameter is not determined; empty when it is."""
        if name in self.score.unseen:
            if self.score.data["null"].values.all():
                return f"H = 0: the residual does not see {name}"
            return f"H is singular: the residual does not see a direction that contains {name}"
        return self.bound_obstacle or self.basin_obstacle

    @cached_property
    def basin_obstacle(self) -> str:
        """Say that two basins apart are about equally deep; empty where one is the deepest."""
        basins, parameters = self.scan.local_minima, self.scan.parameters
        if len(basins) < 2:
            return ""
        depth = basins["profile"].to_numpy()
        places = basins[parameters.names].to_numpy()
        apart = np.abs(
            parameters.percent(places, self.scan.center.values)
            - parameters.percent(places[0], self.scan.center.values)
        ).max(axis=1)
        highest = max(float(np.max(profile)) for _, profile in self.scan.slices.values())
        same = BASIN_RTOL * np.abs(depth) + ZERO_DEPTH * highest
        rivals = (apart > BASINS_APART) & (depth - depth[0] <= same)
        return "the frozen profile has two minima of nearly the same depth" if rivals.any() else ""

    @cached_property
    def bound_obstacle(self) -> str:
        """Say on which bound the scan minimum lies; empty when it is interior."""
        minimum = self.scan.minimum
        if minimum is None:
            return "the frozen profile is flat and has no minimum"
        for name, parameter in self.scan.parameters.items():
            side = parameter.bound_at(minimum[name])
            if side and name not in self.score.unseen:
                return f"the minimum of the frozen profile lies on the {side} bound of {name}"
        return ""

    @property
    def minimum(self) -> dict[str, float] | None:
        """The scan minimum, NaN for unseen parameters; None where the profile is flat."""
        found = self.scan.minimum
        if found is None:
            return None
        return {n: np.nan if n in self.score.unseen else v for n, v in found.items()}

    @property
    def preferred(self) -> dict[str, float | None] | None:
        """The scan minimum, None for unseen parameters; no mapping where a bound cut it off."""
        found = None if self.bound_obstacle else self.minimum
        if found is None:
            return None
        return {name: None if np.isnan(value) else value for name, value in found.items()}

    def preference(self, name: str) -> float | None:
        """Field displacement of a parameter in percent; None where it is not determined."""
        scanned = self.scan.error_percent
        return None if scanned is None or self.obstacle(name) else scanned[name]

    def local(self, name: str) -> float | None:
        """Size of the local displacement D in percent; None where it is not determined."""
        return None if name in self.score.unseen else self.score.delta_percent[name]

    @property
    def displacement(self) -> FloatArray:
        """The field displacement in coordinates, shape (d,); NaN where there is no minimum."""
        moved = self.scan.displacement
        if moved is None:
            return np.full(len(self.score.names), np.nan)
        return np.array([moved[name] for name in self.score.names])


@dataclass(frozen=True, eq=False)
class Directions:
    """Orthogonal eigen-directions of the strength of d parameters of interest, weakest first.

    Attributes
    ----------
    parameters : Parameters
        Those of interest.
    vectors : array, shape (d, d)
        A row for each, in units of 100%; the largest share is positive.
    strength : array, shape (d,)
    status : list of str
        "null", "weak" or "seen" (`twoaxis.geometry.score.direction_status`).
    displacement : array, shape (d,)
        The field displacement along each.
    units : array, shape (d,)
        Step in each coordinate that stands for 100%.
    logarithmic : bool
        Whether all coordinates are logarithms.
    """

    parameters: Parameters
    vectors: FloatArray
    strength: FloatArray
    status: list[str]
    displacement: FloatArray
    units: FloatArray
    logarithmic: bool

    @classmethod
    def of(cls, score: Score, stored: FloatArray | None = None) -> Directions:
        """Return the eigen-directions of a score's strength, in units of 100%.

        Directions of equal strength can be turned. `stored` ones, shape (d, d), are used where
        they are eigen-directions too, so that an audit from another machine is judged alike.
        """
        kept, data = ~score.parameters.nuisance, score.data
        units = score.parameters.percent_units(score.center.values)[kept]
        strength = data["strength"].values[np.ix_(kept, kept)] * np.outer(units, units)
        values, vectors = np.linalg.eigh(strength)
        rows = vectors.T
        largest = np.argmax(np.abs(rows), axis=1)
        rows = rows * np.sign(rows[np.arange(len(rows)), largest])[:, None]
        if stored is not None and stored.shape == rows.shape:
            size = 1e-9 * float(np.abs(values).max())
            apart = stored @ strength @ stored.T - np.diag(values)
            square = stored @ stored.T - np.eye(len(rows))
            if np.abs(square).max() < 1e-9 and np.abs(apart).max() <= size:
                rows = stored
        # Which directions are seen does not depend on the units: their number is the score's.
        status = direction_status(values, np.arange(len(values)) < data["null"].values.sum())
        return cls(
            parameters=Parameters(
                {name: score.parameters[name] for name in score.parameters.of_interest}
            ),
            vectors=rows,
            strength=np.maximum(values, 0.0),
            status=status,
            displacement=rows @ (data["displacement"].values[kept] / units),
            units=units,
            logarithmic=all(
                score.parameters[n].coordinate == "log" for n in score.parameters.of_interest
            ),
        )

    def along(self, displacement: FloatArray) -> FloatArray:
        """Components of displacements (..., d), given in coordinates."""
        return np.asarray((displacement / self.units) @ self.vectors.T)

    def percent(self, along: FloatArray) -> FloatArray:
        """Unsigned size of components in percent, as for a parameter."""
        with np.errstate(over="ignore"):
            return np.asarray(100 * np.abs(np.expm1(along) if self.logarithmic else along))

    def in_words(self, k: int) -> str:
        """Return a direction as ``+0.71 nu -0.71 kappa``."""
        return self.parameters.direction_words(self.vectors[k])


def judge(audit: Audit, stored: FloatArray | None = None) -> dict[str, Any]:
    """Return the variables of ``/verdict``, from the other parts of an audit alone.

    `stored` are eigen-directions that were found before (see `Directions.of`).
    """
    names = audit.names
    measured = measure(audit)
    verdicts = decide_all(audit, measured)
    delivery, training = audit.delivery, audit.training
    return {
        "parameter": names,
        "route": [v.route.value for v in verdicts.values()],
        "reason": [v.reason for v in verdicts.values()],
        "preference_percent": [_number(m.preference) for m in measured.values()],
        "local_percent": [_number(audit.audited.local(n)) for n in names],
        "delivered_percent": [_number(m.delivered) for m in measured.values()],
        "resolution_percent": [_number(m.resolution) for m in measured.values()],
        "gap_percent": [np.nan if delivery is None else delivery.gap_percent[n] for n in names],
        "training_preference_percent": [
            _number(training.preference(n)) if audit.cross_view else np.nan for n in names
        ],
        **_of_directions(audit, stored),
    }


def measure(audit: Audit) -> dict[str, Measured]:
    """Return what is measured of each parameter, which no tolerance changes."""
    return {name: _of_parameter(audit, name) for name in audit.names}


def decide_all(audit: Audit, measured: Mapping[str, Measured]) -> dict[str, Verdict]:
    """Return the verdict of each parameter, at the tolerances of an audit."""
    questions, tolerance, found = audit.questions, audit.tolerance, {}
    (asked,) = [q for q in questions if q.code == "contradiction"]
    matched, known = audit.group("/matched"), audit.parameters
    off = {} if matched is None else known.named(matched["difference_percent"].values)
    for name, one in measured.items():
        against = _against_data(name, off.get(name, np.nan), asked, tolerance)
        verdict = decide(replace(one, **against), tolerance)
        found[name] = first_answer(questions, name, verdict, audit.around_truth)
    return found


def first_answer(
    questions: list[Question], name: str, verdict: Verdict, around_truth: bool
) -> Verdict:
    """Return where the first bad answer leads; the verdict of the map where there is none.

    Around a truth the map always speaks: it knows what is wrong.
    """
    if around_truth:
        return verdict
    for question in questions:
        if question.route is not None and question.concerns(name):
            return Verdict(question.route, question.reason)
    return verdict


def _of_parameter(audit: Audit, name: str) -> Measured:
    training, audited = audit.training, audit.audited
    shift, obstacle = training.preference(name), training.obstacle(name)
    if audit.reads_gap and audit.delivery is not None and not obstacle:
        shift = abs(audit.delivery.gap_percent[name])
    elif audit.undelivered and not obstacle:
        shift, obstacle = None, UNDELIVERED
    return Measured(
        around="truth" if audit.around_truth else "candidate",
        preference=audited.preference(name),
        obstacle=audited.obstacle(name),
        delivered=_delivered_percent(audit, name),
        resolution=None if audit.resolution is None else _statistic(audit, _deviation(audit, name)),
        training_preference=shift,
        training_obstacle=obstacle,
        cross_view=audit.cross_view,
    )


def _against_data(
    name: str, off: float, asked: Question, tolerance: Tolerance | None
) -> dict[str, Any]:
    """Say whether the data agree with a value that is `off` percent away, or nearly do."""
    if asked.answer != "yes" and asked.concerns(name):
        return {}
    if asked.measured <= asked.limit or tolerance is None:
        return {"agrees": True}
    # Other values are the contradicted ones: this one is close, or inside of its interval.
    return {"tolerated" if abs(off) <= tolerance.material else "agrees": True}


def _delivered_percent(audit: Audit, name: str) -> float | None:
    """Error of a delivered value; None around a candidate."""
    delivered = audit.parameters.delivered
    if delivered is None or not audit.around_truth:
        return None
    parameter = audit.parameters[name]
    return float(abs(parameter.percent(delivered[name], audit.center.values[name])))


def _deviation(audit: Audit, name: str) -> FloatArray:
    """Matched deviations of the layouts that count, in percent."""
    return np.asarray(audit.used_layouts["deviation_percent"].sel(parameter=name).values)


def _statistic(audit: Audit, values: FloatArray) -> float:
    tolerance = audit.tolerance
    if tolerance is None or tolerance.statistic == "mean":
        return float(values.mean())
    return float(np.quantile(values, 0.9))


def _of_directions(audit: Audit, stored: FloatArray | None) -> dict[str, Any]:
    found = Directions.of(audit.score, stored)
    moved = found.along(audit.audited.displacement[~audit.parameters.nuisance])
    size = found.percent(moved)
    unknown = [None] * len(size)
    resolution = unknown if audit.resolution is None else _resolution_along(audit, found)
    delivered: Any = unknown
    arrived = audit.delivered_displacement
    interest = ~audit.parameters.nuisance
    if audit.around_truth and arrived is not None:
        delivered = found.percent(found.along(arrived[interest])).tolist()
    shifts = found.percent(found.along(_training_shift(audit)[interest]))
    blind = not audit.training.score.identified
    verdicts, sizes = [], []
    for k, status in enumerate(found.status):
        unseen = f"H = 0 along {found.in_words(k)}" if status == "null" else ""
        audited, trained = audit.audited, audit.training
        obstacle = unseen or audited.bound_obstacle or audited.basin_obstacle
        unread = unseen or trained.bound_obstacle or trained.basin_obstacle
        unread = unread or (UNDELIVERED if audit.undelivered else "")
        if audit.cross_view and blind and not unread:
            unread = "the training view does not see every direction"
        sizes.append(np.nan if obstacle else float(size[k]))
        measured = Measured(
            around="truth" if audit.around_truth else "candidate",
            preference=None if obstacle else float(size[k]),
            obstacle=obstacle,
            delivered=delivered[k],
            resolution=resolution[k],
            training_preference=None if unread else float(shifts[k]),
            training_obstacle=unread or "",
            cross_view=audit.cross_view,
        )
        verdicts.append(decide(measured, audit.tolerance))
    return {
        "direction": np.arange(len(found.status)),
        "direction_vector": found.vectors,
        "direction_strength": found.strength,
        "direction_status": found.status,
        "direction_displacement": moved,
        "direction_preference_percent": sizes,
        "direction_delivered_percent": [_number(value) for value in delivered],
        "direction_resolution_percent": [_number(value) for value in resolution],
        "direction_route": [v.route.value for v in verdicts],
        "direction_reason": [v.reason for v in verdicts],
    }


def _resolution_along(audit: Audit, found: Directions) -> list[float]:
    """Matched deviation along each direction, in percent."""
    data = audit.used_layouts.transpose("parameter", "layout", "replica", ...)
    columns = []
    for name in found.parameters:
        one, parameter = data.sel(parameter=name), audit.parameters[name]
        home = parameter.to_coordinate(float(one["center"]))
        columns.append(parameter.to_coordinate(one["estimate"].values) - home)
    sizes = found.percent(found.along(np.stack(columns, axis=-1)))
    return [_statistic(audit, sizes[..., k]) for k in range(sizes.shape[-1])]


def _training_shift(audit: Audit) -> FloatArray:
    """Displacement by which delivery is assessed, in coordinates."""
    if audit.reads_gap and audit.delivery is not None:
        delivered = audit.delivered_displacement
        assert delivered is not None  # there is a delivery
        return audit.training.displacement - delivered
    return audit.training.displacement


def _number(value: float | None) -> float:
    return np.nan if value is None else value
