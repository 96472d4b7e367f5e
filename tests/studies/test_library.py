"""Fields are trained once, rows are read once, and damage is told."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from twoaxis.datasets import fresh_dataset, published_dataset
from twoaxis.errors import DamageWarning, InputError
from twoaxis.studies.block import Need
from twoaxis.studies.fields import Field, every_second
from twoaxis.studies.library import Library, _read_table, of_initialization, signed
from twoaxis.studies.readouts import Readout
from twoaxis.studies.registry import BLOCKS
from twoaxis.studies.scale import FULL, SMOKE
from twoaxis.training.settings import run_key

TINY = replace(SMOKE, steps=3, residual_points=40)
FIELDS = [Field(problem="burgers", method="rba", dataset=d) for d in (8, 9)]


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, run, _scale):
        self.calls += 1
        same = {"nu": run.delivered["nu"], "note": "a, b", "none": None}
        return [{"part": part, **same} for part in (0, 1)]


@pytest.fixture
def readout():
    return Readout("counting", 1, Counting())


def library(path, **options):
    return Library(path, TINY, "cpu", False, **options)


def test_rows_are_read_once_and_survive_on_disk_with_all_their_digits(tmp_path, readout):
    first = library(tmp_path)
    rows = first.rows([Need(readout, FIELDS)])["counting"]
    assert (first.trained, readout.read.calls) == (2, 2)
    assert rows["dataset"].tolist() == [8, 8, 9, 9]
    assert rows["part"].tolist() == [0, 1, 0, 1]
    again = library(tmp_path)
    pd.testing.assert_frame_equal(again.rows([Need(readout, FIELDS)])["counting"], rows)
    assert (again.trained, readout.read.calls) == (0, 2)


def test_rows_do_not_need_the_fields_any_more(tmp_path, readout):
    rows = library(tmp_path).rows([Need(readout, FIELDS)])["counting"]
    shutil.rmtree(tmp_path / "fields")
    pd.testing.assert_frame_equal(library(tmp_path).rows([Need(readout, FIELDS)])["counting"], rows)


STORED = Path(__file__).parents[2] / "results" / "reproduction" / "readouts"


def test_the_stored_readouts_have_every_field_of_the_study():
    """Otherwise its tables could not be made again without training."""
    for block in BLOCKS.values():
        for need in block.needs(FULL) if block.in_study and block.needs else []:
            known = set(pd.read_csv(STORED / need.readout.file, usecols=["key"])["key"])
            for number in (0, 9):
                fields = [block.repeat(each, number) for each in need.fields]
                keys = {run_key(f.settings(FULL), f.spec()) for f in fields if f is not None}
                assert keys <= known, (block.name, need.readout.name, number)


def written(directory):
    """When each file was written, at whatever depth."""
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}


def test_another_readout_of_the_same_fields_trains_nothing(tmp_path, readout):
    library(tmp_path).rows([Need(readout, FIELDS)])
    before = written(tmp_path / "fields")
    assert len(before) == 4
    other = Readout("other", 1, Counting())
    library(tmp_path).rows([Need(other, FIELDS)])
    assert other.read.calls == 2
    assert written(tmp_path / "fields") == before


def test_a_damaged_field_counts_as_trained(tmp_path, readout):
    library(tmp_path).rows([Need(readout, FIELDS)])
    (first, _) = sorted((tmp_path / "fields").glob("[0-9a-f][0-9a-f]/*/arrays.safetensors"))
    first.write_bytes(b"damage")
    again = library(tmp_path)
    with pytest.warns(DamageWarning, match="is damaged"):
        again.rows([Need(Readout("other", 1, Counting()), FIELDS)])
    assert again.trained == 1


def test_tables_are_written_in_one_encoding_everywhere(tmp_path, monkeypatch):
    """Where the system's own encoding is another one."""

    def in_ascii(path, text, encoding="ascii", **options):  # noqa: ARG001
        return path.write_bytes(text.encode(encoding))

    monkeypatch.setattr(Path, "write_text", in_ascii)
    greek = Readout("greek", 1, lambda run, scale: [{"note": "ν̂"}])  # noqa: ARG005
    library(tmp_path).rows([Need(greek, FIELDS[:1])])
    (table,) = (tmp_path / "readouts").iterdir()
    assert "ν̂" in table.read_bytes().decode("utf-8")


def test_a_new_version_of_a_readout_is_read_again(tmp_path, readout):
    library(tmp_path).rows([Need(readout, FIELDS)])
    newer = Readout("counting", 2, Counting())
    library(tmp_path).rows([Need(newer, FIELDS)])
    assert newer.read.calls == 2


def test_more_fields_are_added_to_the_table(tmp_path, readout):
    library(tmp_path).rows([Need(readout, FIELDS[:1])])
    rows = library(tmp_path).rows([Need(readout, FIELDS)])["counting"]
    assert readout.read.calls == 2
    assert len(rows) == 4


def test_initializations_are_told_apart(tmp_path, readout):
    both = [FIELDS[0], FIELDS[0].starting_from(1)]
    rows = library(tmp_path).rows([Need(readout, both)])
    one, other = (of_initialization(rows, k)["counting"] for k in (0, 1))
    assert len(one) == len(other) == 2
    assert one["nu"].iloc[0] != other["nu"].iloc[0]


@pytest.mark.parametrize("damage", ["key,nu\na,1,2\n", "key,nu\na\n", "nu\n1\n", '"key,nu\na'])
def test_a_damaged_table_is_told_and_not_used(tmp_path, readout, damage):
    here = library(tmp_path)
    (tmp_path / "readouts" / readout.file).write_text(damage)
    with pytest.raises(InputError, match="move it away"):
        here.rows([Need(readout, FIELDS)])


