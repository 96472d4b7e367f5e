"""How the test suite is split, what it needs, and the pages whose Python snippets are tests.

``pytest`` covers every capability once, in minutes. ``pytest --all`` adds the tests marked
``long``; ``pytest --only-long`` runs those alone. Tests of a library that is not installed are
skipped, unless the environment variable ``TWOAXIS_REQUIRE_ALL`` is set, as it is in CI. There the
tests of the core pass where the other libraries are not installed (``--passed-to FILE``), and need
not run again where they are (``--not-again FILE``).
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# One process per core runs tests. Threads of their linear algebra would wait for each other, and
# the libraries read this when they are first imported.
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1") | os.environ

import hypothesis
import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

ROOT = Path(__file__).parent
# What is trained in tests takes milliseconds; compiling it as well as for use takes seconds.
COMPILED_QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)

# Libraries beyond the core, by the module that is imported.
LIBRARIES = [
    "jax",
    "optax",
    "safetensors",
    "torch",
    "deepxde",
    "pina",
    "jinns",
    "equinox",
    "flax",
    "distributed",
    "playwright",
    "sybil",
]
# What needs them as a whole. Tests of the core that need one for a single case import it there,
# with pytest.importorskip.
NEEDS = {
    "README.md": ("jax", "torch"),
    "docs": ("jax", "torch", "distributed"),
    "src/twoaxis/adapters": ("jax", "torch", "deepxde", "pina", "jinns"),
    "src/twoaxis/remedies/refine": ("torch",),
    "src/twoaxis/runs": ("jax", "distributed"),
    "src/twoaxis/studies": ("jax",),
    "src/twoaxis/training": ("jax",),
    "tests/adapters": ("jax", "torch", "deepxde", "pina", "jinns", "equinox", "flax"),
    "tests/runs": ("jax", "distributed"),
    "tests/studies": ("jax",),
    "tests/training": ("jax",),
}
# Pages whose snippets train or simulate at length what quicker tests cover.
LONG_PAGES = (
    "docs/concepts/delivery.md",
    "docs/howto/add-a-method.md",
    "docs/howto/add-a-problem.md",
    "docs/howto/confidence-set.md",
    "docs/howto/follow-a-training.md",
    "docs/howto/improve-observations.md",
    "docs/howto/inspect-delivery.md",
    "docs/howto/keep-runs.md",
    "docs/howto/train-many.md",
    "docs/reproduction.md",
    "docs/results.md",
    "docs/start/no-solver.md",
    "docs/start/no-truth.md",
    "docs/start/trained-elsewhere.md",
    "docs/tutorial-audit.md",
)
# Files are handed out whole, in this order: a slow one that came last would leave cores idle.
FIRST = (
    *("tests/studies/test_smoke.py", "tests/test_real_data.py", "tests/remedies", "tests/studies"),
    *("tests/runs", "tests/training", "tests/cli", "README.md", "docs"),
)


# ---------------------------------------------------------------- which tests run


def pytest_addoption(parser):
    group = parser.getgroup("twoaxis")
    group.addoption("--all", action="store_true", help="run the tests marked 'long', too")
    group.addoption("--only-long", action="store_true", help="run only the tests marked 'long'")
    group.addoption("--passed-to", type=Path, metavar="FILE", help="list the passed tests there")
    group.addoption("--not-again", type=Path, metavar="FILE", help="leave out those listed there")


def pytest_configure(config):
    gc.disable()  # while libraries are imported
    config.option.loadscopereorder = False  # of pytest-xdist: keep the order of the tests
    compile_quickly_and_once(config)
    missing = [name for name in LIBRARIES if not _installed(name)]
    if missing and os.environ.get("TWOAXIS_REQUIRE_ALL"):
        raise pytest.UsageError(
            f"expected every library of the extra 'test' (TWOAXIS_REQUIRE_ALL is set), got none of "
            f"{', '.join(missing)}; fix: pip install -e '.[test]'"
        )
    thorough = config.option.all or config.option.only_long
    # Times are measured in benchmarks/, never asserted in a test: hence no deadline.
    hypothesis.settings.register_profile(
        "twoaxis", max_examples=100 if thorough else 25, deadline=None
    )
    hypothesis.settings.load_profile("twoaxis")


def pytest_report_header(config):
    lines = []
    if not (config.option.all or config.option.only_long):
        lines.append("long tests: left out (--all adds them)")
    missing = [name for name in LIBRARIES if not _installed(name)]
    if missing:
        lines.append(f"not installed, their tests are skipped: {', '.join(missing)}")
    return lines


def pytest_collection_modifyitems(config, items):
    for item in items:
        if _place(item.path) in LONG_PAGES:
            item.add_marker(pytest.mark.long)
    if config.option.not_again is not None:
        passed = set(json.loads(config.option.not_again.read_text("utf-8")))
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid in passed])
        items[:] = [i for i in items if i.nodeid not in passed]
    if not config.option.all:
        wanted = config.option.only_long
        chosen = [i for i in items if (i.get_closest_marker("long") is not None) == wanted]
        left_out = [i for i in items if (i.get_closest_marker("long") is not None) != wanted]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
        items[:] = chosen
        config.stash[LEFT_OUT] = len(left_out)
        if hasattr(config, "workeroutput"):  # in a process of pytest-xdist
            config.workeroutput["left_out"] = len(left_out)
    items.sort(key=_turn)


def pytest_collection_finish():
    """Let garbage collection begin, and pass over the libraries, which stay until the end."""
    gc.freeze()
    gc.enable()


def compile_quickly_and_once(config):
    """Tell JAX, here and in all processes that start later, how programs are compiled in tests.

    What the environment says already is left as it is: ``XLA_FLAGS= pytest`` compiles as for use.
    """
    if not _installed("jax"):
        return
    if "XLA_FLAGS" not in os.environ:
        os.environ["XLA_FLAGS"] = quick_compilation()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        programs = config.stash[PROGRAMS] = tempfile.mkdtemp(prefix="twoaxis-programs-")
        os.environ |= {
            "JAX_COMPILATION_CACHE_DIR": programs,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        }


def quick_compilation():
    """Return what ``XLA_FLAGS`` must be for quick compilation; nothing if JAX does not know it."""
    # A compiler that does not know one of the flags ends its process.
    known = subprocess.run(
        [sys.executable, "-c", "from jaxlib import xla_client; xla_client.make_cpu_client()"],
        env=os.environ | {"XLA_FLAGS": COMPILED_QUICKLY},
        capture_output=True,
        check=False,
    )
    return COMPILED_QUICKLY if known.returncode == 0 else ""


def pytest_unconfigure(config):
    if PROGRAMS in config.stash:
        shutil.rmtree(config.stash[PROGRAMS], ignore_errors=True)


def pytest_sessionfinish(session):
    config = session.config
    if config.option.passed_to is not None and not hasattr(config, "workerinput"):
        stats = config.pluginmanager.get_plugin("terminalreporter").stats
        failed = {report.nodeid for kind in ("failed", "error") for report in stats.get(kind, [])}
        passed = {report.nodeid for report in stats.get("passed", [])} - failed
        config.option.passed_to.write_text(json.dumps(sorted(passed)), "utf-8")


LEFT_OUT = pytest.StashKey[int]()
PROGRAMS = pytest.StashKey[str]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter, config):
    count = config.stash.get(LEFT_OUT, 0)
    if count:
        kind = "others" if config.option.only_long else "long tests"
        terminalreporter.write_line(f"{count} {kind} left out: pytest --all runs everything")


def _turn(item):
    place = _place(item.path)
    return next((n for n, start in enumerate(FIRST) if place.startswith(start)), len(FIRST))


def _place(path):
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


# ---------------------------------------------------------------- libraries that may be absent


def _installed(name):
    return importlib.util.find_spec(name) is not None


class Absent(pytest.Collector):
    """Tests that are skipped as a whole, and the reason."""

    def collect(self):
        pytest.skip(self.reason, allow_module_level=True)


def _absent(path, parent):
    missing = [name for name in NEEDS.get(_place(path), ()) if not _installed(name)]
    if not missing:
        return None
    node = Absent.from_parent(parent, name=path.name)
    node.reason = f"{', '.join(missing)} not installed: pip install -e '.[test]'"
    return node


def pytest_collect_directory(path, parent):
    return _absent(path, parent)


# ---------------------------------------------------------------- pages whose snippets are tests


def readers_own(namespace: dict[str, object]) -> None:
    """Supply what the README calls the reader's own: a simulator, layouts, data, a field."""
    times, places = np.linspace(0, 1, 50)[:, None], np.linspace(0, 1, 40)
    generator = np.random.default_rng(0)
    namespace["simulate"] = lambda nu: np.exp(-100 * nu * times) * np.sin(np.pi * places)
    namespace["sites_8"] = generator.choice(2000, 100, replace=False)
    namespace["sites_9"] = generator.choice(2000, 100, replace=False)
    namespace["y"] = namespace["simulate"](0.01) + 0.18 * generator.standard_normal((50, 40))
    # A field and its derivatives at random points: u = exp(-t) sin(pi x) (1 + x / 3).
    xt = generator.uniform([-1, 0], [1, 1], (1500, 2))
    x, decay = xt[:, 0], np.exp(-xt[:, 1])
    sine, cosine = np.sin(np.pi * x), np.cos(np.pi * x)
    namespace["xt"] = xt
    namespace["u"] = decay * sine * (1 + x / 3)
    namespace["u_t"] = -namespace["u"]
    namespace["u_x"] = decay * (np.pi * cosine * (1 + x / 3) + sine / 3)
    namespace["u_xx"] = decay * (-(np.pi**2) * sine * (1 + x / 3) + 2 * np.pi * cosine / 3)
    namespace["net"], namespace["pde"] = trained_elsewhere()


