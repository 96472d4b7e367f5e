"""Refinements that cannot succeed: a clear result or an error, never a NaN."""

from dataclasses import replace

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.gauss_newton import Continuation

FEW = Continuation(first=10, free=100, plateau=1e3, last=1e3, steps=1, free_steps=2, more=1)


def refined(frozen, data=None, **options):
    """Refine in a few steps, and check that all that is reported is finite."""
    found = ta.refine(frozen, data, continuation=FEW, progress=False, **options)
    for name in ("value", "covariance", "sensitivity", "fitted", "misfit", "residual"):
        assert np.isfinite(found.data[name].values).all(), name
    assert np.isfinite(list(found.standard_error.values())).all()
    return found


def codes(found):
    return [message.code for message in found.messages]


def assert_bad_refinements_are_told(frozen):
    """Try what users get wrong on a frozen residual with observations and data."""
    data, values = np.asarray(frozen.data, dtype=float), np.asarray(frozen.fitted, dtype=float)
    # No noise level: it is estimated, also where the field fits the data exactly.
    assert "noise.estimated" in codes(refined(frozen))
    assert "noise.estimated" in codes(refined(frozen, values))
    assert "refine.misfit_size" in codes(refined(frozen, data + 10, noise=1e-3))
    for wrong in (data.ravel()[1:], np.full_like(data, np.nan), np.full_like(data, np.inf)):
        with pytest.raises(ta.InputError, match=r"data in the shape|finite values"):
            refined(frozen, wrong, noise=0.1)
    # Fewer data than parameters.
    few = (len(frozen.parameters) - 1) // (values.size // len(values))
    if few:
        part = replace(frozen, observed=frozen.observed[:few], fitted=values[:few], data=data[:few])
        with pytest.raises(ta.InputError, match="as many observations"):
            refined(part, noise=0.1)
    # Outside the domain: all of them, or one.
    with pytest.raises(ta.InputError, match="range of the residual points"):
        refined(replace(frozen, observed=frozen.observed + 100), noise=0.1)
    one = np.array(frozen.observed)
    one[0] += 100
    assert "refine.outside" in codes(refined(replace(frozen, observed=one), noise=0.1))
    # A start that is not finite, one that overflows, and one that is far away.
    for factor in (np.nan, 1e200):
        start = replace(frozen.weights, start=factor * frozen.weights.start)
        with pytest.raises(ta.InputError, match="finite"):
            refined(replace(frozen, weights=start), noise=0.1)
    far = replace(frozen.weights, start=30 * frozen.weights.start)
    refined(replace(frozen, weights=far), noise=0.1)
