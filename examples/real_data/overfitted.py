"""A drug that is eliminated from the blood, and a network that follows every reading.

Twenty-five readings, a network with more weights than it needs, and an equation with almost no
weight in the loss: the curve runs through the noise, and its slope is not that of the drug.
"""

import numpy as np
import torch
from common import Field, slopes, train

import twoaxis as ta

hours, noise, dose = np.linspace(0.5, 12, 25), 0.05, 2.0


def simulate(rate):
    """The concentration at the times of the readings."""
    return dose * np.exp(-rate * hours)


truth = {"rate": 0.25}
data = simulate(**truth) + noise * np.random.default_rng(10).standard_normal(25)

observed, readings = torch.tensor(hours)[:, None], torch.tensor(data)
points = torch.linspace(0, 12, 100)[:, None].requires_grad_(True)


def residual(model, t, rate):
    c = model(t)[:, 0]
    return slopes(c, t)[:, 0] + rate * c


def audit(weight=1e-4, steps=600):
    def loss(model, rate):
        misfit = (model(observed)[:, 0] - readings) / noise
        return (misfit**2).mean() + weight * (residual(model, points, rate) ** 2).mean()

    net = Field(low=[0.0], high=[12.0], size=[dose], width=30)
    delivered, history = train(net, loss, {"rate": 1.0}, steps)
    parameters = {"rate": ta.Parameter(delivered=delivered["rate"], bounds=(0.02, 3.0))}
    resolution = ta.resolve(simulate, parameters, noise, progress=False)
    return ta.audit(
        ta.from_torch(
            net,
            residual,
            parameters,
            points=points,
            observed=observed,
            axes=("t",),
            fields=("c",),
        ),
        resolution=resolution,
        data=data,
        history=history,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "elimination of a drug", "data": "25 readings"},
    )


if __name__ == "__main__":
    found = audit()
    print(found)
    found.to_html("overfitted.html")
