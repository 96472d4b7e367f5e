"""Results of axis 2 as groups of the tree, and back again: nothing is lost on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from twoaxis.diagnosis.directions import coordinates_of
from twoaxis.diagnosis.tree import labelled
from twoaxis.geometry import Delivery, FrozenScan, Score
from twoaxis.geometry.profile import FLAT_STATUS
from twoaxis.geometry.sampling import PointSample
from twoaxis.geometry.terms import Terms
from twoaxis.parameters import Center, Parameter

Parameters = dict[str, Parameter]


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
            "sampling_deviation": score.sample.standard_error,
            "H": terms.H,
            "C": score.curvature,
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

    return Score(
        parameters=parameters,
        center=center,
        terms=Terms(
            B=values("B"),
            H=values("H"),
            displacement=values("displacement"),
            diagonal_displacement=values("diagonal_displacement"),
            eigenvalues=values("eigenvalue"),
            eigenvectors=values("eigenvector"),
            null=values("null").astype(bool),
            residual_norm=float(group["residual_norm"]),
            alignment=values("alignment"),
        ),
        curvature=values("C"),
        view=str(group.attrs["view"]),
        derivative=str(group.attrs["derivative"]),
        sample=PointSample(values("sampling_deviation")),
    )


_LAST = {
    "H": ("parameter", "other_parameter"),
    "C": ("parameter", "other_parameter"),
    "eigenvector": ("parameter",),
}


def scan_group(scan: FrozenScan, score: Score) -> xr.Dataset:
    """Return a scan as a group, with the linearised model of the profile at the centre."""
    parameters, minima = scan.parameters, scan.local_minima
    home = coordinates_of(parameters, scan.center.values)
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
    names = list(parameters)
    rows = {
        name: (group["candidate_value"].values[j], group["profile"].values[j])
        for j, name in enumerate(names)
    }
    minima = pd.DataFrame(group["local_minimum"].values.reshape(-1, len(names)), columns=names)
    minima["profile"] = group["local_profile"].values
    minima["status"] = [str(text) for text in group["local_status"].values]
    minima["holds_center"] = group["local_holds_center"].values.astype(bool)
    status = str(group.attrs["status"])
    flat = status == FLAT_STATUS

    def point(name: str) -> dict[str, float] | None:
        values = group[name].values
        return None if np.isnan(values).any() else dict(zip(names, values.tolist(), strict=True))

    return FrozenScan(
        parameters=parameters,
        center=center,
        slices=rows,
        minimum=None if flat else point("minimum"),
        grid_minimum=point("grid_minimum"),
        local_minima=minima,
        status=status,
        affine=bool(group.attrs["affine"]),
        start_spread=float(group.attrs["start_spread"]),
        view=str(group.attrs["view"]),
        affine_checked=int(group.attrs["affine_checked"]),
        affine_deviation=float(group.attrs["affine_deviation"]),
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


def delivery_from(group: xr.Dataset) -> Delivery:
    """Return the delivery identity that a group holds."""
    names = [str(name) for name in group["parameter"].values]

    def named(variable: str) -> dict[str, float]:
        return dict(zip(names, group[variable].values.tolist(), strict=True))

    return Delivery(
        gap=named("gap"),
        preference=named("preference") if "preference" in group else None,
        total=named("total") if "total" in group else None,
        gap_percent=named("gap_percent"),
    )


def _listed(values: Mapping[str, float] | None, names: Mapping[str, Any]) -> list[float]:
    return [np.nan if values is None else values[name] for name in names]
