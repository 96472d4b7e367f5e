import asyncio
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pandas as pd
import psutil
import pytest
from distributed import Client
from distributed.comm import connect
from distributed.scheduler import KilledWorker

import twoaxis as ta
from twoaxis.datasets import Dataset
from twoaxis.errors import InputError, WorkerError, WorkerWarning
from twoaxis.runs.engines import InProcess, Local, get_engine
from twoaxis.runs.engines import dask as dask_engine
from twoaxis.runs.engines.dask import Dask, versions
from twoaxis.runs.task import Task, Training, cut
from twoaxis.training import settings_for, specs_for
from twoaxis.training.backends import ATTEMPTS, WorkerProcess

same = partial(pd.testing.assert_frame_equal, check_exact=True)


def tasks_of(faultwork, size=1):
    settings = settings_for("burgers", **faultwork.TINY)
    specs = specs_for(settings.problem, datasets=faultwork.dataset(), seeds=range(4))
    return [Task(n, batch) for n, batch in enumerate(cut(settings, specs, size))]


def executed(engine, tasks, work):
    """All outcomes of an engine by the number of the task, and what it reported."""
    reports = []
    found = engine.execute(tasks, work, lambda *given: reports.append(given))
    return {outcome.number: outcome for outcome in found}, reports


# ------------------------------------------------------------------ the same numbers


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(Local(2), id="local"),
        # Every day, test_faults.py compares Dask with this process, and kills a worker of it.
        pytest.param(Dask(workers=2), id="dask", marks=pytest.mark.long),
    ],
)
def test_every_engine_gives_the_same_table_and_a_failed_task_is_a_row(
    engine, tmp_path, faultwork, undisturbed
):
    # The first tasks take longest: outcomes come in another order than they were asked for.
    work = faultwork.Raising(victim=2, pause=0.1)
    found = faultwork.sweep(tmp_path, engine=faultwork.Through(engine, work.bound))
    assert found.keys == undisturbed.keys
    others = [0, 1, 3]
    same(found.to_dataframe().iloc[others], undisturbed.to_dataframe().iloc[others])
    assert found.data["seed"].values.tolist() == [0, 1, 2, 3]
    reason = "RuntimeError: the disk of this worker is on fire"
    assert found.failures.index.tolist() == [2]
    assert found.failures["status"].tolist() == [reason]
    assert found.failures["nu"].isna().all()
    assert found.work["attempts"].tolist() == [1, 1, 1, 1]
    workers = found.work["worker"].iloc[others]
    assert all(worker.startswith(f"{socket.gethostname()}:") for worker in workers)


@pytest.mark.long
def test_processes_train_batches_in_memory_like_this_process(faultwork, undisturbed):
    alone = faultwork.sweep(None, engine="local", workers=1, batch=2)
    pair = faultwork.sweep(None, engine="local", workers=2, batch=2)
    same(alone.to_dataframe(), pair.to_dataframe())
    assert alone.keys == undisturbed.keys
    # Side by side, the last digits are others than alone.
    assert pair.data["delivered"].values == pytest.approx(undisturbed.data["delivered"].values)


# ------------------------------------------------------------------ workers that die


def test_a_task_that_kills_every_worker_fails_alone(faultwork, monkeypatch):
    advance, ask = WorkerProcess.advance, WorkerProcess._ask

    class Named(Training):
        """Training whose backend knows which task it is at."""

        def __call__(self, task, backend=None, report=None):
            class Seeded:
                program = backend.program

                @contextlib.contextmanager
                def session(self, settings, data):
                    with backend.session(settings, data) as session:
                        session.seed = task.number
                        yield session

            return super().__call__(task, Seeded(), report)

    def killed(self, process, order, arrays):
        if order["do"] == "advance" and self.victim:
            os.kill(process.pid, signal.SIGKILL)
        return ask(self, process, order, arrays)

    def marked(self, session, state, start, steps):
        self.victim = session.seed == 1
        return advance(self, session, state, start, steps)

    monkeypatch.setattr(WorkerProcess, "advance", marked)
    monkeypatch.setattr(WorkerProcess, "_ask", killed)
    outcomes, reports = executed(Local(2), tasks_of(faultwork), Named())
    assert sorted(outcomes) == [0, 1, 2, 3]
    assert outcomes[1].failure.startswith(f"its worker ended {ATTEMPTS} times; exit code -9")
    assert outcomes[1].attempts == ATTEMPTS
    for number in (0, 2, 3):
        assert (outcomes[number].failure, outcomes[number].attempts) == ("", 1)
        assert outcomes[number].runs[0].finished
    assert sum(steps for steps, _ in reports) == 3 * faultwork.TINY["steps"]


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

    def outcome():
        state = dask_engine._State({0: task}, None, None, False, attempts={0: 1})
        return state._result(Client(), Future(), task)

    assert outcome().attempts == 1
    deaths = 2
    assert (outcome().attempts, outcome().failure) == (3, "")
    # The scheduler gives up after as many deaths as it allows and one more: all were beginnings.
    deaths, error = ATTEMPTS, KilledWorker("any", None, ATTEMPTS - 1)
    assert outcome().attempts == ATTEMPTS
    assert outcome().failure == f"its worker ended {ATTEMPTS} times"
    deaths = ATTEMPTS - 1  # a scheduler that gives up earlier: the task is begun again
    assert outcome() is None


