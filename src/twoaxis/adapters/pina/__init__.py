"""PINA: trained solvers of inverse problems."""

from __future__ import annotations

from twoaxis.adapters.pina.freeze import from_pina

__all__ = ["from_pina"]
