"""Masked entries are refused at every door: `numpy.asarray` would use what they hide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.errors import InputError, refuse_masked
from twoaxis.remedies.pipeline import read_answer
from twoaxis.statistics import pearson

T = np.linspace(0.0, 1.0, 30)
RATE = {"k": ta.Parameter(truth=2.0, delivered=2.2, bounds=(0.5, 8.0))}
DATA = np.exp(-2.0 * T) + 0.01 * np.cos(40 * T)


def forward(k):
    return np.exp(-k * T)


def pipeline(values, seed):
    return float(2.0 - values.mean()) + 1e-9 * seed


def masked(values, count=2):
    """The same values with the first ones masked."""
    array = np.ma.array(values, copy=True)
    mask = np.zeros(array.shape, dtype=bool)
    mask.flat[:count] = True
    array.mask = mask
    return array


def resolved(**options):
    given = {"noise": 0.01, "replicas": 3, "bank": 41, "validate": 1, "progress": False} | options
    return ta.resolve(forward, RATE, **given)


def frozen(**options):
    given = {"points": T, "view": ta.views.Pointwise()} | options
    residual = given.pop("residual", lambda k: k * T - 2.1 * T)
    return ta.FrozenResidual(residual, RATE, **given)


def dataset(**changes):
    return replace(ta.published_dataset("burgers", 8), **changes)


def remedy(function, **options):
    given = {"noise": 0.01, "candidates": 5, "replicas": 19, "progress": False} | options
    return function(pipeline, forward, RATE, **given)


PLAIN = ta.published_dataset("burgers", 8)
DOORS = {
    "resolve data": lambda f: resolved(data=f(DATA)),
    "resolve data by layout": lambda f: resolved(layouts={"a": np.arange(30)}, data={"a": f(DATA)}),
    "resolve noise": lambda f: resolved(noise=f(np.full(30, 0.01))),
    "resolve layouts": lambda f: resolved(layouts={"a": f(np.arange(30))}),
    "resolve points": lambda f: resolved(data=DATA, points=f(T[:, None])),
    "audit data": lambda f: ta.audit(frozen(), resolution=resolved(), data=f(DATA)),
    "residual points": lambda f: frozen(points=f(T)),
    "residual points in a list": lambda f: frozen(points=[f(T[:, None]), T[:, None]]),
    "residual values": lambda f: ta.score(frozen(residual=lambda k: f(k * T - 2.1 * T))),
    "residual field": lambda f: frozen(field=f(T)),
    "weights of a view": lambda f: ta.views.Weighted(loss_weights=f(np.ones(30))),
    "matrix of a view": lambda f: ta.views.Dense(f(np.eye(30))),
    "weights of blocks": lambda f: ta.views.Blocks(
        [ta.views.Pointwise()] * 2, weights=f(np.ones(2))
    ),
    "points of a view": lambda f: ta.views.Pointwise().bind(f(T)),
    "dataset values": lambda f: dataset(values=f(PLAIN.values)),
    "dataset coordinates": lambda f: dataset(coordinates=f(PLAIN.coordinates)),
    "suggest_sites noise": lambda f: ta.suggest_sites(
        forward, RATE, f(np.full(30, 0.01)), count=2, progress=False
    ),
    "suggest_sites present": lambda f: ta.suggest_sites(
        forward, RATE, 0.01, count=2, present=f(np.arange(3)), progress=False
    ),
    "suggest_sites forbidden": lambda f: ta.suggest_sites(
        forward, RATE, 0.01, count=2, forbidden=f(T < 0.1), progress=False
    ),
    "suggest_sites forbidden function": lambda f: ta.suggest_sites(
        forward, RATE, 0.01, count=2, forbidden=lambda x: f(x[:, 0] < 3), progress=False
    ),
    "confidence_set data": lambda f: remedy(ta.confidence_set, data=f(DATA)),
    "confidence_set layout": lambda f: remedy(
        ta.confidence_set, data=DATA, layout=f(np.arange(30))
    ),
    "calibrate candidates": lambda f: remedy(ta.calibrate, candidates=f(np.linspace(1.0, 3.0, 6))),
    "calibrate noise": lambda f: remedy(ta.calibrate, noise=f(np.full(30, 0.01))),
    "simulated_audit noise": lambda f: ta.simulated_audit(
        lambda values, seed: frozen_for(values),  # noqa: ARG005
        forward,
        RATE,
        f(np.full(30, 0.01)),
        replicas=3,
        progress=False,
    ),
    "statistics": lambda f: pearson(f(T), DATA),
}


def frozen_for(values):
    best = float(2.0 - values.mean())
    known = {"k": replace(RATE["k"], delivered=best)}
    return ta.FrozenResidual(lambda k: (k - best) * (1 + T), known, T, view=ta.views.Pointwise())


@pytest.mark.parametrize("door", DOORS)
def test_masked_entries_are_refused(door):
    with pytest.raises(InputError, match="without masked values, got 2 masked entries"):
        DOORS[door](masked)


@pytest.mark.parametrize("door", DOORS)
def test_a_masked_array_without_masked_entries_is_a_plain_array(door):
    DOORS[door](lambda values: np.ma.array(values, mask=np.zeros(np.shape(values), dtype=bool)))


def test_what_is_masked_in_a_list_counts():
    with pytest.raises(InputError, match="1 masked entry"):
        refuse_masked("data", [1.0, np.ma.masked])
    refuse_masked("data", [1.0, 2.0])


def test_a_masked_answer_of_a_pipeline_is_a_failure():
    assert read_answer(np.ma.masked_all(()), RATE).failure
