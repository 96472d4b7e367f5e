"""Disks that are full and terminals that lack characters: every command copes with both."""

import contextlib
import io
import os
import resource
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
from command import twoaxis

import twoaxis as ta
from twoaxis.errors import StorageError

jax = pytest.importorskip("jax")
programs = pytest.importorskip("jax.experimental.compilation_cache.compilation_cache")

TRAINING = ("--datasets", "8", "--steps", "3", "--width", "8", "--depth", "1")
# The options of each command, and the files that it writes.
WRITERS = {
    "report": (("report", "a/audit.nc", "--out", "page.html"), ["page.html"]),
    "remedy": (("remedy", "mine.nc", "--out", "plan.html"), ["plan.html", "plan.nc"]),
    "audit": (
        ("audit", "--run", "a/runs", "--replicas", "3", "--out", "found"),
        ["found/audit.html", "found/audit.nc"],
    ),
    "resolve": (
        ("resolve", "allen-cahn", "--layouts", "8", "--replicas", "3", "--out", "found.nc"),
        ["found.nc"],
    ),
    "figure": (
        ("resolve", "allen-cahn", "--layouts", "8", "--replicas", "3", "--figure", "found.png"),
        ["found.png"],
    ),
    "train": (("train", "allen-cahn", *TRAINING, "--out", "trained"), []),
}
READERS = (
    ("resolve", "allen-cahn", "--layouts", "8", "--replicas", "3"),
    ("reproduce", "--list"),
    ("runs", "list", "a/runs"),
    ("runs", "show", "a/runs", "allen-cahn"),
    ("runs", "verify", "a/runs"),
    ("runs", "prune", "a/runs", "--dry-run"),
    ("audit", "--help"),
    ("train", "nowhere", "--out", "x"),
)


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A short run and its audit."""
    folder = tmp_path_factory.mktemp("audited")
    ta.train(
        "allen-cahn", datasets=8, steps=12, snapshots=2, residual_points=300,
        network=ta.Network(8, 1), store=folder / "a" / "runs", engine="in-process", progress=False,
    )  # fmt: skip
    done = twoaxis("audit", "--run", "a/runs", "--replicas", "3", "--out", "a", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def place(audited, tmp_path):
    """A directory of one's own with that run, its audit, and an audit without its run."""
    shutil.copytree(audited, tmp_path, dirs_exist_ok=True)
    shutil.copy(tmp_path / "a" / "audit.nc", tmp_path / "mine.nc")
    return tmp_path


