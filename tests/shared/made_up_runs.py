"""Runs that nobody trained, made by hand in milliseconds, and ways to spoil them."""

import json
import os
import time

import numpy as np
import pandas as pd

from twoaxis.datasets import Dataset
from twoaxis.problems import BURGERS
from twoaxis.runs import Run, Snapshot
from twoaxis.runs.checkpoint import checkpoint_path, save_checkpoint
from twoaxis.runs.run_file import ARRAYS, MANIFEST, seal
from twoaxis.training import Network, RunSpec, settings_for
from twoaxis.training.batch import Batch, Progress
from twoaxis.training.settings import run_key
from twoaxis.views import Weighted

__all__ = ["ARRAYS", "MANIFEST"]  # beside what is defined here
POINTS = 8
COLUMNS = ["step", "loss", "loss_data", "loss_residual", "nu"]
HISTORY = {"step": [10], "loss_data": [0.5], "loss_residual": [0.25], "nu": [0.01]}


def settings_of(problem=BURGERS):
    return settings_for(problem, steps=10, network=Network(4, 1), residual_points=POINTS)


def spec_of(number, problem=BURGERS):
    generator = np.random.default_rng(number)
    dataset = Dataset(
        problem=problem.name,
        sites=np.arange(5),
        coordinates=generator.uniform(0, 1, (5, 2)),
        values=generator.normal(size=5),
        noise_scale=0.1,
        provenance=f"made up, number {number}",
        label=f"made{number}",
    )
    return RunSpec(dataset=dataset, seed=number, start={"nu": 0.02})


def run_of(number=0, problem=BURGERS, delivered=None):
    """A run that nobody trained, and that agrees with itself."""
    generator = np.random.default_rng([number, 1])
    settings, spec = settings_of(problem), spec_of(number, problem)
    layers = [
        (generator.normal(size=shape).astype(np.float32), np.zeros(shape[0], np.float32))
        for shape in ((4, 2), (1, 4))
    ]
    view = Weighted(loss_weights=generator.uniform(0.5, 1, POINTS))
    return Run(
        key=run_key(settings, spec),
        settings=settings,
        spec=spec,
        points=generator.uniform(0, 1, (POINTS, 2)),
        final=Snapshot(
            10, layers, {"nu": 0.01 + number / 1000 if delivered is None else delivered}, view
        ),
        history=pd.DataFrame(HISTORY | {"loss": [0.5 + settings.physics_weight * 0.25]})[COLUMNS],
        status="finished",
    )


def forge(path, change):
    """Change a manifest and give it a checksum that fits."""
    plain = json.loads((path / MANIFEST).read_text())
    plain.pop("sha256")
    change(plain)
    (path / MANIFEST).write_text(json.dumps(plain | {"sha256": seal(plain)}))


def put_checkpoint(store, numbers, age=0.0):
    """Write the checkpoint of a batch, so many seconds ago, and return its path."""
    job = Batch(settings_of(), [spec_of(number) for number in numbers])
    record = {name: np.zeros(len(numbers)) for name in ("loss_data", "loss_residual")}
    record |= {"step": 2, "coordinates": np.zeros((len(numbers), 1))}
    save_checkpoint(job, Progress(2, {"layers": np.arange(6.0)}, [record]), store)
    path = checkpoint_path(job, store)
    grow_old(path, age)
    return path


def grow_old(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def flip(path, place=-1):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def tree(directory):
    """All that lies in a directory: names, kinds, content and dates."""
    found = {}
    for path in sorted(directory.rglob("*")):
        known = path.lstat()
        plain = path.is_file() and not path.is_symlink()
        content = path.read_bytes() if plain else None
        dated = None if path.is_dir() else known.st_mtime_ns  # a probe leaves a date behind
        found[str(path.relative_to(directory))] = (known.st_mode, dated, content)
    return found
