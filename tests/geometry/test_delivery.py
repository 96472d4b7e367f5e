"""The bookkeeping identity: total = preference + gap, in coordinates, with signs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twoaxis as ta

value = st.floats(0.11, 9.9)


@settings(max_examples=60, deadline=None)
@given(truth=value, delivered=value, preferred=value, coordinate=st.sampled_from(["log", "linear"]))
def test_the_identity(truth, delivered, preferred, coordinate):
    parameter = ta.Parameter(
        truth=truth, delivered=delivered, bounds=(0.1, 10.0), coordinate=coordinate
    )
    terms = ta.delivery({"p": parameter}, {"p": preferred})
    change = np.log if coordinate == "log" else float
    assert terms.total["p"] == pytest.approx(change(delivered) - change(truth), abs=1e-14)
    assert terms.preference["p"] == pytest.approx(change(preferred) - change(truth), abs=1e-14)
    assert terms.gap["p"] == pytest.approx(change(delivered) - change(preferred), abs=1e-14)
    assert terms.preference["p"] + terms.gap["p"] == pytest.approx(terms.total["p"], abs=1e-13)
    assert terms.gap_percent["p"] == pytest.approx(
        100 * (delivered - preferred) / preferred, abs=1e-9
    )


def both(**truths):
    return {
        "nu": ta.Parameter(delivered=0.012, bounds=(0.002, 0.05), truth=truths.get("nu")),
        "shift": ta.Parameter(
            delivered=-0.3, bounds=(-2.0, 2.0), coordinate="linear", truth=truths.get("shift")
        ),
    }


def test_several_parameters():
    terms = ta.delivery(both(nu=0.01, shift=0.5), {"nu": 0.0125, "shift": -0.4})
    assert terms.total == pytest.approx({"nu": np.log(1.2), "shift": -0.8})
    assert terms.preference == pytest.approx({"nu": np.log(1.25), "shift": -0.9})
    assert terms.gap == pytest.approx({"nu": np.log(0.012 / 0.0125), "shift": 0.1})
    assert terms.gap_percent == pytest.approx({"nu": -4.0, "shift": 25.0})
    table = terms.summary()
    assert table.index.tolist() == ["nu", "shift"]
    assert table.columns.tolist() == ["total", "preference", "gap", "gap_percent"]
    np.testing.assert_allclose(table["preference"] + table["gap"], table["total"], atol=1e-15)


@pytest.mark.parametrize("truths", [{}, {"nu": 0.01}], ids=["none", "only one"])
def test_without_a_truth_only_the_gap_is_defined(truths):
    terms = ta.delivery(both(**truths), {"nu": 0.0125, "shift": -0.4})
    assert terms.total is None
    assert terms.preference is None
    assert terms.gap == pytest.approx({"nu": np.log(0.012 / 0.0125), "shift": 0.1})
    assert terms.summary().columns.tolist() == ["gap", "gap_percent"]


def test_it_takes_what_the_scan_returns():
    parameters = {"k": ta.Parameter(truth=1.0, delivered=1.3, bounds=(0.5, 2.0))}
    scan = ta.frozen_scan(
        lambda k: k * np.ones(5) - 1.1, parameters, ta.views.Pointwise(), points=np.arange(5.0)
    )
    terms = ta.delivery(parameters, scan.minimum)
    assert terms.preference["k"] == pytest.approx(scan.displacement["k"], abs=1e-15)
    assert terms.gap["k"] == pytest.approx(np.log(1.3 / 1.1), rel=1e-12)


def test_around_the_candidate_the_displacement_is_minus_the_gap():
    # protocol.md: to first order, so the difference falls with the square of the gap.
    off = []
    for delivered in (1.102, 1.101):
        parameters = {"k": ta.Parameter(delivered=delivered, bounds=(0.5, 2.0))}
        arguments = (lambda k: k * np.ones(5) - 1.1, parameters, ta.views.Pointwise())
        score = ta.score(*arguments, points=np.arange(5.0))
        scan = ta.frozen_scan(*arguments, points=np.arange(5.0))
        gap = ta.delivery(parameters, scan.minimum).gap["k"]
        off.append(score.displacement["k"] + gap)
        assert abs(off[-1]) < gap**2
    assert off[0] / off[1] == pytest.approx(4.0, rel=0.01)


BAD = {
    "other names": ({"nu": 0.01}, "(?s)nu, shift.*nu.*scan.minimum"),
    "nothing": ({}, "(?s)nu, shift.*none"),
    "a flat scan": (None, "(?s)nu, shift"),
    "not a number": ({"nu": float("nan"), "shift": 0.0}, "(?s)nu"),
    "not positive": ({"nu": -0.01, "shift": 0.0}, "(?s)nu"),
    "words": ({"nu": "much", "shift": 0.0}, "(?s)nu"),
}


@pytest.mark.parametrize(("preferred", "message"), BAD.values(), ids=BAD)
def test_preferred_values_that_cannot_be_used(preferred, message):
    with pytest.raises(ta.InputError, match=message):
        ta.delivery(both(nu=0.01), preferred)


def test_a_delivered_value_is_needed():
    with pytest.raises(ta.InputError, match=r"(?s)delivered value.*none for k.*delivered="):
        ta.delivery({"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))}, {"k": 1.1})


@pytest.mark.parametrize("preferred", [0.0, 1e-17])
def test_a_gap_from_a_preferred_value_of_zero_refers_to_the_center(preferred):
    parameter = ta.Parameter(delivered=0.1, bounds=(-1.0, 1.0), coordinate="linear")
    assert ta.delivery({"p": parameter}, {"p": preferred}).gap_percent["p"] == pytest.approx(100.0)
    known = ta.Parameter(truth=0.2, delivered=0.1, bounds=(-1.0, 1.0), coordinate="linear")
    assert ta.delivery({"p": known}, {"p": preferred}).gap_percent["p"] == pytest.approx(50.0)
    scaled = ta.Parameter(delivered=0.1, bounds=(-1.0, 1.0), coordinate="linear", scale=0.5)
    assert ta.delivery({"p": scaled}, {"p": 0.0}).gap_percent["p"] == pytest.approx(20.0)
