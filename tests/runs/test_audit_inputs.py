"""From a trained run to the inputs of its audit."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta


@pytest.fixture(scope="module")
def run():
    return ta.train("allen-cahn", datasets=8, steps=6, residual_points=40, snapshots=3)[0]


@pytest.fixture(scope="module")
def inputs(run):
    return run.audit_inputs(replicas=4, progress=False)


def moved(run, value):
    """The same run, as if it had delivered another value."""
    final = replace(run.final, delivered={"lam": value})
    return replace(run, final=final)


def test_everything_that_is_known(run, inputs):
    assert inputs["residual"] is run.frozen
    assert inputs["data"] is run.dataset.values
    assert inputs["history"] is run.history
    assert inputs["run"] == run.key
    assert inputs["notes"] == []
    assert inputs["resolution"].data.sizes["replica"] == 4
    blind = run.audit_inputs(truth=False, resolution=inputs["resolution"], progress=False)
    assert blind["resolution"] is inputs["resolution"]
    assert blind["residual"].parameters["lam"].truth is None
    assert blind["residual"].parameters["lam"].delivered == run.delivered["lam"]


def test_the_frozen_residual_knows_data_field_and_loss(run):
    frozen, dataset = run.frozen, run.dataset
    np.testing.assert_array_equal(frozen.data, dataset.values)
    np.testing.assert_array_equal(frozen.observed, dataset.coordinates)
    np.testing.assert_array_equal(frozen.fitted, run.field(dataset.coordinates))
    value, _ = frozen.objective.value_and_gradient(frozen.objective.start)
    assert value == pytest.approx(run.objective().value_and_gradient(frozen.objective.start)[0])
    assert frozen.about["problem"] == "allen-cahn"
    assert frozen.about["seed"] == "0"
    assert frozen.about["steps"] == "6"
    assert frozen.about["run"] == run.key
    first, *_, last = (each for _, each in run.follow())
    assert first.objective is last.objective is None
    assert first.fitted.shape == frozen.fitted.shape
    assert np.abs(first.fitted - frozen.fitted).max() > 0
    assert replace(run, status="diverged").frozen.objective is None


def test_a_delivered_value_outside_the_bounds_is_noted(run, inputs):
    outside = moved(run, 30.0)
    for truth in (True, False):
        found = outside.audit_inputs(truth=truth, resolution=inputs["resolution"])
        notes = found["residual"].notes
        assert any("lies outside the problem's bounds 1 to 10" in str(note) for note in notes)


def test_axis_one_does_not_depend_on_what_was_delivered(run, inputs):
    other = moved(run, 30.0).resolve(replicas=4, progress=False)
    assert_allclose(inputs["resolution"].data["estimate"], other.data["estimate"], rtol=0)


def test_sites_that_contradict_the_coordinates_are_not_believed(run, inputs):
    dataset = run.dataset
    wrong = replace(dataset, sites=np.zeros_like(dataset.sites))
    doubtful = replace(run, spec=replace(run.spec, dataset=wrong))
    other = doubtful.resolve(replicas=4, progress=False)
    assert_allclose(inputs["resolution"].data["estimate"], other.data["estimate"], rtol=1e-6)


def test_an_unfinished_training_is_noted(run, inputs):
    unfinished = replace(run, status="diverged at step 5")
    (note,) = unfinished.audit_inputs(resolution=inputs["resolution"])["notes"]
    assert (note.code, note.severity) == ("training.unfinished", "warning")
    assert note.text == "the training did not finish: diverged at step 5"


def test_the_layout_is_called_like_the_dataset(inputs):
    assert inputs["resolution"].data["layout"].values.tolist() == ["8"]
