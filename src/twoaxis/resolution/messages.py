"""What a reader must know before using the numbers, said as sentences and as warnings."""

from __future__ import annotations

import warnings

import numpy as np

from twoaxis.errors import AccuracyWarning, MisfitWarning
from twoaxis.resolution.bank_fit import BANK_ACCURACY, BankCheck, BankEstimator
from twoaxis.resolution.data_fit import DataFit
from twoaxis.resolution.design import Setup
from twoaxis.resolution.direct_fit import DirectEstimator
from twoaxis.resolution.estimator import Estimator, Fits
from twoaxis.resolution.fisher import Information
from twoaxis.resolution.misfit import ALARM

# Sensitivities from two step sizes must agree this well.
DERIVATIVE_ACCURACY = 0.01


def collect_messages(
    setup: Setup,
    estimator: Estimator,
    facts: list[Information],
    fits: list[Fits],
    bank_check: BankCheck | None,
    bank: int,
    entries: int,
    data_fits: list[DataFit] | None,
) -> list[str]:
    """Collect what a reader must know, and warn of what puts the result in doubt."""
    names = list(setup.parameters)
    messages = []
    for name, worst in zip(names, np.max([f.derivative_error for f in facts], axis=0), strict=True):
        if worst > DERIVATIVE_ACCURACY:
            messages.append(
                f"the derivative with respect to {name} changes by {100 * worst:.1f} percent with "
                "the step: the forward model is not smooth there, and the Fisher figures are rough"
            )
    if bank_check is not None and bank_check.standard_errors > BANK_ACCURACY:
        messages.append(
            f"estimates from a bank of {entries} and by direct optimisation differ by up to "
            f"{bank_check.percent:.3g} percent, and a finer bank does not help: the forward model "
            'is not smooth; use method="direct"'
            if np.isfinite(bank_check.percent)
            else "a direct search did not converge, so that the bank could not be checked"
        )
    for message in messages:
        warnings.warn(message, AccuracyWarning, stacklevel=3)
    messages += _unusable(estimator)
    if entries > bank:
        messages.append(
            f"a bank of {bank} entries was too coarse, as direct optimisation showed; it was "
            f"refined to {entries}"
        )
    stopped = sum(int((~f.converged).sum()) for f in fits)
    if stopped:
        messages.append(
            f"fits that did not converge: {stopped}; their last point stands in the table"
        )
    elsewhere = sum(int((~f.center_won[1:]).sum()) for f in fits)
    if elsewhere:
        messages.append(
            f"fits with a lower minimum away from the centre: {elsewhere}; the likelihood has "
            "several minima, and more starts may find still lower ones"
        )
    stopped_at = np.sum([f.on_bound[1:].sum(axis=0) for f in fits], axis=0)
    total = sum(len(f.chi2) - 1 for f in fits)
    for name, count in zip(names, stopped_at.tolist(), strict=True):
        if count:
            messages.append(
                f"{count} of {total} estimates of {name} stopped at the end of the usable range: "
                "their deviation is cut off there"
            )
    for design_name, fact in zip(setup.layouts, facts, strict=True):
        for row in np.flatnonzero(fact.weak):
            messages.append(_weak_direction(design_name, names, fact, int(row)))
    checks = [(fit.layout, check) for fit in data_fits or [] for check in fit.checks]
    for layout, check in checks:
        # Bonferroni: a sound call, whatever its number of layouts, is accused at most so often.
        if check.p_value * len(checks) < ALARM:
            text = f"layout {layout}: {check.meaning} (p = {check.p_value:.2g})"
            messages.append(text)
            warnings.warn(text, MisfitWarning, stacklevel=3)
    return messages


def _unusable(estimator: Estimator) -> list[str]:
    """Say where the forward model could not be used."""
    if isinstance(estimator, BankEstimator) and estimator.bank.excluded:
        values = estimator.bank.excluded
        reason = next(iter(values.values()))
        return [
            f"{len(values)} bank values from {min(values):.4g} to {max(values):.4g} are excluded: "
            f"{reason}"
        ]
    if isinstance(estimator, DirectEstimator) and estimator.failures:
        point, reason = estimator.failures[0]
        named = ", ".join(f"{name}={value:.4g}" for name, value in point.items())
        total = len(estimator.failures) + len(estimator.seeds)
        return [
            f"{len(estimator.failures)} of {total} starting points are excluded, such as {named}: "
            f"{reason}"
        ]
    return []


def _weak_direction(layout: str, names: list[str], fact: Information, row: int) -> str:
    parts = [
        f"{share:+.2f} {name}" for share, name in zip(fact.directions[row], names, strict=True)
    ]
    size = fact.direction_percent[row]
    what = (
        "is not seen at all"
        if np.isinf(size)
        else f"has a standard error of {size:.3g} percent, beyond the bounds"
    )
    return f"layout {layout}: the direction {' '.join(parts)} {what}"
