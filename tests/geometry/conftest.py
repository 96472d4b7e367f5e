"""What tests of the geometry share."""

import importlib.util

import pytest


@pytest.fixture
def double():
    """JAX, where it is installed, in double precision for one test."""
    if importlib.util.find_spec("jax") is None:
        yield
        return
    import jax

    with jax.enable_x64(True):
        yield
