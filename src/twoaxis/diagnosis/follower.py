"""A follower: score, delivery gap and data fit of a model while it trains.

It freezes the live model now and then, measures it with as few evaluations as possible, and keeps
its share of the training time below a limit. It never ends a training by itself: what goes wrong
is recorded, said once, and the loop goes on.
"""

from __future__ import annotations

import inspect
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from twoaxis.arrays import FloatArray, is_integer, is_real
from twoaxis.diagnosis.data_check import resolution_for
from twoaxis.diagnosis.decision_map import Tolerance
from twoaxis.diagnosis.field_check import (
    fitted_values,
    observations_given,
    observed_alone,
    seen_field,
)
from twoaxis.diagnosis.follow import (
    Row,
    Snapshots,
    center_of_step,
    check_same_parameters,
    empty_row,
    full_row,
    quick_row,
    snapshots_of,
)
from twoaxis.diagnosis.settling import DRIFT, PATIENCE, SETTLED, Unit, settling
from twoaxis.diagnosis.sinks import LiveLine, Sink, logged_name, sink_of
from twoaxis.errors import InputError, LibraryWarning
from twoaxis.frozen import FrozenResidual, while_training
from twoaxis.observations import Observations
from twoaxis.parameters import Center, Parameters
from twoaxis.resolution import Resolution
from twoaxis.result import Message

if TYPE_CHECKING:
    from twoaxis.views import View

# Costs of so many last measurements predict that of the next.
REMEMBERED = 3
# Whatever notices it, an error about a number that is not finite says so.
NOT_FINITE = re.compile(r"\b(nan|inf|finite)\b", re.IGNORECASE)


