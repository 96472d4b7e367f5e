r"""A coefficient that is a function of one variable or two, :math:`k(x)` or :math:`k(x, y)`.

The function is written on a basis with one value per node,

.. math:: k(x) = \sum_j k_j\,\varphi_j(x), \qquad \varphi_j(x_i) = \delta_{ij},

so that the coefficients are the values of the function at the nodes. Of two variables the nodes are
a grid, and its basis functions are products, :math:`\varphi_i(x)\,\varphi_j(y)`. Inside the library
each node is one `Parameter`, named ``k[0.25]`` or ``k[0.25,1]`` after its place; `Parameters`
remembers which of them belong together, and hands the user's forward model and residual one
`Function` that can be called.
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
from itertools import product
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
# Places along each variable at which a function of one variable is drawn, and one of two.
FINE, COARSE = 201, 41
# How the values at nodes become polynomials between them: by axis a power, an interval and a node.
CONTRACTIONS = ("...i,pai->...pa", "...ij,pai,qbj->...pqab")


@dataclass(frozen=True)
class FunctionNode:
    """Where a parameter belongs that is one node value of an unknown function.

    Attributes
    ----------
    function : str
        Name of the function.
    at : tuple of float
        The place of the node, a number for each variable.
    basis : {"hat", "spline"}
    argument : str
        Name of the variable that the function depends on; of two, ``"x, y"``.
    """

    function: str
    at: tuple[float, ...]
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
    axes : tuple of tuple of float
        Ascending places along each variable. The nodes are all their combinations, the last
        variable fastest.
    kind : {"hat", "spline"}
    """

    axes: tuple[tuple[float, ...], ...]
    kind: BasisKind = "hat"

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes along each variable."""
        return tuple(map(len, self.axes))

    @property
    def points(self) -> FloatArray:
        """Places of the nodes, shape (n, variables)."""
        return combinations(self.axes)

    def polynomials(self, axis: int) -> FloatArray:
        """Coefficients between neighboring places of an axis, highest power first.

        In powers of the distance from the left place, shape (powers, n - 1, n).
        """
        return _polynomials(self.axes[axis], self.kind)

    def matrix(self, points: ArrayLike) -> FloatArray:
        """Return the values of the n basis functions at places (N, variables), shape (N, n)."""
        at = np.asarray(points, dtype=float).reshape(-1, len(self.axes))
        rows: FloatArray = Function(self, list(np.eye(math.prod(self.shape))))(*at.T)
        return rows.T

    def mesh(self, count: int | None = None) -> list[FloatArray]:
        """Return about `count` places along each variable, those of the nodes among them."""
        count = count or (FINE if len(self.axes) == 1 else COARSE)
        return [np.union1d(np.linspace(axis[0], axis[-1], count), axis) for axis in self.axes]

    def grid(self) -> FloatArray:
        """Return all combinations of the places of `mesh`, shape (N, variables)."""
        return combinations(self.mesh())

    def rows(self) -> NDArray[np.intp]:
        """Return where the nodes are among the places of `grid`, shape (n,)."""
        mesh = self.mesh()
        at = [np.searchsorted(fine, axis) for fine, axis in zip(mesh, self.axes, strict=True)]
        return np.ravel_multi_index(np.ix_(*at), tuple(map(len, mesh))).ravel()


def combinations(axes: Sequence[ArrayLike]) -> FloatArray:
    """Return all combinations of places along axes, the last fastest, shape (N, axes)."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def axes_of(
    points: Sequence[tuple[float, ...]] | FloatArray,
) -> tuple[tuple[float, ...], ...] | None:
    """Return the axes whose `combinations` the points are, in this order; None: they are none."""
    if len(set(map(len, points))) != 1 or not np.isfinite(points).all():
        return None
    axes = tuple(tuple(np.unique(along).tolist()) for along in np.transpose(points))
    right = all(len(axis) > 1 for axis in axes) and np.array_equal(combinations(axes), points)
    return axes if right else None


