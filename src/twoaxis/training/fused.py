r"""The Taylor series of many networks and its adjoint, fused into a few GPU kernels.

`twoaxis.training.network.derivatives` leaves every layer to XLA, which sends each coefficient of
the series through the GPU's memory several times per layer. Here one kernel carries a tile of
points through all layers, and one kernel per layer takes the adjoint back. The kernels
are written in Pallas, JAX's own kernel language, and lowered by the Triton that JAX brings along:
a user needs no compiler.

The kernels know a network and its derivatives by the coordinates, and nothing of an equation.
Conditions, residual, loss and their adjoints act on one number per point and coefficient, where a
layer has one per feature besides. XLA does them, in the same compiled program, for any
problem and method. What is between the two passes, such as the largest residual of all
points that RBA divides by, is XLA's as well.

Adjoint of one layer
--------------------
The tanh of a hidden layer takes :math:`z`, :math:`z_a` and :math:`z_{aa}`, for each coordinate a,
to

.. math:: h = \tanh z, \qquad h_a = s z_a, \qquad h_{aa} = s z_{aa} - 2 h s z_a^2,
          \qquad s = 1 - h^2.

Let :math:`g, g_a, g_{aa}` be the derivatives of a scalar by :math:`h, h_a, h_{aa}`. With
:math:`dh = s\,dz` and :math:`ds = -2 h s\,dz`,

.. math::
    dh_a &= s\,dz_a - 2 h s z_a\,dz, \\
    dh_{aa} &= s\,dz_{aa} - 4 h s z_a\,dz_a - 2 h s z_{aa}\,dz - 2 s (s - 2 h^2) z_a^2\,dz.

Collected by :math:`dz`, :math:`dz_a` and :math:`dz_{aa}`, and with
:math:`-2 (s - 2 h^2) = 6 h^2 - 2`, the derivatives of the scalar are

.. math::
    \bar z &= s \Big[ g - 2 h \sum_a (g_a z_a + g_{aa} z_{aa})
              + (6 h^2 - 2) \sum_a g_{aa} z_a^2 \Big], \\
    \bar z_a &= s\,(g_a - 4 h z_a g_{aa}), \qquad \bar z_{aa} = s\,g_{aa}.

The linear map :math:`z = W h' + b` under it acts on all coefficients c alike, except that the bias
joins the value alone. Summed over the points,

.. math:: \bar W = \sum_c \bar z_c h_c'^\top, \qquad \bar b = \sum \bar z, \qquad
          \bar h_c' = W^\top \bar z_c.

Of the forward pass only :math:`h, z_a, z_{aa}` are needed: the first kernel stores them.

Precision
---------
Products run on tensor cores in float16. An operand is split into a high and a low part,
:math:`A = A_1 + A_2`, and :math:`A B \approx A_1 B_1 + A_1 B_2 + A_2 B_1` is summed in float32: 22
bits in all, where one part has 11. Everything else is float32. The same in bfloat16 has 16 bits.
Its gradients were up to 1.5e-4 off, and over 240 paired runs of Allen–Cahn the correlation of D
with the delivered log error was .993 instead of .997 (``results/training/fused.txt``).

Float16 reaches from 6e-8 to 65,504. So that numbers lie well inside, derivatives are taken by
coordinates in units of a quarter of the domain, and the derivatives by the outputs are scaled to
1,024 at most. All factors are powers of two, which round nothing.

A program sums over its tiles one after the other, and the sums of the programs are added in a
fixed order: the same batch gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from twoaxis.problems import compose
from twoaxis.training.network import Field, Layers, derivative_orders

Tree = Any

# Tensor cores take sixteen rows at least. The inputs have as many: the coordinates, a one for the
# bias, zeros. And there is a warp of 32 threads for every sixteen features.
ROWS = 16
# Tiles that a program works through: enough to load the weights once for many points, and few
# enough that a small batch fills the device.
TILES = range(7, 17)
# Exponents of two: of the parts of the domain that are units, and of the largest derivative by an
# output. In trained networks of the benchmarks hidden derivatives are then below 1,000, and those
# of the adjoint below 1,024.
PARTS, LARGEST = 2, 10


@dataclass(frozen=True)
class Series:
    """The coefficients that are carried: the value, then first and second by each coordinate.

    Parameters
    ----------
    orders : tuple of int
        Highest derivative, 1 or 2, by each of the coordinates that are differentiated by.
    axes : tuple of int
        Which coordinates these are.
    inputs : int
        Inputs of the network.
    raw : bool
        Whether these are the coordinates themselves.
    units : tuple of float
        Units of the coordinates that are differentiated by, powers of two.
    """

    orders: tuple[int, ...]
    axes: tuple[int, ...]
    inputs: int
    raw: bool
    units: tuple[float, ...]

    @property
    def count(self) -> int:
        """Number of coefficients."""
        return 1 + sum(self.orders)

    @property
    def places(self) -> list[tuple[int, int | None]]:
        """Where the first and the second derivative by each coordinate are.

        >>> Series((2, 1), (0, 1), 2, True, (1.0, 1.0)).places
        [(1, 2), (3, None)]
        """
        found, place = [], 1
        for order in self.orders:
            found.append((place, place + 1 if order == 2 else None))
            place += order
        return found

    @property
    def factors(self) -> list[float]:
        """Factors of the coefficients because of the units.

        >>> Series((2, 1), (0, 1), 2, True, (0.25, 0.5)).factors
        [1.0, 0.25, 0.0625, 0.5]
        """
        pairs = zip(self.orders, self.units, strict=True)
        return [1.0, *(unit**k for order, unit in pairs for k in range(1, order + 1))]


# ------------------------------------------------------------------ arithmetic of a tile

# A tile of one coefficient has the shape (features, points); a list holds one for each.
Tile = Any
Halves = tuple[Any, Any]


def split(tile: Tile) -> Halves:
    """Return two float16 tiles whose sum is `tile` to 22 bits."""
    high = tile.astype(jnp.float16)
    return high, (tile - high.astype(jnp.float32)).astype(jnp.float16)


def split_weight(weight: jax.Array) -> Halves:
    """Return the same of a weight, outside of a kernel.

    XLA may leave out a rounding that is undone at once; this one it keeps.
    """
    high = jax.lax.reduce_precision(weight, exponent_bits=5, mantissa_bits=10)
    return high.astype(jnp.float16), (weight - high).astype(jnp.float16)


def transposed(halves: Halves) -> Halves:
    """Return the transpose of a tile in two parts."""
    return halves[0].T, halves[1].T


def product(left: Halves, right: Halves, start: Any = 0.0) -> Tile:
    """Return `start` plus the matrix product, without low times low."""
    dot = partial(jnp.dot, preferred_element_type=jnp.float32, precision=jax.lax.Precision.DEFAULT)
    small = start + dot(left[0], right[1]) + dot(left[1], right[0])
    return small + dot(left[0], right[0])


def tanh(z: Tile) -> Tile:
    """Return the hyperbolic tangent by one exponential."""
    fading = jnp.exp(-2 * jnp.abs(z))
    size = (1 - fading) / (1 + fading)
    return jnp.where(z < 0, -size, size)


def activated(series: Series, stored: Sequence[Tile]) -> list[Tile]:
    """Return ``h, h_a, h_aa`` from ``h, z_a, z_aa``."""
    h = stored[0]
    s = 1 - h * h
    found = list(stored)
    for one, two in series.places:
        found[one] = s * stored[one]
        if two is not None:
            found[two] = s * (stored[two] - 2 * h * stored[one] * stored[one])
    return found


def activated_adjoint(series: Series, stored: Sequence[Tile], above: Sequence[Tile]) -> list[Tile]:
    """Return the derivatives by ``z, z_a, z_aa`` from those by ``h, h_a, h_aa``."""
    h = stored[0]
    s = 1 - h * h
    found = list(above)
    tilt: Any = 0.0
    bend: Any = 0.0
    for one, two in series.places:
        tilt = tilt + above[one] * stored[one]
        found[one] = s * above[one]
        if two is not None:
            steep = above[two] * stored[one]
            tilt = tilt + above[two] * stored[two]
            bend = bend + steep * stored[one]
            found[one] = s * (above[one] - 4 * h * steep)
            found[two] = s * above[two]
    found[0] = s * (above[0] - 2 * h * tilt + (6 * h * h - 2) * bend)
    return found


# ------------------------------------------------------------------ the first layer

# What the network reads at a tile of points: for each coefficient and input a row of numbers, a
# number that is the same at all points, or None for zeros.
Rows = list[list[Any]]


def rows_read(series: Series, inputs: Any, part: Any) -> Rows:
    """Return what the network reads at a part of the points."""
    numbers = range(series.inputs)
    given = range(1 if series.raw else series.count)
    rows: Rows = [[inputs[c, j, part][None, :] for j in numbers] for c in given]
    if series.raw:
        for axis, order, unit in zip(series.axes, series.orders, series.units, strict=True):
            rows.append([unit if j == axis else None for j in numbers])
            rows += [[None] * len(numbers)] * (order - 1)
    return rows


def first_layer(rows: Rows, weight: Any, values: Tile) -> list[Tile]:
    """Return ``h, z_a, z_aa`` of the first layer.

    The value comes from a product, few as its rows are: its result lies in the threads like those
    of all other layers.
    """
    found: list[Any] = [tanh(product(split(weight[...]), split(values)))]
    for row in rows[1:]:
        terms = [weight[:, j][:, None] * x for j, x in enumerate(row) if x is not None]
        found.append(sum(terms, 0.0))
    return found


def first_layer_gradient(rows: Rows, below: Sequence[Tile]) -> list[Any]:
    """Return the derivatives by each column of the first weight, then by the bias."""
    columns = []
    for j in range(len(rows[0])):
        pairs = [(g, row[j]) for g, row in zip(below, rows, strict=True)]
        columns.append(jnp.sum(sum(g * x for g, x in pairs if x is not None), axis=1))
    return [*columns, jnp.sum(below[0], axis=1)]


# ------------------------------------------------------------------ tiles in memory


def put(store: Any, number: Any, tiles: Sequence[Tile]) -> None:
    """Store a tile of all coefficients."""
    for c, tile in enumerate(tiles):
        sizes, order = _in_memory(tile.shape)
        store[number, c] = tile.reshape(sizes).transpose(order).reshape(-1)


def taken(store: Any, number: Any, shape: tuple[int, int]) -> list[Tile]:
    """Return a stored tile of all coefficients."""
    sizes, order = _in_memory(shape)
    back = sorted(range(len(order)), key=order.__getitem__)
    turned = [sizes[k] for k in order]
    flat = [store[number, c] for c in range(store.shape[1])]
    return [numbers.reshape(turned).transpose(back).reshape(shape) for numbers in flat]


def _in_memory(shape: tuple[int, int]) -> tuple[list[int], list[int]]:
    """Return sizes that factor a tile, and their order in memory.

    Tensor cores leave sixteen rows of a product to each warp: of every eight columns its thread
    (i, j), of 8 by 4, has the two from 2j in the rows i and i + 8. A tile is stored as it
    lies in the threads, four numbers of each together. So nothing is exchanged between
    threads when it comes back; in the order of rows and columns all of it would be.
    """
    rows, columns = shape
    #        warp        half  i  again         pair  j  neighbor
    sizes = [rows // ROWS, 2, 8, columns // 16, 2, 4, 2]
    return sizes, [1, 3, 0, 2, 5, 4, 6]


# ------------------------------------------------------------------ kernels

# A program has a slice of the points of one run. It gets references to its slice and to the
# weights, and writes into the last references that it gets.


def _forward_kernel(*refs: Any, series: Series, depth: int, points: int) -> None:
    """Carry the coefficients through all layers; store those of every layer but the first."""
    given = iter(refs)
    inputs, first = next(given), next(given)
    weights = [(next(given)[...], next(given)[...]) for _ in range(depth - 1)]
    biases = [next(given)[...] for _ in range(depth - 1)]
    last = next(given)[...]
    outputs, *stored = given

    def tile(number: Any, carry: Any) -> Any:
        part = pl.ds(number * points, points)
        here = first_layer(rows_read(series, inputs, part), first, inputs[0, :, part])
        for weight, bias, store in zip(weights, biases, stored, strict=True):
            here = [product(weight, split(h)) for h in activated(series, here)]
            here[0] = tanh(here[0] + bias)
            put(store, number, here)
        for c, h in enumerate(activated(series, here)):
            outputs[c, part] = jnp.sum(last * h, axis=0)
        return carry

    jax.lax.fori_loop(0, outputs.shape[1] // points, tile, 0)


def _adjoint_kernel(*refs: Any, series: Series, top: bool, bottom: bool, points: int) -> None:
    """Take the adjoint through one hidden layer.

    The layer at the top starts from the derivatives by the outputs, any other from those that the
    kernel above it left in memory. The one at the bottom goes on through the first layer,
    which it computes again from the inputs; any other leaves its derivatives in memory.
    """
    given = iter(refs)
    above = next(given)
    last = next(given)[...] if top else None
    stored = next(given)
    weight = next(given)[...], next(given)[...]
    under = [next(given) for _ in range(2 if bottom else 1)]
    results = list(given)
    shape = weight[0].shape[0], points

    def tile(number: Any, sums: list[Any]) -> list[Any]:
        part = pl.ds(number * points, points)
        here = taken(stored, number, shape)
        vectors = []
        if top:
            slopes = [above[c, part][None, :] for c in range(series.count)]
            seen = zip(slopes, activated(series, here), strict=True)
            vectors.append(jnp.sum(sum(g * h for g, h in seen), axis=1))
            adjoint = [last * g for g in slopes]
        else:
            adjoint = taken(above, number, shape)
        pushed = activated_adjoint(series, here, adjoint)
        vectors.append(jnp.sum(pushed[0], axis=1))
        if bottom:
            rows = rows_read(series, under[0], part)
            below = first_layer(rows, under[1], under[0][0, :, part])
        else:
            below = taken(under[0], number, shape)
        matrix, adjoint = sums[0], []
        for g, h in zip(pushed, activated(series, below), strict=True):
            halves = split(g)
            matrix = product(halves, transposed(split(h)), matrix)
            adjoint.append(product(weight, halves))
        if bottom:
            vectors += first_layer_gradient(rows, activated_adjoint(series, below, adjoint))
        else:
            put(results[-1], number, adjoint)
        return [matrix, *(total + new for total, new in zip(sums[1:], vectors, strict=True))]

    summed = results if bottom else results[:-1]
    zeros = [jnp.zeros(result.shape, jnp.float32) for result in summed]
    for result, total in zip(
        summed, jax.lax.fori_loop(0, stored.shape[0], tile, zeros), strict=True
    ):
        result[...] = total


# ------------------------------------------------------------------ kernels as functions of arrays


@dataclass(frozen=True)
class Sliced:
    """An array of which each program has its slice along one axis."""

    array: Any
    axis: int


@dataclass(frozen=True)
class Plan:
    """How the points of one run are divided.

    Parameters
    ----------
    series : Series
    width : int
        Features of the hidden layers.
    points : int
        Points in a tile.
    tiles : int
        Tiles of a program.
    interpret : bool
        Whether Python stands in for the GPU, for tests.
    """

    series: Series
    width: int
    points: int
    tiles: int
    interpret: bool

    @classmethod
    def of(cls, series: Series, width: int, count: int, interpret: bool) -> Plan:
        """Return the plan for `count` points, with as few as possible that only fill up."""
        # Wider tiles are faster as long as the registers hold them; measured on an H200.
        points = 32 if width == 64 and series.count <= 4 and series.raw else 16
        total = -(-count // points)
        return cls(series, width, points, min(TILES, key=lambda t: (-total % t, -t)), interpret)

    def filled(self, count: int) -> int:
        """Return the number of points that fill all programs."""
        each = self.points * self.tiles
        return -(-count // each) * each

    def stored(self, count: int) -> Sliced:
        """Return the form of the stored coefficients of one layer."""
        tile = self.width * self.points
        return Sliced(_form(count // self.points, self.series.count, tile), 0)

    def call(self, kernel: Any, count: int, given: Sequence[Any], results: Sequence[Any]) -> Any:
        """Run a kernel on `count` points of one run.

        Parameters
        ----------
        kernel : callable
        count : int
        given : sequence of arrays or Sliced
            Of an array, every program has all.
        results : sequence of forms or Sliced
            A form is that of one summand: every program has its own, and their sum comes back.
        """
        programs = count // (self.points * self.tiles)

        def spec(array: Any, own: bool = False) -> pl.BlockSpec:
            if isinstance(array, Sliced):
                shape = list(array.array.shape)
                shape[array.axis] //= programs
                place = [0] * len(shape)
                return pl.BlockSpec(
                    shape, lambda s: (*place[: array.axis], s, *place[array.axis + 1 :])
                )
            rest = (0,) * array.ndim
            if own:
                return pl.BlockSpec((None, *array.shape), lambda s: (s, *rest))
            return pl.BlockSpec(array.shape, lambda _: rest)

        arrays = [each.array if isinstance(each, Sliced) else each for each in given]
        forms = [
            each.array if isinstance(each, Sliced) else _form(programs, *each.shape)
            for each in results
        ]
        found = pl.pallas_call(
            partial(kernel, series=self.series, points=self.points),
            grid=(programs,),
            in_specs=[spec(each) for each in given],
            out_specs=[spec(each, own=True) for each in results],
            out_shape=forms,
            interpret=self.interpret,
            compiler_params=triton.CompilerParams(num_warps=self.width // ROWS, num_stages=1),
        )(*arrays)
        pairs = zip(found, results, strict=True)
        return [a if isinstance(each, Sliced) else a.sum(0) for a, each in pairs]


def _form(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def coefficients(plan: Plan, layers: Tree, inputs: jax.Array) -> jax.Array:
    """Return the coefficients of the network's output without its bias, by the units, (C, N).

    Parameters
    ----------
    plan : Plan
    layers : list of (weight, bias)
    inputs : array, shape (C or 1, 16, N)
        What the network reads, by coefficient; of raw coordinates the value alone.
    """
    return _forward(plan, layers, inputs)[0]


def _forward(plan: Plan, layers: Tree, inputs: jax.Array) -> tuple[jax.Array, Tree]:
    _, *hidden, (last, _) = layers
    count = inputs.shape[-1]
    outputs, *stored = plan.call(
        partial(_forward_kernel, depth=len(layers) - 1),
        count,
        [
            Sliced(inputs, 2),
            _with_bias(*layers[0]),
            *(half for weight, _ in hidden for half in split_weight(weight)),
            *(bias[:, None] for _, bias in hidden),
            last.T,
        ],
        [Sliced(_form(plan.series.count, count), 1), *[plan.stored(count)] * len(hidden)],
    )
    return outputs, (layers, inputs, stored)


def _adjoint(plan: Plan, kept: Tree, slopes: jax.Array) -> tuple[Tree, jax.Array]:
    layers, inputs, stored = kept
    last, last_bias = layers[-1]
    count, width = inputs.shape[-1], plan.width
    scale = _scale(slopes)
    above = Sliced(scale * slopes, 1)
    found: list[tuple[Any, Any]] = []
    for number in range(len(stored), 0, -1):
        top, bottom = number == len(stored), number == 1
        first = [Sliced(inputs, 2), _with_bias(*layers[0])]
        by_weight, *rest = plan.call(
            partial(_adjoint_kernel, top=top, bottom=bottom),
            count,
            [
                above,
                *([last.T] if top else []),
                Sliced(stored[number - 1], 0),
                *split_weight(layers[number][0].T),
                *(first if bottom else [Sliced(stored[number - 2], 0)]),
            ],
            [
                _form(width, width),
                *[_form(width)] * (1 + top + (plan.series.inputs + 1) * bottom),
                *([] if bottom else [plan.stored(count)]),
            ],
        )
        if top:
            found.append((rest.pop(0)[None, :], jnp.zeros_like(last_bias)))
        found.append((by_weight, rest.pop(0)))
        if bottom:
            found.append((jnp.stack(rest[:-1], axis=1), rest[-1]))
        else:
            above = Sliced(rest[0], 0)
    # Inputs stay the same while a run trains: nobody asks for the derivatives by them.
    by_layers = jax.tree.map(lambda gradient: gradient / scale, found[::-1])
    return by_layers, jnp.zeros_like(inputs)


def _scale(slopes: jax.Array) -> jax.Array:
    """Return the power of two that takes the largest slope of a run to between 512 and 1,024."""
    largest = jnp.max(jnp.abs(slopes))
    _, exponent = jnp.frexp(jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1.0))
    return jnp.ldexp(jnp.float32(1), LARGEST - exponent)


coefficients.defvjp(_forward, _adjoint)


def _with_bias(weight: jax.Array, bias: jax.Array) -> jax.Array:
    """Return the first weight with the bias as one more column, filled up with zeros."""
    columns = jnp.column_stack([weight, bias])
    return jnp.pad(columns, ((0, 0), (0, ROWS - columns.shape[1])))


# ------------------------------------------------------------------ the field of a run


def fused_field(domain: Mapping[str, tuple[float, float]], interpret: bool = False) -> Field:
    """Return functions like `network.field_value` and `network.field_derivatives`.

    Parameters
    ----------
    domain : mapping of str to (float, float)
        The range of every coordinate.
    interpret : bool
        Whether Python stands in for the GPU, for tests.
    """
    units = {axis: unit_of(low, high) for axis, (low, high) in domain.items()}
    return Field(
        partial(_field_value, units=units, interpret=interpret),
        partial(_field_derivatives, units=units, interpret=interpret),
    )


def unit_of(low: float, high: float) -> float:
    """Return the power of two that is next to a quarter of a range.

    >>> unit_of(-1.0, 1.0)
    0.5
    """
    return float(2.0 ** (round(math.log2(high - low)) - PARTS))


def _field_value(
    layers: Layers, arrays: dict[str, Any], xp: Any, units: Mapping[str, float], interpret: bool
) -> Any:
    raw = {"inputs": arrays["inputs"]}
    network = _field_derivatives(layers, raw, (), ("u",), xp, units, interpret)["u"]
    if "lift" not in arrays:
        return network
    return arrays["lift"]["u"] + arrays["factor"]["u"] * network


def _field_derivatives(
    layers: Layers,
    arrays: dict[str, Any],
    axes: Sequence[str],
    requested: Sequence[str],
    xp: Any,
    units: Mapping[str, float],
    interpret: bool,
) -> dict[str, Any]:
    orders = derivative_orders(requested, axes)
    numbers = tuple(list(axes).index(axis) for axis in orders)
    raw = "lift" not in arrays
    width, read = layers[0][0].shape
    count = arrays["inputs"].shape[1]
    own = tuple(units[axis] for axis in orders)
    series = Series(tuple(orders.values()), numbers, read, raw, own)
    plan = Plan.of(series, width, count, interpret)
    names, inputs = ["u"], [arrays["inputs"]]
    for axis, number in zip(orders, numbers, strict=True):
        names += [f"u_{axis}", f"u_{axis}{axis}"][: orders[axis]]
        if not raw:
            inputs += [arrays["first"][number], arrays["second"][number]][: orders[axis]]
    more = (0, 0), (0, ROWS - read), (0, plan.filled(count) - count)
    factors = xp.asarray(series.factors, layers[0][0].dtype)
    scaled = xp.stack(inputs) * factors[: len(inputs), None, None]
    filled = xp.pad(scaled, more).at[0, read].set(1)
    outputs = coefficients(plan, layers, filled)[:, :count] / factors[:, None]
    found = dict(zip(names, outputs, strict=True))
    found["u"] = found["u"] + layers[-1][1][0]
    network = {name: found[name] for name in requested}
    return network if raw else compose(network, arrays["lift"], arrays["factor"])
