"""All adapters take their arguments in the same order, with the same defaults."""

import inspect

import pytest

import twoaxis as ta

ADAPTERS = [name for name in dir(ta) if name.startswith("from_")]
KEYWORDS = ["points", "condition", "transform", "unknowns", "held", "loss_weights", "precision",
            "field", "observed", "loss", "conditions", "axes", "fields", "equations"]  # fmt: skip


def test_every_library_has_one():
    assert ADAPTERS == ["from_deepxde", "from_jax", "from_jinns", "from_pina", "from_torch"]


@pytest.mark.parametrize("name", ADAPTERS)
def test_order_and_defaults(name):
    arguments = inspect.signature(getattr(ta, name)).parameters
    positional = [n for n, p in arguments.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    keywords = [n for n, p in arguments.items() if p.kind is p.KEYWORD_ONLY]
    assert positional[-2:] == ["parameters", "view"]
    assert keywords == [each for each in KEYWORDS if each in keywords]
    assert {"loss_weights", "precision", "field", "observed"} <= set(keywords)
    assert arguments["precision"].default == "float64"
    assert arguments["view"].default is None
