"""What an audit says: in eighty columns, escaped, and around a candidate in other words."""

import re

import numpy as np
import pytest

import twoaxis as ta

# "Standard error" is a term of statistics, and claims nothing about a truth.
FORBIDDEN = re.compile("(?<!standard )error|truth", re.IGNORECASE)


def spoken(found):
    """Everything that a reader meets."""
    yield str(found)
    yield found._repr_html_()
    yield found.summary().to_string(max_colwidth=None)
    yield found.directions().to_string(max_colwidth=None)
    yield found.reason
    yield from (message.text for message in found.messages)
    yield from (route.advice for route in found.routes.values())
    yield from (verdict.reason for verdict in found.verdicts.values())
    for action in found.actions:
        yield from (action.title, action.text, *(number.label for number in action.numbers))


def silent_audits(made, observed):
    """Audits around a candidate: complete, bare, strange, of two parameters."""
    bare = made.heat_field(1.0, 1.3, truth=None)
    resolution = made.heat_resolution(made.WEAK, 1.3, known=False)
    yield ta.audit(bare)
    yield ta.audit(bare, tolerance=made.TOLERANCE, at={"k": 1.1})
    yield ta.audit(bare, data=observed, tolerance=made.TOLERANCE, view=ta.views.Patch(cells=4))
    yield ta.audit(bare, resolution=resolution, tolerance=made.TOLERANCE)
    yield ta.audit(made.heat_field(5.0, 1.3, truth=None), tolerance=made.TOLERANCE)
    yield ta.audit(made.heat_field(1.3, 1.3), tolerance=made.TOLERANCE, at="delivered")
    yield ta.audit(
        made.wave_field(1.0, 1.3, (1.0, 1.0), truth=None),
        resolution=made.wave_resolution(made.WEAK, known=False),
        tolerance=made.TOLERANCE,
        candidates=21,
    )
    flat = ta.FrozenResidual(
        lambda k: np.ones(9) + 0 * k,
        {"k": ta.Parameter(delivered=1.0, bounds=made.BOUNDS)},
        np.arange(9.0),
        ta.views.Pointwise(),
    )
    yield ta.audit(flat, tolerance=made.TOLERANCE)


def test_around_a_candidate_nobody_speaks_of_error_or_truth(made, observed, candidate):
    for found in (candidate, *silent_audits(made, observed)):
        for text in spoken(found):
            assert not FORBIDDEN.search(text), text
        assert "stability around the" in " ".join(str(found).split())


def test_messages_of_the_resolution_are_those_of_the_audit():
    resolution = ta.resolve(
        lambda a, b: a + 1e-3 * b * np.arange(5.0),
        {name: ta.Parameter(delivered=1.0, bounds=(0.5, 2.0)) for name in "ab"},
        noise=0.01,
        replicas=3,
        starts=1,
        progress=False,
    )
    assert "resolution.poorly_resolved" in [message.code for message in resolution.messages]
    x = np.arange(5.0)
    found = ta.audit(
        lambda a, b: (a - 1.0) * np.cos(x) + (b - 1.0) * np.sin(x),
        {name: ta.Parameter(delivered=1.0, bounds=(0.5, 2.0)) for name in "ab"},
        ta.views.Pointwise(),
        points=x,
        resolution=resolution,
        candidates=11,
    )
    assert "resolution.poorly_resolved" in [message.code for message in found.messages]
    for text in spoken(found):
        assert not FORBIDDEN.search(text), text


def test_around_a_truth_they_are_said(complete):
    assert "Audit around the truth k = 1" in str(complete)
    assert "delivered error" in str(complete)


@pytest.mark.parametrize("name", ["k", "a_very_long_name_of_a_parameter" * 4, "<script>alert(1)"])
def test_eighty_columns(made, observed, name):
    found = ta.audit(
        made.heat_field(1.3, 1.28, name=name),
        resolution=made.heat_resolution(made.TIGHT, name=name),
        data=observed,
        tolerance=made.TOLERANCE,
    )
    assert max(map(len, str(found).splitlines())) <= 80


