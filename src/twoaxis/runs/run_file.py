"""What a stored run contains: arrays as safetensors, everything else in a readable manifest.

A run is a directory with the name of its key::

    KEY/run.json             the manifest
    KEY/arrays.safetensors   weights, points, observations, history

The manifest has ``format``, ``version``, ``twoaxis`` (the version that wrote it), ``key``,
``status``, ``program`` (what computed the steps), ``delivered`` (values by name), ``settings``
(problem, method, network, steps, ...),
``run`` (dataset, seed, start, fixed, noise), ``history`` (names of its columns), ``snapshots``
(step, delivered values and view of each; the last one is the end of the run), ``arrays`` (size
and checksum of the other file), and ``sha256``, its own checksum. The arrays are ``points``,
``dataset.sites``, ``dataset.coordinates``, ``dataset.values``, ``history.COLUMN``, and for each
snapshot N ``snapshotN.weightK``, ``snapshotN.biasK`` and, if its view has one, ``snapshotN.view``.

A run is written beside its place and moved there in one step, so a run that is there is complete,
whoever else writes at the same time. One that is replaced changes places with the new one in a
single step; where the system cannot do that, it waits in a temporary directory beside its place,
under its own name, and a store takes it back if the process is killed in between.

Reading runs no code from a file, follows no link and opens nothing outside the directory. A
checksum shows that a file is as it was written, not that what was written is a run: everything
that a manifest says twice, or that its arrays show, is compared.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load, save

from twoaxis.datasets import Dataset
from twoaxis.errors import InputError, StorageError
from twoaxis.files import flush_directory, flush_file, temporary_beside
from twoaxis.io import is_sparse
from twoaxis.problems import PROBLEMS, Problem
from twoaxis.runs.run import Run, Snapshot
from twoaxis.training.backends import Program
from twoaxis.training.methods import METHODS, Method
from twoaxis.training.methods.method import StoredMethod
from twoaxis.training.network import Network
from twoaxis.training.settings import RunSpec, Settings, check_specs, plain_value
from twoaxis.version import __version__
from twoaxis.views import Dense, Weighted
from twoaxis.views.encoding import view_from_plain, view_to_plain

# ------------------------------------------------------------------ does a run agree with itself

LOSSES = ("loss", "loss_data", "loss_residual")
# The loss is a sum of two numbers that are stored beside it.
ROUNDING = 1e-12


def ensure_coherent(run: Run, plain: Mapping[str, Any]) -> None:
    """Refuse a run whose parts contradict each other.

    Parameters
    ----------
    run : Run
        As it was rebuilt.
    plain : mapping
        Its manifest.

    Raises
    ------
    ValueError
    """
    try:
        check_specs(run.problem, [run.spec])
    except InputError as error:
        raise ValueError(f"it has {error.got}, where {error.expected} belong") from error
    _same("its observations", plain["run"]["observations"], run.spec.describe()["observations"])
    _same("what it delivered", plain["delivered"], run.delivered)
    _check_points(run)
    _check_steps(run)
    for snapshot in (*run.snapshots, run.final):
        _check_values(run, snapshot)
        _check_layers(run, snapshot)
        _check_view(run, snapshot)
    _check_history(run)


def text(value: Any) -> str:
    """Return a text of a manifest; anything else is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40}, where a text belongs")
    value.encode()  # JSON can spell characters that do not exist
    return value


def integer(value: Any) -> int:
    """Return an integer of a manifest."""
    if type(value) is not int:
        raise TypeError(f"{value!r:.40}, where an integer belongs")
    return value


def real(value: Any) -> float:
    """Return a finite number of a manifest."""
    if type(value) not in (int, float) or not np.isfinite(value):
        raise TypeError(f"{value!r:.40}, where a finite number belongs")
    return float(value)


def _same(what: str, stated: Any, found: Any) -> None:
    if stated != found:
        raise ValueError(f"{what}: the manifest says {stated!r:.80}, and the rest {found!r:.80}")


