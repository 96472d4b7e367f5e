"""``twoaxis audit`` and ``twoaxis report``: the verdict, and the page."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import twoaxis
from twoaxis.cli.app import app, out, parse_numbers, say_written, shown
from twoaxis.cli.train import Conditions, Device, print_runs, say_stopped
from twoaxis.diagnosis import Audit, Tolerance, load_audit
from twoaxis.errors import InputError
from twoaxis.files import ensure_directory, ensure_writable
from twoaxis.problems import PROBLEMS, get_problem
from twoaxis.resolution import Resolution
from twoaxis.text import visible

ASSUMED = 5.0
STEPS = 5000
SNAPSHOTS = 10

TOLERANCE_HELP = (
    "Tolerated percent of the delivered error, the matched error and the field's displacement: "
    "one number for all, or three as 5,10,5.  [default: 5, and the output says so]"
)


@app.command()
def audit(
    problem: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help=f"One of {', '.join(PROBLEMS)}; or use --run."),
    ] = None,
    run_directory: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="Audit the runs saved in DIR.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="adam, pcgrad, rba, patch, gaussian-64, gaussian or selector.")
    ] = "rba",
    dataset: Annotated[
        int | None,
        typer.Option(help="A published draw.  [default: the problem's first, 8; darcy 10]"),
    ] = None,
    seeds: Annotated[
        str, typer.Option("--seed", "--seeds", help="Of the initialisation; 0-3 trains four.")
    ] = "0",
    steps: Annotated[int, typer.Option(help="Adam steps.")] = STEPS,
    conditions: Annotated[
        Conditions, typer.Option(help="exact builds initial and boundary conditions in.")
    ] = Conditions.soft,
    truth: Annotated[
        bool,
        typer.Option("--truth/--no-truth", help="Use the benchmark's truth, or do as if unknown."),
    ] = True,
    tolerance: Annotated[str | None, typer.Option(metavar="PERCENT", help=TOLERANCE_HELP)] = None,
    replicas: Annotated[int, typer.Option(help="Noisy replicas for axis 1.")] = 200,
    out_directory: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="For page, audit and runs.  [default: audit-PROBLEM]"
        ),
    ] = None,
    device: Annotated[Device, typer.Option(help="auto takes a GPU if there is one.")] = Device.auto,
) -> None:
    """Train an inverse PINN on a built-in benchmark, diagnose it, write the page.

    With --run nothing is trained: runs that twoaxis train has saved are diagnosed.

    Example: twoaxis audit burgers --method rba --dataset 8 --tolerance 5 --out audit-burgers
    """
    limits, declared = _tolerance(tolerance)
    if (problem is None) == (run_directory is None):
        raise InputError(
            "a problem to train on, or saved runs",
            "both" if problem else "neither",
            "write twoaxis audit burgers, or twoaxis audit --run DIR",
        )
    if run_directory is not None:
        given = {"--method": method != "rba", "--dataset": dataset is not None}
        given |= {"--seed": seeds != "0", "--steps": steps != STEPS}
        given |= {"--conditions": conditions is not Conditions.soft}
        if any(given.values()):
            raise InputError(
                "saved runs as they are",
                f"{', '.join(n for n, is_given in given.items() if is_given)} with --run",
                "leave out what concerns a training",
            )
        runs = twoaxis.load_runs(run_directory)
        where = ensure_directory(out_directory or run_directory)
    else:
        chosen = get_problem(str(problem))
        where = out_directory or Path(f"audit-{chosen.name}")
        first = chosen.observed.layouts[0]
        try:
            runs = twoaxis.train(
                chosen,
                method=method,
                datasets=first if dataset is None else dataset,
                seeds=parse_numbers(seeds, "--seed"),
                steps=steps,
                conditions=conditions.value,
                snapshots=min(SNAPSHOTS, max(steps, 0)),
                store=where / "runs",
                device=device.value,
            )
        except KeyboardInterrupt:
            say_stopped(where / "runs")
            raise
        where = ensure_directory(where)
    if len(runs) > 1:
        for name in dict.fromkeys(run.problem.name for run in runs):
            own = twoaxis.Runs.of([run for run in runs if run.problem.name == name])
            names = list(own[0].problem.parameters)
            print_runs(own[0].problem.title, own.to_dataframe(), names, truth)
    retrainings: dict[str, list[Audit]] = {}
    resolved: dict[tuple[str, str], Resolution] = {}
    for run in runs:
        # Around the truth, axis 1 belongs to the dataset alone; around a candidate, to the run.
        observed = f"{run.spec.describe()['observations']} {run.dataset.noise_scale}"
        source = (run.problem.name, observed if truth else run.key)
        if source not in resolved:
            resolved[source] = run.resolve(truth=truth, replicas=replicas)
        found = twoaxis.audit_run(
            run,
            tolerance=limits,
            truth=truth,
            resolution=resolved[source],
            notes=[] if declared else [_assumption(limits)],
        )
        name = "audit" if len(runs) == 1 else run.key
        _show(found, None if len(runs) == 1 else run.key)
        for path in (where / f"{name}.nc", where / f"{name}.html"):
            (found.to_netcdf if path.suffix == ".nc" else found.to_html)(path)
            say_written(_relative(path))
        # Retrainings differ in their seed alone: other data or methods are another question.
        retrainings.setdefault(_all_but_the_seed(run), []).append(found)
    for title, audits in retrainings.items():
        if len(audits) > 1:
            out.print(f"\n[bold]{shown(title)}[/]", highlight=False)
            out.print(Text(visible(twoaxis.compare(audits), lines=True)), soft_wrap=True)


@app.command()
def report(
    file: Annotated[Path, typer.Argument(metavar="FILE.nc", help="A saved audit.")],
    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.html", help="The page.  [default: beside FILE]"),
    ] = None,
) -> None:
    """Print a saved audit and render its page again.

    Example: twoaxis report audit-burgers/audit.nc --out burgers.html
    """
    page = target if target is not None else file.with_suffix(".html")
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError("a page named .html", repr(str(page)), "change the file name")
    found = load_audit(file)
    ensure_writable(page)
    _show(found, None)
    found.to_html(page)
    say_written(page)


def _show(found: Audit, title: str | None) -> None:
    """Print an audit as it prints itself: whatever names it holds, they are no markup."""
    if title is not None:
        out.print(f"\n[bold]{shown(title)}[/]", highlight=False)
    out.print(Text(visible(found, lines=True)), soft_wrap=True)


def _all_but_the_seed(run: Any) -> str:
    """Return what retrainings share: problem, method, dataset, and the other settings in a hash."""
    settings = run.settings.describe() | {"provenance": run.dataset.provenance}
    digest = zlib.crc32(repr(sorted(settings.items(), key=str)).encode())
    name = f"{run.problem.title}, {run.settings.method.name}, dataset {run.dataset.label}"
    return f"{name} ({digest:08x})"


def _tolerance(text: str | None) -> tuple[Tolerance, bool]:
    """Read the tolerances, and tell whether they were declared."""
    if text is None:
        return Tolerance(material=ASSUMED, resolution=ASSUMED, preference=ASSUMED), False
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3):
        raise InputError(
            "tolerances in percent, one number or three", repr(text), "write --tolerance 5,10,5"
        )
    material, resolution, preference = numbers * 3 if len(numbers) == 1 else numbers
    return Tolerance(material=material, resolution=resolution, preference=preference), True


def _assumption(limits: Tolerance) -> str:
    return (
        f"the tolerances of {limits.material:g} percent were assumed, not declared: "
        "say with --tolerance what matters to you"
    )


def _relative(path: Path) -> Path:
    """Return the path as seen from here, where it lies below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
