"""PINA: trained solvers of inverse problems."""

from __future__ import annotations

from twoaxis.adapters.pina.callback import lightning_callback
from twoaxis.adapters.pina.freeze import from_pina

__all__ = ["from_pina", "lightning_callback"]
