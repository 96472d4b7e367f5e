"""Run the Python blocks of these pages, and keep the output shown below them true.

``python docs/snippets.py`` says which shown outputs differ from what the blocks print now;
``--write`` puts them right. Blocks of a page share one namespace, top to bottom.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

DOCS = Path(__file__).parent
# A Python block, and the text block that may follow it with what it prints.
BLOCK = re.compile(r"(^```python\n(.*?)^```\n)(\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)


def run(page: Path, folder: Path) -> str:
    """Run a page in `folder`, and return its text with the outputs brought up to date."""
    namespace: dict[str, object] = {"__name__": page.stem}

    def refreshed(found: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(found[2], str(page), "exec", dont_inherit=True), namespace)
        lines = "\n".join(line.rstrip() for line in printed.getvalue().rstrip().splitlines())
        return found[1] + (f"\n```text\n{lines}\n```\n" if lines else "")

    with contextlib.chdir(folder):
        return BLOCK.sub(refreshed, page.read_text())


def main() -> int:
    """Compare, or rewrite with ``--write``, all pages or those that are named."""
    named = [Path(name).resolve() for name in sys.argv[1:] if name != "--write"]
    stale = 0
    for page in named or sorted(DOCS.rglob("*.md")):
        if "_build" in page.parts:
            continue
        with tempfile.TemporaryDirectory() as folder:
            text = run(page, Path(folder))
        if text != page.read_text():
            stale += 1
            print(f"{os.path.relpath(page)}: outputs differ")
            if "--write" in sys.argv:
                page.write_text(text)
    return 1 if stale and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
