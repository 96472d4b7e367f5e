"""The training methods of the study, one per file, and how to find one by name."""

from __future__ import annotations

from typing import Any

from twoaxis.errors import InputError, named
from twoaxis.training.methods.gauss_newton import GaussNewton
from twoaxis.training.methods.gaussian_evidence import GaussianEvidence
from twoaxis.training.methods.joint_adam import JointAdam
from twoaxis.training.methods.method import Method, Recipe
from twoaxis.training.methods.patch_evidence import PatchEvidence
from twoaxis.training.methods.pcgrad import PCGrad
from twoaxis.training.methods.rba import RBA
from twoaxis.training.methods.sensitivity_selector import SensitivitySelector

# Command-line names. The Gaussian method is here twice, once for each rank of the study.
METHODS: dict[str, Method] = {
    "adam": JointAdam(),
    "pcgrad": PCGrad(),
    "rba": RBA(),
    "patch": PatchEvidence(),
    "gaussian-64": GaussianEvidence(rank=64),
    "gaussian": GaussianEvidence(),
    "selector": SensitivitySelector(),
    "gauss-newton": GaussNewton(),
}

__all__ = [
    "METHODS",
    "RBA",
    "GaussNewton",
    "GaussianEvidence",
    "JointAdam",
    "Method",
    "PCGrad",
    "PatchEvidence",
    "Recipe",
    "SensitivitySelector",
    "get_method",
]


def get_method(method: str | Method | Any) -> Method:
    """Return the method with this name; a method passes through.

    Examples
    --------
    >>> from twoaxis.training import get_method
    >>> get_method("rba")
    RBA(decay=0.999, increment=0.001)
    """
    if isinstance(method, str):
        return named("methods", method, METHODS)
    if isinstance(method, type):
        raise InputError(
            "a training method",
            f"the class {method.__name__}",
            f"create one, as in {method.__name__}()",
        )
    if not (hasattr(method, "name") and callable(getattr(method, "recipe", None))):
        raise InputError(
            "a training method: an object with a name and a recipe()",
            type(method).__name__,
            f"pass one of twoaxis.methods, or a name among {', '.join(METHODS)}",
        )
    if not isinstance(method.recipe(), Recipe):
        raise InputError(
            "recipe() to return a twoaxis.methods.Recipe",
            type(method.recipe()).__name__,
            "combine a view, a weight rule and a gradient rule in a Recipe",
        )
    found: Method = method
    return found
