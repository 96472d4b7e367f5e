"""The route on fields whose fault is known by construction, and what the audit says of it."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis import Route

# What decays at the true rate, 1, is the solution; 1.3 is a distorted field. A delivered value
# that is not the field's rate is a parameter whose training stopped early.
CELLS = {
    "all is well": ("tight", 1.0, 1.01, Route.WITHIN_TOLERANCE),
    "well in spite of noise": ("weak", 1.0, 1.01, Route.WITHIN_TOLERANCE),
    "stopped early": ("tight", 1.0, 1.3, Route.INSPECT_ENDPOINT_DELIVERY),
    "distorted field": ("tight", 1.3, 1.3, Route.STRENGTHEN_RESIDUAL_EVIDENCE),
    "noise": ("weak", 1.0, 1.3, Route.IMPROVE_OBSERVATIONS),
    "noise and distortion": (
        "weak",
        1.3,
        1.3,
        Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE,
    ),
}
CANDIDATE_CELLS = {
    "stable": ("tight", 1.0, 1.01, Route.SELF_CONSISTENT),
    "distorted, and nobody can know": ("tight", 1.3, 1.3, Route.SELF_CONSISTENT),
    "stopped early": ("tight", 1.0, 1.3, Route.INSPECT_ENDPOINT_DELIVERY),
    "noise": ("weak", 1.0, 1.01, Route.IMPROVE_OBSERVATIONS),
    "noise, and stopped early": ("weak", 1.0, 1.3, Route.INSPECT_ENDPOINT_DELIVERY),
}


def noise(made, word):
    return {"tight": made.TIGHT, "weak": made.WEAK}[word]


@pytest.mark.parametrize(("level", "rate", "delivered", "route"), CELLS.values(), ids=CELLS)
def test_one_parameter_with_truth(made, level, rate, delivered, route):
    found = ta.audit(
        made.heat_field(rate, delivered),
        resolution=made.heat_resolution(noise(made, level)),
        tolerance=made.TOLERANCE,
    )
    assert found.route is route
    assert found.routes == {"k": route}
    row = found.summary().loc["k"]
    assert row["delivered_percent"] == pytest.approx(100 * (delivered - 1))
    assert row["preference_percent"] == pytest.approx(100 * (rate - 1), abs=0.3)
    assert row["local_percent"] == pytest.approx(100 * abs(np.expm1(rate - 1)), abs=0.3)
    assert row["gap_percent"] == pytest.approx(100 * (delivered / rate - 1), abs=0.3)
    assert f"Route: {route.value}" in str(found)


@pytest.mark.parametrize(("level", "rate", "delivered", "route"), CELLS.values(), ids=CELLS)
def test_two_parameters_with_truth(made, level, rate, delivered, route):
    found = ta.audit(
        made.wave_field(1.0, rate, (1.01, delivered)),
        resolution=made.wave_resolution(noise(made, level)),
        tolerance=made.TOLERANCE,
        candidates=21,
    )
    assert found.routes == {"c": Route.WITHIN_TOLERANCE, "k": route}
    assert found.route is route
    directions = found.directions()
    assert directions["status"].tolist() == ["seen", "seen"]
    # Both parameters are seen almost apart: the direction of k has the route of k.
    along = directions.loc[directions["share of k"].abs().idxmax()]
    assert along["route"] == route.value
    assert "the delivered error is 1%" in found.reason


@pytest.mark.parametrize(
    ("level", "rate", "delivered", "route"), CANDIDATE_CELLS.values(), ids=CANDIDATE_CELLS
)
def test_one_parameter_without_truth(made, level, rate, delivered, route):
    found = ta.audit(
        made.heat_field(rate, delivered, truth=None),
        resolution=made.heat_resolution(noise(made, level), delivered, known=False),
        tolerance=made.TOLERANCE,
    )
    assert found.centered_on == "delivered"
    assert found.route is route


@pytest.mark.parametrize(
    ("level", "rate", "delivered", "route"), CANDIDATE_CELLS.values(), ids=CANDIDATE_CELLS
)
def test_two_parameters_without_truth(made, level, rate, delivered, route):
    found = ta.audit(
        made.wave_field(1.0, rate, (1.0, delivered), truth=None),
        resolution=made.wave_resolution(noise(made, level), known=False),
        tolerance=made.TOLERANCE,
        candidates=21,
    )
    assert found.routes["k"] is route
    settled = Route.SELF_CONSISTENT if level == "tight" else Route.IMPROVE_OBSERVATIONS
    assert found.routes["c"] is settled


def test_a_truth_that_is_known_may_be_left_aside(made):
    field = made.heat_field(1.3, 1.3)
    found = ta.audit(field, tolerance=made.TOLERANCE, at="delivered")
    assert found.route is Route.SELF_CONSISTENT
    assert found.parameters["k"].truth is None
    assert found.delivery.total is None


def test_around_a_point_stability_is_that_of_the_delivered_value(made):
    field = made.heat_field(1.3, 1.3, truth=None)
    found = ta.audit(field, tolerance=made.TOLERANCE, at={"k": 1.0})
    assert found.centered_on == "point"
    assert found.route is Route.SELF_CONSISTENT
    assert found.score.delta_percent["k"] > 20
    early = ta.audit(made.heat_field(1.0, 1.3, None), tolerance=made.TOLERANCE, at={"k": 1.0})
    assert early.route is Route.INSPECT_ENDPOINT_DELIVERY


def test_the_statistic_is_the_users_choice(made):
    field, resolution = made.heat_field(1.3, 1.3), made.heat_resolution(0.1)
    errors = resolution.error_percent.values
    mean, high = errors.mean(), np.quantile(errors, 0.9)
    between = (mean + high) / 2
    assert mean < between < high
    by_mean, by_p90 = (
        ta.audit(field, resolution=resolution, tolerance=ta.Tolerance(5.0, between, 5.0, statistic))
        for statistic in ("mean", "p90")
    )
    assert by_mean.route is Route.STRENGTHEN_RESIDUAL_EVIDENCE
    assert by_p90.route is Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE
    assert by_mean.summary()["resolution_percent"].item() == pytest.approx(mean)
    assert by_p90.summary()["resolution_percent"].item() == pytest.approx(high)
    assert "90th percentile" in by_p90.reason


def test_the_identity(complete):
    terms = complete.delivery
    assert terms.total["k"] == pytest.approx(np.log(1.28))
    assert terms.preference["k"] + terms.gap["k"] == pytest.approx(terms.total["k"], abs=1e-15)
    assert terms.preference["k"] == pytest.approx(complete.scan.displacement["k"], abs=1e-15)


UNDETERMINED = {
    "no tolerance": (dict(tolerance=None), "no tolerance declared"),
    "no resolution": (dict(resolution=None), "no resolution given"),
}


@pytest.mark.parametrize(("change", "reason"), UNDETERMINED.values(), ids=UNDETERMINED)
def test_missing_pieces(made, change, reason):
    whole = dict(resolution=made.heat_resolution(made.TIGHT), tolerance=made.TOLERANCE)
    found = ta.audit(made.heat_field(1.3, 1.3), **{**whole, **change})
    assert found.route is Route.UNDETERMINED
    assert found.reason.startswith(reason)
    # Everything else is there, and the missing piece is named with the call that adds it.
    assert found.summary()["preference_percent"].item() == pytest.approx(30, abs=0.1)
    (name,) = change
    assert f"missing.{name}" in [message.code for message in found.messages]


def test_no_delivered_value(made):
    found = ta.audit(
        made.heat_field(1.3, None),
        resolution=made.heat_resolution(made.TIGHT),
        tolerance=made.TOLERANCE,
    )
    assert found.route is Route.UNDETERMINED
    assert "no delivered value" in found.reason
    assert found.delivery is None
    assert "missing.delivered" in [message.code for message in found.messages]


def blind(made, delivered=1.3, truth=1.0):
    """A field that is constant in space: the equation does not feel the conductivity."""
    k = ta.Parameter(truth=truth, delivered=delivered, bounds=made.BOUNDS)
    return ta.FrozenResidual(
        lambda k: 0.3 + 0.0 * k + made.POINTS[:, 1], {"k": k}, made.POINTS, ta.views.Pointwise()
    )


def test_no_strength(made):
    found = ta.audit(
        blind(made), resolution=made.heat_resolution(made.TIGHT), tolerance=made.TOLERANCE
    )
    assert found.route is Route.UNDETERMINED
    assert found.reason.startswith("H = 0: the residual does not see k")
    assert np.isnan(found.summary()["preference_percent"].item())
    assert found.scan.minimum is None
    assert "not seen by the residual" in str(found)
    within = ta.audit(blind(made, 1.01), tolerance=made.TOLERANCE)
    assert within.route is Route.WITHIN_TOLERANCE


def test_no_strength_around_a_candidate(made):
    field = blind(made, truth=None)
    assert ta.audit(field, tolerance=made.TOLERANCE).route is Route.UNDETERMINED
    weak = made.heat_resolution(made.WEAK, 1.3, known=False)
    found = ta.audit(field, resolution=weak, tolerance=made.TOLERANCE)
    assert found.route is Route.IMPROVE_OBSERVATIONS


@pytest.mark.parametrize(("rate", "side"), [(5.0, "upper"), (0.1, "lower")])
@pytest.mark.parametrize("truth", [1.0, None])
def test_a_minimum_on_a_bound(made, rate, side, truth):
    found = ta.audit(
        made.heat_field(rate, 1.3, truth),
        resolution=made.heat_resolution(made.TIGHT),
        tolerance=made.TOLERANCE,
    )
    assert found.route is Route.UNDETERMINED
    assert f"lies on the {side} bound of k" in found.reason
    assert f"on the {side} bound of k" in str(found)


def test_a_direction_that_is_not_seen_is_said_aloud(made):
    parameters = {
        name: ta.Parameter(truth=1.0, delivered=value, bounds=made.BOUNDS)
        for name, value in {"a": 1.5, "b": 0.8, "c": 1.2}.items()
    }
    x = made.POINTS[:, 0]
    field = ta.FrozenResidual(  # only the product of a and b can be seen
        lambda a, b, c: (a * b - 1.3) * np.sin(x) + (c - 1.1) * np.cos(x),
        parameters,
        made.POINTS,
        ta.views.Pointwise(),
    )
    found = ta.audit(field, tolerance=made.TOLERANCE, candidates=11)
    assert found.routes["a"] is Route.UNDETERMINED
    assert "H is singular" in found.reason
    directions = found.directions()
    assert directions["status"].tolist() == ["null", "seen", "seen"]
    shares = directions.loc[0, ["share of a", "share of b"]].abs().tolist()
    np.testing.assert_allclose(shares, [np.sqrt(0.5)] * 2)
    assert directions.loc[0, "route"] == "undetermined"
    assert "H = 0 along +0.71 a -0.71 b" in directions.loc[0, "reason"]
    assert "direction.null" in [message.code for message in found.messages]
    # c has nothing to do with it.
    assert found.summary().loc["c", "preference_percent"] == pytest.approx(10.5, abs=0.5)
    assert "(null)" in str(found)


def test_a_weak_direction_is_said_aloud_and_still_has_a_route(made):
    x = made.POINTS[:, 0]
    parameters = {
        name: ta.Parameter(truth=1.0, delivered=1.3, bounds=made.BOUNDS) for name in ("a", "b")
    }
    field = ta.FrozenResidual(
        lambda a, b: (a - 1.3) * np.sin(x) + 0.01 * (b - 1.3) * np.cos(x),
        parameters,
        made.POINTS,
        ta.views.Pointwise(),
    )
    found = ta.audit(field, tolerance=ta.Tolerance(5, 5, 5), candidates=21)
    assert found.directions()["status"].tolist() == ["weak", "seen"]
    weak, strong = found.directions()["strength"]
    assert 0.5e-4 < weak / strong < 2e-4
    (message,) = [m for m in found.messages if m.code == "direction.weak"]
    assert message.numbers["share"] == pytest.approx(weak / strong)
    assert message.text.startswith("the direction b is weak")
    assert found.directions()["route"].tolist() == ["undetermined"] * 2  # no resolution
    assert found.directions()["preference_percent"].tolist() == pytest.approx([30, 30], abs=0.1)


def test_linear_coordinates(made):
    x = made.POINTS[:, 0]
    shift = ta.Parameter(
        truth=0.0, delivered=0.3, bounds=(-2.0, 2.0), coordinate="linear", scale=2.0
    )
    found = ta.audit(
        lambda shift: (shift - 0.3) * np.sin(x),
        {"shift": shift},
        ta.views.Pointwise(),
        points=made.POINTS,
        tolerance=ta.Tolerance(10, 10, 10),
    )
    row = found.summary().loc["shift"]
    assert row["delivered_percent"] == pytest.approx(15.0)
    assert row["preference_percent"] == pytest.approx(15.0)
    assert found.directions()["preference_percent"].item() == pytest.approx(15.0)


def test_a_residual_that_is_not_finite(made):
    def broken(k):
        values = k * np.ones(len(made.POINTS))
        values[7] = np.nan
        return values

    with pytest.raises(ta.InputError, match=r"(?s)finite residual.*points 7"):
        ta.audit(
            broken,
            {"k": ta.Parameter(truth=1.0, delivered=1.3, bounds=made.BOUNDS)},
            ta.views.Pointwise(),
            points=made.POINTS,
            tolerance=made.TOLERANCE,
        )


BAD = {
    "a number as tolerance": (dict(tolerance=5.0), r"twoaxis\.Tolerance"),
    "a layout without a resolution": (dict(layout="8"), "(?s)resolution.*layout='8'"),
    "something else as resolution": (dict(resolution=0.18), r"(?s)twoaxis\.resolve.*float"),
    "spectrum": (dict(spectrum="yes"), "spectrum"),
    "no history": (dict(history=[1, 2]), "history"),
    "history without steps": (dict(history={"loss": [1.0]}), "step"),
    "history of unequal length": (dict(history={"step": [1], "loss": [1.0, 2.0]}), "one length"),
    "history of words": (dict(history={"step": [1], "loss": ["low"]}), "numbers"),
    "no snapshots": (dict(snapshots=3), r"twoaxis\.follow"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_bad_input(made, change, message):
    with pytest.raises(ta.InputError, match=message):
        ta.audit(made.heat_field(1.3, 1.3), **change)


def test_a_resolution_of_other_parameters(made):
    with pytest.raises(ta.InputError, match=r"(?s)parameters k.*c, k"):
        ta.audit(made.heat_field(1.3, 1.3), resolution=made.wave_resolution(made.TIGHT))
    with pytest.raises(ta.InputError, match=r"(?s)layouts all.*layout='8'"):
        ta.audit(made.heat_field(1.3, 1.3), resolution=made.heat_resolution(made.TIGHT), layout=8)


def test_parameters_in_another_order(made):
    field = made.wave_field(1.0, 1.3, (1.0, 1.3))
    turned = ta.FrozenResidual(
        field.residual, {name: field.parameters[name] for name in "kc"}, field.points, field.view
    )
    resolution = made.wave_resolution(made.TIGHT)
    straight, crossed = (
        ta.audit(f, resolution=resolution, tolerance=made.TOLERANCE, candidates=21)
        for f in (field, turned)
    )
    assert crossed.summary().index.tolist() == ["k", "c"]
    for name in "ck":
        a, b = straight.summary().loc[name], crossed.summary().loc[name]
        assert a["resolution_percent"] == b["resolution_percent"]
        assert a["route"] == b["route"]


def two_basins(depth):
    """A residual with a minimum near 1.002 of height (2 depth)^2, and one of zero at 3."""
    k = ta.Parameter(truth=1.0, delivered=1.3, bounds=(0.3, 5.0))
    x = np.linspace(0, 1, 20)
    return ta.FrozenResidual(
        lambda k: (k - 1.002) * (k - 3.0) * (x < 0.5) + depth * (3.0 - k) * (x >= 0.5),
        {"k": k},
        x,
        ta.views.Pointwise(),
    )


def test_where_scan_and_local_displacement_conflict_the_scan_decides(made):
    found = ta.audit(
        two_basins(0.02), resolution=made.heat_resolution(made.TIGHT), tolerance=made.TOLERANCE
    )
    row = found.summary().loc["k"]
    assert row["local_percent"] < 0.5
    assert row["preference_percent"] == pytest.approx(200.0, abs=0.1)
    assert found.route is Route.STRENGTHEN_RESIDUAL_EVIDENCE
    assert {"scan.other_side", "scan.other_basin"} <= {m.code for m in found.messages}


def test_two_basins_of_the_same_depth_leave_the_route_open(made):
    found = ta.audit(
        two_basins(0.0), resolution=made.heat_resolution(made.TIGHT), tolerance=made.TOLERANCE
    )
    assert found.route is Route.UNDETERMINED
    assert "two minima" in found.reason


def test_a_displacement_of_rounding_is_written_as_zero():
    field = ta.FrozenResidual(
        lambda k: (k - 0.3) * np.ones(9),
        {"k": ta.Parameter(delivered=0.1 * 3, bounds=(0.1, 1.0))},
        np.linspace(0, 1, 9),
        ta.views.Pointwise(),
    )
    found = ta.audit(field, tolerance=ta.Tolerance(5, 5, 5), candidates=21)
    assert "the displacement from it is 0% (within" in found.reason
