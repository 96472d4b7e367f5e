"""The block view: a residual of several equations.

A system of equations has one residual vector for each, and its loss is a weighted sum of
their losses. Concatenated into one vector, that is a block-diagonal M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag

from twoaxis.arrays import FloatArray
from twoaxis.errors import InputError
from twoaxis.views.view import Block, BoundView, View, checked_weights


@final
@dataclass(frozen=True, eq=False)
class Blocks(View):
    r"""One view for each equation, with loss weights.

    .. math:: M = \mathrm{diag}(w_1 M_1, \dots, w_n M_n)

    The residual vector is the concatenation of the equations' residuals, in order.

    Parameters
    ----------
    views : sequence of View
        One for each equation.
    weights : array_like, shape (n,), optional
        The factor of each equation's loss, not negative and not all zero; one by default.

    Examples
    --------
    >>> from twoaxis.views import Pointwise
    >>> bound = Blocks([Pointwise(), Pointwise()], weights=[1.0, 10.0]).bind(np.arange(3.0))
    >>> float(bound.quadratic([1.0, 1, 1, 2, 2, 2], [1.0, 1, 1, 2, 2, 2]))
    41.0
    """

    views: Sequence[View]
    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        views = tuple(self.views) if isinstance(self.views, Sequence) else (self.views,)
        if not views or not all(isinstance(view, View) for view in views):
            raise InputError(
                "a sequence with one view for each equation",
                repr(self.views),
                "write Blocks([Patch(cells=8), Pointwise()])",
            )
        weights = checked_weights(
            "weights", np.ones(len(views)) if self.weights is None else self.weights
        ).copy()
        if weights.size != len(views):
            raise InputError(
                f"one weight for each of the {len(views)} views",
                f"{weights.size} weights",
                "give every equation its loss weight, 1.0 where it has none",
            )
        weights.flags.writeable = False
        object.__setattr__(self, "views", views)
        object.__setattr__(self, "weights", weights)

    def bind(self, points: ArrayLike | Sequence[ArrayLike]) -> BoundView:
        """Return the operator on concatenated residual vectors.

        Parameters
        ----------
        points : array, or list or tuple of array_like
            An array (N, k) or (N,) holds the points of every equation; a list or tuple
            holds one such array for each equation.
        """
        each = points if isinstance(points, list | tuple) else [points] * len(self.views)
        if len(each) != len(self.views):
            raise InputError(
                f"one array of points for all equations, or a list of {len(self.views)} arrays",
                f"a list of {len(each)}",
                "pass numpy.asarray(points) where the equations share their points",
            )
        parts = [view.bind(own) for view, own in zip(self.views, each, strict=True)]
        return _BoundBlocks(parts, np.asarray(self.weights))

    def describe(self) -> str:
        """Return a few words that name the view in a table or a message."""
        weights = np.asarray(self.weights)
        terms = [f"{w:g} * ({v.describe()})" for v, w in zip(self.views, weights, strict=True)]
        return " + ".join(terms)


@final
class _BoundBlocks(BoundView):
    """Bound views side by side."""

    def __init__(self, parts: list[BoundView], weights: FloatArray) -> None:
        self._parts = parts
        self._weights = weights
        self._ends = np.cumsum([part.size for part in parts])

    @property
    def size(self) -> int:
        """The length of the concatenated residual vector."""
        return int(self._ends[-1])

    @property
    def blocks(self) -> tuple[Block, ...]:
        """One for each equation."""
        ends = self._ends.tolist()
        rows = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        return tuple(map(Block, rows, self._weights.tolist(), self._parts))

    @property
    def rank(self) -> int:
        """The sum over the equations that have a positive weight."""
        return sum(part.rank for part, w in zip(self._parts, self._weights, strict=True) if w > 0)

    def describe(self) -> str:
        """Return a few words that name the view and what it became at these points."""
        named = zip(self._weights, self._parts, strict=True)
        return " + ".join(f"{w:g} * ({part.describe()})" for w, part in named)

    def diagonal(self) -> FloatArray:
        """Return the diagonal of M, the equations' diagonals in order."""
        named = zip(self._weights, self._parts, strict=True)
        return np.concatenate([w * part.diagonal() for w, part in named])

    def _split(self, columns: FloatArray) -> list[FloatArray]:
        return np.split(columns, self._ends[:-1])

    def _apply(self, columns: FloatArray) -> FloatArray:
        own = zip(self._weights, self._parts, self._split(columns), strict=True)
        return np.concatenate([w * part.apply(block) for w, part, block in own])

    def _quadratic(self, left: FloatArray, right: FloatArray) -> FloatArray:
        lefts = self._split(left)
        rights = lefts if right is left else self._split(right)
        total = np.zeros((left.shape[1], right.shape[1]))
        for w, part, a, b in zip(self._weights, self._parts, lefts, rights, strict=True):
            total += w * part.quadratic(a, b)
        return total

    def _matrix(self) -> FloatArray:
        named = zip(self._weights, self._parts, strict=True)
        matrix: FloatArray = block_diag(*[w * part.matrix(force=True) for w, part in named])
        return matrix

    def _eigenpairs(self, count: int) -> tuple[FloatArray, FloatArray]:
        starts = self._ends - [part.size for part in self._parts]
        found = []
        for start, w, part in zip(starts, self._weights, self._parts, strict=True):
            if w > 0:
                values, vectors = part.eigenpairs(count)
                found += [
                    (w * v, start, column) for v, column in zip(values, vectors.T, strict=True)
                ]
        found.sort(key=lambda pair: -pair[0])
        joined = np.zeros((self.size, min(count, len(found))))
        for column, (_, start, own) in zip(joined.T, found, strict=False):
            column[start : start + own.size] = own
        return np.array([value for value, _, _ in found[:count]]), joined
