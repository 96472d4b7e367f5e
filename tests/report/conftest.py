"""Audits of every kind.

The heat equation ``u_t = k u_xx`` has the solution ``exp(-k t) sin x``, and advection with
diffusion, ``u_t + c u_x = k u_xx``, has ``exp(-k t) sin(x - c t)``: fields that decay at another
rate than the true one satisfy the equation with that rate.
"""

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pytest

import twoaxis as ta
from twoaxis import report

BOUNDS = (0.3, 3.0)
TOLERANCE = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
POINTS = np.random.default_rng(1).uniform([0, 0], [np.pi, 1], (200, 2))
SITES = np.random.default_rng(2).uniform([0, 0], [np.pi, 1], (40, 2))
NOISE = 0.02

STRANGE = {
    "script": "<script>alert(1)</script>",
    "mathematics": "a$b_c$",
    "broken mathematics": r"$\frac{",
    "long": "a_very_long_name_of_a_parameter_" * 5,
    "greek": "ν̂ température",
    "underscore": "_hidden",
    "attribute": '" onload="alert(1)',
    "control": "k\x1b[31m\n",
}


def field(rate, delivered, truth=1.0, name="k", **options):
    x, t = POINTS.T
    u = np.exp(-rate * t) * np.sin(x)
    ripple = 1e-3 * np.cos(9 * x + 4 * t)
    parameters = {name: ta.Parameter(truth=truth, delivered=delivered, bounds=BOUNDS)}
    options = {"view": ta.views.Pointwise(), "field": u, **options}
    return ta.FrozenResidual(
        lambda **p: (p[name] - rate) * u + ripple, parameters, POINTS, **options
    )


@cache
def resolution(noise=NOISE, center=1.0, known=True, name="k"):
    x, t = SITES.T
    return ta.resolve(
        lambda **p: np.exp(-p[name] * t) * np.sin(x),
        {name: ta.Parameter(**{"truth" if known else "delivered": center}, bounds=BOUNDS)},
        noise=noise,
        replicas=40,
        bank=41,
        validate=0,
        progress=False,
    )


def wave(points, c, k):
    x, t = points.T
    return np.exp(-k * t) * np.sin(x - c * t)


def wave_field(c, k, delivered, truth):
    x, t = POINTS.T
    u, slope = wave(POINTS, c, k), np.exp(-k * t) * np.cos(x - c * t)
    known = {} if truth is None else {"truth": truth}
    parameters = {
        name: ta.Parameter(delivered=d, bounds=BOUNDS, **known)
        for name, d in zip("ck", delivered, strict=True)
    }

    def residual(c, k, at=(c, k)):
        return (c - at[0]) * slope + (k - at[1]) * u

    return ta.FrozenResidual(residual, parameters, POINTS, view=ta.views.Pointwise())


@cache
def wave_resolution(known):
    kind = "truth" if known else "delivered"
    return ta.resolve(
        lambda c, k: wave(SITES, c, k),
        {name: ta.Parameter(**{kind: 1.0}, bounds=BOUNDS) for name in "ck"},
        noise=NOISE,
        replicas=15,
        starts=1,
        progress=False,
    )


OBSERVED = wave(SITES, 0.0, 1.0) + NOISE * np.random.default_rng(3).standard_normal(len(SITES))
STEPS = ((100, 2.0, 0.7), (200, 1.4, 1.1), (300, 1.3, 1.28))
HISTORY = {
    "step": [1, 2, 300],
    "loss": [1.0, 0.5, 0.1],
    "_data": [0.9, 0.4, 0.05],
    "k": [0.5, 1.0, 1.28],
}


def everything(truth=1.0):
    return ta.audit(
        field(1.3, 1.28, truth),
        resolution=resolution(center=1.0 if truth else 1.28, known=truth is not None),
        data=OBSERVED,
        tolerance=TOLERANCE,
        history=HISTORY,
        snapshots=ta.follow([(n, field(r, d, truth)) for n, r, d in STEPS]),
    )


def two(truth=1.0):
    return ta.audit(
        wave_field(1.1, 1.3, (1.02, 1.3), truth),
        resolution=wave_resolution(truth is not None),
        data=wave(SITES, 1.0, 1.0) + 0.01,
        tolerance=TOLERANCE,
        candidates=21,
    )


def one_line(residual, delivered=None, truth=1.0, points=None, **options):
    x = np.linspace(0, 1, 50) if points is None else points
    known = {} if delivered is None else {"delivered": delivered}
    parameters = {"k": ta.Parameter(truth=truth, bounds=BOUNDS, **known)}
    return ta.audit(residual, parameters, ta.views.Pointwise(), points=x, **options)


def flat():
    return one_line(lambda k: np.ones(9) + 0 * k, 1.2, points=np.arange(9.0), tolerance=TOLERANCE)


