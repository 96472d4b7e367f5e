"""DeepXDE: compiled and trained models, on its PyTorch and its JAX backend."""

from __future__ import annotations

from twoaxis.adapters.deepxde.callback import deepxde_callback
from twoaxis.adapters.deepxde.freeze import from_deepxde

__all__ = ["deepxde_callback", "from_deepxde"]
