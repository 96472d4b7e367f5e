"""Axis 1 in one call: simulate, refit, and see how well the parameter comes back.

For each replica, noise is added to the noise-free observations at the center, and the parameter
is estimated again with the matched forward model. The spread of those estimates is what the
observations can resolve, under this layout, this noise and this estimator:

``E_match = mean over noise of 100 | p_hat(G(p) + noise) / p - 1 |``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import check_seed, is_integer
from twoaxis.datasets import RECOVERABILITY_SEED, noise_seed, standard_noise
from twoaxis.errors import AccuracyWarning, InputError, MisfitWarning
from twoaxis.forward import MapEngine
from twoaxis.forward.bank import build_bank
from twoaxis.observations import Observations, as_observations
from twoaxis.parameters import Parameters, Unknowns
from twoaxis.problems import EvolutionProblem, SteadyProblem, get_problem
from twoaxis.progress import Advance, announce, clock, progress_bar
from twoaxis.resolution.bank_fit import (
    BANK_ACCURACY,
    BANK_BYTES,
    BankCheck,
    BankEstimator,
    check_bank,
    entries_needed,
    refuse_useless,
)
from twoaxis.resolution.data_fit import (
    DataFit,
    LiveModel,
    estimate_noise,
    fit_data,
    fit_steps,
    minima_messages,
    noise_free_messages,
)
from twoaxis.resolution.direct_fit import DirectEstimator, build_direct, seed_count
from twoaxis.resolution.fisher import (
    DERIVATIVE_ACCURACY,
    STEP,
    Information,
    directions_of_interest,
    information,
    leaves_bounds,
    sensitivities,
)
from twoaxis.resolution.interpolant_fit import (
    FEWEST_REPLICAS,
    InterpolantFits,
    fit_on_interpolant,
)
from twoaxis.resolution.layouts import Missing, Noise, WhitenedLayout
from twoaxis.resolution.linear_fit import MANY, SEEDS, LinearEstimator
from twoaxis.resolution.matched_fit import Estimator, Fits, gauss_newton_step
from twoaxis.resolution.misfit import ALARM
from twoaxis.resolution.result import Resolution
from twoaxis.resolution.setup import Setup, prepare, problem_arguments
from twoaxis.result import Message, message_variables
from twoaxis.text import visible

FloatArray = NDArray[np.float64]
Method = Literal["auto", "bank", "interpolant", "direct", "linear"]

# Standard errors by which a fit may differ from that with the tangent before a warning is given.
TANGENT_ACCURACY = 0.5
# Unit of the differences by which a first fit is linearized, as a share of the bounds.
DIFFERENCE_SHARE = 0.1
# Calls that may take longer than this many seconds say so first.
LONG = 30.0
# Model runs of a direct fit from three starts, over the square of the number of parameters; fits
# that one with profile sets counts as, and those that an interpolant takes; steps of a fit and of
# the checks of a tangent. Measured with models of one to five parameters, within a factor of two.
RUNS_PER_FIT, RUNS_WITH_SETS, INTERPOLANT_FITS, LINEAR_STEPS = 16, 3, 4, 25
# Noise vectors of all replicas are held together, up to this many gigabytes.
DRAWS_LIMIT = 2.0


def resolve(
    forward: Any,
    parameters: Unknowns | None = None,
    noise: ArrayLike | None = None,
    layouts: Mapping[Any, ArrayLike] | Sequence[Any] | None = None,
    *,
    replicas: int = 200,
    seed: int | Sequence[int] | None = None,
    at: str | Mapping[str, float] | None = None,
    data: ArrayLike | Mapping[Any, ArrayLike] | Observations | None = None,
    points: ArrayLike | None = None,
    fit_forward: Callable[..., Any] | Literal["fine", "coarse"] | None = None,
    vectorized: bool = False,
    method: Method = "auto",
    bank: int = 241,
    starts: int = 3,
    level: float = 0.95,
    validate: int = 3,
    missing: Missing = "raise",
    engine: MapEngine | None = None,
    progress: bool = True,
) -> Resolution:
    """Measure how well observations resolve the parameters of a forward model.

    Parameters
    ----------
    forward : callable, str, Problem or Refinement
        ``forward(**parameters)``: noise-free predictions, any simulator, any fixed shape. Or a
        built-in problem, such as ``"burgers"``, which brings its declared solver, parameters,
        layouts and noise; what is passed replaces them. Or what `twoaxis.refine` returned:
        its field stands for a solver, and the model is linear around the refined parameters.
    parameters : mapping of str to Parameter or UnknownFunction
        The unknowns by name; `forward` is called with these names.
    noise : float or array, optional
        A standard deviation, one for each entry that `forward` returns, or a covariance over
        those entries. Without it, the standard deviation is estimated from the matched fit to
        `data`. Data that come from a solver leave nothing to estimate: they are called
        noise-free, and the noise is assumed to be 1% of their standard deviation.
    layouts : mapping of str to array of int, optional
        What is observed: flat indices into what `forward` returns, by name. Layouts share the
        standardized noise vector of each replica (a shorter one takes its beginning). By
        default one layout, "all", observes every entry. For a built-in problem: indices into
        the field of its fine solver, or a sequence of layout seeds, by default the published
        four.
    replicas : int
        Number of noisy datasets that are simulated for each layout.
    seed : int or sequence of int, optional
        Of the noise, for `numpy.random.default_rng`; 0 by default. For a built-in problem, the
        published seed by default; each problem has a noise stream of its own under one seed.
    at : {"truth", "delivered"} or mapping of str to float, optional
        The parameter values that replicas are simulated at. By default the truth where it is
        known, else the delivered values; the result is then a deviation, not an error. Where no
        parameter of interest has either, but there are `data`: the matched fit to these, on the
        layout with the most observations, as the message ``resolution.center_fitted`` says.
    data : Observations, array or mapping of str to array, optional
        Real observations, in the shape that forward returns or one array for each layout.
        `Observations` bring their noise and places, and say what of the output was observed;
        missing readings are left out, and sizes of noise that are not known are estimated for each
        group of sensors. Data are fitted too, and the residuals of the fit are checked for size,
        normality and whiteness; a misfit raises a `twoaxis.MisfitWarning`. Labels of xarray and
        pandas are matched: data, noise and points are brought into the order of what forward
        returns, or of the first of them that has labels, by their axes and entries; labels that
        do not match are refused. Where just one has labels, its positions count.
    points : array, shape (N, k), optional
        Coordinates of the N entries that forward returns, for the whiteness check. By default
        the indices of each entry.
    fit_forward : callable, optional
        Another forward model for the fit alone: the solver-discrepancy control. For a built-in
        problem, "coarse" is its coarse solver. The data always come from `forward`.
    vectorized : bool
        Whether the forward models take vectors of parameters and return predictions with a
        leading axis.
    method : {"auto", "bank", "interpolant", "direct", "linear"}
        How replicas are fitted. "bank": one parameter, from a bank of solved values with PCHIP
        interpolation. "direct": nonlinear least squares with the model itself. "interpolant":
        nonlinear least squares on a polynomial in place of the model, around the center; replicas
        that leave its region are fitted directly, and all of them where it is not accurate
        enough. "linear": the tangent of the model at the center, which gives the Fisher
        prediction replica by replica. "auto" takes the bank for one parameter (the interpolant
        beyond about 140,000 observations, where the bank would not fit in a gigabyte) and the
        tangent for more than 15. For several it takes the interpolant for 20 replicas or more, and
        direct fits for fewer or for a vectorized model, which solves the datasets side by side.
        Data are always fitted with the bank or the model itself; by "linear" from few starts, with
        the ends of the profile sets from the tangent at the estimate.
    bank : int
        Entries of the bank. Where the check against direct optimization finds a difference of
        more than 0.05 standard errors, the bank is refined, and a message says so. A bank that
        refinement does not bring below one standard error is refused.
    starts : int
        Starting points of a direct fit. Data take more where these, or replicas, end in different
        minima; with ``starts=1`` they do not.
    level : float
        Confidence level of the likelihood-profile sets.
    validate : int
        Number of estimates from the bank, or from the interpolant or the tangent of each layout,
        that are checked against direct optimization. 0 turns the check and the refinement that
        follows from it off: the accuracy of the estimates is then not known.
    missing : {"raise", "drop"}
        What to do with NaN in `data`: refuse them, or leave those sites out of their layout. How
        many were left out is in a message, ``data.dropped``.
    engine : object with a ``map`` method, optional
        Where the model runs: ``engine.map(function, items)`` yields ``function(item)`` in order.
        A `concurrent.futures.ProcessPoolExecutor`, a thread pool or a `multiprocessing.Pool` are
        engines. Processes need forward models that can be pickled: functions at the top level of
        a module. By default the model runs in this process. The result does not depend on it.
    progress : bool
        Whether to show progress: bars on a terminal and in notebooks, elsewhere a line on
        standard error now and then, if it takes longer than a few seconds. A call that may take
        longer than half a minute says first about how many model runs it needs, their time, and
        what would be cheaper (not for a vectorized model, whose runs are not timed).

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
    >>> found = ta.resolve("allen-cahn", layouts=[8], replicas=50)
    >>> round(float(found.fisher_error_percent[0]), 3)
    2.35
    """
    _check_settings(replicas, bank, starts, level, validate, method)
    said: list[Message] = []
    if isinstance(data, Observations):
        as_observations(data, noise, points)  # which are given once
    elif isinstance(data, Mapping) and any(isinstance(v, Observations) for v in data.values()):
        raise InputError(
            "one Observations, or a mapping from layouts to arrays, as data",
            "a mapping to Observations",
            "resolve each of them by itself",
        )
    if hasattr(forward, "forward_inputs"):  # a refinement, which is its own forward model
        said = forward.resolution_messages(other_sites=layouts is not None)
        given = forward.forward_inputs()
        forward, parameters, points, vectorized = (
            given[name] for name in ("forward", "parameters", "points", "vectorized")
        )
        noise = given["noise"] if noise is None else noise
    arguments: dict[str, Any] = {
        "forward": forward,
        "parameters": parameters,
        "noise": noise,
        "layouts": layouts,
        "points": points,
        "fit_forward": fit_forward,
        "vectorized": vectorized,
    }
    if isinstance(forward, str | EvolutionProblem | SteadyProblem):
        problem = get_problem(forward)
        arguments = problem_arguments(problem, parameters, noise, layouts, points, fit_forward)
        chosen = RECOVERABILITY_SEED if seed is None else seed
        stream: Any = noise_seed(problem, chosen)  # type: ignore[arg-type]
    else:
        stream = 0 if seed is None else seed
        check_seed(stream)
    arguments |= {"data": data, "level": level, "missing": missing, "engine": engine}
    spent = 0
    if at is None and data is not None and _nowhere(Parameters(arguments["parameters"])):
        at, spent, told = _fitted_center(arguments, starts, progress)
        said.append(told)
    setup = prepare(**arguments, at=at)
    draws = _draws(stream, replicas, max(len(sites) for sites in setup.layouts.values()))
    began, runs = time.perf_counter(), setup.model.runs
    derivative = sensitivities(setup.model, setup.q, setup.units)
    around = (time.perf_counter() - began) / (setup.model.runs - runs)

    def informed(layouts: list[WhitenedLayout]) -> list[Information]:
        return [information(layout, derivative, setup.units) for layout in layouts]

    # Unusable layouts are refused before the expensive part, and forward models that draw random
    # numbers, the commonest reason for derivatives that change with the step.
    first = informed(setup.whitened(setup.noise or setup.unit_noise))
    if max(f.derivative_error.max() for f in first) > DERIVATIVE_ACCURACY:
        setup.model.check_deterministic()
    chosen_method = _chosen_method(setup, method, replicas, bank)
    cost = _cost_text(setup, chosen_method, replicas, bank, starts, around)
    announce(cost, progress and bool(cost))
    entries, check = bank, None
    while True:
        began, runs = time.perf_counter(), setup.fit_model.runs
        estimator = _estimator(setup, chosen_method, entries, starts, derivative.steps, progress)
        if not cost and isinstance(estimator, DirectEstimator):
            # A run may take longer far from the center, where this one has solved it, too.
            spread = (time.perf_counter() - began) / (setup.fit_model.runs - runs)
            cost = _cost_text(setup, chosen_method, replicas, bank, starts, spread)
            announce(cost, progress and bool(cost))
        known = setup.noise or estimate_noise(setup, estimator)
        whitened = setup.whitened(known)
        facts = informed(whitened)
        with progress_bar("fitting replicas", len(whitened) * (replicas + 1), progress) as advance:
            if chosen_method == "interpolant" and isinstance(estimator, DirectEstimator):
                shared = _fit_on_interpolants(estimator, whitened, facts, draws, validate, advance)
                fits = [each.fits for each in shared]
            else:
                shared, fits = [], _fit_replicas(estimator, whitened, draws, advance)
        linear = _check_tangents(estimator, whitened, fits, draws, validate)
        before = check
        check = check_bank(setup, estimator, whitened, fits, facts, draws, validate)
        needed = entries_needed(entries, check, before)
        if needed == entries:
            break
        if _bank_fits(setup, needed):
            entries = needed
        elif method == "auto":
            chosen_method, entries = "interpolant", bank
        else:
            break
    refuse_useless(entries, check)
    newton = _gauss_newton(setup, estimator, whitened, draws)
    if isinstance(estimator, DirectEstimator) and not all(f.center_won.all() for f in fits):
        estimator = replace(estimator, several_minima=True)  # data are fitted from more starts
    data_fits = None
    if setup.data is not None:
        with progress_bar(
            "fitting the data", fit_steps(setup) * len(whitened), progress
        ) as advance:
            data_fits = [
                fit_data(setup, estimator, each, setup.data[each.name], advance)
                for each in whitened
            ]
    messages = [
        *said,
        *_accuracy_messages(setup, facts, check, entries),
        *_failure_messages(estimator),
        *_interpolant_messages(whitened, shared),
        *_tangent_messages(estimator, linear, validate),
        *_fit_messages(setup, fits, bank, entries, estimator.starts > 1),
        *_direction_messages(setup, facts),
        *noise_free_messages(data_fits or [], setup.data or {}, known, setup.noise is None),
        *_misfit_messages(data_fits or []),
        *minima_messages(setup.parameters, data_fits or []),
        *([] if setup.readings is None else setup.readings.messages()),
    ]
    for message in messages:
        if message.code in WARNINGS:
            warnings.warn(message.text, WARNINGS[message.code], stacklevel=2)
    values = {
        **setup.parameters.variables(),
        "center": [setup.center.values[name] for name in setup.parameters],
        **_layout_values(setup, whitened, facts, fits),
        **_replica_values(setup, fits, newton),
        **_data_values(setup, data_fits),
        **_excluded_values(estimator),
        **message_variables(messages),
    }
    attributes = {
        "centered_on": setup.center.kind,
        "method": "interpolant" if any(each.used for each in shared) else estimator.method,
        "level": float(level),
        "seed": " ".join(map(str, np.atleast_1d(stream))),
        "starts": int(estimator.starts),
        "noise": _source_of(setup, known),
        "fit_forward": "same as forward" if setup.fit_model is setup.model else "another model",
        "bank_check_percent": np.nan if check is None else check.percent,
        "interpolant_error": _largest([each.error for each in shared]),
        "interpolant_check_standard_errors": _largest([each.standard_errors for each in shared]),
        "interpolant_check_deviance": _largest([each.deviance for each in shared]),
        "model_runs": spent + sum(each.runs for each in {setup.model, setup.fit_model}),
    }
    found = Resolution.from_values(values, attributes)
    found.live = LiveModel(setup, estimator, known)
    return found


def _check_settings(
    replicas: Any, bank: Any, starts: Any, level: Any, validate: Any, method: Any
) -> None:
    for name, value, least, most in (
        ("replicas", replicas, 1, 1_000_000),
        ("bank", bank, 5, 100_000),
        ("starts", starts, 1, 10_000),
        ("validate", validate, 0, 100_000),
    ):
        if not is_integer(value) or not least <= value <= most:
            raise InputError(
                f"{name} as an integer from {least} to {most}",
                f"{name}={value!r}",
                f"pass {name}={max(least, 1)} or more",
            )
    if not (isinstance(level, (float, np.floating)) and 0 < level < 1):
        raise InputError("a level between 0 and 1", f"level={level!r}", "pass level=0.95")
    if method not in get_args(Method):
        raise InputError(
            f"a method among {', '.join(get_args(Method))}", repr(method), "choose one of them"
        )


def _nowhere(parameters: Parameters) -> bool:
    """Whether no parameter of interest has a value to simulate replicas at."""
    chosen = [parameters[name] for name in parameters.of_interest]
    return all(p.truth is None and p.delivered is None for p in chosen)


def _fitted_center(
    arguments: Mapping[str, Any], starts: int, progress: bool
) -> tuple[dict[str, float], int, Message]:
    """Return the matched fit to the data as a center, its model runs, and how it is told.

    The fit is a direct one from the middle of the bounds and from points that fill them.
    """
    known = Parameters(arguments["parameters"])
    low, high = known.coordinate_bounds
    middle = known.named(known.physical((low + high) / 2))
    setup = prepare(**arguments, at=middle)
    assert setup.data is not None
    layouts = setup.whitened(setup.noise or setup.unit_noise)
    layout = max(layouts, key=lambda each: len(each.sites))
    # No percentages are known before there is a center: steps are shares of the bounds.
    units = DIFFERENCE_SHARE * (high - low)
    with progress_bar("fitting the data", seed_count(len(known), starts), progress) as advance:
        fit = build_direct(setup.fit_model, setup.q, units, STEP * units, starts, advance)
        found = fit.search(layout, layout.row(setup.data[layout.name])[None])
    ends = np.array([p.bounds for p in known.values()]).T  # exp(log(p)) is p only to rounding
    center = known.named(np.clip(known.physical(found.estimate[0]), *ends))
    where = f" on layout {layout.name}" if len(layouts) > 1 else ""
    text = (
        "no truth and no delivered value is known: replicas are simulated at the matched fit to "
        f"the data{where}, {known.value_words(center)}"
    )
    runs = sum(each.runs for each in {setup.model, setup.fit_model})
    return center, runs, Message("resolution.center_fitted", text, numbers=dict(center))


def _bank_fits(setup: Setup, entries: int) -> bool:
    """Whether a bank of so many entries fits in memory: four coefficients for each of them."""
    return 4 * 8 * entries * len(setup.fit_model.entries) <= BANK_BYTES


def _chosen_method(setup: Setup, method: Method, replicas: int, bank: int) -> Method:
    """Return the method that "auto" stands for, by the rule that `resolve` documents."""
    several = len(setup.parameters) > 1
    if several and method == "bank":
        raise InputError(
            "one parameter for a bank",
            f"the parameters {', '.join(setup.parameters)}",
            'pass method="direct", or leave method out',
        )
    fits = _bank_fits(setup, bank)
    if method == "bank" and not fits:
        raise InputError(
            f"a bank of at most {BANK_BYTES / 2**30:g} GiB",
            f"one of {bank} entries for {len(setup.fit_model.entries)} observations",
            "leave method out, or observe fewer entries with layouts=",
        )
    if method != "auto":
        return method
    if not several:
        return "bank" if fits else "interpolant"
    if len(setup.parameters) > MANY:
        return "linear"
    few = replicas < FEWEST_REPLICAS
    return "direct" if few or setup.fit_model.vectorized else "interpolant"


def expected_runs(
    setup: Setup, method: Method, replicas: int, bank: int, starts: int
) -> tuple[int, int]:
    """Return about how many model runs are to come, and how many at worst.

    At worst no interpolant is accurate enough, so that every replica is fitted directly.
    """
    dimension, layouts = len(setup.parameters), len(setup.layouts)
    fits_of_data = 0 if setup.data is None else layouts
    slope = 2 * dimension + 1
    if method == "linear":
        likely = max(SEEDS, starts) + LINEAR_STEPS * slope * (layouts + fits_of_data)
        return likely, likely
    if method == "bank":
        return bank, bank
    one = round(RUNS_PER_FIT * dimension**2 * (1 + starts) / 4)
    before = seed_count(dimension, starts) + RUNS_WITH_SETS * one * fits_of_data
    worst = before + one * (replicas + 1) * layouts
    if method == "interpolant":
        return min(before + INTERPOLANT_FITS * one * layouts, worst), worst
    return worst, worst


def _cost_text(
    setup: Setup, method: Method, replicas: int, bank: int, starts: int, seconds: float
) -> str:
    """Say what a long call will cost, and what would be cheaper; nothing of a short one.

    The time of one point of a vectorized model is not known: the first batch may be compiled.
    """
    likely, worst = expected_runs(setup, method, replicas, bank, starts)
    if worst * seconds < LONG or setup.model.vectorized:
        return ""
    text = f"twoaxis.resolve: about {likely:,} model runs of {seconds:.2g} s"
    text += f", {clock(likely * seconds)}"
    if worst > likely:
        text += f", and up to {worst:,} ({clock(worst * seconds)}) where no interpolant serves"
    cheaper = []
    linear, _ = expected_runs(setup, "linear", replicas, bank, starts)
    if linear < likely:
        cheaper.append(f'method="linear" takes about {linear:,}')
    if not setup.model.on_engine:
        cheaper.append("engine=concurrent.futures.ProcessPoolExecutor() shares them among cores")
    return "; ".join([text, *cheaper])


def _estimator(
    setup: Setup, method: Method, bank: int, starts: int, steps: FloatArray, progress: bool
) -> Estimator:
    if method != "bank":
        linear = method == "linear"
        total = max(SEEDS, starts) if linear else seed_count(len(setup.parameters), starts)
        with progress_bar("solving starting points", total, progress) as advance:
            direct = build_direct(
                setup.fit_model, setup.q, setup.units, steps, starts, advance, total
            )
        return LinearEstimator(direct) if linear else direct
    with progress_bar("solving the bank", bank, progress) as advance:
        built = build_bank(setup.fit_model, setup.q[0], bank, advance)
    return BankEstimator(built, setup.q[0], setup.level)


def _draws(seed: int | Sequence[int], replicas: int, count: int) -> FloatArray:
    """Return the standardized noise, unless it takes too much memory; the first row is zero."""
    gigabytes = 8e-9 * replicas * count
    if gigabytes > DRAWS_LIMIT:
        raise InputError(
            f"noise that fits in {DRAWS_LIMIT:g} GB of memory",
            f"{replicas} replicas of {count} values, {gigabytes:.3g} GB",
            "use fewer replicas; a few hundred determine a mean error to a few percent of itself",
        )
    draws = np.zeros((1 + replicas, count))
    standard_noise(seed, replicas, count, out=draws[1:])
    return draws


def _rows(layout: WhitenedLayout, draws: FloatArray) -> FloatArray:
    """Return the whitened deviations of all replicas; the first row is without noise."""
    return draws[:, : len(layout.sites)]


def _fit_replicas(
    estimator: Estimator, layouts: list[WhitenedLayout], draws: FloatArray, advance: Advance
) -> list[Fits]:
    """Fit every replica on every layout; the first row of each is the noise-free fit."""
    fit = estimator.fit_replicas if isinstance(estimator, LinearEstimator) else estimator.fit
    return [fit(layout, _rows(layout, draws), advance) for layout in layouts]


def _check_tangents(
    estimator: Estimator,
    layouts: list[WhitenedLayout],
    fits: list[Fits],
    draws: FloatArray,
    validate: int,
) -> float:
    """Return how far some estimates from tangents are from direct ones, in standard errors."""
    if not isinstance(estimator, LinearEstimator):
        return np.nan
    return _largest(
        [
            estimator.check(layout, _rows(layout, draws), fit, 1 + validate if validate else 0)
            for layout, fit in zip(layouts, fits, strict=True)
        ]
    )


def _fit_on_interpolants(
    estimator: DirectEstimator,
    layouts: list[WhitenedLayout],
    facts: list[Information],
    draws: FloatArray,
    validate: int,
    advance: Advance,
) -> list[InterpolantFits]:
    """Fit every replica on an interpolant of each layout."""
    return [
        fit_on_interpolant(estimator, layout, fact, _rows(layout, draws), validate, advance)
        for layout, fact in zip(layouts, facts, strict=True)
    ]


def _gauss_newton(
    setup: Setup, estimator: Estimator, layouts: list[WhitenedLayout], draws: FloatArray
) -> list[FloatArray]:
    """Return one Gauss-Newton step for every row of every layout."""
    return [
        np.clip(
            gauss_newton_step(estimator, layout, _rows(layout, draws), setup.start), *setup.bounds
        )
        for layout in layouts
    ]


def _largest(values: list[float]) -> float:
    """Return the largest of the numbers that are known, or NaN."""
    known = [value for value in values if not np.isnan(value)]
    return max(known, default=np.nan)


# ------------------------------------------------------------- the variables of the result


def _physical(setup: Setup, coordinates: Any) -> FloatArray:
    """Return physical values of coordinates (..., d), with the parameter as the first axis."""
    return np.moveaxis(setup.parameters.physical(coordinates), -1, 0)


def _replica_values(setup: Setup, fits: list[Fits], newton: list[FloatArray]) -> dict[str, Any]:
    """Return the variables with one value per replica."""

    def stacked(name: str) -> Any:
        return np.stack([getattr(f, name)[1:] for f in fits])

    values: dict[str, Any] = {
        "replica": np.arange(len(fits[0].chi2) - 1),
        "estimate": _physical(setup, stacked("estimate")),
        "gauss_newton": _physical(setup, np.stack(newton)[:, 1:]),
        "on_bound": np.moveaxis(stacked("on_bound"), -1, 0),
        "deviance": np.moveaxis(stacked("deviance"), -1, 0),
        **{name: stacked(name) for name in ("joint_deviance", "chi2", "converged")},
        "agreeing_starts": stacked("agreeing_starts"),
    }
    if fits[0].lower is not None:
        for end in ("lower", "upper"):
            values[f"set_{end}"] = _physical(setup, stacked(end))
            values[f"set_open_{end}"] = np.moveaxis(stacked(f"open_{end}"), -1, 0)
    return values


def _layout_values(
    setup: Setup, layouts: list[WhitenedLayout], facts: list[Information], fits: list[Fits]
) -> dict[str, Any]:
    """Return the variables with one value per layout."""
    return {
        "layout": [each.name for each in layouts],
        "site": _padded([each.sites for each in layouts], -1),
        "noise_deviation": _padded([each.white.deviations for each in layouts], np.nan),
        "noiseless_estimate": _physical(setup, np.stack([f.estimate[0] for f in fits])),
        "derivative_error": np.stack([f.derivative_error for f in facts], axis=1),
        "fisher_information": np.stack([f.matrix for f in facts]),
        "direction_vector": np.stack([f.directions for f in facts]),
        "direction_sd_percent": np.stack([100 * f.standard_error for f in facts]),
    }


def _padded(rows: list[Any], end: float) -> Any:
    """Stack rows of unequal length, filled up with `end`."""
    width = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, width - len(row)), constant_values=end) for row in rows])


def _data_values(setup: Setup, data_fits: list[DataFit] | None) -> dict[str, Any]:
    """Return the variables of the fit to the data."""
    if data_fits is None:
        return {}
    fits = [fit.fits for fit in data_fits]
    values: dict[str, Any] = {
        "data_estimate": _physical(setup, np.stack([f.estimate[0] for f in fits])),
        "data_gauss_newton": _physical(setup, np.stack([f.gauss_newton for f in data_fits])),
        "data_on_bound": np.stack([f.on_bound[0] for f in fits], axis=1),
        "data_noise_scale": np.array([fit.noise_scale for fit in data_fits]),
    }
    for end in ("lower", "upper"):
        ends = np.stack([getattr(f, end)[0] for f in fits])
        values[f"data_set_{end}"] = _physical(setup, ends)
        is_open = [getattr(f, f"open_{end}")[0] for f in fits]
        values[f"data_set_open_{end}"] = np.stack(is_open, axis=1)
    for name in ("size", "outliers", "normality", "whiteness"):
        found = [[c.p_value for c in fit.checks if c.name == name] for fit in data_fits]
        if any(found):  # NaN on a layout that is too small for this check
            values[f"data_{name}_p_value"] = np.array([p[0] if p else np.nan for p in found])
    return values


def _excluded_values(estimator: Estimator) -> dict[str, Any]:
    if not isinstance(estimator, BankEstimator) or not estimator.bank.excluded:
        return {}
    excluded = estimator.bank.excluded
    return {
        "excluded": np.array(list(excluded)),
        "excluded_reason": [visible(reason) for reason in excluded.values()],
    }


# ------------------------------------------------------------- messages

# Messages that are also raised as Python warnings.
WARNINGS: dict[str, type[UserWarning]] = {
    "resolution.derivative": AccuracyWarning,
    "resolution.bank_inaccurate": AccuracyWarning,
    "resolution.bank_unchecked": AccuracyWarning,
    "resolution.misfit_size": MisfitWarning,
    "resolution.misfit_normality": MisfitWarning,
    "resolution.misfit_outliers": MisfitWarning,
    "resolution.misfit_whiteness": MisfitWarning,
}


def _accuracy_messages(
    setup: Setup, facts: list[Information], check: BankCheck | None, entries: int
) -> list[Message]:
    """Report derivatives and banks that failed their own check."""
    messages = []
    worst = np.max([f.derivative_error for f in facts], axis=0)
    for name, change in zip(setup.parameters, (100 * worst).tolist(), strict=True):
        if change > 100 * DERIVATIVE_ACCURACY:
            messages.append(
                Message(
                    "resolution.derivative",
                    f"the derivative with respect to {name} changes by {change:.1f}% with the step "
                    "size: the forward model is not smooth there, and the Fisher predictions are "
                    "approximate",
                    "warning",
                    {"change_percent": change},
                )
            )
    if check is None or check.standard_errors <= BANK_ACCURACY:
        return messages
    numbers = {"percent": check.percent, "standard_errors": check.standard_errors}
    if np.isfinite(check.percent):
        text = (
            f"estimates from a bank of {entries} entries and by direct optimization differ by up "
            f"to {check.percent:.3g}%, and a finer bank does not help: the forward model is not "
            'smooth; use method="direct"'
        )
        messages.append(Message("resolution.bank_inaccurate", text, "warning", numbers))
    else:
        text = "a direct search did not converge, so that the bank could not be checked"
        messages.append(Message("resolution.bank_unchecked", text, "warning"))
    return messages


def _failure_messages(estimator: Estimator) -> list[Message]:
    """Report where the forward model failed."""
    if isinstance(estimator, BankEstimator) and estimator.bank.excluded:
        values = estimator.bank.excluded
        low, high = min(values), max(values)
        text = (
            f"the forward model failed at {len(values)} bank values from {low:.4g} to {high:.4g}, "
            f"which are excluded: {visible(next(iter(values.values())))}"
        )
        numbers = {"count": float(len(values)), "lowest": low, "highest": high}
        return [Message("resolution.excluded_values", text, numbers=numbers)]
    if isinstance(estimator, DirectEstimator) and estimator.failures:
        point, reason = estimator.failures[0]
        named = ", ".join(f"{name}={value:.4g}" for name, value in point.items())
        failed, total = len(estimator.failures), len(estimator.failures) + len(estimator.seeds)
        text = (
            f"the forward model failed at {failed} of {total} starting points, which are excluded, "
            f"such as {named}: {visible(reason)}"
        )
        return [
            Message("resolution.excluded_starts", text, numbers={"count": failed, "total": total})
        ]
    return []


def _interpolant_messages(
    layouts: list[WhitenedLayout], shared: list[InterpolantFits]
) -> list[Message]:
    """Report layouts and replicas for which the interpolant was not used."""
    messages = []
    for layout, each in zip(layouts, shared, strict=False):
        total = len(each.fits.chi2) - 1
        if not each.used:
            text = (
                f"layout {layout.name}: all replicas were fitted directly, since no interpolant "
                f"was accurate enough: {visible(each.reason)}"
            )
            messages.append(Message("resolution.interpolant_refused", text))
        elif each.directly > 1:
            count = each.directly - 1
            text = (
                f"layout {layout.name}: {count} of {total} replicas left the region of the "
                "interpolant, or may have a lower minimum elsewhere, and were fitted directly"
            )
            numbers = {"count": float(count), "total": float(total)}
            messages.append(Message("resolution.fitted_directly", text, numbers=numbers))
    return messages


def _tangent_messages(estimator: Estimator, moved: float, validate: int) -> list[Message]:
    """Say that replicas were fitted with the tangent of the model, and how good that is."""
    if not isinstance(estimator, LinearEstimator):
        return []
    count = len(estimator.direct.center)
    text = (
        f"{count} parameters: replicas were fitted with the tangent of the model at the center, as "
        "the Fisher information does, and data with the model itself from "
        f"{estimator.starts} starts, with profile sets from the tangent at the estimate"
    )
    numbers = {"parameters": float(count)}
    if np.isfinite(moved):
        text += (
            f"; fits of {validate} replicas with the model itself differ by up to {moved:.2g} "
            "standard errors"
        )
        numbers["standard_errors"] = moved
    bad = moved > TANGENT_ACCURACY
    if bad:
        text += ': the model is not linear over a standard error, and method="direct" is better'
    return [Message("resolution.linear", text, "warning" if bad else "info", numbers)]


def _fit_messages(
    setup: Setup, fits: list[Fits], bank: int, entries: int, searched: bool
) -> list[Message]:
    """Report how the fits of the replicas went."""
    messages = []
    if entries > bank:
        text = (
            f"a bank of {bank} entries was too coarse, compared with direct optimization; it was "
            f"refined to {entries}"
        )
        numbers: dict[str, float] = {"asked": bank, "used": entries}
        messages.append(Message("resolution.bank_refined", text, numbers=numbers))
    stopped = sum(int((~f.converged).sum()) for f in fits)
    if stopped:
        text = f"{stopped} fits did not converge; their last point is reported"
        messages.append(Message("resolution.not_converged", text, "warning", {"count": stopped}))
    elsewhere = sum(int((~f.center_won[1:]).sum()) for f in fits)
    if elsewhere:
        text = (
            f"{elsewhere} fits have a lower minimum away from the center: the likelihood has "
            "several minima, and more starts may find lower ones"
        )
        if not searched:  # a bank shows all of them
            text = (
                f"{elsewhere} fits have another minimum that is lower or as good: the likelihood "
                "has several minima, between which more observations of the same kind may not "
                "decide"
            )
        messages.append(Message("resolution.several_minima", text, numbers={"count": elsewhere}))
    on_bound = np.sum([f.on_bound[1:].sum(axis=0) for f in fits], axis=0)
    total = sum(len(f.chi2) - 1 for f in fits)
    by_name = dict(zip(setup.parameters, on_bound.tolist(), strict=True))
    counts = {name: (by_name[name], name) for name in setup.parameters.scalars}
    for name, group in setup.parameters.functions.items():
        worst = max(group.members, key=lambda member: by_name[member])
        nodes = sum(by_name[member] > 0 for member in group.members)
        where = f"{name} at {nodes} of {len(group.members)} nodes, most at {worst},"
        counts[name] = (by_name[worst], where)
    for count, name in counts.values():
        if count:
            text = (
                f"{count} of {total} estimates of {name} are at the end of the usable range, which "
                "limits their deviation"
            )
            numbers = {"count": count, "total": total}
            messages.append(Message("resolution.on_bound", text, "warning", numbers))
    return messages


def _direction_messages(setup: Setup, facts: list[Information]) -> list[Message]:
    """Report null and poorly resolved directions of the parameters of interest."""
    messages = []
    for layout, fact in zip(setup.layouts, facts, strict=True):
        directions, errors = directions_of_interest(
            fact.directions, fact.standard_error, setup.parameters.nuisance
        )
        poorly = leaves_bounds(directions * setup.units, errors, setup.q, setup.bounds)
        told: set[tuple[str, bool]] = set()
        for row in np.flatnonzero(poorly).tolist():  # the worst first
            error = 100 * float(errors[row])
            direction = f"layout {layout}: the direction"
            function = setup.parameters.main_function(directions[row])
            if function is not None:
                if (function.name, np.isinf(error)) in told:
                    continue  # one message is enough; the result has all directions
                told.add((function.name, np.isinf(error)))
                alike = sum(
                    setup.parameters.main_function(directions[k]) is function
                    and np.isinf(errors[k]) == np.isinf(errors[row])
                    for k in np.flatnonzero(poorly).tolist()
                )
                if alike > 1:
                    direction = (
                        f"layout {layout}: the first of {alike} directions of {function.name}"
                    )
            direction = f"{direction} {setup.parameters.direction_words(directions[row])}"
            if np.isinf(error):
                text = f"{direction} is null: the observations do not depend on it"
                messages.append(Message("resolution.null_direction", text, "warning"))
            else:
                text = (
                    f"{direction} is poorly resolved: its standard error of {error:.3g}% leaves "
                    "the parameter bounds"
                )
                numbers = {"standard_error_percent": error}
                messages.append(Message("resolution.poorly_resolved", text, "warning", numbers))
    return messages


def _source_of(setup: Setup, noise: Noise) -> str:
    """Return where the noise comes from."""
    if setup.noise is not None and np.isinf(noise.freedom):
        return "declared"
    if np.isinf(noise.freedom):
        return "nominal, since the data are noise-free"
    source = "matched fit" if setup.noise is None else "refined field"
    return f"estimated from the {source}"


def _misfit_messages(data_fits: list[DataFit]) -> list[Message]:
    """Report residuals that contradict the model or the declared noise."""
    checks = [(fit.layout, check) for fit in data_fits for check in fit.checks]
    # Bonferroni: the chance of a false alarm does not grow with the number of layouts.
    return [
        Message(
            f"resolution.misfit_{check.name}",
            f"layout {layout}: {check.meaning} (p = {check.p_value:.2g})",
            "warning",
            {"statistic": check.statistic, "p_value": check.p_value},
        )
        for layout, check in checks
        if check.p_value * len(checks) < ALARM
    ]
