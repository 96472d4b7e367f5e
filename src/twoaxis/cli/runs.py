"""``twoaxis runs``: list, check, clean up and export a directory of runs.

Names and texts in a store may come from anywhere: all of them go through `visible` or `shown`
before they are printed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from twoaxis.cli.app import app, out, shown
from twoaxis.cli.options import Json, check_writable, write_json
from twoaxis.text import visible

if TYPE_CHECKING:
    from twoaxis.runs.maintenance import Finding, Verification

# How much of a text is printed where many may follow; twoaxis runs show prints all of it.
LONGEST = 400
# A status that is longer stands below the table.
STATUS_WIDTH = 12


# ------------------------------------------------------------------ commands

runs = typer.Typer(no_args_is_help=True, help="List, check, clean up and export stored runs.")
app.add_typer(runs, name="runs")

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="A directory of runs.")]


@runs.command("list")
def list_command(directory: Directory, json_file: Json = None) -> None:
    """List the runs from their manifests, without reading arrays.

    Example: twoaxis runs list runs/
    """
    store = _store(directory, json_file)
    from twoaxis.runs.maintenance import run_rows

    rows = run_rows(store)
    if json_file is not None:
        write_json(json_file, {"runs": [_finite(row) for row in rows]})
    if json_file != "-":
        print_rows(rows, directory)
    _end(all(map(_readable, rows)))


@runs.command()
def show(
    directory: Directory,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="Key of a run, or the beginning of one.")
    ],
) -> None:
    """Show the settings and outcome of one run, and check its arrays.

    Example: twoaxis runs show runs/ burgers-rba-d8-s0
    """
    store = _store(directory)
    from twoaxis.runs.maintenance import check_manifest, check_run, described, find_run

    place = find_run(store, key)
    manifest, _ = check_manifest(place)
    check = check_run(place)
    rows = [*described(manifest)] if manifest else [("key", place.path.name)]
    rows.append(("directory", inside(place.path, store.directory)))
    print_described(rows)
    sound = check.state == "sound"
    reason = "the checksums match and the run can be rebuilt" if sound else check.reason
    color = {"sound": "green", "not rebuilt": "yellow"}.get(check.state, "red")
    say(f"  [{color}]{check.state}[/]: {shown(reason)}")
    _end(check.state in ("sound", "not rebuilt"))


@runs.command()
def verify(
    directory: Directory,
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Move damaged files to DIR/damaged.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Read every run and checkpoint, compare the checksums and rebuild the runs.

    The exit code is 1 if something is damaged or cannot be read. Nothing is changed without
    --set-aside.

    Example: twoaxis runs verify runs/
    """
    store = _store(directory, json_file)
    from twoaxis.runs.maintenance import verify as verify_store

    found = verify_store(store, set_aside)
    if json_file is not None:
        write_json(json_file, _plain(found, store.directory))
    if json_file != "-":
        print_verification(found, store.directory)
    _end(found.ok)


