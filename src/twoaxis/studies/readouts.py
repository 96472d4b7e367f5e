"""What is read from a trained field: one table per readout, one or more rows per field.

Unless a readout says otherwise, it is centered on the truth and inside the published parameter
bounds, whatever the network delivered. As in the study, derivatives are centered differences in log
coordinates and the selected minimum is that of the grid; the refined minimum and that of the
truth's own basin are also given. Everything is computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from twoaxis.datasets import Dataset, published_dataset
from twoaxis.errors import InputError
from twoaxis.forward import get_solver
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.geometry import frozen_scan, score, spectrum
from twoaxis.geometry.derivatives import linearize
from twoaxis.parameters import Parameters
from twoaxis.problems import truth_of
from twoaxis.problems.problem import FixedEnds
from twoaxis.runs import Run
from twoaxis.studies.fields import every_second
from twoaxis.studies.scale import Scale
from twoaxis.training.network import field_arrays, field_derivatives
from twoaxis.views import BoundView, Gaussian, Patch, Pointwise
from twoaxis.views.gaussian import BoundLowRank

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Readout:
    """Numbers that are read out of one trained field.

    Parameters
    ----------
    name : str
        Of the table that keeps them.
    version : int
        Raised when the same field would give other numbers: older tables are then not used.
    read : callable
        ``read(run, scale)``: the rows of the field, as dictionaries with the same keys.
    """

    name: str
    version: int
    read: Callable[[Run, Scale], list[dict[str, Any]]]

    @property
    def file(self) -> str:
        """Name of the table on disk."""
        return f"{self.name}-{self.version}.csv"


# ------------------------------------------------------------------ delivered parameter and field


def _delivered(run: Run, scale: Scale) -> list[dict[str, Any]]:
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
DELIVERED = Readout("delivered", 1, _delivered)


# ------------------------------------------------------------------ conditions


def initial_error(run: Run) -> float:
    r"""Return the relative L2 error of the field at time zero.

    Over the nodes of the fine grid, with the declared initial field :math:`u_0`, it is
    :math:`\lVert u(\cdot, 0) - u_0 \rVert_2 / \lVert u_0 \rVert_2`.
    """
    solver = _solver(run)
    declared = solver.problem.initial(solver.x)
    found = run.field(np.column_stack([solver.x, np.full_like(solver.x, solver.t[0])]))
    return float(np.linalg.norm(found - declared) / np.linalg.norm(declared))


def boundary_error(run: Run) -> float:
    """Return the root mean square error of the boundary conditions for t > 0, at both ends.

    The error is that of a declared boundary value, or the normal derivative where the flux is
    zero. Times begin after the first level: at ``t = 0`` the initial condition holds, which
    contradicts Allen–Cahn's boundary condition in both corners.
    """
    solver = _solver(run)
    times, ends = solver.t[1:], solver.problem.ends
    left, right = (
        np.column_stack([np.full_like(times, x), times]) for x in solver.problem.domain["x"]
    )
    if isinstance(ends, FixedEnds):
        missed = [run.field(left) - ends.left, run.field(right) - ends.right]
    else:
        missed = [_slope(run, left), _slope(run, right)]
    return float(np.sqrt(np.mean(np.square(missed))))


def _slope(run: Run, points: FloatArray) -> FloatArray:
    """Return ``u_x`` at points (N, 2); at an end it is the normal derivative but for its sign."""
    layers = [(np.asarray(w, float), np.asarray(b, float)) for w, b in run.final.layers]
    arrays = field_arrays(run.problem, run.settings.conditions, points)
    found = field_derivatives(layers, arrays, run.settings.axes, ("u", "u_x"), np)
    return np.asarray(found["u_x"])


def _solver(run: Run) -> ExplicitSolver:
    solver = get_solver(run.problem)
    if not isinstance(solver, ExplicitSolver):
        raise InputError(
            "a field of an evolution problem, which has an initial condition",
            f"one of {run.problem.name}",
            "ask for its conditions in another readout",
        )
    return solver


def _conditions(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    return [{"initial_error": initial_error(run), "boundary_error": boundary_error(run)}]


CONDITIONS = Readout("conditions", 1, _conditions)


# ------------------------------------------------------------------ held-out prediction

# The pilot has one case per problem, all at this dataset.
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


def _prediction(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    other = held_out(run.dataset)
    error = run.field(other.coordinates) - other.values
    return [{"held_out_mse": float(np.mean(error**2)), "finished": run.finished}]


# ``held_out_mse`` is the mean squared difference of field and noisy values.
PREDICTION = Readout("prediction", 1, _prediction)


# ------------------------------------------------------------------ score and frozen scan

STEP = 1e-3
CANDIDATES = 81
# The robustness audit crosses these.
STEPS = (5e-4, 1e-3, 2e-3)
GRIDS = (81, 161)

VIEWS = {"pointwise": Pointwise(), "patch-8": Patch(cells=8), "full kernel": Gaussian()}
OWN = "own"


def in_published_box(run: Run) -> FrozenResidual:
    """Return the frozen field with the problem's own bounds, centered on the truth."""
    return replace(run.frozen, parameters=run.problem.parameters)


