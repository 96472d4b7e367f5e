"""What all commands share: help, start-up, errors, warnings, encodings, exit codes."""

import json
import signal
import subprocess
import sys
import time
import warnings

import pytest
from command import process, twoaxis

import twoaxis as ta
from twoaxis.cli.app import app, main
from twoaxis.cli.options import GAUSS_NEWTON_STEPS, METHOD_NAMES, PROBLEM_NAMES, parse_numbers
from twoaxis.errors import DamageWarning, InputError
from twoaxis.gauss_newton import Continuation
from twoaxis.problems import PROBLEMS

COMMANDS = ("audit", "report", "remedy", "resolve", "benchmark-draws", "train", "reproduce")
HEAVY = ("numpy", "scipy", "pandas", "xarray", "matplotlib", "jax", "torch", "dask")


def test_help_loads_no_heavy_library():
    script = (
        "import sys, twoaxis.cli\n"
        "try: twoaxis.cli.main()\n"
        "except SystemExit: pass\n"
        "print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"], capture_output=True, text=True, timeout=60
    )
    assert all(command in done.stdout for command in COMMANDS)
    for name in HEAVY:
        assert f"'{name}'" not in done.stderr


def test_the_names_in_help_texts_are_those_of_the_library():
    assert list(PROBLEM_NAMES) == list(PROBLEMS)
    pytest.importorskip("jax")
    from twoaxis.training import METHODS

    assert set(METHOD_NAMES) == set(METHODS)
    assert Continuation().all_steps == GAUSS_NEWTON_STEPS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    shown = twoaxis(command, "--help", columns="200")
    assert shown.returncode == 0
    assert f"Example: twoaxis {command}" in shown.stdout


def test_as_a_process(tmp_path):
    assert ta.__version__ in process("--version").stdout
    done = process("resolve", "burgurs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'did you mean "burgers"' in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_terminals_without_unicode_show_every_number(encoding):
    script = (
        "from twoaxis.cli import app\n"
        "from twoaxis.text import number\n"
        "app._print_everywhere()\n"
        "app.print_result(number(-0.25) + ' \N{GREEK SMALL LETTER NU}')"
    )
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", script],
        capture_output=True,
        timeout=60,
        env={"PYTHONIOENCODING": encoding, "PATH": "/usr/bin:/bin", "PYTHONPATH": _source()},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode(encoding).strip() == "-0.25 \\u03bd"


def _source():
    from pathlib import Path

    return str(Path(ta.__file__).parents[1])


def test_an_unknown_option_is_a_usage_error():
    done = twoaxis("resolve", "burgers", "--nonsense")
    assert done.returncode == 2
    assert "--nonsense" in done.stderr


@pytest.mark.parametrize(
    ("text", "numbers"), [("8", [8]), ("8-11", [8, 9, 10, 11]), ("8, 10-11", [8, 10, 11])]
)
def test_numbers_and_ranges(text, numbers):
    assert parse_numbers(text, "--layouts") == numbers


@pytest.mark.parametrize("text", ["eight", "11-8", "", "8-", "0-99999999999"])
def test_anything_else_is_refused(text):
    with pytest.raises(InputError, match="--layouts"):
        parse_numbers(text, "--layouts", most=1000)


def test_an_interrupted_command_says_so_and_leaves_nothing_behind(tmp_path):
    script = "import twoaxis.__main__ as m; print('ready', flush=True); m.main()"
    command = [sys.executable, "-c", script, "resolve", "darcy", "--out", "found.nc"]
    running = subprocess.Popen(
        [*command, "--replicas", "100000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "ready\n"
    time.sleep(3)  # long enough to be at work, far from done
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("hostile", ["\x1b[2J[bold]red[/]\nfinished", "plain"])
def test_a_warning_of_the_library_is_one_line(hostile, monkeypatch, capsys):
    """Without file name, line number and source, which are for programmers."""
    module = sys.modules["twoaxis.cli.app"]

    def command(**options):  # noqa: ARG001
        warnings.warn(f"a stored run is damaged: {hostile}", DamageWarning, stacklevel=1)
        warnings.warn("somebody else's", UserWarning, stacklevel=1)

    monkeypatch.setattr(module, "app", command)
    before = warnings.showwarning
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 0
    assert [str(other.message) for other in others] == ["somebody else's"]
    written_out = hostile.replace("\x1b", "\\x1b").replace("\n", "\\n")
    assert capsys.readouterr().err == f"warning: a stored run is damaged: {written_out}\n"
    assert warnings.showwarning is before


def test_json_goes_to_standard_output_alone():
    done = process("resolve", "allen-cahn", "--layouts", "8", "--replicas", "3", "--json", "-")
    assert done.returncode == 0
    assert set(json.loads(done.stdout)["problems"]) == {"allen-cahn"}


def test_an_error_of_no_known_kind_keeps_its_traceback(monkeypatch):
    def broken(**options):  # noqa: ARG001
        raise RuntimeError("a defect")

    monkeypatch.setattr(sys.modules["twoaxis.cli.app"], "app", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        main()
    assert app is not broken
