"""Training on a JAX device of this process: the runs of a batch side by side under ``vmap``."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, final

import jax
import numpy as np

from twoaxis.training.loop import build_advance, build_step
from twoaxis.training.methods import METHODS
from twoaxis.training.network import PLAIN, Field
from twoaxis.training.settings import Settings

Tree = Any
# "xla" leaves the network to XLA; "fused" has kernels for it.
Program = Literal["xla", "fused"]
Advance = Callable[[Tree, Tree, Any, Any], Tree]

# Arrays of (width, points) that one layer leaves for the backward pass, for each coefficient of
# the Taylor series: compiled programs report 2.2 of them on a CPU. Twice as many, to be safe.
ARRAYS_PER_COEFFICIENT = 4.4
# Jacobians by all weights that a second-order step holds at once, their products included.
JACOBIANS = 6
# Share of the memory that a batch may take.
SHARE = 0.6
# Networks that the fused kernels were written for, and the GPUs that they were measured on: Hopper.
WIDTHS = (32, 64, 128)
DEPTHS = (3, 4)
COMPUTE_CAPABILITIES = ("9.0",)
# Coordinates that float16 holds.
FARTHEST = 1000.0


@final
class JaxDevice:
    """One JAX device of this process, with all its cores.

    The runs of a batch go side by side. Where they do not fit into the memory of an accelerator,
    they are trained in parts of equal size.

    Parameters
    ----------
    device : jax.Device
    fused : bool
        Whether the fused program may serve; see `program`.
    """

    def __init__(self, device: jax.Device, fused: bool = False) -> None:
        self.device, self._fused = device, fused
        # By the identity of the settings, which are kept so that it stays unique.
        self._programs: dict[tuple[int, bool], tuple[Settings, Advance]] = {}

    @contextmanager
    def session(self, settings: Settings, data: list[Tree]) -> Iterator[_Session]:
        """Put the data on the device; the program is compiled when it first runs."""
        with jax.enable_x64(settings.precision == "float64"), jax.default_device(self.device):
            size = self._size(settings, data)
            yield _Session(self._program(settings, size == 1), data, self.device, size)

    def program(self, settings: Settings) -> Program:
        """Return which program trains: the fused one on GPUs and in cases that it was written for.

        These are Adam's steps in float32, with networks of 3 or 4 hidden layers of 32, 64 or 128,
        that read coordinates up to 1,000 and no variables of a layer, whose derivatives float16
        may not hold.
        """
        network, ends = settings.network, np.array(list(settings.problem.domain.values()))
        supported = (
            self.device.platform == "gpu"
            and getattr(self.device, "compute_capability", "") in COMPUTE_CAPABILITIES
            and settings.precision == "float32"
            and settings.method.recipe().continuation is None
            and settings.conditions != "layered"
            and np.abs(ends).max() <= FARTHEST
            and network.width in WIDTHS
            and network.depth in DEPTHS
        )
        return "fused" if self._fused and supported else "xla"

    def _size(self, settings: Settings, data: list[Tree]) -> int:
        if self.device.platform == "cpu":
            return len(data)
        most = max(1, int(SHARE * _memory(self.device) / run_bytes(settings, data[0])))
        # Equal parts, so that one compilation serves all of them.
        parts = math.ceil(len(data) / most)
        return math.ceil(len(data) / parts)

    def _program(self, settings: Settings, alone: bool) -> Advance:
        # A built-in method never changes, so its program serves later calls too. Another one is
        # compiled once for each settings object, which all batches of a call share.
        how = settings, alone, self.device.platform, self.program(settings)
        if type(settings.method) in BUILT_IN and _hashable(settings.method):
            return _shared(*how)
        key = id(settings), alone
        if key not in self._programs:
            self._programs[key] = settings, _compiled(*how)
        return self._programs[key][1]


@final
class _Session:
    """A program, and the data of the runs in parts of equal size on the device."""

    def __init__(self, program: Advance, data: list[Tree], device: jax.Device, size: int) -> None:
        self._advance, self._runs, self._size = program, len(data), size
        self._parts = [
            jax.device_put(stack([data[run] for run in part]), device) for part in self._indices()
        ]
        # The state that was returned last, and its parts on the device.
        self._last: tuple[Tree, list[Tree]] = None, []

    def _indices(self) -> list[list[int]]:
        """Runs of each part; the last part is filled up with its own last run."""
        starts = range(0, self._runs, self._size)
        return [[min(s + i, self._runs - 1) for i in range(self._size)] for s in starts]

    def advance(self, state: Tree, start: int, steps: int) -> Tree:
        """Advance part after part."""
        numbers = np.int32(start), np.int32(steps)
        pairs = zip(self._chosen(state), self._parts, strict=True)
        done = [self._advance(chosen, data, *numbers) for chosen, data in pairs]
        parts = jax.device_get(done)
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves)[: self._runs], *parts)
        self._last = joined, done
        return joined

    def _chosen(self, state: Tree) -> list[Tree]:
        """Return the parts of a state; one that goes on is still on the device."""
        if state is self._last[0]:
            return self._last[1]
        return [
            jax.tree.map(lambda leaf, runs=runs: leaf[np.array(runs)], state)
            for runs in self._indices()
        ]


def side_by_side(settings: Settings, alone: bool, field: Field = PLAIN) -> Advance:
    """Return the loop for trees whose first axis counts the runs; `alone` if that is one run."""
    step = build_step(settings, field)
    # A batched product of one matrix is slower on a CPU than the plain one, by half.
    return _alone(build_advance(step)) if alone else build_advance(jax.vmap(step, (None, 0, 0)))


def _compiled(settings: Settings, alone: bool, platform: str, program: Program) -> Advance:
    advance = side_by_side(settings, alone, _field(settings, program))
    compiled: Advance = jax.jit(advance, compiler_options=_options(platform))
    return compiled


def _field(settings: Settings, program: Program) -> Field:
    if program == "xla":
        return PLAIN
    # At call time: only a GPU needs the language of the kernels.
    from twoaxis.training.fused import fused_field

    return fused_field(settings.problem.domain)


# The next batch with equal settings and shapes need not be compiled again.
_shared = lru_cache(maxsize=64)(_compiled)
BUILT_IN = {type(method) for method in METHODS.values()}


def _hashable(method: Any) -> bool:
    """Whether the options can be looked up: a list of cells, for one, cannot."""
    try:
        hash(method)
    except TypeError:
        return False
    return True


def _alone(advance: Advance) -> Advance:
    """Return the program of one run for trees whose first axis counts one."""

    def advance_one(state: Tree, data: Tree, start: Any, steps: Any) -> Tree:
        state, data = jax.tree.map(lambda leaf: leaf[0], (state, data))
        return jax.tree.map(lambda leaf: leaf[None], advance(state, data, start, steps))

    return advance_one


def stack(trees: list[Tree]) -> Tree:
    """Return trees of arrays as one tree with a leading axis of runs."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def run_bytes(settings: Settings, data: Tree) -> int:
    """Estimate the device memory of one run, activations and data together."""
    coefficients = len(settings.problem.derivatives)
    layer = settings.network.width * settings.residual_points * coefficients
    itemsize = np.dtype(settings.precision).itemsize
    activations = ARRAYS_PER_COEFFICIENT * settings.network.depth * layer * itemsize
    if settings.method.recipe().continuation is not None:
        weights = settings.network.parameter_count(settings.inputs)
        activations += JACOBIANS * settings.residual_points * weights * itemsize
    return int(activations) + int(sum(leaf.nbytes for leaf in jax.tree.leaves(data)))


def _memory(device: jax.Device) -> int:
    """Return the memory of the device, in bytes."""
    statistics = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        return int(statistics["bytes_limit"])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _options(platform: str) -> dict[str, bool] | None:
    # Without it two processes may choose different products, and a resumed training would
    # leave the path of the undisturbed one.
    return {"xla_gpu_deterministic_ops": True} if platform == "gpu" else None
