"""The decision map as a rule: every cell, total, monotone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twoaxis as ta
from twoaxis.diagnosis.decision_map import Measured, Route, Verdict, decide, join

FIVE = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
WELL = {Route.WITHIN_TOLERANCE, Route.SELF_CONSISTENT}

CELLS = {
    "tight, small": (20.0, 2.0, 2.0, Route.INSPECT_ENDPOINT_DELIVERY),
    "tight, large": (20.0, 2.0, 20.0, Route.STRENGTHEN_RESIDUAL_EVIDENCE),
    "loose, small": (20.0, 20.0, 2.0, Route.IMPROVE_OBSERVATIONS),
    "loose, large": (20.0, 20.0, 20.0, Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE),
    "within": (4.0, 20.0, 20.0, Route.WITHIN_TOLERANCE),
    "on every limit": (5.0, 5.0, 5.0, Route.WITHIN_TOLERANCE),
    "on two limits": (5.1, 5.0, 5.0, Route.INSPECT_ENDPOINT_DELIVERY),
}


@pytest.mark.parametrize(
    ("delivered", "resolution", "preference", "route"), CELLS.values(), ids=CELLS
)
def test_around_a_truth(delivered, resolution, preference, route):
    found = Measured("truth", preference=preference, delivered=delivered, resolution=resolution)
    verdict = decide(found, FIVE)
    assert verdict.route is route
    for number in (delivered,) if route is Route.WITHIN_TOLERANCE else (delivered, resolution):
        assert f"{number:.3g}" in verdict.reason


CANDIDATES = {
    "stable": (2.0, None, Route.SELF_CONSISTENT),
    "stable and tight": (2.0, 2.0, Route.SELF_CONSISTENT),
    "stable and loose": (2.0, 20.0, Route.IMPROVE_OBSERVATIONS),
    "moved": (20.0, None, Route.INSPECT_ENDPOINT_DELIVERY),
    "moved and loose": (20.0, 20.0, Route.INSPECT_ENDPOINT_DELIVERY),
    "unread": (None, None, Route.UNDETERMINED),
    "unread and tight": (None, 2.0, Route.UNDETERMINED),
    "unread and loose": (None, 20.0, Route.IMPROVE_OBSERVATIONS),
}


@pytest.mark.parametrize(("shift", "resolution", "route"), CANDIDATES.values(), ids=CANDIDATES)
def test_around_a_candidate(shift, resolution, route):
    found = Measured(
        "candidate", training_preference=shift, training_obstacle="H = 0", resolution=resolution
    )
    verdict = decide(found, FIVE)
    assert verdict.route is route
    assert ("H = 0" in verdict.reason) == (shift is None)


MISSING = {
    "resolution": (dict(delivered=20.0, preference=2.0), "no resolution given"),
    "column": (dict(delivered=20.0, resolution=2.0, obstacle="H = 0"), "H = 0"),
    "delivered": (dict(preference=2.0, resolution=2.0), "no delivered value"),
}


@pytest.mark.parametrize(("parts", "reason"), MISSING.values(), ids=MISSING)
def test_what_is_missing_is_the_reason(parts, reason):
    verdict = decide(Measured("truth", **parts), FIVE)
    assert verdict.route is Route.UNDETERMINED
    assert verdict.reason.startswith(reason)


def test_without_a_tolerance():
    found = Measured("truth", preference=2.0, delivered=20.0, resolution=2.0)
    assert decide(found, None) == (Route.UNDETERMINED, "no tolerance declared")


CROSS = {
    "views agree": (2.0, Route.INSPECT_ENDPOINT_DELIVERY),
    "views disagree": (20.0, Route.UNDETERMINED),
    "unread": (None, Route.UNDETERMINED),
}


@pytest.mark.parametrize(("training", "route"), CROSS.values(), ids=CROSS)
def test_delivery_is_blamed_under_the_training_view_alone(training, route):
    found = Measured(
        "truth",
        preference=2.0,
        delivered=20.0,
        resolution=2.0,
        cross_view=True,
        training_preference=training,
    )
    assert decide(found, FIVE).route is route


def test_digits_that_show_the_side():
    found = Measured("truth", preference=5.0001, delivered=20.0, resolution=2.0)
    assert "5.0001% (above the tolerance of 5%)" in decide(found, FIVE).reason


sizes = st.one_of(st.none(), st.floats(0, 1e3), st.just(float("inf")))
limits = st.floats(0.01, 100)
measurements = st.builds(
    Measured,
    st.sampled_from(["truth", "candidate"]),
    preference=sizes,
    delivered=sizes,
    resolution=sizes,
    training_preference=sizes,
    cross_view=st.booleans(),
)


@given(measurements, limits, limits, limits)
def test_there_is_always_exactly_one_route(measured, material, resolution, preference):
    verdict = decide(measured, ta.Tolerance(material, resolution, preference))
    assert isinstance(verdict.route, Route)
    assert verdict.reason
    if measured.around == "candidate":
        assert verdict.route in {
            Route.SELF_CONSISTENT,
            Route.INSPECT_ENDPOINT_DELIVERY,
            Route.IMPROVE_OBSERVATIONS,
            Route.UNDETERMINED,
        }
        assert "error" not in verdict.reason
        assert "truth" not in verdict.reason
    else:
        assert verdict.route is not Route.SELF_CONSISTENT


@given(measurements, limits, limits, limits, st.floats(1, 10), st.integers(0, 2))
def test_a_larger_tolerance_never_makes_a_fault(measured, a, b, c, factor, which):
    before = [a, b, c]
    after = list(before)
    after[which] *= factor
    if decide(measured, ta.Tolerance(*before)).route in WELL:
        assert decide(measured, ta.Tolerance(*after)).route in WELL


@given(st.lists(st.sampled_from(Route), min_size=1, max_size=4), st.randoms())
def test_joining_does_not_depend_on_the_order(routes, random):
    verdicts = {f"p{k}": Verdict(r, str(k)) for k, r in enumerate(routes)}
    items = list(verdicts.items())
    random.shuffle(items)
    assert join(dict(items)).route is join(verdicts).route


JOINS = {
    "needs add up": (
        [Route.IMPROVE_OBSERVATIONS, Route.STRENGTHEN_RESIDUAL_EVIDENCE],
        Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE,
    ),
    "a fault before what is well": (
        [Route.WITHIN_TOLERANCE, Route.INSPECT_ENDPOINT_DELIVERY],
        Route.INSPECT_ENDPOINT_DELIVERY,
    ),
    "a need before delivery": (
        [Route.INSPECT_ENDPOINT_DELIVERY, Route.IMPROVE_OBSERVATIONS],
        Route.IMPROVE_OBSERVATIONS,
    ),
    "a fault before the undetermined": (
        [Route.UNDETERMINED, Route.STRENGTHEN_RESIDUAL_EVIDENCE],
        Route.STRENGTHEN_RESIDUAL_EVIDENCE,
    ),
    "the undetermined before what is well": (
        [Route.WITHIN_TOLERANCE, Route.UNDETERMINED],
        Route.UNDETERMINED,
    ),
}


@pytest.mark.parametrize(("routes", "whole"), JOINS.values(), ids=JOINS)
def test_joining(routes, whole):
    found = join({f"p{k}": Verdict(r, f"reason {k}") for k, r in enumerate(routes)})
    assert found.route is whole
    assert found.reason == "For p0, reason 0. For p1, reason 1"


BAD = {
    "zero": dict(material=0.0),
    "negative": dict(resolution=-1.0),
    "infinite": dict(preference=float("inf")),
    "not a number": dict(material=float("nan")),
    "words": dict(material="five"),
    "a truth value": dict(material=True),
    "another statistic": dict(statistic="median"),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_tolerances_that_cannot_be_meant(change):
    (name,) = change
    with pytest.raises(ta.InputError, match=name):
        ta.Tolerance(**{"material": 5.0, "resolution": 5.0, "preference": 5.0, **change})


def test_every_route_has_advice_that_fits_a_candidate_too():
    for route in Route:
        assert route.advice.endswith(".")
        assert not {"error", "truth"} & set(route.advice.lower().split())
