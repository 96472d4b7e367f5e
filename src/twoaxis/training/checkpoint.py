"""Checkpoints: a batch on its way, written whole between two chunks of steps.

Resuming gives the same numbers, bit by bit on the same machine and batch, because the state
holds all that changes and the steps do not depend on where the work was cut.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from twoaxis.errors import DamageWarning
from twoaxis.files import write_whole
from twoaxis.training.job import KEPT, Job, Progress
from twoaxis.training.settings import run_key
from twoaxis.training.store import RunStore, set_aside

FORMAT = "twoaxis checkpoint 1"
HISTORY = ("loss_data", "loss_residual", "coordinates")
# What reading a file may end in that is no checkpoint, or not a whole one.
UNUSABLE = (
    *(OSError, SafetensorError, KeyError, ValueError, TypeError),
    *(IndexError, AttributeError, OverflowError, RecursionError),
)


def job_key(job: Job) -> str:
    """Return a hash of all that defines the batch, the order of its runs included."""
    keys = [run_key(job.settings, spec) for spec in job.specs]
    text = json.dumps([keys, list(job.snapshot_steps)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def checkpoint_path(job: Job, store: RunStore) -> Path:
    """Return where the checkpoint of a job lies."""
    return store.checkpoints / f"checkpoint-{job_key(job)}.safetensors"


def save_checkpoint(job: Job, progress: Progress, store: RunStore) -> None:
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
    told["sha256"] = checkpoint_checksum(contiguous, told)
    path = checkpoint_path(job, store)
    # Not save_file: it writes through a file of its own, which a killed process would leave behind.
    content = save(contiguous, metadata=told)
    write_whole(path, lambda target: target.write_bytes(content))


def load_checkpoint(job: Job, start: Progress, store: RunStore) -> Progress | None:
    """Return how far the batch had come, or None where there is no checkpoint.

    A damaged one is set aside, and told: the training then starts from its beginning.

    Parameters
    ----------
    job : Job
    start : Progress
        Before the first step: it tells what the arrays must look like.
    store : RunStore
    """
    path = checkpoint_path(job, store)
    if not os.path.lexists(path):
        return None
    try:
        stored = read_checkpoint(path)
        if stored.keys != [run_key(job.settings, spec) for spec in job.specs]:
            raise ValueError("it belongs to another batch")
        return _rebuilt(job, start, stored.step, stored.arrays)
    except FileNotFoundError:
        return None  # another process has finished this batch just now
    except UNUSABLE as error:
        place = set_aside(path, store.directory, str(error))
        warnings.warn(
            f"a checkpoint is damaged, and its batch starts from the beginning; it was set aside "
            f"in {str(place)!r}: {error}",
            DamageWarning,
            stacklevel=2,
        )
        return None


class StoredCheckpoint(NamedTuple):
    """What a checkpoint says of itself, and its arrays."""

    job: str
    step: int
    keys: list[str]
    arrays: dict[str, Any]


def read_checkpoint(path: Path) -> StoredCheckpoint:
    """Read a checkpoint that is complete and unchanged; which batch it fits is not asked.

    Raises
    ------
    FileNotFoundError
        It is gone.
    ValueError
        It is no checkpoint, or damaged; the text says why.
    """
    try:
        if not _is_plain(path):
            raise ValueError("it is a link or no plain file")
        with safe_open(path, framework="numpy") as stored:
            told = stored.metadata() or {}
            arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        return _checked(path, told, arrays)
    except FileNotFoundError:
        raise
    except UNUSABLE as error:
        raise ValueError(str(error)) from error


def _checked(path: Path, told: dict[str, str], arrays: dict[str, Any]) -> StoredCheckpoint:
    if not {"format", "job", "step", "runs", "sha256"} <= told.keys():
        raise ValueError("it does not say what it belongs to")
    if told["format"] != FORMAT or path.stem != f"checkpoint-{told['job']}":
        raise ValueError("it is no checkpoint, or that of another batch")
    if told["sha256"] != checkpoint_checksum(arrays, told):
        raise ValueError("its arrays do not have their checksum")
    if not re.fullmatch("[0-9]{1,12}", told["step"]):
        raise ValueError("it does not say how far it has come")
    keys = json.loads(told["runs"])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("it does not say which runs it belongs to")
    return StoredCheckpoint(told["job"], int(told["step"]), keys, arrays)


def _is_plain(path: Path) -> bool:
    """Whether a file lies at this very place: no link, and nothing that waits for a writer."""
    return stat.S_ISREG(path.lstat().st_mode)


def _rebuilt(job: Job, start: Progress, step: int, arrays: dict[str, Any]) -> Progress:
    state = _filled(start.state, arrays, "state")
    steps = _history_steps(job, start, step, arrays)
    records = [
        {"step": at, **{name: arrays[f"history.{name}"][row] for name in HISTORY}}
        for row, at in enumerate(steps)
    ]
    model = {name: start.state[name] for name in KEPT}
    snapshots = {
        at: _filled(model, arrays, f"snapshot.{at}") for at in job.snapshot_steps if at <= step
    }
    return Progress(step, state, records, snapshots)


def _history_steps(job: Job, start: Progress, step: int, arrays: dict[str, Any]) -> list[int]:
    """Return the steps of the history, one a row; they and the losses must fit the job."""
    steps: list[int] = arrays["history.step"].tolist()
    rising = all(type(at) is int for at in steps) and steps == sorted(set(steps))
    if not rising or steps[-1:] != [step] or not 0 < steps[0] <= step <= job.settings.steps:
        raise ValueError("its history does not have the steps of a training")
    for name in HISTORY:
        wanted = (len(steps), *start.state[name].shape)
        if arrays[f"history.{name}"].shape != wanted:
            raise ValueError(f"its history of {name} does not have the shape {wanted}")
    return steps


def _filled(model: Any, arrays: dict[str, Any], prefix: str) -> Any:
    """Return a tree like `model` with the stored arrays in it."""
    leaves, structure = jax.tree.flatten(model)
    found = [arrays[f"{prefix}.{number}"] for number in range(len(leaves))]
    for wanted, came in zip(leaves, found, strict=True):
        if wanted.shape != came.shape or wanted.dtype != came.dtype:
            raise ValueError(f"an array of shape {came.shape} where {wanted.shape} belongs")
    return jax.tree.unflatten(structure, found)


def interrupted_jobs(whole: Job, store: RunStore) -> list[Job]:
    """Return the jobs among the runs of `whole` that stopped on their way in this store.

    A job that was killed while it wrote its runs has left some of them complete. It is finished
    as it was begun, with all its runs, so that the numbers are those of the whole batch.
    """
    open_runs = {run_key(whole.settings, spec): spec for spec in whole.specs}
    jobs = []
    for path in sorted(store.checkpoints.glob("checkpoint-*.safetensors")):
        keys = _run_keys(path)
        if keys and open_runs.keys() >= set(keys):
            job = replace(whole, specs=[open_runs[key] for key in keys])
            if checkpoint_path(job, store) == path:
                jobs.append(job)
                open_runs = {k: spec for k, spec in open_runs.items() if k not in keys}
    return jobs


def _run_keys(path: Path) -> list[str]:
    """Return the runs of a checkpoint; of a file that does not tell, none."""
    try:
        if not _is_plain(path):
            return []
        with safe_open(path, framework="numpy") as stored:
            keys = json.loads((stored.metadata() or {}).get("runs", "[]"))
    except UNUSABLE:
        return []
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


def checkpoint_checksum(arrays: dict[str, Any], told: dict[str, str]) -> str:
    """Return a digest of the arrays, with their names, types and shapes, and of what is told."""
    digest = hashlib.sha256(json.dumps([told["job"], told["step"], told["runs"]]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
