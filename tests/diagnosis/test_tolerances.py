"""The route against the tolerance."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.diagnosis import verdict
from twoaxis.diagnosis.decision_map import Route


def test_the_same_tolerances_give_the_same_audit(complete, candidate):
    for audit in (complete, candidate):
        assert audit.at_tolerance(audit.tolerance).data.identical(audit.data)


def test_no_tolerance_leaves_the_route_undetermined(complete):
    found = complete.at_tolerance(None)
    assert found.route is Route.UNDETERMINED
    assert found.tolerance is None


@pytest.mark.parametrize("around", ["complete", "candidate"])
def test_stretches_cover_all_tolerances_and_agree_with_audits_inside(around, request):
    audit = request.getfixturevalue(around)
    table = audit.routes_by_tolerance()
    lower, upper = table["lower"].to_numpy(), table["upper"].to_numpy()
    assert lower[0] == 0
    assert upper[-1] == np.inf
    assert (lower[1:] == upper[:-1]).all()
    assert (table["route"][1:].to_numpy() != table["route"][:-1].to_numpy()).all()
    generator = np.random.default_rng(4)
    for size in np.exp(generator.uniform(np.log(0.01), np.log(200), 25)):
        (inside,) = table[(table["lower"] <= size) & (size < table["upper"])]["route"]
        assert audit.at_tolerance(ta.Tolerance(size, size, size)).route == inside


def test_around_a_truth_the_last_change_is_at_the_delivered_error(complete):
    table = complete.routes_by_tolerance()
    assert table["route"].iloc[-1] == Route.WITHIN_TOLERANCE
    (delivered,) = complete.verdict["delivered_percent"].values
    assert table["lower"].iloc[-1] == delivered


def test_what_no_tolerance_changes_is_measured_once(complete, monkeypatch):
    measured = []
    of_parameter = verdict._of_parameter

    def counted(audit, name):
        measured.append(name)
        return of_parameter(audit, name)

    def never(*arguments):
        raise AssertionError(f"directions are judged again: {arguments}")

    expected = complete.routes_by_tolerance()
    monkeypatch.setattr(verdict, "_of_parameter", counted)
    monkeypatch.setattr(verdict, "_of_directions", never)
    assert complete.routes_by_tolerance().equals(expected)
    assert measured == complete.names