def another_view(truth=1.0):
    x = np.linspace(0, 1, 512)
    ripple = np.where(np.arange(512) % 2, 1.0, -1.0)
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.0) * (1 + 10 * ripple) - 3.0 * ripple,
        {"k": ta.Parameter(truth=truth, delivered=1.3, bounds=BOUNDS)},
        x,
        view=ta.views.Pointwise(),
    )
    found = resolution(center=1.0 if truth else 1.3, known=truth is not None)
    return ta.audit(frozen, view=ta.views.Patch(cells=8), resolution=found, tolerance=TOLERANCE)


def linear():
    x = np.linspace(0, 1, 30)
    k = ta.Parameter(truth=0.0, delivered=-0.05, bounds=(-1.0, 1.0), coordinate="linear", scale=0.2)
    return ta.audit(
        lambda k: k * (1 + x) + 0.03, {"k": k}, ta.views.Pointwise(), points=x, tolerance=TOLERANCE
    )


def three_axes():
    points = np.random.default_rng(0).random((60, 3))
    return one_line(lambda k: (k - 1.2) * points[:, 2], 1.1, points=points)


def several_equations():
    x = np.linspace(0, 1, 12)
    points = np.stack([x, x**2], axis=1)
    frozen = ta.FrozenResidual(
        lambda k: (k * np.ones(12) - 1.1, k * x - 1.2),
        {"k": ta.Parameter(truth=1.0, delivered=1.0, bounds=BOUNDS)},
        points,
        ta.views.Blocks([ta.views.Pointwise(), ta.views.Pointwise()]),
        field=x - 0.5,
        axes=("x", "t"),
        equations=("mass", "heat"),
    )
    return ta.audit(frozen, tolerance=TOLERANCE)


MANY = 8


def many():
    """Eight amplitudes of bumps that overlap with their neighbors, one of them a nuisance."""
    x = np.linspace(0, 1, 36)
    shapes = np.exp(-((7 * x[:, None] - np.arange(MANY)) ** 2))
    preferred = 1 + 0.04 * np.sin(np.arange(MANY))

    def known(**more):
        return {
            f"a{j}": ta.Parameter(
                truth=1.0, bounds=BOUNDS, label=rf"$a_{j}$", unit="1/s", nuisance=j == 2, **more
            )
            for j in range(MANY)
        }

    def forward(**values):
        return shapes @ np.array([values[name] for name in known()])

    def residual(**values):
        return shapes @ (np.array([values[name] for name in known()]) - preferred)

    found = ta.resolve(forward, known(), noise=0.02, replicas=2, starts=1, progress=False)
    return ta.audit(
        residual, known(delivered=1.06), ta.views.Pointwise(), points=x, resolution=found,
        data=forward(**dict.fromkeys(known(), 1.0)), tolerance=TOLERANCE, candidates=9,
    )  # fmt: skip


TIMES = np.linspace(0, 4, 25)


def decay():
    """One coordinate, no truth: the field follows the data, the delivered rate does not."""
    noise = 0.03 * np.random.default_rng(5).standard_normal(len(TIMES))
    known = {
        "beta": ta.Parameter(delivered=0.8, bounds=BOUNDS, label=r"$\beta$", unit="1/day"),
    }
    frozen = ta.FrozenResidual(
        lambda beta: (beta - 0.8) * np.exp(-TIMES), known, TIMES, ta.views.Pointwise(),
        fitted=np.exp(-1.02 * TIMES), axes=("t",), about={"problem": "decay", "seed": "5"},
    )  # fmt: skip
    found = ta.resolve(
        lambda beta: np.exp(-beta * TIMES), known, noise=0.03, replicas=20, bank=41,
        validate=0, points=TIMES[:, None], progress=False,
    )  # fmt: skip
    data = np.exp(-TIMES) + noise
    return ta.audit(frozen, resolution=found, data=data, tolerance=TOLERANCE)


def sensors(places=(0.5, 1.2, 2.5), wrong=2):
    """A few sensors over time, one of which the field misses."""
    x, t = (each.ravel() for each in np.meshgrid(places, TIMES, indexing="ij"))
    exact = np.exp(-t) * np.sin(x)
    data = exact + NOISE * np.random.default_rng(6).standard_normal(len(x))
    known = {"k": ta.Parameter(delivered=1.01, bounds=BOUNDS)}
    fitted = exact + np.where(x == places[wrong], 0.1, 0.0)
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.01) * POINTS[:, 0], known, POINTS, ta.views.Pointwise(),
        fitted=fitted, axes=("x", "t"),
    )  # fmt: skip
    found = ta.resolve(
        lambda k: np.exp(-k * t) * np.sin(x), known, noise=NOISE, replicas=20, bank=41,
        validate=0, points=np.column_stack([x, t]), progress=False,
    )  # fmt: skip
    return ta.audit(frozen, resolution=found, data=data, tolerance=TOLERANCE)


