"""The field fits and the parameters do not: one failure, its cause and its remedy.

A damped oscillator, u'' + mu u' + k u = 0, is observed 60 times, and an inverse PINN looks for mu
and k. The audit finds the cause; the step that it recommends is taken, and the parameters are
estimated again. A full run, as in docs/case-study.md, takes --steps 20000 --seeds 0 1 2. The
default of few steps shows that the program runs; its numbers are not meaningful.
"""

import argparse

import numpy as np
import torch

import twoaxis as ta

torch.set_num_threads(1)  # enough for a network of this size
options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, default=100)
options.add_argument("--seeds", type=int, nargs="+", default=[0])
options = options.parse_args()
TRUTH, START, NOISE = {"mu": 4.0, "k": 400.0}, {"mu": 1.0, "k": 100.0}, 0.02
BOUNDS = {"mu": (0.4, 12.0), "k": (60.0, 2000.0)}


def position(t, mu, k):
    w = np.sqrt(k - mu**2 / 4)
    return np.exp(-mu / 2 * t) * (np.cos(w * t) + mu / (2 * w) * np.sin(w * t))


def oscillator(model, t, mu, k):
    u = model(t)
    (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    (u_tt,) = torch.autograd.grad(u_t.sum(), t, create_graph=True)
    return u_tt + mu * u_t + k * u


generator = np.random.default_rng(0)
times = np.sort(generator.random(60))
readings = position(times, **TRUTH) + NOISE * generator.standard_normal(60)
t, y = torch.tensor(times)[:, None], torch.tensor(readings)[:, None]
points = torch.linspace(0, 1, 200, dtype=torch.float64)[:, None]


def train(seed, logarithmic):
    """Adam on the network and both unknowns, stored as such or as logarithms."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(),
        torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1),
    ).double()  # fmt: skip
    start = torch.tensor(list(START.values()), dtype=torch.float64)
    unknown = (start.log() if logarithmic else start).requires_grad_(True)
    optimizer = torch.optim.Adam([*net.parameters(), unknown], lr=5e-3)
    for _ in range(options.steps):
        optimizer.zero_grad()
        residual = oscillator(
            net, points.clone().requires_grad_(True), *(unknown.exp() if logarithmic else unknown)
        )  # its square is of the order of 10,000, hence the small weight
        (torch.mean((net(t) - y) ** 2) + 1e-7 * torch.mean(residual**2)).backward()
        optimizer.step()
    values = unknown.detach().exp() if logarithmic else unknown.detach()
    return net, dict(zip(TRUTH, values.tolist(), strict=True))


known = {n: ta.Parameter(truth=TRUTH[n], bounds=BOUNDS[n]) for n in TRUTH}
resolution = ta.resolve(lambda mu, k: position(times, mu, k), known, NOISE, progress=False)
tolerance = ta.Tolerance(material=10.0, resolution=10.0, preference=10.0)
print("seed  trained as  field error      mu  preferred       k  preferred  route")
for seed in options.seeds:
    for logarithmic in (False, True):
        net, found = train(seed, logarithmic)
        parameters = {
            n: ta.Parameter(truth=TRUTH[n], delivered=found[n], bounds=BOUNDS[n]) for n in TRUTH
        }
        frozen = ta.from_torch(net, oscillator, parameters, points=points)
        audit = ta.audit(frozen, resolution=resolution, data=readings, tolerance=tolerance)
        true, prefers = position(frozen.points[:, 0], **TRUTH), audit.scan.minimum
        error = 100 * np.linalg.norm(frozen.field - true) / np.linalg.norm(true)
        print(
            f"{seed:4}  {'log mu, log k' if logarithmic else 'mu, k':13} {error:8.1f}%"
            f"{found['mu']:8.2f}{prefers['mu']:11.2f}{found['k']:8.1f}{prefers['k']:11.1f}  "
            f"{audit.route}" + (f"\n\n{audit}\n" if seed == options.seeds[0] else "")
        )
if options.steps < 10_000:
    print(f"\nAfter {options.steps} steps these numbers are not meaningful: use --steps 20000.")
