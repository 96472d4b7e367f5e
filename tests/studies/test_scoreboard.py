"""``twoaxis.compare_methods``: what is trained, measured, kept, taken over and skipped."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from command import twoaxis as command

import twoaxis as ta
from twoaxis.runs import train
from twoaxis.studies import scoreboard
from twoaxis.studies.library import FIRST_COLUMNS, signed
from twoaxis.studies.readouts import ENDPOINTS, OWN
from twoaxis.studies.scale import FULL


@dataclass(frozen=True)
class Mine:
    """A method of a user's own, with a network that trains in no time."""

    points: int = 60
    name: str = "mine"
    settings: dict = field(default_factory=lambda: {"network": ta.Network(8, 1), "steps": 4})

    def recipe(self):
        return ta.methods.Recipe(defaults={**self.settings, "residual_points": self.points})


QUICK = {"layouts": 2, "replicas": 3, "progress": False, "device": "cpu"}


@pytest.fixture(scope="module")
def run():
    return train("allen-cahn", method=Mine(), datasets=8, progress=False)[0]


def test_a_row_holds_the_minimum_of_the_frozen_loss(run):
    (row,) = scoreboard.measured(run, 1.5, device="CPU")
    known = run.problem.parameters["lam"]
    # Pointwise and uniform: the loss is the mean squared residual.
    every = np.geomspace(*known.bounds, 40001)
    best = every[np.argmin([np.mean(run.residual(lam=lam) ** 2) for lam in every])]
    assert row["displacement_percent"] == pytest.approx(100 * abs(best / known.truth - 1), rel=1e-3)
    assert row["gap_percent"] == pytest.approx(100 * (run.delivered["lam"] / best - 1), rel=1e-3)
    assert row["error_percent"] == 100 * (run.delivered["lam"] - known.truth) / known.truth
    assert (row["time"], row["status"]) == (1.5, "finished")


def test_a_row_of_a_readout_is_that_of_the_run(run):
    read = next(each for each in ENDPOINTS.read(run, FULL) if each["view"] == OWN)
    found = scoreboard._read_out(run.key, run.problem, "mine", run.spec, read)
    (row,) = scoreboard.measured(run, float("nan"), device="")
    assert {n: v for n, v in found.items() if isinstance(v, str | int)} == {
        n: v for n, v in row.items() if isinstance(v, str | int)
    }
    for name in ("delivered", "error_percent", "displacement_percent", "gap_percent"):
        assert found[name] == pytest.approx(row[name], rel=1e-6)


def test_a_board_goes_on_where_it_stopped(tmp_path, monkeypatch):
    first = ta.compare_methods("allen-cahn", Mine(), seeds=0, out=tmp_path, **QUICK)
    assert first.rows[["dataset", "seed"]].values.tolist() == [["8", 0], ["9", 0]]
    assert (first.rows["time"] > 0).all()
    asked = []
    real = scoreboard.train_specs

    def spied(settings, specs, **options):
        asked.extend((spec.dataset.label, spec.seed) for spec in specs)
        return real(settings, specs, **options)

    monkeypatch.setattr(scoreboard, "train_specs", spied)
    more = ta.compare_methods("allen-cahn", Mine(), seeds=[0, 1], out=tmp_path, **QUICK)
    assert asked == [("8", 1), ("9", 1)]
    assert len(more.rows) == 4
    # Fewer seeds lose nothing; other settings are another method's runs.
    fewer = ta.compare_methods("allen-cahn", Mine(), seeds=0, out=tmp_path, **QUICK)
    assert len(fewer.rows) == 4
    other = ta.compare_methods("allen-cahn", Mine(), seeds=0, steps=2, out=tmp_path, **QUICK)
    assert len(other.rows) == 2
    assert asked[2:] == [("8", 0), ("9", 0)]


def test_what_cannot_be_trained_is_said():
    found = ta.compare_methods("allen-cahn", [Mine(points=0, name="no"), Mine()], seeds=0, **QUICK)
    assert found.skipped["method"].tolist() == ["no"]
    assert "residual_points" in found.skipped["reason"][0]
    assert len(found.rows) == 2


def test_methods_are_told_apart_by_their_names():
    with pytest.raises(ta.InputError, match="mine twice"):
        ta.compare_methods("allen-cahn", [Mine(), Mine(points=50)], seeds=0, **QUICK)


def test_runs_of_a_reproduction_join_in_place_of_training(tmp_path, monkeypatch, run):
    read = next(each for each in ENDPOINTS.read(run, FULL) if each["view"] == OWN)
    about = {"problem": "allen-cahn", "method": "mine", "dataset": 8, "initialization": 0}
    cells = {"key": run.key, **about, **read}
    names = [*FIRST_COLUMNS, *read]
    lines = ",".join(names) + "\n" + ",".join(str(cells.get(name, "")) for name in names) + "\n"
    (tmp_path / ENDPOINTS.file).write_text(signed(lines, 1))
    monkeypatch.setattr(scoreboard, "train_specs", None)  # nothing is left to train
    found = ta.compare_methods(
        "allen-cahn", Mine(), seeds=0, readouts=tmp_path, **QUICK | {"layouts": 1}
    )
    assert found.rows["key"].tolist() == [run.key]
    assert found.rows["device"].tolist() == [""]
    assert np.isnan(found.rows["time"]).all()


def test_a_directory_without_readouts_is_refused(tmp_path):
    with pytest.raises(ta.InputError, match="readouts"):
        ta.compare_methods("allen-cahn", Mine(), seeds=0, readouts=tmp_path, **QUICK)


MODULE = """
import twoaxis as ta


class Mine:
    name = "own"

    def recipe(self):
        return ta.methods.Recipe(
            defaults={"network": ta.Network(8, 1), "steps": 2, "residual_points": 50}
        )
"""


def test_a_method_of_ones_own_joins_by_one_option(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    quick = ("--methods", "adam", "--seeds", "0", "--layouts", "1", "--replicas", "3")
    done = command(
        *("compare-methods", "burgers", *quick, "--method", "mine.py:Mine", "--steps", "2"),
        *("--device", "cpu", "--out", "board"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    written = sorted(path.name for path in (tmp_path / "board").iterdir())
    names = ["index.html", "runs.csv", "scoreboard.csv", "scoreboard.md", "scoreboard.nc"]
    assert written == names
    assert "| own | 1 |" in (tmp_path / "board" / "scoreboard.md").read_text()
    again = command("compare-methods", "--from", "board", "--out", "copy", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    page, copied = (tmp_path / each / "index.html" for each in ("board", "copy"))
    assert page.read_bytes() == copied.read_bytes()


@pytest.mark.parametrize("place", ["mine", "missing.py:Mine", "mine.py:Other", "mine.py:broken"])
def test_a_method_that_is_not_there_is_said(tmp_path, place):
    (tmp_path / "mine.py").write_text(MODULE + "\ndef broken(argument): ...\n")
    done = command("compare-methods", "burgers", "--method", place, cwd=tmp_path)
    assert done.returncode == 2
    assert "FILE.py:CLASS" in done.stderr
