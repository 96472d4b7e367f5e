"""
Simulated estimates over the candidates
=======================================

:func:`~twoaxis.plots.plot_calibration` draws what a pipeline returns for data that were simulated
at each candidate. The pipeline is biased: the dots do not lie on the diagonal.
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
calibration = ta.calibrate(
    pipeline, simulate, known, noise=0.02, interval=(0.4, 1.6), candidates=9, replicas=39
)

ta.plots.plot_calibration(calibration)
