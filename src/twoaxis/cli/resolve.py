"""``twoaxis resolve`` and ``twoaxis benchmark-draws``: axis 1."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from twoaxis.cli.app import app, out, print_written, shown
from twoaxis.cli.options import (
    FIGURES,
    PROBLEM_NAMES,
    Json,
    check_suffix,
    check_writable,
    parse_numbers,
    write_json,
)
from twoaxis.text import sentence

if TYPE_CHECKING:
    import pandas as pd

    from twoaxis.resolution import Resolution

MOST_LAYOUTS = 1000


class FitSolver(StrEnum):
    """The solver of the fit; the data always come from the fine one."""

    fine = "fine"
    coarse = "coarse"


@app.command()
def resolve(
    problems: Annotated[
        list[str],
        typer.Argument(
            metavar="PROBLEM...",
            help=f"One or more of {', '.join(PROBLEM_NAMES)}; all is the three with one parameter.",
        ),
    ],
    layouts: Annotated[
        str | None,
        typer.Option(help="Layout seeds, as 8-11 or 8,9.  [default: the published four]"),
    ] = None,
    replicas: Annotated[int, typer.Option(help="Noise replicas per layout.")] = 200,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the noise.  [default: the published seed]")
    ] = None,
    fit_solver: Annotated[
        FitSolver, typer.Option(help="Solver of the fit; the data come from the fine one.")
    ] = FitSolver.fine,
    json_file: Json = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.nc", help="Save the result as netCDF.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the estimates, as PNG, PDF or SVG.")
    ] = None,
) -> None:
    """Axis 1: how well can these observations resolve the parameter?

    Noisy datasets are simulated at the true parameter and fitted with the same forward solver.

    Example: twoaxis resolve burgers --layouts 8-11 --replicas 200 --out burgers.nc
    """
    import twoaxis
    from twoaxis.resolution import resolution_table

    names = _problem_names(problems)
    seeds = None if layouts is None else parse_numbers(layouts, "--layouts", MOST_LAYOUTS)
    _check_outputs(json_file, out_file, figure, len(names))
    found = {
        name: twoaxis.resolve(
            name,
            layouts=seeds,
            replicas=replicas,
            seed=seed,
            fit_forward=fit_solver.value,
        )
        for name in names
    }
    # The overall row weighs the problems equally, which needs one parameter in each.
    scalar = all(len(resolution.parameters) == 1 for resolution in found.values())
    overall = resolution_table(found) if len(found) > 1 and scalar else None
    if out_file is not None:
        print_written(found[names[0]].save(out_file))
    if figure is not None:
        print_written(_draw(found[names[0]], figure))
    if json_file is not None:
        write_json(json_file, _as_json(found, overall))
    if json_file != "-":
        for name, resolution in found.items():
            _print_resolution(name, resolution, fit_solver)
        if overall is not None:
            _print_rows("All problems, equally weighted", overall)


@app.command("benchmark-draws")
def benchmark_draws_command(json_file: Json = None) -> None:
    """Fit the twelve benchmark datasets of the study with the matched solver.

    Example: twoaxis benchmark-draws --json -
    """
    from twoaxis.resolution import benchmark_draws

    check_writable(json_file)
    table = benchmark_draws()
    mean = float(table["error_percent"].mean())
    if json_file is not None:
        draws = table.to_dict(orient="records")
        write_json(json_file, {"draws": draws, "mean_error_percent": mean})
    if json_file != "-":
        lines = Table(title="Matched estimates of the benchmark datasets", box=SIMPLE, padding=0)
        for column in table.columns:
            lines.add_column(shown(column.replace("_", " ")))
        for draw in table.itertuples(index=False):
            lines.add_row(*(f"{v:.6g}" if isinstance(v, float) else shown(v) for v in draw))
        out.print(lines)
        out.print(f"  mean error {mean:.3f}%", highlight=False)


def _problem_names(problems: list[str]) -> list[str]:
    """Return names, with ``all`` as the scalar benchmarks, each once and in order."""
    from twoaxis.problems import SCALAR_BENCHMARKS, get_problem

    names: list[str] = []
    for problem in problems:
        everything = problem.strip().lower() == "all"
        names += [p.name for p in SCALAR_BENCHMARKS] if everything else [get_problem(problem).name]
    return list(dict.fromkeys(names))


def _check_outputs(
    json_file: str | None, out_file: Path | None, figure: Path | None, problems: int
) -> None:
    """Find out before the work starts whether its results can be written."""
    from twoaxis.errors import InputError

    for option, path in (("--out", out_file), ("--figure", figure)):
        if path is not None and str(path) == "-":
            raise InputError(
                f"a file name with {option}", "-", "only --json writes to standard output"
            )
        if path is not None and problems > 1:
            raise InputError(
                f"one problem with {option}",
                f"{problems} problems",
                "run the command once for each",
            )
    if figure is not None:
        check_suffix(figure, FIGURES, "figure")
    check_writable(json_file, out_file, figure)


def _as_json(found: dict[str, Resolution], overall: pd.DataFrame | None) -> dict[str, Any]:
    """Return the main numbers of every problem, and of all of them together."""
    from twoaxis.resolution.benchmarks import STRATIFIED, UNSTRATIFIED

    content: dict[str, Any] = {"problems": {n: r.to_dict() for n, r in found.items()}}
    if overall is not None:
        row: dict[Any, Any] = overall.loc[UNSTRATIFIED].to_dict()
        stratified: dict[Any, Any] = overall.loc[STRATIFIED].to_dict()
        content["overall"] = {
            "error_percent": {name: float(row[name]) for name in ("mean", "median", "p90")},
            "fisher_error_percent": float(row["fisher"]),
            "coverage": float(row["coverage"]),
        }
        if "ci_low" in overall:
            for key, ends in (("ci95", row), ("ci95_stratified", stratified)):
                content["overall"]["error_percent"][key] = [ends["ci_low"], ends["ci_high"]]
    return content


def _draw(resolution: Resolution, path: Path) -> Path:
    import matplotlib.pyplot as plt
    import numpy as np

    from twoaxis.files import write_whole

    count = len(resolution.parameters)
    figure, axes = plt.subplots(count, 1, figsize=(6.4, 3.6 * count), layout="constrained")
    for name, ax in zip(resolution.parameters, np.atleast_1d(axes), strict=True):
        resolution.plot(ax=ax, parameter=name)
    plt.close(figure)
    return write_whole(path, lambda target: figure.savefig(target, dpi=160))


def _print_resolution(name: str, resolution: Resolution, fit_solver: FitSolver) -> None:
    """Print one problem: its table, a sentence per parameter, and the messages."""
    from twoaxis.problems import get_problem

    kind = "matched fits" if fit_solver is FitSolver.fine else "fits with the coarse solver"
    title = f"{get_problem(name).title}: error of the {kind}, %"
    _print_rows(title, resolution.summary())
    for parameter in resolution.parameters:
        out.print(f"  {_sentence(resolution, parameter)}", highlight=False)
    for message in resolution.messages:
        mark = "[yellow]![/]" if message.severity == "warning" else "-"
        out.print(f"  {mark} {shown(sentence(message.text))}", highlight=False)


def _sentence(resolution: Resolution, parameter: str) -> str:
    """Say in one sentence how well the observations determine a parameter."""
    chosen = resolution.data.sel(parameter=parameter)
    errors = chosen["deviation_percent"]
    most = float(errors.quantile(0.9))
    return (
        f"{shown(parameter)} = {float(chosen['center']):g}: mean error "
        f"{float(errors.mean()):.2f}%, 90% of the replicas below {most:.2f}%."
    )


def _print_rows(title: str, frame: pd.DataFrame) -> None:
    """Print a resolution table, narrow enough for a terminal of 80 columns."""
    labels = [str(name) for name in frame.index.names]
    table = Table(
        title=shown(title), title_justify="left", title_style="bold", box=SIMPLE, padding=0
    )
    for label in labels:
        table.add_column(shown(label), no_wrap=True)
    for heading in ("mean [95% CI]", "median", "P90", "Fisher", "bias", "cover", "bound"):
        table.add_column(shown(heading), justify="right", no_wrap=True)
    for index, row in frame.iterrows():
        names = index if isinstance(index, tuple) else (index,)
        interval = f" [{row['ci_low']:.2f}, {row['ci_high']:.2f}]" if "ci_low" in row else ""
        table.add_row(
            *(shown(part) for part in names),
            shown(f"{row['mean']:.2f}{interval}"),
            *(f"{row[column]:.2f}" for column in ("median", "p90", "fisher")),
            f"{round(row['bias'], 2) + 0.0:.2f}",  # adding zero takes the sign off -0.00
            f"{100 * row['coverage']:.2f}%",
            f"{row['on_bound']:.0f}",
        )
    out.print(table)
