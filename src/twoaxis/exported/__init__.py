"""Frozen residuals for colleagues: one file in place of a model and the library behind it.

An exported residual holds points, parameters, the training view, r and J at the centre, and the
residual as a function of the parameters: exactly where it is affine in them, else as samples
with an accuracy that was measured. An audit can then be made where nothing was trained.
"""

from __future__ import annotations

from twoaxis.exported.file import export_residual, load_residual

__all__ = ["export_residual", "load_residual"]
