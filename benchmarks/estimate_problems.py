"""Is `twoaxis.estimate` least squares with an exact solver, and does *trusted* mean that it is?

*Problems.* Ordinary and partial differential equations, fitted by `twoaxis.estimate` without a
solver and by least squares with one (initial values fitted where no condition gives them). For
each parameter: the distance of the two values in standard errors of the solver fit, and the ratio
of their standard errors.

*Coverage.* Some of the problems with fresh noise: the share of 95% intervals that hold the truth,
and the distance to the solver fit.

*Failures.* Wrong equations, correlated noise, discontinuous solutions, too few readings,
combinations that are not identifiable, chaos over a long time: none may be trusted.

    python benchmarks/estimate_problems.py --workers 2 --out results/estimate/problems.txt
    python benchmarks/estimate_problems.py --quick      # a few of each
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from scipy.stats import beta

import twoaxis as ta
from twoaxis.files import write_whole

FloatArray = np.ndarray
# Steps of central differences of a solver, and its tolerances.
STEP, RTOL, ATOL = 1e-4, 1e-10, 1e-11
# A value is wrong where it is more than so many reported standard errors from the truth.
WRONG = 3.0
TARGET = 0.05  # standard errors


@dataclass(frozen=True)
class Problem:
    """An equation, readings of its solution, and a solver of our own.

    Attributes
    ----------
    residual : callable
    truth, bounds : dict
        Of the parameters, all of them positive.
    predict : callable
        ``predict(parameters, free)``: what is read, as a vector, from a solver.
    observe : callable
        ``observe(vector)``: noisy values as data of `twoaxis.estimate`.
    noise : float or array
    free : array
        True initial values that are fitted as well.
    declared : bool
        Whether the noise is told.
    options : dict
        More arguments of `twoaxis.estimate`.
    delivered : dict
        Values to start from, for some parameters.
    correlation : float
        Of the noise of one reading with the one before.
    """

    residual: Callable[..., Any]
    truth: dict[str, float]
    bounds: dict[str, tuple[float, float]]
    predict: Callable[[FloatArray, FloatArray], FloatArray]
    observe: Callable[[FloatArray], Any]
    noise: Any
    free: FloatArray = field(default_factory=lambda: np.zeros(0))
    declared: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    delivered: Mapping[str, float] = field(default_factory=dict)
    correlation: float = 0.0

    def draw(self, seed: int) -> FloatArray:
        """Return readings with fresh noise."""
        clean = self.predict(np.array(list(self.truth.values())), self.free)
        white = np.random.default_rng(seed).standard_normal(clean.size)
        for k in range(1, white.size if self.correlation else 0):
            new = np.sqrt(1 - self.correlation**2) * white[k]
            white[k] = self.correlation * white[k - 1] + new
        return clean + self.noise * white


# Ordinary differential equations: rates(z, **parameters) in plain arithmetic.


def trajectory(rates, names, values, start, times) -> FloatArray:
    """Return the states at some times, the first of which is that of `start`."""
    named = dict(zip(names, map(float, values), strict=True))
    found = solve_ivp(
        lambda _, z: rates(z, **named),
        (times[0], times[-1]),
        start,
        t_eval=times,
        rtol=RTOL,
        atol=ATOL,
        method="LSODA",
    )
    if not found.success or found.y.shape[1] != len(times):
        return np.full((len(times), len(start)), np.nan)
    return found.y.T


def ode_residual(rates, size):
    """Return the residual of du/dt = rates(u)."""

    def residual(model, t, **parameters):
        u = model(t)
        z = [u[:, k] for k in range(size)]
        slopes = [torch.autograd.grad(each.sum(), t, create_graph=True)[0][:, 0] for each in z]
        found = tuple(a - b for a, b in zip(slopes, rates(z, **parameters), strict=True))
        return found if size > 1 else found[0]

    return residual


def ode(
    rates,
    truth,
    bounds,
    starts,
    times,
    noise,
    *,
    of=None,
    known=False,
    declared=True,
    fit=None,
    **options,
):
    """Return the problem of a system from one start, or from several in separate experiments.

    Parameters
    ----------
    of : sequence of int, optional
        States that are read, all by default.
    known : bool
        Whether the starts are conditions.
    fit : callable, optional
        Rates that are fitted, where they are not those of the data.
    """
    names, starts = list(truth), np.atleast_2d(np.asarray(starts, dtype=float))
    count, size = starts.shape
    of = list(range(size)) if of is None else list(of)
    sizes = np.broadcast_to(np.asarray(noise, dtype=float), len(of))
    given = None if not declared else noise

    def predict(values, free):
        begin = starts if known else free.reshape(starts.shape)
        every = [trajectory(rates, names, values, z, times)[:, of] for z in begin]
        return np.concatenate([each.ravel() for each in every])

    def observations(values):
        values = values.reshape(len(times), len(of))
        chosen = (values, of) if len(of) > 1 else (values[:, 0], of[0])
        return ta.Observations(chosen[0], at=times, noise=given, of=chosen[1])

    def observe(values):
        parts = [observations(each) for each in values.reshape(count, -1)]
        return parts[0] if count == 1 else {f"experiment {k}": v for k, v in enumerate(parts)}

    extra = {"outputs": size}
    if known:
        start = torch.tensor(starts[0])

        def conditions(model):
            return model(torch.tensor([[times[0]]], dtype=torch.float64))[0] - start

        extra["conditions"] = conditions
    if np.isscalar(bounds[0]):
        bounds = dict.fromkeys(truth, bounds)
    return Problem(
        ode_residual(fit or rates, size),
        truth,
        bounds,
        predict,
        observe,
        np.tile(sizes, len(times) * count),
        np.zeros(0) if known else starts.ravel(),
        declared,
        extra,
        **options,
    )


def lorenz(z, sigma, rho, beta):
    x, y, w = z
    return [sigma * (y - x), x * (rho - w) - y, x * y - beta * w]


def sir(z, infection, recovery):
    s, i = z
    return [-infection * s * i, infection * s * i - recovery * i]


def predation(z, a, b, c, d):
    x, y = z
    return [a * x - b * x * y, -c * y + d * x * y]


def nerve(z, a, b, c):
    v, r = z
    return [c * (v - v**3 / 3 + r), -(v - a + b * r) / c]


def van_der_pol(z, damping, stiffness):
    x, v = z
    return [v, damping * (1 - x**2) * v - stiffness * x]


def pendulum(z, gravity, friction):
    sine = torch.sin if isinstance(z[0], torch.Tensor) else np.sin
    return [z[1], -gravity * sine(z[0]) - friction * z[1]]


def growth(z, rate, capacity):
    (u,) = z
    return [rate * u * (1 - u / capacity)]


def goodwin(z, make, loss):
    x, y, w = z
    return [make / (1 + w**10) - loss * x, x - loss * y, y - loss * w]


def enzyme(z, limit, half):
    (s,) = z
    return [-limit * s / (half + s)]


LORENZ = {"sigma": 10.0, "rho": 15.0, "beta": 8 / 3}
HERD = {"a": 0.6, "b": 0.03, "c": 0.8, "d": 0.02}
NERVE = {"a": 0.2, "b": 0.2, "c": 3.0}


def ode_problems() -> dict[str, Callable[[], Problem]]:
    line = np.linspace
    return {
        "Lorenz, 25 readings": lambda: ode(
            lorenz,
            LORENZ,
            (0.2, 60.0),
            [-8.0, 7.0, 27.0],
            line(0, 3, 25),
            0.2,
            delivered=dict.fromkeys(LORENZ, 1.0),
        ),
        "SIR, I alone": lambda: ode(
            sir,
            {"infection": 1.8, "recovery": 0.6},
            (0.05, 20.0),
            [0.97, 0.02],
            line(0, 10, 30),
            0.005,
            of=[1],
        ),
        "Lotka-Volterra": lambda: ode(
            predation, HERD, (0.001, 10.0), [30.0, 5.0], line(0, 15, 40), 1.0
        ),
        "Lotka-Volterra, starts known": lambda: ode(
            predation, HERD, (0.001, 10.0), [30.0, 5.0], line(0, 15, 40), 1.0, known=True, of=[0]
        ),
        "FitzHugh-Nagumo": lambda: ode(
            nerve, NERVE, (0.01, 10.0), [-1.0, 1.0], line(0, 20, 60), 0.1
        ),
        "FitzHugh-Nagumo, V alone": lambda: ode(
            nerve, NERVE, (0.01, 10.0), [-1.0, 1.0], line(0, 20, 60), 0.1, of=[0]
        ),
        "Van der Pol, x alone": lambda: ode(
            van_der_pol,
            {"damping": 1.5, "stiffness": 1.0},
            (0.01, 20.0),
            [2.0, 0.0],
            line(0, 12, 50),
            0.1,
            of=[0],
        ),
        "Van der Pol, stiff": lambda: ode(
            van_der_pol,
            {"damping": 5.0, "stiffness": 1.0},
            (0.05, 50.0),
            [2.0, 0.0],
            line(0, 20, 80),
            0.1,
            of=[0],
        ),
        "pendulum, angle alone": lambda: ode(
            pendulum,
            {"gravity": 4.0, "friction": 0.2},
            (0.01, 50.0),
            [2.0, 0.0],
            line(0, 8, 40),
            0.05,
            of=[0],
        ),
        "logistic, noise unknown": lambda: ode(
            growth,
            {"rate": 1.5, "capacity": 2.0},
            (0.05, 20.0),
            [0.1],
            line(0, 6, 30),
            0.05,
            declared=False,
        ),
        "Goodwin oscillator": lambda: ode(
            goodwin,
            {"make": 5.0, "loss": 0.5},
            (0.05, 50.0),
            [0.3, 0.9, 1.3],
            line(0, 30, 60),
            0.1,
        ),
        "enzyme, two experiments": lambda: ode(
            enzyme,
            {"limit": 1.2, "half": 0.8},
            (0.02, 50.0),
            [[3.0], [0.7]],
            line(0, 4, 20),
            0.03,
        ),
    }


# Partial differential equations.


def collocation(count: int, low: float, high: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Chebyshev points, ascending, with their matrices of differentiation."""
    k = np.arange(count + 1)
    x = np.cos(np.pi * k / count)
    c = np.where((k == 0) | (k == count), 2.0, 1.0) * (-1.0) ** k
    gaps = x[:, None] - x
    first = np.outer(c, 1 / c) / (gaps + np.eye(count + 1))
    first -= np.diag(first.sum(axis=1))
    order, scale = np.arange(count, -1, -1), 2 / (high - low)
    first = first[np.ix_(order, order)] * scale
    return (x[order] + 1) / scale + low, first, first @ first


