"""`resolve` on built-in problems, with their declared solver, layouts and noise."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.datasets import layout, noise_scale, noise_seed
from twoaxis.forward import get_solver
from twoaxis.problems import get_problem

SMALL = dict(replicas=3, bank=21, validate=0, progress=False)


@pytest.fixture(scope="module")
def found():
    return ta.resolve("allen-cahn", layouts=[8, 9], **SMALL)


def test_a_problem_is_its_solver_parameters_layouts_and_noise(found):
    problem, solver = get_problem("allen-cahn"), get_solver("allen-cahn")
    sites = layout(problem, 9)
    own = ta.resolve(
        lambda lam: solver.at_sites(sites, lam=lam),
        problem.parameters,
        noise_scale(problem),
        seed=noise_seed(problem, 20260719),
        vectorized=True,
        **SMALL,
    )
    np.testing.assert_array_equal(found.estimate.sel(layout="9"), own.estimate.values[0])
    assert found.data.attrs["seed"] == own.data.attrs["seed"]


def test_layouts_are_seeds_or_sites_of_the_fine_field(found):
    sites = {"mine": layout("allen-cahn", 9)}
    mine = ta.resolve("allen-cahn", layouts=sites, **SMALL)
    np.testing.assert_array_equal(mine.estimate.values[0], found.estimate.sel(layout="9"))
    assert mine.layout_names == ["mine"]


def test_what_is_passed_replaces_what_the_problem_declares(found):
    parameters = {"lam": ta.Parameter(delivered=6.0, bounds=(1.0, 20.0))}
    other = ta.resolve("allen-cahn", parameters, layouts=[8], **SMALL)
    assert other.centered_on == "delivered"
    noise = 2 * noise_scale("allen-cahn")
    louder = ta.resolve("allen-cahn", noise=noise, layouts=[8, 9], **SMALL)
    np.testing.assert_allclose(louder.fisher_error_percent, 2 * found.fisher_error_percent)


def test_the_coarse_solver_fits_data_of_the_fine_one(found):
    coarse = ta.resolve("allen-cahn", layouts=[8, 9], fit_forward="coarse", **SMALL)
    fine = ta.resolve("allen-cahn", layouts=[8, 9], fit_forward="fine", **SMALL)
    assert np.abs(coarse.noiseless_bias_percent).min() > 0.1
    np.testing.assert_array_equal(fine.estimate, found.estimate)
    assert coarse.data.attrs["fit_forward"] != fine.data.attrs["fit_forward"]


@pytest.mark.parametrize(
    "changes",
    [
        dict(layouts=[]),
        dict(layouts=[8, 8]),
        dict(layouts=["eight"]),
        dict(layouts=[[1, 2], [3, 4]]),
        dict(layouts={"a": [-1]}),
        dict(seed=-1),
        dict(seed="now"),
        dict(points=np.ones((200, 2))),
        dict(fit_forward="finest"),
        dict(fit_forward=lambda lam: lam),
    ],
)
def test_bad_input_is_refused(changes):
    with pytest.raises(ta.InputError):
        ta.resolve("allen-cahn", **{**SMALL, **changes})


def test_an_unknown_problem_and_a_missing_argument_are_named():
    with pytest.raises(ta.InputError, match="burgers"):
        ta.resolve("navier-stokes")
    with pytest.raises(ta.InputError, match="mapping from parameter names"):
        ta.resolve(lambda nu: [nu], noise=1.0)


def test_data_of_one_layout_are_in_the_order_of_its_dataset():
    data = ta.published_dataset("allen-cahn", 8)
    found = ta.resolve("allen-cahn", layouts=[8], data=data.values, replicas=5, progress=False)
    wanted = ta.resolve(
        "allen-cahn", layouts=[8], data={8: data.values}, replicas=5, progress=False
    )
    np.testing.assert_array_equal(found.data["site"][0], np.arange(200))
    assert float(found.data["data_estimate"].item()) == float(wanted.data["data_estimate"].item())
    assert abs(float(found.data["data_estimate"].item()) / 5 - 1) < 0.1


def test_data_in_one_of_two_orders_are_refused():
    x = np.linspace(0, 1, 6)
    data = 2 * x + 0.1 * np.array([1.0, -1.2, 0.4, -0.3, 0.9, -0.6])
    given = {
        "forward": lambda a: a * x,
        "parameters": {"a": ta.Parameter(truth=2.0, bounds=(1, 4))},
    }
    order = np.array([3, 1, 5, 0, 2, 4])
    with pytest.raises(ta.InputError) as caught:
        ta.resolve(
            **given, noise=0.1, layouts={"one": order}, data=data, replicas=5, progress=False
        )
    assert "order" in caught.value.expected
    found = ta.resolve(
        **given,
        noise=0.1,
        layouts={"one": order},
        data={"one": data[order]},
        replicas=5,
        progress=False,
    )
    assert found.data["data_estimate"].item() == pytest.approx(x @ data / (x @ x), rel=1e-6)
