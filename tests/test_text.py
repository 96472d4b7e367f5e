"""Text from files: whatever it is, a terminal prints it and does not obey it."""

import math
import unicodedata

import pytest
from rich.console import Console

from twoaxis.cli.app import shown
from twoaxis.text import number, percent, visible

HOSTILE = [
    "\x1b[2J\x1b[31mred",
    "a\nfinished",
    "a\rb",
    "tab\there",
    "\x9b31m",  # the one-byte form of an escape sequence
    "\u202egnp.exe",
    "\ud800",
    "\udcff",
    "zero\u200bwidth",
    "[bold red]markup[/]",
    "[/]",
    "[link=file:///etc/passwd]here[/link]",
    "back\\",
    "\\[bold]",
    ":skull:",
    "\x07\x08\x00\x7f",
]


@pytest.mark.parametrize(
    ("value", "sign", "shown"),
    [(5.0, "", "5%"), (-3.547, "+", "−3.55%"), (1e-12, "", "0%"), (math.nan, "", "–")],
)
def test_a_percentage_is_written_one_way(value, sign, shown):
    assert percent(value, sign) == shown


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_but_letters_is_left(text):
    found = visible(text)
    assert all(unicodedata.category(c)[0] != "C" for c in found)
    assert "\n" not in found
    found.encode()
    printable = "".join(c for c in text if c.isprintable())
    assert all(c in found for c in printable)


@pytest.mark.parametrize("text", HOSTILE)
def test_rich_prints_it_as_it_is(text):
    console = Console(width=200, color_system="truecolor", force_terminal=True, emoji=False)
    with console.capture() as capture:
        console.print(shown(text), highlight=False)
    ends = "\\" if text.endswith("\\") else ""  # rich doubles it, for a tag that may follow
    assert capture.get() == visible(text) + ends + "\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_what_follows_is_markup_again(text):
    console = Console(width=200, emoji=False)
    with console.capture() as capture:
        console.print(f"[red]{shown(text)}[/] and [bold]on[/]", highlight=False)
    assert capture.get() == f"{visible(text)} and on\n"


def test_ordinary_text_stays():
    assert visible("Buckley–Leverett, ν = 0.01, 日本") == "Buckley–Leverett, ν = 0.01, 日本"


def test_lines_of_a_text_that_has_some():
    assert visible("one\ntwo\x1b[1m\n", lines=True) == "one\ntwo\\x1b[1m\n"


def test_what_is_no_text():
    assert visible(None) == "None"
    assert visible(ValueError("\x1b")) == "\\x1b"


def test_numbers_below_a_million_have_no_exponent():
    assert number(-6503.2, ".2g") == "−6500"
    assert number(6503.2, "+.3g") == "+6500"
    assert number(2.5e6, ".2g") == "2.5e+06"
    assert percent(1084.0) == "1080%"
