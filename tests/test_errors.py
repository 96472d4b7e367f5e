"""The message of an InputError: what was expected, what it got, and the fix."""

import pickle
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
