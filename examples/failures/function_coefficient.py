"""DeepXDE issue 125: the coefficient is a function, u comes out right and q(x) does not.

The question: -u'' + q(x) u = f on (-1, 1) with u = 0 at both ends, where u = sin(pi x) and
q = x^2 are to be found from exact values of u. A network with the two outputs u and q reproduces
u; its q is wrong, whatever the learning rate and the number of steps.

    python examples/failures/function_coefficient.py           # about three minutes on one core
    python examples/failures/function_coefficient.py --quick   # runs every line, shows nothing
"""

import argparse
import os

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch
from scipy.linalg import solveh_banded

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--quick", action="store_true", help="a few steps; the numbers mean nothing")
options.add_argument("--only", type=int, choices=[1, 2, 3], help="one training alone")
options = options.parse_args()
quick = options.quick
torch.set_num_threads(1)  # enough for a network of this size

# ---------------------------------------------------------------- the experiment

sites = np.linspace(-0.99, 0.99, 100)
inner = np.linspace(-1, 1, 401)[1:-1]
nodes = np.linspace(-1, 1, 9)


def truth(x):
    return x**2


def simulate(q, source):
    """u at the sites: second differences on 401 points, with u = 0 at the ends."""
    width = inner[1] - inner[0]
    bands = np.stack([np.full(399, -1 / width**2), 2 / width**2 + q(inner)])
    return np.interp(sites, inner, solveh_banded(bands, source(inner)))


def asked(x):  # the source of the question, for which u = sin(pi x)
    return (np.pi**2 + x**2) * (np if isinstance(x, np.ndarray) else torch).sin(np.pi * x)


def even(x):  # another source, for which u has no zero inside
    return 10 + 0 * x


# ---------------------------------------------------------------- the author's training


def second_derivative(u, x):
    (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    return torch.autograd.grad(slope.sum(), x, create_graph=True)[0][:, 0]


def train(source, readings, adam, lbfgs):
    """Adam in single precision; with steps of L-BFGS after it, in double precision."""
    dde.config.set_default_float("float64" if lbfgs else "float32")
    dde.config.set_random_seed(0)

    def equation(x, y):
        return -dde.grad.hessian(y, x, component=0) + y[:, 1:] * y[:, :1] - source(x)

    domain = dde.geometry.Interval(-1, 1)
    conditions = [
        dde.icbc.DirichletBC(domain, lambda _: 0.0, lambda _, on_boundary: on_boundary),
        dde.icbc.PointSetBC(sites[:, None], readings[:, None], component=0),
    ]
    data = dde.data.PDE(domain, equation, conditions, num_domain=200, num_boundary=2)
    model = dde.Model(data, dde.nn.FNN([1, 20, 20, 20, 2], "tanh", "Glorot uniform"))
    model.compile("adam", lr=1e-3, verbose=0)
    model.train(iterations=20 if quick else adam, verbose=0)
    if lbfgs:
        dde.optimizers.set_LBFGS_options(maxiter=20 if quick else lbfgs)
        model.compile("L-BFGS", verbose=0)
        model.train(verbose=0)
    return model.net, data.train_x_all


def audit(net, points, source, readings):
    kind = next(net.parameters()).dtype
    q = ta.UnknownFunction(
        nodes=nodes,
        bounds=(-2.0, 10.0),  # below -2.4 there may be no solution
        coordinate="linear",
        scale=1.0,
        delivered=lambda x: net(torch.as_tensor(x[:, None], dtype=kind))[:, 1],
    )
    resolution = ta.resolve(
        lambda q: simulate(q, source),
        {"q": q},
        data=readings,
        points=sites[:, None],
        replicas=2 if quick else 20,
        seed=0,
        progress=False,
    )
    frozen = ta.from_torch(
        net,
        lambda model, x, q: (
            -second_derivative(model(x)[:, 0], x) + q(x[:, 0]) * model(x)[:, 0] - source(x[:, 0])
        ),
        {"q": q},
        points=points,
        observed=sites[:, None],
        field=lambda model, x: model(x)[:, :1],
        conditions=lambda model: model(torch.tensor([[-1.0], [1.0]], dtype=torch.float64))[:, 0],
        axes=("x",),
    )
    return frozen, ta.audit(
        frozen,
        resolution=resolution,
        tolerance=ta.Tolerance(material=10.0, resolution=10.0, preference=10.0),
        about={"problem": "a coefficient that is a function", "data": "100 exact values"},
    )


# ---------------------------------------------------------------- before, and after

rows = []
trainings = {
    1: ("as asked", asked, 20_000, 0),
    2: ("with L-BFGS", asked, 3000, 3000),
    3: ("with L-BFGS and f = 10", even, 3000, 3000),
}
for number, (name, source, *steps) in trainings.items():
    if options.only not in (None, number):
        continue
    readings = simulate(truth, source)
    net, points = train(source, readings, *steps)
    frozen, found = audit(net, points, source, readings)
    print(f"==== {name}\n\n{found}\n")
    found.to_html(f"function_coefficient_{number}.html")
    matched = found.group("/matched")
    delivered = list(frozen.parameters.delivered.values())
    rows.append((name, delivered, matched["lower"].values, matched["upper"].values))

for name, q, low, high in rows:
    print(f"{name}\n    x   q(x)  delivered  95% interval of the matched fit")
    for j, place in enumerate(nodes):
        print(f"{place:5.2f}  {truth(place):5.2f}  {q[j]:9.2f}  {low[j]:.2f} to {high[j]:.2f}")
