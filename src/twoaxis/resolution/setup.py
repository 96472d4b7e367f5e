"""The checked input of one call of `twoaxis.resolve`.

Whatever can be wrong with the input is found here, before the expensive part starts. A built-in
problem becomes the same thing as a forward model of the user: its declared solver at the
observed sites, its parameters, its noise and its layouts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.datasets import layout as layout_sites
from twoaxis.datasets import noise_scale
from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel, MapEngine, get_solver
from twoaxis.labels import Labels, first_labels, in_order
from twoaxis.observations import Observations
from twoaxis.parameters import Center, Parameters, Unknowns
from twoaxis.problems import Problem
from twoaxis.resolution.layouts import (
    Missing,
    Noise,
    Readings,
    WhitenedLayout,
    checked_data,
    checked_layouts,
    checked_noise,
    noise_of,
    output_points,
)

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]


@dataclass(frozen=True)
class Setup:
    """What is resolved: parameters, forward models, layouts, noise and data.

    Attributes
    ----------
    parameters : Parameters
    center : Center
        The point that the replicas are simulated at.
    model, fit_model : ForwardModel
        The model of the data and the one of the fit; mostly the same object.
    layouts : dict of str to array of int
        Flat indices into the output of the model, without sites whose data are missing.
    declared : dict of str to array of int
        The same with those sites.
    noise : Noise or None
        None where it is to be estimated from the data.
    readings : Readings or None
        Observed values by layout.
    points : array, shape (N, k)
        Where the entries of the output lie.
    level : float
        Confidence level of the likelihood-profile sets.
    labels : Labels, optional
        Of what the model returns: its own, or those of data or noise in the same shape.
    observations : Observations, optional
        What the readings were made of, where they came as one.
    """

    parameters: Parameters
    center: Center
    model: ForwardModel
    fit_model: ForwardModel
    layouts: dict[str, IndexArray]
    declared: dict[str, IndexArray]
    noise: Noise | None
    readings: Readings | None
    points: FloatArray
    level: float
    labels: Labels | None = None
    observations: Observations | None = None

    @property
    def data(self) -> dict[str, FloatArray] | None:
        """Observed values by layout."""
        return None if self.readings is None else self.readings.values

    @property
    def q(self) -> FloatArray:
        """Coordinates of the center, shape (d,)."""
        return self.parameters.coordinates(self.center.values)

    @property
    def start(self) -> FloatArray:
        """Where the Gauss-Newton step starts: the delivered values, or else the center."""
        known = {n: p.delivered for n, p in self.parameters.items() if p.delivered is not None}
        return self.parameters.coordinates({**self.center.values, **known})

    @property
    def units(self) -> FloatArray:
        """The step in each coordinate that stands for 100%, shape (d,)."""
        return self.parameters.percent_units(self.center.values)

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the coordinates, each of shape (d,)."""
        return self.parameters.coordinate_bounds

    @property
    def unit_noise(self) -> Noise:
        """Independent noise of one, for fits that come before the noise is known."""
        return Noise(np.ones(self.model.size))

    def whitened(
        self, noise: Noise, layouts: Mapping[str, IndexArray] | None = None
    ) -> list[WhitenedLayout]:
        """Return the layouts with this noise; `layouts` replaces those of the setup."""
        found = []
        for name, sites in (self.layouts if layouts is None else layouts).items():
            white = noise.whitener(sites, name)
            columns = np.searchsorted(self.model.entries, sites)
            base = white(self.model.center_values[sites])
            found.append(WhitenedLayout(name, sites, columns, white, base, noise.freedom))
        return found


def prepare(
    forward: Callable[..., Any],
    parameters: Unknowns,
    noise: ArrayLike | None,
    layouts: Mapping[Any, ArrayLike] | Sequence[ArrayLike] | None,
    *,
    at: str | Mapping[str, float] | None,
    data: ArrayLike | Mapping[Any, ArrayLike] | Observations | None,
    points: ArrayLike | None,
    fit_forward: Callable[..., Any] | None,
    vectorized: bool,
    level: float,
    missing: Missing = "raise",
    engine: MapEngine | None = None,
) -> Setup:
    """Check the arguments of `twoaxis.resolve`, and call the forward models at the center."""
    checked = Parameters(parameters)
    center = checked.center(at)
    observations = data if isinstance(data, Observations) else None
    if observations is not None:
        forward = observed_forward(forward, observations, vectorized)
        fit_forward = observed_forward(fit_forward, observations, vectorized)
    model = ForwardModel(forward, checked, center.values, vectorized=vectorized, engine=engine)
    sites = checked_layouts(layouts, model.size)
    entries = np.unique(np.concatenate(list(sites.values())))
    model.observe(entries)
    fit_model = model
    if fit_forward is not None:
        fit_model = ForwardModel(
            fit_forward,
            checked,
            center.values,
            vectorized=vectorized,
            name="fit_forward",
            engine=engine,
        )
        if fit_model.shape != model.shape:
            raise InputError(
                f"fit_forward to return the shape {model.shape} that forward returns",
                f"the shape {fit_model.shape}",
                "interpolate its predictions to the entries of forward",
            )
        _check_same_order(fit_model, model)
        fit_model.observe(entries)
    labels = model.labels
    given: Any = data
    known: Any = noise
    if observations is not None:
        if labels is None and observations.values.shape == model.shape:
            labels = observations.labels
        ordered = observations_for(observations, model.shape, labels)
        given, missing, known = ordered.scaled_values, "drop", noise_of(ordered)
        if points is None and ordered.at is not None:
            points = np.repeat(ordered.at, ordered.columns, axis=0)
    if known is None and data is None:
        raise InputError(
            "noise, or data to estimate it from",
            "neither",
            "pass noise=..., or the observed values as data=...",
        )
    labels = labels or first_labels(model.shape, {"data": given, "noise": known})
    readings = None if data is None else checked_data(given, sites, model.shape, missing, labels)
    return Setup(
        parameters=checked,
        center=center,
        model=model,
        fit_model=fit_model,
        layouts=sites if readings is None else readings.layouts,
        declared=sites,
        noise=None if known is None else checked_noise(known, model.shape, labels),
        readings=readings,
        points=output_points(points, model.shape, labels),
        level=level,
        labels=labels,
        observations=observations,
    )


