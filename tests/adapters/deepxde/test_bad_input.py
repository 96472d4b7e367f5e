"""What cannot be used is refused by a sentence that says what to do."""

import subprocess
import sys

import deepxde as dde
import numpy as np
import pytest
import torch
from least_squares_systems import assert_is_least_squares_system

import twoaxis as ta
from twoaxis.adapters.deepxde import from_deepxde

K = ta.Parameter(truth=1.0, bounds=(0.1, 10))
NU = ta.Parameter(truth=0.01, bounds=(1e-4, 1.0))
TIME = dde.geometry.TimeDomain(0, 1)


def net():
    return dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform")


def start(_):
    return dde.icbc.IC(TIME, lambda _: 1, lambda _, on: on)


def flux(k):
    """A condition at the end with the unknown in it."""
    return dde.icbc.OperatorBC(
        TIME, lambda t, u, _: dde.grad.jacobian(u, t) - k, lambda t, on: on and t[0] > 0.5
    )


def decay(problems, equation=None, conditions=(), steps=2, **options):
    """A small model with the unknown k; `equation(k)` makes the PDE."""
    k = dde.Variable(2.0)
    make = equation or (lambda k: lambda t, u: dde.grad.jacobian(u, t) + k * u)
    conditions = [each(k) for each in conditions]
    data = dde.data.PDE(TIME, make(k), conditions, num_domain=10, num_boundary=2)
    return problems.trained(data, net(), k, steps, **options), k


@pytest.mark.parametrize("thing", [None, 3.0, torch.nn.Linear(1, 1), "model.pt"])
def test_foreign_object(thing):
    with pytest.raises(ta.InputError, match=r"expected a deepxde\.Model, got"):
        from_deepxde(thing, {"k": K})


