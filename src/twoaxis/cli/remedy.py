"""``twoaxis remedy``: what to do about a saved audit, computed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from twoaxis.cli.app import app, out, print_written, shown
from twoaxis.cli.options import PAGES, Device, DeviceName, check_suffix, check_writable
from twoaxis.text import quantity, visible

if TYPE_CHECKING:
    from twoaxis.diagnosis import Audit
    from twoaxis.diagnosis.actions import Action
    from twoaxis.runs import Run


@app.command()
def remedy(
    audit: Annotated[
        Path,
        typer.Argument(
            metavar="AUDIT", help="A saved audit, or the directory that twoaxis audit wrote."
        ),
    ],
    run_directory: Annotated[
        Path | None,
        typer.Option(
            "--run", metavar="DIR", help="Directory of its run.  [default: runs/ beside the audit]"
        ),
    ] = None,
    sites: Annotated[
        int | None,
        typer.Option(help="Number of observations to place.  [default: as many as now]", min=1),
    ] = None,
    simulate: Annotated[
        int,
        typer.Option(
            help="Number of simulated datasets to retrain on (the simulated audit). Each takes as "
            "long as one training.",
            min=0,
        ),
    ] = 0,
    retrain: Annotated[
        bool,
        typer.Option(
            "--retrain",
            help="Train under the best other view, on the simulated datasets and once on the real "
            "data; needs --simulate.",
        ),
    ] = False,
    refined: Annotated[
        bool,
        typer.Option(
            "--refine",
            help="Carry field and parameters to where the equation holds and the data are fitted, "
            "and audit the refined field.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of all simulated noise.", min=0)] = 0,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.html", help="The page.  [default: the page of the audit]"
        ),
    ] = None,
    device: Device = DeviceName.auto,
) -> None:
    """Compute what to do about an audit, and add it to the page.

    Improve observations: sites are suggested and verified. Strengthen residual evidence: regions
    are left out one by one, and with --simulate other views are ranked. Inspect delivery: the
    training is finished with a second-order method. All of this needs the run of a built-in
    problem. For an audit of your own model, the actions of the audit are printed with the Python
    calls for the rest.

    Example: twoaxis remedy audit-burgers
    """
    import twoaxis
    from twoaxis.errors import InputError

    file = audit / "audit.nc" if audit.is_dir() else audit
    page = check_suffix(target or file.with_suffix(".html"), PAGES, "page")
    kept = file if target is None else target.with_suffix(".nc")
    found = twoaxis.load(file)
    check_writable(page, kept)
    run = _run_of(found, run_directory, file.parent / "runs")
    if run is None and (simulate or sites or retrain or refined):
        raise InputError(
            "the run of the audit, to suggest sites, to refine or to train again",
            f"none in {str(run_directory or file.parent / 'runs')!r}",
            "name its directory with --run, or use twoaxis.suggest_sites and simulated_audit",
        )
    if run is not None:
        found = twoaxis.remedy(
            found,
            run=run,
            count=sites,
            simulate=simulate,
            retrain=retrain,
            refined=refined,
            seed=seed,
            store=file.parent / "simulated" if simulate or refined else None,
            device=device.value,
        )
    found.save(kept)
    found.to_html(page)
    _print(found)
    print_written(kept, page)


def _run_of(found: Audit, given: Path | None, beside: Path) -> Run | None:
    """Return the run that was audited, by its key, or None where there is no store to look in."""
    import twoaxis
    from twoaxis.errors import InputError

    where = beside if given is None else given
    if given is None and not beside.is_dir():
        return None
    store = twoaxis.RunStore(where)
    if found.run and store.holds(found.run):
        return store.load(found.run)
    if given is None:
        return None
    raise InputError(
        f"the audited run {found.run}" if found.run else "an audit of a run of twoaxis train",
        f"other runs in {str(given)!r}" if found.run else "an audit of another model",
        "name the directory of the audited run" if found.run else "leave out --run",
    )


def _print(found: Audit) -> None:
    out.print(f"[bold]Route: {shown(found.route.value)}[/]", highlight=False)
    for action in found.actions:
        out.print(f"\n[bold]{shown(action.title)}[/]", highlight=False)
        for paragraph in action.paragraphs:
            # Indented: a line from a file cannot pass for one of the command's own.
            out.print(Padding(Text(visible(paragraph)), (0, 0, 0, 2), expand=False))
        if action.numbers:
            out.print(_table(action))
        if action.call:
            out.print(Text(visible(action.call), style="dim"), soft_wrap=True)
    if not found.actions:
        out.print("No remedy is needed at the declared tolerances.")


def _table(action: Action) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for each in action.numbers:
        table.add_row(shown(each.label), shown(quantity(each.value, each.unit)))
    return table
