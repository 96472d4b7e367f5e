"""What is observed and with what noise: layouts and whitening.

Noise is Gaussian with a known covariance ``Sigma`` over the entries of the forward model's
output. A layout takes its part of it, ``Sigma_L = L L^T``. In whitened coordinates,
``L^{-1} v``, every layout has standard normal noise, and a misfit is a plain sum of squares.

The checked input of one call: parameters, centre, forward models and layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from twoaxis.errors import InputError, refuse_masked
from twoaxis.forward import ForwardModel
from twoaxis.parameters import Center, Parameter, Parameters

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

# The name of the summary's row over all layouts; no layout may have it.
ALL_LAYOUTS = "all layouts"
# Relative asymmetry above which a covariance was surely meant to be something else.
SYMMETRY_TOLERANCE = 1e-8
# Whitened numbers beyond this, or below its inverse, are refused: squares and products of several
# would leave the range of float64.
LARGEST_WHITE = 1e60


@dataclass(frozen=True)
class Whitener:
    """``L^{-1}``, with ``Sigma_L = L L^T`` the noise covariance of one layout.

    Attributes
    ----------
    factor : array, shape (n,) or (n, n)
        Standard deviations of independent noise, or a lower Cholesky factor.
    """

    factor: FloatArray

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise at each site, shape (n,)."""
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


@dataclass(frozen=True)
class Design:
    """One layout, ready to be fitted.

    Attributes
    ----------
    name : str
    sites : array of int, shape (n,)
        Flat indices into the forward model's output.
    columns : array of int, shape (n,)
        Where these sites stand among the entries that the forward model keeps.
    white : Whitener
    base : array, shape (n,)
        Whitened noise-free observations at the centre. Data are handled as whitened
        deviations from it, so that without noise they are exactly zero.
    """

    name: str
    sites: IndexArray
    columns: IndexArray
    white: Whitener
    base: FloatArray

    def row(self, values: FloatArray) -> FloatArray:
        """Whitened deviations (n,) of observed values from the centre."""
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

    def deviations(self, predictions: FloatArray) -> FloatArray:
        """Whitened deviations from the centre of predictions (..., entries), as (..., n)."""
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
        mend = (
            f"turn the mask into indices with numpy.flatnonzero(layouts[{name!r}])"
            if array.dtype.kind == "b"
            else "pass a non-empty, one-dimensional list of whole numbers"
        )
        raise InputError(
            f"layout {name!r} as flat indices into what forward returns",
            f"an array of {array.dtype} with shape {array.shape}",
            mend,
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


def real_array(values: ArrayLike, name: str) -> FloatArray:
    """Return real numbers as a float array, or say what came instead."""
    refuse_masked(name, values)
    try:
        array = np.asarray(values)
        kind = f"an array of {array.dtype}"
    except ValueError:
        array, kind = np.asarray(None), "lists of unequal length"
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} as real numbers", kind, f"pass {name} as an array of floats")
    return array.astype(float)


@dataclass(frozen=True)
class Noise:
    """Checked noise over all entries: standard deviations, or a covariance.

    Attributes
    ----------
    array : array, shape (N,) or (N, N)
    """

    array: FloatArray

    def whitener(self, sites: IndexArray, name: str) -> Whitener:
        """Return the whitener of the layout with these sites."""
        if self.array.ndim == 1:
            return Whitener(self.array[sites])
        try:
            return Whitener(cholesky(self.array[np.ix_(sites, sites)], lower=True))
        except LinAlgError:
            smallest = np.linalg.eigvalsh(self.array[np.ix_(sites, sites)])[0]
            raise InputError(
                "a positive definite noise covariance",
                f"a smallest eigenvalue of {smallest:.3g} on layout {name!r}",
                "correct the covariance, or add a small variance to its diagonal",
            ) from None


