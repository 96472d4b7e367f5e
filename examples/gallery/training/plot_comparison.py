"""
Several retrainings
===================

:func:`~twoaxis.plots.plot_comparison` draws delivered and preferred values of several audits. What
they share is due to data, view and method; the spread is due to training.
"""

import numpy as np

import twoaxis as ta

t = np.linspace(0, 5, 40)


def retrained(seed):
    """Return the audit of one retraining: the same field with another ripple."""
    phase = np.random.default_rng(seed).uniform(0, 6)
    u = 1.02 * np.exp(-0.9 * t) + 0.01 * np.sin(4 * t + phase)
    u_t = -0.918 * np.exp(-0.9 * t) + 0.04 * np.cos(4 * t + phase)
    delivered = 0.93 + 0.01 * np.cos(phase)
    known = {"k": ta.Parameter(truth=0.8, delivered=delivered, bounds=(0.1, 4.0))}
    return ta.audit(lambda k: u_t + k * u, known, ta.views.Pointwise(), points=t)


comparison = ta.compare([retrained(seed) for seed in range(8)])

ta.plots.plot_comparison(comparison)
