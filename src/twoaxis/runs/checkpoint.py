"""Checkpoints: a batch under way, written between two chunks of steps, completely or not at all.

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
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from twoaxis.errors import DamageWarning
from twoaxis.files import write_whole
from twoaxis.io import is_sparse
from twoaxis.runs.store import RunStore, set_aside
from twoaxis.training.batch import KEPT, Batch, Progress

FORMAT = "twoaxis checkpoint 1"
HISTORY = ("loss_data", "loss_residual", "coordinates")
# What reading a file may end in that is no checkpoint, or not a whole one.
UNUSABLE = (
    *(OSError, SafetensorError, KeyError, ValueError, TypeError),
    *(IndexError, AttributeError, OverflowError, RecursionError),
)


def batch_key(batch: Batch) -> str:
    """Return a hash of all that defines the batch, the order of its runs included."""
    text = json.dumps([batch.keys, list(batch.snapshot_steps)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def checkpoint_path(batch: Batch, store: RunStore) -> Path:
    """Return where the checkpoint of a job lies."""
    return store.checkpoints / f"checkpoint-{batch_key(batch)}.safetensors"


def save_checkpoint(batch: Batch, progress: Progress, store: RunStore) -> None:
    """Write how far the batch has come."""
    arrays = {f"state.{n}": leaf for n, leaf in enumerate(jax.tree.leaves(progress.state))}
    for name in HISTORY:
        arrays[f"history.{name}"] = np.stack([record[name] for record in progress.records])
    arrays["history.step"] = np.array([record["step"] for record in progress.records])
    for step, tree in progress.snapshots.items():
        arrays |= {f"snapshot.{step}.{n}": leaf for n, leaf in enumerate(jax.tree.leaves(tree))}
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    about = {"format": FORMAT, "job": batch_key(batch), "step": str(progress.step)}
    about["runs"] = json.dumps(batch.keys)
    about["sha256"] = checkpoint_checksum(contiguous, about)
    path = checkpoint_path(batch, store)
    # Not save_file: it writes through a file of its own, which a killed process would leave behind.
    content = save(contiguous, metadata=about)
    write_whole(path, lambda target: target.write_bytes(content))


def load_checkpoint(batch: Batch, start: Progress, store: RunStore) -> Progress | None:
    """Return how far the batch had come, or None where there is no checkpoint.

    A damaged one is set aside with a warning: the training then starts from its beginning.

    Parameters
    ----------
    batch : Batch
    start : Progress
        Before the first step, with the shapes that the arrays must have.
    store : RunStore
    """
    path = checkpoint_path(batch, store)
    if not os.path.lexists(path):
        return None
    try:
        stored = read_checkpoint(path)
        if stored.keys != batch.keys:
            raise ValueError("it belongs to another batch")
        return _rebuilt(batch, start, stored.step, stored.arrays)
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
            raise ValueError("it is a link, has holes or is no plain file")
        with safe_open(path, framework="numpy") as stored:
            about = stored.metadata() or {}
            arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        return _checked(path, about, arrays)
    except FileNotFoundError:
        raise
    except UNUSABLE as error:
        raise ValueError(str(error)) from error


def _checked(path: Path, about: dict[str, str], arrays: dict[str, Any]) -> StoredCheckpoint:
    if not {"format", "job", "step", "runs", "sha256"} <= about.keys():
        raise ValueError("it does not say what it belongs to")
    if about["format"] != FORMAT or path.stem != f"checkpoint-{about['job']}":
        raise ValueError("it is no checkpoint, or that of another batch")
    if about["sha256"] != checkpoint_checksum(arrays, about):
        raise ValueError("its arrays do not have their checksum")
    if not re.fullmatch("[0-9]{1,12}", about["step"]):
        raise ValueError("it does not say how far it has come")
    keys = json.loads(about["runs"])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("it does not say which runs it belongs to")
    return StoredCheckpoint(about["job"], int(about["step"]), keys, arrays)


def _is_plain(path: Path) -> bool:
    """Whether a whole file lies at this very place: no link, no holes, no pipe."""
    known = path.lstat()
    return stat.S_ISREG(known.st_mode) and not is_sparse(known)


def _rebuilt(batch: Batch, start: Progress, step: int, arrays: dict[str, Any]) -> Progress:
    state = _filled(start.state, arrays, "state")
    steps = _history_steps(batch, start, step, arrays)
    records = [
        {"step": at, **{name: arrays[f"history.{name}"][row] for name in HISTORY}}
        for row, at in enumerate(steps)
    ]
    model = {name: start.state[name] for name in KEPT}
    snapshots = {
        at: _filled(model, arrays, f"snapshot.{at}") for at in batch.snapshot_steps if at <= step
    }
    return Progress(step, state, records, snapshots)


def _history_steps(batch: Batch, start: Progress, step: int, arrays: dict[str, Any]) -> list[int]:
    """Return the steps of the history, one a row; they and the losses must fit the batch."""
    steps: list[int] = arrays["history.step"].tolist()
    rising = all(type(at) is int for at in steps) and steps == sorted(set(steps))
    if not rising or steps[-1:] != [step] or not 0 < steps[0] <= step <= batch.settings.steps:
        raise ValueError("its history does not have the steps of a training")
    for name in HISTORY:
        expected = (len(steps), *start.state[name].shape)
        if arrays[f"history.{name}"].shape != expected:
            raise ValueError(f"its history of {name} does not have the shape {expected}")
    return steps


def _filled(model: Any, arrays: dict[str, Any], prefix: str) -> Any:
    """Return a tree like `model` with the stored arrays in it."""
    leaves, structure = jax.tree.flatten(model)
    found = [arrays[f"{prefix}.{number}"] for number in range(len(leaves))]
    for expected, came in zip(leaves, found, strict=True):
        if expected.shape != came.shape or expected.dtype != came.dtype:
            raise ValueError(f"an array of shape {came.shape} instead of {expected.shape}")
    return jax.tree.unflatten(structure, found)


def interrupted_batches(whole: Batch, store: RunStore, stored: Collection[str]) -> list[Batch]:
    """Return the batches among the runs of `whole` that were interrupted in this store.

    A batch that was killed while it wrote its runs has left some of them complete. It is finished
    as it was begun, with all its runs, so that the numbers are those of the complete batch. The
    checkpoint of a batch whose runs are all there is removed: its process was killed just then.

    Parameters
    ----------
    whole : Batch
    store : RunStore
    stored : collection of str
        Keys of runs that the store holds.
    """
    open_runs = dict(zip(whole.keys, whole.specs, strict=True))
    batches = []
    for path in sorted(store.checkpoints.glob("checkpoint-*.safetensors")):
        keys = _run_keys(path)
        if not keys or not open_runs.keys() >= set(keys):
            continue
        batch = replace(whole, specs=tuple(open_runs[key] for key in keys))
        if checkpoint_path(batch, store) != path:
            continue
        if set(keys) <= set(stored):
            path.unlink(missing_ok=True)
            continue
        batches.append(batch)
        open_runs = {key: spec for key, spec in open_runs.items() if key not in keys}
    return batches


def _run_keys(path: Path) -> list[str]:
    """Return the runs of a checkpoint; none if the file does not name them."""
    try:
        if not _is_plain(path):
            return []
        with safe_open(path, framework="numpy") as stored:
            keys = json.loads((stored.metadata() or {}).get("runs", "[]"))
    except UNUSABLE:
        return []
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


def checkpoint_checksum(arrays: dict[str, Any], about: dict[str, str]) -> str:
    """Return a digest of the arrays, with their names, types and shapes, and of the metadata."""
    digest = hashlib.sha256(json.dumps([about["job"], about["step"], about["runs"]]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
