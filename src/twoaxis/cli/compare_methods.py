"""``twoaxis compare-methods``: every training method on every benchmark problem, on both axes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from twoaxis.cli.app import app, err, print_result, print_written
from twoaxis.cli.options import (
    METHOD_NAMES,
    PROBLEM_NAMES,
    Device,
    DeviceName,
    Steps,
    parse_numbers,
)


@app.command("compare-methods")
def compare_methods(
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROBLEM...", help=f"Some of {', '.join(PROBLEM_NAMES)}.  [default: all]"
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help=f"Some of {', '.join(METHOD_NAMES)}.  [default: all]"),
    ] = None,
    own: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="FILE.py:CLASS",
            help="A method of your own, which joins: FILE.py:CLASS or MODULE:CLASS, called "
            "without arguments.",
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Seeds of the initialization and the residual points, as 0-4.")
    ] = "0-4",
    layouts: Annotated[
        int | None, typer.Option(help="So many of the published layouts.  [default: all four]")
    ] = None,
    steps: Steps = None,
    replicas: Annotated[
        int, typer.Option(help="Noisy replicas of each dataset, for the matched error.")
    ] = 200,
    device: Device = DeviceName.auto,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes on a CPU.  [default: one per core]")
    ] = None,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory for the board.")
    ] = Path("scoreboard"),
    store: Annotated[
        Path | None,
        typer.Option(metavar="RUNS", help="Directory that keeps the trained fields, too."),
    ] = None,
    readouts: Annotated[
        Path | None,
        typer.Option(
            metavar="READOUTS",
            help="Readouts of a reproduction, whose runs join in place of training.",
        ),
    ] = None,
    stored: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Write the board of DIR again; train nothing."),
    ] = None,
) -> None:
    """Train all methods on all benchmark problems, and compare them on both axes.

    Writes a page, tables and every run into DIR. Runs that DIR already holds are not trained
    again, and an interrupted command continues when it is repeated.

    Example: twoaxis compare-methods burgers --method mine.py:MyMethod --seeds 0-1
    """
    import twoaxis

    compare = twoaxis.compare_methods  # names the extra to install, where one is missing
    from twoaxis.studies.scoreboard import FILE, write_board

    if stored is not None:
        board = twoaxis.load(stored / FILE)
        print_written(*write_board(board, directory))
        return
    chosen: list[Any] = list(METHOD_NAMES) if methods is None else methods.split(",")
    try:
        board = compare(
            problems or None,
            [*chosen, *map(own_method, own or [])],
            seeds=parse_numbers(seeds, "--seeds"),
            layouts=layouts,
            steps=steps,
            replicas=replicas,
            out=directory,
            store=store,
            readouts=readouts,
            device=device.value,
            workers=workers,
        )
    except KeyboardInterrupt:
        err.print("stopped; repeat the command to continue", highlight=False)
        raise
    print_result(board)
    print_written(*write_board(board, directory))


def own_method(place: str) -> Any:
    """Return a method of the user's, from ``FILE.py:CLASS`` or ``MODULE:CLASS``.

    This runs the code of that file, which the user names on the command line.
    """
    import importlib
    import importlib.util
    import sys

    from twoaxis.errors import InputError

    where, _, name = place.rpartition(":")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module  # dataclasses look their module up
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")  # as for a script: modules of the working directory
            module = importlib.import_module(where)
        return getattr(module, name)()
    except (ImportError, OSError, AttributeError, TypeError, ValueError) as error:
        raise InputError(
            "a method as FILE.py:CLASS or MODULE:CLASS, which needs no arguments",
            f"{place!r} ({error})",
            "see docs/howto/add-a-method.md",
        ) from error
