"""DeepXDE: a follower as a callback of ``model.train``."""

from __future__ import annotations

import sys
from typing import Any

from twoaxis.adapters.foreign import foreign
from twoaxis.diagnosis import Follower


def deepxde_callback(follower: Follower, *, stop: bool = False) -> Any:
    """Return a ``deepxde.callbacks.Callback`` that calls a follower after every step.

    Where a ``PDEPointResampler`` draws new points, those in use are followed.

    Parameters
    ----------
    follower : Follower
        Of the model, as in ``ta.Follower(lambda: ta.from_deepxde(model, parameters))``.
    stop : bool
        End the training when the follower has finished.

    Returns
    -------
    deepxde.callbacks.Callback

    Examples
    --------
    After ``model.compile("adam", lr=1e-3, external_trainable_variables=[C])``::

        parameters = {"C": (C, ta.Parameter(bounds=(0.1, 10)))}
        follower = ta.Follower(lambda: ta.from_deepxde(model, parameters))
        model.train(iterations=20000, callbacks=[ta.deepxde_callback(follower)])
        follower.plot()
    """
    # Whoever has a model has imported the library; importing it here would choose a backend.
    dde: Any = sys.modules.get("deepxde")
    if dde is None:
        dde = foreign("deepxde", "deepxde", "twoaxis.deepxde_callback")

    class Following(dde.callbacks.Callback):  # type: ignore[misc]
        """Calls the follower."""

        def on_epoch_end(self) -> None:
            if follower(int(self.model.train_state.step)) and stop:
                self.model.stop_training = True

        def on_train_end(self) -> None:
            follower.measure(int(self.model.train_state.step))

    return Following()
