"""Remedies of runs: what they were trained with is what is trained again."""

from dataclasses import replace

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.remedies import SimulatedAudit
from twoaxis.remedies.other_views import COMPARISONS, rank_other_views

pytest.importorskip("jax")

LIMITS = ta.Tolerance(material=1.0, resolution=1.0, preference=1.0)


@pytest.fixture(scope="module")
def runs():
    small = {"steps": 8, "residual_points": 60, "progress": False}
    return ta.train("burgers", datasets=8, seeds=[0, 1], **small)


@pytest.fixture(scope="module")
def run(runs):
    return runs[0]


def test_a_pipeline_like_a_run_has_its_settings_sites_and_start(run):
    pipeline = ta.Pipeline.like(run, progress=False)
    assert pipeline.settings is run.settings
    assert pipeline.noise == run.dataset.noise_scale
    (again,) = pipeline(run.dataset.values[None], [run.seed])
    assert again.finished
    assert again.settings == run.settings
    assert again.spec.start == run.spec.start
    assert (again.dataset.coordinates == run.dataset.coordinates).all()
    assert (again.dataset.values == run.dataset.values).all()


def test_a_pipeline_like_a_run_holds_what_the_run_held(run):
    held = replace(run, spec=replace(run.spec, fixed=frozenset({"nu"})))
    (spec,) = ta.Pipeline.like(held).specs(run.dataset.values[None], [3])
    assert spec.fixed == {"nu"}
    assert spec.start == run.spec.start


def test_without_a_truth_sites_are_made_for_what_the_data_leave_open(run):
    audit = ta.audit(run, at="delivered", replicas=10, tolerance=LIMITS, progress=False)
    plan = ta.remedy(audit, run=run, count=20, verify=0, progress=False)
    kinds = {action.kind for action in audit.actions}
    assert kinds <= {action.kind for action in plan.actions}
    text = " ".join(action.text for action in plan.actions).lower()
    assert "error" not in text
    assert "truth" not in text


def test_an_audit_of_another_run_or_view_is_refused(runs, run, audit):
    with pytest.raises(ta.InputError, match="an audit of the run"):
        ta.remedy(audit, run=runs[1], progress=False)
    with pytest.raises(ta.InputError, match="not made from a run"):
        ta.remedy(ta.audit(run.frozen), run=run, progress=False)
    patch = ta.views.Patch(cells=2)
    audit = ta.audit(run, view=patch, replicas=5, tolerance=LIMITS, progress=False)
    with pytest.raises(ta.InputError, match="the view of the audit"):
        ta.remedy(audit, run=run, progress=False)
    with pytest.raises(ta.InputError, match="a run that"):
        ta.remedy(audit, run=run.frozen)


# ------------------------------------------------------------------ another view


def test_a_pipeline_like_a_run_can_train_in_another_way(run):
    pipeline = ta.Pipeline.like(run, method="patch", progress=False)
    own = ta.methods.PatchEvidence()
    wanted = replace(run.settings, method=own, warmup=own.recipe().warmup)
    assert pipeline.settings == wanted
    assert own.recipe().warmup != run.settings.warmup
    assert pipeline.specs(run.dataset.values[None], [3])[0].start == run.spec.start


@pytest.fixture(scope="module")
def audit(run):
    return ta.audit(run, replicas=5, tolerance=LIMITS, progress=False)


@pytest.fixture(scope="module")
def simulated(run):
    pipeline = ta.Pipeline.like(run, progress=False)
    known = {name: replace(p, truth=None) for name, p in run.frozen.parameters.items()}
    return ta.simulated_audit(
        pipeline, pipeline.forward, known, pipeline.noise, replicas=3, seed=7,
        vectorized=True, progress=False,
    )  # fmt: skip


def test_views_are_ranked_on_the_simulated_fields(run, simulated):
    found = rank_other_views(run, simulated, ("patch", "pcgrad", "rba"))
    assert sorted(found.ranking.index) == ["patch", "pcgrad", "rba"]
    sizes = found.ranking["mean_size"]
    assert sizes.is_monotonic_increasing
    views = {"patch": ta.views.Patch(), "pcgrad": ta.views.Pointwise()}
    for name, view in views.items():
        scores = [ta.score(field, view=view).displacement["nu"] for field in simulated.frozen]
        assert sizes[name] == pytest.approx(np.mean(np.abs(scores)), rel=1e-12)
    own = [ta.score(field).displacement["nu"] for field in simulated.frozen]
    assert sizes["rba"] == pytest.approx(np.mean(np.abs(own)), rel=1e-12)
    assert found.chosen == sizes.drop("rba").idxmin()
    assert found.displaces_less == (sizes[found.chosen] < sizes["rba"])
    with pytest.raises(ta.InputError, match="methods other than rba"):
        rank_other_views(run, simulated, ("rba",))


