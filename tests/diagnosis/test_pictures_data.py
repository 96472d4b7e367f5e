"""What the tree holds for pictures: field, evidence, modes, history; bounded in size."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import twoaxis as ta


def test_evidence_adds_up_to_the_score(made):
    for view in (ta.views.Pointwise(), ta.views.Patch(cells=4), ta.views.Gaussian()):
        found = ta.audit(made.heat_field(1.3, 1.28, view=view))
        field = found.group("/field")
        assert float(field["contribution"].sum()) == pytest.approx(found.score.B, rel=1e-9)
        np.testing.assert_array_equal(field["points"].values, made.POINTS)
        u = np.exp(-1.3 * made.POINTS[:, 1]) * np.sin(made.POINTS[:, 0])
        np.testing.assert_allclose(field["field"].values, u)
        np.testing.assert_allclose(field["sensitivity"].values[:, 0], u, rtol=1e-6, atol=1e-9)


def test_the_quadratic_model_touches_the_profile(made):
    found = ta.audit(made.heat_field(1.3, 1.28), candidates=801)
    scan = found.group("/scan").isel(parameter=0)
    near = np.abs(np.log(scan["candidate_value"].values)) < 0.01
    np.testing.assert_allclose(
        scan["quadratic_model"].values[near], scan["profile"].values[near], rtol=1e-2
    )
    model = scan["quadratic_model"].values
    lowest = np.log(scan["candidate_value"].values[int(np.argmin(model))])
    assert lowest == pytest.approx(found.score.displacement["k"], abs=0.005)


VIEWS = {
    "pointwise": ta.views.Pointwise(),
    "weighted": ta.views.Weighted(loss_weights=np.linspace(0, 2, 400)),
    "patch": ta.views.Patch(cells=4),
    "gaussian": ta.views.Gaussian(),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_all_modes_add_up(made, view):
    found = ta.audit(made.heat_field(1.3, 1.28, view=view), spectrum=400)
    modes = found.group("/spectrum")
    assert modes.attrs["complete"] == 1
    assert float(modes["strength"].sum()) == pytest.approx(found.score.H, rel=1e-8)
    assert float(modes["signed"].sum()) == pytest.approx(found.score.B, rel=1e-8)
    assert float(modes["strength_total"].item()) == pytest.approx(found.score.H)


def test_a_smooth_field_lives_in_coarse_modes(made):
    modes = ta.audit(made.heat_field(1.3, 1.28), spectrum=128).group("/spectrum")
    assert modes.attrs["complete"] == 0
    share = modes["strength"].isel(mode=slice(0, 32)).sum() / modes["strength_total"]
    assert share.item() > 0.9


def test_modes_are_those_of_the_spectrum(made):
    field = made.heat_field(1.3, 1.28, view=ta.views.Gaussian(rank=32))
    modes = ta.audit(field).group("/spectrum")
    direct = ta.spectrum(field)
    np.testing.assert_allclose(modes["strength"].values[:, 0], direct.strength, atol=1e-15)
    np.testing.assert_allclose(modes["signed"].values[:, 0], direct.signed, atol=1e-15)


def test_modes_can_be_left_out(made):
    assert ta.audit(made.heat_field(1.3, 1.28), spectrum=False).group("/spectrum") is None


def test_many_points_are_thinned_and_said_so(tmp_path):
    points = np.random.default_rng(0).random((100_000, 2))
    field = np.sin(3 * points[:, 0])
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.3) * field,
        {"k": ta.Parameter(truth=1.0, delivered=1.3, bounds=(0.5, 2.0))},
        points,
        ta.views.Pointwise(),
        field=field,
        field_name="temperature",
    )
    found = ta.audit(frozen)
    group = found.group("/field")
    assert group.sizes["point"] == 20_000
    assert group.attrs["points_total"] == 100_000
    assert group.attrs["field_name"] == "temperature"
    np.testing.assert_allclose(group["field"], np.sin(3 * group["points"].values[:, 0]))
    (message,) = [m for m in found.messages if m.code == "field.thinned"]
    assert message.numbers == {"kept": 20_000, "total": 100_000}
    assert found.group("/spectrum") is None  # not cheap, and not asked for
    assert pytest.approx(np.mean(field**2)) == found.score.H
    assert found.save(tmp_path / "audit.nc").stat().st_size < 3e6


def test_several_equations_share_their_points(made):
    x = np.linspace(0, 1, 6)
    frozen = ta.FrozenResidual(
        lambda k: (k * np.ones(6) - 1.1, k * x - 1.2),
        {"k": ta.Parameter(truth=1.0, delivered=1.0, bounds=made.BOUNDS)},
        x,
        ta.views.Blocks([ta.views.Pointwise(), ta.views.Pointwise()]),
        field=x**2,
    )
    group = ta.audit(frozen).group("/field")
    np.testing.assert_array_equal(group["points"].values[:, 0], np.tile(x, 2))
    np.testing.assert_array_equal(group["field"].values, np.tile(x**2, 2))


HISTORY = {"step": [10, 20], "loss": [0.5, 0.1], "k": [1.0, 1.2], "loss/data": [1.0, 2.0]}


@pytest.mark.parametrize(
    "history",
    [
        HISTORY,
        pd.DataFrame(HISTORY),
        pd.DataFrame(HISTORY).set_index("step"),
        xr.Dataset({n: ("step", v) for n, v in HISTORY.items()}),
    ],
    ids=["mapping", "table", "indexed", "dataset"],
)
def test_history(made, history):
    group = ta.audit(made.heat_field(1.3, 1.28), history=history).group("/history")
    assert group["step"].values.tolist() == [10, 20]
    assert set(group["quantity"].values.tolist()) == {"loss", "loss/data"}
    assert group["recorded"].sel(quantity="loss").values.tolist() == [0.5, 0.1]
    assert group["value"].sel(parameter="k").values.tolist() == [1.0, 1.2]


def test_a_history_without_the_parameter(made):
    found = ta.audit(made.heat_field(1.3, 1.28), history={"step": [1], "loss": [0.5]})
    assert "value" not in found.group("/history")


def test_a_field_that_does_not_fit_its_points(made):
    with pytest.raises(ta.InputError, match="400 finite numbers"):
        made.heat_field(1.3, 1.28, field=np.zeros(7))
    with pytest.raises(ta.InputError, match="400 finite numbers"):
        made.heat_field(1.3, 1.28, field=np.full(400, np.nan))
