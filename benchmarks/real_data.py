"""Data without a truth: is the headline right, and how often does it alarm for nothing?

*Table.* Every case of ``examples/real_data``, with its truth hidden from the audit: the delivered
value, the matched fit, the route, its severity (the color of the page), and whether all that is
right. A case is right when both rules hold:

1. its route is one of those that `CASES` declares for what was done to it;
2. no green over a wrong value that the data could have refuted: where the severity is "good", the
   error of every delivered value is at most the material tolerance, or at most three standard
   errors of the matched fit.

*False alarms.* Well-specified problems, each dataset with a truth and noise of its own. A network
and its parameters are trained by the method of Levenberg and Marquardt, which brings the usual loss
(data, initial values and equation, well weighted) to its minimum within seconds. A false alarm is
a question of an audit that is answered "no"; the declared level of all tests of one audit together
is ``1 - LEVEL`` = 1%. A material tolerance of 0.5% lets every significant answer count.

*Power.* The same fields with the first parameter six standard errors too large, which the data
must contradict.

*Single tests.* A network that is trained well delivers nearly the matched fit, so that its deviance
is small. With the true value in its place, which knows nothing of the noise, each p-value of an
audit would be uniform if its test were exact (that of ``outliers`` is a bound, those of the
field are of a network that was fitted to the noise and has no exact level).

    export OPENBLAS_NUM_THREADS=1
    python benchmarks/real_data.py --out results/real-data
    python benchmarks/real_data.py --quick      # two cases, one dataset of each problem
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest
from torch.func import functional_call, jacrev, jvp, vmap

import twoaxis as ta
from twoaxis import Route
from twoaxis.diagnosis.questions import ASKED, LEVEL, tested
from twoaxis.files import write_whole

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "real_data"))
from common import Field, integrate, slopes

FloatArray = NDArray[np.float64]
SEED = 20261116

# ---------------------------------------------------------------- the table


class Case(NamedTuple):
    """One call of an example's ``audit``, and the routes that are right for it."""

    name: str
    module: str
    arguments: Mapping[str, Any]
    right: frozenset[Route]


SOUND = frozenset({Route.CONSISTENT_WITH_DATA, Route.WITHIN_TOLERANCE})
MISSED, STOPPED = Route.FIELD_DOES_NOT_FIT, Route.TRAINING_NOT_FINISHED
CASES = [
    Case("overfitted network", "overfitted", {}, frozenset({Route.FIELD_FITS_NOISE})),
    Case("Michaelis-Menten", "enzyme", {}, SOUND),
    Case("SIR, trained well", "sir", {"run": "balanced"}, SOUND),
    Case("SIR, data hardly weighted", "sir", {"run": "weak data"}, frozenset({MISSED})),
    Case(
        "SIR, wrong unit of time",
        "sir",
        {"run": "wrong unit"},
        frozenset({Route.CONTRADICTED_BY_DATA}),
    ),
    Case("heat, noise unknown", "heat", {}, SOUND),
    Case("Lotka-Volterra", "predators", {}, SOUND),
    Case("reaction chain, amount unknown", "chain", {}, SOUND),
    Case("FitzHugh-Nagumo, one field hidden", "neuron", {}, SOUND),
    # Where no heat flows the data hardly determine k, and saying so is right, too.
    Case("conductivity k(x)", "conductivity", {}, SOUND | {Route.IMPROVE_OBSERVATIONS}),
    Case("wrong simulator", "wrong_simulator", {}, frozenset({Route.MODEL_DOES_NOT_FIT})),
    Case("stopped early, history", "stopped", {"known": "history"}, frozenset({STOPPED})),
    Case("stopped early, loss", "stopped", {"known": "loss"}, frozenset({STOPPED})),
    Case("hardly trained", "stopped", {"steps": 200}, frozenset({MISSED, STOPPED})),
]
REFUTED = 3.0  # standard errors


class Row(NamedTuple):
    """One parameter of a case: its values, and whether it may be shown in green."""

    name: str
    delivered: float
    error: float
    matched: float
    lower: float
    upper: float
    holds: bool
    fine: bool


