"""The front door: one cheap block from beginning to end, its files, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

from twoaxis.cli.app import app
from twoaxis.errors import InputError
from twoaxis.studies import reproduce as module
from twoaxis.studies.block import Block, Measured, Need
from twoaxis.studies.fields import Field
from twoaxis.studies.readouts import DELIVERED
from twoaxis.studies.registry import BLOCKS
from twoaxis.studies.reproduce import reproduce
from twoaxis.studies.scale import SCALES, SMOKE

BLOCK = "rba-replay"  # six fields of one method


@pytest.fixture(scope="module")
def _tiny():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCALES, "smoke", replace(SMOKE, steps=4, residual_points=60))
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory, _tiny):
    out = tmp_path_factory.mktemp("study")
    return reproduce(
        BLOCK, scale="smoke", initializations=2, device="cpu", out=out, progress=False, command="me"
    )


def test_everything_is_written(made):
    where = made.directory
    record = json.loads((where / "blocks" / f"{BLOCK}.json").read_text())
    assert record == made.records[0]
    assert record["initializations"] == 2
    (call,) = record["calls"]
    assert (call["command"], call["device"], call["trained"]) == ("me", "CPU", 12)
    assert call["seconds"] > 0
    assert "python" in call["versions"]
    for figure in record["figures"]:
        assert len(figure["values"]) == 2
        assert figure["verdict"] == "not judged"
    listed = pd.read_csv(where / "figures.csv")
    assert listed["figure"].tolist() == [figure["key"] for figure in record["figures"]]
    for table in record["tables"]:
        assert (where / "tables" / f"{BLOCK}-{table}.csv").exists()
    page = made.page.read_text()
    assert made.page == where / "index.html"
    assert "smoke" in page
    assert all(figure["label"] in page for figure in record["figures"])


def test_a_second_call_trains_nothing_and_gives_the_same_record(made, monkeypatch):
    monkeypatch.setattr(
        "twoaxis.studies.library.train_specs", lambda *_, **__: pytest.fail("trained again")
    )
    again = reproduce(
        BLOCK, scale="smoke", initializations=2, device="cpu", out=made.directory, progress=False
    )
    assert again.records == made.records


def test_tables_can_be_made_from_the_readouts_alone(made, tmp_path, monkeypatch):
    import shutil

    shutil.copytree(made.directory / "readouts", tmp_path / "readouts")
    monkeypatch.setattr(
        "twoaxis.studies.library.train_specs", lambda *_, **__: pytest.fail("trained again")
    )
    again = reproduce(
        BLOCK, scale="smoke", initializations=2, device="cpu", out=tmp_path, progress=False
    )
    (one,), (other,) = made.records, again.records
    assert one["figures"] == other["figures"]
    assert one["tables"] == other["tables"]


def test_an_earlier_block_stays_on_the_page(made, monkeypatch):
    name = "calibration"
    stored = made.directory / "blocks" / f"{name}.json"
    record = dict(made.records[0], name=name, title="An earlier block")
    stored.write_text(json.dumps(record))
    monkeypatch.setattr("twoaxis.studies.library.train_specs", None)
    page = module.write_page(made.directory).read_text()
    stored.unlink()
    assert "An earlier block" in page
    assert made.records[0]["title"] in page


def test_a_directory_of_another_scale_is_refused(made):
    with pytest.raises(InputError, match="another --out"):
        reproduce(BLOCK, scale="full", device="cpu", out=made.directory, progress=False)


@pytest.mark.parametrize(
    ("blocks", "options", "told"),
    [
        ("developmnt", {}, 'did you mean "development"'),
        ([], {}, "at least one block"),
        (BLOCK, {"scale": "large"}, "scale among full, smoke"),
        (BLOCK, {"initializations": 0}, "at least one initialization"),
        (BLOCK, {"initializations": 1.5}, "at least one initialization"),
        (BLOCK, {"device": "tpu"}, "auto"),
    ],
)
def test_bad_input_is_told_before_any_work(tmp_path, blocks, options, told):
    with pytest.raises(InputError, match=told):
        reproduce(blocks, **{"scale": "smoke", "out": tmp_path, "progress": False} | options)
    assert not (tmp_path / "fields").exists() or not any((tmp_path / "fields").iterdir())


def test_without_names_the_blocks_of_the_study_are_made(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "twoaxis.studies.reproduce._reproduce", lambda block, *_: asked.append(block.name)
    )
    reproduce(scale="smoke", device="cpu", out=tmp_path, progress=False)
    assert asked == [name for name in BLOCKS if name not in ("noise-draws", "generating-solver")]


class Stored:
    """A library that has fresh noise of the streams 1 and 3."""

    scale = SMOKE

    def holds(self, needs):
        return all(f.stream in (0, 1, 3) for need in needs for f in need.fields)

    def rows(self, needs):
        return {need.readout.name: pd.DataFrame(f.columns() for f in need.fields) for need in needs}


def test_other_noise_is_measured_where_it_is_stored():
    fresh = Field(problem="burgers", method="rba", dataset=8, replica=0)
    needs = [Need(DELIVERED, [fresh, replace(fresh, replica=None)])]
    asked = []

    def measure(rows, scale):
        asked.append(rows["delivered"][["stream", "initialization"]].to_numpy().tolist())
        assert scale.most_draws < SMOKE.most_draws
        return Measured()

    block = Block("a", "A", "May show.", measure, fresh_noise=True)
    assert len(module._on_other_noise(block, needs, Stored(), 5)) == 2
    # The published data are the same in every stream.
    assert asked == [[[1, 1], [0, 1]], [[3, 3], [0, 3]]]
    assert module._on_other_noise(replace(block, fresh_noise=False), needs, Stored(), 5) == []


def test_a_block_without_training_redraws_its_noise_itself():
    drawn = []
    block = Block("a", "A", "May show.", lambda *_: Measured(), redraw=lambda _, k: drawn.append(k))
    assert len(module._on_other_noise(block, [], Stored(), 4)) == 3
    assert drawn == [1, 2, 3]


def test_a_damaged_record_is_told(tmp_path):
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / f"{BLOCK}.json").write_text("{")
    with pytest.raises(InputError, match="move it away"):
        reproduce(BLOCK, scale="smoke", device="cpu", out=tmp_path, progress=False)


def test_the_command_line_names_every_block():
    shown = CliRunner().invoke(app, ["reproduce", "--list"])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in BLOCKS)


@pytest.mark.parametrize("arguments", [[], ["--all", BLOCK]])
def test_the_command_line_wants_blocks_or_all(arguments):
    failed = CliRunner().invoke(app, ["reproduce", *arguments])
    assert isinstance(failed.exception, InputError)
    assert "--list" in str(failed.exception)
