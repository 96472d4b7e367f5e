"""The JAX backend of DeepXDE, in a process of its own: a process has one backend."""

import os
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("cases.py")
# What is trained there takes milliseconds; compiling it well would take seconds.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def test_cases_of_the_jax_backend_pass():
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", str(CASES)],
        env={**os.environ, "DDE_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": QUICK},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    # Each of them ran: none is skipped, and none is lost by a change of its name.
    assert found.stdout.count("\nPASSED ") == 13, found.stdout
