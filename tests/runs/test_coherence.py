"""Runs that contradict themselves under checksums that fit: each is refused, and says why."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from safetensors.numpy import load, save

from twoaxis.runs import DamagedRunError, load_run, save_run
from twoaxis.runs.run_file import ARRAYS, MANIFEST, seal, sha256


@pytest.fixture
def saved(trained, tmp_path):
    return save_run(trained["rba"][0], tmp_path)


def forged(place, change):
    """Let ``change(plain, arrays)`` alter a run, and make every checksum right again."""
    plain = json.loads((place / MANIFEST).read_text())
    plain.pop("sha256")
    arrays = {name: np.array(array) for name, array in load((place / ARRAYS).read_bytes()).items()}
    change(plain, arrays)
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    plain["arrays"] |= {"bytes": len(content), "sha256": sha256(content)}
    (place / ARRAYS).write_bytes(content)
    (place / MANIFEST).write_text(json.dumps(plain | {"sha256": seal(plain)}))


def test_a_forgery_that_changes_nothing_is_read(made, trained, saved):
    forged(saved, lambda plain, arrays: None)  # noqa: ARG005
    made.assert_same_bits(load_run(saved), trained["rba"][0])


def manifest(*path, to):
    """A change of one value in the manifest."""

    def change(plain, arrays):  # noqa: ARG001
        *way, last = path
        for name in way:
            plain = plain[name]
        plain[last] = to

    return change


def removed(*path):
    def change(plain, arrays):  # noqa: ARG001
        *way, last = path
        for name in way:
            plain = plain[name]
        del plain[last]

    return change


def array(name, change):
    """A change of one array."""

    def changed(plain, arrays):  # noqa: ARG001
        arrays[name] = change(arrays[name])

    return changed


def put(value, at=0):
    def change(array):
        array.flat[at] = value
        return array

    return change


def other_delivery(plain, arrays):  # noqa: ARG001
    for each in plain["snapshots"]:
        each["delivered"] = {"lambda": each["delivered"]["nu"]}
    plain["delivered"] = plain["snapshots"][-1]["delivered"]


def other_value(value, plain, arrays):  # noqa: ARG001
    plain["delivered"] = plain["snapshots"][-1]["delivered"] = {"nu": value}


def no_column(name, plain, arrays):
    plain["history"].remove(name)
    del arrays[f"history.{name}"]


def fixed_elsewhere(plain, arrays):  # noqa: ARG001
    plain["run"]["fixed"] = ["nu"]


def narrow_layer(plain, arrays):
    last = len(plain["snapshots"]) - 1
    arrays[f"snapshot{last}.weight0"] = arrays[f"snapshot{last}.weight0"][:, :1]


FORGERIES = {
    "delivered under another name": (other_delivery, "values for"),
    "delivered and told differ": (manifest("delivered", "nu", to=0.5), "what it delivered"),
    "delivered nothing": (manifest("snapshots", 0, "delivered", to={}), "values for"),
    "delivered a text": (manifest("snapshots", 0, "delivered", "nu", to="0.01"), "finite number"),
    "delivered no number": (partial(other_value, float("nan")), "finite number"),
    "delivered infinity": (partial(other_value, float("inf")), "finite number"),
    "delivered below zero": (partial(other_value, -0.01), "positive"),
    "noise of infinity": (manifest("run", "noise_scale", to=float("inf")), "finite number"),
    "noise below zero": (manifest("run", "noise_scale", to=-1.0), "noise_scale"),
    "noise as text": (manifest("run", "noise_scale", to="0.1"), "finite number"),
    "noise that is true": (manifest("run", "noise_scale", to=True), "finite number"),
    "no start": (manifest("run", "start", to={}), "start"),
    "a start for another": (manifest("run", "start", to={"lambda": 0.1}), "lambda"),
    "a start below zero": (manifest("run", "start", "nu", to=-1.0), "start"),
    "a start of infinity": (manifest("run", "start", "nu", to=float("inf")), "finite number"),
    "fixed at another value": (fixed_elsewhere, "which was fixed at"),
    "fixed under another name": (manifest("run", "fixed", to=["lambda"]), "fixed"),
    "a label that is a number": (manifest("run", "dataset", to=8), "where a text belongs"),
    "a provenance of nothing": (manifest("run", "provenance", to=None), "where a text belongs"),
    "a text that does not exist": (manifest("status", to="\ud800"), "surrogates"),
    "other observations told": (manifest("run", "observations", to="0" * 64), "its observations"),
    "other observations": (array("dataset.values", put(0.5)), "its observations"),
    "observations of nothing": (array("dataset.values", put(np.nan)), "finite observations"),
    "sites outside": (array("dataset.coordinates", put(7.0)), "inside the domain"),
    "a wider network": (manifest("settings", "network", "width", to=64), "layers of the shapes"),
    "a deeper network": (manifest("settings", "network", "depth", to=3), "layers of the shapes"),
    "a narrow layer": (narrow_layer, "layers of the shapes"),
    "another precision": (manifest("settings", "precision", to="float64"), "not in float64"),
    "weights of infinity": (array("snapshot0.weight1", put(np.inf)), "weights that are not"),
    "more points told": (manifest("settings", "residual_points", to=41), "points of shape"),
    "fewer points": (array("points", lambda a: a[:-1]), "points of shape"),
    "points of one column": (array("points", lambda a: a[:, :1]), "points of shape"),
    "points in half precision": (array("points", lambda a: a.astype("f4")), "points of shape"),
    "points outside": (array("points", put(-9.0)), "points outside the domain"),
    "points that are none": (array("points", put(np.nan)), "points outside the domain"),
    "a view of fewer points": (array("snapshot0.view", lambda a: a[:-1]), "a view of 39 points"),
    "a far snapshot": (manifest("snapshots", 0, "step", to=10**12), "snapshots after"),
    "a snapshot before the start": (manifest("snapshots", 0, "step", to=0), "snapshots after"),
    "a snapshot below zero": (manifest("snapshots", 0, "step", to=-3), "snapshots after"),
    "two snapshots at one step": (manifest("snapshots", 1, "step", to=5), "snapshots after"),
    "a step with a fraction": (manifest("snapshots", 0, "step", to=5.5), "integer"),
    "a step as text": (manifest("snapshots", 0, "step", to="5"), "integer"),
    "a step that is true": (manifest("snapshots", 0, "step", to=True), "integer"),
    "a far end": (manifest("snapshots", -1, "step", to=10**12), "of 24 steps"),
    "an early end": (manifest("snapshots", -1, "step", to=23), "'finished' after 23 of 24"),
    "diverged at the end": (manifest("status", to="diverged"), "'diverged' after 24 of 24"),
    "more steps told": (manifest("settings", "steps", to=30), "after 24 of 30 steps"),
    "a status that is a number": (manifest("status", to=3), "where a text belongs"),
    "no version": (removed("twoaxis"), "twoaxis"),
    "a version that is a number": (manifest("twoaxis", to=1.0), "where a text belongs"),
    "no column of the parameter": (partial(no_column, "nu"), "a history of"),
    "no column of the loss": (partial(no_column, "loss_data"), "a history of"),
    "a column that nobody names": (removed("history", 1), "belong to nothing"),
    "columns in another order": (manifest("history", 0, to="loss"), "loss"),
    "columns of other length": (array("history.loss", lambda a: a[:-1]), "same length"),
    "steps that fall": (array("history.step", put(10**6)), "steps of a training"),
    "steps with a fraction": (array("history.step", lambda a: a.astype(float)), "steps of"),
    "a history that stops": (array("history.step", put(23, -1)), "steps of|to its end"),
    "a loss of nothing": (array("history.loss_data", put(np.nan)), "not finite"),
    "another loss": (array("history.loss", put(3.0)), "sum of its parts"),
    "losses in half precision": (array("history.loss", lambda a: a.astype("f2")), "of numbers"),
    "an array of nobody": (lambda _, a: a.update(extra=np.zeros(3)), "belong to nothing"),
}


@pytest.mark.parametrize(("change", "message"), FORGERIES.values(), ids=FORGERIES)
def test_a_run_that_contradicts_itself(saved, change, message):
    forged(saved, change)
    with pytest.raises(DamagedRunError, match=message):
        load_run(saved)


def test_fixed_parameters_come_back(made, tmp_path):
    run = made.tiny_train(fixed={"nu": 0.013}, steps=2)[0]
    assert load_run(save_run(run, tmp_path)).delivered == {"nu": 0.013}


def test_a_loss_beyond_all_numbers_is_still_the_sum_of_its_parts(trained, tmp_path):
    """The weight of the residual may be so large that the sum overflows: it is stored so."""
    run = trained["rba"][0]
    settings = replace(run.settings, physics_weight=1e308)
    history = run.history.assign(loss_residual=10.0, loss=np.inf)
    loaded = load_run(save_run(replace(run, settings=settings, history=history), tmp_path))
    assert np.isinf(loaded.history["loss"]).all()
