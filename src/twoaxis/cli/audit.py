"""``twoaxis audit`` and ``twoaxis report``: the diagnosis, and the page."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twoaxis.cli.app import app, print_result, print_written
from twoaxis.cli.options import (
    PAGES,
    PROBLEM_NAMES,
    Conditions,
    Device,
    DeviceName,
    Method,
    Steps,
    check_suffix,
    check_writable,
    parse_numbers,
)
from twoaxis.cli.train import print_failures, print_runs, print_stopped

if TYPE_CHECKING:
    from twoaxis.diagnosis import Audit, Tolerance
    from twoaxis.resolution import Resolution
    from twoaxis.runs import Run

ASSUMED_PERCENT = 5.0
SNAPSHOTS = 10


@app.command()
def audit(
    problem: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help=f"One of {', '.join(PROBLEM_NAMES)}; or use --run."),
    ] = None,
    run_directory: Annotated[
        Path | None, typer.Option("--run", metavar="DIR", help="Audit the runs saved in DIR.")
    ] = None,
    method: Method = "rba",
    dataset: Annotated[
        int | None,
        typer.Option(help="Number of a published dataset.  [default: 8; for darcy 10]"),
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(
            "--seed", "--seeds", help="Seeds of the initialization; 0-3 trains four networks."
        ),
    ] = "0",
    steps: Steps = None,
    conditions: Conditions = None,
    truth: Annotated[
        bool,
        typer.Option("--truth/--no-truth", help="Use the true parameter, or ignore it."),
    ] = True,
    tolerance: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help="Tolerance for the delivered error, the matched error and the displacement of "
            "the field, in percent: one number for all, or three as 5,10,5.  [default: 5, with a "
            "note in the output]",
        ),
    ] = None,
    replicas: Annotated[int, typer.Option(help="Noise replicas for axis 1.")] = 200,
    out_directory: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Directory for page, audit and runs.  [default: audit-PROBLEM]",
        ),
    ] = None,
    device: Device = DeviceName.auto,
) -> None:
    """Train an inverse PINN on a built-in problem, diagnose it and write the page.

    With --run, nothing is trained: runs that twoaxis train saved are diagnosed.

    Example: twoaxis audit burgers --method rba --dataset 8 --tolerance 5 --out audit-burgers
    """
    import twoaxis
    from twoaxis.errors import InputError
    from twoaxis.files import ensure_directory
    from twoaxis.problems import get_problem

    limits = _tolerance(tolerance)
    if (problem is None) == (run_directory is None):
        raise InputError(
            "a problem to train on, or saved runs",
            "both" if problem else "neither",
            "write twoaxis audit burgers, or twoaxis audit --run DIR",
        )
    if run_directory is not None:
        given = {"--method": method != "rba", "--dataset": dataset is not None}
        given |= {"--seed": seeds != "0", "--steps": steps is not None}
        given |= {"--conditions": conditions is not None}
        if any(given.values()):
            raise InputError(
                "no options of a training together with --run",
                f"{', '.join(n for n, is_given in given.items() if is_given)} with --run",
                "leave them out",
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
                conditions=None if conditions is None else conditions.value,
                snapshots=SNAPSHOTS if steps is None else min(SNAPSHOTS, max(steps, 0)),
                store=where / "runs",
                device=device.value,
            )
        except KeyboardInterrupt:
            print_stopped(where / "runs")
            raise
        where = ensure_directory(where)
    print_failures(runs)
    trained = [runs[k] for k, there in enumerate(runs.data["trained"].values) if there]
    alone = len(trained) == 1
    if not alone:
        for name in dict.fromkeys(run.problem.name for run in trained):
            own = twoaxis.Runs.of([run for run in trained if run.problem.name == name])
            names = list(own[0].problem.parameters)
            print_runs(own[0].problem.title, own.to_dataframe(), names, truth)
    retrainings: dict[str, list[Audit]] = {}
    for run, found in _audits(trained, truth, limits, replicas):
        stem = where / ("audit" if alone else run.key)
        # First the files: whatever a terminal makes of the text, they are there.
        found.save(stem.with_name(f"{stem.name}.nc"))
        found.to_html(stem.with_name(f"{stem.name}.html"))
        print_result(found, "" if alone else run.key)
        print_written(f"{stem}.nc", f"{stem}.html")
        # Retrainings differ in their seed alone: other data or methods are another question.
        retrainings.setdefault(_all_but_the_seed(run), []).append(found)
    for title, audits in retrainings.items():
        if len(audits) > 1:
            print_result(twoaxis.compare(audits), title)
    if len(runs.failures):
        raise typer.Exit(1)


def _audits(
    runs: list[Run], truth: bool, tolerance: Tolerance, replicas: int
) -> Iterator[tuple[Run, Audit]]:
    """Yield each run with its audit; runs on the same data share their resolution."""
    import twoaxis

    resolved: dict[tuple[str, str], Resolution] = {}
    for run in runs:
        # Around the truth, axis 1 belongs to the dataset alone; around a candidate, to the run.
        observed = f"{run.spec.describe()['observations']} {run.dataset.noise_scale}"
        source = (run.problem.name, observed if truth else run.key)
        if source not in resolved:
            resolved[source] = run.resolve(truth=truth, replicas=replicas)
        yield (
            run,
            twoaxis.audit(
                run,
                tolerance=tolerance,
                at="truth" if truth else "delivered",
                resolution=resolved[source],
            ),
        )


@app.command()
def report(
    file: Annotated[Path, typer.Argument(metavar="FILE.nc", help="A saved result.")],
    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE.html", help="The page.  [default: beside FILE]"),
    ] = None,
) -> None:
    """Print a saved result and render its page.

    Example: twoaxis report audit-burgers/audit.nc --out burgers.html
    """
    import twoaxis

    page = check_suffix(target or file.with_suffix(".html"), PAGES, "page")
    found = twoaxis.load(file)
    check_writable(page)
    found.to_html(page)
    print_result(found)
    print_written(page)


def _all_but_the_seed(run: Run) -> str:
    """Return what retrainings share: problem, method, dataset, and the other settings in a hash."""
    settings = run.settings.describe() | {"provenance": run.dataset.provenance}
    digest = zlib.crc32(repr(sorted(settings.items(), key=str)).encode())
    name = f"{run.problem.title}, {run.settings.method.name}, dataset {run.dataset.label}"
    return f"{name} ({digest:08x})"


def _tolerance(text: str | None) -> Tolerance:
    """Return the tolerances that the user declared, or the assumed ones."""
    from twoaxis.diagnosis import Tolerance
    from twoaxis.errors import InputError

    try:
        numbers = [ASSUMED_PERCENT] if text is None else [float(p) for p in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3):
        raise InputError(
            "tolerances in percent, one number or three", repr(text), "write --tolerance 5,10,5"
        )
    material, resolution, preference = numbers * 3 if len(numbers) == 1 else numbers
    return Tolerance(
        material=material, resolution=resolution, preference=preference, assumed=text is None
    )
