"""A velocity that never converges in two dimensions (DeepXDE, issue 251).

Contaminant leaks from a source into a stream in a closed square, with zero values on the boundary
and at the start: u_t + S u_x + 3 cos(3 pi t) u_y = D (u_xx + u_yy) + f. The velocity S = 2 is to be
found from exact values of the field. During training S grows, whatever its first value is. Then
the advice of the audit is followed, and the network is refined.

    python examples/failures/advection.py           # some minutes on one core
    python examples/failures/advection.py --quick   # runs every line, shows nothing
"""

import argparse
import os
import time

os.environ.setdefault("DDE_BACKEND", "pytorch")

import deepxde as dde
import numpy as np
import torch
from numpy.polynomial import chebyshev

import twoaxis as ta
from twoaxis.gauss_newton import Continuation

options = argparse.ArgumentParser()
options.add_argument("--quick", action="store_true", help="a few steps, which show nothing")
options.add_argument("--pages", help="a folder for the pages")
options.add_argument("--longer", action="store_true", help="train as in the thread, 6,400 steps")
chosen = options.parse_args()
steps, degree = (20, 8) if chosen.quick else (6400 if chosen.longer else 1600, 20)
if chosen.quick:
    print("quick: this only shows that the script runs")
torch.set_num_threads(1)
DIFFUSION, TIMES = 0.1, 10

# Chebyshev collocation in the square, Runge and Kutta in time.
nodes = (1 - np.cos(np.pi * np.arange(degree + 1) / degree)) / 2
values = chebyshev.chebvander(2 * nodes - 1, degree)
slopes = chebyshev.chebvander(2 * nodes - 1, degree) @ np.vstack(
    [2 * chebyshev.chebder(np.eye(degree + 1)), np.zeros(degree + 1)]
)
first = slopes @ np.linalg.inv(values)
second = (first @ first)[1:-1, 1:-1]
first, inner = first[1:-1, 1:-1], nodes[1:-1]
moments = int(np.ceil(0.002 * degree**4)) * 10  # steps, for the stability of the method


def leak(x, y, exp):
    return 10 * exp(-((x - 0.3) ** 2 + (y - 0.5) ** 2) / 0.02)


def solve(S):
    """The field at the inner nodes at ten times, shape (10, n, n)."""
    across, source = DIFFUSION * second - S * first, leak(inner[:, None], inner, np.exp)
    step, found, u = 1 / moments, [], np.zeros((len(inner), len(inner)))

    def rate(u, t):
        along = DIFFUSION * second - 3 * np.cos(3 * np.pi * t) * first
        return across @ u + u @ along.T + source

    for k in range(moments):
        t = k * step
        a = rate(u, t)
        b = rate(u + step / 2 * a, t + step / 2)
        c = rate(u + step / 2 * b, t + step / 2)
        u = u + step / 6 * (a + 2 * b + 2 * c + rate(u + step * c, t + step))
        if (k + 1) % (moments // TIMES) == 0:
            found.append(u)
    return np.array(found)


picked = np.random.default_rng(0).choice(TIMES * len(inner) ** 2, 300, replace=False)
k, i, j = np.unravel_index(picked, (TIMES, len(inner), len(inner)))
sites = np.column_stack([inner[i], inner[j], (k + 1) / TIMES])  # columns x, y and t


def simulate(S):
    return solve(S).ravel()[picked]


readings = simulate(2.0)
square = dde.geometry.Rectangle([0, 0], [1, 1])
domain = dde.geometry.GeometryXTime(square, dde.geometry.TimeDomain(0, 1))


def zero_outside(z, u):
    """A field that vanishes at the start and on the boundary, whatever the network returns."""
    x, y, t = z[:, :1], z[:, 1:2], z[:, 2:]
    return 16 * t * x * (1 - x) * y * (1 - y) * u


def train(advised):
    """Train as in the thread, or as the audit of that training advises."""
    dde.config.set_random_seed(0)
    S = dde.Variable(1.0)

    def equation(z, u):
        u_x, u_y, u_t = (dde.grad.jacobian(u, z, j=j) for j in range(3))
        spread = dde.grad.hessian(u, z, i=0, j=0) + dde.grad.hessian(u, z, i=1, j=1)
        wind = 3 * torch.cos(3 * np.pi * z[:, 2:])
        moved = u_t + S * u_x + wind * u_y
        return moved - DIFFUSION * spread - leak(z[:, :1], z[:, 1:2], torch.exp)

    conditions = [dde.icbc.PointSetBC(sites, readings[:, None])]
    width, points = (4, 120) if chosen.quick else (30, 2500) if advised else (20, 1000)
    counts = {"num_domain": points}
    if not advised:
        edge = dde.icbc.DirichletBC(domain, lambda _: 0, lambda _, on: on)
        conditions = [edge, dde.icbc.IC(domain, lambda _: 0, lambda _, on: on), *conditions]
        counts |= {"num_boundary": 150, "num_initial": 100}
    data = dde.data.TimePDE(domain, equation, conditions, **counts)
    net = dde.nn.FNN([3, width, width, 1], "tanh", "Glorot normal")
    if advised:
        net.apply_output_transform(zero_outside)
    model = dde.Model(data, net)
    model.compile(
        "adam",
        lr=1e-3,
        loss_weights=[1, 100] if advised else None,
        external_trainable_variables=[S],
        verbose=0,
    )
    for _ in range(4):
        history, _ = model.train(iterations=steps // 4, verbose=0)
        losses = ", ".join(f"{value:.1e}" for value in history.loss_train[-1])
        print(f"step {history.steps[-1]}: S = {S.item():.3f}, losses {losses}")
    return ta.from_deepxde(model, {"S": (S, ta.Parameter(bounds=(0.2, 10.0)))})


def audit(frozen, name):
    """Audit a field against the solver; the true S is not used."""
    found = ta.audit(
        frozen,
        resolution=resolution,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": f"a leak in a stream: {name}"},
    )
    delivered = frozen.parameters["S"].delivered
    print(f"\n--- {name}: S = {delivered:.4f} (2 in the simulation)\n\n{found}\n")
    if chosen.pages:
        found.to_html(f"{chosen.pages}/advection-{name.replace(' ', '-')}.html")


frozen = train(advised=False)
if chosen.longer:
    raise SystemExit
resolution = ta.resolve(
    simulate, frozen.parameters, data=readings, points=sites, method="linear", progress=False
)
audit(frozen, "as trained")

# More weight of the data, more capacity, and conditions that hold exactly.
frozen = train(advised=True)
audit(frozen, "as advised")
began = time.process_time()
refined = ta.refine(
    frozen,
    noise=0.0014,  # 1% of the deviation of the readings, as the audit assumes
    continuation=Continuation(10, 10, 30, 30, free_steps=1, more=1) if chosen.quick else None,
    progress=False,
)
print(f"--- refined\n\n{refined}\ntrusted: {refined.trusted}")
path = refined.data.sel(parameter="S")
for weight, misfit, value in zip(path["weight"], path["misfit"], path["value"], strict=True):
    print(f"weight {float(weight):.0e}: S = {value:.4f}, misfit {float(misfit) ** 0.5:.2f}")
print(f"processor time: {time.process_time() - began:.0f} s")
audit(refined.frozen, "refined")