@final
class Follower:
    r"""Follow an inverse problem while it trains.

    Call it in the loop with the step; every `every` steps it freezes the live model and records
    parameter, preferred value, displacement, strength, alignment, delivery gap and, where noise and
    data are known, the misfit of the field in noise levels.

    Parameters
    ----------
    freeze : callable
        ``freeze()`` returns the `FrozenResidual` of the model as it is now, by any adapter:
        ``lambda: ta.from_torch(net, pde, {"nu": ta.Parameter(delivered=float(nu), ...)},
        points=x)``. Where the state of a training is passed along, as in JAX, ``freeze(*state)``,
        with ``follower(step, *state)`` in the loop.
    view : View, optional
        By default the training view that each frozen residual carries.
    every : int
        Steps between measurements.
    steps : int, optional
        Steps of the whole training, for `finished`: the longer it goes on, the less a parameter
        may move now. Those of PINA and jinns are known; otherwise up to eight times the steps so
        far are expected.
    at : {"truth", "delivered"} or mapping of str to float, optional
        The center of score and displacement: by default the truth where it is known, else the
        value at each step.
    data : Observations or array, optional
        The observed values; by default those that the frozen residual carries.
    noise : float or array, optional
        Standard deviation of the data, or a covariance; by default that of the resolution.
    resolution : Resolution, optional
        From `twoaxis.resolve`: distances are then in standard errors.
    layout : str, optional
        The layout of the resolution that the model is trained on. Without it the smallest standard
        error of all layouts is used.
    tolerance : Tolerance, optional
        Without a resolution distances are in units of ``tolerance.material``.
    drift : float
        How far a parameter may be expected to move still, and be from what its field prefers, to
        count as settled: in standard errors, or in units of the tolerance.
    patience : int
        Number of measurements in a row that must find it settled.
    max_share : float
        The largest share of the training time that measurements may take. Where one is dearer,
        `every` is lengthened, and a message says so.
    sinks : sequence
        Loggers that get every number: TensorBoard's ``SummaryWriter``, the module ``mlflow``,
        a run of Weights & Biases, a Lightning logger, or functions ``sink(step, numbers)``.
    progress : bool
        Show the last measurement on a line of its own, on standard error.

    Attributes
    ----------
    rows : list of Row
        The measurements so far.
    messages : list of Message
        What went wrong or was changed, each once.
    setup_seconds : float
        Time of what comes once: the first, careful check, and what is compiled for it.

    Examples
    --------
    A residual whose field comes to prefer 1.2, and a parameter that follows it:

    >>> import numpy as np, twoaxis as ta
    >>> x, state = np.linspace(0, 1, 20), {"k": 2.0}
    >>> def freeze():
    ...     k = ta.Parameter(delivered=state["k"], bounds=(0.5, 5.0))
    ...     return ta.FrozenResidual(
    ...         lambda k: k * np.ones(20) - 1.2, {"k": k}, x, view=ta.views.Pointwise()
    ...     )
    >>> follower = ta.Follower(
    ...     freeze, every=10, progress=False, max_share=1.0,
    ...     tolerance=ta.Tolerance(material=5, resolution=5, preference=5),
    ... )
    >>> for step in range(1000):
    ...     state["k"] += 0.02 * (1.2 - state["k"])
    ...     if follower(step):
    ...         break
    >>> step < 999, follower.finished, round(state["k"], 2)
    (True, True, 1.2)
    """

    def __init__(
        self,
        freeze: Callable[..., FrozenResidual],
        view: View | None = None,
        *,
        every: int = 500,
        steps: int | None = None,
        at: str | Mapping[str, float] | None = None,
        data: ArrayLike | Observations | None = None,
        noise: ArrayLike | None = None,
        resolution: Resolution | None = None,
        layout: Any = None,
        tolerance: Tolerance | None = None,
        drift: float = DRIFT,
        patience: int = PATIENCE,
        max_share: float = 0.02,
        sinks: Sequence[Any] = (),
        progress: bool = True,
    ) -> None:
        _check_freeze(freeze)
        _check_numbers(every, 1 if steps is None else steps, drift, patience, max_share)
        if tolerance is not None and not isinstance(tolerance, Tolerance):
            raise InputError(
                "a twoaxis.Tolerance",
                repr(tolerance),
                "write tolerance=twoaxis.Tolerance(material=5.0, resolution=5.0, preference=5.0)",
            )
        self._freeze, self._view, self._at = freeze, view, at
        self._given_data, self._noise = data, noise
        self._resolution, self._layout, self._tolerance = resolution, layout, tolerance
        self._drift, self._patience, self.max_share = float(drift), int(patience), float(max_share)
        self._sinks: list[Sink] = [sink_of(each) for each in sinks]
        self._line = LiveLine() if progress else None
        self.every, self.steps = int(every), steps
        self.rows: list[Row] = []
        self.messages: list[Message] = []
        self._parameters: Parameters | None = None
        self._affine = False
        self._observed: Any = None
        self._error: FloatArray | None = None
        self._unit: Unit | None = None
        self._states: list[Message] = []
        self._next: float = -np.inf
        self._first_step, self._began, self._ended = 0, np.nan, np.nan
        self._spent, self.setup_seconds = 0.0, 0.0
        self._programs: list[Any] = []
        if not _needs_state(freeze):
            self._set_up((), 0)

    # ------------------------------------------------------------- in the loop

    def __call__(self, step: int, *state: Any) -> bool:
        """Measure where it is due, and return whether the training has finished.

        Parameters
        ----------
        step : int
        *state
            What `freeze` takes.
        """
        if step >= self._next and self._affordable(step):
            self.measure(step, *state)
        return self.finished

    def measure(self, step: int, *state: Any) -> Row:
        """Measure now, whether it is due or not, as after the last step of a training."""
        if self.rows and step <= self.rows[-1].step:
            return self.rows[-1]
        began, before = time.perf_counter(), self.setup_seconds
        row = self._measured(step, state)
        began += self.setup_seconds - before  # once, whatever the length of the training
        if not self.rows:
            self._began, self._first_step = began, step
        self._ended = time.perf_counter()
        row = row._replace(seconds=self._ended - began)
        self.rows.append(row)
        self._spent += row.seconds
        self._next = step + self.every
        self._judge()
        self._tell(row)
        return row

    def _frozen(self, state: tuple[Any, ...]) -> FrozenResidual:
        with while_training(self._programs):
            frozen = self._freeze(*state)
        if not isinstance(frozen, FrozenResidual):
            raise InputError(
                "freeze to return a twoaxis.FrozenResidual",
                type(frozen).__name__,
                "return what an adapter makes, as in lambda: twoaxis.from_torch(...)",
            )
        return frozen

    def _measured(self, step: int, state: tuple[Any, ...]) -> Row:
        """Return the row of a step; one without numbers where anything goes wrong."""
        try:
            if self._parameters is None:
                self._set_up(state, step)
            return self._row(step, self._frozen(state))
        except Exception as error:  # a training never ends because of its follower
            lost = bool(NOT_FINITE.search(str(error)))
            code = "follower.not_finite" if lost else "follower.failed"
            cause = (
                f"{type(error).__name__}: {error}" if not isinstance(error, InputError) else error
            )
            self._say(Message(code, f"step {step} was not measured: {cause}", "warning"))
            words = "parameter or field not finite" if lost else f"not measured: {cause}"
            return empty_row(step, len(self._parameters or ()), " ".join(str(words).split()))

    def _row(self, step: int, frozen: FrozenResidual) -> Row:
        check_same_parameters(frozen, list(self._parameters or ()), step)
        frozen.known.require("delivered")
        center = center_of_step(frozen, frozen.known.center(self._at))
        row = quick_row(step, frozen, self._view, center, self._affine)
        self._look_at_bounds(row)
        return row._replace(data_misfit=self._misfit(frozen))

    def _look_at_bounds(self, row: Row) -> None:
        """Say where a parameter has left the bounds that it began with."""
        for (name, known), value in zip((self._parameters or {}).items(), row.value, strict=True):
            low, high = known.bounds
            if not low <= value <= high:
                text = (
                    f"{name} = {value:.4g} at step {row.step} lies outside of its bounds "
                    f"{low:g} to {high:g}"
                )
                numbers = {"value": float(value), "step": float(row.step)}
                self._say(Message("follower.out_of_bounds", text, "warning", numbers))

    def _set_up(self, state: tuple[Any, ...], step: int) -> None:
        """Check a first frozen residual with care, and take from it what does not change."""
        began = time.perf_counter()
        frozen = self._frozen(state)
        known = frozen.known
        known.require("delivered")
        found, chosen = resolution_for(self._resolution, known, self._layout)
        center = known.center(self._at)
        _, self._affine = full_row(
            step, frozen, self._view, center_of_step(frozen, center), candidates=3
        )
        if found is not None:
            self._error = _standard_errors(found, chosen, known, center)
            self._unit = Unit(self._error, "standard errors")
        elif self._tolerance is not None:
            size = self._tolerance.material / 100 * known.percent_units(center.values)
            self._unit = Unit(size, f"times {self._tolerance.material:g}%")
        self._observed = self._observations(frozen, found, chosen)
        self._parameters = known
        self._row(step, frozen)  # whatever is compiled or loaded once belongs to the setup, too
        self.setup_seconds = time.perf_counter() - began

    def _observations(
        self, frozen: FrozenResidual, found: Resolution | None, layout: str | None
    ) -> Any:
        """Return the data and their noise, where both are known."""
        data = frozen.data if self._given_data is None else self._given_data
        if data is None:
            return None
        given = observations_given(data, self._noise)
        known = seen_field(frozen, data)
        if known.fitted is None:
            return None
        if not given.noise_known and found is not None and (layout or len(found.layout_names) == 1):
            row = found.data["noise_deviation"].sel(layout=layout or found.layout_names[0])
            sizes = row.values[np.isfinite(row.values)]
            if sizes.size == given.values.size:
                given = given.with_noise(sizes.reshape(given.values.shape))
        observed = observed_alone(given)
        if observed is not None:
            fitted_values(known.fitted, observed, given.values.shape)
        return None if observed is None else (observed, data, given.values.shape)

    def _misfit(self, frozen: FrozenResidual) -> float:
        if self._observed is None:
            return np.nan
        observed, data, shape = self._observed
        fitted = fitted_values(seen_field(frozen, data).fitted, observed, shape)
        white = observed.layout.white(observed.values - fitted)
        return float(np.sqrt(np.mean(white**2)))

    # ------------------------------------------------------------- what it costs

    @property
    def share(self) -> float:
        """Share of the time up to the last measurement that measurements took; NaN before one.

        Without the `setup_seconds` of what comes once.
        """
        return self._spent / max(self._ended - self._began, 1e-12)

    def _affordable(self, step: int) -> bool:
        """Whether the next measurement is within the share; if not, put it off."""
        costs = [row.seconds for row in self.rows[-REMEMBERED:]]
        if not costs:
            return True
        elapsed = time.perf_counter() - self._began
        # The measurements themselves are no training.
        trained, expected = elapsed - self._spent, float(np.median(costs))
        needed = (self._spent + expected) * (1 / self.max_share - 1) - trained
        if needed <= 0 or step <= self._first_step:
            return True
        pace = (step - self._first_step) / max(trained, 1e-12)
        self._next = step + max(1, int(np.ceil(needed * pace)))
        spacing = max(self.every, int(expected / self.max_share * pace))
        text = (
            f"a measurement takes {expected:.2g} s, more than {100 * self.max_share:g}% of the "
            f"time of {self.every} steps: the next one comes later, and then about every "
            f"{spacing} steps"
        )
        numbers = {"seconds": expected, "every": float(spacing)}
        self._say(Message("follower.lengthened", text, "info", numbers))
        return False

    # ------------------------------------------------------------- what it found

    @property
    def state(self) -> Message:
        """Where the training stands after the last measurement; see `twoaxis.Follower.finished`."""
        if self._states:
            return self._states[-1]
        return Message("follower.not_measured", "nothing has been measured yet")

    @property
    def finished(self) -> bool:
        """Whether the parameters have settled at what the field prefers, `patience` times.

        Where the noise is known, that field must fit the data, too.
        """
        last = self._states[-self._patience :]
        return len(last) == self._patience and all(each.code == SETTLED for each in last)

    @property
    def reason(self) -> str:
        """Why training has finished, or has not."""
        return self.state.text

    def _judge(self) -> None:
        if self._parameters is not None:
            with np.errstate(invalid="ignore", divide="ignore"):
                self._states.append(
                    settling(self.rows, self._parameters, self._unit, self._drift, self.steps)
                )

    @property
    def result(self) -> Snapshots:
        """All measurements as a result, which can be drawn, saved and given to an audit."""
        rows = [row for row in self.rows if len(row.value)]
        good = [row for row in rows if row.measured]
        if not good or self._parameters is None:
            why = "; ".join(message.text for message in self.messages) or "no call so far"
            raise InputError(
                "a follower that has measured something", why, "call follower(step) in the loop"
            )
        # Training may leave the bounds; a result is there all the same.
        last = dict(zip(self._parameters, good[-1].value.tolist(), strict=True))
        known = Parameters(self._parameters).delivering(last)
        return snapshots_of(
            rows,
            known,
            known.center(self._at),
            standard_error=self._error,
            messages=[*self.messages, self.state],
            time_share=self.share,
        )

    def summary(self) -> pd.DataFrame:
        """Return a table with one row per measurement and parameter; see `Snapshots.summary`."""
        return self.result.summary()

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw one quantity along the training; see `twoaxis.plots.plot_along_training`."""
        return self.result.plot(ax=ax, **options)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the measurements to one netCDF file; `twoaxis.load` opens it as `Snapshots`."""
        return self.result.save(path)

    def _repr_html_(self) -> str:
        return self.result._repr_html_() if self.rows else f"<p>{self!r}</p>"

    def __repr__(self) -> str:
        head = f"<Follower, {len(self.rows)} measurements"
        if self.rows:
            head += f" up to step {self.rows[-1].step}, {100 * self.share:.2g}% of the time"
        return f"{head}; {self.reason}>"

    # ------------------------------------------------------------- what it says

    def _say(self, message: Message) -> None:
        """Record a message of a kind that has not been there yet; warn where it is a warning."""
        if message.code in [each.code for each in self.messages]:
            return
        self.messages.append(message)
        if message.severity == "warning":
            warnings.warn(LibraryWarning(message.text), stacklevel=2)

    def _tell(self, row: Row) -> None:
        """Hand a row to the sinks and to the live line."""
        numbers = self._numbers(row)
        for sink in self._sinks:
            try:
                sink(row.step, numbers)
            except Exception as error:  # nor does it end because of a logger
                text = f"a sink failed at step {row.step}: {type(error).__name__}: {error}"
                self._say(Message("follower.sink", text, "warning"))
        if self._line is not None:
            self._line.show(self._words(row))

    def _numbers(self, row: Row) -> dict[str, float]:
        """Return the finite numbers of a row by name."""
        known = self._parameters
        if known is None or not row.measured:
            return {}
        columns = {
            "value": row.value,
            "preferred": row.preferred,
            "displacement": row.displacement,
            "gap": self._gap(row),
            "strength": np.diag(row.strength),
            "alignment": row.alignment,
        }
        if self._error is not None:
            columns |= {f"{n}_se": columns[n] / self._error for n in ("displacement", "gap")}
        found = {
            logged_name(name, column): float(values[j])
            for column, values in columns.items()
            for j, name in enumerate(known)
        }
        found |= {
            logged_name(name): float(getattr(row, name))
            for name in ("residual_norm", "data_misfit")
        }
        return {name: value for name, value in found.items() if np.isfinite(value)}

    def _gap(self, row: Row) -> FloatArray:
        known: Any = self._parameters
        reached, preferred = (
            known.coordinates(known.named(each)) for each in (row.value, row.preferred)
        )
        return np.asarray(reached - preferred)

    def _words(self, row: Row) -> str:
        parts = [f"step {row.step:,}"]
        if row.measured and self._parameters is not None:
            gaps = self._gap(row) / (1.0 if self._unit is None else self._unit.size)
            unit = "in its coordinate" if self._unit is None else self._unit.name
            for name in self._parameters.of_interest[:3]:
                j = self._parameters.names.index(name)
                parts.append(f"{name} = {row.value[j]:.5g} (gap {gaps[j]:+.2g} {unit})")
            if np.isfinite(row.data_misfit):
                parts.append(f"data {row.data_misfit:.3g} noise levels")
        if len(self.rows) > 1:
            parts.append(f"{100 * self.share:.2g}% of the time")
        return "; ".join([*parts, self.reason])


