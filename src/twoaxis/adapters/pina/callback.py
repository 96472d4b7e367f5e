"""PINA: a follower as a callback of Lightning, for any trainer."""

from __future__ import annotations

import math
from typing import Any

from twoaxis.adapters.foreign import foreign
from twoaxis.diagnosis import Follower


def lightning_callback(follower: Follower, *, stop: bool = False) -> Any:
    """Return a Lightning ``Callback`` that calls a follower after every batch.

    Where PINA refines its points, those in use are followed.

    Parameters
    ----------
    follower : Follower
        Of the solver, as in ``ta.Follower(lambda: ta.from_pina(solver))``.
    stop : bool
        End the training when the follower has finished.

    Returns
    -------
    lightning.pytorch.Callback

    Examples
    --------
    With the solver of `twoaxis.from_pina`'s example::

        follower = ta.Follower(lambda: ta.from_pina(solver), every=1, max_share=1.0)
        Trainer(solver, max_epochs=3, callbacks=[ta.lightning_callback(follower)]).train()
        print(follower.summary().index.get_level_values("step").tolist())

    This prints:

    .. code-block:: text

        [1, 2, 3]
    """
    lightning: Any = foreign("lightning.pytorch", "pina", "twoaxis.lightning_callback")

    class Following(lightning.Callback):  # type: ignore[misc]
        """Calls the follower."""

        def on_train_start(self, trainer: Any, *_: Any) -> None:
            whole = trainer.estimated_stepping_batches
            if follower.steps is None and math.isfinite(whole):
                follower.steps = int(whole)

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if follower(int(trainer.global_step)) and stop:
                trainer.should_stop = True

        def on_train_end(self, trainer: Any, *_: Any) -> None:
            follower.measure(int(trainer.global_step))

    return Following()