def interpolation(nodes: FloatArray, where: FloatArray) -> FloatArray:
    """Return the matrix of interpolation from Chebyshev points (barycentric)."""
    weights = (-1.0) ** np.arange(len(nodes))
    weights[[0, -1]] /= 2
    gaps = where[:, None] - nodes
    exact = np.abs(gaps) < 1e-14
    rows = weights / np.where(exact, 1.0, gaps)
    rows /= rows.sum(axis=1, keepdims=True)
    return np.where(exact.any(axis=1, keepdims=True), exact, rows)


def lines_solver(rates, initial, walls, low, high, places, count=48):
    """Return a solver by lines: ``solve(*parameters)`` at places (x, t).

    Parameters
    ----------
    rates : callable
        ``rates(u, u_x, u_xx, *parameters)``.
    initial : callable
        Of x.
    walls : callable
        ``walls(t, u, first)``: sets the ends of u.
    """
    x, first, second = collocation(count, low, high)
    times, row = np.unique(places[:, 1], return_inverse=True)
    rows = interpolation(x, places[:, 0])

    def solve(*parameters):
        def slope(t, inside):
            u = np.concatenate([[0.0], inside, [0.0]])
            walls(t, u, first)
            return rates(u, first @ u, second @ u, *parameters)[1:-1]

        found = solve_ivp(
            slope,
            (0.0, times[-1]),
            initial(x)[1:-1],
            t_eval=times,
            rtol=1e-8,
            atol=1e-10,
            method="LSODA",
        )
        if not found.success:
            return np.full(len(places), np.nan)
        every = np.zeros((len(times), len(x)))
        for k, t in enumerate(times):
            every[k, 1:-1] = found.y[:, k]
            walls(t, every[k], first)
        return np.einsum("ij,ij->i", rows, every[row])

    return solve


