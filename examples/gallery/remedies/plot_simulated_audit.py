"""
The bias of a training without a truth
======================================

:func:`~twoaxis.plots.plot_simulated_audit` draws what your own training returns for data that were
simulated at a known value. See :doc:`/howto/simulated-audit`.
"""

import numpy as np

import twoaxis as ta

t = np.linspace(0, 5, 40)


def simulate(k):
    return np.exp(-k * t)


def pipeline(values, _seed):
    """Stand for your training: it returns a field that decays too fast, and what it prefers."""
    rate = -1.15 * np.polyfit(t[:15], np.log(np.clip(values[:15], 0.01, None)), 1)[0]
    known = {"k": ta.Parameter(delivered=rate, bounds=(0.1, 4.0))}
    u = np.exp(-rate * t)
    return ta.FrozenResidual(lambda k: (k - rate) * u, known, t, view=ta.views.Pointwise())


known = {"k": ta.Parameter(delivered=0.93, bounds=(0.1, 4.0))}
found = ta.simulated_audit(pipeline, simulate, known, noise=0.02)

ta.plots.plot_simulated_audit(found)
