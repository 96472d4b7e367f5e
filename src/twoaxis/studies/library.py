"""Trained fields on disk, and the tables of what was read out of them.

``fields/`` holds the runs, each under a key made of all that defines it; ``readouts/`` holds one
table for each readout, with a row or more for each field. A field whose rows are there is not
needed again, a field that is there is not trained again: blocks share them, and an interrupted
reproduction goes on.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from twoaxis.errors import InputError
from twoaxis.files import ensure_directory, read_text, write_whole
from twoaxis.progress import Bars, progress_bar
from twoaxis.runs import Run, RunStore, train_specs
from twoaxis.runs.run_file import identity
from twoaxis.studies.block import Need, Rows
from twoaxis.studies.fields import Field
from twoaxis.studies.readouts import Readout
from twoaxis.studies.scale import Scale
from twoaxis.training import RunSpec, Settings
from twoaxis.training.backends import Device, cores, find_gpu
from twoaxis.training.settings import run_key

# Batches under way at once on a GPU: while one is compiled, others are trained.
BATCHES_ON_GPU = 6
# Bytes. A table has some millions; a file that is larger than this is none.
LARGEST_TABLE = 2**30
# The last line of a table: it lies in the same file, so that both are written or neither is.
LAST_LINE = "# {rows} rows, sha256 {digest}\n"
LAST_LINE_PATTERN = re.compile(r"# (\d+) rows, sha256 ([0-9a-f]{64})\n")
# The columns that every table begins with.
FIRST_COLUMNS = ["key", *(field.name for field in fields(Field))]


@dataclass(frozen=True)
class Asked:
    """A field as the engine knows it."""

    field: Field
    settings: Settings
    spec: RunSpec
    key: str


# Fields to train together, and what is still to be read out of each.
Batch = list[tuple[Asked, list[Readout]]]


class Library:
    """The fields and readouts of one reproduction.

    Parameters
    ----------
    directory : path
    scale : Scale
    device : {"auto", "cpu", "gpu"}
    bars : Bars or bool
        Where progress is shown.
    batches : int, optional
        How many are under way at once; six on a GPU and one elsewhere without it.

    Attributes
    ----------
    trained : int
        Fields that were trained and not found.
    """

    def __init__(
        self,
        directory: Path,
        scale: Scale,
        device: Device = "auto",
        bars: Bars | bool = True,
        batches: int | None = None,
    ) -> None:
        self._fields = RunStore(directory / "fields", create=True)
        self._readouts = ensure_directory(directory / "readouts")
        self.scale, self.device, self._bars = scale, device, bars
        self._writing = threading.Lock()
        self._tables: dict[str, dict[str, list[dict[str, str]]]] = {}
        self._cores = cores()
        self._at_once = batches or (BATCHES_ON_GPU if find_gpu(device) else 1)
        self.trained = 0

    def rows(self, needs: Sequence[Need]) -> dict[str, pd.DataFrame]:
        """Return the rows of every readout, trained and read where they are missing.

        The columns of `Field` stand before those of the readout. Fields keep their order.
        """
        asked = {need.readout.name: self._asked(need.fields) for need in needs}
        readouts = {need.readout.name: need.readout for need in needs}
        missing: dict[str, tuple[Asked, list[Readout]]] = {}
        for name, readout in readouts.items():
            known = self._table(readout)
            for each in asked[name]:
                if each.key not in known:
                    missing.setdefault(each.key, (each, []))[1].append(readout)
        self._compute(list(missing.values()))
        return {name: self._frame(asked[name], self._table(readouts[name])) for name in readouts}

    def holds(self, needs: Sequence[Need]) -> bool:
        """Return whether the rows of all these readouts are stored."""
        return all(
            each.key in self._table(need.readout)
            for need in needs
            for each in self._asked(need.fields)
        )

    def _asked(self, fields: Iterable[Field]) -> list[Asked]:
        found = []
        for each in dict.fromkeys(fields):
            settings, spec = each.settings(self.scale), each.spec()
            found.append(Asked(each, settings, spec, run_key(settings, spec)))
        return found

    def _compute(self, missing: Batch) -> None:
        """Train what must be trained, in batches that share their settings, and read it out."""
        batches: dict[str, Batch] = {}
        for each in missing:
            batches.setdefault(_shared(each[0]), []).append(each)
        if not batches:
            return
        # The largest first, so that small ones fill the gaps.
        ordered = sorted(batches.values(), key=len, reverse=True)
        with progress_bar("fields", len(missing), self._bars) as advance:

            def work(batch: Batch) -> None:
                for _ in self._batch(batch):
                    advance(1)

            if self._at_once == 1 or len(ordered) == 1:
                for batch in ordered:
                    work(batch)
            else:
                self._in_threads(work, ordered)

    def _in_threads(self, work: Callable[[Batch], None], batches: list[Batch]) -> None:
        with _threads(self._at_once) as threads:
            futures = [threads.submit(work, batch) for batch in batches]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                if isinstance(self._bars, Bars):
                    self._bars.stop()
                raise

    def _batch(self, batch: Batch) -> Iterator[Asked]:
        """Train one batch and read its fields out; the tables grow when all of it is there."""
        places = [self._fields.path(asked.key) for asked, _ in batch]
        before = [identity(place) for place in places]
        runs = train_specs(
            batch[0][0].settings,
            [asked.spec for asked, _ in batch],
            store=self._fields,
            device=self.device,
            progress=self._bars,
        )
        found: dict[str, dict[str, list[dict[str, str]]]] = {}
        chosen = {readout.name: readout for _, readouts in batch for readout in readouts}

        def read(one: tuple[Run, tuple[Asked, list[Readout]]]) -> list[tuple[str, Any]]:
            run, (_, readouts) = one
            return [(each.name, _texts(each.read(run, self.scale))) for each in readouts]

        with _threads(self._cores) as threads:
            pairs = zip(runs, batch, strict=True)
            for (asked, _), rows in zip(batch, threads.map(read, pairs), strict=True):
                for name, texts in rows:
                    found.setdefault(name, {})[asked.key] = texts
                yield asked
        with self._writing:
            # What is there now and was not before: a damaged field is trained again, too.
            self.trained += sum(identity(p) != b for p, b in zip(places, before, strict=True))
            for name, rows_of in found.items():
                self._grow(chosen[name], rows_of, [asked for asked, _ in batch])

    def _grow(
        self, readout: Readout, rows: dict[str, list[dict[str, str]]], asked: list[Asked]
    ) -> None:
        """Add rows to a table and write it whole, sorted by key."""
        table = self._table(readout)
        defined = {each.key: _texts([each.field.columns()])[0] for each in asked}
        for key, texts in rows.items():
            table[key] = [defined[key] | text for text in texts]
        text = io.StringIO()
        names = dict.fromkeys(name for own in table.values() for row in own for name in row)
        writer = csv.DictWriter(text, ["key", *names], lineterminator="\n")
        writer.writeheader()
        for key in sorted(table):
            writer.writerows({"key": key} | row for row in table[key])
        content = signed(text.getvalue(), sum(map(len, table.values()))).encode("utf-8")
        write_whole(self._readouts / readout.file, lambda path: path.write_bytes(content))

    def _table(self, readout: Readout) -> dict[str, list[dict[str, str]]]:
        """Return a readout's rows by key, as texts, from disk at the first call."""
        if readout.name not in self._tables:
            path = self._readouts / readout.file
            self._tables[readout.name] = _read_table(path) if path.exists() else {}
        return self._tables[readout.name]

    def _frame(self, asked: list[Asked], table: dict[str, list[dict[str, str]]]) -> pd.DataFrame:
        rows = []
        for each in asked:
            own = each.field.columns()
            for row in table[each.key]:
                read = {name: _value(text) for name, text in row.items() if name not in own}
                rows.append({"key": each.key, **own, **read})
        return pd.DataFrame(rows)


