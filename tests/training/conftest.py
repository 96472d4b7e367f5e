"""Fixtures of the trainings: see tests/shared/tiny_training.py."""

from tiny_training import compiled_anew, made, trained  # noqa: F401
