r"""What a user measured: values, where they were taken, and their noise; checked once, here.

Noise is Gaussian, of the values or of their logarithms. With its covariance
:math:`\Sigma = L L^\top` over the readings that are not missing, the misfit of predictions
:math:`g` to readings :math:`y` is the sum of squares of :math:`L^{-1} (y - g)`, whose entries are
independent and of size one where the predictions are right. `Observations.whiten` is
:math:`L^{-1}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from twoaxis.arrays import is_integer, refuse_columns
from twoaxis.errors import InputError
from twoaxis.labels import Labels, aligned, in_order

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

# A covariance may be asymmetric by rounding, up to this share of its largest entry.
SYMMETRY_RTOL = 1e-8


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Observations:
    r"""Measured values with their noise, and where they were taken.

    Parameters
    ----------
    values : array, shape (n,) or (n, m)
        What was measured: one value, or one of each of m outputs, at each of n places. Further
        axes are outputs as well. NaN is a missing reading: it is left out and counted.
    at : array, shape (n, d) or (n,), optional
        Coordinates of the places. Without them the values are in the order of what the forward
        model, or the trained model at its observed points, returns.
    noise : float or array, optional
        The standard deviation of the noise: one number; an array in the shape of the values; one
        for each column, (m,), or for each row, (n,). Or its covariance over ``values.ravel()``,
        (N, N); rows and columns of missing readings are left out. By default the size of the noise
        is not known and estimated, one size for each group of `sensors`.
    of : int, sequence of int or callable, optional
        What of the model's output was observed: one of its outputs, one for each column, or
        ``of(model, points)``, which returns the predictions themselves (a sum of states, an
        average, a flux). By default all outputs in their order, or the only one.
    transform : "log", optional
        Noise of the logarithms: values are positive, and `noise` is the standard deviation of
        their logarithms, 0.1 for about 10% of the value.
    sensors : array, optional
        Labels of readings whose noise has the same unknown size, in the shape of the values, one
        for each column or one for each row. By default each column has a size of its own.
    name : str, optional
        Used in messages and tables.

    Attributes
    ----------
    values, at, noise, sensors : array
        As given, in one order, and read-only. `at` has the shape (n, d), `noise` the shape of the
        values or (N, N), `sensors` that of the values.

    Notes
    -----
    Labels of pandas and xarray are matched: noise, places and sensors are brought into the order
    of the values by them. Labels that do not match are refused.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> data = ta.Observations([1.0, np.nan, 0.4], at=[0.0, 1.0, 2.0], noise=0.1)
    >>> data
    Observations(2 readings at 2 places, 1 missing, noise 0.1)
    >>> data.readings, data.sites.ravel()
    (array([1. , 0.4]), array([0., 2.]))
    >>> data.whiten(data.readings - data.take([0.9, 0.7, 0.5])).round(6)
    array([ 1., -1.])
    """

    values: FloatArray
    at: FloatArray | None
    noise: FloatArray | None
    of: int | tuple[int, ...] | Callable[[Any, Any], Any] | None
    transform: Literal["log"] | None
    sensors: NDArray[Any] | None
    name: str | None
    labels: Labels | None = field(init=False)

    def __init__(
        self,
        values: ArrayLike,
        at: ArrayLike | None = None,
        noise: ArrayLike | None = None,
        *,
        of: int | Sequence[int] | Callable[[Any, Any], Any] | None = None,
        transform: Literal["log"] | None = None,
        sensors: Any = None,
        name: str | None = None,
    ) -> None:
        labels = Labels.of(values, "the observations")
        array = aligned("values", values)
        checked: dict[str, Any] = {
            "values": _checked_values(array, transform),
            "labels": labels,
            "of": _checked_output(of, array.shape),
            "transform": transform,
            "name": name,
        }
        kept = ~np.isnan(array)
        checked["at"] = None if at is None else _checked_places(at, kept, labels)
        checked["noise"] = None
        if noise is not None:
            found = noise_over(noise, array.shape, labels, "values", kept=kept, by_axis=True)
            checked["noise"] = found.reshape(array.shape) if found.ndim == 1 else found
        checked["sensors"] = None if sensors is None else _checked_sensors(sensors, kept, labels)
        for key, value in checked.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, key, value)
        if self.correlated:
            _ = self._factor  # refuses a covariance that is not positive definite

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        named = "" if self.name is None else f"{self.name!r}, "
        count = f"{self.count} readings"
        count += f" at {len(self.rows)} places" if self.at is not None else ""
        return f"Observations({named}{count}, {self.missing} missing, {self._noise_words})"

    @property
    def _noise_words(self) -> str:
        kind = " of logarithms" if self.transform == "log" else ""
        if self.noise is None:
            sizes = f" in {self.group_count} groups" if self.group_count > 1 else ""
            return f"noise{kind} to be estimated{sizes}"
        if self.correlated:
            return f"correlated noise{kind}"
        deviations = self.standard_deviations()
        low, high = float(deviations.min()), float(deviations.max())
        return f"noise {low:.4g}" + (f" to {high:.4g}" if high > low else "") + kind

    # What was measured.

    @cached_property
    def kept(self) -> BoolArray:
        """Which of the values are not missing, in their shape."""
        return ~np.isnan(self.values)

    @cached_property
    def count(self) -> int:
        """How many readings there are, without missing ones."""
        return int(self.kept.sum())

    @property
    def missing(self) -> int:
        """How many values are missing."""
        return self.values.size - self.count

    @cached_property
    def readings(self) -> FloatArray:
        """The values that are not missing, shape (count,); their logarithms for "log"."""
        return self.scaled_values[self.kept]

    @property
    def scaled_values(self) -> FloatArray:
        """All values on the scale of their noise: logarithms for "log", NaN where missing."""
        return np.log(self.values) if self.transform == "log" else self.values

    @property
    def columns(self) -> int:
        """How many outputs are observed at each place."""
        return int(np.prod(self.values.shape[1:]))

    @cached_property
    def _entries(self) -> tuple[IndexArray, IndexArray]:
        """Row and column of each reading among the values."""
        rows, columns = np.nonzero(self.kept.reshape(-1, self.columns))
        return rows, columns

    @cached_property
    def rows(self) -> IndexArray:
        """Rows of the values with at least one reading: those of `sites`."""
        return np.unique(self._entries[0])

    @cached_property
    def sites(self) -> FloatArray:
        """Places with at least one reading, shape (rows, d)."""
        if self.at is None:
            raise InputError(
                "observations that say where they were taken",
                "values alone",
                "pass Observations(values, at=...), the coordinates of each row",
            )
        return np.asarray(self.at[self.rows])

    @property
    def as_predicted(self) -> bool:
        """Whether predictions of the model are those of the values, without further ado."""
        return self.transform is None and (self.of is None or callable(self.of))

    @cached_property
    def row(self) -> IndexArray:
        """For each reading, its row in `sites`, shape (count,)."""
        return np.searchsorted(self.rows, self._entries[0])

    @cached_property
    def column(self) -> IndexArray:
        """For each reading, the output of the model that it is of, shape (count,)."""
        column = self._entries[1]
        if self.of is None or callable(self.of):
            return column
        return np.atleast_1d(np.asarray(self.of, dtype=np.intp))[column]

    # Its noise.

    @property
    def noise_known(self) -> bool:
        """Whether the size of the noise was given."""
        return self.noise is not None

    @property
    def correlated(self) -> bool:
        """Whether the noise was given as a covariance."""
        return self.noise is not None and self.noise.shape != self.values.shape

    @cached_property
    def _grouping(self) -> tuple[IndexArray, list[str]]:
        """Group of each reading, and the names of the groups."""
        if self.sensors is not None:
            labels: Any = self.sensors[self.kept]
        else:
            labels = np.zeros(self.count, dtype=int) if self.noise_known else self._entries[1]
        groups, names = pd.factorize(labels)
        return groups.astype(np.intp), [str(name) for name in names]

    @property
    def groups(self) -> IndexArray:
        """For each reading, its group of one unknown size of noise, shape (count,)."""
        return self._grouping[0]

    @property
    def group_names(self) -> list[str]:
        """Labels of the groups: those of the sensors, or numbers of columns."""
        return self._grouping[1]

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return len(self._grouping[1])

    @cached_property
    def _factor(self) -> FloatArray:
        """Standard deviations of known noise, (count,), or the factor of its covariance."""
        if self.noise is None:
            raise InputError(
                "the sizes of noise that was not given",
                "none",
                "pass levels=..., or Observations(values, noise=...)",
            )
        kept = np.flatnonzero(self.kept)
        if not self.correlated:
            return self.noise.ravel()[kept]
        return covariance_factor(self.noise[np.ix_(kept, kept)], "of the readings")

    def standard_deviations(self, levels: ArrayLike | None = None) -> FloatArray:
        """Return the standard deviation of each reading, shape (count,).

        Parameters
        ----------
        levels : array, shape (group_count,), or float, optional
            Sizes of noise that was not given; see `estimated_levels`. Left aside where it was.
        """
        return self.whitener(levels).deviations

    def whitener(self, levels: ArrayLike | None = None) -> Whitener:
        """Return ``L^{-1}`` as an operator on the last axis; for `levels` see above."""
        if self.noise is None and levels is not None:
            sizes = np.broadcast_to(np.asarray(levels, dtype=float), (self.group_count,))
            return Whitener(sizes[self.groups])
        return Whitener(self._factor)

    def whiten(self, rows: Any, levels: ArrayLike | None = None) -> Any:
        """Return ``L^{-1} rows``: in units of the noise, and uncorrelated.

        Parameters
        ----------
        rows : array or sparse array, shape (count, ...)
            Differences of readings and predictions, or derivatives, a row for each reading.
        levels : array, optional
            As in `standard_deviations`.

        Returns
        -------
        array or sparse array
            Sparse only where the noise is independent.
        """
        factor = self.whitener(levels).factor
        if factor.ndim == 2:
            dense = rows.toarray() if sparse.issparse(rows) else np.asarray(rows, dtype=float)
            flat = solve_triangular(factor, dense.reshape(len(factor), -1), lower=True)
            return flat.reshape(dense.shape)
        if sparse.issparse(rows):
            return rows.multiply(1 / factor[:, None]).tocsr()
        dense = np.asarray(rows, dtype=float)
        return dense / factor.reshape(-1, *[1] * (dense.ndim - 1))

    def estimated_levels(self, residuals: FloatArray, degrees_used: float) -> FloatArray:
        r"""Estimate the size of the noise in each group, shape (group_count,).

        With :math:`n_g` of the N readings in group g and p degrees of freedom used by the fit, of
        which each group takes its share,

        .. math:: s_g^2 = \frac{\sum_{i \in g} r_i^2}{n_g \, (1 - p / N)} .

        Parameters
        ----------
        residuals : array, shape (count,)
            Readings minus predictions.
        degrees_used : float
            Fitted parameters, and what else of a fit follows the data.
        """
        # One degree of freedom is always left, as in a fit that passes through all readings.
        left = max(self.count - degrees_used, 1.0) / self.count
        squares = np.bincount(self.groups, np.square(residuals), self.group_count)
        return np.asarray(np.sqrt(squares / (np.bincount(self.groups) * left)))

    # Predictions of a model.

    def selected(self, predicted: ArrayLike) -> FloatArray:
        """Return what `of` selects from predictions of all outputs, shape (rows, columns).

        Parameters
        ----------
        predicted : array, shape (rows,) or (rows, outputs)
            At every row of the values, or at `sites` alone. Predictions of a callable `of`, or of
            one output, are used as they are.
        """
        array = np.asarray(predicted, dtype=float)
        sizes = (len(self.values), len(self.rows))
        if array.ndim == 1 and self.columns > 1 and array.size in [n * self.columns for n in sizes]:
            array = array.reshape(-1, self.columns)
        if array.ndim == 0 or len(array) not in sizes:
            raise InputError(
                f"predictions for the {sizes[1]} places of the observations"
                + (f", or all {sizes[0]} rows of their values" if sizes[0] != sizes[1] else ""),
                f"the shape {array.shape}",
                "return one row for each place, in their order",
            )
        array = array.reshape(len(array), -1)
        outputs = array.shape[1]
        if self.of is None or callable(self.of) or (outputs == 1 and self.columns == 1):
            chosen = np.arange(outputs)
        else:
            chosen = np.atleast_1d(np.asarray(self.of, dtype=np.intp))
        if len(chosen) != self.columns or chosen.max() >= outputs:
            asked = "all" if self.of is None else f"of={self.of!r}"
            several = "0" if self.columns == 1 else str(tuple(range(self.columns)))
            raise InputError(
                f"predictions of the {self.columns} observed outputs ({asked})",
                f"{outputs} outputs",
                f"name what was observed, as in Observations(values, of={several})",
            )
        return array[:, chosen]

    def expected(self, predicted: ArrayLike) -> FloatArray:
        """Return predictions of all values, in their shape and on the scale of their noise.

        Parameters
        ----------
        predicted : array, shape (rows,) or (rows, outputs)
            As in `selected`; rows without readings are NaN where it leaves them out. For "log" the
            logarithm of what is negative is NaN, that of zero is -inf.
        """
        array = self.selected(predicted)
        if len(array) < len(self.values):
            full = np.full((len(self.values), self.columns), np.nan)
            full[self.rows] = array
            array = full
        array = array.reshape(self.values.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(array) if self.transform == "log" else array

    def take(self, predicted: ArrayLike) -> FloatArray:
        """Return predictions of the readings, shape (count,); their logarithms for "log".

        Parameters
        ----------
        predicted : array, shape (rows,) or (rows, outputs)
            As in `expected`.
        """
        return self.expected(predicted)[self.kept]

    def take_jacobian(self, predicted: ArrayLike, rows: Any) -> Any:
        """Return derivatives of `take` from those of the predictions, by the chain rule.

        Parameters
        ----------
        predicted : array
            As in `take`.
        rows : array or sparse array, shape (count, k)
            Derivatives of the prediction of each reading.
        """
        if self.transform is None:
            return rows
        scale = np.exp(-self.take(predicted))[:, None]
        return rows.multiply(scale).tocsr() if sparse.issparse(rows) else rows * scale

    # Other observations like these.

    def with_values(self, values: ArrayLike) -> Observations:
        """Return observations of the same kind with other values: a replica.

        Parameters
        ----------
        values : array
            In the shape of `values`, or one for each reading, in the units of `values`.
        """
        array = np.array(values, dtype=float)
        if array.shape not in (self.values.shape, (self.count,)):
            raise InputError(
                f"values of shape {self.values.shape}, or one for each of {self.count} readings",
                f"the shape {array.shape}",
                "pass values in the shape of the observations they replace",
            )
        full = np.full(self.values.shape, np.nan)
        full[self.kept] = array[self.kept] if array.shape == self.values.shape else array
        if np.isnan(full[self.kept]).any():
            raise InputError(
                "a value for each reading",
                f"{np.isnan(full[self.kept]).sum()} NaN",
                "pass numbers where the observations have readings",
            )
        _checked_values(full, self.transform).setflags(write=False)
        other = copy(self)  # with the factor of its covariance, which took long
        other.__dict__.pop("readings", None)
        object.__setattr__(other, "values", full)
        return other

    def with_noise(self, noise: ArrayLike) -> Observations:
        """Return the same observations with noise of known size, such as one that was estimated."""
        found = noise_over(
            noise, self.values.shape, self.labels, "values", kept=self.kept, by_axis=True
        )
        other = replace(self, noise=found)
        object.__setattr__(other, "labels", self.labels)
        return other

    def flattened(self) -> Observations:
        """Return the same observations, of one output, in the order of ``values.ravel()``."""
        at = None if self.at is None else np.repeat(self.at, self.columns, axis=0)
        noise = self.noise if self.noise is None or self.correlated else self.noise.ravel()
        sensors = np.full(self.values.size, self.group_names[0], dtype=object)
        sensors[self.kept.ravel()] = np.array(self.group_names, dtype=object)[self.groups]
        values = self.values.ravel()
        return replace(self, values=values, at=at, noise=noise, sensors=sensors, of=None)

    def in_order_of(self, labels: Labels | None) -> Observations:
        """Return the same observations in the order of labels, as far as both have some."""
        if labels is None or self.labels is None:
            return self
        place = np.arange(float(self.values.size)).reshape(self.values.shape)
        placed = in_order(place, self.labels, labels)
        order = placed.astype(np.intp).ravel()
        if np.array_equal(placed, place):
            return self

        def turned(array: Any) -> Any:
            return None if array is None else array.ravel()[order].reshape(placed.shape)

        noise = self.noise
        if self.correlated and noise is not None:
            noise = noise[np.ix_(order, order)]
        else:
            noise = turned(noise)
        at = None
        if self.at is not None:
            rows = order.reshape(placed.shape).reshape(len(placed), -1) // self.columns
            if (rows != rows[:, :1]).any():
                raise InputError(
                    "observations whose rows are places, as those of the labels",
                    "rows that are columns there",
                    "transpose the values of the observations, or pass them without labels",
                )
            at = self.at[rows[:, 0]]
        found = replace(
            self, values=turned(self.values), at=at, noise=noise, sensors=turned(self.sensors)
        )
        if placed.shape == labels.shape:
            object.__setattr__(found, "labels", labels)
        return found


@dataclass(frozen=True)
class Whitener:
    """``L^{-1}``, with ``Sigma = L L^T`` the noise covariance of some readings.

    Attributes
    ----------
    factor : array, shape (n,) or (n, n)
        Standard deviations of independent noise, or a lower Cholesky factor.
    """

    factor: FloatArray

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise of each reading, shape (n,)."""
        if self.factor.ndim == 1:
            return self.factor
        return np.asarray(np.sqrt(np.sum(self.factor**2, axis=1)))

    def color(self, white: FloatArray) -> FloatArray:
        """Undo the whitening of one vector: ``L w``."""
        return np.asarray(self.factor * white if self.factor.ndim == 1 else self.factor @ white)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Whiten the last axis of `values`."""
        if self.factor.ndim == 1:
            return values / self.factor
        rows = values.reshape(-1, values.shape[-1])
        solved: FloatArray = solve_triangular(self.factor, rows.T, lower=True).T
        return solved.reshape(values.shape)


def as_observations(
    data: Any, noise: ArrayLike | None = None, at: ArrayLike | None = None
) -> Observations:
    """Return observations as they are, and arrays with their noise and places as observations.

    The noise of an array that comes without it is of one size.
    """
    if not isinstance(data, Observations):
        several = noise is None and np.ndim(data) > 1
        sensors = np.zeros(np.shape(data), dtype=int) if several else None
        return Observations(data, at, noise, sensors=sensors)
    for name, given in (("noise", noise), ("at", at)):
        if given is not None:
            raise InputError(
                f"{name} in one place",
                f"{name}={given!r} besides Observations"[:80],
                f"leave {name}= out, and pass Observations(values, {name}=...)",
            )
    return data


def experiments_of(data: Any) -> dict[str, list[Observations]]:
    """Return observations by experiment.

    Parameters
    ----------
    data : Observations, list or mapping
        One, or a list of several kinds of readings of the same field: one experiment, called
        "data". A mapping from names to one or a list: separate experiments that share parameters.

    Examples
    --------
    >>> import twoaxis as ta
    >>> from twoaxis.observations import experiments_of
    >>> field, flux = ta.Observations([1.0, 2.0], noise=0.1), ta.Observations([0.3], noise=0.01)
    >>> found = experiments_of({"a": [field, flux], "b": field})
    >>> {name: len(kinds) for name, kinds in found.items()}
    {'a': 2, 'b': 1}
    """
    named = data if isinstance(data, Mapping) else {"data": data}
    found: dict[str, list[Observations]] = {}
    for name, kinds in named.items():
        several = isinstance(kinds, list | tuple) and any(
            isinstance(each, Observations) for each in kinds
        )
        found[str(name)] = [as_observations(each) for each in (kinds if several else [kinds])]
    if not found or len(found) < len(named):
        raise InputError(
            "experiments with names of their own",
            ", ".join(map(str, named)) or "an empty mapping",
            'pass {"first": Observations(...), "second": Observations(...)}',
        )
    return found


def noise_over(
    noise: ArrayLike,
    shape: tuple[int, ...],
    labels: Labels | None,
    entries: str,
    *,
    kept: BoolArray | None = None,
    by_axis: bool = False,
) -> FloatArray:
    """Read noise as standard deviations of all entries, shape (N,), or as their covariance.

    Parameters
    ----------
    noise : float or array
    shape : tuple of int
        Of the entries.
    labels : Labels or None
        Of the entries.
    entries : str
        What they are, for messages.
    kept : array of bool, optional
        Entries whose noise matters: others may have any. All by default.
    by_axis : bool
        Whether one for each row or for each column will do.
    """
    size = int(np.prod(shape))
    used = np.ones(size, dtype=bool) if kept is None else kept.ravel()
    rows, columns = _of_axes(labels)
    whole = None if labels is None else labels.squared()
    array = aligned("noise", noise, whole, labels, *((rows, columns) if by_axis else ()))
    if array.shape == (size, size) and array.shape != shape:
        part = array[np.ix_(used, used)]
        _check_finite_noise(part)
        asymmetry = np.abs(part - part.T).max()
        if asymmetry > SYMMETRY_RTOL * np.abs(part).max():
            raise InputError(
                "a symmetric noise covariance",
                f"entries that differ from their transpose by up to {asymmetry:.3g}",
                "pass a covariance matrix, for instance (C + C.T) / 2",
            )
        return array
    spread = _spread("noise", array, shape) if by_axis else None
    if array.shape == (size,) or array.ndim == 0:
        spread = np.broadcast_to(array, (size,)).reshape(shape)
    elif array.shape == shape:
        spread = array
    if spread is None:
        each = "one for each row or column, " if by_axis and len(shape) == 2 else ""
        raise InputError(
            f"noise as one number, one for each of the {size} {entries} (shape {shape}), {each}"
            f"or a {size} by {size} covariance",
            f"the shape {array.shape}",
            "index noise like the values"
            if by_axis
            else "index noise like the whole output of forward; each layout takes its own part",
        )
    deviations = np.array(spread).ravel()
    _check_finite_noise(deviations[used])
    if (deviations[used] <= 0).any():
        raise InputError(
            "noise as positive standard deviations",
            f"{deviations[used].min():g}",
            "pass values above zero; leave noise out and give data to have it estimated",
        )
    return deviations


def covariance_factor(covariance: FloatArray, where: str) -> FloatArray:
    """Return the lower Cholesky factor of a covariance, or say why there is none."""
    try:
        return np.asarray(cholesky(covariance, lower=True))
    except LinAlgError:
        smallest = np.linalg.eigvalsh(covariance)[0]
        raise InputError(
            "a positive definite noise covariance",
            f"a smallest eigenvalue of {smallest:.3g} {where}",
            "correct the covariance, or add a small variance to its diagonal",
        ) from None


def _check_finite_noise(array: FloatArray) -> None:
    if not np.isfinite(array).all():
        raise InputError("finite noise", "values that are not finite", "pass finite numbers")


def _of_axes(labels: Labels | None) -> tuple[Labels | None, Labels | None]:
    """Return the labels of rows and of columns alone."""
    if labels is None:
        return None, None
    rows, *columns = (
        Labels((size,), (name,), (index,), labels.source)
        for size, name, index in zip(labels.shape, labels.names, labels.indexes, strict=True)
    )
    return rows, columns[0] if len(columns) == 1 else None


def _spread(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return one entry for each row or each column as one for each value, or None."""
    if array.shape == shape:
        return array
    if len(shape) != 2 or array.shape not in (
        (shape[0],),
        (shape[1],),
        (shape[0], 1),
        (1, shape[1]),
    ):
        return None
    if array.ndim == 1 and shape[0] == shape[1] > 1:
        raise InputError(
            f"{name} that says whether it is by row or by column",
            f"{len(array)} for values of shape {shape}",
            f"pass {name}.reshape(-1, 1) for one each row, or {name}.reshape(1, -1) for columns",
        )
    by_row = array.reshape(-1, 1) if array.shape == (shape[0],) else array
    return np.array(np.broadcast_to(by_row, shape))


