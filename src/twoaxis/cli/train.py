"""``twoaxis train``: inverse PINNs on the built-in problems, many at once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from twoaxis.cli.app import app, err, out, shown
from twoaxis.cli.options import (
    PROBLEM_NAMES,
    Conditions,
    Device,
    DeviceName,
    Json,
    Method,
    Steps,
    check_writable,
    parse_numbers,
    write_json,
)

if TYPE_CHECKING:
    import pandas as pd

    from twoaxis.runs import Runs


class EngineName(StrEnum):
    """What executes the tasks of a training."""

    in_process = "in-process"
    local = "local"
    dask = "dask"


class PrecisionName(StrEnum):
    """Floating-point type of the training; diagnosis is always in float64."""

    float32 = "float32"
    float64 = "float64"


@app.command()
def train(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help=f"One of {', '.join(PROBLEM_NAMES)}.")
    ],
    out_directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory for the runs.")
    ],
    method: Method = "rba",
    datasets: Annotated[
        str | None,
        typer.Option(
            "--datasets",
            "--dataset",
            help="Published datasets, as 8-11 or 8,9.  [default: the four of the problem]",
        ),
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(
            "--seeds",
            "--seed",
            help="Seeds of the initialization and the residual points, as 0-9 or 0,3.",
        ),
    ] = "0",
    steps: Steps = None,
    width: Annotated[
        int | None, typer.Option(help="Units per hidden layer.  [default: 64; gauss-newton 24]")
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(help="Hidden layers.  [default: 3; for darcy 4, gauss-newton 3]"),
    ] = None,
    conditions: Conditions = None,
    precision: Annotated[
        PrecisionName | None,
        typer.Option(
            help="Floating-point type of the training.  [default: float32; gauss-newton float64]"
        ),
    ] = None,
    snapshots: Annotated[
        int, typer.Option(help="Number of fields to keep along the training, evenly spaced.")
    ] = 0,
    device: Device = DeviceName.auto,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes on a CPU.  [default: one per core]")
    ] = None,
    engine: Annotated[
        EngineName | None,
        typer.Option(help="Split the runs into tasks and execute them with this engine."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of a Dask scheduler.  [default: a cluster on this machine]",
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Runs per task.  [default: 1; on a GPU 80]")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Train again runs that DIR already holds.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Train inverse PINNs, one per dataset and seed.

    Runs that DIR already holds are not trained again, and an interrupted command continues when
    it is repeated.

    Example: twoaxis train burgers --method rba --datasets 8-11 --seeds 0-9 --out runs/
    """
    import twoaxis
    from twoaxis.problems import get_problem

    chosen = get_problem(problem)
    check_writable(json_file)
    network = None if depth is None and width is None else _network(chosen, method, width, depth)
    options: dict[str, Any] = {
        "method": method,
        "datasets": None if datasets is None else parse_numbers(datasets, "--datasets"),
        "seeds": parse_numbers(seeds, "--seeds"),
        "steps": steps,
        "network": network,
        "conditions": None if conditions is None else conditions.value,
        "precision": None if precision is None else precision.value,
        "snapshots": snapshots,
        "workers": workers,
    }
    try:
        runs = twoaxis.train(
            chosen,
            store=out_directory,
            overwrite=overwrite,
            engine=None if engine is None else engine.value,
            device=device.value,
            scheduler=scheduler,
            batch=batch,
            **options,
        )
    except KeyboardInterrupt:
        print_stopped(out_directory, overwrite)
        raise
    print_failures(runs)
    frame = runs.to_dataframe()
    if json_file is not None:
        records = frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
        write_json(json_file, {"runs": records})
    if json_file != "-":
        print_runs(chosen.title, frame, list(chosen.parameters))
        programs = " and ".join(sorted(set(runs.work["program"]) - {""}))
        out.print(f"  program: {programs or 'none'}", highlight=False)
        out.print(f"  runs in {shown(out_directory)}", highlight=False, soft_wrap=True)
    if len(runs.failures):
        raise typer.Exit(1)


def print_failures(runs: Runs) -> None:
    """Print which runs failed and why, and how many were started more than once."""
    for _, row in runs.failures.iterrows():
        err.print(f"failed: {shown(row['key'])}: {shown(row['status'])}", highlight=False)
    again = int((runs.work["attempts"] > 1).sum())
    if again:
        err.print(f"{again} runs were started more than once", highlight=False)


def print_stopped(directory: Path, overwrite: bool = False) -> None:
    """Print how to continue an interrupted training, if a checkpoint was written."""
    if any(directory.glob("checkpoints/checkpoint-*.safetensors")):
        how = "the command without --overwrite" if overwrite else "the command"
        err.print(f"stopped; repeat {how} to continue from the last checkpoint", highlight=False)


def print_runs(title: str, frame: pd.DataFrame, names: list[str], truth: bool = True) -> None:
    """Print one row per run, narrow enough for a terminal of 80 columns.

    Without a truth there is no error to print.
    """
    known = [n for n in names if truth and f"{n}_error_percent" in frame]
    method = ", ".join(frame["method"].unique())
    table = Table(
        title=shown(f"{title}, {method}: {len(frame)} runs"),
        title_justify="left",
        title_style="bold",
        box=SIMPLE,
        padding=0,
    )
    for heading in ("dataset", "seed", "steps", "data loss", "residual loss"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in names:
        table.add_column(shown(name), justify="right", no_wrap=True)
        if name in known:
            table.add_column("error %", justify="right", no_wrap=True)
    table.add_column("status", overflow="fold")
    for _, row in frame.iterrows():
        values = [
            (f"{row[n]:.5g}", *([f"{row[f'{n}_error_percent']:+.2f}"] if n in known else []))
            for n in names
        ]
        table.add_row(
            shown(row["dataset"]),
            str(row["seed"]),
            str(row["steps"]),
            f"{row['loss_data']:.3e}",
            f"{row['loss_residual']:.3e}",
            *(text for cells in values for text in cells),
            shown(row["status"]),
        )
    out.print(table)
    for name in known:
        size = frame[f"{name}_error_percent"].abs()
        out.print(
            f"  mean absolute error of {shown(name)}: {size.mean():.2f}%, median "
            f"{size.median():.2f}%, largest {size.max():.2f}%",
            highlight=False,
        )


def _network(problem: Any, method: str, width: int | None, depth: int | None) -> Any:
    """Return the method's own network with another width or depth."""
    from dataclasses import replace

    from twoaxis.training.settings import settings_for

    given = {"width": width, "depth": depth}
    usual = settings_for(problem, method).network
    return replace(usual, **{name: value for name, value in given.items() if value is not None})