def grad(u, at):
    return torch.autograd.grad(u.sum(), at, create_graph=True)[0]


def columns(*arrays) -> torch.Tensor:
    return torch.tensor(np.stack(np.broadcast_arrays(*arrays), axis=1), dtype=torch.float64)


def scattered(count, *box, seed=11) -> FloatArray:
    low, high = np.array(box, dtype=float).T
    return np.random.default_rng(seed).uniform(low, high, (count, len(box)))


def field_problem(residual, truth, bounds, solve, places, noise, domain, conditions):
    """Return the problem of a field whose initial and boundary values are conditions."""
    return Problem(
        residual,
        truth,
        bounds if isinstance(bounds, dict) else dict.fromkeys(truth, bounds),
        lambda values, _: solve(*values),
        lambda values: ta.Observations(values, at=places, noise=noise),
        noise,
        options={"domain": domain, "conditions": conditions},
    )


def fixed_values(initial, low, high, end, start=0.0, stop=0.0, count=64):
    """Return conditions of initial values and constant values on two walls."""
    x, t = np.linspace(low, high, count), np.linspace(0, end, count)
    places = torch.cat([columns(x, 0.0), columns(low, t), columns(high, t)])
    values = np.concatenate([initial(x), np.full(count, start), np.full(count, stop)])
    target = torch.tensor(values)

    def conditions(model):
        return model(places)[:, 0] - target

    return conditions


def zero_walls(_, u, __):
    u[0] = u[-1] = 0.0


