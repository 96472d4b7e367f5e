"""Training in worker processes, one single-threaded worker a core.

Two runs on a core each finish sooner than two runs after another on two cores, because a step
of one run is too small to be shared well. The workers get the program as an exported
computation and need none of the Python code that made it, so a method that was defined in a
notebook can be spread too. They are fed through pipes and end with their parent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, final

import jax
import jax.export
import numpy as np

from twoaxis.errors import WorkerError
from twoaxis.training.backends import worker
from twoaxis.training.backends.in_process import stack
from twoaxis.training.program import build_advance
from twoaxis.training.settings import Settings

Tree = Any

# Keeps a process to one thread. JAX reads it when it first computes.
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "NPROC": "1",
}


@final
@dataclass(frozen=True)
class Workers:
    """So many processes of one thread each.

    Parameters
    ----------
    count : int
    """

    count: int

    def describe(self) -> str:
        """Return a few words for the terminal."""
        return f"{self.count} single-threaded workers"

    @contextmanager
    def session(self, settings: Settings, data: list[Tree]) -> Iterator[_Session]:
        """Start the workers and hand over program and data."""
        with tempfile.TemporaryFile() as log:
            session = _Session(settings, data, min(self.count, len(data)), log)
            try:
                yield session
            finally:
                session.close()


@final
class _Session:
    def __init__(self, settings: Settings, data: list[Tree], count: int, log: IO[bytes]) -> None:
        self._settings, self._data, self._log = settings, data, log
        self._processes = [_start(log, settings.precision) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count)
        self._ready = False

    def advance(self, state: Tree, start: int, steps: int) -> Tree:
        """Advance all runs; run k belongs to worker k modulo their number."""
        leaves, structure = jax.tree.flatten(state)
        runs = [[leaf[run] for leaf in leaves] for run in range(len(self._data))]
        if not self._ready:
            self._hand_over(jax.tree.unflatten(structure, runs[0]))
        count = len(self._processes)

        def work(number: int) -> list[list[Any]]:
            order = {"do": "advance", "start": start, "steps": steps}
            mine = range(number, len(runs), count)
            return [self._ask(number, {**order, "run": run}, runs[run]) for run in mine]

        done: list[Any] = [None] * len(runs)
        for number, states in enumerate(self._threads.map(work, range(count))):
            done[number::count] = states
        return stack([jax.tree.unflatten(structure, leaves) for leaves in done])

    def _hand_over(self, state: Tree) -> None:
        """Send the program to every worker, and every run's data to the worker it belongs to."""
        program = np.frombuffer(_exported(self._settings, state, self._data[0]), np.uint8)

        def send(number: int) -> None:
            self._ask(number, {"do": "program"}, [program])
            for run in range(number, len(self._data), len(self._processes)):
                self._ask(number, {"do": "data", "run": run}, jax.tree.leaves(self._data[run]))

        list(self._threads.map(send, range(len(self._processes))))
        self._ready = True

    def _ask(self, number: int, order: dict[str, Any], arrays: list[Any]) -> list[Any]:
        process = self._processes[number]
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            worker.write_message(process.stdin, order, arrays)
            _, answer = worker.read_message(process.stdout)
        except (OSError, EOFError, ValueError) as error:
            code = process.wait()
            self._log.seek(0)
            said = self._log.read()[-2000:].decode(errors="replace").strip()
            raise WorkerError(
                f"training worker {number} ended with exit code {code}; "
                f"the runs can be resumed from their checkpoint. {said}"
            ) from error
        return answer

    def close(self) -> None:
        """End the workers; what they hold is worth nothing without us."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):  # an order that a dead worker did not take
                        stream.close()
        self._threads.shutdown()


def _exported(settings: Settings, state: Tree, data: Tree) -> bytes:
    """Return the program of one run as bytes: a function of flat lists of arrays."""
    structures = [jax.tree.structure(tree) for tree in (state, data)]

    def flat(state: list[Any], data: list[Any], start: Any, steps: Any) -> list[Any]:
        one, other = (
            jax.tree.unflatten(s, x) for s, x in zip(structures, (state, data), strict=True)
        )
        return jax.tree.leaves(build_advance(settings)(one, other, start, steps))

    with jax.enable_x64(settings.precision == "float64"):
        number = np.int32(0)
        leaves = [jax.tree.leaves(tree) for tree in (state, data)]
        exported = jax.export.export(jax.jit(flat), platforms=["cpu"])(*leaves, number, number)
    return bytes(exported.serialize())


def _start(log: IO[bytes], precision: str) -> subprocess.Popen[bytes]:
    """Start one worker with a single thread."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": str(precision == "float64"),
        **ONE_THREAD,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    return subprocess.Popen(
        # The file itself, not the module: a worker needs JAX and NumPy, and starts faster so.
        [sys.executable, "-P", str(Path(worker.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        start_new_session=True,  # an interrupt from the keyboard is for the parent
    )
