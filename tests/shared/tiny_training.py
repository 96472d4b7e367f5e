"""Tiny trainings, and a second trainer that shares no code with the engine.

The second trainer writes the published protocol down once more: one point at a time, derivatives
by nested automatic differentiation, the residual term as a dense matrix, Adam in NumPy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from jax.scipy.special import erfc

from twoaxis.datasets import Dataset
from twoaxis.problems import get_problem
from twoaxis.runs import train
from twoaxis.training import METHODS, Network, RunSpec, Settings, get_method
from twoaxis.training.backends import device
from twoaxis.training.settings import starting_values


@pytest.fixture
def compiled_anew():
    """Nothing compiled earlier is used again."""
    before = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    jax.clear_caches()
    device._shared.cache_clear()
    yield
    jax.config.update("jax_enable_compilation_cache", before)
    compilation_cache.reset_cache()


# ------------------------------------------------------------------ tiny trainings

SITES = 20
POINTS = 40
NETWORK = Network(6, 2)
TINY = {"network": NETWORK, "residual_points": POINTS, "boundary_points": 12, "progress": False}
STEPS = 24
SNAPSHOTS = (5, 6, 23)


@cache
def tiny_dataset(problem="burgers", number=0, count=SITES):
    """Made-up observations in the domain of a problem: nothing is solved for them."""
    problem = get_problem(problem)
    generator = np.random.default_rng([number, 5])
    low, high = np.array(list(problem.domain.values())).T
    return Dataset(
        problem=problem.name,
        sites=np.arange(count),
        coordinates=generator.uniform(low, high, (count, 2)),
        values=generator.normal(0.3, 0.5, count),
        noise_scale=0.1,
        provenance=f"made up, number {number}",
        label=f"tiny{number}",
    )


def tiny_settings(problem="burgers", method="rba", **options):
    problem = get_problem(problem)
    method = get_method(method)
    given = {
        "problem": problem,
        "method": method,
        "network": NETWORK,
        "steps": 10,
        "conditions": "soft",
        "precision": "float64",
        "learning_rate": 1e-3,
        "physics_weight": 2.0,
        "residual_points": POINTS,
        "boundary_points": 12 if problem.name == "darcy" else 0,
        "boundary_weight": 0.7 if problem.name == "darcy" else 0.0,
        "warmup": method.recipe().warmup,
    }
    return Settings(**{**given, **options})


def tiny_spec(problem="burgers", number=0, seed=0, start=None, fixed=None):
    started = starting_values(get_problem(problem), start, fixed)
    return RunSpec(
        dataset=tiny_dataset(get_problem(problem).name, number),
        seed=seed,
        start=started,
        fixed=frozenset(fixed or ()),
    )


def tiny_train(problem="burgers", datasets=1, **options):
    """Train on made-up observations, few points and a small network."""
    if isinstance(datasets, int):
        datasets = [tiny_dataset(get_problem(problem).name, n) for n in range(datasets)]
    return train(problem, datasets=datasets, **{**TINY, "steps": STEPS, **options})


def arrays_of(run):
    """All numbers of a run, by name."""
    found = {"points": run.points, "history": run.history.to_numpy()}
    for snapshot in (*run.snapshots, run.final):
        at = f"{snapshot.step}." + ("final" if snapshot is run.final else "")
        for n, (weight, bias) in enumerate(snapshot.layers):
            found |= {f"{at}weight{n}": weight, f"{at}bias{n}": bias}
        found[f"{at}delivered"] = np.array(list(snapshot.delivered.values()))
        found[f"{at}view"] = snapshot.view.bind(run.points).matrix()
    return found


def assert_same_bits(run, other):
    assert run.key == other.key
    assert run.status == other.status
    left, right = arrays_of(run), arrays_of(other)
    assert list(left) == list(right)
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


@cache
def trained_by(method):
    return tiny_train(datasets=2, method=method, snapshots=SNAPSHOTS, batch=2)


class TrainedByMethod(Mapping):
    """Trained when it is first asked for: each method is a program to compile."""

    def __getitem__(self, method):
        return trained_by(method)

    def __iter__(self):
        return iter(METHODS)

    def __len__(self):
        return len(METHODS)


@pytest.fixture(scope="session")
def trained():
    """Two runs of every method, with snapshots at the end of the warm-up and before the end."""
    return TrainedByMethod()


# ------------------------------------------------------------------ the second trainer


def network_at(layers, inputs):
    """The network at one point."""
    hidden = inputs
    for weight, bias in layers[:-1]:
        hidden = jnp.tanh(weight @ hidden + bias)
    weight, bias = layers[-1]
    return (weight @ hidden + bias)[0]


def _smoothed(x, t):
    return erfc((x - 0.25) / jnp.sqrt(0.04 * t)) / 2


def _layer(s, t):
    width = jnp.sqrt(0.004 * t)
    z = s / width
    return 2 * width * (jnp.exp(-(z**2)) / jnp.sqrt(jnp.pi) - z * erfc(z))


def exact_burgers(n, x, t):
    return -jnp.sin(jnp.pi * x) + t * (1 - x**2) * n(x, t)


def exact_buckley_leverett(n, x, t):
    missing = (1 - x) * (_smoothed(0.0, t) - 1) + x * _smoothed(1.0, t)
    return _smoothed(x, t) - missing + 4 * jnp.sqrt(2 * t) * x * (1 - x) * n(x, t)


def exact_allen_cahn(n, x, t):
    start = x**2 * jnp.cos(jnp.pi * x) + _layer(1 - x, t) + _layer(1 + x, t)
    return start + t * n(jnp.sin(jnp.pi * x / 2), t)


def exact_darcy(n, x, y):
    return 16 * x * (1 - x) * y * (1 - y) * n(x, y)


EXACT = {
    "burgers": exact_burgers,
    "buckley-leverett": exact_buckley_leverett,
    "allen-cahn": exact_allen_cahn,
    "darcy": exact_darcy,
}


def field_at(name, conditions, layers):
    """The field as a function ``u(x, t)`` of two numbers."""

    def network(a, b):
        return network_at(layers, jnp.stack([a, b]))

    return network if conditions == "soft" else partial(EXACT[name], network)


def nested_derivatives(name, conditions, layers, points):
    """Values and derivatives up to the second order by differentiating twice."""
    u = field_at(name, conditions, layers)
    first, second = get_problem(name).domain
    functions = {
        "u": u,
        f"u_{first}": jax.grad(u, 0),
        f"u_{second}": jax.grad(u, 1),
        f"u_{first * 2}": jax.grad(jax.grad(u, 0), 0),
        f"u_{second * 2}": jax.grad(jax.grad(u, 1), 1),
    }
    return {key: jax.vmap(f)(points[:, 0], points[:, 1]) for key, f in functions.items()}


def burgers_at(u, q, x, t):
    u_xx = jax.grad(jax.grad(u, 0), 0)(x, t)
    return jax.grad(u, 1)(x, t) + u(x, t) * jax.grad(u, 0)(x, t) - jnp.exp(q[0]) * u_xx


def buckley_leverett_at(u, q, x, t):
    def flux(x, t):
        wet, dry = u(x, t) ** 2, (1 - u(x, t)) ** 2
        return wet / (wet + jnp.exp(q[0]) * dry)

    u_xx = jax.grad(jax.grad(u, 0), 0)(x, t)
    return jax.grad(u, 1)(x, t) + jax.grad(flux, 0)(x, t) - 0.01 * u_xx


def allen_cahn_at(u, q, x, t):
    u_xx = jax.grad(jax.grad(u, 0), 0)(x, t)
    reaction = jnp.exp(q[0]) * u(x, t) * (u(x, t) ** 2 - 1)
    return jax.grad(u, 1)(x, t) - 0.001 * u_xx + reaction


def darcy_at(u, q, x, y):
    """``-div(k grad u) - f`` as it is written, with the source from the true field."""

    def divergence(u, q):
        def k(x, y):
            return jnp.exp(q[0] + q[1] * jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y))

        across = jax.grad(lambda x, y: k(x, y) * jax.grad(u, 0)(x, y), 0)
        along = jax.grad(lambda x, y: k(x, y) * jax.grad(u, 1)(x, y), 1)
        return across(x, y) + along(x, y)

    def true(x, y):
        return jnp.sin(jnp.pi * x) * jnp.sin(2 * jnp.pi * y)

    return -divergence(u, q) + divergence(true, jnp.array([0.15, 0.85]))


EQUATIONS = {
    "burgers": burgers_at,
    "buckley-leverett": buckley_leverett_at,
    "allen-cahn": allen_cahn_at,
    "darcy": darcy_at,
}


def nested_residual(name, conditions, layers, q, points):
    """To be called within `jax.jit`."""
    equation = partial(EQUATIONS[name], field_at(name, conditions, layers), q)
    return jax.vmap(equation)(points[:, 0], points[:, 1])


def nested_data_loss(name, conditions, layers, sites, values, edge, edge_values, edge_weight):
    u = jax.vmap(field_at(name, conditions, layers))
    loss = jnp.mean((u(sites[:, 0], sites[:, 1]) - values) ** 2)
    if len(edge):
        loss += edge_weight * jnp.mean((u(edge[:, 0], edge[:, 1]) - edge_values) ** 2)
    return loss


@cache
def reference_gradients(name, conditions):
    """Compiled: residuals with their gradients, point by point, and the data loss with its own."""

    def one(layers, q, point):
        return EQUATIONS[name](field_at(name, conditions, layers), q, *point)

    by_point = jax.vmap(jax.value_and_grad(one, argnums=(0, 1)), in_axes=(None, None, 0))
    data_loss = jax.value_and_grad(partial(nested_data_loss, name, conditions))
    return jax.jit(by_point), jax.jit(data_loss)


def pointwise_matrix(points):
    return np.eye(len(points)) / len(points)


def unit_square(points):
    low, high = points.min(axis=0), points.max(axis=0)
    return (points - low) / (high - low)


def patch_matrix(points, cells):
    """Squared cell means, averaged over the cells that hold points."""
    place = [
        tuple(np.minimum(np.floor(cells * z), cells - 1).astype(int)) for z in unit_square(points)
    ]
    occupied = sorted(set(place))
    means = np.array([[float(p == cell) for p in place] for cell in occupied])
    means /= means.sum(axis=1, keepdims=True)
    return means.T @ means / len(occupied)


def gaussian_pairs(points):
    """Eigenvalues in descending order and eigenvectors of ``K / sum(K)``."""
    z = unit_square(points)
    squared = ((z[:, None] - z) ** 2).sum(axis=2)
    kernel = np.exp(-squared / (2 / (64 * 6)))  # a bandwidth of 1 / (8 sqrt 6)
    values, vectors = np.linalg.eigh(kernel / kernel.sum())
    return values[::-1], vectors[:, ::-1]


def gaussian_matrix(points, rank=None):
    values, vectors = gaussian_pairs(points)
    return (vectors[:, :rank] * values[:rank]) @ vectors[:, :rank].T


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def unflat(vector, model):
    leaves, structure = jax.tree.flatten(model)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = np.split(vector, ends)
    shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


@dataclass
class Adam:
    """The published recursion, in NumPy."""

    rate: float
    first: np.ndarray = None
    second: np.ndarray = None
    count: int = 0

    def step(self, gradient):
        if self.first is None:
            self.first, self.second = np.zeros_like(gradient), np.zeros_like(gradient)
        self.count += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        unbiased = self.first / (1 - 0.9**self.count)
        spread = self.second / (1 - 0.999**self.count)
        return -self.rate * unbiased / (np.sqrt(spread) + 1e-8)


def added(data, residual):
    return data + residual


def pcgrad(data, residual):
    """PCGrad for a list of tasks, as in its paper: projections one after another, then the sum."""
    tasks = [data, residual]
    order = np.random.default_rng(0)
    total = np.zeros_like(data)
    for i, task in enumerate(tasks):
        kept = task.copy()
        for j in order.permutation(len(tasks)):
            if j != i and kept @ tasks[j] < 0:
                kept = kept - (kept @ tasks[j]) / (tasks[j] @ tasks[j]) * tasks[j]
        total += kept
    return total


def residual_yields(data, residual):
    if data @ residual < 0:
        residual = residual - (data @ residual) / (data @ data) * data
    return data + 0.5 * residual


@dataclass
class Reference:
    """A training by the protocol, step by step in float64."""

    settings: Settings
    layers: list
    q: np.ndarray
    points: np.ndarray
    dataset: Dataset
    edge: np.ndarray
    edge_values: np.ndarray
    matrix: np.ndarray
    combine: callable
    attention: tuple | None = None  # decay and increment
    select: float | None = None  # share of the strength
    free: np.ndarray = None
    number: int = 0
    conflicts: list = field(default_factory=list)
    rank: int | None = None

    def __post_init__(self):
        self.weights = np.full(len(self.points), 0.0 if self.attention else 1.0)
        self.free = np.ones(len(self.q)) if self.free is None else self.free
        self.layers_adam = Adam(self.settings.learning_rate)
        self.q_adam = Adam(self.settings.learning_rate)
        self.q_adam.first = self.q_adam.second = np.zeros(len(self.q))

    def step(self):
        name, s = self.settings.problem.name, self.settings
        by_point, data_loss = reference_gradients(name, s.conditions)
        warmup = round(s.warmup * s.steps)
        r, (by_layers, by_q) = jax.device_get(by_point(self.layers, self.q, self.points))
        by_layers = np.hstack([leaf.reshape(len(r), -1) for leaf in jax.tree.leaves(by_layers)])
        if self.attention:
            decay, increment = self.attention
            self.weights = decay * self.weights + increment * np.abs(r) / np.abs(r).max()
        if self.select is not None and self.number == warmup:
            self._choose_rank(by_q)
        pulled = self.weights * (self.matrix @ (self.weights * r))
        self.loss_residual = r @ pulled
        self.loss_data, of_data = data_loss(
            self.layers,
            self.dataset.coordinates,
            self.dataset.values,
            self.edge,
            self.edge_values,
            s.boundary_weight,
        )
        data, residual = flat(of_data), s.physics_weight * 2 * pulled @ by_layers
        self.conflicts.append(bool(data @ residual < 0))
        change = self.layers_adam.step(self.combine(data, residual))
        self.layers = unflat(flat(self.layers) + change, self.layers)
        if self.number >= warmup:
            gradient = s.physics_weight * self.free * (2 * pulled @ by_q)
            self.q = self.q + self.q_adam.step(gradient)
        self.number += 1

    def _choose_rank(self, sensitivity):
        values, vectors = gaussian_pairs(self.points)
        strength = values * ((vectors.T @ sensitivity) ** 2).sum(axis=1)
        kept = np.cumsum(strength) >= self.select * strength.sum()
        self.rank = int(np.argmax(kept)) + 1
        self.matrix = gaussian_matrix(self.points, self.rank)


@pytest.fixture(scope="session")
def made():
    """The makers and constants above by name: test modules cannot import each other."""
    names = (
        "SITES POINTS NETWORK TINY STEPS SNAPSHOTS tiny_dataset tiny_settings tiny_spec tiny_train "
        "arrays_of assert_same_bits network_at nested_derivatives nested_residual "
        "nested_data_loss pointwise_matrix patch_matrix "
        "gaussian_pairs gaussian_matrix flat unflat Adam added pcgrad residual_yields Reference"
    )
    return SimpleNamespace(**{name: globals()[name] for name in names.split()})
