"""
Where to observe next
=====================

:func:`~twoaxis.plots.plot_sites` draws the best sites for new observations, and the error that
they are predicted to leave. See :doc:`/howto/improve-observations`.
"""

import twoaxis as ta

sites = ta.suggest_sites("burgers", 50)

ta.plots.plot_sites(sites)
