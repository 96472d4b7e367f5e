"""Layouts and noise: what is observed, and how it is whitened.

A layout is a set of flat indices into the output of the forward model. Noise is Gaussian with a
known covariance ``Sigma`` over the entries of that output; a layout takes its part of it,
``Sigma_L = L L^T``. After whitening, ``L^{-1} v``, the noise of every layout is standard normal,
and a misfit is a plain sum of squares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import refuse_columns
from twoaxis.errors import InputError, refuse_masked
from twoaxis.labels import Labels, aligned
from twoaxis.observations import Observations, Whitener, covariance_factor, noise_over
from twoaxis.result import Message
from twoaxis.statistics import KNOWN

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Missing = Literal["raise", "drop"]

# Name of the row over all layouts in a summary; no layout may have it.
ALL_LAYOUTS = "all layouts"
# Whitened numbers beyond this, or below its inverse, are refused: products of several would leave
# the range of float64.
LARGEST_WHITE = 1e60


@dataclass(frozen=True)
class WhitenedLayout:
    """One layout with its noise, ready to be fitted.

    Attributes
    ----------
    name : str
    sites : array of int, shape (n,)
        Flat indices into the output of the forward model.
    columns : array of int, shape (n,)
        Positions of these sites among the entries that the forward model keeps.
    white : Whitener
    base : array, shape (n,)
        Whitened noise-free observations at the center. Data are handled as whitened
        deviations from it, so that without noise they are exactly zero.
    freedom : float
        Degrees of freedom that the size of the noise was estimated from; infinite where it was
        declared.
    """

    name: str
    sites: IndexArray
    columns: IndexArray
    white: Whitener
    base: FloatArray
    freedom: float = KNOWN

    def row(self, values: FloatArray) -> FloatArray:
        """Return the whitened deviations (n,) of observed values from the center."""
        with np.errstate(over="ignore"):
            white = self.white(values)
        largest = float(np.abs(white).max())
        if not largest < LARGEST_WHITE:
            raise InputError(
                f"observations on layout {self.name!r} below {LARGEST_WHITE:g} standard deviations "
                "of the noise",
                f"{largest:.3g}",
                "check the noise and the observations, and give both in units in which they are "
                "near 1",
            )
        return white - self.base

    def parts(self, size: int) -> Iterator[tuple[slice, WhitenedLayout]]:
        """Yield portions of at most `size` observations; correlated ones stay together."""
        size = size if self.white.factor.ndim == 1 else len(self.sites)
        for start in range(0, len(self.sites), size):
            some = slice(start, start + size)
            white = Whitener(self.white.factor[some])
            yield (
                some,
                replace(
                    self,
                    sites=self.sites[some],
                    columns=self.columns[some],
                    white=white,
                    base=self.base[some],
                ),
            )

    def deviations(self, predictions: FloatArray) -> FloatArray:
        """Return the whitened deviations (..., n) of predictions (..., entries) from the center."""
        return self.white(predictions[..., self.columns]) - self.base


def checked_layouts(
    layouts: Mapping[Any, ArrayLike] | Sequence[ArrayLike] | None, size: int
) -> dict[str, IndexArray]:
    """Return layouts by name; without any, one layout named "all" observes every entry."""
    if layouts is None:
        return {"all": np.arange(size)}
    if not isinstance(layouts, (Mapping, Sequence, np.ndarray)) or isinstance(layouts, str):
        raise InputError(
            "layouts as a mapping from names to indices",
            type(layouts).__name__,
            'write layouts={"a": [0, 3, 7]}',
        )
    named = layouts if isinstance(layouts, Mapping) else dict(enumerate(layouts))
    if not named:
        raise InputError("at least one layout", "an empty collection", "leave layouts out for all")
    names = [str(name) for name in named]
    if len(set(names)) < len(names) or ALL_LAYOUTS in names:
        raise InputError(
            f"layouts with names of their own, and none called {ALL_LAYOUTS!r}",
            ", ".join(names),
            "rename them",
        )
    return {str(name): _checked_layout(str(name), sites, size) for name, sites in named.items()}


def _checked_layout(name: str, sites: ArrayLike, size: int) -> IndexArray:
    refuse_masked(f"layout {name!r}", sites)
    try:
        array = np.asarray(sites)
    except ValueError:  # a ragged list
        array = np.empty(0)
    if array.dtype.kind not in "iu" or array.ndim != 1 or array.size == 0:
        fix = (
            f"turn the mask into indices with numpy.flatnonzero(layouts[{name!r}])"
            if array.dtype.kind == "b"
            else "pass a non-empty, one-dimensional list of integers"
        )
        raise InputError(
            f"layout {name!r} as flat indices into what forward returns",
            f"an array of {array.dtype} with shape {array.shape}",
            fix,
        )
    outside = array[(array < 0) | (array >= size)]
    if outside.size:
        raise InputError(
            f"indices of layout {name!r} from 0 to {size - 1}",
            f"{outside.size} outside, such as {outside[0]}",
            "index the flattened output, for instance with numpy.ravel_multi_index",
        )
    unique, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        raise InputError(
            f"each index of layout {name!r} once",
            f"{(counts > 1).sum()} repeated, such as {unique[counts > 1][0]}",
            "drop the repetitions; a site measured twice is one site with smaller noise",
        )
    return array.astype(np.intp)


@dataclass(frozen=True)
class Noise:
    """Checked noise over all entries: standard deviations, or a covariance.

    Attributes
    ----------
    array : array, shape (N,) or (N, N)
    freedom : float
        Degrees of freedom that its size was estimated from; infinite where it was declared.
    """

    array: FloatArray
    freedom: float = KNOWN

    def whitener(self, sites: IndexArray, name: str) -> Whitener:
        """Return the whitener of the layout with these sites."""
        if self.array.ndim == 1:
            return Whitener(self.array[sites])
        part = self.array[np.ix_(sites, sites)]
        return Whitener(covariance_factor(part, f"on layout {name!r}"))


def checked_noise(
    noise: ArrayLike | Noise, shape: tuple[int, ...], labels: Labels | None = None
) -> Noise:
    """Read noise as one standard deviation, one per entry, or a covariance over the entries.

    `labels` are those of the entries, where they have any. The noise of a refinement is ready, and
    knows what it was estimated from.
    """
    if isinstance(noise, Noise):
        return noise
    return Noise(noise_over(noise, shape, labels, "entries that forward returns"))


def noise_of(observations: Observations) -> Noise | None:
    """Return the noise of observations over all their values; None where it is not known."""
    noise = observations.noise
    if noise is None:
        return None
    return Noise(noise if observations.correlated else noise.ravel())


def output_points(
    points: ArrayLike | None, shape: tuple[int, ...], labels: Labels | None = None
) -> FloatArray:
    """Return where the entries of the output lie, shape (N, k); by default, their indices."""
    size = int(np.prod(shape))
    if points is None:
        return np.column_stack(np.unravel_index(np.arange(size), shape or (1,))).astype(float)
    refuse_columns(points)
    array = aligned("points", points, None if labels is None else labels.flat())
    if array.ndim != 2 or len(array) != size or not np.isfinite(array).all():
        raise InputError(
            f"points as finite numbers of shape ({size}, k), a row for each entry",
            f"the shape {array.shape}, {int((~np.isfinite(array)).sum())} not finite",
            "flatten the grid like the output of forward, one column per coordinate: "
            "np.column_stack([x.ravel(), t.ravel()])",
        )
    return array


@dataclass(frozen=True)
class Readings:
    """Checked observations by layout.

    Attributes
    ----------
    values : dict of str to array
    layouts : dict of str to array of int
        The sites of these values: those of the layout without the ones that are missing.
    dropped : dict of str to int
        How many are missing, where any is.
    labels : dict of str to Labels or None
        Of every layout as it was declared.
    """

    values: dict[str, FloatArray]
    layouts: dict[str, IndexArray]
    dropped: dict[str, int]
    labels: dict[str, Labels | None]

    def messages(self, layout: str | None = None) -> list[Message]:
        """Say how many observations were left out, on one layout or on all."""
        found = []
        for name, count in self.dropped.items():
            if layout not in (None, name):
                continue
            found.append(dropped_message(name, count, count + len(self.layouts[name])))
        return found


def dropped_message(layout: str, count: int, total: int) -> Message:
    """Say how many observations were left out."""
    text = f"layout {layout}: {count} of {total} observations are missing (NaN) and left out"
    return Message("data.dropped", text, numbers={"count": float(count), "total": float(total)})


def check_order(data: FloatArray, shape: tuple[int, ...], sites: IndexArray, fix: str) -> None:
    """Refuse data that may be in the order of forward's output or in that of a layout."""
    if data.shape == shape == sites.shape and (sites != np.arange(len(sites))).any():
        raise InputError(
            "data whose order is known",
            f"{len(sites)} values, which may be in the order of forward or in that of the layout",
            fix,
        )


