"""What must be true of a store after a sweep that was disturbed: nobody can tell."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from fault_sweeps import sweep

import twoaxis as ta
from twoaxis.runs.maintenance import check_run, look_through
from twoaxis.runs.run_file import ARRAYS


def check_store(
    directory: Path, plain: Path, expected: Any, counts: Counter[str], damaged: int = 0
) -> None:
    """Stop if a store differs from that of undisturbed runs; remove it if not.

    Parameters
    ----------
    directory : Path
    plain : Path
        The undisturbed store.
    expected : Runs
        Its runs.
    counts : Counter
        What was checked is added to it.
    damaged : int
        How many runs were damaged on purpose, and must have been set aside.
    """
    same_runs(directory, plain, expected.keys)
    # What killed processes left half written counts as abandoned after an hour.
    for path in temporaries(directory):
        counts["temporaries of killed processes, removed later"] += 1
        os.utime(path, (0, 0), follow_symlinks=False)
    table = sweep(directory, "in-process").to_dataframe()
    pd.testing.assert_frame_equal(table, expected.to_dataframe(), check_exact=True)
    _demand(not temporaries(directory), "something half written was left")
    contents = look_through(ta.RunStore(directory))
    _demand(not contents.checkpoints, "a checkpoint was left that nobody needs")
    _demand(not contents.strangers, f"strange files: {contents.strangers}")
    _demand(len(contents.set_aside) == damaged, "damaged runs were not set aside")
    counts["sweeps checked"] += 1
    counts["runs checked"] += len(table)
    shutil.rmtree(directory)


def same_runs(directory: Path, plain: Path, keys: Sequence[str]) -> None:
    """Check that every run is there once, with its checksums and the bits that it should have."""
    stores = ta.RunStore(directory), ta.RunStore(plain)
    _demand(stores[0].keys() == sorted(keys), "a run is missing, or one too many")
    states = [check_run(place) for place in look_through(stores[0]).places]
    _demand([found.state for found in states] == ["sound"] * len(keys), f"{states}")
    for key in keys:
        ours, theirs = ((store.path(key) / ARRAYS).read_bytes() for store in stores)
        _demand(ours == theirs, f"{key} has other bits")


def temporaries(store: Path) -> list[Path]:
    """Return what was left half written in a store."""
    return list(store.rglob(".twoaxis-*"))


def _demand(condition: bool, otherwise: str) -> None:
    if not condition:
        raise SystemExit(otherwise)
