"""The variants of ``benchmarks/decode.py`` are what their names say."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from twoaxis.problems import BUCKLEY_LEVERETT
from twoaxis.problems.darcy import TRUTH

pytest.importorskip("jax")
FOLDER = Path(__file__).parents[2] / "benchmarks"
H = 1e-4


@pytest.fixture(scope="module")
def variants():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("decode")
    del sys.modules["decode"]


def derivatives(u, x, y, axes):
    """The field and its derivatives, by differences."""
    steps = {axes[0]: (H, 0), axes[1]: (0, H)}
    found = {"u": u(x, y)}
    for axis, (a, b) in steps.items():
        after, before = u(x + a, y + b), u(x - a, y - b)
        found[f"u_{axis}"] = (after - before) / (2 * H)
        found[f"u_{axis}{axis}"] = (after - 2 * found["u"] + before) / H**2
    return found


@pytest.mark.parametrize("number", range(4))
def test_manufactured_fields_solve_their_equations(variants, number):
    problem = variants.manufactured(list(variants.MANUFACTURED)[number])
    points = np.random.default_rng(0).random((50, 2))
    found = derivatives(problem.field, *points.T, "xy")
    residual = problem.residual(**found, **problem.coefficients(points), **TRUTH)
    assert np.abs(residual).max() < 1e-4
    elsewhere = problem.residual(
        **found, **problem.coefficients(points), lambda_0=0.0, lambda_1=0.0
    )
    assert np.abs(elsewhere).max() > 1


def test_the_residual_of_a_sigmoid_is_that_of_the_bounded_field(variants):
    def network(x, t):
        return 2 * np.sin(3 * x + 2 * t)

    x, t = np.linspace(0, 1, 20), np.linspace(0.1, 0.4, 20)
    parts = [
        {k: v for k, v in derivatives(u, x, t, "xt").items() if k in BUCKLEY_LEVERETT.derivatives}
        for u in (network, lambda x, t: variants.sigmoid(network(x, t)))
    ]
    wanted = BUCKLEY_LEVERETT.residual(**parts[1], M=2.0)
    assert variants.sigmoid_residual(**parts[0], M=2.0) == pytest.approx(wanted, abs=1e-5)
    # A field inside [0, 1] is clamped nowhere, one beyond has no flux.
    assert variants.clamped_residual(**parts[1], M=2.0) == pytest.approx(wanted, abs=1e-12)
    beyond = parts[1] | {"u": np.full(20, 1.5)}
    flat = variants.clamped_residual(**beyond, M=2.0)
    assert flat == pytest.approx(beyond["u_t"] - 0.01 * beyond["u_xx"])


def test_modes_are_kept_by_pointwise_strength(variants):
    rows = np.diag([4.0, 2.0, 1.0, 0.5]).astype(np.float32)  # eigenvalues 16, 4, 1, 1/4
    sensitivity = np.array([[1.0], [1.0], [2.0], [0.1]], np.float32)
    moment = variants.Moment(
        residual=np.ones(4),
        sensitivity=lambda: sensitivity,
        modes=rows,
        step=np.int32(20),
        steps=100,
        warmup=20,
    )
    kept = variants.RetainPointwise().update({"modes": np.ones(4, np.float32)}, moment)["modes"]
    # Of 6.01 the first two hold 2, a third of it; with the third it is nearly all. Weighed by the
    # eigenvalues the first two would be enough.
    assert np.asarray(kept).tolist() == [1, 1, 1, 0]