def _check_points(run: Run) -> None:
    expected = (run.settings.residual_points, len(run.settings.axes))
    if run.points.shape != expected or run.points.dtype != np.float64:
        raise ValueError(f"points of shape {run.points.shape}, where {expected} belongs")
    low, high = np.array(list(run.problem.domain.values()), dtype=float).T
    if not ((run.points >= low) & (run.points <= high)).all():
        raise ValueError("points outside the domain of its problem")


def _check_steps(run: Run) -> None:
    """Snapshots rise up to the end, which is the last step unless the run diverged."""
    last, steps = run.final.step, [snapshot.step for snapshot in run.snapshots]
    if not 0 <= last <= run.settings.steps or (last == run.settings.steps) != run.finished:
        raise ValueError(f"status {run.status!r:.40} after {last} of {run.settings.steps} steps")
    if steps != sorted(set(steps)) or not all(0 < step <= last for step in steps):
        raise ValueError(f"snapshots after the steps {steps!r:.80}, and the end after {last}")


def _check_values(run: Run, snapshot: Snapshot) -> None:
    """Every parameter has a value that it can have; a fixed one, the value it was given."""
    parameters, values = run.problem.parameters, snapshot.delivered
    if set(values) != set(parameters):
        raise ValueError(f"values for {list(values)!r:.80}, where {list(parameters)} belong")
    for name, value in values.items():
        if parameters[name].coordinate == "log" and not value > 0:
            raise ValueError(f"{name}={value!r}, where a positive number belongs")
        if name in run.spec.fixed and value != run.spec.start[name]:
            raise ValueError(f"{name}={value!r}, which was fixed at {run.spec.start[name]!r}")


def _check_layers(run: Run, snapshot: Snapshot) -> None:
    """Weights and biases are those of the network in the settings, in their precision."""
    sizes = run.settings.network.sizes(run.settings.inputs)
    expected = [((n, m), (n,)) for m, n in pairwise(sizes)]
    found = [(np.shape(weight), np.shape(bias)) for weight, bias in snapshot.layers]
    if found != expected:
        raise ValueError(f"layers of the shapes {found!r:.80}, where {expected!r:.80} belong")
    arrays = [array for layer in snapshot.layers for array in layer]
    if any(array.dtype != run.settings.precision for array in arrays):
        raise ValueError(f"layers that are not in {run.settings.precision}")
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError("weights that are not finite")


def _check_view(run: Run, snapshot: Snapshot) -> None:
    """A view with a value for every point has one for every point."""
    view = snapshot.view
    if isinstance(view, (Weighted, Dense)):
        count = len(np.asarray(view.loss_weights if isinstance(view, Weighted) else view.matrix))
        if count != len(run.points):
            raise ValueError(f"a view of {count} points, where {len(run.points)} belong")


def _check_history(run: Run) -> None:
    """Every column is there, over steps that rise, with numbers of which each is finite."""
    history, expected = run.history, ["step", *LOSSES, *run.problem.parameters]
    if list(history) != expected:
        raise ValueError(f"a history of {list(history)!r:.80}, where {expected} belong")
    steps = history["step"].to_numpy()
    rising = steps.dtype == np.int64 and (np.diff(steps) > 0).all()
    if not rising or not ((steps > 0) & (steps <= run.final.step)).all():
        raise ValueError("its history does not have the steps of a training")
    if run.finished and steps[-1:].tolist() != [run.final.step]:
        raise ValueError("its history does not go to its end")
    if any(history[name].dtype != np.float64 for name in expected[1:]):
        raise ValueError("its history does not consist of numbers")
    if not np.isfinite(history[expected[2:]].to_numpy()).all():
        raise ValueError("its history has numbers that are not finite")
    parts = history["loss_data"] + run.settings.physics_weight * history["loss_residual"]
    if not np.allclose(history["loss"], parts, rtol=ROUNDING, atol=0.0):
        raise ValueError("the loss in its history is not the sum of its parts")


