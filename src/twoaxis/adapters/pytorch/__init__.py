"""PyTorch: trained modules as frozen residuals, and their training loss for polishing."""

from __future__ import annotations

from twoaxis.adapters.pytorch.freeze import from_torch
from twoaxis.adapters.pytorch.objective import torch_objective

__all__ = ["from_torch", "torch_objective"]
