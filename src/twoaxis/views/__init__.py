"""Residual views: which quadratic form turns a residual vector into a loss.

A *view* says how residuals are weighed against each other, ``loss(r) = r^T M r`` with ``M``
symmetric and positive semidefinite. It is a small description without points, such as
``Patch(cells=8)``; ``view.bind(points)`` makes it an operator on residual vectors at these
points, which never forms the N by N matrix unless asked.
"""

from __future__ import annotations

from twoaxis.views.blocks import Blocks
from twoaxis.views.dense import Dense
from twoaxis.views.gaussian import DEFAULT_BANDWIDTH, Gaussian
from twoaxis.views.patch import Patch
from twoaxis.views.pointwise import Pointwise
from twoaxis.views.view import BoundView, View
from twoaxis.views.weighted import Weighted

__all__ = [
    "DEFAULT_BANDWIDTH",
    "Blocks",
    "BoundView",
    "Dense",
    "Gaussian",
    "Patch",
    "Pointwise",
    "View",
    "Weighted",
]
