"""What a long call says of its cost before it begins."""

import importlib
import re

import numpy as np
import pytest

import twoaxis as ta

module = importlib.import_module("twoaxis.resolution.resolve")
TIMES = np.linspace(0, 10, 40)


def waves(**values):
    first, *others = values.values()
    total = first * np.exp(-0.3 * TIMES)
    for k, size in enumerate(others, 1):
        total = total + size * np.cos(0.7 * k * TIMES) * np.exp(-0.1 * TIMES * k * size)
    return total


def resolved(count, **options):
    unknown = {f"p{k}": ta.Parameter(bounds=(0.2, 5.0), delivered=1.0) for k in range(count)}
    return ta.resolve(waves, unknown, 0.1, replicas=20, **options)


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize(
    ("count", "method"),
    [(1, "bank"), (1, "direct"), (2, "direct"), (3, "direct"), (2, "auto"), (3, "auto"),
     (3, "linear")],
)  # fmt: skip
def test_a_long_call_says_how_many_model_runs_it_takes(
    capsys, monkeypatch, count, method, observed
):
    monkeypatch.setattr(module, "LONG", 0.0)
    noise = 0.1 * np.random.default_rng(0).standard_normal(len(TIMES))
    data = waves(**dict.fromkeys("abc"[:count], 1.1)) + noise if observed else None
    found = resolved(count, method=method, data=data)
    (line,) = [o for o in capsys.readouterr().err.splitlines() if o.startswith("twoaxis.resolve")]
    first, *worst = re.findall(r"(?:^twoaxis.resolve: about|and up to) ([\d,]+)", line)
    likely = int(first.replace(",", ""))
    most = int(worst[0].replace(",", "")) if worst else likely
    assert likely / 3 < found.data.attrs["model_runs"] < 3 * most
    assert ('method="linear"' in line) == (method in ("direct", "auto", "bank"))


def test_a_short_or_silent_call_says_nothing_of_its_cost(capsys, monkeypatch):
    resolved(1)
    monkeypatch.setattr(module, "LONG", 0.0)
    resolved(1, progress=False)
    assert not capsys.readouterr().err
