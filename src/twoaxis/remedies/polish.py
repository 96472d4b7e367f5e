r"""Polishing: how much of a delivery gap was unfinished optimization?

The delivery gap :math:`q_{train} - q_{profile}` lies between the delivered parameter and the one
that its own field prefers under the training view. At a stationary point of the joint loss

.. math:: L(\theta, q) = L_{data}(\theta) + \lambda\, r^\top M r, \qquad
          \partial_q L = 2 \lambda\, J^\top M r = 0,

the frozen profile is stationary in ``q``, too, and the gap is zero (in the basin that training
ended in). A gap therefore shows training that had not converged, or another basin. Two steps
decide: the parameter moves to its frozen minimum, in closed form where the residual is affine;
then L-BFGS continues from the delivered state with network and parameters together. If the gap
closes, it was optimization.

Neither step knows the truth. A field that prefers the wrong parameter delivers it more exactly
after polishing.

`twoaxis.refine` is no substitute: it minimizes another function, in which the equation outweighs
the data, and so moves the preference of the field as well. It gives the better parameter, but
cannot tell whether the training of this loss had ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.arrays import is_integer, is_real
from twoaxis.diagnosis.actions import Action, Number
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.geometry import FrozenScan, frozen_scan
from twoaxis.geometry.derivatives import linearize
from twoaxis.geometry.scan import INTERIOR
from twoaxis.geometry.score import score_terms, unseen_parameters
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Parameters
from twoaxis.progress import progress_bar
from twoaxis.result import PARAMETER_LAYOUT, Message, Result
from twoaxis.training_loss import (
    Objective,
    checked_objective,
    frozen_at,
    minimize_loss,
    moving_part,
    wider_bounds,
)
from twoaxis.views import View

FloatArray = NDArray[np.float64]

# A gap that closed by this many percent has closed; below the second number it has not.
CLOSED, HALF = 90.0, 50.0
# A loss that falls by this many percent was far from its minimum, whatever the gap.
UNFINISHED = 25.0
# Smaller gaps, in %, are printed as less than this.
SMALLEST = 0.01
STATE = ("stage", "parameter")
DELIVERED, MINIMUM, FINISHED = "delivered", "frozen minimum", "finished"


@dataclass(frozen=True, eq=False)
class Finish:
    """Where joint finishing ended.

    Attributes
    ----------
    loss_before, loss_after : float
        The training loss, with its weights held.
    gradient_before, gradient_after : float
        The largest absolute entry of its gradient.
    iterations, evaluations : int
    converged : bool
        Whether the gradient vanished, to 1e-9, except for entries that push a parameter against
        the bound it is at. False where the iterations were used up before, or the loss stopped
        falling, even if only in its last digits.
    frozen : FrozenResidual or None
        Of the finished field; None from a file.
    vector : array, shape (n,), or None
        The finished state, as the objective takes it; None from a file.
    """

    loss_before: float
    loss_after: float
    gradient_before: float
    gradient_after: float
    iterations: int
    evaluations: int
    converged: bool
    frozen: FrozenResidual | None = None
    vector: FloatArray | None = None


class Polish(Result[xr.Dataset]):
    """How much of a delivery gap was unfinished optimization. Made by `twoaxis.polish`.

    Attributes
    ----------
    data : xarray.Dataset
        By stage ("delivered", "frozen minimum" and, with an objective, "finished") and parameter:
        ``value``, what the field of the stage prefers, their gap, and the error where the truth
        is known.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> found = ta.polish(frozen, progress=False)
    >>> round(found.frozen_minimum["k"], 6), round(found.gap_before["k"], 1)
    (0.9, 3.3)
    """

    schema = "polish"
    layouts: ClassVar[Mapping[str, Layout]] = {
        "/": {
            **PARAMETER_LAYOUT,
            "stage": Variable(("stage",), "text", "state of field and parameters"),
            "value": Variable(STATE, "float", "value of the parameter", finite=True),
            "preferred": Variable(STATE, "float", "frozen scan minimum; NaN: flat"),
            "scan_status": Variable(("stage",), "text", "where the frozen scan minimum lies"),
            "affine": Variable(("stage",), "bool", "whether the minimum is in closed form"),
            "residual_loss": Variable(("stage",), "float", "r^T M r", finite=True),
            "gap": Variable(STATE, "float", "value minus preferred, in coordinates"),
            "gap_percent": Variable(STATE, "float", "gap relative to preferred", "%"),
            "error_percent": Variable(STATE, "float", "deviation from the truth", "%"),
        }
    }
    attributes: ClassVar[Mapping[str, Iterable[str]]] = {
        "/": (
            "view",
            "small_gap",
            "loss_before",
            "loss_after",
            "gradient_before",
            "gradient_after",
            "iterations",
            "evaluations",
            "converged",
        )
    }
    _finished: tuple[FrozenResidual, FloatArray] | None = None

    def derived(self) -> dict[str, Any]:
        """Return gaps and errors of every stage."""
        known, data = self.parameters, self.data
        values, preferred = data["value"].values, data["preferred"].values
        interior = data["scan_status"].values == INTERIOR
        gap, gap_percent, error_percent = (np.full(values.shape, np.nan) for _ in range(3))
        for j, parameter in enumerate(known.values()):
            truth = parameter.truth
            for row in np.flatnonzero(interior & ~np.isnan(preferred[:, j])):
                value, there = float(values[row, j]), float(preferred[row, j])
                gap[row, j] = parameter.to_coordinate(value) - parameter.to_coordinate(there)
                center = value if truth is None else truth
                gap_percent[row, j] = parameter.percent_from(value, there, center)
            if truth is not None:
                error_percent[:, j] = parameter.percent(values[:, j], truth)
        return {"gap": gap, "gap_percent": gap_percent, "error_percent": error_percent}

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters as delivered, without those that an objective holds fixed."""
        return Parameters.from_dataset(self.data)

    def _row(self, variable: str, stage: str) -> dict[str, float] | None:
        """Return a variable of a stage by parameter, without those that have none; None: nobody."""
        if stage not in self.data["stage"].values:
            return None
        row = self.parameters.named(self.data[variable].sel(stage=stage).values)
        return {name: value for name, value in row.items() if not np.isnan(value)} or None

    @property
    def delivered(self) -> dict[str, float]:
        """What training returned."""
        return self.parameters.require("delivered")

    @property
    def frozen_minimum(self) -> dict[str, float] | None:
        """What the delivered field prefers: the parameter to use if the field is kept.

        Without parameters that its residual does not determine.
        """
        return self._row("preferred", DELIVERED)

    @property
    def finished(self) -> dict[str, float] | None:
        """The parameters after joint finishing; None without an objective."""
        return self._row("value", FINISHED)

    @property
    def gap_before(self) -> dict[str, float] | None:
        """Signed gap of the delivered state, in %; None where the field prefers nothing."""
        return self._row("gap_percent", DELIVERED)

    @property
    def gap_after(self) -> dict[str, float] | None:
        """Signed gap after joint finishing, in %."""
        return self._row("gap_percent", FINISHED)

    @property
    def finish(self) -> Finish | None:
        """How joint finishing went; None without an objective."""
        if FINISHED not in self.data["stage"].values:
            return None
        known = self.data.attrs
        frozen, vector = self._finished or (None, None)
        return Finish(
            loss_before=float(known["loss_before"]),
            loss_after=float(known["loss_after"]),
            gradient_before=float(known["gradient_before"]),
            gradient_after=float(known["gradient_after"]),
            iterations=int(known["iterations"]),
            evaluations=int(known["evaluations"]),
            converged=bool(known["converged"]),
            frozen=frozen,
            vector=vector,
        )

    @property
    def closed_percent(self) -> dict[str, float] | None:
        """By how much of itself each gap closed, ``100 (1 - |after| / |before|)``.

        In coordinates, where a gap upwards and one downwards count alike. Negative where it grew.
        """
        before, after = self._row("gap", DELIVERED), self._row("gap", FINISHED)
        if before is None or after is None:
            return None
        return {
            name: 100 * (1 - abs(after[name]) / abs(gap)) if gap else 0.0
            for name, gap in before.items()
            if name in after
        }

    @property
    def loss_fall_percent(self) -> float:
        """By how much joint finishing lowered the training loss; 0 without an objective."""
        finish = self.finish
        if finish is None or finish.loss_before == 0:
            return 0.0
        return 100 * (1 - finish.loss_after / finish.loss_before)

    @property
    def little_to_gain(self) -> bool | None:
        """Whether all gaps were small from the start; None without a gap."""
        gaps = self.gap_before
        return (
            None if gaps is None else max(map(abs, gaps.values())) <= self.data.attrs["small_gap"]
        )

    @property
    def messages(self) -> list[Message]:
        """What happened to the gap, and to the parameter, which is another matter."""
        return [_gap_message(self), _parameter_message(self)]

    @property
    def verdict(self) -> str:
        """What happened to the gap, as a sentence."""
        return self.messages[0].text

    def summary(self) -> pd.DataFrame:
        """Return a row per stage and parameter.

        Columns: value, what the stage's field prefers, the gap in %, the error in %
        where the truth is known, and the residual loss.
        """
        columns = ("value", "preferred", "gap_percent", "error_percent", "residual_loss")
        table: pd.DataFrame = self.data[list(columns)].to_dataframe(dim_order=STATE)
        return table[list(columns)].dropna(axis=1, how="all")

    def actions(self) -> list[Action]:
        """Return what polishing found, for the actions of an audit."""
        numbers = [
            Number(f"{name}, {stage}", value)
            for stage in self.data["stage"].values
            for name, value in self.parameters.named(self.data["value"].sel(stage=stage)).items()
        ]
        for stage, gaps in ((DELIVERED, self.gap_before), (FINISHED, self.gap_after)):
            if gaps is not None:
                numbers += [Number(f"gap of {name}, {stage}", g, "%") for name, g in gaps.items()]
        text = " ".join(message.text for message in self.messages)
        call = "twoaxis.polish(frozen, objective)"
        return [Action("delivery", "Finish the training", text, call, tuple(numbers))]

    def __repr__(self) -> str:
        lines = [
            f"Delivery under {self.data.attrs['view']}",
            self.summary().to_string(float_format=lambda v: f"{v:.5g}"),
        ]
        if (finish := self.finish) is not None:
            lines.append(
                f"loss {finish.loss_before:.5g} -> {finish.loss_after:.5g}, largest gradient "
                f"{finish.gradient_before:.2g} -> {finish.gradient_after:.2g}, "
                f"{finish.iterations} iterations" + ("" if finish.converged else " (not converged)")
            )
        return "\n".join([*lines, *(message.text for message in self.messages)])


