"""Is the bank good enough? Some of its estimates against direct optimisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoaxis.resolution.bank_fit import BankEstimator, direct_minimum
from twoaxis.resolution.design import Design
from twoaxis.resolution.estimator import Estimator, Fits
from twoaxis.resolution.fisher import Information
from twoaxis.resolution.setup import Setup

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class BankCheck:
    """Largest difference between bank and direct estimates, in percent and in standard errors."""

    percent: float
    standard_errors: float


def check_bank(
    setup: Setup,
    estimator: Estimator,
    designs: list[Design],
    fits: list[Fits],
    facts: list[Information],
    draws: FloatArray,
    validate: int,
) -> BankCheck | None:
    """Compare bank estimates with direct optimisation.

    The checked datasets are spread evenly over the range of the estimates.
    """
    if not isinstance(estimator, BankEstimator) or not validate:
        return None
    estimates = np.stack([f.estimate[1:, 0] for f in fits])
    # The search needs room on both sides of an estimate.
    first, last = estimator.bank.knots[[2, -3]]
    usable = (estimates > first) & (estimates < last)
    ranked = np.argsort(np.where(usable, estimates, np.inf), axis=None)[: usable.sum()]
    if not ranked.size:
        return None
    chosen = ranked[np.unique(np.linspace(0, len(ranked) - 1, validate).round().astype(int))]
    layout, replica = np.divmod(chosen, len(draws))
    near = estimates[layout, replica]
    found = direct_minimum(
        setup.fit_model,
        [designs[k] for k in layout],
        [draws[r, : len(designs[k].sites)] for k, r in zip(layout, replica, strict=True)],
        near,
        reach=2 * float(estimator.bank.knots[1] - estimator.bank.knots[0]),
    )
    if not np.isfinite(found).any():
        return None
    gap = np.where(np.isfinite(found), np.abs(near - found), 0.0)
    standard_error = np.array([1 / np.sqrt(facts[k].matrix[0, 0]) for k in layout])
    return BankCheck(
        percent=float(100 * np.max(gap) / setup.units[0]),
        standard_errors=float(np.max(gap / standard_error)),
    )
