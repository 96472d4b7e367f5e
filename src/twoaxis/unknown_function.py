r"""A coefficient that is a function of one variable, :math:`k(x)` or :math:`k(u)`, as an unknown.

The function is written on a basis with one value per node,

.. math:: k(x) = \sum_j k_j\,\varphi_j(x), \qquad \varphi_j(x_i) = \delta_{ij},

so that the coefficients are the values of the function at the nodes. Inside the library each node
is one `Parameter`, named ``k[0.25]`` after its place; `Parameters` remembers which of them
belong together, and hands the user's forward model and residual one `Function` that can be called.
A residual that is affine in :math:`k(x)` is therefore affine in the parameters.

Two bases are known: "hat", the piecewise linear interpolant, which is positive where the node
values are, and "spline", the natural cubic spline, which is smooth and may overshoot between
nodes.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import as_array
from twoaxis.errors import AccuracyWarning, InputError

FloatArray = NDArray[np.float64]
BasisKind = Literal["hat", "spline"]
Values = Callable[[FloatArray], Any] | ArrayLike

BASES = ("hat", "spline")
# Places beyond the outer nodes by this share of their distance are rounding.
OUTSIDE = 1e-9
# A function that its nodes represent worse than this, relative to its largest value, is a warning.
REPRESENTED = 0.02
# Places between two neighboring nodes at which a given function is compared with its interpolant.
BETWEEN = 8


@dataclass(frozen=True)
class FunctionNode:
    """Where a parameter belongs that is one node value of an unknown function.

    Attributes
    ----------
    function : str
        Name of the function.
    at : float
        The place of the node.
    basis : {"hat", "spline"}
    argument : str
        Name of the variable that the function depends on.
    """

    function: str
    at: float
    basis: BasisKind
    argument: str = "x"


@lru_cache(maxsize=64)
def _polynomials(nodes: tuple[float, ...], kind: BasisKind) -> FloatArray:
    """Return the basis as polynomials between nodes, highest power first, (powers, n - 1, n)."""
    count, widths = len(nodes), np.diff(nodes)
    if kind == "spline":
        from scipy.interpolate import CubicSpline  # loads slowly

        return np.asarray(CubicSpline(nodes, np.eye(count), bc_type="natural").c)
    table = np.zeros((2, count - 1, count))
    left = np.arange(count - 1)
    table[0, left, left], table[0, left, left + 1] = -1 / widths, 1 / widths
    table[1, left, left] = 1.0
    return table


@dataclass(frozen=True)
class Basis:
    """The functions that interpolate values at nodes.

    Attributes
    ----------
    nodes : tuple of float
        Ascending.
    kind : {"hat", "spline"}
    """

    nodes: tuple[float, ...]
    kind: BasisKind = "hat"

    @property
    def polynomials(self) -> FloatArray:
        """Coefficients between neighboring nodes, highest power first, shape (powers, n - 1, n).

        In powers of the distance from the left node.
        """
        return _polynomials(self.nodes, self.kind)

    def matrix(self, x: ArrayLike) -> FloatArray:
        """Return the values of the basis functions at places (N,), shape (N, n)."""
        rows: FloatArray = Function(self, list(np.eye(len(self.nodes))))(np.ravel(x))
        return rows.T

    def grid(self, count: int = 201) -> FloatArray:
        """Return about `count` places from the first to the last node, the nodes among them."""
        even = np.linspace(self.nodes[0], self.nodes[-1], count)
        return np.union1d(even, self.nodes)


class Function:
    """What a forward model or a residual receives for an unknown function.

    Parameters
    ----------
    basis : Basis
    values : sequence
        The value at each node: numbers, or JAX or PyTorch scalars, which keep their derivatives;
        of a vectorized forward model vectors of length B.

    Attributes
    ----------
    nodes : array, shape (n,)
    values : array, shape (n,) or (B, n)
        In the array type of the library that the values come from.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> parameters = {
    ...     "k": ta.UnknownFunction(
    ...         nodes=3, domain=(0, 1), bounds=(0.1, 10.0), delivered=[1.0, 2.0, 4.0]
    ...     )
    ... }
    >>> x = np.linspace(0, 1, 20)
    >>> received = []
    >>> def residual(k):
    ...     received.append(k)
    ...     return k(x) - (1 + x)
    >>> score = ta.score(residual, parameters, ta.views.Pointwise(), points=x)
    >>> k = received[0]
    >>> k
    <Function on 3 nodes from 0 to 1>
    >>> float(k(0.25)), float(k.derivative(0.25))
    (1.5, 2.0)
    """

    def __init__(self, basis: Basis, values: Sequence[Any]) -> None:
        self.basis = basis
        self._values = list(values)
        self._reached: list[tuple[float, float]] = []

    def __repr__(self) -> str:
        first, last = self.basis.nodes[0], self.basis.nodes[-1]
        return f"<Function on {len(self.basis.nodes)} nodes from {first:g} to {last:g}>"

    @property
    def nodes(self) -> FloatArray:
        """Places of the nodes, shape (n,)."""
        return np.array(self.basis.nodes)

    @property
    def values(self) -> Any:
        """Values at the nodes, shape (n,), or (B, n) for a batch."""
        return stacked(self._values, None)

    @property
    def node_values(self) -> list[Any]:
        """Values at the nodes, one by one."""
        return list(self._values)

    def __call__(self, x: Any) -> Any:
        """Return the function at places of any shape; a batch of functions leads that shape.

        The result is a JAX or PyTorch array where `x` or the values are, and is then
        differentiable by both.
        """
        return self._evaluate(x, 0)

    def derivative(self, x: Any) -> Any:
        """Return the derivative by the argument; between hats it is that on the right."""
        return self._evaluate(x, 1)

    @property
    def reached(self) -> tuple[float, float] | None:
        """Smallest and largest place at which it was called so far; None where that is open."""
        if not self._reached:
            return None
        return min(low for low, _ in self._reached), max(high for _, high in self._reached)

    def _evaluate(self, x: Any, order: int) -> Any:
        low, high = self.basis.nodes[0], self.basis.nodes[-1]
        room = OUTSIDE * (high - low)
        places = _concrete(x)
        if places is not None and places.size:
            self._check_inside(places, room)
        values = stacked(self._values, x)
        library = _library([values])
        table = self.basis.polynomials
        for _ in range(order):
            powers = np.arange(len(table) - 1, 0, -1)
            table = table[:-1] * powers[:, None, None]
        if library == "torch":
            torch: Any = sys.modules["torch"]
            space, where = torch, {"dtype": values.dtype, "device": values.device}
            at = torch.as_tensor(x, device=values.device)
            at = at if at.is_floating_point() else at.to(values.dtype)
            table, nodes = (torch.as_tensor(a, **where) for a in (table, self.nodes))
            inner = nodes[1:-1].to(at.dtype)
            left = torch.searchsorted(inner, at.detach().contiguous(), right=True)
        else:
            space = sys.modules["jax"].numpy if library == "jax" else np
            at = space.asarray(x, dtype=None if library == "jax" else float)
            table, nodes = space.asarray(table), space.asarray(self.nodes)
            left = space.searchsorted(nodes[1:-1], at, side="right")
        local = space.einsum("...j,pij->...pi", values, table)  # (..., powers, n - 1)
        distance = at - nodes[left]
        found = local[..., 0, :][..., left]
        for power in range(1, len(table)):
            found = found * distance + local[..., power, :][..., left]
        if places is None:  # traced: what cannot be refused here must not pass as a number
            found = space.where((at < low - room) | (at > high + room), math.nan, found)
        return found

    def _check_inside(self, places: FloatArray, room: float) -> None:
        low, high = self.basis.nodes[0], self.basis.nodes[-1]
        first, last = float(np.nanmin(places)), float(np.nanmax(places))
        if first < low - room or last > high + room:
            raise InputError(
                f"an unknown function to be evaluated between its outer nodes, {low:g} and "
                f"{high:g}",
                f"places from {first:g} to {last:g}",
                "give nodes that cover them, or clip the places yourself where the function is to "
                "continue as a constant",
            )
        self._reached.append((first, last))


def stacked(values: Sequence[Any], like: Any = None) -> Any:
    """Return numbers, or batches of them, as one array along a new last axis.

    The array is of the library that they, or `like`, come from.
    """
    library = _library([like, *values])
    if library == "torch":
        torch: Any = sys.modules["torch"]
        tensors = [v for v in [like, *values] if isinstance(v, torch.Tensor)]
        own = [v for v in values if isinstance(v, torch.Tensor)] or tensors
        kind, device = own[0].dtype, tensors[0].device
        return torch.stack([torch.as_tensor(v, dtype=kind, device=device) for v in values], dim=-1)
    if library == "jax":
        jax: Any = sys.modules["jax"]
        return jax.numpy.stack([jax.numpy.asarray(v) for v in values], axis=-1)
    return np.stack([np.asarray(v, dtype=float) for v in values], axis=-1)


def _library(values: Sequence[Any]) -> str:
    """Return "torch", "jax" or "numpy": the library whose arrays are among `values`."""
    for value in values:
        roots = {base.__module__.partition(".")[0] for base in type(value).__mro__}
        if "torch" in roots:
            return "torch"
        if roots & {"jax", "jaxlib"}:
            return "jax"
    return "numpy"


def _concrete(x: Any) -> FloatArray | None:
    """Return places as numbers; None where they are traced and have no values yet."""
    try:
        return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x, dtype=float)
    except Exception:  # each library raises its own for a traced value
        return None


@dataclass(frozen=True)
class FunctionGroup:
    """The parameters that are node values of one function.

    Attributes
    ----------
    name : str
    members : tuple of str
        Names of the parameters, by ascending node.
    columns : array of int, shape (n,)
        Their places among all parameters.
    basis : Basis
    argument : str
        Name of the variable that the function depends on.
    """

    name: str
    members: tuple[str, ...]
    columns: NDArray[np.intp]
    basis: Basis
    argument: str

    @property
    def nodes(self) -> FloatArray:
        """Places of the nodes, shape (n,)."""
        return np.array(self.basis.nodes)

    def at_nodes(self, what: str, values: Any) -> list[Any]:
        """Return the node values of a `Function`, a callable, an array or one number."""
        if isinstance(values, Function):
            return values.node_values
        return list(values_at_nodes(f"{what} of {self.name}", values, self.nodes))


def values_at_nodes(what: str, values: Any, nodes: FloatArray) -> tuple[float, ...]:
    """Return the values of a callable, an array or a number at the nodes, as floats."""
    given = values
    if callable(values):
        given = values(nodes)
    try:
        array = as_array(what, given).astype(float)
    except (TypeError, ValueError):
        array = np.full(0, np.nan)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 0:
        array = np.full(len(nodes), float(array))
    if array.shape != nodes.shape or not np.isfinite(array).all():
        finite = "" if np.isfinite(array).all() else ", not all finite"
        raise InputError(
            f"{what} as {len(nodes)} finite values, one for each node",
            f"the shape {array.shape}{finite}",
            "pass a function of the places, an array with a value for each node, or one number",
        )
    return tuple(array.tolist())


@dataclass(frozen=True, kw_only=True)
class UnknownFunction:
    r"""A coefficient that is a function of one variable, in place of a `Parameter`.

    A forward model and a residual receive it under its name as a `Function`: ``k(x)`` returns its
    values at places `x`, ``k.derivative(x)`` its derivative, ``k.values`` and ``k.nodes`` what it
    is made of. Between nodes it is interpolated in physical values, also in log coordinates.

    Parameters
    ----------
    nodes : array of float, or int
        Places of the nodes, ascending; or how many to place evenly over `domain`.
    bounds : tuple of float
        Lower and upper limit of the node values.
    domain : tuple of float, optional
        First and last node for a number of nodes. With places of the nodes, they must lie in it.
    basis : {"hat", "spline"}
        Piecewise linear, or a natural cubic spline. A spline may leave the bounds between nodes.
    coordinate : {"log", "linear"}
        As for `Parameter`, for each node value.
    truth, delivered, start : callable, array of shape (n,) or float, optional
        As for `Parameter`: a function that takes the places as an array (n,) and returns the
        values, such as a trained network; the values at the nodes; or one value for all. A
        function that the nodes represent worse than 2% of its largest value raises an
        `AccuracyWarning`.
    scale : float, optional
        As for `Parameter`, for every node. By default percentages refer to the magnitude of the
        node value itself, but to no less than a quarter of the root mean square of all of them,
        so that a zero of the function has a percentage, too.
    nuisance : bool
    unit, label : str
        As for `Parameter`.
    argument : str
        Name of the variable that the function depends on, for figures and tables.

    Notes
    -----
    Functions of one variable only. Several unknown functions, and parameters beside them, are
    allowed.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 41)
    >>> k = ta.UnknownFunction(nodes=5, domain=(0, 1), bounds=(0.1, 10), truth=lambda x: 1 + x)
    >>> found = ta.score(lambda k: k(x) - 1.2 * (1 + x), {"k": k}, ta.views.Pointwise(), points=x)
    >>> found.names
    ['k[0]', 'k[0.25]', 'k[0.5]', 'k[0.75]', 'k[1]']
    >>> {round(value, 3) for value in found.displacement.values()}  # a fifth too low everywhere
    {0.2}
    """

    nodes: Any
    bounds: tuple[float, float]
    domain: tuple[float, float] | None = None
    basis: BasisKind = "hat"
    coordinate: Literal["log", "linear"] = "log"
    truth: Any = None
    delivered: Any = None
    start: Any = None
    scale: float | None = None
    nuisance: bool = False
    unit: str = ""
    label: str = ""
    argument: str = "x"
    _places: tuple[float, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        if self.basis not in BASES:
            raise InputError('basis "hat" or "spline"', repr(self.basis), "choose one of them")
        if not (isinstance(self.argument, str) and self.argument):
            raise InputError(
                "argument as the name of a variable",
                f"argument={self.argument!r}",
                'pass argument="x"',
            )
        places = _checked_nodes(self.nodes, self.domain)
        object.__setattr__(self, "_places", tuple(places.tolist()))
        object.__setattr__(self, "nodes", self._places)
        for what in ("truth", "delivered", "start"):
            given = getattr(self, what)
            if given is None:
                continue
            values = values_at_nodes(what, given, places)
            self._check_bounds(what, values)
            if callable(given):
                self._check_represented(what, given, values)
            object.__setattr__(self, what, values)

    def _check_bounds(self, what: str, values: tuple[float, ...]) -> None:
        """Name the node at which a value lies outside the bounds; else `Parameter` checks them."""
        try:
            low, high = map(float, self.bounds)
        except (TypeError, ValueError):
            return
        for place, value in zip(self._places, values, strict=True):
            if not low <= value <= high:
                raise InputError(
                    f"{what} inside the bounds [{low:g}, {high:g}] at every node",
                    f"{value:g} at {self.argument} = {place:g}",
                    f"widen bounds until they hold the values, or correct {what}",
                )

    def _check_represented(self, what: str, given: Any, values: tuple[float, ...]) -> None:
        """Warn where a given function is not the one that its node values stand for."""
        nodes = np.array(self._places)
        steps = np.arange(1, BETWEEN) / BETWEEN
        between = (nodes[:-1, None] + np.diff(nodes)[:, None] * steps).ravel()
        exact = np.array(values_at_nodes(what, given, between))
        error = np.abs(exact - Function(Basis(self._places, self.basis), values)(between))
        size = float(np.abs(exact).max())
        if size > 0 and float(error.max()) > REPRESENTED * size:
            warnings.warn(
                AccuracyWarning(
                    f"{len(nodes)} nodes represent the {what} function only to "
                    f"{100 * float(error.max()) / size:.3g}% of its largest value, near "
                    f"{self.argument} = {between[int(error.argmax())]:.4g}; give more nodes"
                ),
                stacklevel=5,
            )

    def members(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the fields of the `Parameter` of each node, by its name."""
        shared = {
            field: getattr(self, field)
            for field in ("bounds", "coordinate", "scale", "nuisance", "unit", "label")
        }
        shorts = [f"{place:g}" for place in self._places]
        unique = len(set(shorts)) == len(shorts)
        found = {}
        for j, place in enumerate(self._places):
            own = {
                f: None if getattr(self, f) is None else getattr(self, f)[j]
                for f in ("truth", "delivered", "start")
            }
            node = FunctionNode(name, place, self.basis, self.argument)
            shown = shorts[j] if unique else repr(place)
            found[f"{name}[{shown}]"] = {**shared, **own, "node": node}
        return found


