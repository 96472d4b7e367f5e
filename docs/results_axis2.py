"""Print the figures of axis 2 in results.md: ``python docs/results_axis2.py``, about a minute.

Nothing is trained. Sensitivities are those of the reference solutions, with derivatives from a
quintic spline through the fine grid; residual points are uniform in the domain, one set for
each seed from 0 on, from ``numpy.random.default_rng``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import RectBivariateSpline

import twoaxis as ta
from twoaxis.forward import get_solver
from twoaxis.problems import get_problem
from twoaxis.views import Gaussian, Patch, Pointwise

PROBLEMS = ("burgers", "buckley-leverett", "allen-cahn")
POINT_SETS = 40
POINTS = 2000
BANDS = ((1, 64), (65, 256))
# The study's shares are means over this many fields a problem, each on points of its own.
FIELDS = {"development": 8, "holdout": 4}


def true_residual(name: str, points: np.ndarray) -> Callable[..., np.ndarray]:
    """Return the residual of a benchmark's reference solution at points (x, t)."""
    solver, problem, (x, t) = get_solver(name), get_problem(name), points.T
    spline = RectBivariateSpline(solver.t, solver.x, solver.true_field(), kx=5, ky=5)
    u, u_x, u_xx = (spline(t, x, dy=order, grid=False) for order in range(3))
    u_t = spline(t, x, dx=1, grid=False)
    return lambda **parameters: problem.residual(u=u, u_t=u_t, u_x=u_x, u_xx=u_xx, **parameters)


def frozen_truth(name: str, unit: np.ndarray) -> ta.FrozenResidual:
    """Freeze a reference solution at points given in the unit square."""
    low, high = np.array(list(get_problem(name).domain.values())).T
    points = low + unit * (high - low)
    return ta.FrozenResidual(true_residual(name, points), get_problem(name).parameters, points)


def shares_by_scale(name: str, unit: np.ndarray, leading: object, full: object) -> list[float]:
    """Percent of pointwise, then of view-weighted strength in the three bands of modes."""
    frozen = frozen_truth(name, unit)
    found = ta.spectrum(frozen, view=leading)
    pointwise = [100 * found.pointwise_strength_share(band) for band in BANDS]
    whole = ta.score(frozen, view=full).H
    weighted = [100 * found.strength[a - 1 : b].sum() / whole for a, b in BANDS]
    return [*pointwise, 100 - sum(pointwise), *weighted, 100 - sum(weighted)]


def shares_of_blind_residuals(
    generator: np.random.Generator, unit: np.ndarray, leading: object, full: object
) -> list[float]:
    """Percent of the pointwise loss of residuals without patch means that views still see."""
    patch = Patch(cells=8).bind(unit)
    cell = np.unique(patch.eigenpairs()[1].argmax(axis=1), return_inverse=True)[1]
    noise = generator.standard_normal((POINTS, 100))
    means = np.stack([np.bincount(cell, column) for column in noise.T]) / np.bincount(cell)
    noise -= means[:, cell].T
    loss = (noise**2).mean(axis=0)
    values, vectors = leading.eigenpairs(64)
    seen = {
        "full": (noise * full.apply(noise)).sum(axis=0),
        "rank 64": values @ (vectors.T @ noise) ** 2,
        "patch": (noise * patch.apply(noise)).sum(axis=0),
    }
    to_trace = 1 / (full.diagonal()[0] * POINTS)  # K / trace(K) is K / sum(K) times this
    shares = {name: float(100 * np.mean(quadratic / loss)) for name, quadratic in seen.items()}
    scaled = [shares["full"] * to_trace, shares["rank 64"] * to_trace]
    return [shares["full"], shares["rank 64"], *scaled, shares["patch"]]


def darcy_coupling(points: np.ndarray) -> float:
    """Normalised coupling of the two Darcy parameters at the truth, true field."""
    problem, (x, y) = get_problem("darcy"), points.T
    sin, cos, pi = np.sin, np.cos, np.pi
    u = sin(pi * x) * sin(2 * pi * y)
    field = {
        "u": u,
        "u_x": pi * cos(pi * x) * sin(2 * pi * y),
        "u_y": 2 * pi * sin(pi * x) * cos(2 * pi * y),
        "u_xx": -(pi**2) * u,
        "u_yy": -4 * pi**2 * u,
        **problem.coefficients(points),
    }
    found = ta.score(
        lambda lambda_0, lambda_1: problem.residual(**field, lambda_0=lambda_0, lambda_1=lambda_1),
        problem.parameters,
        Pointwise(),
        points=points,
    )
    return float(found.coupling[0, 1])


def show(label: str, values: np.ndarray, of: int = 1) -> None:
    """Print the mean over point sets and the 95% interval for a mean over `of` of them."""
    half = 1.96 * values.std(ddof=1) * np.sqrt(1 / of + 1 / len(values))
    middle = values.mean()
    print(f"{label:55} {middle:8.4g} [{middle - half:.4g}, {middle + half:.4g}]")


def main() -> None:
    """Compute and print everything."""
    by_scale: dict[str, list[list[float]]] = {name: [] for name in PROBLEMS}
    blind = []
    for seed in range(POINT_SETS):
        generator = np.random.default_rng(seed)
        unit = generator.random((POINTS, 2))
        leading, full = Gaussian(rank=256).bind(unit), Gaussian().bind(unit)
        for name in PROBLEMS:
            by_scale[name].append(shares_by_scale(name, unit, leading, full))
        blind.append(shares_of_blind_residuals(generator, unit, leading, full))
    labels = ("1-64", "65-256", "257-2000")
    for name in PROBLEMS:
        columns = np.array(by_scale[name]).T
        for block, fields in FIELDS.items():
            for label, column in zip(labels, columns[:3], strict=True):
                show(f"pointwise strength {label}, {name}, {block}", column, fields)
        for label, column in zip(labels, columns[3:], strict=True):
            show(f"view-weighted strength {label}, {name}", column)
    kinds = ("sum, full rank", "sum, rank 64", "trace, full rank", "trace, rank 64", "patch")
    for kind, column in zip(kinds, np.array(blind).T, strict=True):
        show(f"loss without patch means, {kind}", column)
    couplings = [
        darcy_coupling(np.random.default_rng(seed).random((2048, 2))) for seed in range(POINT_SETS)
    ]
    show("Darcy coupling at the truth, 2,048 points", np.array(couplings))
    grid = (np.stack(np.meshgrid(*[np.arange(400)] * 2), axis=-1).reshape(-1, 2) + 0.5) / 400
    print(f"Darcy coupling at the truth, 160,000 points: {darcy_coupling(grid):.4f}")
    # Not the first 2 percent of the time: Buckley–Leverett begins with a jump.
    unit = np.random.default_rng(0).uniform([0, 0.02], [1, 1], (100_000, 2))
    for name in PROBLEMS:
        for view in (Pointwise(), Patch(cells=8)):
            found = ta.score(frozen_truth(name, unit), view=view)
            (displacement,) = found.displacement.values()
            print(
                f"reference solution of {name}, {view.describe()}: D {displacement:+.4f}, "
                f"alignment {found.alignment:+.2f}, residual norm {found.residual_norm:.4f}"
            )


if __name__ == "__main__":
    main()
