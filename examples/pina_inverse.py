"""Is the conductivity that PINA found right? Forty noisy thermometers in a bar, u_t = k u_xx."""

import argparse
import logging

import numpy as np
import torch
from pina import Condition, LabelTensor, Trainer
from pina.domain import CartesianDomain
from pina.equation import Equation
from pina.model import FeedForward
from pina.operator import grad, laplacian
from pina.optim import TorchOptimizer
from pina.problem import InverseProblem, SpatialProblem, TimeDependentProblem
from pina.solver import PhysicsInformedSingleModelSolver
from pina.weighting import ScalarWeighting

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, default=400, help="training steps (20000 for a full run)")
steps = options.parse_args().steps
torch.manual_seed(0)
torch.set_num_threads(1)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

generator = np.random.default_rng(0)
sites, truth, noise = generator.random((40, 2)), 0.05, 0.02  # columns x and t


def simulate(k):
    """The temperature at the thermometers: two modes, each with a decay of its own."""
    x, t = sites.T
    first = np.exp(-k * np.pi**2 * t) * np.sin(np.pi * x)
    return first + 0.5 * np.exp(-9 * k * np.pi**2 * t) * np.sin(3 * np.pi * x)


readings = simulate(truth) + noise * generator.standard_normal(40)


def heat(input_, output_, params_):
    return grad(output_, input_, d=["t"]) - params_["k"] * laplacian(output_, input_, d=["x"])


class Bar(TimeDependentProblem, SpatialProblem, InverseProblem):
    output_variables = ["u"]  # noqa: RUF012
    spatial_domain = CartesianDomain({"x": [0, 1]})
    temporal_domain = CartesianDomain({"t": [0, 1]})
    unknown_parameter_domain = CartesianDomain({"k": [0.005, 0.5]})
    domains = {"inside": CartesianDomain({"x": [0, 1], "t": [0, 1]})}  # noqa: RUF012
    conditions = {  # noqa: RUF012
        "inside": Condition(domain="inside", equation=Equation(heat)),
        "readings": Condition(
            input=LabelTensor(torch.tensor(sites).float(), ["x", "t"]),
            target=LabelTensor(torch.tensor(readings).float()[:, None], ["u"]),
        ),
    }


bar = Bar()
bar.discretise_domain(500, "lh")
solver = PhysicsInformedSingleModelSolver(
    problem=bar,
    model=FeedForward(2, 1, layers=[24, 24]),
    optimizer=TorchOptimizer(torch.optim.Adam, lr=5e-3),
    weighting=ScalarWeighting({"readings": 10.0}),
)
off = ("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger")
Trainer(solver, max_epochs=steps, accelerator="cpu", **dict.fromkeys(off, False)).train()

# The audit: what could the readings resolve, and what does the trained field prefer?
known = {"k": ta.Parameter(truth=truth, bounds=(0.005, 0.5))}
resolution = ta.resolve(simulate, known, noise, seed=0)
tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
frozen = ta.from_pina(solver, known)
audit = ta.audit(frozen, resolution=resolution, data=readings, tolerance=tolerance)
print(audit)
audit.to_html("pina_inverse.html")