def rows(audit: ta.Audit, truth: Mapping[str, float]) -> list[Row]:
    """Compare the parameters of an audit with the truth that was hidden from it."""
    matched = audit.group("/matched")
    assert matched is not None
    assert audit.tolerance is not None
    found = []
    for name in audit.names:
        one = matched.sel(parameter=name)
        value = float(audit.parameters[name].delivered or np.nan)
        best, low, high = (float(one[n]) for n in ("estimate", "lower", "upper"))
        error = 100 * (value / truth[name] - 1)
        spread = 100 * np.log(high / low) / 2 / 1.96
        fine = abs(error) <= max(audit.tolerance.material, REFUTED * spread)
        found.append(Row(name, value, error, best, low, high, low <= truth[name] <= high, fine))
    return found


class Judged(NamedTuple):
    """The audit of a case, its parameters, and whether both rules hold."""

    audit: ta.Audit
    rows: list[Row]
    right: bool


def judged(case: Case) -> Judged:
    """Train and audit a case, and compare it with what was hidden."""
    module = importlib.import_module(case.module)
    audit = module.audit(**case.arguments)
    truth = module.truth
    if callable(truth):
        truth = dict(zip(audit.names, truth(module.nodes).tolist(), strict=True))
    found = rows(audit, truth)
    allowed = audit.severity != "good" or all(row.fine for row in found)
    return Judged(audit, found, allowed and audit.route in case.right)


def table(cases: list[Case]) -> Iterator[str]:
    """Yield a block for each case, and how many are right."""
    head = ("delivered", "error", "matched", "95% interval", "holds the truth")
    yield f"{'':14}{head[0]:>11}{head[1]:>10}{head[2]:>11}{head[3]:>22}  {head[4]}"
    right = 0
    for case in cases:
        began = time.process_time()
        found = judged(case)
        right += found.right
        yield ""
        yield (
            f"{case.name}: {found.audit.route.value} ({found.audit.severity}); "
            f"{'right' if found.right else 'WRONG'}; {time.process_time() - began:.0f} s"
        )
        for row in found.rows:
            interval = f"{row.lower:.4g} to {row.upper:.4g}"
            yield (
                f"  {row.name:12}{row.delivered:11.4g}{row.error:+9.1f}%{row.matched:11.4g}"
                f"{interval:>22}  {'yes' if row.holds else 'no'}"
            )
    yield ""
    yield f"right: {right} of {len(cases)}"


# ---------------------------------------------------------------- well-trained cases

# Initial values are known: in the loss they have this share of the noise of a reading.
KNOWN = 0.2
# Networks for each dataset, of which the one with the lowest loss counts.
RESTARTS = 2
# How far the delivered value is moved for the power, in standard errors.
SHIFT = 6


@dataclass(frozen=True)
class Kind:
    """A problem whose networks are trained to convergence, with fresh data each.

    Attributes
    ----------
    times : array, shape (n,)
    noise : float
    truth : dict of str to float
        Each dataset has its own, up to 20% away from this.
    start : tuple of float
        The state at the beginning, which is known.
    rate : callable
        ``rate(*state, **parameters)``: the right-hand side of the equation.
    estimated : bool
        The audit does not know the noise.
    probe : bool
        The audit gets the training loss in place of a history.
    weight : float
        Of the mean squared residual in the loss. A residual that would move the field by one
        noise level over the whole time costs as much as the noise in the data.
    """

    name: str
    times: FloatArray
    noise: float
    truth: dict[str, float]
    start: tuple[float, ...]
    rate: Callable[..., tuple[Any, ...]]
    estimated: bool = False
    probe: bool = False
    weight: float = field(init=False)
    points: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", (self.times[-1] / self.noise) ** 2)
        object.__setattr__(self, "points", torch.linspace(0, self.times[-1], 80))

    def simulate(self, **values: Any) -> FloatArray:
        """Return the fields at the times, shape (..., n, fields)."""
        found = integrate(
            lambda *state: self.rate(*state, **values), self.start, np.r_[0.0, self.times]
        )
        return np.asarray(found[..., 1:, :])

    def field(self, seed: int) -> torch.nn.Module:
        """Return a network before training."""
        return Field([0.0], [self.times[-1]], [1.0] * len(self.start), width=10, seed=seed)

    def residual(self, model: Any, t: torch.Tensor, **values: Any) -> tuple[torch.Tensor, ...]:
        """Return the residuals of all equations at points (N, 1)."""
        state = model(t).T
        rates = self.rate(*state, **values)
        return tuple(slopes(u, t)[:, 0] - rate for u, rate in zip(state, rates, strict=True))

    def loss(self, model: Any, data: FloatArray, **values: Any) -> torch.Tensor:
        """Return what `trained` minimizes, for the probe."""
        misfit = (model(torch.tensor(self.times)[:, None]) - torch.tensor(data)) / self.noise
        begin = (model(torch.zeros(1, 1)) - torch.tensor(self.start)) / (KNOWN * self.noise)
        points = self.points[:, None].clone().requires_grad_(True)
        equations = sum((r**2).mean() for r in self.residual(model, points, **values))
        return (misfit**2).mean() + (begin**2).mean() + self.weight * equations