def _standard_errors(
    found: Resolution, layout: str | None, parameters: Parameters, center: Center
) -> FloatArray:
    """Return predicted standard errors of the coordinates (d,); NaN where a nuisance has none."""
    percent: Any = found.data["fisher_sd_percent"]
    percent = percent.min("layout") if layout is None else percent.sel(layout=layout)
    sizes = percent.reindex(parameter=parameters.names).values / 100
    return np.asarray(sizes * parameters.percent_units(center.values))


def _needs_state(freeze: Callable[..., Any]) -> bool:
    """Whether `freeze` has to be called with something."""
    try:
        inspect.signature(freeze).bind()
    except TypeError:
        return True
    except ValueError:  # built-in callables may have no signature
        return False
    return False


def _check_freeze(freeze: Any) -> None:
    if not callable(freeze) or isinstance(freeze, (type, FrozenResidual)):
        raise InputError(
            "a function that freezes the model as it is now",
            type(freeze).__name__,
            "write twoaxis.Follower(lambda: twoaxis.from_torch(net, residual, ...))",
        )


def _check_numbers(every: Any, steps: Any, drift: Any, patience: Any, max_share: Any) -> None:
    for name, value in (("every", every), ("steps", steps), ("patience", patience)):
        if not is_integer(value) or value < 1:
            raise InputError(
                f"{name} as an integer of at least 1", f"{name}={value!r}", f"pass {name}=3"
            )
    if not (is_real(drift) and 0 < drift < np.inf):
        raise InputError("drift as a positive number", f"drift={drift!r}", "pass drift=0.05")
    if not (is_real(max_share) and 0 < max_share <= 1):
        raise InputError(
            "max_share above 0 and at most 1", f"max_share={max_share!r}", "pass max_share=0.02"
        )
