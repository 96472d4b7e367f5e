"""What polishing found: three stages, how far the gap closed, and what it did to the parameter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter
from twoaxis.remedies.polish.stages import Stage
from twoaxis.remedies.polish.verdict import parameter_sentence, verdict_sentence

FloatArray = NDArray[np.float64]


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
