"""What polishing found: three stages, how far the gap closed, and what it did to the parameter.

The sentences of polishing: what became of the gap, and what of the parameter.

One state of field and parameters: what it delivers, what it prefers, the gap between them.

Training knows no bounds, and the field of a training that was stopped early may prefer a value
outside of them. A minimum on a bound is therefore looked for once more between wider ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.geometry import FrozenScan, delivery, frozen_scan
from twoaxis.geometry.scan import INTERIOR
from twoaxis.parameters import Parameter, Parameters
from twoaxis.views import View

FloatArray = NDArray[np.float64]

# Bounds of a log coordinate are moved by this factor, those of a linear one by their width.
WIDER = 10.0


@dataclass(frozen=True, eq=False)
class Stage:
    """A state, read under the training view.

    Attributes
    ----------
    name : str
        "delivered", "frozen minimum" or "finished".
    parameters : dict of str to Parameter
        With this state's values as `delivered`.
    preferred : dict of str to float, or None
        The minimum of the frozen profile of this state's field; None where it is flat.
    status : str
        Where that minimum lies, as the scan says it.
    affine : bool
        Whether it was found in closed form.
    residual_loss, least_loss : float
        ``r^T M r`` at the state's own values, and at those that its field prefers.
    view : str
    """

    name: str
    parameters: dict[str, Parameter]
    preferred: dict[str, float] | None
    status: str
    affine: bool
    residual_loss: float
    least_loss: float
    view: str

    @property
    def values(self) -> dict[str, float]:
        """The parameters of this state."""
        return Parameters(self.parameters).require("delivered")

    @property
    def interior(self) -> bool:
        """Whether the preferred values lie inside the bounds: only then there is a gap."""
        return self.preferred is not None and self.status == INTERIOR

    @property
    def gap(self) -> dict[str, float] | None:
        """Delivered minus preferred, in coordinates; None where nothing is preferred."""
        return delivery(self.parameters, self.preferred).gap if self.interior else None

    @property
    def gap_percent(self) -> dict[str, float] | None:
        """The gap as a signed percentage of the preferred value."""
        return delivery(self.parameters, self.preferred).gap_percent if self.interior else None

    @property
    def error_percent(self) -> dict[str, float]:
        """Signed deviation from the truth, where that is known."""
        return {
            name: float(p.percent(self.values[name], center=p.truth))
            for name, p in self.parameters.items()
            if p.truth is not None
        }

    def at_minimum(self) -> Stage:
        """Return the stage with the field held and the parameters at their frozen minimum."""
        wanted = self.preferred or self.values
        # A minimum on a bound may lie beyond it by a last digit, which exp(log(...)) leaves behind.
        moved = {
            name: replace(p.holding(wanted[name]), delivered=wanted[name])
            for name, p in self.parameters.items()
        }
        return replace(self, name="frozen minimum", parameters=moved, residual_loss=self.least_loss)


def stage_of(name: str, frozen: FrozenResidual, view: View | None, candidates: int) -> Stage:
    """Scan a frozen residual around what it delivered."""
    metric = bound_view(frozen, view)
    scan = _scan(frozen, metric, candidates)
    delivered = Parameters(frozen.parameters).require("delivered")

    def loss(values: dict[str, float]) -> float:
        residual = frozen.at(frozen.coordinates(values))
        return float(metric.quadratic(residual, residual))

    return Stage(
        name=name,
        parameters=dict(scan.parameters),
        preferred=scan.minimum,
        status=scan.status,
        affine=scan.affine,
        residual_loss=loss(delivered),
        least_loss=loss(scan.minimum or delivered),
        view=metric.describe(),
    )


def _scan(frozen: FrozenResidual, metric: Any, candidates: int) -> FrozenScan:
    """Scan around the delivered values, between wider bounds where a minimum lies on one."""
    scan = frozen_scan(frozen, view=metric, candidates=candidates, at="delivered")
    if scan.minimum is None or scan.status == INTERIOR:
        return scan
    known = {name: replace(p, bounds=wider_bounds(p)) for name, p in frozen.parameters.items()}
    try:
        wide = replace(frozen, parameters=known)
        return frozen_scan(wide, view=metric, candidates=candidates, at="delivered")
    except InputError:  # the residual is not defined that far out
        return scan


def wider_bounds(parameter: Parameter) -> tuple[float, float]:
    """Return bounds far outside of the declared ones: beyond them a parameter has run away."""
    low, high = parameter.bounds
    if parameter.coordinate == "log":
        return low / WIDER, high * WIDER
    return 2 * low - high, 2 * high - low


# From so many percent on, a gap has closed; below the second number it has not.
CLOSED, HALF = 90.0, 50.0
# A loss that falls by this many percent was far from its minimum, whatever the gap.
UNFINISHED = 25.0
# Smaller gaps, in percent, are not told apart.
NOTHING = 0.01


def verdict_sentence(found: Polish) -> str:
    """Say how much of the gap was optimisation."""
    gaps = found.gap_before
    if gaps is None:
        return _no_gap(found.before, "delivered field") + _gap_now(found)
    largest = max(gaps, key=lambda name: abs(gaps[name]))
    if found.little_to_gain:
        near = (
            f"the delivered {largest} lies {abs(gaps[largest]):.2g}% from what its own field "
            "prefers"
        )
        if found.loss_fall_percent >= UNFINISHED:
            return (
                f"There was little gap to close: {near}. But the field was not trained to its end, "
                f"which a gap does not show: the loss fell by {found.loss_fall_percent:.0f}%."
            )
        return f"There was little to gain: {near}."
    if found.finish is None:
        return (
            f"The delivered {largest} lies {_side(gaps[largest])} what its own field prefers. "
            "Whether that was optimisation only a joint finishing tells: pass objective=."
        )
    after, closed = found.gap_after, found.closed_percent
    if after is None or closed is None:
        return _no_gap(found.finish.stage, "finished field")
    change = f"from {gaps[largest]:+.3g}% to {_small(after[largest])}"
    if closed[largest] >= CLOSED:
        return f"The gap was optimisation: it closed by {closed[largest]:.0f}%, {change}."
    if closed[largest] >= HALF:
        return (
            f"Most of the gap was optimisation: it closed by {closed[largest]:.0f}%, {change}"
            f"{_unfinished(found)}."
        )
    return (
        f"The gap did not close: it went {change}{_unfinished(found)}. Look for another basin in "
        "the frozen scan, and at whether the view is the one of the training."
    )


def parameter_sentence(found: Polish) -> str:
    """Say what became of the parameter itself: delivering a preference does not make it true."""
    last = found.before.at_minimum() if found.finish is None else found.finish.stage
    if found.finish is None and found.before.preferred is None:
        return "The parameter was not moved."
    what = "At the frozen minimum" if found.finish is None else "After joint finishing"
    moved = ", ".join(
        f"{name} = {value:.4g} (delivered: {found.delivered[name]:.4g})"
        for name, value in last.values.items()
    )
    before, after = found.before.error_percent, last.error_percent
    errors = ", ".join(
        f"the error of {name} went from {before[name]:+.3g}% to {after[name]:+.3g}%"
        for name in after
    )
    fall = f", the loss {found.loss_fall_percent:.2g}% lower" if found.finish is not None else ""
    told = f"{what} {moved}{fall}" + (f"; {errors}" if errors else "") + ". "
    return told + (
        "Polishing delivers what the loss asks for, and that need not be the true parameter."
    )


def _small(gap: float) -> str:
    """Say a gap that may be zero but for the last digits of an optimiser."""
    return f"{gap:+.2g}%" if abs(gap) >= NOTHING else f"less than {NOTHING}%"


def _side(gap: float) -> str:
    return f"{abs(gap):.3g}% {'above' if gap > 0 else 'below'}"


def _unfinished(found: Polish) -> str:
    if found.finish is None or found.finish.converged:
        return ""
    return f" after {found.finish.iterations} iterations, which did not converge"


def _no_gap(stage: Stage, whose: str) -> str:
    if stage.preferred is None:
        return f"There is no gap to close: the {whose} does not see the parameter ({stage.status})."
    return (
        f"There is no gap to measure: the profile of the {whose} has no minimum inside the bounds, "
        f"nor far outside of them. It ends {stage.status}."
    )


def _gap_now(found: Polish) -> str:
    """Say what the gap is after finishing, where there was none to compare it with."""
    after = found.gap_after
    if after is None:
        return ""
    return (
        " After joint finishing the gap is "
        + ", ".join(f"{_small(gap)} in {name}" for name, gap in after.items())
        + "."
    )


@dataclass(frozen=True, eq=False)
class Finish:
    """Where the joint finishing ended.

    Attributes
    ----------
    stage : Stage
    frozen : FrozenResidual
        Of the finished field.
    vector : array, shape (n,)
        The finished state, as the objective takes it.
    loss_before, loss_after : float
        The training loss with its weights held.
    gradient_before, gradient_after : float
        The largest entry of its gradient, by size.
    iterations, evaluations : int
    converged : bool
        Whether the gradient vanished, to 1e-9, but for entries that push a parameter against the
        bound it stands on. False where the iterations were used up before, or the loss ceased to
        fall, be it at its last digits.
    """

    stage: Stage
    frozen: FrozenResidual = field(repr=False)
    vector: FloatArray = field(repr=False)
    loss_before: float
    loss_after: float
    gradient_before: float
    gradient_after: float
    iterations: int
    evaluations: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Polish:
    """How much of a delivery gap was optimisation.

    Made by `twoaxis.polish`.

    Attributes
    ----------
    before : Stage
        The delivered state.
    tolerance : float
        The gap, in percent, that leaves little to gain.
    finish : Finish, optional
        The state after joint finishing; None without an objective.
    """

    before: Stage
    tolerance: float
    finish: Finish | None = None

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters, as they were delivered; without those that an objective holds fixed."""
        return self.before.parameters

    @property
    def stages(self) -> list[Stage]:
        """Delivered, frozen minimum and, with an objective, finished."""
        found = [self.before]
        if self.before.preferred is not None:
            found.append(self.before.at_minimum())
        return found if self.finish is None else [*found, self.finish.stage]

    @property
    def delivered(self) -> dict[str, float]:
        """What training returned."""
        return self.before.values

    @property
    def frozen_minimum(self) -> dict[str, float] | None:
        """What the delivered field prefers: the parameter to use if the field is kept."""
        return self.before.preferred

    @property
    def finished(self) -> dict[str, float] | None:
        """The parameters after joint finishing."""
        return None if self.finish is None else self.finish.stage.values

    @property
    def gap_before(self) -> dict[str, float] | None:
        """Signed gap of the delivered state, in percent; None where the field prefers nothing."""
        return self.before.gap_percent

    @property
    def gap_after(self) -> dict[str, float] | None:
        """Signed gap after joint finishing, in percent."""
        return None if self.finish is None else self.finish.stage.gap_percent

    @property
    def closed_percent(self) -> dict[str, float] | None:
        """By how much of itself each gap closed, ``100 (1 - |after| / |before|)``.

        In coordinates, where a gap upwards and one downwards count alike. Negative where it grew.
        """
        before = self.before.gap
        after = None if self.finish is None else self.finish.stage.gap
        if before is None or after is None:
            return None
        return {
            name: 100 * (1 - abs(after[name]) / abs(gap)) if gap else 0.0
            for name, gap in before.items()
        }

    @property
    def loss_fall_percent(self) -> float:
        """By how much the joint finishing lowered the training loss; 0 without an objective."""
        if self.finish is None or self.finish.loss_before == 0:
            return 0.0
        return 100 * (1 - self.finish.loss_after / self.finish.loss_before)

    @property
    def little_to_gain(self) -> bool | None:
        """Whether all gaps were within the tolerance from the start; None without a gap."""
        gaps = self.gap_before
        return None if gaps is None else max(map(abs, gaps.values())) <= self.tolerance

    @property
    def verdict(self) -> str:
        """What became of the gap, in a sentence."""
        return verdict_sentence(self)

    @property
    def about_the_parameter(self) -> str:
        """What became of the parameter, which is another matter, in a sentence."""
        return parameter_sentence(self)

    def summary(self) -> pd.DataFrame:
        """Return a table with a row for each stage and parameter.

        Columns: value, what the stage's field prefers, the gap in percent, the error in percent
        where the truth is known, and the residual loss.
        """
        rows = [
            {
                "stage": stage.name,
                "parameter": name,
                "value": stage.values[name],
                "preferred": np.nan if stage.preferred is None else stage.preferred[name],
                "gap_percent": np.nan if stage.gap_percent is None else stage.gap_percent[name],
                "error_percent": stage.error_percent.get(name, np.nan),
                "residual_loss": stage.residual_loss,
            }
            for stage in self.stages
            for name in stage.parameters
        ]
        return pd.DataFrame(rows).set_index(["stage", "parameter"]).dropna(axis=1, how="all")

    def to_dataset(self) -> xr.Dataset:
        """Return the table as a labelled dataset, with the numbers of the finishing beside it."""
        data = self.summary().to_xarray()
        # Pandas sorts the labels; the stages have an order of their own.
        names = {"stage": [s.name for s in self.stages], "parameter": list(self.parameters)}
        data = data.reindex(names)
        attributes: dict[str, Any] = {"view": self.before.view, "verdict": self.verdict}
        if self.finish is not None:
            numbers = ("loss_before", "loss_after", "gradient_before", "gradient_after")
            counts = ("iterations", "evaluations", "converged")
            attributes |= {name: getattr(self.finish, name) for name in numbers}
            attributes |= {name: int(getattr(self.finish, name)) for name in counts}
        return data.assign_attrs(attributes)

    def __repr__(self) -> str:
        lines = [
            f"Delivery under {self.before.view}",
            self.summary().to_string(float_format=lambda v: f"{v:.5g}"),
        ]
        if self.finish is not None:
            found = self.finish
            lines.append(
                f"loss {found.loss_before:.5g} -> {found.loss_after:.5g}, largest gradient "
                f"{found.gradient_before:.2g} -> {found.gradient_after:.2g}, "
                f"{found.iterations} iterations" + ("" if found.converged else " (not converged)")
            )
        return "\n".join([*lines, self.verdict, self.about_the_parameter])
