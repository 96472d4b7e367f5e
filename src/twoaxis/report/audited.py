"""An audit as pictures read it: the tree, opened by the names of its groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.text import number, visible

SCHEMA = "twoaxis.audit/"

# What an absent group would have shown, and the call that adds it.
MISSING = {
    "/resolution": (
        "what the observations can resolve",
        "twoaxis.audit(..., resolution=twoaxis.resolve(forward, parameters, noise=...))",
    ),
    "/resimulation": (
        "the delivered value, put back into the solver and compared with the data",
        "twoaxis.audit(..., resolution=twoaxis.resolve(forward, parameters, noise=...), data=...)",
    ),
    "/delivery": (
        "the way from the field's preference to the delivered value",
        "twoaxis.audit(...) with Parameter(delivered=..., bounds=...)",
    ),
    "/spectrum": (
        "strength and evidence by residual mode",
        "twoaxis.audit(..., spectrum=True)",
    ),
    "/history": ("losses along training", "twoaxis.audit(..., history=...)"),
    "/snapshots": (
        "preference, strength and gap along training",
        "twoaxis.audit(..., snapshots=twoaxis.follow([(step, frozen), ...]))",
    ),
    "field": (
        "the learned field",
        "twoaxis.FrozenResidual(..., field=...) with its values at the points",
    ),
}


@dataclass(frozen=True, eq=False)
class Audited:
    """The data of one audit, for pictures and pages.

    Attributes
    ----------
    tree : xarray.DataTree
    """

    tree: xr.DataTree

    @classmethod
    def of(cls, audit: Any) -> Audited:
        """Take an audit, its tree or this object itself."""
        if isinstance(audit, Audited):
            return audit
        tree = getattr(audit, "tree", audit)
        if isinstance(tree, xr.DataTree):
            schema = str(tree.attrs.get("schema", "no schema"))
            if schema.startswith(SCHEMA):
                return cls(tree)
            got = f"a tree with {schema if schema == 'no schema' else f'the schema {schema!r}'}"
        else:
            got = type(tree).__name__
        raise InputError(
            "an audit or its tree", got, "pass what twoaxis.audit or twoaxis.load_audit returned"
        )

    def group(self, path: str) -> xr.Dataset | None:
        """Return a group as a dataset, or None where the audit has none."""
        node: Any = self.tree
        for part in path.strip("/").split("/"):
            if part and part not in node.children:
                return None
            node = node[part] if part else node
        found: xr.Dataset = node.to_dataset()
        return found

    def need(self, path: str) -> xr.Dataset:
        """Return a group, or say which call adds it."""
        found = self.group(path)
        if found is None:
            what, call = MISSING.get(path, (f"the group {path}", "twoaxis.audit(...)"))
            raise InputError(f"an audit that holds {what}", f"one without {path}", f"use {call}")
        return found

    @cached_property
    def root(self) -> xr.Dataset:
        """Variables and attributes of the whole."""
        return self.need("/")

    @cached_property
    def verdict(self) -> xr.Dataset:
        """Routes, measured coordinates and tolerances."""
        return self.need("/verdict")

    @cached_property
    def names(self) -> list[str]:
        """The parameters."""
        return [str(name) for name in self.root["parameter"].values]

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters with what is known about them."""
        return {name: self._parameter(name) for name in self.names}

    def _parameter(self, name: str) -> Parameter:
        scale = self.value("/", "scale", name)
        return Parameter(
            bounds=(self.value("/", "lower_bound", name), self.value("/", "upper_bound", name)),
            coordinate="linear" if self.text("/", "coordinate", name) == "linear" else "log",
            scale=None if math.isnan(scale) else scale,
        )

    @property
    def kind(self) -> str:
        """What the centre is: "truth", "delivered" or "point"."""
        return str(self.tree.attrs["centered_on"])

    @property
    def around_truth(self) -> bool:
        """Whether deviations from the centre are errors."""
        return self.kind == "truth"

    @property
    def center_word(self) -> str:
        """A word for the centre."""
        return {"truth": "truth", "delivered": "candidate"}.get(self.kind, "chosen point")

    @property
    def cross_view(self) -> bool:
        """Whether the audited view is another one than the training view."""
        return str(self.tree.attrs["view_relation"]) == "another view"

    def choose(self, parameter: str | None) -> str:
        """Return the name of one parameter, which may be left out where there is only one."""
        if parameter is None and len(self.names) == 1:
            return self.names[0]
        if parameter not in self.names:
            raise InputError(
                f"one of the parameters {', '.join(self.names)}",
                f"parameter={parameter!r}",
                f'name one, as in parameter="{self.names[0]}"',
            )
        return parameter

    def index(self, name: str) -> int:
        """Return the place of a parameter."""
        return self.names.index(name)

    def array(self, path: str, variable: str, name: str) -> NDArray[Any] | None:
        """Return what a variable says about one parameter; None where it is absent."""
        group = self.group(path)
        if group is None or variable not in group:
            return None
        return np.asarray(group[variable].isel(parameter=self.index(name)).values)

    def value(self, path: str, variable: str, name: str) -> float:
        """Return one number about one parameter; NaN where it is absent."""
        found = self.array(path, variable, name)
        return math.nan if found is None else float(found)

    def text(self, path: str, variable: str, name: str) -> str:
        """Return one text about one parameter; empty where it is absent."""
        found = self.array(path, variable, name)
        return "" if found is None else str(found)

    @property
    def centers(self) -> dict[str, float]:
        """The value around which each parameter is audited."""
        return {name: self.center(name) for name in self.names}

    def center(self, name: str) -> float:
        """Return the value around which a parameter is audited."""
        return self.value("/", "center", name)

    def delivered(self, name: str) -> float:
        """Return the value that training returned, or NaN."""
        return self.value("/", "delivered", name)

    def off(self, name: str, value: float, center: float | None = None) -> float:
        """Return a value relative to the centre in signed percent, NaN where there is none."""
        home = self.center(name) if center is None else center
        parameter = self.parameters[name]
        if home == 0 and parameter.scale is None:
            return math.nan
        return float(parameter.percent(value, home))

    def tolerance(self, name: str) -> float:
        """Return a declared tolerance in percent, or NaN."""
        variable = f"tolerance_{name}"
        return float(self.verdict[variable]) if variable in self.verdict else math.nan

    @property
    def statistic(self) -> str:
        """What of the matched deviations is compared: "mean" or "90th percentile"."""
        code = str(self.verdict.attrs.get("statistic", "mean"))
        return "90th percentile" if code == "p90" else "mean"

    @property
    def matched_noun(self) -> str:
        """What a deviation of matched fits is called."""
        return "matched error" if self.around_truth else "matched deviation"

    def displacement(self, name: str) -> float:
        """Return the size by which a parameter is placed on the decision map, in percent.

        Around a truth it is read under the audited view. Around a candidate it speaks of
        delivery, which only the training view can read; around a chosen point it is the gap.
        """
        own = self.value("/verdict", "preference_percent", name)
        if self.around_truth:
            return own
        gap = abs(self.value("/verdict", "gap_percent", name))
        trained = own
        if "training_preference_percent" in self.verdict:
            trained = self.value("/verdict", "training_preference_percent", name)
        if self.kind == "point" and not math.isnan(gap) and not math.isnan(trained):
            return gap
        return trained

    def route(self, name: str) -> str:
        """Return what to do next about a parameter."""
        return self.text("/verdict", "route", name)

    def messages(self) -> list[str]:
        """What a reader must know."""
        return [str(line) for line in self.root["message"].values]


def around(kind: str, centers: dict[str, float]) -> str:
    """Say around what an audit is made: a truth, a candidate or a chosen point."""
    values = ", ".join(f"{visible(n)} = {number(value, '.6g')}" for n, value in centers.items())
    return {
        "truth": f"Audit around the truth {values}",
        "delivered": f"Audit of the stability around the candidate {values}",
    }.get(kind, f"Audit of the stability around the chosen point {values}")
