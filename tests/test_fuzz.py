"""Nothing that is loaded runs code, and damaged files end in a clean error."""

import ast
import importlib
import os
import shutil
from pathlib import Path
from random import Random

import h5py
import numpy as np
import pytest

import twoaxis as ta
from twoaxis.files import read_text

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(ta.__file__).parent
FORBIDDEN = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory):
    """The cases of ``benchmarks/fuzz.py`` and undamaged files of every kind."""
    pytest.importorskip("jax")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        kinds = importlib.import_module("fuzz_kinds")
    home = tmp_path_factory.mktemp("fuzz")
    kinds.make_all(home / "made")
    return kinds, home


KINDS = (
    *("run", "checkpoint", "audit", "resolution", "residual", "set", "simulated", "table"),
    *("record", "score", "scan", "spectrum", "delivery", "map", "comparison", "snapshots"),
    *("sites", "curve", "calibration"),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [5, pytest.param(60, marks=pytest.mark.long)])
def test_damaged_files_end_well(fuzz, kind, count):
    kinds, home = fuzz
    known, made = kinds.KINDS[kind], home / "made" / kind
    original = known.read(made)
    outcomes = []
    for number in range(count):
        place = home / f"{kind}-{count}-{number}"
        shutil.copytree(made, place)
        random = Random(f"3/{kind}/{number}")
        outcomes.append(kinds.outcome_of(known, random, place, original))
    assert [text for outcome, text in outcomes if outcome == "finding"] == []
    assert ("refused", "") in outcomes
    assert set(KINDS) == set(kinds.KINDS)


def uses(path):
    """What a module has that could run the content of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.partition(".")[0] in FORBIDDEN)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in FORBIDDEN:
                yield node.module
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec", "compile"):
                yield node.func.id
            if any(keyword.arg == "allow_pickle" for keyword in node.keywords):
                yield "allow_pickle"


def test_nothing_here_unpickles_or_evaluates():
    modules = sorted(SOURCE.rglob("*.py"))
    assert len(modules) > 100
    found = {str(path.relative_to(SOURCE)): sorted(set(uses(path))) for path in modules}
    assert {name: own for name, own in found.items() if own} == {}


def test_the_check_of_modules_finds_what_it_looks_for(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("import pickle\nfrom dill import load\neval('1')\nf(allow_pickle=True)\n")
    assert sorted(uses(path)) == ["allow_pickle", "dill", "eval", "pickle"]


# ------------------------------------------------------------------ results that were changed

POINTS = np.linspace(0.0, 1.0, 12)
RATE = {"k": ta.Parameter(truth=1.0, delivered=1.1, bounds=(0.5, 2.0))}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A saved audit, its score and its resolution."""
    home = tmp_path_factory.mktemp("originals")
    frozen = ta.FrozenResidual(
        lambda k: np.exp(-k * POINTS) - 0.4, RATE, POINTS, view=ta.views.Pointwise()
    )
    found = ta.resolve(lambda k: np.exp(-k * POINTS), RATE, 0.01, replicas=3, progress=False)
    tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
    frozen.save(home / "residual.nc")
    found.save(home / "resolution.nc")
    ta.score(frozen).save(home / "score.nc")
    audit = ta.audit(frozen, resolution=found, tolerance=tolerance, spectrum=True)
    audit.save(home / "audit.nc")
    return home


@pytest.fixture
def changed(originals, tmp_path):
    """``changed(kind, change)``: load a copy to which this was done."""

    def load(kind, change):
        path = tmp_path / "copy.nc"
        path.write_bytes((originals / f"{kind}.nc").read_bytes())
        with h5py.File(path, "r+") as file:
            change(file)
        return ta.load(path)

    return load


@pytest.mark.parametrize("kind", ["audit", "resolution", "score"])
def test_an_unchanged_copy_is_the_same(changed, originals, kind):
    assert repr(changed(kind, lambda file: None)) == repr(ta.load(originals / f"{kind}.nc"))  # noqa: ARG005


def scaled(name, factor, shift=0):
    """Multiply the values of a variable; NaN counts as zero where something is added."""

    def change(file):
        values = file[name][...]
        file[name][...] = (np.nan_to_num(values) if shift else values) * factor + shift

    return change


def attribute(name, value):
    def change(file):
        file.attrs[name] = value

    return change


CONTRADICTIONS = {
    "displacement": ("score", scaled("displacement", 2.0)),
    "strength": ("score", scaled("H", -1.0)),
    "parameter": ("score", scaled("upper_bound", np.nan)),
    "node of no function": ("score", scaled("function_node", 0.0, 1.0)),
    "noise": ("resolution", scaled("noise_deviation", -1.0)),
    "deviance": ("resolution", scaled("deviance", np.inf)),
    "end of a set": ("resolution", scaled("set_upper", 1e-3)),
    "site": ("resolution", scaled("site", 0)),
    "level of an audit": ("audit", scaled("level", -1.0)),
    "profile of an audit": ("audit", scaled("scan/profile", 0.0)),
    "bounds of a spectrum": ("audit", scaled("spectrum/upper_bound", 1.1)),
    "strength of a spectrum": ("audit", scaled("spectrum/strength", 2.0)),
    "score of a spectrum": ("audit", scaled("spectrum/signed_total", 2.0)),
    "deviation": ("resolution", scaled("deviation_percent", 0.5)),
    "displacement of an audit": ("audit", scaled("score/displacement", 2.0)),
    "route of an audit": ("audit", attribute("route", "improve observations")),
    "center": ("resolution", attribute("centered_on", "elsewhere")),
    "schema": ("score", attribute("schema", "twoaxis.score/99")),
    "class": ("score", attribute("schema", "twoaxis.resolution/1")),
}


@pytest.mark.parametrize(("kind", "change"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_result_that_contradicts_itself_is_refused(changed, kind, change):
    with pytest.raises(ta.InputError):
        changed(kind, change)


# ------------------------------------------------------------------ texts


def test_a_text_is_read_within_its_bound(tmp_path):
    path = tmp_path / "text"
    path.write_text("é" * 10, encoding="utf-8")
    assert read_text(path, 20) == "é" * 10
    with pytest.raises(ValueError, match="larger than 19 bytes"):
        read_text(path, 19)
    os.truncate(path, 2**40)  # a terabyte of nothing
    with pytest.raises(ValueError, match="larger"):
        read_text(path, 1000)


def test_a_pipe_is_no_text(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a regular file"):
        read_text(tmp_path / "pipe", 10)
