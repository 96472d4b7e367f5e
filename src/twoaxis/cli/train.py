"""``twoaxis train``: inverse PINNs on the built-in benchmarks, many at once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.box import SIMPLE
from rich.table import Table

import twoaxis
from twoaxis.cli.app import Json, app, err, out, parse_numbers, shown, write_json
from twoaxis.files import ensure_writable
from twoaxis.problems import PROBLEMS, get_problem


class Device(StrEnum):
    """Where the steps are computed."""

    auto = "auto"
    cpu = "cpu"
    gpu = "gpu"


class Conditions(StrEnum):
    """Whether initial and boundary conditions are built into the field."""

    soft = "soft"
    exact = "exact"


class Engine(StrEnum):
    """Where the tasks of a sweep are executed."""

    in_process = "in-process"
    local = "local"
    dask = "dask"


class Precision(StrEnum):
    """Of the training; diagnosis is always in float64."""

    float32 = "float32"
    float64 = "float64"


@app.command()
def train(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help=f"One of {', '.join(PROBLEMS)}.")
    ],
    out_directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory for the runs.")
    ],
    method: Annotated[
        str,
        typer.Option(help="adam, pcgrad, rba, patch, gaussian-64, gaussian or selector."),
    ] = "rba",
    datasets: Annotated[
        str | None,
        typer.Option(
            "--datasets",
            "--dataset",
            help="Published draws, as 8-11 or 8,9.  [default: the problem's four]",
        ),
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(
            "--seeds", "--seed", help="Of initialisation and residual sites, as 0-9 or 0,3."
        ),
    ] = "0",
    steps: Annotated[int, typer.Option(help="Adam steps.")] = 5000,
    width: Annotated[int, typer.Option(help="Units of a hidden layer.")] = 64,
    depth: Annotated[int | None, typer.Option(help="Hidden layers.  [default: 3; darcy 4]")] = None,
    conditions: Annotated[
        Conditions, typer.Option(help="exact builds initial and boundary conditions in.")
    ] = Conditions.soft,
    precision: Annotated[Precision, typer.Option(help="Of the training.")] = Precision.float32,
    snapshots: Annotated[
        int, typer.Option(help="Fields to keep along the training, evenly spaced.")
    ] = 0,
    device: Annotated[Device, typer.Option(help="auto takes a GPU if there is one.")] = Device.auto,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes on a CPU.  [default: one a core]")
    ] = None,
    engine: Annotated[
        Engine | None,
        typer.Option(help="Cut the runs into tasks, and execute them there."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Of a Dask scheduler.  [default: a cluster on this machine]"
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Runs of one task.  [default: 1, on a GPU 80]")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Train again what DIR holds already.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Train inverse PINNs, one for every dataset and seed.

    Runs that DIR holds already are not trained again, and an interrupted call goes on where it
    stopped when it is repeated.

    Example: twoaxis train burgers --method rba --datasets 8-11 --seeds 0-9 --out runs/
    """
    chosen = get_problem(problem)
    if json_file not in (None, "-"):
        ensure_writable(str(json_file))
    network = None if depth is None and width == 64 else _network(chosen.name, width, depth)
    options: dict[str, Any] = {
        "method": method,
        "datasets": None if datasets is None else parse_numbers(datasets, "--datasets"),
        "seeds": parse_numbers(seeds, "--seeds"),
        "steps": steps,
        "network": network,
        "conditions": conditions.value,
        "precision": precision.value,
        "snapshots": snapshots,
        "workers": workers,
    }
    try:
        runs = twoaxis.train(
            chosen,
            store=out_directory,
            engine=None if engine is None else engine.value,
            device=device.value,
            scheduler=scheduler,
            batch=batch,
            overwrite=overwrite,
            **options,
        )
    except KeyboardInterrupt:
        say_stopped(out_directory, overwrite)
        raise
    for _, row in runs.failures.iterrows():
        err.print(f"failed: {shown(row['key'])}: {shown(row['status'])}", highlight=False)
    again = int((runs.work["attempts"] > 1).sum())
    if again:
        err.print(f"{again} runs were begun more than once", highlight=False)
    frame = runs.to_dataframe()
    if json_file != "-":
        print_runs(chosen.title, frame, list(chosen.parameters))
        out.print(f"  runs in {shown(out_directory)}", highlight=False, soft_wrap=True)
    if json_file is not None:
        records = frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
        write_json(json_file, {"runs": records})
    if len(runs.failures):
        raise typer.Exit(1)


def say_stopped(directory: Path, overwrite: bool = False) -> None:
    """Say how an interrupted training goes on, where a checkpoint was written."""
    if any(directory.glob("checkpoints/checkpoint-*.safetensors")):
        how = "the same command without --overwrite" if overwrite else "the same command"
        err.print(f"stopped; {how} goes on from the last checkpoint", highlight=False)


def print_runs(title: str, frame: pd.DataFrame, names: list[str], truth: bool = True) -> None:
    """Print a row for each run, narrow enough for a terminal of 80 columns.

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


def _network(problem: str, width: int, depth: int | None) -> Any:
    return twoaxis.Network(width, depth if depth is not None else (4 if problem == "darcy" else 3))
