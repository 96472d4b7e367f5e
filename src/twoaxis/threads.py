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

    Those of NumPy and SciPy belong to the process: of several callers at once the last one gives
    them back. Those of PyTorch belong to the caller's thread.
    """
    global _users
    torch: Any = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    with _lock:
        if _users == 0:
            _settings.enter_context(threadpool_limits(1))
        _users += 1
    if threads is not None:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if threads is not None:
            torch.set_num_threads(threads)
        with _lock:
            _users -= 1
            if _users == 0:
                _settings.close()
