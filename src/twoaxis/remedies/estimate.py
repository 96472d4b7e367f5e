"""Estimation: parameters from an equation and data, without any trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any

import numpy as np

from twoaxis.arrays import FloatArray, check_seed, is_integer
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.observations import Observations, experiments_of
from twoaxis.parameters import Unknowns
from twoaxis.progress import progress_bar
from twoaxis.remedies.refine.observed import given_kinds, placed
from twoaxis.remedies.refine.of_splines import refined_on_splines
from twoaxis.remedies.refine.result import Refinement


def estimate(
    residual: Callable[..., Any] | FrozenResidual,
    parameters: Unknowns | None = None,
    data: Any = None,
    *,
    domain: Any = None,
    conditions: Callable[..., Any] | None = None,
    outputs: int | None = None,
    framework: Any = None,
    seed: int = 0,
    progress: bool = True,
) -> Refinement:
    r"""Estimate parameters from an equation and data; nothing is trained.

    A field of splines takes the place of a network. It starts as a smooth curve through the data
    with the parameters that its residual prefers, and is carried to where the equation holds:
    there value and standard error are those of least squares with an exact solver, initial and
    boundary values that are not given as `conditions` fitted as well.

    Parameters
    ----------
    residual : callable or FrozenResidual
        ``residual(model, points, **parameters)`` in PyTorch or JAX, as for `twoaxis.from_torch`
        and `twoaxis.from_jax`: ``model(points)`` has the shape (N, outputs). Or a model of any
        adapter, trained or not: its equation, points and conditions are used, its network is not.
    parameters : mapping of str to Parameter, UnknownFunction or ParameterArray
        With `bounds`.
    data : Observations, list or mapping
        The readings, with their places. A list: several kinds of readings of one field. A mapping:
        separate experiments that share the parameters, each with a field of its own.
    domain : sequence or mapping of (low, high), optional
        Where the equation holds, an interval for each coordinate, in their order: ``[(-1, 1),
        (0, 2)]``, or ``{"x": (-1, 1), "t": (0, 2)}``. The range of the data by default.
    conditions : callable, optional
        ``conditions(model)``: what holds besides the equation, zero where it does.
    outputs : int, optional
        Number of components of the field; by default as many as are observed. Those that are not
        observed are hidden states.
    framework : {"torch", "jax"}, optional
        That of the residual, where its code does not tell.
    seed : int
        Of the starts that are drawn between the bounds.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Refinement

    Examples
    --------
    >>> import numpy as np, torch, twoaxis as ta
    >>> def decay(model, t, rate):
    ...     u = model(t)
    ...     (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    ...     return u_t + rate * u
    >>> t = np.linspace(0, 2, 30)
    >>> data = ta.Observations(np.exp(-1.2 * t), at=t, noise=0.01)
    >>> found = ta.estimate(decay, {"rate": ta.Parameter(bounds=(0.1, 10))}, data, progress=False)
    >>> round(found.values["rate"], 2), found.trusted
    (1.2, True)
    """
    check_seed(seed)
    if isinstance(residual, FrozenResidual):
        frozen = residual
        kinds = [[placed(frozen, each) for each in some] for some in given_kinds(data)]
    else:
        if parameters is None or data is None:
            raise InputError(
                "an equation, its parameters and data",
                f"no {'parameters' if parameters is None else 'data'}",
                "call twoaxis.estimate(residual, parameters, data)",
            )
        experiments = experiments_of(data)
        kinds = list(experiments.values())
        frozen = _frozen(residual, parameters, kinds, domain, conditions, outputs, framework)
    found, why = refined_on_splines(frozen, kinds, seed, progress, trained=False)
    if found is None:
        raise InputError(
            "an equation that a field of splines can obey",
            f"one where {why}",
            "train a network, and refine it with twoaxis.refine(model, data)",
        )
    return found


def estimate_many(
    residual: Callable[..., Any],
    parameters: Unknowns,
    datasets: Mapping[str, Any],
    *,
    engine: Any = None,
    progress: bool = True,
    **options: Any,
) -> dict[str, Refinement]:
    """Estimate the parameters of many datasets, each by itself.

    Parameters
    ----------
    residual, parameters
        As for `twoaxis.estimate`.
    datasets : mapping of str to data
        Each as the `data` of `twoaxis.estimate`.
    engine : {"processes"} or Executor, optional
        Where they are computed, side by side: in processes of this machine, which import the
        module of `residual`, or an executor of ``concurrent.futures``, such as
        ``dask.distributed.Client(...).get_executor()``, which takes any function. One after another
        in this process by default.
    progress : bool
        Show a progress bar.
    **options
        Of `twoaxis.estimate`.

    Returns
    -------
    dict of str to Refinement
        As from files: without their fields.

    Examples
    --------
    >>> import numpy as np, torch, twoaxis as ta
    >>> def decay(model, t, rate):
    ...     u = model(t)
    ...     (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    ...     return u_t + rate * u
    >>> t = np.linspace(0, 2, 30)
    >>> data = {n: ta.Observations(np.exp(-r * t), t, 0.01) for n, r in {"a": 1, "b": 2}.items()}
    >>> rate = {"rate": ta.Parameter(bounds=(0.1, 10))}
    >>> found = ta.estimate_many(decay, rate, data, progress=False)
    >>> {name: round(each.values["rate"], 2) for name, each in found.items()}
    {'a': 1.0, 'b': 2.0}
    """
    if not isinstance(datasets, Mapping) or not datasets:
        raise InputError(
            "datasets as a mapping from names to data",
            repr(datasets)[:80],
            'pass {"first": Observations(...), "second": Observations(...)}',
        )
    with ExitStack() as stack:
        if engine == "processes":
            engine = stack.enter_context(ProcessPoolExecutor(mp_context=get_context("spawn")))
        if engine is not None and not callable(getattr(engine, "submit", None)):
            raise InputError(
                'engine="processes" or an executor with submit()',
                repr(engine)[:80],
                "pass concurrent.futures.ProcessPoolExecutor(), or a Dask client's get_executor()",
            )
        advance = stack.enter_context(progress_bar("estimating", len(datasets), progress))
        given = (residual, parameters, options)
        results: dict[str, Any] = {}
        if engine is None:
            for name, data in datasets.items():
                results[name] = _estimated(data, *given)
                advance(1, name)
        else:
            waiting = {engine.submit(_estimated, d, *given): name for name, d in datasets.items()}
            for done in as_completed(waiting):
                results[waiting[done]] = _result_of(done)
                advance(1, waiting[done])
    return {name: Refinement(results[name]) for name in datasets}


def _estimated(data: Any, residual: Any, parameters: Any, options: Mapping[str, Any]) -> Any:
    """Return the data of one estimate."""
    return estimate(residual, parameters, data, progress=False, **options).data


def _result_of(done: Future[Any]) -> Any:
    """Return what a worker returned, or say why it could not be asked."""
    try:
        return done.result()
    except Exception as error:
        if "pickle" not in str(error):
            raise
        raise InputError(
            "a residual that other processes can import, a function of a module",
            str(error),
            "define it in a file of its own, or pass a Dask client's get_executor()",
        ) from error


def _frozen(
    residual: Callable[..., Any],
    parameters: Unknowns,
    kinds: Sequence[Sequence[Observations]],
    domain: Any,
    conditions: Callable[..., Any] | None,
    outputs: int | None,
    framework: Any,
) -> FrozenResidual:
    """Freeze an equation on its domain."""
    # Not at the top: it imports PyTorch or JAX only where it is called.
    from twoaxis.adapters.equation import from_equation

    every = [each for some in kinds for each in some]
    low, high, names = _domain(domain, np.concatenate([each.sites for each in every]))
    count = _count(outputs, every)
    return from_equation(
        residual,
        parameters,
        low,
        high,
        count,
        conditions=conditions,
        framework=framework,
        axes=names,
    )


def _count(outputs: Any, every: Sequence[Observations]) -> int:
    """Return the number of components of the field: those that are observed, and others."""
    if outputs is None:
        return max(_observed_outputs(each) for each in every)
    seen = max((_observed_outputs(each) for each in every if not callable(each.of)), default=1)
    if not is_integer(outputs) or outputs < seen:
        raise InputError(
            f"outputs as a number of components, at least the {seen} that are observed",
            f"outputs={outputs!r}",
            f"pass outputs={seen}, or more for hidden states",
        )
    return int(outputs)


def _observed_outputs(observations: Observations) -> int:
    of = observations.of
    if of is None:
        return observations.columns
    if callable(of):
        raise InputError(
            "the number of components of the field",
            "readings of a function of it",
            "pass outputs=...",
        )
    return int(np.max(of)) + 1


def _domain(domain: Any, sites: FloatArray) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return lower and upper ends of a domain, and the names of its axes."""
    names = tuple(map(str, domain)) if isinstance(domain, Mapping) else ()
    if domain is None:
        ends = np.stack([sites.min(axis=0), sites.max(axis=0)], axis=1)
    else:
        given = list(domain.values()) if isinstance(domain, Mapping) else domain
        try:
            ends = np.array(given, dtype=float)
        except (TypeError, ValueError):
            ends = np.empty(0)
        ends = ends[None] if ends.shape == (2,) else ends
    axes = sites.shape[1]
    if ends.shape != (axes, 2) or not np.isfinite(ends).all() or (ends[:, 0] >= ends[:, 1]).any():
        raise InputError(
            f"domain as {axes} intervals (low, high), one for each coordinate of the data",
            f"{domain!r}" if domain is not None else "data in one place",
            "pass domain=[(0, 1), ...], in the order of the columns of at",
        )
    outside = ((sites < ends[:, 0]) | (sites > ends[:, 1])).any(axis=1)
    if outside.any():
        raise InputError(
            "observations within the domain",
            f"{int(outside.sum())} outside it, the first at {sites[outside][0]}",
            "widen the domain, or leave them out",
        )
    return ends[:, 0], ends[:, 1], names
