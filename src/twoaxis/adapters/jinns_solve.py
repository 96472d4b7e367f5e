"""jinns: ``jinns.solve`` in pieces, with a follower between them."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from twoaxis.adapters.foreign import foreign
from twoaxis.diagnosis import Follower
from twoaxis.errors import InputError

# Outputs of jinns.solve that hold a value for each iteration.
RECORDED = (1, 2, 6, 7)


def jinns_solve(
    follower: Follower, *, n_iter: int, stop: bool = False, **arguments: Any
) -> tuple[Any, ...]:
    """Train with ``jinns.solve`` in pieces, and call a follower between them.

    jinns compiles every call of ``solve`` anew. A piece has the `every` steps of the follower, or
    as many as it takes to keep compiling and measuring within its share of the time.

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
    In place of ``jinns.solve(n_iter=50000, init_params=start, ...)``::

        trained, losses, *_ = ta.jinns_solve(follower, n_iter=50000, init_params=start, ...)
    """
    jinns = foreign("jinns", "jinns", "twoaxis.jinns_solve")
    jax = foreign("jax", "jinns", "twoaxis.jinns_solve")
    if arguments.get("validation") is not None:
        raise InputError(
            "a training without validation",
            "validation=...",
            "leave it out, or call jinns.solve itself and follow it afterwards",
        )
    options = {"verbose": False, **arguments}
    # One iteration is a compilation, and gives the time of one.
    pieces, done, size, overhead = [], 0, 1, 0.0
    while done < n_iter:
        size = min(size, n_iter - done)
        if options.get("key") is not None:
            options["key"], own = jax.random.split(options["key"])
        else:
            own = None
        began = time.perf_counter()
        outputs = jinns.solve(n_iter=size, **{**options, "key": own})
        jax.block_until_ready(outputs[0])
        seconds = time.perf_counter() - began
        pieces.append(outputs)
        done += size
        options |= {
            "init_params": outputs[0],
            "data": outputs[3],
            "loss": outputs[4],
            "opt_state": outputs[5],
            "obs_data": outputs[8],
            "param_data": outputs[9],
        }
        if size == 1:
            overhead, size = seconds, follower.every
        else:
            pace = max(seconds - overhead, 1e-3 * seconds) / size
            follower.charge(min(overhead, seconds))
            row = follower.measure(done, outputs[4], outputs[0], outputs[3], outputs[8])
            needed = (overhead + row.seconds) * (1 / follower.max_share - 1) / pace
            size = max(follower.every, math.ceil(needed))
            if follower.finished and stop:
                break
    return tuple(
        _joined(jax, [piece[n] for piece in pieces]) if n in RECORDED else last
        for n, last in enumerate(pieces[-1])
    )


def _joined(jax: Any, records: list[Any]) -> Any:
    """Return the records of all pieces, one after another."""
    return jax.tree.map(lambda *parts: np.concatenate(parts), *records)