def _profile(run: Run, frozen: FrozenResidual, view: str) -> dict[str, Any]:
    """Return one row: the score and the scan under one view."""
    (name,) = run.problem.parameters
    metric = bound_view(frozen, run.view if view == OWN else VIEWS[view])
    found = score(frozen, view=metric, derivative="difference", step=STEP)
    scan = frozen_scan(frozen, view=metric, candidates=CANDIDATES)
    row = {
        "view": view,
        "B": float(found.B),
        "H": float(found.H),
        "displacement": found.displacement[name],
        "delta_percent": found.delta_percent[name],
        "residual_mse": float(found.residual_norm) ** 2,
        "alignment": float(np.squeeze(found.alignment)),
        "delivered_displacement": _moved(run, run.delivered)[name],
        "scan_status": scan.status,
    }
    minima = {
        "grid": scan.grid_displacement,
        "refined": scan.displacement,
        "basin": scan.basin_minimum and _moved(run, scan.basin_minimum),
    }
    for kind, moved in minima.items():
        row[f"{kind}_displacement"], row[f"{kind}_error_percent"] = _step(moved, name)
    return row


def _step(moved: Mapping[str, float] | None, name: str) -> tuple[float, float]:
    """Return a log displacement and the error in percent; NaN where there is no minimum."""
    step = np.nan if moved is None else float(moved[name])
    return step, 100 * abs(np.expm1(step))


def _moved(run: Run, values: dict[str, float]) -> dict[str, float]:
    """Return how far parameters lie from the truth, in their coordinates."""
    truth = truth_of(run.problem)
    return {
        name: float(p.to_coordinate(values[name])) - float(p.to_coordinate(truth[name]))
        for name, p in run.problem.parameters.items()
    }