def place_words(argument: str, at: ArrayLike) -> str:
    """Return a place in words.

    >>> place_words("x", [0.5]), place_words("x, y", [0.5, 1.0])
    ('x = 0.5', '(x, y) = (0.5, 1)')
    """
    numbers = np.atleast_1d(at).tolist()
    values = ", ".join(f"{each:.4g}" for each in numbers)
    return f"{argument} = {values}" if len(numbers) == 1 else f"({argument}) = ({values})"


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
        Of a function of two variables a tuple of two arrays, the places along each.
    values : array, shape (n,) or (B, n)
        In the array type of the library that the values come from; of a function of two variables
        of shape (n, m) or (B, n, m).

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
        self._reached: list[list[tuple[float, float]]] = [[] for _ in basis.axes]

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.basis.shape))
        ends = [", ".join(f"{axis[k]:g}" for axis in self.basis.axes) for k in (0, -1)]
        first, last = ends if len(self.basis.axes) == 1 else (f"({end})" for end in ends)
        return f"<Function on {shape} nodes from {first} to {last}>"

    @property
    def nodes(self) -> Any:
        """Places of the nodes, shape (n,); of two variables a tuple of the places along each."""
        axes = tuple(map(np.array, self.basis.axes))
        return axes[0] if len(axes) == 1 else axes

    @property
    def values(self) -> Any:
        """Values at the nodes, shape (n,) or (n, m), or (B, ...) for a batch."""
        return self._in_shape(stacked(self._values))

    @property
    def node_values(self) -> list[Any]:
        """Values at the nodes, one by one."""
        return list(self._values)

    def __call__(self, *x: Any) -> Any:
        """Return the function at places of any shape; a batch of functions leads that shape.

        A function of two variables takes two arrays, ``k(x, y)``. The result is a JAX or PyTorch
        array where `x` or the values are, and is then differentiable by both.
        """
        return self._evaluate(x, None)

    def derivative(self, *x: Any, axis: int = 0) -> Any:
        """Return the derivative with respect to a variable; between hats it is that on the right.

        Parameters
        ----------
        *x : array
            Places, as for a call.
        axis : int
            Which variable: 0, or 1 for the second of two.
        """
        return self._evaluate(x, axis)

    @property
    def reached(self) -> list[tuple[float, float]] | None:
        """By variable the smallest and largest place called so far; None where that is open."""
        if not all(self._reached):
            return None
        return [(min(low for low, _ in own), max(high for _, high in own)) for own in self._reached]

    def _in_shape(self, values: Any) -> Any:
        return values.reshape((*values.shape[:-1], *self.basis.shape))

    def _evaluate(self, x: tuple[Any, ...], along: int | None) -> Any:
        count = len(self.basis.axes)
        if len(x) != count or (along is not None and not 0 <= along < count):
            raise InputError(
                f"places along {count} variable{'s' * (count > 1)} and axis below {count}",
                f"{len(x)} arrays of places" + ("" if along is None else f" and axis={along}"),
                "call k(x) or k.derivative(x)"
                if count == 1
                else "call k(x, y), k.derivative(x, y, axis=0) or k.derivative(x, y, axis=1)",
            )
        concrete = [_concrete(each) for each in x]
        for axis, places in enumerate(concrete):
            if places is not None and places.size:
                self._check_inside(axis, places)
        values = self._in_shape(stacked(self._values, *x))
        library = _library([values])
        tables: list[Any] = [self.basis.polynomials(axis) for axis in range(count)]
        if along is not None:
            powers = np.arange(len(tables[along]) - 1, 0, -1)
            tables[along] = tables[along][:-1] * powers[:, None, None]
        nodes: list[Any] = [np.array(axis) for axis in self.basis.axes]
        at: list[Any]
        if library == "torch":
            torch: Any = sys.modules["torch"]
            space, where = torch, {"dtype": values.dtype, "device": values.device}
            at = [torch.as_tensor(each, device=values.device) for each in x]
            at = [each if each.is_floating_point() else each.to(values.dtype) for each in at]
            tables, nodes = (
                [torch.as_tensor(a, **where) for a in some] for some in (tables, nodes)
            )
            left = [
                torch.searchsorted(own[1:-1].to(a.dtype), a.detach().contiguous(), right=True)
                for own, a in zip(nodes, at, strict=True)
            ]
        else:
            space = sys.modules["jax"].numpy if library == "jax" else np
            at = [space.asarray(each, dtype=None if library == "jax" else float) for each in x]
            tables, nodes = ([space.asarray(a) for a in some] for some in (tables, nodes))
            left = [
                space.searchsorted(own[1:-1], a, side="right")
                for own, a in zip(nodes, at, strict=True)
            ]
        local = space.einsum(CONTRACTIONS[count - 1], values, *tables)  # (..., powers, intervals)
        distance = [a - own[k] for a, own, k in zip(at, nodes, left, strict=True)]

        def summed(powers: tuple[int, ...]) -> Any:
            """Sum a polynomial over the powers of the variables that are not chosen yet."""
            axis = len(powers)
            if axis == count:
                return local[(..., *powers, *[slice(None)] * count)][(..., *left)]
            found = summed((*powers, 0))
            for power in range(1, len(tables[axis])):
                found = found * distance[axis] + summed((*powers, power))
            return found

        found = summed(())
        for axis, (a, places) in enumerate(zip(at, concrete, strict=True)):
            if places is None:  # traced: what cannot be refused here must not pass as a number
                low, high, room = self._ends(axis)
                found = space.where((a < low - room) | (a > high + room), math.nan, found)
        return found

    def _ends(self, axis: int) -> tuple[float, float, float]:
        """Return the outer nodes along a variable, and the room for rounding beyond them."""
        low, high = self.basis.axes[axis][0], self.basis.axes[axis][-1]
        return low, high, OUTSIDE * (high - low)

    def _check_inside(self, axis: int, places: FloatArray) -> None:
        low, high, room = self._ends(axis)
        first, last = float(np.nanmin(places)), float(np.nanmax(places))
        if first < low - room or last > high + room:
            along = f" along variable {axis + 1}" * (len(self.basis.axes) > 1)
            raise InputError(
                f"an unknown function to be evaluated between its outer nodes, {low:g} and "
                f"{high:g}{along}",
                f"places from {first:g} to {last:g}",
                "give nodes that cover them, or clip the places yourself where the function is to "
                "continue as a constant",
            )
        self._reached[axis].append((first, last))