# ------------------------------------------------------------------ manifest and arrays

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
        "program": run.program,
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
        program=_program(plain),
    )
    if left:
        raise ValueError(f"arrays that belong to nothing: {sorted(left)!r:.80}")
    text(plain["twoaxis"])
    ensure_coherent(run, plain)
    return run


def _program(plain: dict[str, Any]) -> Program:
    """Return what computed the steps; a manifest that does not say it is older than the choice."""
    program = text(plain.get("program", "xla"))
    if program not in get_args(Program):
        raise ValueError(f"program {program!r:.40}, where one of {get_args(Program)} belongs")
    return cast("Program", program)


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
    return Snapshot(integer(plain["step"]), layers, delivered, view)


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


# ------------------------------------------------------------------ writing

# Of renameat2: paths begin in the current directory, and the two names change places.
AT_CURRENT_DIRECTORY = -100
EXCHANGE = 2


def is_own_directory(path: Path) -> bool:
    """Whether a directory lies at this very place, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def remove(path: Path) -> None:
    """Remove a directory, or whatever else lies there."""
    if is_own_directory(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def put_in_place(whole: Path, target: Path, overwrite: bool) -> None:
    """Give a complete run its name; of two writers one is first, and the other's is dropped."""
    # A name that is free for the one step may be taken for the other: then the first works.
    tries = 2 if overwrite else 0
    done = any(exchange(whole, target) or _takes(whole, target) for _ in range(tries))
    if not done:
        aside = temporary_beside(target) / target.name if overwrite else None
        try:
            if aside is not None:
                aside.parent.mkdir()
            _rename(whole, target, aside)
        finally:
            if aside is not None and os.path.lexists(target):
                shutil.rmtree(aside.parent, ignore_errors=True)
            elif aside is not None:  # a run that could not be put back waits there
                with suppress(OSError):
                    aside.parent.rmdir()
    flush_directory(target.parent)


def _takes(whole: Path, target: Path) -> bool:
    """Take a free name, and say whether it was free."""
    if os.path.lexists(target):
        return False
    try:
        whole.rename(target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False
        raise
    return True


def exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step, so that there is something under each all along.

    False tells that nothing was done: a name is missing, or the system or file system cannot.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, TypeError, AttributeError):  # not every system has it
        return False
    rename.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    here, there = os.fsencode(one), os.fsencode(other)
    return bool(rename(AT_CURRENT_DIRECTORY, here, AT_CURRENT_DIRECTORY, there, EXCHANGE) == 0)


def _rename(whole: Path, target: Path, aside: Path | None) -> None:
    """Move what is there aside, and a run to its place; a failure brings it back."""
    try:
        if aside is not None:
            with suppress(FileNotFoundError):  # nothing is there, or another writer was faster
                target.rename(aside)
        whole.rename(target)
    except BaseException as error:
        if not (isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY)):
            if aside is not None:
                with suppress(OSError):
                    aside.rename(target)
            raise


MANIFEST = "run.json"

# A key becomes a name in the file system: nothing in it may lead elsewhere.
KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
# A manifest is some kilobytes long. A file that is larger than this is none; read as JSON, it
# could take thirty times its size.
LARGEST_MANIFEST = 8 * 2**20
# Errors that tell of a run which lacks a file or has something else in its place. Others, such
# as a lack of permission, tell nothing about the run.
NO_FILE = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)


class DamagedRunError(InputError):
    """A stored run that is incomplete or was changed, and must not be used."""


def is_key(name: Any) -> bool:
    """Whether a name can be that of a run."""
    return isinstance(name, str) and bool(KEY.fullmatch(name)) and not name.endswith(".")


def checked_key(key: Any) -> str:
    """Return a key that can be a name in a directory."""
    if not is_key(key):
        raise InputError(
            "the key of a run, made of letters, digits, dots, dashes and underscores",
            repr(key)[:100],
            "copy it from a list of the runs",
        )
    return str(key)


