"""A culture that grows towards its capacity, and a training that was stopped too early.

The network follows the data after a short time, while the growth rate, which starts ten times too
large, is still on its way. The audit sees it in the history; without one, in the training loss,
which it continues for a few steps on a copy.
"""

import numpy as np
import torch
from common import Field, slopes, train

import twoaxis as ta

hours, noise, first = np.linspace(0, 12, 40), 0.02, 0.05


def simulate(rate, capacity):
    """The logistic curve from the inoculated amount."""
    rate, capacity = np.asarray(rate)[..., None], np.asarray(capacity)[..., None]
    return capacity / (1 + (capacity / first - 1) * np.exp(-rate * hours))


truth = {"rate": 0.8, "capacity": 1.2}
data = simulate(**truth) + noise * np.random.default_rng(9).standard_normal(40)

observed, readings = torch.tensor(hours)[:, None], torch.tensor(data)
points = torch.linspace(0, 12, 80)[:, None].requires_grad_(True)


def residual(model, t, rate, capacity):
    u = model(t)[:, 0]
    return slopes(u, t)[:, 0] - rate * u * (1 - u / capacity)


def loss(model, rate, capacity):
    misfit = (model(observed)[:, 0] - readings) / noise
    begin = (model(points[:1]) - first) / noise
    equation = residual(model, points, rate, capacity)
    return (misfit**2).mean() + (begin**2).mean() + 100 * (equation**2).mean()


def audit(known="history", steps=1500):
    net = Field(low=[0.0], high=[12.0], size=[1.0])
    delivered, history = train(net, loss, {"rate": 8.0, "capacity": 1.0}, steps, adam=2e-3)
    parameters = {
        "rate": ta.Parameter(delivered=delivered["rate"], bounds=(0.05, 20.0), unit="per hour"),
        "capacity": ta.Parameter(delivered=delivered["capacity"], bounds=(0.2, 5.0)),
    }
    resolution = ta.resolve(simulate, parameters, noise, replicas=50, progress=False)
    frozen = ta.from_torch(
        net,
        residual,
        parameters,
        points=points,
        observed=observed,
        axes=("t",),
        fields=("u",),
        loss=loss if known == "loss" else None,
    )
    return ta.audit(
        frozen,
        resolution=resolution,
        data=data,
        history=history if known == "history" else None,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "logistic growth", "method": f"Adam, {steps} steps"},
    )


if __name__ == "__main__":
    for known in ("history", "loss"):
        found = audit(known=known)
        print(f"{known}:\n{found.answer}\n")
        found.to_html(f"stopped_{known}.html")