def _checked_nodes(nodes: Any, domain: Any) -> FloatArray:
    """Return ascending, finite places, at least two, inside the domain."""
    ends = None if domain is None else _checked_domain(domain)
    if isinstance(nodes, (int, np.integer)) and not isinstance(nodes, bool):
        if ends is None:
            raise InputError(
                "a domain for a number of nodes",
                f"nodes={nodes} and no domain",
                f"pass domain=(low, high), or the places, as in nodes=np.linspace(0, 1, {nodes})",
            )
        if nodes < 2:
            raise InputError("at least 2 nodes", f"nodes={nodes}", "pass nodes=9")
        return np.linspace(*ends, int(nodes))
    try:
        places = np.asarray(nodes, dtype=float)
    except (TypeError, ValueError):
        places = np.full(0, np.nan)
    if places.ndim != 1 or len(places) < 2 or not np.isfinite(places).all():
        raise InputError(
            "nodes as at least 2 finite places, or as their number with a domain",
            f"nodes={nodes!r}",
            "pass nodes=np.linspace(0, 1, 9), or nodes=9, domain=(0, 1)",
        )
    steps = np.diff(places)
    if (steps <= 0).any():
        at = int(np.argmax(steps <= 0))
        raise InputError(
            "nodes in ascending order, each once",
            f"{places[at + 1]:g} after {places[at]:g}",
            "pass np.unique(nodes)",
        )
    if ends is not None and (places[0] < ends[0] or places[-1] > ends[1]):
        wrong = places[(places < ends[0]) | (places > ends[1])]
        raise InputError(
            f"nodes inside the domain [{ends[0]:g}, {ends[1]:g}]",
            f"{len(wrong)} outside, the first at {wrong[0]:g}",
            "leave them out, or widen the domain",
        )
    return places


