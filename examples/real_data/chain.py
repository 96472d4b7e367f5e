"""A reaction chain A -> B -> C: two rates, and an initial amount that nobody measured.

B and C are observed. The initial amount of A is a nuisance parameter that the simulator alone has:
the network learns the field of A by itself and needs no such number.
"""

import numpy as np
import torch
from common import Field, integrate, slopes, train

import twoaxis as ta

hours, noise = np.linspace(0, 10, 50), 0.02


def simulate(k1, k2, amount):
    """B and C, shape (..., 50, 2)."""
    found = integrate(lambda a, b, _: (-k1 * a, k1 * a - k2 * b, k2 * b), (amount, 0.0, 0.0), hours)
    return found[..., 1:]


truth = {"k1": 0.9, "k2": 0.35}
data = simulate(**truth, amount=1.3) + noise * np.random.default_rng(5).standard_normal((50, 2))

observed, readings = torch.tensor(hours)[:, None], torch.tensor(data)
points = torch.linspace(0, 10, 120)[:, None].requires_grad_(True)


def residual(model, t, k1, k2):
    a, b, c = model(t).T
    return (
        slopes(a, t)[:, 0] + k1 * a,
        slopes(b, t)[:, 0] - k1 * a + k2 * b,
        slopes(c, t)[:, 0] - k2 * b,
    )


def loss(model, k1, k2):
    misfit = (model(observed)[:, 1:] - readings) / noise
    start = model(points[:1])[:, 1:] / noise  # neither B nor C at the beginning
    equations = sum((each**2).mean() for each in residual(model, points, k1, k2))
    return (misfit**2).mean() + (start**2).mean() + 1e4 * equations


def audit(steps=400):
    net = Field(low=[0.0], high=[10.0], size=[1.0, 1.0, 1.0])
    delivered, history = train(net, loss, {"k1": 0.5, "k2": 0.5}, steps)
    rates = {
        name: ta.Parameter(delivered=value, bounds=(0.05, 5.0), unit="per hour")
        for name, value in delivered.items()
    }
    amount = ta.Parameter(start=1.0, bounds=(0.2, 5.0), nuisance=True)
    resolution = ta.resolve(
        simulate, {**rates, "amount": amount}, noise, replicas=50, progress=False
    )
    frozen = ta.from_torch(
        net,
        residual,
        rates,
        points=points,
        observed=observed,
        field=lambda model, t: model(t)[:, 1:],
        axes=("t",),
        fields=("B", "C"),
    )
    return ta.audit(
        frozen,
        resolution=resolution,
        data=data,
        history=history,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "reaction chain", "data": "B and C, 50 times"},
    )


if __name__ == "__main__":
    found = audit()
    print(found)
    found.to_html("chain.html")
