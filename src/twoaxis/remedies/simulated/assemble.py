"""Replicas as labelled data, with their means, messages and the verdict they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from twoaxis.diagnosis import Tolerance
from twoaxis.parameters import Center, Parameter
from twoaxis.remedies.simulated.replicas import Replica
from twoaxis.remedies.simulated.route import judge
from twoaxis.resolution import Resolution
from twoaxis.views import View

SCHEMA = "twoaxis-simulated-audit-1"
BOTH = ("parameter", "replica")
LABELS = {
    "delivered": "what the pipeline delivered on each simulated dataset",
    "delivered_error": "delivered minus the parameter of the simulation, in coordinates",
    "displacement": "displacement D of the frozen field at the parameter of the simulation",
    "training_displacement": "the same under the view of the training",
    "preferred_error": "minimum of the frozen scan minus the parameter of the simulation",
    "gap": "delivered minus preferred, in coordinates",
    "matched_error": "matched fit minus the parameter of the simulation, in coordinates",
}


def assemble(
    found: Sequence[Replica],
    parameters: Mapping[str, Parameter],
    center: Center,
    fits: Resolution | None,
    tolerance: Tolerance | None,
    seed: int | Sequence[int],
    view: View | None,
) -> xr.Dataset:
    """Return everything that was measured as one dataset."""
    names = list(parameters)
    arrays = {
        "delivered": _array(found, "delivered", names),
        "delivered_error": _array(found, "error", names),
        "displacement": _array(found, "displacement", names),
        "training_displacement": _array(found, "training_displacement", names),
        "preferred_error": _array(found, "preferred", names),
    }
    arrays["gap"] = arrays["delivered_error"] - arrays["preferred_error"]
    if fits is not None:
        arrays["matched_error"] = _matched(fits, parameters, center)
    given = [parameters[name].delivered for name in names]
    data = xr.Dataset(
        {name: (BOTH, array, {"long_name": LABELS[name]}) for name, array in arrays.items()}
        | {
            "status": ("replica", np.array([each.status for each in found], dtype=object)),
            "center": ("parameter", [center.values[name] for name in names]),
            "given": ("parameter", np.array(given, dtype=float)),
            "lower_bound": ("parameter", [parameters[name].bounds[0] for name in names]),
            "upper_bound": ("parameter", [parameters[name].bounds[1] for name in names]),
            "coordinate": ("parameter", [parameters[name].coordinate for name in names]),
            "scale": ("parameter", [parameters[name].scale or 0.0 for name in names]),
        },
        {"parameter": names, "replica": np.arange(len(found))},
    )
    data.attrs = {
        "schema": SCHEMA,
        "seed": " ".join(map(str, np.atleast_1d(seed))),
        "view": "the view of the training" if view is None else view.describe(),
        # Equal numbers come of equal views: then delivery can be read under the audited one.
        "cross_view": int(
            not np.array_equal(
                arrays["displacement"], arrays["training_displacement"], equal_nan=True
            )
        ),
    }
    return judge(data, tolerance)


def _array(found: Sequence[Replica], field: str, names: list[str]) -> Any:
    return np.array([[getattr(each, field)[name] for each in found] for name in names])


def _matched(fits: Resolution, parameters: Mapping[str, Parameter], center: Center) -> Any:
    """Return matched fits to the same datasets as errors in coordinates, (parameter, replica)."""
    estimates = fits.data["estimate"].isel(layout=0).transpose(*BOTH).values
    return np.array(
        [
            p.to_coordinate(row) - p.to_coordinate(center.values[name])
            for (name, p), row in zip(parameters.items(), estimates, strict=True)
        ]
    )
