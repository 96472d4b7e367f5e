"""An unknown function in an audit has one verdict, one answer and one table."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta
from twoaxis.diagnosis.decision_map import Route, Verdict
from twoaxis.diagnosis.functions import (
    deciding_node,
    one_message_per_function,
    verdicts_by_subject,
)
from twoaxis.diagnosis.overview import direction_rows, function_rows, headline, tables
from twoaxis.parameters import Parameters

X = np.linspace(0, 1, 61)
NODES = np.linspace(0, 1, 5)
TRUTH = 1 + NODES
# The field prefers much too large a value at 0.5, and training delivered that.
PREFERRED = TRUTH * np.array([1, 1, 1.5, 1, 1])
TOLERANCE = ta.Tolerance(material=8.0, resolution=8.0, preference=8.0)


def audited(truth=True, data=False):
    unknown = ta.UnknownFunction(
        nodes=NODES,
        bounds=(0.1, 20.0),
        truth=TRUTH if truth else None,
        delivered=PREFERRED,
        argument="depth",
    )
    rate = ta.Parameter(bounds=(0.1, 10.0), truth=2.0 if truth else None, delivered=2.0)
    parameters = {"k": unknown, "rate": rate}

    def forward(k, rate):
        return np.concatenate([k(X), k(X) * np.exp(-rate[:, None] * X)], axis=-1)

    resolution = ta.resolve(
        forward, parameters, noise=0.05, replicas=10, vectorized=True, progress=False
    )
    readings = np.interp(X, NODES, TRUTH) * np.stack([np.ones(61), np.exp(-2 * X)])
    readings = readings.ravel() + 0.05 * np.random.default_rng(1).standard_normal(122)
    return ta.audit(
        lambda k, rate: k(X) - np.interp(X, NODES, PREFERRED) + (rate - 2.0) * np.sin(30 * X),
        parameters,
        ta.views.Pointwise(),
        points=X,
        resolution=resolution,
        tolerance=TOLERANCE,
        data=readings if data else None,
    )


@pytest.fixture(scope="module")
def audit():
    return audited()


def test_a_function_has_one_verdict(audit):
    assert list(audit.subjects) == ["k", "rate"]
    assert audit.scalars == ["rate"]
    assert len(audit.verdicts) == 6
    assert audit.subjects["k"].route is Route.STRENGTHEN_RESIDUAL_EVIDENCE
    assert audit.subjects["rate"].route is Route.WITHIN_TOLERANCE
    assert audit.route is Route.STRENGTHEN_RESIDUAL_EVIDENCE
    assert deciding_node(audit, audit.functions["k"]) == "k[0.5]"


def test_a_function_has_one_line_in_the_answer_one_table_and_one_action(audit):
    assert len(audit.answer.splitlines()) == 2
    assert "k[0.5]" in audit.answer
    assert [title for title, _ in tables(audit)] == ["k(depth)", "rate"]
    assert headline(audit) == "Audit around the truth k(depth) = 1 to 2, rate = 2"
    rows = {row.label: row for row in function_rows(audit, "k")}
    assert rows["largest delivered error"].measured == "50%"
    assert rows["largest delivered error"].note == "at depth = 0.5"
    assert rows["largest field displacement"].within is False
    assert rows["nodes that data determine"].measured == "5.0 of 5"
    titles = [action.title for action in audit.actions]
    assert [title for title in titles if "k" in title.split()] == titles[:1]
    assert len(direction_rows(audit)) == 3
    text = repr(audit)
    assert text.count("k[0.5]") < 8
    assert "k[0.25]" not in text


def test_the_file_remembers_the_function(audit, tmp_path):
    loaded = ta.load(audit.save(tmp_path / "audit.nc"))
    assert loaded.subjects == audit.subjects
    assert repr(loaded) == repr(audit)


def test_without_a_truth_the_contradicted_node_is_named():
    found = audited(truth=False, data=True)
    assert found.route is Route.CONTRADICTED_BY_DATA
    assert found.subjects["k"].route is Route.CONTRADICTED_BY_DATA
    assert deciding_node(found, found.functions["k"]) == "k[0.5]"
    rows = {row.label: row for row in function_rows(found, "k")}
    assert rows["delivered relative to matched"].note == "at depth = 0.5"
    estimate = found.group("/matched").sel(parameter="k[0.5]")["estimate"]
    assert_allclose(float(estimate), 1.5, rtol=0.03)


def test_a_reason_counts_the_nodes_of_each_route():
    known = Parameters({"k": ta.UnknownFunction(nodes=3, domain=(0, 1), bounds=(0.1, 9.0))})
    good, bad = (
        Verdict(Route.WITHIN_TOLERANCE, "fine"),
        Verdict(Route.IMPROVE_OBSERVATIONS, "loose"),
    )
    found = verdicts_by_subject(known, {"k[0]": good, "k[0.5]": bad, "k[1]": bad})
    assert found["k"].route is Route.IMPROVE_OBSERVATIONS
    assert found["k"].reason == (
        "improve observations at 2 of 3 nodes from x = 0.5 to 1; within tolerance at x = 0. "
        "At k[0.5], loose"
    )
    same = verdicts_by_subject(known, dict.fromkeys(known, bad))
    assert same["k"] == bad
    # Needs of different nodes add up, as those of different parameters do.
    other = Verdict(Route.STRENGTHEN_RESIDUAL_EVIDENCE, "pulled")
    both = verdicts_by_subject(known, {"k[0]": other, "k[0.5]": bad, "k[1]": bad})
    assert both["k"].route is Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE


def test_messages_about_several_nodes_become_one():
    known = Parameters({"k": ta.UnknownFunction(nodes=3, domain=(0, 1), bounds=(0.1, 9.0))})
    messages = [
        ta.Message("delivery.gap", "the gap of k[0] is large", "warning", {"gap": 1.0}),
        ta.Message("note", "something else"),
        ta.Message("delivery.gap", "the gap of k[1] is large", "warning", {"gap": -3.0}),
        ta.Message("scan.other_side", "k[1] lies elsewhere", "warning", {"scan": 1.0}),
    ]
    found = one_message_per_function(known, messages)
    assert [m.code for m in found] == ["delivery.gap", "note", "scan.other_side"]
    assert found[0].numbers == {"gap": -3.0}
    assert found[0].text == "the gap of k[1] is large (and 1 other node alike)"
