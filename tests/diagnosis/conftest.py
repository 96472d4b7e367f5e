"""Fields and observations in which the cause of a wrong parameter is known by construction.

Heat equation ``u_t = k u_xx`` with the solution ``exp(-k t) sin x``, and advection with
diffusion, ``u_t + c u_x = k u_xx``, with ``exp(-k t) sin(x - c t)``. A field that decays at
another rate than the true one satisfies the equation with that rate: it is distorted, and its
residual prefers that rate exactly. The observations are tight or weak by their noise alone.
"""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import twoaxis as ta

BOUNDS = (0.3, 3.0)
TIGHT, WEAK = 0.01, 0.6
TOLERANCE = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)

POINTS = np.random.default_rng(1).uniform([0, 0], [np.pi, 1], (400, 2))
SITES = np.random.default_rng(2).uniform([0, 0], [np.pi, 1], (80, 2))


def wave(points, c, k):
    x, t = points.T
    return np.exp(-k * t) * np.sin(x - c * t)


def heat_field(rate, delivered, truth=1.0, name="k", **options):
    """A learned field that decays at `rate`, frozen; training returned `delivered`."""
    x, t = POINTS.T
    u = np.exp(-rate * t) * np.sin(x)
    ripple = 1e-3 * np.cos(9 * x + 4 * t)  # what a network leaves of the equation
    parameters = {name: ta.Parameter(truth=truth, delivered=delivered, bounds=BOUNDS)}
    options = {"view": ta.views.Pointwise(), "field": u, **options}
    return ta.FrozenResidual(
        lambda **p: -rate * u + p[name] * u + ripple, parameters, POINTS, **options
    )


def wave_field(c, k, delivered, truth=(1.0, 1.0), **options):
    """The same with two parameters."""
    x, t = POINTS.T
    u, slope = wave(POINTS, c, k), np.exp(-k * t) * np.cos(x - c * t)
    parameters = {
        name: ta.Parameter(truth=None if truth is None else truth[j], delivered=d, bounds=BOUNDS)
        for j, (name, d) in enumerate(zip("ck", delivered, strict=True))
    }
    options = {"view": ta.views.Pointwise(), **options}

    def residual(**p):
        return (-k * u - c * slope) + p["c"] * slope + p["k"] * u

    return ta.FrozenResidual(residual, parameters, POINTS, **options)


@cache
def heat_resolution(noise, center=1.0, known=True, name="k", replicas=40):
    x, t = SITES.T
    value = {"truth": center} if known else {"delivered": center}
    return ta.resolve(
        lambda **p: np.exp(-p[name] * t) * np.sin(x),
        {name: ta.Parameter(**value, bounds=BOUNDS)},
        noise=noise,
        replicas=replicas,
        bank=41,
        validate=0,
        progress=False,
    )


@cache
def wave_resolution(noise, known=True):
    kind = "truth" if known else "delivered"
    return ta.resolve(
        lambda c, k: wave(SITES, c, k),
        {name: ta.Parameter(**{kind: 1.0}, bounds=BOUNDS) for name in "ck"},
        noise=noise,
        replicas=25,
        starts=1,
        progress=False,
    )


@pytest.fixture(scope="session")
def made():
    """The makers and constants above by name: test modules cannot import each other."""
    return SimpleNamespace(
        BOUNDS=BOUNDS,
        TIGHT=TIGHT,
        WEAK=WEAK,
        TOLERANCE=TOLERANCE,
        POINTS=POINTS,
        SITES=SITES,
        wave=wave,
        heat_field=heat_field,
        wave_field=wave_field,
        heat_resolution=heat_resolution,
        wave_resolution=wave_resolution,
    )


@pytest.fixture(scope="session")
def observed():
    """Observations of the true solution, with little noise."""
    noise = np.random.default_rng(3).standard_normal(len(SITES))
    return wave(SITES, 0.0, 1.0) + TIGHT * noise


@pytest.fixture(scope="session")
def complete(made, observed):
    """An audit with every part, around a truth."""
    steps = [(n, made.heat_field(r, d)) for n, r, d in ((1, 2.0, 1.0), (2, 1.3, 1.2))]
    return ta.audit(
        made.heat_field(1.3, 1.28),
        resolution=made.heat_resolution(TIGHT),
        data=observed,
        tolerance=TOLERANCE,
        history={"step": [1, 2], "loss": [0.5, 0.1], "k": [1.0, 1.2]},
        snapshots=ta.follow(steps),
    )


@pytest.fixture(scope="session")
def candidate(made, observed):
    """The same without a truth anywhere."""
    steps = [(n, made.heat_field(r, d, truth=None)) for n, r, d in ((1, 2.0, 1.0), (2, 1.3, 1.2))]
    return ta.audit(
        made.heat_field(1.3, 1.28, truth=None),
        resolution=made.heat_resolution(TIGHT, 1.28, known=False),
        data=observed,
        tolerance=TOLERANCE,
        snapshots=ta.follow(steps),
    )