def stacked(values: Sequence[Any], *like: Any) -> Any:
    """Return numbers, or batches of them, as one array along a new last axis.

    The array is of the library that they, or `like`, come from.
    """
    library = _library([*like, *values])
    if library == "torch":
        torch: Any = sys.modules["torch"]
        tensors = [v for v in [*like, *values] if isinstance(v, torch.Tensor)]
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
        Names of the parameters, by ascending node, the last variable fastest.
    columns : array of int, shape (n,)
        Their places among all parameters.
    basis : Basis
    argument : str
        Name of the variable that the function depends on; of two, ``"x, y"``.
    """

    name: str
    members: tuple[str, ...]
    columns: NDArray[np.intp]
    basis: Basis
    argument: str

    @property
    def points(self) -> FloatArray:
        """Places of the nodes, shape (n, variables)."""
        return self.basis.points

    def place_of(self, member: str) -> str:
        """Return where a node lies, in words."""
        return place_words(self.argument, self.points[self.members.index(member)])

    def at_nodes(self, what: str, values: Any) -> list[Any]:
        """Return the node values of a `Function`, a callable, an array or one number."""
        if isinstance(values, Function):
            return values.node_values
        return list(values_at_nodes(f"{what} of {self.name}", values, self.basis.axes))


def values_at_nodes(what: str, values: Any, axes: Sequence[ArrayLike]) -> tuple[float, ...]:
    """Return the values of a callable, an array or a number at a grid of nodes, as floats."""
    given, shape = values, tuple(map(np.size, axes))
    count = math.prod(shape)
    if callable(values):
        given = values(*combinations(axes).T)
    try:
        array = as_array(what, given).astype(float)
    except (TypeError, ValueError):
        array = np.full(0, np.nan)
    if array.ndim == 0:
        array = np.full(count, float(array))
    if array.shape not in {shape, (count,), (count, 1)} or not np.isfinite(array).all():
        finite = "" if np.isfinite(array).all() else ", not all finite"
        raise InputError(
            f"{what} as {count} finite values, one for each node",
            f"the shape {array.shape}{finite}",
            "pass a function of the places, an array with a value for each node, or one number",
        )
    return tuple(array.ravel().tolist())


@dataclass(frozen=True, kw_only=True)
class UnknownFunction:
    r"""A coefficient that is a function of one variable or two, in place of a `Parameter`.

    A forward model and a residual receive it under its name as a `Function`: ``k(x)`` returns its
    values at places `x`, ``k.derivative(x)`` its derivative, ``k.values`` and ``k.nodes`` what it
    is made of. Between nodes it is interpolated in physical values, also in log coordinates.

    Parameters
    ----------
    nodes : array of float, or int
        Places of the nodes, ascending; or how many to place evenly over `domain`. A pair of these
        makes a function of two variables: all combinations of the two are nodes.
    bounds : tuple of float
        Lower and upper limit of the node values.
    domain : tuple of float, optional
        First and last node for a number of nodes. With places of the nodes, they must lie in it.
        Of two variables a pair of pairs.
    basis : {"hat", "spline"}
        Piecewise linear, or a natural cubic spline. A spline may leave the bounds between nodes.
        Of two variables this holds along each: "hat" is bilinear.
    coordinate : {"log", "linear"}
        As for `Parameter`, for each node value.
    truth, delivered, start : callable, array of shape (n,) or float, optional
        As for `Parameter`: a function that takes the places as an array (n,) and returns the
        values, such as a trained network; the values at the nodes; or one value for all. A
        function that the nodes represent worse than 2% of its largest value raises an
        `AccuracyWarning`. Of two variables, with n and m places along them, a function that takes
        two arrays (n m,), or an array of shape (n, m).
    scale : float, optional
        As for `Parameter`, for every node. By default percentages refer to the magnitude of the
        node value itself, but to no less than a quarter of the root mean square of all of them,
        so that a zero of the function has a percentage, too.
    nuisance : bool
    unit, label : str
        As for `Parameter`.
    argument : str or pair of str, optional
        Name of the variable that the function depends on, for figures and tables. By default
        ``"x"``, and ``("x", "y")`` for two.

    Notes
    -----
    Several unknown functions, and parameters beside them, are allowed.

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

    Of two variables:

    >>> k = ta.UnknownFunction(
    ...     nodes=(3, 2), domain=((0, 1), (0, 2)), bounds=(0.1, 10), truth=lambda x, y: 1 + x * y
    ... )
    >>> y = 2 * x**2
    >>> found = ta.score(lambda k: k(x, y) - 1, {"k": k}, ta.views.Pointwise(), points=x)
    >>> found.names
    ['k[0,0]', 'k[0,2]', 'k[0.5,0]', 'k[0.5,2]', 'k[1,0]', 'k[1,2]']
    """

    nodes: Any
    bounds: tuple[float, float]
    domain: Any = None
    basis: BasisKind = "hat"
    coordinate: Literal["log", "linear"] = "log"
    truth: Any = None
    delivered: Any = None
    start: Any = None
    scale: float | None = None
    nuisance: bool = False
    unit: str = ""
    label: str = ""
    argument: Any = None
    _basis: Basis = field(init=False, repr=False, default=Basis(()))

    def __post_init__(self) -> None:
        if self.basis not in BASES:
            raise InputError('basis "hat" or "spline"', repr(self.basis), "choose one of them")
        axes = _checked_axes(self.nodes, self.domain)
        object.__setattr__(self, "_basis", Basis(axes, self.basis))
        object.__setattr__(self, "nodes", axes[0] if len(axes) == 1 else axes)
        object.__setattr__(self, "argument", _checked_argument(self.argument, len(axes)))
        for what in ("truth", "delivered", "start"):
            given = getattr(self, what)
            if given is None:
                continue
            values = values_at_nodes(what, given, axes)
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
        for place, value in zip(self._basis.points, values, strict=True):
            if not low <= value <= high:
                raise InputError(
                    f"{what} inside the bounds [{low:g}, {high:g}] at every node",
                    f"{value:g} at {place_words(self.argument, place)}",
                    f"widen bounds until they hold the values, or correct {what}",
                )

    def _check_represented(self, what: str, given: Any, values: tuple[float, ...]) -> None:
        """Warn where a given function is not the one that its node values stand for."""
        steps = np.arange(1, BETWEEN) / BETWEEN
        axes = [np.array(axis) for axis in self._basis.axes]
        inner = [(axis[:-1, None] + np.diff(axis)[:, None] * steps).ravel() for axis in axes]
        between = combinations(inner)
        exact = np.array(values_at_nodes(what, given, inner))
        error = np.abs(exact - Function(self._basis, values)(*between.T))
        size = float(np.abs(exact).max())
        if size > 0 and float(error.max()) > REPRESENTED * size:
            place = place_words(self.argument, between[int(error.argmax())])
            warnings.warn(
                AccuracyWarning(
                    f"{len(values)} nodes represent the {what} function only to "
                    f"{100 * float(error.max()) / size:.3g}% of its largest value, near "
                    f"{place}; give more nodes"
                ),
                stacklevel=5,
            )

    def members(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the fields of the `Parameter` of each node, by its name."""
        shared = {
            field: getattr(self, field)
            for field in ("bounds", "coordinate", "scale", "nuisance", "unit", "label")
        }
        found = {}
        shorts = product(*map(_short, self._basis.axes))
        for j, (place, short) in enumerate(zip(self._basis.points, shorts, strict=True)):
            own = {
                f: None if getattr(self, f) is None else getattr(self, f)[j]
                for f in ("truth", "delivered", "start")
            }
            node = FunctionNode(name, tuple(place.tolist()), self.basis, self.argument)
            found[f"{name}[{','.join(short)}]"] = {**shared, **own, "node": node}
        return found