def _checked_values(array: FloatArray, transform: str | None) -> FloatArray:
    if array.ndim == 0 or array.size == 0:
        raise InputError(
            "values of shape (n,), or (n, m) for m outputs at each place",
            f"the shape {array.shape}",
            "pass what was measured as an array, [0.3] for a single reading",
        )
    if np.isinf(array).any() or np.isnan(array).all():
        raise InputError(
            "finite values, or NaN where a reading is missing",
            "NaN alone" if np.isnan(array).all() else f"{np.isinf(array).sum()} infinite values",
            "pass at least one reading" if np.isnan(array).all() else "replace them by NaN",
        )
    if transform not in (None, "log"):
        raise InputError('transform "log" or none', f"transform={transform!r}", "leave it out")
    if transform == "log" and (array <= 0).any():
        raise InputError(
            "positive values, whose logarithms have the noise",
            f"{(array <= 0).sum()} that are not, such as {np.nanmin(array):g}",
            "leave transform out, or set readings below the limit of detection to NaN",
        )
    return array


def _checked_output(of: Any, shape: tuple[int, ...]) -> Any:
    """Return which outputs were observed: an int, one int for each column, or a callable."""
    columns = int(np.prod(shape[1:]))
    if of is None or callable(of):
        return of
    several = isinstance(of, Sequence | np.ndarray) and not isinstance(of, str)
    chosen = list(of) if several else [of]
    if not all(is_integer(each) and each >= 0 for each in chosen) or len(chosen) != columns:
        example = "0" if columns == 1 else str(tuple(range(columns)))
        raise InputError(
            f"of as {'the number' if columns == 1 else f'the {columns} numbers'} of the observed "
            "output, counted from 0, or a function of(model, points)",
            f"of={of!r}",
            f"pass of={example}, for instance",
        )
    return tuple(map(int, chosen)) if several else int(of)


