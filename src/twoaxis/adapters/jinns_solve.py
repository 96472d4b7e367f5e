"""jinns: ``jinns.solve`` in pieces, with a follower between them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from twoaxis.adapters.foreign import foreign
from twoaxis.diagnosis import Follower
from twoaxis.errors import InputError

# Outputs of jinns.solve that hold a value for each iteration.
RECORDED = (1, 2, 6, 7)
# Outputs that the next piece begins with, by the names of the arguments.
CARRIED = {
    "init_params": 0,
    "data": 3,
    "loss": 4,
    "opt_state": 5,
    "obs_data": 8,
    "param_data": 9,
}


def jinns_solve(
    follower: Follower, *, n_iter: int, stop: bool = False, **arguments: Any
) -> tuple[Any, ...]:
    """Train with ``jinns.solve`` in pieces, and call a follower between them.

    A piece has the `every` steps of the follower. All pieces are one compiled program, as the
    whole training would be; only a last piece of fewer steps is compiled again.

    Parameters
    ----------
    follower : Follower
        ``ta.Follower(lambda loss, params, data, observed: ta.from_jinns(loss, params, known,
        points=data, observed=observed))``.
    n_iter : int
        Iterations of all pieces together.
    stop : bool
        End the training when the follower has finished.
    **arguments
        Of ``jinns.solve``. It is not verbose by default. `validation` is not possible: its state
        would begin again with every piece, as the schedule of RAR does.

    Returns
    -------
    tuple
        The outputs of ``jinns.solve``, with the records of all pieces.

    Examples
    --------
    With the loss and the data of `twoaxis.from_jinns`'s example::

        follower = ta.Follower(
            lambda loss, params, data, observed: ta.from_jinns(loss, params, known, points=data),
            every=10,
            max_share=1.0,
        )
        trained, losses, *_ = ta.jinns_solve(
            follower, n_iter=30, init_params=start, data=data, loss=loss, optimizer=optax.adam(1e-3)
        )
        print(losses.shape, follower.summary().index.get_level_values("step").tolist())

    This prints:

    .. code-block:: text

        (30,) [10, 20, 30]
    """
    jinns = foreign("jinns", "jinns", "twoaxis.jinns_solve")
    jax = foreign("jax", "jinns", "twoaxis.jinns_solve")
    if arguments.get("validation") is not None:
        raise InputError(
            "a training without validation",
            "validation=...",
            "leave it out, or call jinns.solve itself and follow it afterwards",
        )
    key, state = arguments.pop("key", None), {n: arguments.pop(n, None) for n in CARRIED}
    # As the first piece returns it, or the second one would be compiled for other types.
    state["init_params"] = jax.tree.map(partial(_strong, jax), state["init_params"])
    if state["opt_state"] is None:
        state["opt_state"] = arguments["optimizer"].init(state["init_params"])
    fixed = {"verbose": False, **arguments, "ahead_of_time": False}

    def solve(size: int, state: Any, key: Any) -> Any:
        return jinns.solve(n_iter=size, key=key, **fixed, **state)

    # With observations on another device, jinns runs a loop of Python that cannot be compiled.
    if arguments.get("obs_batch_sharding") is None:
        solve = jax.jit(solve, static_argnums=0)
    follower.steps = n_iter if follower.steps is None else follower.steps
    pieces, done = [], 0
    while done < n_iter:
        size, own = min(follower.every, n_iter - done), None
        if key is not None:
            key, own = jax.random.split(key)
        outputs = jax.block_until_ready(solve(size, state, own))
        pieces.append(outputs)
        done += size
        state = {name: outputs[place] for name, place in CARRIED.items()}
        now = (outputs[4], outputs[0], outputs[3], outputs[8])
        if follower(done, *now) and stop:
            break
        if done == n_iter:
            follower.measure(done, *now)
    return tuple(
        _joined(jax, [piece[n] for piece in pieces]) if n in RECORDED else last
        for n, last in enumerate(pieces[-1])
    )


def _strong(jax: Any, leaf: Any) -> Any:
    """Return an array whose type no longer gives way to others, as that of jnp.array(0.1) does."""
    weak = isinstance(leaf, jax.Array) and leaf.weak_type
    return jax.numpy.asarray(np.asarray(leaf)) if weak else leaf


def _joined(jax: Any, records: list[Any]) -> Any:
    """Return the records of all pieces, one after another."""
    return jax.tree.map(lambda *parts: np.concatenate(parts), *records)
