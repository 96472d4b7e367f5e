"""Stores of runs that nobody trained, made by hand in milliseconds, and ways to spoil them."""

import json
import os
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from twoaxis.observations import Dataset
from twoaxis.problems import BURGERS
from twoaxis.training import Network, Run, RunSpec, RunStore, Snapshot, settings_for
from twoaxis.training.checkpoint import checkpoint_path, save_checkpoint
from twoaxis.training.job import Job, Progress
from twoaxis.training.packing import ARRAYS, seal
from twoaxis.training.settings import run_key
from twoaxis.training.storage import MANIFEST
from twoaxis.views import Weighted

POINTS = 8


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


def run_of(number=0, problem=BURGERS, status="finished"):
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
        final=Snapshot(10, layers, {"nu": 0.01 + number / 1000}, view),
        history=pd.DataFrame({"step": [10], "loss": [0.5], "nu": [0.01]}),
        status=status,
    )


def forge(path, change):
    """Change a manifest and give it a checksum that fits."""
    plain = json.loads((path / MANIFEST).read_text())
    plain.pop("sha256")
    change(plain)
    (path / MANIFEST).write_text(json.dumps(plain | {"sha256": seal(plain)}))


def put_checkpoint(store, numbers, age=0.0):
    """Write the checkpoint of a batch, so many seconds ago, and return its path."""
    job = Job(settings_of(), [spec_of(number) for number in numbers])
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


@pytest.fixture
def own_problem():
    return replace(BURGERS, name="own-burgers")


@pytest.fixture
def store(tmp_path):
    """A store with three runs."""
    made = RunStore(tmp_path / "store", create=True)
    for number in range(3):
        made.save(run_of(number))
    return made


@pytest.fixture(scope="session")
def makers():
    """The functions above by name: test modules cannot import each other."""
    names = "run_of spec_of forge put_checkpoint grow_old flip tree settings_of"
    known = {name: globals()[name] for name in names.split()}
    return SimpleNamespace(**known, ARRAYS=ARRAYS, MANIFEST=MANIFEST)