# ------------------------------------------------------------------ messages


def _gap_message(found: Polish) -> Message:
    """Say how much of the gap was optimization."""
    gaps = found.gap_before
    if gaps is None:
        code, text = _no_gap(found, DELIVERED)
        after = found.gap_after
        if after is not None:
            now = ", ".join(f"{_small(gap)} in {name}" for name, gap in after.items())
            text += f" After joint finishing the gap is {now}."
        return Message(code, text, "info")
    largest = max(gaps, key=lambda name: abs(gaps[name]))
    numbers = {"gap_percent": gaps[largest], "loss_fall_percent": found.loss_fall_percent}
    near = f"the delivered {largest} lies {abs(gaps[largest]):.2g}% from what its own field prefers"
    if found.little_to_gain and found.loss_fall_percent >= UNFINISHED:
        text = (
            f"There was little gap to close: {near}. But the field was not trained to convergence, "
            f"which a gap does not show: the loss fell by {found.loss_fall_percent:.0f}%."
        )
        return Message("polish.field_unfinished", text, "warning", numbers)
    if found.little_to_gain:
        return Message(
            "polish.little_to_gain", f"There was little to gain: {near}.", "info", numbers
        )
    after, closed, finish = found.gap_after, found.closed_percent, found.finish
    if finish is None:
        side = "above" if gaps[largest] > 0 else "below"
        text = (
            f"The delivered {largest} lies {abs(gaps[largest]):.3g}% {side} what its own field "
            "prefers. Joint finishing tells whether that was optimization: pass objective=."
        )
        return Message("polish.gap_unexplained", text, "info", numbers)
    if after is None or closed is None or largest not in after:
        return Message(*_no_gap(found, FINISHED), "info", numbers)
    share = closed[largest]
    numbers |= {"gap_after_percent": after[largest], "closed_percent": share}
    change = f"from {gaps[largest]:+.3g}% to {_small(after[largest])}"
    ended = "" if finish.converged else f" after {finish.iterations} iterations without convergence"
    if share >= CLOSED:
        text = f"The gap was optimization: it closed by {share:.0f}%, {change}."
        return Message("polish.gap_closed", text, "info", numbers)
    if share >= HALF:
        text = f"Most of the gap was optimization: it closed by {share:.0f}%, {change}{ended}."
        return Message("polish.gap_mostly_closed", text, "info", numbers)
    text = (
        f"The gap did not close: it went {change}{ended}. Look for another basin in the frozen "
        "scan, and check that the view is the training view."
    )
    return Message("polish.gap_remains", text, "warning", numbers)


