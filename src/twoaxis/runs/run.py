"""A trained run: its field, parameters, history, and everything that a diagnosis needs of it.

The field that float32 training left is evaluated in float64. The view of a run is the one that it
was trained under, with the weights of the loss evaluated last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from twoaxis.datasets import RECOVERABILITY_SEED, Dataset, grid_sites, noise_seed
from twoaxis.diagnosis import follow
from twoaxis.errors import InputError, refuse_masked
from twoaxis.forward import get_solver
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameter, Parameters
from twoaxis.problems import Problem
from twoaxis.resolution import Resolution, resolve
from twoaxis.result import Message
from twoaxis.training.backends import Program
from twoaxis.training.network import Layers, field_arrays, field_derivatives, field_value
from twoaxis.training.settings import RunSpec, Settings
from twoaxis.views import Dense, Gaussian, Pointwise, View, Weighted

FloatArray = NDArray[np.float64]

FINISHED = "finished"
# Points at a time when a field is evaluated on a grid: keeps the work inside the caches.
CHUNK = 20_000


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a run after so many steps.

    Attributes
    ----------
    step : int
    layers : sequence of (weight, bias)
    delivered : dict of str to float
        The parameters at that step.
    view : View
        The training view, with the weights of the loss evaluated last.

    Examples
    --------
    >>> import twoaxis as ta
    >>> run = ta.train("burgers", datasets=8, steps=3, residual_points=50, progress=False)[0]
    >>> run.final.step, sorted(run.final.delivered), run.final.view.describe()
    (3, ['nu'], 'weighted')
    """

    step: int
    layers: Layers
    delivered: dict[str, float]
    view: View


