"""The residual term as arrays: its value, its slope, and the view that is frozen from it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from twoaxis import views
from twoaxis.errors import InputError
from twoaxis.runs.run import frozen_view
from twoaxis.training import METHODS
from twoaxis.training.residual_loss import form_of, loss_and_slope, stacked_forms

EVERY_METHOD = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
N = 50


def points(seed=0, count=N):
    return np.random.default_rng(seed).uniform([-1, 0], [1, 1], (count, 2))


def residual(seed=1, count=N):
    return np.random.default_rng(seed).normal(size=count)


def some_weights(method, form, seed=2):
    """Weights as the method's rule might leave them."""
    names = method.recipe().weights.initial(N, len(form.get("factor", ())))
    generator = np.random.default_rng(seed)
    made = {"points": generator.uniform(0, 1, N)}
    if "modes" in names:
        made["modes"] = (np.arange(len(names["modes"])) < 7).astype(float)
    return {name: made[name] for name in names}


@EVERY_METHOD
def test_the_frozen_view_is_the_loss(method):
    recipe = method.recipe()
    form = form_of(recipe.view, points(), recipe.weights.needs_modes)
    weights, r = some_weights(method, form), residual()
    view = frozen_view(recipe.view, weights, points())
    assert_allclose(
        r @ view.bind(points()).apply(r), loss_and_slope(form, weights, r)[0], rtol=1e-8
    )


VIEWS = {
    "pointwise": views.Pointwise(),
    "patch": views.Patch(cells=3),
    "gaussian": views.Gaussian(),
    "gaussian of low rank": views.Gaussian(rank=6),
}
WEIGHTS = {
    "none": lambda modes: {},  # noqa: ARG005
    "points": lambda modes: {"points": np.linspace(0.1, 2, N)},  # noqa: ARG005
    "points, some without weight": lambda modes: {"points": np.arange(N) % 3 / 2},  # noqa: ARG005
    "leading modes": lambda modes: {"modes": (np.arange(modes) < 4).astype(float)},
    "any modes": lambda modes: {"modes": np.linspace(2, 0, modes)},
    "modes and points": lambda modes: {
        "points": np.linspace(0.1, 2, N),
        "modes": (np.arange(modes) % 2).astype(float),
    },
}


@pytest.mark.parametrize("weigh", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_every_composition_freezes_to_its_loss(view, weigh):
    as_modes = "modes" in weigh(1)
    form = form_of(view, points(), as_modes)
    weights, r = weigh(len(form.get("factor", ()))), residual()
    frozen = frozen_view(view, weights, points())
    loss, _ = loss_and_slope(form, weights, r)
    assert_allclose(frozen.bind(points()).quadratic(r, r), loss, rtol=1e-8)


@pytest.mark.parametrize("weigh", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_the_slope_is_the_derivative_of_the_loss(view, weigh):
    form = form_of(view, points(), "modes" in weigh(1))
    weights, r = weigh(len(form.get("factor", ()))), residual()
    loss, slope = loss_and_slope(form, weights, r)
    for seed in range(5):
        # A quadratic form: what is not linear in the step is the form of the step itself.
        h = residual(seed + 10)
        (ahead, _), (own, _) = (loss_and_slope(form, weights, each) for each in (r + h, h))
        assert_allclose(slope @ h, ahead - loss - own, rtol=1e-9, atol=1e-12)


def test_forms_against_matrices_written_out(made):
    where, r = points(), residual()
    cases = [
        (views.Pointwise(), made.pointwise_matrix(where)),
        (views.Patch(cells=3), made.patch_matrix(where, 3)),
        (views.Patch(cells=8), made.patch_matrix(where, 8)),
        (views.Gaussian(), made.gaussian_matrix(where)),
        (views.Gaussian(rank=5), made.gaussian_matrix(where, 5)),
    ]
    for view, matrix in cases:
        loss, slope = loss_and_slope(form_of(view, where, False), {}, r)
        assert_allclose(loss, r @ matrix @ r, rtol=1e-10)
        assert_allclose(slope, 2 * matrix @ r, rtol=1e-8, atol=1e-14)


def test_each_view_comes_in_its_cheapest_shape():
    assert list(form_of(views.Pointwise(), points(), False)) == ["diagonal"]
    assert form_of(views.Patch(cells=3), points(), False)["factor"].shape == (9, N)
    assert form_of(views.Gaussian(), points(), False)["matrix"].shape == (N, N)
    assert form_of(views.Gaussian(rank=6), points(), False)["factor"].shape == (6, N)
    assert form_of(views.Pointwise(), points(), True)["factor"].shape == (N, N)


def test_modes_come_in_descending_order():
    factor = form_of(views.Gaussian(), points(), True)["factor"]
    strength = (factor**2).sum(axis=1)
    assert (np.diff(strength) <= 1e-15).all()
    assert_allclose(factor.T @ factor, views.Gaussian().bind(points()).matrix(), atol=1e-9)


def test_short_factors_are_filled_up_without_effect():
    forms = [form_of(views.Gaussian(), points(seed, 30), True) for seed in range(3)]
    forms += [{"factor": forms[0]["factor"][:4]}]
    filled = stacked_forms(forms)
    assert len({form["factor"].shape for form in filled}) == 1
    r = residual(count=30)
    for before, after in zip(forms, filled, strict=True):
        assert_allclose(
            loss_and_slope(before, {}, r)[0], loss_and_slope(after, {}, r)[0], rtol=1e-13
        )


def test_runs_whose_views_have_different_shapes_train_together():
    # Occupied cells differ by run: around half as many as points, both shapes occur.
    forms = [form_of(views.Patch(cells=8), points(seed, 106), False) for seed in range(12)]
    assert {next(iter(form)) for form in forms} == {"factor", "matrix"}
    filled = stacked_forms(forms)
    assert len({(name, form[name].shape) for form in filled for name in form}) == 1
    r = residual(count=106)
    for before, after in zip(forms, filled, strict=True):
        (loss, slope), (again, slope_again) = (loss_and_slope(f, {}, r) for f in (before, after))
        assert_allclose(loss, again, rtol=1e-12)
        assert_allclose(slope, slope_again, rtol=1e-10, atol=1e-14)


def test_a_view_that_changes_its_kind_is_refused():
    forms = [form_of(views.Pointwise(), points(), as_modes) for as_modes in (True, False)]
    with pytest.raises(InputError, match="separate calls"):
        stacked_forms(forms)


def test_before_the_first_loss_there_is_nothing_to_freeze():
    assert frozen_view(views.Pointwise(), {"points": np.zeros(N)}, points()) == views.Pointwise()


def test_attention_freezes_to_squared_weights():
    w = np.linspace(0, 1, N)
    bound = frozen_view(views.Pointwise(), {"points": w}, points()).bind(points())
    assert_array_equal(bound.matrix(), np.diag(w**2 / N))


def test_leading_modes_freeze_to_a_gaussian_of_that_rank():
    modes = (np.arange(40) < 11).astype(np.float32)
    assert frozen_view(views.Gaussian(), {"modes": modes}, points()) == views.Gaussian(rank=11)
