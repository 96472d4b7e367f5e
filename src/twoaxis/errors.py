"""Errors and warnings of the library."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from twoaxis.text import visible

Named = TypeVar("Named")


class InputError(ValueError):
    """Input that cannot be used: what was expected, what it got, and how to fix it.

    Messages may quote a file or a name, so unprintable characters are escaped.

    Parameters
    ----------
    expected : str
        What the call needs.
    got : str
        What it got instead.
    fix : str
        What to change, as an instruction.

    Examples
    --------
    >>> import twoaxis as ta
    >>> try:
    ...     ta.Parameter(truth=1.0, bounds=(2.0, 5.0))
    ... except ta.InputError as error:
    ...     print(str(error).split("; ")[0])
    expected truth inside the bounds [2, 5], got truth=1
    """

    def __init__(self, expected: str, got: str, fix: str) -> None:
        expected, got, fix = visible(expected), visible(got), visible(fix)
        super().__init__(f"expected {expected}, got {got}; fix: {fix}")
        self.expected = expected
        self.got = got
        self.fix = fix

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        # An exception with several arguments needs this to be pickled between processes.
        return type(self), (self.expected, self.got, self.fix)


@contextmanager
def needs_extra(extra: str, call: str) -> Iterator[None]:
    """Name the extra to install where an import inside fails for want of a library.

    Parameters
    ----------
    extra : str
        The extra of this package that installs what is imported.
    call : str
        What needs it, such as ``"twoaxis.train"``.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).startswith("twoaxis"):
            raise
        raise InputError(
            f"the libraries of the extra {extra!r} for {call}",
            f"an environment without {error.name}",
            f"run pip install 'twoaxis[{extra}]'",
        ) from error


def named(kind: str, name: str, known: Mapping[str, Named]) -> Named:
    """Return the entry of `known` with this name, or raise an error that lists the names.

    Upper case, underscores and spaces are accepted.
    """
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    if key in known:
        return known[key]
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
    advice = f'did you mean "{near[0]}"?' if near else "choose one of those names"
    raise InputError(f"one of the {kind} {', '.join(known)}", repr(name), advice)


def check_callable(
    name: str, function: Any, parameters: Iterable[str], arguments: Sequence[str] = ()
) -> None:
    """Refuse what cannot be called with these positional arguments and the parameters by name."""
    keywords = list(parameters)
    first = f"{', '.join(arguments)} and " if arguments else ""
    if not callable(function):
        raise InputError(
            f"{name} to be a function of {first}the parameters",
            type(function).__name__,
            f"pass a callable, as in {name}=lambda {', '.join([*arguments, *keywords])}: ...",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in callables may have no signature
        return
    try:
        signature.bind(*arguments, **dict.fromkeys(keywords))
    except TypeError as error:
        raise InputError(
            f"{name} to take {first}the keywords {', '.join(keywords)}",
            f"the signature {name}{signature} ({error})",
            "name its arguments after the parameters, or wrap it in a lambda that does",
        ) from None


def check_words(name: str, words: object) -> None:
    """Refuse anything but a sequence of texts or messages; one text is a sequence of letters."""
    if isinstance(words, str) or not isinstance(words, Sequence):
        raise InputError(
            f"{name} as a sequence",
            f"{name}={words!r}",
            f'write {name}=("...",)',
        )


def check_mapping(name: str, mapping: object) -> None:
    """Refuse anything but a mapping, or None."""
    if mapping is not None and not isinstance(mapping, Mapping):
        raise InputError(
            f"{name} as a mapping from names to texts",
            f"{name}={mapping!r}",
            f'write {name}={{"data": "..."}}',
        )


def refuse_masked(name: str, values: object) -> None:
    """Refuse masked entries, alone or in a list of arrays: `numpy.asarray` would use them.

    A masked array without masked entries passes.
    """
    parts = values if isinstance(values, list | tuple) else [values]
    masks = [np.ma.getmaskarray(each) for each in parts if isinstance(each, np.ma.MaskedArray)]
    count = sum(int(mask.sum()) for mask in masks)
    if count:
        raise InputError(
            f"{name} without masked values",
            f"{count} masked {'entry' if count == 1 else 'entries'}",
            "drop them here and in every array that belongs to them, for instance with "
            "values.compressed()",
        )


class StorageError(OSError):
    """A file that could not be written: the disk is full, or it failed.

    Parameters
    ----------
    place : path
        Of the file.
    why : str
        What the system says.
    """

    def __init__(self, place: object, why: str) -> None:
        self.place, self.why = visible(place), visible(why)
        super().__init__(
            f"expected space for {self.place!r}, got {self.why!r}; fix: make space or choose "
            "another place, then repeat the call; nothing was left half written"
        )

    @classmethod
    def of(cls, place: object, error: OSError) -> StorageError:
        """Return an error of the system as one that names the file; such a one passes through."""
        return error if isinstance(error, cls) else cls(place, error.strerror or str(error))

    def __reduce__(self) -> tuple[type[StorageError], tuple[str, str]]:
        return type(self), (self.place, self.why)


class LibraryWarning(UserWarning):
    """Base of the warnings of this library; unprintable characters are escaped."""

    def __init__(self, message: object) -> None:
        super().__init__(visible(message))


class MisfitWarning(LibraryWarning):
    """The data contradict the model or the noise that a result assumes.

    Examples
    --------
    >>> import warnings, numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> data = np.exp(-t) + 0.2 * np.sin(t)  # no decay explains these data
    >>> known = {"k": ta.Parameter(delivered=1.0, bounds=(0.1, 4.0))}
    >>> with warnings.catch_warnings(record=True) as raised:
    ...     warnings.simplefilter("always")
    ...     _ = ta.resolve(
    ...         lambda k: np.exp(-k * t), known, 0.02, data=data, replicas=20, progress=False
    ...     )
    >>> {each.category.__name__ for each in raised}
    {'MisfitWarning'}
    """


class AccuracyWarning(LibraryWarning):
    """A numerical check did not reach its stated accuracy.

    Examples
    --------
    >>> import twoaxis as ta
    >>> issubclass(ta.AccuracyWarning, UserWarning)
    True
    """


class DamageWarning(LibraryWarning):
    """A stored file was damaged; it was set aside and is computed again."""


class WorkerWarning(LibraryWarning):
    """A worker process has not answered for a while, or none is there; the work waits for it."""


class WorkerError(RuntimeError):
    """A worker process ended before its work was finished."""
