r"""How many modes a selector run kept, and how much of the strength they hold at its end.

The run's frozen view is the Gaussian kernel truncated to the rank :math:`R` that was chosen when
the parameters began to move. The retained share is

.. math:: H_R / H = \sum_{k \le R} \lambda_k j_k^2 \Big/ \sum_k \lambda_k j_k^2

with the sensitivity of the final field, so that it may fall below the share that the rule asked
for when it chose.
"""

from __future__ import annotations

from typing import Any

from twoaxis.frozen import bound_view
from twoaxis.geometry import score
from twoaxis.studies.readouts.profiles import STEP
from twoaxis.studies.readouts.readout import Readout
from twoaxis.studies.scale import Scale
from twoaxis.training import Run
from twoaxis.views import Gaussian


def _read(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    frozen = run.frozen  # its bounds hold the delivered parameter, wherever that is
    own, full = bound_view(frozen, run.view), bound_view(frozen, Gaussian())
    row: dict[str, Any] = {"rank": own.rank}
    for center in ("delivered", "truth"):
        strength = [
            float(score(frozen, view=view, at=center, derivative="difference", step=STEP).H)
            for view in (own, full)
        ]
        row[f"retained_at_{center}"] = strength[0] / strength[1]
    return [row]


SELECTED = Readout("selected", 1, _read)