def burgers() -> Problem:
    places = scattered(120, (-1, 1), (0, 1))
    nodes, weights = np.polynomial.hermite.hermgauss(150)

    def solve(speed, viscosity):  # Cole-Hopf
        y = places[:, :1] - 2 * np.sqrt(viscosity * places[:, 1:]) * nodes
        exponent = -speed * np.cos(np.pi * y) / (2 * np.pi * viscosity)
        f = weights * np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return -(np.sin(np.pi * y) * f).sum(axis=1) / f.sum(axis=1)

    def residual(model, x, speed, viscosity):
        u = model(x)[:, 0]
        g = grad(u, x)
        return g[:, 1] + speed * u * g[:, 0] - viscosity * grad(g[:, 0], x)[:, 0]

    return field_problem(
        residual,
        {"speed": 1.0, "viscosity": 0.1 / np.pi},
        {"speed": (0.1, 10.0), "viscosity": (0.003, 1.0)},
        solve,
        places,
        0.05,
        [(-1, 1), (0, 1)],
        fixed_values(lambda x: -np.sin(np.pi * x), -1, 1, 1.0),
    )


def heat() -> Problem:
    places = scattered(80, (0, 1), (0, 1))
    x, t = places.T

    def solve(diffusion, loss):
        first = np.exp(-(diffusion * np.pi**2 + loss) * t) * np.sin(np.pi * x)
        third = np.exp(-(9 * diffusion * np.pi**2 + loss) * t) * np.sin(3 * np.pi * x)
        return first + 0.5 * third

    def residual(model, x, diffusion, loss):
        u = model(x)[:, 0]
        g = grad(u, x)
        return g[:, 1] - diffusion * grad(g[:, 0], x)[:, 0] + loss * u

    def initial(x):
        return np.sin(np.pi * x) + 0.5 * np.sin(3 * np.pi * x)

    return field_problem(
        residual,
        {"diffusion": 0.05, "loss": 0.7},
        {"diffusion": (0.002, 2.0), "loss": (0.01, 20.0)},
        solve,
        places,
        0.03,
        [(0, 1), (0, 1)],
        fixed_values(initial, 0, 1, 1.0),
    )


def transport() -> Problem:
    """Advection and diffusion: an inlet that changes in time, an outlet without a slope."""
    places = scattered(100, (0, 1), (0, 1.5))

    def walls(t, u, first):
        u[0] = np.sin(3 * t) ** 2
        u[-1] = -(first[-1, :-1] @ u[:-1]) / first[-1, -1]

    solve = lines_solver(
        lambda _, slope, bend, speed, diffusion: diffusion * bend - speed * slope,
        np.zeros_like,
        walls,
        0.0,
        1.0,
        places,
    )

    def residual(model, x, speed, diffusion):
        g = grad(model(x)[:, 0], x)
        return g[:, 1] + speed * g[:, 0] - diffusion * grad(g[:, 0], x)[:, 0]

    line, t = np.linspace(0, 1, 64), np.linspace(0, 1.5, 64)
    begin, inlet = columns(line, 0.0), columns(0.0, t)
    outlet = columns(1.0, t).requires_grad_()
    entering = torch.tensor(np.sin(3 * t) ** 2)

    def conditions(model):
        return torch.cat(
            [
                model(begin)[:, 0],
                model(inlet)[:, 0] - entering,
                grad(model(outlet)[:, 0], outlet)[:, 0],
            ]
        )

    return field_problem(
        residual,
        {"speed": 1.0, "diffusion": 0.05},
        {"speed": (0.05, 20.0), "diffusion": (0.002, 2.0)},
        solve,
        places,
        0.03,
        [(0, 1), (0, 1.5)],
        conditions,
    )


def fisher() -> Problem:
    places = scattered(100, (0, 1), (0, 1.5))

    def initial(x):
        return 0.1 * np.sin(np.pi * x) ** 2 + 0.1 * np.sin(np.pi * x)

    solve = lines_solver(
        lambda u, _, bend, diffusion, rate: diffusion * bend + rate * u * (1 - u),
        initial,
        zero_walls,
        0.0,
        1.0,
        places,
    )

    def residual(model, x, diffusion, rate):
        u = model(x)[:, 0]
        g = grad(u, x)
        return g[:, 1] - diffusion * grad(g[:, 0], x)[:, 0] - rate * u * (1 - u)

    return field_problem(
        residual,
        {"diffusion": 0.02, "rate": 4.0},
        {"diffusion": (0.001, 1.0), "rate": (0.2, 50.0)},
        solve,
        places,
        0.03,
        [(0, 1), (0, 1.5)],
        fixed_values(initial, 0, 1, 1.5),
    )


