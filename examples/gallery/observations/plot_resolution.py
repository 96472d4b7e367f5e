"""
What the observations resolve
=============================

:func:`~twoaxis.plots.plot_resolution` draws the fits of 1000 simulated datasets of the Burgers
benchmark, and the normal distribution that the Fisher information predicts. See
:doc:`/concepts/resolution`.
"""

import twoaxis as ta

resolution = ta.resolve("burgers", layouts=[8], replicas=1000)

ta.plots.plot_resolution(resolution)
