"""Is the bank good enough? Some of its estimates against direct optimisation.

A bank that is too coarse is refined until its estimates agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.resolution.bank_fit import BankEstimator, direct_minimum
from twoaxis.resolution.design import Design
from twoaxis.resolution.estimator import Estimator, Fits
from twoaxis.resolution.fisher import Information
from twoaxis.resolution.setup import Setup

FloatArray = NDArray[np.float64]

# A bank is good enough when it moves estimates by less than this share of a standard error.
BANK_ACCURACY = 0.05
# A bank is not refined beyond this many entries.
MOST_ENTRIES = 4000


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
    observed: Mapping[str, FloatArray] | None,
    validate: int,
) -> BankCheck | None:
    """Compare bank estimates with direct optimisation.

    The checked datasets are spread evenly over the range of the estimates, from the smallest to
    the largest; real observations are among them. Those on a bound count only where there are no
    others.

    Returns
    -------
    BankCheck, optional
        None without a bank or with ``validate=0``. The differences are infinite where a direct
        search did not converge.
    """
    if not isinstance(estimator, BankEstimator) or not validate:
        return None
    rows = [draws[:, : len(design.sites)] for design in designs]
    estimates = np.stack([f.estimate[1:, 0] for f in fits])
    if observed is not None:
        real = [d.row(observed[d.name])[None] for d in designs]
        own = [estimator.fit(d, row).estimate[:, 0] for d, row in zip(designs, real, strict=True)]
        estimates = np.hstack([estimates, own])
        rows = [np.vstack(both) for both in zip(rows, real, strict=True)]
    first, last = estimator.bank.knots[[0, -1]].tolist()
    inside = (estimates > first) & (estimates < last)
    ranked = np.argsort(np.where(inside, estimates, np.inf), axis=None)
    ranked = ranked[: inside.sum() or None]
    chosen = ranked[np.unique(np.linspace(0, len(ranked) - 1, validate).round().astype(int))]
    layout, number = np.divmod(chosen, estimates.shape[1])
    near = estimates[layout, number]
    found = direct_minimum(
        setup.fit_model,
        [designs[k] for k in layout],
        [rows[k][r] for k, r in zip(layout, number, strict=True)],
        near,
        step=float(np.diff(estimator.bank.knots).min()),
        limits=(first, last),
    )
    gap = np.where(np.isfinite(found), np.abs(near - found), np.inf)
    standard_error = np.array([1 / np.sqrt(facts[k].matrix[0, 0]) for k in layout])
    return BankCheck(
        percent=float(100 * np.max(gap) / setup.units[0]),
        standard_errors=float(np.max(gap / standard_error)),
    )


def refuse_useless(bank: int, check: BankCheck | None) -> None:
    """Refuse a bank whose own error is larger than that of the noise, however fine it is."""
    if check is not None and np.isfinite(check.percent) and check.standard_errors > 1:
        raise InputError(
            "a bank whose estimates differ from direct optimisation by less than a standard error",
            f"{check.percent:.3g} percent, or {check.standard_errors:.3g} standard errors, with "
            f"{bank} entries",
            'pass method="direct", or narrower bounds',
        )


def entries_needed(bank: int, check: BankCheck | None, before: BankCheck | None) -> int:
    """Return how many entries a bank needs after this check: as many, or nearly twice as many.

    The new entries lie halfway between the old ones. There is no further refinement where the
    last one did not halve the difference: the forward model is not smooth, and no bank is fine
    enough.
    """
    if check is None or check.standard_errors <= BANK_ACCURACY or bank > MOST_ENTRIES / 2:
        return bank
    if before is not None and check.standard_errors > before.standard_errors / 2:
        return bank
    return 2 * bank - 1
