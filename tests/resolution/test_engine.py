"""Model runs on an engine: the same result, elsewhere."""

import importlib
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.forward import ForwardModel

T = np.linspace(0, 3, 30)
UNKNOWN = {
    "a": ta.Parameter(truth=1.0, bounds=(0.1, 10.0)),
    "k": ta.Parameter(truth=0.7, bounds=(0.05, 7.0)),
}


DATA = 1.1 * np.exp(-0.6 * T) + 0.05 * np.random.default_rng(8).standard_normal(30)

# Workers import the model: it stands in a module of its own.
MODEL = """
import os
import numpy as np

T = np.linspace(0, 3, 30)

def decay(a, k):
    if k > 6:
        raise ValueError("too fast")
    return a * np.exp(-k * T)

def process_number(a, k):
    return np.array([a, k, os.getpid()])
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "slow_decay.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("slow_decay")


@pytest.fixture(scope="module")
def processes(model):  # noqa: ARG001  (the workers inherit its folder)
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        yield pool


def resolved(forward, **options):
    options = {"replicas": 20, "seed": 2, "data": DATA, "progress": False, **options}
    return ta.resolve(forward, UNKNOWN, 0.05, **options)


@pytest.mark.parametrize("method", ["interpolant", "direct"])
def test_processes_change_nothing(model, processes, method):
    plain = resolved(model.decay, method=method)
    spread = resolved(model.decay, method=method, engine=processes)
    assert spread.data.identical(plain.data)
    assert [m.code for m in spread.messages] == [m.code for m in plain.messages]
    assert "too fast" in spread.messages[0].text  # failures are told as well


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ThreadPool])
def test_anything_with_a_map_is_an_engine(model, kind):
    with kind(2) as engine:
        found = resolved(model.decay, engine=engine)
    assert found.data.identical(resolved(model.decay).data)


def test_a_vectorized_model_is_sent_in_batches():
    sizes = []

    def batched(a, k):
        sizes.append(len(a))
        return a[:, None] * np.exp(-k[:, None] * T)

    with ThreadPoolExecutor(2) as engine:
        found = resolved(batched, vectorized=True, engine=engine, method="direct")
    assert max(sizes) > 10
    assert found.data.identical(resolved(batched, vectorized=True, method="direct").data)


def test_the_model_runs_in_the_workers(model, processes):
    asked = ForwardModel(model.process_number, UNKNOWN, {"a": 1.0, "k": 0.7}, engine=processes)
    points = np.log(np.column_stack([np.ones(6), np.linspace(0.5, 1.0, 6)]))
    found = asked(points).values
    np.testing.assert_array_equal(found[:, :2], np.exp(points))
    assert os.getpid() not in found[:, 2]
    assert asked.center_values[2] == os.getpid()


def test_what_cannot_be_sent_is_named(processes):
    with pytest.raises(ta.InputError, match=r"engine that can run forward.*top level"):
        resolved(lambda a, k: a * np.exp(-k * T), engine=processes)


@pytest.mark.parametrize("engine", ["local", 4])
def test_an_engine_has_a_map(engine):
    with pytest.raises(ta.InputError, match=r"map method.*ProcessPoolExecutor"):
        resolved(lambda a, k: a * np.exp(-k * T), engine=engine)


@pytest.mark.parametrize("change", [lambda found: found[:-1], lambda found: found + found[:1]])
def test_an_engine_returns_one_result_for_each_run(model, change):
    class Careless:
        def map(self, function, items):
            return change([function(item) for item in items])

    with pytest.raises(ta.InputError, match="one result for each") as error:
        resolved(model.decay, engine=Careless())
    assert "leaving engine out runs here" in error.value.fix
    assert np.isfinite(resolved(model.decay).data["estimate"]).all()
