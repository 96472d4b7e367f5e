"""An epidemic: infection rate and recovery rate of an SIR model, from two noisy curves.

Shares of susceptible and infected people are reported on forty days. A network for both curves and
the two rates are trained together, once well and in two bad ways:

- "weak data": the weight of the data in the loss is far too small;
- "wrong unit": the time derivative is scaled for a season of 50 days, not 60. The field is perfect,
  its residual is small, and both rates are 20% too large.

The audit knows no truth.
"""

import numpy as np
import torch
from common import Field, integrate, slopes, train

import twoaxis as ta

days, noise, start = np.linspace(0, 60, 40), 0.02, (0.98, 0.02)


def simulate(beta, gamma):
    """Susceptible and infected shares, shape (..., 40, 2)."""
    return integrate(lambda s, i: (-beta * s * i, beta * s * i - gamma * i), start, days)


truth = {"beta": 0.40, "gamma": 0.10}  # what nobody knows
data = simulate(**truth) + noise * np.random.default_rng(0).standard_normal((40, 2))

observed, readings = torch.tensor(days)[:, None], torch.tensor(data)
points = torch.linspace(0, 60, 100)[:, None].requires_grad_(True)


def equations(model, t, beta, gamma, unit=1.0):
    s, i = model(t).T
    return (
        unit * slopes(s, t)[:, 0] + beta * s * i,
        unit * slopes(i, t)[:, 0] - beta * s * i + gamma * i,
    )


# Weights of the data and of the equations in the loss, and the unit of the time derivative.
RUNS = {
    "balanced": (1.0, 1e4, 1.0),
    "weak data": (1e-7, 1e4, 1.0),
    "wrong unit": (1.0, 1e4, 1.2),
}


def audit(run="balanced"):
    of_data, of_equations, unit = RUNS[run]

    def residual(model, t, beta, gamma):
        return equations(model, t, beta, gamma, unit)

    def loss(model, beta, gamma):
        misfit = (model(observed) - readings) / noise
        begin = (model(points[:1]) - torch.tensor(start)) / noise
        first, second = residual(model, points, beta, gamma)
        return (
            of_data * ((misfit**2).mean() + (begin**2).mean())
            + of_equations * (first**2 + second**2).mean()
        )

    net = Field(low=[0.0], high=[60.0], size=[1.0, 1.0])
    delivered, history = train(net, loss, {"beta": 0.8, "gamma": 0.2}, steps=300)
    parameters = {
        "beta": ta.Parameter(delivered=delivered["beta"], bounds=(0.05, 2.0), unit="per day"),
        "gamma": ta.Parameter(delivered=delivered["gamma"], bounds=(0.01, 1.0), unit="per day"),
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
            fields=("S", "I"),
        ),
        resolution=resolution,
        data=data,
        history=history,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "SIR epidemic", "data": "40 days", "method": f"{run}, L-BFGS"},
    )


if __name__ == "__main__":
    for run in RUNS:
        found = audit(run=run)
        print(f"{run}:\n{found.answer}\n")
        found.to_html(f"sir_{run.replace(' ', '_')}.html")
