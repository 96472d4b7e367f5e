"""DeepXDE issue 1829: three coefficients of a wave equation, and two of them come out wrong.

The question: u_tt = a u_xx + b u_x + c u on 0 < x < 1 with fixed ends and u(x, 0) = sin(pi x).
The author recovers a, b and c where b = c = 0, and not where b or c differ from zero.

    python examples/failures/wave_coefficients.py           # about three minutes on one core
    python examples/failures/wave_coefficients.py --quick   # runs every line, shows nothing
"""

import argparse
import os

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--quick", action="store_true", help="a few steps; the numbers mean nothing")
options.add_argument("--only", type=int, choices=[1, 2], help="one of the two experiments alone")
options = options.parse_args()
quick = options.quick
torch.set_num_threads(1)  # enough for a network of this size

# ---------------------------------------------------------------- the experiment

truth = {"a": 1.0, "b": 0.0, "c": 1.0}  # used to make the data, and for the last column
modes = np.arange(1, 25)
m, n = np.meshgrid(modes, modes, indexing="ij")
with np.errstate(divide="ignore", invalid="ignore"):  # u_x couples modes of different parity
    coupling = np.where((m + n) % 2, 4 * m * n / (m**2 - n**2), 0.0)


def field(xt, initial, a, b, c):
    """u at the rows (x, t) of `xt`, from amplitudes of sin(n pi x) at t = 0 and no velocity."""
    squared, vectors = np.linalg.eig(np.diag(a * (modes * np.pi) ** 2 - c) - b * coupling)
    start = np.linalg.solve(vectors, initial.astype(complex))
    amplitudes = np.cos(np.sqrt(squared.astype(complex)) * xt[:, 1:]) * start @ vectors.T
    return (amplitudes * np.sin(modes * np.pi * xt[:, :1])).sum(axis=1).real


one_mode = np.where(modes == 1, 1.0, 0.0)  # sin(pi x), as in the question
two_modes = np.where(modes <= 2, 1.0, 0.0)  # sin(pi x) + sin(2 pi x)
sites = np.random.default_rng(0).uniform(size=(200, 2))

# ---------------------------------------------------------------- the author's training


def train(initial, steps):
    """An inverse PINN in DeepXDE with equal loss weights: Adam, then L-BFGS."""
    dde.config.set_random_seed(0)
    unknown = {name: dde.Variable(0.5) for name in truth}

    def equation(xt, u):
        u_xx, u_tt = (dde.grad.hessian(u, xt, i=i, j=i) for i in (0, 1))
        u_x = dde.grad.jacobian(u, xt, j=0)
        return u_tt - unknown["a"] * u_xx - unknown["b"] * u_x - unknown["c"] * u

    domain = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
    conditions = [
        dde.icbc.DirichletBC(domain, lambda _: 0.0, lambda _, on_boundary: on_boundary),
        dde.icbc.IC(
            domain,
            lambda xt: np.sin(np.pi * xt[:, :1] * modes) @ initial[:, None],
            lambda _, on_initial: on_initial,
        ),
        dde.icbc.OperatorBC(
            domain,
            lambda xt, u, _: dde.grad.jacobian(u, xt, j=1),
            lambda xt, _: np.isclose(xt[1], 0),
        ),
        dde.icbc.PointSetBC(sites, field(sites, initial, **truth)[:, None]),
    ]
    data = dde.data.TimePDE(
        domain, equation, conditions, num_domain=500, num_boundary=50, num_initial=50
    )
    model = dde.Model(data, dde.nn.FNN([2, 20, 20, 20, 1], "tanh", "Glorot normal"))
    variables = list(unknown.values())
    model.compile("adam", lr=1e-3, external_trainable_variables=variables, verbose=0)
    model.train(iterations=steps, verbose=0)
    dde.optimizers.set_LBFGS_options(maxiter=steps)
    model.compile("L-BFGS", external_trainable_variables=variables, verbose=0)
    model.train(verbose=0)
    known = {
        name: (value, ta.Parameter(bounds=(-10.0, 10.0), coordinate="linear", scale=1.0))
        for name, value in unknown.items()
    }
    return ta.from_deepxde(model, known)


def audit(frozen, initial):
    """Both axes, without the truth: the solver, the data, and what the network makes of them."""
    resolution = ta.resolve(
        lambda a, b, c: field(sites, initial, a, b, c),
        frozen.parameters,
        data=field(sites, initial, **truth),
        points=sites,
        replicas=5 if quick else 50,
        seed=0,
        progress=False,
    )
    return ta.audit(
        frozen,
        resolution=resolution,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "wave equation with three coefficients", "data": "200 exact values"},
    )


# ---------------------------------------------------------------- before, and after

rows = []
experiments = {1: ("sin(pi x)", one_mode), 2: ("sin(pi x) + sin(2 pi x)", two_modes)}
for number, (name, initial) in experiments.items():
    if options.only not in (None, number):
        continue
    frozen = train(initial, steps=20 if quick else 3000)
    found = audit(frozen, initial)
    print(f"==== from u(x, 0) = {name}\n\n{found}\n")
    found.to_html(f"wave_coefficients_{number}.html")
    matched = found.group("/matched")
    for one in truth:
        low, high = (float(matched[end].sel(parameter=one)) for end in ("lower", "upper"))
        delivered = frozen.parameters[one].delivered
        rows.append(
            f"{one}  {delivered:8.4f}  {low:8.4f} to {high:8.4f}  {truth[one]:5.1f}  {name}"
        )

print("   delivered  95% interval of the matched fit  truth  initial shape")
print("\n".join(rows))
