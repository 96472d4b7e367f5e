"""Refinement on splines beside refinement of the network's weights: time, and what comes out.

*Old* continues the network, Gauss and Newton in its weights (``continuation=``). *New* puts a field
of splines in its place, as `twoaxis.refine` does by default. Both start from the same trained model
and run alternately in one process. Parts:

* `speed`: reference sets of NIST (StRD) as differential equations, with their certified values;
  lynx and hare beside a least-squares fit with a solver; the examples of `refine` beside a solver,
  an exact solution or the truth. Distances are in standard errors.
* `full`: the inverse problem of Raissi, Perdikaris and Karniadakis with 2,000 readings.
* `scatter`: other networks and other starts of the parameters; how far the answers are apart.
* `sizes`: networks of 2 x 16, 5 x 100 and 8 x 200 for one problem, each in a process of its own.
* `threads`: default threads beside one thread.
* `rivals`: the time until the parameters are, and stay, within half a standard error of the
  refined ones: from the same network, jointly trained on with Adam, with L-BFGS and, where
  ``pytorch_optimizer`` is installed, with SOAP, each with the usual weight of the equation and with
  100 times as much.
* `weak`: PySINDy's weak form beside `twoaxis.estimate` on dense data of the Lorenz system.

    python benchmarks/refine_speed.py --out results/refine/speed.txt
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/refine_speed.py --only speed
    python benchmarks/refine_speed.py --quick
    python benchmarks/refine_speed.py --only rivals --cap 300
    python benchmarks/refine_speed.py --only weak --pysindy ENVIRONMENT/bin/python
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import twoaxis as ta
from twoaxis.files import write_whole

FloatArray = NDArray[np.float64]
# `twoaxis.remedies.refine` is the function of this name.
OLD = importlib.import_module("twoaxis.remedies.refine.of_model").OF_A_MODEL
EXAMPLES = Path(__file__).parents[1] / "examples"
THREADS = torch.get_num_threads()
THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Model(NamedTuple):
    """A trained model, its readings, and what is known of its parameters."""

    name: str
    frozen: Any
    data: Any
    noise: float | None
    known: dict[str, tuple[float, float]]  # reference value and standard error (nan: none)
    reference: str
    dtype: Any = torch.float32  # that the program has as its default


class Took(NamedTuple):
    """A refinement and its seconds."""

    found: Any
    cpu: float
    wall: float


def refined(model: Model, continuation: Any = None) -> Took:
    torch.set_num_threads(THREADS)  # examples choose one
    kind = torch.get_default_dtype()
    torch.set_default_dtype(model.dtype)
    cpu, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ta.refine(
            model.frozen, model.data, noise=model.noise, continuation=continuation, progress=False
        )
    took = Took(found, time.process_time() - cpu, time.perf_counter() - wall)
    torch.set_default_dtype(kind)
    return took


# ---------------------------------------------------------------- models


class Net(torch.nn.Module):
    """A network of coordinates scaled to [-1, 1], whose outputs are scaled as well."""

    def __init__(
        self, low: Sequence[float], high: Sequence[float], size: FloatArray, widths: Sequence[int]
    ) -> None:
        super().__init__()
        self.low, self.high, self.size = map(torch.as_tensor, (low, high, size))
        sizes, layers = [len(self.low), *widths, len(self.size)], []
        for a, b in pairwise(sizes):
            layers += [torch.nn.Linear(a, b, dtype=torch.float64), torch.nn.Tanh()]
        self.net = torch.nn.Sequential(*layers[:-1])

    def forward(self, x: Any) -> Any:
        """Return the field, (N, outputs)."""
        return self.size * (0.5 + self.net(2 * (x - self.low) / (self.high - self.low) - 1))


def slope(u: Any, x: Any) -> Any:
    return torch.autograd.grad(u.sum(), x, create_graph=True)[0]


@dataclass(frozen=True)
class Reference:
    """A reference set of NIST as a differential equation."""

    x: Sequence[float]
    y: Sequence[float]
    rate: Callable[..., Any]
    bounds: dict[str, tuple[float, float]]
    start: Sequence[float]
    certified: Sequence[float]
    errors: Sequence[float]
    from_zero: bool = False
    linear: tuple[str, ...] = ()


ECKERLE = """400 .0001575 405 .0001699 410 .000235 415 .0003102 420 .0004917 425 .000871
430 .0017418 435 .00464 436.5 .0065895 438 .0097302 439.5 .0149002 441 .023731 442.5 .0401683
444 .0712559 445.5 .1264458 447 .2073413 448.5 .2902366 450 .3445623 451.5 .3698049 453 .3668534
454.5 .3106727 456 .2078154 457.5 .1164354 459 .0616764 460.5 .03372 462 .0194023 463.5 .0117831
465 .0074357 470 .0022732 475 .00088 480 .0004579 485 .0002345 490 .0001586 495 .0001143
500 .000071"""
ECKERLE_X, ECKERLE_Y = np.array(ECKERLE.split(), float).reshape(-1, 2).T
NIST = {
    "Misra1a": Reference(
        [77.6, 114.9, 141.1, 190.8, 239.9, 289, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1,
         760],
        [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.4, 75.47,
         81.78],
        lambda _, y, b1, b2: b2 * (b1 - y),
        {"b1": (20, 2000), "b2": (5e-5, 5e-3)},
        (200, 6e-4),
        (238.94212918, 5.5015643181e-4),
        (2.7070075241, 7.2668688436e-6),
        from_zero=True,
    ),
    "BoxBOD": Reference(
        [1, 2, 3, 5, 7, 10],
        [109, 149, 149, 191, 213, 224],
        lambda _, y, b1, b2: b2 * (b1 - y),
        {"b1": (50, 800), "b2": (0.05, 5)},
        (150, 0.8),
        (213.80940889, 0.54723748542),
        (12.354515176, 0.10455993237),
        from_zero=True,
    ),
    "Rat42": Reference(
        [9, 14, 21, 28, 42, 57, 63, 70, 79],
        [8.93, 10.8, 18.59, 22.33, 39.35, 56.11, 61.73, 64.62, 67.08],
        lambda _, y, b1, b3: b3 * y * (1 - y / b1),
        {"b1": (20, 300), "b3": (0.005, 0.7)},
        (60, 0.09),
        (72.462237576, 0.067359200066),
        (1.7340283401, 0.0034465663249),
    ),
    "Rat43": Reference(
        range(1, 16),
        [16.08, 33.83, 65.8, 97.2, 191.55, 326.2, 386.87, 520.53, 590.03, 651.92, 724.93, 699.56,
         689.96, 637.56, 717.41],
        lambda _, y, b1, b3, b4: b3 / b4 * y * (1 - (torch.clamp(y, min=1e-9) / b1) ** b4),
        {"b1": (200, 2000), "b3": (0.05, 5), "b4": (0.1, 10)},
        (650, 0.6, 1.0),
        (699.64151270, 0.75962938329, 1.2792483859),
        (16.302297817, 0.19566123451, 0.68761936385),
    ),
    "DanWood": Reference(
        [1.309, 1.471, 1.490, 1.565, 1.611, 1.680],
        [2.138, 3.421, 3.597, 4.340, 4.882, 5.660],
        lambda x, y, b2: b2 * y / x,
        {"b2": (0.5, 20)},
        (3,),
        (3.8604055871,),
        (0.051726610913,),
    ),
    "Eckerle4": Reference(
        ECKERLE_X,
        ECKERLE_Y,
        lambda x, y, b2, b3: -(x - b3) * y / b2**2,
        {"b2": (1, 20), "b3": (430, 470)},
        (5, 450),
        (4.0888321754, 451.54121844),
        (0.046803020753, 0.046800518816),
        linear=("b3",),
    ),
}  # fmt: skip


def trained(
    net: Net,
    equation: Callable[..., Any],
    conditions: Callable[..., Any] | None,
    known: dict[str, tuple[float, tuple[float, float]]],
    linear: Sequence[str],
    points: Any,
    seen: Any,
    readings: Any,
    steps: int,
) -> dict[str, ta.Parameter]:
    """Train a network and its parameters together, as usual, and return these."""
    logs = [
        torch.tensor(v if k in linear else np.log(v), dtype=torch.float64, requires_grad=True)
        for k, (v, _) in known.items()
    ]

    def values() -> dict[str, Any]:
        pairs = zip(known, logs, strict=True)
        return {k: q if k in linear else q.exp() for k, q in pairs}

    optimizer = torch.optim.Adam([*net.parameters(), *logs], lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (((net(seen) - readings) / net.size) ** 2).mean()
        found = equation(net, points.requires_grad_(True), **values())
        for each in found if isinstance(found, tuple) else (found,):
            loss = loss + 0.01 * (each**2).mean()
        if conditions is not None:
            loss = loss + (conditions(net) ** 2).mean()
        loss.backward()
        optimizer.step()
    return {
        k: ta.Parameter(
            delivered=float(np.clip(v.item(), 1.001 * b[0], 0.999 * b[1])),
            bounds=b,
            coordinate="linear" if k in linear else "log",
        )
        for (k, v), (_, b) in zip(values().items(), known.values(), strict=True)
    }


def nist(name: str, seed: int = 0, steps: int = 1000) -> Model:
    case = NIST[name]
    torch.manual_seed(seed)
    shift = np.random.default_rng(seed).uniform(-0.4, 0.4, len(case.start)) * (seed > 0)
    x, y = np.array(case.x, float), np.array(case.y, float)
    low, high, size = 0.0 if case.from_zero else x.min(), x.max(), y.max()
    net = Net([low], [high], np.array([size]), [16, 16])

    def equation(model: Any, x: Any, **known: Any) -> Any:
        u = model(x)
        return (slope(u, x) - case.rate(x, u, **known))[:, 0] * (high - low) / size

    def start(model: Any) -> Any:
        return model(torch.zeros(1, 1, dtype=torch.float64)) / size

    points = torch.linspace(low, high, 120, dtype=torch.float64)[:, None]
    starts = [
        v + 10 * s if k in case.linear else v * np.exp(s)
        for (k, v), s in zip(zip(case.bounds, case.start, strict=True), shift, strict=True)
    ]
    known = {k: (v, b) for v, (k, b) in zip(starts, case.bounds.items(), strict=True)}
    conditions = start if case.from_zero else None
    seen, readings = torch.tensor(x)[:, None], torch.tensor(y)[:, None]
    parameters = trained(
        net, equation, conditions, known, case.linear, points, seen, readings, steps
    )
    frozen = ta.from_torch(
        net, equation, parameters, points=points, observed=seen, conditions=conditions
    )
    certified = zip(case.bounds, zip(case.certified, case.errors, strict=True), strict=True)
    return Model(name, frozen, y, None, dict(certified), "certified")


HARE = [30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1, 40.3, 57, 76.6, 52.3, 19.5,
        11.2, 7.6, 14.6, 16.2, 24.7]  # fmt: skip
LYNX = [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4, 8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8,
        9.7, 10.1, 8.6]  # fmt: skip


def least_squares_of(
    misfit: Callable[[FloatArray], FloatArray], first: FloatArray, noise: float | None
) -> tuple[FloatArray, FloatArray]:
    """Return the minimum and its standard errors."""
    found = least_squares(misfit, first, x_scale=np.maximum(np.abs(first), 0.1), xtol=1e-12)
    rest = noise or np.sqrt(2 * found.cost / (len(found.fun) - len(first)))
    return found.x, rest * np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac)))


def lynx_and_hare(seed: int = 0, steps: int = 3000) -> Model:
    torch.manual_seed(seed)
    years, data = np.arange(21.0), np.log(np.column_stack([HARE, LYNX]))
    names, start = ("alpha", "beta", "gamma", "delta"), (0.5, 0.03, 0.8, 0.02)
    net = Net([0.0], [20.0], data.mean(axis=0), [16, 16])

    def equation(model: Any, t: Any, alpha: Any, beta: Any, gamma: Any, delta: Any) -> Any:
        p, q = model(t).unbind(dim=1)
        return (
            slope(p, t)[:, 0] - alpha + beta * q.exp(),
            slope(q, t)[:, 0] + gamma - delta * p.exp(),
        )

    points = torch.linspace(0, 20, 200, dtype=torch.float64)[:, None]
    bounds = [(v / 10, 10 * v) for v in start]
    known = {k: (v, b) for k, v, b in zip(names, start, bounds, strict=True)}
    seen, readings = torch.tensor(years)[:, None], torch.tensor(data)
    parameters = trained(net, equation, None, known, (), points, seen, readings, steps)
    frozen = ta.from_torch(net, equation, parameters, points=points, observed=seen)

    def misfit(p: FloatArray) -> FloatArray:
        a, b, g, d = np.exp(p[:4])

        def rates(_: float, z: FloatArray) -> list[float]:
            return [a - b * np.exp(z[1]), -g + d * np.exp(z[0])]

        found = solve_ivp(rates, (0, 20), p[4:], t_eval=years, rtol=1e-9, atol=1e-10)
        return (found.y.T - data).ravel()

    best, errors = least_squares_of(misfit, np.array([*np.log(start), *data[0]]), None)
    values = np.exp(best[:4])
    pairs = zip(values, values * errors[:4], strict=True)
    return Model("lynx-hare", frozen, data, None, dict(zip(names, pairs, strict=True)), "solver")


class ReachedError(Exception):
    """The example has come to its refinement."""


def example(file: str, *arguments: str, edits: Sequence[tuple[str, str]] = ()) -> Model:
    """Run an example up to its refinement, and return what it would refine."""
    source = (EXAMPLES / file).read_text()
    for before, after in edits:
        assert before in source, before
        source = source.replace(before, after)
    taken: dict[str, Any] = {}

    def taking(frozen: Any, data: Any = None, **options: Any) -> None:
        taken.update(frozen=frozen, data=data, noise=options.get("noise"))
        raise ReachedError

    refine, argv, kind = ta.refine, sys.argv, torch.get_default_dtype()
    scope: dict[str, Any] = {"__name__": "__main__"}
    try:
        ta.refine, sys.argv = taking, [file, *arguments]  # type: ignore[assignment]
        exec(compile(source, file, "exec"), scope)
    except ReachedError:
        pass
    finally:
        ta.refine, sys.argv, used = refine, argv, torch.get_default_dtype()
        torch.set_default_dtype(kind)
    known, reference = KNOWN[file](scope)
    name = " ".join([file.removesuffix(".py"), *arguments])
    return Model(name, taken["frozen"], taken["data"], taken["noise"], known, reference, used)


Known = tuple[dict[str, tuple[float, float]], str]


def known_of_epidemic(scope: dict[str, Any]) -> Known:
    noise, start, days, data = (scope[k] for k in ("noise", "start", "days", "data"))

    def misfit(p: FloatArray) -> FloatArray:
        found = solve_ivp(
            scope["rates"], (0, 60), start, t_eval=days, args=tuple(p), rtol=1e-10, atol=1e-12
        )
        return (found.y.T - data).ravel()

    best, errors = least_squares_of(misfit, np.array(scope["truth"]), noise)
    return dict(zip(("beta", "gamma"), zip(best, errors, strict=True), strict=True)), "solver"


def known_of_stream(scope: dict[str, Any]) -> Known:
    def misfit(p: FloatArray) -> FloatArray:
        return np.asarray(scope["cloud"](scope["sites"], *p) - scope["readings"])

    best, errors = least_squares_of(misfit, np.array([0.5, 0.05]), scope["noise"])
    pairs = zip(best, errors, strict=True)
    return dict(zip(("v", "D"), pairs, strict=True)), "exact solution, ends known"


def known_of_burgers(scope: dict[str, Any]) -> Known:
    nan = float("nan")
    return {"lambda_1": (1.0, nan), "lambda_2": (scope["viscosity"], nan)}, "truth"


KNOWN = {
    "refine.py": known_of_epidemic,
    "refine_deepxde.py": known_of_stream,
    "refine_burgers.py": known_of_burgers,
}


def burgers(seed: int = 0, net: str | None = None, steps: int = 600) -> Model:
    """The smoother case of the Burgers example, with another network or start."""
    edits = [("torch.manual_seed(0)", f"torch.manual_seed({seed})")]
    if seed:
        first, second = ((0.5, -4.0), (2.0, -3.0))[seed % 2]
        edits += [("torch.tensor(0.0, ", f"torch.tensor({first}, ")]
        edits += [("torch.tensor(-6.0, ", f"torch.tensor({second}, ")]
    if net:
        edits += [("(3, 600, 5e-3, 1900)", f"({net.split('x')[0]}, {steps}, 1e-3, 1900)")]
        edits += [("width = 20", f"width = {net.split('x')[1]}")]
    return example("refine_burgers.py", edits=edits)


# ---------------------------------------------------------------- parts


def row(model: Model, runs: dict[str, list[Took]]) -> list[str]:
    """Return times and distances of one model."""
    cpu, wall = (
        {k: float(np.median([getattr(t, what) for t in v])) for k, v in runs.items()}
        for what in ("cpu", "wall")
    )
    times = [f"{k} {cpu[k]:.2f} s CPU, {wall[k]:.2f} s wall" for k in runs]
    both = len(runs) == 2
    ratio = f"; old / new {cpu['old'] / cpu['new']:.1f} CPU, {wall['old'] / wall['new']:.1f} wall"
    lines = [f"{model.name} ({model.reference}): {'; '.join(times)}{ratio if both else ''}"]
    for name, (value, error) in model.known.items():
        parts = []
        for k, took in runs.items():
            found = took[0].found
            own = float(found.standard_error[name])
            unit = own if np.isnan(error) else error
            off = (float(found.values[name]) - value) / unit
            of_error = "" if np.isnan(error) else f", standard error {own / error:.4f} of it"
            parts.append(f"{k} {off:+.4f}{of_error}")
        if both:
            new, old = (runs[k][0].found for k in ("new", "old"))
            apart = float(new.values[name] - old.values[name]) / float(old.standard_error[name])
            share = float(new.standard_error[name] / old.standard_error[name])
            parts.append(f"new - old {apart:+.4f}, standard errors new / old {share:.4f}")
        lines.append(f"  {name}: {'; '.join(parts)}")
    said = {k: (v[0].found.trusted, sorted(m.code for m in v[0].found.messages))
            for k, v in runs.items()}  # fmt: skip
    lines.append("  " + "; ".join(f"{k} trusted: {t} {' '.join(c)}" for k, (t, c) in said.items()))
    return lines


def speed(given: argparse.Namespace) -> Iterator[str]:
    makers: list[Callable[[], Model]] = [partial(nist, name) for name in NIST]
    makers += [lynx_and_hare, *(partial(example, file) for file in KNOWN)]
    if given.quick:
        makers = [partial(nist, "DanWood", steps=200)]
    total = {k: np.zeros(2) for k in ("old", "new")}
    for make in makers:
        model = make()
        runs: dict[str, list[Took]] = {"old": [], "new": []}
        for _ in range(1 if given.quick else given.repeats):
            runs["old"].append(refined(model, OLD))
            runs["new"].append(refined(model))
        for k, each in runs.items():
            total[k] += np.median([(t.cpu, t.wall) for t in each], axis=0)
        yield from row(model, runs)
    cpu, wall = total["old"] / total["new"]
    seconds = [f"{k} {v[0]:.1f} s CPU, {v[1]:.1f} s wall" for k, v in total.items()]
    yield f"sum: {'; '.join(seconds)}; old / new {cpu:.1f} CPU, {wall:.1f} wall"


def full(given: argparse.Namespace) -> Iterator[str]:
    model = example("refine_burgers.py", "--full")
    runs = {"new": [refined(model)]}
    if given.old:
        runs = {"old": [refined(model, OLD)], **runs}
    yield from row(model, runs)


def scatter(given: argparse.Namespace) -> Iterator[str]:
    seeds = range(2 if given.quick else 3)
    families: dict[str, Callable[[int], Model]] = {
        name: partial(nist, name, steps=300) for name in NIST
    }
    families["burgers"] = burgers
    if given.quick:
        families = {"DanWood": families["DanWood"]}
    most = 0.0
    for name, make in families.items():
        models = [make(seed) for seed in seeds]
        found = [refined(model).found for model in models]
        for key in found[0].values:
            values = np.array([float(each.values[key]) for each in found])
            errors = np.array([float(each.standard_error[key]) for each in found])
            starts = [model.frozen.parameters[key].delivered for model in models]
            apart = float(np.ptp(values) / errors.mean())
            most = max(most, apart)
            shown = " ".join(f"{each:.4g}" for each in starts)
            yield (
                f"{name} {key}: delivered {shown}; refined {values[0]:.6g}, most apart "
                f"{apart:.2g} standard errors; these differ by {np.ptp(errors) / errors[0]:.2g}"
            )
    yield f"most apart: {most:.2g} standard errors"


def alone(name: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--child", name, *arguments]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def child(name: str, way: str = "new", net: str = "") -> None:
    """Refine once, and print time and memory."""
    model = {
        "burgers": lambda: burgers(net=net, steps=20),
        "Misra1a": lambda: nist("Misra1a"),
        "epidemic": lambda: example("refine.py"),
    }[name]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    took = refined(model, OLD if way == "old" else None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    out = {
        "cpu": took.cpu,
        "wall": took.wall,
        "before": before,
        "peak": peak,
        "values": {k: float(v) for k, v in took.found.values.items()},
        "errors": {k: float(v) for k, v in took.found.standard_error.items()},
    }
    print(json.dumps(out))


def sizes(given: argparse.Namespace) -> Iterator[str]:
    first = None
    for net in ("2x16", "5x100", "8x200")[: 1 if given.quick else 3]:
        rounds = [alone("burgers", "new", net) for _ in range(1 if given.quick else 2)]
        found = min(rounds, key=lambda each: each["cpu"])
        first = first or found
        parts = []
        for k, v in found["values"].items():
            error = found["errors"][k]
            parts.append(
                f"{k} {v:.6g} +- {error:.4g} ({(v - first['values'][k]) / error:+.3f} standard "
                f"errors from the first, {error / first['errors'][k]:.4f} of its)"
            )
        yield (
            f"{net}: {found['cpu']:.2f} s CPU ({found['cpu'] / first['cpu']:.2f}), "
            f"{found['wall']:.2f} s wall, peak {found['peak']:.0f} MB "
            f"({found['before']:.0f} MB before refinement); {'; '.join(parts)}"
        )


def threads(given: argparse.Namespace) -> Iterator[str]:
    one = dict.fromkeys(THREAD_LIMITS, "1")
    for name in ("Misra1a",) if given.quick else ("Misra1a", "epidemic"):
        for way in ("new", "old"):
            rounds = range(1 if given.quick else 2)
            every = [(alone(name, way), alone(name, way, **one)) for _ in rounds]
            parts = []
            for k, label in enumerate(("default threads", "one thread")):
                cpu, wall = (min(each[k][what] for each in every) for what in ("cpu", "wall"))
                parts.append(f"{label} {cpu:.2f} s CPU, {wall:.2f} s wall")
            yield f"{name}, {way}: {'; '.join(parts)}"


# ---------------------------------------------------------------- rivals


class Joint(NamedTuple):
    """A joint training, to be continued."""

    name: str
    net: Any
    values: dict[str, Any]  # tensors that move, as logarithms or as they are
    linear: tuple[str, ...]
    loss: Callable[[float], Any]  # of the weight of the equation
    model: Model


def joint_burgers() -> Joint:
    scope: dict[str, Any] = {}
    source = (EXAMPLES / "refine_burgers.py").read_text().split("# The refinement.")[0]
    argv, sys.argv = sys.argv, ["refine_burgers.py"]
    exec(compile(source, "refine_burgers.py", "exec"), scope)
    sys.argv = argv
    model = burgers()
    net, first, log = scope["net"], scope["first"], scope["logarithm"]
    seen, readings = scope["seen"], scope["readings"]
    points = torch.tensor(scope["points"], dtype=torch.float32).requires_grad_(True)

    def loss(weight: float) -> Any:
        rest = scope["burgers"](net, points, first, log.exp())
        return ((net(seen) - readings) ** 2).mean() + weight * (rest**2).mean()

    return Joint("burgers", net, {"lambda_1": first, "lambda_2": log}, ("lambda_1",), loss, model)


def oscillator() -> Joint:
    """U'' + c u' + k u = 0, 40 readings of a damped oscillation, its start unknown."""
    torch.manual_seed(0)
    t = np.linspace(0, 6, 40)

    def solution(p: FloatArray) -> FloatArray:
        c, k, a, b = p
        w = np.sqrt(k - c * c / 4)
        return np.asarray(np.exp(-c * t / 2) * (a * np.cos(w * t) + b * np.sin(w * t)))

    noise = 0.03 * np.random.default_rng(0).standard_normal(40)
    data = solution(np.array([0.4, 9.0, 1.0, 0.0])) + noise
    net = Net([0.0], [6.0], np.array([1.0]), [32, 32])
    points = torch.linspace(0, 6, 120, dtype=torch.float64)[:, None].requires_grad_(True)
    seen, readings = torch.tensor(t)[:, None], torch.tensor(data)[:, None]

    def equation(model: Any, t: Any, c: Any, k: Any) -> Any:
        u = model(t)
        v = slope(u, t)
        return (slope(v, t) + c * v + k * u)[:, 0] / 9

    known = {"c": (1.0, (0.01, 10.0)), "k": (5.0, (0.5, 100.0))}
    parameters = trained(net, equation, None, known, (), points, seen, readings, 600)
    frozen = ta.from_torch(net, equation, parameters, points=points, observed=seen)
    best, errors = least_squares_of(lambda p: solution(p) - data, np.array([0.4, 9, 1, 0]), 0.03)
    reference = {k: (best[j], errors[j]) for j, k in enumerate(known)}
    model = Model("oscillator", frozen, data, 0.03, reference, "exact solution")
    logs = {
        k: torch.tensor(np.log(p.delivered), dtype=torch.float64, requires_grad=True)
        for k, p in parameters.items()
    }

    def loss(weight: float) -> Any:
        rest = equation(net, points, **{k: q.exp() for k, q in logs.items()})
        return ((net(seen) - readings) ** 2).mean() + weight * (rest**2).mean()

    return Joint("oscillator", net, logs, (), loss, model)


