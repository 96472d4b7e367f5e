"""A method read from a file: its name and options, without its code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from twoaxis.errors import InputError
from twoaxis.training.methods.recipe import Recipe


@final
@dataclass(frozen=True)
class StoredMethod:
    """The name and options of a method whose code is not here."""

    name: str
    options: dict[str, Any]

    def recipe(self) -> Recipe:
        """Say that the parts are not known: a file holds no code."""
        raise InputError(
            "a method whose code is known",
            f"{self.name!r}, of which the file keeps the name and the options",
            "train with the method's own object; a stored run can be diagnosed without it",
        )
