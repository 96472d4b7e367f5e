"""A bar that loses heat to the room, and a model that does not know it.

The data come from u_t = kappa u_xx - h u; network and simulator both leave h u out. The matched fit
converges to some kappa all the same, and its residuals tell.
"""

import numpy as np
import torch
from common import Field, train
from heat import edge, on_edge, points, residual, sites, temperature

import twoaxis as ta

truth, loss_rate, noise = {"kappa": 0.10}, 0.3, 0.02
data = np.exp(-loss_rate * sites[:, 1]) * temperature(sites, **truth)
data = data + noise * np.random.default_rng(8).standard_normal(len(sites))

observed, readings = torch.tensor(sites), torch.tensor(data)


def loss(model, kappa):
    of_data = ((model(observed)[:, 0] - readings) ** 2).mean()
    of_edge = ((model(edge)[:, 0] - on_edge) ** 2).mean()
    return of_data + of_edge + 0.1 * (residual(model, points, kappa) ** 2).mean()


def audit(steps=300):
    net = Field(low=[0.0, 0.0], high=[1.0, 1.0], size=[1.0])
    delivered, history = train(net, loss, {"kappa": 0.5}, steps)
    parameters = {"kappa": ta.Parameter(delivered=delivered["kappa"], bounds=(0.01, 1.0))}
    resolution = ta.resolve(
        lambda kappa: temperature(sites, kappa), parameters, noise, points=sites, progress=False
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
        data=data,
        history=history,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "heat in a bar that is not insulated"},
    )


if __name__ == "__main__":
    found = audit()
    print(found)
    found.to_html("wrong_simulator.html")
