r"""Calibration: how the complete pipeline behaves at every parameter that could be true.

For every candidate :math:`p` of a grid, data are simulated, :math:`y = G(p) + \text{noise}`, and
the complete pipeline runs again on each dataset. Its answers have the bias and the spread that
network, optimizer and residual loss together produce there. `confidence_set` inverts them.

All candidates share the same standard normal noise and the same seeds. At each candidate the
replicas are independent, which is all that a rank test needs, and answers vary smoothly from
candidate to candidate. Further candidates refine the same set without new randomness, so refining
around an edge does not select lucky draws.

Nuisance parameters have no grid: at every candidate the data are simulated at one value of them,
the plug-in. Where the observed data are known it is their fit with the candidate held,

.. math:: \hat\eta(p) = \arg\min_\eta \lVert L^{-1}(y - G(p, \eta))\rVert^2,

and otherwise the value at which they stand (`Parameters.delivered`). The pipeline estimates all
parameters on every simulated dataset, as it does on the real one.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import is_integer, real_array
from twoaxis.errors import InputError
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Parameter, Parameters
from twoaxis.remedies.inversion import (
    Statistic,
    check_level,
    least_replicas,
    medians,
    rank_bounds,
)
from twoaxis.remedies.pipeline import (
    FIRST_CALLS,
    Answer,
    check_pipeline,
    is_constant,
    run_pipeline,
)
from twoaxis.remedies.simulator import (
    Simulator,
    build_simulator,
    check_count,
    noise_draws,
    pipeline_seeds,
)
from twoaxis.result import (
    MESSAGE_LAYOUT,
    PARAMETER_LAYOUT,
    Message,
    Result,
    message_variables,
    messages_from,
)

if TYPE_CHECKING:
    from twoaxis.remedies.confidence_set import ConfidenceSet

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LEAST_CANDIDATES = 3
MOST_CANDIDATES = 100_000
BOTH = ("candidate", "replica")
# Where the values come from that nuisance parameters are simulated at.
FITTED, STANDING, NO_NUISANCE = "data", "standing", "none"
# Columns of printed text.
WIDTH = 96


class Calibration(Result[xr.Dataset]):
    """How a pipeline behaves at every candidate. Made by `twoaxis.calibrate`.

    One calibration serves any number of observed datasets with the same layout and noise.

    Attributes
    ----------
    data : xarray.Dataset
        ``estimate`` and ``reason`` by candidate and replica, in physical units.
    rerun : Rerun or None
        The pipeline and the simulator, for observed data that come later. Not saved.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> found = ta.calibrate(
    ...     lambda values, seed: 1.3 * values.mean(), lambda h: h * np.ones(20),
    ...     {"h": ta.Parameter(bounds=(0.5, 2.0))}, noise=0.2, candidates=5, replicas=19,
    ...     progress=False,
    ... )
    >>> found.name, found.candidates.size, found.replicas
    ('h', 5, 19)
    """

    schema = "calibration"
    layouts: ClassVar[Mapping[str, Layout]] = {
        "/": {
            **PARAMETER_LAYOUT,
            "candidate": Variable(("candidate",), "float", "candidate value", finite=True),
            "simulated_at": Variable(
                ("candidate", "parameter"),
                "float",
                "value of each parameter that data were simulated at",
                finite=True,
            ),
            "replica": Variable(("replica",), "int", "simulated dataset"),
            "estimate": Variable(BOTH, "float", "value delivered by the pipeline; NaN: failed"),
            "reason": Variable(BOTH, "text", "why there is no estimate; empty where there is"),
            "round": Variable(("candidate",), "int", "round of refinement; 0: the first grid"),
            "simulated": Variable(("candidate",), "bool", "whether forward works there"),
            **MESSAGE_LAYOUT,
        }
    }
    attributes: ClassVar[Mapping[str, Iterable[str]]] = {"/": ("seed", "plug_in")}
    rerun: Rerun | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Pipelines are the user's code, which need not survive the way to another process.
        return {"data": self.data}

    @cached_property
    def parameters(self) -> Parameters:
        """The parameter in question and the nuisance parameters, by name."""
        return Parameters.from_dataset(self.data)

    @property
    def name(self) -> str:
        """Name of the parameter in question."""
        return self.parameters.of_interest[0]

    @property
    def nuisance(self) -> pd.DataFrame:
        """Values of the nuisance parameters that data were simulated at, a row per candidate."""
        table = pd.DataFrame(
            self.data["simulated_at"].values,
            columns=self.parameters.names,
            index=pd.Index(self.candidates, name=self.name),
        )
        return table.drop(columns=self.name)

    @property
    def plug_in(self) -> str:
        """Where these values come from: "data", "standing", or "none" without such parameters."""
        return str(self.data.attrs["plug_in"])

    @property
    def parameter(self) -> Parameter:
        """The parameter: its bounds and coordinate."""
        return self.parameters[self.name]

    @property
    def candidates(self) -> FloatArray:
        """Physical values of the candidates, ascending, shape (K,)."""
        return np.asarray(self.data["candidate"].values, dtype=float)

    @property
    def replicas(self) -> int:
        """Simulated datasets per candidate."""
        return int(self.data.sizes["replica"])

    @property
    def retrainings(self) -> int:
        """Number of runs of the pipeline."""
        return int(self.data["simulated"].values.sum()) * self.replicas

    @property
    def failures(self) -> int:
        """Number of runs without a usable value."""
        return int(self.data["estimate"].isnull().sum())

    @cached_property
    def coordinates(self) -> FloatArray:
        """Coordinates of the candidates, shape (K,)."""
        return self.parameter.to_coordinate(self.candidates)

    @cached_property
    def estimates(self) -> FloatArray:
        """Coordinates of the simulated estimates, shape (K, R); NaN where the pipeline failed."""
        return self.parameter.to_coordinate(self.data["estimate"].values)

    @property
    def messages(self) -> list[Message]:
        """Candidates that could not be tested, and runs that failed."""
        found = messages_from(self.data)
        failed = self.data["reason"].values[self.data["simulated"].values]
        reasons = [str(reason) for reason in failed.ravel() if reason]
        if reasons:
            text = (
                f"{len(reasons)} of {self.retrainings} runs of the pipeline failed and count as "
                f"lying on both sides of every estimate; the first: {' '.join(reasons[0].split())}"
            )
            numbers = {"failures": float(len(reasons)), "runs": float(self.retrainings)}
            found.append(Message("calibration.failures", text, "warning", numbers))
        if self.plug_in == STANDING:
            hidden = ", ".join(map(str, self.nuisance))
            text = (
                f"the nuisance parameters {hidden} are simulated at one value "
                "for every candidate, not at their fit to the data: pass the observed data to "
                "twoaxis.confidence_set"
            )
            found.append(Message("calibration.nuisance_not_fitted", text, "warning"))
        return found

    def confidence_set(
        self,
        data: Any = None,
        *,
        estimate: float | None = None,
        level: float = 0.9,
        statistic: Statistic = "signed",
    ) -> ConfidenceSet:
        """Return the candidates that could have led to what the pipeline delivered.

        The guarantee holds for a truth at a candidate of the calibration. Between candidates the
        bounds are interpolated linearly in the coordinate, or the whole interval is kept where
        answers change by steps; nothing is refined here, and a message says where candidates are
        farther apart than the set is wide.

        Parameters
        ----------
        data : array, optional
            The observed values: the pipeline runs on them once. Not possible with a calibration
            from a file, which holds no pipeline.
        estimate : float, optional
            What the pipeline delivered on the observed values, in place of `data`.
        level, statistic
            As for `twoaxis.confidence_set`.
        """
        check_level(level, statistic, self.replicas)
        # At call time: `confidence_set` builds upon this module.
        from twoaxis.remedies.confidence_set import set_from_calibration

        return set_from_calibration(self, data, estimate, level, statistic)

    def summary(self, level: float | None = None) -> pd.DataFrame:
        """Return a row per candidate: median estimate, bias, spread, bounds and failures.

        ``bias_percent`` and ``sd_percent`` refer to the candidate; it is kept at `level` for
        estimates from ``lower`` to ``upper``. The level is 0.9 by default, and the bounds are left
        out where that takes more replicas than there are.
        """
        if level is not None:
            check_level(level, "signed", self.replicas)
        elif self.replicas >= least_replicas(0.9, "signed"):
            level = 0.9
        p, q, found = self.parameter, self.coordinates, self.estimates
        known = [row[~np.isnan(row)] for row in found]
        spread = np.array([row.std(ddof=1) if len(row) > 1 else np.nan for row in known])
        unit = np.array([p.percent_unit(value) for value in self.candidates])
        middle = p.to_value(medians(found))
        bias = [float(p.percent(m, c)) for m, c in zip(middle, self.candidates, strict=True)]
        columns = {"median": middle, "bias_percent": bias, "sd_percent": 100 * spread / unit}
        if level is not None:
            bounds = rank_bounds(found, q, level, "signed")
            columns |= zip(("lower", "upper"), map(p.to_value, bounds), strict=True)
        columns["failures"] = np.isnan(found).sum(axis=1)
        return pd.DataFrame(columns, index=pd.Index(self.candidates, name=self.name))

    def check(self) -> None:
        """Raise `InputError` for numbers that no calibration has."""
        values, known = self.candidates, self.data["estimate"].values
        positive = self.parameter.coordinate == "linear" or (
            values.min() > 0 and not (known <= 0).any()
        )
        usable = (
            len(self.parameters.of_interest) == 1
            and np.array_equal(self.data["simulated_at"].sel(parameter=self.name), values)
            and len(values) >= 2
            and bool((np.diff(values) > 0).all())
            and positive
            and not np.isinf(known).any()
            and bool(np.isfinite(known).any())
        )
        if not usable:
            raise InputError(
                "one parameter of interest, ascending candidates and finite estimates that its "
                "coordinate can represent",
                f"{len(values)} candidates of {', '.join(self.parameters)}",
                "write the file again",
            )
        self.summary()
        repr(self)

    def __repr__(self) -> str:
        head = (
            f"Calibration of {self.name}: {len(self.candidates)} candidates, {self.replicas} "
            f"replicas each, {self.retrainings} runs of the pipeline"
        )
        return "\n".join([head, *map(warning_line, self.messages)])


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
    vectorized: bool = False,
    vectorized_pipeline: bool | None = None,
    progress: bool = True,
) -> Calibration:
    """Run a complete inverse pipeline on data simulated at every candidate.

    Parameters
    ----------
    pipeline : callable
        ``pipeline(values, seed)``: observed values of shape (n,) and a seed in; a number, a mapping
        from names to values, a `twoaxis.FrozenResidual` or an object with ``delivered`` out. It
        estimates nuisance parameters as it always does, and need not return them. An
        exception, and a value that is not finite, is a failure: it is counted, and lies on both
        sides of every estimate when ranks are taken.
    forward : callable
        ``forward(**parameters)``: noise-free predictions, any simulator, any fixed shape.
    parameters : mapping of str to Parameter
        One parameter of interest; any others as nuisance parameters, which need a start or a
        delivered value. They are simulated there, and `twoaxis.confidence_set` fits them.
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
    vectorized : bool
        Whether `forward` takes a vector and returns predictions with a leading axis.
    vectorized_pipeline : bool, optional
        Whether ``pipeline(values, seeds)`` takes all datasets at once, shape (m, n) with m seeds,
        and returns m answers. By default the attribute ``pipeline.vectorized``, or else False.
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
    ...     lambda values, seed: 1.3 * values.mean(),          # wrong by 30%
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
        vectorized_pipeline=vectorized_pipeline,
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
    vectorized: bool,
    vectorized_pipeline: bool | None,
    progress: bool,
) -> tuple[Rerun, Any]:
    """Check everything before expensive work starts; return the rerun and the candidates."""
    checked, name = one_of_interest(parameters)
    parameter = checked[name]
    check_pipeline(pipeline)
    check_count("replicas", replicas, 2)
    grid = candidate_grid(parameter, candidates, interval)
    known = (parameter.delivered, parameter.truth, parameter.start, grid[len(grid) // 2])
    center = checked.nuisance_values()
    center[name] = float(next(value for value in known if value is not None))
    simulator = build_simulator(forward, checked, noise, layout, center, vectorized)
    draws = noise_draws(seed, replicas, len(simulator.sites), len(grid))
    seeds = pipeline_seeds(seed, replicas)
    standing = checked.coordinates(center)
    rerun = Rerun(
        pipeline, simulator, checked, draws, seeds, standing, vectorized_pipeline, progress
    )
    return rerun, grid


def one_of_interest(parameters: Mapping[str, Parameter]) -> tuple[Parameters, str]:
    """Return the parameters and the one of interest, if there is exactly one."""
    checked = Parameters(parameters)
    names = checked.of_interest
    if len(names) > 1:
        raise InputError(
            "one parameter of interest for a calibrated set",
            f"the parameters {', '.join(names)}",
            "declare the others nuisance parameters, as in Parameter(nuisance=True, start=..., "
            "bounds=...), and make a set for each in turn",
        )
    return checked, names[0]


def candidate_grid(
    parameter: Parameter, candidates: int | ArrayLike, interval: Any = None
) -> FloatArray:
    """Return physical values of the candidates, ascending.

    Parameters
    ----------
    parameter : Parameter
    candidates : int or array
        How many, evenly spaced in the coordinate; or the values themselves.
    interval : tuple of float, optional
        Between which values; by default the bounds of the parameter.
    """
    if is_integer(candidates):
        if not LEAST_CANDIDATES <= candidates <= MOST_CANDIDATES:
            raise InputError(
                f"from {LEAST_CANDIDATES} to {MOST_CANDIDATES} candidates",
                f"candidates={candidates}",
                "pass candidates=17",
            )
        low, high = _checked_interval(parameter, interval)
        first, last = parameter.to_coordinate([low, high])
        spaced = np.linspace(first, last, int(candidates))
        values = np.clip(parameter.to_value(spaced), low, high)
        # The exponential of a logarithm may differ in the last bit: the ends are what was asked.
        values[[0, -1]] = low, high
        return values
    if interval is not None:
        raise InputError(
            "an interval for a number of candidates",
            "both an interval and the candidates themselves",
            "pass one of the two",
        )
    values = np.unique(real_array("candidates", candidates))  # ascending
    low, high = parameter.bounds
    inside = np.isfinite(values).all() and values.min(initial=low) >= low
    if values.size < LEAST_CANDIDATES or not (inside and values.max() <= high):
        raise InputError(
            f"at least {LEAST_CANDIDATES} different candidates inside the bounds "
            f"[{low:g}, {high:g}]",
            f"candidates={np.array2string(values, threshold=8)}",
            "pass a number of candidates, or values inside the bounds",
        )
    return values


def _checked_interval(parameter: Parameter, interval: Any) -> tuple[float, float]:
    if interval is None:
        return parameter.bounds
    try:
        low, high = (parameter._checked_value("interval", end) for end in interval)
    except TypeError:
        low = high = 0.0
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        low = high = 0.0
    if low >= high:
        raise InputError(
            "an interval as two numbers, the lower one first",
            f"interval={interval!r}",
            "write interval=(low, high)",
        )
    return low, high


@dataclass(frozen=True, eq=False)
class Rerun:
    """A pipeline and a simulator, ready to be run at any candidate.

    Attributes
    ----------
    pipeline : callable
    simulator : Simulator
    parameters : Parameters
        One of interest, and nuisance parameters.
    draws : array, shape (R, n)
        Standard normal noise, the same for every candidate.
    seeds : array of int, shape (R + 1,)
        Of the pipeline: the first for the real data, the others for the replicas.
    standing : array, shape (d,)
        Coordinates at which nuisance parameters stand, or start to be fitted.
    vectorized_pipeline : bool, optional
    progress : bool
    observed : array, shape (n,), optional
        Real data, to which nuisance parameters are fitted at every candidate.
    """

    pipeline: Callable[..., Any]
    simulator: Simulator
    parameters: Parameters
    draws: FloatArray
    seeds: IntArray
    standing: FloatArray
    vectorized_pipeline: bool | None
    progress: bool
    observed: FloatArray | None = None

    @property
    def parameter(self) -> Parameter:
        """The parameter in question."""
        return self.parameters[self.name]

    @property
    def name(self) -> str:
        """Its name."""
        return self.parameters.of_interest[0]

    @property
    def plug_in(self) -> str:
        """Where the values of nuisance parameters come from."""
        if not self.parameters.nuisance.any():
            return NO_NUISANCE
        return STANDING if self.observed is None else FITTED

    def points(self, candidates: FloatArray) -> FloatArray:
        """Return the coordinates (K, d) that data of each candidate are simulated at."""
        free = self.parameters.nuisance
        found = np.tile(self.standing, (len(candidates), 1))
        found[:, ~free] = self.parameter.to_coordinate(candidates)[:, None]
        if self.observed is None or not free.any():
            return found
        # From the middle of the bounds, too: far from the data one start may lead astray.
        other = found.copy()
        other[:, free] = np.mean(self.parameters.coordinate_bounds, axis=0)[free]
        return self.simulator.fitted(self.observed, np.stack([found, other]), free)

    def answers(
        self,
        values: FloatArray,
        seeds: IntArray,
        title: str,
        order: IntArray | None = None,
        proven: bool = False,
    ) -> list[Answer]:
        """Run the pipeline on datasets of shape (m, n); see `run_pipeline`."""
        return run_pipeline(
            self.pipeline,
            values,
            seeds,
            self.parameters,
            vectorized=self.vectorized_pipeline,
            progress=self.progress,
            title=title,
            order=order,
            proven=proven,
            optional=[name for name in self.parameters if name != self.name],
        )

    def at(self, candidates: FloatArray, number: int) -> dict[str, Any]:
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
        dict of str to array
            Variables of `Calibration` along the candidates. Where the forward model fails there
            is no answer, and the pipeline did not run.
        """
        coordinates = self.points(candidates)
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
                "run it on one simulated dataset and correct it",
            )
        # What the pipeline returned may be large, such as a trained network: only values are kept.
        estimate[usable] = np.reshape(
            [answer.delivered.get(self.name, np.nan) for answer in found], (-1, replicas)
        )
        if number == 0:
            self._check_dependence(estimate[usable])
        reason[usable] = np.reshape(
            np.array([answer.failure for answer in found], dtype=object), (-1, replicas)
        )
        at = self.parameters.physical(coordinates)
        at[:, ~self.parameters.nuisance] = candidates[:, None]
        return {
            "candidate": np.asarray(candidates, dtype=float),
            "simulated_at": at,
            "estimate": estimate,
            "reason": reason,
            "round": np.full(count, number),
            "simulated": usable,
        }

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


def first_round(rerun: Rerun, candidates: FloatArray, seed: int | Sequence[int]) -> Calibration:
    """Run the pipeline over the grid."""
    return _calibration(rerun, rerun.at(candidates, 0), " ".join(map(str, np.atleast_1d(seed))), [])


def extended(found: Calibration, rerun: Rerun, candidates: FloatArray, number: int) -> Calibration:
    """Return the calibration with more candidates, from refinement round `number`."""
    more = rerun.at(candidates, number)
    rows = {name: np.concatenate([found.data[name].values, more[name]]) for name in more}
    # A refinement no longer sees the candidates that the first round left out at the ends.
    return _calibration(rerun, rows, str(found.data.attrs["seed"]), messages_from(found.data))


def _calibration(
    rerun: Rerun, rows: dict[str, Any], seed: str, before: list[Message]
) -> Calibration:
    order = np.argsort(rows["candidate"], kind="stable")
    inside, untested = _trimmed({name: values[order] for name, values in rows.items()})
    messages = {message.code: message for message in [*before, *untested]}
    values = {
        **rerun.parameters.variables(),
        **inside,
        "replica": np.arange(len(rerun.draws)),
        **message_variables(list(messages.values())),
    }
    found = Calibration.from_values(values, {"seed": seed, "plug_in": rerun.plug_in})
    found.rerun = rerun
    return found


def _trimmed(rows: dict[str, Any]) -> tuple[dict[str, Any], list[Message]]:
    """Leave out candidates at either end that could not be simulated, and say which.

    One between others stays: without a test it cannot be rejected, so it is kept in every set.
    """
    usable = np.flatnonzero(rows["simulated"])
    if usable.size < 2:
        reasons = [str(r) for r in rows["reason"][:, 0] if r]
        raise InputError(
            "a forward model that works for at least two candidates",
            f"{usable.size} of {len(rows['candidate'])}; the first reason: {reasons[0]}",
            "choose an interval in which the simulator works",
        )
    inside = {name: values[usable[0] : usable[-1] + 1] for name, values in rows.items()}
    messages = []
    beyond = {"below": int(usable[0]), "above": len(rows["candidate"]) - 1 - int(usable[-1])}
    for side, count in beyond.items():
        if count:
            end = float(inside["candidate"][0 if side == "below" else -1])
            text = f"{count} candidates {side} {end:.5g} could not be simulated and are not tested"
            numbers = {"candidates": float(count), "end": end}
            messages.append(Message(f"calibration.untested_{side}", text, "warning", numbers))
    gaps = int((~inside["simulated"]).sum())
    if gaps:
        text = f"{gaps} candidates between others could not be simulated and count as kept"
        numbers = {"candidates": float(gaps)}
        messages.append(Message("calibration.untested_between", text, "warning", numbers))
    return inside, messages


def warning_line(message: Message) -> str:
    """Return a message in lines of a terminal's width."""
    return textwrap.fill(message.text, WIDTH, initial_indent="! ", subsequent_indent="  ")
