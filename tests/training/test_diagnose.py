"""From a trained run to its audit."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta
from twoaxis.training.diagnose import resolution_of_run


@pytest.fixture(scope="module")
def run():
    return ta.train("allen-cahn", datasets=8, steps=6, residual_points=40, snapshots=3)[0]


def moved(run, value):
    """The same run, as if it had delivered another value."""
    final = replace(run.final, delivered={"lam": value})
    return replace(run, final=final)


def test_a_delivered_value_outside_the_bounds_is_audited_and_told(run):
    outside = moved(run, 30.0)
    for truth in (True, False):
        found = ta.audit_run(outside, truth=truth, replicas=4, progress=False)
        assert any("lies outside the problem's bounds 1 to 10" in m for m in found.messages)
        assert len(found.group("/snapshots")["step"]) == 3


def test_axis_one_does_not_depend_on_what_was_delivered(run):
    one, other = (resolution_of_run(r, replicas=4, progress=False) for r in (run, moved(run, 30.0)))
    assert_allclose(one.data["estimate"], other.data["estimate"], rtol=0)


def test_sites_that_contradict_the_coordinates_are_not_believed(run):
    dataset = run.dataset
    wrong = replace(dataset, sites=np.zeros_like(dataset.sites))
    doubtful = replace(run, spec=replace(run.spec, dataset=wrong))
    one, other = (resolution_of_run(r, replicas=4, progress=False) for r in (run, doubtful))
    assert_allclose(one.data["estimate"], other.data["estimate"], rtol=1e-6)


def test_an_unfinished_training_is_the_first_thing_said(run):
    found = ta.audit_run(replace(run, status="diverged at step 5"), replicas=4, progress=False)
    assert found.messages[0] == "the training did not finish: diverged at step 5"


def test_the_layout_is_called_like_the_dataset(run):
    found = ta.audit_run(run, replicas=4, progress=False)
    assert found.group("/resimulation").attrs["layout"] == "8"


def test_what_is_no_run_is_refused():
    with pytest.raises(ta.InputError, match="a run that twoaxis"):
        ta.audit_run("burgers")
