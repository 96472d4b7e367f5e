"""What a method is composed of beside its view: weight rules and gradient rules."""

from __future__ import annotations

from twoaxis.training.rules.gradients import Add, GradientRule, ProjectBoth, ProjectResidual
from twoaxis.training.rules.weights import Attention, Moment, RetainStrength, Uniform, WeightRule

__all__ = [
    "Add",
    "Attention",
    "GradientRule",
    "Moment",
    "ProjectBoth",
    "ProjectResidual",
    "RetainStrength",
    "Uniform",
    "WeightRule",
]