def checked_data(
    data: ArrayLike | Mapping[Any, ArrayLike],
    layouts: Mapping[str, IndexArray],
    shape: tuple[int, ...],
    missing: Missing = "raise",
    labels: Labels | None = None,
) -> Readings:
    """Return observed values by layout.

    Parameters
    ----------
    data : array or mapping of str to array
        In the shape that forward returns, or as long as each layout.
    layouts : mapping of str to array of int
    shape : tuple of int
        Of what forward returns.
    missing : {"raise", "drop"}
        What to do with NaN: refuse the data, or leave those sites out of the layout. An infinite
        value is always refused.
    labels : Labels, optional
        Of what forward returns.
    """
    if missing not in get_args(Missing):
        raise InputError('missing "raise" or "drop"', f"missing={missing!r}", "choose one of them")
    # Where forward has no labels, those of the data say what belongs to them.
    known = {name: None if labels is None else labels.at(each) for name, each in layouts.items()}
    if isinstance(data, Mapping):
        given = {str(name): values for name, values in data.items()}
        if set(given) != set(layouts):
            raise InputError(
                f"data for the layouts {', '.join(layouts)}",
                f"data for {', '.join(given) or 'none'}",
                "give one array for each layout, under the same name",
            )
        if labels is None:
            known = {name: Labels.of(values, "data") for name, values in given.items()}
        named = {name: aligned("data", values, known[name]) for name, values in given.items()}
    else:
        name, one = next(iter(layouts.items()))
        array = aligned("data", data, known[name] if len(layouts) == 1 else None, labels)
        if array.shape in ((*shape, 1), (*one.shape, 1)):  # a column, as networks return them
            array = array[..., 0]
        fix = f"pass data={{{name!r}: values}}, in the order of the layout"
        check_order(array, shape, one, fix)
        if array.shape == shape:
            named = {name: array.ravel()[sites] for name, sites in layouts.items()}
        elif len(layouts) == 1 and array.shape == one.shape:
            named = {name: array}
            known[name] = Labels.of(data, "data") if labels is None else known[name]
        else:
            raise InputError(
                f"data in the shape {shape} that forward returns, or one array for each layout",
                f"the shape {array.shape}",
                'pass layouts={"observed": ...}, flat indices that the data belong to, or NaN for '
                'what was not observed and missing="drop"; for several layouts, a mapping',
            )
    kept, dropped = dict(layouts), {}
    for name, values in named.items():
        if values.shape != layouts[name].shape:
            raise InputError(
                f"{len(layouts[name])} observed values for layout {name!r}",
                f"the shape {values.shape}",
                "list the values in the order of the indices of the layout",
            )
        absent = np.isnan(values) & (missing == "drop")
        bad = ~np.isfinite(values) & ~absent
        if bad.any() or absent.all():
            raise InputError(
                f"finite observations for layout {name!r}",
                f"{bad.sum()} not finite, the first at position {np.flatnonzero(bad)[0]}"
                if bad.any()
                else "none: all are missing",
                'pass missing="drop" to leave NaN out'
                if np.isnan(values).any() and missing == "raise"
                else "leave such sites out of the layout",
            )
        if absent.any():
            named[name], kept[name] = values[~absent], layouts[name][~absent]
            dropped[name] = int(absent.sum())
    return Readings(named, kept, dropped, known)
