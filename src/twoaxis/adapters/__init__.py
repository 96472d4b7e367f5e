"""Models trained elsewhere, as frozen residuals: one foreign library per file or folder.

Every adapter returns the same `twoaxis.FrozenResidual` that the built-in engine returns, so that
everything downstream is one code path, and all take their arguments in the same order: the model
(and its residual function, where the library does not keep one), `parameters`, `view`, then
keywords: `points`, `transform`, `loss_weights`, `precision`. Nothing of a foreign library is
imported before its adapter is called.
"""

from __future__ import annotations

from twoaxis.adapters.deepxde import deepxde_callback, from_deepxde
from twoaxis.adapters.jax import from_jax
from twoaxis.adapters.jinns import from_jinns
from twoaxis.adapters.jinns_solve import jinns_solve
from twoaxis.adapters.objective import objective
from twoaxis.adapters.pina import from_pina, lightning_callback
from twoaxis.adapters.pytorch import from_torch

__all__ = [
    "deepxde_callback",
    "from_deepxde",
    "from_jax",
    "from_jinns",
    "from_pina",
    "from_torch",
    "jinns_solve",
    "lightning_callback",
    "objective",
]
