"""The trained fields of the study: what defines one, and the settings it is trained with."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from twoaxis.datasets import FRESH_NOISE_SEED, Dataset, fresh_dataset, published_dataset
from twoaxis.problems import SCALAR_BENCHMARKS, EvolutionProblem, get_problem
from twoaxis.studies.scale import Scale
from twoaxis.training import Network, RunSpec, Settings, settings_for

# The three scalar problems and the four layouts of the study, by name.
PROBLEMS = tuple(problem.name for problem in SCALAR_BENCHMARKS)
TITLES = {problem.name: problem.title for problem in SCALAR_BENCHMARKS}
LAYOUTS = (8, 9, 10, 11)
DEVELOPMENT_LAYOUTS = (8, 9)
HOLDOUT_LAYOUTS = (10, 11)


@dataclass(frozen=True, kw_only=True)
class Field:
    """One trained inverse PINN of the study.

    Parameters
    ----------
    problem : str
    method : str
        Name of the training method.
    dataset : int
        Seed of the layout, and of the published noise.
    replica : int, optional
        Number of a fresh noise vector on that layout, in place of the published noise.
    stream : int
        Which stream the fresh noise comes from: 0 has the published base seed, the next one the
        seed after it.
    fold : {0, 1}, optional
        Every second observation alone, the even (0) or the odd ones (1).
    candidate : float, optional
        The parameter is held at this value, and only the field is trained.
    width, depth : int, optional
        Of the network; without them the published one of the problem.
    conditions : {"soft", "exact"}
    boundary_weight : float, optional
        Of the boundary term of a steady problem; 1 without it.
    initialization : int
        Seed of the network and the residual sites.
    """

    problem: str
    method: str
    dataset: int
    replica: int | None = None
    stream: int = 0
    fold: int | None = None
    candidate: float | None = None
    width: int | None = None
    depth: int | None = None
    conditions: str = "soft"
    boundary_weight: float | None = None
    initialization: int = 0

    def starting_from(self, initialization: int) -> Field:
        """Return the same field from another initialization."""
        return replace(self, initialization=initialization)

    def with_noise_of(self, number: int) -> Field:
        """Return the same field from another initialization, fresh noise from another stream."""
        return replace(self, initialization=number, stream=0 if self.replica is None else number)

    def columns(self) -> dict[str, Any]:
        """Return what defines the field, for a row of a table."""
        return asdict(self)

    def settings(self, scale: Scale) -> Settings:
        """Return the settings of the training, which a batch must share."""
        problem = get_problem(self.problem)
        evolution = isinstance(problem, EvolutionProblem)
        network = None
        if self.width is not None and self.depth is not None:
            network = Network(self.width, self.depth)
        return settings_for(
            problem,
            self.method,
            steps=scale.steps,
            residual_points=scale.residual_points if evolution else scale.steady_points,
            network=network,
            conditions="exact" if self.conditions == "exact" else "soft",
            boundary_weight=1.0 if self.boundary_weight is None else self.boundary_weight,
        )

    def spec(self) -> RunSpec:
        """Return what distinguishes the run inside its batch."""
        problem = get_problem(self.problem)
        start = {name: float(p.start or 0.0) for name, p in problem.parameters.items()}
        fixed = frozenset[str]()
        if self.candidate is not None:
            (name,) = problem.parameters
            start, fixed = {name: self.candidate}, frozenset({name})
        return RunSpec(
            dataset=self.observations(), seed=self.initialization, start=start, fixed=fixed
        )

    def observations(self) -> Dataset:
        """Return the data that the field is trained on."""
        if self.replica is None:
            whole = published_dataset(self.problem, self.dataset)
        else:
            whole = fresh_dataset(
                self.problem,
                layout=self.dataset,
                replica=self.replica,
                seed=FRESH_NOISE_SEED + self.stream,
            )
        return whole if self.fold is None else every_second(whole, self.fold)


def every_second(dataset: Dataset, first: int) -> Dataset:
    """Return every second observation, from number `first`. Sites are in no order."""
    chosen = np.arange(first, len(dataset.values), 2)
    return replace(
        dataset,
        sites=dataset.sites[chosen],
        coordinates=dataset.coordinates[chosen],
        values=dataset.values[chosen],
        provenance=f"{dataset.provenance}; every second observation from {first}",
        label=f"{dataset.label}f{first}",
    )


def fresh_fields(scale: Scale) -> list[Field]:
    """Return the RBA fields on fresh noise: every problem, layout and replica, in that order."""
    return [
        Field(problem=problem, method="rba", dataset=layout, replica=replica)
        for problem in PROBLEMS
        for layout in LAYOUTS
        for replica in range(scale.fresh_replicas)
    ]
