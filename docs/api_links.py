"""What leads from a concept to its function, to its row on the page of an audit, and back.

One table serves both directions: `reference/api.md` gets pages whose last lines name the concept,
and `howto/read-the-page.md` includes the table itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from myst import paragraphs, table

import twoaxis as ta

DOCS = Path(__file__).parent


@dataclass(frozen=True)
class Row:
    """A row or part of the page of an audit, with what computes it and what explains it."""

    label: str
    names: tuple[str, ...]
    term: str
    page: str


ROWS = (
    Row("delivered value", ("Parameter", "Parameters"), "delivered value", "concepts/delivery"),
    Row("matched error (mean)", ("resolve", "Resolution"), "matched error", "concepts/resolution"),
    Row("matched estimate", ("resolve", "Resolution"), "matched fit", "concepts/resolution"),
    Row(
        "95% profile interval",
        ("resolve", "Resolution"),
        "95% profile interval",
        "concepts/resolution",
    ),
    Row(
        "field displacement",
        ("frozen_scan", "FrozenScan"),
        "frozen scan minimum",
        "concepts/preference",
    ),
    Row("local displacement D", ("score", "Score"), "displacement", "concepts/preference"),
    Row(
        "Eigen-directions of the strength",
        ("score", "Score"),
        "weak direction",
        "concepts/preference",
    ),
    Row("delivery gap", ("delivery", "Delivery"), "delivery gap", "concepts/delivery"),
    Row("Residual modes", ("spectrum", "Spectrum"), "mode", "concepts/spectrum"),
    Row("Route", ("audit", "Audit", "Route", "Tolerance"), "route", "concepts/two-axes"),
    Row(
        "Do the data agree with the delivered value?",
        ("audit", "Audit"),
        "contradicted by the data",
        "concepts/questions",
    ),
    Row("Has training finished?", ("Follower", "follow"), "snapshot", "concepts/questions"),
    Row("Next step", ("remedy",), "action", "howto/remedies"),
)
# Guides of the names that have no row of their own.
GUIDES = {
    "FrozenResidual": "howto/own-residual",
    "ParameterArray": "howto/other-libraries",
    "UnknownFunction": "howto/unknown-function",
    "needed_observations": "howto/improve-observations",
    "step_robustness": "concepts/preference",
    "from_torch": "howto/from-torch",
    "from_jax": "howto/from-jax",
    "from_deepxde": "howto/other-libraries",
    "from_pina": "howto/other-libraries",
    "from_jinns": "howto/other-libraries",
    "objective": "howto/inspect-delivery",
    "deepxde_callback": "howto/follow-a-training",
    "lightning_callback": "howto/follow-a-training",
    "jinns_solve": "howto/follow-a-training",
    "compare": "howto/own-audit",
    "Comparison": "howto/own-audit",
    "Message": "howto/read-the-page",
    "suggest_sites": "howto/improve-observations",
    "SuggestedSites": "howto/improve-observations",
    "evidence_map": "howto/strengthen-evidence",
    "EvidenceMap": "howto/strengthen-evidence",
    "estimate": "howto/equation-and-data",
    "estimate_many": "howto/equation-and-data",
    "refine": "howto/refine",
    "Refinement": "howto/refine",
    "polish": "howto/inspect-delivery",
    "Polish": "howto/inspect-delivery",
    "simulated_audit": "howto/simulated-audit",
    "SimulatedAudit": "howto/simulated-audit",
    "calibrate": "howto/confidence-set",
    "Calibration": "howto/confidence-set",
    "confidence_set": "howto/confidence-set",
    "ConfidenceSet": "howto/confidence-set",
    "Pipeline": "howto/simulated-audit",
    "train": "howto/train-many",
    "Network": "howto/train-many",
    "Runs": "howto/train-many",
    "Run": "howto/train-many",
    "load_run": "howto/keep-runs",
    "load_runs": "howto/keep-runs",
    "RunStore": "howto/keep-runs",
    "reproduce": "reproduction",
    "load": "reference/files",
    "Result": "reference/files",
    "published_dataset": "reference/problems",
    "fresh_dataset": "reference/problems",
    "Dataset": "reference/problems",
    "MisfitWarning": "howto/real-data",
    "Observations": "howto/real-data",
}


def _footer(name: str) -> str:
    """Return the last line of the page of a public name, as reStructuredText."""
    rows = [row for row in ROWS if name in row.names]
    if rows:
        labels = ", ".join(f"*{row.label}*" for row in rows)
        terms = ", ".join(f":term:`{row.term}`" for row in rows)
        return (
            f"Concept: :doc:`/{rows[0].page}`. Glossary: {terms}. "
            f"On the page of an audit: {labels} (:doc:`/howto/read-the-page`)."
        )
    return f"Guide: :doc:`/{GUIDES[name]}`." if name in GUIDES else ""


# Members that only the library itself uses: how a file is laid out, how results are built and put
# into words. `reference/files.md` documents the layouts.
INTERNAL = (
    "schema, version, layouts, attributes, optional_groups, derived, check, opened, "
    "from_values, from_groups, from_parts, from_rows, from_store, from_dataset, of, "
    "with_messages, with_actions, need, audited, training, center_word, matched_noun, cross_view, "
    "used_layouts, undelivered, reads_gap, subjects, undetermined_direction, percent, off, "
    "forward_inputs, site_inputs, resolution_messages, routed, in_order_of, plug_in, headline, "
    "by_member, value_words, direction_words, main_function, check_reached, require, variables, "
    "argument_names, nuisance_values, tidy, checked, raw, places, equation_of, flattened, "
    "as_predicted"
)
# What the templates of the reference write below the description of each name.
LINKS = {f"twoaxis.{name}": _footer(name) for name in ta.__all__}
# Figures that are on the page of an audit.
EXPLAINED = set(re.findall(r"\bplot_\w+", (DOCS / "howto" / "read-the-page.md").read_text()))
LINKS |= {
    f"twoaxis.plots.{name}": "How to read it: :doc:`/howto/read-the-page`."
    for name in sorted(EXPLAINED & {*ta.plots.__all__})
}


def same_but_for_case(names: list[str]) -> dict[str, str]:
    """Give ``Audit`` another file than ``audit``: some file systems cannot tell them apart."""
    lower = [name.lower() for name in names]
    return {
        f"twoaxis.{name}": f"twoaxis.{name}-class"
        for name in names
        if lower.count(name.lower()) > 1 and name != name.lower()
    }


FILES = same_but_for_case(ta.__all__)


def build(app: object) -> None:  # noqa: ARG001
    """Write ``_build/rows.md``, which ``howto/read-the-page.md`` includes."""
    rows = [
        [
            row.label,
            f"{{term}}`{row.term}`",
            f"{{doc}}`/{row.page}`",
            ", ".join(f"{{py:obj}}`twoaxis.{name}`" for name in row.names),
        ]
        for row in ROWS
    ]
    target = DOCS / "_build" / "rows.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    heads = ["on the page", "term", "concept", "computed by"]
    target.write_text(paragraphs(table(heads, "llll", rows)))
