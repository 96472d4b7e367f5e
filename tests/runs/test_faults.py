"""Whatever happens to a sweep, its runs come out as if nothing had: each fault is a real one."""

import contextlib
import os
import socket
import subprocess
import threading
from functools import partial

import pandas as pd
import pytest

import twoaxis as ta
from twoaxis.errors import DamageWarning, InputError
from twoaxis.runs.engines import InProcess
from twoaxis.runs.engines.dask import Dask
from twoaxis.runs.maintenance import check_run, look_through
from twoaxis.runs.run_file import ARRAYS, MANIFEST

same = partial(pd.testing.assert_frame_equal, check_exact=True)


@pytest.fixture
def as_if_nothing_had_happened(faultwork, undisturbed):
    """Check a store: every run once, all checksums right, the same table, nothing left over."""

    def check(directory, damaged=0):
        store = ta.RunStore(directory)
        assert store.keys() == sorted(undisturbed.keys)
        contents = look_through(store)
        assert [check_run(place).state for place in contents.places] == ["sound"] * 4
        for key in undisturbed.keys:
            ours, theirs = (s.path(key) / ARRAYS for s in (store, undisturbed.store))
            assert ours.read_bytes() == theirs.read_bytes()
        found = faultwork.sweep(directory, engine="in-process")
        same(found.to_dataframe(), undisturbed.to_dataframe())
        assert len(contents.set_aside) == damaged
        assert not contents.checkpoints
        assert not contents.strangers

    return check


def runs_in(directory):
    return list(directory.glob("??/burgers*/run.json"))


# ------------------------------------------------------------------ workers


def test_a_dask_worker_is_killed_in_the_middle_of_a_task(
    tmp_path, faultwork, as_if_nothing_had_happened
):
    (marks := tmp_path / "marks").mkdir()
    work = faultwork.Killed(str(marks), victim=1, times=1)
    engine = faultwork.Through(Dask(workers=2), work.bound)
    found = faultwork.sweep(tmp_path / "store", engine=engine)
    assert len(list(marks.iterdir())) == 2
    assert not len(found.failures)
    assert found.work["attempts"][1] == 2
    assert found.work["attempts"].max() == 2
    as_if_nothing_had_happened(tmp_path / "store")


# ------------------------------------------------------------------ the scheduler


@pytest.mark.long
def test_the_scheduler_is_killed_and_started_again(
    tmp_path, start, faultwork, as_if_nothing_had_happened
):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address, store = f"tcp://127.0.0.1:{port}", tmp_path / "store"

    common = ("--host", "127.0.0.1", "--no-dashboard")

    def scheduler():
        options = ("--port", port, *common)
        return start("-m", "dask", "scheduler", *options, stdout=subprocess.DEVNULL)

    def worker():
        options = ("--nthreads", "1", "--no-nanny", "--local-directory", tmp_path, *common)
        return start("-m", "dask", "worker", address, *options, stdout=subprocess.DEVNULL)

    ended = threading.Event()

    def keep_going():
        """Do what whoever runs the cluster does: start again what has ended.

        A worker that loses its scheduler ends by itself.
        """
        processes = {scheduler: scheduler(), worker: worker()}
        killed = False
        while not ended.wait(0.02):
            if not killed and runs_in(store):
                processes[scheduler].kill()
                killed = True
            for begin, process in processes.items():
                if process.poll() is not None:
                    processes[begin] = begin()

    keeper = threading.Thread(target=keep_going, daemon=True)
    keeper.start()
    client = start(faultwork.__file__, store, "dask", address)
    try:
        output, _ = client.communicate(timeout=120)
    finally:
        ended.set()
        keeper.join()
    assert client.returncode == 0, output
    assert "begun at most 2 times" in output
    as_if_nothing_had_happened(store)


# ------------------------------------------------------------------ clients


@pytest.mark.long
def test_the_client_is_killed_and_started_again(
    tmp_path, start, faultwork, helpers, as_if_nothing_had_happened
):
    client = start(faultwork.__file__, tmp_path, "local")
    helpers["until"](lambda: runs_in(tmp_path), "a first run")
    workers = helpers["family"](client)
    client.kill()
    client.wait()
    # Its workers do not wait for orders that nobody will give.
    helpers["until"](lambda: not helpers["alive"](workers), "its workers to end", 10)
    again = start(faultwork.__file__, tmp_path, "local")
    assert again.wait(120) == 0
    as_if_nothing_had_happened(tmp_path)


@pytest.mark.long
def test_two_clients_fill_one_store(tmp_path, start, faultwork, as_if_nothing_had_happened):
    clients = [start(faultwork.__file__, tmp_path, "in-process") for _ in range(2)]
    assert [client.wait(120) for client in clients] == [0, 0]
    as_if_nothing_had_happened(tmp_path)


