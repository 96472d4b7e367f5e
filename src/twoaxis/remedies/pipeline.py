"""Running the user's pipeline many times: datasets and seeds in, answers out.

A pipeline is a callable. It takes observed values and a seed and returns what it would deliver: a
number, a mapping from names to values, a frozen residual, or an object with ``delivered`` and
``frozen``. A pipeline that fails on a dataset has answered, too: the failure is kept with its
reason and counted, because leaving it out would make the other answers look better.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.parameters import Parameters
from twoaxis.progress import progress_bar

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A pipeline whose first calls all raise has a defect, which the rest would only repeat.
FIRST_CALLS = 5
# Relative difference below which two answers are the same.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Answer:
    """What a pipeline returned for one dataset.

    Attributes
    ----------
    delivered : dict of str to float
        By parameter; empty where it failed.
    failure : str
        Why there is no usable value; empty where there is one.
    source : object
        What the pipeline returned, unchanged.
    """

    delivered: dict[str, float]
    failure: str = ""
    source: Any = None

    @property
    def frozen(self) -> FrozenResidual | None:
        """The frozen residual of the answer, computed when it is first needed."""
        if isinstance(self.source, FrozenResidual):
            return self.source
        found = getattr(self.source, "frozen", None)
        return found if isinstance(found, FrozenResidual) else None


def check_pipeline(pipeline: Any) -> None:
    """Refuse what cannot be called with values and a seed."""
    if not callable(pipeline):
        raise InputError(
            "the pipeline as a function of observed values and a seed",
            type(pipeline).__name__,
            "pass a callable, as in lambda values, seed: fit(values, seed)",
        )
    try:
        signature = inspect.signature(pipeline)
    except (TypeError, ValueError):  # built-in callables may have none
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise InputError(
            "a pipeline that takes two arguments, the observed values and a seed",
            f"the signature pipeline{signature} ({error})",
            "wrap it, as in lambda values, seed: fit(values); a deterministic one ignores the seed",
        ) from None


def run_pipeline(
    pipeline: Callable[..., Any],
    values: FloatArray,
    seeds: IntArray,
    parameters: Parameters,
    *,
    vectorized: bool | None = None,
    progress: bool = True,
    title: str = "running the pipeline",
    order: IntArray | None = None,
    proven: bool = False,
    optional: Collection[str] = (),
) -> list[Answer]:
    """Run a pipeline on every dataset.

    Parameters
    ----------
    pipeline : callable
    values : array, shape (m, n)
    seeds : array of int, shape (m,)
    parameters : mapping of str to Parameter
        Whose values are looked for in the answers.
    vectorized : bool, optional
        Whether one call takes all datasets, ``pipeline(values, seeds)``, and returns m answers.
        By default what the attribute ``pipeline.vectorized`` says, and else False.
    progress : bool
        Show a progress bar where datasets go one by one.
    title : str
        What the bar says.
    order : array of int, shape (m,), optional
        In which order datasets go where they go one by one: the first calls decide whether the
        pipeline has a defect, so they should not be all of one kind.
    proven : bool
        Whether the pipeline is known to answer: then calls that raise are failures, however many,
        and not a defect.
    optional : collection of str
        Parameters whose values may be missing in an answer.

    Returns
    -------
    list of Answer
        In the order of `values`.
    """
    together = getattr(pipeline, "vectorized", False) if vectorized is None else vectorized
    if not len(values):
        return []
    if together:
        return _batch(pipeline, values, seeds, parameters, proven, optional)
    turns = np.arange(len(values)) if order is None else order
    found = list(
        _one_by_one(pipeline, values, seeds, turns, parameters, progress, title, proven, optional)
    )
    return [found[place] for place in np.argsort(turns)]


def read_answer(output: Any, parameters: Parameters, optional: Collection[str] = ()) -> Answer:
    """Return what a pipeline returned as an answer; an unusable value is a failure.

    An unusable value of an `optional` parameter is left out.
    """
    if output is None:
        return Answer({}, "the pipeline returned nothing")
    if getattr(output, "finished", True) is False:
        return Answer({}, str(getattr(output, "status", "the pipeline did not finish")))
    values = _values(output, parameters, optional)
    for name in list(values):
        value, failure = values[name], ""
        if not np.isfinite(value):
            failure = f"{name} = {value} is not finite"
        elif parameters[name].coordinate == "log" and value <= 0:
            failure = f"{name} = {value:g} is not positive, as its coordinate demands"
        if failure and name in optional:
            del values[name]
        elif failure:
            return Answer({}, failure)
    return Answer(values, source=output)


def _one_by_one(
    pipeline: Callable[..., Any],
    values: FloatArray,
    seeds: IntArray,
    turns: IntArray,
    parameters: Parameters,
    progress: bool,
    title: str,
    proven: bool,
    optional: Collection[str],
) -> Iterator[Answer]:
    raised = 0
    with progress_bar(title, len(values), progress) as advance:
        for number, place in enumerate(turns):
            try:
                # A pipeline may change what it gets: it gets a copy.
                output = pipeline(values[place].copy(), int(seeds[place]))
            except Exception as error:  # somebody's training may fail in any way of its own
                raised += 1
                if not proven and raised == number + 1 == FIRST_CALLS:
                    raise InputError(
                        "a pipeline that answers",
                        f"{type(error).__name__}: {error}, and as much in each of the first "
                        f"{raised} calls",
                        "make such a call by itself, pipeline(values, seed), and correct it",
                    ) from error
                yield _raised(error)
            else:
                yield read_answer(output, parameters, optional)
            advance(1)


def _raised(error: Exception) -> Answer:
    return Answer({}, f"the pipeline raised {type(error).__name__}: {error}")


def _batch(
    pipeline: Callable[..., Any],
    values: FloatArray,
    seeds: IntArray,
    parameters: Parameters,
    proven: bool,
    optional: Collection[str],
) -> list[Answer]:
    """Return the answers of one call for all datasets."""
    try:
        output = pipeline(values.copy(), seeds.copy())
    except InputError:
        raise
    except Exception as error:
        if proven:
            return [_raised(error)] * len(values)
        raise InputError(
            f"a vectorized pipeline that answers for {len(values)} datasets",
            f"{type(error).__name__}: {error}",
            "return NaN for a dataset that fails, or pass vectorized=False",
        ) from error
    return [read_answer(each, parameters, optional) for each in _rows(output, len(values))]


def _rows(output: Any, count: int) -> list[Any]:
    """Return the output of a vectorized pipeline, one item per dataset."""
    if isinstance(output, Mapping):
        columns = {str(name): np.atleast_1d(_array(each)) for name, each in output.items()}
        if all(len(each) == count for each in columns.values()):
            return [{name: each[k] for name, each in columns.items()} for k in range(count)]
        got = " and ".join(f"{len(each)} of {name}" for name, each in columns.items())
    else:
        listed = output if isinstance(output, Sequence) else _array(output)
        if isinstance(listed, (str, bytes)) or (isinstance(listed, np.ndarray) and not listed.ndim):
            got = type(output).__name__
        elif len(listed) == count:
            return list(listed)
        else:
            got = f"{len(listed)} answers"
    raise InputError(
        f"{count} answers of a vectorized pipeline, one for each dataset",
        got,
        "return a list or an array with one answer for each row, or pass vectorized=False",
    )


def _values(output: Any, parameters: Parameters, optional: Collection[str]) -> dict[str, float]:
    """Return the delivered values by name."""
    needed = [name for name in parameters if name not in optional]
    given: Any = output
    if isinstance(output, FrozenResidual):
        given = {name: p.delivered for name, p in output.parameters.items()}
    elif not isinstance(output, Mapping) and hasattr(output, "delivered"):
        given = output.delivered
    if not isinstance(given, Mapping):
        if len(needed) > 1:
            raise _unusable(output, needed)
        given = {needed[0]: given}
    found = {name: _number(given.get(name)) for name in parameters}
    if any(found[name] is None for name in needed):
        raise _unusable(output, needed)
    return {name: value for name, value in found.items() if value is not None}


def _unusable(output: Any, parameters: Sequence[str]) -> InputError:
    return InputError(
        f"answers of the pipeline that give {', '.join(parameters)}",
        repr(output)[:100],
        "return a number, a mapping from names to values, a twoaxis.FrozenResidual whose "
        "parameters carry delivered, or an object with delivered and frozen",
    )


def _number(value: Any) -> float | None:
    """Return one real number as a float, or None where it is not one."""
    if value is None or isinstance(value, (str, bytes, bool)):
        return None
    try:
        array = _array(value)
    except (TypeError, ValueError):
        return None
    return float(array.reshape(())) if array.size == 1 and array.dtype.kind in "iuf" else None


def is_constant(values: FloatArray, axis: int | None = None) -> NDArray[np.bool_]:
    """Tell where two answers or more are all the same, up to rounding; NaN is no answer."""
    known = np.isfinite(values)
    low = np.where(known, values, np.inf).min(axis=axis, initial=np.inf)
    high = np.where(known, values, -np.inf).max(axis=axis, initial=-np.inf)
    same = high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high))
    return np.asarray((known.sum(axis=axis) > 1) & same)


def _array(value: Any) -> Any:
    """Return a value as a NumPy array."""
    if hasattr(value, "detach"):  # a PyTorch tensor that may carry a graph or live elsewhere
        value = value.detach().cpu()
    if isinstance(value, np.ma.MaskedArray):  # what is masked is no answer: a failure, as NaN is
        value = np.ma.filled(value.astype(float), np.nan)
    return np.asarray(value)
