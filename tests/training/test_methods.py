"""Every method's steps against the protocol written out: weights, parameters, Adam's moments.

The written-out trainer lies in conftest.py and shares no code with the engine.
"""

from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from twoaxis.errors import InputError
from twoaxis.problems import get_problem
from twoaxis.training.backends import JaxDevice, find_device
from twoaxis.training.batch import Batch
from twoaxis.training.loop import initial_network
from twoaxis.training.methods import (
    METHODS,
    RBA,
    GaussianEvidence,
    JointAdam,
    PatchEvidence,
    PCGrad,
    Recipe,
    SensitivitySelector,
    get_method,
)
from twoaxis.training.run_data import boundary_sites, residual_sites
from twoaxis.views import Gaussian, Patch, Pointwise

# Method, then what the reference makes of it.
CASES = {
    "adam": (JointAdam(), dict(matrix="pointwise", combine="added")),
    "pcgrad": (PCGrad(), dict(matrix="pointwise", combine="pcgrad")),
    "rba": (RBA(), dict(matrix="pointwise", combine="added", attention=(0.999, 0.001))),
    "patch": (PatchEvidence(cells=4), dict(matrix="patch", combine="residual_yields")),
    "gaussian-5": (GaussianEvidence(rank=5), dict(matrix="rank 5", combine="residual_yields")),
    "gaussian": (GaussianEvidence(), dict(matrix="gaussian", combine="residual_yields")),
    "selector": (
        SensitivitySelector(),
        dict(matrix="gaussian", combine="residual_yields", select=0.9),
    ),
}
OPTIONS = dict(steps=10, learning_rate=0.03, physics_weight=2.0)


def reference(made, settings, spec, matrix, combine, **options):
    points = residual_sites(settings, spec)
    matrices = {
        "pointwise": lambda: made.pointwise_matrix(points),
        "patch": lambda: made.patch_matrix(points, 4),
        "rank 5": lambda: made.gaussian_matrix(points, 5),
        "gaussian": lambda: made.gaussian_matrix(points),
    }
    steady = settings.problem.name == "darcy" and settings.conditions == "soft"
    edge = boundary_sites(settings, spec) if steady else np.empty((0, 2))
    parameters = settings.problem.parameters
    q = [
        np.log(spec.start[name]) if p.coordinate == "log" else spec.start[name]
        for name, p in parameters.items()
    ]
    return made.Reference(
        settings=settings,
        layers=initial_network(settings, spec),
        q=np.array(q),
        points=points,
        dataset=spec.dataset,
        edge=edge,
        edge_values=np.sin(np.pi * edge[:, 0]) * np.sin(2 * np.pi * edge[:, 1]),
        matrix=matrices[matrix](),
        combine=getattr(made, combine),
        free=np.array([float(name not in spec.fixed) for name in parameters]),
        **options,
    )


def compare(made, settings, spec, check, **options):
    """Step the engine and the reference side by side; return the reference at the end."""
    job = Batch(settings, [spec])
    data = job.data()
    state = job.begin(data).state
    with JaxDevice(find_device("cpu")).session(settings, data) as session:
        with jax.enable_x64(True):
            other = reference(made, settings, spec, **options)
        for number in range(settings.steps):
            state = session.advance(state, number, 1)
            with jax.enable_x64(True):
                other.step()
            check(made, number, jax.tree.map(lambda leaf: leaf[0], state), other)
    return other


def same_state(made, number, state, other):
    close = dict(rtol=1e-6, atol=1e-10, err_msg=f"step {number}")
    assert_allclose(state["loss_data"], other.loss_data, **close)
    assert_allclose(state["loss_residual"], other.loss_residual, **close)
    assert_allclose(made.flat(state["layers"]), made.flat(other.layers), **close)
    assert_allclose(state["coordinates"], other.q, **close)
    for name, adam in (("layers_adam", other.layers_adam), ("coordinates_adam", other.q_adam)):
        found = state[name][0]
        assert found.count == adam.count
        assert_allclose(made.flat(found.mu), adam.first, rtol=1e-6, atol=1e-12)
        assert_allclose(made.flat(found.nu), adam.second, rtol=1e-6, atol=1e-14)
    if other.attention:
        assert_allclose(state["weights"]["points"], other.weights, **close)
    if other.rank is not None:
        modes = state["weights"]["modes"]
        assert_array_equal(modes, np.arange(len(modes)) < other.rank)


@pytest.mark.parametrize(("method", "options"), CASES.values(), ids=CASES)
def test_updates(made, method, options):
    settings = made.tiny_settings(method=method, **OPTIONS)
    other = compare(made, settings, made.tiny_spec(seed=3), same_state, **options)
    if options["combine"] != "added":
        assert set(other.conflicts) == {True, False}  # both branches of the projection were taken
    if settings.warmup:
        assert 0 < other.q_adam.count < settings.steps  # it rested and it moved
    if "select" in options:
        assert 1 < other.rank < made.POINTS


OTHER_PROBLEMS = {
    "Darcy, two linear parameters and a boundary": ("darcy", "soft", "rba", None),
    "Darcy, one of them fixed": ("darcy", "soft", "adam", {"lambda_1": 0.4}),
    "Allen–Cahn, exact conditions": ("allen-cahn", "exact", "patch", None),
}


