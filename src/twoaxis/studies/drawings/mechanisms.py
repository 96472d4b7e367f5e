"""Which residual scales see the parameter, what observations resolve, and who does better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from twoaxis.report.theme import colour, label, legend_above, open_frame
from twoaxis.report.words import number, shortened
from twoaxis.studies.drawings.drawing import THIRD, Drawing, Panel
from twoaxis.studies.drawings.estimates import (
    Series,
    estimates_panel,
    name_rows,
    our_estimates,
    series_of,
)
from twoaxis.studies.drawings.found import Found, numbers, problems_in, title_of

MODES = "modes_"
SUITES = ("development", "holdout")
# Bands from the leading modes on, dark to light, so that they differ in grey.
SHADES = (1.0, 0.55, 0.18, 0.08)


def mechanisms_drawing(found: Found) -> Drawing | None:
    """Return the figure of the mechanisms, with the panels whose numbers are there."""
    panels = [
        panel for panel in (_shares(found), _resolution(found), _excess(found)) if panel is not None
    ]
    title = "Residual scales, resolution of the observations, and excess over the matched fit"
    return Drawing("mechanisms", title, tuple(panels), 3) if panels else None


def _shares(found: Found) -> Panel | None:
    rows = found.table("spectrum", "suite", "problem", "reading")
    if rows is None:
        return None
    bands = [str(c).removeprefix(MODES) for c in rows.columns if str(c).startswith(MODES)]
    rows = rows[rows["reading"] == "pointwise"]
    groups = [(suite, problem) for problem in problems_in(rows) for suite in SUITES]
    shares = {
        (suite, problem): [float(numbers(own[f"{MODES}{band}"])[0]) for band in bands]
        for suite, problem in groups
        if len(own := rows[(rows["suite"] == suite) & (rows["problem"] == problem)])
    }
    if not bands or not shares:
        return None
    printed = {group: _printed_shares(found, group, bands) for group in shares}
    parts = [
        f"{title_of(group[1])}, {group[0]}: {_listed(own)}"
        + (f" (published {_listed(printed[group])})" if printed[group] else "")
        for group, own in shares.items()
    ]
    return Panel(
        partial(_draw_shares, shares, printed, bands),
        "Share of the parameter's strength by residual scale.",
        "The thick bar is ours, the thin one above it is published; leading modes are the "
        "smoothest.",
        f"Shares of the strength in percent, in modes {', '.join(map(_band, bands))}. "
        f"{'; '.join(parts)}.",
        THIRD,
    )


def _listed(shares: Sequence[float]) -> str:
    return ", ".join(number(share, ".3g") for share in shares)


def _printed_shares(found: Found, group: tuple[str, str], bands: Sequence[str]) -> list[float]:
    """Return the published shares of a group, or nothing unless all of them are there."""
    keys = [f"{group[0]}_{group[1]}_{band}".replace("-", "_") for band in bands]
    figures = [found.figure("spectrum", key) for key in keys]
    return [float(f["published"]) for f in figures if f] if all(figures) else []


def _band(band: str) -> str:
    return shortened(band.replace("_", "–").replace("-", "–"))


def _draw_shares(
    shares: Mapping[tuple[str, str], list[float]],
    printed: Mapping[tuple[str, str], list[float]],
    bands: Sequence[str],
    *,
    ax: Any,
) -> Any:
    from matplotlib.colors import to_rgba

    shade = colour("theory")
    for row, group in enumerate(shares):
        for values, middle, height, named in (
            (printed[group], row - 0.08, 0.14, False),
            (shares[group], row + 0.21, 0.36, row == 0),
        ):
            start = 0.0
            for share, band, strength in zip(values, bands, SHADES, strict=False):
                ax.barh(
                    middle,
                    share,
                    left=start,
                    height=height,
                    color=to_rgba(shade, strength),
                    edgecolor=shade,
                    lw=0.7,
                    label=_legend(band, start) if named else None,
                )
                start += share
    name_rows(ax, [f"{title_of(problem)}, {suite}" for suite, problem in shares], above=0.17)
    ax.set_xlim(0, 100)
    label(ax, "share of the strength, %")
    open_frame(ax, "top", "right", "left")
    legend_above(ax, columns=3, margin=0.0)
    return ax


def _legend(band: str, start: float) -> str:
    return _band(band) if start else f"modes {_band(band)}"


def _resolution(found: Found) -> Panel | None:
    series = [
        *series_of(found, "resolution", "mean"),
        Series(
            "Fisher prediction",
            "theory",
            "D",
            True,
            -0.2,
            our_estimates(found, "resolution", "fisher"),
        ),
    ]
    return estimates_panel(
        series,
        "mean error of the matched fit, %",
        "Error of the matched fit over repeated noise.",
        "What these observations resolve; Fisher information predicts it to first order.",
    )


def _excess(found: Found) -> Panel | None:
    return estimates_panel(
        series_of(found, "fresh-noise", "excess"),
        "RBA minus matched error, points",
        "Excess of RBA over the matched fit of the same data.",
        "Left of the line RBA does better than the matched fit, right of it worse.",
        zero=True,
    )
