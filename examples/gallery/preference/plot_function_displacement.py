"""
The displacement of a function
==============================

:func:`~twoaxis.plots.plot_function_displacement` draws to which side, and how far, the field would
move an unknown function.
"""

import numpy as np
from scipy.interpolate import make_smoothing_spline

import twoaxis as ta

# A rod with a source, -(k u')' = 10 with u = 0 at both ends; its conductivity k is a function of x.
edges = np.linspace(0, 1, 201)
middle = (edges[:-1] + edges[1:]) / 2
sites = np.linspace(0.0125, 0.9875, 40)


def temperature(k):
    resistance = 1 / k(middle)
    constant = (resistance * 10 * middle).sum(-1) / resistance.sum(-1)
    u = np.cumsum((constant[..., None] - 10 * middle) * resistance, axis=-1) / 200
    return np.stack([np.interp(sites, edges[1:], row) for row in np.atleast_2d(u)])


def truth(x):
    return 1 + 0.5 * x + 0.3 * np.sin(2 * np.pi * x)


readings = temperature(truth)[0] + 0.01 * np.random.default_rng(4).standard_normal(40)
u = make_smoothing_spline(np.r_[0, sites, 1], np.r_[0, readings, 0])  # the learned field
points = np.linspace(0.005, 0.995, 199)


def residual(k):
    return k.derivative(points) * u(points, 1) + k(points) * u(points, 2) + 10


delivered = [1.1, 1.3, 1.4, 1.3, 1.2, 1.2, 1.4]
known = {"k": ta.UnknownFunction(nodes=7, domain=(0, 1), bounds=(0.1, 10), delivered=delivered)}
score = ta.score(residual, known, ta.views.Pointwise(), points=points)

ta.plots.plot_function_displacement(score)
