"""From a wrong parameter to the right one, without a solver: an epidemic, refined.

Shares of susceptible and infected people are observed on forty days. A network for both curves, the
infection rate beta and the recovery rate gamma are trained together, but the data have far too
little weight in the loss: the network obeys the equations of an SIR model with wrong rates.
Refinement carries a copy of the network to where the equations hold and the data are fitted to
their noise, and gives standard errors without a solver.
"""

import math

import numpy as np
import torch
from scipy.integrate import solve_ivp

import twoaxis as ta

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)  # enough for a network of this size
torch.manual_seed(0)
noise, truth, start = 0.02, (0.40, 0.10), (0.98, 0.02)


def rates(_, y, beta, gamma):
    return -beta * y[0] * y[1], beta * y[0] * y[1] - gamma * y[1]


days = np.linspace(0, 60, 40)
exact = solve_ivp(rates, (0, 60), start, t_eval=days, args=truth, rtol=1e-8, atol=1e-10).y.T
data = exact + noise * np.random.default_rng(0).standard_normal((40, 2))
observed, points = torch.tensor(days)[:, None], torch.linspace(0, 60, 100)[:, None]


class Epidemic(torch.nn.Sequential):
    def forward(self, t):
        return super().forward(t / 30 - 1)


def sir(model, t, beta, gamma):
    s, i = model(t).T
    ds, di = (torch.autograd.grad(u.sum(), t, create_graph=True)[0][:, 0] for u in (s, i))
    return ds + beta * s * i, di - beta * s * i + gamma * i


def initial(model):
    return (model(torch.zeros(1, 1)) - torch.tensor(start)).ravel()


net = Epidemic(
    torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh(),
    torch.nn.Linear(16, 2),
)  # fmt: skip
logs = torch.tensor([math.log(0.8), math.log(0.2)], requires_grad=True)
optimizer = torch.optim.LBFGS(
    [*net.parameters(), logs], max_iter=300, line_search_fn="strong_wolfe"
)


def loss():
    optimizer.zero_grad()
    equations = torch.stack(sir(net, points.requires_grad_(True), *logs.exp()))
    misfit = (net(observed) - torch.tensor(data)) / noise
    total = 1e4 * (equations**2).mean() + 1e-7 * (misfit**2).mean() + (initial(net) ** 2).mean()
    total.backward()
    return total


optimizer.step(loss)
known = {
    name: ta.Parameter(delivered=value, bounds=(0.01, 2.0), unit="per day")
    for name, value in zip(("beta", "gamma"), logs.exp().tolist(), strict=True)
}
frozen = ta.from_torch(net, sir, known, points=points, observed=observed, conditions=initial)
refined = ta.refine(frozen, data, noise=noise, progress=False)
print(f"{refined}\ntrusted: {refined.trusted}; truth: beta = {truth[0]}, gamma = {truth[1]}")
tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
for which in ("before", "after"):
    audit = ta.audit(refined, field=which, tolerance=tolerance, progress=False)
    print(f"\n{which}: {audit.route}\n{audit.answer}")