def write_run(run: Run, directory: str | Path, *, overwrite: bool = False) -> Path:
    """Write one run as ``directory/KEY`` and return that place.

    A store has a directory for every two digits: `twoaxis.runs.save_run` knows it.

    Parameters
    ----------
    run : Run
    directory : path
    overwrite : bool
        Replace a run of the same key. Without it the one that is there stays: it was made of
        the same settings, by a process that was faster.
    """
    target = Path(directory) / checked_key(run.key)
    if not overwrite and _is_taken(target):
        return target
    manifest, arrays = packed(run)
    whole = temporary_beside(target)
    try:
        _make_directory(target.parent)
        whole.mkdir()
        for name, content in ((ARRAYS, arrays), (MANIFEST, manifest)):
            (whole / name).write_bytes(content)
            flush_file(whole / name)
        flush_directory(whole)
        put_in_place(whole, target, overwrite)
    except OSError as error:
        raise StorageError.of(target, error) from error
    finally:
        remove(whole)
    return target


def _is_taken(target: Path) -> bool:
    """Whether there is a run in this place; what is there instead is in its way."""
    if os.path.lexists(target) and not is_own_directory(target):
        raise InputError(
            "a place that is free, or holds a run",
            f"{str(target)!r}, which is a link or no directory",
            "move it away",
        )
    return target.exists()


def _make_directory(place: Path) -> None:
    """Make a directory that is still there after a power failure."""
    if not place.exists():
        place.mkdir(parents=True, exist_ok=True)
        flush_directory(place.parent)


def taken_back(temporary: Path) -> bool:
    """Bring a run home that a killed process had moved aside, and say whether there was one.

    It lies under its name in a temporary directory beside its place. A damaged one stays, and
    so does one whose place is taken.
    """
    if not is_own_directory(temporary):
        return False
    for path in temporary.iterdir():
        run = is_own_directory(path) and is_key(path.name)
        if run and not os.path.lexists(temporary.parent / path.name):
            try:
                load_run(path)
            except DamagedRunError:
                continue
            except InputError:
                pass  # a problem that is not built in, or no permission: it may be sound
            path.rename(temporary.parent / path.name)
            flush_directory(temporary.parent)
            return True
    return False


def load_run(path: str | Path, problem: Problem | None = None) -> Run:
    """Read one run.

    Parameters
    ----------
    path : path
        Of its directory, or of the manifest in it.
    problem : Problem, optional
        For a run of a user's own problem, which no file can hold.

    Examples
    --------
    >>> import tempfile, twoaxis as ta
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs = ta.train(
    ...         "burgers", datasets=8, steps=3, residual_points=50, store=folder, progress=False
    ...     )
    ...     again = ta.load_run(ta.RunStore(folder).path(runs.keys[0]))
    >>> again.delivered == runs[0].delivered
    True
    """
    where = run_directory(path)
    while True:
        found = identity(where)
        try:
            return _loaded(where, problem)
        except InputError:
            # A run that was replaced while it was read is not damaged: the new one is read.
            if identity(where) == found:
                raise


def identity(where: Path) -> tuple[int, ...] | None:
    """Return what tells a directory from the one that has its name a moment later."""
    try:
        known = where.lstat()
    except (OSError, ValueError):
        return None
    return known.st_dev, known.st_ino, known.st_ctime_ns


def _loaded(where: Path, problem: Problem | None) -> Run:
    plain = read_manifest(where)
    chosen = _problem_of(plain, where, problem)
    content = _read(where, ARRAYS, plain["arrays"]["bytes"])
    if len(content) != plain["arrays"]["bytes"]:
        raise _damaged(where, "its arrays do not have the size that the manifest names")
    if sha256(content) != plain["arrays"]["sha256"]:
        raise _damaged(where, "its arrays do not have the checksum that the manifest names")
    try:
        return rebuilt(plain, load(content), chosen)
    except (
        *(SafetensorError, KeyError, TypeError, ValueError, RecursionError),
        *(IndexError, AttributeError, OverflowError),
    ) as error:
        raise _damaged(where, str(error)) from error


