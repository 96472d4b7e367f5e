"""First things first: the questions that are asked before the decision map, in their order.

Without a known truth the two axes can be in order around a value that is wrong. So the audit asks,
with the numbers it has, and the first bad answer is the route:

=================  ======================================  ==============================  =======
question           asked of                                bad when                        route
=================  ======================================  ==============================  =======
``model``          residuals of the matched fit: size,     a test alarms; size only above  1
                   outliers, whiteness                     1.1 noise levels
``field``          trained field against the data, in      a test alarms and the size is   2
                   noise levels, overall and by sensor     above 1.5 noise levels, or
                   or region                               above 2 in one group
``noise``          the same                                the size is below 0.5           3
``training``       path of the parameter and of the loss,  it still has to go more than    4
                   a probe of the training loss            half a standard error and half
                                                           the material tolerance
``contradiction``  forward model at the delivered value    the deviance alarms, and the    5
                   against the matched fit                 value differs by more than the
                                                           material tolerance and lies
                                                           outside its own interval; or no
                                                           value within the tolerance is
                                                           allowed
=================  ======================================  ==============================  =======

Routes: 1 the forward model does not describe these data; 2 the network has not fitted the data;
3 the network has fitted the noise; 4 training has not finished; 5 contradicted by the data.

A test *alarms* when its p-value, times the number of all tests that this audit makes, is below
``1 - level`` (Bonferroni): the chance of any false alarm is at most that, 1% by default, however
many checks there are. Around a truth the questions are answered too, and shown, but the route is
the paper's.

A noise level is the declared one. If the matched fit leaves clearly less than that, the noise was
declared too large, and ``noise`` compares the field with what the fit leaves (`noise_left`).

`ask` has the rules; it reads nothing but the parts of an audit, so a loaded audit is asked again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import xarray as xr

from twoaxis.diagnosis.decision_map import Route
from twoaxis.diagnosis.training_check import FEWEST as FEWEST_RECORDS
from twoaxis.diagnosis.training_check import LAST_SHARE
from twoaxis.io import Layout, Variable
from twoaxis.resolution.misfit import FAR, FEWEST, Check, against
from twoaxis.statistics import squares_below, squares_limit
from twoaxis.text import listed, number, p_equals, percent, visible

if TYPE_CHECKING:
    from twoaxis.diagnosis.result import Audit

Answer = Literal["yes", "no", "not known"]

# Confidence level of all tests of one audit together.
LEVEL = 0.99
# Sizes, in noise levels, beyond which a significant misfit matters.
FIELD_FAR, GROUP_FAR, FIELD_NEAR = 1.5, 2.0, 0.5
# A parameter has settled when it has less than this share of a standard error, or of the material
# tolerance, to go, and moved less than that in the last half of the steps.
ARRIVED = 0.5
# A parameter that moves by less than this share of itself does not move.
STILL = 1e-6
# A loss that falls by more than this, in percent, within the last fifth of training has not
# converged.
LOSS_FALLS = 20.0
# A fit lies on a bound when it is nearer than this share of the range: optimizers stop before it.
FIT_ON_BOUND = 1e-6
# What a resolution says that rests on a refinement; a warning where that is not trusted.
LINEARIZED = "forward.linearized"
# The material tolerance in percent, where none is declared.
MATERIAL = 5.0

ASKED = {
    "model": "Does the forward model describe the data?",
    "field": "Does the network fit the data?",
    "noise": "Has the network left the noise alone?",
    "training": "Has training finished?",
    "contradiction": "Do the data agree with the delivered value?",
}
_Q = ("question",)
QUESTION_LAYOUT: Layout = {
    "question": Variable(_Q, "text", "code of the question"),
    "answer": Variable(_Q, "text", '"yes" (good), "no" (bad) or "not known"'),
    "route": Variable(_Q, "text", "route of a bad answer; empty: none"),
    "reason": Variable(_Q, "text", "what the answer rests on"),
    "measured": Variable(_Q, "float", "the number that was compared; NaN: none"),
    "limit": Variable(_Q, "float", "what it was compared with; NaN: none"),
    "p_value": Variable(_Q, "float", "p-value, where the question is a test; NaN: none"),
}


@dataclass(frozen=True)
class Question:
    """One question and its answer.

    Attributes
    ----------
    code : str
        "model", "field", "noise", "training" or "contradiction".
    answer : {"yes", "no", "not known"}
        "yes" is the good answer.
    reason : str
        The numbers that it rests on, or what is missing.
    route : Route or None
        Where a bad answer leads.
    measured, limit, p_value : float
        NaN where there is none.
    parameters : tuple of str
        Those that the answer is about; empty for all.
    brief : str
        The reason of a bad answer in a few words, for the first line of an audit.
    """

    code: str
    answer: Answer
    reason: str
    route: Route | None = None
    measured: float = np.nan
    limit: float = np.nan
    p_value: float = np.nan
    parameters: tuple[str, ...] = ()
    brief: str = ""

    @property
    def asked(self) -> str:
        """The question in words."""
        return ASKED[self.code]

    def concerns(self, name: str) -> bool:
        """Whether its answer is about a parameter."""
        return not self.parameters or name in self.parameters


def ask(audit: Audit) -> list[Question]:
    """Ask all questions, in their order."""
    alarm = _alarm(audit)
    return [
        _model(audit, alarm),
        *_field(audit, alarm),
        _training(audit),
        _contradiction(audit, alarm),
    ]


def reason_of(audit: Audit, code: str) -> str:
    """Return what the answer to a question rests on."""
    return next(q.reason for q in audit.questions if q.code == code)


def question_variables(questions: list[Question]) -> dict[str, Any]:
    """Return questions as the variables of `QUESTION_LAYOUT`."""
    return {
        "question": [q.code for q in questions],
        "answer": [q.answer for q in questions],
        "route": ["" if q.route is None else q.route.value for q in questions],
        "reason": [q.reason for q in questions],
        **{
            name: [float(getattr(q, name)) for q in questions]
            for name in ("measured", "limit", "p_value")
        },
    }


def tested(audit: Audit) -> Iterator[tuple[str, float]]:
    """Yield the name and the p-value of every test that an audit makes."""
    checks, fit, again = (audit.group(f"/{n}") for n in ("checks", "field_fit", "resimulation"))
    if checks is not None:
        yield from zip(map(str, checks["check"].values), checks["p_value"].values, strict=True)
    if fit is not None:
        yield from (("field", float(fit["p_above"])), ("noise", float(fit["p_below"])))
        yield "group", min(1.0, float(fit["group_p"].min()) * fit.sizes["group"])
    if again is not None and "delivered" in again["value_of"].values:
        yield "contradiction", float(again["p_value"].sel(value_of="delivered"))


def _alarm(audit: Audit) -> float:
    """Return the p-value below which a test of this audit alarms."""
    return (1 - audit.level) / max(len(list(tested(audit))), 1)


def _p_values(audit: Audit) -> dict[str, float]:
    return dict(tested(audit))


def noise_free(audit: Audit) -> bool:
    """Whether the data hold next to nothing of the noise that they are discussed with."""
    again = audit.group("/resimulation")
    return again is not None and bool(again.attrs["noise_free"])


def untrusted_refinement(audit: Audit) -> str:
    """Say why the refinement that stands for a solver should not be used; empty where it may."""
    resolution = audit.resolution
    messages = [] if resolution is None else resolution.messages
    reasons = [m for m in messages if m.code == LINEARIZED and m.severity == "warning"]
    return reasons[0].text if reasons else ""


def _model(audit: Audit, alarm: float) -> Question:
    reason = untrusted_refinement(audit)
    if reason:
        brief = "the refinement that stands for a solver should not be used"
        return Question("model", "no", reason, Route.MODEL_DOES_NOT_FIT, brief=brief)
    checks = audit.group("/checks")
    if checks is None:
        missing = "no data were fitted with a forward model"
        return Question("model", "not known", missing)
    if noise_free(audit):
        text = "the data are noise-free, and the matched fit reproduces them"
        return Question("model", "yes", text)
    if not checks.sizes["check"]:
        few = f"fewer than {FEWEST} residuals of the matched fit are too few for a test"
        return Question("model", "not known", few)
    rows = [
        Check(str(name), float(size), float(p), str(meaning))
        for name, size, p, meaning in zip(
            *(checks[n].values for n in ("check", "statistic", "p_value", "meaning")), strict=True
        )
    ]
    bad = against(rows, alarm)
    if not bad:
        size = next((row for row in rows if row.name == "size"), None)
        sizes = "" if size is None else f"; their RMS is {size.statistic:.2f} noise levels"
        text = f"the residuals of the matched fit look like the noise{sizes}"
        if size is not None and noise_left(audit) < 1:
            text = f"{size.meaning}, and intervals are too wide"
        return Question("model", "yes", text, p_value=min(row.p_value for row in rows))
    worst = bad[0]
    also = "".join(f"; {row.meaning}" for row in bad[1:])
    bound = matched_on_bound(audit)
    first = f"{bound}: widen its bounds first; " if bound else ""
    return Question(
        "model",
        "no",
        f"{first}{worst.meaning} (p {p_equals(worst.p_value)}){also}",
        Route.MODEL_DOES_NOT_FIT,
        measured=worst.statistic,
        p_value=worst.p_value,
        brief=bound or worst.meaning.partition(":")[0],
    )


def matched_on_bound(audit: Audit) -> str:
    """Say that the matched fit lies on a bound, where the data may want a value beyond it."""
    matched = audit.group("/matched")
    if matched is None:
        return ""
    for name in audit.names:
        parameter, estimate = audit.parameters[name], float(matched["estimate"].sel(parameter=name))
        side = parameter.bound_at(estimate, FIT_ON_BOUND)
        if side:
            bound = number(parameter.bounds[side == "upper"])
            return f"the matched fit lies on the {side} bound of {visible(name)}, {bound}"
    return ""


def _field(audit: Audit, alarm: float) -> list[Question]:
    fit = audit.group("/field_fit")
    if fit is None:
        missing = "it is not known what the field predicts for the observations, or their noise"
        return [Question(code, "not known", missing) for code in ("field", "noise")]
    p, rms = _p_values(audit), float(fit["rms"])
    worst = fit.isel(group=int(fit["group_rms"].values.argmax()))
    where, there = str(worst["group"].values), float(worst["group_rms"])
    words = f"the field misses the data by {number(rms, '.3g')} noise levels (RMS)"
    if noise_free(audit):  # there is nothing to test; only sizes count
        words += ", of the noise that is assumed for noise-free data"
        found = Question("field", "yes", words, measured=rms, limit=FIELD_FAR)
        if rms > FIELD_FAR:
            brief = f"it misses them by {number(rms, '.2g')} noise levels"
            found = replace(found, answer="no", route=Route.FIELD_DOES_NOT_FIT, brief=brief)
        return [found, Question("noise", "yes", "the data are noise-free")]
    if rms > FIELD_FAR and p["field"] < alarm:
        found = Question(
            "field",
            "no",
            f"{words}, most in the region {where} ({number(there, '.3g')})",
            Route.FIELD_DOES_NOT_FIT,
            rms,
            FIELD_FAR,
            p["field"],
            brief=f"it misses them by {number(rms, '.2g')} noise levels",
        )
    elif there > GROUP_FAR and p["group"] < alarm:
        found = Question(
            "field",
            "no",
            f"{words} over all, but by {number(there, '.3g')} in the region {where}",
            Route.FIELD_DOES_NOT_FIT,
            there,
            GROUP_FAR,
            p["group"],
            brief=f"it misses them by {number(there, '.2g')} noise levels in the region {where}",
        )
    else:
        found = Question("field", "yes", words, None, rms, FIELD_FAR, p["field"])
    return [found, _noise(audit, fit, p["noise"], alarm)]


def _noise(audit: Audit, fit: xr.Dataset, p: float, alarm: float) -> Question:
    """Ask whether the field follows the noise: the declared one, or less where there is less."""
    left, count = noise_left(audit), int(fit["group_count"].sum())
    rms, of = float(fit["rms"]) / left, ""
    if left < 1:
        freedom = float(audit.need("/resimulation")["freedom"].sel(value_of="matched"))
        p = float(squares_below(count * rms**2, count, freedom))
        of = " that the matched fit leaves"
    if rms >= FIELD_NEAR or p >= alarm:
        kept = f"the misfit of the field is not far below one level of the noise{of}"
        return Question("noise", "yes", kept, None, rms, FIELD_NEAR, p)
    return Question(
        "noise",
        "no",
        f"the field misses the data by {number(rms, '.3g')} levels (RMS) of the noise{of}: "
        f"{100 * (1 - rms**2):.0f}% of its variance is in the field",
        Route.FIELD_FITS_NOISE,
        rms,
        FIELD_NEAR,
        p,
        brief=f"it misses the data by only {number(rms, '.2g')} levels of the noise{of}",
    )


def noise_left(audit: Audit) -> float:
    """Return the noise that the matched fit leaves, in declared levels, where it is clearly less.

    Otherwise one. A fit of a few parameters cannot follow the noise: if its residuals are too
    small, the noise was declared too large. Measured by that, a field that is right would seem
    to follow the noise.
    """
    checks = audit.group("/checks")
    if checks is None or noise_free(audit) or "size" not in checks["check"].values:
        return 1.0
    size = checks.isel(check=list(checks["check"].values).index("size"))
    rms, p = float(size["statistic"]), float(size["p_value"])
    return rms if rms < 1 / FAR and p < _alarm(audit) else 1.0


def _training(audit: Audit) -> Question:
    group = audit.group("/training")
    if group is None:
        missing = "neither a history with the parameter, nor snapshots, nor the loss are known"
        return Question("training", "not known", missing)
    moving = _moving(audit, group)
    if moving is not None:
        drifting = moving.quantity == "remaining"
        target = f"about {number(moving.target, '.3g')}"
        count = int(group["probe_iterations"])
        return Question(
            "training",
            "no",
            _drifts(audit, group, moving) if drifting else _is_moved(group, moving),
            Route.TRAINING_NOT_FINISHED,
            moving.size,
            moving.limit,
            brief=f"{moving.name} is still drifting toward {target}"
            if drifting
            else f"{count} more iterations move {moving.name} to {target}",
        )
    resting = _resting(audit, group)
    if resting:
        return Question("training", "not known", resting, None, 0.0, 100 * STILL)
    return _settled(audit, group) or _by_loss(audit, group)


def _settled(audit: Audit, group: xr.Dataset) -> Question | None:
    """Judge by paths that have little left to go, if there are any.

    What is extrapolated is as good as the path is smooth. Under a loss with many scales a
    parameter pauses, and then moves as far in the next doubling of the steps as in the last: it
    has settled only if it moved little in the last half, too.
    """
    left, late = (_way(audit, group, name) for name in ("remaining", "late_range"))
    if left is None or late is None:
        return None
    text = f"{left.name} has settled (about {percent(left.size)} further expected)"
    moved = f"{late.name} moved by {percent(late.size)} in the last half of the recorded steps"
    if late.size > late.limit:
        text = f"{moved}, and may move as far again in as many steps as there were"
        return Question("training", "not known", text, None, late.size, late.limit)
    unrecorded = [n for n in _arrived(audit) if np.isnan(group["remaining"].sel(parameter=n))]
    if unrecorded:
        text += f"; of {listed(unrecorded)} no path was recorded"
        return Question("training", "not known", text, None, left.size, left.limit)
    fall = 100 * float(group["loss_fall"])
    if fall > LOSS_FALLS:  # what is of interest has settled; the field may still change
        text += f", though the loss still falls by {percent(fall)}"
    return Question("training", "yes", f"{text}: {moved}", None, left.size, left.limit)


def _by_loss(audit: Audit, group: xr.Dataset) -> Question:
    """Judge where no path tells: a falling loss or a probe that moves far have not finished.

    Neither can tell that training has: steps that change little do not bound what many more of
    them change, in a slow valley of the loss.
    """
    fall = 100 * float(group["loss_fall"])
    if fall > LOSS_FALLS:
        text = f"the loss still falls: by {percent(fall)} within the last fifth of training"
        return Question(
            "training",
            "no",
            text,
            Route.TRAINING_NOT_FINISHED,
            fall,
            LOSS_FALLS,
            brief="the loss still falls",
        )
    known = [_too_short(audit, group)]
    probed = _way(audit, group, "probe_moved")
    if probed is not None:
        known.append(
            f"{_is_moved(group, probed)}, which does not bound what many more would change"
        )
    text = "; ".join(filter(None, known)) or "the path of the parameter was not recorded"
    size, limit = (np.nan, np.nan) if probed is None else (probed.size, probed.limit)
    return Question("training", "not known", text, None, size, limit)


def _too_short(audit: Audit, group: xr.Dataset) -> str:
    """Say that a path, or else the loss, has too few records to judge by."""
    counts = {n: int(group["records"].sel(parameter=n)) for n in _arrived(audit)}
    what = max(counts, key=lambda n: counts[n])
    count, share = counts[what], LAST_SHARE
    if not count and np.isnan(group["loss_fall"]):
        what, count, share = "the loss", int(group["loss_records"]), LAST_SHARE / 2
    if not count:
        return ""
    return (
        f"the history has too few records of {visible(what)} to judge by, {count}: "
        f"{2 * FEWEST_RECORDS} must lie in the last {share:.0%} of the steps, half of them in the "
        f"last {share / 2:.0%}, as of {2 * FEWEST_RECORDS / share:.0f} evenly spaced ones"
    )


class _Way(NamedTuple):
    """A distance in percent, of the parameter for which it is the most of its limit."""

    quantity: str
    name: str
    size: float
    limit: float
    target: float


def _way(audit: Audit, group: xr.Dataset, quantity: str) -> _Way | None:
    """Return a distance of ``/training``; None where it is known of no parameter of interest."""
    limits = _arrived(audit)
    every = audit.parameters.displacement_percent(group[quantity].values, audit.center.values)
    sizes = {
        name: size
        for name, size in audit.parameters.named(every).items()
        if name in limits and not np.isnan(size)
    }
    if not sizes:
        return None
    name = max(sizes, key=lambda n: sizes[n] / limits[n])
    target = _target(audit, name, float(group[quantity].sel(parameter=name)))
    return _Way(quantity, name, sizes[name], limits[name], target)


def _moving(audit: Audit, group: xr.Dataset) -> _Way | None:
    """Return what is left of a path, or what the probe moved, where that exceeds its limit."""
    ways = (_way(audit, group, quantity) for quantity in ("remaining", "probe_moved"))
    return next((way for way in ways if way is not None and way.size > way.limit), None)


def _resting(audit: Audit, group: xr.Dataset) -> str:
    """Say that a parameter rests where it was put, although its field prefers another value.

    Then it has not arrived: nothing in the loss moves it, or too little to be seen beside the
    weights of the network.
    """
    limits, delivery = _arrived(audit), audit.delivery
    for name in limits:
        one = group.sel(parameter=name)
        still = [float(one[n]) for n in ("traveled", "probe_moved")]
        known = [abs(moved) for moved in still if not np.isnan(moved)]
        step = STILL * audit.parameters[name].percent_unit(audit.center.values[name])
        if not known or max(known) > step:
            continue
        if name in audit.score.unseen:
            return f"nothing in the loss moves {name}"
        gap = np.nan if delivery is None else abs(delivery.gap_percent[name])
        if not gap <= material_percent(audit):
            return (
                f"{name} has not moved, although its field prefers another value: its gradient may "
                "be far smaller than that of the network; train it in units in which it is about "
                "one, or its logarithm"
            )
    return ""


def leads_away(audit: Audit) -> str:
    """Say that more training would bring a parameter further from the matched fit."""
    group, matched = audit.group("/training"), audit.group("/matched")
    if group is None or matched is None:
        return ""
    way = _moving(audit, group)
    if way is None:
        return ""
    parameter = audit.parameters[way.name]
    estimate = float(matched["estimate"].sel(parameter=way.name))
    if parameter.delivered is None or np.isnan(estimate):
        return ""
    places = np.array([way.target, parameter.delivered])
    ahead, here = np.abs(parameter.to_coordinate(places) - parameter.to_coordinate(estimate))
    if not ahead > here:  # nor where the target is no number
        return ""
    return (
        f"more steps on this loss lead away from the matched fit: {way.name} goes from "
        f"{number(parameter.delivered)} to about {number(way.target)}, and the data want "
        f"{number(estimate)}"
    )


def material_percent(audit: Audit) -> float:
    """Return the material tolerance, or what is used where none is declared."""
    return MATERIAL if audit.tolerance is None else audit.tolerance.material


def _arrived(audit: Audit) -> dict[str, float]:
    """Return what each parameter of interest may still have to go, in percent."""
    material = material_percent(audit)
    return {
        name: ARRIVED * (max(material, error) if np.isfinite(error) else material)
        for name, error in audit.standard_error_percent.items()
    }


def _drifts(audit: Audit, group: xr.Dataset, way: _Way) -> str:
    one = group.sel(parameter=way.name)
    low, high = audit.parameters[way.name].bounds
    aim = f"toward {number(way.target)}" if low <= way.target <= high else "out of its bounds"
    steps = f"about {float(one['remaining_steps']):,.0f} more steps"
    if bool(one["steady"]):
        aim += f", and does not slow down: {steps} at its last speed"
    else:
        aim += f"; {steps} to cover 90%"
    return f"{way.name} is still drifting {aim}"


def _is_moved(group: xr.Dataset, way: _Way) -> str:
    return (
        f"{int(group['probe_iterations'])} more iterations on the training loss (L-BFGS) move "
        f"{way.name} by {percent(way.size)} to {number(way.target)} and lower the loss by "
        f"{percent(100 * float(group['probe_loss_fall']))}"
    )


def _target(audit: Audit, name: str, moved: float) -> float:
    """Return where a displacement from the delivered value leads."""
    parameter = audit.parameters[name]
    start = audit.center.values[name] if parameter.delivered is None else parameter.delivered
    return float(parameter.to_value(parameter.to_coordinate(start) + moved))


def _contradiction(audit: Audit, alarm: float) -> Question:
    reason = untrusted_refinement(audit)
    if reason:
        return Question("contradiction", "not known", reason)
    again, matched = audit.group("/resimulation"), audit.group("/matched")
    p = _p_values(audit).get("contradiction")
    if again is None or matched is None or p is None:
        return Question("contradiction", "not known", "the delivered value was not simulated")
    deviance = float(again["deviance"].sel(value_of="delivered"))
    if np.isnan(deviance):
        return Question("contradiction", "not known", "the delivered value was not simulated")
    limit = squares_limit(1 - alarm, int(again.attrs["held"]), float(again.attrs["noise_freedom"]))
    differences = np.abs(matched["difference_percent"].sel(parameter=audit.names).values)
    material = 0.0 if audit.tolerance is None else audit.tolerance.material
    if noise_free(audit):
        material = material_percent(audit)
    wrong = [n for n, off in zip(audit.names, differences, strict=True) if off > material]
    outside = _outside(audit, matched, wrong)
    facts = (
        "the deviance of the delivered value from the matched fit is "
        f"{number(deviance, '.3g')} (p {p_equals(p)})"
    )
    beyond = p < alarm
    if noise_free(audit):  # the assumed noise says what the data determine, and nothing is tested
        beyond = deviance > limit
        most = f" of {audit.names[int(np.nanargmax(differences))]}" if len(differences) > 1 else ""
        facts = (
            f"the delivered value{most} differs from what the noise-free data determine by "
            f"{percent(float(np.nanmax(differences)))}"
        )
        if wrong and not beyond:
            hidden = f"{facts}, which noise of the assumed size would hide"
            return Question(
                "contradiction",
                "not known",
                hidden,
                None,
                deviance,
                limit,
                parameters=tuple(wrong),
            )
    if wrong and not beyond and deviance > limit * noise_left(audit) ** 2:
        hidden = (
            f"{facts}, but the noise is declared too large: in terms of the noise that the fit "
            "leaves, the two are far apart"
        )
        return Question(
            "contradiction", "not known", hidden, None, deviance, limit, p, tuple(wrong)
        )
    if beyond and wrong and not outside and _allowed_nearby(audit, matched, material, limit):
        facts += (
            f", but a value within the tolerance of {percent(material)} agrees with the data, "
            f"which do not determine {', '.join(wrong)} one by one"
        )
    elif beyond and wrong:
        return Question(
            "contradiction",
            "no",
            facts,
            Route.CONTRADICTED_BY_DATA,
            deviance,
            limit,
            p_value=p,
            parameters=tuple(outside or wrong),
        )
    elif beyond and not noise_free(audit):
        largest = float(np.nanmax(differences))
        facts += (
            f", but it differs from the matched fit by {percent(largest)} only, which is within "
            f"the tolerance of {percent(material)}"
        )
    return Question("contradiction", "yes", facts, None, deviance, limit, p_value=p)


def _allowed_nearby(audit: Audit, matched: xr.Dataset, material: float, limit: float) -> bool:
    """Whether the data allow a value within the material tolerance of the delivered one.

    Asked where each value lies within its own interval, and only all of them together do not: the
    matched fit may be far along a direction that the data do not determine, and as good as others
    there. To first order the smallest deviance within the tolerance is that of a least-squares
    problem with bounds, whose matrix is a root of the Fisher information.
    """
    from scipy.optimize import lsq_linear

    known, delivered = audit.parameters, audit.parameters.delivered
    if delivered is None or audit.group("/resolution") is None:
        return False
    information = audit.used_layouts["fisher_information"].mean("layout")
    if list(map(str, information["parameter"].values)) != list(known):
        return False
    strengths, vectors = np.linalg.eigh(information.values)
    root = np.sqrt(np.maximum(strengths, 0.0))[:, None] * vectors.T
    estimate = known.named(matched["estimate"].values)
    away = known.coordinates(delivered) - known.coordinates(estimate)
    units = known.percent_units(audit.center.values)
    reach = np.full(len(known), material / 100)
    reach[known.nuisance] = np.inf
    nearest = lsq_linear(root * units, -root @ away, bounds=(-reach, reach))
    return bool(2 * nearest.cost <= limit)


def _outside(audit: Audit, matched: xr.Dataset, names: list[str]) -> list[str]:
    """Return those whose delivered value lies outside its own interval."""
    known = audit.parameters
    low, high = (known.named(matched[end].values) for end in ("lower", "upper"))
    delivered = {name: known[name].delivered for name in names}
    assert None not in delivered.values()  # they were simulated
    return [name for name, value in delivered.items() if not low[name] <= value <= high[name]]  # type: ignore[operator]
