r"""Anybody's inverse pipeline as one thing: datasets and seeds in, answers out.

A pipeline is a callable. It takes observed values and a seed and returns what it would deliver: a
number, a mapping from names to values, a frozen residual, or an object with ``delivered`` and
``frozen``. A pipeline that fails on a dataset has answered, too: the failure is kept with its
reason and counted, because an answer that is left out would make the others look better.

The user's simulator and noise, checked once: datasets at any parameter.

A simulated dataset is :math:`y = G(q) + L z`: the forward model at a parameter, restricted to the
observed entries, plus standardised noise :math:`z` coloured by the factor :math:`L` of the noise
covariance. The same draws serve every parameter, so that only the parameter differs.

The complete pipeline, run again on simulated data of many candidates in one batch.

Every candidate gets the same standardised noise and the same seeds. Each candidate is then tested
with draws that are independent between replicas, which is all that its rank needs, and the answers
move smoothly from candidate to candidate. More candidates only sharpen the same set: there is no
new chance in them, so that refining where an edge lies does not select lucky draws.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.frozen import FrozenResidual
from twoaxis.observations import standard_noise
from twoaxis.parameters import Parameter
from twoaxis.progress import progress_bar
<<<<<<< HEAD
from twoaxis.resolution.design import checked_layouts, checked_noise, real_array
=======
from twoaxis.resolution.layouts import checked_layouts, checked_noise, real_array
from twoaxis.arrays import is_integer
>>>>>>> main

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
        The answer as it came, for whoever needs more than the value.
    """

    delivered: dict[str, float]
    failure: str = ""
    source: Any = None

    @property
    def frozen(self) -> FrozenResidual | None:
        """The frozen residual that came with the answer, computed only when it is asked for."""
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
            "wrap it, as in lambda values, seed: fit(values); one without chance ignores the seed",
        ) from None


