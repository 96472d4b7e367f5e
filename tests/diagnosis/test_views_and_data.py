"""What the audit does with another view than the training view, and with the data."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis import Route


def codes(audit):
    return [message.code for message in audit.messages]


def two_scales(made, delivered, truth=1.0, view=None):
    """A field whose smooth part prefers 1 and whose ripple pulls the pointwise loss to 1.3.

    Cells of the patch view average the ripple away.
    """
    x = np.linspace(0, 1, 512)
    ripple = np.where(np.arange(512) % 2, 1.0, -1.0)
    sensitivity = 1.0 + 10 * ripple
    k = ta.Parameter(truth=truth, delivered=delivered, bounds=made.BOUNDS)
    return ta.FrozenResidual(
        lambda k: (k - 1.0) * sensitivity - 3.0 * ripple, {"k": k}, x, view=view
    )


def test_another_view_is_pointed_out_and_delivery_is_read_under_the_training_view(made):
    field = two_scales(made, 1.3, view=ta.views.Pointwise())
    found = ta.audit(
        field,
        view=ta.views.Patch(cells=8),
        resolution=made.heat_resolution(made.TIGHT),
        tolerance=made.TOLERANCE,
    )
    assert "view.other" in codes(found)
    row = found.summary().loc["k"]
    assert row["preference_percent"] < 1
    assert row["training_preference_percent"] == pytest.approx(29.7, rel=0.01)
    own = ta.audit(field).delivery
    assert found.delivery.gap == pytest.approx(own.gap, abs=1e-12)
    # Tight and small would blame delivery; the training view clears it.
    assert found.route is Route.UNDETERMINED
    assert "delivery is not the cause" in found.reason
    assert "pointwise" in found.delivery.view
    assert "trained under pointwise" in " ".join(str(found).split())
    assert found.data["training_view/scan/minimum"].item() == pytest.approx(1.297, abs=1e-3)


def test_where_both_views_agree_delivery_is_to_blame(made):
    found = ta.audit(
        made.heat_field(1.0, 1.3),
        view=ta.views.Patch(cells=4),
        resolution=made.heat_resolution(made.TIGHT),
        tolerance=made.TOLERANCE,
    )
    assert found.route is Route.INSPECT_ENDPOINT_DELIVERY
    assert "under the training view it is" in found.reason


def test_around_a_candidate_the_training_view_decides(made):
    field = two_scales(made, 1.297, truth=None, view=ta.views.Pointwise())
    found = ta.audit(field, view=ta.views.Patch(cells=8), tolerance=made.TOLERANCE)
    assert found.summary()["preference_percent"].item() > 20
    assert found.route is Route.SELF_CONSISTENT


SAME = {
    "left out": None,
    "equal": ta.views.Pointwise(),
    "up to a factor": ta.views.Weighted(loss_weights=np.full(400, 3.0)),
    "one cell a point": ta.views.Dense(np.eye(400)),
}


@pytest.mark.parametrize("view", SAME.values(), ids=SAME)
def test_the_same_view_under_another_name(made, view):
    found = ta.audit(made.heat_field(1.3, 1.3), view=view)
    assert found.data.attrs["view_relation"] == "same"
    assert "training_view" not in found.data.children


def test_a_view_nobody_vouches_for_is_said_to_be_taken(made):
    found = ta.audit(two_scales(made, 1.3), view=ta.views.Patch(cells=8))
    assert found.data.attrs["view_relation"] == "assumed"
    assert "view.assumed" in codes(found)


def test_the_solver_is_run_again(made, observed):
    found = ta.audit(
        made.heat_field(1.3, 1.28),
        resolution=made.heat_resolution(made.TIGHT),
        data=observed,
        tolerance=made.TOLERANCE,
    )
    again = found.group("/resimulation")
    assert again["value_of"].values.tolist() == ["delivered", "matched", "preferred", "truth"]
    x, t = made.SITES.T
    for label, k in (("delivered", 1.28), ("truth", 1.0)):
        misfit = (observed - np.exp(-k * t) * np.sin(x)) / made.TIGHT
        one = again.sel(value_of=label)
        assert float(one["rms"]) == pytest.approx(np.sqrt(np.mean(misfit**2)))
        assert float(one["reduced_chi_square"]) == pytest.approx(misfit @ misfit / 80)
    assert float(again["rms"].sel(value_of="delivered")) > 3
    assert 0.8 < float(again["rms"].sel(value_of="matched")) < 1.2
    assert float(again["p_value"].sel(value_of="delivered")) < 1e-6
    assert float(again["p_value"].sel(value_of="truth")) > 1e-3
    # The answer comes first, and the check that it rests on before the measured coordinates.
    text = str(found)
    assert text.startswith("k = 1.28")
    assert text.index("Route:") < text.index("Forward model against") < text.index("measured")


def test_the_paired_comparison(made, observed):
    resolution = made.heat_resolution(made.TIGHT)
    found = ta.audit(made.heat_field(1.3, 1.28), resolution=resolution, data=observed)
    row = found.summary().loc["k"]
    matched = 100 * abs(row["matched"] - 1)
    assert matched < 5
    assert row["excess_percent"] == pytest.approx(28 - matched)
    group = found.group("/matched")
    assert group["lower"].item() < row["matched"] < group["upper"].item()


def test_two_parameters_in_another_order_than_the_resolution(made):
    field = made.wave_field(1.0, 1.3, (1.0, 1.3))
    turned = ta.FrozenResidual(
        field.residual, {name: field.parameters[name] for name in "kc"}, field.points, field.view
    )
    noise = np.random.default_rng(5).standard_normal(len(made.SITES))
    data = made.wave(made.SITES, 1.05, 0.9) + made.TIGHT * noise
    found = ta.audit(turned, resolution=made.wave_resolution(made.TIGHT), data=data, candidates=21)
    assert found.summary()["matched"].to_dict() == pytest.approx({"k": 0.9, "c": 1.05}, rel=0.03)
    values = found.group("/resimulation")["value"].sel(value_of="delivered", parameter="k")
    assert float(values) == 1.3


def with_data(made, observed, layouts=None):
    x, t = made.SITES.T
    return ta.resolve(
        lambda k: np.exp(-k * t) * np.sin(x),
        {"k": ta.Parameter(truth=1.0, bounds=made.BOUNDS)},
        noise=made.TIGHT,
        layouts=layouts,
        replicas=10,
        bank=41,
        validate=0,
        data=observed,
        progress=False,
    )


def test_data_that_the_resolution_was_made_with_are_used(made, observed):
    resolution = with_data(made, observed)
    found = ta.audit(made.heat_field(1.3, 1.28), resolution=resolution)
    given = ta.audit(made.heat_field(1.3, 1.28), resolution=resolution, data=observed)
    assert found.group("/resimulation").identical(given.group("/resimulation"))
    assert found.summary()["matched"].item() == pytest.approx(
        float(resolution.data["data_estimate"].item())
    )


def test_a_resolution_from_a_file_has_no_forward_model(made, observed, tmp_path):
    path = with_data(made, observed).save(tmp_path / "resolution.nc")
    loaded = ta.load(path)
    field = made.heat_field(1.3, 1.28)
    found = ta.audit(field, resolution=loaded, data=observed, tolerance=made.TOLERANCE)
    assert "data.no_forward_model" in codes(found)
    assert found.group("/matched") is None
    assert found.route is Route.STRENGTHEN_RESIDUAL_EVIDENCE
    # The fit that was saved with it is used when no other data are named.
    kept = ta.audit(field, resolution=loaded)
    live = ta.audit(field, resolution=with_data(made, observed))
    assert kept.summary()["matched"].item() == live.summary()["matched"].item()
    assert kept.group("/resimulation") is None
    assert "data.saved_fit" in codes(kept)


def test_data_without_a_resolution(made, observed):
    found = ta.audit(made.heat_field(1.3, 1.28), data=observed)
    assert "data.no_resolution" in codes(found)


def test_layouts(made, observed):
    layouts = {"few": np.arange(10), "many": np.arange(80)}
    resolution = with_data(made, observed, layouts)
    field = made.heat_field(1.3, 1.28)
    both = ta.audit(field, resolution=resolution, tolerance=made.TOLERANCE)
    few = ta.audit(field, resolution=resolution, layout="few", tolerance=made.TOLERANCE)
    errors = resolution.error_percent
    assert both.summary()["resolution_percent"].item() == pytest.approx(float(errors.mean()))
    assert few.summary()["resolution_percent"].item() == pytest.approx(
        float(errors.sel(layout="few").mean())
    )
    assert few.layout == "few"
    assert few.used_layouts["layout"].values.tolist() == ["few"]
    assert few.group("/resimulation").attrs["observations"] == 10
    assert {"data.several_layouts", "resolution.several_layouts"} <= set(codes(both))
    assert both.group("/matched") is None
    with pytest.raises(ta.InputError, match=r"(?s)layout that the data belong to.*few, many"):
        ta.audit(field, resolution=resolution, data=observed[:10])
    # Data of the whole output need no layout: all sites count.
    every = ta.audit(field, resolution=resolution, data=observed)
    assert every.group("/resimulation").attrs["observations"] == 80
    one = ta.audit(field, resolution=resolution, data={"few": observed[:10]}, layout="few")
    assert one.group("/matched").identical(few.group("/matched"))


def test_data_that_contradict_the_noise_are_mentioned(made, observed):
    loud = observed + 0.2 * np.sin(40 * made.SITES[:, 0])
    found = ta.audit(
        made.heat_field(1.3, 1.28), resolution=made.heat_resolution(made.TIGHT), data=loud
    )
    assert "data.size" in codes(found)


def test_a_delivered_value_that_the_solver_cannot_run(made, observed):
    x, t = made.SITES.T

    def fragile(k):
        if k > 1.25:
            raise ArithmeticError("unstable")
        return np.exp(-k * t) * np.sin(x)

    resolution = ta.resolve(
        fragile,
        {"k": ta.Parameter(truth=1.0, bounds=made.BOUNDS)},
        noise=made.TIGHT,
        replicas=5,
        bank=41,
        validate=0,
        progress=False,
    )
    found = ta.audit(made.heat_field(1.3, 1.28), resolution=resolution, data=observed)
    assert "data.not_simulated" in codes(found)
    assert np.isnan(found.group("/resimulation")["rms"].sel(value_of="delivered"))
    assert "failed" in str(found)


def test_another_centre_of_the_resolution_is_mentioned(made):
    found = ta.audit(made.heat_field(1.3, 1.28), resolution=made.heat_resolution(made.TIGHT, 1.5))
    (message,) = [m for m in found.messages if m.code == "resolution.other_center"]
    assert message.numbers == {"k": 1.5}


def test_the_resolution_is_left_as_it_was(made):
    resolution = made.heat_resolution(made.TIGHT)
    before = resolution.data.copy(deep=True)
    found = ta.audit(made.heat_field(1.3, 1.28), resolution=resolution)
    assert resolution.data.identical(before)
    assert found.resolution.summary().equals(resolution.summary())
    assert found.resolution.live is None