def test_the_numbers_that_the_route_rests_on_are_printed(complete):
    text = " ".join(str(complete).split())
    verdict = complete.verdict
    for name in ("delivered_percent", "resolution_percent", "preference_percent"):
        assert f"{verdict[name].item():.3g}%" in text
    assert "above the tolerance of 5%" in text
    assert "within the tolerance of 5%" in text
    assert complete.route.advice in text


def test_a_parameter_named_script_stays_text(made):
    name = '<script>alert("k")</script>'
    found = ta.audit(made.heat_field(1.3, 1.28, name=name), tolerance=made.TOLERANCE)
    html = found._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert ta.compare([found])._repr_html_().count("<script") == 0


def test_a_name_cannot_act_on_the_terminal(made):
    found = ta.audit(made.heat_field(1.3, 1.28, name="\x1b[31mk\n\x07"), tolerance=made.TOLERANCE)
    assert "\x1b" not in str(found)
    assert "\x07" not in str(found)
    assert r"\x1b[31mk" in str(found)
    assert "\x1b" not in str(ta.compare([found]))


def test_local_reading_and_scan_on_different_sides(made):
    # Affine in k: the scan finds log(1 + D), which is less than D.
    tolerance = ta.Tolerance(5.0, 5.0, preference=32.0)
    found = ta.audit(made.heat_field(1.3, 1.3), tolerance=tolerance)
    assert "scan.other_side" in [message.code for message in found.messages]


def test_a_small_gap_is_mentioned_where_delivery_is_the_last_suspect(made):
    found = ta.audit(
        made.heat_field(1.04, 1.04),
        resolution=made.heat_resolution(made.TIGHT),
        tolerance=ta.Tolerance(material=2.0, resolution=5.0, preference=5.0),
    )
    assert found.route is ta.Route.INSPECT_ENDPOINT_DELIVERY
    assert "delivery.small_gap" in [message.code for message in found.messages]


def test_around_a_point_without_a_delivered_value_nothing_is_said_of_delivery():
    x = np.linspace(0, 1, 40)
    found = ta.audit(
        lambda k: k * np.ones(40) - 1.2 - 0.01 * np.cos(9 * x),
        {"k": ta.Parameter(bounds=(0.5, 2.0))},
        ta.views.Pointwise(),
        points=x,
        at={"k": 1.0},
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
    )
    assert found.route is ta.Route.UNDETERMINED
    assert "no delivered value" in found.reason


def test_a_value_outside_the_interval_is_not_called_consistent_without_a_word():
    t = np.linspace(0, 3, 40)
    data = np.exp(-t) + 0.02 * np.random.default_rng(0).standard_normal(40)
    bounds = (0.2, 5.0)
    resolution = ta.resolve(
        lambda k: np.exp(-k * t),
        {"k": ta.Parameter(delivered=1.0, bounds=bounds)},
        0.02,
        data=data,
        replicas=5,
        progress=False,
    )
    upper = resolution.data["data_set_upper"].item()
    for delivered, outside in ((upper * 1.002, True), (upper * 0.998, False)):
        found = ta.audit(
            lambda k, own=delivered: (k - own) * np.exp(-t) + 1e-3 * np.cos(9 * t),
            {"k": ta.Parameter(delivered=delivered, bounds=bounds)},
            ta.views.Pointwise(),
            points=t,
            resolution=resolution,
            tolerance=ta.Tolerance(1, 5, 5),
        )
        assert found.route is ta.Route.CONSISTENT_WITH_DATA
        assert ("outside that interval" in found.answer) is outside


def test_an_open_verdict_says_what_is_in_its_way():
    x = np.linspace(0, 1, 30)
    found = ta.audit(
        lambda k: np.cos(x) + 0 * k,
        {"k": ta.Parameter(delivered=1.0, bounds=(0.2, 5.0))},
        ta.views.Pointwise(),
        points=x,
        tolerance=ta.Tolerance(1, 5, 5),
    )
    assert "does not see k" in found.answer
