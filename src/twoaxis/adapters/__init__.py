"""Models trained elsewhere, as frozen residuals: one foreign library a file or folder.

Every adapter returns the same `twoaxis.FrozenResidual` that the built-in engine hands out, so
that everything downstream is one code path. Nothing of a foreign library is imported before
its adapter is called.
"""

from __future__ import annotations

from twoaxis.adapters.deepxde import from_deepxde
from twoaxis.adapters.jax_functions import from_jax
from twoaxis.adapters.jinns import from_jinns
from twoaxis.adapters.pina import from_pina
from twoaxis.adapters.pytorch import from_torch
from twoaxis.adapters.pytorch_objective import torch_objective

__all__ = ["from_deepxde", "from_jax", "from_jinns", "from_pina", "from_torch", "torch_objective"]