def scattered():
    x, t = SITES.T
    known = {"k": ta.Parameter(delivered=1.28, bounds=BOUNDS)}
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.3) * POINTS[:, 0], known, POINTS, ta.views.Pointwise(),
        fitted=np.exp(-1.05 * t) * np.sin(x), axes=("x", "t"),
    )  # fmt: skip
    found = ta.resolve(
        lambda k: np.exp(-k * t) * np.sin(x), known, noise=NOISE, replicas=20, bank=41,
        validate=0, points=SITES, progress=False,
    )  # fmt: skip
    return ta.audit(frozen, resolution=found, data=OBSERVED, tolerance=TOLERANCE)


MAKERS = {
    "everything": everything,
    "candidate": lambda: everything(None),
    "two": two,
    "two around a candidate": lambda: two(None),
    "around a point": lambda: ta.audit(
        field(1.3, 1.5, None), at={"k": 1.1}, tolerance=TOLERANCE, view=ta.views.Patch(cells=4)
    ),
    "axis two alone": lambda: one_line(lambda k: k * np.linspace(1, 2, 50) - 1.2),
    "no resolution": lambda: ta.audit(field(1.3, 1.28), tolerance=TOLERANCE, spectrum=False),
    "another view": another_view,
    "another view, candidate": lambda: another_view(None),
    "flat": flat,
    "on a bound": lambda: ta.audit(field(5.0, 2.9), tolerance=TOLERANCE),
    "within tolerance": lambda: ta.audit(
        field(1.01, 1.01), resolution=resolution(0.6), tolerance=TOLERANCE
    ),
    "exact": lambda: one_line(lambda k: (k - 1.0) * np.linspace(1, 2, 50), 1.0),
    "linear": linear,
    "three axes": three_axes,
    "several equations": several_equations,
    "many": many,
    "decay": decay,
    "sensors": sensors,
    "scattered": scattered,
    "elsewhere": lambda: ta.audit(
        field(1.3, 1.28), resolution=resolution(center=1.5), tolerance=TOLERANCE
    ),
    "assumed tolerance": lambda: ta.audit(
        field(1.3, 1.28), tolerance=ta.Tolerance(5.0, 5.0, 5.0, assumed=True)
    ),
    "tiny tolerance": lambda: ta.audit(
        field(1.3, 1.28), resolution=resolution(), tolerance=ta.Tolerance(0.01, 0.02, 0.003)
    ),
    "huge tolerance": lambda: ta.audit(
        field(1.3, 1.28), resolution=resolution(), tolerance=ta.Tolerance(1.0, 2000.0, 400.0)
    ),
    **{
        f"named {kind}": lambda name=name: ta.audit(
            field(1.3, 1.28, name=name),
            resolution=resolution(name=name),
            data=OBSERVED,
            tolerance=TOLERANCE,
            history={"step": [1, 2], name + "!": [1.0, 0.5], name: [1.0, 1.2]},
            snapshots=ta.follow(
                [(1, field(1.5, 1.1, name=name)), (2, field(1.3, 1.28, name=name))]
            ),
        )
        for kind, name in STRANGE.items()
    },
}
CANDIDATES = ("candidate", "two around a candidate", "around a point", "another view, candidate")


@cache
def made(case):
    return MAKERS[case]()


@pytest.fixture(scope="session")
def audit_of():
    """Audits by the name of their case, each made once."""
    return made


@cache
def page_of(case):
    return report.page(made(case))


@pytest.fixture(scope="session")
def html_of():
    """Their pages, each rendered once."""
    return page_of


@pytest.fixture(scope="session")
def strange_names():
    return STRANGE


# Variations of cases that run by default; the others run with --all.
LONG = {
    "two around a candidate",
    "another view, candidate",
    "exact",
    "three axes",
    "elsewhere",
    "tiny tolerance",
    "huge tolerance",
    "within tolerance",
    *(f"named {kind}" for kind in STRANGE if kind != "script"),
}


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        cases = [
            pytest.param(case, marks=pytest.mark.long if case in LONG else ()) for case in MAKERS
        ]
        metafunc.parametrize("case", cases)
    if "strange" in metafunc.fixturenames:
        shown = ("script", "control")
        metafunc.parametrize(
            "strange",
            [pytest.param(k, marks=() if k in shown else pytest.mark.long) for k in STRANGE],
        )
    if "candidate_case" in metafunc.fixturenames:
        metafunc.parametrize("candidate_case", CANDIDATES)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def loaded(tmp_path_factory):
    """The complete audit, through a file."""
    return ta.load(made("everything").save(tmp_path_factory.mktemp("audit") / "audit.nc"))
