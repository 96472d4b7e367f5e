"""
Field and parameter refined together
====================================

:func:`~twoaxis.plots.plot_refinement` draws the parameter while the weight of the equation grows,
with its final 95% interval. No solver is needed. See :doc:`/howto/refine`.
"""

import torch

import twoaxis as ta

torch.manual_seed(0)
t = torch.linspace(0, 2, 40, dtype=torch.float64)[:, None]
readings = torch.exp(-t) + 0.02 * torch.randn(40, 1, dtype=torch.float64)
net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()


def decay(model, t, rate):
    u = model(t)
    (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    return u_t + rate * u


def loss(model, rate):
    equation = decay(model, t.detach().requires_grad_(True), rate)
    return ((model(t) - readings) ** 2).mean() + (equation**2).mean()


rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([*net.parameters(), rate], lr=0.01)
for _ in range(200):  # stopped too early
    optimizer.zero_grad()
    loss(net, rate).backward()
    optimizer.step()
known = {"rate": ta.Parameter(truth=1.0, delivered=rate.item(), bounds=(0.1, 10.0))}
frozen = ta.from_torch(net, decay, known, points=t, observed=t)
found = ta.refine(frozen, readings.numpy().ravel(), noise=0.02)

ta.plots.plot_refinement(found)
