"""``twoaxis audit`` and ``twoaxis report``: what is printed, and what is written."""

import re

import pytest
from command import process, twoaxis

pytest.importorskip("jax")

import twoaxis as ta

SHORT = ("--replicas", "6")


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """The main job as a user runs it, on a terminal without Unicode."""
    folder = tmp_path_factory.mktemp("audited")
    done = process(
        "audit", "allen-cahn", "--steps", "12", *SHORT, cwd=folder, PYTHONIOENCODING="ascii"
    )
    assert done.returncode == 0, done.stderr
    return folder / "audit-allen-cahn", done


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two retrainings on one dataset, and one on another."""
    folder = tmp_path_factory.mktemp("store") / "runs"
    options = {
        "steps": 5,
        "snapshots": 2,
        "residual_points": 200,
        "engine": "in-process",
        "progress": False,
    }
    ta.train("allen-cahn", datasets=8, seeds=range(2), store=folder, **options)
    ta.train("allen-cahn", datasets=9, seeds=0, store=folder, **options)
    return folder


def test_the_main_job_prints_a_verdict_and_leaves_the_page(audited):
    folder, done = audited
    assert "Route: " in done.stdout
    assert "5% were assumed" in " ".join(done.stdout.split())
    assert "wrote audit-allen-cahn/audit.html" in done.stderr
    page = (folder / "audit.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 6
    loaded = ta.load(folder / "audit.nc")
    assert loaded.route.value in done.stdout
    assert "tolerance.assumed" in {message.code for message in loaded.messages}
    assert len(loaded.group("/snapshots")["step"]) == 10


def test_without_a_truth_there_is_no_error(store, tmp_path):
    ta.RunStore(tmp_path / "one", create=True).save(ta.load_runs(store)[0])
    done = twoaxis(
        "audit", "--run", "one", *SHORT, "--no-truth", "--tolerance", "5,10,5", "--out", "found",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not re.search(r"\berror|\btruth", done.stdout, re.IGNORECASE)
    assert "assumed" not in done.stdout
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == [
        "audit.html",
        "audit.nc",
    ]


@pytest.mark.long
def test_only_retrainings_are_compared(store, tmp_path):
    done = twoaxis("audit", "--run", store, *SHORT, "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in (tmp_path / "found").glob("*.nc")} == set(
        ta.RunStore(store).keys()
    )
    assert len(list((tmp_path / "found").glob("allen-cahn-rba-d*.html"))) == 3
    assert done.stdout.count("2 retrainings") == 1
    assert "3 retrainings" not in done.stdout


def test_a_saved_audit_is_rendered_again(audited, tmp_path):
    folder, _ = audited
    again = twoaxis("report", folder / "audit.nc", "--out", tmp_path / "a.html")
    assert again.returncode == 0, again.stderr
    assert "Route: " in again.stdout
    assert (tmp_path / "a.html").read_bytes() == (folder / "audit.html").read_bytes()


def test_any_saved_result_is_rendered(tmp_path):
    resolution = ta.resolve("allen-cahn", layouts=[8], replicas=3, progress=False)
    resolution.save(tmp_path / "resolution.nc")
    done = twoaxis("report", "resolution.nc", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "resolution.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "lam" in page


def test_broken_files_are_a_sentence_and_nothing_is_written(audited, tmp_path):
    good = (audited[0] / "audit.nc").read_bytes()
    (tmp_path / "short.nc").write_bytes(good[: len(good) // 2])
    (tmp_path / "text.nc").write_text("no netCDF")
    before = sorted(tmp_path.iterdir())
    for name in ("short.nc", "text.nc", "absent.nc"):
        done = twoaxis("report", tmp_path / name)
        assert done.returncode == 2, name
        assert name in done.stderr
    assert sorted(tmp_path.iterdir()) == before


BAD = {
    "neither": (["audit"], "neither"),
    "both": (["audit", "burgers", "--run", "."], "both"),
    "no runs": (["audit", "--run", "."], "holds none"),
    "no directory": (["audit", "--run", "nowhere"], "directory of runs"),
    "a training option": (["audit", "--run", ".", "--steps", "7"], "--steps with --run"),
    "tolerance in words": (["audit", "burgers", "--tolerance", "five"], "--tolerance 5,10,5"),
    "two tolerances": (["audit", "burgers", "--tolerance", "5,5"], "one number or three"),
    "no tolerance at all": (["audit", "burgers", "--tolerance", "0"], "material"),
    "no steps": (["audit", "burgers", "--steps", "0"], "steps"),
    "unknown method": (["audit", "burgers", "--method", "rab"], 'did you mean "rba"'),
    "unknown problem": (["audit", "burgurs"], 'did you mean "burgers"'),
    "unwritable": (["audit", "burgers", "--out", "/proc/nowhere"], "/proc/nowhere"),
    "not a page": (["report", "audit.nc", "--out", "page.txt"], ".html"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_a_sentence_and_leaves_nothing(arguments, words, tmp_path):
    done = twoaxis(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