def optimizers(weights: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "Adam": torch.optim.Adam(weights, lr=1e-3),
        "L-BFGS": torch.optim.LBFGS(
            weights, max_iter=20, history_size=50, line_search_fn="strong_wolfe"
        ),
    }
    try:
        from pytorch_optimizer import SOAP
    except ImportError:
        return found
    return {**found, "SOAP": SOAP(weights, lr=3e-3, precondition_frequency=10)}


def rivals(given: argparse.Namespace) -> Iterator[str]:
    cap = 2.0 if given.quick else given.cap
    for name in JOINT[:1] if given.quick else given.joint:
        joint = {"oscillator": oscillator, "burgers": joint_burgers}[name]()
        weights = [*joint.net.parameters(), *joint.values.values()]
        began = [each.detach().clone() for each in weights]
        took = refined(joint.model)
        found = took.found
        target = {k: (float(found.values[k]), float(found.standard_error[k])) for k in joint.values}
        if joint.name == "oscillator":  # an exact solution is at hand
            target = joint.model.known
        estimated = time.process_time()
        again = ta.estimate(
            joint.model.frozen,
            data=ta.Observations(
                joint.model.data, at=joint.model.frozen.observed, noise=joint.model.noise
            ),
            progress=False,
        )
        estimated = time.process_time() - estimated
        off = [max(abs(float(f.values[k]) - v) / e for k, (v, e) in target.items())
               for f in (found, again)]  # fmt: skip
        yield (
            f"{joint.name}: refine {took.cpu:.1f} s CPU, {off[0]:.3f} standard errors from the "
            f"target; estimate {estimated:.1f} s CPU, {off[1]:.3f}"
        )
        for name in optimizers(weights):
            for weight in (1.0, 100.0):
                with torch.no_grad():
                    for each, start in zip(weights, began, strict=True):
                        each.copy_(start)
                said = continued(joint, weight, optimizers(weights)[name], target, cap)
                yield f"  {name}, equation times {weight:g}: {said}"