@dataclass(frozen=True, eq=False)
class Run:
    """One trained inverse PINN.

    Attributes
    ----------
    key : str
        A name derived from all that defines the run.
    settings : Settings
    spec : RunSpec
        Dataset, seed and starting values.
    points : array, shape (N, k)
        The residual sites.
    final : Snapshot
        Network, parameters and frozen view at the end, or where a diverged run was last finite.
    history : pandas.DataFrame
        ``step``, ``loss``, ``loss_data``, ``loss_residual`` and every parameter.
    status : str
        ``"finished"``, or a sentence.
    snapshots : tuple of Snapshot
        Along the training, where they were asked for.
    program : {"xla", "fused"}
        What computed the steps: XLA, or the fused GPU kernels.

    Examples
    --------
    >>> import twoaxis as ta
    >>> run = ta.train("burgers", datasets=8, steps=3, residual_points=50, progress=False)[0]
    >>> run.status, sorted(run.delivered), run.frozen.size
    ('finished', ['nu'], 50)
    """

    key: str
    settings: Settings
    spec: RunSpec
    points: FloatArray
    final: Snapshot
    history: pd.DataFrame
    status: str
    snapshots: tuple[Snapshot, ...] = ()
    program: Program = "xla"

    @property
    def problem(self) -> Problem:
        """The problem that was solved."""
        return self.settings.problem

    @property
    def dataset(self) -> Dataset:
        """The observations."""
        return self.spec.dataset

    @property
    def seed(self) -> int:
        """Seed of the initial network and of the residual sites."""
        return self.spec.seed

    @property
    def delivered(self) -> dict[str, float]:
        """The parameters that training returned, by name."""
        return self.final.delivered

    @property
    def view(self) -> View:
        """The view of the training, with the weights of the last evaluated loss."""
        return self.final.view

    @property
    def finished(self) -> bool:
        """Whether all steps were done and stayed finite."""
        return self.status == FINISHED

    @cached_property
    def error_percent(self) -> dict[str, float]:
        """Signed deviation of the delivered parameters from the truth, where that is known."""
        return {
            name: float(p.percent(self.delivered[name], center=p.truth))
            for name, p in self.problem.parameters.items()
            if p.truth is not None
        }

    def residual(self, **parameters: Any) -> FloatArray:
        """Return the residual of the final field at the residual sites, float64, shape (N,)."""
        found: FloatArray = self.problem.residual(
            **self._derivatives, **self.problem.coefficients(self.points), **parameters
        )
        return found

    def field(self, points: ArrayLike) -> FloatArray:
        """Return the final field at `points` (N, k), float64, shape (N,)."""
        return _field(self.settings, self.final.layers, _checked(self.settings, points))

    def field_error(self) -> float:
        """Return the relative L2 error of the field over the whole fine grid."""
        solver = get_solver(self.problem)
        truth = solver.true_field().ravel()
        found = self.field(solver.points(np.arange(truth.size)))
        return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))

    @cached_property
    def frozen(self) -> FrozenResidual:
        """The frozen residual: what every function of axis 2 takes."""
        return self._freeze(self.final)

    def objective(self) -> Any:
        """Return the training loss as a function of one flat vector, for `twoaxis.polish`."""
        # At call time: the objective is built upon this module.
        from twoaxis.runs.objective import run_objective

        return run_objective(self)

    def follow(self) -> list[tuple[int, FrozenResidual]]:
        """Return the frozen residual at every snapshot, with its step, in order."""
        return [(snapshot.step, self._freeze(snapshot)) for snapshot in self.snapshots]

    @cached_property
    def _derivatives(self) -> dict[str, FloatArray]:
        return _derivatives(self.settings, self.final.layers, self.points)

    def _freeze(self, snapshot: Snapshot) -> FrozenResidual:
        problem, settings = self.problem, self.settings
        known = problem.coefficients(self.points)
        final = snapshot is self.final
        here = self._derivatives if final else _derivatives(settings, snapshot.layers, self.points)

        def residual(**parameters: Any) -> Any:
            return problem.residual(**here, **known, **parameters)

        def jacobian(**parameters: Any) -> FloatArray:
            return _complex_step(residual, parameters)

        def residual_at(points: ArrayLike, **parameters: Any) -> Any:
            where = _checked(settings, points)
            there = _derivatives(settings, snapshot.layers, where)
            return problem.residual(**there, **problem.coefficients(where), **parameters)

        return FrozenResidual(
            residual,
            _with_delivered(problem, snapshot.delivered),
            self.points,
            view=snapshot.view,
            jacobian=jacobian,
            residual_at=residual_at,
            field=here["u"],
            axes=settings.axes,
            notes=_outside(problem, snapshot.delivered),
            fitted=_field(settings, snapshot.layers, self.dataset.coordinates),
            data=self.dataset.values,
            observed=self.dataset.coordinates,
            objective=self._own_objective() if final else None,
            about=self.about,
        )

    def _own_objective(self) -> Any:
        """Return the training loss; None where nothing can be trained on from here."""
        try:
            return self.objective()
        except InputError:  # the run diverged, or all of its parameters were fixed
            return None

    @property
    def about(self) -> dict[str, str]:
        """What the run is, for the head of a page."""
        settings, dataset = self.settings, self.dataset
        network = settings.network
        return {
            "problem": settings.problem.name,
            "data": f"dataset {dataset.label}, {len(dataset.values)} observations",
            "method": settings.method.name,
            "seed": str(self.seed),
            "steps": f"{settings.steps:,}",
            "network": f"{network.depth} layers of {network.width}, {settings.precision}",
            "run": self.key,
        }

    def resolve(
        self,
        *,
        truth: bool = True,
        replicas: int = 200,
        seed: int = RECOVERABILITY_SEED,
        progress: bool = True,
    ) -> Resolution:
        """Return axis 1 of the run's observations, by the declared solver of its problem.

        Parameters
        ----------
        truth : bool
            False leaves the benchmark's truth out: replicas are simulated at the delivered value.
        replicas, seed : int
            Noisy replicas of the observations, and the seed of their noise.
        progress : bool
            Show a progress bar.
        """
        problem, dataset = self.problem, self.dataset
        # Around a truth the bounds are the problem's, whatever the network delivered.
        parameters = problem.parameters if truth else without_truth(self.frozen).parameters
        on_grid = grid_sites(dataset)

        def forward(**values: Any) -> Any:
            solver = get_solver(problem)
            if on_grid is not None:
                return solver.at_sites(on_grid, **values)
            return solver.at_points(dataset.coordinates, **values)

        return resolve(
            forward,
            parameters,
            dataset.noise_scale,
            {dataset.label: np.arange(len(dataset.values))},
            replicas=replicas,
            seed=noise_seed(problem, seed),
            points=dataset.coordinates,
            vectorized=True,
            progress=progress,
        )

    def audit_inputs(
        self,
        *,
        truth: bool = True,
        resolution: Resolution | None = None,
        replicas: int = 200,
        seed: int = RECOVERABILITY_SEED,
        progress: bool = True,
    ) -> dict[str, Any]:
        """Return what is known about the run as keyword arguments of `twoaxis.audit`.

        Parameters
        ----------
        truth : bool
            False leaves the benchmark's truth out, as for real data: the audit is then centered
            on the delivered value.
        resolution : Resolution, optional
            Axis 1 of the observations, from `resolve`; without it, it is computed.
        replicas, seed : int
            For `resolve`.
        progress : bool
            Show progress bars.

        Returns
        -------
        dict
            ``residual`` (a `FrozenResidual`), ``resolution``, ``data``, ``history``,
            ``snapshots``, ``notes`` and ``run`` (the key).

        Examples
        --------
        >>> from twoaxis.runs import train
        >>> runs = train("allen-cahn", datasets=8, steps=3, residual_points=60, progress=False)
        >>> inputs = runs[0].audit_inputs(replicas=5, progress=False)
        >>> inputs["residual"].size, inputs["run"] == runs[0].key
        (60, True)
        """
        if resolution is None:
            resolution = self.resolve(truth=truth, replicas=replicas, seed=seed, progress=progress)
        notes = []
        if not self.finished:
            text = f"the training did not finish: {self.status}"
            notes.append(Message("training.unfinished", text, "warning"))
        # Snapshots are followed around the final value: around their own they would not move.
        along = [
            (step, each if truth else _holding(without_truth(each), self.delivered))
            for step, each in self.follow()
        ]
        return {
            "residual": self.frozen if truth else without_truth(self.frozen),
            "resolution": resolution,
            "data": self.dataset.values,
            "history": self.history if len(self.history) else None,
            "snapshots": follow(along, at=None if truth else self.delivered) if along else None,
            "notes": notes,
            "run": self.key,
        }

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.6g}" for name, value in self.delivered.items())
        return f"<Run {self.key}: {values}; {self.status}>"


