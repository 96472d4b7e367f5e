"""The message of an InputError: what was wanted, what came, what to do."""

import pickle
import warnings

import pytest

from twoaxis.errors import AccuracyWarning, DamageWarning, InputError, MisfitWarning


@pytest.mark.parametrize(
    ("fix", "end"),
    [("pass a float", "To mend it: pass a float."), ('did you mean "x"?', 'did you mean "x"?')],
)
def test_message_has_three_parts_and_one_stop(fix, end):
    error = InputError("a number", "'x'", fix)
    assert str(error).startswith("wanted a number, got 'x'. ")
    assert str(error).endswith(end)
    assert (error.expected, error.got, error.fix) == ("a number", "'x'", fix)


def test_is_a_value_error():
    with pytest.raises(ValueError, match="expected a, got b"):
        raise InputError("a", "b", "c")


def test_an_input_error_travels_between_processes():
    error = InputError("one", "two", "mend")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.wanted, again.got, again.fix) == ("one", "two", "mend")


HOSTILE = "\x1b[2Jred\nfinished\u202e"
WRITTEN_OUT = r"\x1b[2Jred\nfinished\u202e"


def test_what_an_error_quotes_cannot_command_a_terminal():
    error = InputError(HOSTILE, HOSTILE, HOSTILE)
    assert (error.expected, error.got, error.fix) == (WRITTEN_OUT,) * 3
    assert str(error).isprintable()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("kind", [AccuracyWarning, DamageWarning, MisfitWarning])
def test_what_a_warning_quotes_cannot_command_a_terminal(kind):
    with pytest.warns(kind) as told:
        warnings.warn(HOSTILE, kind, stacklevel=1)
    assert str(told[0].message) == WRITTEN_OUT
    assert str(pickle.loads(pickle.dumps(told[0].message))) == WRITTEN_OUT
