"""Checkpoints: a batch on its way, written whole between two chunks of steps.

Resuming gives the same numbers, bit by bit on the same machine and batch, because the state
holds all that changes and the steps do not depend on where the work was cut.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from twoaxis.errors import InputError
from twoaxis.files import write_whole
from twoaxis.training.job import KEPT, Job, Progress
from twoaxis.training.settings import run_key

FORMAT = "twoaxis checkpoint 1"
HISTORY = ("loss_data", "loss_residual", "coordinates")


def job_key(job: Job) -> str:
    """Return a hash of all that defines the batch, the order of its runs included."""
    keys = [run_key(job.settings, spec) for spec in job.specs]
    text = json.dumps([keys, list(job.snapshot_steps)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def checkpoint_path(job: Job, directory: Path) -> Path:
    """Return where the checkpoint of a job lies."""
    return directory / f"checkpoint-{job_key(job)}.safetensors"


def save_checkpoint(job: Job, progress: Progress, directory: Path) -> None:
    """Write how far the batch has come."""
    arrays = {f"state.{n}": leaf for n, leaf in enumerate(jax.tree.leaves(progress.state))}
    for name in HISTORY:
        arrays[f"history.{name}"] = np.stack([record[name] for record in progress.records])
    arrays["history.step"] = np.array([record["step"] for record in progress.records])
    for step, tree in progress.snapshots.items():
        arrays |= {f"snapshot.{step}.{n}": leaf for n, leaf in enumerate(jax.tree.leaves(tree))}
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    keys = [run_key(job.settings, spec) for spec in job.specs]
    told = {"format": FORMAT, "job": job_key(job), "step": str(progress.step)}
    told["runs"] = json.dumps(keys)
    told["sha256"] = _checksum(contiguous, told)
    path = checkpoint_path(job, directory)
    write_whole(path, lambda target: save_file(contiguous, target, metadata=told))


def load_checkpoint(job: Job, start: Progress, directory: Path) -> Progress | None:
    """Return how far the batch had come, or None where there is no checkpoint.

    Parameters
    ----------
    job : Job
    start : Progress
        Before the first step: it tells what the arrays must look like.
    directory : Path
    """
    path = checkpoint_path(job, directory)
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as stored:
            told = stored.metadata() or {}
            arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error
    if not {"format", "job", "step", "runs", "sha256"} <= told.keys():
        raise _damaged(path, "it does not say what it belongs to")
    if told["format"] != FORMAT or told["job"] != job_key(job):
        raise InputError(
            "the checkpoint of this very job",
            f"{str(path)!r}, which belongs to another configuration",
            "move it away, choose another directory, or train anew with overwrite",
        )
    if told.get("sha256") != _checksum(arrays, told):
        raise _damaged(path, "its arrays do not have their checksum")
    try:
        return _rebuilt(job, start, int(told["step"]), arrays)
    except (KeyError, ValueError) as error:
        raise _damaged(path, str(error)) from error


def _rebuilt(job: Job, start: Progress, step: int, arrays: dict[str, Any]) -> Progress:
    state = _filled(start.state, arrays, "state")
    steps = arrays["history.step"].tolist()
    records = [
        {"step": at, **{name: arrays[f"history.{name}"][row] for name in HISTORY}}
        for row, at in enumerate(steps)
    ]
    model = {name: start.state[name] for name in KEPT}
    snapshots = {
        at: _filled(model, arrays, f"snapshot.{at}") for at in job.snapshot_steps if at <= step
    }
    return Progress(step, state, records, snapshots)


def _filled(model: Any, arrays: dict[str, Any], prefix: str) -> Any:
    """Return a tree like `model` with the stored arrays in it."""
    leaves, structure = jax.tree.flatten(model)
    found = [arrays[f"{prefix}.{number}"] for number in range(len(leaves))]
    for wanted, came in zip(leaves, found, strict=True):
        if wanted.shape != came.shape or wanted.dtype != came.dtype:
            raise ValueError(f"an array of shape {came.shape} where {wanted.shape} belongs")
    return jax.tree.unflatten(structure, found)


def interrupted_jobs(whole: Job, directory: Path) -> list[Job]:
    """Return the jobs among the runs of `whole` that stopped on their way in this directory.

    A job that was killed while it wrote its runs has left some of them complete. It is finished
    as it was begun, with all its runs, so that the numbers are those of the whole batch.
    """
    open_runs = {run_key(whole.settings, spec): spec for spec in whole.specs}
    jobs = []
    for path in sorted(directory.glob("checkpoint-*.safetensors")):
        keys = _run_keys(path)
        if keys and open_runs.keys() >= set(keys):
            job = replace(whole, specs=[open_runs[key] for key in keys])
            if checkpoint_path(job, directory) == path:
                jobs.append(job)
                open_runs = {k: spec for k, spec in open_runs.items() if k not in keys}
    return jobs


def _run_keys(path: Path) -> list[str]:
    """Return the runs of a checkpoint; of a file that does not tell, none."""
    try:
        with safe_open(path, framework="numpy") as stored:
            keys = json.loads((stored.metadata() or {}).get("runs", "[]"))
    except (OSError, SafetensorError, ValueError):
        return []
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


def _checksum(arrays: dict[str, Any], told: dict[str, str]) -> str:
    """Return a digest of the arrays, with their names, types and shapes, and of what is told."""
    digest = hashlib.sha256(json.dumps([told["job"], told["step"], told["runs"]]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        "a complete, unchanged checkpoint",
        f"{str(path)!r}: {why}",
        "delete or move it; the training then starts from its beginning",
    )
