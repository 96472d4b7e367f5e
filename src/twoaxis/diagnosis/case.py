"""Everything that was measured for one audit, before anybody judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twoaxis.diagnosis.data_check import Matching, Observing
from twoaxis.diagnosis.decision_map import Tolerance
from twoaxis.diagnosis.directions import Directions
from twoaxis.diagnosis.reading import Reading
from twoaxis.geometry import Delivery
from twoaxis.parameters import Center, Parameter, Parameters

FloatArray = NDArray[np.float64]
ViewRelation = Literal["the training view", "another view", "taken as the training view"]


@dataclass(frozen=True, eq=False)
class Case:
    """What is known about one field.

    Attributes
    ----------
    parameters : dict of str to Parameter
        Without truths unless the centre is the truth.
    center : Center
    audited : Reading
        Axis 2 under the audited view.
    training : Reading
        The same under the training view: the same object where the views are.
    relation : str
        How the audited view relates to the training view.
    directions : Directions
        Of the audited view's strength.
    delivery : Delivery, optional
        Under the training view.
    seen : Observing, optional
        Axis 1.
    matching : Matching
    tolerance : Tolerance, optional
    """

    parameters: dict[str, Parameter]
    center: Center
    audited: Reading
    training: Reading
    relation: ViewRelation
    directions: Directions
    delivery: Delivery | None
    seen: Observing | None
    matching: Matching
    tolerance: Tolerance | None

    @property
    def around_truth(self) -> bool:
        """Whether deviations from the centre are errors."""
        return self.center.kind == "truth"

    @property
    def cross_view(self) -> bool:
        """Whether the audited view is another one than the training view."""
        return self.training is not self.audited

    @property
    def delivered(self) -> dict[str, float] | None:
        """Delivered values; None unless every parameter has one."""
        known = {n: p.delivered for n, p in self.parameters.items() if p.delivered is not None}
        return known if len(known) == len(self.parameters) else None

    @property
    def delivered_displacement(self) -> FloatArray | None:
        """Delivered minus centre, in coordinates."""
        if self.delivered is None:
            return None
        home = Parameters(self.parameters).coordinates(self.center.values)
        return Parameters(self.parameters).coordinates(self.delivered) - home

    def delivered_percent(self, name: str) -> float | None:
        """Error of a delivered value; None around a candidate."""
        if self.delivered is None or not self.around_truth:
            return None
        parameter = self.parameters[name]
        return float(abs(parameter.percent(self.delivered[name], self.center.values[name])))

    @property
    def undelivered(self) -> bool:
        """Whether the audit is made around a point, and nothing is known of what was delivered."""
        return self.center.kind == "point" and self.delivered is None

    @property
    def reads_gap(self) -> bool:
        """Whether the candidate's stability is the gap itself, not the displacement.

        Around a point that is not what training delivered, the two differ.
        """
        return self.center.kind == "point" and self.delivery is not None
