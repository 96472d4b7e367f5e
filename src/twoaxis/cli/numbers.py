"""Whole numbers as people write them on a command line."""

from __future__ import annotations

from twoaxis.errors import InputError

MOST = 100_000


def parse_numbers(text: str, option: str, most: int = MOST) -> list[int]:
    """Read ``8-11`` and ``8,9,12-14`` as a list of numbers.

    >>> parse_numbers("8-10,12", "--layouts")
    [8, 9, 10, 12]
    """
    advice = f"write {option} 8-11 or {option} 8,9,10"
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            several = range(int(first), int(last if dash else first) + 1)
            if len(several) + len(numbers) > most:
                raise InputError(f"at most {most} numbers with {option}", repr(text), advice)
            numbers.extend(several)
    except InputError:
        raise
    except (ValueError, OverflowError):
        numbers = []
    if not numbers:
        raise InputError(
            f"whole numbers and ranges with {option}, each range upwards", repr(text), advice
        )
    return numbers
