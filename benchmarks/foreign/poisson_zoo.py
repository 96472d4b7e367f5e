"""The inverse Poisson problem of PINA's own collection, with data of a solver for its files."""

import logging
import sys

import numpy as np
import torch
from pina import Condition, LabelTensor, Trainer
from pina.model import FeedForward
from pina.optim import TorchOptimizer
from pina.problem.zoo import InversePoisson2DSquareProblem
from pina.solver import PhysicsInformedSingleModelSolver
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse import diags_array, eye_array, kron
from scipy.sparse.linalg import splu

torch.manual_seed(0)
torch.set_num_threads(1)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
sites = np.random.default_rng(0).uniform(-1.9, 1.9, (100, 2))
grid = np.linspace(-2, 2, 81)
second = diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(79, 79)) / 0.05**2
solved = splu((kron(second, eye_array(79)) + kron(eye_array(79), second)).tocsc())


def simulate(mu1, mu2):
    """The field at the sites, by finite differences on 81 by 81 points."""
    x, y = np.meshgrid(grid[1:-1], grid[1:-1], indexing="ij")
    source = np.exp(-2 * (x - mu1) ** 2 - 2 * (y - mu2) ** 2)
    field = np.pad(solved.solve(source.ravel()).reshape(79, 79), 1)
    return RegularGridInterpolator((grid, grid), field, "cubic")(sites)[:, None]


readings = simulate(0.5, 0.5)


problem = InversePoisson2DSquareProblem(load=False)
problem.conditions["data"] = Condition(
    input=LabelTensor(torch.tensor(sites).float(), ["x", "y"]),
    target=LabelTensor(torch.tensor(readings).float(), ["u"]),
)
problem.conditions["data"].problem, problem.conditions["data"].name = problem, "data"
problem.discretise_domain(20, "grid", domains=["D"])
problem.discretise_domain(400, "random", domains=["boundary"])
solver = PhysicsInformedSingleModelSolver(
    problem=problem,
    model=FeedForward(2, 1, layers=[20, 20, 20], func=torch.nn.Softplus),
    optimizer=TorchOptimizer(torch.optim.Adam, lr=6e-3),
)
off = ("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger")
off = ("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger")
options = {"accelerator": "cpu", **dict.fromkeys(off, False)}

# --- train
Trainer(solver, max_epochs=int(sys.argv[1]), **options).train()

# --- follow
import twoaxis as ta

parameters = {
    name: ta.Parameter(truth=0.5, bounds=(-1, 1), coordinate="linear") for name in ("mu1", "mu2")
}
follower = ta.Follower(lambda: ta.from_pina(solver, parameters), every=100, progress=False)
callbacks = [ta.lightning_callback(follower)]
Trainer(solver, max_epochs=int(sys.argv[1]), callbacks=callbacks, **options).train()
# --- first verdict
frozen = ta.from_pina(solver, parameters)
first = ta.audit(frozen, history=follower)
# --- audit
resolution = ta.resolve(simulate, parameters, data=readings)
tolerance = ta.Tolerance(material=5, resolution=5, preference=5)
audit = ta.audit(frozen, resolution=resolution, history=follower, tolerance=tolerance)
