"""Runs on disk: they come back as they were, and what was changed is refused."""

import hashlib
import json
import shutil
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file

import twoaxis as ta
from twoaxis.errors import InputError
from twoaxis.problems import BURGERS
from twoaxis.training import METHODS, load_run, load_runs, save_run, storage
from twoaxis.training.methods import PatchEvidence, Recipe
from twoaxis.training.methods.stored import StoredMethod
from twoaxis.training.rules import ProjectBoth
from twoaxis.views import Gaussian, Patch


@dataclass(frozen=True)
class Own:
    """A method of one's own, with an option that is no plain value."""

    cells: int = 3
    view: object = Gaussian(rank=4)

    @property
    def name(self):
        return "own"

    def recipe(self):
        return Recipe(view=Patch(self.cells), gradient=ProjectBoth(), warmup=0.25)


@pytest.fixture(scope="module")
def own(made):
    return made.tiny_train(method=Own(), snapshots=1)[0]


@pytest.fixture
def saved(trained, tmp_path):
    return save_run(trained["rba"][0], tmp_path)


@pytest.mark.parametrize("method", METHODS)
def test_round_trip(made, trained, method, tmp_path):
    run = trained[method][0]
    path = save_run(run, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"{run.key}.json",
        f"{run.key}.safetensors",
    ]
    assert path == tmp_path / f"{run.key}.json"
    loaded = load_run(path)
    made.assert_same_bits(loaded, run)
    pd.testing.assert_frame_equal(loaded.history, run.history)
    assert loaded.settings == run.settings
    assert loaded.spec.describe() == run.spec.describe()
    assert loaded.dataset.noise_scale == run.dataset.noise_scale
    assert_array_equal(loaded.dataset.sites, run.dataset.sites)
    assert [s.step for s in loaded.snapshots] == [s.step for s in run.snapshots]
    assert_array_equal(loaded.residual(nu=0.013), run.residual(nu=0.013))
    assert repr(ta.score(loaded.frozen)) == repr(ta.score(run.frozen))
    again = save_run(loaded, tmp_path / "..")
    for suffix in (".json", ".safetensors"):
        copy = again.with_suffix(suffix)
        assert copy.read_bytes() == path.with_suffix(suffix).read_bytes()
        copy.unlink()


def test_a_method_whose_code_is_gone(made, own, tmp_path):
    path = save_run(own, tmp_path)
    loaded = load_run(path)
    made.assert_same_bits(loaded, own)
    method = loaded.settings.method
    assert isinstance(method, StoredMethod)
    assert method.name == "own"
    assert method.options["cells"] == 3
    assert repr(ta.score(loaded.frozen)) == repr(ta.score(own.frozen))
    with pytest.raises(InputError, match=r"whose code is known.*'own'.*diagnosed without it"):
        method.recipe()
    before = path.read_bytes()
    save_run(loaded, tmp_path)  # nothing is lost when it is stored once more
    assert path.read_bytes() == before


def test_numpy_options_are_plain_numbers_in_the_file(made, tmp_path):
    run = made.tiny_train(
        method=PatchEvidence(field_scale=np.float32(0.5)),
        steps=np.int64(2),
        learning_rate=np.float32(0.5),
        seeds=np.int64(3),
        out=tmp_path,
    )[0]
    loaded = load_run(tmp_path / f"{run.key}.json")
    assert loaded.settings.method == PatchEvidence()
    assert type(loaded.settings.method.field_scale) is float
    assert loaded.settings.steps == 2
    assert (
        made.tiny_train(method="patch", steps=2, learning_rate=0.5, seeds=3, out=tmp_path)[0].key
        == run.key
    )


def test_a_problem_of_ones_own(made, tmp_path):
    def residual(*, u, u_t, u_x, u_xx, nu):
        return u_t + 2 * u * u_x - nu * u_xx

    problem = replace(BURGERS, name="own-burgers", residual=residual)
    dataset = replace(made.tiny_dataset(), problem="own-burgers")
    run = made.tiny_train(problem, [dataset], out=tmp_path)[0]
    path = tmp_path / f"{run.key}.json"
    loaded = load_run(path, problem=problem)
    made.assert_same_bits(loaded, run)
    assert_array_equal(loaded.residual(nu=0.02), run.residual(nu=0.02))
    assert load_runs(tmp_path, problem)[0].key == run.key
    with pytest.raises(InputError, match="own-burgers"):
        load_run(path)
    with pytest.raises(InputError, match=r"the problem own-burgers; got burgers"):
        load_run(path, problem=BURGERS)
    stored = made.tiny_train(problem, [dataset], out=tmp_path)[0]
    made.assert_same_bits(stored, run)


