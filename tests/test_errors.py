"""The message of an InputError: what was expected, what it got, and the fix."""

import pickle
import subprocess
import sys
import warnings

import pytest

from twoaxis.errors import AccuracyWarning, DamageWarning, InputError, MisfitWarning


def test_message_has_three_parts():
    error = InputError("a number", "'x'", "pass a float")
    assert str(error) == "expected a number, got 'x'; fix: pass a float"
    assert (error.expected, error.got, error.fix) == ("a number", "'x'", "pass a float")


def test_is_a_value_error():
    with pytest.raises(ValueError, match="expected a, got b"):
        raise InputError("a", "b", "c")


def test_an_input_error_travels_between_processes():
    error = InputError("one", "two", "three")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.expected, again.got, again.fix) == ("one", "two", "three")


HOSTILE = "\x1b[2Jred\nfinished\u202e"
WRITTEN_OUT = r"\x1b[2Jred\nfinished\u202e"


def test_what_an_error_quotes_cannot_command_a_terminal():
    error = InputError(HOSTILE, HOSTILE, HOSTILE)
    assert (error.expected, error.got, error.fix) == (WRITTEN_OUT,) * 3
    assert str(error).isprintable()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("kind", [AccuracyWarning, DamageWarning, MisfitWarning])
def test_what_a_warning_quotes_cannot_command_a_terminal(kind):
    with pytest.warns(kind) as caught:
        warnings.warn(HOSTILE, kind, stacklevel=1)
    assert str(caught[0].message) == WRITTEN_OUT
    assert str(pickle.loads(pickle.dumps(caught[0].message))) == WRITTEN_OUT


WITHOUT_JAX = """
import sys

class Absent:  # SciPy trips over a None in sys.modules
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"jax", "jaxlib", "equinox", "optax"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import numpy as np
import twoaxis as ta

points = np.linspace(0, 1, 9)
known = {"k": ta.Parameter(delivered=1.0, bounds=(0.5, 2.0))}
audit = ta.audit(lambda k: k - points, known, ta.views.Pointwise(), points=points)
for call in (
    lambda: ta.train("burgers"),
    lambda: ta.refine("burgers"),
    lambda: ta.refine("burgers", ta.published_dataset("burgers", 8)),
    lambda: ta.remedy(audit, run="burgers"),
):
    try:
        call()
    except ta.InputError as error:
        print(error.fix)

from twoaxis.cli import main

for command in ("compare-methods", "reproduce --list", "train burgers --out x", "runs list ."):
    sys.argv = ["twoaxis", *command.split()]
    try:
        main()
    except SystemExit as ended:
        print(ended.code)
"""


def test_without_jax_whatever_needs_the_engine_names_the_extra():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAX], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["run pip install 'twoaxis[train]'"] * 4 + ["2"] * 4
    sentences = done.stderr.splitlines()
    assert [each.partition("fix: ")[2] for each in sentences] == [
        "run pip install 'twoaxis[train]'"
    ] * 4
