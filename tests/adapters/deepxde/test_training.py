"""Observations and the whole training loss, as they stand in a DeepXDE model."""

import deepxde as dde
import numpy as np
import pandas as pd
import pytest
import torch
from objectives import assert_is_training_loss

import twoaxis as ta
from twoaxis.adapters.deepxde import from_deepxde
from twoaxis.training_loss import probe

LORENZ = {
    "sigma": ta.Parameter(truth=10.0, bounds=(1, 100)),
    "rho": ta.Parameter(truth=28.0, bounds=(3, 300)),
    "beta": ta.Parameter(truth=8 / 3, bounds=(0.3, 30)),
}


def own_loss(model):
    """The training loss as DeepXDE computes it."""
    state = model.train_state
    losses = model.outputs_losses_train(state.X_train, state.y_train, state.train_aux_vars)[1]
    return losses.sum().item()


def codes(frozen):
    return [note.code for note in frozen.notes]


@pytest.mark.parametrize("precision", ["float64", "model"])
def test_objective_of_several_equations_and_conditions(lorenz_model, precision):
    case = lorenz_model
    before = {name: value.clone() for name, value in case.model.net.state_dict().items()}
    gradients = [each.grad.clone() for each in case.model.net.parameters()]
    frozen = from_deepxde(case.model, LORENZ, unknowns=case.variables, precision=precision)
    assert_is_training_loss(frozen, own_loss(case.model))
    for name, value in case.model.net.state_dict().items():
        assert torch.equal(value, before[name])
    for each, gradient in zip(case.model.net.parameters(), gradients, strict=True):
        assert torch.equal(each.grad, gradient)


def test_objective_behind_a_transform(darcy_model):
    case = darcy_model
    known = {"k": (case.stored, ta.Parameter(truth=1.0, bounds=(0.01, 100)))}
    frozen = from_deepxde(case.model, known, transform={"k": torch.exp})
    assert_is_training_loss(frozen, own_loss(case.model))


def test_objective_stays_when_training_goes_on(problems):
    case = problems.burgers(steps=5)
    frozen = from_deepxde(case.model, {"nu": case.nu})
    value = own_loss(case.model)
    case.model.train(iterations=20, verbose=0)
    assert frozen.objective.value_and_gradient(frozen.objective.start)[0] == pytest.approx(
        value, rel=1e-5
    )
    assert own_loss(case.model) != pytest.approx(value, rel=1e-3)


def test_a_short_training_has_not_finished(problems):
    case = problems.burgers(steps=5)
    frozen = from_deepxde(case.model, {"nu": case.nu})
    found = probe(frozen.objective, frozen, iterations=10)
    assert found.relative_decrease > 0.1
    assert abs(found.displacement["nu"]) > 0


def test_observations_are_found_in_the_model(lorenz_model):
    case = lorenz_model
    frozen = from_deepxde(case.model, LORENZ, unknowns=case.variables)
    wanted = np.column_stack([np.cos(3 * case.sites[:, 0] + n) for n in range(3)])
    np.testing.assert_allclose(frozen.observed, case.sites, rtol=1e-6)
    np.testing.assert_allclose(frozen.data, wanted, rtol=1e-6, atol=1e-6)
    assert frozen.fitted.shape == wanted.shape
    np.testing.assert_allclose(frozen.fitted, case.model.predict(case.sites), rtol=1e-4)
    assert "data.found" in codes(frozen)


def test_conditions_on_the_edge_are_no_observations(burgers_model):
    frozen = from_deepxde(burgers_model.model, {"nu": burgers_model.nu})
    assert frozen.data is frozen.fitted is frozen.observed is None
    assert "data.found" not in codes(frozen)


