"""Calibrated confidence sets: run the whole pipeline again at every parameter that could be true.

The delivered value of an inverse PINN carries the bias of network, loss and optimiser. None of that
is known beforehand, but all of it can be simulated. See `calibrate` and `confidence_set`.
"""

from __future__ import annotations

from twoaxis.remedies.calibration.calibrate import calibrate
from twoaxis.remedies.calibration.confidence_set import confidence_set
from twoaxis.remedies.calibration.inversion import Correction, SetInterval
from twoaxis.remedies.calibration.result import (
    Calibration,
    ConfidenceSet,
    load_calibration,
    load_confidence_set,
)

__all__ = [
    "Calibration",
    "ConfidenceSet",
    "Correction",
    "SetInterval",
    "calibrate",
    "confidence_set",
    "load_calibration",
    "load_confidence_set",
]