def test_what_a_killed_process_left_is_removed_later(tmp_path, faultwork, undisturbed):
    key = undisturbed.keys[0]
    store = ta.RunStore(tmp_path, create=True)
    for wanted in undisturbed.keys:
        store.save(undisturbed.store.load(wanted))
    half = store.path(key).parent / ".twoaxis-0123456789abcdef"
    half.mkdir()
    (half / ARRAYS).write_bytes(b"half of it")
    faultwork.sweep(tmp_path, engine="in-process")
    assert half.exists()  # somebody may be writing just now
    os.utime(half, (0, 0))
    faultwork.sweep(tmp_path, engine="in-process")
    assert not half.exists()


# ------------------------------------------------------------------ disks


@contextlib.contextmanager
def mounted(place, options):
    place.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount on this machine")
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.long
def test_a_full_disk_makes_rows_and_the_sweep_goes_on_when_there_is_space(
    tmp_path, start, faultwork, as_if_nothing_had_happened
):
    with mounted(tmp_path / "disk", "size=32k") as disk:
        full = start(faultwork.__file__, disk, "in-process")
        output, _ = full.communicate(timeout=120)
        assert full.returncode == 1, output
        assert "No space left on device" in output
        assert "Traceback" not in output
        assert all(check_run(p).state == "sound" for p in look_through(ta.RunStore(disk)).places)
        assert not list(disk.rglob(".twoaxis-*"))
        command = ["mount", "-o", "remount,size=16m", str(disk)]
        subprocess.run(command, check=True)
        assert start(faultwork.__file__, disk, "in-process").wait(120) == 0
        as_if_nothing_had_happened(disk)


@pytest.mark.long
def test_no_file_may_grow_and_the_sweep_goes_on_when_it_may(
    tmp_path, start, faultwork, as_if_nothing_had_happened
):
    # What a quota does, on every machine. Nothing else may write files: no cache of programs.
    alone = {**os.environ, "FILE_BYTES": "4096", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    limited = start(faultwork.__file__, tmp_path, "in-process", env=alone)
    output, _ = limited.communicate(timeout=120)
    assert limited.returncode == 1, output
    assert output.count("failed:") == 1
    assert "File too large" in output
    assert "Traceback" not in output
    assert not runs_in(tmp_path)
    assert not list(tmp_path.rglob(".twoaxis-*"))
    assert start(faultwork.__file__, tmp_path, "in-process").wait(120) == 0
    as_if_nothing_had_happened(tmp_path)


def test_a_store_that_cannot_be_written_is_told_before_work_and_read(
    tmp_path, faultwork, undisturbed
):
    with mounted(tmp_path / "disk", "size=4m") as disk:
        store = ta.RunStore(disk, create=True)
        store.save(undisturbed.store.load(undisturbed.keys[0]))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(InputError, match="Read-only file system"):
            faultwork.sweep(disk, engine="local")
        (run,) = ta.load_runs(disk)
        assert run.key == undisturbed.keys[0]
        assert [p.state for p in map(check_run, look_through(ta.RunStore(disk)).places)] == [
            "sound"
        ]


# ------------------------------------------------------------------ damaged files


def truncate(path, _):
    path.write_bytes(path.read_bytes()[:-7])


def flip_a_bit(path, _):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def replace(path, other):
    path.write_bytes((other / path.name).read_bytes())


def test_damaged_files_are_told_set_aside_and_made_again(
    tmp_path, faultwork, undisturbed, as_if_nothing_had_happened
):
    store = ta.RunStore(tmp_path, create=True)
    for key in undisturbed.keys:
        store.save(undisturbed.store.load(key))
    other = store.path(undisturbed.keys[3])
    faults = [(truncate, ARRAYS), (flip_a_bit, ARRAYS), (replace, MANIFEST)]
    for key, (damage, name) in zip(undisturbed.keys, faults, strict=False):
        damage(store.path(key) / name, other)
    with pytest.warns(DamageWarning) as warned:
        found = faultwork.sweep(tmp_path, engine="in-process")
    assert not len(found.failures)
    told = [str(each.message) for each in warned if each.category is DamageWarning]
    for key in undisturbed.keys[:3]:
        assert sum(key in line for line in told) == 1, told
    assert undisturbed.keys[3] not in " ".join(told)
    as_if_nothing_had_happened(tmp_path, damaged=3)


def test_a_run_that_is_damaged_is_never_used(tmp_path, faultwork, undisturbed):
    store = ta.RunStore(tmp_path, create=True)
    for key in undisturbed.keys:
        store.save(undisturbed.store.load(key))
    flip_a_bit(store.path(undisturbed.keys[1]) / ARRAYS, None)

    def nothing(*_):
        raise OSError("no worker has time")

    engine = faultwork.Through(InProcess(), lambda _: nothing)
    with pytest.warns(DamageWarning, match=undisturbed.keys[1]):
        found = faultwork.sweep(tmp_path, engine=engine)
    assert found.failures["key"].tolist() == [undisturbed.keys[1]]
    assert found.failures["status"].tolist() == ["OSError: no worker has time"]
    others = [0, 2, 3]
    same(found.to_dataframe().iloc[others], undisturbed.to_dataframe().iloc[others])