@contextlib.contextmanager
def no_file_may_exceed(most):
    """What a quota does; the kernel refuses to let a file grow.

    JAX keeps no compiled programs meanwhile: it would leave them truncated for all other tests.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept = jax.config.jax_enable_compilation_cache
    keep_programs(False)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        keep_programs(kept)


def keep_programs(kept):
    jax.config.update("jax_enable_compilation_cache", kept)
    programs.reset_cache()


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in files(folder)}


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "name",
    [
        *("report", "resolve", "train"),
        *(pytest.param(each, marks=pytest.mark.long) for each in ("remedy", "audit", "figure")),
    ],
)
def test_a_full_disk_is_one_sentence_and_the_command_can_be_repeated(name, place):
    command, expected = WRITERS[name]
    before = files_in(place)
    with no_file_may_exceed(1000):
        full = twoaxis(*command, cwd=place)
    assert full.returncode == 1
    (sentence,) = [line for line in full.stderr.splitlines() if line.startswith("error: ")]
    assert sentence.startswith("error: expected space for ")
    assert "File too large" in sentence
    assert "Traceback" not in full.stderr
    assert files_in(place) == before
    done = twoaxis(*command, cwd=place)
    assert done.returncode == 0, done.stderr
    after = files_in(place)
    assert before.items() <= after.items()
    assert set(expected) <= after.keys() - before.keys()
    if name == "train":
        assert len(ta.load_runs(place / "trained")) == 1


def test_a_disk_that_gets_full_does_not_crash_hdf5(audited, tmp_path):
    """It does, in compiled code, if it is left to write the file itself."""
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        found = ta.load(audited / "a" / "audit.nc")
        for _ in range(3):
            with pytest.raises(StorageError, match=r"No space left.*nothing was left half written"):
                found.save(tmp_path / "audit.nc")
        assert not list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("command", [("runs", "list", "a/runs", "--json", "-"), ("--version",)])
def test_an_output_that_nobody_reads_ends_quietly(place, command):
    """As when ``head`` has read enough, or where standard output is closed."""
    start = [sys.executable, "-m", "twoaxis", *command]
    options = {"stderr": subprocess.PIPE, "text": True, "cwd": place, "timeout": 60}
    # What is printed waits in a buffer until the end.
    options["env"] = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)
    piped = subprocess.run(start, stdout=writer, **options)
    os.close(writer)
    assert (piped.returncode, piped.stderr) == (1, "")
    closed = subprocess.run(f"{shlex.join(start)} >&-", shell=True, **options)
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ("train", "burgers", "--out", ""),
        ("train", "burgers", "--out="),
        ("compare-methods", "--store", ""),
        ("reproduce", "--list", "--out", ""),
        ("runs", "list", ""),
        ("runs", "show", ".", ""),
    ],
)
def test_an_empty_path_is_not_the_working_directory(tmp_path, command):
    done = twoaxis(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert f"a text after {[each for each in command if each][-1].rstrip('=')}" in done.stderr
    assert not list(tmp_path.iterdir())
    # The working directory can be meant.
    assert twoaxis("runs", "list", ".", cwd=tmp_path).returncode == 0


def test_an_output_that_cannot_be_printed_is_told(place):
    if not (full := io.open("/dev/full", "w")).writable():  # noqa: UP020, SIM115
        pytest.skip("there is no /dev/full")
    with full:
        done = subprocess.run(
            [sys.executable, "-m", "twoaxis", "runs", "list", "a/runs", "--json", "-"],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=place, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: expected space for 'the output'")
    assert "Traceback" not in done.stderr


def test_the_error_passes_between_processes():
    import pickle

    error = StorageError("a\x1b[2J.nc", "No space left on device")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (StorageError, str(error))
    assert "\x1b" not in str(error)
    assert isinstance(error, OSError)


# ------------------------------------------------------------------ terminals


@contextlib.contextmanager
def terminal(encoding):
    """Standard output and error as a terminal of this encoding has them; yield what came out."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        yield streams
        for stream in streams:
            stream.flush()


@pytest.mark.parametrize(
    "encoding",
    ["ascii", *(pytest.param(each, marks=pytest.mark.long) for each in ("cp1252", "latin-1"))],
)
def test_every_command_prints_on_terminals_without_unicode(encoding, place, monkeypatch):
    from twoaxis.cli import main

    monkeypatch.chdir(place)
    writers = [command for name, (command, _) in WRITERS.items() if name != "figure"]
    for command in [*writers, *READERS]:
        monkeypatch.setattr(sys, "argv", ["twoaxis", *command])
        with terminal(encoding) as streams, pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == (2 if "nowhere" in command else 0), command
        printed = b"".join(stream.buffer.getvalue() for stream in streams)
        assert printed.decode(encoding)
        assert b"\\u" not in printed, command
    for _, expected in WRITERS.values():
        assert all((place / name).exists() for name in expected if name != "found.png")


@pytest.mark.long
def test_a_minus_sign_is_a_minus_sign_everywhere(audited, monkeypatch):
    from twoaxis.cli import main

    found = ta.load(audited / "a" / "audit.nc")
    assert "\N{MINUS SIGN}" in str(found)
    numbers = [word.replace("\N{MINUS SIGN}", "-") for word in str(found).split()]
    monkeypatch.setattr(sys, "argv", ["twoaxis", "report", str(audited / "a" / "audit.nc")])
    with terminal("cp1252") as streams, pytest.raises(SystemExit):
        main()
    printed = streams[0].buffer.getvalue().decode("cp1252").split()
    negative = [word for word in numbers if word.startswith("-") and np.char.isnumeric(word[1:2])]
    assert negative
    assert set(negative) <= set(printed)
