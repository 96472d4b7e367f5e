"""Every kind of file that the library reads: how to make one, damage it and read it."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fuzz_calls
import fuzz_mutations as mutations
import h5py
import jax
import numpy as np
import pandas as pd
import xarray as xr
from fuzz_mutations import BLIND, Mutation, Random
from safetensors.numpy import save_file

import twoaxis as ta
from twoaxis.datasets import Dataset
from twoaxis.errors import InputError
from twoaxis.exported.file import seal as seal_of_export
from twoaxis.problems import get_problem
from twoaxis.runs import checkpoint
from twoaxis.runs.run_file import packed, seal, sha256
from twoaxis.runs.store import RunStore
from twoaxis.runs.task import trained_runs
from twoaxis.studies import page
from twoaxis.studies.library import _read_table, _value
from twoaxis.studies.record import figures_frame, load_record, table_frame
from twoaxis.training import RunSpec, settings_for
from twoaxis.training.backends import JaxDevice
from twoaxis.training.batch import Batch
from twoaxis.training.settings import starting_values

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Kind:
    """Files of one kind.

    Attributes
    ----------
    sealed : bool
        Whether a change without a new checksum must always be refused.
    damage : callable
        ``damage(random, place)`` changes a copy; returns whether it kept the checksums right.
    read : callable
        ``read(place)`` returns what is there in a form that can be compared, or fails.
    use : callable, optional
        ``use(place)`` does what a reader may do with what differs from the original.
    """

    sealed: bool
    damage: Callable[[Random, Path], bool]
    read: Callable[[Path], Any]
    use: Callable[[Path], Any] | None = None


# ------------------------------------------------------------------ originals


def make_all(home: Path) -> None:
    """Write one undamaged place for each kind."""
    for name in KINDS:
        (home / name).mkdir(parents=True)
    points = np.linspace(0.0, 1.0, 12)
    parameter = ta.Parameter(truth=1.0, delivered=1.2, bounds=(0.5, 2.0))
    frozen = ta.FrozenResidual(
        lambda k: np.exp(-k * points) - 0.4,
        {"k": parameter},
        points,
        view=ta.views.Gaussian(),
        field=points**2,
        axes=("t",),
        notes=("made up",),
    )
    resolution = ta.resolve(
        lambda k: np.exp(-k * points),
        {"k": parameter},
        0.01,
        replicas=5,
        bank=21,
        validate=0,
        progress=False,
    )
    frozen.save(home / "residual" / "file.nc")
    resolution.save(home / "resolution" / "file.nc")
    audit = ta.audit(frozen, resolution=resolution, spectrum=True)
    audit.with_actions(audit.actions).save(home / "audit" / "file.nc")
    for name, found in _results(frozen, audit, points).items():
        found.save(home / name / "file.nc")
    _make_remedies(home, frozen, points)
    _make_training(home)
    for kind, name in (("table", "readouts/bands-1.csv"), ("record", "blocks/architecture.json")):
        suffix = Path(name).suffix
        shutil.copy(ROOT / "results" / "reproduction" / name, home / kind / f"file{suffix}")


def _results(frozen: ta.FrozenResidual, audit: ta.Audit, points: Any) -> dict[str, Any]:
    """Return a small result of each kind that is cheap to make."""
    world = (lambda k: np.exp(-k * points), dict(frozen.parameters), 0.01)
    known = {
        "g": ta.UnknownFunction(
            nodes=[0.0, 0.5, 1.0], bounds=(0.2, 5.0), truth=[1.0, 1.2, 0.9], delivered=[1, 1, 1]
        )
    }
    curve = ta.resolve(
        lambda g: np.exp(-np.cumsum(g(points)) / 12), known, 0.01, replicas=4, progress=False
    )
    return {
        "score": audit.score,
        "scan": audit.scan,
        "spectrum": ta.spectrum(frozen),
        "delivery": ta.delivery(frozen.parameters, {"k": 0.9}),
        "map": ta.evidence_map(frozen, progress=False),
        "comparison": ta.compare({"first": audit, "second": audit}),
        "snapshots": ta.follow([(1, frozen), (5, frozen)]),
        "sites": ta.suggest_sites(*world, 3, points=points[:, None], progress=False),
        "curve": curve.function(),
        "calibration": ta.calibrate(
            lambda values, seed: 1.0 - np.log(values[-1]) / 2 + 1e-3 * seed % 1e-2,
            *world,
            candidates=5,
            replicas=19,
            progress=False,
        ),
    }


def _make_remedies(home: Path, frozen: ta.FrozenResidual, points: Any) -> None:
    """Keep a confidence set and a simulated audit of a pipeline that answers at once."""
    world: dict[str, Any] = {
        "forward": lambda k: np.exp(-k * points),
        "parameters": {"k": ta.Parameter(delivered=1.2, bounds=(0.5, 2.0))},
        "noise": 0.01,
        "progress": False,
    }
    ta.confidence_set(
        lambda values, seed: 1.0 - np.log(values[-1]) / 2 + 1e-3 * seed % 1e-2,
        **world,
        estimate=1.2,
        candidates=5,
        replicas=19,
        refine=0,
    ).save(home / "set" / "file.nc")

    def trained(values: Any, _seed: int) -> ta.FrozenResidual:
        found = replace(frozen.parameters["k"], delivered=1.2 + 0.1 * float(values[0] - 1.0))
        return replace(frozen, parameters={"k": found})

    ta.simulated_audit(trained, **world, replicas=3).save(home / "simulated" / "file.nc")


def _batch() -> Batch:
    """A batch of one run that is as small as it can be."""
    problem, random = get_problem("burgers"), np.random.default_rng(0)
    low, high = np.array(list(problem.domain.values())).T
    dataset = Dataset(
        problem=problem.name,
        sites=np.arange(9),
        coordinates=random.uniform(low, high, (9, 2)),
        values=random.normal(size=9),
        noise_scale=0.1,
        provenance="made up",
        label="tiny",
    )
    settings = settings_for(
        problem, "adam", network=ta.Network(4, 1), steps=6, residual_points=12, precision="float64"
    )
    spec = RunSpec(
        dataset=dataset, seed=0, start=starting_values(problem, None, None), fixed=frozenset()
    )
    return Batch(settings, [spec], (2,))


def _make_training(home: Path) -> None:
    """Train for six steps; keep the run, and the checkpoint after the third."""
    batch = _batch()
    store = RunStore(home / "checkpoint", create=True)
    data = batch.data()

    def keep(progress: Any) -> None:
        if progress.step == 3:
            checkpoint.save_checkpoint(batch, progress, store)

    begun = batch.begin(data)
    done = batch.train(JaxDevice(jax.devices("cpu")[0]), data, begun, lambda *_: None, keep, 0.0)
    (run,) = trained_runs(batch, done)
    RunStore(home / "run", create=True).save(run)


# ------------------------------------------------------------------ reading


def _read_run(place: Path) -> Any:
    (directory,) = (each.parent for each in place.glob("*/*/arrays.safetensors"))
    run = ta.load_run(directory)
    repr(run)
    return packed(run)


class _Checkpoints:
    """The batch that a checkpoint belongs to, made once."""

    def __init__(self) -> None:
        self._known: Any = None

    def read(self, place: Path) -> Any:
        if self._known is None:
            batch = _batch()
            self._known = batch, jax.device_get(batch.begin(batch.data()))
        batch, start = self._known
        found = checkpoint.load_checkpoint(batch, start, RunStore(place))
        if found is None:
            raise InputError("a checkpoint", "a damaged one, set aside", "")
        leaves = jax.tree.leaves([found.state, found.records, found.snapshots])
        return found.step, [np.asarray(leaf).tobytes() for leaf in leaves]


def _read_result(place: Path) -> Any:
    found = ta.load(place / "file.nc")
    tree = found.data if isinstance(found.data, xr.DataTree) else xr.DataTree(found.data)
    groups = {node.path: node.to_dataset(inherit=False).to_dict() for node in tree.subtree}
    return json.dumps(groups, default=repr), repr(found)


def _use_result(place: Path) -> None:
    fuzz_calls.use(ta.load(place / "file.nc"))


def _use_residual(place: Path) -> None:
    frozen = ta.load(place / "file.nc")
    fuzz_calls.use(frozen)
    frozen.save(place / "again.nc")
    ta.load(place / "again.nc")


def _read_residual(place: Path) -> Any:
    frozen = ta.load(place / "file.nc")
    middle = (frozen.coordinate_bounds[0] + frozen.coordinate_bounds[1]) / 2
    return repr(frozen), np.asarray(frozen.at(middle)).tobytes(), frozen.notes


def _read_table_file(place: Path) -> Any:
    table = _read_table(place / "file.csv")
    rows = [{n: _value(cell) for n, cell in row.items()} for key in table for row in table[key]]
    pd.DataFrame(rows)
    return table


def _read_record(place: Path) -> Any:
    record = load_record(place / "file.json")
    figures_frame([record]).to_csv().encode()
    for table in record["tables"].values():
        table_frame(table).to_csv().encode()
    return record, page.render([record], {}).encode()


# ------------------------------------------------------------------ damaging


def _blind_or(*known: Mutation) -> Callable[[Random, Path], bool]:
    """Damage the only file of a place, without regard to its checksums."""

    def damage(random: Random, place: Path) -> bool:
        (path,) = place.glob("file.*")
        chosen = random.choice(BLIND if random.random() < 0.5 else known)
        path.write_bytes(chosen(random, path.read_bytes()))
        return False

    return damage


def _damage_netcdf(random: Random, place: Path) -> bool:
    (path,) = place.glob("file.*")
    if random.random() < 0.45:
        path.write_bytes(random.choice(BLIND)(random, path.read_bytes()))
        return False
    # Some changes cannot be made everywhere: what they left is a case too.
    with suppress(OSError, KeyError, ValueError, RuntimeError, TypeError):
        mutations.netcdf_change(random, path)
    return True


def _damage_export(random: Random, place: Path) -> bool:
    """As any netCDF file; half of the times with the checksum of the changed content."""
    changed = _damage_netcdf(random, place)
    path = place / "file.nc"
    # What is enormous has no checksum that anyone could compute; nor has a file of thousands of
    # variables, which takes minutes to open and is refused unopened.
    if changed and path.stat().st_size < 2**22 and random.random() < 0.7:
        try:
            with h5py.File(path) as file:
                # Names, and not arrays: one array may have thousands of them.
                names, sizes = len(file), [file[n].size or 0 for n in mutations._datasets(file)]
            if names <= 1000 and max(sizes) < 2**16:
                with xr.open_dataset(path, engine="h5netcdf", decode_cf=False) as opened:
                    sealed = seal_of_export(opened.load())
                with h5py.File(path, "r+") as file:
                    file.attrs["sha256"] = sealed
                return True
        except Exception:
            pass  # it is no longer a file that could be sealed
    return False


def _damage_run(random: Random, place: Path) -> bool:
    (arrays,) = place.glob("*/*/arrays.safetensors")
    manifest = arrays.parent / "run.json"
    how = random.random()
    if how < 0.4:
        path = random.choice((arrays, manifest))
        path.write_bytes(random.choice(BLIND)(random, path.read_bytes()))
    elif how < 0.5:
        known = (mutations.deep_json, mutations.json_value, mutations.json_number)
        manifest.write_bytes(random.choice(known)(random, manifest.read_bytes()))
    else:
        plain = json.loads(manifest.read_bytes())
        plain.pop("sha256")
        content = arrays.read_bytes()
        if how < 0.52:  # eight gigabytes that the disk does not hold, and that the manifest claims
            plain["arrays"] |= {"bytes": 2**33}
            plain["sha256"] = seal(plain)
            manifest.write_text(json.dumps(plain))
            os.truncate(arrays, 2**33)
            return True
        if how < 0.54:  # a manifest of 60 MB, which would take two gigabytes as JSON
            manifest.write_bytes(b'{"history": [' + b"[]," * 20_000_000 + b"[]]}")
            return False
        if how < 0.75:
            known = (mutations.arrays_header, mutations.arrays_length, *BLIND)
            content = random.choice(known)(random, content)
            plain["arrays"] |= {"bytes": len(content), "sha256": sha256(content)}
        else:
            mutations.changed_value(random, plain)
        arrays.write_bytes(content)
        with suppress(RecursionError):
            plain["sha256"] = seal(plain)
        manifest.write_text(json.dumps(plain))
        return True
    return False


def _damage_checkpoint(random: Random, place: Path) -> bool:
    (path,) = place.glob("checkpoints/*")
    content = path.read_bytes()
    known = (mutations.arrays_header, mutations.arrays_length)
    if random.random() < 0.02:
        os.truncate(path, 2**33)
        return False
    if random.random() < 0.6:
        path.write_bytes(random.choice((*BLIND, *known))(random, content))
        return False
    with checkpoint.safe_open(path, framework="numpy") as stored:
        about = stored.metadata()
        arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    name = random.choice(sorted(arrays))
    what = random.randrange(4)
    if what == 0:
        about[random.choice(("step", "runs"))] = random.choice(
            ("", "-1", "9" * 400, "[" * 9999, "nan", "999", "[[]]", "0")
        )
    elif what == 1:
        del arrays[name]
    elif what == 2:
        arrays[name] = arrays[name].reshape(-1)[:1].astype(random.choice(("f4", "i8", "f8")))
    else:
        arrays[name] = np.full_like(arrays[name], random.choice((0, -1, 127)))
    about["sha256"] = checkpoint.checkpoint_checksum(arrays, about)
    save_file(arrays, path, metadata=about)
    return True


KINDS = {
    "run": Kind(True, _damage_run, _read_run),
    "checkpoint": Kind(True, _damage_checkpoint, _Checkpoints().read),
    "residual": Kind(True, _damage_export, _read_residual, _use_residual),
    **{
        name: Kind(False, _damage_netcdf, _read_result, _use_result)
        for name in (
            *("audit", "resolution", "set", "simulated", "score", "scan", "spectrum", "delivery"),
            *("map", "comparison", "snapshots", "sites", "curve", "calibration"),
        )
    },
    "table": Kind(False, _blind_or(mutations.table_cell), _read_table_file),
    "record": Kind(
        False,
        _blind_or(mutations.json_value, mutations.json_number, mutations.deep_json),
        _read_record,
    ),
}


def outcome_of(kind: Kind, random: Random, place: Path, original: Any) -> tuple[str, str]:
    """Damage a copy, read it and say how that ended."""
    sealed_again = kind.damage(random, place)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = kind.read(place)
    except InputError as error:
        return ("finding", "MemoryError inside") if _ran_out(error) else ("refused", "")
    except BaseException as error:
        return "finding", fuzz_calls.in_words(error)
    if found == original:
        return "unchanged", ""
    if kind.sealed and not sealed_again:
        return "finding", "changed content with the old checksum"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind.use is not None:
                kind.use(place)
    except BaseException as error:
        return "finding", f"loaded, but not usable: {fuzz_calls.in_words(error)}"
    return "used", ""


def _ran_out(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