def ask(
    pipeline: Callable[..., Any],
    values: FloatArray,
    seeds: IntArray,
    parameters: Mapping[str, Parameter],
    *,
    vectorized: bool | None = None,
    progress: bool = True,
    title: str = "running the pipeline",
    order: IntArray | None = None,
    proven: bool = False,
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

    Returns
    -------
    list of Answer
        In the order of `values`.
    """
    together = getattr(pipeline, "vectorized", False) if vectorized is None else vectorized
    if not len(values):
        return []
    if together:
        return _batch(pipeline, values, seeds, parameters, proven)
    turns = np.arange(len(values)) if order is None else order
    found = list(_one_by_one(pipeline, values, seeds, turns, parameters, progress, title, proven))
    return [found[place] for place in np.argsort(turns)]


def read_answer(output: Any, parameters: Mapping[str, Parameter]) -> Answer:
    """Return what a pipeline returned as an answer; an unusable value is a failure."""
    if output is None:
        return Answer({}, "the pipeline returned nothing")
    if getattr(output, "finished", True) is False:
        return Answer({}, str(getattr(output, "status", "the pipeline did not finish")))
    values = _values(output, parameters)
    for name, parameter in parameters.items():
        value = values[name]
        if not np.isfinite(value):
            return Answer({}, f"{name} = {value} is not finite")
        if parameter.coordinate == "log" and value <= 0:
            return Answer({}, f"{name} = {value:g} is not positive, as its coordinate demands")
    return Answer(values, source=output)


def _one_by_one(
    pipeline: Callable[..., Any],
    values: FloatArray,
    seeds: IntArray,
    turns: IntArray,
    parameters: Mapping[str, Parameter],
    progress: bool,
    title: str,
    proven: bool,
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
                yield read_answer(output, parameters)
            advance(1)


def _raised(error: Exception) -> Answer:
    return Answer({}, f"the pipeline raised {type(error).__name__}: {error}")


def _batch(
    pipeline: Callable[..., Any],
    values: FloatArray,
    seeds: IntArray,
    parameters: Mapping[str, Parameter],
    proven: bool,
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
            f"a vectorised pipeline that answers for {len(values)} datasets",
            f"{type(error).__name__}: {error}",
            "return NaN for a dataset that fails, or pass vectorized=False",
        ) from error
    return [read_answer(each, parameters) for each in _rows(output, len(values))]


def _rows(output: Any, count: int) -> list[Any]:
    """Return what a vectorised pipeline gave, dataset by dataset."""
    if isinstance(output, Mapping):
        columns = {str(name): np.atleast_1d(_array(each)) for name, each in output.items()}
        if all(len(each) == count for each in columns.values()):
            return [{name: each[k] for name, each in columns.items()} for k in range(count)]
        came = " and ".join(f"{len(each)} of {name}" for name, each in columns.items())
    else:
        listed = output if isinstance(output, Sequence) else _array(output)
        if isinstance(listed, (str, bytes)) or (isinstance(listed, np.ndarray) and not listed.ndim):
            came = type(output).__name__
        elif len(listed) == count:
            return list(listed)
        else:
            came = f"{len(listed)} answers"
    raise InputError(
        f"{count} answers of a vectorised pipeline, one for each dataset",
        came,
        "return a list or an array with one answer for each row, or pass vectorized=False",
    )


def _values(output: Any, parameters: Mapping[str, Parameter]) -> dict[str, float]:
    """Return the delivered values by name."""
    given: Any = output
    if isinstance(output, FrozenResidual):
        given = {name: p.delivered for name, p in output.parameters.items()}
    elif not isinstance(output, Mapping) and hasattr(output, "delivered"):
        given = output.delivered
    if not isinstance(given, Mapping):
        if len(parameters) > 1:
            raise _strange(output, parameters)
        given = {next(iter(parameters)): given}
    found = {name: _number(given.get(name)) for name in parameters}
    missing = [name for name, value in found.items() if value is None]
    if missing:
        raise _strange(output, parameters)
    return {name: value for name, value in found.items() if value is not None}


def _strange(output: Any, parameters: Mapping[str, Parameter]) -> InputError:
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
    """Return what came as a NumPy array."""
    if hasattr(value, "detach"):  # a PyTorch tensor that may carry a graph or live elsewhere
        value = value.detach().cpu()
    if isinstance(value, np.ma.MaskedArray):  # what is masked is no answer: a failure, as NaN is
        value = np.ma.filled(value.astype(float), np.nan)
    return np.asarray(value)


LAYOUT = "observed"
# Simulated datasets are held together, up to this many gigabytes.
VALUES_LIMIT = 4.0
# Keeps the seeds of the pipeline apart from the noise of the same seed.
PIPELINE_STREAM = 1


@dataclass(frozen=True, eq=False)
class Simulator:
    """A forward model, what is observed of it, and its noise.

    Attributes
    ----------
    model : ForwardModel
        Restricted to the observed entries, in the order of the layout.
    sites : array of int, shape (n,)
        Flat indices into the output of the forward model.
    factor : array, shape (n,) or (n, n)
        Standard deviations of independent noise, or a lower Cholesky factor of its covariance.
    """

    model: ForwardModel
    sites: NDArray[np.intp]
    factor: FloatArray

    def color(self, draws: FloatArray) -> FloatArray:
        """Return standardised noise, shape (R, n), as noise of this observation."""
        return draws * self.factor if self.factor.ndim == 1 else draws @ self.factor.T

    def simulate(self, coordinates: FloatArray, draws: FloatArray) -> tuple[FloatArray, list[str]]:
        """Simulate every parameter under every draw.

        Parameters
        ----------
        coordinates : array, shape (K, d)
        draws : array, shape (R, n)
            Standardised noise.

        Returns
        -------
        values : array, shape (K, R, n)
        reasons : list of str
            Why a parameter could not be simulated; empty where it could.
        """
        clean, reasons = self.model(coordinates)
        return clean[:, None] + self.color(draws), reasons

    def observed(self, data: ArrayLike) -> FloatArray:
        """Return observed values in the order of the layout."""
        array = real_array(data, "data")
        if array.shape == self.sites.shape:
            values = array
        elif array.shape == self.model.shape:
            values = array.ravel()[self.sites]
        else:
            raise InputError(
                f"data as the {len(self.sites)} observed values, or in the shape "
                f"{self.model.shape} of forward's output",
                f"the shape {array.shape}",
                "list the values in the order of the layout's indices",
            )
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise InputError(
                "finite observations",
                f"{bad.size} not finite, the first at position {bad[0]}",
                "leave missing sites out of the layout",
            )
        return values


def build_simulator(
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike,
    layout: ArrayLike | None,
    center: Mapping[str, float],
    vectorized: bool,
) -> Simulator:
    """Check the forward model at `center`, the layout and the noise."""
    model = ForwardModel(forward, parameters, center, vectorized=vectorized)
    named = None if layout is None else {LAYOUT: layout}
    ((name, sites),) = checked_layouts(named, model.size).items()
    known = checked_noise(noise, model.shape)
    model.observe(sites)
    return Simulator(model, sites, known.whitener(sites, name).factor)


def noise_draws(
    seed: int | Sequence[int], replicas: int, count: int, parameters: int = 1
) -> FloatArray:
    """Return standardised noise, shape (replicas, count), as `twoaxis.resolve` draws it.

    Before that, see whether datasets of so many parameters would fit into memory.
    """
    check_seed(seed)
    gigabytes = 8e-9 * parameters * replicas * count
    if gigabytes > VALUES_LIMIT:
        raise InputError(
            f"simulated datasets that fit in {VALUES_LIMIT:g} GB of memory",
            f"{parameters} parameters with {replicas} replicas of {count} values each, "
            f"{gigabytes:.3g} GB",
            "ask for fewer candidates or replicas, or observe fewer entries",
        )
    return standard_noise(seed, replicas, count)


def pipeline_seeds(seed: int | Sequence[int], count: int) -> IntArray:
    """Return seeds for the pipeline: number 0 for real data, the others for the replicas."""
    check_seed(seed)
    sequence = np.random.SeedSequence([*map(int, np.atleast_1d(seed)), PIPELINE_STREAM])
    # Below 2**31, which every library takes.
    return (sequence.generate_state(count + 1) >> 1).astype(np.int64)


def check_seed(seed: Any) -> None:
    """Refuse what is not one whole number or several, none of them negative."""
    given = seed if isinstance(seed, (list, tuple)) else [seed]
    if not (given and all(is_integer(s) and s >= 0 for s in given)):
        raise InputError(
            "an explicit seed, a whole number from 0 upwards or several",
            f"seed={seed!r}",
            "pass seed=0",
        )


def check_count(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least `least`."""
    if not is_integer(value) or value < least:
        raise InputError(
            f"{name} as a whole number of at least {least}",
            f"{name}={value!r}",
            f"pass {name}={least} or more",
        )
    return int(value)


@dataclass(frozen=True, eq=False)
class Rerun:
    """A pipeline and a simulator, ready to be run at any candidate.

    Attributes
    ----------
    pipeline : callable
    simulator : Simulator
    parameters : dict of str to Parameter
        One parameter.
    draws : array, shape (R, n)
        Standardised noise, the same for every candidate.
    seeds : array of int, shape (R + 1,)
        Of the pipeline: the first for the real data, the others for the replicas.
    vectorized : bool, optional
    progress : bool
    """

    pipeline: Callable[..., Any]
    simulator: Simulator
    parameters: Mapping[str, Parameter]
    draws: FloatArray
    seeds: IntArray
    vectorized: bool | None
    progress: bool

    @property
    def parameter(self) -> Parameter:
        """The parameter in question."""
        return next(iter(self.parameters.values()))

    @property
    def name(self) -> str:
        """Its name."""
        return next(iter(self.parameters))

    def answers(
        self,
        values: FloatArray,
        seeds: IntArray,
        title: str,
        order: IntArray | None = None,
        proven: bool = False,
    ) -> list[Answer]:
        """Run the pipeline on datasets of shape (m, n); see `ask`."""
        return ask(
            self.pipeline,
            values,
            seeds,
            self.parameters,
            vectorized=self.vectorized,
            progress=self.progress,
            title=title,
            order=order,
            proven=proven,
        )

    def at(self, candidates: FloatArray, number: int) -> xr.Dataset:
        """Run the pipeline on every replica of every candidate, in one batch.

        Parameters
        ----------
        candidates : array, shape (K,)
            Physical values.
        number : int
            The round: 0 for the grid, then refinements. A pipeline that fails everywhere on the
            grid is refused; in a refinement it has answered before, and its failures are counted.

        Returns
        -------
        xarray.Dataset
            A row for each candidate. Where the forward model could not be used there is no
            answer, and no run was spent.
        """
        coordinates = self.parameter.to_coordinate(candidates)[:, None]
        values, reasons = self.simulator.simulate(coordinates, self.draws)
        usable = np.array([not reason for reason in reasons])
        count, replicas = len(candidates), len(self.draws)
        estimate = np.full((count, replicas), np.nan)
        reason = np.broadcast_to(np.array(reasons, dtype=object)[:, None], estimate.shape).copy()
        seeds = np.tile(self.seeds[1:], int(usable.sum()))
        datasets = values[usable].reshape(len(seeds), values.shape[-1])
        title = f"{usable.sum()} candidates, {replicas} replicas each"
        order = turns(int(usable.sum()), replicas)
        found = self.answers(datasets, seeds, title, order, proven=number > 0)
        if number == 0 and found and all(answer.failure for answer in found):
            raise InputError(
                "a pipeline that answers on simulated data",
                f"{len(found)} failures, the first: {found[0].failure}",
                "run it on one simulated dataset by itself and correct it",
            )
        # What came as an object may be large, such as a trained network: only values are kept.
        estimate[usable] = np.reshape(
            [answer.delivered.get(self.name, np.nan) for answer in found], (-1, replicas)
        )
        if number == 0:
            self._check_dependence(estimate[usable])
        reason[usable] = np.reshape(
            np.array([answer.failure for answer in found], dtype=object), (-1, replicas)
        )
        return xr.Dataset(
            {
                "estimate": (
                    ("candidate", "replica"),
                    estimate,
                    {"long_name": f"what the pipeline delivered for {self.name}"},
                ),
                "reason": (
                    ("candidate", "replica"),
                    reason,
                    {"long_name": "why there is no estimate; empty where there is one"},
                ),
                "round": ("candidate", np.full(count, number)),
                "simulated": ("candidate", usable),
            },
            {"candidate": candidates, "replica": np.arange(replicas)},
        )

    def _check_dependence(self, estimate: FloatArray) -> None:
        """Refuse answers, shape (K, R), that do not depend on the data.

        All candidates share noise and seeds: a replica's answers differ between them as soon as
        the pipeline uses its data.
        """
        constant, several = is_constant(estimate, axis=0), np.isfinite(estimate).sum(axis=0) > 1
        if several.any() and (constant | ~several).all():
            shown = estimate[np.isfinite(estimate)][0]
            raise InputError(
                "a pipeline whose answers depend on the data",
                f"the same answers at all {len(estimate)} candidates, such as {self.name} = "
                f"{shown:.6g}",
                "check that the pipeline fits the values that it is given, that its parameter is "
                "free, and that it does not end on a bound",
            )


def turns(count: int, replicas: int) -> IntArray:
    """Return the order of the runs: replica by replica, candidates far apart first.

    A pipeline may diverge at one end of the candidates alone. The first calls, whose failure is
    taken for a defect, therefore reach from one end to the other.

    Parameters
    ----------
    count, replicas : int
        The runs are numbered candidate by candidate.

    Examples
    --------
    >>> turns(7, 2).tolist()
    [0, 2, 6, 8, 12, 4, 10, 1, 3, 7, 9, 13, 5, 11]
    """
    spread = np.linspace(0, max(count - 1, 0), min(FIRST_CALLS, count)).astype(np.int64)
    rest = np.setdiff1d(np.arange(count), spread)
    candidates = np.concatenate([spread, rest])
    return np.asarray(candidates * replicas + np.arange(replicas)[:, None]).ravel()


def trimmed(data: xr.Dataset) -> tuple[xr.Dataset, list[str]]:
    """Leave out candidates at either end that could not be simulated, and say which.

    One between others stays: without a test nothing speaks against it, so it is kept in every set.
    """
    usable = np.flatnonzero(data["simulated"].values)
    if usable.size < 2:
        reasons: Sequence[str] = [str(r) for r in data["reason"].values[:, 0] if r]
        raise InputError(
            "a forward model that works at two candidates at least",
            f"{usable.size} of {data.sizes['candidate']}; the first reason: {reasons[0]}",
            "choose an interval in which the simulator can be used",
        )
    inside = data.isel(candidate=slice(int(usable[0]), int(usable[-1]) + 1))
    told = []
    values = data["candidate"].values
    for beyond, word in ((values[: usable[0]], "below"), (values[usable[-1] + 1 :], "above")):
        if beyond.size:
            end = inside["candidate"].values[0 if word == "below" else -1]
            told.append(
                f"{beyond.size} candidates {word} {end:.5g} could not be simulated and are not "
                f"tested"
            )
    hole = int((~inside["simulated"].values).sum())
    if hole:
        told.append(f"{hole} candidates between others could not be simulated and count as kept")
    return inside, told
