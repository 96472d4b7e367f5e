"""Fixtures of the trainings: see tests/shared/tiny_training.py."""

from tiny_training import (  # noqa: F401
    as_shipped,
    compiled_anew,
    compiled_quickly,
    made,
    trained,
)
