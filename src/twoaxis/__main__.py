"""The ``twoaxis`` command, also as ``python -m twoaxis``: what an interrupt does, at any moment.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. In a callback of the
garbage collector or in a destructor the exception is printed and gone, compiled code that calls
Python may make another one of it, and a computation under way crashes when the libraries around it
are torn down. So an interrupt is raised again for as long as nothing has come of it, whatever error
it became is still an interrupt, and the process then ends without tearing anything down. So does
one that has done its work: while Python is torn down, which takes a large part of a second, nobody
could turn an interrupt into an exit code.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130
# Seconds until an interrupt is raised again.
AGAIN = 0.2


class Interrupts:
    """Turns interrupts from the keyboard into a `KeyboardInterrupt` that arrives.

    Attributes
    ----------
    came : bool
        Whether there was one.
    """

    def __init__(self) -> None:
        self.came = False

    def begin(self) -> None:
        """Take over, unless interrupts are ignored: so a shell starts work in the background."""
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._raise)
            sys.unraisablehook = _tell_other_errors

    def end(self) -> None:
        """Let the next interrupt end the process at once: nothing is left to clean up."""
        if hasattr(signal, "setitimer") and self.came:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if signal.getsignal(signal.SIGINT) == self._raise:
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))

    def _raise(self, *_: int | FrameType | None) -> None:
        self.came = True
        if hasattr(signal, "setitimer"):  # not on every system
            signal.signal(signal.SIGALRM, self._raise_again)
            signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
        raise KeyboardInterrupt

    def _raise_again(self, *_: int | FrameType | None) -> None:
        # While somebody cleans up after it, it has arrived.
        error = sys.exception()
        while error is not None and not isinstance(error, KeyboardInterrupt):
            error = error.__context__
        if error is None:
            raise KeyboardInterrupt


def _tell_other_errors(unraisable: sys.UnraisableHookArgs) -> None:
    """Print an error that nobody can catch; an interrupt comes again."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def main() -> None:
    """Run the command line; however an interrupt ends it, the exit code is 130."""
    interrupts = Interrupts()
    interrupts.begin()
    code = INTERRUPTED
    try:
        try:
            # Here, since an interrupt may come while it is imported.
            from twoaxis.cli import main as command

            command()
            code = INTERRUPTED if interrupts.came else 0
        except BaseException as error:
            exits = isinstance(error, SystemExit) and isinstance(error.code, int | None)
            if interrupts.came:
                if not (exits and error.code == INTERRUPTED):
                    print("interrupted; no file was left half written", file=sys.stderr)
            elif exits:
                code = error.code or 0
            else:
                raise
    except KeyboardInterrupt:  # another one, just now
        code = INTERRUPTED
    interrupts.end()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