def _parameter_message(found: Polish) -> Message:
    """Say what happened to the parameter: delivering a preference does not make it true."""
    stage = MINIMUM if found.finish is None else FINISHED
    values = found._row("value", stage)
    if values is None:
        return Message("polish.not_moved", "The parameter was not moved.", "info")
    start = "At the frozen minimum" if found.finish is None else "After joint finishing"
    moved = ", ".join(
        f"{name} = {value:.4g} (delivered: {found.delivered[name]:.4g})"
        for name, value in values.items()
    )
    errors = found.data["error_percent"].sel(stage=[DELIVERED, stage]).values.T
    changes = {
        name: (float(before), float(after))
        for name, (before, after) in zip(found.parameters, errors, strict=True)
        if not np.isnan(before)
    }
    text = f"{start} {moved}"
    if found.finish is not None:
        text += f", the loss {found.loss_fall_percent:.2g}% lower"
    if changes:
        text += "; " + ", ".join(
            f"the error of {name} changed from {before:+.3g}% to {after:+.3g}%"
            for name, (before, after) in changes.items()
        )
    text += ". Polishing delivers what the loss asks for, which need not be the true parameter."
    numbers = dict(values)
    for name, (before, after) in changes.items():
        numbers |= {f"{name}_error_before": before, f"{name}_error_after": after}
    return Message("polish.moved", text, "info", numbers)


