"""Training of runs that are stored without the snapshots that are asked for."""

import pytest

import twoaxis as ta
from twoaxis.errors import InputError
from twoaxis.training import Network


def asked_for(store, makers, **options):
    spec = makers.spec_of(1)
    return ta.train(
        "burgers",
        store=store.directory,
        datasets=spec.dataset,
        seeds=spec.seed,
        start=spec.start,
        steps=10,
        network=Network(4, 1),
        residual_points=makers.POINTS,
        engine="in-process",
        progress=False,
        **options,
    )


def test_what_is_stored_is_found(store, makers):
    found = asked_for(store, makers)
    assert found.keys == (makers.run_of(1).key,)
    assert found.data["trained"].values.tolist() == [True]
    assert found.work["attempts"].tolist() == [0]


def test_missing_snapshots_are_refused_and_nothing_is_changed(store, makers):
    before = makers.tree(store.directory)
    with pytest.raises(InputError, match=r"snapshots at the steps 5, got .*stored without them"):
        asked_for(store, makers, snapshots=[5])
    after = makers.tree(store.directory)
    assert {name: known for name, known in after.items() if known[2] is not None} == {
        name: known for name, known in before.items() if known[2] is not None
    }
