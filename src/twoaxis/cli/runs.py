"""``twoaxis runs``: what lies in a directory of runs, and what becomes of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import twoaxis
from twoaxis.cli.app import app
from twoaxis.cli.runs_printing import (
    counted,
    inside,
    print_described,
    print_findings,
    print_rows,
    print_verification,
    say,
    size_text,
)
from twoaxis.cli.text import shown
from twoaxis.cli.writing import Json, write_json
from twoaxis.files import ensure_writable

if TYPE_CHECKING:
    from twoaxis.runs.verification import Verification

runs = typer.Typer(no_args_is_help=True, help="List, verify, prune and export stored runs.")
app.add_typer(runs, name="runs")

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="A directory of runs.")]


@runs.command("list")
def list_command(directory: Directory, json_file: Json = None) -> None:
    """List the runs, from their manifests alone: arrays are not read.

    Example: twoaxis runs list runs/
    """
    store = _store(directory, json_file)
    from twoaxis.runs.listing import run_rows

    rows = run_rows(store)
    if json_file != "-":
        print_rows(rows, directory)
    if json_file is not None:
        write_json(json_file, {"runs": [_finite(row) for row in rows]})
    _end(all(row["problem"] is not None for row in rows))


@runs.command()
def show(
    directory: Directory,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="Of a run, or a beginning that only one has.")
    ],
) -> None:
    """Show all that is known of one run, and check its arrays.

    Example: twoaxis runs show runs/ burgers-rba-d8-s0
    """
    store = _store(directory)
    from twoaxis.runs.checks import check_manifest, check_run
    from twoaxis.runs.listing import described, find_run

    place = find_run(store, key)
    manifest, _ = check_manifest(place)
    check = check_run(place)
    rows = [*described(manifest)] if manifest else [("key", place.path.name)]
    rows.append(("lies in", inside(place.path, store.directory)))
    print_described(rows)
    told = {"sound": "the checksums fit, and the run can be built again"}
    colour = {"sound": "green", "not rebuilt": "yellow"}.get(check.state, "red")
    reason = told.get(check.state, check.reason)
    say(f"  [{colour}]{check.state}[/]: {shown(reason)}")
    _end(check.state in ("sound", "not rebuilt"))


@runs.command()
def verify(
    directory: Directory,
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Move what is damaged to DIR/damaged.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Read every run and every checkpoint, compare the checksums, build the runs again.

    Ends with 1 where something is damaged or cannot be read. Without --set-aside nothing is
    changed.

    Example: twoaxis runs verify runs/
    """
    store = _store(directory, json_file)
    from twoaxis.runs.verification import verify as verify_store

    found = verify_store(store, set_aside)
    if json_file != "-":
        print_verification(found, store.directory)
    if json_file is not None:
        write_json(json_file, _plain(found, store.directory))
    _end(found.ok)


@runs.command()
def prune(
    directory: Directory,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")
    ] = False,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also what was set aside as damaged.")
    ] = False,
) -> None:
    """Remove abandoned temporaries, and checkpoints whose runs are all there.

    A complete run is never removed.

    Example: twoaxis runs prune runs/ --dry-run
    """
    store = _store(directory)
    from twoaxis.runs.pruning import plan
    from twoaxis.runs.pruning import prune as remove

    planned = plan(store, damaged=damaged)
    for each in planned:
        name = shown(inside(each.path, store.directory))
        say(f"  {name} ({size_text(each.bytes)}): {shown(each.reason)}")
    left = [] if dry_run else remove(planned)
    print_findings("not removed", "red", left, store.directory)
    gone = {each.path for each in planned} - {each.path for each in left}
    freed = size_text(sum(each.bytes for each in planned if each.path in gone))
    verb = "would go" if dry_run else "removed"
    say(f"{verb}: {len(gone)}, {freed}" if planned else "nothing to remove")
    _end(not left)


@runs.command("export")
def export_command(
    directory: Directory,
    target: Annotated[
        Path,
        typer.Argument(metavar="TARGET", help="A new or empty directory, or a new file.zip."),
    ],
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            "--key",
            metavar="KEY",
            help="A key, its beginning, or a pattern with *; may be repeated.  [default: all]",
        ),
    ] = None,
) -> None:
    """Copy runs for a colleague, each checked on the way, with a list and a README.

    The copy is a directory of runs like any other. Damaged runs are left out; the command then
    ends with 1.

    Example: twoaxis runs export runs/ for-anna.zip --keys 'burgers-rba-*'
    """
    store = _store(directory)
    from twoaxis.runs.export import export

    done = export(store, target, keys)
    print_findings("left out", "red", done.left_out, store.directory)
    print_findings("not rebuilt", "yellow", done.not_rebuilt, store.directory)
    if done.keys:
        say(f"{counted(len(done.keys), 'run')} in {shown(target)}")
    else:
        say("no run is in order: nothing was written")
    _end(not done.left_out)


def _store(directory: Path, json_file: str | None = None) -> Any:
    """Open the directory, and make sure of the file that is asked for before any work."""
    store = twoaxis.RunStore(directory)  # says which extra to install, where one is missing
    if json_file not in (None, "-"):
        ensure_writable(str(json_file))
    return store


def _end(fine: bool) -> None:
    if not fine:
        raise typer.Exit(1)


def _plain(found: Verification, home: Path) -> dict[str, Any]:
    lists = {
        name: [
            {
                "path": inside(each.path, home),
                "reason": each.reason,
                "moved": each.moved and inside(each.moved, home),
            }
            for each in getattr(found, name)
        ]
        for name in ("not_rebuilt", "damaged", "unread", "leftovers")
    }
    counts = {name: getattr(found, name) for name in ("runs", "checkpoints", "set_aside")}
    return {"ok": found.ok, **counts, **lists}


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that JSON can hold: it has no number that is not finite."""
    values = {n: v if math.isfinite(v) else None for n, v in row["delivered"].items()}
    return row | {"delivered": values}
