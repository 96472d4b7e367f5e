"""Training as a pipeline: observed values and seeds in, trained runs out.

Remedies that run a pipeline again, such as `twoaxis.confidence_set`, take it as a callable. This
one trains inverse PINNs of a built-in problem, all datasets of a call together, and knows the
simulator and the noise that belong to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import is_integer
from twoaxis.datasets import Dataset, grid_sites, published_dataset
from twoaxis.errors import InputError
from twoaxis.forward import get_solver
from twoaxis.parameters import Parameter
from twoaxis.problems import Problem
from twoaxis.runs.engines import Engine
from twoaxis.runs.run import Run
from twoaxis.runs.store import RunStore
from twoaxis.runs.train import train_specs
from twoaxis.training.backends import Device
from twoaxis.training.methods import Method, get_method
from twoaxis.training.settings import RunSpec, run_key, settings_for, starting_values

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class FailedRun:
    """A run that could not be trained; a remedy counts it as a failure.

    Attributes
    ----------
    status : str
        Why.
    """

    status: str
    finished: bool = False
    delivered: dict[str, float] = field(default_factory=dict)
    frozen: None = None


class Pipeline:
    """Training of a built-in problem, as a callable that takes observed values.

    Parameters
    ----------
    problem : str or Problem
    layout : int or Dataset
        Where observations lie: a published layout, or a dataset whose sites, coordinates and noise
        are taken. Its values are not.
    method : str or Method
    store : path or RunStore, optional
        Directory for the runs. What it holds is not trained again, and an interrupted call goes on
        where it stopped. Without it, runs stay in memory.
    engine, device, workers, batch, progress
        As for `twoaxis.train`.
    **settings
        Further options of `twoaxis.train`, such as ``steps``, ``network`` or ``residual_points``.

    Attributes
    ----------
    vectorized : bool
        True: one call takes all datasets.

    Examples
    --------
    >>> pipeline = Pipeline("burgers", layout=8, steps=3, residual_points=40, progress=False)
    >>> clean = pipeline.forward(nu=[0.01, 0.02])
    >>> runs = pipeline(clean, [0, 1])
    >>> clean.shape, len(runs), sorted(runs[0].delivered)
    ((2, 200), 2, ['nu'])
    """

    vectorized = True

    def __init__(
        self,
        problem: str | Problem,
        *,
        layout: int | Dataset = 8,
        method: str | Method = "rba",
        store: str | Path | RunStore | None = None,
        engine: str | Engine | None = None,
        device: Device = "auto",
        workers: int | None = None,
        batch: int | None = None,
        progress: bool = True,
        **settings: Any,
    ) -> None:
        self.settings = settings_for(problem, method, **settings)
        self.template = _template(self.problem, layout)
        self.store, self.engine, self.device = store, engine, device
        self.workers, self.batch, self.progress = workers, batch, progress
        self._start = starting_values(self.problem, None, None)
        self._fixed: frozenset[str] = frozenset()
        self._sites = grid_sites(self.template)

    @classmethod
    def like(
        cls,
        run: Run,
        *,
        method: str | Method | None = None,
        store: str | Path | RunStore | None = None,
        engine: str | Engine | None = None,
        device: Device = "auto",
        workers: int | None = None,
        batch: int | None = None,
        progress: bool = True,
    ) -> Pipeline:
        """Return the pipeline that a run came from: its settings, its sites, its start.

        With `method` all of that is trained in another way, such as under another view; the
        warm-up is then the method's own.
        """
        made = cls(
            run.problem,
            layout=run.dataset,
            store=store,
            engine=engine,
            device=device,
            workers=workers,
            batch=batch,
            progress=progress,
        )
        made.settings = run.settings
        if method is not None:
            other = get_method(method)
            made.settings = replace(run.settings, method=other, warmup=other.recipe().warmup)
        made._start, made._fixed = dict(run.spec.start), run.spec.fixed
        return made

    @property
    def problem(self) -> Problem:
        """The problem that is solved."""
        return self.settings.problem

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Its parameters, without the benchmark's truth, which a pipeline does not know."""
        return {name: replace(p, truth=None) for name, p in self.problem.parameters.items()}

    @property
    def noise(self) -> float:
        """Standard deviation of the noise."""
        return float(self.template.noise_scale)

    def forward(self, **parameters: ArrayLike) -> FloatArray:
        """Return noise-free observations for vectors of parameters, shape (P, n)."""
        solver = get_solver(self.problem)
        if self._sites is not None:
            return solver.at_sites(self._sites, **parameters)
        return solver.at_points(self.template.coordinates, **parameters)

    def specs(self, values: ArrayLike, seeds: ArrayLike) -> list[RunSpec]:
        """Return what is to be trained: a run for every row of `values`, with its own seed.

        Initial network and residual sites depend on the seed alone, not on the values.
        """
        rows, each = np.asarray(values, dtype=float), np.asarray(seeds)
        count = len(self.template.values)
        if rows.ndim != 2 or rows.shape[1] != count or each.shape != rows.shape[:1]:
            raise InputError(
                f"values of shape (m, {count}) and m seeds",
                f"the shapes {rows.shape} and {each.shape}",
                "give every dataset the observations of the layout and a seed",
            )
        return [
            RunSpec(
                dataset=replace(self.template, values=row, label="simulated"),
                seed=int(seed),
                start=self._start,
                fixed=self._fixed,
            )
            for row, seed in zip(rows, each, strict=True)
        ]

    def __call__(self, values: ArrayLike, seeds: ArrayLike) -> Any:
        """Train on every row of `values`.

        Parameters
        ----------
        values : array, shape (m, n) or (n,)
        seeds : array of int, shape (m,), or int

        Returns
        -------
        list of Run, or Run
            A `FailedRun` stands for one that could not be trained.
        """
        if np.ndim(values) == 1:
            (one,) = self(np.asarray(values)[None], np.asarray(seeds)[None])
            return one
        specs = self.specs(values, seeds)
        if not specs:
            return []
        keys = [run_key(self.settings, spec) for spec in specs]
        # The same values with the same seed are one run.
        distinct = dict(zip(keys, specs, strict=True))
        runs = train_specs(
            self.settings,
            list(distinct.values()),
            store=self.store,
            engine=self.engine,
            device=self.device,
            workers=self.workers,
            batch=self.batch,
            progress=self.progress,
            require_one=False,
        )
        there, status = runs.data["trained"].values, runs.data["status"].values
        found = {
            key: runs[number] if there[number] else FailedRun(str(status[number]))
            for number, key in enumerate(distinct)
        }
        return [found[key] for key in keys]


def _template(problem: Problem, layout: Any) -> Dataset:
    """Return the dataset whose sites, coordinates and noise are used."""
    if is_integer(layout):
        drawn = published_dataset(problem, int(layout))
        return replace(drawn, provenance=f"layout RandomState({int(layout)}); values given")
    if isinstance(layout, Dataset):
        if layout.problem != problem.name:
            raise InputError(
                f"a dataset of {problem.name}", f"one of {layout.problem}", "pass one of its own"
            )
        return replace(layout, provenance=f"sites of: {layout.provenance}; values given")
    raise InputError(
        "layout as a published number or a twoaxis.Dataset",
        repr(layout)[:100],
        "pass layout=8, or the dataset whose sites are to be used",
    )
