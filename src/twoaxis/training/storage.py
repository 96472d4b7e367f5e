"""Runs on disk: weights and arrays as safetensors, everything else in a readable sidecar.

``KEY.safetensors`` is written first, ``KEY.json`` last and with the other's checksum, both
whole or not at all: a run whose sidecar is there is complete. Reading runs no code from a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load, save

from twoaxis.errors import InputError
from twoaxis.files import write_whole
from twoaxis.observations import Dataset
from twoaxis.problems import Problem, get_problem
from twoaxis.training.methods import METHODS, Method, Recipe
from twoaxis.training.network import Network
from twoaxis.training.run import Run, Runs, Snapshot
from twoaxis.training.settings import RunSpec, Settings
from twoaxis.version import __version__
from twoaxis.views.storage import view_from_plain, view_to_plain

FORMAT = "twoaxis run"
VERSION = 1


def save_run(run: Run, directory: str | Path) -> Path:
    """Write one run into a directory and return the path of its sidecar."""
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
    sidecar = {
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
        "arrays": {"file": f"{run.key}.safetensors", "sha256": _sha256(content)},
    }
    text = json.dumps(sidecar, indent=2, allow_nan=False) + "\n"
    where = Path(directory)
    write_whole(where / f"{run.key}.safetensors", lambda path: path.write_bytes(content))
    return write_whole(where / f"{run.key}.json", lambda path: path.write_text(text))


def load_run(path: str | Path, problem: Problem | None = None) -> Run:
    """Read one run.

    Parameters
    ----------
    path : path
        Of its sidecar, ``KEY.json``.
    problem : Problem, optional
        For a run on a problem of one's own, which no file can hold.
    """
    path = Path(path)
    plain = _read_sidecar(path)
    try:
        content = path.with_suffix(".safetensors").read_bytes()
    except OSError as error:
        raise _damaged(path, f"its arrays cannot be read ({error.strerror})") from error
    if _sha256(content) != plain["arrays"]["sha256"]:
        raise _damaged(path, "its arrays do not have the checksum that the sidecar names")
    try:
        return _rebuilt(plain, load(content), problem)
    except (SafetensorError, KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError) and problem is None and "problems" in error.wanted:
            raise
        raise _damaged(path, str(error)) from error


def load_runs(directory: str | Path, problem: Problem | None = None) -> Runs:
    """Read all runs of a directory, in the order of their keys."""
    where = Path(directory)
    if not where.is_dir():
        raise InputError(
            "a directory of runs", repr(str(directory)), "pass the one given to train(out=...)"
        )
    paths = sorted(path for path in where.glob("*.json") if is_sidecar(path))
    if not paths:
        raise InputError(
            "a directory that holds runs",
            f"{str(directory)!r}, which holds none",
            "train some with twoaxis train PROBLEM --out DIR",
        )
    return Runs([load_run(path, problem) for path in paths])


def is_sidecar(path: Path) -> bool:
    """Tell whether a JSON file says that it describes a run."""
    try:
        plain = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        # Arrays of the same name beside it mean that this was a sidecar: do not overlook it.
        return path.with_suffix(".safetensors").exists()
    return isinstance(plain, dict) and plain.get("format") == FORMAT


@final
@dataclass(frozen=True)
class StoredMethod:
    """The name and options of a method whose code is not here."""

    name: str
    options: dict[str, Any]

    def recipe(self) -> Recipe:
        """Say that the parts are not known: a file holds no code."""
        raise InputError(
            "a method whose code is known",
            f"{self.name!r}, of which the file keeps the name and the options",
            "train with the method's own object; a stored run can be diagnosed without it",
        )


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


def _take_snapshot(arrays: dict[str, Any], prefix: str, plain: dict[str, Any]) -> Snapshot:
    count = sum(name.startswith(f"{prefix}.weight") for name in arrays)
    layers = [(arrays[f"{prefix}.weight{n}"], arrays[f"{prefix}.bias{n}"]) for n in range(count)]
    view = view_from_plain(plain["view"], arrays.get(f"{prefix}.view"))
    delivered = {name: float(value) for name, value in plain["delivered"].items()}
    return Snapshot(int(plain["step"]), layers, delivered, view)


def _read_sidecar(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_text())
    except OSError as error:
        raise InputError(
            "the sidecar of a run", f"{str(path)!r} ({error.strerror})", "name a file KEY.json"
        ) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is not JSON, or only a part of it") from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise InputError("the sidecar of a run", f"{str(path)!r}, which is none", "name KEY.json")
    if plain.get("version") != VERSION:
        raise InputError(
            f"a run in version {VERSION} of the format",
            f"version {plain.get('version')!r} in {str(path)!r}",
            "read it with the twoaxis that wrote it, or train again",
        )
    arrays = plain.get("arrays")
    if not isinstance(arrays, dict) or not isinstance(arrays.get("sha256"), str):
        raise _damaged(path, "it does not name the checksum of its arrays")
    return plain


def _rebuilt(plain: dict[str, Any], arrays: dict[str, Any], problem: Problem | None) -> Run:
    settings = _settings(plain["settings"], problem)
    described = plain["run"]
    dataset = Dataset(
        problem=settings.problem.name,
        sites=arrays["dataset.sites"],
        coordinates=arrays["dataset.coordinates"],
        values=arrays["dataset.values"],
        noise_scale=float(described["noise_scale"]),
        provenance=str(described["provenance"]),
        label=str(described["dataset"]),
    )
    spec = RunSpec(
        dataset=dataset,
        seed=described["seed"],
        start={name: float(value) for name, value in described["start"].items()},
        fixed=frozenset(described["fixed"]),
    )
    snapshots = [
        _take_snapshot(arrays, f"snapshot{n}", each) for n, each in enumerate(plain["snapshots"])
    ]
    return Run(
        key=str(plain["key"]),
        settings=settings,
        spec=spec,
        points=arrays["points"],
        final=snapshots[-1],
        history=pd.DataFrame({name: arrays[f"history.{name}"] for name in plain["history"]}),
        status=str(plain["status"]),
        snapshots=tuple(snapshots[:-1]),
    )


def _settings(plain: dict[str, Any], problem: Problem | None) -> Settings:
    options = dict(plain)
    name = options.pop("problem")
    chosen = get_problem(name) if problem is None else problem
    if chosen.name != name:
        raise InputError(f"the problem {name}", chosen.name, "pass the one the run was made with")
    method = _method(**options.pop("method"))
    network = Network(**options.pop("network"))
    return Settings(problem=chosen, method=method, network=network, **options)


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


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        "a complete, unchanged run",
        f"{str(path)!r}: {why}",
        "move it away and train the run again, or restore both of its files from a copy",
    )
