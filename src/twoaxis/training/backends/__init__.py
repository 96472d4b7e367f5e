"""Where the steps are computed: in this process, or in workers of one core each."""

from __future__ import annotations

from twoaxis.training.backends.backend import Backend, Session
from twoaxis.training.backends.choice import Device, choose_backend, find_gpu
from twoaxis.training.backends.in_process import InProcess
from twoaxis.training.backends.workers import Workers

__all__ = [
    "Backend",
    "Device",
    "InProcess",
    "Session",
    "Workers",
    "choose_backend",
    "find_gpu",
]
