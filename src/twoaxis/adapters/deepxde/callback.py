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
    >>> import os
    >>> os.environ["DDE_BACKEND"] = "pytorch"
    >>> import deepxde as dde, numpy as np, twoaxis as ta
    >>> rate = dde.Variable(2.0)
    >>> def decay(t, u):
    ...     return dde.grad.jacobian(u, t) + rate * u
    >>> start = dde.icbc.PointSetBC(np.zeros((1, 1)), np.ones((1, 1)))
    >>> data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), decay, [start], num_domain=20)
    >>> model = dde.Model(data, dde.nn.FNN([1, 8, 1], "tanh", "Glorot normal"))
    >>> model.compile("adam", lr=1e-3, external_trainable_variables=[rate], verbose=0)
    >>> parameters = {"rate": (rate, ta.Parameter(bounds=(0.1, 10)))}
    >>> follower = ta.Follower(
    ...     lambda: ta.from_deepxde(model, parameters), every=10, max_share=1.0, progress=False
    ... )
    >>> _ = model.train(iterations=30, callbacks=[ta.deepxde_callback(follower)], verbose=0)
    >>> follower.summary().index.get_level_values("step").tolist()
    [1, 11, 21, 30]
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