def trained_elsewhere() -> tuple[object, object]:
    """Return a PyTorch network and the residual of Burgers' equation, as a reader would have."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def pde(model, xt, nu):
        u = model(xt)
        (slope,) = torch.autograd.grad(u.sum(), xt, create_graph=True)
        (bend,) = torch.autograd.grad(slope[:, 0].sum(), xt, create_graph=True)
        return slope[:, 1] + u[:, 0] * slope[:, 0] - nu * bend[:, 0]

    return net, pde


def _snippets():
    """Return a hook that collects the Python blocks of README.md and docs/, page by page."""
    if not _installed("sybil"):
        return lambda file_path, parent: None  # noqa: ARG005
    from sybil import Sybil
    from sybil.parsers.myst import PythonCodeBlockParser, SkipParser
    from sybil.sybil import SybilCollection

    def pages(patterns, setup=None):
        parsers = [PythonCodeBlockParser(), SkipParser()]
        return Sybil(parsers=parsers, patterns=patterns, setup=setup, fixtures=["scratch_folder"])

    return SybilCollection(
        [pages(["README.md"], readers_own), pages(["docs/*.md", "docs/**/*.md"])]
    ).pytest()


_collect_page = _snippets()


def pytest_collect_file(file_path, parent):
    return _absent(file_path, parent) or _collect_page(file_path, parent)


@pytest.fixture(scope="module")
def scratch_folder(tmp_path_factory):
    """Files that a page writes go to a directory of its own, and its precision ends with it."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("page"))
    yield
    os.chdir(before)
    if "torch" in sys.modules:
        sys.modules["torch"].set_default_dtype(sys.modules["torch"].float32)
