"""Does a stored run agree with itself?

A checksum tells that a file is as it was written, not that what was written is a run: whoever
changes a manifest can compute its checksum again. Everything that a manifest says twice, or that
its arrays show, is compared here. An error tells what does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from twoaxis.errors import InputError
from twoaxis.training.request import check_specs
from twoaxis.training.run import Run, Snapshot
from twoaxis.views import Dense, Weighted

LOSSES = ("loss", "loss_data", "loss_residual")
# The loss is a sum of two numbers that are stored beside it.
ROUNDING = 1e-12


def ensure_coherent(run: Run, plain: Mapping[str, Any]) -> None:
    """Refuse a run whose parts contradict each other.

    Parameters
    ----------
    run : Run
        As it was rebuilt.
    plain : mapping
        Its manifest.

    Raises
    ------
    ValueError
    """
    try:
        check_specs(run.problem, [run.spec])
    except InputError as error:
        raise ValueError(f"it has {error.got}, where {error.wanted} belong") from error
    _same("its observations", plain["run"]["observations"], run.spec.describe()["observations"])
    _same("what it delivered", plain["delivered"], run.delivered)
    _check_points(run)
    _check_steps(run)
    for snapshot in (*run.snapshots, run.final):
        _check_values(run, snapshot)
        _check_layers(run, snapshot)
        _check_view(run, snapshot)
    _check_history(run)


def text(value: Any) -> str:
    """Return a text of a manifest; anything else is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40}, where a text belongs")
    value.encode()  # JSON can spell characters that do not exist
    return value


def whole(value: Any) -> int:
    """Return a whole number of a manifest."""
    if type(value) is not int:
        raise TypeError(f"{value!r:.40}, where a whole number belongs")
    return value


def real(value: Any) -> float:
    """Return a finite number of a manifest."""
    if type(value) not in (int, float) or not np.isfinite(value):
        raise TypeError(f"{value!r:.40}, where a finite number belongs")
    return float(value)


def _same(what: str, told: Any, found: Any) -> None:
    if told != found:
        raise ValueError(f"{what}: the manifest says {told!r:.80}, and the rest {found!r:.80}")


def _check_points(run: Run) -> None:
    wanted = (run.settings.residual_points, len(run.settings.axes))
    if run.points.shape != wanted or run.points.dtype != np.float64:
        raise ValueError(f"points of shape {run.points.shape}, where {wanted} belongs")
    low, high = np.array(list(run.problem.domain.values()), dtype=float).T
    if not ((run.points >= low) & (run.points <= high)).all():
        raise ValueError("points outside the domain of its problem")


def _check_steps(run: Run) -> None:
    """Snapshots rise up to the end, which is the last step unless the run diverged."""
    last, steps = run.final.step, [snapshot.step for snapshot in run.snapshots]
    if not 0 <= last <= run.settings.steps or (last == run.settings.steps) != run.finished:
        raise ValueError(f"status {run.status!r:.40} after {last} of {run.settings.steps} steps")
    if steps != sorted(set(steps)) or not all(0 < step <= last for step in steps):
        raise ValueError(f"snapshots after the steps {steps!r:.80}, and the end after {last}")


def _check_values(run: Run, snapshot: Snapshot) -> None:
    """Every parameter has a value that it can have; a fixed one, the value it was given."""
    parameters, values = run.problem.parameters, snapshot.delivered
    if set(values) != set(parameters):
        raise ValueError(f"values for {list(values)!r:.80}, where {list(parameters)} belong")
    for name, value in values.items():
        if parameters[name].coordinate == "log" and not value > 0:
            raise ValueError(f"{name}={value!r}, where a positive number belongs")
        if name in run.spec.fixed and value != run.spec.start[name]:
            raise ValueError(f"{name}={value!r}, which was fixed at {run.spec.start[name]!r}")


def _check_layers(run: Run, snapshot: Snapshot) -> None:
    """Weights and biases are those of the network in the settings, in their precision."""
    sizes = run.settings.network.sizes(len(run.settings.axes))
    wanted = [((n, m), (n,)) for m, n in pairwise(sizes)]
    found = [(np.shape(weight), np.shape(bias)) for weight, bias in snapshot.layers]
    if found != wanted:
        raise ValueError(f"layers of the shapes {found!r:.80}, where {wanted!r:.80} belong")
    arrays = [array for layer in snapshot.layers for array in layer]
    if any(array.dtype != run.settings.precision for array in arrays):
        raise ValueError(f"layers that are not in {run.settings.precision}")
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("weights that are not finite")


def _check_view(run: Run, snapshot: Snapshot) -> None:
    """A view with a value for every point has one for every point."""
    view = snapshot.view
    if isinstance(view, (Weighted, Dense)):
        count = len(np.asarray(view.loss_weights if isinstance(view, Weighted) else view.matrix))
        if count != len(run.points):
            raise ValueError(f"a view of {count} points, where {len(run.points)} belong")


def _check_history(run: Run) -> None:
    """Every column is there, over steps that rise, with numbers of which each is finite."""
    history, wanted = run.history, ["step", *LOSSES, *run.problem.parameters]
    if list(history) != wanted:
        raise ValueError(f"a history of {list(history)!r:.80}, where {wanted} belong")
    steps = history["step"].to_numpy()
    rising = steps.dtype == np.int64 and (np.diff(steps) > 0).all()
    if not rising or not ((steps > 0) & (steps <= run.final.step)).all():
        raise ValueError("its history does not have the steps of a training")
    if run.finished and steps[-1:].tolist() != [run.final.step]:
        raise ValueError("its history does not go to its end")
    if any(history[name].dtype != np.float64 for name in wanted[1:]):
        raise ValueError("its history does not consist of numbers")
    if not np.isfinite(history[wanted[2:]].to_numpy()).all():
        raise ValueError("its history has numbers that are not finite")
    parts = history["loss_data"] + run.settings.physics_weight * history["loss_residual"]
    if not np.allclose(history["loss"], parts, rtol=ROUNDING, atol=0.0):
        raise ValueError("the loss in its history is not the sum of its parts")
