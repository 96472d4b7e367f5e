"""The examples of real data: their routes are right by the rules of ``benchmarks/real_data.py``.

They are trained once, for these rules and for what each prints and writes as a script.
"""

import ast
import importlib.util
import inspect
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATH = ROOT / "benchmarks" / "real_data.py"
QUICK = ("overfitted network", "Michaelis-Menten", "heat, noise unknown", "wrong simulator")
LONG = (
    "SIR, trained well",
    "SIR, data hardly weighted",
    "SIR, wrong unit of time",
    "Lotka-Volterra",
    "reaction chain, amount unknown",
    "FitzHugh-Nagumo, one field hidden",
    "conductivity k(x)",
    "stopped early, history",
    "stopped early, loss",
    "hardly trained",
)
EXAMPLES = sorted(p.stem for p in ROOT.glob("examples/real_data/*.py") if p.stem != "common")


@pytest.fixture(scope="module")
def benchmark():
    torch = pytest.importorskip("torch")
    kept = torch.get_default_dtype(), torch.get_num_threads(), list(sys.path)
    spec = importlib.util.spec_from_file_location("real_data", PATH)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # the examples compute in double precision, on one thread
    for example in map(importlib.import_module, EXAMPLES):
        example.audit = cache(example.audit)
    yield module
    torch.set_default_dtype(kept[0])
    torch.set_num_threads(kept[1])
    sys.path[:] = kept[2]


def test_every_case_is_tested(benchmark):
    assert {case.name for case in benchmark.CASES} == {*QUICK, *LONG}


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(n, marks=pytest.mark.long) for n in LONG)])
def test_the_route_is_right(benchmark, name):
    (case,) = [case for case in benchmark.CASES if case.name == name]
    found = benchmark.judged(case)
    assert found.audit.route in case.right
    assert found.right


def in_one_line(text):
    return " ".join(text.split())


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
def test_as_a_script_it_prints_its_answer_and_writes_its_page(
    benchmark, name, tmp_path, monkeypatch, capsys
):
    example = sys.modules[name]
    shown = [c for c in benchmark.CASES if c.module == name and c.name != "hardly trained"]
    monkeypatch.chdir(tmp_path)
    as_a_script = ast.parse(inspect.getsource(example)).body[-1]  # if __name__ == "__main__":
    exec(compile(ast.Module(as_a_script.body, []), example.__file__, "exec"), vars(example))
    printed = in_one_line(capsys.readouterr().out)
    assert all(in_one_line(example.audit(**c.arguments).answer) in printed for c in shown)
    assert len(list(tmp_path.glob(f"{name}*.html"))) == len(shown) > 0


def test_green_over_a_value_that_the_data_refute_is_wrong(benchmark):
    (case,) = [case for case in benchmark.CASES if case.name == "SIR, wrong unit of time"]
    found = benchmark.judged(case)
    assert [row.fine for row in found.rows] == [False, False]
    assert all(row.holds for row in found.rows)
