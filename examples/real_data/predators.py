"""Predators and prey: the four rates of Lotka and Volterra from counts of both."""

import numpy as np
import torch
from common import Field, integrate, slopes, train

import twoaxis as ta

years, noise, start = np.linspace(0, 12, 60), 0.05, (1.0, 0.5)


def simulate(growth, capture, gain, death):
    """Prey and predators, shape (..., 60, 2)."""
    return integrate(
        lambda u, v: (growth * u - capture * u * v, gain * u * v - death * v), start, years
    )


truth = {"growth": 0.8, "capture": 1.0, "gain": 0.7, "death": 0.6}
data = simulate(**truth) + noise * np.random.default_rng(4).standard_normal((60, 2))

observed, readings = torch.tensor(years)[:, None], torch.tensor(data)
points = torch.linspace(0, 12, 150)[:, None].requires_grad_(True)


def residual(model, t, growth, capture, gain, death):
    u, v = model(t).T
    return (
        slopes(u, t)[:, 0] - growth * u + capture * u * v,
        slopes(v, t)[:, 0] - gain * u * v + death * v,
    )


def loss(model, **rates):
    misfit = (model(observed) - readings) / noise
    begin = (model(points[:1]) - torch.tensor(start)) / noise
    first, second = residual(model, points, **rates)
    return (misfit**2).mean() + (begin**2).mean() + 1e4 * (first**2 + second**2).mean()


def audit(steps=600):
    net = Field(low=[0.0], high=[12.0], size=[1.0, 1.0])
    delivered, history = train(net, loss, dict.fromkeys(truth, 0.5), steps)
    parameters = {
        name: ta.Parameter(delivered=value, bounds=(0.1, 5.0), unit="per year")
        for name, value in delivered.items()
    }
    resolution = ta.resolve(simulate, parameters, noise, replicas=50, progress=False)
    return ta.audit(
        ta.from_torch(
            net,
            residual,
            parameters,
            points=points,
            observed=observed,
            axes=("t",),
            fields=("prey", "predators"),
        ),
        resolution=resolution,
        data=data,
        history=history,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "Lotka-Volterra", "data": "60 counts of both"},
    )


if __name__ == "__main__":
    found = audit()
    print(found)
    found.to_html("predators.html")
