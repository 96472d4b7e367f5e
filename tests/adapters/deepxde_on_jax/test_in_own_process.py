"""The JAX backend of DeepXDE, in a process of its own: a process has one backend."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("cases.py")


def run(*options):
    """Run the cases; return how many passed. None is skipped or lost by a change of its name."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-rA",
         *options, str(CASES)],
        env=os.environ | {"DDE_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTEST_ADDOPTS": ""},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout.count("\nPASSED ")


def test_cases_of_the_jax_backend_pass():
    assert run() == 13


@pytest.mark.long
def test_long_cases_of_the_jax_backend_pass():
    assert run("--only-long") == 13
