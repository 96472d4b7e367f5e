"""Real PINA solvers, trained for a few steps: what the adapter reads against PINA itself."""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import logging
import random
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from bad_refinements import assert_bad_refinements_are_told
from least_squares_systems import assert_is_least_squares_system
from objectives import assert_is_training_loss

with warnings.catch_warnings():
    # PINA loads torch_geometric, which still uses torch.jit.script.
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch
    from pina import Condition, LabelTensor, Trainer
    from pina.callback import R3Refinement
    from pina.domain import CartesianDomain
    from pina.equation import Equation, SystemEquation
    from pina.equation.zoo import FixedValue
    from pina.loss import PowerLoss
    from pina.model import FeedForward
    from pina.operator import grad, laplacian
    from pina.problem import InverseProblem, SpatialProblem, TimeDependentProblem
    from pina.weighting import ScalarWeighting

    # `from pina import solver` finds a name of PINA's own, not the module.
    solvers = importlib.import_module("pina.solver")

import twoaxis as ta
from twoaxis.adapters.pina import from_pina

pytestmark = [
    # Lightning speaks of a validation that PINA defines and does not use, and of its own trees.
    pytest.mark.filterwarnings("ignore:You defined a `validation_step`"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
PINN = solvers.PhysicsInformedSingleModelSolver


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def labelled(values, labels):
    return LabelTensor(torch.as_tensor(values, dtype=torch.get_default_dtype()), labels)


# Problems are classes, and PINA keeps their conditions on the class: a fresh one for each use.


def decay():
    """u' = -rate u: an ordinary differential equation, no space."""

    def equation(input_, output_, params_):
        return grad(output_, input_, d=["t"]) + params_["rate"] * output_

    t = np.linspace(0, 1, 12)[:, None]

    class Decay(TimeDependentProblem, InverseProblem):
        output_variables = ["u"]  # noqa: RUF012
        temporal_domain = CartesianDomain({"t": [0, 1]})
        unknown_parameter_domain = CartesianDomain({"rate": [0.2, 3.0]})
        domains = {"pde": CartesianDomain({"t": [0, 1]})}  # noqa: RUF012
        conditions = {  # noqa: RUF012
            "pde": Condition(domain="pde", equation=Equation(equation)),
            "data": Condition(input=labelled(t, ["t"]), target=labelled(np.exp(-t), ["u"])),
        }

    return Decay()


def heat(used=torch.exp):
    """u_t = exp(k) u_xx: one space dimension, time, and an unknown behind a transform."""

    def equation(input_, output_, params_):
        bend = laplacian(output_, input_, d=["x"])
        return grad(output_, input_, d=["t"]) - used(params_["k"]) * bend

    class Heat(TimeDependentProblem, SpatialProblem, InverseProblem):
        output_variables = ["u"]  # noqa: RUF012
        spatial_domain = CartesianDomain({"x": [0, 1]})
        temporal_domain = CartesianDomain({"t": [0, 1]})
        unknown_parameter_domain = CartesianDomain({"k": [-2, 1]})
        domains = {  # noqa: RUF012
            "pde": CartesianDomain({"x": [0, 1], "t": [0, 1]}),
            "left": CartesianDomain({"x": 0, "t": [0, 1]}),
        }
        conditions = {  # noqa: RUF012
            "pde": Condition(domain="pde", equation=Equation(equation)),
            "left": Condition(domain="left", equation=FixedValue(0.0)),
        }

    return Heat()


def source():
    """A steady problem in the plane with three unknowns: a source's place and strength."""

    def equation(input_, output_, params_):
        away = (input_.extract(["x"]) - params_["a"]) ** 2
        away = away + (input_.extract(["y"]) - params_["b"]) ** 2
        return laplacian(output_, input_, d=["x", "y"]) - params_["s"] * torch.exp(-2 * away)

    plane = CartesianDomain({"x": [-1, 1], "y": [-1, 1]})

    class Source(SpatialProblem, InverseProblem):
        output_variables = ["u"]  # noqa: RUF012
        spatial_domain = plane
        unknown_parameter_domain = CartesianDomain({"a": [-1, 1], "b": [-1, 1], "s": [0.5, 2]})
        domains = {"inside": plane, "edge": plane.partial()}  # noqa: RUF012
        conditions = {  # noqa: RUF012
            "inside": Condition(domain="inside", equation=Equation(equation)),
            "edge": Condition(domain="edge", equation=FixedValue(0.0)),
        }

    return Source()


def chain():
    """A system of two equations in one condition, and an unknown start in another."""

    def first(input_, output_, params_):
        return grad(output_, input_, ["u"], ["t"]) + params_["p"] * output_.extract(["u"])

    def second(input_, output_, params_):
        gain = params_["p"] * output_.extract(["u"])
        return grad(output_, input_, ["v"], ["t"]) - gain + params_["q"] * output_.extract(["v"])

    def begin(input_, output_, params_):
        return output_.extract(["v"]) - params_["q"] * torch.ones_like(input_.tensor)

    class Chain(TimeDependentProblem, InverseProblem):
        output_variables = ["u", "v"]  # noqa: RUF012
        temporal_domain = CartesianDomain({"t": [0, 1]})
        unknown_parameter_domain = CartesianDomain({"p": [0.5, 2], "q": [0.5, 2]})
        domains = {  # noqa: RUF012
            "both": CartesianDomain({"t": [0, 1]}),
            "start": CartesianDomain({"t": [0, 0.1]}),
        }
        conditions = {  # noqa: RUF012
            "both": Condition(domain="both", equation=SystemEquation([first, second])),
            "start": Condition(domain="start", equation=Equation(begin)),
        }

    return Chain()


SIZES = {"both": 40, "start": 15}


def trained(problem, kind=PINN, steps=15, trainer=None, ready=None, following=None, **options):
    """Train a solver for a few steps, as a user of PINA does."""
    torch.manual_seed(0)
    for domain in problem.domains:
        problem.discretise_domain(SIZES.get(domain, 50), "random", domain)
    if ready is not None:
        ready(problem)

    def net():
        return FeedForward(
            len(problem.input_variables), len(problem.output_variables), layers=[8, 8]
        )

    models = {"models": [net(), net()]} if kind is solvers.PhysicsInformedEnsembleSolver else {
        "model": net()
    }  # fmt: skip
    solver = kind(problem=problem, **models, **options)
    quiet = dict(enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    quiet = {**quiet, "logger": False, "accelerator": "cpu", **(trainer or {})}
    if following is not None:
        quiet["callbacks"] = following(solver)
    Trainer(solver, max_epochs=steps, **quiet).train()
    return solver


@pytest.fixture(scope="module")
def solved():
    """Each problem trained once; tests only read them."""
    return {make.__name__: trained(make()) for make in (decay, heat, source, chain)}


def in_pina(solver, names, points, values):
    """The residual by PINA's own `condition.evaluate`, and its derivatives row by row.

    A second solver of the same class holds the networks in double precision.
    """
    twin = type(solver)(problem=solver.problem, model=copy.deepcopy(solver.model).double())
    leaves = [torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in values.values()]
    twin._params = dict(zip(values, leaves, strict=True))
    residual, rows = [], []
    for name, own in zip(names, points, strict=True):
        inputs = LabelTensor(torch.tensor(own), list(solver.problem.input_variables))
        found = solver.problem.conditions[name].evaluate({"input": inputs}, twin)
        for column in found.as_subclass(torch.Tensor).T:
            for entry in column:
                each = torch.autograd.grad(entry, leaves, retain_graph=True, allow_unused=True)
                residual.append(float(entry.detach()))
                rows.append([0.0 if g is None else float(g) for g in each])
    return np.array(residual), np.array(rows)


CASES = {"decay": ["pde"], "heat": ["pde"], "source": ["inside"], "chain": ["both", "start"]}


@pytest.mark.parametrize("case", CASES)
def test_geometry_agrees_with_pina_in_double_precision(solved, case):
    solver, names = solved[case], CASES[case]
    frozen = from_pina(solver)
    where = [frozen.points] if len(names) == 1 else [frozen.points[0], frozen.points[2]]
    values = {name: p.delivered for name, p in frozen.parameters.items()}
    residual, physical = in_pina(solver, names, where, values)
    score = ta.score(frozen)
    assert score.derivative == "given with the residual"
    np.testing.assert_allclose(
        frozen.at(frozen.coordinates(values)), residual, rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(frozen.jacobian(**values), physical, rtol=1e-10, atol=1e-12)
    slope = [v if p.coordinate == "log" else 1 for v, p in zip(
        values.values(), frozen.parameters.values(), strict=True
    )]  # fmt: skip
    jacobian = physical * slope
    # PINA's loss: for each condition the mean over points and columns.
    sizes = [SIZES.get(name, 50) for name in names]
    weights = np.concatenate(
        [
            np.full(n * m, 1 / (n * m))
            for n, m in zip(sizes, [2, 1] if case == "chain" else [1], strict=True)
        ]
    )
    B, H = jacobian.T @ (weights * residual), jacobian.T @ (weights[:, None] * jacobian)
    np.testing.assert_allclose(np.atleast_1d(score.B), B, rtol=1e-10)
    np.testing.assert_allclose(np.atleast_2d(score.H), H, rtol=1e-10, atol=1e-14)
    D = np.linalg.solve(H, -B)
    np.testing.assert_allclose(list(score.displacement.values()), D, rtol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_single_precision_is_what_training_saw(solved, case):
    solver = solved[case]
    frozen = from_pina(solver, precision="model")
    values = {name: p.delivered for name, p in frozen.parameters.items()}
    found = frozen.at(frozen.coordinates(values))
    own = []
    for name in CASES[case]:
        inputs = solver.trainer.datamodule.train_datasets[name].get_all_data().input
        columns = solver.problem.conditions[name].evaluate({"input": inputs.clone()}, solver)
        own += [column.detach().numpy() for column in columns.as_subclass(torch.Tensor).T]
    expected = np.concatenate(own)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert frozen.notes[0].code == "precision.model"
    assert from_pina(solver).notes[0].code == "precision.copy"


def test_sites_names_and_delivered_values(solved):
    frozen = from_pina(solved["heat"])
    assert frozen.axes == ("x", "t")  # PINA samples them as t, x
    assert frozen.field_name == "u"
    stored = solved["heat"].problem.unknown_parameters["k"]
    assert frozen.parameters["k"].delivered == pytest.approx(float(stored.detach()), abs=0)
    assert frozen.parameters["k"].coordinate == "linear"
    sampled = solved["heat"].problem.discretised_domains["pde"].extract(["x", "t"]).tensor
    np.testing.assert_array_equal(
        np.unique(frozen.points, axis=0), np.unique(sampled.double().numpy(), axis=0)
    )
    three = from_pina(solved["source"]).parameters
    assert {name: p.bounds for name, p in three.items()} == dict(a=(-1, 1), b=(-1, 1), s=(0.5, 2))
    assert three["s"].coordinate == "log"
    inputs = LabelTensor(torch.tensor(frozen.points, dtype=torch.float32), ["x", "t"])
    shown = solved["heat"](inputs).detach().numpy()[:, 0]
    np.testing.assert_allclose(frozen.field, shown, rtol=1e-5, atol=1e-6)


def test_training_points_are_the_training_split():
    solver = trained(decay(), trainer=dict(train_size=0.6, val_size=0.4))
    frozen = from_pina(solver)
    assert len(frozen.points) == 30
    kept = solver.trainer.datamodule.split_idxs["pde"]["train"]
    sampled = solver.problem.discretised_domains["pde"].tensor.double().numpy()
    np.testing.assert_array_equal(frozen.points, sampled[kept])


def test_an_unknown_through_a_transform(solved):
    solver = solved["heat"]
    stored = float(solver.problem.unknown_parameters["k"].detach())
    frozen = from_pina(solver, transform={"k": (torch.exp, torch.log)})
    parameter = frozen.parameters["k"]
    assert parameter.delivered == pytest.approx(np.exp(stored), rel=1e-12)
    assert parameter.bounds == pytest.approx((np.exp(-2), np.exp(1)))
    assert parameter.coordinate == "log"
    plain, physical = ta.score(from_pina(solver)), ta.score(frozen)
    # The logarithm of exp(k) is k: the same coordinate, and so the same geometry.
    for symbol in ("B", "H"):
        assert getattr(physical, symbol) == pytest.approx(getattr(plain, symbol), rel=1e-10)
    alone = from_pina(solver, transform={"k": torch.exp})
    np.testing.assert_allclose(alone.residual(k=0.7), frozen.residual(k=0.7), rtol=1e-7)
    with pytest.raises(ta.InputError, match="second function inverts its first"):
        from_pina(solver, transform={"k": (torch.exp, torch.exp)})
    with pytest.raises(ta.InputError, match="a function, or a function and its inverse"):
        from_pina(solver, transform={"k": "exp"})


def codes(frozen):
    return [note.code for note in frozen.notes]


def loss_in_pina(solver, name):
    """The loss of one condition on the training batch, by the solver itself."""
    state = copy.deepcopy(solver.state_dict())
    batch = solver.trainer.datamodule.train_datasets[name].get_all_data()
    if getattr(solver, "weight_buffers", None):
        # A look at the loss is a step of the attention: undo what it will do.
        held = {cond: getattr(solver, key).clone() for cond, key in solver.weight_buffers.items()}
        gamma, eta = solver.gamma, solver.eta
        solver.gamma, solver.eta = 1.0, 0.0
    condition = solver.problem.conditions[name]
    loss = solver._compute_condition_loss(condition, {"input": batch.input}, 0)
    value = float(loss.detach())
    if getattr(solver, "weight_buffers", None):
        solver.gamma, solver.eta = gamma, eta
        assert all(
            torch.equal(getattr(solver, solver.weight_buffers[c]), w) for c, w in held.items()
        )
    assert all(torch.equal(state[key], now) for key, now in solver.state_dict().items())
    return value


KINDS = {
    "plain": (PINN, {}),
    "sum": (PINN, {"loss": torch.nn.MSELoss(reduction="sum")}),
    "attention": (solvers.RBAPhysicsInformedSingleModelSolver, {"eta": 0.1}),
    "self-adaptive": (solvers.SelfAdaptivePhysicsInformedSolver, {}),
    "competitive": (solvers.CompetitivePhysicsInformedSolver, {}),
    "causal": (
        solvers.CausalPhysicsInformedSingleModelSolver,
        {"regularized_conditions": ["pde"], "eps": 2.0, "n_steps": 4},
    ),
    "ensemble": (solvers.PhysicsInformedEnsembleSolver, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_view_is_the_loss_of_the_training(kind):
    made, options = KINDS[kind]
    solver = trained(heat(), made, steps=30, **options)
    frozen = from_pina(solver)
    bound = frozen.view.bind(frozen.points)
    residual = frozen.at(frozen.coordinates({"k": frozen.parameters["k"].delivered}))
    scale = 50 if kind == "sum" else 1  # one factor of the whole loss says nothing
    expected = loss_in_pina(solver, "pde") / scale
    assert float(bound.quadratic(residual, residual)) == pytest.approx(expected, rel=2e-5)
    if kind in ("attention", "self-adaptive", "causal", "competitive"):
        plain = ta.views.Pointwise().bind(frozen.points)
        weighted = float(bound.quadratic(residual, residual)) / float(np.mean(bound.diagonal()))
        other = float(plain.quadratic(residual, residual)) * len(residual)
        assert abs(weighted / other - 1) > 1e-4  # the weights are not all alike
    adaptive = "view.adaptive_weights" in codes(frozen)
    assert adaptive == (kind in ("attention", "self-adaptive"))
    assert ("training.ascends" in codes(frozen)) == (kind in ("self-adaptive", "competitive"))


def test_a_self_adaptive_solver_of_pina_hardly_moves_its_unknown():
    """What the note about two optimizers says, measured."""
    starts = {}

    def remember(problem):
        starts["k"] = float(problem.unknown_parameters["k"].detach())

    solver = trained(heat(), solvers.SelfAdaptivePhysicsInformedSolver, steps=50, ready=remember)
    moved = abs(float(solver.problem.unknown_parameters["k"].detach()) - starts["k"])
    plain = trained(heat(), steps=50, ready=remember)
    assert abs(float(plain.problem.unknown_parameters["k"].detach()) - starts["k"]) > 20 * moved


def test_weights_of_conditions_and_given_ones():
    solver = trained(chain(), weighting=ScalarWeighting({"both": 3.0, "start": 5.0}))
    frozen = from_pina(solver)
    np.testing.assert_allclose(frozen.view.weights, [1.5, 1.5, 5.0])
    assert [len(p) for p in frozen.points] == [40, 40, 15]
    residual = frozen.at(frozen.coordinates({n: p.delivered for n, p in frozen.parameters.items()}))
    expected = 3 * loss_in_pina(solver, "both") + 5 * loss_in_pina(solver, "start")
    bound = frozen.view.bind(frozen.points)
    assert float(bound.quadratic(residual, residual)) == pytest.approx(expected, rel=2e-5)
    given = from_pina(solver, loss_weights=[1.0, np.linspace(1, 2, 40), 0.5]).view
    np.testing.assert_allclose(given.weights, [1, 1, 0.5])
    np.testing.assert_allclose(given.views[1].loss_weights, np.linspace(1, 2, 40))
    with pytest.raises(ta.InputError, match="with 40, 40, 15 points"):
        from_pina(solver, loss_weights=np.ones(7))
    with pytest.raises(ta.InputError, match="both"):
        from_pina(solver, view=ta.views.Pointwise(), loss_weights=1.0)
    alone = from_pina(solver, condition="both", view=ta.views.Patch(cells=2))
    assert isinstance(alone.view, ta.views.Patch)
    (note,) = [note for note in alone.notes if note.code == "conditions.left_out"]
    assert "start" in note.text


def test_weights_that_belong_to_no_point_are_left_out():
    kind = solvers.RBAPhysicsInformedSingleModelSolver
    frozen = from_pina(trained(decay(), kind, trainer=dict(batch_size=10), steps=3))
    assert isinstance(frozen.view, ta.views.Pointwise)
    assert "view.weights_left_out" in codes(frozen)


def test_other_losses_and_refined_points_are_noted():
    absolute = from_pina(trained(decay(), loss=torch.nn.L1Loss()))
    assert "loss.not_squares" in codes(absolute)
    assert "loss.not_squares" not in codes(from_pina(trained(decay(), loss=PowerLoss())))
    kind = solvers.GradientPhysicsInformedSingleModelSolver
    assert "view.no_gradient_penalty" in codes(from_pina(trained(heat(), kind)))
    refined = trained(decay(), trainer=dict(callbacks=[R3Refinement(2, condition_to_update="pde")]))
    assert from_pina(refined).points.shape == (50, 1)


def test_the_residual_elsewhere(solved):
    frozen = from_pina(solved["heat"])
    other = np.random.default_rng(0).random((9, 2))
    moved = frozen.moved_to(other)
    values = {"k": -0.3}
    residual, _ = in_pina(solved["heat"], ["pde"], [other], values)
    np.testing.assert_allclose(moved.at(np.array([-0.3])), residual, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("precision", ["float64", "model"])
def test_an_audit_leaves_the_solver_as_it_was(precision):
    solver = trained(heat(), solvers.RBAPhysicsInformedSingleModelSolver)
    solver.model.layers = None  # an attribute of the user's own stays, too
    frozen_layer = next(solver.model.parameters())
    frozen_layer.requires_grad_(False)
    unknown = solver.problem.unknown_parameters["k"]
    before = copy.deepcopy(solver.state_dict())
    grads = {n: None if p.grad is None else p.grad.clone() for n, p in solver.named_parameters()}
    flags = {n: p.requires_grad for n, p in solver.named_parameters()}
    value, unknown_grad, forward = unknown.detach().clone(), unknown.grad.clone(), solver.forward
    modes = [module.training for module in solver.modules()]
    trainer, default = solver.trainer, torch.get_default_dtype()
    numpy_state = np.random.get_state
    states = random.getstate(), numpy_state()[1].copy(), torch.get_rng_state()
    frozen = from_pina(solver, precision=precision)
    audit = ta.audit(frozen, tolerance=ta.Tolerance(material=5, resolution=5, preference=5))
    assert "k" in str(audit)
    assert all(torch.equal(before[key], now) for key, now in solver.state_dict().items())
    for name, p in solver.named_parameters():
        assert p.requires_grad == flags[name]
        assert p.grad is None if grads[name] is None else torch.equal(p.grad, grads[name])
    assert solver.problem.unknown_parameters["k"] is unknown
    assert torch.equal(unknown.detach(), value)
    assert torch.equal(unknown.grad, unknown_grad)
    assert unknown.requires_grad
    assert [module.training for module in solver.modules()] == modes
    assert solver.trainer is trainer
    assert solver.forward is forward
    assert torch.get_default_dtype() == default
    assert random.getstate() == states[0]
    assert np.array_equal(numpy_state()[1], states[1])
    assert torch.equal(torch.get_rng_state(), states[2])
    assert not hasattr(solver, "_active_model_idx")


def test_truth_bounds_and_names_of_the_user(solved):
    truth = ta.Parameter(truth=1.0, bounds=(0.01, 100.0))
    frozen = from_pina(solved["decay"], {"rate": truth})
    assert frozen.parameters["rate"].truth == 1.0
    assert frozen.parameters["rate"].bounds == (0.01, 100.0)
    assert frozen.parameters["rate"].delivered == float(
        solved["decay"].problem.unknown_parameters["rate"].detach()
    )
    with pytest.raises(ta.InputError, match="with the names 'rate'"):
        from_pina(solved["decay"], {"speed": truth})
    with pytest.raises(ta.InputError, match="with the names 'rate'"):
        from_pina(solved["decay"], transform={"speed": (torch.exp, torch.log)})
    with pytest.raises(ta.InputError, match="inside the bounds"):
        from_pina(solved["decay"], {"rate": ta.Parameter(bounds=(50.0, 100.0))})


def test_a_value_at_the_edge_of_its_range_is_noted():
    def high(problem):
        problem.unknown_parameters["rate"].data.fill_(3.0)

    solver = trained(decay(), steps=1, ready=high)
    solver.problem.unknown_parameters["rate"].data.fill_(3.001)  # one step past the clamp
    frozen = from_pina(solver)
    assert frozen.parameters["rate"].bounds == pytest.approx((0.2, 3.001))
    (note,) = [note for note in frozen.notes if note.code == "parameter.on_bound"]
    assert note.numbers == pytest.approx({"delivered": 3.001, "lower": 0.2, "upper": 3.0})


def test_conditions_by_name(solved):
    assert from_pina(solved["source"]).axes == ("x", "y")
    only = from_pina(solved["chain"], condition="start")
    assert len(only.points) == 15
    (note,) = [note for note in only.notes if note.code == "parameter.unseen"]
    assert "depend on p" in note.text
    with pytest.raises(ta.InputError, match="conditions with an equation: pde"):
        from_pina(solved["decay"], condition="data")
    with pytest.raises(ta.InputError, match="conditions with an equation: both, start"):
        from_pina(solved["chain"], condition=["both", "end"])
    with pytest.raises(ta.InputError, match="conditions with an equation"):
        from_pina(solved["chain"], condition=[])


def test_a_residual_that_does_not_see_its_unknown():
    problem = heat(used=lambda k: torch.ones_like(k))
    solver = trained(problem)
    with pytest.raises(ta.InputError, match="H = 0, the residual does not depend on an unknown"):
        from_pina(solver)
    frozen = from_pina(solver, condition="pde")
    assert "parameter.unseen" in codes(frozen)
    assert float(ta.score(frozen).H) == 0


def test_an_equation_that_cuts_the_derivative_is_differenced():
    solver = trained(heat(used=lambda k: k.detach().exp()))
    frozen = from_pina(solver)
    assert "parameter.differences" in codes(frozen)
    score = ta.score(frozen)
    assert "differences" in score.derivative
    assert float(score.H) > 0


def test_what_is_not_a_trained_solver_of_an_inverse_problem(solved):
    with pytest.raises(ta.InputError, match="a PINA solver"):
        from_pina(torch.nn.Linear(1, 1))
    with pytest.raises(ta.InputError, match="a PINA solver"):
        from_pina(PINN)
    with pytest.raises(ta.InputError, match=r"trainer\.solver"):
        from_pina(solved["decay"].trainer)
    with pytest.raises(ta.InputError, match="precision"):
        from_pina(solved["decay"], precision="half")

    class Forward(SpatialProblem):
        output_variables = ["u"]  # noqa: RUF012
        spatial_domain = CartesianDomain({"x": [0, 1]})
        conditions = {  # noqa: RUF012
            "pde": Condition(domain=spatial_domain, equation=FixedValue(0.0))
        }

    with pytest.raises(ta.InputError, match="InverseProblem"):
        from_pina(PINN(problem=Forward(), model=FeedForward(1, 1)))
    fresh = PINN(problem=decay(), model=FeedForward(1, 1, layers=[8, 8]))
    with pytest.raises(ta.InputError, match="that its Trainer has trained"):
        from_pina(fresh)
    given = {"rate": ta.Parameter(delivered=1.1, bounds=(0.1, 10.0))}
    with pytest.raises(ta.InputError, match="sampled points of the condition 'pde'"):
        from_pina(fresh, given)


def test_a_checkpoint_does_not_hold_the_unknowns(tmp_path):
    solver = trained(decay(), solvers.RBAPhysicsInformedSingleModelSolver)
    solver.trainer.save_checkpoint(tmp_path / "solver.ckpt")
    problem = decay()
    problem.discretise_domain(50, "grid")
    loaded = type(solver).load_from_checkpoint(
        tmp_path / "solver.ckpt",
        problem=problem,
        model=FeedForward(1, 1, layers=[8, 8]),
        weights_only=False,
    )
    assert torch.equal(loaded.model.model[0].weight, solver.model.model[0].weight)
    with pytest.raises(ta.InputError, match="does not contain the unknowns"):
        from_pina(loaded)
    frozen = from_pina(loaded, {"rate": ta.Parameter(delivered=1.1, bounds=(0.1, 10.0))})
    assert frozen.parameters["rate"].delivered == 1.1
    assert "view.weights_left_out" in codes(frozen)


def test_an_equation_that_cannot_be_evaluated(solved):
    solver = solved["heat"]
    condition = solver.problem.conditions["pde"]
    equation = condition.equation
    try:
        condition.equation = Equation(lambda _, output_, params_: params_["nu"] * output_)
        with pytest.raises(ta.InputError, match="KeyError"):
            from_pina(solver)
        condition.equation = Equation(lambda _, output_, params_: params_["k"] * output_.mean())
        with pytest.raises(ta.InputError, match="one row per point, 50"):
            from_pina(solver)
    finally:
        condition.equation = equation


def test_without_pina_the_adapter_names_the_extra(solved, monkeypatch):
    monkeypatch.setitem(sys.modules, "pina", None)
    with pytest.raises(ta.InputError, match=r"twoaxis\[pina\]"):
        from_pina(solved["decay"])


# ---------------------------------------------------------------- observations and loss


def whole_batch(each):
    """All data of a condition in the training."""
    batch = each.get_all_data()
    return {name: getattr(batch, name) for name in ("input", "target") if hasattr(batch, name)}


def own_loss(solver):
    """The training loss as PINA computes it, on all points of the training."""
    losses = {
        name: solver._compute_condition_loss(solver.problem.conditions[name], whole_batch(each), 0)
        for name, each in solver._trainer.datamodule.train_datasets.items()
    }
    return solver.weighting.aggregate(losses).item()


@pytest.mark.parametrize("case", ["decay", "heat", "chain"])
def test_the_objective_is_the_loss_of_the_training(solved, case):
    solver = solved[case]
    before = {name: value.clone() for name, value in solver.state_dict().items()}
    held = {name: value.clone() for name, value in solver.problem.unknown_parameters.items()}
    assert_is_training_loss(from_pina(solver), own_loss(solver))
    for name, value in solver.state_dict().items():
        assert torch.equal(value, before[name])
    for name, value in solver.problem.unknown_parameters.items():
        assert torch.equal(value, held[name])


def test_the_objective_behind_a_transform(solved):
    solver = solved["heat"]
    frozen = from_pina(solver, transform={"k": torch.exp}, precision="model")
    assert_is_training_loss(frozen, own_loss(solver))


def test_the_objective_of_an_ensemble_and_of_weighted_conditions():
    many = trained(decay(), kind=solvers.PhysicsInformedEnsembleSolver)
    assert_is_training_loss(from_pina(many), own_loss(many))
    weighted = trained(decay(), weighting=ScalarWeighting({"pde": 3.0, "data": 0.2}))
    assert_is_training_loss(from_pina(weighted), own_loss(weighted))


def test_the_objective_holds_the_weights_of_an_adaptive_solver():
    solver = trained(decay(), kind=solvers.RBAPhysicsInformedSingleModelSolver, eta=0.1)
    frozen = from_pina(solver)
    kept = {name: getattr(solver, f"weight_{name}").clone() for name in ("pde", "data")}
    wanted = 0.0
    for name, each in solver._trainer.datamodule.train_datasets.items():
        found = solver.problem.conditions[name].evaluate(whole_batch(each), solver)
        wanted += (found.as_subclass(torch.Tensor) ** 2 * kept[name]).mean().item()
    assert_is_training_loss(frozen, wanted)
    for name, value in kept.items():
        assert torch.equal(getattr(solver, f"weight_{name}"), value)


def test_a_loss_with_terms_of_its_own_is_not_claimed():
    solver = trained(heat(), kind=solvers.GradientPhysicsInformedSingleModelSolver)
    frozen = from_pina(solver)
    assert frozen.objective is None
    assert "objective.unknown" in codes(frozen)


def test_observations_are_those_of_the_conditions_with_targets(solved):
    frozen = from_pina(solved["decay"])
    times = np.linspace(0, 1, 12)
    np.testing.assert_allclose(frozen.observed[:, 0], times, rtol=1e-6)
    np.testing.assert_allclose(frozen.data, np.exp(-times), rtol=1e-6)
    inputs = labelled(times[:, None], ["t"])
    with torch.no_grad():
        outputs = solved["decay"].forward(inputs).tensor.numpy()[:, 0]
    np.testing.assert_allclose(frozen.fitted, outputs, rtol=1e-5)
    assert "data.found" in codes(frozen)
    assert from_pina(solved["heat"]).fitted is None


def test_observed_points_of_the_user(solved):
    solver, times = solved["chain"], np.linspace(0.1, 0.8, 5)[:, None]
    with torch.no_grad():
        outputs = solver.forward(labelled(times, ["t"])).tensor.numpy()
    for field, columns in ((None, [0, 1]), (["v", "u"], [1, 0])):
        frozen = from_pina(solver, observed=times, field=field)
        np.testing.assert_allclose(frozen.fitted, outputs[:, columns], rtol=1e-5)
    one = from_pina(solver, observed=labelled(times, ["t"]), field="v")
    np.testing.assert_allclose(one.fitted, outputs[:, 1], rtol=1e-5)
    assert one.field_name == "v"
    for change, words in (
        ({"observed": np.zeros((3, 2))}, r"observed points of shape \(n, 1\)"),
        ({"field": "w"}, "output variables u, v"),
    ):
        with pytest.raises(ta.InputError, match=words):
            from_pina(solver, **change)


@pytest.mark.parametrize("case", CASES)
def test_weights_are_a_least_squares_system(solved, case):
    """Space and time, a transform inside, several equations on points of their own."""
    frozen = from_pina(solved[case])
    assert_is_least_squares_system(frozen)
    system = frozen.weights
    assert system.how == "one backward pass, with a copy of the weights for each point"
    terms = [name for name in ("left", "edge") if name in solved[case].problem.conditions]
    own = [loss_in_pina(solved[case], name) for name in terms]
    assert (system.conditions(system.start) ** 2).sum() == pytest.approx(sum(own), rel=1e-5)


def test_weights_of_an_ensemble():
    frozen = from_pina(trained(decay(), kind=solvers.PhysicsInformedEnsembleSolver))
    assert_is_least_squares_system(frozen)


def test_about_says_what_the_model_is(solved):
    about = from_pina(solved["decay"]).about
    assert about["library"] == f"PINA {importlib.metadata.version('pina-mathlab')}"
    assert about["network"] == "FeedForward"
    assert about["solver"] == "PhysicsInformedSingleModelSolver"
    assert about["precision"] == "float32"


@pytest.mark.long
def test_bad_refinements_are_told(solved):
    assert_bad_refinements_are_told(from_pina(solved["decay"]))


# ------------------------------------------------------------------ while it trains


def followed(make, steps, every=5, callbacks=(), **options):
    """Train with a follower, and return it with the points that were followed."""
    held, points = {}, []

    def freeze():
        frozen = from_pina(held["solver"])
        points.append(frozen.points)
        return frozen

    def ready(solver):
        held["solver"] = solver
        held["follower"] = ta.Follower(freeze, every=every, progress=False, max_share=1.0)
        return [*callbacks, ta.lightning_callback(held["follower"], **options)]

    solver = trained(make(), steps=steps, following=ready)
    return solver, held["follower"], points


def test_a_lightning_callback_follows_and_leaves_the_training_as_it_was():
    def seeded():
        torch.manual_seed(5)  # PINA draws the initial unknowns
        return decay()

    solver, follower, _ = followed(seeded, 15)
    assert follower.messages == []
    assert [row.step for row in follower.rows] == [1, 6, 11, 15]
    assert follower.steps == 15
    last = ta.follow([(15, from_pina(solver))]).data.isel(step=0)
    found = follower.result.data.isel(step=-1)
    for name in ("value", "preferred", "displacement", "strength", "alignment"):
        np.testing.assert_allclose(found[name], last[name], rtol=1e-6)
    alone = trained(seeded())
    assert torch.equal(*(each.problem.unknown_parameters["rate"] for each in (solver, alone)))
    for one, other in zip(solver.parameters(), alone.parameters(), strict=True):
        assert torch.equal(one, other)


def test_refined_points_are_followed():
    _, follower, points = followed(
        decay, 9, every=3, callbacks=[R3Refinement(2, condition_to_update="pde")]
    )
    assert follower.messages == []
    assert not np.array_equal(points[-1], points[1])


def test_a_problem_without_unknowns_is_refused_when_the_follower_is_made():
    class Forward(SpatialProblem):
        output_variables = ["u"]  # noqa: RUF012
        spatial_domain = CartesianDomain({"x": [0, 1]})
        domains = {"pde": spatial_domain}  # noqa: RUF012
        conditions = {"pde": Condition(domain="pde", equation=FixedValue(0.0))}  # noqa: RUF012

    with pytest.raises(ta.InputError, match="InverseProblem"):
        followed(Forward, 1)


def noisy(draw):
    """The decay, with another term that is drawn at every call."""
    problem = decay()
    plain = problem.conditions["pde"].equation

    def equation(input_, output_, params_):
        return plain.residual(input_, output_, params_) + draw()

    problem.conditions["pde"] = Condition(domain="pde", equation=Equation(equation))
    return problem


@pytest.mark.parametrize("draw", [lambda: torch.rand(1), np.random.default_rng(0).random])
def test_an_equation_that_draws_random_numbers(draw):
    with pytest.raises(ta.InputError, match="a deterministic residual"):
        from_pina(trained(noisy(draw), steps=2))
    noise = draw()
    frozen = from_pina(trained(noisy(lambda: noise), steps=2))
    assert len({ta.score(frozen).displacement["rate"] for _ in range(3)}) == 1


def test_arrays_of_the_training_that_change_later_change_nothing():
    solver = trained(decay(), steps=2)
    frozen = from_pina(solver)

    def numbers():
        each = [ta.score(frozen).B, frozen.points, frozen.observed, frozen.data, frozen.fitted]
        value, _ = frozen.objective.value_and_gradient(frozen.objective.start)
        return [*map(np.array, each), np.array(value)]

    before = numbers()
    with torch.no_grad():
        for each in solver.model.parameters():
            each += 1
        for points in solver.problem.discretised_domains.values():
            points.tensor.add_(1)
        for part in solver.trainer.datamodule.train_datasets.values():
            for name in ("input", "target"):
                if hasattr(part.condition.data, name):
                    getattr(part.condition.data, name).as_subclass(torch.Tensor).add_(1)
    assert all(map(np.array_equal, before, numbers()))


def test_scores_and_losses_in_threads(solved):
    frozen = from_pina(solved["chain"])

    def evaluate(number):
        vector = frozen.objective.start * (1 + number / 10)
        value, slope = frozen.objective.value_and_gradient(vector)
        return np.concatenate([[value], slope, np.ravel(ta.score(frozen).H)])

    expected = [evaluate(number) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            np.testing.assert_allclose(list(pool.map(evaluate, range(4))), expected, rtol=1e-12)


def test_labels_of_observed_points(solved):
    sites = np.random.default_rng(0).random((7, 2))
    wanted = from_pina(solved["heat"], observed=sites)
    for labels in (["x", "y"], ["t", "y"]):
        with pytest.raises(ta.InputError, match=r"input variables, got the labels .* 'y'\]"):
            from_pina(solved["heat"], observed=labelled(sites, labels))
    mended = labelled(sites, solved["heat"].problem.input_variables)
    swapped = labelled(sites[:, ::-1].copy(), ["t", "x"])
    table = pd.DataFrame(sites[:, ::-1], range(3, 10), columns=["t", "x"])
    for points in (mended, swapped, table):
        found = from_pina(solved["heat"], observed=points)
        np.testing.assert_allclose(found.fitted, wanted.fitted, rtol=1e-5)
    with pytest.raises(ta.InputError, match="data in the order of the observations"):
        ta.refine(found, pd.Series(found.fitted, table.index).iloc[::-1], noise=0.1)


def test_what_an_equation_returns():
    def frozen(equation, make=Equation):
        solver = trained(decay(), steps=2)
        solver.problem.conditions["pde"].equation = make(equation)
        return from_pina(solver)

    def one(input_, output_, params_):
        return grad(output_, input_, d=["t"]) + params_["rate"] * output_

    def other(input_, output_, params_):  # noqa: ARG001
        return params_["rate"] * output_

    for wrong, message in (
        (lambda i, o, p: (one(i, o, p), other(i, o, p)), "tensor, got tuple.* SystemEquation"),
        (lambda i, o, p: None, "tensor, got NoneType"),  # noqa: ARG005
        (lambda i, o, p: torch.cat([one(i, o, p), other(i, o, p)]), "one row per point.*columns"),
    ):
        with pytest.raises(ta.InputError, match=message):
            frozen(wrong)
    assert len(frozen([one, other], SystemEquation).at(np.zeros(1))) == 100
    columns = frozen(lambda i, o, p: torch.cat([one(i, o, p), other(i, o, p)], dim=1))
    assert len(columns.at(np.zeros(1))) == 100
