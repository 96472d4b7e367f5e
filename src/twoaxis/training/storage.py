"""Runs on disk: weights and arrays as safetensors, everything else in a readable sidecar.

``KEY.safetensors`` is written first, ``KEY.json`` last and with the other's checksum, both
whole or not at all: a run whose sidecar is there is complete. The sidecar carries a checksum of
its own, so that a changed number is seen. Reading runs no code from a file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load, save

from twoaxis.errors import InputError
from twoaxis.files import write_whole
from twoaxis.observations import Dataset
from twoaxis.problems import PROBLEMS, Problem
from twoaxis.training.methods import METHODS, Method
from twoaxis.training.methods.stored import StoredMethod
from twoaxis.training.network import Network
from twoaxis.training.run import Run, Runs, Snapshot
from twoaxis.training.settings import RunSpec, Settings, plain_value
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
    text = json.dumps(sidecar | {"sha256": _seal(sidecar)}, indent=2, default=plain_value) + "\n"
    where = Path(directory)
    # A run that is replaced is gone until the new one is complete, never a mixture of both.
    (where / f"{run.key}.json").unlink(missing_ok=True)
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
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("the sidecar of a run", repr(path), "name a file KEY.json")
    path = Path(path)
    plain = _read_sidecar(path)
    chosen = _problem_of(plain, path, problem)
    try:
        content = path.with_suffix(".safetensors").read_bytes()
    except OSError as error:
        raise _damaged(path, f"its arrays cannot be read ({error.strerror})") from error
    if _sha256(content) != plain["arrays"]["sha256"]:
        raise _damaged(path, "its arrays do not have the checksum that the sidecar names")
    try:
        return _rebuilt(plain, load(content), chosen)
    except (
        *(SafetensorError, KeyError, TypeError, ValueError),
        *(IndexError, AttributeError, OverflowError),
    ) as error:
        raise _damaged(path, str(error)) from error


def load_runs(directory: str | Path, problem: Problem | None = None) -> Runs:
    """Read all runs of a directory, in the order of their keys."""
    where = Path(directory) if isinstance(directory, (str, os.PathLike)) else None
    if where is None or not where.is_dir():
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
    if plain.pop("sha256", None) != _seal(plain):
        raise _damaged(path, "it does not have its own checksum")
    if plain.get("key") != path.stem:
        raise _damaged(path, "it describes a run of another name")
    return plain


def _problem_of(plain: dict[str, Any], path: Path, problem: Problem | None) -> Problem:
    """Return the problem of a run: a benchmark, or the one that was handed in."""
    settings = plain.get("settings")
    name = settings.get("problem") if isinstance(settings, dict) else None
    if not isinstance(name, str):
        raise _damaged(path, "it does not name its problem")
    chosen = PROBLEMS.get(name) if problem is None else problem
    if chosen is None or chosen.name != name:
        raise InputError(
            f"the problem {name}",
            "none of that name" if chosen is None else chosen.name,
            "pass the one that the run was made with, as in load_run(path, problem=...)",
        )
    return chosen


def _rebuilt(plain: dict[str, Any], arrays: dict[str, Any], problem: Problem) -> Run:
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


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _seal(plain: dict[str, Any]) -> str:
    """Return the checksum of a sidecar's content, whatever its white space."""
    return _sha256(json.dumps(plain, sort_keys=True, default=plain_value).encode())


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        "a complete, unchanged run",
        f"{str(path)!r}: {why}",
        "move it away and train the run again, or restore both of its files from a copy",
    )
