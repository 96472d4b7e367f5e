"""A diffusivity that leaves its true value although training starts there (DeepXDE, issue 347).

Moisture enters a dry slab, u_t = D u_xx, through a wet face, u(0, t) = 1; the other face is sealed.
The jump at the corner is softened to u(x, 0) = exp(-100 x). All readings are exact values on a
grid, the unknown starts at the right value, D = 1, and training moves it away.
"""

import argparse
import os

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch

import twoaxis as ta
from twoaxis.gauss_newton import Continuation

options = argparse.ArgumentParser()
options.add_argument("--quick", action="store_true", help="a few steps, which show nothing")
options.add_argument("--pages", help="a folder for the pages")
chosen = options.parse_args()
steps, width, inside, replicas = (20, 4, 60, 20) if chosen.quick else (1500, 20, 800, 100)
if chosen.quick:
    print("quick: this only shows that the script runs")
torch.set_num_threads(1)

STEEP = 100.0
modes = (np.arange(400) + 0.5) * np.pi
amplitudes = 2 * (
    (modes - np.exp(-STEEP) * STEEP * np.sin(modes)) / (STEEP**2 + modes**2) - 1 / modes
)
grid = np.meshgrid(np.linspace(0, 1, 26), np.linspace(0, 1, 21)[1:], indexing="ij")
sites = np.stack(grid, axis=-1).reshape(-1, 2)  # columns x and t


def simulate(D):
    """The exact moisture at the sites, a Fourier series."""
    x, t = sites.T
    return 1 + (np.sin(np.outer(x, modes)) * np.exp(-D * np.outer(t, modes**2))) @ amplitudes


readings = simulate(1.0)


def train(begin):
    """Train on the time from `begin`, with the initial condition only where that is zero."""
    dde.config.set_random_seed(0)
    D = dde.Variable(1.0)
    times = dde.geometry.TimeDomain(begin, 1)
    domain = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), times)
    conditions = [
        dde.icbc.DirichletBC(domain, lambda _: 1, lambda x, on: on and np.isclose(x[0], 0)),
        dde.icbc.NeumannBC(domain, lambda _: 0, lambda x, on: on and np.isclose(x[0], 1)),
        dde.icbc.PointSetBC(sites, readings[:, None]),
    ]
    if begin == 0:
        conditions.append(
            dde.icbc.IC(domain, lambda x: np.exp(-STEEP * x[:, :1]), lambda _, on: on)
        )

    def equation(xt, u):
        return dde.grad.jacobian(u, xt, j=1) - D * dde.grad.hessian(u, xt, i=0, j=0)

    data = dde.data.TimePDE(
        domain, equation, conditions, num_domain=inside, num_boundary=60, num_initial=60
    )
    model = dde.Model(data, dde.nn.FNN([2, width, width, 1], "tanh", "Glorot uniform"))
    model.compile("adam", lr=1e-3, external_trainable_variables=[D], verbose=0)
    history, _ = model.train(iterations=steps, verbose=0)
    names = ["equation", "wet face", "sealed face", "readings", "initial condition"]
    print(", ".join(f"{n} {v:.1e}" for n, v in zip(names, history.loss_train[-1], strict=False)))
    return ta.from_deepxde(model, {"D": (D, ta.Parameter(bounds=(0.05, 20.0)))})


def audit(frozen, resolution, name):
    found = ta.audit(
        frozen,
        resolution=resolution,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": f"moisture in a slab: {name}"},
    )
    print(f"{found}\n")
    if chosen.pages:
        found.to_html(f"{chosen.pages}/moisture-{name}.html")


for name, begin in {"whole": 0.0, "later": 0.05}.items():
    print(f"--- {name}: time from {begin}; last losses:")
    frozen = train(begin)
    print(f"D = {frozen.parameters['D'].delivered:.4f} (1 in the simulation)\n")
    resolution = ta.resolve(
        simulate, frozen.parameters, data=readings, points=sites, replicas=replicas, progress=False
    )
    audit(frozen, resolution, name)

# Without the corner the field is smooth, and refinement finishes what training has begun.
refined = ta.refine(
    frozen,
    noise=0.0025,  # 1% of the deviation of the readings, as the audit assumes
    continuation=Continuation(10, 10, 30, 30, free_steps=1, more=1) if chosen.quick else None,
    progress=False,
)
print(f"--- later, refined\n\n{refined}\ntrusted: {refined.trusted}")
path = refined.data.sel(parameter="D")
for weight, misfit, value in zip(path["weight"], path["misfit"], path["value"], strict=True):
    print(f"weight {float(weight):.0e}: D = {value:.4f}, misfit {float(misfit) ** 0.5:.2f}")
print()
audit(refined.frozen, resolution, "refined")
