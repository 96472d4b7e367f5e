"""Frozen residuals for colleagues: one file in place of a model and the library behind it.

`FrozenResidual.save` writes it, `twoaxis.load` opens it: an audit can then be made where nothing
was trained.
"""

from __future__ import annotations

from twoaxis.exported.file import ExportedResidual

__all__ = ["ExportedResidual"]
