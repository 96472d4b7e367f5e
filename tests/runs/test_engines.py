import contextlib
import os
import signal
import socket
import sys
import threading
from functools import partial

import pandas as pd
import psutil
import pytest
from distributed.scheduler import KilledWorker

import twoaxis as ta
from twoaxis.errors import InputError, WorkerError
from twoaxis.observations import Dataset
from twoaxis.runs.engines import ATTEMPTS, InProcess, Local, get_engine
from twoaxis.runs.engines import dask as dask_engine
from twoaxis.runs.engines import local as local_engine
from twoaxis.runs.engines.dask import Dask
from twoaxis.runs.task import Training, cut, versions
from twoaxis.training import settings_for, specs_for

same = partial(pd.testing.assert_frame_equal, check_exact=True)


def tasks_of(faultwork, size=1):
    settings = settings_for("burgers", **faultwork.TINY)
    return cut(
        settings, specs_for(settings.problem, datasets=faultwork.dataset(), seeds=range(4)), size
    )


def executed(engine, tasks, work):
    """All results of an engine by the number of the task, and how it stood in the end."""
    told = []
    results = {result.number: result for result in engine.execute(tasks, work, told.append)}
    return results, told


# ------------------------------------------------------------------ the same numbers


@pytest.mark.parametrize("engine", [Local(2), Dask(workers=2)], ids=["local", "dask"])
def test_every_engine_gives_the_same_table_and_a_failed_task_is_a_row(
    engine, tmp_path, faultwork, undisturbed
):
    # The first tasks take longest: results come in another order than they were asked for.
    work = faultwork.Raising(victim=2, pause=0.3)
    found = faultwork.sweep(tmp_path, engine=faultwork.Through(engine, work.bound))
    assert found.keys == undisturbed.keys
    assert found.table["key"].tolist() == list(found.keys)
    others = [0, 1, 3]
    same(found.table.iloc[others], undisturbed.table.iloc[others])
    assert found.table["seed"].tolist() == [0, 1, 2, 3]
    reason = "RuntimeError: the disk of this worker is on fire"
    assert found.failures.index.tolist() == [2]
    assert found.failures["status"].tolist() == [reason]
    assert found.failures["nu"].isna().all()
    assert found.work["attempts"].tolist() == [1, 1, 1, 1]
    assert found.work["failure"].tolist() == ["", "", reason, ""]
    workers = found.work["worker"].iloc[others]
    assert all(worker.startswith(f"{socket.gethostname()}:") for worker in workers)
    assert [run.key for run in found.runs] == [undisturbed.keys[n] for n in others]


def test_tasks_of_several_runs_are_the_same_in_every_process(tmp_path, faultwork):
    tables = [
        faultwork.sweep(tmp_path / f"{count}", engine="local", workers=count, batch=2).table
        for count in (1, 2)
    ]
    assert tables[0]["stored"].all()
    same(*tables)


def test_a_table_is_written_as_netcdf(tmp_path, undisturbed):
    import xarray as xr

    with xr.open_dataset(undisturbed.to_netcdf(tmp_path / "table.nc")) as stored:
        assert stored["nu"].to_numpy().tolist() == undisturbed.table["nu"].tolist()
        assert stored["key"].to_numpy().tolist() == list(undisturbed.keys)


# ------------------------------------------------------------------ workers that die


def test_a_task_that_kills_every_worker_fails_alone(tmp_path, faultwork):
    results, told = executed(Local(2), tasks_of(faultwork), faultwork.Fatal(str(tmp_path), 1))
    assert sorted(results) == [0, 1, 2, 3]
    assert results[1].failure == f"its worker ended {ATTEMPTS} times"
    assert results[1].attempts == ATTEMPTS == len(list(tmp_path.glob("1.*")))
    for number in (0, 2, 3):
        assert results[number].failure == ""
        assert results[number].worker == str(number)
        # A pool may break before the worker of another task has begun with it.
        assert len(list(tmp_path.glob(f"{number}.*"))) <= results[number].attempts < ATTEMPTS
    assert (told[-1].workers, told[-1].done, told[-1].running, told[-1].failed) == (2, 3, 0, 1)