def test_the_best_of_the_other_views_is_trained_on_the_same_data(run, audit, tmp_path):
    plan = ta.remedy(
        audit, run=run, verify=0, simulate=3, retrain=True, seed=7, store=tmp_path, progress=False
    )
    text = " ".join(action.text for action in plan.actions)
    kept = ta.load_runs(tmp_path)
    chosen = ({one.settings.method.name for one in kept} - {"rba"}).pop()
    by_method = {
        name: [one for one in kept if one.settings.method.name == name] for name in ("rba", chosen)
    }
    # Three simulated datasets each, the same ones, and the real one for the other view.
    rows = {
        name: {one.dataset.values.tobytes() for one in runs} for name, runs in by_method.items()
    }
    assert {name: len(found) for name, found in rows.items()} == {"rba": 3, chosen: 4}
    assert rows[chosen] - rows["rba"] == {run.dataset.values.tobytes()}
    (real,) = (one for one in by_method[chosen] if one.dataset.values.tobytes() not in rows["rba"])
    assert real.seed == run.seed
    assert f"On the real data {chosen} delivers nu = {real.delivered['nu']:.5g}" in text
    # The numbers of the plan are those of the runs.
    (evidence,) = (action for action in plan.actions if action.kind == "evidence")
    numbers = {each.label: each.value for each in evidence.numbers}
    at = np.log(run.delivered["nu"])
    for name, runs in by_method.items():
        simulations = [one for one in runs if one is not real]
        errors = [np.log(one.delivered["nu"]) - at for one in simulations]
        assert numbers[f"bias of nu, {name}"] == pytest.approx(np.mean(errors), rel=1e-9)
        assert f" of {np.mean(np.abs(errors)):.3g}" in evidence.text


def shifted(simulated, by):
    """The same simulations, with every delivered error larger by so much."""
    size = simulated.data["delivered_error"]
    return SimulatedAudit(simulated.data.assign(delivered_error=size + np.sign(size) * by))


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ([0.1, 0.12, 0.11], "worse"),
        ([-0.1, -0.12, -0.11], "better"),
        ([0.1, -0.12, 0.01], "unclear"),
        ([0.1, np.nan, np.nan], "too few"),
    ],
)
def test_the_two_are_compared_on_the_same_datasets(run, audit, simulated, by, expected):
    large = shifted(simulated, 1.0)
    found = replace(
        rank_other_views(run, simulated, ("patch",)),
        before=large,
        after=shifted(large, np.array(by)),
        delivered={"nu": 0.02},
    )
    assert found.comparison == {"nu": expected}
    (evidence,) = (a for a in ta.remedy(audit, found).actions if a.kind == "evidence")
    assert COMPARISONS[expected].format("patch", "rba") in evidence.text
    lost = replace(found, delivered={}, status="it diverged")
    (evidence,) = (a for a in ta.remedy(audit, lost).actions if a.kind == "evidence")
    assert "On the real data patch did not finish: it diverged." in evidence.text


def test_without_retraining_the_plan_says_how_views_rank(run, audit, simulated):
    found = rank_other_views(run, simulated)
    (evidence,) = (a for a in ta.remedy(audit, found).actions if a.kind == "evidence")
    assert f"Of the other views, that of {found.chosen} displaces" in evidence.text
    assert ("--retrain" in evidence.text) == found.displaces_less
    assert evidence.call == f'twoaxis.Pipeline.like(run, method="{found.chosen}")'
    numbers = {each.label: each.value for each in evidence.numbers}
    assert numbers == {
        f"mean size of D, view of {name}": size for name, size in found.ranking["mean_size"].items()
    }


def test_without_a_field_nothing_is_ranked(run, audit, simulated):
    found = rank_other_views(run, SimulatedAudit(simulated.data))
    assert found.chosen == ""
    assert not found.displaces_less
    (evidence,) = (a for a in ta.remedy(audit, found).actions if a.kind == "evidence")
    assert "None of the other views could be scored" in evidence.text


def test_retraining_without_simulations_is_refused(run, audit):
    with pytest.raises(ta.InputError, match="simulated datasets"):
        ta.remedy(audit, run=run, retrain=True, progress=False)
