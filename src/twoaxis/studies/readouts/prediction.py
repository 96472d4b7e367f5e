"""How well a field that was trained on half of the observations predicts the other half."""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.errors import InputError
from twoaxis.observations import Dataset, published_dataset
from twoaxis.studies.fields import every_second
from twoaxis.studies.readouts.readout import Readout
from twoaxis.studies.scale import Scale
from twoaxis.training import Run

# The pilot has one case a problem, all at this dataset.
PILOT_DATASET = 9


def held_out(fold: Dataset) -> Dataset:
    """Return the observations of the pilot's dataset that a fold of it leaves out."""
    whole = published_dataset(fold.problem, PILOT_DATASET)
    for first in (0, 1):
        if np.array_equal(every_second(whole, first).values, fold.values):
            return every_second(whole, 1 - first)
    raise InputError(
        f"every second observation of dataset {PILOT_DATASET}",
        f"dataset {fold.label!r} with {len(fold.values)} observations",
        f"train on Field(..., dataset={PILOT_DATASET}, fold=0), or on fold=1",
    )


def _read(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    other = held_out(run.dataset)
    error = run.field(other.coordinates) - other.values
    return [{"held_out_mse": float(np.mean(error**2)), "finished": run.finished}]


# ``held_out_mse`` is the mean squared difference of field and noisy values.
PREDICTION = Readout("prediction", 1, _read)
