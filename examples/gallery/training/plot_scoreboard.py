"""
Training methods side by side
=============================

:func:`~twoaxis.plots.plot_scoreboard` draws, for each method, its error, the displacement of its
fields and its delivery gap beside the matched error, which no method can be expected to beat. These
runs are far too short to be of use. See :doc:`/scoreboard` for a board of whole trainings.
"""

import twoaxis as ta

board = ta.compare_methods(
    "burgers", ["adam", "rba"], seeds=range(2), layouts=2, steps=100, replicas=20, progress=False
)

ta.plots.plot_scoreboard(board)
