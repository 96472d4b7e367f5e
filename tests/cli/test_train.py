"""``twoaxis train``: what is trained, printed and kept, and how an interrupted one continues."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest
from command import process, twoaxis

pytest.importorskip("jax")

import pandas as pd
from safetensors import safe_open

from twoaxis.cli.train import print_runs

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
TINY = ("--steps", "3", "--width", "8", "--depth", "1")


def test_runs_are_trained_once_and_written_as_json(tmp_path):
    command = ("train", "allen-cahn", "--datasets", "8", "--seeds", "0-1", *TINY, "--out", "runs")
    done = twoaxis(*command, "--json", "runs.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert [(row["dataset"], row["seed"], row["steps"]) for row in rows] == [
        ("8", 0, 3),
        ("8", 1, 3),
    ]
    assert "2 runs" in done.stdout
    assert "mean absolute error" in done.stdout
    stored = sorted((tmp_path / "runs").rglob("run.json"))
    times = [path.stat().st_mtime_ns for path in stored]
    again = twoaxis(*command, "--json", "-", cwd=tmp_path)
    assert json.loads(again.stdout)["runs"] == rows
    assert [path.stat().st_mtime_ns for path in stored] == times


def test_an_engine_trains_the_same_runs(tmp_path):
    command = ("train", "allen-cahn", "--datasets", "8", *TINY, "--json", "-")
    rows = []
    for out, engine in (("a", ()), ("b", ("--engine", "local", "--workers", "1"))):
        done = twoaxis(*command, *engine, "--out", out, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        rows += json.loads(done.stdout)["runs"]
    first, second = rows
    assert [path.name for path in (tmp_path / "a").glob("??/*")] == [
        path.name for path in (tmp_path / "b").glob("??/*")
    ]
    assert second["lam"] == pytest.approx(first["lam"], rel=1e-5)


@pytest.mark.long  # tests/runs/test_engines.py compares all bits of a smaller run by default
def test_an_engine_gives_the_same_bits(tmp_path):
    command = ("train", "allen-cahn", "--datasets", "8", *TINY)
    for out, engine in (("a", ()), ("b", ("--engine", "local"))):
        done = process(*command, *engine, "--out", out, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    first, second = (sorted((tmp_path / out).rglob("arrays.safetensors")) for out in "ab")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second] != []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "rab", "--out", "r"], ['did you mean "rba"']),
        (["--steps", "0", "--out", "r"], ["steps", "at least 1"]),
        (["--seeds", "x", "--out", "r"], ["--seeds 8-11"]),
        (["--datasets", "8,8", "--out", "r"], ["every dataset", "once"]),
        (["--out", "/proc/nowhere"], ["directory", "/proc/nowhere"]),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_two(arguments, words, tmp_path):
    done = twoaxis("train", "burgers", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_an_interrupted_training_says_how_it_goes_on_and_does(tmp_path):
    often = "from twoaxis.runs import task; task.CHECKPOINT_SECONDS = 0.1"
    command = [
        sys.executable, "-c", f"{often}; from twoaxis.__main__ import main; main()",
        "train", "burgers", "--datasets", "8", "--steps", "5000", "--out", "runs",
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
    assert "to continue from the last checkpoint" in errors
    assert "Traceback" not in errors
    (left,) = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert left.parent == tmp_path / "runs" / "checkpoints"
    assert re.fullmatch(r"checkpoint-[0-9a-f]{16}\.safetensors", left.name)
    assert 0 < before <= step_of(left) < 5000


def step_of(checkpoint):
    with safe_open(checkpoint, framework="numpy") as stored:
        return int(stored.metadata()["step"])


def test_the_table_of_a_training_obeys_nobody(capsys):
    hostile = "\x1b[2J[bold]\n"
    frame = pd.DataFrame(
        {
            "dataset": [hostile],
            "seed": [0],
            "steps": [1],
            "loss_data": [0.1],
            "loss_residual": [0.1],
            "method": [hostile],
            hostile: [0.1],
            f"{hostile}_error_percent": [1.0],
            "status": [hostile],
        }
    )
    print_runs(hostile, frame, [hostile])
    out = capsys.readouterr().out
    assert not CONTROL.search(out)
    assert out.count("\\x1b") >= 5
    assert "[bold]" in out
