"""The unknown sits in a boundary condition and does not move (DeepXDE, issue 1612).

Neutrons diffuse away from a plane source, u'' = u / L**2, and leave the source at a rate that is to
be found, -u'(0) = S / (2 D). As posted, with the unknown in a NeumannBC, training stops with an
error of PyTorch. The usual way around that error, to detach the unknown, trains without complaint.
"""

import argparse
import os

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--quick", action="store_true", help="a few steps, which show nothing")
options.add_argument("--pages", help="a folder for the pages")
chosen = options.parse_args()
steps, replicas = (20, 20) if chosen.quick else (5000, 200)
if chosen.quick:
    print("quick: this only shows that the script runs")
torch.set_num_threads(1)

LENGTH, DIFFUSION, FAR, NOISE = 1.0, 0.5, 3.0, 0.02
sites = np.linspace(0.15, 2.85, 19)[:, None]


def simulate(S):
    """The exact flux at the sites; it vanishes at the far end."""
    shape = np.sinh((FAR - sites[:, 0]) / LENGTH) / np.cosh(FAR / LENGTH)
    return S * LENGTH / (2 * DIFFUSION) * shape


readings = simulate(2.0) + NOISE * np.random.default_rng(0).standard_normal(19)
domain = dde.geometry.Interval(0, FAR)


def at(place):
    return lambda x, on_boundary: on_boundary and np.isclose(x[0], place)


def as_posted(S):
    return dde.icbc.NeumannBC(domain, lambda _: S / (2 * DIFFUSION), at(0))


def detached(S):
    return dde.icbc.NeumannBC(domain, lambda _: S.detach() / (2 * DIFFUSION), at(0))


def kept(S):
    """As posted, for 2 D = 1, in a form whose derivative needs nothing of the graph."""
    return dde.icbc.NeumannBC(domain, lambda _: S + 0.0, at(0))


def operator(S):
    return dde.icbc.OperatorBC(
        domain, lambda x, u, _: -dde.grad.jacobian(u, x) - S / (2 * DIFFUSION), at(0)
    )


def train(source):
    """Train network and unknown with one way to write the condition at the source."""
    dde.config.set_random_seed(0)
    S = dde.Variable(0.1)
    conditions = [
        source(S),
        dde.icbc.DirichletBC(domain, lambda _: 0, at(FAR)),
        dde.icbc.PointSetBC(sites, readings[:, None]),
    ]
    data = dde.data.PDE(
        domain, lambda x, u: dde.grad.hessian(u, x) - u / LENGTH**2, conditions, 60, 2
    )
    model = dde.Model(data, dde.nn.FNN([1, 20, 20, 1], "tanh", "Glorot uniform"))
    model.compile("adam", lr=1e-3, external_trainable_variables=[S], verbose=0)
    model.train(iterations=steps, verbose=0)
    return ta.from_deepxde(model, {"S": (S, ta.Parameter(bounds=(0.01, 20.0)))})


try:
    train(as_posted)
except RuntimeError as error:
    print(f"NeumannBC, as posted: RuntimeError: {str(error)[:56]}...\n")

for name, source in {"detached": detached, "kept": kept, "operator": operator}.items():
    frozen = train(source)
    resolution = ta.resolve(
        simulate, frozen.parameters, NOISE, data=readings, points=sites, replicas=replicas,
        progress=False,
    )  # fmt: skip
    audit = ta.audit(
        frozen,
        resolution=resolution,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": f"source in a boundary condition: {name}"},
    )
    print(
        f"--- {name}: S = {frozen.parameters['S'].delivered:.4f} (2 in the simulation)\n\n{audit}\n"
    )
    if chosen.pages:
        audit.to_html(f"{chosen.pages}/boundary-{name}.html")