def test_observed_points_of_the_user(lorenz_model):
    case = lorenz_model
    where = np.linspace(0.1, 0.8, 5)[:, None]
    options = {"unknowns": case.variables, "observed": where}
    both = from_deepxde(case.model, LORENZ, field=[0, 2], **options)
    outputs = case.model.predict(where)
    np.testing.assert_allclose(both.fitted, outputs[:, [0, 2]], rtol=1e-4)
    assert both.data is None
    one = from_deepxde(case.model, LORENZ, field=1, **options)
    np.testing.assert_allclose(one.fitted, outputs[:, 1], rtol=1e-4)
    np.testing.assert_array_equal(one.observed, where)
    np.testing.assert_allclose(one.field, case.model.predict(one.points)[:, 1], rtol=1e-4)
    options["observed"] = pd.DataFrame(where, range(3, 8))
    one = from_deepxde(case.model, LORENZ, field=1, **options)
    with pytest.raises(ta.InputError, match="data in the order of the observations"):
        ta.refine(one, pd.Series(one.fitted, range(3, 8)).iloc[::-1], noise=0.1)


def test_bad_observations(lorenz_model):
    case = lorenz_model
    for change, words in [
        ({"observed": np.zeros((3, 2))}, r"observed points of shape \(n, 1\)"),
        ({"field": 3}, "outputs of the network, 0 to 2"),
        ({"field": "u"}, "outputs of the network"),
    ]:
        with pytest.raises(ta.InputError, match=words):
            from_deepxde(case.model, LORENZ, unknowns=case.variables, **change)


def test_about_says_what_the_model_is(burgers_model):
    frozen = from_deepxde(burgers_model.model, {"nu": burgers_model.nu})
    weights = sum(each.numel() for each in burgers_model.model.net.parameters())
    assert frozen.about == {
        "library": f"DeepXDE {dde.__version__}",
        "network": "FNN",
        "weights": str(weights),
        "precision": "float32",
        "backend": "pytorch",
    }


def test_a_loss_with_weight_decay_is_not_claimed(problems):
    dde.config.set_random_seed(3)
    rate = dde.Variable(2.0)
    data = dde.data.PDE(
        dde.geometry.TimeDomain(0, 1),
        lambda t, u: dde.grad.jacobian(u, t) + rate * u,
        [dde.icbc.PointSetBC(np.array([[0.5]]), np.ones((1, 1)))],
        num_domain=8,
    )
    for kind, known in (("l2", False), ("l1", True)):
        net = dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform", regularization=[kind, 1e-2])
        model = problems.trained(data, net, [rate], steps=3)
        frozen = from_deepxde(model, {"rate": rate})
        assert (frozen.objective is not None) is known
        assert ("objective.unknown" in codes(frozen)) is not known
        if known:
            assert_is_training_loss(frozen, own_loss(model))


def test_loss_history_is_a_history(problems):
    made = problems.burgers(steps=60)
    about = {"nu": (made.nu, ta.Parameter(truth=0.01 / np.pi, bounds=(1e-4, 1.0)))}
    found = ta.audit(ta.from_deepxde(made.model, about), history=made.model.losshistory)
    group, recorded = found.group("/history"), made.model.losshistory
    assert group["step"].values.tolist() == recorded.steps
    terms = np.array(recorded.loss_train)
    whole = group["recorded"].sel(quantity="loss").values
    np.testing.assert_allclose(whole, terms.sum(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(group["recorded"].sel(quantity="loss 3"), terms[:, 2])
    # Losses alone do not say whether the parameter has arrived: its loss is probed, too.
    assert np.isfinite(found.group("/training")["probe_moved"]).all()


def test_pairs_of_variable_and_parameter_go_everywhere(burgers_model):
    pair = {"nu": (burgers_model.nu, ta.Parameter(truth=0.01, bounds=(1e-3, 1.0)))}
    plain = {"nu": pair["nu"][1]}
    times = np.linspace(0, 1, 20)[:, None]
    both = [
        ta.resolve(lambda nu: np.exp(-nu * times), given, noise=0.01, replicas=5, progress=False)
        for given in (pair, plain)
    ]
    np.testing.assert_array_equal(both[0].data["estimate"], both[1].data["estimate"])
    assert ta.from_deepxde(burgers_model.model, pair).names == both[0].parameters.names


def test_observed_outputs_have_names(lorenz_model):
    frozen = from_deepxde(lorenz_model.model, LORENZ, unknowns=lorenz_model.variables)
    assert frozen.fields == ("output 1", "output 2", "output 3")
    seen = ta.audit(frozen, noise=0.1, probe=False).group("/observations")
    assert seen["observed_field"].values.tolist() == list(frozen.fields)
    assert seen["axis"].values.tolist() == ["t"]
