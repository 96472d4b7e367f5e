"""A file is there whole, or as it was before."""

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from twoaxis.errors import InputError
from twoaxis.files import (
    ensure_directory,
    ensure_writable,
    flush_directory,
    flush_file,
    write_whole,
)


def test_writes_and_returns_the_path(tmp_path):
    target = tmp_path / "table.json"
    assert write_whole(str(target), lambda path: path.write_text("new")) == target
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_the_old_file_stands_until_the_new_one_is_complete(tmp_path):
    target = tmp_path / "table.nc"
    target.write_text("old")

    def write(path):
        assert path.parent == tmp_path  # a move between file systems would not be atomic
        assert path.suffix == ".nc"  # writers that choose a format by suffix
        path.write_text("new")
        assert target.read_text() == "old"

    write_whole(target, write)
    assert target.read_text() == "new"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("before", [{}, {"table.json": "old"}])
def test_a_failure_leaves_no_trace(tmp_path, error, before):
    for name, text in before.items():
        (tmp_path / name).write_text(text)

    def write(path):
        path.write_text("half")
        raise error("in the middle")

    with pytest.raises(error, match="in the middle"):
        write_whole(tmp_path / "table.json", write)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_permissions_are_those_of_an_ordinary_file(tmp_path, mask):
    before = os.umask(mask)
    try:
        written = write_whole(tmp_path / "whole", lambda path: path.write_text("x"))
        (tmp_path / "plain").write_text("x")
    finally:
        after = os.umask(before)
    assert after == mask
    assert stat.S_IMODE(written.stat().st_mode) == 0o666 & ~mask
    assert written.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_ensure_writable_only_looks(tmp_path):
    target = tmp_path / "table.json"
    assert ensure_writable(str(target)) == target
    assert not any(tmp_path.iterdir())
    target.write_text("old")
    assert ensure_writable(target) == target
    assert target.read_text() == "old"


def test_ensure_writable_takes_a_bare_file_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ensure_writable("table.json") == Path("table.json").resolve()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "a file name to write to, got the directory"),
        ("missing/table.json", "No such file or directory.*create the directory"),
        ("file/table.json", "Not a directory"),
        ("/proc/table.json", "a place where a file can be written, got '/proc/table.json'"),
    ],
)
def test_places_where_no_file_can_be_written(tmp_path, name, message):
    (tmp_path / "file").write_text("regular")
    calls = []
    with pytest.raises(InputError, match=message):
        ensure_writable(tmp_path / name)
    with pytest.raises(InputError, match=message):
        write_whole(tmp_path / name, calls.append)
    assert calls == []


def test_an_empty_name_of_a_directory_is_not_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        ensure_directory("")
    assert refused.value.got == "''"
    assert ensure_directory(".") == tmp_path


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, lambda path: path.write_text("new"))
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="device or pipe"):
        write_whole(pipe, lambda path: path.write_text("new"))
    assert pipe.is_fifo()


def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "private.json"
    path.write_text("old")
    path.chmod(0o600)
    write_whole(path, lambda target: target.write_text("new"))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["x" * 300, "nul\0byte"])
def test_names_that_no_file_can_have(tmp_path, name):
    with pytest.raises(InputError, match="file can be written"):
        ensure_writable(tmp_path / name)


def test_a_long_name_is_a_name(tmp_path):
    path = tmp_path / ("x" * 250)
    write_whole(path, lambda target: target.write_text("new"))
    assert path.read_text() == "new"


# ------------------------------------------------------------------ on the disk


@pytest.fixture
def flushed(monkeypatch):
    """What was flushed and what was renamed, in this order."""
    steps, fsync, replace = [], os.fsync, Path.replace

    def flush(handle):
        known = os.fstat(handle)
        steps.append((known.st_dev, known.st_ino))
        fsync(handle)

    def rename(path, target):
        steps.append("renamed")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(Path, "replace", rename)
    return steps


def identity(path):
    return path.stat().st_dev, path.stat().st_ino


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, flushed):
    path = write_whole(tmp_path / "table.json", lambda target: target.write_text("new"))
    assert flushed == [identity(path), "renamed", identity(tmp_path)]


def test_a_file_is_flushed_and_keeps_its_content(tmp_path, flushed):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    flush_file(path)
    assert flushed == [identity(path)]
    assert path.read_bytes() == b"content"


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "table.json"
    path.write_text("old")

    def full(handle):  # noqa: ARG001
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        flush_file(path)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, lambda target: target.write_text("new"))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("table.json", "old")]


def test_a_directory_is_flushed(tmp_path, flushed):
    flush_directory(tmp_path)
    assert flushed == [identity(tmp_path)]


def test_a_directory_that_cannot_be_flushed_is_no_error(tmp_path, monkeypatch):
    flush_directory(tmp_path / "missing")
    closed, close = [], os.close

    def unable(handle):  # noqa: ARG001
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", unable)
    monkeypatch.setattr(os, "close", lambda handle: closed.append(handle) or close(handle))
    flush_directory(tmp_path)
    assert len(closed) == 1


@pytest.mark.parametrize("chance", range(2))
def test_a_signal_as_soon_as_a_file_is_there_leaves_no_trace(tmp_path, monkeypatch, chance):
    """The first file that is opened is the probe of the place, the second the file itself."""
    opened, ordinary = [], os.open

    def interrupted(path, *arguments, **options):
        handle = ordinary(path, *arguments, **options)
        if Path(path).parent == tmp_path:
            opened.append(path)
            if len(opened) == chance + 1:
                os.close(handle)
                raise KeyboardInterrupt
        return handle

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a.txt", lambda path: path.write_text("new"))
    assert len(opened) == chance + 1
    assert not list(tmp_path.iterdir())


def test_threads_that_write_leave_the_mask_of_the_process_alone(tmp_path):
    mask = os.umask(0o027)
    try:
        with ThreadPoolExecutor(8) as threads:
            paths = list(
                threads.map(
                    lambda k: write_whole(tmp_path / f"{k}.txt", lambda p: p.write_text("x")),
                    range(200),
                )
            )
        assert {path.stat().st_mode & 0o777 for path in paths} == {0o640}
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(mask)
