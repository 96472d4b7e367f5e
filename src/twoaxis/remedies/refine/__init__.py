"""From a diagnosed parameter to the right one, with a standard error and without a solver."""

from twoaxis.remedies.refine.refine import refine
from twoaxis.remedies.refine.result import Refinement

__all__ = ["Refinement", "refine"]
