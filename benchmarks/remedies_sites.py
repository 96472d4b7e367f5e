"""Suggested sites beside random ones: the repeated-noise error of the same number of observations.

On the three scalar benchmarks 200 sites are spent, at most one in each cell of 20 time levels by 2
space nodes of the fine solver's grid. The reference is the mean error of 50 random layouts of 200
sites, which know no cells. Parts:

1. the truth is known: the layout made for it, its prediction and its refits;
2. the truth is not known: layouts made for a delivered value that is 50 percent off, for what
   axis 1 leaves open around it, for a factor of two around it, for the likelihood-profile set of
   the matched fit to data, and for the whole range between the bounds; all judged by refits at
   the real truth;
3. sites added to a published layout;
4. the rule that error falls with the square root of the number of random sites.

    python benchmarks/remedies_sites.py --out results/remedies/sites.txt
    python benchmarks/remedies_sites.py --quick
"""

from __future__ import annotations

import argparse
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import twoaxis as ta
from twoaxis.datasets import layout, noise_scale, noise_seed, published_dataset
from twoaxis.files import write_whole
from twoaxis.forward import get_solver
from twoaxis.problems import SCALAR_BENCHMARKS, EvolutionProblem, truth_of
from twoaxis.remedies import suggest_sites
from twoaxis.resolution import needed_observations

CELLS = (20, 2)
# Seeds of the random layouts; none of them is published.
RANDOM = range(100, 150)
NOISE_SEED = 20260801
# Theory allows these ratios of suggested to random error when the truth is known.
ALLOWED = {"burgers": 0.14, "buckley-leverett": 0.12, "allen-cahn": 0.32}
# A suggested layout should come this near to what theory allows.
MARGIN = 1.25
REPLICAS = 200
# Standard normal quantile of a 95 percent interval.
REACH = 1.96


@dataclass(frozen=True)
class Case:
    """One benchmark, and the error of its random layouts."""

    problem: EvolutionProblem
    replicas: int
    random: float

    @property
    def name(self) -> str:
        """Name of the parameter."""
        return next(iter(self.problem.parameters))

    @property
    def truth(self) -> float:
        """Its true value."""
        return truth_of(self.problem)[self.name]

    def suggest(self, at: Any = None, k: int = 200, **options: Any) -> Any:
        """Suggest sites under the rule of this script."""
        return suggest_sites(self.problem, k, at=at, cells=CELLS, progress=False, **options)

    def judged(self, suggested: Any, replicas: int | None = None) -> Any:
        """Refits at the real truth, under the noise stream of this script."""
        return suggested.verify(
            replicas or 5 * self.replicas,
            noise_seed(self.problem, NOISE_SEED),
            at="truth",
            validate=0,
            progress=False,
        )


