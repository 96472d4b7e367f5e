"""What training returned: the parameter, and how good the field is."""

from __future__ import annotations

from typing import Any

from twoaxis.studies.readouts.readout import Readout
from twoaxis.studies.scale import Scale
from twoaxis.training import Run


def _read(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    ((name, error),) = run.error_percent.items()
    return [
        {
            "delivered": run.delivered[name],
            "error_percent": error,
            "field_error": run.field_error(),
            "finished": run.finished,
        }
    ]


# ``error_percent`` is signed; ``field_error`` is the relative L2 error over the fine grid.
DELIVERED = Readout("delivered", 1, _read)