def test_library_is_not_imported_for_a_foreign_object():
    """Importing DeepXDE chooses a backend and may change PyTorch's device."""
    code = (
        "import sys; import twoaxis as ta; from twoaxis.adapters.deepxde import from_deepxde\n"
        "try: from_deepxde(3, {})\n"
        "except ta.InputError as error: assert 'a deepxde.Model, got int' in str(error)\n"
        "assert not {'deepxde', 'torch', 'jax'} & set(sys.modules)\n"
        "sys.modules['deepxde'] = None\n"
        "import importlib.util; importlib.util.find_spec = lambda name: None\n"
        "try: from_deepxde(3, {})\n"
        "except ta.InputError as error: assert \"pip install 'twoaxis[deepxde]'\" in str(error)\n"
        "else: sys.exit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_not_compiled():
    k = dde.Variable(2.0)
    data = dde.data.PDE(TIME, lambda _, u: k * u, [], num_domain=5)
    with pytest.raises(ta.InputError, match="has not been compiled"):
        from_deepxde(dde.Model(data, net()), {"k": (k, K)})


def test_compiled_a_second_time_without_its_unknowns(problems):
    model, k = decay(problems)
    model.compile("adam", lr=1e-3, verbose=0)
    with pytest.raises(ta.InputError, match="a later call without them drops them"):
        from_deepxde(model, {"k": (k, K)})


def test_untrained(problems):
    model, k = decay(problems, steps=0)
    with pytest.raises(ta.InputError, match=r"not been trained in this process.* still holds 2;"):
        from_deepxde(model, {"k": (k, K)})


def test_saved_model_does_not_contain_the_unknown(problems, tmp_path):
    model, k = decay(problems, steps=20)
    path = model.save(str(tmp_path / "model"))
    delivered = k.item()
    restored, fresh = decay(problems, steps=0)
    restored.restore(path)
    with pytest.raises(ta.InputError, match=r"not the unknown.*Parameter\(delivered=") as raised:
        from_deepxde(restored, {"k": (fresh, K)})
    assert "k" in raised.value.expected
    about = ta.Parameter(truth=1.0, bounds=(0.1, 10), delivered=delivered)
    frozen = from_deepxde(restored, {"k": (fresh, about)})
    assert frozen.notes[1].code == "delivered.given"
    assert frozen.notes[1].numbers == {"given": delivered, "held": 2.0}
    wanted = from_deepxde(model, {"k": (k, K)})
    np.testing.assert_array_equal(frozen.residual(k=delivered), wanted.residual(k=delivered))


def test_delivered_outside_the_bounds(problems):
    model, k = decay(problems)
    with pytest.raises(ta.InputError, match="k: delivered inside the bounds"):
        from_deepxde(model, {"k": (k, ta.Parameter(truth=1.0, bounds=(0.1, 1.5)))})


@pytest.mark.parametrize("parameters", [None, {}, ["k"], 3])
def test_no_names(problems, parameters):
    model, _ = decay(problems)
    with pytest.raises(ta.InputError, match="a mapping from names to the variables"):
        from_deepxde(model, parameters)


def test_variables_that_do_not_match(lorenz_model, burgers_model):
    model, variables = lorenz_model.model, lorenz_model.variables
    pairs = {name: (variable, K) for name, variable in variables.items()}
    cases = [
        ({**pairs, "beta": (dde.Variable(2.0), K)}, {}, "not among its 3 external trainable"),
        ({"sigma": pairs["sigma"], "rho": pairs["rho"]}, {}, "1 without one, holding"),
        ({**pairs, "beta": pairs["rho"]}, {}, "the same one for beta and rho"),
        ({**pairs, "beta": (2.6, K)}, {}, "not its value"),
        ({**pairs, "beta": K}, {}, "the variable that stores beta"),
        ({**pairs, "beta": (variables["beta"], 2.6)}, {}, "a variable and its twoaxis.Parameter"),
        (dict.fromkeys(variables, K), {"unknowns": {"Beta": variables["beta"]}}, "'Beta'"),
        (pairs, {"transform": {"Beta": torch.exp}}, "'Beta'"),
        (pairs, {"transform": {"beta": "exp"}}, "as a function, or a function and its inverse"),
        (pairs, {"transform": torch.exp}, "transform as a mapping"),
        (pairs, {"unknowns": variables}, "one in parameters and one in unknowns"),
        (pairs, {"held": variables["beta"]}, "the same one for beta and held"),
        (pairs, {"held": [variables["beta"]]}, "the same one for beta and held"),
        (pairs, {"precision": "double"}, 'precision "float64" or "model"'),
        (pairs, {"points": np.zeros((4, 2))}, r"points of shape \(N, 1\)"),
    ]
    for parameters, options, message in cases:
        with pytest.raises(ta.InputError, match=message):
            from_deepxde(model, parameters, **options)
    with pytest.raises(ta.InputError, match="rho: delivered inside the bounds"):
        from_deepxde(model, pairs)
    with pytest.raises(ta.InputError, match="not among its 1"):
        from_deepxde(burgers_model.model, {"nu": (variables["rho"], NU)})


def test_held_variables_keep_their_values(lorenz_model):
    variables = lorenz_model.variables
    rho = ta.Parameter(truth=28.0, bounds=(3, 300))
    frozen = from_deepxde(
        lorenz_model.model, {"rho": rho}, held=[variables["sigma"], variables["beta"]]
    )
    every = {name: ta.Parameter(bounds=(0.01, 1000)) for name in variables}
    whole = from_deepxde(lorenz_model.model, every, unknowns=variables)
    others = {name: variables[name].item() for name in ("sigma", "beta")}
    for one, other in zip(frozen.residual(rho=20.0), whole.residual(rho=20.0, **others),
                          strict=True):  # fmt: skip
        np.testing.assert_array_equal(one, other)


def test_variable_of_several_numbers(problems):
    k = dde.Variable([1.0, 2.0])
    data = dde.data.PDE(TIME, lambda _, u: (k * u).sum(1, keepdim=True), [], num_domain=5)
    model = problems.trained(data, net(), k, 2)
    with pytest.raises(ta.InputError, match="one number stored for k"):
        from_deepxde(model, {"k": (k, K)})


def test_variable_of_shape_one(problems):
    k = dde.Variable([2.0])
    data = dde.data.PDE(TIME, lambda t, u: dde.grad.jacobian(u, t) + k * u, [], num_domain=5)
    frozen = from_deepxde(problems.trained(data, net(), k, 2), {"k": (k, K)})
    np.testing.assert_allclose(
        frozen.jacobian(k=1.0)[:, 0], frozen.residual(k=2.0) - frozen.residual(k=1.0), atol=1e-6
    )


def test_negative_unknown_without_bounds(problems):
    k = dde.Variable(-2.0)
    data = dde.data.PDE(TIME, lambda t, u: dde.grad.jacobian(u, t) + k * u, [], num_domain=5)
    model = problems.trained(data, net(), k, 2)
    with pytest.raises(ta.InputError, match="bounds for k, which is not positive"):
        from_deepxde(model, {"k": k})
    linear = ta.Parameter(bounds=(-5, 5), coordinate="linear")
    assert from_deepxde(model, {"k": linear}).parameters["k"].delivered == k.item()


def test_diverged(problems):
    model, k = decay(problems)
    with torch.no_grad():
        k.fill_(float("nan"))
    with pytest.raises(ta.InputError, match="diverged"):
        from_deepxde(model, {"k": (k, K)})


def test_transforms_that_cannot_be(darcy_model):
    model = darcy_model.model
    about = {"k": ta.Parameter(truth=1.0, bounds=(0.01, 5.0))}
    cases = [
        (lambda raw: 1 + torch.tanh(raw), "k=5; the search from the stored"),
        (lambda raw: float(raw.detach()), "takes and returns arrays of the library"),
        ((torch.exp, torch.sqrt), "second function inverts its first"),
    ]
    for transform, message in cases:
        with pytest.raises(ta.InputError, match=message):
            from_deepxde(model, about, transform={"k": transform})


def test_residual_that_does_not_see_the_parameter(problems):
    model, k = decay(problems, lambda _: lambda t, u: dde.grad.jacobian(u, t) + u)
    frozen = from_deepxde(model, {"k": (k, K)})
    np.testing.assert_array_equal(frozen.jacobian(k=1.0), 0)
    assert ta.score(frozen).H == 0
    assert [note.code for note in frozen.notes] == ["precision.copy", "parameter.unseen"]


@pytest.mark.parametrize("read", [lambda k: k.item(), lambda k: k.detach()])
def test_unknown_that_is_detached(problems, read):
    model, k = decay(problems, lambda k: lambda t, u: dde.grad.jacobian(u, t) + read(k) * u)
    with pytest.raises(ta.InputError, match="changes with k and has no derivative by it"):
        from_deepxde(model, {"k": (k, K)})


def test_condition_that_keeps_the_first_value_of_its_unknown(problems):
    """DeepXDE evaluates the function of a NeumannBC once on PyTorch."""
    model, k = decay(
        problems,
        lambda _: lambda t, u: dde.grad.jacobian(u, t) + u,
        [lambda k: dde.icbc.NeumannBC(TIME, lambda _: k + 0.0, lambda _, on: on)],
    )
    frozen = from_deepxde(model, {"k": (k, K)})
    codes = [note.code for note in frozen.notes]
    assert codes[1:] == ["parameter.unseen", "condition.kept_value"]
    audit = ta.audit(frozen, tolerance=ta.Tolerance(5, 5, 5))
    assert audit.actions[0].kind == "equation"
    (training,) = [question for question in audit.questions if question.code == "training"]
    assert training.answer == "not known"


def test_unknown_in_a_condition_is_evidence(problems):
    model, k = decay(problems, conditions=[start, flux], loss_weights=[1, 7, 3])
    assert model.data.num_bcs == [1, 1]
    frozen = from_deepxde(model, {"k": (k, K)}, precision="float64")
    (note,) = frozen.notes[1:]
    assert note.code == "condition.has_parameter"
    assert "k enters condition 2 (OperatorBC)" in note.text
    assert frozen.equations == ("equation 1", "condition 2 (OperatorBC)")
    equation, condition = frozen.residual(k=k.item())
    np.testing.assert_array_equal(frozen.points[1], model.data.train_x[1:2])
    # Weighted as in the training loss, in DeepXDE's own numbers.
    losses = model.train_state.loss_train
    np.testing.assert_allclose(np.mean(equation**2), losses[0], rtol=1e-4)
    np.testing.assert_allclose(3 * np.mean(condition**2), losses[2], rtol=1e-4)
    both = np.concatenate([equation, condition])
    metric = frozen.view.bind(frozen.points)
    np.testing.assert_allclose(metric.quadratic(both, both), losses[0] + losses[2], rtol=1e-4)
    step = 1e-6
    ahead, behind = (np.concatenate(frozen.residual(k=1.0 + s)) for s in (step, -step))
    slope = frozen.jacobian(k=1.0)
    np.testing.assert_allclose(slope[:, 0], (ahead - behind) / (2 * step), rtol=1e-6)
    assert slope[-1, 0] != 0
    assert_is_least_squares_system(frozen)
    moved = from_deepxde(model, {"k": (k, K)}, points=np.linspace(0, 1, 5)[:, None])
    assert moved.notes[-1].severity == "warning"
    assert moved.residual(k=1.0).shape == (5,)
    plain, k = decay(problems, conditions=[start])
    assert from_deepxde(plain, {"k": (k, K)}, precision="float64").notes[1:] == ()


def test_condition_on_operator_values_is_not_miscounted(problems):
    sites = np.linspace(0, 1, 4)[:, None]
    slopes = dde.icbc.PointSetOperatorBC(
        sites, -np.exp(-sites), lambda t, u, _: dde.grad.jacobian(u, t)
    )
    model, k = decay(problems, conditions=[lambda _: slopes])
    frozen = from_deepxde(model, {"k": (k, K)})
    np.testing.assert_array_equal(frozen.points, model.data.train_x[4:])
    r = frozen.residual(k=k.item())
    np.testing.assert_allclose(np.mean(r**2), model.train_state.loss_train[0], rtol=1e-5)


def test_losses_other_than_squares(problems):
    model, k = decay(problems, loss="MAE")
    with pytest.raises(ta.InputError, match="the loss mean_absolute_error"):
        from_deepxde(model, {"k": (k, K)})
    given = from_deepxde(model, {"k": (k, K)}, view=ta.views.Pointwise())
    assert isinstance(given.view, ta.views.Pointwise)
    # A loss of one's own that is a mean of squares, and another loss for the condition alone.
    own, k = decay(problems, conditions=[start], loss=[torch.nn.MSELoss(), "MAE"])
    assert isinstance(from_deepxde(own, {"k": (k, K)}).view, ta.views.Pointwise)


def test_equation_without_a_part_in_the_loss(problems):
    model, k = decay(problems, conditions=[start], loss_weights=[0.0, 1.0])
    with pytest.raises(ta.InputError, match="loss weights of zero for every equation"):
        from_deepxde(model, {"k": (k, K)})
    model.loss_weights = [1.0, 1.0, 1.0]
    with pytest.raises(ta.InputError, match="3 weights in the compiled model"):
        from_deepxde(model, {"k": (k, K)})


def test_residual_that_mixes_every_point_with_every_other(problems):
    model, k = decay(problems, lambda k: lambda t, u: dde.grad.jacobian(u, t) + k * u[:, 0])
    with pytest.raises(ta.InputError, match="by broadcasting"):
        from_deepxde(model, {"k": (k, K)})


def test_equation_that_computes_in_single_precision_alone(problems):
    mix = torch.nn.Linear(1, 1).requires_grad_(False)
    model, k = decay(problems, lambda k: lambda t, u: dde.grad.jacobian(u, t) + k * mix(u))
    assert from_deepxde(model, {"k": (k, K)}, precision="model").residual(k=1.0).shape == (12,)
    with pytest.raises(ta.InputError, match=r'in float64, got RuntimeError.*precision="model"'):
        from_deepxde(model, {"k": (k, K)})


def test_data_of_other_classes():
    k = dde.Variable(2.0)

    def equation(t, u):
        return dde.grad.jacobian(u, t) + k * u

    function = dde.data.Function(TIME, lambda t: np.exp(-t), 5, 5)
    ide = dde.data.IDE(TIME, lambda t, u, _: equation(t, u), [], quad_deg=3, num_domain=5)
    for data in (function, ide):
        model = dde.Model(data, net())
        model.compile("adam", lr=1e-3, external_trainable_variables=[k], verbose=0)
        with pytest.raises(ta.InputError, match=f"got {type(data).__name__}, which computes"):
            from_deepxde(model, {"k": (k, K)})
    seen = dde.icbc.PointSetBC(np.zeros((1, 1)), np.ones((1, 1)))
    for data, message in (
        (dde.data.PDE(TIME, None, [seen], num_domain=5), "pde=None"),
        (dde.data.PDE(TIME, equation, [seen]), "residual points after those of the conditions"),
    ):
        model = dde.Model(data, net())
        model.compile("adam", lr=1e-3, external_trainable_variables=[k], verbose=0)
        with pytest.raises(ta.InputError, match=message):
            from_deepxde(model, {"k": (k, K)})


@pytest.mark.parametrize("backend", ["tensorflow", "tensorflow.compat.v1", "paddle"])
def test_other_backends(problems, monkeypatch, backend):
    model, k = decay(problems)
    monkeypatch.setattr(dde.backend, "backend_name", backend)
    with pytest.raises(ta.InputError, match=f"the backend {backend}.*DDE_BACKEND=pytorch"):
        from_deepxde(model, {"k": (k, K)})


def test_residual_that_is_not_finite(problems):
    model, k = decay(problems, lambda k: lambda t, u: dde.grad.jacobian(u, t) + k * u / (t - 2))
    assert from_deepxde(model, {"k": (k, K)}, points=[1.5, 1.9]).residual(k=1.0).shape == (2,)
    with pytest.raises(ta.InputError, match="a finite residual at every point"):
        from_deepxde(model, {"k": (k, K)}, points=[1.5, 2.0])


def test_unknown_in_a_condition_alone_is_seen(problems):
    """An amplitude at the start: the equation does not contain it."""
    dde.config.set_random_seed(0)
    amplitude, k = dde.Variable(0.7), dde.Variable(2.0)
    start = dde.icbc.OperatorBC(TIME, lambda _, u, __: u - amplitude, lambda t, _: t[0] < 1e-9)
    data = dde.data.PDE(
        TIME, lambda t, u: dde.grad.jacobian(u, t) + k * u, [start], num_domain=10, num_boundary=2
    )
    model = problems.trained(data, net(), [amplitude, k], 20)
    known = {"A": (amplitude, K), "k": (k, K)}
    frozen = from_deepxde(model, known)
    found = ta.frozen_scan(frozen)
    # The field at the start is the only evidence: an affine residual with weight 1.
    field = model.predict(np.zeros((1, 1))).item()
    assert found.minimum["A"] == pytest.approx(field, rel=1e-5)
    audit = ta.audit(frozen)
    assert not audit.score.unseen
    assert audit.delivery.gap_percent["A"] == pytest.approx(
        100 * (amplitude.item() / field - 1), rel=1e-4
    )


def test_integro_differential_and_fractional_equations_are_refused_at_the_door():
    k = dde.Variable(2.0)

    def equation(t, u, integral):
        return dde.grad.jacobian(u, t) + k * u - integral

    data = dde.data.IDE(
        TIME, equation, [start(k)], 4, kernel=lambda t, s: np.exp(s - t), num_domain=6,
        num_boundary=2,
    )  # fmt: skip
    model = dde.Model(data, net())
    model.compile("adam", lr=1e-3, external_trainable_variables=k, verbose=0)
    with pytest.raises(ta.InputError, match=r"IDE, which computes.*FPDE.*IDE"):
        from_deepxde(model, {"k": (k, K)})


def test_unknown_fields_are_refused_at_the_door():
    """DeepXDE trains an unknown field as an output of the network, without any variable."""
    data = dde.data.PDE(
        TIME, lambda t, u: dde.grad.jacobian(u, t, i=0) + u[:, 1:] * u[:, :1], [], num_domain=6
    )
    model = dde.Model(data, dde.nn.FNN([1, 6, 2], "tanh", "Glorot uniform"))
    model.compile("adam", lr=1e-3, verbose=0)
    with pytest.raises(ta.InputError, match="an unknown that is a field"):
        from_deepxde(model, {"k": K})
