"""Heat in a bar: the diffusivity from five sensors whose noise nobody knows.

Each sensor reports a temperature at thirty times. The noise is estimated from the matched fit, and
everything else of the audit uses that estimate.
"""

import numpy as np
import torch
from common import Field, slopes, train

import twoaxis as ta

sensors, times = np.linspace(0.1, 0.9, 5), np.linspace(0.01, 1.0, 30)
sites = np.stack(np.meshgrid(sensors, times, indexing="ij"), axis=-1).reshape(-1, 2)


def temperature(xt, kappa):
    """Solution of u_t = kappa u_xx from u = sin(pi x) + sin(2 pi x) / 2, with cold ends."""
    x, t = xt.T
    first = np.exp(-(np.pi**2) * kappa * t) * np.sin(np.pi * x)
    return first + 0.5 * np.exp(-4 * np.pi**2 * kappa * t) * np.sin(2 * np.pi * x)


truth = {"kappa": 0.10}
data = temperature(sites, **truth) + 0.02 * np.random.default_rng(7).standard_normal(len(sites))

observed, readings = torch.tensor(sites), torch.tensor(data)
points = torch.tensor(np.random.default_rng(2).random((300, 2)), requires_grad=True)
edge = np.array(
    [(x, t) for x in (0.0, 1.0) for t in np.linspace(0, 1, 15)]  # both ends
    + [(x, 0.0) for x in np.linspace(0, 1, 15)]  # and the beginning
)
edge, on_edge = torch.tensor(edge), torch.tensor(temperature(edge, kappa=1.0))


def residual(model, xt, kappa):
    first = slopes(model(xt)[:, 0], xt)
    return first[:, 1] - kappa * slopes(first[:, 0], xt)[:, 0]


def loss(model, kappa):
    of_data = ((model(observed)[:, 0] - readings) ** 2).mean()
    of_edge = ((model(edge)[:, 0] - on_edge) ** 2).mean()
    return of_data + of_edge + 0.1 * (residual(model, points, kappa) ** 2).mean()


def audit(steps=500):
    net = Field(low=[0.0, 0.0], high=[1.0, 1.0], size=[1.0])
    delivered, history = train(net, loss, {"kappa": 0.5}, steps)
    parameters = {"kappa": ta.Parameter(delivered=delivered["kappa"], bounds=(0.01, 1.0))}
    resolution = ta.resolve(
        lambda kappa: temperature(sites, kappa), parameters, data=data, points=sites, progress=False
    )
    return ta.audit(
        ta.from_torch(
            net,
            residual,
            parameters,
            points=points,
            observed=observed,
            axes=("x", "t"),
            fields=("u",),
        ),
        resolution=resolution,
        history=history,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "heat in a bar", "data": "5 sensors, unknown noise"},
    )


if __name__ == "__main__":
    found = audit()
    print(found)
    found.to_html("heat.html")