def test_in_one_process_a_task_that_raises_stops_nothing(faultwork):
    def work(task, backend, report):  # noqa: ARG001
        if task.number == 0:
            raise InputError("a", "b", "c")
        return ()

    outcomes, _ = executed(InProcess(), tasks_of(faultwork, 2), work)
    assert outcomes[0].failure == "expected a, got b; fix: c"
    assert isinstance(outcomes[0].error, InputError)
    assert (outcomes[1].failure, outcomes[1].attempts) == ("", 1)
    assert outcomes[1].worker == f"{socket.gethostname()}:{os.getpid()}"


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


@pytest.mark.long
def test_a_dask_worker_that_dies_while_it_starts_is_replaced(tmp_path, faultwork):
    work = faultwork.Fatal(str(tmp_path), victim=None)
    with first_newcomers(1, psutil.Process.kill) as killed:
        results, reports = executed(Dask(workers=2), tasks_of(faultwork), work)
    assert len(killed) == 1
    assert sorted(results) == [0, 1, 2, 3]
    assert all((r.failure, r.attempts) == ("", 1) for r in results.values())
    assert reports[-1][1].startswith("2 workers, ")


def test_without_any_dask_worker_that_starts_there_is_an_error(tmp_path, faultwork):
    engine = Dask(workers=2, patience=2.0)
    with first_newcomers(2, psutil.Process.suspend) as still:
        wanted = r"none of 2 Dask workers on this machine was ready within 2 seconds"
        with pytest.raises(WorkerError, match=wanted):
            executed(engine, tasks_of(faultwork), faultwork.Fatal(str(tmp_path), victim=None))
    assert len(still) == 2
    assert not any(worker.is_running() for worker in still)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ workers that fall silent


@pytest.fixture
def soon(monkeypatch):
    """Tell of a shorter silence; a busy machine may keep a worker from answering for seconds."""
    monkeypatch.setattr(dask_engine, "ASK", 0.5)
    monkeypatch.setattr(dask_engine, "SILENCE", 10.0)


def dask_workers():
    """The worker processes that this one has started."""
    family = psutil.Process().children(recursive=True)
    return [each for each in family if "spawn_main" in " ".join(each.cmdline())]


@pytest.mark.usefixtures("soon")
def test_a_dask_worker_that_stands_still_is_told_of_and_can_be_ended(tmp_path, faultwork):
    (marks := tmp_path / "marks").mkdir()
    work = faultwork.Stopped(str(marks), victim=1)
    ended = []

    def end_it(message, *_, **__):
        """Do what the warning says; a busy machine may bring one for another worker, too."""
        still = [each for each in dask_workers() if each.status() == psutil.STATUS_STOPPED]
        for worker in still:
            worker.kill()
            ended.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", WorkerWarning)
        warnings.showwarning = end_it
        outcomes, reports = executed(Dask(workers=2), tasks_of(faultwork), work)
    assert sorted(outcomes) == [0, 1, 2, 3]
    assert [outcome.failure for outcome in outcomes.values()] == [""] * 4
    assert outcomes[1].attempts == 2
    assert len(ended) == 1
    assert "of 2 Dask workers answer" in ended[0]
    assert any(note.endswith(" silent") for _, note in reports)


@pytest.fixture
def cluster(start, tmp_path):
    """The address of a scheduler without workers, and a function that starts one."""
    address = unused_address()
    common = ("--host", "127.0.0.1", "--no-dashboard")
    options = ("--nthreads", "1", "--no-nanny", "--local-directory", tmp_path, *common)
    quiet = {"stdout": subprocess.DEVNULL}
    start("-m", "dask", "scheduler", "--port", address.rpartition(":")[2], *common, **quiet)
    return address, lambda: start("-m", "dask", "worker", address, *options, **quiet)


