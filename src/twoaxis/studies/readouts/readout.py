"""What every readout is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twoaxis.studies.scale import Scale
from twoaxis.training import Run


@dataclass(frozen=True)
class Readout:
    """Numbers that are read out of one trained field.

    Parameters
    ----------
    name : str
        Of the table that keeps them.
    version : int
        Raised when the same field would give other numbers: older tables are then not used.
    read : callable
        ``read(run, scale)``: the rows of the field, as dictionaries with the same keys.
    """

    name: str
    version: int
    read: Callable[[Run, Scale], list[dict[str, Any]]]

    @property
    def file(self) -> str:
        """Name of the table on disk."""
        return f"{self.name}-{self.version}.csv"
