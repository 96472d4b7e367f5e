"""
A confidence set for the delivered value
========================================

:func:`~twoaxis.plots.plot_confidence_set`: a candidate belongs to the set if the delivered value
is not unusual for it. See :doc:`/howto/confidence-set`.
"""

import numpy as np

import twoaxis as ta

t = np.linspace(0, 5, 40)


def simulate(k):
    return np.exp(-k * t)


def pipeline(values, _seed):
    """Stand for your training: a straight line through log values, which noise biases."""
    slope = np.polyfit(t, np.log(np.clip(values, 0.01, None)), 1)[0]
    return -slope


known = {"k": ta.Parameter(delivered=0.62, bounds=(0.1, 4.0))}
found = ta.confidence_set(
    pipeline,
    simulate,
    known,
    noise=0.02,
    estimate=0.62,
    interval=(0.4, 1.6),
    candidates=9,
    replicas=39,
    refine=1,
)

ta.plots.plot_confidence_set(found)