def test_dask_counts_how_often_a_task_was_begun(faultwork):
    task = tasks_of(faultwork)[0]
    deaths, error = 0, None

    class Future:
        key = "any"

        def exception(self):
            return error

        def result(self):
            return "worker"

    class Client:
        def run_on_scheduler(self, function, key):  # noqa: ARG002
            return deaths

    def told():
        state = dask_engine._State({0: task}, None, None, False, attempts={0: 1})
        return state._result(Client(), Future(), task)

    assert told().attempts == 1
    deaths = 2
    assert (told().attempts, told().failure) == (3, "")
    # The scheduler gives up after as many deaths as it allows and one more: all were beginnings.
    deaths, error = ATTEMPTS, KilledWorker("any", None, ATTEMPTS - 1)
    assert told().attempts == ATTEMPTS
    assert told().failure == f"its worker ended {ATTEMPTS} times"
    deaths = ATTEMPTS - 1  # a scheduler that gives up earlier: the task is begun again
    assert told() is None


def test_in_one_process_a_task_that_raises_stops_nothing(faultwork):
    def work(task):
        if task.number == 0:
            raise InputError("a", "b", "c")
        return "done"

    results, told = executed(InProcess(), tasks_of(faultwork, 2), work)
    assert results[0].failure == "wanted a, got b; fix: c."
    assert (results[1].worker, results[1].failure, results[1].attempts) == ("done", "", 1)
    assert (told[-1].done, told[-1].running, told[-1].failed) == (1, 0, 1)


def test_a_local_worker_is_told_to_end_and_ends_its_task_first(faultwork, monkeypatch):
    # In its queue it must not be woken: another worker would read the rest of half a message.
    at_work, ended = [], []
    monkeypatch.setattr(os, "_exit", ended.append)
    before = signal.getsignal(signal.SIGTERM)
    task = tasks_of(faultwork)[0]

    def told_to_end(_):
        at_work.append(signal.getsignal(signal.SIGTERM))
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        local_engine._executed(told_to_end, task)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert at_work == [local_engine._leave]
    assert ended == [1]


# ------------------------------------------------------------------ workers that do not start


@contextlib.contextmanager
def first_newcomers(count, action):
    """Do something to the first worker processes that start from here on; yield those."""
    here, met, ended = psutil.Process(), [], threading.Event()
    known = set(here.children())

    def watch():
        while len(met) < count and not ended.wait(0.01):
            for child in set(here.children()) - known:
                with contextlib.suppress(psutil.Error):
                    if len(met) < count and "spawn_main" in " ".join(child.cmdline()):
                        known.add(child)
                        action(child)
                        met.append(child)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield met
    finally:
        ended.set()
        watcher.join()


def test_a_dask_worker_that_dies_while_it_starts_is_replaced(tmp_path, faultwork):
    work = faultwork.Fatal(str(tmp_path), victim=None)
    with first_newcomers(1, psutil.Process.kill) as killed:
        results, told = executed(Dask(workers=2), tasks_of(faultwork), work)
    assert len(killed) == 1
    assert sorted(results) == [0, 1, 2, 3]
    assert all((r.failure, r.attempts) == ("", 1) for r in results.values())
    assert told[-1].workers == 2


def test_without_any_dask_worker_that_starts_there_is_an_error(tmp_path, faultwork):
    engine = Dask(workers=2, patience=2.0)
    with first_newcomers(2, psutil.Process.suspend) as still:
        wanted = r"none of 2 Dask workers on this machine was ready within 2 seconds"
        with pytest.raises(WorkerError, match=wanted):
            executed(engine, tasks_of(faultwork), faultwork.Fatal(str(tmp_path), victim=None))
    assert len(still) == 2
    assert not any(worker.is_running() for worker in still)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ versions


def test_dask_workers_of_other_versions_are_refused_before_work_starts(
    tmp_path, faultwork, monkeypatch
):
    elsewhere = faultwork.ElsewhereOther(os.getpid(), versions())
    monkeypatch.setattr(dask_engine, "versions", elsewhere)
    with pytest.raises(InputError, match=r"1 of 1 with others, the first tcp://.*twoaxis 0\.0\.1"):
        faultwork.sweep(tmp_path, engine=Dask(workers=1))
    assert ta.RunStore(tmp_path).keys() == []


def test_a_worker_of_another_version_refuses_the_task(tmp_path, faultwork):
    work = Training(str(tmp_path), "cpu", ("twoaxis 0.0.1", *versions()[1:]))
    task = tasks_of(faultwork)[0]
    with pytest.raises(InputError, match=r"a worker with twoaxis 0\.0\.1"):
        work(task)
    assert ta.RunStore(tmp_path).keys() == []


