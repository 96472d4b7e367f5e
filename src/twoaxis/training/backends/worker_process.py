"""Training in a worker process of one thread.

Two runs on a core each finish sooner than two runs one after the other on two cores, because a
step of one run is too small to be shared well. A worker gets the loop as an exported computation
and needs none of the Python code behind it: a method that was defined in a notebook can be spread
too, and a script needs no ``if __name__ == "__main__"``. It is fed through pipes and ends with
its parent. A worker that dies is replaced, and the chunk of steps that it was at is computed
again from the state before it, with the same numbers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

import jax
import jax.export
import numpy as np

from twoaxis.errors import WorkerError
from twoaxis.training.backends import worker_program
from twoaxis.training.backends.device import Program, side_by_side, stack
from twoaxis.training.settings import Settings

Tree = Any

# How often work is begun at most whose worker dies. It may have been bad luck, or the work.
ATTEMPTS = 4
# Flags that keep XLA to one thread.
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def one_thread() -> dict[str, str]:
    """Return the variables that keep a process to one thread; JAX reads them when it starts.

    Flags of the user's own stay in force.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}"
    return {"XLA_FLAGS": flags.strip(), "NPROC": "1"}


@final
class Programs:
    """Exported programs that several workers share: one trace for equal settings and shapes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Any, tuple[Settings, Any]] = {}

    def get(self, settings: Settings, state: Tree, data: Tree) -> Any:
        """Return the program of a batch as bytes in an array of their own."""
        shapes = [(leaf.shape, leaf.dtype.str) for leaf in jax.tree.leaves((state, data))]
        key = id(settings), tuple(shapes)
        with self._lock:
            if key not in self._found:
                content = np.frombuffer(_exported(settings, state, data), np.uint8)
                # The settings are kept, so that no others can get their identity.
                self._found[key] = settings, content
            return self._found[key][1]


def _exported(settings: Settings, state: Tree, data: Tree) -> bytes:
    """Return the loop of a batch as bytes: a function of flat lists of arrays."""
    structures = [jax.tree.structure(tree) for tree in (state, data)]
    alone = len(jax.tree.leaves(state)[0]) == 1
    advance = side_by_side(settings, alone)

    def flat(state: list[Any], data: list[Any], start: Any, steps: Any) -> list[Any]:
        trees = zip(structures, (state, data), strict=True)
        one, other = (jax.tree.unflatten(structure, leaves) for structure, leaves in trees)
        return jax.tree.leaves(advance(one, other, start, steps))

    with jax.enable_x64(settings.precision == "float64"):
        number = np.int32(0)
        leaves = [jax.tree.leaves(tree) for tree in (state, data)]
        exported = jax.export.export(jax.jit(flat), platforms=["cpu"])(*leaves, number, number)
    return bytes(exported.serialize())


class _DeadError(Exception):
    """The worker has ended."""


@final
class WorkerProcess:
    """One worker process, started when it first gets work.

    Parameters
    ----------
    programs : Programs
        Shared with other workers of the same work.

    Attributes
    ----------
    deaths : int
        How many processes have died at their work.
    """

    def __init__(self, programs: Programs | None = None) -> None:
        self._programs = Programs() if programs is None else programs
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by release
        self._lock = threading.Lock()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: Any = None  # the program that the process has
        self.deaths = 0

    @property
    def pid(self) -> int | None:
        """Process id, None before the first work."""
        return None if self._process is None else self._process.pid

    @contextmanager
    def session(self, settings: Settings, data: list[Tree]) -> Iterator[_Session]:
        """Stack the data; they are handed over with the first steps."""
        yield _Session(self, settings, stack(data))

    def program(self, settings: Settings) -> Program:  # noqa: ARG002
        """Return ``"xla"``: a worker trains on a CPU."""
        return "xla"

    def advance(self, session: _Session, state: Tree, start: int, steps: int) -> Tree:
        """Advance the batch of a session; a process that dies is replaced."""
        leaves, structure = jax.tree.flatten(state)
        program = self._programs.get(session.settings, state, session.data)
        order = {"do": "advance", "start": start, "steps": steps}
        while True:
            try:
                process = self._started()
                if self._loaded is not program:
                    x64 = session.settings.precision == "float64"
                    self._ask(process, {"do": "program", "x64": x64}, [program])
                    self._loaded = program
                if session.process is not process:
                    self._ask(process, {"do": "data"}, jax.tree.leaves(session.data))
                    session.process = process
                return jax.tree.unflatten(structure, self._ask(process, order, leaves))
            except _DeadError as death:
                if self._closed:
                    raise WorkerError("the work was stopped") from death
                self.deaths += 1
                session.deaths += 1
                self._process = self._loaded = None
                if session.deaths == ATTEMPTS:
                    raise WorkerError(f"its worker ended {ATTEMPTS} times; {death}") from death

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:  # nothing is started once it is closed
            if self._closed:
                raise WorkerError("the work was stopped")
            if self._process is None:
                self._process = _start(self._log)
            return self._process

    def _ask(
        self, process: subprocess.Popen[bytes], order: dict[str, Any], arrays: list[Any]
    ) -> list[Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            worker_program.write_message(process.stdin, order, arrays)
            return worker_program.read_message(process.stdout)[1]
        except (OSError, EOFError, ValueError) as error:
            process.kill()
            code = process.wait()
            _close_pipes(process)
            self._log.seek(0)
            last = " ".join(self._log.read()[-2000:].decode(errors="replace").split())
            raise _DeadError(f"exit code {code}{': ' if last else ''}{last}") from error

    def close(self) -> None:
        """End the process; work under way ends with a `WorkerError`."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def release(self) -> None:
        """Free what the process leaves behind, once nothing is under way."""
        if self._process is not None:
            _close_pipes(self._process)
        self._log.close()


@final
class _Session:
    """A batch in a worker, whichever process that is."""

    def __init__(self, worker: WorkerProcess, settings: Settings, data: Tree) -> None:
        self.settings, self.data, self._worker = settings, data, worker
        self.process: Any = None  # the one that has the data
        self.deaths = 0

    def advance(self, state: Tree, start: int, steps: int) -> Tree:
        """Advance all runs."""
        return self._worker.advance(self, state, start, steps)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):  # an order that a dead worker did not take
                stream.close()


def _start(log: Any) -> subprocess.Popen[bytes]:
    """Start a process with a single thread."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        **one_thread(),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    return subprocess.Popen(
        # The file itself, not the module: a worker needs JAX and NumPy, and starts faster so.
        [sys.executable, "-P", str(Path(worker_program.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        start_new_session=True,  # an interrupt from the keyboard is for the parent
    )
