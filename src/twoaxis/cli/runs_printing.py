"""What ``twoaxis runs`` prints: tables, findings, sizes.

Names and texts in a store may come from anywhere: all of them go through `visible` or `shown`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from twoaxis.cli.app import out
from twoaxis.cli.text import shown
from twoaxis.text import visible

if TYPE_CHECKING:
    from twoaxis.runs.contents import Finding
    from twoaxis.runs.verification import Verification

# How much of a text is printed where many may follow; twoaxis runs show prints all of it.
LONGEST = 400
# A status that is longer stands below the table.
STATUS_WIDTH = 12


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
        table.add_row(*map(escape, texts), style=None if _is_told(row) else "red")
    out.print(table)
    for row in rows:
        if len(visible(row["status"])) > STATUS_WIDTH:
            say(f"  {shown(row['key'])}: {shown(row['status'], most=LONGEST)}")
    damaged = sum(not _is_told(row) for row in rows)
    total = size_text(sum(row["bytes"] for row in rows))
    say(f"{counted(len(rows), 'run')}, {total}" + (f", {damaged} damaged" if damaged else ""))


def _is_told(row: dict[str, Any]) -> bool:
    """Whether the manifest of a row could be read."""
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
    """Print what was found, the worst first, and at last the counts."""
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


def print_findings(word: str, colour: str, findings: list[Finding], home: Path) -> None:
    """Print a line for each finding."""
    for each in findings:
        moved = f"; now in {shown(inside(each.moved, home))}" if each.moved else ""
        reason = shown(each.reason, most=LONGEST)
        say(f"  [{colour}]{word}[/] {shown(inside(each.path, home))}: {reason}{moved}")


def inside(path: Path, home: Path) -> str:
    """Return a path as seen from the store."""
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)


def counted(number: int, word: str) -> str:
    """Return a number with its word."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def size_text(count: float) -> str:
    """Return a number of bytes as people read it.

    >>> size_text(720), size_text(2790), size_text(41_300_000)
    ('720 B', '2.79 kB', '41.3 MB')
    """
    unit = "B"
    for larger in ("kB", "MB", "GB"):
        if count < 999.5:
            break
        count, unit = count / 1000, larger
    return f"{count:.3g} {unit}" if count < 999.5 else f"{count:.0f} {unit}"
