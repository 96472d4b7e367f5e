"""The progress bar: on a terminal's error stream, and nowhere else."""

import io
import subprocess
import sys
from contextlib import redirect_stderr

import pytest

from twoaxis.progress import progress_bar, progress_bars

SHOW_CURSOR, ERASE_LINE = "\x1b[?25h", "\x1b[2K"


class Stream(io.StringIO):
    """An error stream that is, or is not, a terminal."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture(autouse=True)
def ordinary_terminal(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize(("total", "count"), [(3, "3/3"), (None, "3/?")])
def test_drawn_on_a_terminal(capsys, total, count):
    stream = Stream(terminal=True)
    with redirect_stderr(stream), progress_bar("Solving", total) as advance:
        advance(2)
        advance(1)
    assert "Solving" in stream.getvalue()
    assert count in stream.getvalue()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("terminal", "show"), [(True, False), (False, True), (False, False)])
def test_quiet_on_request_and_where_there_is_no_terminal(capsys, terminal, show):
    stream = Stream(terminal)
    with redirect_stderr(stream), progress_bar("Solving", 3, show=show) as advance:
        advance(3)
    assert stream.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_an_error_passes_through_and_leaves_a_clean_terminal():
    stream = Stream(terminal=True)

    def work():
        with redirect_stderr(stream), progress_bar("Solving", 3) as advance:
            advance(1)
            raise RuntimeError("diverged")

    with pytest.raises(RuntimeError, match="diverged"):
        work()
    _, drawn, after = stream.getvalue().rpartition("Solving")
    assert drawn
    # The line is erased, and the cursor comes back after it.
    assert ERASE_LINE in after
    assert SHOW_CURSOR in after[after.rindex(ERASE_LINE) :]


def test_several_bars_stand_together_and_stop_together():
    stream = Stream(terminal=True)
    with (
        redirect_stderr(stream),
        progress_bars() as bars,
        bars.bar("Blocks", 2) as blocks,
        progress_bar("Steps", 5, bars) as steps,
    ):
        blocks(1)
        steps(4)
        bars.stop()
        with pytest.raises(KeyboardInterrupt):
            steps(1)
    assert "Blocks" in stream.getvalue()
    assert "Steps" in stream.getvalue()
    assert "4/5" in stream.getvalue()


def test_a_bar_leaves_the_random_numbers_of_the_user_alone():
    """In a fresh process: rich draws a random number when it is imported."""
    code = (
        "import random, sys\n"
        "random.seed(0)\n"
        "before = random.getstate()\n"
        "from twoaxis.progress import progress_bar\n"
        "assert 'rich' not in sys.modules\n"
        "with progress_bar('Solving', 1) as advance: advance(1)\n"
        "assert 'rich' in sys.modules\n"
        "assert random.getstate() == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
