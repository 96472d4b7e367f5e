"""The front door of the reproduction: blocks in, tables, figures and one page out.

A directory holds everything of one reproduction::

    index.html            the page
    figures.csv           every published figure, ours, the interval and the verdict
    blocks/NAME.json      the outcome of a block: figures, tables, how it was made
    tables/NAME-TABLE.csv its tables
    first-rule.csv        the verdicts by an earlier rule, where there are any
    figures/              the paper's figures, drawn again
    readouts/             what was read out of every field, one table for each readout
    fields/               the trained fields

Blocks that an earlier call left there stay, and are part of the page. With the readouts alone,
every table can be made again without the fields.
"""

from __future__ import annotations

import csv
import io
import math
import os
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from twoaxis.arrays import is_integer
from twoaxis.errors import InputError
from twoaxis.files import ensure_directory, read_text, write_whole
from twoaxis.progress import Bars, progress_bars
from twoaxis.studies import figures, page
from twoaxis.studies.block import Block, Measured, Need
from twoaxis.studies.fields import Field
from twoaxis.studies.library import Library, of_initialization
from twoaxis.studies.record import (
    LARGEST,
    Record,
    figures_frame,
    load_record,
    record_of,
    save_record,
    table_frame,
)
from twoaxis.studies.registry import BLOCKS, get_block
from twoaxis.studies.scale import SCALES, Scale
from twoaxis.training.backends import Device, find_gpu
from twoaxis.version import __version__

PACKAGES = ("jax", "numpy", "scipy", "optax")
# How old the page is when further blocks are added to it; the last one always is.
PAGE_SECONDS = 60.0


@dataclass(frozen=True)
class Reproduction:
    """The result of `twoaxis.reproduce`.

    Attributes
    ----------
    directory : Path
    page : Path
    records : tuple of dict
        The blocks of this call, as they stand in ``blocks/NAME.json``.
    seconds : dict of str to float
        What each block of this call took.

    Examples
    --------
    >>> import twoaxis as ta
    >>> found = ta.reproduce("resolution", scale="smoke", out="smoke")  # doctest: +SKIP
    >>> found.records[0]["name"], found.page.name  # doctest: +SKIP
    ('resolution', 'index.html')
    """

    directory: Path
    page: Path
    records: tuple[Record, ...]
    seconds: dict[str, float]


def reproduce(
    blocks: str | Iterable[str] | None = None,
    *,
    scale: str = "full",
    initializations: int = 1,
    device: Device = "auto",
    out: str | Path | None = None,
    progress: bool = True,
    command: str = "",
) -> Reproduction:
    """Reproduce blocks of the study, from data to table, beside the published values.

    Parameters
    ----------
    blocks : str or iterable of str, optional
        Names of blocks; all blocks of the study without it.
    scale : {"full", "smoke"}
        ``"smoke"`` runs every part with a few steps on a few points: it proves that the parts
        work and nothing else, so nothing is judged.
    initializations : int
        How often every field is trained, from other networks and residual sites. Figures of
        the first are shown; the others say how far they depend on that draw.
    device : {"auto", "cpu", "gpu"}
    out : path, optional
        Directory; ``reproduction`` or ``reproduction-smoke`` without it. What it holds is not
        computed again.
    progress : bool
        Show progress bars.
    command : str
        The command line, to be noted.

    Returns
    -------
    Reproduction

    Examples
    --------
    >>> import twoaxis as ta
    >>> found = ta.reproduce("resolution", scale="smoke", out="smoke")  # doctest: +SKIP
    >>> sorted(path.name for path in found.directory.iterdir())  # doctest: +SKIP
    ['blocks', 'fields', 'figures', 'figures.csv', 'index.html', 'readouts', 'tables']
    """
    chosen = _chosen(blocks)
    if scale not in SCALES:
        raise InputError(f"a scale among {', '.join(SCALES)}", repr(scale), "choose one of them")
    if not is_integer(initializations) or initializations < 1:
        raise InputError(
            "at least one initialization", f"initializations={initializations!r}", "pass 10"
        )
    sizes = SCALES[scale]
    directory = ensure_directory(default_directory(scale) if out is None else out)
    _check_scale(directory, sizes)
    if any(block.neural for block in chosen):
        # A device that is not there is found out before any work is done.
        find_gpu(device)
    done, seconds, drawn = [], {}, -math.inf
    with progress_bars(progress) as bars, bars.bar("blocks", len(chosen)) as advance:
        library = Library(directory, sizes, device, bars)
        for block in chosen:
            began = time.monotonic()
            advance(0, block.title)
            record = _reproduce(block, library, directory, int(initializations), command, bars)
            seconds[block.name] = time.monotonic() - began
            done.append(record)
            advance(1)
            if block is chosen[-1] or time.monotonic() - drawn >= PAGE_SECONDS:
                path = write_page(directory)
                drawn = time.monotonic()
    return Reproduction(directory, path, tuple(done), seconds)