def allen_cahn() -> Problem:
    places = scattered(100, (-1, 1), (0, 1))

    def initial(x):
        return 0.5 * np.sin(np.pi * x) + 0.2 * np.sin(2 * np.pi * x)

    solve = lines_solver(
        lambda u, _, bend, diffusion, rate: diffusion * bend + rate * (u - u**3),
        initial,
        zero_walls,
        -1.0,
        1.0,
        places,
        count=96,
    )

    def residual(model, x, diffusion, rate):
        u = model(x)[:, 0]
        g = grad(u, x)
        return g[:, 1] - diffusion * grad(g[:, 0], x)[:, 0] - rate * (u - u**3)

    return field_problem(
        residual,
        {"diffusion": 0.01, "rate": 4.0},
        {"diffusion": (0.0005, 0.5), "rate": (0.2, 50.0)},
        solve,
        places,
        0.03,
        [(-1, 1), (0, 1)],
        fixed_values(initial, -1, 1, 1.0),
    )


def wave() -> Problem:
    places = scattered(80, (0, 1), (0, 2))
    x, t = places.T

    def solve(speed, damping):
        total = 0.0
        for k, size in ((1, 1.0), (2, 0.5)):
            turn = np.sqrt((k * np.pi * speed) ** 2 - damping**2 / 4 + 0j)
            along = np.cos(turn * t) + damping / 2 * np.sin(turn * t) / turn
            total = total + size * np.sin(k * np.pi * x) * np.exp(-damping * t / 2) * along.real
        return total

    def residual(model, x, speed, damping):
        g = grad(model(x)[:, 0], x)
        bend, faster = grad(g[:, 0], x)[:, 0], grad(g[:, 1], x)[:, 1]
        return faster + damping * g[:, 1] - speed**2 * bend

    line, times = np.linspace(0, 1, 64), np.linspace(0, 2, 64)
    begin = columns(line, 0.0).requires_grad_()
    ends = torch.cat([columns(0.0, times), columns(1.0, times)])
    shape = torch.tensor(np.sin(np.pi * line) + 0.5 * np.sin(2 * np.pi * line))

    def conditions(model):
        u = model(begin)[:, 0]
        return torch.cat([u - shape, grad(u, begin)[:, 1], model(ends)[:, 0]])

    return field_problem(
        residual,
        {"speed": 1.0, "damping": 0.4},
        {"speed": (0.1, 10.0), "damping": (0.01, 10.0)},
        solve,
        places,
        0.1,
        [(0, 1), (0, 2)],
        conditions,
    )


def square_walls(count=40):
    """Return conditions of zero on the edges of the unit square."""
    s = np.linspace(0, 1, count)
    edges = torch.cat([columns(s, 0.0), columns(s, 1.0), columns(0.0, s), columns(1.0, s)])
    return lambda model: model(edges)[:, 0]


def square_solver(places, count=24):
    """Return ``solve(k, k_x, k_y, f)`` of div(k grad u) = -f on the unit square, zero outside."""
    x, first, second = collocation(count, 0.0, 1.0)
    inner, eye = slice(1, -1), np.eye(count - 1)
    bend, slope = second[inner, inner], first[inner, inner]
    laplace = np.kron(bend, eye) + np.kron(eye, bend)
    along, across = np.kron(slope, eye), np.kron(eye, slope)
    grid = [each.ravel() for each in np.meshgrid(x[inner], x[inner], indexing="ij")]
    left, right = (interpolation(x, places[:, k])[:, inner] for k in (0, 1))

    def solve(k, k_x, k_y, f):
        a, b, c, source = (
            np.broadcast_to(np.asarray(g(*grid), dtype=float), grid[0].shape)[:, None]
            for g in (k, k_x, k_y, f)
        )
        u = np.linalg.solve(a * laplace + b * along + c * across, -source[:, 0])
        return np.einsum("ni,ij,nj->n", left, u.reshape(count - 1, count - 1), right)

    return solve


def darcy() -> Problem:
    places = scattered(80, (0, 1), (0, 1))
    on_square = square_solver(places)

    def solve(a, b):
        return on_square(
            lambda x, y: np.exp(a * x) + b * y**2,
            lambda x, _: a * np.exp(a * x),
            lambda _, y: 2 * b * y,
            lambda x, y: 20 * np.sin(np.pi * x) * np.sin(np.pi * y),
        )

    def residual(model, x, a, b):
        g = grad(model(x)[:, 0], x)
        permeability = torch.exp(a * x[:, 0]) + b * x[:, 1] ** 2
        flux = permeability[:, None] * g
        source = 20 * torch.sin(np.pi * x[:, 0]) * torch.sin(np.pi * x[:, 1])
        return grad(flux[:, 0], x)[:, 0] + grad(flux[:, 1], x)[:, 1] + source

    return field_problem(
        residual,
        {"a": 1.0, "b": 2.0},
        {"a": (0.05, 5.0), "b": (0.05, 50.0)},
        solve,
        places,
        0.01,
        [(0, 1), (0, 1)],
        square_walls(),
    )


