"""A nerve cell: two constants of FitzHugh and Nagumo, with one of the two fields hidden.

Only the voltage v is measured. The recovery w is known at the beginning alone, from a cell at rest.
"""

import numpy as np
import torch
from common import Field, integrate, slopes, train

import twoaxis as ta

times, noise, rest = np.linspace(0, 20, 60), 0.05, (-1.0, 1.0)


def simulate(a, epsilon):
    """The voltage at the sixty times."""
    return integrate(
        lambda v, w: (v - v**3 / 3 - w + 0.5, epsilon * (v + a - 0.8 * w)), rest, times
    )[..., 0]


truth = {"a": 0.7, "epsilon": 0.2}
data = simulate(**truth) + noise * np.random.default_rng(6).standard_normal(60)

observed, readings = torch.tensor(times)[:, None], torch.tensor(data)
points = torch.linspace(0, 20, 150)[:, None].requires_grad_(True)


def residual(model, t, a, epsilon):
    v, w = model(t).T
    return (
        slopes(v, t)[:, 0] - v + v**3 / 3 + w - 0.5,
        slopes(w, t)[:, 0] - epsilon * (v + a - 0.8 * w),
    )


def loss(model, a, epsilon):
    misfit = (model(observed)[:, 0] - readings) / noise
    start = (model(points[:1]) - torch.tensor(rest)) / noise
    first, second = residual(model, points, a, epsilon)
    return (misfit**2).mean() + (start**2).mean() + 1e3 * (first**2 + second**2).mean()


def audit(steps=500):
    net = Field(low=[0.0], high=[20.0], size=[1.0, 1.0])
    delivered, history = train(net, loss, {"a": 1.0, "epsilon": 0.1}, steps)
    parameters = {
        "a": ta.Parameter(delivered=delivered["a"], bounds=(0.2, 2.0)),
        "epsilon": ta.Parameter(delivered=delivered["epsilon"], bounds=(0.05, 0.8)),
    }
    resolution = ta.resolve(simulate, parameters, noise, replicas=50, progress=False)
    frozen = ta.from_torch(
        net,
        residual,
        parameters,
        points=points,
        observed=observed,
        field=lambda model, t: model(t)[:, :1],
        axes=("t",),
        fields=("v",),
    )
    return ta.audit(
        frozen,
        resolution=resolution,
        data=data,
        history=history,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "FitzHugh-Nagumo", "data": "the voltage alone"},
    )


if __name__ == "__main__":
    found = audit()
    print(found)
    found.to_html("neuron.html")
