"""``twoaxis resolve`` and ``twoaxis benchmark-draws``: what is printed, and what is written."""

import json

import numpy as np
import pytest
from command import twoaxis

import twoaxis as ta


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run that writes everything it can."""
    folder = tmp_path_factory.mktemp("run")
    done = twoaxis(
        "resolve", "burgers", "--layouts", "8-9", "--replicas", "20", "--seed", "7",
        "--json", "found.json", "--out", "found.nc", "--figure", "found.png",
        cwd=folder, columns="80",
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
    loaded = ta.load(folder / "found.nc")
    assert float(loaded.error_percent.mean()) == printed["error_percent"]["mean"]
    again = ta.resolve("burgers", layouts=[8, 9], replicas=20, seed=7)
    assert again.data.identical(loaded.data)


def test_the_table_fits_a_terminal_and_says_what_it_means(finished):
    folder, done = finished
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "…" not in done.stdout
    assert "nu = 0.01: mean error" in done.stdout
    assert "26 bank values" in done.stdout
    assert "nan" not in done.stdout.lower()
    assert (folder / "found.png").read_bytes().startswith(b"\x89PNG")
    names = {path.name for path in folder.iterdir()}
    assert names == {"found.json", "found.nc", "found.png"}


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
    assert "lambda_1 = 0.85: mean error" in table


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
        (["resolve", "burgers", "--replicas", "0"], ["replicas", "from 1 to"]),
        (["resolve", "burgers", "--seed", "-1"], ["seed", "-1"]),
        (["resolve", "burgers", "--out", "/nowhere/found.nc"], ["/nowhere/found.nc", "create"]),
        (["resolve", "burgers", "--json", "/nowhere/found.json"], ["/nowhere", "create"]),
        (["resolve", "burgers", "--out", "/"], ["directory"]),
        (["resolve", "burgers", "--figure", "found.docx"], [".png", "found.docx"]),
        (["resolve", "all", "--out", "found.nc"], ["one problem", "once for each"]),
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
    monkeypatch.setattr("twoaxis.resolve", lambda *_, **__: pytest.fail("work was started"))
    done = twoaxis("resolve", "burgers", "--out", "/nowhere/found.nc")
    assert done.returncode == 2
    assert "/nowhere/found.nc" in done.stderr


def test_one_file_cannot_take_two_outputs(tmp_path):
    done = twoaxis("resolve", "burgers", "--out", "a.nc", "--json", "a.nc", cwd=tmp_path)
    assert done.returncode == 2
    assert "a different file for each output" in done.stderr
