"""A frozen residual holds a field at its points, whatever arrays it was made of."""

import numpy as np
import pytest
from libraries import torch

import twoaxis as ta
from twoaxis.frozen import as_frozen, bound_view

X = np.linspace(0.0, 1.0, 12)
PLANE = np.random.default_rng(0).random((12, 2))
NU = {"nu": ta.Parameter(truth=0.5, delivered=0.6, bounds=(0.1, 2.0))}
TWO = {
    "nu": ta.Parameter(truth=0.5, bounds=(0.1, 2.0)),
    "shift": ta.Parameter(truth=-1.0, bounds=(-3.0, 3.0), coordinate="linear"),
}


def residual(nu):
    return np.cos(X) - nu * X


def says(*words):
    """A pattern that finds the words in this order."""
    return "(?s)" + ".*".join(words)


def test_points_become_columns():
    assert ta.FrozenResidual(residual, NU, X).points.shape == (12, 1)
    assert ta.FrozenResidual(residual, NU, PLANE).points.shape == (12, 2)
    rows = [list(row) for row in PLANE]
    np.testing.assert_array_equal(ta.FrozenResidual(residual, NU, rows).points, PLANE)
    own = ta.FrozenResidual(residual, NU, [X, PLANE[:7]]).points
    assert [part.shape for part in own] == [(12, 1), (7, 2)]


def test_coordinates_and_physical_values_are_inverse():
    frozen = ta.FrozenResidual(lambda nu, shift: nu * X + shift, TWO, X)
    q = frozen.coordinates({"nu": 0.25, "shift": 1.5})
    np.testing.assert_allclose(q, [np.log(0.25), 1.5], rtol=1e-15)
    assert frozen.physical(q) == pytest.approx({"nu": 0.25, "shift": 1.5}, rel=1e-15)
    low, high = frozen.coordinate_bounds
    np.testing.assert_allclose(low, [np.log(0.1), -3.0], rtol=1e-15)
    np.testing.assert_allclose(high, [np.log(2.0), 3.0], rtol=1e-15)
    assert frozen.names == ["nu", "shift"]


OUTPUTS = {
    "a column": lambda nu: residual(nu)[:, None],
    "float32": lambda nu: residual(nu).astype(np.float32).astype(float).astype(np.float32),
    "a tensor": lambda nu: torch.tensor(residual(nu)),
    "a tensor with a graph": lambda nu: torch.tensor(residual(nu), requires_grad=True) * 1.0,
    "one equation in a list": lambda nu: [residual(nu)],
}


@pytest.mark.parametrize("function", OUTPUTS.values(), ids=OUTPUTS)
def test_output_becomes_a_vector_of_floats(function):
    frozen = ta.FrozenResidual(function, NU, X)
    vector = frozen.at(np.log([0.25]))
    assert vector.dtype == np.float64
    np.testing.assert_allclose(vector, residual(0.25), rtol=0, atol=1e-7)


def test_equations_are_joined_in_order():
    frozen = ta.FrozenResidual(lambda nu: (residual(nu), np.full((12, 1), nu)), NU, X)
    np.testing.assert_allclose(
        frozen.at(np.log([0.25])), [*residual(0.25), *[0.25] * 12], rtol=1e-15
    )


def test_every_function_takes_a_frozen_residual_for_the_three():
    view = ta.views.Patch(cells=4)
    frozen = ta.FrozenResidual(residual, NU, X, view=view)
    for function in (ta.score, ta.frozen_scan, ta.spectrum):
        assert repr(function(frozen)) == repr(function(residual, NU, view, points=X))
    table = ta.step_robustness(frozen)
    assert table.equals(ta.step_robustness(residual, NU, view, points=X))


def test_a_view_in_the_call_replaces_the_training_view():
    frozen = ta.FrozenResidual(residual, NU, X, view=ta.views.Patch(cells=4))
    assert "patch" in ta.score(frozen).view
    assert "pointwise" in ta.score(frozen, view=ta.views.Pointwise()).view


def test_a_bound_view_is_shared():
    bound = ta.views.Gaussian(rank=3).bind(X)
    frozen = ta.FrozenResidual(residual, NU, X)
    assert bound_view(frozen, bound) is bound
    assert ta.score(frozen, view=bound).B == ta.score(frozen, view=ta.views.Gaussian(rank=3)).B


def test_moved_to_other_points():
    frozen = ta.FrozenResidual(
        residual,
        NU,
        X,
        view=ta.views.Pointwise(),
        jacobian=lambda nu: -X,  # noqa: ARG005
        residual_at=lambda points, nu: np.cos(points[:, 0]) - nu * points[:, 0],
    )
    moved = frozen.moved_to([0.1, 0.2, 0.7])
    np.testing.assert_allclose(
        moved.at(np.log([0.5])), np.cos([0.1, 0.2, 0.7]) - 0.5 * np.array([0.1, 0.2, 0.7])
    )
    assert moved.jacobian is None  # it belonged to the old points
    assert moved.view is frozen.view
    assert moved.parameters == frozen.parameters