@runs.command()
def prune(
    directory: Directory,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be removed.")
    ] = False,
    damaged: Annotated[bool, typer.Option("--damaged", help="Also remove DIR/damaged.")] = False,
) -> None:
    """Remove abandoned temporary files, and checkpoints whose runs are complete.

    A complete run is never removed.

    Example: twoaxis runs prune runs/ --dry-run
    """
    store = _store(directory)
    from twoaxis.runs.maintenance import plan
    from twoaxis.runs.maintenance import prune as remove

    planned = plan(store, damaged=damaged)
    for each in planned:
        name = shown(inside(each.path, store.directory))
        say(f"  {name} ({size_text(each.bytes)}): {shown(each.reason)}")
    left = [] if dry_run else remove(planned)
    print_findings("not removed", "red", left, store.directory)
    gone = {each.path for each in planned} - {each.path for each in left}
    freed = size_text(sum(each.bytes for each in planned if each.path in gone))
    verb = "would remove" if dry_run else "removed"
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
    """Copy runs to share them: each is checked, a list and a README are added.

    The copy is a directory of runs like any other. Damaged runs are left out, and the exit code
    is then 1.

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
        say("no run is sound: nothing was written")
    _end(not done.left_out)


def _store(directory: Path, json_file: str | None = None) -> Any:
    """Open the directory, and check before any work that the JSON file can be written."""
    import twoaxis

    store = twoaxis.RunStore(directory)  # names the extra to install, where one is missing
    check_writable(json_file)
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
    """Return a row that JSON can hold: numbers that are not finite become null."""
    values = {n: v if math.isfinite(v) else None for n, v in row["delivered"].items()}
    return row | {"delivered": values}


# ------------------------------------------------------------------ printing


def say(line: str) -> None:
    """Print a line, however long."""
    out.print(line, highlight=False, soft_wrap=True)


def print_rows(rows: list[dict[str, Any]], directory: Path) -> None:
    """Print a row for each run, narrow enough for a terminal of 80 columns."""
    if not rows:
        say(f"no runs in {shown(directory)}")
        return
    cells = [_cells(row) for row in rows]
    headings = ("key", "steps", "delivered", "status", "size")
    widths = [
        max(len(line) for row in [headings, *cells] for line in row[n].split("\n"))
        for n in range(5)
    ]
    # The key has what the others leave of a line, with one column between each two.
    widths[2] = min(widths[2], 22)
    widths[0] = min(widths[0], max(out.width - sum(widths[1:]) - 6, 12))
    table = Table(box=SIMPLE, padding=0, pad_edge=False)
    for heading, width in zip(headings, widths, strict=True):
        right = heading in ("steps", "size")
        table.add_column(
            heading, width=width, overflow="fold", justify="right" if right else "left"
        )
    for row, texts in zip(rows, cells, strict=True):
        table.add_row(*map(escape, texts), style=None if _readable(row) else "red")
    out.print(table)
    for row in rows:
        if len(visible(row["status"])) > STATUS_WIDTH:
            say(f"  {shown(row['key'])}: {shown(row['status'], most=LONGEST)}")
    damaged = sum(not _readable(row) for row in rows)
    total = size_text(sum(row["bytes"] for row in rows))
    say(f"{counted(len(rows), 'run')}, {total}" + (f", {damaged} damaged" if damaged else ""))


def _readable(row: dict[str, Any]) -> bool:
    """Whether the manifest of a run could be read."""
    return row["problem"] is not None


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    few = list(row["delivered"].items())[:8]
    status = visible(row["status"], most=LONGEST)
    if len(status) > STATUS_WIDTH:
        status = status.split(" ")[0].rstrip(":")[: STATUS_WIDTH - 3] + "..."
    return (
        visible(row["key"]),
        visible("" if row["steps"] is None else row["steps"], most=9),
        "\n".join(f"{visible(name, most=20)} {value:.5g}" for name, value in few),
        status,
        size_text(row["bytes"]),
    )


def print_described(rows: list[tuple[str, str]]) -> None:
    """Print names and texts in two columns."""
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(overflow="fold", style="bold")
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(shown(name), shown(text))
    out.print(table)


def print_verification(found: Verification, home: Path) -> None:
    """Print what was found, the worst first, then the counts."""
    print_findings("damaged", "red", found.damaged, home)
    print_findings("unread", "red", found.unread, home)
    print_findings("not rebuilt", "yellow", found.not_rebuilt, home)
    print_findings("leftover", "dim", found.leftovers, home)
    counts = {
        f"{counted(found.checkpoints, 'checkpoint')} sound": found.checkpoints,
        f"{len(found.not_rebuilt)} not rebuilt": found.not_rebuilt,
        f"{len(found.damaged)} damaged": found.damaged,
        f"{len(found.unread)} unread": found.unread,
        counted(len(found.leftovers), "leftover"): found.leftovers,
        f"{found.set_aside} set aside earlier": found.set_aside,
    }
    runs = f"{counted(found.runs, 'run')} sound"
    say(", ".join([runs, *(words for words, number in counts.items() if number)]))


def print_findings(word: str, color: str, findings: list[Finding], home: Path) -> None:
    """Print a line for each finding."""
    for each in findings:
        moved = f"; now in {shown(inside(each.moved, home))}" if each.moved else ""
        reason = shown(each.reason, most=LONGEST)
        say(f"  [{color}]{word}[/] {shown(inside(each.path, home))}: {reason}{moved}")


def inside(path: Path, home: Path) -> str:
    """Return a path relative to the store."""
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)


def counted(number: int, word: str) -> str:
    """Return a count with its noun."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def size_text(count: float) -> str:
    """Return a number of bytes with a unit.

    >>> size_text(720), size_text(2790), size_text(41_300_000)
    ('720 B', '2.79 kB', '41.3 MB')
    """
    unit = "B"
    for larger in ("kB", "MB", "GB"):
        if count < 999.5:
            break
        count, unit = count / 1000, larger
    return f"{count:.3g} {unit}" if count < 999.5 else f"{count:.0f} {unit}"
