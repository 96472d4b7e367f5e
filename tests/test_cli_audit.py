"""``twoaxis audit`` and ``twoaxis report`` as a user meets them: real processes, real files."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from command import twoaxis
from safetensors import safe_open

import twoaxis as ta

SHORT = ["--steps", "12", "--replicas", "6"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    done = twoaxis("audit", "allen-cahn", *SHORT, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    """Two retrainings, audited as if the truth were not known."""
    folder = tmp_path_factory.mktemp("unknown")
    done = twoaxis(
        "audit", "allen-cahn", *SHORT, "--seed", "0-1", "--no-truth", "--tolerance", "5,10,5",
        "--out", "found", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "found", done


def test_the_main_job_prints_a_verdict_and_leaves_the_page(audited):
    folder, done = audited
    assert "Route: " in done.stdout
    assert "\\x" not in done.stdout  # all characters are shown as themselves
    assert "tolerances of 5 percent were assumed" in " ".join(done.stdout.split())
    assert "wrote audit-allen-cahn/audit.html" in done.stderr
    page = (folder / "audit-allen-cahn" / "audit.html").read_text()
    assert page.count("<svg") >= 6
    loaded = ta.load_audit(folder / "audit-allen-cahn" / "audit.nc")
    assert loaded.route.value in done.stdout
    assert len(loaded.group("/snapshots")["step"]) == 10


def test_without_a_truth_nobody_speaks_of_error(unknown):
    folder, done = unknown
    assert not re.search(r"\berror|\btruth", done.stdout, re.IGNORECASE)
    assert "2 retrainings around the mean candidate" in done.stdout
    assert "assumed" not in done.stdout
    assert len(list(folder.glob("allen-cahn-rba-d8-s*.html"))) == 2


def test_saved_runs_are_audited_and_only_retrainings_compared(tmp_path):
    made = twoaxis(
        "train", "allen-cahn", "--datasets", "8-9", "--seeds", "0-1", "--steps", "12",
        "--out", "runs", "--json", "-", cwd=tmp_path,
    )  # fmt: skip
    keys = [run["key"] for run in json.loads(made.stdout)["runs"]]
    done = twoaxis("audit", "--run", "runs", "--replicas", "6", "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in (tmp_path / "found").glob("*.nc")} == set(keys)
    assert done.stdout.count("2 retrainings around the truth") == 2
    assert "4 retrainings" not in done.stdout


def test_a_saved_audit_is_rendered_again(audited, tmp_path):
    folder, done = audited
    again = twoaxis(
        "report", folder / "audit-allen-cahn" / "audit.nc", "--out", tmp_path / "a.html"
    )
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip() == done.stdout.strip()
    first = folder / "audit-allen-cahn" / "audit.html"
    assert (tmp_path / "a.html").read_bytes() == first.read_bytes()


def test_broken_files_are_a_sentence_and_nothing_is_written(audited, tmp_path):
    good = (audited[0] / "audit-allen-cahn" / "audit.nc").read_bytes()
    (tmp_path / "short.nc").write_bytes(good[: len(good) // 2])
    (tmp_path / "text.nc").write_text("no netCDF")
    resolution = ta.resolve_problem("allen-cahn", layouts=[8], replicas=3, progress=False)
    resolution.to_netcdf(tmp_path / "other.nc")
    shutil.copy(tmp_path / "text.nc", tmp_path / "keep.nc")
    before = sorted(tmp_path.iterdir())
    for name in ("short.nc", "text.nc", "other.nc", "absent.nc"):
        done = twoaxis("report", tmp_path / name)
        assert done.returncode == 2, name
        assert "To mend it" in done.stderr
        assert "Traceback" not in done.stderr
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


def test_help_has_an_example():
    for command in ("audit", "report"):
        assert f"Example: twoaxis {command}" in twoaxis(command, "--help").stdout


def test_an_interrupted_training_says_how_it_goes_on_and_does(tmp_path):
    command = [
        sys.executable, "-m", "twoaxis", "train", "burgers", "--datasets", "8",
        "--steps", "60000", "--out", "runs",
    ]  # fmt: skip
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 240
        while not (left := list(tmp_path.glob("runs/checkpoints/checkpoint-*"))):
            assert running.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        before = step_of(left[0])
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=120)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130
    assert "the same command goes on from the last checkpoint" in errors
    assert "Traceback" not in errors
    (left,) = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert left.parent == tmp_path / "runs" / "checkpoints"
    assert re.fullmatch(r"checkpoint-[0-9a-f]{16}\.safetensors", left.name)
    assert 0 < before <= step_of(left) < 60000


def step_of(checkpoint):
    with safe_open(checkpoint, framework="numpy") as stored:
        return int(stored.metadata()["step"])