def source() -> Problem:
    """A source of unknown strength and place on a plate."""
    places = scattered(60, (0, 1), (0, 1))
    on_square = square_solver(places)

    def solve(strength, across, along):
        return on_square(
            lambda *_: 1.0,
            lambda *_: 0.0,
            lambda *_: 0.0,
            lambda x, y: strength * np.exp(-20 * ((x - across) ** 2 + (y - along) ** 2)),
        )

    def residual(model, x, strength, across, along):
        g = grad(model(x)[:, 0], x)
        distance = (x[:, 0] - across) ** 2 + (x[:, 1] - along) ** 2
        laplace = grad(g[:, 0], x)[:, 0] + grad(g[:, 1], x)[:, 1]
        return laplace + strength * torch.exp(-20 * distance)

    return field_problem(
        residual,
        {"strength": 10.0, "across": 0.35, "along": 0.6},
        {"strength": (0.5, 200.0), "across": (0.05, 0.95), "along": (0.05, 0.95)},
        solve,
        places,
        0.01,
        [(0, 1), (0, 1)],
        square_walls(),
    )


def problems() -> dict[str, Callable[[], Problem]]:
    return {
        **ode_problems(),
        "Burgers": burgers,
        "heat with loss": heat,
        "advection-diffusion": transport,
        "Fisher-KPP": fisher,
        "Allen-Cahn": allen_cahn,
        "damped wave": wave,
        "Darcy, 2D": darcy,
        "Poisson source, 2D": source,
    }


# What must not be trusted.


def squared_growth(z, rate, capacity):
    (u,) = z
    return [rate * u * (1 - (u / capacity) ** 2)]


def product_decay(z, a, c):
    (u,) = z
    return [-a * c * u]


def reported(z, infection, recovery, share):
    s, j = z  # j is the share of the infected that is reported
    return [-infection * s * j / share, infection * s * j - recovery * j]


def shock() -> Problem:
    """Two values that meet: a shock that travels at half the speed of the larger one."""
    places = scattered(120, (-1, 1), (0, 1))

    def residual(model, x, speed):
        u = model(x)[:, 0]
        g = grad(u, x)
        return g[:, 1] + speed * u * g[:, 0]

    return field_problem(
        residual,
        {"speed": 1.0},
        (0.1, 10.0),
        lambda speed: np.where(places[:, 0] < speed * places[:, 1] / 2 - 0.3, 1.0, 0.0),
        places,
        0.05,
        [(-1, 1), (0, 1)],
        None,
    )


def failures() -> dict[str, Callable[[], Problem]]:
    line = np.linspace
    return {
        "wrong equation: logistic with a square": lambda: ode(
            growth,
            {"rate": 1.5, "capacity": 1.0},
            (0.05, 20.0),
            [0.1],
            line(0, 6, 40),
            0.01,
            fit=squared_growth,
        ),
        "wrong equation: pendulum without its sine": lambda: ode(
            pendulum,
            {"gravity": 4.0, "friction": 0.2},
            (0.01, 50.0),
            [2.5, 0.0],
            line(0, 6, 40),
            0.07,
            of=[0],
            fit=lambda z, gravity, friction: [z[1], -gravity * z[0] - friction * z[1]],
        ),
        "correlated noise, AR(1) 0.9": lambda: ode(
            growth,
            {"rate": 1.5, "capacity": 1.0},
            (0.05, 20.0),
            [0.1],
            line(0, 6, 40),
            0.03,
            correlation=0.9,
        ),
        "discontinuous: a shock of Burgers without viscosity": shock,
        "too few: Lotka-Volterra at 3 times": lambda: ode(
            predation, HERD, (0.001, 10.0), [30.0, 5.0], line(0, 8, 3), 1.0
        ),
        "not identifiable: Lotka-Volterra, prey alone": lambda: ode(
            predation, HERD, (0.001, 10.0), [30.0, 5.0], line(0, 15, 40), 1.0, of=[0]
        ),
        "not identifiable: a c": lambda: ode(
            product_decay, {"a": 1.2, "c": 0.7}, (0.01, 20.0), [2.0], line(0, 3, 30), 0.03
        ),
        "not identifiable: SIR, share reported": lambda: ode(
            reported,
            {"infection": 1.8, "recovery": 0.6, "share": 0.4},
            (0.02, 20.0),
            [0.97, 0.008],
            line(0, 10, 40),
            0.002,
            of=[1],
        ),
        "chaos: Lorenz on [0, 30], 60 readings": lambda: ode(
            lorenz,
            {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3},
            (0.2, 60.0),
            [-8.0, 7.0, 27.0],
            line(0, 30, 60),
            0.5,
        ),
    }


