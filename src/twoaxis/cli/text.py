"""Text from files on its way to a terminal."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from twoaxis.text import visible


def shown(text: Any, *, most: int | None = None, lines: bool = False) -> str:
    """Return a text that is printed as it is: neither markup, nor a command to the terminal.

    See `twoaxis.text.visible` for the options.
    """
    return escape(visible(text, most=most, lines=lines))
