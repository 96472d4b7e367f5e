"""The arrays that one run is trained on: sites, observations, conditions, the starting state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.parameters import Parameter
from twoaxis.problems import SteadyProblem
from twoaxis.training.field import field_arrays
from twoaxis.training.form import form_of
from twoaxis.training.settings import RunSpec, Settings

FloatArray = NDArray[np.float64]
Arrays = dict[str, Any]  # a tree of NumPy arrays

NETWORK, SITES, BOUNDARY = 0, 1, 2


def residual_sites(settings: Settings, spec: RunSpec) -> FloatArray:
    """Draw the residual sites of a run, uniform in the domain, shape (N, k)."""
    return _uniform(
        settings, spec.generator(SITES).random((settings.residual_points, _axes(settings)))
    )


def run_data(settings: Settings, spec: RunSpec) -> Arrays:
    """Return everything that stays the same while a run trains."""
    recipe = settings.method.recipe()
    points = residual_sites(settings, spec)
    known = settings.problem.coefficients(points)
    data: Arrays = {
        "residual": field_arrays(settings.problem, settings.conditions, points),
        "coefficients": dict(known),
        "observed": field_arrays(settings.problem, settings.conditions, spec.dataset.coordinates),
        "values": np.asarray(spec.dataset.values, dtype=float),
        "form": form_of(recipe.view, points, recipe.weights.needs_modes),
        "free": np.array([name not in spec.fixed for name in settings.problem.parameters], float),
    }
    if settings.has_boundary_term:
        edge = boundary_sites(settings, spec)
        assert isinstance(settings.problem, SteadyProblem)
        data["boundary"] = field_arrays(settings.problem, "soft", edge)
        data["boundary_values"] = settings.problem.field(edge[:, 0], edge[:, 1])
    return data


def boundary_sites(settings: Settings, spec: RunSpec) -> FloatArray:
    """Draw sites on the edges of a rectangle, every edge as often as the others, (N, 2)."""
    generator = spec.generator(BOUNDARY)
    unit = generator.random((settings.boundary_points, 2))
    edge = np.arange(settings.boundary_points) % 4
    unit[np.arange(len(unit)), edge // 2] = edge % 2
    return _uniform(settings, unit)


def initial_network(settings: Settings, spec: RunSpec) -> list[tuple[Any, Any]]:
    """Draw the network of a run."""
    return settings.network.initial(_axes(settings), spec.generator(NETWORK))


def starting_coordinates(parameters: dict[str, Parameter], spec: RunSpec) -> FloatArray:
    """Return the starting coordinates, shape (d,)."""
    return np.array([float(p.to_coordinate(spec.start[n])) for n, p in parameters.items()])


def _axes(settings: Settings) -> int:
    return len(settings.axes)


def _uniform(settings: Settings, unit: FloatArray) -> FloatArray:
    low, high = np.array(list(settings.problem.domain.values())).T
    sites: FloatArray = low + (high - low) * unit
    return sites
