"""Why did my inverse PINN return the wrong parameter? A two-axis diagnosis."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from twoaxis.version import __version__

if TYPE_CHECKING:
    from twoaxis import plots as plots
    from twoaxis import views as views
    from twoaxis.adapters import deepxde_callback as deepxde_callback
    from twoaxis.adapters import from_deepxde as from_deepxde
    from twoaxis.adapters import from_jax as from_jax
    from twoaxis.adapters import from_jinns as from_jinns
    from twoaxis.adapters import from_pina as from_pina
    from twoaxis.adapters import from_torch as from_torch
    from twoaxis.adapters import jinns_solve as jinns_solve
    from twoaxis.adapters import lightning_callback as lightning_callback
    from twoaxis.adapters import objective as objective
    from twoaxis.datasets import Dataset as Dataset
    from twoaxis.datasets import fresh_dataset as fresh_dataset
    from twoaxis.datasets import published_dataset as published_dataset
    from twoaxis.diagnosis import Audit as Audit
    from twoaxis.diagnosis import Comparison as Comparison
    from twoaxis.diagnosis import Follower as Follower
    from twoaxis.diagnosis import Route as Route
    from twoaxis.diagnosis import Scoreboard as Scoreboard
    from twoaxis.diagnosis import Tolerance as Tolerance
    from twoaxis.diagnosis import audit as audit
    from twoaxis.diagnosis import compare as compare
    from twoaxis.diagnosis import follow as follow
    from twoaxis.errors import AccuracyWarning as AccuracyWarning
    from twoaxis.errors import InputError as InputError
    from twoaxis.errors import MisfitWarning as MisfitWarning
    from twoaxis.frozen import FrozenResidual as FrozenResidual
    from twoaxis.geometry import Delivery as Delivery
    from twoaxis.geometry import FrozenScan as FrozenScan
    from twoaxis.geometry import Score as Score
    from twoaxis.geometry import Spectrum as Spectrum
    from twoaxis.geometry import delivery as delivery
    from twoaxis.geometry import frozen_scan as frozen_scan
    from twoaxis.geometry import score as score
    from twoaxis.geometry import spectrum as spectrum
    from twoaxis.geometry import step_robustness as step_robustness
    from twoaxis.observations import Observations as Observations
    from twoaxis.parameter_array import ParameterArray as ParameterArray
    from twoaxis.parameters import Parameter as Parameter
    from twoaxis.parameters import Parameters as Parameters
    from twoaxis.remedies import Calibration as Calibration
    from twoaxis.remedies import ConfidenceSet as ConfidenceSet
    from twoaxis.remedies import EvidenceMap as EvidenceMap
    from twoaxis.remedies import Polish as Polish
    from twoaxis.remedies import Refinement as Refinement
    from twoaxis.remedies import SimulatedAudit as SimulatedAudit
    from twoaxis.remedies import SuggestedSites as SuggestedSites
    from twoaxis.remedies import calibrate as calibrate
    from twoaxis.remedies import confidence_set as confidence_set
    from twoaxis.remedies import estimate as estimate
    from twoaxis.remedies import estimate_many as estimate_many
    from twoaxis.remedies import evidence_map as evidence_map
    from twoaxis.remedies import polish as polish
    from twoaxis.remedies import refine as refine
    from twoaxis.remedies import remedy as remedy
    from twoaxis.remedies import simulated_audit as simulated_audit
    from twoaxis.remedies import suggest_sites as suggest_sites
    from twoaxis.resolution import Resolution as Resolution
    from twoaxis.resolution import needed_observations as needed_observations
    from twoaxis.resolution import resolve as resolve
    from twoaxis.result import Message as Message
    from twoaxis.result import Result as Result
    from twoaxis.result import load as load
    from twoaxis.runs import Pipeline as Pipeline
    from twoaxis.runs import Run as Run
    from twoaxis.runs import Runs as Runs
    from twoaxis.runs import RunStore as RunStore
    from twoaxis.runs import load_run as load_run
    from twoaxis.runs import load_runs as load_runs
    from twoaxis.runs import train as train
    from twoaxis.studies.reproduce import reproduce as reproduce
    from twoaxis.studies.scoreboard import compare_methods as compare_methods
    from twoaxis.training import Network as Network
    from twoaxis.training import methods as methods
    from twoaxis.unknown_function import UnknownFunction as UnknownFunction

# Where each public name lives. Names are looked up when they are first used, so that importing
# the library is cheap and its core works without JAX, PyTorch and Dask.
_PUBLIC = {
    "twoaxis": ("plots", "views"),
    "twoaxis.adapters": (
        "deepxde_callback",
        "from_deepxde",
        "from_jax",
        "from_jinns",
        "from_pina",
        "from_torch",
        "jinns_solve",
        "lightning_callback",
        "objective",
    ),
    "twoaxis.datasets": ("Dataset", "fresh_dataset", "published_dataset"),
    "twoaxis.diagnosis": (
        "Audit",
        "Comparison",
        "Follower",
        "Route",
        "Scoreboard",
        "Tolerance",
        "audit",
        "compare",
        "follow",
    ),
    "twoaxis.errors": ("AccuracyWarning", "InputError", "MisfitWarning"),
    "twoaxis.frozen": ("FrozenResidual",),
    "twoaxis.geometry": (
        "Delivery",
        "FrozenScan",
        "Score",
        "Spectrum",
        "delivery",
        "frozen_scan",
        "score",
        "spectrum",
        "step_robustness",
    ),
    "twoaxis.observations": ("Observations",),
    "twoaxis.parameters": ("Parameter", "Parameters"),
    "twoaxis.remedies": (
        "Calibration",
        "ConfidenceSet",
        "EvidenceMap",
        "Polish",
        "Refinement",
        "SimulatedAudit",
        "SuggestedSites",
        "calibrate",
        "confidence_set",
        "estimate",
        "estimate_many",
        "evidence_map",
        "polish",
        "refine",
        "remedy",
        "simulated_audit",
        "suggest_sites",
    ),
    "twoaxis.resolution": (
        "Resolution",
        "needed_observations",
        "resolve",
    ),
    "twoaxis.result": ("Message", "Result", "load"),
    "twoaxis.runs": (
        "Pipeline",
        "Run",
        "RunStore",
        "Runs",
        "load_run",
        "load_runs",
        "train",
    ),
    "twoaxis.studies.reproduce": ("reproduce",),
    "twoaxis.studies.scoreboard": ("compare_methods",),
    "twoaxis.training": ("Network", "methods"),
    "twoaxis.parameter_array": ("ParameterArray",),
    "twoaxis.unknown_function": ("UnknownFunction",),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
# The extra that brings the libraries which a package needs.
_EXTRAS = {"twoaxis.training": "train", "twoaxis.runs": "train", "twoaxis.studies": "train"}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'twoaxis' has no attribute {name!r}")
    module = _MODULE_OF[name]
    if module == "twoaxis":
        return importlib.import_module(f"twoaxis.{name}")
    extra = _EXTRAS.get(".".join(module.split(".")[:2]))
    if extra is None:
        value = getattr(importlib.import_module(module), name)
    else:
        from twoaxis.errors import needs_extra

        with needs_extra(extra, f"twoaxis.{name}"):
            value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["__version__", *_MODULE_OF]
