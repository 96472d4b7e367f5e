"""What the study leaves open, tried: variants of its methods and problems, cell by cell.

    python benchmarks/decode.py --out results/decode                 # all cells, one run at a time
    python benchmarks/decode.py --out results/decode --only flux     # one family, or cells by name
    python benchmarks/decode.py --out results/decode --seeds 5 --batch --device gpu
    python benchmarks/decode.py --out results/decode --table         # the table of what is there
    python benchmarks/decode.py --list

A *cell* is one variant; its runs differ in dataset and seed. Every run adds its row to
``runs.csv``, and runs that are there are not trained again: a call that was cut goes on when it is
repeated. The cells come seed after seed and the most informative first. The variants live here:
they were made to find out what the study did, and are no part of the package.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from twoaxis.datasets import Dataset, layout, published_dataset
from twoaxis.files import write_whole
from twoaxis.forward import get_solver
from twoaxis.forward.converged import converged_at_sites
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.frozen import bound_view
from twoaxis.geometry.derivatives import linearize
from twoaxis.problems import (
    ALLEN_CAHN,
    BUCKLEY_LEVERETT,
    DARCY,
    EvolutionProblem,
    get_problem,
    truth_of,
)
from twoaxis.problems.ansatz import Ansatz
from twoaxis.problems.buckley_leverett import DIFFUSION, flux_slope
from twoaxis.problems.darcy import TRUTH, permeability
from twoaxis.problems.problem import Problem, SteadyProblem
from twoaxis.runs import Run
from twoaxis.runs.task import Task, Training
from twoaxis.studies import readouts
from twoaxis.studies.blocks.darcy import compared
from twoaxis.studies.readouts import effective_support, kernel_modes
from twoaxis.studies.scale import FULL, SMOKE
from twoaxis.training.backends import JaxDevice, find_device
from twoaxis.training.backends.device import side_by_side
from twoaxis.training.batch import Batch
from twoaxis.training.methods import Method, Recipe
from twoaxis.training.network import PLAIN, Field, field_arrays, field_derivatives
from twoaxis.training.rules import Moment, ProjectResidual, Weights
from twoaxis.training.settings import RunSpec, Settings, settings_for, starting_values
from twoaxis.views import BoundView, View
from twoaxis.views.gaussian import BoundLowRank

FloatArray = NDArray[np.float64]
Tree = Any
SCALARS = ("burgers", "buckley-leverett", "allen-cahn")
SHARE = 0.9
STEP = 1e-3


# ---------------------------------------------------------------- Buckley-Leverett


def clamped_residual(*, u: Any, u_t: Any, u_x: Any, u_xx: Any, M: Any) -> Any:
    """The equation with u clamped to [0, 1] inside the flux."""
    return u_t + flux_slope(u.clip(0, 1), M) * u_x - DIFFUSION * u_xx


def sigmoid(u: Any) -> Any:
    return 1 / (1 + math.e ** (-u))


def sigmoid_residual(*, u: Any, u_t: Any, u_x: Any, u_xx: Any, M: Any) -> Any:
    """The equation of the sigmoid of a network, from the network's own derivatives."""
    s = sigmoid(u)
    slope = s * (1 - s)
    bent = slope * (1 - 2 * s)
    return BUCKLEY_LEVERETT.residual(
        u=s, u_t=slope * u_t, u_x=slope * u_x, u_xx=bent * u_x * u_x + slope * u_xx, M=M
    )


# The residual knows of the sigmoid; the data term must as well.
SIGMOID = Field(lambda *arguments: sigmoid(PLAIN.value(*arguments)), PLAIN.derivatives)


def raw_lift(points: FloatArray) -> dict[str, FloatArray]:
    """The step as it is declared, with no derivatives beside the jump."""
    zero = np.zeros(len(points))
    u = BUCKLEY_LEVERETT.initial(points[:, 0])
    return {"u": u, "u_t": zero, "u_x": zero, "u_xx": zero}


