"""``twoaxis reproduce``: the tables and figures of the study, beside the published values."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

import twoaxis
from twoaxis.cli.app import app, err, out, shown
from twoaxis.cli.train import Device
from twoaxis.errors import InputError

if TYPE_CHECKING:
    from twoaxis.studies.reproduce import Reproduction

COLOURS = {"exact": "green", "agrees": "cyan", "differs": "yellow", "not judged": "dim"}


class ScaleName(StrEnum):
    """How much of the study is run."""

    full = "full"
    smoke = "smoke"


@app.command()
def reproduce(
    blocks: Annotated[
        list[str] | None, typer.Argument(metavar="BLOCK...", help="Names of blocks, see --list.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All blocks of the study.")] = False,
    names: Annotated[bool, typer.Option("--list", help="Name the blocks, and stop.")] = False,
    scale: Annotated[
        ScaleName, typer.Option(help="smoke runs every part in minutes, and judges nothing.")
    ] = ScaleName.full,
    initialisations: Annotated[
        int, typer.Option(help="How often every field is trained, from other networks and sites.")
    ] = 1,
    device: Annotated[Device, typer.Option(help="auto takes a GPU if there is one.")] = Device.auto,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where it goes.  [default: reproduction, or -smoke]"
        ),
    ] = None,
) -> None:
    """Reproduce blocks of the study, or all of it.

    Trained fields and what was read out of them stay in DIR: blocks share them, nothing is
    trained twice, and an interrupted call goes on when it is repeated.

    Example: twoaxis reproduce development holdout --out reproduction/
    """
    run = twoaxis.reproduce  # says which extra to install, where one is missing
    if names:
        _print_blocks()
        return
    if every == bool(blocks):
        raise InputError(
            "names of blocks, or --all",
            "both" if every else "neither",
            "see twoaxis reproduce --list",
        )
    try:
        found = run(
            None if every else blocks,
            scale=scale.value,
            initialisations=initialisations,
            device=device.value,
            out=directory,
            command=shlex.join(["twoaxis", *sys.argv[1:]]),
        )
    except KeyboardInterrupt:
        err.print("stopped; the same command goes on where it stopped", highlight=False)
        raise
    _print_outcome(found)


def _print_blocks() -> None:
    from twoaxis.studies.registry import BLOCKS
    from twoaxis.studies.scale import SCALES

    table = Table(box=SIMPLE, padding=(0, 1))
    for heading in ("block", "title", "fields"):
        table.add_column(heading, no_wrap=heading == "block")
    for block in BLOCKS.values():
        needs = [] if block.needs is None else block.needs(SCALES["full"])
        count = len({field for need in needs for field in need.fields})
        title = block.title if block.in_study else f"{block.title} (not in the study)"
        table.add_row(shown(block.name), shown(title), str(count) if count else "none")
    out.print(table)


def _print_outcome(found: Reproduction) -> None:
    """Print the headline figures and what differs, and how many figures came out which way."""
    table = Table(box=SIMPLE, padding=(0, 1))
    for heading in ("block", *COLOURS, "seconds"):
        table.add_column(heading, justify="left" if heading == "block" else "right")
    for record in found.records:
        verdicts = [figure["verdict"] for figure in record["figures"]]
        counts = [str(verdicts.count(word) or "") for word in COLOURS]
        table.add_row(shown(record["name"]), *counts, f"{found.seconds[record['name']]:.1f}")
    out.print(table)
    for record in found.records:
        for figure in record["figures"]:
            if figure["headline"] and figure["verdict"] != "not judged":
                colour = COLOURS[figure["verdict"]]
                out.print(
                    f"  [{colour}]{figure['verdict']:8}[/] {shown(record['name'])}: "
                    f"{shown(figure['label'])}: ours {shown(figure['ours_text'])}, "
                    f"published {shown(figure['printed'])}",
                    highlight=False,
                    soft_wrap=True,
                )
    if any(record["scale"] == "smoke" for record in found.records):
        out.print("  smoke scale: every part ran, and nothing is judged", highlight=False)
    page = found.page
    if page.is_relative_to(Path.cwd()):
        page = page.relative_to(Path.cwd())
    out.print(f"  page: {shown(page)}", highlight=False, soft_wrap=True)
