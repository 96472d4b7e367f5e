r"""Calibration: how the complete pipeline behaves at every parameter that could be true.

For every candidate :math:`p` of a grid, data are simulated, :math:`y = G(p) + \text{noise}`, and
the whole pipeline :math:`A` runs again on each of them. The answers say which bias and which spread
the pipeline has there, network, optimiser, residual loss and all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter, Parameters
from twoaxis.remedies.calibration.inversion import candidate_grid
from twoaxis.remedies.calibration.pipeline import (
    Rerun,
    build_simulator,
    check_count,
    check_pipeline,
    noise_draws,
    pipeline_seeds,
    trimmed,
)
from twoaxis.remedies.calibration.result import SCHEMA, Calibration


def calibrate(
    pipeline: Callable[..., Any],
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike,
    *,
    layout: ArrayLike | None = None,
    candidates: int | ArrayLike = 17,
    interval: tuple[float, float] | None = None,
    replicas: int = 59,
    seed: int | Sequence[int] = 0,
    vectorized: bool | None = None,
    vectorized_forward: bool = False,
    progress: bool = True,
) -> Calibration:
    """Run a complete inverse pipeline on data simulated at every candidate.

    Parameters
    ----------
    pipeline : callable
        ``pipeline(values, seed)``: observed values of shape (n,) and a seed in; a number, a mapping
        from names to values, a `twoaxis.FrozenResidual` or an object with ``delivered`` out. An
        exception, and a value that is not finite, is a failure: it is counted, and stands on both
        sides of every estimate when ranks are taken.
    forward : callable
        ``forward(**parameters)``: noise-free predictions, any simulator, any fixed shape.
    parameters : mapping of str to Parameter
        One parameter.
    noise : float or array
        A standard deviation, one for each entry that `forward` returns, or a covariance.
    layout : array of int, optional
        What is observed: flat indices into what `forward` returns. By default all of it.
    candidates : int or array
        How many, evenly spaced in the coordinate over the bounds, or the values themselves.
    interval : tuple of float, optional
        Candidates between these values in place of the bounds.
    replicas : int
        Simulated datasets for each candidate. 59 make the rank of a 90% set exact.
    seed : int or sequence of int
        Of the noise and of the seeds that the pipeline gets. All candidates share both.
    vectorized : bool, optional
        Whether ``pipeline(values, seeds)`` takes all datasets at once, shape (m, n) with m seeds,
        and returns m answers. By default what ``pipeline.vectorized`` says, and else False.
    vectorized_forward : bool
        Whether `forward` takes a vector and returns predictions with a leading axis.
    progress : bool
        Show a progress bar on a terminal.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import numpy as np
    >>> from twoaxis import Parameter
    >>> t = np.linspace(0, 1, 20)
    >>> found = calibrate(
    ...     lambda values, seed: 1.3 * values.mean(),          # wrong by 30 percent
    ...     lambda height: height * np.ones(20),
    ...     {"height": Parameter(bounds=(0.5, 2.0))}, noise=0.2, candidates=5, replicas=19,
    ... )
    >>> round(found.confidence_set(estimate=1.3).corrected, 1)
    1.0
    """
    rerun, values = prepare(
        pipeline,
        forward,
        parameters,
        noise,
        layout=layout,
        candidates=candidates,
        interval=interval,
        replicas=replicas,
        seed=seed,
        vectorized=vectorized,
        vectorized_forward=vectorized_forward,
        progress=progress,
    )
    return first_round(rerun, values, seed)


def prepare(
    pipeline: Callable[..., Any],
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike,
    *,
    layout: ArrayLike | None,
    candidates: int | ArrayLike,
    interval: tuple[float, float] | None,
    replicas: int,
    seed: int | Sequence[int],
    vectorized: bool | None,
    vectorized_forward: bool,
    progress: bool,
) -> tuple[Rerun, Any]:
    """Check everything before expensive work starts; return the rerun and the candidates."""
    checked = one_parameter(parameters)
    ((name, parameter),) = checked.items()
    check_pipeline(pipeline)
    check_count("replicas", replicas, 2)
    grid = candidate_grid(parameter, candidates, interval)
    known = (parameter.delivered, parameter.truth, parameter.start, grid[len(grid) // 2])
    center = {name: float(next(value for value in known if value is not None))}
    simulator = build_simulator(forward, checked, noise, layout, center, vectorized_forward)
    draws = noise_draws(seed, replicas, len(simulator.sites), len(grid))
    seeds = pipeline_seeds(seed, replicas)
    return Rerun(pipeline, simulator, checked, draws, seeds, vectorized, progress), grid


def one_parameter(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the parameters if there is one, or say that there must be."""
    checked = Parameters(parameters)
    if len(checked) > 1:
        raise InputError(
            "one parameter for a calibrated set",
            f"the parameters {', '.join(checked)}",
            "hold the others fixed in forward and in the pipeline, and say so beside the set",
        )
    return checked


def first_round(rerun: Rerun, candidates: Any, seed: int | Sequence[int]) -> Calibration:
    """Run the pipeline over the grid."""
    parameter = rerun.parameter
    attributes = {
        "schema": SCHEMA,
        "parameter": rerun.name,
        "coordinate": parameter.coordinate,
        "lower_bound": parameter.bounds[0],
        "upper_bound": parameter.bounds[1],
        "scale": 0.0 if parameter.scale is None else parameter.scale,
        "seed": " ".join(map(str, np.atleast_1d(seed))),
    }
    return assembled(rerun, rerun.at(candidates, 0).assign_attrs(attributes))


def extended(found: Calibration, rerun: Rerun, candidates: Any, number: int) -> Calibration:
    """Return the calibration with more candidates."""
    more = rerun.at(candidates, number)
    both = xr.concat([found.data, more], dim="candidate", combine_attrs="override")
    return assembled(rerun, both.sortby("candidate"))


def assembled(rerun: Rerun, data: xr.Dataset) -> Calibration:
    """Return a calibration that knows its cost and its failures."""
    inside, left_out = trimmed(data)
    # A refinement no longer sees what the first round left out at the ends.
    before = str(data.attrs.get("untested", "")).splitlines()
    untested = list(dict.fromkeys([*before, *left_out]))
    told = list(untested)
    simulated = inside["simulated"].values
    reasons = [str(r) for r in inside["reason"].values[simulated].ravel() if r]
    runs = int(simulated.sum()) * inside.sizes["replica"]
    if reasons:
        told.append(
            f"{len(reasons)} of {runs} runs of the pipeline failed and stand on both sides of "
            f"every estimate; the first: {' '.join(reasons[0].split())}"
        )
    facts = {
        "retrainings": runs,
        "untested": "\n".join(untested),
        "messages": "\n".join(told),
    }
    return Calibration(inside.assign_attrs(facts), rerun)
