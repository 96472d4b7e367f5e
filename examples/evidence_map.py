"""Where does a wrong preference come from? A lamp that is missing in the equation.

Heat in a bar, u_t = kappa u_xx, is the model; but a lamp warms the bar around x = 0.7. A network is
fitted to noisy readings, and the field is good. Which kappa does it prefer, and because of which
part of the bar? The map leaves every region out in turn and finds the lamp.

With --plot FILE the map is drawn.
"""

import argparse

import numpy as np
import torch

import twoaxis as ta

options = argparse.ArgumentParser()
options.add_argument("--plot", help="write the figure to this file, such as map.png")
chosen = options.parse_args()
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)  # enough for a network of this size


def temperature(xt, kappa=0.05):
    x, t = xt.T
    fast = np.exp(-9 * np.pi**2 * kappa * t) * np.sin(3 * np.pi * x)
    bar = np.exp(-(np.pi**2) * kappa * t) * np.sin(np.pi * x) + 0.5 * fast
    lamp = 0.15 * np.exp(-(((x - 0.7) / 0.07) ** 2)) * t  # warms up with time
    return bar + lamp


def heat(model, xt, kappa):
    u = model(xt)
    (slope,) = torch.autograd.grad(u.sum(), xt, create_graph=True)
    (bend,) = torch.autograd.grad(slope[:, 0].sum(), xt, create_graph=True)
    return slope[:, 1] - kappa * bend[:, 0]


generator = np.random.default_rng(0)
sites = generator.random((600, 2))  # columns x and t
readings = temperature(sites) + 0.005 * generator.standard_normal(600)
inputs, outputs = torch.tensor(sites), torch.tensor(readings)[:, None]
net = torch.nn.Sequential(
    torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 20), torch.nn.Tanh(),
    torch.nn.Linear(20, 1),
)  # fmt: skip
optimizer = torch.optim.LBFGS(
    net.parameters(), max_iter=800, tolerance_change=0, line_search_fn="strong_wolfe"
)


def misfit():
    optimizer.zero_grad()
    value = torch.mean((net(inputs) - outputs) ** 2)
    value.backward()
    return value


optimizer.step(misfit)
print(f"root mean square misfit to the readings: {float(misfit().detach().sqrt()):.4f}\n")

points = generator.random((1500, 2))
known = {"kappa": ta.Parameter(truth=0.05, bounds=(0.005, 0.5))}
frozen = ta.from_torch(net, heat, known, points=points)

# Five parts of the bar, whatever the time; cells of space and time are regions=5.
part = np.minimum((5 * points[:, 0]).astype(int), 4)
labels = np.array([f"x {k / 5:.1f} to {(k + 1) / 5:.1f}" for k in range(5)])[part]
found = ta.evidence_map(frozen, regions=labels)
print(found, "\n")

# To leave a region out is to give it the weight 0: the score has the same value.
first = found.leading().name
weights = (labels != first).astype(float)
again = ta.score(frozen, view=ta.views.Weighted(loss_weights=weights))
print(f"scored without {first}: D = {again.displacement['kappa']:+.4g}")
if chosen.plot:
    ta.evidence_map(frozen, regions=8).plot().savefig(chosen.plot, dpi=120)
    print(f"wrote {chosen.plot}")
