"""What all results have in common: building, deriving, saving, loading, messages."""

import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

from twoaxis import result
from twoaxis.errors import InputError
from twoaxis.io import Variable, labelled, write_netcdf
from twoaxis.result import (
    MESSAGE_LAYOUT,
    Message,
    Result,
    load,
    message_variables,
    messages_from,
)


class Square(Result[xr.Dataset]):
    """A result for the tests: numbers, and their squares, which follow from them."""

    schema = "square"
    layouts: ClassVar = {
        "/": {
            "number": Variable(("row",), "float", "a number", finite=True),
            "square": Variable(("row",), "float", "its square"),
            "note": Variable((), "text", "a note", required=False),
        }
    }
    attributes: ClassVar = {"/": ("origin",)}

    def derived(self):
        return {"square": self.data["number"].values ** 2}

    def summary(self):
        return pd.DataFrame({"square": self.data["square"].values})

    def __repr__(self):
        return f"Square of {self.data.sizes['row']} numbers"


@pytest.fixture
def square(monkeypatch):
    monkeypatch.setitem(sys.modules, "square_module", SimpleNamespace(Square=Square))
    monkeypatch.setitem(result.CLASSES, "square", "square_module:Square")
    return Square.from_values({"number": [1.0, 2.0, 3.0]}, {"origin": "test"})


def test_derived_variables_are_computed_and_labelled(square):
    assert_allclose(square.data["square"], [1, 4, 9])
    assert square.data["square"].attrs["long_name"] == "its square"
    assert square.data.attrs["schema"] == "twoaxis.square/1"


def test_a_saved_result_is_the_same_again(square, tmp_path):
    again = load(square.save(tmp_path / "square.nc"))
    assert type(again) is Square
    xr.testing.assert_identical(again.data.drop_attrs(), square.data.drop_attrs())
    assert again.data.attrs["origin"] == "test"


def test_plain_xarray_opens_a_saved_result(square, tmp_path):
    with xr.open_dataset(square.save(tmp_path / "square.nc"), engine="h5netcdf") as opened:
        assert_allclose(opened["square"], [1, 4, 9])


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"number": [1.0, 2.0], "square": [1.0, 5.0]}, "square as it follows"),
        ({"number": [1.0, np.nan], "square": [1.0, 4.0]}, "not finite"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(square, tmp_path, values, fault):
    variables = {name: ("row", value) for name, value in values.items()}
    attributes = {**square.data.attrs}
    path = write_netcdf(tmp_path / "square.nc", xr.Dataset(variables, attrs=attributes))
    with pytest.raises(InputError, match=fault):
        load(path)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ("twoaxis.square/2", "version '2'"),
        ("twoaxis.circle/1", "schema 'twoaxis.circle/1'"),
        ("square", "schema 'square'"),
    ],
)
def test_other_schemas_are_refused(square, tmp_path, schema, fault):
    data = square.data.assign_attrs(schema=schema)
    with pytest.raises(InputError, match=fault):
        load(write_netcdf(tmp_path / "square.nc", data))


def test_messages_there_and_back():
    messages = [
        Message("scan.on_bound", "the minimum lies\non a bound", "warning", {"bound": 0.5}),
        Message("plain", "nothing else"),
    ]
    found = messages_from(labelled(MESSAGE_LAYOUT, message_variables(messages), {}))
    assert [m.code for m in found] == ["scan.on_bound", "plain"]
    assert found[0].text == "the minimum lies on a bound"
    assert found[0].numbers == {"bound": 0.5}
    assert found[1] == messages[1]


def test_no_messages_are_no_rows():
    assert messages_from(labelled(MESSAGE_LAYOUT, message_variables([]), {})) == []
