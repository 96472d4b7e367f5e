r"""Does the trained field fit the observations? In noise levels, overall and group by group.

With the whitened misfit :math:`z = L^{-1}(y - u)` of a field :math:`u` at the observations
:math:`y`, noise covariance :math:`\Sigma = L L^\top`, the size is

.. math:: s = \sqrt{\tfrac1n \sum_i z_i^2},

which is about one for a field that is right. A network that has not fitted the data has
:math:`s \gg 1`, one that follows the noise :math:`s \ll 1`. The same is asked of every group of
observations (a sensor, or a box of the domain), because a good fit elsewhere hides a bad one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.geometry.regions import cell_regions
from twoaxis.io import Layout, Variable, labelled
from twoaxis.labels import aligned
from twoaxis.observations import Observations, as_observations
from twoaxis.resolution.data_fit import Observed
from twoaxis.resolution.layouts import Missing, WhitenedLayout, dropped_message
from twoaxis.statistics import KNOWN, squares_above, squares_below
from twoaxis.text import visible

FloatArray = NDArray[np.float64]

# Observations that are kept for pictures.
MOST_OBSERVATIONS = 20_000
# A group of fewer observations says little about itself.
FEWEST = 5
# Sensors beyond this number are not told apart; boxes of the domain are used instead.
MOST_SENSORS = 64
BOXES = 4

_O = ("observation",)
OBSERVATION_LAYOUT: Layout = {
    "axis": Variable(("axis",), "text", "name of the coordinate of the observations"),
    "points": Variable(("observation", "axis"), "float", "where it was observed", finite=True),
    "data": Variable(_O, "float", "observed value", finite=True),
    "noise": Variable(_O, "float", "standard deviation of its noise", finite=True),
    "observed_field": Variable(("observed_field",), "text", "name of an observed field"),
    "field_of": Variable(_O, "int", "row of the field that was observed"),
    **{
        name: Variable(_O, "float", meaning, required=False)
        for name, meaning in (
            ("field", "what the trained field predicts"),
            ("matched", "forward model at the matched estimate"),
            ("delivered", "forward model at the delivered value"),
            ("field_misfit", "whitened misfit of the trained field"),
            ("matched_misfit", "whitened misfit of the matched fit"),
            ("delivered_misfit", "whitened misfit of the forward model at the delivered value"),
        )
    },
}
FIELD_LAYOUT: Layout = {
    "rms": Variable((), "float", "RMS misfit of the field, in noise levels", finite=True),
    "p_above": Variable((), "float", "probability of a larger misfit if the field were right"),
    "p_below": Variable((), "float", "probability of a smaller misfit if the field were right"),
    "group": Variable(("group",), "text", "sensor or region"),
    "group_rms": Variable(("group",), "float", "RMS misfit in the group, in noise levels"),
    "group_count": Variable(("group",), "int", "observations in the group"),
    "group_p": Variable(("group",), "float", "probability of a larger misfit in the group"),
}


class Groups(NamedTuple):
    """A group for each observation: its number (n,), and the names of all groups."""

    number: NDArray[np.intp]
    names: list[str]


def observations_given(
    data: Any, noise: ArrayLike | None, missing: Missing = "raise"
) -> Observations:
    """Return data and their noise as observations; of an array NaN may be refused."""
    found = as_observations(data, noise)
    if found.missing and missing == "raise" and found.noise_known and found is not data:
        raise InputError(
            "finite observations",
            f"{found.missing} NaN, the first at position {np.flatnonzero(~found.kept)[0]}",
            'pass missing="drop" to leave NaN out',
        )
    return found


def observed_alone(known: Observations) -> Observed | None:
    """Return observations that come without a forward model; None without their noise."""
    if not known.noise_known:
        return None
    kept = np.flatnonzero(known.kept)
    layout = WhitenedLayout("data", kept, kept, known.whitener(), np.zeros(len(kept)))
    told = [dropped_message("data", known.missing, known.values.size)] if known.missing else []
    return Observed(layout, known.readings, kept, told, (known.labels,))


class SeenField(NamedTuple):
    """What a field predicts for observations, where they lie, and the names of what was observed.

    The predictions are in the shape of the data, or None where they are not known.
    """

    fitted: Any
    observed: FloatArray | None
    fields: Sequence[str]


def seen_field(frozen: FrozenResidual, data: Any, fitted: Any = None) -> SeenField:
    """Return what a frozen residual predicts for data.

    Without `fitted` it is what the residual carries, or for observations elsewhere the field of its
    network there.
    """
    names: Sequence[str] = frozen.fields or (frozen.field_name,)
    predicted = frozen.fitted if fitted is None else fitted
    if not isinstance(data, Observations):
        return SeenField(predicted, frozen.observed, names)
    where, weights = frozen.observed if data.at is None else data.at, frozen.weights
    unknown = frozen.observed is None and weights is None  # then they are in the order of the data
    if fitted is None and callable(data.of):
        predicted = None
    elif fitted is None and not unknown and not np.array_equal(where, frozen.observed):
        predicted = None if weights is None else weights.field(weights.start, data.sites)
    elif data.as_predicted:  # with the labels that it may have
        return SeenField(predicted, where, names)
    if not (callable(data.of) or data.of is None):
        chosen = np.atleast_1d(np.asarray(data.of))
        names = [names[k] for k in chosen] if max(chosen) < len(names) else names[:1]
    return SeenField(None if predicted is None else data.expected(predicted), where, names)


def fitted_values(fitted: Any, observed: Observed, shape: tuple[int, ...]) -> FloatArray:
    """Return what the field predicts for the observations of one layout, shape (n,).

    `fitted` has the shape of the data: one value for each observation of the layout, with or
    without those that are missing, the shape that the forward model returns, or a mapping by
    layout.
    """
    layout = observed.layout
    if isinstance(fitted, Mapping):
        if layout.name not in fitted:
            raise InputError(
                f"fitted values for the layout {layout.name}",
                f"values for {', '.join(map(str, fitted)) or 'none'}",
                "name them like the layouts of the data",
            )
        fitted = fitted[layout.name]
    array = aligned("fitted", fitted, *observed.labels)
    dropped = sum(int(message.numbers["count"]) for message in observed.messages)
    if array.size == len(layout.sites) + dropped:
        found = array.ravel()[observed.kept]
    elif array.size == len(layout.sites):
        found = array.ravel()
    elif array.shape == shape:
        found = array.ravel()[layout.sites]
    else:
        raise InputError(
            f"fitted with one value for each of the {len(layout.sites)} observations",
            f"an array of shape {array.shape}",
            "evaluate the trained field at the observed points, in the order of the data",
        )
    bad = np.flatnonzero(~np.isfinite(found))
    if bad.size:
        raise InputError(
            "fitted as finite numbers, what the field predicts for each observation",
            f"{bad.size} of {found.size} values not finite, the first for observation {bad[0]}",
            "find out why the trained field is not finite there",
        )
    return np.asarray(found)


def observations_group(
    observed: Observed,
    points: FloatArray,
    axes: Sequence[str],
    predictions: Mapping[str, FloatArray],
    fields: Fields,
) -> xr.Dataset:
    """Return the group ``/observations``; `predictions` by name, in the units of the data."""
    count = len(observed.values)
    keep: Any = slice(None)
    if count > MOST_OBSERVATIONS:
        keep = np.sort(np.random.default_rng(0).choice(count, MOST_OBSERVATIONS, replace=False))
    white = observed.layout.white
    values: dict[str, Any] = {
        "axis": list(axes),
        "points": points[keep],
        "data": observed.values[keep],
        "noise": white.deviations[keep],
        "observed_field": fields.names,
        "field_of": fields.number[keep],
    }
    for name, prediction in predictions.items():
        values[name] = prediction[keep]
        values[f"{name}_misfit"] = white(observed.values - prediction)[keep]
    about = {
        "layout": observed.layout.name,
        "observations": count,
        "kept": min(count, MOST_OBSERVATIONS),
    }
    return labelled(OBSERVATION_LAYOUT, values, about)


def field_group(misfit: FloatArray, groups: Groups, freedom: float = KNOWN) -> xr.Dataset:
    """Return the group ``/field_fit`` of a whitened misfit (n,).

    `freedom` is that of the estimate of the noise, infinite where it was declared. The misfit is
    compared as if the two were independent. They share the noise of the data, which makes both
    tails rarer than that.
    """
    total, count = float(misfit @ misfit), len(misfit)
    counts = np.bincount(groups.number, minlength=len(groups.names))
    sums = np.bincount(groups.number, misfit**2, len(groups.names))
    return labelled(
        FIELD_LAYOUT,
        {
            "rms": np.sqrt(total / count),
            "p_above": squares_above(total, count, freedom),
            "p_below": squares_below(total, count, freedom),
            "group": groups.names,
            "group_rms": np.sqrt(sums / counts),
            "group_count": counts,
            "group_p": squares_above(sums, counts, freedom),
        },
        {},
    )


class Fields(NamedTuple):
    """The observed field of each observation: its number (n,), and the names of all fields."""

    number: NDArray[np.intp]
    names: list[str]


def fields_of(sites: NDArray[np.intp], shape: tuple[int, ...], names: Sequence[str]) -> Fields:
    """Return which field was observed at each site of data with a shape.

    Several fields are the last axis of the data; where that does not have as many entries as there
    are names, all observations are of one field.
    """
    several = len(names) > 1 and len(shape) > 1 and shape[-1] == len(names)
    if not several:
        return Fields(np.zeros(len(sites), dtype=np.intp), [str(names[0]) if names else "u"])
    return Fields(np.asarray(sites % len(names), dtype=np.intp), [str(name) for name in names])


def grouped(points: FloatArray, axes: Sequence[str], fields: Fields) -> Groups:
    """Divide the observations of every field into sensors or boxes."""
    if len(fields.names) == 1:
        return groups_of(points, axes)
    number = np.empty(len(points), dtype=np.intp)
    names: list[str] = []
    for k, name in enumerate(fields.names):
        own = np.flatnonzero(fields.number == k)
        if own.size:
            part = groups_of(points[own], axes)
            number[own] = len(names) + part.number
            names += [f"{visible(name)}, {each}" for each in part.names]
    return Groups(number, names)


def groups_of(points: FloatArray, axes: Sequence[str]) -> Groups:
    """Divide observations (n, k) into sensors where there are few, else into boxes.

    A sensor is a place: the observations that share all coordinates but one. Of the coordinates
    that can be left out, the one is time that leaves the fewest places.
    """
    found = [groups for j in range(points.shape[1]) if (groups := _sensors(points, axes, j))]
    if found:
        return min(found, key=lambda groups: len(groups.names))
    boxes = cell_regions(BOXES, points, list(map(visible, axes)))
    return Groups(boxes.number, boxes.names)


def _sensors(points: FloatArray, axes: Sequence[str], along: int) -> Groups | None:
    rest = [j for j in range(points.shape[1]) if j != along]
    if not rest:
        return None
    places, number = np.unique(points[:, rest], axis=0, return_inverse=True)
    number = number.reshape(-1)
    if not 1 < len(places) <= MOST_SENSORS or np.bincount(number).min() < FEWEST:
        return None
    names = [
        ", ".join(f"{visible(axes[j])} = {v:g}" for j, v in zip(rest, place, strict=True))
        for place in places
    ]
    return Groups(number, names) if len(set(names)) == len(names) else None
