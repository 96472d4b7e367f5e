"""Axis 1 in one call: simulate, refit, and see how well the parameter comes back.

For each replica, noise is added to the noise-free observations at the centre and the
parameter is estimated again with the matched forward model. The spread of those estimates
is what the observations can resolve, under this layout, this noise and this estimator:

``E_match = mean over noise of 100 | p_hat(G(p) + noise) / p - 1 |``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import AccuracyWarning, InputError, MisfitWarning
from twoaxis.forward import ForwardModel
from twoaxis.forward.bank import build_bank
from twoaxis.observations import standard_noise
from twoaxis.parameters import Center, Parameter, center_of, checked_parameters
from twoaxis.progress import progress_bar
from twoaxis.resolution.assemble import Findings, assemble
from twoaxis.resolution.bank_fit import BankEstimator, direct_minimum
from twoaxis.resolution.data_fit import DataFit, checked_data, estimate_noise, fit_data
from twoaxis.resolution.design import Design, Noise, checked_layouts, checked_noise
from twoaxis.resolution.direct_fit import build_direct
from twoaxis.resolution.estimator import Estimator, Fits, gauss_newton_step
from twoaxis.resolution.fisher import Information, information
from twoaxis.resolution.misfit import ALARM
from twoaxis.resolution.result import Resolution
from twoaxis.resolution.sensitivity import sensitivities

FloatArray = NDArray[np.float64]
Method = Literal["auto", "bank", "direct"]

# Noise vectors of all replicas are held together, up to this many gigabytes.
DRAWS_LIMIT = 2.0
# A bank is good enough when it moves estimates by less than this share of a standard error.
BANK_ACCURACY = 0.05
# Sensitivities from two step sizes must agree this well.
DERIVATIVE_ACCURACY = 0.01


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
        Entries of the bank.
    starts : int
        Starting points of a direct fit.
    level : float
        Confidence level of the likelihood-profile sets.
    validate : int
        How many bank estimates are checked against direct optimisation.
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
    setup = _prepare(forward, fit_forward, parameters, layouts, at, vectorized)
    estimator = _estimator(setup, method, bank, starts, level, progress)
    observed = None if data is None else checked_data(data, setup.layouts, setup.model.shape)
    positions = _positions(coordinates, setup.model.shape)
    noise_model = _noise(setup, estimator, noise, observed)
    designs = setup.designs(noise_model)
    draws = _draws(seed, replicas, max(len(d.sites) for d in designs))
    fits, newton = _fit_replicas(setup, estimator, designs, draws, progress)
    facts = _information(setup, designs)
    real = (
        None
        if observed is None
        else fit_data(
            estimator,
            designs,
            observed,
            start=setup.start,
            positions=positions,
            noise_known=noise is not None,
        )
    )
    check = _validate(setup, estimator, designs, fits, facts, draws, validate)
    messages = _messages(setup, facts, fits, check, real)
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
    return Resolution(assemble(findings))


@dataclass(frozen=True)
class _Setup:
    """The checked input of one call."""

    parameters: dict[str, Parameter]
    center: Center
    model: ForwardModel
    fit_model: ForwardModel
    layouts: dict[str, NDArray[np.intp]]

    @property
    def q(self) -> FloatArray:
        """Coordinates of the centre, shape (d,)."""
        return self._coordinates(self.center.values)

    @property
    def start(self) -> FloatArray:
        """Where the Gauss–Newton step starts: the delivered value, or else the centre."""
        delivered = {name: p.delivered for name, p in self.parameters.items()}
        known = {name: value for name, value in delivered.items() if value is not None}
        return self._coordinates({**self.center.values, **known})

    @property
    def units(self) -> FloatArray:
        """The step in each coordinate that stands for 100 percent, shape (d,)."""
        return np.array([p.unit(self.center.values[n]) for n, p in self.parameters.items()])

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper coordinate bounds, each of shape (d,)."""
        low, high = np.array([p.coordinate_bounds for p in self.parameters.values()]).T
        return low, high

    def _coordinates(self, values: Mapping[str, float]) -> FloatArray:
        return np.array([float(p.to_coordinate(values[n])) for n, p in self.parameters.items()])

    def designs(self, noise: Noise) -> list[Design]:
        """Return the layouts with their whiteners."""
        entries = self.model.entries
        designs = []
        for name, sites in self.layouts.items():
            columns = np.searchsorted(entries, sites)
            white = noise.whitener(sites, name)
            base = white(self.model.center_values[sites])
            designs.append(Design(name, sites, columns, white, base))
        return designs


def _check_settings(
    replicas: Any, bank: Any, starts: Any, level: Any, validate: Any, method: Any
) -> None:
    for name, value, least in (
        ("replicas", replicas, 1),
        ("bank", bank, 5),
        ("starts", starts, 1),
        ("validate", validate, 0),
    ):
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or value < least:
            raise InputError(
                f"{name} as a whole number of at least {least}",
                f"{name}={value!r}",
                f"pass {name}={max(least, 1)} or more",
            )
    if not 0 < level < 1:
        raise InputError("a level between 0 and 1", f"level={level!r}", "pass level=0.95")
    if method not in ("auto", "bank", "direct"):
        raise InputError('method "auto", "bank" or "direct"', repr(method), "choose one of them")


