"""An enzyme: both constants of Michaelis and Menten from one progress curve.

The substrate is consumed at the rate Vmax s / (Km + s). The run begins far above Km and ends far
below it, which is what makes both constants visible.
"""

import numpy as np
import torch
from common import Field, integrate, slopes, train

import twoaxis as ta

minutes, noise, first = np.linspace(0, 12, 60), 0.03, 5.0


def simulate(Vmax, Km):
    """Substrate at the sixty times."""
    return integrate(lambda s: (-Vmax * s / (Km + s),), (first,), minutes)[..., 0]


truth = {"Vmax": 0.8, "Km": 0.6}
data = simulate(**truth) + noise * np.random.default_rng(3).standard_normal(60)

observed, readings = torch.tensor(minutes)[:, None], torch.tensor(data)
points = torch.linspace(0, 12, 120)[:, None].requires_grad_(True)


def residual(model, t, Vmax, Km):
    s = model(t)[:, 0]
    return (Km + s) * slopes(s, t)[:, 0] + Vmax * s


def loss(model, Vmax, Km):
    misfit = (model(observed)[:, 0] - readings) / noise
    start = (model(points[:1]) - first) / noise  # what was put in is known
    return (
        (misfit**2).mean()
        + (start**2).mean()
        + 1e4 * (residual(model, points, Vmax, Km) ** 2).mean()
    )


def audit(steps=400):
    net = Field(low=[0.0], high=[12.0], size=[first])
    delivered, history = train(net, loss, {"Vmax": 2.0, "Km": 2.0}, steps)
    parameters = {
        "Vmax": ta.Parameter(delivered=delivered["Vmax"], bounds=(0.1, 10.0), unit="mM/min"),
        "Km": ta.Parameter(delivered=delivered["Km"], bounds=(0.05, 10.0), unit="mM"),
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
            fields=("s",),
        ),
        resolution=resolution,
        data=data,
        history=history,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "Michaelis-Menten", "data": "one progress curve"},
    )


if __name__ == "__main__":
    found = audit()
    print(found)
    found.to_html("enzyme.html")
