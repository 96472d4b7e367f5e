"""Small linear algebra on one thread: pools of NumPy and PyTorch wait for each other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any

from threadpoolctl import threadpool_limits

_lock = Lock()
_users = 0
_settings = ExitStack()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread in NumPy, SciPy and PyTorch, and give the caller's settings back.

    They are those of the process: of several callers at once the last one gives them back.
    """
    global _users
    with _lock:
        if _users == 0:
            _settings.enter_context(threadpool_limits(1))
            torch: Any = sys.modules.get("torch")
            if torch is not None:
                _settings.callback(torch.set_num_threads, torch.get_num_threads())
                torch.set_num_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _settings.close()