class Text:
    """Lines that are printed as they come and written in the end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str = "") -> None:
        """Add a line."""
        print(line, flush=True)
        self.lines.append(line)


def random_layouts(problem: EvolutionProblem, seeds: Any, replicas: int, count: int = 200) -> Any:
    """Refits on random layouts; with 200 sites they are the built-in ones."""
    solver = get_solver(problem)
    size = int(np.prod(solver.shape))
    sites = {s: np.random.RandomState(s).choice(size, count, replace=False) for s in seeds}
    if count == problem.observed.sites:
        sites = {s: layout(problem, s) for s in seeds}
    observed = np.unique(np.concatenate(list(sites.values())))
    return ta.resolve(
        lambda **values: solver.at_sites(observed, **values),
        problem.parameters,
        noise_scale(problem),
        {s: np.searchsorted(observed, one) for s, one in sites.items()},
        replicas=replicas,
        seed=noise_seed(problem, NOISE_SEED),
        vectorized=True,
        validate=0,
        progress=False,
    )


def known_truth(case: Case, say: Text, fisher: float) -> None:
    found = case.suggest()
    check = case.judged(found, case.replicas)
    verified, predicted = float(check.verified), float(check.predicted)
    low, high = check.interval.values
    ratio, limit = verified / case.random, MARGIN * ALLOWED[case.problem.name]
    theory = predicted / fisher
    say(f"  predicted {predicted:.3f}%, first-order ratio to random layouts {theory:.3f}")
    say(
        f"  verified  {verified:.3f}% [{low:.3f}, {high:.3f}] over {case.replicas} refits: "
        f"prediction {'inside' if bool(check.inside) else 'OUTSIDE'}"
    )
    say(
        f"  ratio to random layouts {ratio:.3f}; allowed by theory {ALLOWED[case.problem.name]:g}, "
        f"wanted at most {limit:.3f}: {'reached' if ratio <= limit else 'NOT reached'}"
    )
    sharp = case.judged(found, 10 * case.replicas)
    low, high = sharp.interval.values
    say(
        f"  the same over {10 * case.replicas} refits: {float(sharp.verified):.3f}% "
        f"[{low:.3f}, {high:.3f}], prediction {'inside' if bool(sharp.inside) else 'OUTSIDE'}"
    )


def judge(case: Case, say: Text, words: str, at: Any, points: int = 15) -> float:
    """Make a layout without the truth, and say what it gains at the truth."""
    found = case.suggest(at, design_points=points)
    check = case.judged(found)
    ratio = float(check.verified) / case.random
    low, high = check.interval.values
    worst = ""
    if np.ndim(at[case.name]):
        held = at[case.name][0] <= case.truth <= at[case.name][1]
        worst = "" if held else "; MISSES the truth"
        if case.replicas >= REPLICAS and points <= 15:
            worst = f"; worst efficiency {float(found.efficiency().min()):.2f}{worst}"
    say(
        f"  {words:46} {float(check.verified):7.3f}% [{low:.3f}, {high:.3f}]  ratio {ratio:.3f}, "
        f"predicted there {float(check.predicted):.3f}%{worst}"
    )
    return ratio


def usable(case: Case, low: float, high: float) -> tuple[float, float]:
    """Cut an interval to the bounds and to where the explicit solver is stable."""
    bounds = case.problem.parameters[case.name].bounds
    tried = np.geomspace(*bounds, 241)
    works = np.isfinite(get_solver(case.problem).at_sites([0], **{case.name: tried})[:, 0])
    # Differences step a little beyond a value: one tried value is kept as a margin.
    return max(low, float(tried[works][1])), min(high, float(tried[works][-2]))


def unknown_truth(case: Case, say: Text, published: tuple[int, ...]) -> None:
    for off in (0.5, 1.5):
        delivered = off * case.truth
        say(f"  delivered {delivered:g}, {100 * (off - 1):+.0f}% off:")
        judge(case, say, "  made for the delivered value alone", {case.name: delivered})
        near = ta.resolve(
            case.problem,
            layouts=published,
            replicas=1,
            at={case.name: delivered},
            validate=0,
            progress=False,
        )
        deviation = float(near.fisher_error_percent.mean()) * np.sqrt(np.pi / 2) / 100
        ends = usable(
            case, delivered * np.exp(-REACH * deviation), delivered * np.exp(REACH * deviation)
        )
        words = f"  axis 1 around it, {ends[0]:.4g} to {ends[1]:.4g}"
        judge(case, say, words, {case.name: ends})
        ends = usable(case, delivered / 2, 2 * delivered)
        words = f"  a factor of two, {ends[0]:.4g} to {ends[1]:.4g}"
        judge(case, say, words, {case.name: ends})
    say("  likelihood-profile set of the matched fit to published data, whatever was delivered:")
    ratios = []
    for seed in published:
        data = {seed: published_dataset(case.problem, seed).values}
        fitted = ta.resolve(
            case.problem, layouts=[seed], replicas=1, data=data, validate=0, progress=False
        )
        row = fitted.data_summary().iloc[0]
        ends = usable(case, float(row["lower"]), float(row["upper"]))
        words = f"  dataset {seed}, {ends[0]:.4g} to {ends[1]:.4g}"
        ratios.append(judge(case, say, words, {case.name: ends}))
    say(f"    mean ratio {np.mean(ratios):.3f}")
    ends = usable(case, *case.problem.parameters[case.name].bounds)
    words = f"the whole range, {ends[0]:.4g} to {ends[1]:.4g}"
    judge(case, say, words, {case.name: ends})


def quadrature(case: Case, say: Text) -> None:
    """Does the number of points of an interval matter?"""
    for points in (5, 15, 45):
        ends = usable(case, case.truth / 2, 2 * case.truth)
        judge(
            case,
            say,
            f"  {points} points, {ends[0]:.4g} to {ends[1]:.4g}",
            {case.name: ends},
            points,
        )


def added(case: Case, say: Text) -> None:
    now = float(random_layouts(case.problem, [8], 5 * case.replicas).error_percent.mean())
    for k in (10, 50):
        check = case.judged(case.suggest(k=k, present=8))
        low, high = check.interval.values
        say(
            f"  layout 8 and {k:2} more: {now:.3f}% -> {float(check.verified):.3f}% "
            f"[{low:.3f}, {high:.3f}], predicted {float(check.predicted):.3f}%, "
            f"{'inside' if bool(check.inside) else 'OUTSIDE'}"
        )
    need = needed_observations(now, float(check.verified), 200)
    say(f"  random sites would need {need.observations} in all for the last of these")


def square_root(case: Case, say: Text, seeds: Any) -> None:
    """Mean error of longer random layouts whose first 200 sites are the same."""
    errors = {
        count: float(random_layouts(case.problem, seeds, case.replicas, count).error_percent.mean())
        for count in (200, 400, 800)
    }
    for count in (400, 800):
        expected = errors[200] * np.sqrt(200 / count)
        say(
            f"  {len(seeds)} layouts of {count}: {errors[count]:.3f}%, expected from the first 200 "
            f"sites {expected:.3f}%, ratio {errors[count] / expected:.3f}"
        )


def header(say: Text, command: str, refits: int) -> None:
    packages = ", ".join(f"{name} {version(name)}" for name in ("twoaxis", "numpy", "scipy"))
    say(f"command: {command}")
    say(f"Python {platform.python_version()}, {packages}; CPU, {platform.machine()}")
    say(f"cells of {CELLS[0]} time levels by {CELLS[1]} space nodes; errors are means of")
    say("100 |estimate / truth - 1| over repeated noise, with 95% bootstrap intervals")
    say(f"of {refits} refits where no number is given; a ratio is to the random layouts' mean")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="one problem, fewer layouts, replicas and parts"
    )
    parser.add_argument("--out", type=Path, help="where to write what is printed")
    options = parser.parse_args()
    replicas = REPLICAS // 4 if options.quick else REPLICAS
    seeds = RANDOM[:5] if options.quick else RANDOM
    published = (8,) if options.quick else (8, 9, 10, 11)
    say = Text()
    command = "python benchmarks/remedies_sites.py" + (" --quick" if options.quick else "")
    header(say, command, 5 * replicas)
    for problem in SCALAR_BENCHMARKS[-1:] if options.quick else SCALAR_BENCHMARKS:
        reference = random_layouts(problem, seeds, replicas)
        error = float(reference.error_percent.mean())
        fisher = float(reference.fisher_error_percent.mean())
        by_layout = reference.error_percent.mean("replica")
        case = Case(problem, replicas, error)
        say()
        say(f"{problem.title}, {case.name} = {case.truth:g}")
        say(
            f"  {len(seeds)} random layouts of 200: {error:.3f}%, from "
            f"{float(by_layout.min()):.2f} to {float(by_layout.max()):.2f}; Fisher {fisher:.3f}%"
        )
        say("truth known")
        known_truth(case, say, fisher)
        say("truth not known (refits at the truth)")
        unknown_truth(case, say, published)
        if options.quick:
            continue
        say("points of an interval of a factor of two around the truth")
        quadrature(case, say)
        say("sites added to a published layout, truth known")
        added(case, say)
        say("error against the number of random sites")
        square_root(case, say, seeds[:20])
    if options.out is not None:
        text = "\n".join(say.lines) + "\n"
        write_whole(options.out, lambda target: Path(target).write_text(text))


if __name__ == "__main__":
    main()
