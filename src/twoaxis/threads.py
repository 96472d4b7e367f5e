"""Small linear algebra on one thread: pools of NumPy and PyTorch wait for each other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread in NumPy, SciPy and PyTorch, and give the caller's settings back.

    They belong to the thread that calls: others keep theirs.
    """
    torch: Any = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    with threadpool_limits(1):
        if threads is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if threads is not None:
                torch.set_num_threads(threads)