@pytest.mark.parametrize(
    ("problem", "conditions", "case", "fixed"), OTHER_PROBLEMS.values(), ids=OTHER_PROBLEMS
)
def test_updates_on_other_problems(made, problem, conditions, case, fixed):
    method, options = CASES[case]
    settings = made.tiny_settings(
        problem, method, conditions=conditions, **{**OPTIONS, "learning_rate": 1e-3, "steps": 5}
    )
    spec = made.tiny_spec(problem, fixed=fixed)
    other = compare(made, settings, spec, same_state, **options)
    moved = other.q != np.array(
        [p.to_coordinate(spec.start[n]) for n, p in settings.problem.parameters.items()]
    )
    assert_array_equal(moved, [name not in (fixed or {}) for name in settings.problem.parameters])


def test_gradients_of_the_whole_loss(made):
    """Without Adam in between: its first moment after one step is a tenth of the gradient."""
    for problem in ("burgers", "darcy"):
        rate = 0.03 if problem == "burgers" else 1e-3  # as above: compiled already
        settings = made.tiny_settings(problem, "adam", steps=1, learning_rate=rate)
        spec = made.tiny_spec(problem)
        job = Batch(settings, [spec])
        data = job.data()
        with JaxDevice(find_device("cpu")).session(settings, data) as session:
            state = session.advance(job.begin(data).state, 0, 1)
        with jax.enable_x64(True):
            other = reference(made, settings, spec, **CASES["adam"][1])
            edge = (other.edge, other.edge_values, settings.boundary_weight)

            def loss(layers, q, other=other, edge=edge, name=problem):
                sites, values = other.dataset.coordinates, other.dataset.values
                data = made.nested_data_loss(name, "soft", layers, sites, values, *edge)
                r = made.nested_residual(name, "soft", layers, q, other.points)
                return data + 2.0 * (r**2).mean()

            gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
            by_layers, by_q = gradient(other.layers, other.q)
        found = 10 * made.flat(jax.tree.map(lambda leaf: leaf[0], state["layers_adam"][0].mu))
        assert_allclose(found, made.flat(by_layers), rtol=1e-9, atol=1e-13)
        assert_allclose(10 * state["coordinates_adam"][0].mu[0], by_q, rtol=1e-9, atol=1e-14)


# ------------------------------------------------------------------ names and recipes


def test_the_methods_of_the_study():
    assert list(METHODS) == [
        "adam",
        "pcgrad",
        "rba",
        "patch",
        "gaussian-64",
        "gaussian",
        "selector",
        "gauss-newton",
    ]
    for name, method in METHODS.items():
        assert method.name == name
        assert get_method(name) is method
        assert get_method(method) is method
        assert isinstance(method.recipe(), Recipe)
    assert get_method(" Gaussian_64 ") is METHODS["gaussian-64"]


def test_views_and_warmups_of_the_study():
    found = {name: (m.recipe().view, m.recipe().warmup) for name, m in METHODS.items()}
    assert found == {
        "adam": (Pointwise(), 0.0),
        "pcgrad": (Pointwise(), 0.0),
        "rba": (Pointwise(), 0.0),
        "patch": (Patch(cells=8), 0.2),
        "gaussian-64": (Gaussian(rank=64), 0.2),
        "gaussian": (Gaussian(), 0.2),
        "selector": (Gaussian(), 0.2),
        "gauss-newton": (Pointwise(), 0.0),
    }


@pytest.mark.parametrize(
    ("name", "near"), [("rbaa", "rba"), ("pc-grad", "pcgrad"), ("gausian", "gaussian")]
)
def test_an_unknown_name_gets_the_nearest(name, near):
    with pytest.raises(InputError, match=f'did you mean "{near}"'):
        get_method(name)


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(InputError, match=r"adam, pcgrad, rba.*choose one"):
        get_method("zzzzzz")


@dataclass
class Odd:
    name: str = "odd"

    def recipe(self):
        return "pointwise"


STRANGE = {
    "a class": (RBA, r"the class RBA.*as in RBA\(\)"),
    "a number": (7, "an object with a name and a recipe"),
    "nothing": (None, "an object with a name and a recipe"),
    "a recipe": (Recipe(), "an object with a name and a recipe"),
    "a recipe() that returns something else": (Odd(), r"Recipe, got str"),
}


@pytest.mark.parametrize(("method", "message"), STRANGE.values(), ids=STRANGE)
def test_what_is_no_method(method, message):
    with pytest.raises(InputError, match=message):
        get_method(method)


def test_methods_share_network_and_sites(made):
    spec = made.tiny_spec(seed=5)
    rba, patch = (made.tiny_settings(method=name) for name in ("rba", "patch"))
    assert_array_equal(residual_sites(rba, spec), residual_sites(patch, spec))
    left, right = initial_network(rba, spec), initial_network(patch, spec)
    assert_array_equal(made.flat(left), made.flat(right))
    other = replace(spec, seed=6)
    assert not np.array_equal(residual_sites(rba, other), residual_sites(rba, spec))


def test_sites_are_uniform_in_the_domain_and_on_its_edges(made):
    for name in ("buckley-leverett", "darcy"):
        problem = get_problem(name)
        settings = made.tiny_settings(name, residual_points=4000, boundary_points=400)
        low, high = np.array(list(problem.domain.values())).T
        unit = (residual_sites(settings, made.tiny_spec(name)) - low) / (high - low)
        assert unit.min() >= 0
        assert unit.max() <= 1
        assert_allclose(unit.mean(axis=0), 0.5, atol=0.03)
        assert_allclose(unit.var(axis=0), 1 / 12, atol=0.01)
    edge = boundary_sites(settings, made.tiny_spec("darcy"))
    on = [edge[:, 0] == 0, edge[:, 0] == 1, edge[:, 1] == 0, edge[:, 1] == 1]
    assert [int(side.sum()) for side in on] == [100] * 4
    assert 0.3 < edge[on[0], 1].std() * np.sqrt(12) / 1 < 1.3
