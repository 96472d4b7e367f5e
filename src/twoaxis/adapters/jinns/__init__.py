"""jinns: losses and the parameters that training returned."""

from __future__ import annotations

from twoaxis.adapters.jinns.freeze import from_jinns

__all__ = ["from_jinns"]
