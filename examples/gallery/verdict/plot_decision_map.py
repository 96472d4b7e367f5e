"""
The decision map
================

:func:`~twoaxis.plots.plot_decision_map` puts each parameter at its two coordinates, with the
declared tolerances as lines. Its cell is the route. See :doc:`/concepts/two-axes`.
"""

import numpy as np

import twoaxis as ta

t = np.linspace(0, 5, 40)
readings = np.exp(-0.8 * t) + 0.02 * np.random.default_rng(3).standard_normal(40)
u, u_t = 1.02 * np.exp(-0.9 * t), -0.918 * np.exp(-0.9 * t)  # the learned field at the points t
known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
audit = ta.audit(
    lambda k: u_t + k * u,
    known,
    ta.views.Pointwise(),
    points=t,
    resolution=ta.resolve(lambda k: np.exp(-k * t), known, noise=0.02, points=t[:, None]),
    data=readings,
    fitted=u,
    tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
)

ta.plots.plot_decision_map(audit)
