"""Axis 1 without a simulator: a refined copy of the audited model takes its place."""

from __future__ import annotations

import importlib
from typing import Any

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.result import Message


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
    if found is None or found.status == "settled":
        return found, []
    return None, [_said("; ".join(m.text for m in found.messages if m.severity == "warning"))]


def _said(reason: str) -> Message:
    text = (
        "no simulator was given, and a refined copy of the model, which would take its place, did "
        f"not settle: {reason}"
    )
    return Message("audit.not_refined", text)
