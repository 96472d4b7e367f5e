"""An audit as its reader meets it: the tree, and words and tables made from it alone.

A loaded audit and a fresh one are the same thing, since neither holds anything but the tree.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.diagnosis import text
from twoaxis.diagnosis.actions import Action, actions_from, actions_group, first_steps
from twoaxis.diagnosis.groups import (
    center_from,
    delivery_from,
    parameters_of,
    scan_from,
    score_from,
)
from twoaxis.diagnosis.observing import from_group
from twoaxis.diagnosis.routes import Route
from twoaxis.diagnosis.tolerance import Statistic, Tolerance
from twoaxis.diagnosis.tree import group_of, has_group
from twoaxis.errors import InputError
from twoaxis.files import write_whole
from twoaxis.geometry import Delivery, FrozenScan, Score
from twoaxis.parameters import Center, Parameter
from twoaxis.report.audited import Audited
from twoaxis.resolution import Resolution


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """Why the parameter came out as it did, and what to do next.

    Made by `twoaxis.audit` or `twoaxis.load_audit`. All of it is in `tree`, whose layout is
    documented in `twoaxis.diagnosis.tree`; the attributes below are read from it.

    Attributes
    ----------
    tree : xarray.DataTree
    """

    tree: xr.DataTree

    def group(self, path: str) -> xr.Dataset | None:
        """Return a group of the tree as a dataset, or None where the audit has none."""
        return group_of(self.tree, path) if has_group(self.tree, path) else None

    def _required(self, path: str) -> xr.Dataset:
        return group_of(self.tree, path)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The audited parameters; with truths only where the audit is centred on them."""
        return parameters_of(self._required("/"))

    @property
    def center(self) -> Center:
        """The point that the audit refers to."""
        return center_from(self._required("/"))

    @property
    def centered_on(self) -> str:
        """What that point is: "truth", "delivered" or "point"."""
        return str(self.tree.attrs["centered_on"])

    @property
    def route(self) -> Route:
        """What to do next; with several parameters, what their needs add up to."""
        return Route(str(self.tree.attrs["route"]))

    @property
    def reason(self) -> str:
        """The measurements that the route rests on, or why there is none."""
        return str(self.tree.attrs["reason"])

    @property
    def routes(self) -> dict[str, Route]:
        """The route of each parameter."""
        verdict = self._required("/verdict")
        names = map(str, verdict["parameter"].values)
        return {n: Route(str(r)) for n, r in zip(names, verdict["route"].values, strict=True)}

    @property
    def tolerance(self) -> Tolerance | None:
        """The tolerances that were declared."""
        verdict = self._required("/verdict")
        if "tolerance_material" not in verdict:
            return None
        statistic: Statistic = verdict.attrs["statistic"]
        return Tolerance(
            material=float(verdict["tolerance_material"]),
            resolution=float(verdict["tolerance_resolution"]),
            preference=float(verdict["tolerance_preference"]),
            statistic=statistic,
        )

    @property
    def messages(self) -> list[str]:
        """What a reader must know beside the route, as sentences."""
        return [str(line) for line in self._required("/")["message"].values]

    @property
    def score(self) -> Score:
        """Axis 2 to first order, under the audited view."""
        return score_from(self._required("/score"), self.parameters, self.center)

    @property
    def scan(self) -> FrozenScan:
        """The frozen scan under the audited view."""
        return scan_from(self._required("/scan"), self.parameters, self.center)

    @property
    def delivery(self) -> Delivery | None:
        """The delivery identity under the training view, where it can be read."""
        group = self.group("/delivery")
        return None if group is None else delivery_from(group)

    @property
    def resolution(self) -> Resolution | None:
        """Axis 1, without its forward model."""
        group = self.group("/resolution")
        return None if group is None else from_group(group)

    @property
    def actions(self) -> list[Action]:
        """What to do about it: what `twoaxis.remedy` computed, or what the audit alone can say."""
        group = self.group("/actions")
        return first_steps(Audited.of(self.tree)) if group is None else actions_from(group)

    def with_actions(self, actions: Sequence[Action]) -> Audit:
        """Return the same audit with these actions."""
        groups = {node.path: node.to_dataset(inherit=False) for node in self.tree.subtree}
        groups["/actions"] = actions_group(actions)
        return Audit(xr.DataTree.from_dict(groups, name="audit"))

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter: what was measured, and the route."""
        verdict, root = self._required("/verdict"), self._required("/")
        table: dict[str, object] = {"center": root["center"].values}
        if "delivered" in root:
            table["delivered"] = root["delivered"].values
        percent = (
            "delivered_percent",
            "resolution_percent",
            "preference_percent",
            "scan_percent",
            "gap_percent",
            "training_preference_percent",
        )
        table |= {name: verdict[name].values for name in percent if name in verdict}
        table["displacement"] = self._required("/score")["displacement"].values
        matched = self.group("/matched")
        if matched is not None:
            table["matched"] = matched["estimate"].values
            for name in ("difference_percent", "excess_percent"):
                if name in matched:
                    table[name] = matched[name].values
        table["route"] = [route.value for route in self.routes.values()]
        names = [str(name) for name in root["parameter"].values]
        return pd.DataFrame(table, index=pd.Index(names, name="parameter"))

    def directions(self) -> pd.DataFrame:
        """Return the eigen-directions of the strength, weakest first, each with its route.

        The columns ``share of ...`` hold the direction, in units of 100 percent.
        """
        verdict = self._required("/verdict")
        table: dict[str, object] = {
            f"share of {name}": verdict["direction_vector"]
            .transpose("direction", "parameter")
            .values[:, j]
            for j, name in enumerate(verdict["parameter"].values)
        }
        for name in ("strength", "status", "displacement", "preference_percent"):
            table[name] = verdict[f"direction_{name}"].values
        for name in ("delivered_percent", "resolution_percent"):
            if f"direction_{name}" in verdict:
                table[name] = verdict[f"direction_{name}"].values
        for name in ("route", "reason"):
            table[name] = [str(value) for value in verdict[f"direction_{name}"].values]
        numbers = pd.Index(np.arange(verdict.sizes["direction"]), name="direction")
        return pd.DataFrame(table, index=numbers)

    def __repr__(self) -> str:
        return text.as_text(self.tree, self.actions)

    def _repr_html_(self) -> str:
        from twoaxis.report.notebook import notebook_html

        return notebook_html(self.tree, advice=self.route.advice)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the page: one file that works offline, in light and dark, on screen and paper."""
        # Here and not above: only the page needs templates and pictures.
        from twoaxis.report.page import render

        page = render(self.tree, advice=self.route.advice, actions=self.actions)
        return write_whole(path, lambda target: target.write_text(page, encoding="utf-8"))

    def to_netcdf(self, path: str | os.PathLike[str]) -> Path:
        """Write the tree to one netCDF file, whole or not at all."""

        def write(target: Path) -> None:
            try:
                self.tree.to_netcdf(target, engine="h5netcdf")
            except (ValueError, TypeError) as error:  # text that HDF5 cannot hold
                raise InputError(
                    "names and texts that a netCDF file can hold",
                    f"{type(error).__name__}: {error}",
                    "leave NUL characters and broken Unicode out of the names",
                ) from error

        return write_whole(path, write)