def _short(places: tuple[float, ...]) -> list[str]:
    """Return places along a variable as texts that differ."""
    shorts = [f"{place:g}" for place in places]
    return shorts if len(set(shorts)) == len(shorts) else list(map(repr, places))


def _checked_argument(argument: Any, count: int) -> str:
    """Return the name of the variable; of two variables ``"x, y"``."""
    names = ("x", "y")[:count] if argument is None else argument
    names = (names,) if isinstance(names, str) else names
    try:
        right = len(names) == count and all(isinstance(each, str) and each for each in names)
    except TypeError:
        right = False
    if not right:
        what = "the name of a variable" if count == 1 else "the names of two variables"
        fix = 'pass argument="x"' if count == 1 else 'pass argument=("x", "y")'
        raise InputError(f"argument as {what}", f"argument={argument!r}", fix)
    return ", ".join(names)


def _is_pair(given: Any) -> bool:
    """Whether there are two sequences: places or ends along two variables."""
    try:
        return len(given) == 2 and all(np.ndim(each) == 1 for each in given)
    except TypeError:
        return False


def _checked_axes(nodes: Any, domain: Any) -> tuple[tuple[float, ...], ...]:
    """Return the places of the nodes along each variable."""
    if not (_is_pair(nodes) or _is_pair(domain)):
        return (tuple(_checked_nodes(nodes, domain).tolist()),)
    pair = nodes if hasattr(nodes, "__len__") else (nodes, nodes)
    ends = (None, None) if domain is None else domain
    if len(pair) != 2 or not (domain is None or _is_pair(domain)):
        raise InputError(
            "nodes and domain of two variables as one pair each",
            f"nodes={nodes!r}, domain={domain!r}",
            "pass nodes=(9, 5), domain=((0, 1), (0, 2))",
        )
    return tuple(tuple(_checked_nodes(*each).tolist()) for each in zip(pair, ends, strict=True))


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
            "pass nodes=np.linspace(0, 1, 9), or nodes=9, domain=(0, 1); of two variables a pair "
            "of these",
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
    variables = group.argument.split(", ") if len(group.basis.axes) > 1 else [group.argument]
    for argument, axis, (low, high) in zip(
        variables, group.basis.axes, function.reached, strict=True
    ):
        nodes = np.array(axis)
        # A node reaches to its neighbors.
        right, left = np.append(nodes[1:], np.inf), np.append(-np.inf, nodes[:-1])
        unseen = nodes[(right <= low) | (left >= high)]
        if unseen.size:
            raise InputError(
                f"nodes of {group.name} in the range where {name} evaluates it, {low:g} to "
                f"{high:g}",
                f"{len(unseen)} outside, the first at {argument} = {unseen[0]:g}",
                f"leave those nodes out, or let {name} evaluate {group.name} there too",
            )


def directions_of(matrix: FloatArray) -> FloatArray:
    """Return the eigenvectors of a symmetric matrix in rows, least eigenvalue first.

    The largest component of each is positive, so that two computations give the same.
    """
    rows = np.linalg.eigh(matrix)[1].T
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return np.asarray(rows * np.where(largest < 0, -1.0, 1.0)[:, None])
