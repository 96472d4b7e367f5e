"""Libraries beyond the core, imported when a test first uses them."""

import pytest


class Library:
    """A module whose absence skips the test that uses it, and not the file around it."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("_"):  # pytest looks for its own marks on everything in a file
            raise AttributeError(attribute)
        return getattr(pytest.importorskip(self._name), attribute)


jax, jnp, torch = map(Library, ("jax", "jax.numpy", "torch"))
