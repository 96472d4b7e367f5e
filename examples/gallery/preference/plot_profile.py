"""
The frozen profile
==================

:func:`~twoaxis.plots.plot_profile` draws the residual loss while the field is held fixed and only
the parameter varies. Its minimum is the value that the field prefers. See
:doc:`/concepts/preference`.
"""

import numpy as np

import twoaxis as ta

# Heat in a bar, u_t = kappa u_xx with kappa = 0.1. The learned field has an error near x = 0.7.
points = np.random.default_rng(0).uniform([0, 0], [1, 1], (1500, 2))
x, time = points.T
bump = 0.05 * np.exp(-(((x - 0.7) / 0.08) ** 2))
u = np.exp(-0.1 * np.pi**2 * time) * np.sin(np.pi * x) + bump
u_t = -0.1 * np.pi**2 * (u - bump)
u_xx = -(np.pi**2) * (u - bump) + bump * (4 * (x - 0.7) ** 2 / 0.08**4 - 2 / 0.08**2)
known = {"kappa": ta.Parameter(truth=0.1, delivered=0.09, bounds=(0.01, 1.0))}
frozen = ta.FrozenResidual(
    lambda kappa: u_t - kappa * u_xx,
    known,
    points,
    view=ta.views.Pointwise(),
    axes=("x", "t"),
    field=u,
    field_name="u",
)
scan = ta.frozen_scan(frozen)

ta.plots.plot_profile(scan)
