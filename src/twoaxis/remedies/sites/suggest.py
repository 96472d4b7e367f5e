"""Where to observe next: the k sites that add most information about the parameters.

Sensitivities of the forward model tell how much each entry of its output knows about the
parameters. The sites are chosen greedily and by exchange (`search`), under rules on where they may
lie (`rules`), so that the average log information over the design points is large (`criterion`).
The error that the layout will have is predicted to first order and can be verified by refits.

The checked input of one call: whatever can be wrong is found out before the work starts.

How much every candidate knows: whitened sensitivities at every design point.

Suggested sites for the built-in problems: their solver, their noise, their grid.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import AccuracyWarning, InputError
from twoaxis.forward import ForwardModel, get_solver
from twoaxis.observations import layout, noise_scale
from twoaxis.parameters import Parameter, Parameters
from twoaxis.problems import Problem, get_problem
from twoaxis.progress import progress_bar
from twoaxis.remedies.sites.result import (
    DesignPoints,
    Live,
    Searched,
    SiteForward,
    SuggestedSites,
    assemble,
    described,
    design_points,
    remembering,
)
from twoaxis.remedies.sites.search import (
    Criterion,
    Free,
    Rules,
    allowed_entries,
    by_worth,
    checked_rules,
    exchange,
    greedy,
    named_positions,
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


@dataclass(frozen=True)
class Request:
    """The checked input of one call.

    Attributes
    ----------
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
        Flat indices of what is observed already.
    """

    model: ForwardModel
    points: DesignPoints
    deviations: FloatArray
    names: list[str]
    positions: FloatArray
    rules: Rules
    present: IndexArray


def checked_request(
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike,
    k: int,
    at: At,
    coordinates: Any,
    present: Any,
    spacing: Any,
    cells: Any,
    forbidden: Any,
    points: int,
    vectorized: bool,
) -> Request:
    """Check the arguments of `twoaxis.suggest_sites`."""
    _check_count("k", k)
    _check_count("points", points)
    checked = Parameters(parameters)
    where = design_points(checked, at, points)
    middle = where.values[len(where.values) // 2]
    model = ForwardModel(forward, checked, middle, vectorized=vectorized)
    deviations = checked_noise(noise, model.shape).array
    if deviations.ndim == 2:
        raise InputError(
            "independent noise, one standard deviation or one for each entry",
            "a covariance",
            "pass its standard deviations, numpy.sqrt(numpy.diag(noise)); sites that share noise "
            "are not handled",
        )
    names, positions = named_positions(coordinates, model.shape)
    now = np.empty(0, dtype=np.intp)
    if present is not None and np.size(present):
        now = checked_layouts({"present": present}, model.size)["present"]
    allowed = allowed_entries(forbidden, model.shape, positions) & np.isfinite(model.center_values)
    allowed[now] = False
    rules = checked_rules(allowed, model.shape, positions, spacing, cells)
    _check_room(rules, now, k)
    _check_memory(len(where.values), len(checked), len(rules.candidates))
    return Request(model, where, deviations, names, positions, rules, now)


def _check_count(name: str, value: Any) -> None:
    if not is_integer(value) or value < 1:
        raise InputError(
            f"{name} as a whole number of at least 1", f"{name}={value!r}", f"pass {name}=10"
        )


def _check_room(rules: Rules, present: IndexArray, k: int) -> None:
    """Refuse at once what cannot be placed; spacing is found out about during the search."""
    room = len(rules.candidates)
    if rules.cell is not None:
        open_cells = np.unique(rules.cell[rules.candidates])
        room = len(np.setdiff1d(open_cells, rules.cell[present]))
    if room < k:
        raise InputError(
            f"room for {k} new observations under the rules",
            f"room for {room}",
            "ask for fewer, or loosen spacing, cells or forbidden",
        )


def _check_memory(points: int, d: int, candidates: int) -> None:
    gigabytes = 8e-9 * points * candidates * d * (d + 1) / 2
    if gigabytes > PRODUCTS_LIMIT:
        raise InputError(
            f"sensitivities that fit in {PRODUCTS_LIMIT:g} GB of memory",
            f"{candidates} candidates at {points} points, {gigabytes:.3g} GB",
            "forbid candidates, or ask for fewer points",
        )


# What the bounds know at the least, as a share of what the best candidate knows.
LEAST_SHARE = 1e-9
# Squares of larger numbers, and sums of many of them, overflow.
LARGEST = 1e145


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
            rough = (found.slope - found.coarse) / deviations * points.units[p]
            size = np.linalg.norm(white, axis=0)
            worst = np.maximum(worst, np.linalg.norm(rough, axis=0) / np.where(size > 0, size, 1.0))
            slopes[p], present_slopes[p] = white[candidate], white[present]
            advance(1)
    for name, share in zip(model.parameters, worst.tolist(), strict=True):
        if share > DERIVATIVE_ACCURACY:
            text = (
                f"the derivative with respect to {name} changes by {100 * share:.1f} percent with "
                "the step: the forward model is not smooth there, and the choice is rough"
            )
            warnings.warn(text, AccuracyWarning, stacklevel=4)
    return slopes, present_slopes


def bounds_information(request: Request, slopes: FloatArray) -> FloatArray:
    """What the bounds know: inverse variance of a uniform distribution, (P, d, d).

    It is never taken as less than a small share of what the best candidate knows, so that the
    information of the first few sites can be inverted however small the noise is.
    """
    low, high = Parameters(request.model.parameters).coordinate_bounds
    precision = 12 * (request.points.units / (high - low)) ** 2
    most = np.sum(slopes**2, axis=2).max(axis=1)
    precision = np.maximum(precision, LEAST_SHARE * most[:, None])
    return np.asarray(precision[:, :, None] * np.eye(len(low)))


def suggest_sites(
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike,
    k: int,
    *,
    at: At = None,
    coordinates: ArrayLike | Mapping[str, ArrayLike] | None = None,
    present: ArrayLike | None = None,
    spacing: ArrayLike | None = None,
    cells: Sequence[int] | None = None,
    forbidden: ArrayLike | Callable[[FloatArray], ArrayLike] | None = None,
    points: int = 15,
    vectorized: bool = False,
    progress: bool = True,
) -> SuggestedSites:
    """Choose the next k observations, and predict the error that they leave.

    Parameters
    ----------
    forward : callable
        ``forward(**parameters)``: noise-free predictions at every candidate site, any shape.
        Entries that are not finite cannot be observed.
    parameters : mapping of str to Parameter
        The unknowns by name; `forward` is called with these names.
    noise : float or array
        A standard deviation, or one for each entry that `forward` returns.
    k : int
        How many observations to add.
    at : {"truth", "delivered"}, mapping, or sequence of mappings, optional
        The parameter values that the layout is made for. ``{"nu": 0.01}`` is one point,
        ``{"nu": (0.005, 0.02)}`` an interval, such as a likelihood-profile set, and a list of
        mappings several candidates; the layout is then good on average over them. By default
        the truth where it is known, else the delivered value.
    coordinates : array, shape (N, c), or mapping of str to array, optional
        Where each of the N entries lies; a mapping also names the coordinates. By default the
        indices of the output.
    present : array of int, optional
        Flat indices of what is observed already. Without it, the k sites are a whole layout.
    spacing : float or sequence of float, optional
        Least distance between two sites in `coordinates`, or one length for each of them:
        ``sum_j ((a_j - b_j) / s_j)^2 >= 1``. An infinite one leaves its coordinate out.
    cells : sequence of int, optional
        Shape of a cell, in entries along each axis of the output; a cell holds at most one site.
    forbidden : array or callable, optional
        What must not be observed: a mask in the shape of the output, flat indices, or a function
        from coordinates (N, c) to N truth values.
    points : int
        Into how many points an interval is cut.
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
    ...     noise=0.05, k=3, coordinates={"t": t}, spacing=0.2,
    ... )
    >>> sorted(found.coordinates.sel(axis="t").values.round(1).tolist())
    [0.8, 1.0, 1.2]
    """
    request = checked_request(
        forward, parameters, noise, k, at, coordinates, present, spacing, cells, forbidden,
        points, vectorized,
    )  # fmt: skip
    return _search(request, k, progress)


def _search(request: Request, k: int, progress: bool) -> SuggestedSites:
    """Choose the sites of a checked request."""
    slopes, present_slopes = whitened_slopes(request, progress)
    criterion = Criterion(packed(slopes))
    if not criterion.products.any():
        raise InputError(
            "candidates whose predictions depend on the parameters",
            "predictions that do not change with any of them",
            "check that forward uses its arguments, or allow sites where the solution responds",
        )
    known = unpacked(packed(present_slopes).sum(axis=-1))
    start = known + bounds_information(request, slopes)
    free = Free(request.rules, request.present)
    with progress_bar("choosing sites", k, progress) as advance:
        chosen = greedy(criterion, start, free, k, advance)
    with progress_bar("exchanging sites", None, progress) as advance:
        chosen, swaps = exchange(criterion, start, free, chosen, advance)
    searched = Searched(criterion, start, request.rules, request.present, chosen)
    live = Live(
        request.model.parameters, request.deviations, request.positions, remembering(request.model)
    )
    ordered = by_worth(criterion, start, chosen)
    data = assemble(
        parameters=list(request.model.parameters),
        points=request.points,
        names=request.names,
        positions=request.positions,
        shape=request.model.shape,
        candidates=request.rules.candidates,
        present=request.present,
        ordered=ordered,
        known=known,
        start=start,
        criterion=criterion,
        swaps=swaps,
    )
    return SuggestedSites(data, live, searched)


def suggest_sites_for_problem(
    problem: str | Problem,
    k: int | None = None,
    *,
    at: At = None,
    present: int | ArrayLike | None = None,
    cells: Sequence[int] | None = None,
    **options: Any,
) -> SuggestedSites:
    """Suggest sites for a built-in problem, on the grid of its fine solver.

    Parameters
    ----------
    problem : str or Problem
    k : int, optional
        By default as many as a published layout has.
    at
        As in `twoaxis.suggest_sites`.
    present : int or array of int, optional
        Seed of a published layout, or flat indices into the fine field.
    cells : sequence of int, optional
        Shape of a cell in time levels by space nodes (Darcy: rows by columns).
    **options
        Further arguments of `twoaxis.suggest_sites`, such as ``spacing`` or ``forbidden``.

    Examples
    --------
    >>> import twoaxis as ta
    >>> found = ta.suggest_sites_for_problem("darcy", 20, cells=(4, 4))
    >>> found.predicted.sel(observations=20).values.round(1).tolist()
    [16.3, 5.0]
    """
    problem = get_problem(problem)
    solver = get_solver(problem)
    every = np.arange(int(np.prod(solver.shape)))
    if is_integer(present):
        present = layout(problem, int(present))

    def forward_at(sites: IndexArray) -> SiteForward:
        return lambda **parameters: solver.at_sites(sites, **parameters)

    def field(**parameters: FloatArray) -> FloatArray:
        return solver.at_sites(every, **parameters).reshape(-1, *solver.shape)

    found = suggest_sites(
        field,
        problem.parameters,
        noise_scale(problem),
        problem.observed.sites if k is None else k,
        at=at,
        coordinates=dict(zip(problem.domain, solver.points(every).T, strict=True)),
        present=present,
        cells=cells,
        vectorized=True,
        **options,
    )
    # The refits need the chosen sites alone, and the solver can leave out the rest.
    live = replace(found.live, forward_at=forward_at)
    return SuggestedSites(found.data, live, found.searched)
