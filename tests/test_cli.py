"""The command line as a user meets it: real processes, real files."""

import json
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.cli.app import parse_numbers
from twoaxis.errors import DamageWarning, InputError


def twoaxis(*arguments, cwd=None, columns="80"):
    return subprocess.run(
        [sys.executable, "-m", "twoaxis", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        env={"COLUMNS": columns, "PATH": "/usr/bin:/bin", "MPLBACKEND": "Agg", "HOME": "/tmp"},
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run that writes everything it can."""
    folder = tmp_path_factory.mktemp("run")
    done = twoaxis(
        "resolve", "burgers", "--layouts", "8-9", "--replicas", "20", "--seed", "7",
        "--json", "found.json", "--out", "found.nc", "--figure", "found.png",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_json_has_what_the_documentation_promises(finished):
    folder, _ = finished
    found = json.loads((folder / "found.json").read_text())["problems"]["burgers"]
    assert found["layouts"] == ["8", "9"]
    assert found["replicas"] == 20
    assert set(found["error_percent"]) >= {"mean", "median", "p90", "ci95"}
    low, high = found["error_percent"]["ci95"]
    assert low < found["error_percent"]["mean"] < high
    assert found["fisher_error_percent"]["by_layout"]["8"] == pytest.approx(15.661, abs=5e-4)
    assert found["fisher_error_percent"]["mean"] == pytest.approx((15.661 + 18.291) / 2, abs=5e-4)
    assert 0 <= found["coverage"] <= 1
    assert len(found["excluded_parameters"]) == 26


def test_the_saved_result_holds_the_same_numbers(finished):
    folder, _ = finished
    printed = json.loads((folder / "found.json").read_text())["problems"]["burgers"]
    loaded = ta.load_resolution(folder / "found.nc")
    assert float(loaded.error_percent.mean()) == printed["error_percent"]["mean"]
    again = ta.resolve_problem("burgers", layouts=[8, 9], replicas=20, seed=7)
    assert again.data.identical(loaded.data)


def test_the_table_fits_a_terminal_and_says_what_it_means(finished):
    folder, done = finished
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "…" not in done.stdout
    assert "nu = 0.01 comes back to within" in done.stdout
    assert "26 bank values" in done.stdout
    assert "nan" not in done.stdout.lower()
    assert (folder / "found.png").read_bytes().startswith(b"\x89PNG")
    names = {path.name for path in folder.iterdir()}
    assert names == {"found.json", "found.nc", "found.png"}


def test_standard_output_is_json_alone():
    done = twoaxis("resolve", "allen-cahn", "--layouts", "8", "--replicas", "3", "--json", "-")
    assert done.returncode == 0
    assert set(json.loads(done.stdout)["problems"]) == {"allen-cahn"}


def test_all_means_the_three_scalar_benchmarks_with_an_overall_row():
    done = twoaxis("resolve", "all", "--layouts", "8", "--replicas", "3")
    assert done.returncode == 0, done.stderr
    assert "…" not in done.stdout
    assert "overall, stratified" in done.stdout


def test_json_of_several_problems_has_an_overall_entry():
    done = twoaxis(
        "resolve", "burgers", "allen-cahn", "--layouts", "8", "--replicas", "4", "--json", "-"
    )
    found = json.loads(done.stdout)
    means = [found["problems"][n]["error_percent"]["mean"] for n in ("burgers", "allen-cahn")]
    errors = found["overall"]["error_percent"]
    assert errors["mean"] == pytest.approx(np.mean(means))
    for ends in (errors["ci95"], errors["ci95_stratified"]):
        assert ends[0] < errors["mean"] < ends[1]


def test_several_parameters_have_rows_of_their_own():
    done = twoaxis("resolve", "darcy", "--layouts", "10", "--replicas", "3", "--json", "-")
    found = json.loads(done.stdout)["problems"]["darcy"]
    assert set(found["by_parameter"]) == {"lambda_0", "lambda_1"}
    table = twoaxis("resolve", "darcy", "--layouts", "10", "--replicas", "3").stdout
    assert "lambda_1 = 0.85 comes back" in table


def test_the_coarse_solver_fits_with_a_bias():
    done = twoaxis(
        "resolve", "burgers", "--layouts", "8", "--replicas", "3", "--fit-solver", "coarse",
        "--json", "-",
    )  # fmt: skip
    bias = json.loads(done.stdout)["problems"]["burgers"]["noiseless_bias_percent"]["8"]
    assert bias == pytest.approx(9.3235, abs=1e-3)


def test_benchmark_draws_prints_the_twelve_published_errors():
    done = twoaxis("benchmark-draws", "--json", "-")
    found = json.loads(done.stdout)
    assert len(found["draws"]) == 12
    assert round(found["mean_error_percent"], 3) == 4.181
    assert {"problem", "dataset", "estimate", "error_percent"} <= set(found["draws"][0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["resolve", "burgurs"], ["burgurs", 'did you mean "burgers"']),
        (["resolve", "navier-stokes-3d"], ["one of the problems", "allen-cahn"]),
        (["resolve", "burgers", "--layouts", "eight"], ["eight", "--layouts 8-11"]),
        (["resolve", "burgers", "--layouts", "11-8"], ["11-8"]),
        (["resolve", "burgers", "--layouts", "0-99999999999"], ["at most 1000 numbers"]),
        (["resolve", "burgers", "--out", "-"], ["--out", "standard output"]),
        (["resolve", "burgers", "--layouts", "8,8"], ["each layout once"]),
        (["resolve", "burgers", "--replicas", "0"], ["replicas", "at least 1"]),
        (["resolve", "burgers", "--seed", "-1"], ["seed", "-1"]),
        (["resolve", "burgers", "--out", "/nowhere/found.nc"], ["/nowhere/found.nc", "create"]),
        (["resolve", "burgers", "--json", "/nowhere/found.json"], ["/nowhere", "create"]),
        (["resolve", "burgers", "--out", "/"], ["directory"]),
        (["resolve", "burgers", "--figure", "found.docx"], [".png", "found.docx"]),
        (["resolve", "all", "--out", "found.nc"], ["one problem", "once for each"]),
        (["train", "burgers", "--method", "rab", "--out", "r"], ['did you mean "rba"']),
        (["train", "burgers", "--steps", "0", "--out", "r"], ["steps", "at least 1"]),
        (["train", "burgers", "--seeds", "x", "--out", "r"], ["--seeds 8-11"]),
        (["train", "burgers", "--datasets", "8,8", "--out", "r"], ["every dataset", "once"]),
        (["train", "burgers", "--out", "/proc/nowhere"], ["directory", "/proc/nowhere"]),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_two(arguments, words, tmp_path):
    done = twoaxis(*arguments, cwd=tmp_path, columns="1000")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_target_is_found_out_before_the_work(monkeypatch):
    from twoaxis.cli import app as cli
    from twoaxis.cli import resolve as command

    monkeypatch.setattr(
        command, "resolve_problem", lambda *_, **__: pytest.fail("work was started")
    )
    with pytest.raises(InputError, match="create the directory"):
        cli.app(["resolve", "burgers", "--out", "/nowhere/found.nc"], standalone_mode=False)


def test_help_has_an_example_for_every_command():
    for command in ("resolve", "benchmark-draws", "train"):
        assert f"Example: twoaxis {command}" in twoaxis(command, "--help", columns="200").stdout
    assert ta.__version__ in twoaxis("--version").stdout


@pytest.mark.parametrize(
    ("text", "seeds"), [("8", [8]), ("8-11", [8, 9, 10, 11]), ("8, 10-11", [8, 10, 11])]
)
def test_layouts_are_numbers_and_ranges(text, seeds):
    assert parse_numbers(text, "--layouts") == seeds
    assert np.array_equal(parse_numbers(text, "--layouts"), seeds)


def test_an_interrupted_run_says_so_and_leaves_nothing_behind(tmp_path):
    script = "import twoaxis.cli as c; print('ready', flush=True); c.main()"
    command = [sys.executable, "-c", script, "resolve", "darcy", "--out", "found.nc"]
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "ready\n"  # however long a busy machine takes to import
    time.sleep(4)  # long enough to be at work, far from done
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_one_file_cannot_take_two_outputs(tmp_path):
    done = twoaxis("resolve", "burgers", "--out", "a.nc", "--json", "a.nc", cwd=tmp_path)
    assert done.returncode == 2
    assert "different names" in done.stderr.replace("\n", " ")


def test_an_unknown_option_is_a_usage_error():
    done = twoaxis("resolve", "burgers", "--nonsense")
    assert done.returncode == 2
    assert "--nonsense" in done.stderr


@pytest.mark.parametrize("hostile", ["\x1b[2J[bold]red[/]\nfinished", "plain"])
def test_a_warning_of_the_library_is_one_line(hostile, monkeypatch, capsys):
    """Without the file, the number and the source of a line, which are for programmers."""
    module = sys.modules["twoaxis.cli.app"]

    def command(**options):  # noqa: ARG001
        warnings.warn(f"a stored run is damaged: {hostile}", DamageWarning, stacklevel=1)
        warnings.warn("somebody else's", UserWarning, stacklevel=1)

    monkeypatch.setattr(module, "app", command)
    before = warnings.showwarning
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as ended:
            module.main()
    assert ended.value.code == 0
    assert [str(other.message) for other in others] == ["somebody else's"]
    written_out = hostile.replace("\x1b", "\\x1b").replace("\n", "\\n")
    assert capsys.readouterr().err == f"warning: a stored run is damaged: {written_out}\n"
    assert warnings.showwarning is before