def continued(
    joint: Joint,
    weight: float,
    optimizer: Any,
    target: dict[str, tuple[float, float]],
    cap: float,
) -> str:
    """Continue a joint training until the time is over; say when it was right for good."""
    began, count, path = time.process_time(), 0, [(0.0, np.inf)]
    torch.set_num_threads(1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = joint.loss(weight)
        loss.backward()
        return loss

    while (passed := time.process_time() - began) < cap:
        before = [each.item() for each in joint.values.values()]
        optimizer.step(closure)
        count += 1
        off = 0.0
        for k, q in joint.values.items():
            value = q.item() if k in joint.linear else float(np.exp(q.item()))
            off = max(off, abs(value - target[k][0]) / target[k][1])
        path.append((passed, off))
        if isinstance(optimizer, torch.optim.LBFGS) and before == [
            each.item() for each in joint.values.values()
        ]:
            break
    torch.set_num_threads(THREADS)
    outside = [k for k, (_, off) in enumerate(path) if not off < 0.5]
    first = next((t for t, off in path if off < 0.5), None)
    last = path[-1]
    said = f"after {last[0]:.0f} s CPU and {count} steps {last[1]:.2f} standard errors away"
    if outside[-1] + 1 < len(path):
        return f"right from {path[outside[-1] + 1][0]:.1f} s on; {said}"
    return f"not right{'' if first is None else f' (in passing at {first:.1f} s)'}; {said}"


WEAK = """
import json, sys, time, warnings
import numpy as np, pysindy as ps
warnings.simplefilter("ignore")
given = np.load(sys.argv[1])
t, x = given["t"], given["x"]
began = time.process_time()
library = ps.WeakPDELibrary(function_library=ps.PolynomialLibrary(degree=2, include_bias=False),
                            spatiotemporal_grid=t, is_uniform=True, K=300)
model = ps.SINDy(feature_library=library, optimizer=ps.STLSQ(threshold=0.3, alpha=1e-8))
model.fit(x, t=t)
c, names = model.coefficients(), list(model.get_feature_names())
found = time.process_time() - began
began = time.process_time()
library.fit([ps.AxesArray(x, {"ax_time": 0, "ax_coord": 1})])
terms = np.asarray(library.transform([ps.AxesArray(x, {"ax_time": 0, "ax_coord": 1})])[0])
left = np.asarray(library.convert_u_dot_integral(ps.AxesArray(x, {"ax_time": 0, "ax_coord": 1})))
at = {n: k for k, n in enumerate(library.get_feature_names())}
terms = {n: terms[:, k] for n, k in at.items()}
def solve(j, features, rest=0.0):
    return float(np.linalg.lstsq(np.stack(features, 1), left[:, j] - rest, rcond=None)[0][0])
known = [solve(0, [terms["x1"] - terms["x0"]]),
         solve(1, [terms["x0"]], -terms["x1"] - terms["x0 x2"]),
         solve(2, [-terms["x2"]], terms["x0 x1"])]
print(json.dumps({"cpu": found, "names": names, "active": int((c != 0).sum()),
                  "rows": c.tolist(), "known": known, "known_cpu": time.process_time() - began}))
"""


def weak(given: argparse.Namespace) -> Iterator[str]:
    """Dense data of the Lorenz system."""
    truth = {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
    t = np.linspace(0, 2, 401 if given.quick else 1001)

    def rates(_: float, z: FloatArray, sigma: float, rho: float, beta: float) -> list[float]:
        return [sigma * (z[1] - z[0]), z[0] * (rho - z[2]) - z[1], z[0] * z[1] - beta * z[2]]

    def exact(p: FloatArray) -> FloatArray:
        found = solve_ivp(rates, (0, 2), p[3:], t_eval=t, args=tuple(p[:3]), rtol=1e-10, atol=1e-10)
        return np.asarray(found.y.T)

    def equation(model: Any, at: Any, sigma: Any, rho: Any, beta: Any) -> Any:
        u = model(at)
        x, y, z = u.unbind(dim=1)
        dx, dy, dz = (slope(each, at)[:, 0] for each in (x, y, z))
        return dx - sigma * (y - x), dy - x * (rho - z) + y, dz - x * y + beta * z

    start = np.array([*truth.values(), -8.0, 7.0, 27.0])
    clean = exact(start)
    parameters = {k: ta.Parameter(bounds=(v / 5, 5 * v)) for k, v in truth.items()}
    for noise in (0.01, 0.1) if not given.quick else (0.01,):
        size = noise * float(clean.std())
        data = clean + size * np.random.default_rng(0).standard_normal(clean.shape)
        cpu = time.process_time()
        best, errors = least_squares_of(lambda p, data=data: (exact(p) - data).ravel(), start, size)
        cpu = time.process_time() - cpu
        limit = f"solver from the truth on {cpu:.1f} s"
        cpu = time.process_time()
        found = ta.estimate(
            equation,
            parameters,
            ta.Observations(data, at=t, noise=size),
            framework="torch",
            progress=False,
        )
        cpu = time.process_time() - cpu
        offs = [(float(found.values[k]) - best[j]) / errors[j] for j, k in enumerate(truth)]
        ratios = [float(found.standard_error[k]) / errors[j] for j, k in enumerate(truth)]
        yield (
            f"Lorenz, {len(t)} times, noise {noise:.0%}: estimate {cpu:.1f} s CPU, off the "
            f"solver's fit {' '.join(f'{each:+.3f}' for each in offs)} standard errors, ratio of "
            f"these {' '.join(f'{each:.3f}' for each in ratios)}, trusted: {found.trusted}; {limit}"
        )
        if not given.pysindy:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data.npz"
            np.savez(path, t=t, x=data)
            command = [given.pysindy, "-c", WEAK, str(path)]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            yield f"  PySINDy failed: {done.stderr.splitlines()[-1]}"
            continue
        weakly = json.loads(done.stdout.splitlines()[-1])
        rows, at = np.array(weakly["rows"]), {n: k for k, n in enumerate(weakly["names"])}
        values = [
            (rows[0, at["x1"]] - rows[0, at["x0"]]) / 2, rows[1, at["x0"]], -rows[2, at["x2"]]
        ]  # fmt: skip
        offs = [(v - best[j]) / errors[j] for j, v in enumerate(values)]
        shown = " ".join(f"{v:.4g}" for v in values)
        yield (
            f"  PySINDy, weak form: {weakly['cpu']:.2f} s CPU, {shown}, off the solver's fit "
            f"{' '.join(f'{each:+.2f}' for each in offs)} standard errors; "
            f"{weakly['active']} terms active, 7 in truth"
        )
        offs = [(v - best[j]) / errors[j] for j, v in enumerate(weakly["known"])]
        shown = " ".join(f"{v:.4g}" for v in weakly["known"])
        yield (
            f"  its weak form, terms known: {weakly['known_cpu']:.2f} s CPU, {shown}, off "
            f"{' '.join(f'{each:+.2f}' for each in offs)} standard errors"
        )


JOINT = ["oscillator", "burgers"]
PARTS = {
    "speed": speed, "full": full, "scatter": scatter, "sizes": sizes, "threads": threads,
    "rivals": rivals, "weak": weak,
}  # fmt: skip
QUICK = ["speed", "scatter", "weak"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="+", choices=PARTS)
    options.add_argument("--repeats", type=int, default=1, help="of old and new, alternately")
    options.add_argument("--old", action="store_true", help="the old way on the full problem, too")
    options.add_argument("--cap", type=float, default=300.0, help="CPU seconds of each rival")
    options.add_argument("--joint", nargs="+", choices=JOINT, default=JOINT, help="of the rivals")
    options.add_argument("--pysindy", help="a Python that has pysindy")
    options.add_argument("--quick", action="store_true", help="a small part")
    options.add_argument("--out", type=Path)
    options.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        child(*given.child)
        return
    chosen = given.only or (QUICK if given.quick else list(PARTS))
    lines = []

    def tell(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    shown = [each for each in sys.argv[1:] if each not in ("--out", str(given.out))]
    if given.pysindy:
        shown[shown.index(given.pysindy)] = "PYTHON"
    limits = [f"{k}={os.environ[k]} " for k in THREAD_LIMITS if k in os.environ]
    tell(f"command: {''.join(limits)}python benchmarks/refine_speed.py {' '.join(shown)}".rstrip())
    began = time.perf_counter()
    for name in chosen:
        tell(f"\n{name}")
        for line in PARTS[name](given):
            tell(line)
    count = len(os.sched_getaffinity(0))
    tell(f"\n{count} cores, shared with other work; {time.perf_counter() - began:.0f} s")
    if given.out is not None:
        text = "\n".join(lines) + "\n"
        write_whole(given.out, lambda path: path.write_text(text))


if __name__ == "__main__":
    main()