REPRODUCTION = Path(__file__).parents[2] / "results" / "reproduction" / "readouts"


def mutated(content, random):
    """A table with one random fault in it."""
    lines = content.decode().splitlines(keepends=True)
    row = int(random.integers(1, len(lines) - 1))
    cells = lines[row].split(",")
    column = int(random.integers(len(cells)))
    names = lines[0].rstrip("\n").split(",")
    match random.integers(7):
        case 0:  # one byte
            place = int(random.integers(len(content)))
            other = bytes([content[place] ^ int(random.integers(1, 256))])
            return content[:place] + other + content[place + 1 :]
        case 1:  # the file ends early
            return content[: int(random.integers(len(content)))]
        case 2:
            del lines[row]
        case 3:
            lines.insert(row, lines[row])
        case 4:
            names[column] += "x"
            lines[0] = ",".join(names) + "\n"
        case 5:
            cells[column] = "text" + ("\n" if column == len(cells) - 1 else "")
            lines[row] = ",".join(cells)
        case 6:
            del lines[-2]
    return "".join(lines).encode()


@pytest.mark.parametrize("name", ["bands-1", "delivered-1", "replay-1", "selected-1"])
def test_a_mutated_table_is_refused(tmp_path, name):
    """The stored tables of the reproduction, 75 mutations each."""
    content = (REPRODUCTION / f"{name}.csv").read_bytes()
    random = np.random.default_rng(7)
    path = tmp_path / "table.csv"
    for _ in range(75):
        changed = mutated(content, random)
        assert changed != content
        path.write_bytes(changed)
        with pytest.raises(InputError, match=r"table\.csv"):
            _read_table(path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text.replace("dataset", "data", 1), "begin with the columns key, problem"),
        (lambda text: text.replace("problem", "dataset", 1), "have the same name"),
        (lambda text: text.replace(",9,", ",nine,", 1), "'nine' in row 3 of the column 'dataset'"),
        (lambda text: text.replace(",8,", ",8,8,", 1), "row 1 has another number of cells"),
    ],
)
def test_columns_and_cells_are_checked_beside_the_checksum(tmp_path, readout, change, complaint):
    library(tmp_path).rows([Need(readout, FIELDS)])
    path = tmp_path / "readouts" / readout.file
    path.write_text(signed(change(path.read_text().rpartition("#")[0]), 4))
    with pytest.raises(InputError, match=complaint):
        library(tmp_path).rows([Need(readout, FIELDS)])


def test_a_table_states_its_rows(tmp_path, readout):
    library(tmp_path).rows([Need(readout, FIELDS)])
    path = tmp_path / "readouts" / readout.file
    body, _, last = path.read_text().rpartition("#")
    assert last.startswith(" 4 rows, sha256 ")
    path.write_text(signed(body, 5))
    with pytest.raises(InputError, match="4 rows, and its last line says 5"):
        library(tmp_path).rows([Need(readout, FIELDS)])


def test_a_failure_while_reading_leaves_no_table(tmp_path):
    def fail(_run, _scale):
        raise RuntimeError("no")

    broken = Readout("broken", 1, fail)
    with pytest.raises(RuntimeError):
        library(tmp_path).rows([Need(broken, FIELDS)])
    assert not (tmp_path / "readouts" / broken.file).exists()


def test_batches_side_by_side_give_the_same_rows(tmp_path, readout):
    fields = [replace(field, method=method) for method in ("rba", "adam") for field in FIELDS]
    one = library(tmp_path / "one").rows([Need(readout, fields)])["counting"]
    several = library(tmp_path / "several", batches=3).rows([Need(readout, fields)])["counting"]
    pd.testing.assert_frame_equal(several, one)


def test_a_failure_in_one_of_several_batches_is_raised(tmp_path):
    def fail(run, _scale):
        if run.settings.method.name == "adam":
            raise RuntimeError("no")
        return [{"a": 1}]

    fields = [replace(FIELDS[0], method=method) for method in ("rba", "adam", "pcgrad")]
    with pytest.raises(RuntimeError, match="no"):
        library(tmp_path, batches=2).rows([Need(Readout("broken", 1, fail), fields)])


def test_halves_of_a_dataset_share_nothing_and_make_the_whole():
    whole = published_dataset("burgers", 9)
    even, odd = (every_second(whole, k) for k in (0, 1))
    assert len(even.values) == len(odd.values) == 100
    np.testing.assert_array_equal(
        np.sort(np.concatenate([even.sites, odd.sites])), np.sort(whole.sites)
    )
    np.testing.assert_array_equal(whole.values[::2], even.values)
    assert even.label != odd.label


def test_a_field_asks_for_what_it_names():
    field = Field(
        problem="burgers",
        method="patch",
        dataset=9,
        replica=2,
        width=32,
        depth=3,
        conditions="exact",
    )
    settings, spec = field.settings(TINY), field.spec()
    assert (settings.network.width, settings.network.depth) == (32, 3)
    assert (settings.conditions, settings.steps, settings.method.name) == ("exact", 3, "patch")
    fresh = fresh_dataset("burgers", layout=9, replica=2)
    np.testing.assert_array_equal(spec.dataset.values, fresh.values)
    held = replace(field, candidate=0.03, fold=1).spec()
    assert held.start == {"nu": 0.03}
    assert held.fixed == {"nu"}
    assert len(held.dataset.values) == 100
