"""Computed remedies in the actions of an audit."""

from html import unescape

import numpy as np
import pytest

import twoaxis as ta

T = np.linspace(0, 4, 60)


def decay(rate):
    return np.exp(-rate * T)


def field(learned, delivered, truth=1.0):
    u = np.exp(-learned * T)
    parameters = {"rate": ta.Parameter(truth=truth, delivered=delivered, bounds=(0.2, 5.0))}
    return ta.FrozenResidual(
        lambda rate: (rate - learned) * u + 1e-3 * np.cos(9 * T),
        parameters,
        T,
        ta.views.Pointwise(),
    )


def audit_of(frozen, noise):
    resolution = ta.resolve(
        decay, {"rate": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))}, noise, replicas=40, bank=81
    )
    return ta.audit(
        frozen,
        resolution=resolution,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
    )


def numbers(action):
    return {each.label: each.value for each in action.numbers}


def test_computed_remedies_join_the_actions_of_their_kind():
    frozen = field(1.3, 1.3)
    audit = audit_of(frozen, noise=0.3)
    evidence = ta.evidence_map(frozen, regions=3)
    sites = ta.suggest_sites(
        decay, {"rate": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))}, 0.3, 20, cells=[2]
    )
    verified = sites.verify(replicas=30, bank=41)
    plan = ta.remedy(audit, evidence, sites, verified)
    before = {action.kind: action for action in audit.actions}
    after = {action.kind: action for action in plan.actions}
    assert [a.kind for a in plan.actions] == [a.kind for a in audit.actions]
    assert set(after) == {"observations", "evidence"}
    for kind in after:
        assert after[kind].text.startswith(before[kind].text)
        assert set(before[kind].numbers) < set(after[kind].numbers)
    found = numbers(after["observations"])
    assert found["rate: predicted with 20 observations"] == float(sites.predicted[-1])
    value = float(verified.data["value"].squeeze())
    assert found[f"rate: verified by refits at {value:.4g}"] == float(verified.verified)
    first = evidence.summary().iloc[0]
    assert numbers(after["evidence"])["rate: D without its leading region"] == first["without"]
    assert str(first.name) in after["evidence"].text
    assert audit.actions == list(before.values())  # the audit itself stays as it was


def test_refits_at_many_points_are_given_by_their_mean_and_the_worst_one():
    rate = {"rate": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))}
    sites = ta.suggest_sites(
        decay, rate, 0.3, 20, at={"rate": (0.5, 2.0)}, design_points=5, cells=[2]
    )
    verified = sites.verify(replicas=30, bank=41)
    (action,) = [
        each
        for each in ta.remedy(audit_of(field(1.3, 1.3), noise=0.3), verified).actions
        if each.kind == "observations"
    ]
    errors = verified.verified
    worst = float(verified.data["value"].squeeze()[int(np.argmax(errors.values))])
    found = numbers(action)
    assert found["rate: verified on average"] == pytest.approx(float(errors.mean()))
    assert found[f"rate: verified by refits at {worst:.4g}"] == float(errors.max())
    assert action.text.count("Refits at") == 1
    assert f"{int(verified.inside.sum())} of 5 predictions" in action.text


def test_each_remedy_has_a_paragraph_of_its_own_on_the_page(tmp_path):
    frozen = field(1.3, 1.3)
    audit = audit_of(frozen, noise=0.01)
    evidence = ta.evidence_map(frozen, regions=3)
    (action,) = ta.remedy(audit, evidence).actions
    (alone,) = audit.actions
    assert len(action.paragraphs) == 2
    assert action.paragraphs[0] == alone.text
    plan = ta.remedy(audit, evidence)
    page = plan.to_html(tmp_path / "audit.html").read_text(encoding="utf-8")
    for paragraph in action.paragraphs:
        assert f"<p>{paragraph}</p>" in unescape(page)
    begin = " ".join(action.paragraphs[1].split()[:3])
    assert any(line.startswith(f"  {begin}") for line in repr(plan).splitlines())


def test_the_plan_is_in_the_file(tmp_path):
    frozen = field(1.0, 1.3)
    plan = ta.remedy(audit_of(frozen, noise=0.01), ta.polish(frozen))
    (action,) = plan.actions
    assert action.kind == "delivery"
    assert numbers(action)["rate, frozen minimum"] == pytest.approx(1.0, abs=2e-3)
    back = ta.load(plan.save(tmp_path / "audit.nc"))
    assert back.actions == plan.actions
    again = ta.remedy(back, ta.polish(frozen))
    assert again.actions == plan.actions  # a second time adds nothing


def test_what_the_route_did_not_ask_for_follows():
    frozen = field(1.0, 1.0, truth=None)
    audit = ta.audit(frozen, tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0))
    plan = ta.remedy(audit, ta.polish(frozen), ta.evidence_map(frozen, regions=2))
    kinds = [action.kind for action in plan.actions]
    assert kinds[-2:] == ["delivery", "evidence"]


def train_decay(values, _seed):
    """Return a biased inverse fit, with the field that it learnt."""
    fits = np.linspace(0.2, 5.0, 400)
    squares = ((values - np.exp(-np.outer(fits, T))) ** 2).sum(axis=1)
    learned = 1.2 * fits[squares.argmin()]
    return field(learned, learned, truth=None)


def test_simulations_and_sets_say_what_they_found():
    parameters = {"rate": ta.Parameter(delivered=1.2, bounds=(0.2, 5.0))}
    found = ta.simulated_audit(train_decay, decay, parameters, 0.02, replicas=6, progress=False)
    kept = ta.confidence_set(
        train_decay,
        decay,
        parameters,
        0.02,
        decay(1.0),
        candidates=5,
        interval=(0.7, 1.5),
        replicas=19,
        refine=0,
        progress=False,
    )
    frozen = field(1.2, 1.2, truth=None)
    resolution = ta.resolve(decay, parameters, 0.02, replicas=20, bank=41)
    limits = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
    audit = ta.audit(frozen, resolution=resolution, tolerance=limits)
    plan = ta.remedy(audit, found, kept)
    (action,) = plan.actions
    assert action.kind == "bias"
    found_numbers = numbers(action)
    assert (
        found_numbers["bias of rate"] == found.bias["rate"] == pytest.approx(np.log(1.2), abs=0.03)
    )
    assert found_numbers["corrected rate"] == pytest.approx(1.0, abs=0.03)
    assert found_numbers["bias-corrected"] == kept.corrected == pytest.approx(1.0, abs=0.03)
    assert found_numbers["width of the set"] == kept.width_percent
    assert f"{kept.retrainings} retrainings" in action.text


def test_what_is_no_remedy_is_refused():
    audit = ta.audit(field(1.0, 1.0))
    with pytest.raises(ta.InputError, match=r"results of suggest_sites.*got Score"):
        ta.remedy(audit, ta.score(field(1.0, 1.0)))
    with pytest.raises(ta.InputError, match="an audit, got str"):
        ta.remedy("audit.nc")
