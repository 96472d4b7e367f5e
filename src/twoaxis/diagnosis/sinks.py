"""Where the numbers of a follower go while a model trains: loggers of the user, and a live line."""

from __future__ import annotations

import atexit
import importlib
import random
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from twoaxis.errors import InputError
from twoaxis.text import visible

Sink = Callable[[int, Mapping[str, float]], None]

# Seconds between lines where a line cannot be written over.
NEXT_LINE = 30.0
# Erases the line that the cursor is on.
ERASE = "\x1b[2K"
# What loggers do not take in a name.
REFUSED = re.compile(r"[^\w\-./ ]")


def sink_of(target: Any) -> Sink:
    """Return a function that logs numbers by name at a step.

    Parameters
    ----------
    target : object
        TensorBoard's ``SummaryWriter``, the module ``mlflow`` or a Lightning logger, the module
        ``wandb`` or one of its runs, or a function ``target(step, numbers)``. They are told apart
        by their methods ``add_scalar``, ``log_metrics`` and ``log``.
    """
    if hasattr(target, "add_scalar"):

        def to_tensorboard(step: int, numbers: Mapping[str, float]) -> None:
            for name, value in numbers.items():
                target.add_scalar(name, value, step)

        return to_tensorboard
    if hasattr(target, "log_metrics"):
        return lambda step, numbers: target.log_metrics(dict(numbers), step=step)
    if hasattr(target, "define_metric") and hasattr(target, "log"):
        return _to_wandb(target)
    if callable(target):
        found: Sink = target
        return found
    raise InputError(
        "sinks as TensorBoard's SummaryWriter, mlflow, a Lightning logger, a run of wandb or a "
        "function of step and numbers",
        type(target).__name__,
        "pass the logger itself, as in sinks=[SummaryWriter()]",
    )


def _to_wandb(target: Any) -> Sink:
    """Return a sink that keeps its own count of steps.

    Weights & Biases refuses a step below one that was logged already, and counts every call of
    ``log`` as a step.
    """
    declared = False

    def log(step: int, numbers: Mapping[str, float]) -> None:
        nonlocal declared
        if not declared:
            target.define_metric("twoaxis/step")
            target.define_metric("twoaxis/*", step_metric="twoaxis/step")
            declared = True
        target.log({**numbers, "twoaxis/step": step})

    return log


def logged_name(*parts: str) -> str:
    """Return a name that all loggers take, such as ``twoaxis/nu/gap``."""
    return "/".join(["twoaxis", *(REFUSED.sub("_", part) for part in parts)])


class LiveLine:
    """One line that is written over on a terminal and in a notebook; elsewhere one now and then."""

    def __init__(self) -> None:
        self._console: Any = None
        self._handle: Any = None
        self._written = -NEXT_LINE

    def show(self, text: str) -> None:
        """Show a line in place of the last one."""
        if self._console is None:
            self._console = _console()
        if self._console.is_jupyter:
            self._in_notebook(text)
        elif self._console.is_terminal:
            self._on_terminal(text)
        elif time.monotonic() - self._written >= NEXT_LINE:
            self._written = time.monotonic()
            print(visible(text), file=sys.stderr, flush=True)

    def _on_terminal(self, text: str) -> None:
        """Write over the line that the cursor is on, and leave it at its end.

        What a program prints then follows the line, and covers none of it.
        """
        from rich.cells import cell_len, set_cell_size

        if self._written < 0:
            atexit.register(self._console.file.write, "\n")
        self._written = time.monotonic()
        found = visible(text)
        if cell_len(found) >= self._console.width:
            found = set_cell_size(found, self._console.width - 2).rstrip() + "…"
        self._console.file.write(f"\r{ERASE}{found}")
        self._console.file.flush()

    def _in_notebook(self, text: str) -> None:
        from rich.text import Text

        if self._handle is None:
            display: Any = importlib.import_module("IPython.display").display
            self._handle = display(Text(visible(text)), display_id=True)
        else:
            self._handle.update(Text(visible(text)))


def _console() -> Any:
    """Import rich when a line is needed; it draws a random number, which is undone."""
    state = random.getstate()
    try:
        from rich.console import Console

        return Console(stderr=True)
    finally:
        random.setstate(state)
