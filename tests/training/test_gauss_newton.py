"""Second-order training: its step, its linear system, and what it finds on an easy problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpy.testing import assert_allclose, assert_array_equal

import twoaxis as ta
from twoaxis.datasets import published_dataset
from twoaxis.errors import InputError
from twoaxis.gauss_newton import Continuation, damped_step
from twoaxis.runs.refined import last_weight, linearized
from twoaxis.training.backends.device import side_by_side, stack
from twoaxis.training.batch import Batch
from twoaxis.training.gauss_newton import StackedResidual
from twoaxis.training.methods import GaussNewton
from twoaxis.training.run_data import in_precision, point_weights, run_data
from twoaxis.training.settings import settings_for, specs_for

SHORT = Continuation(steps=2, free_steps=3, more=1)


def dense(matrix, damping, right):
    return np.linalg.solve(matrix + damping * np.eye(len(matrix)), right)


@pytest.mark.parametrize(("rows", "columns"), [(7, 4), (4, 7)])
def test_both_forms_of_a_damped_step_minimize_the_same_function(rows, columns):
    generator = np.random.default_rng(1)
    jacobian = generator.normal(size=(rows, columns))
    values, inertia = generator.normal(size=rows), generator.normal(size=columns)
    step = damped_step(jacobian, values, 0.3, inertia, dense)
    gradient = jacobian.T @ (values + jacobian @ step) + 0.3 * (step - inertia)
    assert_allclose(gradient, 0, atol=1e-12)


def test_the_weight_grows_by_a_factor_a_stage_and_stays_at_the_last():
    plan = Continuation(first=10, free=1e4, plateau=1e5, last=1e5, growth=10, steps=4, free_steps=6)
    weights = plan.weight(np.arange(plan.all_steps), np)
    assert_allclose(weights[[0, 4, 8]], [10, 100, 1000])
    assert plan.rest == 12
    assert_allclose(weights[[12, 18]], [1e4, 1e5])
    assert weights.max() == 1e5
    assert [k for k in range(30) if plan.ends_stage(k)] == [17, 23, 29]


@pytest.mark.parametrize(
    "options", [{"first": 0}, {"free": 1e9}, {"growth": 1}, {"steps": 0}, {"settled": -1}]
)
def test_a_continuation_that_cannot_run_is_refused(options):
    with pytest.raises(InputError):
        Continuation(**options)


def test_float32_is_refused():
    with pytest.raises(InputError, match="float64"):
        settings_for("burgers", "gauss-newton", precision="float32")


@pytest.fixture(scope="module")
def system():
    """The stacked residual of a small run of Burgers, its vector and its data."""
    settings = settings_for(
        "burgers",
        GaussNewton(SHORT),
        network=ta.Network(4, 2),
        residual_points=15,
    )
    spec = specs_for(settings.problem, datasets=8)[0]
    with jax.enable_x64(True):
        data = jax.tree.map(jnp.asarray, in_precision(settings, run_data(settings, spec)))
        layers = settings.network.initial(2, np.random.default_rng(3))
        vector, unravel = ravel_pytree((layers, jnp.array([np.log(0.013)])))
    return StackedResidual(settings, data), vector, unravel


def test_the_jacobian_is_that_of_differences(system):
    stacked, vector, unravel = system
    with jax.enable_x64(True):
        sites = jnp.arange(15)
        jacobian = np.array(stacked.linearized(vector, unravel, sites, 50.0)[1])
        moved = np.random.default_rng(5).normal(size=vector.size)
        moved[-1] = 0.0  # the parameters are held while the field moves
        ends = [
            np.array(stacked.values(unravel(vector + d * moved), sites=sites, weight=50.0))
            for d in (1e-6, -1e-6)
        ]
    expected = (ends[0] - ends[1]) / 2e-6
    assert_allclose(jacobian @ moved, expected, atol=1e-7 * np.abs(expected).max())


def least_squares(jacobian, right, ridge):
    """``argmin |jacobian v - right|^2 + ridge |v|^2``, by an orthogonal factorization."""
    count = jacobian.shape[1]
    held = np.concatenate([jacobian, np.sqrt(ridge) * np.eye(count)])
    return np.linalg.lstsq(held, np.concatenate([right, np.zeros(count)]))[0]


@pytest.mark.parametrize("weight", [50.0, 5e6])
def test_the_reduced_problem_is_least_squares_over_fields_that_obey_the_equation(system, weight):
    stacked, vector, unravel = system
    observed = len(stacked.data["values"])
    with jax.enable_x64(True):
        found = jax.tree.map(np.array, stacked.reduced(vector, unravel, weight))

        def values(v):
            return stacked.values(unravel(v), sites=jnp.arange(4 * 15), weight=1.0)

        jacobian, f = np.array(jax.jacfwd(values)(vector)), np.array(values(vector))
    equation, by_q = jacobian[observed:, :-1], jacobian[observed:, -1]
    ridge = 1e-9 * (equation**2).sum() / equation.shape[1]
    tangent = least_squares(equation, -by_q, ridge)
    slopes = jacobian[:observed, :-1] @ tangent
    corrected = f[:observed] + jacobian[:observed, :-1] @ least_squares(
        equation, -f[observed:], ridge
    )
    assert_allclose(found.tangent[:, 0], tangent, atol=1e-6 * np.abs(tangent).max())
    assert_allclose(found.covariance, [[1 / (slopes @ slopes)]], rtol=1e-5)
    assert_allclose(found.step, [-(slopes @ corrected) / (slopes @ slopes)], rtol=1e-5)


def test_open_conditions_are_left_to_the_data():
    settings = settings_for("burgers", "gauss-newton", conditions="soft")
    assert settings.conditions_are_open
    assert not settings_for("burgers", "gauss-newton").conditions_are_open
    assert not settings_for("darcy", "gauss-newton", conditions="soft").conditions_are_open


def test_a_steep_start_counts_less_and_a_smooth_one_is_left_alone():
    settings = settings_for("buckley-leverett", "gauss-newton")
    spec = specs_for(settings.problem, datasets=8)[0]
    points = np.column_stack([np.full(200, 0.25), np.geomspace(1e-6, 0.5, 200)])
    weights = point_weights(settings, spec, points)
    assert (np.diff(weights) > 0).all()
    soft = settings_for("buckley-leverett", "gauss-newton", conditions="soft")
    assert (point_weights(soft, spec, points) == 1).all()


def test_a_run_keeps_the_weight_that_it_ended_with():
    run = ta.train(
        "burgers",
        method=GaussNewton(SHORT),
        datasets=8,
        network=ta.Network(6, 2),
        residual_points=40,
        progress=False,
    )[0]
    assert run.settings.precision == "float64"
    assert run.settings.conditions == "exact"
    assert run.settings.steps == SHORT.all_steps
    assert last_weight(run) == pytest.approx(SHORT.last)
    # The loss of the run, as its objective has it, is the stacked residual in other units.
    found = linearized(run)
    noise, count = run.dataset.noise_scale, len(run.dataset.values)
    misfit = run.field(run.dataset.coordinates) - run.dataset.values
    assert found.misfit == pytest.approx(np.mean(misfit**2) / noise**2)
    assert found.sensitivity.shape == (count, 1)


def test_a_settled_run_rests_beside_one_that_goes_on(system):
    settings = system[0].settings
    batch = Batch(settings, specs_for(settings.problem, datasets=[8, 9]))
    data = batch.data()
    begun = batch.begin(data).state | {"settled": np.array([True, False])}
    with jax.enable_x64(True):
        program = jax.jit(side_by_side(settings, alone=False))
        after = program(begun, stack(data), np.int32(0), np.int32(2))
        # When all have settled, the loop ends before its first step.
        end = program(after | {"settled": np.ones(2, bool)}, stack(data), np.int32(2), np.int32(5))
    for old, new, last in zip(*map(jax.tree.leaves, (begun, after, end)), strict=True):
        assert_array_equal(new[0], old[0])
        if new.dtype != bool:
            assert_array_equal(last, new)
    old, new = (state["layers"][0][0][1] for state in (begun, after))
    assert not np.array_equal(new, old)


def test_a_run_with_the_variables_of_a_layer_is_stored_and_read(tmp_path):
    options = {"method": GaussNewton(SHORT), "network": ta.Network(6, 2), "residual_points": 40}
    first, again = (
        ta.train("buckley-leverett", datasets=8, store=tmp_path, progress=False, **options)[0]
        for _ in range(2)
    )
    assert again.settings.conditions == "layered"
    assert first.final.layers[0][0].shape == (6, 4)
    assert not (tmp_path / "damaged").exists()
    points = np.array([[0.2, 0.0], [0.25, 0.1], [0.0, 0.3], [1.0, 0.2]])
    assert_allclose(again.field(points), first.field(points), rtol=0)
    assert_allclose(first.field(points)[[0, 2, 3]], [1.0, 1.0, 0.0], atol=1e-12)
    with pytest.raises(InputError, match="layer"):
        settings_for("burgers", "gauss-newton", conditions="layered")


@pytest.mark.long
def test_allen_cahn_ends_at_the_estimate_of_the_likelihood():
    """The likelihood of dataset 8 with a converged solver has -0.7%, standard error 2.95%."""
    run = ta.train(
        "allen-cahn",
        method="gauss-newton",
        datasets=published_dataset("allen-cahn", 8),
        network=ta.Network(16, 3),
        residual_points=1000,
        start={"lam": 4.4},
        progress=False,
    )[0]
    error = float(np.sqrt(linearized(run).covariance[0, 0]))
    assert error == pytest.approx(0.0295, rel=0.2)
    assert abs(np.log(run.delivered["lam"] / (5 * 0.993))) < error
