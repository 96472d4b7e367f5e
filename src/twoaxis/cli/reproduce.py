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

from twoaxis.cli.app import app, err, out, relative, shown
from twoaxis.cli.options import Device, DeviceName

if TYPE_CHECKING:
    from twoaxis.studies.reproduce import Reproduction

COLORS = {
    "exact": "green",
    "agrees": "cyan",
    "not contradicted": "blue",
    "differs": "yellow",
    "not judged": "dim",
}


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
    names: Annotated[bool, typer.Option("--list", help="List the blocks and exit.")] = False,
    scale: Annotated[
        ScaleName, typer.Option(help="smoke runs every part in minutes and compares nothing.")
    ] = ScaleName.full,
    initializations: Annotated[
        int,
        typer.Option(help="Trainings per field, each with new weights and residual points."),
    ] = 1,
    device: Device = DeviceName.auto,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Directory for everything.  [default: reproduction, or reproduction-smoke]",
        ),
    ] = None,
) -> None:
    """Reproduce blocks of the study, or all of it.

    Trained fields and the numbers read from them stay in DIR: blocks share them, nothing is
    trained twice, and an interrupted command continues when it is repeated.

    Example: twoaxis reproduce development holdout --out reproduction/
    """
    import twoaxis
    from twoaxis.errors import InputError

    run = twoaxis.reproduce  # names the extra to install, where one is missing
    if names:
        _print_blocks()
        return
    if every == bool(blocks):
        raise InputError(
            "names of blocks, or --all",
            "both" if every else "neither",
            "list the names with twoaxis reproduce --list",
        )
    try:
        found = run(
            None if every else blocks,
            scale=scale.value,
            initializations=initializations,
            device=device.value,
            out=directory,
            command=shlex.join(["twoaxis", *sys.argv[1:]]),
        )
    except KeyboardInterrupt:
        err.print("stopped; repeat the command to continue", highlight=False)
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
    """Print how many figures have which verdict, and the main figures beside the published."""
    table = Table(box=SIMPLE, padding=(0, 1))
    for heading in ("block", *COLORS, "seconds"):
        table.add_column(heading, justify="left" if heading == "block" else "right")
    for record in found.records:
        verdicts = [figure["verdict"] for figure in record["figures"]]
        counts = [str(verdicts.count(word) or "") for word in COLORS]
        table.add_row(shown(record["name"]), *counts, f"{found.seconds[record['name']]:.1f}")
    out.print(table)
    for record in found.records:
        for figure in record["figures"]:
            if figure["headline"] and figure["verdict"] != "not judged":
                color = COLORS[figure["verdict"]]
                out.print(
                    f"  [{color}]{figure['verdict']:8}[/] {shown(record['name'])}: "
                    f"{shown(figure['label'])}: ours {shown(figure['ours_text'])}, "
                    f"published {shown(figure['printed'])}",
                    highlight=False,
                    soft_wrap=True,
                )
    if any(record["scale"] == "smoke" for record in found.records):
        out.print("  smoke scale: every part ran; nothing was compared", highlight=False)
    out.print(f"  page: {shown(relative(found.page))}", highlight=False, soft_wrap=True)
