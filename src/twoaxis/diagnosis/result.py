"""An audit as its reader meets it: the tree, and words and tables made from it alone.

A loaded audit and a fresh one are the same thing, since neither holds anything but the tree.

Loading a saved audit: nothing in the file is executed, and strange files are refused.

Results of axis 2 as groups of the tree, and back again: nothing is lost on the way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.diagnosis import text
from twoaxis.diagnosis.actions import Action, actions_from, actions_group, first_steps
from twoaxis.diagnosis.data_check import from_group
from twoaxis.diagnosis.decision_map import Route, Statistic, Tolerance
from twoaxis.diagnosis.tree import (
    REQUIRED_GROUPS,
    SCHEMA,
    TEXT,
    TREE,
    Variable,
    group_of,
    has_group,
    labelled,
)
from twoaxis.errors import InputError
from twoaxis.files import existing_netcdf, write_whole
from twoaxis.geometry import Delivery, FrozenScan, Score
from twoaxis.netcdf import check_schema, contradiction, read_netcdf, refuse
from twoaxis.parameters import Center, Parameter, Parameters
from twoaxis.report.audited import Audited
from twoaxis.resolution import Resolution


def parameters_group(parameters: Parameters, center: Center, messages: list[str]) -> xr.Dataset:
    """Return the variables of the root."""

    def column(field: str) -> list[float] | None:
        values = [getattr(p, field) for p in parameters.values()]
        return None if any(value is None for value in values) else values

    return labelled(
        "/",
        {
            "parameter": list(parameters),
            "center": [center.values[name] for name in parameters],
            "lower_bound": [p.bounds[0] for p in parameters.values()],
            "upper_bound": [p.bounds[1] for p in parameters.values()],
            "coordinate": [p.coordinate for p in parameters.values()],
            "scale": [np.nan if p.scale is None else p.scale for p in parameters.values()],
            "message": messages,
            "delivered": column("delivered"),
            "truth": column("truth") if center.kind == "truth" else None,
        },
    )


def parameters_of(root: xr.Dataset) -> Parameters:
    """Return the parameters that the root describes."""
    result = {}
    fields = ["delivered", *(["truth"] if root.attrs["centered_on"] == "truth" else [])]
    for j, name in enumerate(root["parameter"].values):
        one = root.isel(parameter=j)
        scale = float(one["scale"])
        known = {f: float(one[f]) for f in fields if f in one}
        coordinate: Any = str(one["coordinate"].values)
        result[str(name)] = Parameter(
            bounds=(float(one["lower_bound"]), float(one["upper_bound"])),
            coordinate=coordinate,
            scale=None if np.isnan(scale) else scale,
            **known,
        )
    return result


def center_from(root: xr.Dataset) -> Center:
    """Return the centre that the root describes."""
    values = dict(zip(map(str, root["parameter"].values), root["center"].values, strict=True))
    return Center(str(root.attrs["centered_on"]), {n: float(v) for n, v in values.items()})


def score_group(score: Score) -> xr.Dataset:
    """Return a score as a group."""
    terms = score.terms
    return labelled(
        "/score",
        {
            "B": terms.B,
            "displacement": terms.displacement,
            "diagonal_displacement": terms.diagonal_displacement,
            "delta_percent": list(score.delta_percent.values()),
            "alignment": terms.alignment,
            "sampling_deviation": score.data["sampling_deviation"].values,
            "H": terms.H,
            "C": score.data["C"].values,
            "other_parameter": score.names,
            "eigenvalue": terms.eigenvalues,
            "null": terms.null,
            "eigenvector": terms.eigenvectors,
            "residual_norm": terms.residual_norm,
        },
        {"view": score.view, "derivative": score.derivative},
    )


def score_from(group: xr.Dataset, parameters: Parameters, center: Center) -> Score:
    """Return the score that a group holds."""

    def values(name: str) -> Any:
        return group[name].transpose(..., *_LAST.get(name, ())).values

    names = ("B", "H", "C", "residual_norm", "sampling_deviation", "eigenvector")
    return Score.from_values(
        {
            **Parameters(parameters).variables(),
            "center": [center.values[name] for name in parameters],
            **{name: values(name) for name in names},
        },
        {
            "view": str(group.attrs["view"]),
            "derivative": str(group.attrs["derivative"]),
            "centered_on": center.kind,
        },
    )


_LAST = {
    "H": ("parameter", "other_parameter"),
    "C": ("parameter", "other_parameter"),
    "eigenvector": ("parameter",),
}


def scan_group(scan: FrozenScan, score: Score) -> xr.Dataset:
    """Return a scan as a group, with the linearised model of the profile at the centre."""
    parameters, minima = scan.parameters, scan.local_minima
    home = Parameters(parameters).coordinates(scan.center.values)
    candidates = np.stack([scan.slices[name][0] for name in parameters])
    at_center = score.residual_norm**2
    model = []
    for j, (parameter, values) in enumerate(zip(parameters.values(), candidates, strict=True)):
        step = parameter.to_coordinate(values) - home[j]
        model.append(at_center + 2 * score.terms.B[j] * step + score.terms.H[j, j] * step**2)
    return labelled(
        "/scan",
        {
            "candidate_value": candidates,
            "profile": np.stack([scan.slices[name][1] for name in parameters]),
            "quadratic_model": np.stack(model),
            "minimum": _listed(scan.minimum, parameters),
            "grid_minimum": _listed(scan.grid_minimum, parameters),
            "displacement": _listed(scan.displacement, parameters),
            "profile_at_center": at_center,
            "local_minimum": minima[list(parameters)].to_numpy(dtype=float),
            "local_profile": minima["profile"].to_numpy(dtype=float),
            "local_status": minima["status"].tolist(),
            "local_holds_center": minima["holds_center"].to_numpy(dtype=bool),
        },
        {
            "status": scan.status,
            "affine": int(scan.affine),
            "affine_checked": scan.affine_checked,
            "affine_deviation": scan.affine_deviation,
            "start_spread": scan.start_spread,
            "view": scan.view,
        },
    )


def scan_from(group: xr.Dataset, parameters: Parameters, center: Center) -> FrozenScan:
    """Return the scan that a group holds."""
    names = (
        "candidate_value",
        "profile",
        "quadratic_model",
        "profile_at_center",
        "grid_minimum",
        "local_minimum",
        "local_profile",
    )
    attributes = ("status", "affine", "affine_checked", "affine_deviation", "start_spread", "view")
    return FrozenScan.from_values(
        {
            **Parameters(parameters).variables(),
            "center": [center.values[name] for name in parameters],
            **{name: group[name].values for name in names},
            "local_holds_center": group["local_holds_center"].values.astype(bool),
        },
        {**{name: group.attrs[name] for name in attributes}, "centered_on": center.kind},
    )


def delivery_group(found: Delivery, preferred: Mapping[str, float], view: str) -> xr.Dataset:
    """Return the delivery identity as a group."""
    return labelled(
        "/delivery",
        {
            "preferred": list(preferred.values()),
            "gap": list(found.gap.values()),
            "gap_percent": list(found.gap_percent.values()),
            "preference": None if found.preference is None else list(found.preference.values()),
            "total": None if found.total is None else list(found.total.values()),
        },
        {"view": view},
    )


def delivery_from(group: xr.Dataset, parameters: Parameters) -> Delivery:
    """Return the delivery identity that a group holds."""
    return Delivery.from_values(
        {**Parameters(parameters).variables(), "preferred": group["preferred"].values},
        {"view": str(group.attrs["view"])},
    )


def _listed(values: Mapping[str, float] | None, names: Mapping[str, Any]) -> list[float]:
    return [np.nan if values is None else values[name] for name in names]


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
        return None if group is None else delivery_from(group, Parameters(self.parameters))

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
        from twoaxis.report.page import notebook_html

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


ATTRIBUTES = {
    "/": ("centered_on", "route", "reason", "view", "training_view", "view_relation"),
    "/score": ("view", "derivative"),
    "/scan": (
        "status",
        "affine",
        "affine_checked",
        "affine_deviation",
        "start_spread",
        "view",
    ),
    "/field": ("points_total", "points_kept", "field_name"),
    "/spectrum": ("basis", "complete"),
    "/resimulation": ("layout", "observations"),
    "/matched": ("layout",),
}
# What the words and pictures of axis 1 need; its other variables are its own affair.
RESOLUTION = (
    "estimate",
    "center",
    "deviation_percent",
    "fisher_deviation_percent",
    "fisher_sd_percent",
    "used",
)


def load_audit(path: str | os.PathLike[str]) -> Audit:
    """Load an `Audit` from a netCDF file. Nothing in the file is executed.

    Parameters
    ----------
    path : path-like
        Written by ``audit.to_netcdf``.
    """
    path = existing_netcdf(path)
    tree = read_netcdf(path, _opened, "Audit.to_netcdf", "write it again")
    again = "load it with the version of twoaxis that wrote it, or make it again"
    check_schema(tree.attrs, SCHEMA, path, again)
    audit = Audit(tree)
    refuse(path, _first_fault(tree) or contradiction(lambda: _use(audit)))
    tree.name = "audit"
    return audit


def _opened(path: Path) -> xr.DataTree:
    with xr.open_datatree(path, engine="h5netcdf", phony_dims="sort") as opened:
        return opened.load()


def _first_fault(tree: xr.DataTree) -> str:
    """Compare groups, variables, dimensions and kinds with the layout; say what differs."""
    present = {node.path for node in tree.subtree}
    for path in REQUIRED_GROUPS:
        if path not in present:
            return f"no group {path}"
    for path in [p for p in TREE if p in present]:
        data = group_of(tree, path)
        for name in ATTRIBUTES.get(path, ()):
            if name not in data.attrs:
                return f"no attribute {name} in {path}"
        for name, known in TREE[path].items():
            if name in data.variables:
                fault = _variable_fault(data, path, name, known)
            else:
                fault = f"no variable {name} in {path}" if known.required else ""
            if fault:
                return fault
    if "/resolution" in present:
        for name in RESOLUTION:
            if name not in group_of(tree, "/resolution").variables:
                return f"no variable {name} in /resolution"
    return ""


def _variable_fault(data: xr.Dataset, path: str, name: str, known: Variable) -> str:
    variable = data[name]
    if variable.dims != known.dims:
        return f"the dimensions {variable.dims} of {name} in {path}"
    # An empty list of texts comes back without a kind.
    kinds = "UOT" if known.units == TEXT else "biuf"
    if variable.size and variable.dtype.kind not in kinds:
        return f"values of {variable.dtype} as {name} in {path}"
    return ""


def _use(audit: Audit) -> None:
    """Do everything that a reader will ask of it."""
    repr(audit), audit._repr_html_(), audit.summary(), audit.directions()
    repr(audit.score), repr(audit.scan), audit.delivery, audit.resolution, audit.tolerance
