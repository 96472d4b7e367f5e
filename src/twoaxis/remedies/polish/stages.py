"""One state of field and parameters: what it delivers, what it prefers, the gap between them.

Training knows no bounds, and the field of a training that was stopped early may prefer a value
outside of them. A minimum on a bound is therefore looked for once more between wider ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.geometry import FrozenScan, delivery, frozen_scan
from twoaxis.geometry.profile import INTERIOR
from twoaxis.parameters import Parameter, delivered_values
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
        return delivered_values(self.parameters)

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
    delivered = delivered_values(frozen.parameters)

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
