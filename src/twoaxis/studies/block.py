"""A block of the study: the fields it needs, what is read from them, the figures it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from twoaxis.studies.fields import Field
from twoaxis.studies.resampling import Figure
from twoaxis.studies.scale import Scale

if TYPE_CHECKING:
    from twoaxis.studies.readouts import Readout

Rows = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Need:
    """Fields, and what a block reads out of each."""

    readout: Readout
    fields: Sequence[Field]


@dataclass
class Measured:
    """The outcome of a block for one initialization: figures by key, and tables by name."""

    figures: dict[str, Figure] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    def put(self, key: str, value: Figure | float) -> None:
        """Add a figure; a bare number has no interval of its own."""
        if key in self.figures:
            raise ValueError(f"two figures with the key {key!r}")
        self.figures[key] = value if isinstance(value, Figure) else Figure(float(value))


@dataclass(frozen=True)
class Block:
    """One block of the study.

    Parameters
    ----------
    name : str
        As on the command line.
    title : str
    claim : str
        Which claim the block may support, and which not.
    measure : callable
        ``measure(rows, scale)``: figures and tables, from the rows of every readout by its
        name, for one initialization of all fields.
    needs : callable
        ``needs(scale)``: the fields and their readouts, for initialization 0. Without it the
        block needs no training.
    notes : tuple of str
        Readings that the study leaves open, as they were chosen here.
    published : str, optional
        Its printed figures lie in ``published/PUBLISHED.toml``; the name of the block without it.
        None for a block that has none.
    fresh_noise : bool
        Whether fields on noise of its own are trained for it. Where readouts of other noise are
        stored, they judge its figures.
    redraw : callable, optional
        ``redraw(scale, number)``: the same from other noise, for a block that needs no training.
    repeat : callable
        ``repeat(field, number)``: the field in repetition `number` of the block, or None where it
        has no part in it; by default the same one from another initialization.
    """

    name: str
    title: str
    claim: str
    measure: Callable[[Rows, Scale], Measured]
    needs: Callable[[Scale], Sequence[Need]] | None = None
    notes: tuple[str, ...] = ()
    published: str | None = ""
    fresh_noise: bool = False
    redraw: Callable[[Scale, int], Measured] | None = None
    repeat: Callable[[Field, int], Field | None] = Field.starting_from

    @property
    def in_study(self) -> bool:
        """Whether the study has this block; without printed figures of its own it is ours."""
        return self.published == ""

    @property
    def figures_of(self) -> str:
        """The block whose printed figures it reports."""
        return self.published or self.name

    @property
    def neural(self) -> bool:
        """Whether fields are trained for it, so that it can be repeated."""
        return self.needs is not None
