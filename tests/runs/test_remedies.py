"""Remedies of runs: what they were trained with is what is trained again."""

import pytest

import twoaxis as ta
from twoaxis.problems import get_problem

LIMITS = ta.Tolerance(material=1.0, resolution=1.0, preference=1.0)


@pytest.fixture(scope="module")
def run():
    return ta.train("burgers", datasets=8, steps=8, residual_points=60, progress=False)[0]


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


def test_a_pipeline_like_a_run_holds_what_the_run_held():
    problem = get_problem("darcy")
    name = next(iter(problem.parameters))
    known = {name: problem.parameters[name].truth}
    run = ta.train(problem, datasets=10, steps=2, residual_points=20, fixed=known, progress=False)[
        0
    ]
    (spec,) = ta.Pipeline.like(run).specs(run.dataset.values[None], [3])
    assert spec.fixed == run.spec.fixed == {name}
    assert spec.start == run.spec.start


def test_without_a_truth_sites_are_made_for_what_the_data_leave_open(run):
    audit = ta.audit_run(run, truth=False, replicas=10, tolerance=LIMITS, progress=False)
    plan = ta.remedy_run(run, audit, sites=20, verify=0, progress=False)
    wanted = {action.kind for action in audit.actions}
    assert wanted <= {action.kind for action in plan.actions}
    text = " ".join(action.text for action in plan.actions).lower()
    assert "error" not in text
    assert "truth" not in text


def test_an_audit_of_another_run_or_view_is_refused(run):
    other = ta.train("burgers", datasets=8, seeds=1, steps=8, residual_points=60, progress=False)[0]
    audit = ta.audit_run(run, replicas=5, tolerance=LIMITS, progress=False)
    with pytest.raises(ta.InputError, match="an audit of this run"):
        ta.remedy_run(other, audit, progress=False)
    patch = ta.views.Patch(cells=2)
    audit = ta.audit_run(run, view=patch, replicas=5, tolerance=LIMITS, progress=False)
    with pytest.raises(ta.InputError, match="the view of the audit"):
        ta.remedy_run(run, audit, progress=False)
    with pytest.raises(ta.InputError, match="a run that"):
        ta.remedy_run(run.frozen, audit)
