r"""What the observations determine of an unknown function: where, how well, at which length scale.

With the Fisher information :math:`I` about the coordinates :math:`q_j` of the node values, other
parameters left free (their Schur complement taken), the function
:math:`k(x) = \sum_j k_j \varphi_j(x)` has, to first order, the standard error

.. math:: s(x)^2 = g(x)^\top I^{-1} g(x), \qquad
          g_j(x) = \frac{\partial \log k(x)}{\partial q_j} = \frac{k_j\,\varphi_j(x)}{k(x)}

in log coordinates, :math:`g_j(x) = \varphi_j(x)` in linear ones. The band at level
:math:`1 - \alpha` is :math:`k(x)\,e^{\pm z s(x)}`, or :math:`k(x) \pm z s(x)`. Beside it stand the
quantiles of the functions that were fitted to the replicas. Where one standard error leaves the
parameter bounds, the data say less about :math:`k(x)` than the bounds do: the function is *not
determined* there.

At which length scale is a question about neighbors. With the bounds as prior, each node value
uniform between them and independent, :math:`P = \operatorname{diag}(12 / w_j^2)` for bounds of
width :math:`w_j` in the coordinate, the resolution matrix

.. math:: R = (I + P)^{-1} I

says how an estimate averages the truth: row j is the averaging kernel of node j,
:math:`a_j(x) = \sum_i R_{ji} \varphi_i(x)`. The diagonal, 0 to 1, is the share of each node value
that comes from the data; the trace is the number of node values that the data determine. The
*length scale* at node j is the full width at half maximum of :math:`a_j`, extended to hold the
node: no finer detail can be told there. A node that is determined perfectly has the width of its
own hat. It is infinite where the data determine less than 1% of the node value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.io import Layout, Variable
from twoaxis.resolution.fisher import NULL_COMPONENT, NULL_SHARE
from twoaxis.result import PLACES, FunctionResult, places_along, require
from twoaxis.text import number, percent, visible
from twoaxis.unknown_function import Basis, axes_of, directions_of

if TYPE_CHECKING:
    from twoaxis.resolution.result import Resolution

FloatArray = NDArray[np.float64]

# Below this share from the data, a node value has no length scale.
LEAST_SHARE = 0.01
# Stored directions may deviate from eigenvectors by this share of the largest eigenvalue.
ROUNDING = 1e-8

_N, _X, _D = ("node",), ("place",), ("direction",)
_UNIT = "unit of the function"
LAYOUT: Layout = {
    **PLACES,
    "node": Variable(_N, "float", "place of the node", finite=True),
    "other_node": Variable(("other_node",), "float", "place of the node"),
    "lower_bound": Variable(_N, "float", "lower bound of the node value", _UNIT, finite=True),
    "upper_bound": Variable(_N, "float", "upper bound of the node value", _UNIT, finite=True),
    "center_value": Variable(_N, "float", "node value at the center", _UNIT, finite=True),
    "information": Variable(
        ("node", "other_node"), "float", "Fisher information, other parameters free", finite=True
    ),
    "replica_value": Variable(
        ("replica", "node"), "float", "node values fitted to the replicas", _UNIT, finite=True
    ),
    "truth_value": Variable(_N, "float", "true node value", _UNIT, required=False),
    "delivered_value": Variable(_N, "float", "delivered node value", _UNIT, required=False),
    "matched_value": Variable(_N, "float", "node value fitted to the data", _UNIT, required=False),
    "direction_vector": Variable(
        ("direction", "node"), "float", "eigenvector of the information, least resolved first"
    ),
    "place": Variable(_X, "float", "argument of the function"),
    "center": Variable(_X, "float", "function at the center", _UNIT),
    "truth": Variable(_X, "float", "true function", _UNIT, required=False),
    "delivered": Variable(_X, "float", "delivered function", _UNIT, required=False),
    "matched": Variable(_X, "float", "function fitted to the data", _UNIT, required=False),
    "standard_error": Variable(_X, "float", "standard error of the coordinate of the function"),
    "lower": Variable(_X, "float", "lower end of the Fisher band around the center", _UNIT),
    "upper": Variable(_X, "float", "upper end of the Fisher band around the center", _UNIT),
    "replica_lower": Variable(_X, "float", "lower quantile of the fits to replicas", _UNIT),
    "replica_upper": Variable(_X, "float", "upper quantile of the fits to replicas", _UNIT),
    "determined": Variable(_X, "bool", "one standard error stays within the bounds"),
    "resolution_matrix": Variable(
        ("node", "other_node"), "float", "averaging kernels in rows, (I + P)^-1 I"
    ),
    "determined_share": Variable(_N, "float", "share of the node value that comes from the data"),
    "length_scale": Variable(_N, "float", "full width at half maximum of the averaging kernel"),
    "length_scale_second": Variable(
        _N, "float", "full width at half maximum along the second variable", required=False
    ),
    "direction_sd": Variable(_D, "float", "standard error along the direction"),
    "direction_curve": Variable(("direction", "place"), "float", "direction as a function"),
}


@final
class FunctionResolution(FunctionResult):
    """How well the observations of one layout determine an unknown function.

    Made by `Resolution.function`.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 40)
    >>> k = ta.UnknownFunction(nodes=3, domain=(0, 1), bounds=(0.1, 10.0), delivered=[1, 2, 4])
    >>> found = ta.resolve(lambda k: k(x), {"k": k}, noise=0.05, replicas=5, progress=False)
    >>> band = found.function("k")
    >>> table = band.summary()[["center", "lower", "upper", "length_scale"]].round(2)
    >>> print(table.to_string(index_names=False))
         center  lower  upper  length_scale
    0.0     1.0   0.96   1.04          0.25
    0.5     2.0   1.97   2.03          0.50
    1.0     4.0   3.96   4.04          0.25
    >>> round(band.degrees_of_freedom, 1), band.determined_places
    (3.0, [(0.0, 1.0)])
    """

    schema = "function-resolution"
    layouts: ClassVar = {"/": LAYOUT}
    attributes: ClassVar = {
        "/": ("function", "argument", "basis", "coordinate", "layout", "level", "centered_on")
    }

    def derived(self) -> dict[str, Any]:
        """Return curves, bands and kernels, computed from the node values and the information."""
        data, basis = self.data, self.basis
        places = basis.grid()
        matrix = basis.matrix(places)
        at_nodes, information = data["center_value"].values, data["information"].values
        center = matrix @ at_nodes
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = matrix * at_nodes / center[:, None] if self.logarithmic else matrix
        error = standard_error(information, slope)
        lower, upper = self.band(center, error)
        tail = (1 - float(data.attrs["level"])) / 2
        fitted = data["replica_value"].values @ matrix.T
        replica_lower, replica_upper = np.quantile(fitted, [tail, 1 - tail], axis=0)
        low, high = (self._coordinate(data[f"{end}_bound"].values) for end in ("lower", "upper"))
        here = self._coordinate(center)
        room = np.minimum(here - low.min(), high.max() - here)
        kernels = resolution_matrix(information, high - low)
        vectors = data["direction_vector"].values
        precision = np.einsum("kj,ji,ki->k", vectors, information, vectors)
        null = precision <= NULL_SHARE * precision.max()
        with np.errstate(divide="ignore"):
            spread = np.where(null, np.inf, 1 / np.sqrt(np.where(null, 1.0, precision)))
        known = {
            kind: matrix @ data[f"{kind}_value"].values
            for kind in ("truth", "delivered", "matched")
            if f"{kind}_value" in data
        }
        return {
            **known,
            "other_node": data["node"].values,
            **places_along("place", places),
            "center": center,
            "standard_error": error,
            "lower": lower,
            "upper": upper,
            "replica_lower": replica_lower,
            "replica_upper": replica_upper,
            "determined": error <= room,
            "resolution_matrix": kernels,
            "determined_share": np.diag(kernels),
            **places_along("length_scale", length_scales(kernels, basis)),
            "direction_sd": spread,
            "direction_curve": vectors @ matrix.T,
        }

    def _coordinate(self, values: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(values) if self.logarithmic else values

    def band(self, values: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of a band around a function with this standard error."""
        from scipy.special import ndtri

        reach = float(ndtri((1 + float(self.data.attrs["level"])) / 2)) * error
        with np.errstate(over="ignore", invalid="ignore"):
            if self.logarithmic:
                return values * np.exp(-reach), values * np.exp(reach)
            return values - reach, values + reach

    def check(self) -> None:
        """Raise `InputError` if values contradict each other."""
        data = self.data
        matrix, vectors = data["information"].values, data["direction_vector"].values
        along = vectors @ matrix @ vectors.T
        size = max(float(np.abs(matrix).max()), np.finfo(float).tiny)
        off = along - np.diag(np.diag(along))
        require(
            {
                "a symmetric information": np.abs(matrix - matrix.T).max() <= ROUNDING * size,
                "directions that are its eigenvectors": np.abs(off).max() <= ROUNDING * size
                and np.allclose(vectors @ vectors.T, np.eye(len(matrix)), atol=ROUNDING)
                and (np.diff(np.diag(along)) >= -ROUNDING * size).all(),
                "nodes in ascending order": axes_of(self.nodes) is not None,
            }
        )
        super().check()

    @property
    def degrees_of_freedom(self) -> float:
        """How many node values the data determine: the trace of the resolution matrix."""
        return float(self.data["determined_share"].sum())

    @property
    def determined_places(self) -> list[tuple[float, float]]:
        """Intervals of the argument in which the data determine a function of one variable."""
        if len(self.basis.axes) > 1:
            raise InputError(
                "intervals of a function of one variable",
                f"{self.name}, a function of two",
                'use data["determined"], which is True at places that the data determine',
            )
        places, holds = self.data["place"].values, self.data["determined"].values
        edges = np.flatnonzero(np.diff(np.r_[False, holds, False].astype(int)))
        return [
            (float(places[a]), float(places[b - 1]))
            for a, b in zip(edges[::2], edges[1::2], strict=True)
        ]

    @property
    def band_percent(self) -> xr.DataArray:
        """Half the width of the band relative to the center, in percent, over the places."""
        data = self.data
        width = 50 * (data["upper"] - data["lower"]) / abs(data["center"])
        described = {"long_name": "half width of the band, relative", "units": "%"}
        return width.assign_attrs(described).rename("band_percent")

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each node."""
        data = self.data
        at = self.basis.rows()
        table = {
            "center": data["center_value"].values,
            "lower": data["lower"].values[at],
            "upper": data["upper"].values[at],
            "replica_lower": data["replica_lower"].values[at],
            "replica_upper": data["replica_upper"].values[at],
            "determined": data["determined"].values[at],
            "determined_share": data["determined_share"].values,
            **{name: data[name].values for name in self._along("length_scale")},
        }
        return pd.DataFrame(table, index=self.node_index())

    def __repr__(self) -> str:
        table = self.summary().to_string(float_format=lambda v: f"{v:.4g}")
        return f"{self.headline()}\n{table}"

    def headline(self) -> str:
        """Return in one sentence what the data determine, and where they do it best."""
        data, argument = self.data, visible(str(self.data.attrs["argument"]))
        name, width = visible(self.name), self.band_percent.values
        best, worst = (self.places[int(arg(width))] for arg in (np.nanargmin, np.nanargmax))
        ends = [percent(float(end(width))) for end in (np.nanmin, np.nanmax)]
        share = float(data["determined"].values.mean())
        where = "nowhere better than the bounds"
        if share and len(best) == 1:
            intervals = (
                f"{number(a, '.3g')} to {number(b, '.3g')}" for a, b in self.determined_places
            )
            where = f"for {argument} from {' and '.join(intervals)}"
        elif share:
            where = f"over {percent(100 * share)} of the domain"
        return (
            f"{name}({argument}): the data determine {self.degrees_of_freedom:.1f} of "
            f"{len(data['node'])} node values, {where}; the "
            f"{100 * float(data.attrs['level']):g}% band is narrowest at "
            f"{self.place_words(best)} (±{ends[0]}) and widest at {self.place_words(worst)} "
            f"(±{ends[1]})"
        )


def about_function(matrix: FloatArray, columns: NDArray[np.intp]) -> FloatArray:
    r"""Return what an information or strength says about some parameters, the others left free.

    The Schur complement :math:`S = M_{ff} - M_{fo} M_{oo}^\dagger M_{of}`, whose inverse is the
    block of the inverse of M.

    Parameters
    ----------
    matrix : array, shape (d, d)
        Symmetric, positive semidefinite.
    columns : array of int, shape (n,)
        The parameters in question.
    """
    others = np.setdiff1d(np.arange(len(matrix)), columns)
    own = matrix[np.ix_(columns, columns)]
    if not others.size:
        return np.asarray(own)
    cross, rest = matrix[np.ix_(columns, others)], matrix[np.ix_(others, others)]
    size = np.sqrt(np.maximum(np.diag(rest), 0.0))
    size = np.where(size > 0, size, 1.0)
    inverse = np.linalg.pinv(rest / np.outer(size, size), rcond=1e-12, hermitian=True)
    scaled = cross / size
    found = own - scaled @ inverse @ scaled.T
    return np.asarray((found + found.T) / 2)


def standard_error(information: FloatArray, slope: FloatArray) -> FloatArray:
    """Return ``sqrt(g^T I^-1 g)`` for rows g of `slope`; infinite along a null direction.

    Parameters
    ----------
    information : array, shape (n, n)
    slope : array, shape (N, n)
    """
    values, vectors = np.linalg.eigh(information)
    null = values <= NULL_SHARE * max(float(values[-1]), 0.0)
    along = slope @ vectors
    variance = (along[:, ~null] ** 2 / values[~null]).sum(axis=1)
    unseen = (np.abs(along[:, null]) > NULL_COMPONENT).any(axis=1)
    return np.where(unseen, np.inf, np.sqrt(variance))


def resolution_matrix(information: FloatArray, width: FloatArray) -> FloatArray:
    """Return ``(I + P)^-1 I`` with ``P = diag(12 / width^2)``, shape (n, n).

    Parameters
    ----------
    information : array, shape (n, n)
    width : array, shape (n,)
        Distance between the bounds of each coordinate.
    """
    return np.asarray(np.linalg.solve(information + np.diag(12 / width**2), information))


def length_scales(kernels: FloatArray, basis: Basis) -> FloatArray:
    """Return the full width at half maximum of each averaging kernel, shape (n, variables).

    Measured over the places around its peak, along the node's own line, and extended to hold its
    own node.
    """
    points = basis.points
    found = np.full(points.shape, np.inf)
    for along, places in enumerate(basis.mesh(2001)):
        for j in np.flatnonzero(np.diag(kernels) >= LEAST_SHARE):
            line = np.tile(points[j], (len(places), 1))
            line[:, along] = places
            curve = np.abs(basis.matrix(line) @ kernels[j])
            peak = int(curve.argmax())
            half = curve[peak] / 2
            left = _crossing(places[: peak + 1][::-1], curve[: peak + 1][::-1], half)
            right = _crossing(places[peak:], curve[peak:], half)
            found[j, along] = max(right, points[j, along]) - min(left, points[j, along])
    return found


def _crossing(places: FloatArray, curve: FloatArray, level: float) -> float:
    """Return where a curve that starts above `level` first falls to it, or else its end."""
    below = np.flatnonzero(curve < level)
    if not below.size:
        return float(places[-1])
    k = int(below[0])
    share = (curve[k - 1] - level) / (curve[k - 1] - curve[k])
    return float(places[k - 1] + share * (places[k] - places[k - 1]))


def resolve_function(
    found: Resolution, name: str | None = None, layout: str | None = None
) -> FunctionResolution:
    """Return what one layout of a resolution determines of an unknown function."""
    known = found.parameters
    group = known.function(name)
    data = found.select(group.members[0], layout)  # checks the layout
    if data.sizes.get("layout", 1) > 1:
        raise InputError(
            f"one of the layouts {', '.join(found.layout_names)}",
            "none",
            f'name one, as in layout="{found.layout_names[0]}"',
        )
    members = list(group.members)
    chosen = found.data.sel(layout=str(data["layout"].values[0]))
    own = chosen.sel(parameter=members)
    information = about_function(chosen["fisher_information"].values, group.columns)
    values: dict[str, Any] = {
        **places_along("node", group.points),
        "lower_bound": own["lower_bound"].values,
        "upper_bound": own["upper_bound"].values,
        "center_value": own["center"].values,
        "information": information,
        "replica_value": own["estimate"].values.T,
        "direction_vector": directions_of(information),
    }
    for kind, variable in (
        ("truth", "truth"),
        ("delivered", "delivered"),
        ("matched", "data_estimate"),
    ):
        if variable in own and np.isfinite(own[variable].values).all():
            values[f"{kind}_value"] = own[variable].values
    about = {
        "function": group.name,
        "argument": group.argument,
        "basis": group.basis.kind,
        "coordinate": known[members[0]].coordinate,
        "layout": str(chosen["layout"].values),
        "level": float(found.data.attrs["level"]),
        "centered_on": found.centered_on,
    }
    return FunctionResolution.from_values(values, about)
