"""Weight and gradient rules by themselves, against formulas written out in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from twoaxis.errors import InputError
from twoaxis.training.methods import GaussianEvidence, Recipe, SensitivitySelector
from twoaxis.training.rules import (
    Add,
    Attention,
    Moment,
    ProjectBoth,
    ProjectResidual,
    RetainStrength,
    Uniform,
    without_conflict,
)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def moment(residual=None, sensitivity=None, modes=None, step=0, warmup=0):
    return Moment(
        residual=jnp.asarray(np.zeros(3) if residual is None else residual),
        sensitivity=lambda: jnp.asarray(sensitivity),
        modes=None if modes is None else jnp.asarray(modes),
        step=jnp.asarray(step),
        steps=10,
        warmup=warmup,
    )


def tree(vector):
    """The shapes of a small network's gradient."""
    return [(vector[:4].reshape(2, 2), vector[4:6]), (vector[6:8].reshape(1, 2), vector[8:9])]


def joined(gradient):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)])


PAIRS = [np.random.default_rng(seed).normal(size=(2, 9)) for seed in range(12)]


def test_the_pairs_conflict_and_agree():
    signs = {float(np.sign(data @ residual)) for data, residual in PAIRS}
    assert signs == {-1.0, 1.0}


@pytest.mark.parametrize("pair", PAIRS, ids=range(12))
def test_gradient_rules_against_numpy(made, pair):
    data, residual = pair
    for rule, wanted in (
        (Add(), made.added),
        (ProjectBoth(), made.pcgrad),
        (ProjectResidual(), made.residual_yields),
    ):
        found = rule.combine(tree(data), tree(residual))
        assert_allclose(joined(found), wanted(data, residual), rtol=1e-12, atol=1e-15)


def test_the_scale_of_the_residual_gradient():
    data, residual = np.arange(1.0, 10), np.ones(9)
    found = ProjectResidual(scale=0.125).combine(tree(data), tree(residual))
    assert_allclose(joined(found), data + 0.125)


def test_a_projection_is_orthogonal_and_leaves_agreement_alone():
    data, residual = next(pair for pair in PAIRS if pair[0] @ pair[1] < 0)
    kept = joined(without_conflict(tree(residual), tree(data)))
    assert abs(kept @ data) < 1e-12
    assert_array_equal(joined(without_conflict(tree(-residual), tree(data))), -residual)


@pytest.mark.parametrize("rule", [Add(), ProjectBoth(), ProjectResidual()], ids=repr)
def test_a_gradient_of_zero_does_not_become_nan(rule):
    zero, some = np.zeros(9), np.ones(9)
    assert_array_equal(joined(rule.combine(tree(zero), tree(zero))), zero)
    assert np.isfinite(joined(rule.combine(tree(zero), tree(some)))).all()
    assert np.isfinite(joined(rule.combine(tree(some), tree(zero)))).all()


def test_attention_is_its_recursion():
    rule, w = Attention(), np.zeros(5)
    weights = rule.initial(5, 0)
    assert_array_equal(weights["points"], w)
    for seed in range(20):
        r = np.random.default_rng(seed).normal(size=5)
        weights = rule.update(weights, moment(residual=r))
        w = 0.999 * w + 0.001 * np.abs(r) / np.abs(r).max()
        assert_allclose(weights["points"], w, rtol=1e-14)


def test_attention_with_other_constants_and_a_residual_of_zero():
    rule = Attention(decay=0.5, increment=0.25)
    weights = rule.update({"points": jnp.ones(3)}, moment(residual=np.array([1.0, -4.0, 2.0])))
    assert_allclose(weights["points"], [0.5625, 0.75, 0.625])
    weights = rule.update(weights, moment(residual=np.zeros(3)))
    assert_allclose(weights["points"], [0.28125, 0.375, 0.3125])


def test_uniform_weights_are_none():
    assert Uniform().initial(5, 0) == {}
    assert Uniform().update({}, moment()) == {}


MODES = np.diag(np.sqrt([5.0, 3.0, 1.0, 0.5, 0.1]))
# Strengths lambda_k j_k^2 of 5, 12, 0, 2 and 10, 29 in all.
SENSITIVITY = np.array([[1.0, 0, 0, 2, 10], [0, 2, 0, 0, 0]]).T


@pytest.mark.parametrize(
    ("share", "kept"), [(1e-9, 1), (5 / 29, 1), (0.2, 2), (17 / 29, 2), (0.6, 4), (0.9, 5), (1, 5)]
)
def test_the_smallest_rank_that_holds_the_share(share, kept):
    rule = RetainStrength(share - 1e-12 if share < 1 and share > 1e-6 else share)
    found = rule.update(rule.initial(5, 5), moment(sensitivity=SENSITIVITY, modes=MODES))["modes"]
    assert_array_equal(found, (np.arange(5) < kept).astype(float))


def test_the_rank_is_chosen_once_at_the_end_of_the_warmup():
    rule = RetainStrength(0.2)
    weights = rule.initial(5, 5)
    for step in range(3):
        weights = rule.update(
            weights, moment(sensitivity=SENSITIVITY, modes=MODES, step=step, warmup=3)
        )
        assert_array_equal(weights["modes"], np.ones(5))
    weights = rule.update(weights, moment(sensitivity=SENSITIVITY, modes=MODES, step=3, warmup=3))
    assert_array_equal(weights["modes"], [1, 1, 0, 0, 0])
    other = SENSITIVITY[::-1]
    weights = rule.update(weights, moment(sensitivity=other, modes=MODES, step=4, warmup=3))
    assert_array_equal(weights["modes"], [1, 1, 0, 0, 0])


def test_without_any_strength_the_view_still_sees_something():
    rule = RetainStrength()
    found = rule.update(rule.initial(5, 5), moment(sensitivity=np.zeros((5, 1)), modes=MODES))
    assert found["modes"][0] == 1


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, np.nan, "most", True, None])
def test_a_share_that_is_none(share):
    with pytest.raises(InputError, match=r"share.*above 0.*up to 1"):
        RetainStrength(share)
    with pytest.raises(InputError, match=r"share.*above 0.*up to 1"):
        SensitivitySelector(share=share).recipe()


RECIPES = {
    "a view that is none": (dict(view="pointwise"), "a view of the residual"),
    "the class of a rule": (dict(weights=Attention), "method update"),
    "no weight rule": (dict(weights=None), "method update"),
    "a gradient rule that is a weight rule": (dict(gradient=Uniform()), "method combine"),
    "a warm-up of one": (dict(warmup=1.0), "from 0 to below 1"),
    "a negative warm-up": (dict(warmup=-0.1), "from 0 to below 1"),
    "a warm-up that is no number": (dict(warmup="long"), "from 0 to below 1"),
    "a warm-up that is not finite": (dict(warmup=np.nan), "from 0 to below 1"),
}


@pytest.mark.parametrize(("parts", "message"), RECIPES.values(), ids=RECIPES)
def test_recipes_that_cannot_be(parts, message):
    with pytest.raises(InputError, match=message):
        Recipe(**parts)


def test_options_reach_the_parts():
    recipe = GaussianEvidence(rank=5, bandwidth=0.3, warmup=0.4, field_scale=0.7).recipe()
    assert (recipe.view.rank, recipe.view.bandwidth, recipe.warmup) == (5, 0.3, 0.4)
    assert recipe.gradient == ProjectResidual(0.7)
