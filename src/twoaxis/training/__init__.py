"""The batched training engine: many independent inverse PINNs at once, in JAX.

Pure computation: networks, methods, the loop and the devices that execute it. Files, engines and
`twoaxis.train` itself are in `twoaxis.runs`.
"""

from __future__ import annotations

from twoaxis.training import methods
from twoaxis.training.methods import METHODS, get_method
from twoaxis.training.network import Network
from twoaxis.training.settings import RunSpec, Settings, settings_for, specs_for

__all__ = [
    "METHODS",
    "Network",
    "RunSpec",
    "Settings",
    "get_method",
    "methods",
    "settings_for",
    "specs_for",
]
