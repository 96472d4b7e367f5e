"""An audit leaves the model as it was, and later training leaves the audit as it was."""

import itertools
import random

import deepxde as dde
import numpy as np
import pytest
import torch

import twoaxis as ta
from twoaxis.adapters.deepxde import from_deepxde

NU = ta.Parameter(truth=0.01, bounds=(1e-4, 1.0))


def snapshot(case):
    """Everything that somebody may rely on, as bytes and plain values."""
    model, nu = case.model, case.nu
    tensors = [*model.net.parameters(), nu]
    return {
        "values": [tensor.detach().numpy().tobytes() for tensor in tensors],
        "places": [tensor.data_ptr() for tensor in tensors],
        "types": [tensor.dtype for tensor in tensors],
        "gradients": [tensor.grad.numpy().tobytes() for tensor in tensors],
        "gradient places": [tensor.grad.data_ptr() for tensor in tensors],
        "requires": [tensor.requires_grad for tensor in tensors],
        "versions": [tensor._version for tensor in tensors],
        "modes": [module.training for module in model.net.modules()],
        "python": random.getstate(),
        "numpy": [str(part) for part in np.random.get_state()],  # noqa: NPY002
        "torch": torch.get_rng_state().numpy().tobytes(),
        "precision": (torch.get_default_dtype(), dde.config.default_float()),
        "device": torch.get_default_device(),
        "points": model.data.train_x.tobytes(),
        "step": model.train_state.step,
        "losses": np.asarray(model.train_state.loss_train).tobytes(),
        "weights": model.loss_weights,
        "auxiliary": model.net.auxiliary_vars,
    }


def audited(case, **options):
    frozen = from_deepxde(case.model, {"nu": (case.nu, NU)}, **options)
    ta.audit(frozen, tolerance=ta.Tolerance(material=5, resolution=5, preference=5))
    ta.score(frozen, fresh=2)
    return frozen


STATES = list(itertools.product(["model", "float64"], [True, False], [True, False]))
USUAL = [("model", True, True), ("float64", False, False)]


@pytest.mark.parametrize(
    ("precision", "training", "requires"),
    [pytest.param(*each, marks=[] if each in USUAL else pytest.mark.long) for each in STATES],
)
def test_model_is_left_as_it_was(burgers_model, precision, training, requires):
    burgers_model.model.net.train(training)
    burgers_model.nu.requires_grad_(requires)
    first = next(burgers_model.model.net.parameters()).requires_grad_(requires)
    try:
        before = snapshot(burgers_model)
        audited(burgers_model, precision=precision)
        after = snapshot(burgers_model)
    finally:
        burgers_model.nu.requires_grad_(True)
        first.requires_grad_(True)
    assert {name for name in before if before[name] != after[name]} == set()


def test_random_numbers_and_gradients_of_the_users_functions_are_put_back(problems):
    k = dde.Variable(2.0)

    def noisy(t, u):
        (k * k).backward()  # nothing that an equation should do, and it can
        random.random()
        np.random.random()  # noqa: NPY002
        return dde.grad.jacobian(u, t) + k * u + 0 * torch.rand(1)

    data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), noisy, [], num_domain=10)
    model = problems.trained(data, dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform"), k, steps=2)

    def states():
        gradient = (k.grad.item(), k.grad.data_ptr())
        legacy = str(np.random.get_state())  # noqa: NPY002
        return random.getstate(), legacy, torch.get_rng_state().tolist(), gradient

    before = states()
    ta.score(from_deepxde(model, {"k": (k, ta.Parameter(truth=1.0, bounds=(0.1, 10)))}))
    assert states() == before


@pytest.mark.parametrize("precision", ["model", "float64"])
def test_unknown_is_put_back_when_the_equation_fails(problems, precision):
    k = dde.Variable(2.0)

    def fails(t, u):
        if k.item() > 5:
            raise ArithmeticError("no solution")
        return dde.grad.jacobian(u, t) + k * u

    data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), fails, [], num_domain=10)
    model = problems.trained(data, dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform"), k, steps=2)
    about = ta.Parameter(truth=1.0, bounds=(0.1, 10))
    frozen = from_deepxde(model, {"k": (k, about)}, precision=precision)
    before = (k.item(), k.dtype, k.data_ptr(), k.requires_grad, k.grad.item())
    for call in (frozen.residual, frozen.jacobian):
        with pytest.raises(ArithmeticError, match="no solution"):
            call(k=6.0)
        assert (k.item(), k.dtype, k.data_ptr(), k.requires_grad, k.grad.item()) == before


@pytest.mark.parametrize("precision", ["model", "float64"])
def test_training_goes_on_and_the_frozen_residual_stays(problems, precision):
    audited_one, plain = problems.burgers(steps=5), problems.burgers(steps=5)
    frozen = audited(audited_one, precision=precision)
    before = frozen.residual(nu=0.02)
    for case in (audited_one, plain):
        case.model.train(iterations=5, verbose=0)
    np.testing.assert_array_equal(frozen.residual(nu=0.02), before)
    # The optimizer has not noticed either: both models end at the very same place.
    assert audited_one.nu.item() == plain.nu.item()
    for one, other in zip(
        audited_one.model.net.parameters(), plain.model.net.parameters(), strict=True
    ):
        assert torch.equal(one, other)
    # The residual of the continued training is another one.
    again = from_deepxde(audited_one.model, {"nu": NU}, precision=precision)
    assert np.abs(again.residual(nu=0.02) - before).max() > 1e-4


def test_audit_where_gradients_are_switched_off(burgers_model):
    wanted = from_deepxde(burgers_model.model, {"nu": NU}).jacobian(nu=0.02)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            found = from_deepxde(burgers_model.model, {"nu": NU}).jacobian(nu=0.02)
        np.testing.assert_array_equal(found, wanted)
