"""What the library says when it cannot go on, or goes on with a doubt."""

from __future__ import annotations


class InputError(ValueError):
    """Input that cannot be used, in three parts that a reader needs.

    Parameters
    ----------
    wanted : str
        What the call needs.
    got : str
        What came instead.
    fix : str
        What to change, as an instruction.
    """

    def __init__(self, wanted: str, got: str, fix: str) -> None:
        end = "" if fix.endswith("?") else "."
        came = got if got.endswith("...") else got.removesuffix(".")
        super().__init__(f"wanted {wanted}; got {came}. To mend it: {fix}{end}")
        self.wanted = wanted
        self.got = got
        self.fix = fix

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        # Without it the error could not travel between processes.
        return type(self), (self.wanted, self.got, self.fix)


class MisfitWarning(UserWarning):
    """The data contradict the model or the noise on which a result rests."""


class AccuracyWarning(UserWarning):
    """A numerical check of the library's own did not reach its stated accuracy."""


class DamageWarning(UserWarning):
    """Something stored was damaged; it was set aside and is made again."""


class WorkerError(RuntimeError):
    """A worker process ended before its work was done."""
