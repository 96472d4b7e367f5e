"""Progress on the error stream: bars on a terminal and in notebooks, lines elsewhere."""

import importlib.util
import io
import subprocess
import sys
import types
from contextlib import redirect_stderr

import pytest

from twoaxis import progress as module
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
def test_quiet_on_request_and_where_short_work_has_no_terminal(capsys, terminal, show):
    stream = Stream(terminal)
    with redirect_stderr(stream), progress_bar("Solving", 3, show=show) as advance:
        advance(3)
    assert stream.getvalue() == ""
    assert capsys.readouterr().out == ""


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class TestLines:
    """Without a terminal: a line after five seconds, then one every thirty."""

    def lines(self, clock, advances, total=100, show=True):
        stream = Stream(terminal=False)
        with redirect_stderr(stream), progress_bar("Solving", total, show) as advance:
            for second, steps, note in advances:
                clock.now = 100.0 + second
                advance(steps, note)
        return stream.getvalue().splitlines()

    def test_what_they_say(self, clock):
        advances = [(4, 10, ""), (10, 10, ""), (30, 20, ""), (41, 10, "layout 9"), (50, 50, "")]
        assert self.lines(clock, advances) == [
            "Solving: 20/100, 0:00:10 elapsed, about 0:00:40 left",
            "Solving: 50/100, 0:00:41 elapsed, about 0:00:41 left (layout 9)",
            "Solving: finished after 0:00:50",
        ]

    def test_an_unknown_total_has_no_time_left(self, clock):
        first, _ = self.lines(clock, [(3700, 7, "")], total=None)
        assert first == "Solving: 7/?, 1:01:40 elapsed"

    def test_short_work_and_a_quiet_call_write_nothing(self, clock):
        assert self.lines(clock, [(1, 50, ""), (4.9, 50, "")]) == []
        clock.now = 100.0
        assert self.lines(clock, [(60, 100, "")], show=False) == []


class TestNotebook:
    @pytest.fixture
    def notebook(self, monkeypatch):
        """A notebook as rich finds it: a shell of IPython, with its display function."""
        shown = []

        class ZMQInteractiveShell:
            pass

        class Output:
            def __init__(self):
                shown.append(self)
                self.drawn = []

            def __enter__(self):
                return self

            def __exit__(self, *error):
                return None

            def clear_output(self, wait):
                pass

            def close(self):
                shown.append("closed")

        display = types.ModuleType("IPython.display")
        display.display = shown.append
        shell = types.ModuleType("IPython")
        shell.display, shell.get_ipython = display, ZMQInteractiveShell
        widgets = types.ModuleType("ipywidgets")
        widgets.Output = Output
        widgets.__spec__ = importlib.util.spec_from_loader("ipywidgets", None)
        monkeypatch.setitem(sys.modules, "IPython", shell)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
        monkeypatch.setattr("builtins.get_ipython", ZMQInteractiveShell, raising=False)
        monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
        return shown

    def test_a_bar_is_displayed(self, notebook):
        with progress_bar("Solving", 3) as advance:
            advance(3)
        assert any(type(each).__name__ == "Output" for each in notebook)
        assert "closed" in notebook  # the bar was there, and is gone

    def test_without_widgets_there_are_lines(self, notebook, clock, monkeypatch):
        monkeypatch.setattr(module.importlib.util, "find_spec", {}.get)
        stream = Stream(terminal=False)
        with redirect_stderr(stream), progress_bar("Solving", 3) as advance:
            clock.now += 9
            advance(1)
        assert stream.getvalue().startswith("Solving: 1/3, 0:00:09 elapsed, about 0:00:18 left")
        assert not notebook


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
