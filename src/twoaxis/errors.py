"""What the library says when it cannot go on, or goes on with a doubt."""


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
        super().__init__(f"wanted {wanted}; got {got}. To mend it: {fix}{end}")
        self.wanted = wanted
        self.got = got
        self.fix = fix


class MisfitWarning(UserWarning):
    """The data contradict the model or the noise on which a result rests."""


class AccuracyWarning(UserWarning):
    """A numerical check of the library's own did not reach its stated accuracy."""