KINDS = [
    Kind(
        "decay",
        np.linspace(0.5, 12, 25),
        0.05,
        {"rate": 0.25},
        (2.0,),
        lambda u, rate: (-rate * u,),
    ),
    Kind(
        "growth",
        np.linspace(0.3, 12, 40),
        0.02,
        {"rate": 0.8, "crowding": 0.7},
        (0.05,),
        lambda u, rate, crowding: (rate * u - crowding * u**2,),
    ),
    Kind(
        "cooling, noise unknown",
        np.linspace(0.5, 8, 16),
        0.02,
        {"rate": 0.5, "supply": 0.15},
        (1.5,),
        lambda u, rate, supply: (supply - rate * u,),
        estimated=True,
    ),
    Kind(
        "epidemic, probe",
        np.linspace(1.5, 60, 40),
        0.02,
        {"beta": 0.4, "gamma": 0.1},
        (0.98, 0.02),
        lambda s, i, beta, gamma: (-beta * s * i, beta * s * i - gamma * i),
        probe=True,
    ),
]


class Trained(NamedTuple):
    """A trained network, the values along its training, and its data."""

    model: torch.nn.Module
    history: dict[str, NDArray[Any]]
    data: FloatArray
    truth: dict[str, float]


def trained(kind: Kind, datasets: int, steps: int = 250) -> list[Trained]:
    """Train networks for many datasets, all at once, by the method of Levenberg and Marquardt."""
    generator = np.random.default_rng([SEED, *map(ord, kind.name)])
    names = list(kind.truth)
    truths = [
        {n: v * float(np.exp(generator.uniform(-0.2, 0.2))) for n, v in kind.truth.items()}
        for _ in range(datasets)
    ]
    data = np.stack([kind.simulate(**truth) for truth in truths])
    data = data + kind.noise * generator.standard_normal(data.shape)
    nets = [kind.field(seed) for seed in range(RESTARTS * datasets)]
    weights = torch.stack([torch.nn.utils.parameters_to_vector(n.parameters()) for n in nets])
    first = torch.tensor([1.5 * v for v in kind.truth.values()]).log()
    vector = torch.cat([weights.detach(), first.expand(len(nets), -1)], dim=1)
    system = _system(kind, nets[0], torch.tensor(np.repeat(data, RESTARTS, axis=0)))
    losses, paths = [], []
    for now, size in _levenberg_marquardt(system, vector, steps):
        vector = now
        losses.append(size)
        paths.append(now[:, -len(names) :].exp())
    loss, path = torch.stack(losses, dim=1).numpy(), torch.stack(paths, dim=1).numpy()
    found = []
    for k, (values, truth) in enumerate(zip(data, truths, strict=True)):
        best = RESTARTS * k + int(loss[RESTARTS * k : RESTARTS * (k + 1), -1].argmin())
        net = nets[best]
        torch.nn.utils.vector_to_parameters(vector[best, : -len(names)], net.parameters())
        history = {
            "step": np.arange(1, steps + 1),
            "loss": loss[best],
            **dict(zip(names, path[best].T, strict=True)),
        }
        found.append(Trained(net, history, values, truth))
    return found