def _profiles(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    frozen = in_published_box(run)
    return [_profile(run, frozen, view) for view in VIEWS]


def _endpoints(run: Run, scale: Scale) -> list[dict[str, Any]]:
    del scale
    frozen = in_published_box(run)
    return [_profile(run, frozen, view) for view in (OWN, "pointwise")]


def _crossings(run: Run, scale: Scale) -> list[dict[str, Any]]:
    """Return a row for each view, step and grid of the robustness audit."""
    del scale
    frozen = in_published_box(run)
    (name,) = run.problem.parameters
    rows = []
    for view in VIEWS:
        metric = bound_view(frozen, VIEWS[view])
        scans = {n: frozen_scan(frozen, view=metric, candidates=n) for n in GRIDS}
        for step in STEPS:
            found = score(frozen, view=metric, derivative="difference", step=step)
            for grid, scan in scans.items():
                rows.append(
                    {
                        "view": view,
                        "step": step,
                        "grid": grid,
                        "delta_percent": found.delta_percent[name],
                        "grid_error_percent": _step(scan.grid_displacement, name)[1],
                    }
                )
    return rows


# Pointwise, patch and full kernel, whatever the field was trained under.
PROFILES = Readout("profiles", 1, _profiles)
# The view of the training with its last weights, and the pointwise one beside it.
ENDPOINTS = Readout("endpoints", 1, _endpoints)
CROSSINGS = Readout("crossings", 1, _crossings)


# ------------------------------------------------------------------ modes of the Gaussian kernel

# The published residual has 2,000 points, so that the last band holds all remaining modes.
BANDS = {"1_64": (1, 64), "65_256": (65, 256), "257_2000": (257, 2000)}
READINGS = ("pointwise", "weighted")
RANKS = (64, 256)
# Eigenvectors of 2,000 points take 32 MB: this many sets of points are remembered.
REMEMBERED = 8


def kernel_modes(points: FloatArray, rank: int | None = None) -> BoundView:
    """Return the Gaussian kernel at `points` (N, k) as its eigenpairs, all or the leading ones.

    Fields of one problem, dataset and initialization have the same points, and both readouts
    of a field do: the decomposition is remembered.
    """
    values, vectors = _pairs(points.tobytes(), points.shape[1])
    described = Gaussian(rank=rank).describe()
    return BoundLowRank(values[:rank], vectors[:, :rank], f"{described}, {len(points):,} points")


@lru_cache(maxsize=REMEMBERED)
def _pairs(points: bytes, axes: int) -> tuple[FloatArray, FloatArray]:
    pairs = Gaussian().bind(np.frombuffer(points).reshape(-1, axes)).eigenpairs()
    for array in pairs:
        array.flags.writeable = False
    return pairs


def _shares(run: Run, scale: Scale) -> list[dict[str, Any]]:
    """Return which modes of the kernel see the parameter, as shares of bands of modes.

    *pointwise* is the share of ``j_k^2``, which is the published one; *weighted* that of
    ``lambda_k j_k^2``, which adds up to H under the kernel. Modes count from 1, largest
    eigenvalue first.
    """
    del scale
    frozen = in_published_box(run)
    found = spectrum(frozen, view=kernel_modes(frozen.points), derivative="difference", step=STEP)
    row: dict[str, Any] = {"H": found.H, "pointwise_H": found.pointwise_H}
    for name, band in BANDS.items():
        row[f"pointwise_{name}"] = found.pointwise_strength_share(band)
        row[f"weighted_{name}"] = found.strength_share(band)
    return [row]


def _cutoffs(run: Run, scale: Scale) -> list[dict[str, Any]]:
    """Return one row: the grid minimum of the profile under each rank."""
    del scale
    frozen = in_published_box(run)
    (name,) = frozen.parameters
    row: dict[str, Any] = {}
    for rank in RANKS:
        scan = frozen_scan(frozen, view=kernel_modes(frozen.points, rank), candidates=CANDIDATES)
        step, error = _step(scan.grid_displacement, name)
        row[f"displacement_{rank}"], row[f"error_percent_{rank}"] = step, error
        row[f"status_{rank}"] = scan.status
    return [row]


SHARES = Readout("bands", 1, _shares)
CUTOFFS = Readout("cutoffs", 1, _cutoffs)


# ------------------------------------------------------------------ two coupled parameters


def _darcy(run: Run, scale: Scale) -> list[dict[str, Any]]:
    """Return the two-parameter score of a Darcy field, and the refined frozen minimum.

    Always under the pointwise view, with exact derivatives. The coordinates of the problem are
    linear; number 0 is ``lambda_0``, number 1 is ``lambda_1``.
    """
    frozen = in_published_box(run)
    metric = bound_view(frozen, Pointwise())
    found = score(frozen, view=metric, at="truth", derivative="exact")
    scan = frozen_scan(frozen, view=metric, at="truth", candidates=scale.darcy_grid)
    if scan.displacement is None:
        raise InputError(
            "a Darcy field whose residual depends on the permeability",
            f"{run.key}: {scan.status}",
            "train the field longer",
        )
    full = np.array(list(found.displacement.values()))
    stepped = frozen.coordinates(found.center.values) + full
    return [
        {
            "B_0": found.B[0],
            "B_1": found.B[1],
            "H_00": found.H[0, 0],
            "H_01": found.H[0, 1],
            "H_11": found.H[1, 1],
            **_numbered("full", found.displacement),
            **_numbered("diagonal", found.diagonal_displacement),
            **_numbered("refined", scan.displacement),
            "coupling": abs(found.coupling[0, 1]),
            "loss_at_truth": found.residual_norm**2,
            "loss_after_step": _loss(frozen, stepped),
            "minima": len(scan.local_minima),
            "scan_status": scan.status,
            "start_spread": scan.start_spread,
            "finished": run.finished,
        }
    ]


def _loss(frozen: FrozenResidual, coordinates: FloatArray) -> float:
    """Return the mean squared residual; infinite where a step leads beyond all numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        loss = float(np.mean(np.square(frozen.raw(frozen.physical(coordinates)))))
    return loss if np.isfinite(loss) else float("inf")


def _numbered(name: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{name}_{number}": value for number, value in enumerate(values.values())}


# ``full``, ``diagonal`` and ``refined`` are displacements from the truth.
DARCY = Readout("darcy", 1, _darcy)


# ------------------------------------------------------------------ final RBA weights

FOLLOWED = ("residual", "truth_residual", "sensitivity", "score")


def _replay(run: Run, scale: Scale) -> list[dict[str, Any]]:
    """Return Spearman correlations of the final weights with four magnitudes at the points.

    They are the residual at the delivered parameter, and at the truth the residual r, the
    sensitivity J and the pointwise score J r.
    """
    del scale
    frozen = run.frozen
    # Ranks of the weights w and of the diagonal w^2 / N are the same.
    entries = bound_view(frozen, run.view).diagonal()
    truth = Parameters(frozen.parameters).center("truth").values
    local = linearize(frozen, frozen.coordinates(truth), "difference", STEP)
    current, sensitivity = frozen.at(frozen.coordinates(run.delivered)), local.jacobian[:, 0]
    magnitudes = (current, local.residual, sensitivity, sensitivity * local.residual)
    row: dict[str, Any] = {
        f"weights_with_{name}": float(spearmanr(entries, np.abs(values)).statistic)
        for name, values in zip(FOLLOWED, magnitudes, strict=True)
    }
    return [row | {"effective_support": effective_support(entries), "points": len(entries)}]


def effective_support(entries: FloatArray) -> float:
    """Return ``(sum m)^2 / sum m^2`` of the diagonal m of a view: N for equal weights."""
    return float(entries.sum() ** 2 / np.sum(entries**2))


REPLAY = Readout("replay", 1, _replay)


# ------------------------------------------------------------------ rank that a selector chose


def _selected(run: Run, scale: Scale) -> list[dict[str, Any]]:
    r"""Return how many modes a selector run kept, and their share of the strength.

    The view of the run is the Gaussian kernel truncated to the rank :math:`R` that was chosen when
    the parameters began to move. The retained share,
    :math:`\sum_{k \le R} \lambda_k j_k^2 / \sum_k \lambda_k j_k^2`, is that of the final field:
    it may be below the share that the rule asked for when it chose.
    """
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


SELECTED = Readout("selected", 1, _selected)