def _shared(asked: Asked) -> str:
    """Return what the fields of a batch have in common.

    On a GPU the last digits may depend on the batch. The first initialization is trained apart,
    so that its figures are the same whether repetitions were asked for or not.
    """
    first = asked.field.initialization == 0
    count = len(asked.spec.dataset.values)
    return json.dumps([asked.settings.describe(), count, first], sort_keys=True, default=repr)


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that drop what waits when the work is interrupted or fails."""
    threads = ThreadPoolExecutor(count)
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)


def of_initialization(rows: Rows, number: int) -> dict[str, pd.DataFrame]:
    """Return the rows of the fields that started from one initialization."""
    return {
        name: frame[frame["initialization"] == number].reset_index(drop=True)
        for name, frame in rows.items()
    }


def stored_readout(directory: Path, readout: Readout) -> pd.DataFrame:
    """Return the rows of a readout that a directory of readouts holds; none without its file."""
    path = directory / readout.file
    table = _read_table(path) if path.exists() else {}
    return pd.DataFrame(
        {"key": key, **{name: _value(text) for name, text in row.items()}}
        for key, rows in table.items()
        for row in rows
    )


def signed(text: str, rows: int) -> str:
    """Return the text of a table with its last line: the number of rows, and the SHA-256."""
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return text + LAST_LINE.format(rows=rows, digest=digest)


def _read_table(path: Path) -> dict[str, list[dict[str, str]]]:
    table: dict[str, list[dict[str, str]]] = {}
    try:
        text, rows = _verified(read_text(path, LARGEST_TABLE))
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        names = list(reader.fieldnames or [])
        if len(set(names)) != len(names):
            raise ValueError("two of its columns have the same name")
        if names[: len(FIRST_COLUMNS)] != FIRST_COLUMNS:
            raise ValueError(f"it does not begin with the columns {', '.join(FIRST_COLUMNS)}")
        kinds: dict[str, type] = {}
        for count, row in enumerate(reader, start=1):
            if None in row or None in row.values():
                raise ValueError(f"row {count} has another number of cells than the header")
            for name, cell in row.items():
                kind = _kind(cell) if cell else None
                if kind and kinds.setdefault(name, kind) is not kind:
                    raise ValueError(f"{cell!r} in row {count} of the column {name!r}")
            table.setdefault(row.pop("key"), []).append(row)
        found = sum(map(len, table.values()))
        if found != rows:
            raise ValueError(f"{found} rows, and its last line says {rows}")
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(
            "a table of readouts as twoaxis reproduce wrote it",
            f"{str(path)!r}: {error}",
            "restore the file, or move it away: it is then made again from the stored fields",
        ) from error
    return table


def _verified(text: str) -> tuple[str, int]:
    """Return a table without its last line, and the number of rows that this line states."""
    start = text.rfind("\n", 0, -1) + 1
    last = LAST_LINE_PATTERN.fullmatch(text[start:])
    if last is None:
        raise ValueError("its last line, with the number of rows and the checksum, is missing")
    if hashlib.sha256(text[:start].encode("utf-8")).hexdigest() != last[2]:
        raise ValueError("its content does not match the checksum in its last line")
    return text[:start], int(last[1])


def _kind(text: str) -> type:
    """Return the type of a cell that is not empty; all numbers are one type."""
    kind = type(_value(text))
    return float if kind is int else kind


def _texts(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return rows as they are written: numbers with all their digits, nothing for None."""
    return [
        {name: "" if value is None else _text(value) for name, value in row.items()} for row in rows
    ]


def _text(value: Any) -> str:
    if isinstance(value, (bool, str)):
        return str(value)
    number = value.item() if hasattr(value, "item") else value
    return repr(number)


def _value(text: str) -> Any:
    """Return what a text stands for: a number, a truth value, or itself."""
    if text in ("True", "False"):
        return text == "True"
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