@dataclass(frozen=True)
class ObservedForward:
    """A forward model of all outputs as one of the readings: selected ones, or their logarithms.

    A class, so that engines can send it to other processes.
    """

    forward: Callable[..., Any]
    observations: Observations
    vectorized: bool

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.forward)

    def __call__(self, **values: Any) -> FloatArray:
        """Return predictions in the shape of the values."""
        predicted = np.asarray(self.forward(**values), dtype=float)
        if not self.vectorized:
            return self.observations.expected(predicted)
        return np.stack([self.observations.expected(each) for each in predicted])


def observed_forward(forward: Any, observations: Observations, vectorized: bool) -> Any:
    """Return a forward model of what was observed; itself where it already is one."""
    if forward is None or observations.as_predicted:
        return forward
    return ObservedForward(forward, observations, vectorized)


def observations_for(
    observations: Observations, shape: tuple[int, ...], labels: Labels | None
) -> Observations:
    """Return observations in the order of what forward returns, or refuse another number."""
    ordered = observations.in_order_of(labels)
    own = ordered.values.shape
    if own == shape:
        return ordered
    if int(np.prod(shape)) != ordered.values.size or 1 not in (len(own), len(shape)):
        raise InputError(
            f"observations with values in the shape {shape} that forward returns",
            f"the shape {own}",
            "return predictions of the observed values from forward, and set values to NaN where "
            "nothing was observed; of=... selects from several outputs",
        )
    return ordered.flattened()


def _check_same_order(one: ForwardModel, other: ForwardModel) -> None:
    """Refuse a model that labels its entries like another one, in another order."""
    if one.labels is None or other.labels is None:
        return
    place = np.arange(float(one.size)).reshape(one.shape)
    if not np.array_equal(in_order(place, one.labels, other.labels), place):
        raise InputError(
            f"{one.name} to return its entries in the order of {other.name}",
            "the same labels in another order",
            "return the same axes and entries in the same order from both, with transpose and "
            "reindex_like",
        )


def problem_arguments(
    problem: Problem,
    parameters: Unknowns | None,
    noise: ArrayLike | None,
    layouts: Mapping[Any, ArrayLike] | Sequence[Any] | None,
    points: ArrayLike | None,
    fit_forward: Any,
) -> dict[str, Any]:
    """Return a built-in problem as the arguments of `prepare` that describe a forward model.

    The declared solver is run once for all layouts: its output is the field at the sites that
    some layout observes, in the order in which they come. With one layout, that is the order of
    its datasets.
    """
    if points is not None:
        raise InputError(
            f"no points for the problem {problem.name}, whose sites are known",
            "points",
            "leave points out",
        )
    if fit_forward not in (None, "fine", "coarse"):
        raise InputError(
            'fit_forward "fine" or "coarse" for a built-in problem',
            repr(fit_forward),
            "choose one of its solvers, or pass a forward model instead of the problem",
        )
    solver = get_solver(problem)
    sites = _sites(problem, layouts, int(np.prod(solver.shape)))
    observed = _once(np.concatenate(list(sites.values())))
    rank = np.argsort(observed)
    places = solver.points(observed)

    def fine(**values: FloatArray) -> FloatArray:
        return solver.at_sites(observed, **values)

    def coarse(**values: FloatArray) -> FloatArray:
        return get_solver(problem, "coarse").at_points(places, **values)

    return {
        "forward": fine,
        "parameters": problem.parameters if parameters is None else parameters,
        "noise": noise_scale(problem) if noise is None else noise,
        "layouts": {
            name: rank[np.searchsorted(observed, s, sorter=rank)] for name, s in sites.items()
        },
        "points": places,
        "fit_forward": coarse if fit_forward == "coarse" else None,
        "vectorized": True,
    }


def _once(sites: IndexArray) -> IndexArray:
    """Return each site once, in the order of its first appearance."""
    return sites[np.sort(np.unique(sites, return_index=True)[1])]


def _sites(problem: Problem, layouts: Any, size: int) -> dict[str, IndexArray]:
    """Return the layouts of a problem as flat indices into its fine field, by name."""
    if isinstance(layouts, Mapping):
        return checked_layouts(layouts, size)
    if layouts is None:
        layouts = problem.observed.layouts
    seeds = list(layouts) if isinstance(layouts, Iterable) else [layouts]
    sites = {str(seed): layout_sites(problem, seed) for seed in seeds}
    if not seeds:
        raise InputError("at least one layout", "none", "pass layout seeds, such as [8, 9]")
    if len(sites) < len(seeds):
        raise InputError("each layout once", f"layouts={seeds}", "remove the repetitions")
    return sites
