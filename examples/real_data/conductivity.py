"""A rod whose conductivity varies along it: the function k(x) from sixty temperatures.

Heat is produced evenly in a rod with cold ends, (k u')' + f = 0. The network has two outputs, the
temperature u and the flux q = -k u', so that the equation needs no derivative of k. The values of
k on seven nodes are trained with it, with a small penalty on bends of the function.
"""

import numpy as np
import torch
from common import Field, slopes, train

import twoaxis as ta

source, noise, nodes = 10.0, 0.005, np.linspace(0, 1, 7)
sites, middle = np.linspace(0.01, 0.99, 60), np.linspace(0, 1, 1201)[1::2]


def simulate(k):
    """Temperatures (..., 60): the flux is f x - c, and c makes the second end cold, too."""
    resistance = 1 / k(middle)
    c = source * (resistance @ middle) / resistance.sum(-1)
    slope = (np.expand_dims(c, -1) - source * middle) * resistance
    ends = np.cumsum(slope, axis=-1) / len(middle)  # at the end of each of 600 pieces
    return np.apply_along_axis(lambda u: np.interp(sites, middle + 1 / 1200, u), -1, ends)


def truth(x):
    return 1 + 0.6 * x - 0.8 * x**2


data = simulate(truth) + noise * np.random.default_rng(11).standard_normal(60)

observed, readings = torch.tensor(sites)[:, None], torch.tensor(data)
points = torch.linspace(0, 1, 120)[:, None].requires_grad_(True)
cold = torch.tensor([[0.0], [1.0]])
hats = torch.tensor(np.stack([np.interp(np.linspace(0, 1, 120), nodes, e) for e in np.eye(7)], 1))


def equations(model, x, k):
    u, q = model(x).T
    return q + k * slopes(u, x)[:, 0], slopes(q, x)[:, 0] - source


def loss(model, **values):
    k = torch.stack(list(values.values()))
    of_data = ((model(observed)[:, 0] - readings) ** 2).mean() + (model(cold)[:, 0] ** 2).mean()
    first, second = equations(model, points, hats @ k)
    bends = k.log().diff(n=2)
    return of_data / noise**2 + 1e3 * (first**2 + second**2).mean() + 10 * (bends**2).mean()


def audit(steps=500):
    net = Field(low=[0.0], high=[1.0], size=[1.0, source / 2])
    delivered, history = train(net, loss, {f"k[{node:g}]": 1.0 for node in nodes}, steps)
    k = ta.UnknownFunction(nodes=nodes, bounds=(0.1, 10.0), delivered=list(delivered.values()))
    resolution = ta.resolve(simulate, {"k": k}, noise, replicas=50, vectorized=True, progress=False)
    frozen = ta.from_torch(
        net,
        lambda model, x, k: equations(model, x, k(x[:, 0])),
        {"k": k},
        points=points,
        observed=observed,
        field=lambda model, x: model(x)[:, :1],
        axes=("x",),
    )
    return ta.audit(
        frozen,
        resolution=resolution,
        data=data,
        history=history,
        tolerance=ta.Tolerance(material=10.0, resolution=10.0, preference=10.0),
        about={"problem": "conductivity of a rod", "data": "60 temperatures"},
    )


if __name__ == "__main__":
    found = audit()
    print(found)
    found.to_html("conductivity.html")
