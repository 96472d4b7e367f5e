"""Models trained elsewhere, as frozen residuals: one foreign library a file.

Every adapter returns the same `twoaxis.FrozenResidual` that the built-in engine hands out, so
that everything downstream is one code path. Nothing of the foreign library is imported before
its adapter is called.
"""

from __future__ import annotations

from twoaxis.adapters.jax_functions import from_jax
from twoaxis.adapters.pytorch import from_torch

__all__ = ["from_jax", "from_torch"]
