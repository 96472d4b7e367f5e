"""Results of axis 2 as labelled data: saved, loaded, and refused where they contradict."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.frozen import bound_view
from twoaxis.geometry.derivatives import linearize
from twoaxis.geometry.scan import scan_from
from twoaxis.geometry.score import score_from
from twoaxis.geometry.spectrum import spectrum_from
from twoaxis.io import write_netcdf
from twoaxis.parameters import Parameters
from twoaxis.result import load

X = np.linspace(0, 1, 40)
NU = ta.Parameter(truth=1.0, delivered=1.3, bounds=(0.5, 2.0))
SHIFT = ta.Parameter(truth=0.2, bounds=(-1.0, 1.0), coordinate="linear", scale=0.5)


def one(**options):
    return ta.FrozenResidual(
        lambda nu: nu * np.cos(3 * X) - 1.1 * np.cos(3.1 * X), {"nu": NU}, X,
        view=ta.views.Gaussian(), **options,
    )  # fmt: skip


def two():
    return ta.FrozenResidual(
        lambda nu, shift: np.sin(nu * X) - np.sin(1.1 * X) + shift**2 * np.cos(7 * X) - 0.05,
        {"nu": NU, "shift": SHIFT}, X, view=ta.views.Patch(cells=4), axes=("time",),
    )  # fmt: skip


def flat():
    return ta.FrozenResidual(lambda nu: 1.0 + X, {"nu": NU}, X, view=ta.views.Pointwise())  # noqa: ARG005


RESULTS = {
    "score": lambda: ta.score(one()),
    "score, two": lambda: ta.score(two(), at={"nu": 1.2, "shift": 0.1}),
    "score, flat": lambda: ta.score(flat(), at="delivered"),
    "score, fresh": lambda: ta.score(
        one(residual_at=lambda x, nu: nu * np.cos(3 * x[:, 0]) - np.cos(x[:, 0])), fresh=2
    ),
    "scan": lambda: ta.frozen_scan(one()),
    "scan, two": lambda: ta.frozen_scan(two(), candidates=15),
    "scan, flat": lambda: ta.frozen_scan(flat()),
    "spectrum": lambda: ta.spectrum(one()),
    "spectrum, two": lambda: ta.spectrum(two(), modes=3),
    "delivery": lambda: ta.delivery({"nu": NU}, {"nu": 1.1}, view="pointwise"),
    "delivery, no truth": lambda: ta.delivery(
        Parameters({"nu": NU}).replace(truth=None), {"nu": 1.1}
    ),
}


@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_a_loaded_result_is_the_saved_one(make, tmp_path):
    found = make()
    loaded = load(found.save(tmp_path / "result.nc"))
    assert type(loaded) is type(found)
    assert loaded.data.identical(found.data)
    assert repr(loaded) == repr(found)
    assert loaded.summary().equals(found.summary())
    assert all("long_name" in variable.attrs for variable in found.data.variables.values())


def test_properties_are_read_from_the_data():
    score, scan, parts = ta.score(two()), ta.frozen_scan(two(), candidates=15), ta.spectrum(two())
    assert score.parameters == scan.parameters == parts.parameters == {"nu": NU, "shift": SHIFT}
    assert score.center == scan.center == parts.center == Parameters(two().parameters).center()
    assert score.names == ["nu", "shift"]
    table = parts.of("nu").region_contributions(cells=3)
    assert table.columns.tolist() == ["time", "points", "contribution"]
    np.testing.assert_allclose(parts.B, score.B, rtol=1e-10)
    np.testing.assert_allclose(parts.H, np.diag(score.H), rtol=1e-10)


CHANGES = {
    "score of another strength": ("score", "B", lambda v: v * 2),
    "score beyond the norms": ("score", "residual_norm", lambda v: v / 2),
    "another displacement": ("score", "displacement", lambda v: v + 0.1),
    "another percentage": ("score", "delta_percent", lambda v: v + 1),
    "other eigenvectors": ("score, two", "eigenvector", lambda v: v[::-1]),
    "eigenvectors of another length": ("score", "eigenvector", lambda v: 2 * v),
    "a strength that is not symmetric": (
        "score, two", "H", lambda v: v * [[1, 1.1], [1, 1]],
    ),
    "a negative strength": ("score", "H", lambda v: -v),
    "another status": ("score, two", "direction_status", lambda v: v[::-1] + "?"),
    "a negative deviation": ("score", "sampling_deviation", lambda v: -1 - v),
    "a center outside the bounds": ("score, two", "center", lambda v: v + 9),
    "another center than the truth": ("score", "center", lambda v: v * 1.1),
    "a value that is not finite": ("score", "C", lambda v: v * np.nan),
    "a minimum elsewhere": ("scan", "minimum", lambda v: v * 1.1),
    "minima out of order": ("scan", "local_minimum", lambda v: v * 9),
    "another kind of minimum": ("scan", "local_status", lambda v: v + "?"),
    "no basin": ("scan", "local_holds_center", lambda v: v & False),
    "a negative profile": ("scan", "profile", lambda v: -v),
    "candidates backwards": ("scan", "candidate_value", lambda v: v[:, ::-1]),
    "a grid minimum of a flat profile": ("scan, flat", "grid_minimum", lambda v: np.ones_like(v)),
    "eigenvalues in ascending order": ("spectrum", "eigenvalue", lambda v: v[::-1]),
    "negative contributions": ("spectrum", "strength", lambda v: -v),
    "another sum": ("spectrum", "signed_total", lambda v: v + 1),
    "modes from 0": ("spectrum", "mode", lambda v: v - 1),
    "another gap": ("delivery", "gap", lambda v: v + 0.1),
    "a truth from nowhere": ("delivery, no truth", "total", lambda v: np.zeros_like(v)),
}  # fmt: skip


@pytest.mark.parametrize(("name", "variable", "change"), CHANGES.values(), ids=CHANGES)
def test_contradictions_are_refused(name, variable, change, tmp_path):
    data = RESULTS[name]().data.copy(deep=True)
    data = data.assign({variable: (data[variable].dims, change(data[variable].values))})
    path = write_netcdf(tmp_path / "changed.nc", data)
    with pytest.raises(ta.InputError):
        load(path)


def test_one_linearization_serves_score_scan_and_spectrum():
    calls = []
    frozen = two()
    counted = ta.FrozenResidual(
        lambda **p: calls.append(p) or frozen.residual(**p), frozen.parameters, X, view=frozen.view
    )
    parameters = Parameters(frozen.parameters)
    center, metric = parameters.center(), bound_view(frozen, None)
    local = linearize(counted, parameters.coordinates(center.values))
    before = len(calls)
    score = score_from(local, metric, parameters, center)
    parts = spectrum_from(local, metric, counted, center)
    assert len(calls) <= before + 6  # second derivatives
    scan = scan_from(counted, metric, center, candidates=15, local=local)
    assert score.data.identical(ta.score(frozen).data)
    assert parts.data.drop_vars("axis").identical(ta.spectrum(frozen).data.drop_vars("axis"))
    alone = ta.frozen_scan(frozen, candidates=15)
    assert scan.data.drop_vars("quadratic_model").identical(alone.data)
    # The quadratic model touches the profile at the center, with its slope.
    step = parameters["nu"].to_coordinate(scan.slices["nu"][0])
    model = score.residual_norm**2 + 2 * score.B[0] * step + score.H[0, 0] * step**2
    np.testing.assert_allclose(scan.data["quadratic_model"].sel(parameter="nu"), model, rtol=1e-12)


def test_smooth_modes_of_a_diagonal_view_keep_the_sums():
    frozen = one()
    parameters = Parameters(frozen.parameters)
    metric = ta.views.Weighted(1 + X).bind(X)
    local = linearize(frozen, parameters.coordinates(parameters.require("truth")))
    parts = spectrum_from(
        local, metric, frozen, parameters.center(), smooth=True, keep_points=False
    )
    assert parts.points is None
    assert parts.complete
    assert parts.strength.sum() == pytest.approx(parts.H, rel=1e-10)
    assert parts.signed.sum() == pytest.approx(parts.B, rel=1e-10)
    assert parts.pointwise_strength.sum() == pytest.approx(parts.pointwise_H, rel=1e-10)
    with pytest.raises(ta.InputError, match="with its points"):
        parts.region_contributions()
