"""The command line as a user meets it: a process of its own."""

import os
import subprocess
import sys


def twoaxis(*arguments, cwd=None):
    """Run ``twoaxis`` with these arguments, and return what it printed and how it ended."""
    return subprocess.run(
        [sys.executable, "-m", "twoaxis", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
        env={**os.environ, "COLUMNS": "100", "MPLBACKEND": "Agg"},
    )
