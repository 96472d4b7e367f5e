"""A forward model of the user as one batched map from coordinates to predictions.

The user's callable takes physical parameters by keyword and returns predictions of any
shape. Here it becomes a map from an array of coordinates, shape (B, d), to an array of
predictions, shape (B, n), at the n entries that some layout observes. A parameter for
which the callable fails or returns something that is not finite becomes a row of NaN
with a reason, so that the caller can exclude it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from twoaxis.errors import InputError, check_callable
from twoaxis.labels import Labels
from twoaxis.parameters import Parameters, Unknowns
from twoaxis.progress import Advance

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# A vectorized model is called with at most this many parameters, and fewer when its
# output is so large that the batch would pass the memory limit.
MAX_BATCH = 128
BATCH_BYTES = 256 * 2**20


class Predictions(NamedTuple):
    """Predictions, and the reasons of failures.

    Attributes
    ----------
    values : array, shape (B, n)
        A row of NaN where the model could not be used.
    reasons : list of str
        Empty where the row is good.
    """

    values: FloatArray
    reasons: list[str]


class MapEngine(Protocol):
    """Where a forward model runs: a `concurrent.futures.Executor`, a pool, or the like."""

    def map(self, function: Callable[[Any], Any], items: Any, /) -> Iterable[Any]:
        """Return ``function(item)`` for every item, in their order."""
        ...


class Failed(NamedTuple):
    """What comes back from a model run that failed."""

    reason: str


@dataclass(frozen=True)
class Run:
    """One call of a forward model, in this process or in a worker of an engine.

    Attributes
    ----------
    forward : callable
    parameters : Parameters
    vectorized : bool
    name : str
        In messages.
    """

    forward: Callable[..., Any]
    parameters: Parameters
    vectorized: bool
    name: str

    def arguments(self, physical: Mapping[str, FloatArray]) -> dict[str, Any]:
        """Return what the model is called with, for batches of physical values."""
        if self.vectorized:
            return self.parameters.arguments(physical)
        return self.parameters.arguments({name: float(v[0]) for name, v in physical.items()})

    def __call__(self, physical: Mapping[str, FloatArray]) -> Any:
        """Return the output with a leading axis, or `Failed`."""
        try:
            return self.strictly(self.arguments(physical))
        except Exception as error:  # a simulator may raise anything
            return Failed(f"{self.name} raised {type(error).__name__}: {error}")

    def strictly(self, arguments: Mapping[str, Any]) -> Any:
        """Return the output with a leading axis, and raise what the model raises."""
        # Non-finite numbers are detected afterwards; NumPy need not warn of them here.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            output = self.forward(**arguments)
        return output if self.vectorized else [output]


class ForwardModel:
    """A checked, batched forward model.

    Parameters
    ----------
    forward : callable
        ``forward(**parameters)``, physical values in, predictions of any fixed shape out.
    parameters : mapping of str to Parameter or UnknownFunction
    center : mapping of str to float
        Where the model is first called. It must work there.
    vectorized : bool
        Whether `forward` takes a vector of length B for each parameter and returns its
        predictions with a leading axis of length B.
    name : str
        Its name in messages.
    engine : MapEngine, optional
        Where it runs; by default in this process.

    Attributes
    ----------
    runs : int
        Number of parameter points that the model was solved at so far.
    labels : Labels or None
        Of the entries of its output.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        parameters: Unknowns,
        center: Mapping[str, float],
        *,
        vectorized: bool = False,
        name: str = "forward",
        engine: MapEngine | None = None,
    ) -> None:
        self.parameters = Parameters(parameters)
        self.vectorized = vectorized
        self.name = name
        self.runs = 0
        if engine is not None and not callable(getattr(engine, "map", None)):
            raise InputError(
                "an engine with a map method",
                repr(engine),
                "pass engine=concurrent.futures.ProcessPoolExecutor()",
            )
        self._engine = engine
        self._run = Run(forward, self.parameters, vectorized, name)
        check_callable(name, forward, self.parameters.argument_names)
        self._center = dict(center)
        self.labels: Labels | None = None
        self.shape, self.center_values = self._call_at_center()
        self.entries: IndexArray = np.arange(self.size)

    @property
    def size(self) -> int:
        """How many entries the model predicts."""
        return int(np.prod(self.shape))

    @property
    def on_engine(self) -> bool:
        """Whether the model runs on an engine."""
        return self._engine is not None

    def observe(self, entries: IndexArray) -> None:
        """Keep only these flat entries of the output, in this order.

        Other entries are not stored and need not be finite.
        """
        self.entries = entries
        bad = ~np.isfinite(self.center_values[entries])
        if bad.any():
            raise InputError(
                f"finite predictions of {self.name} at the center",
                f"{bad.sum()} of {bad.size} observed entries not finite "
                f"(first: entry {entries[bad][0]})",
                f"correct {self.name}, or choose layouts that leave those entries out",
            )

    def __call__(self, coordinates: FloatArray, advance: Advance | None = None) -> Predictions:
        """Predict for coordinates of shape (B, d); a point that comes twice is solved once."""
        distinct, place = np.unique(coordinates, axis=0, return_inverse=True)
        if len(distinct) < len(coordinates):
            values, reasons = self._predict(distinct, advance)
            if advance is not None:
                advance(len(coordinates) - len(distinct))
            place = place.ravel()
            return Predictions(values[place], [reasons[i] for i in place])
        return self._predict(coordinates, advance)

    def _predict(self, coordinates: FloatArray, advance: Advance | None) -> Predictions:
        count = len(coordinates)
        self.runs += count
        values = np.full((count, len(self.entries)), np.nan)
        reasons = [""] * count
        physical = {
            name: parameter.to_value(coordinates[:, i])
            for i, (name, parameter) in enumerate(self.parameters.items())
        }
        batch = 1
        if self.vectorized:
            batch = int(np.clip(BATCH_BYTES // (8 * max(self.size, 1)), 1, MAX_BATCH))
        batches = [slice(start, min(start + batch, count)) for start in range(0, count, batch)]
        calls = [{name: v[rows] for name, v in physical.items()} for rows in batches]
        for rows, call, output in zip(batches, calls, self._outputs(calls), strict=True):
            result = self._read(output, call)
            if not isinstance(result, str):
                values[rows] = result
            else:  # find the members of the batch that fail
                for row in range(rows.start, rows.stop):
                    alone = {name: v[row : row + 1] for name, v in physical.items()}
                    one = result if batch == 1 else self._read(self._run(alone), alone)
                    if isinstance(one, str):
                        reasons[row] = one
                    else:
                        values[row] = one
            if advance is not None:
                advance(rows.stop - rows.start)
        for row in np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist():
            values[row] = np.nan
            reasons[row] = reasons[row] or f"{self.name} returned values that are not finite"
        return Predictions(values, reasons)

    def _outputs(self, calls: list[dict[str, FloatArray]]) -> Iterator[Any]:
        """Run the model for each call, in this process or on the engine."""
        if self._engine is None or len(calls) < 2:
            yield from map(self._run, calls)
            return
        came = 0
        try:
            for output in self._engine.map(self._run, calls):
                came += 1
                if came <= len(calls):
                    yield output
        except Exception as error:
            raise InputError(
                f"an engine that can run {self.name}",
                f"{type(error).__name__}: {error}",
                "for processes, define it at the top level of a module, so that it can be pickled",
            ) from error
        if came != len(calls):
            raise InputError(
                f"an engine whose map returns one result for each of {len(calls)} runs of "
                f"{self.name}",
                f"{came} results",
                "return function(item) for every item, in their order; a "
                "concurrent.futures.Executor does that, and leaving engine out runs here",
            )

    def _read(self, output: Any, physical: dict[str, FloatArray]) -> FloatArray | str:
        """Return predictions at the observed entries, or the reason why there are none."""
        if isinstance(output, Failed):
            return output.reason
        came = np.shape(output[0]) if not self.vectorized and len(output) == 1 else self.shape
        if np.prod(came) < np.prod(self.shape):  # as integrators do that stop early
            return f"{self.name} returned the shape {came} instead of {self.shape}"
        return self._flat(output, physical)[:, self.entries]

    def _flat(self, output: Any, physical: Mapping[str, FloatArray]) -> FloatArray:
        """Return output as floats of shape (batch, size), after checking its kind and shape."""
        batch = len(next(iter(physical.values())))
        array = _as_floats(output, self.name, describe(physical))
        expected = (batch, *self.shape)
        if array.shape != expected:
            shown = expected if self.vectorized else self.shape
            came = array.shape if self.vectorized else array.shape[1:]
            raise InputError(
                f"{self.name} to return the shape {shown} that it has at the center",
                f"the shape {came} for {describe(physical)}",
                f"make {self.name} return the same entries for every parameter",
            )
        return array.reshape(batch, -1)

    def check_deterministic(self) -> None:
        """Raise `InputError` if another call at the center returns something else."""
        _, again = self._call_at_center()
        differ = ~((again == self.center_values) | (np.isnan(again) & np.isnan(self.center_values)))
        if differ.any():
            apart = np.abs(again - self.center_values)[differ].max()
            raise InputError(
                f"a deterministic {self.name}: noise-free predictions",
                f"two calls at the same parameters that differ by up to {apart:.3g}",
                "fix the seed of the random numbers that it draws, or return their mean",
            )

    def _call_at_center(self) -> tuple[tuple[int, ...], FloatArray]:
        """Return shape and values of the output from a call at the center."""
        center = self._center
        physical = {name: np.array([center[name]]) for name in self.parameters}
        self.runs += 1
        try:
            arguments = self._run.arguments(physical)
            output = self._run.strictly(arguments)
            self.parameters.check_reached(self.name, arguments)
        except InputError:
            raise
        except Exception as error:
            call = ", ".join(f"{name}={center[name]:g}" for name in self.parameters)
            raise InputError(
                f"{self.name} to work at the center, {self.name}({call})",
                f"{type(error).__name__}: {error}",
                f"make that call by itself and correct {self.name}",
            ) from error
        array = _as_floats(output, self.name, describe(physical))
        if self.vectorized and (array.ndim == 0 or array.shape[0] != 1):
            raise InputError(
                f"a vectorized {self.name} to return one leading row for each parameter value",
                f"the shape {array.shape} for one value",
                "stack the predictions along the first axis, or pass vectorized=False",
            )
        if array.size == 0:
            raise InputError(f"{self.name} to return predictions", "an empty array", "return some")
        labels = Labels.of(output if self.vectorized else output[0], f"what {self.name} returns")
        self.labels = labels.after_first_axis() if labels and self.vectorized else labels
        return array.shape[1:], array.ravel()


def describe(physical: Mapping[str, FloatArray]) -> str:
    """Parameter values as ``nu=0.01``, or ``nu=0.01...0.02`` for a batch."""
    parts = []
    for name, values in physical.items():
        first, last = float(values[0]), float(values[-1])
        parts.append(f"{name}={first:g}" + (f"...{last:g}" if len(values) > 1 else ""))
    return ", ".join(parts)


def _as_floats(output: Any, name: str, at: str) -> FloatArray:
    """Return real numbers as float64; anything else is an `InputError`."""
    inner = output[0] if isinstance(output, list) and len(output) == 1 else output
    kind = f"{type(inner).__name__}"
    try:
        if isinstance(inner, np.ma.MaskedArray):  # what is masked is not predicted
            output = np.ma.filled(inner.astype(float), np.nan).reshape(np.shape(output))
        array = np.asarray(output)
        if array.dtype.kind in "iufb":
            return array.astype(float)
        if array.dtype.kind != "O":
            kind = f"an array of {array.dtype}"
    except (ValueError, TypeError, RuntimeError):
        pass  # ragged lists, and tensors that require gradients
    raise InputError(
        f"{name} to return an array of real numbers",
        f"{kind} for {at}",
        f"return a NumPy array of floats from {name} (a PyTorch tensor: tensor.detach().numpy())",
    )
