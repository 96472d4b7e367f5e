"""A conductivity that varies along a rod: what do forty readings say about the function k(x)?

Heat flows through a rod with a uniform source, -(k u')' = f, and both ends are held at zero. A
smoothing spline stands for the learned field u(x); the conductivity that "training" delivers is a
smooth one for which the spline satisfies the equation well. Where the temperature has its maximum
no heat flows, u' = 0, and the readings say little about k there.
"""

from pathlib import Path

import numpy as np
from scipy.interpolate import make_smoothing_spline

import twoaxis as ta

source, noise = 10.0, 0.01
edges = np.linspace(0, 1, 401)
middle = (edges[:-1] + edges[1:]) / 2
sites = np.linspace(0.0125, 0.9875, 40)


def temperature(k):
    """Integrate the flux k u' = c - f x; the constant c makes the other end zero, too."""
    resistance = 1 / k(middle)  # (400,), or (B, 400) for B functions at once
    constant = (resistance * source * middle).sum(-1) / resistance.sum(-1)
    slope = (constant[..., None] - source * middle) * resistance
    u = np.cumsum(slope, axis=-1) * (edges[1] - edges[0])
    return np.stack([np.interp(sites, edges[1:], row) for row in np.atleast_2d(u)])


def true_conductivity(x):
    """What nobody knows."""
    return 1 + 0.5 * x + 0.3 * np.sin(2 * np.pi * x)


# ---------------------------------------------------------------- the data, and the learned field

readings = temperature(true_conductivity)[0]
readings = readings + noise * np.random.default_rng(4).standard_normal(40)
x = np.r_[0.0, sites, 1.0]
u = make_smoothing_spline(x, np.r_[0.0, readings, 0.0])
points = np.linspace(0.005, 0.995, 199)
u_x, u_xx = u(points, 1), u(points, 2)


def residual(k):
    """(k u')' + f for the learned field."""
    return k.derivative(points) * u_x + k(points) * u_xx + source


# "Training": the residual as small as possible, with a penalty on bends of k.
nodes = np.linspace(0, 1, 9)
hats = np.stack([np.interp(points, nodes, one) for one in np.eye(9)], axis=1)
slopes = np.diff(np.eye(9), axis=0)[np.searchsorted(nodes, points) - 1] / (nodes[1] - nodes[0])
equation = slopes * u_x[:, None] + hats * u_xx[:, None]
bends = 10 * np.diff(np.eye(9), 2, axis=0)
right = np.r_[np.full(len(points), -source), np.zeros(len(bends))]
delivered = np.linalg.lstsq(np.vstack([equation, bends]), right)[0]

# ---------------------------------------------------------------- the diagnosis

parameters = {
    "k": ta.UnknownFunction(nodes=nodes, bounds=(0.1, 10), delivered=delivered, unit="W/(m K)")
}
resolution = ta.resolve(
    temperature,
    parameters,
    noise,
    replicas=50,
    points=sites[:, None],
    vectorized=True,
    progress=False,
)
band = resolution.function("k")
print(band, "\n")
print(ta.score(residual, parameters, ta.views.Pointwise(), points=points).function("k"), "\n")

audit = ta.audit(
    residual,
    parameters,
    ta.views.Pointwise(),
    points=points,
    resolution=resolution,
    data=readings,
    fitted=u(sites),
    tolerance=ta.Tolerance(material=10.0, resolution=10.0, preference=10.0),
)
print(audit)
audit.to_html(Path("unknown_function.html"))
ta.plots.plot_function(audit)

matched = audit.group("/matched")
low, high = matched["lower"].values, matched["upper"].values
print()
for word, values in (("truth", true_conductivity(nodes)), ("delivered value", delivered)):
    inside = int(((low <= values) & (values <= high)).sum())
    print(f"The {word} lies in the 95% interval of the matched fit at {inside} of 9 nodes.")