def _system(
    kind: Kind, net: torch.nn.Module, data: torch.Tensor
) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Return the terms of the loss (B, n) and their derivatives (B, n, p) at vectors (B, p)."""
    names, values = zip(*net.named_parameters(), strict=True)
    sizes, count = [v.numel() for v in values], len(kind.truth)
    times, start = torch.tensor(kind.times), torch.tensor(kind.start)

    def field_at(vector: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        parts = vector[:-count].split(sizes)
        own = {n: p.view_as(v) for n, p, v in zip(names, parts, values, strict=True)}
        return functional_call(net, own, (t[None, None],))[0]

    def equation(vector: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        u, slope = jvp(lambda s: field_at(vector, s), (t,), (torch.ones_like(t),))
        unknown = dict(zip(kind.truth, vector[-count:].exp(), strict=True))
        return slope - torch.stack(kind.rate(*u, **unknown))

    places = torch.cat([torch.zeros(1), times])
    scale = torch.full((len(places),), 1 / kind.noise) / len(times) ** 0.5
    scale[0] = 1 / (KNOWN * kind.noise)
    scale = scale[:, None] / len(start) ** 0.5
    weight = (kind.weight / len(kind.points)) ** 0.5
    goal = torch.cat([start.expand(len(data), 1, -1), data], dim=1)

    def everywhere(function: Any, vectors: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = vmap(vmap(function, (None, 0)), (0, None))(vectors, where)
        return found

    def system(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        at = scale * (everywhere(field_at, vectors, places) - goal)
        inside = weight * everywhere(equation, vectors, kind.points)
        slope_at = scale[..., None] * everywhere(jacrev(field_at), vectors, places)
        slope_inside = weight * everywhere(jacrev(equation), vectors, kind.points)
        return (
            torch.cat([at.flatten(1), inside.flatten(1)], dim=1),
            torch.cat([slope_at.flatten(1, 2), slope_inside.flatten(1, 2)], dim=1),
        )

    return system


def _levenberg_marquardt(
    system: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    vector: torch.Tensor,
    steps: int,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Minimize sums of squares, one for each row; yields vectors and sums after each step."""
    damping = torch.full((len(vector), 1), 1e-2)
    terms, slope = system(vector)
    for _ in range(steps):
        gradient = torch.einsum("bnp,bn->bp", slope, terms)
        curvature = slope.mT @ slope + torch.diag_embed(damping.expand_as(vector))
        moved = vector - torch.linalg.solve(curvature, gradient)
        new_terms, new_slope = system(moved)
        better = (new_terms**2).sum(1) < (terms**2).sum(1)
        vector = torch.where(better[:, None], moved, vector)
        terms = torch.where(better[:, None], new_terms, terms)
        slope = torch.where(better[:, None, None], new_slope, slope)
        damping = torch.where(better[:, None], damping / 3, damping * 4).clamp(1e-12, 1e6)
        yield vector, (terms**2).sum(1)


# ---------------------------------------------------------------- their audits


class Audits(NamedTuple):
    """Audits of one trained network: as it is, with a value too large, and with the true one."""

    sound: ta.Audit
    shifted: ta.Audit
    true: ta.Audit


def audited(kind: Kind, one: Trained) -> Audits:
    """Audit a trained network with three delivered values."""
    delivered = {name: float(one.history[name][-1]) for name in kind.truth}
    bounds = {name: (value / 8, value * 8) for name, value in kind.truth.items()}
    noise = {"data": one.data} if kind.estimated else {"noise": kind.noise}
    resolution = ta.resolve(
        kind.simulate,
        {n: ta.Parameter(delivered=v, bounds=bounds[n]) for n, v in delivered.items()},
        replicas=20,
        vectorized=True,
        progress=False,
        **noise,
    )

    def audit(values: Mapping[str, float]) -> ta.Audit:
        moved = {n: one.history[n] * values[n] / delivered[n] for n in delivered}
        frozen = ta.from_torch(
            one.model,
            kind.residual,
            {n: ta.Parameter(delivered=v, bounds=bounds[n]) for n, v in values.items()},
            points=kind.points[:, None],
            observed=kind.times[:, None],
            loss=lambda model, **values: kind.loss(model, one.data, **values),
        )
        return ta.audit(
            frozen,
            resolution=resolution,
            data=one.data,
            history=None if kind.probe else {**one.history, **moved},
            probe=kind.probe and values is delivered,
            tolerance=ta.Tolerance(material=0.5, resolution=5.0, preference=5.0),
        )

    sound = audit(delivered)
    name, error = next(iter(sound.standard_error_percent.items()))
    large = {**delivered, name: delivered[name] * float(np.exp(SHIFT * error / 100))}
    return Audits(sound, audit(large), audit(one.truth))


