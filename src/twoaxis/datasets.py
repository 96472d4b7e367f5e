"""Layouts, noise and datasets of the built-in problems.

Published layouts and draws use NumPy's legacy generator exactly as the study did: layout
seed s is ``RandomState(s).choice(u.size, n, replace=False)``, and the benchmark's own noise
continues the same generator. Everything new uses ``default_rng``.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError, refuse_masked
from twoaxis.forward import get_solver
from twoaxis.problems import Problem, get_problem

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# Published base seeds of the two repeated-noise blocks.
RECOVERABILITY_SEED = 20260719
FRESH_NOISE_SEED = 20260721


@dataclass(frozen=True)
class Dataset:
    """Noisy observations of one field.

    Attributes
    ----------
    problem : str
        Name of the benchmark.
    sites : array of int, shape (n,)
        Flat C-order indices into the fine solver's field.
    coordinates : array, shape (n, 2)
        The points in the domain, in the column order of the problem's domain.
    values : array, shape (n,)
        What was observed.
    noise_scale : float
        Standard deviation of the noise.
    provenance : str
        How the dataset was made, enough to make it again.
    label : str
        A short name for tables and file names.

    Examples
    --------
    >>> import twoaxis as ta
    >>> data = ta.published_dataset("allen-cahn", 8)
    >>> data.problem, data.coordinates.shape
    ('allen-cahn', (200, 2))
    >>> data.provenance
    'RandomState(8): layout, then noise'
    """

    problem: str
    sites: IndexArray
    coordinates: FloatArray
    values: FloatArray
    noise_scale: float
    provenance: str
    label: str = "own"

    def __post_init__(self) -> None:
        for name in ("sites", "coordinates", "values", "noise_scale"):
            refuse_masked(f"{name} of the dataset", getattr(self, name))


def layout(problem: str | Problem, seed: int) -> IndexArray:
    """Return the observation sites of layout `seed`: flat indices into the fine field."""
    return _layout_generator(get_problem(problem), seed)[0]


def noise_scale(problem: str | Problem) -> float:
    """Return the declared noise: a fraction of the true field's standard deviation."""
    problem = get_problem(problem)
    return float(problem.observed.noise_fraction * get_solver(problem).true_field().std())


def noise_seed(problem: str | Problem, seed: int) -> tuple[int, int]:
    """Return the seed of a problem's noise stream: every problem has one of its own."""
    return _checked_seed(seed), zlib.crc32(get_problem(problem).name.encode())


def standard_noise(
    seed: int | Sequence[int], replicas: int, count: int, out: FloatArray | None = None
) -> FloatArray:
    """Return standardized noise, one vector of length `count` per replica, in `out` if given.

    Row k is the same whatever the number of replicas.
    """
    return np.random.default_rng(seed).standard_normal((replicas, count), out=out)


def published_dataset(problem: str | Problem, seed: int) -> Dataset:
    """Return the benchmark dataset of the study with this layout seed.

    Examples
    --------
    >>> import twoaxis as ta
    >>> data = ta.published_dataset("burgers", 8)
    >>> data.label, data.values.shape, round(data.noise_scale, 3)
    ('8', (200,), 0.18)
    """
    problem = get_problem(problem)
    draws = (*problem.observed.layouts, *problem.observed.more_draws)
    if _checked_seed(seed) not in draws:
        raise InputError(
            f"a published dataset of {problem.name}, one of {', '.join(map(str, draws))}",
            f"{seed}",
            f"choose one of them, or make new data with twoaxis.fresh_dataset("
            f'"{problem.name}", layout={draws[0]}, replica=0)',
        )
    sites, generator = _layout_generator(problem, seed)
    noise = generator.randn(len(sites))
    made = f"RandomState({seed}): layout, then noise"
    return _dataset(problem, sites, noise, made, str(seed))


def fresh_dataset(
    problem: str | Problem, *, layout: int, replica: int, seed: int = FRESH_NOISE_SEED
) -> Dataset:
    """Return a dataset with new noise: replica number `replica` of noise stream `seed`.

    Datasets that differ in their layout alone share the standardized noise vector.

    Examples
    --------
    >>> import twoaxis as ta
    >>> data = ta.fresh_dataset("burgers", layout=8, replica=3)
    >>> data.label, data.values.shape
    ('8r3', (200,))
    """
    problem = get_problem(problem)
    if not isinstance(replica, (int, np.integer)) or replica < 0:
        raise InputError("replica as a non-negative integer", repr(replica), "pass replica=0")
    sites, _ = _layout_generator(problem, layout)
    noise = standard_noise(noise_seed(problem, seed), replica + 1, len(sites))[replica]
    stream = noise_seed(problem, seed)
    made = f"layout RandomState({layout}); noise default_rng({stream}), replica {replica}"
    label = f"{layout}r{replica}" + (f"n{seed}" if seed != FRESH_NOISE_SEED else "")
    return _dataset(problem, sites, noise, made, label)


def grid_sites(dataset: Dataset) -> IndexArray | None:
    """Return the observed nodes of the fine grid, or None where a dataset lies between them.

    A network is trained on coordinates. The indices of a dataset of your own are used only
    where they point to the same points.
    """
    solver = get_solver(get_problem(dataset.problem))
    sites, size = np.asarray(dataset.sites), int(np.prod(solver.shape))
    if sites.shape != (len(dataset.values),) or sites.dtype.kind not in "iu":
        return None
    if sites.min() < 0 or sites.max() >= size:
        return None
    same = np.allclose(solver.points(sites), dataset.coordinates, rtol=0, atol=1e-9)
    return sites.astype(np.intp) if same else None


def _dataset(
    problem: Problem, sites: IndexArray, noise: FloatArray, made: str, label: str
) -> Dataset:
    solver, scale = get_solver(problem), noise_scale(problem)
    clean = solver.true_field().ravel()[sites]
    values = clean + scale * noise
    return Dataset(problem.name, sites, solver.points(sites), values, scale, made, label)


def _layout_generator(problem: Problem, seed: int) -> tuple[IndexArray, np.random.RandomState]:
    """Return the sites of a layout, and the state of the legacy generator after them."""
    size = int(np.prod(get_solver(problem).shape))
    sites, state = _drawn_layout(size, problem.observed.sites, _checked_seed(seed))
    generator = np.random.RandomState(0)
    generator.set_state(state)
    return sites.copy(), generator


@lru_cache(maxsize=64)
def _drawn_layout(size: int, count: int, seed: int) -> tuple[IndexArray, dict[str, Any]]:
    """Return `count` of `size` nodes, and the state that drawing them left.

    The generator shuffles all nodes, and its result is a view of all of them: drawing is done
    once per layout, and the sites are copied.
    """
    generator = np.random.RandomState(seed)
    sites = generator.choice(size, count, replace=False).copy()
    return sites, generator.get_state(legacy=False)


def _checked_seed(seed: int) -> int:
    if not is_integer(seed) or not 0 <= seed < 2**32:  # what the study's generator takes
        raise InputError("a seed from 0 to 4294967295", repr(seed), "pass an integer")
    return int(seed)