def _small(gap: float) -> str:
    """Return a gap that may be zero but for the last digits of an optimizer."""
    return f"{gap:+.2g}%" if abs(gap) >= SMALLEST else f"less than {SMALLEST}%"


def _no_gap(found: Polish, stage: str) -> tuple[str, str]:
    status = str(found.data["scan_status"].sel(stage=stage).item())
    if found._row("preferred", stage) is None:
        why = "" if status == INTERIOR else f" ({status})"
        names = " and ".join(found.parameters)
        text = f"There is no gap to close: the {stage} field does not determine {names}{why}."
        return "polish.flat", text
    text = (
        f"There is no gap to measure: the profile of the {stage} field has no minimum inside the "
        f"bounds, nor far outside of them. It ends {status}."
    )
    return "polish.no_interior_minimum", text


# ------------------------------------------------------------------ one stage


@dataclass(frozen=True, eq=False)
class Stage:
    """A state of field and parameters, read under the training view.

    Attributes
    ----------
    name : str
    values : dict of str to float
    preferred : dict of str to float, or None
        The minimum of the frozen scan; None where the profile is flat.
    status : str
        Where that minimum lies.
    affine : bool
        Whether it was found in closed form.
    residual_loss, least_loss : float
        ``r^T M r`` at the values, and at those that the field prefers.
    view : str
    """

    name: str
    values: dict[str, float]
    preferred: dict[str, float] | None
    status: str
    affine: bool
    residual_loss: float
    least_loss: float
    view: str


