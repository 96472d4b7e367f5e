"""Where the steps are computed: in this process, or in workers of one core each."""

from __future__ import annotations

from twoaxis.training.backends.backend import (
    Backend,
    Device,
    Session,
    choose_backend,
    cores,
    find_gpu,
)
from twoaxis.training.backends.in_process import InProcess
from twoaxis.training.backends.workers import ONE_THREAD, Workers

__all__ = [
    "ONE_THREAD",
    "Backend",
    "Device",
    "InProcess",
    "Session",
    "Workers",
    "choose_backend",
    "cores",
    "find_gpu",
]
