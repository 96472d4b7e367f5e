"""Run the Python snippets of README.md and docs/ as tests, each page in a namespace of its own."""

from __future__ import annotations

import os
from pathlib import Path

# Tests run in one process a core. Threads of their linear algebra would wait for each other, and
# must be told before NumPy and PyTorch are imported.
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1") | os.environ

import matplotlib
import numpy as np
import pytest
import torch
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser
from sybil.sybil import SybilCollection

matplotlib.use("Agg")


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
    namespace["net"], namespace["pde"] = trained_elsewhere()
    namespace["u_xx"] = decay * (-(np.pi**2) * sine * (1 + x / 3) + 2 * np.pi * cosine / 3)


def trained_elsewhere() -> tuple[object, object]:
    """Return a PyTorch network and the residual of Burgers' equation, as a reader would have."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def pde(model, xt, nu):
        u = model(xt)
        (slope,) = torch.autograd.grad(u.sum(), xt, create_graph=True)
        (bend,) = torch.autograd.grad(slope[:, 0].sum(), xt, create_graph=True)
        return slope[:, 1] + u[:, 0] * slope[:, 0] - nu * bend[:, 0]

    return net, pde


def pages(patterns: list[str], setup=None) -> Sybil:
    parsers = [PythonCodeBlockParser(), SkipParser()]
    return Sybil(parsers=parsers, patterns=patterns, setup=setup, fixtures=["scratch_folder"])


pytest_collect_file = SybilCollection(
    [pages(["README.md"], readers_own), pages(["docs/*.md", "docs/**/*.md"])]
).pytest()


# Minutes in one fixture. Files go to processes whole, in this order: a long one that came last
# would leave the other cores idle.
LONGEST = "tests/studies/test_smoke.py"


def pytest_configure(config):
    config.option.loadscopereorder = False  # of pytest-xdist: keep the order of the tests


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST not in item.nodeid)


@pytest.fixture(scope="module")
def scratch_folder(tmp_path_factory):
    """Files that a page writes go to a folder of its own."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("page"))
    yield
    os.chdir(before)