# Fits.


@dataclass(frozen=True)
class Fit:
    """Logarithms of parameters with standard errors."""

    logs: FloatArray
    errors: FloatArray
    done: bool = True


def solver_fit(problem: Problem, data: FloatArray) -> Fit:
    """Return least squares with a solver, from the truth."""
    count = len(problem.truth)
    begin = np.concatenate([np.log(list(problem.truth.values())), problem.free])
    steps = STEP * np.concatenate([np.ones(count), np.maximum(np.abs(problem.free), 0.1)])

    def misfit(q):
        found = problem.predict(np.exp(q[:count]), q[count:])
        return np.nan_to_num((found - data) / problem.noise, nan=1e3)

    def slopes(q):
        found = [
            (misfit(q + h * e) - misfit(q - h * e)) / (2 * h)
            for h, e in zip(steps, np.eye(q.size), strict=True)
        ]
        return np.stack(found, axis=1)

    end = least_squares(misfit, begin, slopes, x_scale="jac", xtol=1e-10, ftol=1e-13, max_nfev=40)
    covariance = np.linalg.inv(end.jac.T @ end.jac)
    errors = np.sqrt(np.diag(covariance))[:count]
    if not problem.declared:
        errors = errors * np.sqrt(2 * end.cost / (data.size - begin.size))
    return Fit(end.x[:count], errors, end.status > 0)


def estimated(problem: Problem, data: FloatArray, seed: int = 0) -> ta.Refinement:
    parameters = {
        name: ta.Parameter(bounds=bounds, delivered=problem.delivered.get(name))
        for name, bounds in problem.bounds.items()
    }
    return ta.estimate(
        problem.residual,
        parameters,
        problem.observe(data),
        seed=seed,
        progress=False,
        **problem.options,
    )


def compared(task: tuple[str, int]) -> dict[str, Any]:
    """Fit a problem in both ways."""
    name, seed = task
    torch.set_num_threads(1)
    problem = {**problems(), **failures()}[name]()
    data = problem.draw(seed)
    began = time.process_time()
    try:
        found = estimated(problem, data)
    except Exception as error:  # a table of failures shows them
        return {"name": name, "error": f"{type(error).__name__}: {error}", "trusted": False}
    seconds = time.process_time() - began
    values = np.array(list(found.values.values()))
    errors = np.array(list(found.standard_error.values())) / values
    truth = np.array(list(problem.truth.values()))
    ends = np.array(list(found.interval.values()))
    row = {
        "name": name,
        "values": values,
        "errors": errors,
        "held": (ends[:, 0] <= truth) & (truth <= ends[:, 1]),
        "off": np.abs(np.log(values / truth)) / errors,
        "trusted": found.trusted,
        "status": found.status,
        "codes": [m.code for m in found.messages if m.severity == "warning"],
        "how": str(found.data.attrs["how"]),
        "seconds": seconds,
    }
    if name in failures():
        return row
    began = time.process_time()
    solver = solver_fit(problem, data)
    return row | {
        "distance": (np.log(values) - solver.logs) / solver.errors,
        "ratio": errors / solver.errors,
        "solver_held": np.abs(np.log(truth) - solver.logs) <= 1.96 * solver.errors,
        "solver_done": solver.done,
        "solver_seconds": time.process_time() - began,
    }


def share(count: int, total: int) -> str:
    """Return a share with its 95% interval of Clopper and Pearson."""
    low = beta.ppf(0.025, count, total - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, total - count) if count < total else 1.0
    return f"{count} of {total} ({100 * count / total:.0f}% [{100 * low:.0f}, {100 * high:.0f}])"


def problem_table(rows) -> list[str]:
    head = f"{'problem':30s} {'parameter':>10s} {'value':>9s} {'+-':>9s} "
    head += f"{'distance':>9s} {'ratio':>6s}  trusted  CPU s  solver s  field"
    lines = ["Problems: distance to the solver fit in its standard errors", head]
    for row in rows:
        if "error" in row:
            lines.append(f"{row['name']:30s} {row['error']}")
            continue
        known = list(problems()[row["name"]]().truth)
        for k, name in enumerate(known):
            value, error = row["values"][k], row["errors"][k] * row["values"][k]
            line = f"{row['name'] if k == 0 else '':30s} {name:>10s} {value:9.5f} {error:9.5f} "
            line += f"{row['distance'][k]:+9.4f} {row['ratio'][k]:6.3f}"
            if k == 0:
                line += f"  {row['trusted']!s:7s}  {row['seconds']:5.1f}  "
                line += f"{row['solver_seconds']:8.1f}  {row['how'].removeprefix('a field of ')}"
                line += "" if row["solver_done"] else "; the solver fit did not converge"
                line += "".join(f"; {code}" for code in row["codes"])
            lines.append(line)
    usable = [row for row in rows if "distance" in row]
    most = max((float(np.abs(row["distance"]).max()) for row in usable), default=np.nan)
    near = sum(bool((np.abs(row["distance"]) < TARGET).all()) for row in usable)
    lines.append(
        f"largest distance {most:.4f}; below {TARGET} in {near} of {len(rows)} problems; "
        f"trusted: {sum(row['trusted'] for row in rows)}"
    )
    return lines


