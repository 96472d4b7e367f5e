r"""Interpolation on a tensor grid of Chebyshev nodes.

A smooth function on an interval is known almost everywhere from its values at

.. math:: q_i = \tfrac{a+b}{2} - \tfrac{b-a}{2}\cos\frac{i\pi}{n-1}, \qquad i = 0, \dots, n-1,

through the barycentric formula: the error falls geometrically with ``n`` for an analytic
function, and rounding does not grow. The Chebyshev coefficients of the samples tell how many
nodes are enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

FloatArray = NDArray[np.float64]


def nodes_between(low: float, high: float, count: int) -> FloatArray:
    """Return `count` Chebyshev nodes from `low` to `high`, both included.

    Examples
    --------
    >>> nodes_between(0.0, 1.0, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    # The sine form is symmetric to the last digit.
    angles = np.pi * np.arange(-(count - 1), count, 2) / (2 * (count - 1))
    nodes = (low + high) / 2 + (high - low) / 2 * np.sin(angles)
    nodes[0], nodes[-1] = low, high
    return nodes


@dataclass(frozen=True)
class TensorGrid:
    """Nodes along every coordinate, and interpolation between them.

    Attributes
    ----------
    nodes : tuple of arrays
        One array of rising nodes for each coordinate.

    Examples
    --------
    >>> grid = TensorGrid((nodes_between(-1.0, 1.0, 9),))
    >>> values = np.exp(grid.nodes[0])[:, None]
    >>> float(abs(grid.at(values, np.array([0.3]))[0] - np.exp(0.3))) < 1e-7
    True
    """

    nodes: tuple[FloatArray, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes along each coordinate."""
        return tuple(len(each) for each in self.nodes)

    def at(self, samples: FloatArray, where: FloatArray) -> FloatArray:
        """Interpolate samples (n_1, ..., n_d, N) at coordinates (d,); the result is (N,)."""
        return self._contract(samples, [self._row(j, q) for j, q in enumerate(where)])

    def slopes(self, samples: FloatArray, where: FloatArray) -> FloatArray:
        """Return the exact derivatives of the interpolant by the coordinates, (N, d)."""
        rows = [self._row(j, q) for j, q in enumerate(where)]
        columns = []
        for j, own in enumerate(self.nodes):
            turned = [*rows]
            turned[j] = rows[j] @ differentiation(own)
            columns.append(self._contract(samples, turned))
        return np.stack(columns, axis=1)

    def _row(self, j: int, q: float) -> FloatArray:
        """Weights with which the nodes of coordinate j enter at q; they sum to one."""
        nodes = self.nodes[j]
        apart = q - nodes
        hit = np.flatnonzero(apart == 0)
        if hit.size:
            return np.asarray(np.eye(len(nodes))[hit[0]])
        weights = barycentric(len(nodes)) / apart
        return np.asarray(weights / weights.sum())

    @staticmethod
    def _contract(samples: FloatArray, rows: list[FloatArray]) -> FloatArray:
        for row in rows:
            samples = np.tensordot(row, samples, axes=1)
        return samples


def barycentric(count: int) -> FloatArray:
    """Return the barycentric weights of Chebyshev nodes: alternating, half at the ends."""
    weights = np.where(np.arange(count) % 2, -1.0, 1.0)
    weights[[0, -1]] /= 2
    return weights


def differentiation(nodes: FloatArray) -> FloatArray:
    """Return the matrix from values at the nodes to derivatives of the interpolant there."""
    weights = barycentric(len(nodes))
    apart = nodes[:, None] - nodes
    np.fill_diagonal(apart, 1.0)
    matrix = (weights / weights[:, None]) / apart
    # A constant has no derivative: this choice of the diagonal keeps that true when rounded.
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return np.asarray(matrix)


def coefficient_sizes(samples: FloatArray) -> FloatArray:
    """Return the sizes of the Chebyshev coefficients of samples (n, N), relative to the largest.

    Coefficient k is the largest over the N functions, shape (n,). Where they are small from some
    k on, k + 1 nodes describe the functions as well as n do.
    """
    found = np.abs(dct(samples, type=1, axis=0)).max(axis=1)
    found[[0, -1]] /= 2
    top = found.max()
    return np.asarray(found / top if top > 0 else found)