@dataclass
class Count:
    """What is counted over all datasets."""

    datasets: int = 0
    alarms: int = 0
    contradicted: int = 0
    true_contradicted: int = 0
    raised: Counter[str] = field(default_factory=Counter)
    routes: Counter[str] = field(default_factory=Counter)
    p_values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, audits: Audits) -> None:
        """Count the audits of one dataset."""
        bad = [q.code for q in audits.sound.questions if q.answer == "no"]
        self.datasets += 1
        self.alarms += bool(bad)
        self.contradicted += audits.shifted.route is Route.CONTRADICTED_BY_DATA
        self.true_contradicted += audits.true.route is Route.CONTRADICTED_BY_DATA
        self.raised.update(bad)
        self.routes[audits.sound.route.value] += 1
        for name, p in tested(audits.true):
            self.p_values.setdefault(name, []).append(p)

    def merge(self, other: Count) -> None:
        """Add what was counted elsewhere."""
        for name in ("datasets", "alarms", "contradicted", "true_contradicted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.raised.update(other.raised)
        self.routes.update(other.routes)
        for name, values in other.p_values.items():
            self.p_values.setdefault(name, []).extend(values)


def counted(number: int, datasets: int) -> tuple[Count, str]:
    """Train and audit the datasets of one kind of problem, by its number; also its line."""
    kind, began, own = KINDS[number], time.process_time(), Count()
    errors, falls = [], []
    for one in trained(kind, datasets):
        audits = audited(kind, one)
        own.add(audits)
        errors += [
            100 * np.log(one.history[n][-1] / one.truth[n]) / error
            for n, error in audits.sound.standard_error_percent.items()
        ]
        falls.append(1 - one.history["loss"][-1] / one.history["loss"][-11])
    return own, (
        f"{kind.name:26}{datasets:9}{own.alarms:8}{own.contradicted:>13} of {datasets:<4}"
        f"{np.std(errors):12.2f}{max(falls):11.1e}{time.process_time() - began:6.0f} s"
    )


def alarms(datasets: int, jobs: int) -> Iterator[str]:
    """Yield a line for each kind of problem, then what alarmed and how often."""
    head = ("problem", "datasets", "alarms", f"contradicted +{SHIFT} SE", "spread, SE", "last fall")
    yield "{:26}{:>9}{:>8}{:>20}{:>12}{:>11}{:>8}".format(*head, "CPU")
    whole = Count()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for own, line in pool.map(counted, range(len(KINDS)), [datasets] * len(KINDS)):
            whole.merge(own)
            yield line
    chance = binomtest(whole.alarms, whole.datasets, 1 - LEVEL, alternative="greater").pvalue
    yield ""
    yield (
        f"false alarms: {share(whole.alarms, whole.datasets)}; declared at most {1 - LEVEL:.0%}, "
        f"at which so many or more have the chance {chance:.2f}"
    )
    yield "  by question: " + ", ".join(f"{code} {whole.raised[code]}" for code in ASKED)
    yield "  routes: " + ", ".join(f"{route} {n}" for route, n in whole.routes.most_common())
    yield f"contradicted at +{SHIFT} standard errors: {share(whole.contradicted, whole.datasets)}"
    yield ""
    yield "the true value delivered, whatever the network says"
    yield f"  contradicted: {share(whole.true_contradicted, whole.datasets)}"
    yield f"  {'test':16}{'p below 5%':>12}{'p below 1%':>12}"
    for name, values in whole.p_values.items():
        below = [f"{np.mean(np.array(values) < limit):.1%}" for limit in (0.05, 0.01)]
        yield f"  {name:16}{below[0]:>12}{below[1]:>12}   of {len(values)}"


def share(count: int, total: int) -> str:
    """Return a count and its share with the exact binomial interval."""
    ends = binomtest(count, total).proportion_ci(method="exact")
    return f"{count} of {total}, {count / total:.1%} (95% {ends.low:.1%} to {ends.high:.1%})"


def main() -> None:
    """Print both parts, and write each to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--datasets", type=int, default=60, help="of each problem")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", choices=("table", "alarms"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    parts = {
        "table": lambda: table(CASES[:2] if options.quick else CASES),
        "alarms": lambda: alarms(1 if options.quick else options.datasets, options.jobs),
    }
    for name, lines in parts.items():
        if options.only not in (None, name):
            continue
        said = [
            f"Python {platform.python_version()}, NumPy {version('numpy')}, "
            f"PyTorch {version('torch')}",
            "",
        ]
        print(*said, sep="\n")
        for line in lines():
            print(line, flush=True)
            said.append(line)
        if options.out is not None:
            text = "\n".join(said) + "\n"
            write_whole(options.out / f"{name}.txt", lambda path, text=text: path.write_text(text))


if __name__ == "__main__":
    main()