def coverage_table(rows) -> list[str]:
    lines = ["Coverage: 95% intervals over draws of the noise"]
    for name in dict.fromkeys(row["name"] for row in rows):
        some = [row for row in rows if row["name"] == name and "error" not in row]
        lines += [
            f"{name}:",
            f"  trusted            {share(sum(r['trusted'] for r in some), len(some))}",
        ]
        for k, parameter in enumerate(problems()[name]().truth):
            count = share(sum(r["held"][k] for r in some), len(some))
            own = sum(r["solver_held"][k] for r in some)
            away = np.abs([r["distance"][k] for r in some])
            lines.append(
                f"  {parameter:18s} truth held {count}; by the solver fit {own}; distance to it: "
                f"mean {away.mean():.4f}, median {np.median(away):.4f}, largest {away.max():.4f}"
            )
        why = Counter(code for row in some for code in row["codes"])
        lines += [f"  {code:26s} {number}" for code, number in why.most_common()]
        strayed = [r for r in some if (np.abs(r["distance"]) > 1).any()]
        told = sum(r["trusted"] for r in strayed)
        lines.append(f"  more than one standard error away: {len(strayed)}, {told} of them trusted")
        lines.append(f"  {np.mean([r['seconds'] for r in some]):.1f} s of CPU each")
    return lines


def failure_table(rows) -> list[str]:
    lines = ["Failures: none may be trusted"]
    for name in dict.fromkeys(row["name"] for row in rows):
        some = [row for row in rows if row["name"] == name]
        wrong = sum(bool((row["off"] > WRONG).any()) for row in some if "off" in row)
        lines.append(
            f"{name}: trusted {sum(r['trusted'] for r in some)} of {len(some)}; off by more than "
            f"{WRONG:.0f} standard errors in {wrong}"
        )
        why = Counter(code for row in some for code in row.get("codes", [row.get("error")]))
        lines += [f"  {code:26s} {number}" for code, number in why.most_common()]
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--draws", type=int, default=100, help="of the noise, for coverage")
    options.add_argument("--fails", type=int, default=5, help="draws of each failure")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--only", nargs="*", help="problems whose names contain one of these")
    options.add_argument("--quick", action="store_true", help="a few of each")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    names, draws, fails = list(problems()), given.draws, given.fails
    covered = ["SIR, I alone", "FitzHugh-Nagumo", "heat with loss"]
    wrong = list(failures())
    if given.quick:
        names, draws, fails = ["SIR, I alone", "Lotka-Volterra", "heat with loss"], 2, 1
        covered, wrong = covered[:1], wrong[:3]
    if given.only is not None:
        chosen = partial(_contains_one, given.only)
        names, covered, wrong = (list(filter(chosen, some)) for some in (names, covered, wrong))
    began = time.perf_counter()
    groups = (
        [(name, 0) for name in names],
        [(name, 1000 + k) for name in covered for k in range(draws)],
        [(name, k) for name in wrong for k in range(fails)],
    )
    with ProcessPoolExecutor(given.workers, mp_context=get_context("fork")) as pool:
        rows = []
        for row in pool.map(compared, [task for group in groups for task in group]):
            rows.append(row)
            found = row.get("error", f"trusted: {row['trusted']}, {row.get('distance', '')}")
            passed = time.perf_counter() - began
            print(f"{passed:6.0f} s  {row['name']}: {found}", file=sys.stderr, flush=True)
    ends = np.cumsum([0, *map(len, groups)])
    lines = ["command: python benchmarks/estimate_problems.py", ""]
    tables = (problem_table, coverage_table, failure_table)
    for table, first, last in zip(tables, ends, ends[1:], strict=False):
        if first < last:
            lines += [*table(rows[first:last]), ""]
    lines.append(
        f"{len(rows)} estimates in {time.perf_counter() - began:.0f} s, {given.workers} workers on "
        f"{os.cpu_count()} cores"
    )
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if given.out is not None:
        write_whole(given.out, lambda path: path.write_text(text))


def _contains_one(parts, name: str) -> bool:
    return any(part in name for part in parts)


if __name__ == "__main__":
    main()
