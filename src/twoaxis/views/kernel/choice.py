"""Grid or all pairs: whichever is faster in linear memory."""

from __future__ import annotations

from twoaxis.views.checks import FloatArray
from twoaxis.views.kernel.grid import GridKernel
from twoaxis.views.kernel.kernel import Kernel
from twoaxis.views.kernel.layout import layout_for
from twoaxis.views.kernel.pairs import PairKernel


def gaussian_kernel(coordinates: FloatArray, bandwidth: float) -> Kernel:
    """Return the kernel at points of the unit box (N, k) as an operator."""
    layout = layout_for(coordinates, bandwidth)
    if layout.pays(len(coordinates)):
        return GridKernel(coordinates, layout)
    return PairKernel(coordinates, bandwidth)
