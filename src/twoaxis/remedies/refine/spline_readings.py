"""What was observed of a field of splines: one kind of readings, or several, in experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twoaxis.adapters.jets import JetFunction
from twoaxis.arrays import FloatArray
from twoaxis.observations import Observations
from twoaxis.remedies.refine.spline_system import Part

# Below this share of a reading the logarithm of a prediction goes on as a straight line.
STRAIGHT = 0.1
# A first guess of unknown noise, at least, as a share of the data: a smooth field may miss none.
# Data without noise: this share of their size stands for it.
FIRST_NOISE, NOISE_FREE = 0.02, 1e-6


@dataclass(frozen=True, eq=False)
class Selection:
    """Which predictions the readings are of, and on which scale.

    Attributes
    ----------
    entries : array of int, shape (n,)
        Of the predictions (places, outputs), in C order.
    straight : array, shape (n,), or None
        For logarithms: below these predictions they go on as straight lines.
    outputs : int
        Number of them.
    """

    entries: NDArray[np.intp]
    straight: FloatArray | None
    outputs: int = 1

    @classmethod
    def of(cls, data: Observations, columns: Any, outputs: int) -> Selection:
        """Return those of observations of a model with so many outputs.

        `columns` are those of the outputs that were observed, as of `ModelWeights`.
        """
        places = len(data.rows)
        entries = np.arange(places * outputs).reshape(places, outputs)
        if isinstance(columns, np.ndarray):
            entries = entries[np.arange(places), columns[data.rows]][:, None]
        elif columns is not None:
            entries = entries[:, list(columns)]
        kept = data.kept.reshape(-1, data.columns)[data.rows]
        chosen = data.selected(entries)[kept].astype(np.intp)
        straight = STRAIGHT * data.values[data.kept] if data.transform == "log" else None
        return cls(chosen, straight, outputs)

    def everywhere(self, shape: tuple[int, ...]) -> NDArray[np.intp]:
        """Return the entries of the same outputs at other places, for predictions of a shape."""
        outputs = shape[1]
        chosen = np.unique(self.entries % self.outputs)
        return (np.arange(shape[0])[:, None] * outputs + chosen).ravel()

    def take(self, predicted: FloatArray) -> FloatArray:
        """Return predictions of the readings on the scale of their noise."""
        found = predicted.ravel()[self.entries]
        if self.straight is None:
            return found
        above = np.maximum(found, self.straight)
        return np.log(above) + np.minimum(found / self.straight - 1, 0)

    def take_rows(self, predicted: FloatArray, rows: sparse.csr_matrix) -> sparse.csr_matrix:
        """Return derivatives of `take`, from those of all predictions."""
        chosen = rows[self.entries]
        if self.straight is None:
            return chosen
        slopes = 1 / np.maximum(predicted.ravel()[self.entries], self.straight)
        return sparse.csr_matrix(sparse.diags_array(slopes) @ chosen)


@dataclass(frozen=True, eq=False)
class ReadingSet:
    """Readings of one kind in one experiment.

    Attributes
    ----------
    observations : Observations
        With their places.
    seeing : JetFunction
        What was observed, at any places.
    selection : Selection
    """

    observations: Observations
    seeing: JetFunction
    selection: Selection

    @property
    def sites(self) -> FloatArray:
        """Where each reading was taken."""
        return self.observations.sites[self.observations.row]

    def linearized(
        self, part: Part, coefficients: FloatArray, numbers: FloatArray
    ) -> tuple[FloatArray, sparse.csr_matrix]:
        """Return predictions of the readings, and their rows of the coefficients."""
        found, rows, _ = part.linearized(coefficients, numbers)
        return self.selection.take(found), self.selection.take_rows(found, rows)

    def anywhere(
        self, part: Part, coefficients: FloatArray, numbers: FloatArray
    ) -> tuple[FloatArray, sparse.csr_matrix]:
        """Return the same at other places, one observed field after another at each."""
        found, rows, _ = part.linearized(coefficients, numbers)
        every = Selection(self.selection.everywhere(found.shape), None)
        values, rows = every.take(found), every.take_rows(found, rows)
        if self.selection.straight is None:
            return values, rows
        return np.log(values), sparse.csr_matrix(sparse.diags_array(1 / values) @ rows)


class Readings:
    """All readings, one set after another.

    Attributes
    ----------
    sets : sequence of ReadingSet
    values : array, shape (n,)
        On the scales of their noise.
    groups : array of int, shape (n,)
        Numbers of their groups of noise of one unknown size.
    levels : array, shape (groups,)
        These sizes; of no account where the noise is known.
    """

    def __init__(self, sets: Sequence[ReadingSet]) -> None:
        self.sets = sets
        every = [each.observations for each in sets]
        self.values: FloatArray = np.concatenate([each.readings for each in every])
        sizes = [each.group_count for each in every]
        first = np.cumsum([0, *sizes])
        pairs = zip(every, first, strict=False)
        self.groups = np.concatenate([each.groups + start for each, start in pairs])
        self.levels = np.ones(first[-1])
        self._group_parts = [slice(a, b) for a, b in pairwise(first)]
        ends = np.cumsum([0, *(each.count for each in every)])
        self._parts = [slice(a, b) for a, b in pairwise(ends)]

    @property
    def count(self) -> int:
        """Number of readings."""
        return self.values.size

    @property
    def noise_known(self) -> bool:
        """Whether all noise is known."""
        return all(each.observations.noise_known for each in self.sets)

    def spread(self, values: FloatArray) -> FloatArray:
        """Return the root mean square of values in each group."""
        size = len(self.levels)
        squares = np.bincount(self.groups, values**2, size)
        return np.asarray(np.sqrt(squares / np.bincount(self.groups, minlength=size)))

    def whiten(self, rows: Any) -> Any:
        """Return rows of the readings in units of their noise, uncorrelated."""
        parts = [
            each.observations.whiten(rows[part], self.levels[group])
            for each, part, group in zip(self.sets, self._parts, self._group_parts, strict=True)
        ]
        if sparse.issparse(rows):
            return sparse.csr_matrix(sparse.vstack([sparse.csr_matrix(each) for each in parts]))
        return np.concatenate(parts)

    def update_levels(self, misfit: FloatArray, used: float = 0.0) -> None:
        """Estimate unknown sizes of noise from what a fit leaves.

        Parameters
        ----------
        misfit : array, shape (n,)
        used : float
            Degrees of freedom of the fit, of which each group takes its share. Without them it is
            a first guess.
        """
        left = max(1 - used / self.count, 1 / self.count)
        least = (NOISE_FREE if used else FIRST_NOISE) * self.spread(self.values)
        least = np.maximum(least, 1e-12 * (least.max() or 1.0))  # of readings that are all zero
        self.levels = np.maximum(self.spread(misfit) / np.sqrt(left), least)

    def covariance(self) -> FloatArray:
        """Return standard deviations, (n,), or the covariance where noise is correlated, (n, n)."""
        pairs = list(zip([s.observations for s in self.sets], self._group_parts, strict=True))
        if not any(each.correlated for each, _ in pairs):
            return np.concatenate([o.standard_deviations(self.levels[g]) for o, g in pairs])
        full = np.zeros((self.count, self.count))
        for (each, group), part in zip(pairs, self._parts, strict=True):
            kept = np.flatnonzero(each.kept)
            if each.correlated and each.noise is not None:
                full[part, part] = each.noise[np.ix_(kept, kept)]
            else:
                full[part, part] = np.diag(each.standard_deviations(self.levels[group]) ** 2)
        return full

    def deviance(self, misfit: FloatArray) -> float:
        r"""Return twice the negative logarithm of the likelihood, up to a constant.

        Noise that is not known has its most likely size in each group, :math:`s_g`: then it is
        :math:`\sum_g n_g \log s_g^2`.
        """
        if self.noise_known:
            return float((self.whiten(misfit) ** 2).sum())
        counts = np.bincount(self.groups, minlength=len(self.levels))
        return float(counts @ np.log(np.maximum(self.spread(misfit) ** 2, 1e-300)))