def checked_noise(noise: ArrayLike, shape: tuple[int, ...]) -> Noise:
    """Read noise as one standard deviation, one an entry, or a covariance over entries."""
    size = int(np.prod(shape))
    array = real_array(noise, "noise")
    if not np.isfinite(array).all():
        raise InputError("finite noise", "values that are not finite", "pass finite numbers")
    if array.ndim == 0 or array.shape == shape or array.shape == (size,):
        deviations = np.broadcast_to(array, shape).ravel() if array.ndim == 0 else array.ravel()
        if (deviations <= 0).any():
            raise InputError(
                "noise as positive standard deviations",
                f"{deviations.min():g}",
                "pass values above zero; leave noise out and give data to have it estimated",
            )
        return Noise(deviations)
    if array.shape == (size, size):
        asymmetry = np.abs(array - array.T).max()
        if asymmetry > SYMMETRY_TOLERANCE * np.abs(array).max():
            raise InputError(
                "a symmetric noise covariance",
                f"entries that differ from their mirror image by up to {asymmetry:.3g}",
                "pass a covariance matrix, for instance (C + C.T) / 2",
            )
        return Noise(array)
    raise InputError(
        f"noise as one number, one for each of the {size} entries that forward returns "
        f"(shape {shape}), or a {size} by {size} covariance",
        f"the shape {array.shape}",
        "index noise like the whole output of forward; each layout takes its own part",
    )


@dataclass(frozen=True)
class Setup:
    """The checked input of one call."""

    parameters: dict[str, Parameter]
    center: Center
    model: ForwardModel
    fit_model: ForwardModel
    layouts: dict[str, NDArray[np.intp]]

    @property
    def q(self) -> FloatArray:
        """Coordinates of the centre, shape (d,)."""
        return self._coordinates(self.center.values)

    @property
    def start(self) -> FloatArray:
        """Where the Gauss–Newton step starts: the delivered value, or else the centre."""
        delivered = {name: p.delivered for name, p in self.parameters.items()}
        known = {name: value for name, value in delivered.items() if value is not None}
        return self._coordinates({**self.center.values, **known})

    @property
    def units(self) -> FloatArray:
        """The step in each coordinate that stands for 100 percent, shape (d,)."""
        return np.array([p.unit(self.center.values[n]) for n, p in self.parameters.items()])

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper coordinate bounds, each of shape (d,)."""
        return Parameters(self.parameters).coordinate_bounds

    @property
    def unit_noise(self) -> Noise:
        """Independent noise of one, for fits that come before the noise is known."""
        return Noise(np.ones(self.model.size))

    def _coordinates(self, values: Mapping[str, float]) -> FloatArray:
        return np.array([float(p.to_coordinate(values[n])) for n, p in self.parameters.items()])

    def designs(self, noise: Noise) -> list[Design]:
        """Return the layouts with their whiteners."""
        entries = self.model.entries
        designs = []
        for name, sites in self.layouts.items():
            columns = np.searchsorted(entries, sites)
            white = noise.whitener(sites, name)
            base = white(self.model.center_values[sites])
            designs.append(Design(name, sites, columns, white, base))
        return designs


def prepare(
    forward: Callable[..., Any],
    fit_forward: Callable[..., Any] | None,
    parameters: Mapping[str, Parameter],
    layouts: Any,
    at: Any,
    vectorized: bool,
) -> Setup:
    """Check the input and try the forward models at the centre."""
    checked = Parameters(parameters)
    center = Parameters(checked).center(at)
    model = ForwardModel(forward, checked, center.values, vectorized=vectorized)
    sites = checked_layouts(layouts, model.size)
    entries = np.unique(np.concatenate(list(sites.values())))
    model.observe(entries)
    if fit_forward is None:
        return Setup(checked, center, model, model, sites)
    other = ForwardModel(
        fit_forward, checked, center.values, vectorized=vectorized, name="fit_forward"
    )
    if other.shape != model.shape:
        raise InputError(
            f"fit_forward to return the shape {model.shape} that forward returns",
            f"the shape {other.shape}",
            "interpolate its predictions to the entries of forward",
        )
    other.observe(entries)
    return Setup(checked, center, model, other, sites)


def checked_positions(coordinates: ArrayLike | None, shape: tuple[int, ...]) -> FloatArray:
    """Where the entries of the output lie, shape (N, k)."""
    size = int(np.prod(shape))
    if coordinates is None:
        return np.column_stack(np.unravel_index(np.arange(size), shape or (1,))).astype(float)
    positions = real_array(coordinates, "coordinates")
    if positions.ndim != 2 or len(positions) != size or not np.isfinite(positions).all():
        raise InputError(
            f"coordinates as finite numbers of shape ({size}, k), a row for each entry",
            f"the shape {positions.shape}",
            "flatten the grid like forward's output, one column a coordinate",
        )
    return positions
