"""Every bad input ends in a sentence that says what was expected, what it got and how to fix it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.problems import BURGERS
from twoaxis.runs import RunStore, load_runs, train_specs
from twoaxis.training import METHODS, Network
from twoaxis.training.batch import Batch
from twoaxis.training.methods import RBA


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    def fail(*arguments):  # noqa: ARG001
        pytest.fail("went on to train")

    monkeypatch.setattr(Batch, "train", fail)


def says(*words):
    """A pattern that finds the words in this order."""
    return "(?s)" + ".*".join(words)


def refused(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    error = caught.value
    assert error.expected
    assert error.got
    assert error.fix
    assert str(error).startswith("expected ")
    assert "; fix: " in str(error)


SETTINGS = {
    "no steps": (dict(steps=0), says("at least 1 as steps", "steps=0")),
    "negative steps": (dict(steps=-5), says("at least 1 as steps", "steps=-5")),
    "half a step": (dict(steps=2.5), says("integer", "steps=2.5")),
    "steps as a float": (dict(steps=5.0), says("integer", "steps=5.0")),
    "true steps": (dict(steps=True), says("integer", "steps=True")),
    "steps as text": (dict(steps="many"), says("integer", "steps='many'")),
    "no end of steps": (dict(steps=10**12), says("steps")),
    "an unknown method": (dict(method="rbaa"), says("one of the methods", 'did you mean "rba"')),
    "a method of no name": (dict(method=""), says("one of the methods")),
    "the class of a method": (dict(method=RBA), says("the class RBA", r"RBA\(\)")),
    "a method that is none": (dict(method=3), says("training method", "int")),
    "no residual points": (dict(residual_points=0), says("residual_points=0")),
    "negative residual points": (dict(residual_points=-3), says("residual_points=-3")),
    "residual points as a float": (dict(residual_points=50.0), says("residual_points=50.0")),
    "no learning rate": (dict(learning_rate=0), says("positive as learning_rate")),
    "a negative learning rate": (dict(learning_rate=-1e-3), says("positive as learning_rate")),
    "a learning rate that is not finite": (dict(learning_rate=np.inf), says("learning_rate=inf")),
    "a true learning rate": (dict(learning_rate=True), says("learning_rate=True")),
    "a learning rate of text": (dict(learning_rate="fast"), says("learning_rate='fast'")),
    "no physics": (dict(physics_weight=0.0), says("positive as physics_weight")),
    "physics that is not finite": (dict(physics_weight=np.nan), says("physics_weight=nan")),
    "unknown conditions": (dict(conditions="hard"), says("soft, exact", "hard")),
    "conditions in a list": (dict(conditions=["soft"]), says("soft, exact")),
    "half precision": (dict(precision="float16"), says("float32, float64", "float16")),
    "a precision that is a type": (dict(precision=np.float32), says("float32, float64")),
    "a warm-up of one": (dict(warmup=1.0), says("from 0 to below 1", "warmup=1.0")),
    "a negative warm-up": (dict(warmup=-0.1), says("from 0 to below 1")),
    "a warm-up that is not finite": (dict(warmup=np.nan), says("from 0 to below 1")),
    "a warm-up of text": (dict(warmup="long"), says("from 0 to below 1")),
    "a network of numbers": (dict(network=(64, 3)), says("a network", r"Network\(width=64")),
    "no network at all": (dict(network=0), says("a network")),
    "the class of a network": (dict(network=Network), says("a network")),
    "an unknown problem": (dict(problem="burger"), says('did you mean "burgers"')),
    "a problem that is none": (dict(problem=4), says("a problem or the name of one")),
    "half a worker": (dict(workers=0.5), says("at least 1 as workers", "workers=0.5")),
    "no workers": (dict(workers=0), says("at least 1 as workers", "workers=0", "in-process")),
    "true workers": (dict(workers=True), says("workers=True")),
    "no batch": (dict(batch=0), says("at least 1 as batch", "batch=0")),
    "a batch of text": (dict(batch="3"), says("batch='3'")),
    "a true batch": (dict(batch=True), says("batch=True")),
    "an unknown engine": (dict(engine="ray"), says("in-process, local, dask", "'ray'")),
    "a scheduler without Dask": (
        dict(engine="local", scheduler="tcp://127.0.0.1:1"),
        says("a scheduler for the engine dask"),
    ),
    "a scheduler alone": (dict(scheduler="tcp://127.0.0.1:1"), says("the engine dask")),
    "processes on a GPU": (dict(engine="local", device="gpu"), says("GPU|CPU")),
    "Dask without a store": (dict(engine="dask"), says("a store that all Dask workers see")),
    "an unknown device": (dict(device="tpu"), says('"auto", "cpu" or "gpu"', "tpu")),
    "a start of another name": (dict(start={"mu": 0.1}), says("for nu", "values for mu")),
    "something else fixed": (dict(fixed={"lam": 1.0}), says("for nu", "values for lam")),
    "started and fixed": (
        dict(start={"nu": 0.01}, fixed={"nu": 0.01}),
        says("each once", "nu twice"),
    ),
    "a start outside the bounds": (dict(start={"nu": 1.0}), says("inside the bounds", "start=1")),
    "a start of zero": (dict(start={"nu": 0.0}), says("positive start")),
    "a start that is not finite": (dict(start={"nu": np.nan}), says("finite number as start")),
    "a start of text": (dict(start={"nu": "low"}), says("finite number as start")),
    "a start that is a number": (dict(start=0.02), says("names? to values", "0.02")),
    "a fixed name alone": (dict(fixed=["nu"]), says("names? to values", "nu")),
    "a fixed name as text": (dict(fixed="nu"), says("names? to values", "nu")),
    "negative snapshots": (dict(snapshots=-1), says("snapshots from 0 to 24")),
    "more snapshots than steps": (dict(snapshots=25), says("snapshots from 0 to 24")),
    "half a snapshot": (dict(snapshots=1.5), says("snapshots=1.5")),
    "a true snapshot": (dict(snapshots=True), says("snapshots=True")),
    "snapshots as text": (dict(snapshots="12"), says("snapshots='12'")),
    "snapshots as bytes": (dict(snapshots=b"\x01"), says("snapshots=b")),
    "a snapshot before the start": (dict(snapshots=[0, 5]), says("from 1 to 24")),
    "a snapshot after the end": (dict(snapshots=[25]), says("from 1 to 24")),
    "snapshots at true": (dict(snapshots=[True]), says("from 1 to 24")),
    "snapshots between steps": (dict(snapshots=[2.5]), says("from 1 to 24")),
    "no seeds": (dict(seeds=[]), says("at least one", "0 runs")),
    "the same seed twice": (dict(seeds=[1, 1]), says("runs that differ", "2 runs of which 1")),
    "a negative seed": (dict(seeds=-1), says("seed=-1")),
    "half a seed": (dict(seeds=0.5), says("seeds as integers", "0.5")),
    "a seed of text": (dict(seeds="12"), says("seeds as integers", "12")),
    "seeds in halves": (dict(seeds=[0.5]), says("seed=0.5")),
    "a true seed": (dict(seeds=True), says("seed=True")),
    "no datasets": (dict(datasets=[]), says("at least one", "0 runs")),
    "a dataset of text": (dict(datasets="8"), says("published numbers or Dataset", "8")),
    "half a dataset": (dict(datasets=8.5), says("published numbers or Dataset", "8.5")),
    "a true dataset": (dict(datasets=[True]), says("published number or a Dataset", "True")),
    "a negative dataset": (dict(datasets=[-8]), says("seed from 0", "-8")),
    "values alone": (dict(datasets=[np.zeros(3)]), says("published number or a Dataset")),
}


@pytest.mark.parametrize(("options", "message"), SETTINGS.values(), ids=SETTINGS)
def test_settings(made, options, message):
    options = {"problem": "burgers", "datasets": [made.tiny_dataset()], **options}
    refused(lambda: made.tiny_train(**options), message)


def changed(dataset, **parts):
    for name in ("values", "coordinates"):
        if callable(parts.get(name)):
            array = getattr(dataset, name).copy()
            parts[name](array)
            parts[name] = array
    return replace(dataset, **parts)


def put(*place, value):
    def change(array):
        array[place] = value

    return change


DATASETS = {
    "of another problem": (dict(problem="darcy"), says("a dataset of burgers", "one of darcy")),
    "an observation that is NaN": (
        dict(values=put(3, value=np.nan)),
        says("finite observations", "1 of 20", "number 3"),
    ),
    "an infinite observation": (dict(values=put(0, value=np.inf)), says("finite observations")),
    "a site outside": (
        dict(coordinates=put(5, 0, value=1.5)),
        says("inside the domain", "1 outside", "1.5", "order of the columns"),
    ),
    "a site before the start": (dict(coordinates=put(2, 1, value=-0.1)), says("1 outside")),
    "a site that is NaN": (dict(coordinates=put(2, 1, value=np.nan)), says("1 outside")),
    "fewer values than sites": (dict(values=np.zeros(7)), says("values \\(7,\\)")),
    "no observations": (
        dict(values=np.empty(0), coordinates=np.empty((0, 2))),
        says("observations of shape"),
    ),
    "one column": (dict(coordinates=np.zeros((20, 1))), says("coordinates \\(20, 1\\)")),
    "values of text": (dict(values=np.array(["a"] * 20)), says("numbers")),
    "values that are complex": (dict(values=np.ones(20) * 1j), says("numbers")),
    "ragged values": (dict(values=[[1.0], [2.0, 3.0]]), says("numbers")),
    "sites of text": (dict(coordinates=np.array([["a", "b"]] * 20)), says("numbers")),
    "no values": (dict(values=None), says("numbers")),
    "noise that is not finite": (dict(noise_scale=np.nan), says("noise_scale", "nan")),
    "no noise scale": (dict(noise_scale=None), says("noise_scale", "None")),
    "no site numbers": (dict(sites=None), says("sites")),
}


@pytest.mark.parametrize(("parts", "message"), DATASETS.values(), ids=DATASETS)
def test_datasets(made, parts, message):
    dataset = changed(made.tiny_dataset(), **parts)
    refused(lambda: made.tiny_train(datasets=[dataset]), message)
    # The door for sweeps is as strict.
    spec = replace(made.tiny_spec(), dataset=dataset)
    refused(lambda: train_specs(made.tiny_settings(), [spec], progress=False), message)


def test_datasets_of_different_size(made):
    datasets = [made.tiny_dataset(), made.tiny_dataset("burgers", 1, 21)]
    message = says("equally many", r"\[20, 21\]", "batch=1")
    refused(lambda: made.tiny_train(datasets=datasets, batch=2), message)


def test_the_same_dataset_twice(made):
    datasets = [made.tiny_dataset()] * 2
    message = says("runs that differ", "2 runs of which 1")
    refused(lambda: made.tiny_train(datasets=datasets), message)


SPECS = {
    "a start without its parameter": (dict(start={}), says("values? for nu")),
    "a start of another name": (dict(start={"nu": 0.02, "mu": 1.0}), says("for nu", "mu")),
    "a start outside the bounds": (dict(start={"nu": 1.0}), says("inside the bounds")),
    "something else fixed": (dict(fixed=frozenset({"mu"})), says("for nu", "mu")),
    "a start that is a number": (dict(start=0.02), says("names? to values", "0.02")),
}


@pytest.mark.parametrize(("parts", "message"), SPECS.values(), ids=SPECS)
def test_specs(made, parts, message):
    def call():
        spec = replace(made.tiny_spec(), **parts)
        return train_specs(made.tiny_settings(), [spec], progress=False)

    refused(call, message)


def test_what_is_no_spec(made):
    for specs in ([made.tiny_dataset()], made.tiny_spec(), None, [None]):
        refused(
            lambda specs=specs: train_specs(made.tiny_settings(), specs, progress=False),
            says("RunSpec"),
        )


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "64", None, 10**9])
def test_network_sizes(size):
    refused(lambda: Network(width=size), says("as width", "Network"))
    refused(lambda: Network(depth=size), says("as depth", "Network"))


def test_a_parameter_without_a_start(made):
    problem = replace(BURGERS, parameters={"nu": Parameter(bounds=(0.002, 0.05))})
    refused(
        lambda: made.tiny_train(problem, [made.tiny_dataset()]),
        says("starting value for nu", "pass start="),
    )


def test_a_problem_without_an_ansatz(made):
    problem = replace(BURGERS, ansatz=None)
    refused(
        lambda: made.tiny_train(problem, [made.tiny_dataset()], conditions="exact"),
        says("exact-condition ansatz", "burgers", 'conditions="soft"'),
    )


def test_a_problem_with_mixed_derivatives(made):
    problem = replace(BURGERS, derivatives=("u", "u_xt"))
    refused(lambda: made.tiny_train(problem, [made.tiny_dataset()]), says("u_xt", "mixed"))


@pytest.mark.parametrize("kind", ["a file", "below a file", "a number", "closed"])
def test_directories(made, tmp_path, kind, request):
    place = tmp_path / "out"
    if kind == "closed":
        place = request.getfixturevalue("closed_directory")
    elif kind != "a number":
        place.write_text("mine")
        place = place / "inside" if kind == "below a file" else place
    else:
        place = 7
    refused(lambda: made.tiny_train(store=place), says("director|written"))
    if kind == "a file":
        assert place.read_text() == "mine"


@pytest.fixture
def closed_directory():
    """A directory in which nobody can write, the administrator included."""
    place = Path("/proc")
    if not place.is_dir():
        pytest.skip("needs /proc")
    return place


def test_stored_runs_that_were_changed_are_not_used(made, tmp_path, monkeypatch):
    """What is read by name is refused. A training makes it again: see test_train.py."""
    monkeypatch.undo()
    run = made.tiny_train(store=tmp_path)[0]
    path = RunStore(tmp_path).path(run.key) / "arrays.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for call in (lambda: RunStore(tmp_path).load(run.key), lambda: load_runs(tmp_path)):
        refused(call, says("unchanged run", "checksum", "train"))
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_every_method_is_refused_on_bad_input_before_work(made):
    for method in METHODS:
        refused(lambda method=method: made.tiny_train(method=method, steps=0), says("steps=0"))