def stage_of(name: str, frozen: FrozenResidual, view: View | None, candidates: int) -> Stage:
    """Scan a frozen residual around the values that it delivered."""
    metric = bound_view(frozen, view)
    scan = _scan(frozen, metric, candidates)
    delivered = Parameters(frozen.parameters).require("delivered")
    preferred = scan.minimum
    if preferred is not None:
        unseen = _unseen(frozen, metric, delivered)
        preferred = {n: np.nan if n in unseen else value for n, value in preferred.items()}

    def loss(values: Mapping[str, float]) -> float:
        residual = frozen.at(frozen.coordinates(values))
        return float(metric.quadratic(residual, residual))

    return Stage(
        name=name,
        values=delivered,
        preferred=preferred,
        status=scan.status,
        affine=scan.affine,
        residual_loss=loss(delivered),
        least_loss=loss(scan.minimum or delivered),
        view=metric.describe(),
    )


def _unseen(frozen: FrozenResidual, metric: Any, values: Mapping[str, float]) -> set[str]:
    """Return the parameters that the residual does not determine: of many minima one was found."""
    local = linearize(frozen, frozen.coordinates(values))
    terms = score_terms(local.residual, local.jacobian, metric, frozen.known.nuisance)
    return unseen_parameters(frozen.known, terms.strength, terms.null)


def _scan(frozen: FrozenResidual, metric: Any, candidates: int) -> FrozenScan:
    """Scan around the delivered values, within wider bounds where the minimum is on a bound.

    Training knows no bounds, and the field of a training that stopped early may prefer a value
    outside of them.
    """
    scan = frozen_scan(frozen, view=metric, candidates=candidates, at="delivered")
    if scan.minimum is None or scan.status == INTERIOR:
        return scan
    known = {name: replace(p, bounds=wider_bounds(p)) for name, p in frozen.parameters.items()}
    try:
        wide = replace(frozen, parameters=known)
        return frozen_scan(wide, view=metric, candidates=candidates, at="delivered")
    except InputError:  # the residual is not defined that far out
        return scan


def _result(
    parameters: Parameters, stages: list[Stage], small_gap: float, finish: Finish | None
) -> Polish:
    """Return the stages as a result; the second of them is the frozen minimum of the first."""
    first = stages[0]
    if first.preferred is not None:
        there = {n: first.values[n] if np.isnan(v) else v for n, v in first.preferred.items()}
        minimum = replace(first, name=MINIMUM, values=there, residual_loss=first.least_loss)
        stages = [first, minimum, *stages[1:]]
    nothing = dict.fromkeys(parameters, np.nan)

    def table(field: str) -> FloatArray:
        rows = (getattr(stage, field) or nothing for stage in stages)
        return np.array([[row[name] for name in parameters] for row in rows])

    numbers = ("loss_before", "loss_after", "gradient_before", "gradient_after")
    counts = ("iterations", "evaluations", "converged")
    found = Polish.from_values(
        {
            **parameters.variables(),
            "stage": [stage.name for stage in stages],
            "value": table("values"),
            "preferred": table("preferred"),
            "scan_status": [stage.status for stage in stages],
            "affine": [stage.affine for stage in stages],
            "residual_loss": [stage.residual_loss for stage in stages],
        },
        {
            "view": first.view,
            "small_gap": float(small_gap),
            **{name: getattr(finish, name, np.nan) for name in numbers},
            **{name: int(getattr(finish, name, 0)) for name in counts},
        },
    )
    if finish is not None and finish.frozen is not None and finish.vector is not None:
        found._finished = finish.frozen, finish.vector
    return found


