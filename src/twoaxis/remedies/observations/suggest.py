"""Where to observe next: the k sites that add most information about the parameters.

Sensitivities of the forward model tell how much each entry of its output knows about the
parameters. The sites are chosen greedily and by exchange (`search`), under rules on where they may
lie (`rules`), so that the average log information over the design points is large (`criterion`).
The error that the layout will have is predicted to first order and can be verified by refits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.progress import progress_bar
from twoaxis.remedies.observations.assemble import assemble
from twoaxis.remedies.observations.criterion import Criterion, packed, unpacked
from twoaxis.remedies.observations.live import Live, remembering
from twoaxis.remedies.observations.request import At, Request, checked_request
from twoaxis.remedies.observations.result import Searched, SuggestedSites
from twoaxis.remedies.observations.rules import Free
from twoaxis.remedies.observations.search import by_worth, exchange, greedy
from twoaxis.remedies.observations.slopes import bounds_information, whitened_slopes

FloatArray = NDArray[np.float64]


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
