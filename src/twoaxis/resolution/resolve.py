"""Axis 1 in one call: simulate, refit, and see how well the parameter comes back.

For each replica, noise is added to the noise-free observations at the centre and the
parameter is estimated again with the matched forward model. The spread of those estimates
is what the observations can resolve, under this layout, this noise and this estimator:

``E_match = mean over noise of 100 | p_hat(G(p) + noise) / p - 1 |``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.forward.bank import build_bank
from twoaxis.observations import standard_noise
from twoaxis.parameters import Parameter
from twoaxis.progress import progress_bar
from twoaxis.resolution.bank_fit import BankEstimator, check_bank, entries_needed, refuse_useless
from twoaxis.resolution.data_fit import LiveModel, checked_data, estimate_noise, fit_data
from twoaxis.resolution.design import (
    Design,
    Noise,
    Setup,
    checked_noise,
    checked_positions,
    prepare,
)
from twoaxis.resolution.direct_fit import build_direct
from twoaxis.resolution.estimator import Estimator, Fits, gauss_newton_step
from twoaxis.resolution.fisher import Information, Sensitivities, information, sensitivities
from twoaxis.resolution.messages import collect_messages
from twoaxis.resolution.result import Findings, Resolution, assemble
from twoaxis.views.checks import is_whole

FloatArray = NDArray[np.float64]
Method = Literal["auto", "bank", "direct"]

# Noise vectors of all replicas are held together, up to this many gigabytes.
DRAWS_LIMIT = 2.0


def resolve(
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike | None = None,
    layouts: Mapping[Any, ArrayLike] | Sequence[ArrayLike] | None = None,
    *,
    replicas: int = 200,
    seed: int | Sequence[int] = 0,
    at: str | Mapping[str, float] | None = None,
    data: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    coordinates: ArrayLike | None = None,
    fit_forward: Callable[..., Any] | None = None,
    vectorized: bool = False,
    method: Method = "auto",
    bank: int = 241,
    starts: int = 3,
    level: float = 0.95,
    validate: int = 3,
    progress: bool = True,
) -> Resolution:
    """Measure how well observations resolve the parameters of a forward model.

    Parameters
    ----------
    forward : callable
        ``forward(**parameters)``: noise-free predictions, any simulator, any fixed shape.
    parameters : mapping of str to Parameter
        The unknowns by name; `forward` is called with these names.
    noise : float or array, optional
        A standard deviation, one for each entry that `forward` returns, or a covariance
        over those entries. Without it, the standard deviation is estimated from the matched
        fit to `data`.
    layouts : mapping of str to array of int, optional
        What is observed: flat indices into what `forward` returns, by name. Layouts share
        the standardised noise vector of each replica (a shorter one takes its beginning).
        By default one layout, "all", observes every entry.
    replicas : int
        How many noisy datasets are simulated for each layout.
    seed : int or sequence of int
        Of the noise, for `numpy.random.default_rng`.
    at : {"truth", "delivered"} or mapping of str to float, optional
        The parameter that replicas are simulated at. By default the truth where it is known,
        else the delivered value, and the result then speaks of spread, not of error.
    data : array or mapping of str to array, optional
        Real observations, in the shape of forward's output or one array for each layout.
        They are fitted too, and the fit's residuals are checked for size, normality and
        whiteness; a misfit raises a `twoaxis.MisfitWarning`.
    coordinates : array, shape (N, k), optional
        Where each of the N entries of forward's output lies, for the whiteness check. By
        default its indices in that output.
    fit_forward : callable, optional
        Another forward model for the fit alone: the solver-discrepancy control.
    vectorized : bool
        Whether the forward models take vectors of parameters and return predictions with a
        leading axis.
    method : {"auto", "bank", "direct"}
        For one parameter, a bank of solved values with PCHIP interpolation is the default;
        several parameters are always fitted directly, by nonlinear least squares.
    bank : int
        Entries of the bank. Where the check against direct optimisation finds a difference of
        more than 0.05 standard errors, the bank is refined, and the result says so. One that
        refinement does not bring below a standard error is refused.
    starts : int
        Starting points of a direct fit.
    level : float
        Confidence level of the likelihood-profile sets.
    validate : int
        How many bank estimates are checked against direct optimisation. 0 leaves the check, and
        with it the refinement, out: the accuracy of the bank is then not known.
    progress : bool
        Whether to show a progress bar on a terminal.

    Returns
    -------
    Resolution

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 1, 50)
    >>> found = ta.resolve(
    ...     forward=lambda rate: np.exp(-rate * t),
    ...     parameters={"rate": ta.Parameter(truth=2.0, bounds=(0.5, 8.0))},
    ...     noise=0.05, replicas=100, seed=1,
    ... )
    >>> bool(abs(found.error_percent.mean() / found.fisher_error_percent[0] - 1) < 0.2)
    True
    """
    _check_settings(replicas, bank, starts, level, validate, method)
    # Whatever can be wrong with the input is found out before the expensive part starts.
    setup = prepare(forward, fit_forward, parameters, layouts, at, vectorized)
    observed = None if data is None else checked_data(data, setup.layouts, setup.model.shape)
    positions = checked_positions(coordinates, setup.model.shape)
    draws = _draws(seed, replicas, max(len(sites) for sites in setup.layouts.values()))
    declared = _declared_noise(setup, noise, observed)
    derivative = sensitivities(setup.model, setup.q, setup.units)
    _information(setup, derivative, setup.designs(declared or setup.unit_noise))
    entries, check = bank, None
    while True:
        estimator = _estimator(setup, method, entries, starts, level, progress)
        if noise is None and observed is not None:
            scale = estimate_noise(estimator, setup.designs(setup.unit_noise), observed)
            declared = Noise(np.full(setup.model.size, scale))
        known = declared or setup.unit_noise
        designs = setup.designs(known)
        facts = _information(setup, derivative, designs)
        fits, newton = _fit_replicas(setup, estimator, designs, draws, progress)
        before = check
        check = check_bank(setup, estimator, designs, fits, facts, draws, observed, validate)
        needed = entries_needed(entries, check, before)
        if needed == entries:
            break
        entries = needed
    refuse_useless(entries, check)
    real = (
        None
        if observed is None
        else fit_data(
            estimator,
            designs,
            observed,
            start=setup.start,
            bounds=setup.bounds,
            positions=positions,
            noise_known=noise is not None,
        )
    )
    messages = collect_messages(setup, estimator, facts, fits, check, bank, entries, real)
    findings = Findings(
        parameters=setup.parameters,
        center=setup.center,
        designs=designs,
        replicas=replicas,
        fits=fits,
        gauss_newton=newton,
        information=facts,
        data_fits=real,
        excluded=estimator.bank.excluded if isinstance(estimator, BankEstimator) else {},
        bank_check_percent=None if check is None else check.percent,
        settings={
            "method": estimator.method,
            "level": level,
            "seed": " ".join(map(str, np.atleast_1d(seed))),
            "starts": estimator.starts,
            "noise": "declared" if noise is not None else "estimated from the matched fit",
            "fit_forward": "the same as forward" if fit_forward is None else "another model",
            "messages": "\n".join(messages),
        },
    )
    live = LiveModel(setup, estimator, designs, known, positions, noise is not None, observed)
    return Resolution(assemble(findings), live)


def _check_settings(
    replicas: Any, bank: Any, starts: Any, level: Any, validate: Any, method: Any
) -> None:
    for name, value, least in (
        ("replicas", replicas, 1),
        ("bank", bank, 5),
        ("starts", starts, 1),
        ("validate", validate, 0),
    ):
        if not is_whole(value) or value < least:
            raise InputError(
                f"{name} as a whole number of at least {least}",
                f"{name}={value!r}",
                f"pass {name}={max(least, 1)} or more",
            )
    if not (isinstance(level, (float, np.floating)) and 0 < level < 1):
        raise InputError("a level between 0 and 1", f"level={level!r}", "pass level=0.95")
    if method not in ("auto", "bank", "direct"):
        raise InputError('method "auto", "bank" or "direct"', repr(method), "choose one of them")


def _estimator(
    setup: Setup, method: Method, bank: int, starts: int, level: float, progress: bool
) -> Estimator:
    several = len(setup.parameters) > 1
    if several and method == "bank":
        raise InputError(
            "one parameter for a bank",
            f"the parameters {', '.join(setup.parameters)}",
            'pass method="direct", or leave method out',
        )
    if several or method == "direct":
        with progress_bar("solving starting points", None, progress) as advance:
            return build_direct(setup.fit_model, setup.q, setup.units, level, starts, advance)
    with progress_bar("solving the bank", bank, progress) as advance:
        built = build_bank(setup.fit_model, setup.q[0], bank, advance)
    return BankEstimator(built, setup.q[0], level)


def _declared_noise(
    setup: Setup, noise: ArrayLike | None, observed: dict[str, FloatArray] | None
) -> Noise | None:
    """Read the declared noise; None where it is to be estimated from the data."""
    if noise is not None:
        return checked_noise(noise, setup.model.shape)
    if observed is None:
        raise InputError(
            "noise, or data to estimate it from",
            "neither",
            "pass noise=..., or the observed values as data=...",
        )
    return None


def _draws(seed: int | Sequence[int], replicas: int, count: int) -> FloatArray:
    """Return the standardised noise, after a look at how much memory it takes."""
    if seed is None or isinstance(seed, np.random.Generator):
        raise InputError("an explicit seed", f"seed={seed!r}", "pass a whole number, seed=0")
    gigabytes = 8e-9 * replicas * count
    if gigabytes > DRAWS_LIMIT:
        raise InputError(
            f"noise that fits in {DRAWS_LIMIT:g} GB of memory",
            f"{replicas} replicas of {count} values, {gigabytes:.3g} GB",
            "ask for fewer replicas; a few hundred settle a mean error to a few percent of itself",
        )
    try:
        return standard_noise(seed, replicas, count)
    except (TypeError, ValueError):
        raise InputError(
            "a seed for numpy.random.default_rng, a whole number from 0 upwards or several",
            f"seed={seed!r}",
            "pass seed=0",
        ) from None


def _fit_replicas(
    setup: Setup,
    estimator: Estimator,
    designs: list[Design],
    draws: FloatArray,
    progress: bool,
) -> tuple[list[Fits], list[FloatArray]]:
    """Fit every replica on every layout; the first row of each is the noise-free fit."""
    fits, newton = [], []
    total = len(designs) * (len(draws) + 1)
    low, high = setup.bounds
    with progress_bar("fitting replicas", total, progress) as advance:
        for design in designs:
            width = len(design.sites)
            rows = np.vstack([np.zeros(width), draws[:, :width]])
            fits.append(estimator.fit(design, rows, advance))
            step = gauss_newton_step(estimator, design, rows, setup.start)
            newton.append(np.clip(step, low, high))
    return fits, newton


def _information(
    setup: Setup, derivative: Sensitivities, designs: list[Design]
) -> list[Information]:
    """Return what each layout knows; a layout that knows nothing is refused."""
    return [information(d, derivative, setup.units, setup.q, setup.bounds) for d in designs]