def test_points_that_require_a_gradient_are_points():
    # Training code marks its points so; reading them must not need a detach.
    points = torch.tensor(PLANE, requires_grad=True)
    np.testing.assert_array_equal(ta.FrozenResidual(residual, NU, points).points, PLANE)


def test_arguments_are_checked_where_the_object_is_built():
    with pytest.raises(ta.InputError, match=says("function of the parameters", "ndarray")):
        ta.FrozenResidual(np.ones(12), NU, X)
    with pytest.raises(ta.InputError, match=says("jacobian", "ndarray")):
        ta.FrozenResidual(residual, NU, X, jacobian=np.ones(12))
    with pytest.raises(ta.InputError, match=says("residual_at", "ndarray")):
        ta.FrozenResidual(residual, NU, X, residual_at=np.ones(12))


def test_equations_of_their_own_points_have_their_lengths():
    # The total is right and the parts are not: no view may be laid over that.
    frozen = ta.FrozenResidual(
        lambda nu: (nu * np.ones(5), nu * np.ones(7)), NU, [PLANE[:7], PLANE[:5]]
    )
    with pytest.raises(ta.InputError, match=says("7", "5")):
        frozen.at(np.log([0.5]))


def test_what_is_missing_is_named():
    with pytest.raises(ta.InputError, match=says("no parameters", "parameters=")):
        as_frozen(residual, None, X)
    with pytest.raises(ta.InputError, match=says("no points", "points=")):
        as_frozen(residual, NU, None)
    frozen = ta.FrozenResidual(residual, NU, X)
    for extra in ((NU, None), (None, X)):
        with pytest.raises(ta.InputError, match=says("frozen residual alone", "leave them out")):
            as_frozen(frozen, *extra)
    with pytest.raises(ta.InputError, match=says("evaluated elsewhere", "residual_at=")):
        frozen.moved_to(X)


def test_every_residual_value_knows_its_equation():
    x = np.arange(3.0)
    known = {"k": ta.Parameter(bounds=(0.5, 2.0), delivered=1.0)}
    shared = ta.FrozenResidual(lambda k: (k * x, k + x), known, x, equations=("S", "I"))
    names, rows = shared.equation_of(6)
    assert names == ["S", "I"]
    assert rows.tolist() == [0, 0, 0, 1, 1, 1]
    own = ta.FrozenResidual(lambda k: (k * x, k * x[:1]), known, (x[:, None], x[:1, None]))
    names, rows = own.equation_of(4)
    assert names == ["equation 1", "equation 2"]
    assert rows.tolist() == [0, 0, 0, 1]


def test_observations_of_different_lengths_are_refused():
    def frozen(**known):
        return ta.FrozenResidual(
            lambda k: k * np.ones(4),
            {"k": ta.Parameter(bounds=(0.5, 2.0))},
            np.arange(4.0),
            **known,
        )

    good = frozen(fitted=np.ones((3, 2)), data=np.zeros((3, 2)), observed=np.arange(3.0))
    assert good.observed.shape == (3, 1)
    assert frozen(data=[1.0, np.nan]).data.shape == (2,)  # a missing reading is no error here
    for wrong in (
        {"fitted": np.ones(3), "data": np.ones(4)},
        {"fitted": np.ones((3, 2)), "data": np.ones(6)},
        {"data": np.ones(3), "observed": np.zeros((4, 2))},
        {"fitted": np.ones(3), "observed": np.zeros((4, 2))},
    ):
        with pytest.raises(ta.InputError, match="data and fitted of one shape"):
            frozen(**wrong)
    with pytest.raises(ta.InputError, match="data as real numbers"):
        frozen(data=["a"])


@pytest.mark.parametrize(
    "options",
    [
        {"axes": "t"},
        {"axes": ("x", "t")},
        {"notes": "one"},
        {"fields": "uv"},
        {"about": "a run"},
        {"fields": ("u", "v"), "fitted": np.ones(4)},
        {"fields": ("u", "v"), "data": np.ones((4, 3))},
    ],
)
def test_names_that_do_not_belong_to_the_arrays_are_refused(options):
    with pytest.raises(ta.InputError, match=next(iter(options))):
        ta.FrozenResidual(
            lambda k: k * np.ones(4),
            {"k": ta.Parameter(bounds=(0.1, 2.0))},
            np.arange(4.0),
            **options,
        )
