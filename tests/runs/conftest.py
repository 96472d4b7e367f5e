"""Tiny trainings, and processes for the tests of engines and faults."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tiny_training import compiled_anew, made, trained  # noqa: F401

import twoaxis as ta

HERE = Path(__file__).parent
PATIENCE = 120


@pytest.fixture(scope="session", autouse=True)
def found_by_workers():
    """Every process finds the work of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def faultwork(found_by_workers):  # noqa: ARG001
    import faultwork  # only there once its directory is on the path

    return faultwork


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, faultwork):
    """What a sweep brings that nobody disturbs, in one process."""
    store = tmp_path_factory.mktemp("undisturbed")
    found = faultwork.sweep(store, engine="in-process")
    assert found.data["trained"].all()
    assert (found.work["attempts"] == 1).all()
    found.store = ta.RunStore(store)
    return found


@pytest.fixture
def start():
    """Start processes, each the first of a group of its own, and end what is left of them."""
    started = []
    # Shells start background jobs deaf to interrupts, which children would inherit.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def begin(*command, **options):
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            start_new_session=True,
            **{**given, **options},
        )
        started.append(process)
        return process

    yield begin
    signal.signal(signal.SIGINT, before)
    for process in started:
        for member in [*family(process), process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def family(process):
    """Return the processes that this one has started, and those that they have."""
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def alive(processes):
    """Return those among the processes that have not ended."""
    found = []
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


def until(condition, what, patience=PATIENCE):
    """Wait for something that must come, and return it."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    pytest.fail(f"waited {patience} seconds for {what}")


@pytest.fixture(scope="session")
def helpers():
    """The functions above: test modules cannot import each other."""
    return {"alive": alive, "family": family, "until": until}