def test_the_sidecar_can_be_read_by_people(trained, saved):
    plain = json.loads(saved.read_text())
    run = trained["rba"][0]
    assert plain["delivered"] == run.delivered
    assert plain["settings"]["problem"] == "burgers"
    assert plain["settings"]["method"] == {
        "name": "rba",
        "options": {"decay": 0.999, "increment": 0.001},
    }
    assert plain["settings"]["steps"] == 24
    assert plain["run"]["dataset"] == "tiny0"
    assert plain["run"]["seed"] == 0
    assert plain["status"] == "finished"
    assert saved.read_text().count("\n") > 40


def test_weights_are_plain_safetensors(trained, saved):
    arrays = load_file(saved.with_suffix(".safetensors"))
    run = trained["rba"][0]
    last = len(run.snapshots)
    assert_array_equal(arrays[f"snapshot{last}.weight0"], run.final.layers[0][0])
    assert arrays[f"snapshot{last}.weight0"].dtype == np.float32
    assert_array_equal(arrays["points"], run.points)


def test_several_runs(made, trained, tmp_path):
    runs = [run for name in ("rba", "patch") for run in trained[name]]
    for run in runs:
        save_run(run, tmp_path)
    (tmp_path / "notes.json").write_text('{"format": "something else"}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    loaded = load_runs(tmp_path)
    assert [run.key for run in loaded] == sorted(run.key for run in runs)
    for run in runs:
        (same,) = [other for other in loaded if other.key == run.key]
        made.assert_same_bits(same, run)


def test_a_diverged_run_can_be_stored(made, tmp_path):
    values = made.tiny_dataset().values.copy()
    values[0] = 1e30
    run = made.tiny_train(datasets=[replace(made.tiny_dataset(), values=values)], out=tmp_path)[0]
    loaded = load_run(tmp_path / f"{run.key}.json")
    made.assert_same_bits(loaded, run)
    assert loaded.status.startswith("diverged at step 1")
    assert list(loaded.history) == list(run.history)


# ------------------------------------------------------------------ what is refused


def refused(path, **options):
    with pytest.raises(InputError) as caught:
        load_run(path, **options)
    error = caught.value
    assert error.wanted
    assert error.got
    assert error.fix
    assert str(error).startswith("wanted ")
    return str(error)


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_every_truncation_is_refused(saved, suffix):
    path = saved.with_suffix(suffix)
    content = path.read_bytes()
    for length in sorted({0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 2}):
        path.write_bytes(content[:length])
        refused(saved)


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_every_changed_byte_is_refused(saved, suffix):
    path = saved.with_suffix(suffix)
    content = path.read_bytes()
    generator = np.random.default_rng(0)
    places = generator.choice(len(content), min(300, len(content)), replace=False)
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << int(generator.integers(8))
        if suffix == ".json" and same_json(content, bytes(changed)):
            continue  # only white space differs
        path.write_bytes(bytes(changed))
        refused(saved)
    path.write_bytes(content)
    load_run(saved)


def same_json(left, right):
    try:
        return json.loads(left) == json.loads(right)
    except ValueError:
        return False


def test_numbers_in_the_sidecar_cannot_be_changed(saved):
    text = saved.read_text()
    plain = json.loads(text)
    value = plain["delivered"]["nu"]
    saved.write_text(text.replace(repr(value), repr(value * 1.01)))
    assert "unchanged run" in refused(saved)


def resealed(plain):
    """A forgery: the sidecar with a checksum that fits its new content."""
    plain = {name: value for name, value in plain.items() if name != "sha256"}
    return json.dumps(plain | {"sha256": storage._seal(plain)})


FORGERIES = {
    "no settings": lambda plain: plain.pop("settings"),
    "settings as a list": lambda plain: plain.update(settings=[1, 2]),
    "settings as text": lambda plain: plain.update(settings="all"),
    "no steps": lambda plain: plain["settings"].update(steps=0),
    "steps of infinity": lambda plain: plain["settings"].update(steps=float("inf")),
    "an unknown setting": lambda plain: plain["settings"].update(colour="red"),
    "a method as text": lambda plain: plain["settings"].update(method="rba"),
    "a method without a name": lambda plain: plain["settings"]["method"].pop("name"),
    "a network of text": lambda plain: plain["settings"]["network"].update(width="64"),
    "an unknown problem": lambda plain: plain["settings"].update(problem="navier"),
    "a problem that is a number": lambda plain: plain["settings"].update(problem=4),
    "no run": lambda plain: plain.update(run=None),
    "a negative seed": lambda plain: plain["run"].update(seed=-1),
    "a start that is a list": lambda plain: plain["run"].update(start=[0.02]),
    "a fixed number": lambda plain: plain["run"].update(fixed=3),
    "noise that is text": lambda plain: plain["run"].update(noise_scale="low"),
    "no snapshots": lambda plain: plain.update(snapshots=[]),
    "snapshots that are numbers": lambda plain: plain.update(snapshots=[1, 2]),
    "too many snapshots": lambda plain: plain["snapshots"].append(plain["snapshots"][0]),
    "a step of infinity": lambda plain: plain["snapshots"][0].update(step=float("inf")),
    "delivered as a list": lambda plain: plain["snapshots"][0].update(delivered=[1]),
    "an unknown view": lambda plain: plain["snapshots"][0].update(view={"kind": "../x"}),
    "a view that is a list": lambda plain: plain["snapshots"][0].update(view=[]),
    "history of nothing": lambda plain: plain.update(history=None),
    "an unknown column": lambda plain: plain.update(history=["../../etc/passwd"]),
    "a key that leaves the directory": lambda plain: plain.update(key="../../elsewhere"),
    "no key": lambda plain: plain.pop("key"),
    "arrays that are text": lambda plain: plain.update(arrays="here"),
    "arrays without a checksum": lambda plain: plain["arrays"].pop("sha256"),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_sidecars(saved, forge):
    plain = json.loads(saved.read_text())
    forge(plain)
    saved.write_text(resealed(plain))
    refused(saved)


def test_arrays_are_read_from_beside_the_sidecar_alone(saved, tmp_path):
    """A path in the sidecar is for readers: whatever it says, nothing else is opened."""
    (tmp_path / "sub").mkdir()
    secret = tmp_path / "secret.safetensors"
    shutil.move(saved.with_suffix(".safetensors"), secret)
    plain = json.loads(saved.read_text())
    plain["arrays"] |= {
        "file": "../secret.safetensors",
        "sha256": hashlib.sha256(secret.read_bytes()).hexdigest(),
    }
    inside = tmp_path / "sub" / saved.name
    inside.write_text(resealed(plain))
    assert "arrays cannot be read" in refused(inside)


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]])
def test_another_version(saved, version):
    plain = json.loads(saved.read_text())
    plain["version"] = version
    saved.write_text(resealed(plain))
    message = refused(saved)
    assert "version 1 of the format" in message
    assert "train again" in message