def _checked_domain(domain: Any) -> tuple[float, float]:
    try:
        low, high = map(float, domain)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(
            "domain as two finite numbers, the lower first", repr(domain), "pass domain=(0, 1)"
        )
    return low, high


def check_reached(name: str, group: FunctionGroup, function: Function) -> None:
    """Refuse nodes that no place of evaluation depends on.

    Parameters
    ----------
    name : str
        Of the user's function that was called, such as ``"residual"``.
    group : FunctionGroup
    function : Function
        After the call.
    """
    if function.reached is None:
        return
    low, high = function.reached
    nodes = group.nodes
    # A node reaches to its neighbors.
    unseen = nodes[(np.append(nodes[1:], np.inf) <= low) | (np.append(-np.inf, nodes[:-1]) >= high)]
    if unseen.size:
        raise InputError(
            f"nodes of {group.name} in the range where {name} evaluates it, {low:g} to {high:g}",
            f"{len(unseen)} outside, the first at {group.argument} = {unseen[0]:g}",
            f"leave those nodes out, or let {name} evaluate {group.name} there too",
        )


def directions_of(matrix: FloatArray) -> FloatArray:
    """Return the eigenvectors of a symmetric matrix in rows, least eigenvalue first.

    The largest component of each is positive, so that two computations give the same.
    """
    rows = np.linalg.eigh(matrix)[1].T
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return np.asarray(rows * np.where(largest < 0, -1.0, 1.0)[:, None])