@pytest.mark.usefixtures("soon")
def test_work_that_all_dask_workers_have_left_ends(tmp_path, faultwork, cluster):
    address, start_worker = cluster
    start_worker()
    with Client(address, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
    work = faultwork.Fatal(str(tmp_path), victim=0)  # the first task ends it
    with (
        pytest.warns(WorkerWarning, match="no Dask worker has been there"),
        pytest.raises(WorkerError, match="none came within 12 seconds"),
    ):
        executed(Dask(address, patience=12.0), tasks_of(faultwork), work)


@pytest.mark.long
@pytest.mark.usefixtures("soon")
def test_work_waits_for_its_first_dask_worker_and_says_so(tmp_path, faultwork, cluster):
    """A queue may start workers later than any patience."""
    address, start_worker = cluster
    told = []

    def start_one(message, *_, **__):
        if not told:  # a busy machine may bring one for that worker, too
            start_worker()  # as the warning says
        told.append(message)

    with Client(address, timeout=60, set_as_default=False):
        pass  # it is there
    with warnings.catch_warnings():
        warnings.simplefilter("always", WorkerWarning)
        warnings.showwarning = start_one
        work = faultwork.Fatal(str(tmp_path), victim=None)
        outcomes, _ = executed(Dask(address, patience=0.5), tasks_of(faultwork), work)
    assert f"dask worker {address}" in str(told[0])
    assert [outcome.failure for outcome in outcomes.values()] == [""] * 4


# ------------------------------------------------------------------ versions


@pytest.mark.long
def test_dask_workers_of_other_versions_are_refused_before_work_starts(
    tmp_path, faultwork, monkeypatch
):
    elsewhere = faultwork.ElsewhereOther(os.getpid(), versions())
    monkeypatch.setattr(dask_engine, "versions", elsewhere)
    with pytest.raises(InputError, match=r"1 of 1 with others, the first tls://.*twoaxis 0\.0\.1"):
        faultwork.sweep(tmp_path, engine=Dask(workers=1))
    assert ta.RunStore(tmp_path).keys() == []


def test_a_worker_of_another_version_refuses_the_task(tmp_path, faultwork):
    work, task = Training(str(tmp_path), "cpu"), tasks_of(faultwork)[0]
    with pytest.raises(InputError, match=r"a worker with twoaxis 0\.0\.1"):
        dask_engine._executed(work, task, ("twoaxis 0.0.1", *versions()[1:]))
    assert ta.RunStore(tmp_path).keys() == []


# ------------------------------------------------------------------ an interrupt


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "dask"])
def test_an_interrupt_stops_everything_and_the_same_command_goes_on(
    engine, tmp_path, start, helpers
):
    command = ("-m", "twoaxis", "train", "burgers", "--out", tmp_path, "--engine", engine)
    command += ("--width", "4", "--depth", "1", "--workers", "2", "--seeds", "0-7")
    command += ("--dataset", "8", "--steps", "300")
    process = start(*command)
    # The first run is there, others are under way.
    helpers["until"](lambda: list(tmp_path.glob("??/burgers*/run.json")), "a first run")
    workers = helpers["family"](process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everyone
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 130, output
    assert "interrupted; no file was left half written" in output
    assert "Traceback" not in output
    assert workers
    helpers["until"](lambda: not helpers["alive"](workers), "its workers to end", 5)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("??/burgers*/run.json")}
    assert 1 <= len(before) < 8
    again = start(*command)
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("??/burgers*/run.json")}
    assert len(after) == 8
    assert before.items() <= after.items()
    assert len(ta.load_runs(tmp_path)) == 8
    assert not list(tmp_path.rglob(".twoaxis-*"))
    assert not list(tmp_path.glob("checkpoints/*"))


@pytest.mark.long
@pytest.mark.parametrize("engine", ["local", "dask"])
def test_an_interrupt_stops_workers_that_are_about_to_start(engine, tmp_path, start, helpers):
    command = ("-m", "twoaxis", "train", "burgers", "--out", tmp_path, "--engine", engine)
    process = start(*command, "--workers", "2", "--seeds", "0-3", "--dataset", "8")
    name = {"local": "worker_program", "dask": "spawn_main"}[engine]

    def starting():
        family = helpers["alive"](helpers["family"](process))
        found = [p for p in family if name in " ".join(p.cmdline())]
        return found if len(found) == 2 else None

    workers = helpers["until"](starting, "two workers")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    helpers["until"](lambda: not helpers["alive"](workers), "its workers to end", 5)
    assert ta.RunStore(tmp_path).keys() == []


