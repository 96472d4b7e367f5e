"""Records and tables that were changed are refused before anything is made of them."""

import copy
import json

import pytest

from twoaxis.errors import InputError
from twoaxis.studies.library import _read_table, signed
from twoaxis.studies.record import FORMAT, load_record, save_record


def test_what_was_written_is_read(records, tmp_path):
    for record in [{**each, "format": FORMAT} for each in records]:
        assert load_record(save_record(record, tmp_path / "record.json")) == record


CHANGES = {
    "no name": lambda record: record.pop("name"),
    "figures that are no list": lambda record: record.update(figures={}),
    "a figure that is none": lambda record: record["figures"].append(3),
    "a number too large": lambda record: record["figures"][0].update(ours=10**400),
    "infinity": lambda record: record["figures"][0].update(ours=float("inf")),
    "values of text": lambda record: record["figures"][0].update(values=["a"]),
    "no number as interval": lambda record: record["figures"][0].update(
        printed_interval=["a", "b"]
    ),
    "another verdict": lambda record: record["figures"][0].update(verdict="wonderful"),
    "half a character": lambda record: record.update(title="\ud800"),
    "calls of another kind": lambda record: record.update(calls=[{}]),
    "no tables": lambda record: record.update(tables=None),
    "a ragged table": lambda record: record.update(tables={"t": {"columns": ["a"], "rows": [[]]}}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_record_is_refused(records, tmp_path, change):
    record = copy.deepcopy(records[0]) | {"format": FORMAT}
    path = tmp_path / "record.json"
    load_record(save_record(record, path))
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="reproduce the block again"):
        load_record(path)


def test_a_record_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "record.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="reproduce the block again"):
        load_record(path)


def test_a_table_with_a_column_twice_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(signed("key,a,a\nx,1,2\n", 1))
    with pytest.raises(InputError, match="same name"):
        _read_table(path)
