"""Axis 1 without a simulator: a refined copy of the audited model takes its place."""

from __future__ import annotations

import importlib
from typing import Any

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.result import Message

# Messages of a refinement whose field obeys the equation and does not fit the data.
MISFIT = "refine.misfit"


def refined_copy(
    frozen: FrozenResidual, data: Any, noise: Any, progress: bool
) -> tuple[Any, list[Message]]:
    """Return a refinement of a model on splines, and what is to be said where there is none.

    A model whose network nothing can replace is left alone: refining it takes minutes.
    """
    if frozen.weights is None or (data is None and frozen.data is None):
        return None, []
    if frozen.known.delivered is None:
        return None, []
    # By its name: remedies are above the diagnosis.
    refinement = importlib.import_module("twoaxis.remedies.refine.refine")
    try:
        found = refinement.refine_quickly(frozen, data, noise, progress)
    except InputError as error:
        return None, [_said(str(error))]
    if found is None:
        return None, []
    # A misfit is what an audit must tell; whatever else is wrong with it is none of the model.
    against = [m for m in found.messages if m.severity == "warning"]
    if found.status == "settled" and all(m.code.startswith(MISFIT) for m in against):
        return found, []
    return None, [_said("; ".join(m.text for m in against))]


def _said(reason: str) -> Message:
    text = (
        "no simulator was given, and a refined copy of the model, which would take its place, "
        f"cannot be used: {reason}"
    )
    return Message("audit.not_refined", text)