def test_a_run_under_another_name(saved, tmp_path):
    for suffix in (".json", ".safetensors"):
        shutil.copy(saved.with_suffix(suffix), tmp_path / f"other{suffix}")
    assert "other" in refused(tmp_path / "other.json")


def test_files_of_two_runs(trained, tmp_path):
    first, second = (save_run(run, tmp_path) for run in trained["rba"])
    shutil.copy(second.with_suffix(".safetensors"), first.with_suffix(".safetensors"))
    assert "checksum" in refused(first)


STRANGE = {
    "not there": lambda saved: saved.with_name("nothing.json"),
    "a directory": lambda saved: saved.parent,
    "the arrays": lambda saved: saved.with_suffix(".safetensors"),
    "a number": lambda saved: 7,  # noqa: ARG005
    "nothing": lambda saved: None,  # noqa: ARG005
    "a name with a NUL": lambda saved: "a\0b.json",  # noqa: ARG005
}


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_what_is_no_sidecar(saved, make):
    refused(make(saved))


@pytest.mark.parametrize("text", ["", "[]", "null", "[" * 100_000, "\udcff", '{"format": 3}'])
def test_text_that_is_no_sidecar(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    refused(path)


def test_directories_without_runs(tmp_path):
    (tmp_path / "file").write_text("")
    for where in (tmp_path, tmp_path / "nothing", tmp_path / "file", 3, None):
        with pytest.raises(InputError, match=r"directory"):
            load_runs(where)


def test_a_broken_sidecar_is_not_overlooked(saved):
    saved.write_text(saved.read_text()[:100])
    with pytest.raises(InputError, match="unchanged run"):
        load_runs(saved.parent)


def test_a_failed_write_leaves_nothing(trained, tmp_path, monkeypatch):
    def failing(path, write):
        if str(path).endswith(".json"):
            raise OSError("disk full")
        return original(path, write)

    original = storage.write_whole
    monkeypatch.setattr(storage, "write_whole", failing)
    with pytest.raises(OSError, match="disk full"):
        save_run(trained["rba"][0], tmp_path)
    assert not list(tmp_path.glob("*.json"))
    monkeypatch.undo()
    save_run(trained["rba"][0], tmp_path)
    load_run(next(tmp_path.glob("*.json")))


def test_a_run_is_never_half_replaced(made, trained, saved, monkeypatch):
    """Killed between its two files: the old run or none, but none that is called damaged."""
    run = trained["rba"][0]
    longer = replace(run, snapshots=run.snapshots[:1])
    original = storage.write_whole

    def killed(path, write):
        if str(path).endswith(".json"):
            raise KeyboardInterrupt
        return original(path, write)

    monkeypatch.setattr(storage, "write_whole", killed)
    with pytest.raises(KeyboardInterrupt):
        save_run(longer, saved.parent)
    monkeypatch.undo()
    again = made.tiny_train(out=saved.parent)[0]  # stored or not, it is not in the way
    assert again.key == run.key
    load_run(saved)
