"""Eigen-directions of the strength, on which coupled parameters are read.

Parameters are measured in units of 100 percent (`Parameter.unit`), so that a step of 0.05 along
a direction is a change of five percent, whatever the units of the parameters. In log coordinates
these are the coordinates themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoaxis.geometry import Score
from twoaxis.geometry.score import WEAK_SHARE
from twoaxis.parameters import Parameter

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Directions:
    """Orthogonal directions, weakest first.

    Attributes
    ----------
    vectors : array, shape (d, d)
        A row for each, in units of 100 percent; the largest share is positive.
    strength : array, shape (d,)
    status : list of str
        "null" where the residual sees nothing, "weak" where it sees thirty times less than
        along the best direction, else "seen".
    displacement : array, shape (d,)
        The field's displacement along each.
    units : array, shape (d,)
        Step in each coordinate that stands for 100 percent.
    logarithmic : bool
        Whether all coordinates are logarithms.
    """

    vectors: FloatArray
    strength: FloatArray
    status: list[str]
    displacement: FloatArray
    units: FloatArray
    logarithmic: bool

    def along(self, displacement: FloatArray) -> FloatArray:
        """Components of displacements (..., d), given in coordinates."""
        return np.asarray((displacement / self.units) @ self.vectors.T)

    def percent(self, along: FloatArray) -> FloatArray:
        """Unsigned size of components in percent, as it is reckoned for a parameter."""
        with np.errstate(over="ignore"):
            return np.asarray(100 * np.abs(np.expm1(along) if self.logarithmic else along))

    def in_words(self, k: int, names: list[str]) -> str:
        """Say a direction as ``+0.71 nu -0.71 kappa``."""
        return " ".join(
            f"{share:+.2f} {n}" for share, n in zip(self.vectors[k], names, strict=True)
        )


def directions(score: Score) -> Directions:
    """Return the eigen-directions of a score's strength, in units of 100 percent."""
    units = np.array([p.unit(score.center.values[n]) for n, p in score.parameters.items()])
    values, vectors = np.linalg.eigh(score.terms.H * np.outer(units, units))
    rows = vectors.T
    largest = np.argmax(np.abs(rows), axis=1)
    rows = rows * np.sign(rows[np.arange(len(rows)), largest])[:, None]
    # Which directions are seen does not depend on the units: their number is the score's.
    nullity = int(score.terms.null.sum())
    status = [
        "null" if k < nullity else "weak" if value < WEAK_SHARE * values[-1] else "seen"
        for k, value in enumerate(values)
    ]
    return Directions(
        vectors=rows,
        strength=np.maximum(values, 0.0),
        status=status,
        displacement=rows @ (score.terms.displacement / units),
        units=units,
        logarithmic=all(p.coordinate == "log" for p in score.parameters.values()),
    )


def coordinates_of(parameters: Mapping[str, Parameter], values: Mapping[str, float]) -> FloatArray:
    """Coordinates of physical values, in the order of the parameters, shape (d,)."""
    return np.array([float(p.to_coordinate(values[n])) for n, p in parameters.items()])