def default_directory(scale: str) -> str:
    """Return where a reproduction goes that names no place."""
    return "reproduction" if scale == "full" else f"reproduction-{scale}"


def write_page(directory: Path) -> Path:
    """Write the page, the figures and the list of all figures from the blocks of a directory."""
    records = stored_records(directory)
    drawn = figures.draw(records)
    figures.save(drawn, ensure_directory(directory / "figures"))
    listed = figures_frame(records).to_csv(index=False)
    write_whole(directory / "figures.csv", partial(_put_text, listed))
    shown = page.render(records, drawn, first_rule(directory))
    return write_whole(directory / "index.html", partial(_put_text, shown))


def first_rule(directory: Path) -> dict[tuple[str, str], str]:
    """Return the verdicts by an earlier rule, by block and figure, where a directory has them."""
    path = directory / "first-rule.csv"
    if not path.exists():
        return {}
    rows = csv.DictReader(io.StringIO(read_text(path, LARGEST), newline=""))
    return {(row["block"], row["figure"]): row["verdict"] for row in rows}


def stored_records(directory: Path) -> list[Record]:
    """Return the blocks that a directory holds, in the order of the paper."""
    paths = [directory / "blocks" / f"{name}.json" for name in BLOCKS]
    return [load_record(path) for path in paths if path.exists()]


def _chosen(blocks: str | Iterable[str] | None) -> list[Block]:
    if blocks is None:
        return [block for block in BLOCKS.values() if block.in_study]
    names = [blocks] if isinstance(blocks, str) else list(blocks)
    if not names:
        raise InputError("at least one block", "none", "name one, or leave blocks out for all")
    return list({block.name: block for block in map(get_block, names)}.values())


def _check_scale(directory: Path, scale: Scale) -> None:
    """Refuse a directory of another scale: its figures would stand beside these."""
    for record in stored_records(directory):
        if record["scale"] != scale.name:
            raise InputError(
                f"a directory for the scale {scale.name}",
                f"{str(directory)!r}, which holds {record['name']} at the scale {record['scale']}",
                "choose another --out",
            )


def _reproduce(
    block: Block,
    library: Library,
    directory: Path,
    initializations: int,
    command: str,
    bars: Bars,
) -> Record:
    """Train, read out, measure, judge and write one block."""
    path = ensure_directory(directory / "blocks") / f"{block.name}.json"
    calls = load_record(path)["calls"] if path.exists() else []
    trained, began = library.trained, time.monotonic()
    needs = [] if block.needs is None else block.needs(library.scale)
    repeats = range(initializations if block.neural else 1)
    rows = library.rows([_repeated(block, need, repeats) for need in needs])
    with bars.bar(f"{block.title}, statistics", len(repeats)) as advance:
        measured = []
        for number in repeats:
            measured.append(block.measure(of_initialization(rows, number), library.scale))
            advance(1)
    redrawn = (
        measured
        if block.repeat is Field.with_noise_of
        else [*measured[:1], *_on_other_noise(block, needs, library, initializations)]
    )
    if library.trained > trained or not calls:
        calls = [
            *calls,
            {
                "command": command,
                "device": device_name(library.device),
                "versions": package_versions(),
                "initializations": initializations,
                "trained": library.trained - trained,
                "seconds": round(time.monotonic() - began, 2),
            },
        ]
    fields = len({field for need in needs for field in need.fields})
    record = record_of(block, measured, redrawn, library.scale, fields=fields, calls=calls)
    save_record(record, path)
    _write_tables(record, ensure_directory(directory / "tables"))
    return record


def _repeated(block: Block, need: Need, repeats: Sequence[int]) -> Need:
    found = [block.repeat(each, number) for number in repeats for each in need.fields]
    return Need(need.readout, [each for each in found if each is not None])


def _on_other_noise(
    block: Block, needs: Sequence[Need], library: Library, count: int
) -> list[Measured]:
    """Measure a block on the noise of other streams, as far as `noise-draws` left readouts."""
    values_only = replace(library.scale, most_draws=2)
    if block.redraw is not None:
        return [block.redraw(values_only, number) for number in range(1, count)]
    found = []
    for number in range(1, count if block.fresh_noise else 1):
        other = [
            Need(need.readout, [each.with_noise_of(number) for each in need.fields])
            for need in needs
        ]
        if library.holds(other):
            found.append(block.measure(library.rows(other), values_only))
    return found


def _write_tables(record: Record, directory: Path) -> None:
    for name, table in record["tables"].items():
        text = table_frame(table).to_csv(index=False)
        path = directory / f"{record['name']}-{name}.csv"
        write_whole(path, partial(_put_text, text))


def _put_text(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")


def device_name(device: Device) -> str:
    """Return what the steps are computed on: the name of a GPU, or CPU."""
    gpu = find_gpu(device)
    return "CPU" if gpu is None else str(gpu.device_kind)


def package_versions() -> dict[str, Any]:
    """Return the versions of all that numbers may depend on, by name."""
    found = {"twoaxis": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | {"system": f"{platform.system()} {os.uname().machine}"}
