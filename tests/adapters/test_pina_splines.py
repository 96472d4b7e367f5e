"""PINA solvers, refined with a field of splines in the place of their network."""

from __future__ import annotations

import importlib
import logging
import warnings

import numpy as np
import pytest
from refined_fields import DECAY, HEAT, assert_refined_as_least_squares

with warnings.catch_warnings():
    # PINA loads torch_geometric, which still uses torch.jit.script.
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch
    from pina import Condition, LabelTensor, Trainer
    from pina.domain import CartesianDomain
    from pina.equation import Equation
    from pina.equation.zoo import FixedValue
    from pina.model import FeedForward
    from pina.operator import grad, laplacian
    from pina.problem import InverseProblem, SpatialProblem, TimeDependentProblem

    # `from pina import solver` finds a name of PINA's own, not the module.
    solvers = importlib.import_module("pina.solver")

from twoaxis.adapters.pina import from_pina

pytestmark = [
    pytest.mark.filterwarnings("ignore:You defined a `validation_step`"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
ENSEMBLE = solvers.PhysicsInformedEnsembleSolver


class StartsAtOne(torch.nn.Module):
    """A condition that holds by construction, from labeled coordinates."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return 1 + x.extract(["t"]).tensor * self.inner(x).as_subclass(torch.Tensor)


def labelled(values, labels):
    return LabelTensor(torch.as_tensor(values, dtype=torch.get_default_dtype()), labels)


def decay(start=None):
    """u' = -rate u, with a condition at the start or a network that obeys it."""

    def equation(input_, output_, params_):
        return grad(output_, input_, d=["t"]) + params_["rate"] * output_.extract(["u"])

    time = CartesianDomain({"t": [0, 2]})
    data = Condition(input=labelled(DECAY.points, ["t"]), target=labelled(DECAY.readings, ["u"]))
    at_zero = labelled([[0.0]], ["t"])
    imposed = {} if start is None else {"start": Condition(input=at_zero, equation=start)}

    class Decay(TimeDependentProblem, InverseProblem):
        output_variables = ["u"]  # noqa: RUF012
        temporal_domain = time
        unknown_parameter_domain = CartesianDomain({"rate": [0.2, 4.0]})
        domains = {"pde": time}  # noqa: RUF012
        conditions = {  # noqa: RUF012
            "data": data,
            "pde": Condition(domain="pde", equation=Equation(equation)),
            **imposed,
        }

    return Decay()


def heat():
    """u_t = k u_xx, with conditions on three sides."""

    def equation(input_, output_, params_):
        bend = laplacian(output_, input_, d=["x"])
        return grad(output_, input_, d=["t"]) - params_["k"] * bend

    def begin(input_, output_):
        return output_ - torch.sin(torch.pi * input_.extract(["x"]))

    square = CartesianDomain({"x": [0, 1], "t": [0, 1]})

    class Heat(SpatialProblem, TimeDependentProblem, InverseProblem):
        output_variables = ["u"]  # noqa: RUF012
        spatial_domain = CartesianDomain({"x": [0, 1]})
        temporal_domain = CartesianDomain({"t": [0, 1]})
        unknown_parameter_domain = CartesianDomain({"k": [0.01, 2.0]})
        domains = {  # noqa: RUF012
            "pde": square,
            "left": CartesianDomain({"x": 0, "t": [0, 1]}),
            "right": CartesianDomain({"x": 1, "t": [0, 1]}),
            "start": CartesianDomain({"x": [0, 1], "t": 0}),
        }
        conditions = {  # noqa: RUF012
            "pde": Condition(domain="pde", equation=Equation(equation)),
            "left": Condition(domain="left", equation=FixedValue(0.0)),
            "right": Condition(domain="right", equation=FixedValue(0.0)),
            "start": Condition(domain="start", equation=Equation(begin)),
        }

    return Heat()


def trained(problem, around=lambda net: net, kind=None, steps=5):
    torch.manual_seed(0)
    for domain in problem.domains:
        problem.discretise_domain({"pde": 150}.get(domain, 20), "random", domain)
    net = around(FeedForward(len(problem.input_variables), 1, layers=[12, 12]))
    if kind is None:
        solver = solvers.PhysicsInformedSingleModelSolver(problem=problem, model=net)
    else:
        solver = kind(problem=problem, models=[net, net])
    quiet = dict(enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    Trainer(solver, max_epochs=steps, logger=False, accelerator="cpu", **quiet).train()
    return solver


def test_a_network_that_obeys_a_condition():
    frozen = from_pina(trained(decay(), StartsAtOne))
    found = assert_refined_as_least_squares(frozen, DECAY, within=0.02)
    assert found.frozen.fitted.shape == (15,)


def test_a_soft_condition():
    frozen = from_pina(trained(decay(FixedValue(1.0))))
    assert_refined_as_least_squares(frozen, DECAY, within=0.02)


def test_space_and_time():
    assert_refined_as_least_squares(from_pina(trained(heat())), HEAT, within=0.1)


def test_where_a_field_has_no_place():
    """In an ensemble, and where an unknown enters a condition on the edge."""
    assert from_pina(trained(decay(), kind=ENSEMBLE)).weights.slot() is None

    def begin(input_, output_, params_):
        return output_.extract(["u"]) - params_["rate"] * torch.ones_like(input_.tensor)

    solver = trained(decay(Equation(begin)))
    frozen = from_pina(solver)
    assert len(frozen.points) == 2
    assert frozen.weights.slot() is None
    assert from_pina(solver, condition="pde").weights.slot() is not None
    assert np.isfinite(frozen.at(frozen.coordinates({"rate": 1.0}))).all()