def linear_factor(points: FloatArray) -> dict[str, FloatArray]:
    """``t x (1 - x)``."""
    x, t = points[:, 0], points[:, 1]
    return {"u": t * x * (1 - x), "u_t": x * (1 - x), "u_x": t * (1 - 2 * x), "u_xx": -2 * t}


def smooth_linear(points: FloatArray) -> dict[str, FloatArray]:
    """``8 t x (1 - x)``: the factor of the package with t in place of its root."""
    return {name: 8 * values for name, values in linear_factor(points).items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Tamed(EvolutionProblem):
    """A problem whose residual is multiplied by `1 / (1 + |r_g| / mean|r_g|)`, r_g of the lift."""

    def coefficients(self, points: FloatArray) -> dict[str, FloatArray]:
        """Return the factor of the residual."""
        assert self.ansatz is not None
        lift = self.ansatz.lift(points)
        start = starting_values(BUCKLEY_LEVERETT, None, None)
        size = np.abs(BUCKLEY_LEVERETT.residual(**{k: lift[k] for k in self.derivatives}, **start))
        return {"tame": 1 / (1 + size / size.mean())}


def tamed_residual(*, tame: Any, **others: Any) -> Any:
    return tame * BUCKLEY_LEVERETT.residual(**others)


CLAMPED = replace(BUCKLEY_LEVERETT, residual=clamped_residual)
WITH_SIGMOID = replace(BUCKLEY_LEVERETT, residual=sigmoid_residual, ansatz=None)
RAW_STEP = replace(BUCKLEY_LEVERETT, ansatz=Ansatz(raw_lift, linear_factor))
assert BUCKLEY_LEVERETT.ansatz is not None
SLOW_START = replace(BUCKLEY_LEVERETT, ansatz=Ansatz(BUCKLEY_LEVERETT.ansatz.lift, smooth_linear))
TAMED = Tamed(
    **{f.name: getattr(BUCKLEY_LEVERETT, f.name) for f in fields(BUCKLEY_LEVERETT)}
    | {"residual": tamed_residual}
)


# ---------------------------------------------------------------- Darcy

# Wave numbers and kinds of the manufactured fields u = a(k pi x) b(l pi y).
MANUFACTURED: dict[str, tuple[int, str, int]] = {
    "sin x sin 2y (ours)": (1, "sin", 2),
    "sin x sin y": (1, "sin", 1),
    "sin x cos y": (1, "cos", 1),
    "sin 2x sin 2y": (2, "sin", 2),
}


@lru_cache
def manufactured(name: str) -> SteadyProblem:
    """Return the Darcy problem whose true field is another one, source and boundary with it."""
    k, kind, m = MANUFACTURED[name]
    along, slope, sign = (np.sin, np.cos, 1) if kind == "sin" else (np.cos, np.sin, -1)

    def true_field(x: FloatArray, y: FloatArray) -> FloatArray:
        return np.sin(k * np.pi * x) * along(m * np.pi * y)

    def source(x: FloatArray, y: FloatArray) -> FloatArray:
        mode_x = np.pi * np.cos(np.pi * x) * np.sin(np.pi * y)
        mode_y = np.pi * np.sin(np.pi * x) * np.cos(np.pi * y)
        u_x = k * np.pi * np.cos(k * np.pi * x) * along(m * np.pi * y)
        u_y = sign * m * np.pi * np.sin(k * np.pi * x) * slope(m * np.pi * y)
        laplacian = -(k**2 + m**2) * np.pi**2 * true_field(x, y)
        drift = TRUTH["lambda_1"] * (mode_x * u_x + mode_y * u_y)
        return -permeability(x, y, **TRUTH) * (laplacian + drift)

    def coefficients(points: FloatArray) -> dict[str, FloatArray]:
        return {**DARCY.coefficients(points), "source": source(points[:, 0], points[:, 1])}

    return replace(DARCY, field=true_field, source=source, coefficients=coefficients, ansatz=None)


# ---------------------------------------------------------------- selector


def digest(points: FloatArray) -> str:
    """Return a name for a set of points."""
    return hashlib.sha256(points.tobytes()).hexdigest()


@dataclass(frozen=True)
class Modes(View):
    """Eigenvectors of the Gaussian kernel: weighed by it, or alike (a projector).

    `ranks` says how many leading ones count at which points; all of them without it.
    """

    projector: bool
    ranks: Mapping[str, int] | None = None

    def bind(self, points: ArrayLike) -> BoundView:
        """Return the modes of the kernel at these points."""
        places = np.asarray(points, float)
        values, vectors = kernel_modes(places).eigenpairs()
        rank = len(values) if self.ranks is None else self.ranks[digest(places)]
        if self.projector:
            values = np.full_like(values, 1 / len(places))
        return BoundLowRank(values[:rank], vectors[:, :rank], self.describe())

    def describe(self) -> str:
        """Return what the view is."""
        return "projector on modes of the kernel" if self.projector else "modes of the kernel"


@dataclass(frozen=True)
class RetainPointwise:
    """Keep the leading modes that hold a share of the pointwise strength, sum of j_k^2.

    Chosen when the parameters begin to move, or again after every so many steps.
    """

    every: int = 0
    share: float = SHARE
    needs_modes: bool = True

    def initial(self, points: int, modes: int) -> Weights:  # noqa: ARG002
        """Return all modes."""
        return {"modes": jnp.ones(modes)}

    def update(self, weights: Weights, moment: Moment) -> Weights:
        """Choose the modes when it is time."""
        modes = weights["modes"]
        rows = moment.modes
        assert rows is not None

        def choose() -> jax.Array:
            sensitivity = moment.sensitivity()
            size = jnp.sum(rows**2, axis=1)
            strength = jnp.sum((rows @ sensitivity) ** 2, axis=1) / jnp.where(size > 0, size, 1)
            before = jnp.cumsum(strength) - strength
            kept = before < self.share * jnp.sum(sensitivity**2)
            return kept.at[0].set(True).astype(modes.dtype)

        now = moment.step % self.every == 0 if self.every else moment.step == moment.warmup
        return {"modes": jax.lax.cond(now, choose, lambda: modes)}


@dataclass(frozen=True)
class Selector:
    """The selector by pointwise strength; it trains like the one of the package."""

    projector: bool
    every: int = 0
    ranks: Mapping[str, int] | None = None

    @property
    def name(self) -> str:
        """``pointwise-selector``."""
        return "pointwise-selector"

    def recipe(self) -> Recipe:
        """Modes of the kernel, trained like PatchEvidence."""
        parts: dict[str, Any] = {"gradient": ProjectResidual(0.5), "warmup": 0.2}
        if self.ranks is None:
            parts["weights"] = RetainPointwise(self.every)
        return Recipe(view=Modes(self.projector, self.ranks), **parts)


def rank_of(run: Run) -> int:
    """Return the smallest leading rank with the share of the pointwise strength, at the end."""
    return int(np.searchsorted(np.cumsum(_strength(run)), SHARE)) + 1


def _strength(run: Run) -> FloatArray:
    """Return shares of j_k^2 for all modes of the kernel, at the delivered parameter."""
    frozen = run.frozen
    local = linearize(frozen, frozen.coordinates(run.delivered), "difference", STEP)
    _, vectors = kernel_modes(run.points).eigenpairs()
    strength: FloatArray = (vectors.T @ local.jacobian[:, 0]) ** 2
    return strength / strength.sum()


# ---------------------------------------------------------------- datasets and cells


def converged_dataset(name: str, seed: int) -> Dataset:
    """Return published layout and noise, on the field of a converged solver."""
    published, declared = published_dataset(name, seed), get_solver(name)
    assert isinstance(declared, ExplicitSolver)
    sites = layout(name, seed)
    truth = truth_of(get_problem(name))
    clean, exact = declared.true_field().ravel()[sites], _converged(name, seed, **truth)
    return replace(
        published,
        values=published.values - clean + exact,
        provenance=f"{published.provenance}; converged solver",
        label=f"{seed}c",
    )


@lru_cache
def _converged(name: str, seed: int, **truth: float) -> FloatArray:
    declared = get_solver(name)
    assert isinstance(declared, ExplicitSolver)
    (found,) = converged_at_sites(declared, layout(name, seed), **truth)
    return found


@dataclass(frozen=True)
class Cell:
    """One variant, and what its runs share."""

    family: str
    name: str
    problem: Problem
    method: str | Method
    datasets: tuple[int, ...]
    data: Callable[[str, int], Dataset] = published_dataset
    start: Mapping[str, float] | None = None
    output: Field = PLAIN
    # The rank comes from fields that another method has trained.
    ranks_from: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


# A cell of each kind, to test that the parts work.
QUICK = (
    "exact-rba/scaling: residual",
    "exact-raw/pcgrad",
    "flux/sigmoid, rba",
    "float32/rba",
    "selector/projector, trained",
    "selector/kernel, every",
    "darcy/sin x cos y, weight 1, start (0, 0), pcgrad",
)


def cells() -> list[Cell]:
    """Return all variants, the most informative family first."""
    return [*_stuck(), *_hard(), *_flux(), *_single(), *_selectors(), *_darcy()]


def _stuck() -> list[Cell]:
    """Why RBA with exact conditions stays at its start on data of a converged solver."""
    exact = {"conditions": "exact"}
    made = partial(
        Cell, "exact-rba", problem=BUCKLEY_LEVERETT, datasets=(8, 9), data=converged_dataset
    )
    return [
        made(name="as it is", method="rba", options=exact),
        made(name="weights: uniform", method="adam", options=exact),
        made(name="weights: PCGrad", method="pcgrad", options=exact),
        made(name="scaling: residual tamed", problem=TAMED, method="rba", options=exact),
        made(name="scaling: tamed, uniform", problem=TAMED, method="adam", options=exact),
        made(name="ansatz: soft", method="rba"),
        made(name="ansatz: layered", method="rba", options={"conditions": "layered"}),
        made(
            name="ansatz: layered, tamed",
            problem=TAMED,
            method="rba",
            options={"conditions": "layered"},
        ),
        made(name="ansatz: factor t", problem=SLOW_START, method="rba", options=exact),
        made(name="ansatz: raw step", problem=RAW_STEP, method="rba", options=exact),
        made(name="optimizer: from truth", method="rba", start={"M": 2.0}, options=exact),
        made(
            name="optimizer: 20,000 steps",
            method="rba",
            datasets=(8,),
            options={**exact, "steps": 20_000},
        ),
        made(
            name="optimizer: layered, tamed, 20,000 steps",
            problem=TAMED,
            method="rba",
            datasets=(8,),
            options={"conditions": "layered", "steps": 20_000},
        ),
        made(name="data of the study", method="rba", data=published_dataset, options=exact),
    ]


def _hard() -> list[Cell]:
    """Exact conditions as u0 + t x (1 - x) N with the raw step."""
    return [
        Cell("exact-raw", method, RAW_STEP, method, (8, 9, 10, 11), options={"conditions": "exact"})
        for method in ("pcgrad", "patch", "rba")
    ]


def _flux() -> list[Cell]:
    """The flux of a clamped field, and a field that cannot leave [0, 1]."""
    variants: list[tuple[str, Problem, Field]] = [
        ("clamped", CLAMPED, PLAIN),
        ("sigmoid", WITH_SIGMOID, SIGMOID),
    ]
    return [
        Cell("flux", f"{name}, {method}", problem, method, (8, 9), output=output)
        for method in ("rba", "patch", "pcgrad", "gaussian")
        for name, problem, output in variants
    ]


def _single() -> list[Cell]:
    """Exact conditions of Allen-Cahn, whose slope at the ends is read in float32 throughout."""
    return [
        Cell("float32", method, ALLEN_CAHN, method, (8,), options={"conditions": "exact"})
        for method in ("rba", "pcgrad", "patch")
    ]


def end_slope(run: Run) -> float:
    """Return the RMSE of the slope at both ends after time zero, all of it in float32."""
    solver = get_solver(run.problem)
    assert isinstance(solver, ExplicitSolver)
    layers = [(np.float32(weight), np.float32(bias)) for weight, bias in run.final.layers]
    missed = []
    for end in run.problem.domain["x"]:
        points = np.column_stack([np.full(solver.levels - 1, end), solver.t[1:]]).astype(np.float32)
        arrays = field_arrays(run.problem, "exact", points)
        found = field_derivatives(layers, arrays, run.settings.axes, ("u", "u_x"), np)["u_x"]
        assert found.dtype == np.float32
        missed.append(found)
    return float(np.sqrt(np.mean(np.square(missed, dtype=float))))


def _selectors() -> list[Cell]:
    """Ranks by pointwise strength; trained under the projector or the kernel."""
    return [
        Cell(
            "selector",
            f"{'projector' if projector else 'kernel'}, {when}",
            get_problem(name),
            Selector(projector, every),
            (8, 9),
            ranks_from=ranks_from,
        )
        for projector in (True, False)
        for when, every, ranks_from in (
            ("once", 0, ""),
            ("trained field", 0, "rba"),
            ("every 50 steps", 50, ""),
        )
        for name in SCALARS
    ]


def _darcy() -> list[Cell]:
    """Other true fields and weights of the boundary term, then other starts."""

    def made(name: str, weight: float, start: tuple[float, float], method: str) -> Cell:
        return Cell(
            "darcy",
            f"{name}, weight {weight:g}, start ({start[0]:g}, {start[1]:g}), {method}",
            manufactured(name),
            method,
            (10, 11),
            start=dict(zip(TRUTH, start, strict=True)),
            options={"boundary_weight": weight},
        )

    names = [name for name in MANUFACTURED if "ours" not in name]
    methods = ("pcgrad", "patch")
    origin = (0.0, 0.0)
    return [
        *(made(n, 1.0, origin, m) for n in names for m in methods),
        *(made(n, w, origin, m) for w in (2.0, 5.0) for n in names for m in methods),
        *(
            made(n, 1.0, start, m)
            for start in ((0.0, 0.5), (0.5, 0.5))
            for n in names
            for m in methods
        ),
    ]


# ---------------------------------------------------------------- training


class OtherOutput:
    """A device of this process that trains a field with another output."""

    def __init__(self, output: Field) -> None:
        self._output, self._programs = output, {}

    @contextmanager
    def session(self, settings: Settings, data: list[Tree]) -> Any:
        """Hand over the data of all runs."""
        if id(settings) not in self._programs:
            self._programs[id(settings)] = (
                settings,
                jax.jit(side_by_side(settings, alone=False, field=self._output)),
            )
        yield _Stacked(self._programs[id(settings)][1], data)

    def program(self, settings: Settings) -> str:  # noqa: ARG002
        """Return that XLA makes the program."""
        return "xla"


class _Stacked:
    def __init__(self, program: Callable[..., Tree], data: list[Tree]) -> None:
        self._program = program
        self._data = jax.tree.map(lambda *leaves: np.stack(leaves), *data)

    def advance(self, state: Tree, start: int, steps: int) -> Tree:
        found = self._program(state, self._data, np.int32(start), np.int32(steps))
        return jax.device_get(found)


class Trainer:
    """Trains specs of a cell, and keeps programs and chosen ranks."""

    def __init__(self, device: str, quick: bool) -> None:
        self._device, self._quick = JaxDevice(find_device(device)), quick
        self._others = {id(SIGMOID): OtherOutput(SIGMOID)}
        self._settings: dict[tuple[str, str, str], Settings] = {}
        self._ranks: dict[str, int] = {}

    def runs(self, cell: Cell, specs: Sequence[RunSpec]) -> tuple[Run, ...]:
        """Train these runs side by side."""
        if cell.ranks_from:
            for run in self._train(replace(cell, method=cell.ranks_from, ranks_from=""), specs):
                self._ranks[digest(run.points)] = rank_of(run)
        return self._train(cell, specs)

    def _train(self, cell: Cell, specs: Sequence[RunSpec]) -> tuple[Run, ...]:
        method = cell.method
        if cell.ranks_from and isinstance(method, Selector):
            method = replace(method, ranks=self._ranks)
        name = method if isinstance(method, str) else "own"
        key = (f"{cell.family}/{cell.name}", cell.problem.name, name)
        if key not in self._settings:
            options = dict(cell.options)
            if self._quick:
                options |= {"steps": 20, "residual_points": 300}
            self._settings[key] = settings_for(cell.problem, method, **options)
        backend: Any = self._others.get(id(cell.output), self._device)
        return Training()(Task(0, Batch(self._settings[key], tuple(specs))), backend)


def specs_of(cell: Cell, seed: int) -> list[RunSpec]:
    """Return the runs of a cell with one seed."""
    start = starting_values(cell.problem, cell.start, None)
    return [
        RunSpec(dataset=cell.data(cell.problem.name, number), seed=seed, start=start)
        for number in cell.datasets
    ]


# ---------------------------------------------------------------- rows


def row_of(cell: Cell, run: Run, quick: bool) -> dict[str, Any]:
    """Return what a run came to."""
    row: dict[str, Any] = {
        "family": cell.family,
        "cell": cell.name,
        "problem": cell.problem.name,
        "dataset": run.dataset.label,
        "seed": run.seed,
        "status": run.status,
    }
    if isinstance(cell.problem, SteadyProblem):
        scale = SMOKE if quick else FULL
        (found,) = readouts.DARCY.read(run, scale)
        frame = pd.DataFrame([{**found, "method": cell.method, "dataset": run.dataset.label}])
        steps = compared(frame).iloc[0]
        kept = ("cosine", "full", "diagonal", "coupling", "loss_factor")
        return row | {name: float(steps[name]) for name in kept}
    (name,) = run.problem.parameters
    row |= {"delivered": run.delivered[name], "error_percent": run.error_percent[name]}
    solver = get_solver(run.problem)
    truth = solver.true_field().ravel()
    values = run.field(solver.points(np.arange(truth.size)))
    values = sigmoid(values) if cell.output is SIGMOID else values
    row["field_error"] = float(np.linalg.norm(values - truth) / np.linalg.norm(truth))
    own, pointwise = readouts.ENDPOINTS.read(run, FULL)
    row |= {
        "displacement": own["displacement"],
        "own_minimum_percent": 100 * math.expm1(own["refined_displacement"]),
        "pointwise_minimum_percent": 100 * math.expm1(pointwise["refined_displacement"]),
    }
    bound = bound_view(run.frozen, run.view)
    row["support"] = effective_support(bound.diagonal())
    if cell.family == "float32":
        row["end_slope"] = end_slope(run)
    if cell.family == "selector":
        strength = _strength(run)
        matrix = bound.matrix()
        rank = int(np.linalg.matrix_rank(matrix, tol=1e-12 * np.trace(matrix), hermitian=True))
        row |= {"rank": rank, "retained": float(strength[:rank].sum())}
    return row


KEYS = ["family", "cell", "problem", "dataset", "seed"]


class Table:
    """The rows so far, on disk after every run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows = pd.read_csv(path, dtype={"dataset": str}) if path.exists() else pd.DataFrame()

    def holds(self, cell: Cell, spec: RunSpec) -> bool:
        """Return whether a run is there."""
        if self.rows.empty:
            return False
        wanted = (cell.family, cell.name, cell.problem.name, spec.dataset.label, spec.seed)
        return bool((self.rows[KEYS] == list(wanted)).all(axis=1).any())

    def add(self, row: dict[str, Any]) -> None:
        """Add a row, and write the table whole."""
        self.rows = pd.concat([self.rows, pd.DataFrame([row])], ignore_index=True)
        text = self.rows.to_csv(index=False)
        write_whole(self._path, lambda path: path.write_text(text))


# ---------------------------------------------------------------- table


def table(rows: pd.DataFrame) -> str:
    """Return the outcome as text: means over runs, medians for Darcy."""
    lines = []
    for family, own in rows.groupby("family", sort=False):
        lines.append(str(family))
        darcy = family == "darcy"
        columns = (
            ["cosine", "full", "diagonal", "coupling", "loss_factor"]
            if darcy
            else ["size", "error_percent", "own_minimum_percent", "field_error", "support"]
        )
        if family == "float32":
            columns += ["end_slope"]
        if family == "selector":
            columns += ["rank", "retained"]
        own = own.assign(size=own.get("error_percent", pd.Series(dtype=float)).abs())
        keys = ["cell"] if darcy else ["cell", "problem"]
        groups = own.groupby(keys, sort=False)[columns]
        found = groups.median() if darcy else groups.mean()
        found.insert(0, "runs", own.groupby(keys, sort=False).size())
        lines += [found.to_string(float_format=lambda value: f"{value:.6g}"), ""]
    return "\n".join(lines)


def main() -> None:
    """Train the cells that are missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/decode"))
    parser.add_argument(
        "--only", nargs="+", help="in this order: beginnings of family/cell (problem)"
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--datasets", type=int, default=4, help="at most so many for each cell")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch", action="store_true", help="all runs of a cell side by side")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run later")
    parser.add_argument("--quick", action="store_true", help="one run a family, 20 steps, no file")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    groups = [[c for c in cells() if _named(c, name)] for name in options.only or [""]]
    if options.quick:
        options.seeds = options.datasets = 1
        groups = [[next(c for c in cells() if _named(c, name)) for name in QUICK]]
        options.out = Path(tempfile.mkdtemp())
    if options.list:
        for cell in chain.from_iterable(groups):
            print(f"{cell.family}/{cell.name} ({cell.problem.name}), datasets {cell.datasets}")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    found, began = Table(options.out / "runs.csv"), time.monotonic()
    trainer = Trainer(options.device, options.quick)
    for cell, specs in [] if options.table else _parts(groups, options):
        missing = [spec for spec in specs if not found.holds(cell, spec)]
        if not missing or time.monotonic() - began > 60 * options.minutes:
            continue
        begun = time.process_time()
        for run in trainer.runs(cell, missing):
            found.add(row_of(cell, run, options.quick))
        took = time.process_time() - begun
        label = ", ".join(f"dataset {spec.dataset.label}, seed {spec.seed}" for spec in missing)
        print(
            f"{cell.family}/{cell.name} ({cell.problem.name}), {label}: {took:.0f} CPU s",
            flush=True,
        )
    text = table(found.rows)
    write_whole(options.out / "table.txt", lambda path: path.write_text(text))
    print(text)


def _named(cell: Cell, name: str) -> bool:
    return f"{cell.family}/{cell.name} ({cell.problem.name})".startswith(name)


def _parts(
    groups: Sequence[Sequence[Cell]], options: argparse.Namespace
) -> Iterator[tuple[Cell, list[RunSpec]]]:
    """Yield what is trained together: all runs of a cell, or one, with other cells in between."""
    if options.batch:
        for cell in chain.from_iterable(groups):
            yield cell, [s for seed in range(options.seeds) for s in specs_of(cell, seed)]
        return
    for seed in range(options.seeds):
        for group in groups:
            for place in range(min(options.datasets, max(len(c.datasets) for c in group))):
                for cell in group:
                    yield cell, specs_of(cell, seed)[place : place + 1]


if __name__ == "__main__":
    main()