def without_truth(frozen: FrozenResidual) -> FrozenResidual:
    """Return the same field as it is known without the truth."""
    return replace(frozen, parameters=Parameters(frozen.parameters).replace(truth=None))


def _holding(frozen: FrozenResidual, values: Mapping[str, float]) -> FrozenResidual:
    """Return the same field with bounds that hold these values."""
    parameters = {name: p.holding(values[name]) for name, p in frozen.parameters.items()}
    return replace(frozen, parameters=parameters)


def _derivatives(settings: Settings, layers: Layers, points: FloatArray) -> dict[str, FloatArray]:
    """Return the field and its derivatives in float64, as arrays that nobody can change."""
    arrays = field_arrays(settings.problem, settings.conditions, points)
    names = settings.problem.derivatives
    found = field_derivatives(_double(layers), arrays, settings.axes, names, np)
    for array in found.values():
        array.flags.writeable = False
    return found


def _field(settings: Settings, layers: Layers, points: FloatArray) -> FloatArray:
    parts = [points[start : start + CHUNK] for start in range(0, max(len(points), 1), CHUNK)]
    return np.concatenate(
        [
            field_value(
                _double(layers), field_arrays(settings.problem, settings.conditions, part), np
            )
            for part in parts
        ]
    )


def _double(layers: Layers) -> list[tuple[FloatArray, FloatArray]]:
    return [(np.asarray(w, dtype=float), np.asarray(b, dtype=float)) for w, b in layers]


def _complex_step(residual: Any, parameters: dict[str, Any]) -> FloatArray:
    """Differentiate by the physical parameters, exactly to rounding, shape (N, d).

    A residual is arithmetic, so it may be evaluated a tiny imaginary step beside the parameter:
    nothing is subtracted and no digit is lost.
    """
    tiny = 1e-30
    columns = [
        np.imag(residual(**{**parameters, name: complex(value, tiny)})) / tiny
        for name, value in parameters.items()
    ]
    return np.stack(columns, axis=1)


def _with_delivered(problem: Problem, delivered: dict[str, float]) -> dict[str, Parameter]:
    """Return the problem's parameters with what came back; bounds are widened to hold it."""
    return {
        name: replace(p.holding(delivered[name]), delivered=delivered[name])
        for name, p in problem.parameters.items()
    }


def _outside(problem: Problem, delivered: dict[str, float]) -> tuple[str, ...]:
    """Say which delivered values lie outside the bounds of the problem."""
    return tuple(
        f"the delivered {name} = {delivered[name]:.4g} lies outside the problem's bounds "
        f"{p.bounds[0]:g} to {p.bounds[1]:g}, which were widened to hold it"
        for name, p in problem.parameters.items()
        if not p.bounds[0] <= delivered[name] <= p.bounds[1]
    )


def _checked(settings: Settings, points: ArrayLike) -> FloatArray:
    refuse_masked("points", points)
    try:
        array = np.asarray(points, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(0)
    axes = settings.axes
    if array.ndim != 2 or array.shape[1] != len(axes) or not np.isfinite(array).all():
        raise InputError(
            f"finite points with the columns {', '.join(axes)}",
            f"{type(points).__name__} of shape {array.shape}",
            "stack the coordinates as columns, as in numpy.column_stack([x, t])",
        )
    return array


def frozen_view(view: View, weights: dict[str, Any], points: FloatArray) -> View:
    r"""Return ``M = diag(w) V^T diag(m) V diag(w)`` as a view: what the last loss was made of.

    Parameters
    ----------
    view : View
        That of the method.
    weights : dict of str to array
        ``points`` (w) and ``modes`` (m), where the weight rule keeps them.
    points : array, shape (N, k)
    """
    modes = weights.get("modes")
    if modes is not None:
        view = _with_modes(view, np.asarray(modes, dtype=float), points)
    w = weights.get("points")
    if w is None:
        return view
    w = np.asarray(w, dtype=float)
    if not w.any():  # before the first loss was evaluated there is nothing to freeze
        return view
    if isinstance(view, Pointwise):
        return Weighted(loss_weights=w**2)
    return Dense(w[:, None] * view.bind(points).matrix() * w)


def _with_modes(view: View, modes: FloatArray, points: FloatArray) -> View:
    kept = int(np.count_nonzero(modes))
    leading = bool(np.all(modes[:kept] == 1))
    if isinstance(view, Gaussian) and leading:
        return replace(view, rank=kept)
    values, vectors = view.bind(points).eigenpairs(len(modes))
    return Dense((vectors * (values * modes)) @ vectors.T)