def _checked_places(at: ArrayLike, kept: BoolArray, labels: Labels | None) -> FloatArray:
    refuse_columns(at)
    array = aligned("at", at, _of_axes(labels)[0])
    array = array[:, None] if array.ndim == 1 else array
    rows = kept.reshape(len(kept), -1).any(axis=1)
    if array.ndim != 2 or len(array) != len(kept) or array.shape[1] == 0:
        raise InputError(
            f"at as coordinates of the {len(kept)} rows of the values, shape ({len(kept)}, d)",
            f"the shape {array.shape}",
            "pass a row for each of them: at=np.column_stack([x, t])",
        )
    broken = np.flatnonzero(rows & ~np.isfinite(array).all(axis=1))
    if broken.size:
        raise InputError(
            "finite coordinates of all readings",
            f"{broken.size} that are not, the first in row {broken[0]}",
            "set the values there to NaN, or leave them out",
        )
    return array


def _checked_sensors(sensors: Any, kept: BoolArray, labels: Labels | None) -> NDArray[Any]:
    names = np.asarray(sensors)
    codes, known = pd.factorize(names.ravel())
    array: FloatArray = codes.reshape(names.shape).astype(float)
    own = Labels.of(sensors, "sensors")
    if own is not None:
        array = in_order(array, own, labels, *_of_axes(labels))
    spread = _spread("sensors", array, kept.shape)
    if spread is None or (spread[kept] < 0).any():
        raise InputError(
            f"sensors as labels in the shape of the values, {kept.shape}, or one for each row or "
            "column",
            f"the shape {names.shape}" if spread is None else "readings without one",
            "give each reading the label of its sensor",
        )
    return np.asarray(np.asarray(known, dtype=object)[np.maximum(spread, 0).astype(np.intp)])
