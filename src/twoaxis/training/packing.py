"""What a stored run consists of: a manifest of plain values, and arrays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save

from twoaxis.observations import Dataset
from twoaxis.problems import Problem
from twoaxis.training.coherence import ensure_coherent, real, text, whole
from twoaxis.training.methods import METHODS, Method
from twoaxis.training.methods.stored import StoredMethod
from twoaxis.training.network import Network
from twoaxis.training.run import Run, Snapshot
from twoaxis.training.settings import RunSpec, Settings, plain_value
from twoaxis.version import __version__
from twoaxis.views.storage import view_from_plain, view_to_plain

FORMAT = "twoaxis run"
VERSION = 1
ARRAYS = "arrays.safetensors"


def packed(run: Run) -> tuple[bytes, bytes]:
    """Return the manifest and the arrays of a run, as they are written."""
    arrays: dict[str, Any] = {
        "points": run.points,
        "dataset.sites": np.asarray(run.dataset.sites),
        "dataset.coordinates": run.dataset.coordinates,
        "dataset.values": run.dataset.values,
    }
    arrays |= {f"history.{name}": run.history[name].to_numpy() for name in run.history}
    described = [
        _put_snapshot(arrays, f"snapshot{n}", snapshot, run)
        for n, snapshot in enumerate([*run.snapshots, run.final])
    ]
    content = save({name: np.asarray(a, order="C") for name, a in arrays.items()})
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "twoaxis": __version__,
        "key": run.key,
        "status": run.status,
        "delivered": run.delivered,
        "settings": run.settings.describe(),
        "run": run.spec.describe() | {"noise_scale": run.dataset.noise_scale},
        "history": list(run.history),
        "snapshots": described,
        "arrays": {"file": ARRAYS, "bytes": len(content), "sha256": sha256(content)},
    }
    sealed = manifest | {"sha256": seal(manifest)}
    written = json.dumps(sealed, indent=2, default=plain_value) + "\n"
    return written.encode(), content


def _put_snapshot(
    arrays: dict[str, Any], prefix: str, snapshot: Snapshot, run: Run
) -> dict[str, Any]:
    """Add the arrays of a snapshot under a prefix, and return the rest of it."""
    for number, (weight, bias) in enumerate(snapshot.layers):
        arrays[f"{prefix}.weight{number}"] = np.asarray(weight)
        arrays[f"{prefix}.bias{number}"] = np.asarray(bias)
    plain, array = view_to_plain(snapshot.view, run.points)
    if array is not None:
        arrays[f"{prefix}.view"] = array
    return {"step": snapshot.step, "delivered": snapshot.delivered, "view": plain}


def rebuilt(plain: dict[str, Any], arrays: dict[str, Any], problem: Problem) -> Run:
    """Return the run of a manifest and its arrays; an error tells that they do not fit."""
    left = dict(arrays)
    settings = _settings(plain["settings"], problem)
    spec = _spec(plain["run"], left, problem)
    snapshots = [
        _take_snapshot(left, f"snapshot{n}", each) for n, each in enumerate(plain["snapshots"])
    ]
    run = Run(
        key=text(plain["key"]),
        settings=settings,
        spec=spec,
        points=left.pop("points"),
        final=snapshots[-1],
        history=pd.DataFrame({name: left.pop(f"history.{name}") for name in plain["history"]}),
        status=text(plain["status"]),
        snapshots=tuple(snapshots[:-1]),
    )
    if left:
        raise ValueError(f"arrays that belong to nothing: {sorted(left)!r:.80}")
    text(plain["twoaxis"])
    ensure_coherent(run, plain)
    return run


def _spec(plain: dict[str, Any], arrays: dict[str, Any], problem: Problem) -> RunSpec:
    dataset = Dataset(
        problem=problem.name,
        sites=arrays.pop("dataset.sites"),
        coordinates=arrays.pop("dataset.coordinates"),
        values=arrays.pop("dataset.values"),
        noise_scale=real(plain["noise_scale"]),
        provenance=text(plain["provenance"]),
        label=text(plain["dataset"]),
    )
    return RunSpec(
        dataset=dataset,
        seed=plain["seed"],
        start={name: real(value) for name, value in plain["start"].items()},
        fixed=frozenset(text(name) for name in plain["fixed"]),
    )


def _take_snapshot(arrays: dict[str, Any], prefix: str, plain: dict[str, Any]) -> Snapshot:
    """Return a snapshot, and take its arrays away from the others."""
    count = sum(name.startswith(f"{prefix}.weight") for name in arrays)
    layers = [
        (arrays.pop(f"{prefix}.weight{n}"), arrays.pop(f"{prefix}.bias{n}")) for n in range(count)
    ]
    view = view_from_plain(plain["view"], arrays.pop(f"{prefix}.view", None))
    delivered = {name: real(value) for name, value in plain["delivered"].items()}
    return Snapshot(whole(plain["step"]), layers, delivered, view)


def _settings(plain: dict[str, Any], problem: Problem) -> Settings:
    options = {name: value for name, value in plain.items() if name != "problem"}
    method = _method(**options.pop("method"))
    network = Network(**options.pop("network"))
    return Settings(problem=problem, method=method, network=network, **options)


def _method(name: str, options: dict[str, Any]) -> Method:
    """Return the built-in method of this name and options, or what is known of another."""
    makers: dict[str, Callable[..., Method]] = {
        type(method).__name__: type(method) for method in METHODS.values()
    }
    for maker in makers.values():
        try:
            method = maker(**options)
        except TypeError:
            continue
        if method.name == name:
            return method
    return StoredMethod(name, options)


def sha256(content: bytes) -> str:
    """Return a checksum as it stands in a manifest."""
    return hashlib.sha256(content).hexdigest()


def seal(plain: dict[str, Any]) -> str:
    """Return the checksum of a manifest's content, whatever its white space."""
    return sha256(json.dumps(plain, sort_keys=True, default=plain_value).encode())
