r"""One simulated replica, measured where its truth is known.

The data were simulated at :math:`q_0`, so for the field that the pipeline trained on them the
bookkeeping of the diagnosis closes without any unknown:

.. math:: \hat q - q_0 = (q_{\rm profile} - q_0) + (\hat q - q_{\rm profile}),

delivered error = preference of the frozen field + delivery gap. The score adds the displacement
:math:`D` of the field at :math:`q_0`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.geometry import frozen_scan, score
from twoaxis.parameters import Parameter
from twoaxis.remedies.calibration.answers import Answer
from twoaxis.views import View

NO_FROZEN = "the answer carries no frozen residual"


@dataclass(frozen=True)
class Replica:
    """What one simulated dataset led to; differences of coordinates, by parameter.

    Attributes
    ----------
    delivered : dict of str to float
        Physical values.
    error : dict of str to float
        Delivered minus the parameter of the simulation.
    displacement : dict of str to float
        D of the frozen field under the audited view; NaN where `status` says why.
    training_displacement : dict of str to float
        The same under the view of the training.
    preferred : dict of str to float
        Minimum of the frozen scan minus the parameter of the simulation; NaN on a bound.
    status : str
        "measured", or a sentence.
    """

    delivered: dict[str, float]
    error: dict[str, float]
    displacement: dict[str, float]
    training_displacement: dict[str, float]
    preferred: dict[str, float]
    status: str


def measure_replica(
    answer: Answer, parameters: Mapping[str, Parameter], at: Mapping[str, float], view: View | None
) -> Replica:
    """Score and scan the field of one answer at the parameter that its data were simulated at."""
    nothing = dict.fromkeys(parameters, np.nan)
    if answer.failure:
        return Replica(nothing, nothing, nothing, nothing, nothing, answer.failure)
    error = {
        name: float(p.to_coordinate(answer.delivered[name]) - p.to_coordinate(at[name]))
        for name, p in parameters.items()
    }
    if answer.frozen is None:
        return Replica(answer.delivered, error, nothing, nothing, nothing, NO_FROZEN)
    frozen = known_truth(answer.frozen, at, answer.delivered)
    found = score(frozen, view=view, at="truth")
    own = found if view is None or frozen.view is None else score(frozen, at="truth")
    scan = frozen_scan(frozen, view=view, at="truth")
    status = "measured"
    displacement = found.displacement
    if not found.identified:
        displacement, status = nothing, found.doubts[0]
    elif scan.cut_off:
        status = f"the minimum of the frozen profile: {scan.status}"
    return Replica(
        answer.delivered,
        error,
        displacement,
        own.displacement if own.identified else nothing,
        # A minimum on a bound is where the scan was cut off, not what the field prefers.
        nothing if scan.cut_off else scan.displacement or nothing,
        status,
    )


def known_truth(
    frozen: FrozenResidual, truth: Mapping[str, float], delivered: Mapping[str, float] | None = None
) -> FrozenResidual:
    """Return a frozen residual whose parameters carry the truth of its simulation."""
    if set(frozen.parameters) != set(truth):
        raise InputError(
            f"frozen residuals of the parameters {', '.join(truth)}",
            f"one of {', '.join(frozen.parameters)}",
            "give the frozen residual of the pipeline the same parameters",
        )
    changed = {}
    for name, p in frozen.parameters.items():
        values: dict[str, Any] = {"truth": truth[name]}
        wide = p.holding(truth[name])
        if delivered is not None:
            values["delivered"] = delivered[name]
            wide = wide.holding(delivered[name])
        changed[name] = replace(wide, **values)
    return replace(frozen, parameters=changed)
