"""
The parameter along training
============================

:func:`~twoaxis.plots.plot_along_training` draws the parameter and the value that the field of each
step prefers. The band between them is the delivery gap. See :doc:`/howto/follow-a-training`.
"""

import numpy as np

import twoaxis as ta

t = np.linspace(0, 5, 40)


def field_at(step):
    """Return the frozen field and the parameter after some steps of a training."""
    preferred = 0.9 - 0.4 * np.exp(-step / 800)  # the field learns first
    delivered = 0.9 - 0.7 * np.exp(-step / 1500)  # the parameter follows
    u = np.exp(-preferred * t)
    known = {"k": ta.Parameter(truth=0.8, delivered=delivered, bounds=(0.1, 4.0))}
    return ta.FrozenResidual(lambda k: (k - preferred) * u, known, t, view=ta.views.Pointwise())


snapshots = ta.follow([(step, field_at(step)) for step in range(0, 6001, 300)])

ta.plots.plot_along_training(snapshots)
