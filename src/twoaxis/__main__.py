"""The ``twoaxis`` command, also as ``python -m twoaxis``: what an interrupt does, at any moment.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. In a callback of the
garbage collector or in a destructor the exception is printed and gone, compiled code that calls
Python may make another one of it, a main thread that waits sleeps on when the system hands the
signal to another thread, and a computation under way crashes when the libraries around it are torn
down. So an interrupt wakes the main thread, is raised again for as long as nothing has come of it,
whatever error it became is still an interrupt, and the process then ends without tearing anything
down. A command that has done its work ends so, too, after everything that was registered for the
exit: nobody could turn an interrupt into an exit code while Python is torn down, a large part of a
second.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130
# Seconds until an interrupt is raised again.
AGAIN = 0.2
# Where Python's import is written, as frames name it.
IMPORT = "<frozen importlib._bootstrap>"
# So many times it waits for an import: half-imported extension modules crash.
MOST_WAITS = 50


class Interrupts:
    """Turns interrupts from the keyboard into a `KeyboardInterrupt` that arrives.

    Attributes
    ----------
    came : bool
        Whether there was one.
    code : int or None
        How the work ended, once it has.
    """

    def __init__(self) -> None:
        self.came = False
        self.code: int | None = None
        self._waits = 0

    def begin(self) -> None:
        """Take over, unless interrupts are ignored: so a shell starts work in the background."""
        atexit.register(self._leave)  # the first to be registered is the last to be called
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._raise)
            sys.unraisablehook = _tell_other_errors
            if hasattr(signal, "setitimer"):  # not on every system
                signal.signal(signal.SIGALRM, self._raise_again)
                self._wake_main_thread()

    def end(self) -> None:
        """Let the next interrupt end the process at once: nothing is left to clean up."""
        if hasattr(signal, "setitimer") and self.came:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if signal.getsignal(signal.SIGINT) == self._raise:
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))

    def _leave(self) -> None:
        """Skip the rest of the exit where the work has ended with a code."""
        if self.code is not None:
            leave(self.code)

    def _raise(self, _: int, frame: FrameType | None) -> None:
        self.came = True
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
            if self._waits_for_import(frame):
                return
        raise KeyboardInterrupt

    def _wake_main_thread(self) -> None:
        """Have a thread of its own wake this one when an interrupt came and it did not notice.

        Python notes down a signal in whichever thread gets it, and tells a pipe.
        """
        heard, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        main_thread = threading.get_ident()

        def listen() -> None:
            # Others may hold signals back for a while; this thread must not take them meanwhile.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGALRM})
            while True:
                interrupt = signal.SIGINT in os.read(heard, 64)
                while interrupt and not self.came:
                    time.sleep(AGAIN)
                    signal.pthread_kill(main_thread, signal.SIGALRM)

        threading.Thread(target=listen, name="interrupts", daemon=True).start()

    def _raise_again(self, _: int, frame: FrameType | None) -> None:
        # While somebody cleans up after it, it has arrived.
        error = sys.exception()
        while error is not None and not isinstance(error, KeyboardInterrupt):
            error = error.__context__
        if error is None and not self._waits_for_import(frame):
            raise KeyboardInterrupt

    def _waits_for_import(self, frame: FrameType | None) -> bool:
        """Whether a library is being imported, which is over soon."""
        while frame is not None and frame.f_code.co_filename != IMPORT:
            frame = frame.f_back
        self._waits += 1
        return frame is not None and self._waits <= MOST_WAITS


def _tell_other_errors(unraisable: sys.UnraisableHookArgs) -> None:
    """Print an error that nobody can catch; an interrupt comes again."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def leave(code: int) -> None:
    """End the process at once; what was printed is written first."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def main() -> None:
    """Run the command line; however an interrupt ends it, the exit code is 130."""
    interrupts = Interrupts()
    interrupts.begin()
    try:
        try:
            # Here, since an interrupt may come while it is imported.
            from twoaxis.cli import main as command

            command()
        except BaseException as error:
            if not interrupts.came:
                if isinstance(error, SystemExit) and isinstance(error.code, int | None):
                    interrupts.code = error.code or 0
                interrupts.end()
                raise
            if not (isinstance(error, SystemExit) and error.code == INTERRUPTED):
                print("interrupted; no file was left half written", file=sys.stderr)
    except KeyboardInterrupt:  # another one, just now
        pass
    interrupts.end()
    leave(INTERRUPTED)


if __name__ == "__main__":
    main()
