"""The command line as a user meets it: in this process, or in one of its own."""

import contextlib
import io
import os
import subprocess
import sys
import warnings
from unittest import mock

ENVIRONMENT = {"COLUMNS": "100", "MPLBACKEND": "Agg"}


def twoaxis(*arguments, cwd=".", columns="100"):
    """Run ``twoaxis`` in this process, and return its exit code and what it printed."""
    from twoaxis.cli import main

    out, err = io.StringIO(), io.StringIO()
    command = ["twoaxis", *map(str, arguments)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(cwd))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.enter_context(mock.patch.object(sys, "argv", command))
        stack.enter_context(mock.patch.dict(os.environ, ENVIRONMENT | {"COLUMNS": columns}))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("default")  # as in a process of its own
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def process(*arguments, cwd=None, **environment):
    """Run ``twoaxis`` in a process of its own, and return its exit code and what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "twoaxis", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
        env={**os.environ, **ENVIRONMENT, **environment},
    )