def run_directory(path: Any) -> Path:
    """Return the directory of a run, named by itself or by its manifest."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("the directory of a run", repr(path), "name DIR/KEY")
    where = Path(path)
    where = where.parent if where.name == MANIFEST else where
    # The name of a run is its key: "." and ".." do not show it.
    return where if where.name not in ("", "..") else where.resolve()


def read_manifest(where: Path) -> dict[str, Any]:
    """Return the manifest of a run, checked but for its arrays."""
    content = _read(where, MANIFEST, LARGEST_MANIFEST)
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _damaged(where, "its manifest is not JSON, or only a part of it") from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise _damaged(where, "its manifest is not one of a run")
    # Before the version, which a changed byte may have turned into another one.
    if not _is_sealed(plain):
        raise _damaged(where, "its manifest does not have its own checksum")
    if plain.get("version") != VERSION:
        raise InputError(
            f"a run in version {VERSION} of the format",
            f"version {plain.get('version')!r} in {str(where)!r}",
            "read it with the twoaxis that wrote it, or train again",
        )
    arrays = plain.get("arrays")
    if not isinstance(arrays, dict) or not (
        isinstance(arrays.get("sha256"), str) and isinstance(arrays.get("bytes"), int)
    ):
        raise _damaged(where, "its manifest does not name size and checksum of the arrays")
    if plain.get("key") != where.name:
        raise _damaged(where, "its manifest describes a run of another name")
    return plain


def _is_sealed(plain: dict[str, Any]) -> bool:
    """Take the checksum out of a manifest, and say whether it is that of the rest."""
    sealed = plain.pop("sha256", None)
    try:
        return bool(sealed == seal(plain))
    except RecursionError:  # nested more deeply than anything that was written
        return False


def _read(where: Path, name: str, most: int) -> bytes:
    """Return the content of a plain file in the directory of a run, of `most` bytes at most.

    No link is followed: what lies elsewhere is no part of a run.
    """
    try:
        if where.is_symlink():
            raise OSError("the directory is a link")
        # A pipe is opened without waiting for a writer, and then refused.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with open(where / name, "rb", opener=lambda file, _: os.open(file, flags)) as stream:
            known = os.fstat(stream.fileno())
            if not stat.S_ISREG(known.st_mode):
                raise OSError("it is no plain file")
            if known.st_size <= most and is_sparse(known):
                raise OSError("it has holes where its content belongs")
            content = stream.read(known.st_size + 1) if known.st_size <= most else None
    except (OSError, ValueError) as error:
        raise _unreadable(where, name, error) from error
    if content is None or len(content) > most:
        raise _damaged(where, f"{name} is larger than it can be")
    return content


def _unreadable(where: Path, name: str, error: Exception) -> InputError:
    """Return what to say of a file that was not read: what is missing or no file is damage."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    try:
        inside = where.is_dir()
    except (OSError, ValueError):
        inside = False
    if not inside:
        return InputError("the directory of a run", f"{str(where)!r} ({reason})", "name DIR/KEY")
    if isinstance(error, OSError) and error.errno not in NO_FILE:
        return InputError(
            "a run that this process can read",
            f"{str(where / name)!r} ({reason})",
            "correct its permissions, or check the disk",
        )
    return _damaged(where, f"{name} cannot be read ({reason})")


def _problem_of(plain: dict[str, Any], where: Path, problem: Problem | None) -> Problem:
    """Return the problem of a run: a benchmark, or the one that was handed in."""
    settings = plain.get("settings")
    name = settings.get("problem") if isinstance(settings, dict) else None
    if not isinstance(name, str):
        raise _damaged(where, "its manifest does not name its problem")
    chosen = PROBLEMS.get(name) if problem is None else problem
    if chosen is None or chosen.name != name:
        raise InputError(
            f"the problem {name}",
            "none of that name" if chosen is None else chosen.name,
            "pass the one that the run was made with, as in load_run(path, problem=...)",
        )
    return chosen


def _damaged(where: Path, why: str) -> DamagedRunError:
    return DamagedRunError(
        "a complete, unchanged run",
        f"{str(where)!r}: {why}",
        "move it away and train the run again, or restore it from a copy",
    )
