"""Records of a reproduction as ``blocks/NAME.json`` holds them, with made-up but likely numbers."""

import copy

import numpy as np
import pytest

from twoaxis.studies import figures, page

PROBLEMS = ("burgers", "buckley-leverett", "allen-cahn")
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\u0007"
BANDS = ("1_64", "65_256", "257_2000")


def figure(key, published=0.9, verdict="agrees", initializations=1, **changed):
    """Return a figure whose initializations lie a hundredth apart, from the published value on."""
    values = [published + 0.01 * k for k in range(initializations)]
    several = initializations > 1
    return {
        "key": key,
        "label": f"the figure {key}",
        "where": "Table A1",
        "headline": False,
        "chance": "initialization",
        "printed": f"{published:g}",
        "printed_interval": None,
        "published": published,
        "ours": values[0],
        "ours_text": f"{values[0]:.3f}",
        "interval": None,
        "interval_text": None,
        "interval_source": "",
        "values": values,
        "mean_text": f"{np.mean(values):.3f}" if several else None,
        "lowest_text": f"{min(values):.3f}" if several else None,
        "highest_text": f"{max(values):.3f}" if several else None,
        "percentile": 5.0 if several else None,
        "verdict": verdict,
        "reason": "",
    } | changed


def bounded(key, published, low, high, **changed):
    """Return a figure with an interval, ours and printed."""
    ends = [published - 1, published + 1]
    return figure(
        key,
        published,
        interval=[low, high],
        interval_text=[f"{low:.2f}", f"{high:.2f}"],
        interval_source="cluster bootstrap",
        printed_interval=[f"{end:.2f}" for end in ends],
        **changed,
    )


def record(name, figures, tables=None, **changed):
    call = {
        "command": f"twoaxis reproduce {name}",
        "device": "CPU",
        "versions": {"twoaxis": "0.1.0", "jax": "0.11.0"},
        "initializations": 1,
        "trained": 12,
        "seconds": 412.0,
    }
    return {
        "name": name,
        "title": f"The block {name}",
        "claim": f"May show what {name} shows.",
        "notes": [f"A reading of {name}."],
        "scale": "full",
        "initializations": 1,
        "fields": 12,
        "calls": [call],
        "figures": figures,
        "tables": tables or {},
    } | changed


def table(rows):
    return {"columns": list(rows[0]), "rows": [list(row.values()) for row in rows]}


def profiles(rng):
    error = iter(np.abs(rng.normal(0, 15, 18)))
    return [
        {
            "problem": problem,
            "dataset": dataset,
            "view": view,
            "delta_percent": float(value * 1.1),
            "grid_error_percent": float(value),
        }
        for problem in PROBLEMS
        for dataset in (8, 9)
        for view in ("pointwise", "patch-8", "full kernel")
        if (value := next(error)) >= 0
    ]


def runs(rng):
    return [
        {
            "problem": problem,
            "dataset": 8,
            "replica": replica,
            "delta_percent": float(value),
            "delivered_error_percent": float(value * 0.9),
        }
        for problem in PROBLEMS
        for replica, value in enumerate(np.abs(rng.normal(0, 12, 8)))
    ]


def shares():
    split = {"burgers": (5, 17, 78), "buckley-leverett": (6, 18, 76), "allen-cahn": (80, 14, 6)}
    return [
        {"suite": suite, "problem": problem, "reading": reading}
        | {
            f"modes_{band}": float(share) if reading == "pointwise" else 33.0
            for band, share in zip(BANDS, split[problem], strict=True)
        }
        for suite in ("development", "holdout")
        for problem in PROBLEMS
        for reading in ("pointwise", "weighted")
    ]


def fields(rng):
    rows = []
    for method in ("pcgrad", "patch"):
        for dataset in range(10, 15):
            refined = rng.normal([-0.2, -0.5], 0.05)
            full, diagonal = refined * 1.09, refined * [-0.3, 0.35]
            row = {"method": method, "dataset": dataset}
            for name, step in (("refined", refined), ("full", full), ("diagonal", diagonal)):
                row |= {f"{name}_{c}": float(step[c]) for c in (0, 1)}
            rows.append(row | {"full": 0.09, "diagonal": 0.8 + 0.01 * dataset})
    return rows


@pytest.fixture(scope="session")
def records():
    """Six blocks: those of the paper's figures, and one that repeats its initializations."""
    rng = np.random.default_rng(0)
    places = [*PROBLEMS, "overall"]
    keys = [f"{s}_{p}_{b}" for s in ("development", "holdout") for p in PROBLEMS for b in BANDS]
    return [
        record(
            "resolution",
            [
                *(bounded(f"mean_{p}", 5.0 + k, 4.5 + k, 6 + k) for k, p in enumerate(places)),
                *(figure(f"fisher_{p}", 4.8 + k, "exact") for k, p in enumerate(places)),
            ],
            fields=0,
            calls=[],
        ),
        record(
            "development",
            [figure("pooled_r", 0.96, headline=True, ours_text="0.955", printed=".960")],
            {"profiles": table(profiles(rng))},
        ),
        record(
            "fresh-noise",
            [
                figure("aligned_absolute_r", 0.983, headline=True),
                *(bounded(f"excess_{p}", k - 1.0, k - 2, k + 1) for k, p in enumerate(places)),
            ],
            {"runs": table(runs(rng))},
        ),
        record(
            "spectrum",
            [figure(key.replace("-", "_"), 30.0) for key in keys],
            {"shares_in_percent": table(shares())},
        ),
        record("darcy", [figure("full_wins", 20.0, "exact")], {"fields": table(fields(rng))}),
        record(
            "repeated",
            [
                bounded("one", 0.5, 0.4, 0.7, initializations=6, headline=True),
                figure("two", 0.5, "differs", 6, reason="It is drawn by chance."),
                figure("three", 0.5, "differs", 6, headline=True),
                figure("four", 0.5, "not judged", 6),
            ],
            initializations=6,
        ),
    ]


@pytest.fixture(scope="session")
def made():
    """How records, figures and tables are made."""

    class Made:
        record = staticmethod(record)
        figure = staticmethod(figure)
        bounded = staticmethod(bounded)
        table = staticmethod(table)

    return Made


def hostile():
    """A record whose every text wants to be more than text."""
    own = bounded("a", 0.5, 0.4, 0.6, initializations=6, headline=True)
    own |= {key: HOSTILE for key, value in own.items() if isinstance(value, str)}
    own |= {"verdict": "differs", "printed_interval": ["0.1", "0.9"]}
    rows = [{HOSTILE: HOSTILE, "x": 1.0}]
    whole = record(HOSTILE, [own], {HOSTILE: table(rows)})
    whole |= dict.fromkeys(("title", "claim"), HOSTILE)
    whole["notes"] = [HOSTILE]
    whole["calls"][0] |= {"command": HOSTILE, "device": HOSTILE, "versions": {HOSTILE: HOSTILE}}
    return whole


@pytest.fixture(scope="session")
def html(records):
    return page.render(records, figures.draw(records))


@pytest.fixture(scope="session")
def smoke(records):
    changed = copy.deepcopy(records[:2])
    for record in changed:
        record["scale"] = "smoke"
        for figure in record["figures"]:
            figure["verdict"] = "not judged"
    return page.render(changed, {})


@pytest.fixture(scope="session")
def hostile_html():
    return page.render([hostile()], {})
