"""Refinement of a run: its result, its store, and the command."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

pytest.importorskip("jax")

import twoaxis as ta
from twoaxis.datasets import published_dataset
from twoaxis.gauss_newton import Continuation
from twoaxis.remedies.refine import of_run
from twoaxis.remedies.refine.result import ON_BOUND
from twoaxis.training.methods import GaussNewton
from twoaxis.training.settings import settings_for

SHORT = Continuation(steps=3, free_steps=5, more=2)
SMALL = {"network": ta.Network(8, 2), "residual_points": 150, "device": "cpu", "progress": False}


@pytest.fixture(scope="module")
def run():
    options = {"datasets": 8, "steps": 30, "residual_points": 100, "progress": False}
    return ta.train("burgers", **options)[0]


@pytest.fixture(scope="module")
def refined(run):
    return ta.refine(run, continuation=SHORT, **SMALL)


def test_the_result_is_the_end_of_a_training(run, refined):
    assert refined.frozen.about["method"] == "gauss-newton"
    assert_allclose(refined.values["nu"], refined.frozen.parameters["nu"].delivered)
    assert refined.parameters["nu"].delivered == run.delivered["nu"]
    assert (np.diff(refined.data["weight"].values) >= 0).all()
    assert refined.data["weight"].values[-1] == pytest.approx(SHORT.last)
    assert refined.data.sizes["observation"] == len(run.dataset.values)
    assert refined.standard_error["nu"] > 0


def test_the_variance_is_at_least_that_of_the_sensitivities(refined):
    """1 / C tends to their information from below as the equation outweighs the data."""
    slopes = refined.data["sensitivity"].values / refined.data.attrs["noise"]
    information = float((slopes**2).sum())
    covariance = float(refined.data["covariance"].values[0, 0])
    assert 0 < information * covariance <= 1.0 + 1e-6


@pytest.mark.long
def test_a_problem_with_a_dataset_starts_from_its_own_value():
    data = published_dataset("burgers", 9)
    found = ta.refine("burgers", data, continuation=SHORT, **SMALL)
    assert found.before_frozen is None
    assert found.parameters["nu"].delivered == found.parameters["nu"].start


def test_a_delivered_value_on_a_bound_starts_inside(run):
    outside = replace(run, final=replace(run.final, delivered={"nu": 1.0}))
    low, high = run.problem.parameters["nu"].bounds
    assert low < of_run._start(run.problem, outside)["nu"] < high


@pytest.mark.long
def test_a_store_keeps_the_refinement(run, refined, tmp_path):
    again = [ta.refine(run, continuation=SHORT, store=tmp_path, **SMALL) for _ in range(2)]
    assert again[0].values == again[1].values == refined.values
    assert len(ta.load_runs(tmp_path)) == 1


@pytest.mark.long
def test_unknown_noise_is_estimated(run):
    data = published_dataset("burgers", 8)
    found = ta.refine(run, replace(data, noise_scale=0.0), continuation=SHORT, **SMALL)
    assert "noise.estimated" in [m.code for m in found.messages]
    assert 0.3 < found.data.attrs["noise"] / data.noise_scale < 3


@pytest.mark.long
def test_the_command_adds_it_to_the_page(run, tmp_path, monkeypatch):
    from twoaxis.cli.app import app

    few = Continuation(steps=1, free_steps=1, more=1)
    small = {name: SMALL[name] for name in ("network", "residual_points")}
    monkeypatch.setattr(of_run, "GaussNewton", lambda: GaussNewton(few))
    monkeypatch.setattr(of_run, "settings_for", partial(settings_for, **small))

    where = str(tmp_path / "audit")
    store = ta.RunStore(tmp_path / "audit" / "runs", create=True)
    store.save(run)
    audit = ["audit", "--run", str(store.directory), "--out", where, "--tolerance", "5"]
    assert CliRunner().invoke(app, [*audit, "--replicas", "20"]).exit_code == 0
    done = CliRunner().invoke(app, ["remedy", where, "--refine", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    assert "Refined: nu" in " ".join(done.output.split())


VERY_SHORT = Continuation(steps=1, free_steps=1, more=1)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"coordinates": lambda c: 5.0 + c}, "inside the domain"),
        ({"values": lambda v: v * np.nan}, "finite observations"),
        ({"values": lambda v: v * 1e200}, "stays finite"),
        ({"values": lambda v: v[:0], "coordinates": lambda c: c[:0]}, "as many observations"),
        ({"noise_scale": lambda _: -1.0}, "noise_scale"),
        ({"noise_scale": lambda _: 0.0, "values": np.zeros_like}, "data that vary"),
    ],
)
def test_bad_data_are_refused(changes, match):
    data = published_dataset("burgers", 8)
    data = replace(data, **{name: change(getattr(data, name)) for name, change in changes.items()})
    with pytest.raises(ta.InputError, match=match):
        ta.refine("burgers", data, continuation=VERY_SHORT, **SMALL)


def test_options_of_a_refinement_are_checked(run):
    with pytest.raises(ta.InputError, match="residual_points"):
        ta.refine(run, residual_point=3)


def test_unknown_noise_where_the_first_pass_ends_on_a_bound():
    """The second pass starts inside the bounds."""
    data = published_dataset("burgers", 8)
    # A field that has nearly gone: no viscosity is large enough.
    data = replace(data, values=0.1 * data.values, noise_scale=0.0)
    options = {**SMALL, "network": ta.Network(6, 2), "residual_points": 60}
    first = replace(data, noise_scale=0.1 * float(np.std(data.values)))
    found = ta.refine("burgers", first, continuation=VERY_SHORT, **options)
    assert found.status == ON_BOUND
    found = ta.refine("burgers", data, continuation=VERY_SHORT, **options)
    assert "noise.estimated" in [m.code for m in found.messages]
    assert np.isfinite(found.standard_error["nu"])
