"""Prove that the diagnosis works where the heavy libraries are not installed."""

import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np

import twoaxis as ta

HEAVY = ("jax", "torch", "dask", "distributed", "deepxde", "pina", "jinns", "safetensors")

present = [name for name in HEAVY if importlib.util.find_spec(name) is not None]
if present:
    sys.exit(f"the core's environment holds {present}: the proof would be worth nothing")

t = np.linspace(0, 1, 40)
resolution = ta.resolve(
    forward=lambda rate: np.exp(-rate * t),
    parameters={"rate": ta.Parameter(truth=2.0, bounds=(0.5, 8.0))},
    noise=0.05,
    replicas=50,
    seed=0,
)
built_in = ta.resolve("allen-cahn", layouts=[8], replicas=20)
assert abs(float(built_in.fisher_error_percent[0]) - 2.350) < 5e-4

u = np.exp(-2.2 * t)
audit = ta.audit(
    lambda rate: -2.2 * u + rate * u,
    {"rate": ta.Parameter(truth=2.0, delivered=2.19, bounds=(0.5, 8.0))},
    ta.views.Pointwise(),
    points=t,
    resolution=resolution,
    data=np.exp(-2.0 * t),
    tolerance=ta.Tolerance(material=5.0, resolution=10.0, preference=5.0),
)
print(audit)
assert audit.route is ta.Route.STRENGTHEN_RESIDUAL_EVIDENCE, audit.route
with tempfile.TemporaryDirectory() as folder:
    page = audit.to_html(Path(folder) / "audit.html")
    assert "<svg" in page.read_text()
    audit.save(Path(folder) / "audit.nc")
    assert str(ta.load(Path(folder) / "audit.nc")) == str(audit)

data = ta.published_dataset("burgers", 8)
for engine in (
    lambda: ta.train("burgers"),
    lambda: ta.refine("burgers", data),
    lambda: ta.remedy(audit, run="burgers"),
):
    try:
        engine()
    except ta.InputError as error:
        if "twoaxis[train]" not in str(error):
            raise
    else:
        sys.exit("the engine ran without JAX")
