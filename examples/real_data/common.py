"""What these examples share: a small network, its training, and a solver of ordinary equations."""

import math

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)  # enough for networks of this size


class Field(torch.nn.Module):
    """A network with two hidden layers on a box, with outputs of the size of the data."""

    def __init__(self, low, high, size, width=16, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        low, high = torch.tensor(low), torch.tensor(high)
        self.register_buffer("middle", (low + high) / 2)
        self.register_buffer("radius", (high - low) / 2)
        self.register_buffer("size", torch.tensor(size))
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(len(low), width), torch.nn.Tanh(),
            torch.nn.Linear(width, width), torch.nn.Tanh(),
            torch.nn.Linear(width, len(size)),
        )  # fmt: skip

    def forward(self, x):
        return self.size * self.layers((x - self.middle) / self.radius)


def slopes(u, x):
    """Derivatives of a field u (n,) with respect to the coordinates x (n, k)."""
    return torch.autograd.grad(u.sum(), x, create_graph=True)[0]


def train(model, loss, start, steps=500, adam=None):
    """Minimize loss(model, **parameters) over the weights and the logarithms of the parameters.

    By L-BFGS, or by Adam with a learning rate. Returns the delivered values and the history.
    """
    logs = {n: torch.tensor(math.log(v), requires_grad=True) for n, v in start.items()}
    unknown = [*model.parameters(), *logs.values()]
    every = 10
    if adam is None:
        optimizer = torch.optim.LBFGS(
            unknown, max_iter=every, history_size=50, line_search_fn="strong_wolfe",
            tolerance_grad=1e-12, tolerance_change=1e-15,
        )  # fmt: skip
    else:
        optimizer = torch.optim.Adam(unknown, lr=adam)

    def closure():
        optimizer.zero_grad()
        value = loss(model, **{n: q.exp() for n, q in logs.items()})
        value.backward()
        return value

    history = {"step": [], "loss": [], **{n: [] for n in logs}}
    for step in range(every, steps + 1, every):
        for _ in range(1 if adam is None else every):
            value = optimizer.step(closure)
        history["step"].append(step)
        history["loss"].append(value.item())
        for name, q in logs.items():
            history[name].append(math.exp(q.item()))
    return {n: history[n][-1] for n in logs}, history


def integrate(rate, start, times, substeps=4):
    """Solve y' = rate(*y) by Runge-Kutta of order four; returns the fields (..., times, fields).

    Entries of `start` and parameters inside of `rate` may be vectors (B,), for B solutions at once.
    """
    y = np.array(np.broadcast_arrays(*start, *rate(*start))[: len(start)], dtype=float)
    found = [y]
    for step in np.diff(times) / substeps:
        for _ in range(substeps):
            a = np.array(rate(*y))
            b = np.array(rate(*(y + step / 2 * a)))
            c = np.array(rate(*(y + step / 2 * b)))
            y = y + step / 6 * (a + 2 * b + 2 * c + np.array(rate(*(y + step * c))))
        found.append(y)
    return np.moveaxis(np.array(found), (0, 1), (-2, -1))
