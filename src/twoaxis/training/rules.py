r"""The rules of a training method: weights of residual points or modes, and shared gradients.

*Gradient rules* say how the gradient of the data term and that of the residual term share the
network. A rule takes the two gradients by the network's weights, as trees of arrays of equal
shapes, and returns the one that the optimizer sees. The physical parameters take the plain
gradient of the residual term under every rule: the data depend on them through the field alone.
With :math:`g_d \cdot g_r < 0` the two are in *conflict*, and a projection removes from one the
part that undoes the other, :math:`g_d - (g_d \cdot g_r)\, g_r / |g_r|^2`.

*Weight rules* say how much each residual point, or each residual mode, counts at a step. A rule
keeps a dictionary of weights per run, which starts from ``initial`` and is updated before every
evaluation of the loss. Two names mean something to the loss: ``"points"`` multiplies the residual
values, ``"modes"`` the squared coefficients of the view's eigenvectors. Weights are constants for
the gradient: no rule is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import jax
import jax.numpy as jnp

from twoaxis.arrays import is_real
from twoaxis.errors import InputError

Gradient = Any  # a pytree of arrays


class GradientRule(Protocol):
    """The interface of a gradient rule.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> class Half:
    ...     def combine(self, data, residual):
    ...         return jax.tree.map(lambda d, r: d + 0.5 * r, data, residual)
    >>> data, residual = {"w": jnp.array([1.0, 0.0])}, {"w": jnp.array([-1.0, 1.0])}
    >>> Half().combine(data, residual)["w"].tolist()
    [0.5, 0.5]
    """

    def combine(self, data: Gradient, residual: Gradient) -> Gradient:
        """Return the gradient that the optimizer sees."""
        ...


@final
@dataclass(frozen=True)
class Add:
    """The plain gradient of the joint loss.

    Examples
    --------
    >>> from twoaxis.training.rules import Add
    >>> Add()
    Add()
    """

    def combine(self, data: Gradient, residual: Gradient) -> Gradient:
        """Return ``g_d + g_r``."""
        return jax.tree.map(jnp.add, data, residual)


@final
@dataclass(frozen=True)
class ProjectBoth:
    """Where the two are in conflict, each loses the part that undoes the other (PCGrad).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from twoaxis.training.rules import ProjectBoth
    >>> data, residual = {"w": jnp.array([1.0, 0.0])}, {"w": jnp.array([-1.0, 1.0])}
    >>> ProjectBoth().combine(data, residual)["w"].tolist()
    [0.5, 1.5]
    """

    def combine(self, data: Gradient, residual: Gradient) -> Gradient:
        """Return the sum of both projections; each uses the other as it came."""
        return Add().combine(without_conflict(data, residual), without_conflict(residual, data))


@final
@dataclass(frozen=True)
class ProjectResidual:
    """Where the two are in conflict, the residual yields; what remains of it is scaled.

    Parameters
    ----------
    scale : float
        Factor of the residual's gradient by the network's weights.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from twoaxis.training.rules import ProjectResidual
    >>> data, residual = {"w": jnp.array([1.0, 0.0])}, {"w": jnp.array([-1.0, 1.0])}
    >>> ProjectResidual(scale=0.5).combine(data, residual)["w"].tolist()
    [1.0, 0.5]
    """

    scale: float = 0.5

    def __post_init__(self) -> None:
        if not (is_real(self.scale) and 0 <= self.scale < float("inf")):
            raise InputError(
                "a scale of at least 0", f"scale={self.scale!r}", "the study has scale=0.5"
            )

    def combine(self, data: Gradient, residual: Gradient) -> Gradient:
        """Return ``g_d + scale * (g_r, projected where it conflicts with g_d)``."""
        kept = without_conflict(residual, data)
        return jax.tree.map(lambda d, r: d + self.scale * r, data, kept)


def without_conflict(gradient: Gradient, other: Gradient) -> Gradient:
    """Return `gradient`, projected on the plane normal to `other` where they conflict."""
    product = _dot(gradient, other)
    # Without the guard, a gradient of exactly zero would give 0 / 0.
    squared = _dot(other, other)
    share = jnp.where(product < 0, product / jnp.where(squared > 0, squared, 1), 0)
    return jax.tree.map(lambda g, o: g - share * o, gradient, other)


def _dot(left: Gradient, right: Gradient) -> jax.Array:
    products = jax.tree.map(lambda a, b: jnp.sum(a * b), left, right)
    return jnp.asarray(sum(jax.tree.leaves(products)))


Weights = dict[str, jax.Array]


@dataclass(frozen=True)
class Moment:
    """What a weight rule may look at, at one step of one run.

    Attributes
    ----------
    residual : array, shape (N,)
    sensitivity : callable
        ``sensitivity()``: derivatives of the residual by the coordinates of the parameters,
        shape (N, d). Costs about as much as the residual itself.
    modes : array, shape (m, N), or None
        Rows ``sqrt(lambda_k) v_k`` of the view, where the rule asked for them.
    step : int
        Steps done before this one; the same for all runs of a batch.
    steps : int
        Steps in all.
    warmup : int
        The step at which the parameters begin to move.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from twoaxis.training.rules import Attention, Moment
    >>> moment = Moment(
    ...     residual=jnp.array([0.25, -0.5]),
    ...     sensitivity=lambda: jnp.ones((2, 1)),
    ...     modes=None,
    ...     step=jnp.array(0),
    ...     steps=100,
    ...     warmup=0,
    ... )
    >>> rule = Attention(decay=0.5, increment=0.5)
    >>> rule.update(rule.initial(2, 0), moment)["points"].tolist()
    [0.25, 0.5]
    """

    residual: jax.Array
    sensitivity: Callable[[], jax.Array]
    modes: jax.Array | None
    step: jax.Array
    steps: int
    warmup: int


class WeightRule(Protocol):
    """The interface of a weight rule.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> class Late:
    ...     needs_modes = False  # the second half of the points counts twice
    ...
    ...     def initial(self, points, modes):
    ...         return {"points": jnp.where(jnp.arange(points) < points // 2, 1.0, 2.0**0.5)}
    ...
    ...     def update(self, weights, moment):
    ...         return weights
    >>> (Late().initial(4, 0)["points"] ** 2).round(3).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """

    @property
    def needs_modes(self) -> bool:
        """Whether the view must be handed over as its eigenvectors."""
        ...

    def initial(self, points: int, modes: int) -> Weights:
        """Return the weights before the first step, for so many points and modes."""
        ...

    def update(self, weights: Weights, moment: Moment) -> Weights:
        """Return the weights of the loss that is evaluated at this step."""
        ...


@final
@dataclass(frozen=True)
class Uniform:
    """Every point counts alike, always.

    Examples
    --------
    >>> from twoaxis.training.rules import Uniform
    >>> Uniform()
    Uniform(needs_modes=False)
    """

    needs_modes: bool = False

    def initial(self, points: int, modes: int) -> Weights:  # noqa: ARG002
        """Return no weights."""
        return {}

    def update(self, weights: Weights, moment: Moment) -> Weights:  # noqa: ARG002
        """Return them as they are."""
        return weights


@final
@dataclass(frozen=True)
class Attention:
    r"""Points gain weight where the residual stays large (residual-based attention).

    .. math:: w \leftarrow \gamma w + \eta\,|r| / \max|r|, \qquad \text{loss} = |w r|^2 / N

    Parameters
    ----------
    decay : float
        gamma.
    increment : float
        eta. Weights start from zero and end between 0 and ``increment / (1 - decay)``.

    Examples
    --------
    >>> from twoaxis.training.rules import Attention
    >>> Attention(decay=0.999, increment=0.001)
    Attention(decay=0.999, increment=0.001, needs_modes=False)
    """

    decay: float = 0.999
    increment: float = 0.001
    needs_modes: bool = False

    def __post_init__(self) -> None:
        numbers = is_real(self.decay) and is_real(self.increment)
        if not (numbers and 0 <= self.decay < 1 and 0 < self.increment < float("inf")):
            raise InputError(
                "a decay from 0 to below 1 and an increment above 0",
                f"decay={self.decay!r}, increment={self.increment!r}",
                "the study has decay=0.999, increment=0.001",
            )

    def initial(self, points: int, modes: int) -> Weights:  # noqa: ARG002
        """Return zeros."""
        return {"points": jnp.zeros(points)}

    def update(self, weights: Weights, moment: Moment) -> Weights:
        """Let the old weights fade and add the residual relative to its largest value."""
        size = jnp.abs(moment.residual)
        largest = jnp.max(size)
        relative = size / jnp.where(largest > 0, largest, 1)
        return {"points": self.decay * weights["points"] + self.increment * relative}


@final
@dataclass(frozen=True)
class RetainStrength:
    r"""Keep the leading modes of the view that hold a share of the parameter strength.

    When the parameters begin to move, the smallest number of leading modes is chosen for which

    .. math:: \sum_{k \le R} \lambda_k j_k^2 \ge \text{share} \cdot H_M, \qquad
              j_k = v_k^\top J,

    and the others are dropped for good. Until then all modes count. For several parameters the
    strengths are added, in their coordinates.

    Parameters
    ----------
    share : float
        Of the strength, between 0 and 1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from twoaxis.training.rules import Moment, RetainStrength
    >>> moment = Moment(
    ...     residual=jnp.zeros(3),
    ...     sensitivity=lambda: jnp.ones((3, 1)),
    ...     modes=jnp.diag(jnp.array([2.0, 1.0, 0.1])),
    ...     step=jnp.array(0),
    ...     steps=100,
    ...     warmup=0,
    ... )
    >>> rule = RetainStrength(share=0.9)
    >>> rule.update(rule.initial(3, 3), moment)["modes"].tolist()  # the last mode is dropped
    [1.0, 1.0, 0.0]
    """

    share: float = 0.9
    needs_modes: bool = True

    def __post_init__(self) -> None:
        if not (is_real(self.share) and 0 < self.share <= 1):
            raise InputError(
                "a share of the strength above 0 and up to 1",
                f"share={self.share!r}",
                "pass share=0.9 for nine tenths",
            )

    def initial(self, points: int, modes: int) -> Weights:  # noqa: ARG002
        """Return all modes."""
        return {"modes": jnp.ones(modes)}

    def update(self, weights: Weights, moment: Moment) -> Weights:
        """Choose the modes at one step, and keep the choice at every other."""
        modes = weights["modes"]

        def choose() -> jax.Array:
            assert moment.modes is not None
            strength = jnp.sum((moment.modes @ moment.sensitivity()) ** 2, axis=1)
            before = jnp.cumsum(strength) - strength
            kept = before < self.share * jnp.sum(strength)
            # Without any strength there is nothing to choose by; a view must see something.
            return kept.at[0].set(True).astype(modes.dtype)

        return {"modes": jax.lax.cond(moment.step == moment.warmup, choose, lambda: modes)}