def _prepare(
    forward: Callable[..., Any],
    fit_forward: Callable[..., Any] | None,
    parameters: Mapping[str, Parameter],
    layouts: Any,
    at: Any,
    vectorized: bool,
) -> _Setup:
    """Check the input and try the forward models at the centre."""
    checked = checked_parameters(parameters)
    center = center_of(checked, at)
    model = ForwardModel(forward, checked, center.values, vectorized=vectorized)
    sites = checked_layouts(layouts, model.size)
    entries = np.unique(np.concatenate(list(sites.values())))
    model.observe(entries)
    if fit_forward is None:
        return _Setup(checked, center, model, model, sites)
    other = ForwardModel(
        fit_forward, checked, center.values, vectorized=vectorized, name="fit_forward"
    )
    if other.shape != model.shape:
        raise InputError(
            f"fit_forward to return the shape {model.shape} that forward returns",
            f"the shape {other.shape}",
            "interpolate its predictions to the entries of forward",
        )
    other.observe(entries)
    return _Setup(checked, center, model, other, sites)


def _positions(coordinates: ArrayLike | None, shape: tuple[int, ...]) -> FloatArray:
    """Where the entries of the output lie, shape (N, k)."""
    size = int(np.prod(shape))
    if coordinates is None:
        return np.column_stack(np.unravel_index(np.arange(size), shape or (1,))).astype(float)
    positions = np.asarray(coordinates, dtype=float)
    if positions.ndim != 2 or len(positions) != size or not np.isfinite(positions).all():
        raise InputError(
            f"coordinates as finite numbers of shape ({size}, k), a row for each entry",
            f"the shape {positions.shape}",
            "flatten the grid like forward's output, one column a coordinate",
        )
    return positions


def _estimator(
    setup: _Setup, method: Method, bank: int, starts: int, level: float, progress: bool
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


def _noise(
    setup: _Setup,
    estimator: Estimator,
    noise: ArrayLike | None,
    observed: dict[str, FloatArray] | None,
) -> Noise:
    """Read the declared noise, or estimate it from the data."""
    if noise is not None:
        return checked_noise(noise, setup.model.shape)
    if observed is None:
        raise InputError(
            "noise, or data to estimate it from",
            "neither",
            "pass noise=..., or the observed values as data=...",
        )
    unit = setup.designs(Noise(np.ones(setup.model.size)))
    return Noise(np.full(setup.model.size, estimate_noise(estimator, unit, observed)))


def _draws(seed: int | Sequence[int], replicas: int, count: int) -> FloatArray:
    """Return the standardised noise, after a look at how much memory it takes."""
    gigabytes = 8e-9 * replicas * count
    if gigabytes > DRAWS_LIMIT:
        raise InputError(
            f"noise that fits in {DRAWS_LIMIT:g} GB of memory",
            f"{replicas} replicas of {count} values, {gigabytes:.3g} GB",
            "ask for fewer replicas; a few hundred settle a mean error to a few percent of itself",
        )
    return standard_noise(seed, replicas, count)


def _fit_replicas(
    setup: _Setup,
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


def _information(setup: _Setup, designs: list[Design]) -> list[Information]:
    derivative = sensitivities(setup.model, setup.q, setup.units)
    return [information(d, derivative, setup.units, setup.q, setup.bounds) for d in designs]


def _validate(
    setup: _Setup,
    estimator: Estimator,
    designs: list[Design],
    fits: list[Fits],
    facts: list[Information],
    draws: FloatArray,
    validate: int,
) -> _BankCheck | None:
    """Compare bank estimates with direct optimisation.

    The checked datasets are spread evenly over the range of the estimates.
    """
    if not isinstance(estimator, BankEstimator) or not validate:
        return None
    estimates = np.stack([f.estimate[1:, 0] for f in fits])
    usable = ~np.stack([f.on_bound[1:, 0] for f in fits])
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
    gap = np.where(np.isfinite(found), np.abs(near - found), np.inf)
    standard_error = np.array([1 / np.sqrt(facts[k].matrix[0, 0]) for k in layout])
    return _BankCheck(
        percent=float(100 * np.max(gap) / setup.units[0]),
        standard_errors=float(np.max(gap / standard_error)),
    )


@dataclass(frozen=True)
class _BankCheck:
    """Largest difference between bank and direct estimates, in percent and in standard errors."""

    percent: float
    standard_errors: float


def _messages(
    setup: _Setup,
    facts: list[Information],
    fits: list[Fits],
    bank_check: _BankCheck | None,
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
            f"bank and direct optimisation differ by up to {bank_check.percent:.3g} percent: use "
            'a larger bank, or method="direct"'
        )
    for message in messages:
        warnings.warn(message, AccuracyWarning, stacklevel=3)
    stopped = sum(int((~f.converged).sum()) for f in fits)
    if stopped:
        messages.append(f"{stopped} fits did not converge; their last point stands in the table")
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


def _weak_direction(layout: str, names: list[str], fact: Information, row: int) -> str:
    parts = [
        f"{share:+.2f} {name}" for share, name in zip(fact.directions[row], names, strict=True)
    ]
    size = fact.direction_percent[row]
    what = "is not seen at all" if np.isinf(size) else f"has a standard error of {size:.3g} percent"
    return f"layout {layout}: the direction {' '.join(parts)} {what}, beyond the bounds"
