"""
Errors of many runs
===================

:func:`~twoaxis.plots.plot_runs` draws one dot per run of the training engine. These runs are far
too short to be of use: the study trains for 5,000 steps. See :doc:`/howto/train-many`.
"""

import twoaxis as ta

runs = ta.train("burgers", datasets=[8, 9], seeds=range(5), steps=100, residual_points=500)

ta.plots.plot_runs(runs)
