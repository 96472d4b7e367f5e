"""The paper's figures as drawings: panels that a page and a file share."""

from __future__ import annotations

from twoaxis.studies.drawings.drawing import Drawing, Panel, house_style
from twoaxis.studies.drawings.found import Found

__all__ = ["Drawing", "Found", "Panel", "house_style"]
