"""The checked input of one call: parameters, centre, forward models and layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.parameters import (
    Center,
    Parameter,
    center_of,
    checked_parameters,
    coordinate_box,
)
from twoaxis.resolution.design import Design, Noise, checked_layouts, real_array

FloatArray = NDArray[np.float64]


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
        return coordinate_box(self.parameters)

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
    checked = checked_parameters(parameters)
    center = center_of(checked, at)
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
