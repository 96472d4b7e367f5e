"""Where to observe next: the k sites that add most information about the parameters.

Sensitivities of the forward model tell how much each entry of its output knows about the
parameters. Sites are chosen greedily and by exchange (`search`), within the rules on where they may
lie (`rules`), so that the average log information over the design points is large. The error of the
layout is predicted to first order and can be verified by refits (`result`).

How much an observation knows depends on the parameter, which is unknown. A design therefore
belongs to one value (a truth, a delivered value), to several candidates, or to an interval that
axis 1 leaves open. An interval becomes points: the midpoints of equal parts of it in the
parameter's coordinate. Several intervals are filled by a Halton sequence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import is_integer
from twoaxis.datasets import layout, noise_scale
from twoaxis.errors import AccuracyWarning, InputError
from twoaxis.forward import ForwardModel, get_solver
from twoaxis.labels import first_labels
from twoaxis.parameters import Parameters, Unknowns, by_member_name
from twoaxis.problems import Problem, get_problem
from twoaxis.progress import progress_bar
from twoaxis.remedies.refine import Refinement
from twoaxis.remedies.simulator import check_count
from twoaxis.remedies.sites.result import Live, Searched, SiteForward, SuggestedSites, remembering
from twoaxis.remedies.sites.rules import (
    Free,
    Rules,
    allowed_entries,
    checked_rules,
    named_positions,
)
from twoaxis.remedies.sites.search import (
    Criterion,
    by_worth,
    exchange,
    greedy,
    mean_error_percent,
    packed,
    unpacked,
)
from twoaxis.resolution.fisher import DERIVATIVE_ACCURACY, sensitivities
from twoaxis.resolution.layouts import checked_layouts, checked_noise

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
At = str | Mapping[str, Any] | Sequence[Mapping[str, float]] | None

# Sensitivities of all candidates at all design points are held together, up to this many
# gigabytes.
PRODUCTS_LIMIT = 2.0
# The information of the bounds, at least, as a share of that of the best candidate.
LEAST_SHARE = 1e-9
# Squares of larger numbers, and sums of many of them, overflow.
LARGEST = 1e145


def suggest_sites(
    forward: Callable[..., Any] | str | Problem | Refinement,
    parameters: Unknowns | int | None = None,
    noise: ArrayLike | None = None,
    count: int | None = None,
    *,
    at: At = None,
    points: ArrayLike | Mapping[str, ArrayLike] | None = None,
    present: int | ArrayLike | None = None,
    spacing: ArrayLike | None = None,
    cells: Sequence[int] | None = None,
    forbidden: ArrayLike | Callable[[FloatArray], ArrayLike] | None = None,
    design_points: int = 15,
    vectorized: bool = False,
    progress: bool = True,
) -> SuggestedSites:
    """Choose the next observations, and predict the error that they leave.

    Parameters
    ----------
    forward : callable, str, Problem or Refinement
        ``forward(**parameters)``: noise-free predictions at every candidate site, any shape.
        Entries that are not finite cannot be observed. Or a built-in problem: then candidates are
        the grid of its solver, and parameters, noise and coordinates are its own, so that
        ``suggest_sites("burgers", 20)`` is enough. Or what `twoaxis.refine` returned, with
        candidates as `points`: ``suggest_sites(refined, 20, points=candidates)`` needs no solver.
    parameters : mapping of str to Parameter or UnknownFunction
        The unknowns by name; `forward` is called with these names. Nuisance parameters are fitted
        too, and sites are chosen for what they tell about the others.
    noise : float or array
        A standard deviation, or one for each entry that `forward` returns.
    count : int
        How many observations to add; for a built-in problem, by default as many as a published
        layout has.
    at : {"truth", "delivered"}, mapping, or sequence of mappings, optional
        The parameter values that the layout is made for. ``{"nu": 0.01}`` is one point,
        ``{"nu": (0.005, 0.02)}`` an interval, such as a likelihood-profile set, and a list of
        mappings several candidates; the layout is then good on average over them. By default
        the truth where it is known, else the delivered value.
    points : array, shape (N, c), or mapping of str to array, optional
        Where each of the N entries lies; a mapping also names the coordinates. By default the
        indices of the output. Of a refinement these are the candidates.
    present : array of int, optional
        Flat indices of present observations, or, for a built-in problem, the seed of a published
        layout. Without it, the new sites are the complete layout. A refinement brings its own
        observations; with ``present=[]`` they do not count.
    spacing : float or sequence of float, optional
        Least distance between two sites in `points`, or one length for each of them:
        ``sum_j ((a_j - b_j) / s_j)^2 >= 1``. An infinite one leaves its coordinate out.
    cells : sequence of int, optional
        Shape of a cell, in entries along each axis of the output (for the built-in problems time
        levels by space nodes, or rows by columns); a cell holds at most one site.
    forbidden : array or callable, optional
        What must not be observed: a mask in the shape of the output, flat indices, or a function
        from coordinates (N, c) to N booleans.
    design_points : int
        Number of design points in an interval.
    vectorized : bool
        Whether `forward` takes vectors of parameters and returns predictions with a leading axis.
    progress : bool
        Whether to show a progress bar on a terminal.

    Returns
    -------
    SuggestedSites

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 4, 41)
    >>> found = ta.suggest_sites(
    ...     forward=lambda rate: np.exp(-rate * t),
    ...     parameters={"rate": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))},
    ...     noise=0.05, count=3, points={"t": t}, spacing=0.2,
    ... )
    >>> sorted(found.points.sel(axis="t").values.round(1).tolist())
    [0.8, 1.0, 1.2]
    >>> found = ta.suggest_sites("darcy", 20, cells=(4, 4))
    >>> found.predicted.sel(observations=20).values.round(1).tolist()
    [16.3, 5.0]
    """
    forward_at: Callable[[IndexArray], SiteForward] | None = None
    model: Any = forward
    if is_integer(parameters) and isinstance(forward, (str, Problem, Refinement)):
        parameters, count = None, parameters
    if isinstance(forward, Refinement):
        _warn_untrusted(forward)
        own = forward.site_inputs(points, observed=present is None)
        model, points, vectorized = own["forward"], own["points"], True
        parameters = own["parameters"] | by_member_name({} if parameters is None else parameters)  # type: ignore[arg-type]
        noise = own["noise"] if noise is None else noise
        if present is None:
            present = own["present"]
            mask: Any = np.asarray(forbidden)
            if mask.dtype == bool:  # of the candidates alone
                forbidden = np.append(mask, np.zeros(len(own["present"]), dtype=np.bool_))
    elif isinstance(forward, (str, Problem)):
        problem, solver = get_problem(forward), get_solver(forward)
        every = np.arange(int(np.prod(solver.shape)))

        def field(**values: FloatArray) -> FloatArray:
            return solver.at_sites(every, **values).reshape(-1, *solver.shape)

        def at_sites(sites: IndexArray) -> SiteForward:
            # Refits need the chosen sites alone, and the solver can leave out the rest.
            return lambda **values: solver.at_sites(sites, **values)

        model, vectorized, forward_at = field, True, at_sites
        parameters = problem.parameters if parameters is None else parameters
        noise = noise_scale(problem) if noise is None else noise
        count = problem.observed.sites if count is None else count
        if points is None:
            points = dict(zip(problem.domain, solver.points(every).T, strict=True))
        if is_integer(present):
            present = layout(problem, int(present))
    request = checked_request(
        model, parameters, noise, count, at, points, present, spacing, cells, forbidden,
        design_points, vectorized,
    )  # fmt: skip
    return _search(request, forward_at or remembering(request.model), progress)


def _warn_untrusted(refinement: Refinement) -> None:
    if refinement.trusted:
        return
    codes = [m.code for m in refinement.messages if m.severity != "info"]
    text = f"the sites rest on a refinement that is not trusted: {', '.join(codes)}"
    warnings.warn(text, AccuracyWarning, stacklevel=3)


def _search(
    request: Request, forward_at: Callable[[IndexArray], SiteForward], progress: bool
) -> SuggestedSites:
    """Choose the sites of a checked request."""
    count = request.count
    slopes, present_slopes = whitened_slopes(request, progress)
    nuisance = request.parameters.nuisance
    criterion = Criterion(packed(slopes), nuisance if nuisance.any() else None)
    if not criterion.products.any():
        raise InputError(
            "candidates whose predictions depend on the parameters",
            "predictions that do not change with any of them",
            "check that forward uses its arguments, or allow sites where the solution responds",
        )
    known = unpacked(packed(present_slopes).sum(axis=-1))
    start = known + bounds_information(request, slopes)
    free = Free(request.rules, request.present)
    with progress_bar("choosing sites", count, progress) as advance:
        chosen = greedy(criterion, start, free, count, advance)
    with progress_bar("exchanging sites", None, progress) as advance:
        chosen, swaps = exchange(criterion, start, free, chosen, advance)
    ordered = by_worth(criterion, start, chosen)
    found = SuggestedSites.from_values(
        _values(request, criterion, known, start, ordered),
        {"kind": request.points.kind, "swaps": swaps},
    )
    found._live = Live(request.parameters, request.deviations, request.positions, forward_at)
    found._searched = Searched(criterion, start, request.rules, request.present, chosen)
    return found


def _values(
    request: Request,
    criterion: Criterion,
    known: FloatArray,
    start: FloatArray,
    ordered: list[int],
) -> dict[str, Any]:
    """Return the basic variables of a search.

    Predictions leave out the information of the bounds: like `fisher_error_percent` they are about
    the observations alone.
    """
    count, parameters = len(ordered), request.parameters
    # (P, count + 1, d, d): the information of the present layout and of each longer one.
    steps = np.moveaxis(unpacked(np.moveaxis(criterion.products[:, :, ordered], 1, 2)), 1, 0)
    zero = np.zeros((1, *known.shape))
    information = np.moveaxis(known + np.concatenate([zero, np.cumsum(steps, axis=0)]), 0, 1)
    # A random site adds the mean information of the candidates.
    mean = unpacked(criterion.products.mean(axis=2))
    random = known[:, None] + np.arange(count + 1)[:, None, None] * mean[:, None]
    worth = np.full(len(request.positions), np.nan)
    last = start + information[:, -1] - known
    worth[request.rules.candidates] = 100 * criterion.leverage(last) / len(parameters.of_interest)
    return {
        **parameters.variables(),
        "axis": request.names,
        "shape": np.array(request.model.shape, dtype=np.int64),
        "position": request.positions,
        "worth_percent": worth,
        "present": request.present,
        "index": request.rules.candidates[ordered],
        "value": [[one[name] for name in parameters] for one in request.points.values],
        "predicted_error_percent": np.moveaxis(mean_error_percent(information), 1, 2),
        "random_error_percent": np.moveaxis(mean_error_percent(random), 1, 2),
    }


# ------------------------------------------------------------------ design points


HOW = (
    'write at={"nu": 0.01} for one point, at={"nu": (0.005, 0.02)} for an interval, or a list of '
    "points for several candidates"
)


@dataclass(frozen=True)
class DesignPoints:
    """Parameter values that have equal weight in the design.

    Attributes
    ----------
    kind : {"truth", "delivered", "point", "interval", "candidates"}
    values : list of dict of str to float
        In physical units.
    coordinates : array, shape (P, d)
    units : array, shape (P, d)
        The step in each coordinate that stands for 100%.
    """

    kind: str
    values: list[dict[str, float]]
    coordinates: FloatArray
    units: FloatArray


def points_for(parameters: Parameters, at: Any, count: int) -> DesignPoints:
    """Read `at` as one point, several candidates or an interval of `count` points."""
    if isinstance(at, Sequence) and not isinstance(at, str):
        if not at or not all(isinstance(one, Mapping) for one in at):
            raise InputError("candidates as mappings from names to values", f"at={at!r}", HOW)
        values = [parameters.center(one).values for one in at]
        kind = "candidates" if len(values) > 1 else "point"
    elif isinstance(at, Mapping) and any(np.ndim(value) for value in at.values()):
        values, kind = _interval(parameters, at, count), "interval"
    elif at is None or isinstance(at, (str, Mapping)):
        center = parameters.center(at)
        values, kind = [center.values], center.kind
    else:
        raise InputError(
            '"truth", "delivered", a point, an interval or candidates', f"at={at!r}", HOW
        )
    coordinates = np.array([parameters.coordinates(one) for one in values])
    units = np.array([parameters.percent_units(one) for one in values])
    return DesignPoints(kind, values, coordinates, units)


def _interval(parameters: Parameters, at: Mapping[str, Any], count: int) -> list[dict[str, float]]:
    """Fill the intervals that `at` names; single values in it stay fixed."""
    ends = {name: _ends(name, value) for name, value in at.items()}
    # Each end is checked like a point of its own: names, bounds, finite numbers.
    lows, highs = (parameters.center({n: e[i] for n, e in ends.items()}).values for i in (0, 1))
    open_names = [name for name in parameters if lows[name] < highs[name]]
    backwards = [name for name in parameters if lows[name] > highs[name]]
    if backwards or not open_names:
        raise InputError(
            "an interval with the lower end first",
            f"at={at!r}",
            HOW,
        )
    if len(open_names) == 1:
        places = (np.arange(count)[:, None] + 0.5) / count
    else:
        # Imported here: scipy.stats takes long to load.
        from scipy.stats import qmc

        # The first Halton point is a corner of the box and is left out.
        places = qmc.Halton(len(open_names), scramble=False).random(count + 1)[1:]
    filled = dict(lows)
    result = []
    for place in places:
        for name, share in zip(open_names, place, strict=True):
            low, high = parameters[name].to_coordinate([lows[name], highs[name]])
            filled[name] = float(parameters[name].to_value(low + share * (high - low)))
        result.append(dict(filled))
    return result


def _ends(name: str, value: Any) -> tuple[Any, Any]:
    """Return the two ends of an interval; a single value is both of them."""
    if np.ndim(value) == 0:
        return value, value
    if np.shape(value) != (2,):
        raise InputError(
            f"one value or a pair (low, high) for {name}",
            f"{name}={value!r}",
            HOW,
        )
    return value[0], value[1]


def described(values: Mapping[str, float]) -> str:
    """Parameter values as ``nu=0.01``."""
    return ", ".join(f"{name}={value:g}" for name, value in values.items())


# ------------------------------------------------------------------ checked input


@dataclass(frozen=True)
class Request:
    """The checked input of one call.

    Attributes
    ----------
    count : int
        How many sites to choose.
    parameters : Parameters
    model : ForwardModel
    points : DesignPoints
        The parameter values that the layout is made for.
    deviations : array, shape (N,)
        Standard deviation of the noise of every entry.
    names : list of str
        Of the coordinates.
    positions : array, shape (N, c)
    rules : Rules
        The candidates, and which of them a site takes away.
    present : array of int
        Flat indices of present observations.
    """

    count: int
    parameters: Parameters
    model: ForwardModel
    points: DesignPoints
    deviations: FloatArray
    names: list[str]
    positions: FloatArray
    rules: Rules
    present: IndexArray


def checked_request(
    forward: Callable[..., Any],
    parameters: Any,
    noise: Any,
    count: Any,
    at: At,
    points: Any,
    present: Any,
    spacing: Any,
    cells: Any,
    forbidden: Any,
    design_points: int,
    vectorized: bool,
) -> Request:
    """Check the arguments of `twoaxis.suggest_sites`."""
    count = check_count("count", count, 1)
    check_count("design_points", design_points, 1)
    checked = Parameters(parameters)
    where = points_for(checked, at, design_points)
    middle = where.values[len(where.values) // 2]
    model = ForwardModel(forward, checked, middle, vectorized=vectorized)
    labels = model.labels or first_labels(model.shape, {"noise": noise})
    deviations = checked_noise(noise, model.shape, labels).array
    if deviations.ndim == 2:
        raise InputError(
            "independent noise, one standard deviation or one for each entry",
            "a covariance",
            "pass its standard deviations, numpy.sqrt(numpy.diag(noise)); sites that share noise "
            "are not handled",
        )
    names, positions = named_positions(points, model.shape, labels)
    now = np.empty(0, dtype=np.intp)
    if present is not None and np.size(present):
        now = checked_layouts({"present": present}, model.size)["present"]
    allowed = allowed_entries(forbidden, model.shape, positions, labels)
    allowed &= np.isfinite(model.center_values)
    allowed[now] = False
    rules = checked_rules(allowed, model.shape, positions, spacing, cells)
    _check_room(rules, now, count)
    _check_memory(len(where.values), len(checked), len(rules.candidates))
    return Request(count, checked, model, where, deviations, names, positions, rules, now)


def _check_room(rules: Rules, present: IndexArray, count: int) -> None:
    """Refuse what cannot be placed; whether spacing leaves room shows during the search."""
    room = len(rules.candidates)
    if rules.cell is not None:
        open_cells = np.unique(rules.cell[rules.candidates])
        room = len(np.setdiff1d(open_cells, rules.cell[present]))
    if room < count:
        raise InputError(
            f"room for {count} new observations under the rules",
            f"room for {room}",
            "ask for fewer, or loosen spacing, cells or forbidden",
        )


def _check_memory(points: int, d: int, candidates: int) -> None:
    gigabytes = 8e-9 * points * candidates * d * (d + 1) / 2
    if gigabytes > PRODUCTS_LIMIT:
        raise InputError(
            f"sensitivities that fit in {PRODUCTS_LIMIT:g} GB of memory",
            f"{candidates} candidates at {points} points, {gigabytes:.3g} GB",
            "forbid candidates, or pass fewer design_points",
        )


# ------------------------------------------------------------------ sensitivities


def whitened_slopes(request: Request, progress: bool) -> tuple[FloatArray, FloatArray]:
    """Whitened sensitivities of candidates (P, n, d) and present sites (P, n', d)."""
    model, points = request.model, request.points
    entries = np.union1d(request.rules.candidates, request.present).astype(np.intp)
    model.observe(entries)
    deviations = request.deviations[entries][:, None]
    candidate = np.searchsorted(entries, request.rules.candidates)
    present = np.searchsorted(entries, request.present)
    count, d = points.coordinates.shape
    slopes = np.empty((count, len(candidate), d))
    present_slopes = np.empty((count, len(present), d))
    worst = np.zeros(d)
    with progress_bar("differentiating the forward model", count, progress) as advance:
        for p in range(count):
            try:
                found = sensitivities(model, points.coordinates[p], points.units[p])
            except InputError as error:
                raise InputError(
                    f"forward to work around {described(points.values[p])}, for which the layout "
                    "is made",
                    error.got,
                    "move that value to where the model works, or narrow the interval",
                ) from None
            white = found.slope / deviations * points.units[p]
            if not (np.abs(white) < LARGEST).all():
                raise InputError(
                    f"sensitivities below {LARGEST:g} times the noise, whose squares are numbers",
                    "some that overflow",
                    "check the units of noise and of forward: the noise is far too small",
                )
            rough = found.error(found.slope / deviations, found.coarse / deviations)
            worst = np.maximum(worst, rough)
            slopes[p], present_slopes[p] = white[candidate], white[present]
            advance(1)
    if worst.max() > DERIVATIVE_ACCURACY:
        model.check_deterministic()
    for name, share in zip(model.parameters, worst.tolist(), strict=True):
        if share > DERIVATIVE_ACCURACY:
            text = (
                f"the derivative with respect to {name} changes by {100 * share:.1f}% with "
                "the step: the forward model is not smooth there, and the choice is approximate"
            )
            warnings.warn(text, AccuracyWarning, stacklevel=4)
    return slopes, present_slopes


def bounds_information(request: Request, slopes: FloatArray) -> FloatArray:
    """Return the information of the bounds, that of a uniform distribution, (P, d, d).

    At least a small share of the information of the best candidate for each parameter is taken, so
    that the information of the first few sites can be inverted however small the noise is.
    """
    low, high = request.parameters.coordinate_bounds
    precision = 12 * (request.points.units / (high - low)) ** 2
    precision = np.maximum(precision, LEAST_SHARE * (slopes**2).max(axis=1))
    return np.asarray(precision[:, :, None] * np.eye(len(low)))
