"""
Delivered, preferred and matched values
=======================================

:func:`~twoaxis.plots.plot_forest` has one row per parameter, in percent of its center, with the
interval that the data allow.
"""

import numpy as np

import twoaxis as ta

t = np.linspace(0, 2, 30)


def temperature(k, s):
    """Newton cooling with a heater: u_t = s - k u, from u = 1."""
    return s / k + (1 - s / k) * np.exp(-k * t)


readings = temperature(1.0, 0.3) + 0.01 * np.random.default_rng(0).standard_normal(30)
u = temperature(1.2, 0.4)  # the learned field
u_t = 0.4 - 1.2 * u + 0.02 * np.sin(7 * t)
known = {
    "k": ta.Parameter(truth=1.0, delivered=1.2, bounds=(0.2, 5.0)),
    "s": ta.Parameter(truth=0.3, delivered=0.4, bounds=(0.05, 2.0)),
}
audit = ta.audit(
    lambda k, s: u_t + k * u - s,
    known,
    ta.views.Pointwise(),
    points=t,
    resolution=ta.resolve(temperature, known, noise=0.01, replicas=50),
    data=readings,
    fitted=u,
    tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
)

ta.plots.plot_forest(audit)