# ------------------------------------------------------------------ an interrupt


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_an_interrupt_stops_everything_and_the_same_command_goes_on(
    engine, tmp_path, start, helpers
):
    command = ("-m", "twoaxis", "train", "burgers", "--out", tmp_path, "--engine", engine)
    command += ("--width", "4", "--depth", "1", "--workers", "2", "--seeds", "0-11")
    command += ("--dataset", "8", "--steps", "3000")
    process = start(*command)
    # The first run is there, others are on their way.
    helpers["until"](lambda: list(tmp_path.glob("??/burgers*/run.json")), "a first run")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everyone
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 130, output
    assert "interrupted; no file was left half written" in output
    assert "Traceback" not in output
    helpers["until"](lambda: not helpers["family"](process), "its workers to end", 5)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("??/burgers*/run.json")}
    assert 1 <= len(before) < 12
    again = start(*command)
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("??/burgers*/run.json")}
    assert len(after) == 12
    assert before.items() <= after.items()
    assert len(ta.load_runs(tmp_path)) == 12
    assert not list(tmp_path.rglob(".twoaxis-*"))
    assert not list(tmp_path.glob("checkpoints/*"))


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_an_interrupt_stops_workers_that_are_about_to_start(engine, tmp_path, start, helpers):
    command = ("-m", "twoaxis", "train", "burgers", "--out", tmp_path, "--engine", engine)
    process = start(*command, "--workers", "2", "--seeds", "0-3", "--dataset", "8")
    helpers["until"](
        lambda: sum("spawn_main" in " ".join(p.cmdline()) for p in helpers["family"](process)) == 2,
        "two workers",
    )
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    helpers["until"](lambda: not helpers["family"](process), "its workers to end", 5)
    assert ta.RunStore(tmp_path).keys() == []


# ------------------------------------------------------------------ bad input


def unused_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def test_a_scheduler_that_is_not_there_is_told(tmp_path, faultwork):
    address = unused_address()
    with pytest.raises(InputError, match=rf"a Dask scheduler at {address}.*within 0\.5 seconds"):
        faultwork.sweep(tmp_path, engine=Dask(address, patience=0.5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "ray"}, "an engine among in-process, local, dask, got 'ray'"),
        ({"engine": None}, "an engine among"),
        ({"engine": "local", "batch": 0}, "at least one run a task, got batch=0"),
        ({"engine": "local", "batch": 1.5}, "at least one run a task"),
        ({"engine": "local", "batch": True}, "at least one run a task"),
        ({"engine": "local", "workers": 0}, "at least one worker"),
        ({"engine": "local", "workers": True}, "at least one worker"),
        ({"engine": "dask", "workers": 0}, "at least one worker"),
        ({"engine": "local", "scheduler": "tcp://127.0.0.1:1"}, "a scheduler for the engine dask"),
        ({"engine": "local", "device": "tpu"}, 'device "cpu" or "gpu"'),
        ({"engine": "local", "seeds": (0, 0)}, "differ|twice|once"),
        ({"engine": "local", "seeds": ()}, "at least one"),
    ],
)
def test_bad_arguments_are_told_before_anything_starts(tmp_path, faultwork, options, message):
    store = tmp_path / "store"
    with pytest.raises(InputError, match=message):
        faultwork.sweep(store, **options)
    assert not store.exists()


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "twoaxis.runs.engines.dask", None)
    monkeypatch.delitem(sys.modules, "twoaxis.runs.engines.dask")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"twoaxis\[dask\]"):
        get_engine("dask")


def test_runs_of_a_problem_of_ones_own_are_found_again(tmp_path, faultwork, undisturbed):
    from dataclasses import replace

    problem = replace(undisturbed.problem, name="mine")
    data = faultwork.dataset()
    given = {name: getattr(data, name) for name in ("sites", "coordinates", "values")}
    own = Dataset(problem="mine", noise_scale=0.1, provenance="made up", label="tiny0", **given)
    options = {**faultwork.TINY, "steps": 2, "datasets": own, "engine": "in-process"}
    first = ta.sweep(problem, store=tmp_path, progress=False, **options)
    again = ta.sweep(problem, store=tmp_path, progress=False, **options)
    same(first.table, again.table)
    assert first.table["stored"].all()
    assert again.work["attempts"].tolist() == [0]
