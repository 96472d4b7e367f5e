"""The whole interface between the engine and whatever computes the steps.

*Train these runs, from this state, for these steps.* A backend knows nothing of files, tables,
histories or progress; a fused kernel can stand behind the same two calls.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from twoaxis.training.settings import Settings

Tree = Any  # a tree of NumPy arrays whose first axis counts the runs


class Session(Protocol):
    """A batch whose data have been handed over and whose program is ready."""

    def advance(self, state: Tree, start: int, steps: int) -> Tree:
        """Return the state of all runs after `steps` more steps; `start` were done before."""
        ...


class Backend(Protocol):
    """Something that can train a batch."""

    def session(self, settings: Settings, data: list[Tree]) -> AbstractContextManager[Session]:
        """Hand over the data of all runs, one tree each; nothing is kept after the session."""
        ...

    def describe(self) -> str:
        """Return a few words for the terminal."""
        ...
