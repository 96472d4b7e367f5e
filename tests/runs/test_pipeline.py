from dataclasses import replace

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.datasets import layout, noise_scale
from twoaxis.forward import get_solver
from twoaxis.remedies import calibrate, simulated_audit
from twoaxis.runs.engines import InProcess, Outcome
from twoaxis.runs.pipeline import FailedRun, Pipeline

TINY = {"network": ta.Network(6, 2), "residual_points": 40, "steps": 20, "progress": False}


@pytest.fixture(scope="module")
def pipeline():
    return Pipeline("burgers", layout=9, device="cpu", **TINY)


def test_it_knows_the_simulator_the_noise_and_no_truth(pipeline):
    sites = layout("burgers", 9)
    solved = get_solver("burgers").at_sites(sites, nu=[0.01, 0.02])
    assert (pipeline.forward(nu=np.array([0.01, 0.02])) == solved).all()
    assert pipeline.noise == noise_scale("burgers")
    assert pipeline.parameters["nu"].truth is None
    assert pipeline.parameters["nu"].bounds == (0.002, 0.05)


def test_a_run_for_every_row_with_its_own_seed_is_what_training_gives(pipeline):
    clean = pipeline.forward(nu=[0.01, 0.02, 0.01])
    runs = pipeline(clean, [4, 4, 7])
    assert [run.seed for run in runs] == [4, 4, 7]
    assert [run.dataset.values.tolist() for run in runs] == clean.tolist()
    # The same seed starts from the same network at the same sites, whatever the data.
    assert (runs[0].points == runs[1].points).all()
    assert (runs[0].points != runs[2].points).any()
    given = {k: v for k, v in TINY.items() if k != "progress"}
    alone = ta.train(
        "burgers", datasets=runs[2].dataset, seeds=7, progress=False, device="cpu", **given
    )
    assert alone[0].delivered == runs[2].delivered
    assert pipeline(clean[2], 7).delivered == runs[2].delivered


def test_the_same_values_with_the_same_seed_are_one_run(pipeline):
    clean = pipeline.forward(nu=[0.01])
    one, other = pipeline(np.vstack([clean, clean]), [1, 1])
    assert one is other
    assert pipeline(np.empty((0, 200)), np.empty(0, dtype=int)) == []


def test_sites_of_ones_own_are_observed_between_the_nodes():
    own = replace(
        ta.published_dataset("burgers", 8),
        coordinates=np.array([[0.123, 0.456], [-0.5, 0.21]]),
        sites=np.array([0, 1]),
        values=np.zeros(2),
        noise_scale=0.25,
    )
    pipeline = Pipeline("burgers", layout=own, device="cpu", **TINY)
    expected = get_solver("burgers").at_points(own.coordinates, nu=[0.01])
    assert (pipeline.forward(nu=[0.01]) == expected).all()
    assert pipeline.noise == 0.25


def test_a_store_is_not_filled_twice_and_goes_on(tmp_path):
    first = Pipeline("burgers", layout=8, store=tmp_path, device="cpu", **TINY)
    clean = first.forward(nu=[0.01, 0.02])
    before = [run.delivered for run in first(clean, [1, 2])]
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    runs = first(np.vstack([clean, clean[:1]]), [1, 2, 5])
    assert [run.delivered for run in runs[:2]] == before
    kept = {path: path.stat().st_mtime_ns for path in files}
    assert kept == files


def test_an_engine_trains_into_the_store_what_it_does_not_hold(tmp_path, pipeline):
    counted = []

    class Counting:
        def describe(self):
            return "counting"

        def execute(self, tasks, work, report):
            counted.append([len(task.batch.specs) for task in tasks])
            return InProcess("cpu").execute(tasks, work, report)

    options = {"layout": 9, "store": tmp_path, "engine": Counting(), "batch": 2, "device": "cpu"}
    through = Pipeline("burgers", **options, **TINY)
    clean = pipeline.forward(nu=[0.01, 0.02, 0.03])
    plain = [run.delivered for run in pipeline(clean, [1, 2, 3])]
    assert [run.delivered for run in through(clean[:2], [1, 2])] == plain[:2]
    assert [run.delivered for run in through(clean, [1, 2, 3])] == plain
    assert counted == [[2], [1]]


def test_what_an_engine_could_not_finish_is_a_failure(tmp_path):
    class Broken:
        def describe(self):
            return "broken"

        def execute(self, tasks, work, report):  # noqa: ARG002
            for task in tasks:
                yield Outcome(task.number, failure="no power")

    broken = Pipeline("burgers", store=tmp_path, engine=Broken(), **TINY)
    (failed,) = broken(broken.forward(nu=[0.01]), [0])
    assert failed == FailedRun("no power")
    with pytest.raises(ta.InputError, match="failures, the first: no power"):
        calibrate(
            broken, broken.forward, broken.parameters, broken.noise, candidates=3, replicas=2,
            vectorized=True,
        )  # fmt: skip


def test_it_serves_calibration_and_simulated_audit(pipeline):
    found = calibrate(
        pipeline, pipeline.forward, pipeline.parameters, pipeline.noise, candidates=3, replicas=2,
        interval=(0.005, 0.02), vectorized=True, progress=False,
    )  # fmt: skip
    assert found.retrainings == 6
    assert found.failures == 0
    known = {"nu": replace(pipeline.parameters["nu"], delivered=0.012)}
    audited = simulated_audit(
        pipeline, pipeline.forward, known, pipeline.noise, replicas=2, vectorized=True,
        progress=False,
    )  # fmt: skip
    scores = [ta.score(frozen, at="truth").displacement["nu"] for frozen in audited.frozen]
    assert audited.displacement["nu"] == pytest.approx(np.mean(scores))
    assert audited.frozen[0].parameters["nu"].truth == 0.012


def test_bad_input_is_refused(pipeline):
    for match, arguments, options in (
        ("one of the problems", ("wave",), {}),
        ("a published number or a", ("burgers",), {"layout": "eight"}),
        ("a dataset of burgers", ("burgers",), {"layout": ta.published_dataset("allen-cahn", 8)}),
        ("steps", ("burgers",), {"steps": 0}),
    ):
        with pytest.raises(ta.InputError, match=match):
            Pipeline(*arguments, **options)
    for values, seeds in ((np.zeros((2, 3)), [0, 1]), (np.zeros((2, 200)), [0])):
        with pytest.raises(ta.InputError, match=r"values of shape \(m, 200\) and m seeds"):
            pipeline(values, seeds)
    with pytest.raises(ta.InputError, match="finite observations"):
        pipeline(np.full((1, 200), np.nan), [0])