# ------------------------------------------------------------------ the function


def polish(
    subject: Any,
    objective: Objective | None = None,
    *,
    view: View | None = None,
    small_gap: float = 1.0,
    iterations: int = 500,
    candidates: int = 81,
    progress: bool = True,
) -> Polish:
    """Finish the training to see how much of a delivery gap was optimization.

    The loss is that of the training, with its weights, data and conditions; nothing is added and
    no noise level is needed. So the result says whether that training had ended, and not what the
    parameter is: for that `twoaxis.refine` changes the loss until the equation holds.

    Parameters
    ----------
    subject : FrozenResidual or an object with one as its ``frozen``
        Such as a run. Its parameters have `delivered` values.
    objective : Objective, optional
        The training loss, from `twoaxis.objective`; that of the frozen residual by default.
        Without any only the parameter is moved, with the field held. Parameters that it holds
        fixed have no gap, and are left out of the result.
    view : View, optional
        The training view, where the frozen residual does not carry it.
    small_gap : float
        A gap of at most this many percent leaves little to gain.
    iterations : int
        Maximum number of iterations of L-BFGS.
    candidates : int
        Number of candidates of each frozen scan.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Polish

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 50)
    >>> frozen = ta.FrozenResidual(
    ...     lambda k: k * np.ones(50) - 1.1, {"k": ta.Parameter(delivered=1.0, bounds=(0.5, 2.0))},
    ...     x, view=ta.views.Pointwise(),
    ... )
    >>> found = polish(frozen)
    >>> round(found.frozen_minimum["k"], 6), round(found.gap_before["k"], 2)
    (1.1, -9.09)
    """
    frozen = _frozen_of(subject)
    _check_options(small_gap, iterations)
    objective = frozen.objective if objective is None else objective
    if objective is None:
        before = stage_of(DELIVERED, frozen, view, candidates)
        return _result(Parameters(frozen.parameters), [before], small_gap, None)
    start, first, gradient = checked_objective(objective, frozen)
    moving = moving_part(objective, frozen)
    before = stage_of(DELIVERED, moving, view, candidates)
    with progress_bar("finishing the training", int(iterations), progress) as advance:
        found = minimize_loss(
            objective,
            frozen,
            start,
            first,
            iterations=int(iterations),
            evaluations=20 * int(iterations),
            callback=lambda _vector, _loss: advance(1),
        )
    finished = frozen_at(objective, found.vector)
    after = stage_of(FINISHED, moving_part(objective, finished), view or frozen.view, candidates)
    finish = Finish(
        loss_before=first,
        loss_after=found.loss,
        gradient_before=float(np.abs(gradient).max()),
        gradient_after=float(np.abs(found.gradient).max()),
        iterations=found.iterations,
        evaluations=found.evaluations,
        converged=found.converged,
        frozen=finished,
        vector=found.vector,
    )
    return _result(Parameters(moving.parameters), [before, after], small_gap, finish)


def _frozen_of(subject: Any) -> FrozenResidual:
    frozen = subject if isinstance(subject, FrozenResidual) else getattr(subject, "frozen", None)
    if not isinstance(frozen, FrozenResidual):
        raise InputError(
            "a frozen residual, or a run that has one",
            type(subject).__name__,
            "pass runs[0], or what twoaxis.from_torch and the other adapters return",
        )
    Parameters(frozen.parameters).require("delivered")
    return frozen


def _check_options(small_gap: Any, iterations: Any) -> None:
    if not (is_real(small_gap) and 0 < small_gap < float("inf")):
        raise InputError(
            "small_gap as a positive percentage", f"small_gap={small_gap!r}", "pass small_gap=1.0"
        )
    if not (is_integer(iterations) and iterations >= 1):
        raise InputError(
            "at least one iteration", f"iterations={iterations!r}", "pass iterations=500"
        )
