"""An audit leaves the model as it was, and later training leaves the audit as it was."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

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


K = ta.Parameter(truth=1.0, bounds=(0.1, 10))


def decay(problems, k, more):
    """A model whose equation has another term."""
    equation = lambda t, u: dde.grad.jacobian(u, t) + k * u + more()  # noqa: E731
    data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), equation, [], num_domain=10)
    return problems.trained(data, dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform"), k, steps=2)


def test_gradients_of_the_users_functions_are_put_back(problems):
    k = dde.Variable(2.0)

    def backward():  # nothing that an equation should do, and it can
        (k * k).backward()
        return 0

    model = decay(problems, k, backward)
    before = k.grad.item(), k.grad.data_ptr()
    ta.score(from_deepxde(model, {"k": (k, K)}))
    assert (k.grad.item(), k.grad.data_ptr()) == before


GENERATOR = np.random.default_rng(0)
DRAWS = {
    "PyTorch": lambda: torch.rand(1),
    "NumPy": lambda: np.random.rand(),  # noqa: NPY002
    "a generator": GENERATOR.random,
    "Python": random.random,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_an_equation_that_draws_random_numbers(problems, draw):
    k, noise = dde.Variable(2.0), draw()
    model = decay(problems, k, draw)
    with pytest.raises(ta.InputError, match="a deterministic residual"):
        from_deepxde(model, {"k": (k, K)})
    frozen = from_deepxde(decay(problems, k, lambda: noise), {"k": (k, K)})
    assert len({ta.score(frozen).displacement["k"] for _ in range(3)}) == 1


def test_models_in_threads(problems):
    """A process has one cache of derivatives, and an equation one variable for its unknown."""
    k = dde.Variable(2.0)
    model = decay(problems, k, lambda: 0)
    frozen = [from_deepxde(model, {"k": (k, K)}, precision=p) for p in ("model", "float64")]
    rows = np.linspace(0, 1, 9)[:, None]

    def evaluate(number):
        each = frozen[number % 2]
        weights = each.weights.start * (1 + number / 10)
        value, slope = each.objective.value_and_gradient(each.objective.start * 1.1)
        return np.concatenate([
            [ta.score(each).displacement["k"], value], slope,
            each.weights.residual_jacobian(weights, rows, k=1.0 + number)[0].ravel(),
        ])  # fmt: skip

    expected = [evaluate(number) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(evaluate, range(4)))
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert k.item() == pytest.approx(2.0, abs=0.1)


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
