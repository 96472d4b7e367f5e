r"""Where the grid of Gaussians lies, and what it costs.

The Gaussian kernel is an integral of products of narrower Gaussians,

.. math:: e^{-(x-y)^2 / 2\sigma^2} = \frac{1}{\sigma} \sqrt{\frac{2}{\pi}}
          \int e^{-(x-g)^2/\sigma^2}\, e^{-(y-g)^2/\sigma^2}\, dg ,

and the integrand is itself a Gaussian in ``g`` with standard deviation ``sigma / 2``. The
trapezoidal rule with spacing ``h`` on such a function errs by ``2 exp(-pi^2 sigma^2 / 2 h^2)``
of the integral, which ``h = 0.375 sigma`` makes 1e-15. So with ``m`` grid points an axis
the kernel matrix is a product, ``K = c Phi Phi^T`` with ``Phi[n, g] = exp(-|x_n - g|^2 /
sigma^2)``: separable over the axes, all terms positive, semidefinite by construction.

The grid reaches 4.2 sigma beyond the points, where the integrand has fallen to
``exp(-2 * 4.2^2)``, below 1e-15; and a point touches the grid only within 5.9 sigma, where
``exp(-5.9^2)`` is below 1e-15 too. With rounding, an entry of K is good to 1e-14.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from twoaxis.views.checks import FloatArray

# In bandwidths: spacing of the grid, its margin around the points, reach of a point.
SPACING = 0.375
MARGIN = 4.2
REACH = 5.9

# Points are handled box by box, so that those of a box share a small part of the grid. A
# box is two bandwidths wide, or as wide as holds this many points on average.
BOX_BANDWIDTHS = 2.0
BOX_POINTS = 128

# One kernel entry costs about as much as this many multiplications of the two passes over
# the grid (measured: 6 to 12 ns against 0.1 to 0.2 ns).
ENTRY_COST = 50
# A grid of this many entries (32 MB) is small whatever N is; above it, one of at most this
# many times N keeps memory linear.
SMALL_GRID = 2**22
GRID_PER_POINT = 16


@dataclass(frozen=True)
class Layout:
    """A uniform grid over the points of a unit box, and boxes that divide the points.

    Attributes
    ----------
    bandwidth : float
        Standard deviation sigma of the kernel, in unit coordinates.
    spacing : float
        Distance between neighbours in the grid.
    origin : float
        Position of the first grid point along every axis.
    counts : tuple of int
        Grid points along each axis.
    boxes : tuple of int
        Boxes along each axis of the unit box.
    touched : tuple of float
        Grid points that a box of points touches along each axis.
    """

    bandwidth: float
    spacing: float
    origin: float
    counts: tuple[int, ...]
    boxes: tuple[int, ...]
    touched: tuple[float, ...]

    @property
    def size(self) -> int:
        """The number of grid points."""
        return math.prod(self.counts)

    @property
    def constant(self) -> float:
        """``c`` in ``K = c Phi Phi^T``."""
        return (self.spacing / self.bandwidth * math.sqrt(2 / math.pi)) ** len(self.counts)

    def pays(self, points: int) -> bool:
        """Tell whether the grid takes less time than all pairs, in linear memory."""
        fits = self.size <= max(SMALL_GRID, GRID_PER_POINT * points)
        return fits and math.prod(self.touched) <= ENTRY_COST * points


def layout_for(coordinates: FloatArray, bandwidth: float) -> Layout:
    """Return the grid for points of the unit box, shape (N, k)."""
    points, axes = coordinates.shape
    # 1, or 0 along an axis on which the points do not differ.
    extents = coordinates.max(axis=0).tolist()
    spacing = _short(SPACING * bandwidth)
    before = math.ceil(MARGIN * bandwidth / spacing)
    most_boxes = max(1, int((points / BOX_POINTS) ** (1 / axes)))
    boxes = tuple(
        max(1, min(most_boxes, int(extent / (BOX_BANDWIDTHS * bandwidth)))) for extent in extents
    )
    counts = tuple(before + math.ceil(extent / spacing) + before + 1 for extent in extents)
    touched = tuple(
        min(float(count), extent / box / spacing + 2 * REACH / SPACING + 2)
        for extent, box, count in zip(extents, boxes, counts, strict=True)
    )
    return Layout(bandwidth, spacing, -before * spacing, counts, boxes, touched)


def _short(number: float) -> float:
    """Round down to 16 binary digits.

    Multiples of such a spacing are exact, and so are their distances from nearby points;
    rounded ones would lose digits in proportion to one over the bandwidth.
    """
    fraction, exponent = math.frexp(number)
    return math.ldexp(math.floor(fraction * 2**16), exponent - 16)
