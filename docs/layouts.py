"""Write the tables of variables for the page on files from the layouts that the code declares."""

from __future__ import annotations

import importlib
from pathlib import Path

from myst import code, escaped, paragraphs, table

from twoaxis.result import CLASSES

DOCS = Path(__file__).parent


def build(app: object) -> None:  # noqa: ARG001
    """Write ``_build/layouts.md``, which ``reference/files.md`` includes."""
    target = DOCS / "_build" / "layouts.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(paragraphs(*(part for name in CLASSES for part in _schema(name))) + "\n")


def _schema(name: str) -> list[str]:
    module, _, attribute = CLASSES[name].partition(":")
    result = getattr(importlib.import_module(module), attribute)
    # A residual is stored like a result, but is not one: its module declares the layout.
    schema = f"twoaxis.{name}/{getattr(result, 'version', 1)}"
    parts = [f"### {name}", f"{code(f'ta.{attribute}')}, schema {code(schema)}."]
    for group, layout in getattr(result, "layouts", {}).items():
        if group != "/":
            optional = " (optional)" if group in result.optional_groups else ""
            parts.append(f"**Group {code(group)}**{optional}")
        attributes = sorted(getattr(result, "attributes", {}).get(group, ()))
        if attributes:
            parts.append("Attributes: " + ", ".join(map(code, attributes)) + ".")
        rows = [
            [
                code(variable),
                each.kind,
                ", ".join(each.dims) or "scalar",
                escaped(each.long_name)
                + (f" [{escaped(each.units)}]" if each.units else "")
                + ("" if each.required else " (optional)"),
            ]
            for variable, each in layout.items()
        ]
        if rows:
            parts.append(table(["variable", "kind", "dimensions", "meaning"], "llll", rows))
    return parts
