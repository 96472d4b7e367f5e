"""Prove that axis 1 works where the heavy libraries are not installed."""

import importlib.util
import sys

import numpy as np

import twoaxis as ta

HEAVY = ("jax", "torch", "dask", "distributed", "deepxde", "pina", "jinns")

present = [name for name in HEAVY if importlib.util.find_spec(name) is not None]
if present:
    sys.exit(f"the core's environment holds {present}: the proof would be worth nothing")

t = np.linspace(0, 1, 40)
own = ta.resolve(
    forward=lambda rate: np.exp(-rate * t),
    parameters={"rate": ta.Parameter(truth=2.0, bounds=(0.5, 8.0))},
    noise=0.05,
    replicas=50,
    seed=0,
)
built_in = ta.resolve_problem("allen-cahn", layouts=[8], replicas=20)
print(own)
print(built_in)
assert abs(float(built_in.fisher_error_percent[0]) - 2.350) < 5e-4