def test_an_interrupt_that_another_thread_gets_stops_the_wait_for_workers(faultwork, monkeypatch):
    cleaning_up, in_time = threading.Event(), []

    def work(*_):
        # The main thread waits and does not get it, as when it comes while a worker is started.
        time.sleep(0.5)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        in_time.append(cleaning_up.wait(10))
        return ()

    shutdown = ThreadPoolExecutor.shutdown

    def clean_up(threads, **options):
        cleaning_up.set()
        shutdown(threads, **options)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", clean_up)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    outcomes = Local(1).execute(tasks_of(faultwork)[:1], work, lambda *_: None)
    try:
        with pytest.raises(KeyboardInterrupt):
            next(outcomes)
    finally:
        signal.signal(signal.SIGINT, before)
    assert in_time == [True]


# ------------------------------------------------------------------ who may connect


def asked(address, **connection):
    """What a scheduler, a worker or the nanny of one answers to whoever is there."""

    async def ask():
        comm = await connect(address, timeout=10, **connection)
        try:
            await comm.write({"op": "identity", "reply": True})
            return await asyncio.wait_for(comm.read(), 10)
        finally:
            comm.abort()

    return asyncio.run(ask())


def test_a_cluster_on_this_machine_answers_holders_of_its_certificate_alone(tmp_path, faultwork):
    ours, others = (dask_engine.temporary_security() for _ in range(2))
    credentials, foreign = (each.get_connection_args("client") for each in (ours, others))
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with dask_engine.own_cluster(1, False, 60.0, ours) as address:
        found = asked(address, **credentials)
        ((worker, about),) = found["workers"].items()
        scratch = Path(about["local_directory"]).parents[1]
        for place in (address, worker, about["nanny"]):
            assert asked(place, **credentials)["id"]
            with pytest.raises(OSError, match=r"closed|reset|certificate|Timed out"):
                asked(place, **foreign)
            with pytest.raises(OSError, match=r"closed|reset|certificate|Timed out"):
                asked(place, ssl_context=anybody)
            with pytest.raises(OSError, match=r"closed|reset|Timed out"):
                asked(place.replace("tls://", "tcp://"))
        # Nobody else writes where workers keep what they unpickle.
        assert scratch.name.startswith("twoaxis-dask-")
        assert scratch.stat().st_mode & 0o777 == 0o700
        for port in (found["services"]["dashboard"], about["services"]["dashboard"]):
            for page in ("health", "info/main/workers.html", "json/counts.json", "metrics", ""):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10)
                assert refused.value.code == 404
        # To the engine of another call it is a scheduler like any other.
        with pytest.raises(InputError, match="credentials for the Dask scheduler at tls://"):
            faultwork.sweep(tmp_path, engine=Dask(address, patience=5.0))
        with pytest.raises(InputError, match="credentials for the Dask scheduler at tls://"):
            faultwork.sweep(tmp_path, engine=Dask(address, patience=5.0, security=others))
        work = faultwork.Fatal(str(tmp_path), victim=None)
        results, _ = executed(Dask(address, security=ours), tasks_of(faultwork), work)
        assert sorted(results) == [0, 1, 2, 3]
    assert not scratch.exists()


def test_credentials_of_another_kind_are_refused():
    with pytest.raises(InputError, match=r"distributed\.Security.*security=dict"):
        Dask(security={"tls_ca_file": "ca.pem"})


def test_without_cryptography_the_extra_is_named(monkeypatch, tmp_path, faultwork):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InputError, match=r"twoaxis\[dask\]"):
        faultwork.sweep(tmp_path, engine=Dask(workers=1))


# ------------------------------------------------------------------ bad input


def unused_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def test_a_scheduler_that_is_not_there_is_told(tmp_path, faultwork):
    address = unused_address()
    with pytest.raises(InputError, match=rf"a Dask scheduler at {address}.*within 0\.5 seconds"):
        faultwork.sweep(tmp_path, engine=Dask(address, patience=0.5))


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "twoaxis.runs.engines.dask", None)
    monkeypatch.delitem(sys.modules, "twoaxis.runs.engines.dask")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"twoaxis\[dask\]"):
        get_engine("dask")


def test_runs_of_a_users_own_problem_are_found_again(tmp_path, faultwork, undisturbed):
    from dataclasses import replace

    problem = replace(undisturbed[0].problem, name="mine")
    data = faultwork.dataset()
    given = {name: getattr(data, name) for name in ("sites", "coordinates", "values")}
    own = Dataset(problem="mine", noise_scale=0.1, provenance="made up", label="tiny0", **given)
    options = {**faultwork.TINY, "steps": 2, "datasets": own, "engine": "in-process"}
    first = ta.train(problem, store=tmp_path, progress=False, **options)
    again = ta.train(problem, store=tmp_path, progress=False, **options)
    same(first.to_dataframe(), again.to_dataframe())
    assert first.data["trained"].all()
    assert again.work["attempts"].tolist() == [0]
