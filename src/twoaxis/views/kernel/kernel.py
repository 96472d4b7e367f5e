"""What the Gaussian view asks of a kernel matrix that is never formed."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.spatial.distance import cdist

from twoaxis.views.checks import FloatArray


class Kernel(ABC):
    """``K[i, j] = exp(-|x_i - x_j|^2 / (2 sigma^2))`` at N points."""

    @property
    @abstractmethod
    def size(self) -> int:
        """N, the number of points."""

    @property
    @abstractmethod
    def total(self) -> float:
        """The sum of all N^2 entries."""

    @abstractmethod
    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``K v`` for columns (N, d)."""

    @abstractmethod
    def quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return ``left^T K right``, shape (d, e)."""

    @abstractmethod
    def matrix(self) -> FloatArray:
        """Return K by its formula, shape (N, N)."""

    @abstractmethod
    def leading(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return at most `count < N` leading eigenpairs, descending, without forming K."""


def kernel_entries(rows: FloatArray, columns: FloatArray, bandwidth: float) -> FloatArray:
    """Return ``exp(-|x - y|^2 / (2 sigma^2))`` for rows x and columns y."""
    entries: FloatArray = cdist(rows, columns)
    entries /= bandwidth
    np.square(entries, out=entries)
    entries *= -0.5
    # A distance of many bandwidths underflows to the zero that is meant.
    with np.errstate(under="ignore"):
        return np.exp(entries, out=entries)
