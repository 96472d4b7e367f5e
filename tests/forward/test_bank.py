"""The bank: exact at its entries, PCHIP between them, and honest about what it leaves out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.interpolate import PchipInterpolator

from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.forward.bank import build_bank
from twoaxis.parameters import Parameter

LOG = Parameter(bounds=(0.5, 8.0))
LINEAR = Parameter(bounds=(0.0, 10.0), coordinate="linear")


def curves(p):
    return np.array([np.sin(p), p**2, 1 / (1 + p), 3.0])


def model_without(*bad, works_at=5.0):
    """Return a model on 0, 1, ..., 10 that fails at the entries `bad`."""

    def forward(p):
        if round(p) in bad and abs(p - round(p)) < 0.25:
            raise ArithmeticError(f"no solution at {p:g}")
        return curves(p)

    return ForwardModel(forward, {"p": LINEAR}, {"p": works_at})


@pytest.mark.parametrize("parameter", [LOG, LINEAR])
def test_knots_and_curves_between_them(parameter):
    model = ForwardModel(curves, {"p": parameter}, {"p": 2.0})
    steps = []
    bank = build_bank(model, float(parameter.to_coordinate(2.0)), 25, steps.append)
    low, high = parameter.coordinate_bounds
    assert sum(steps) == 25
    assert_allclose(bank.knots, np.linspace(low, high, 25), rtol=1e-15)
    assert bank.excluded == {}
    values = np.array([curves(p) for p in parameter.to_value(bank.knots)])
    assert_allclose([bank(q) for q in bank.knots], values, rtol=1e-13)

    curve = PchipInterpolator(bank.knots, values, axis=0)
    between = np.linspace(low, high, 101)
    assert_allclose([bank(q) for q in between], curve(between), rtol=1e-12)
    slopes = curve.derivative()(between)
    assert_allclose([bank.slope(q) for q in between], slopes, rtol=1e-10, atol=1e-12)


def test_slope_is_the_derivative_of_the_bank():
    bank = build_bank(model_without(), 5.0, 21)
    for q in (0.1, 3.3, 9.9):
        numerical = (bank(q + 1e-5) - bank(q - 1e-5)) / 2e-5
        assert_allclose(bank.slope(q), numerical, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("center", [0.0, 10.0], ids=["lower bound", "upper bound"])
def test_center_may_lie_on_a_bound(center):
    assert_array_equal(build_bank(model_without(), center, 11).knots, np.arange(11))


BEYOND = "lies beyond a value at which the forward model failed"


def raised(value):
    return f"forward raised ArithmeticError: no solution at {value}"


@pytest.mark.parametrize(
    ("bad", "kept", "excluded"),
    [
        ((0, 1), range(2, 11), {0: raised(0), 1: raised(1)}),
        ((10,), range(10), {10: raised(10)}),
        ((2,), range(3, 11), {0: BEYOND, 1: BEYOND, 2: raised(2)}),
        ((8,), range(8), {8: raised(8), 9: BEYOND, 10: BEYOND}),
        (
            (1, 3, 7, 9),
            range(4, 7),
            dict.fromkeys((0, 2, 8, 10), BEYOND) | {i: raised(i) for i in (1, 3, 7, 9)},
        ),
    ],
    ids=["low end", "high end", "gap below", "gap above", "gaps on both sides"],
)
def test_keeps_the_run_around_the_center(bad, kept, excluded):
    bank = build_bank(model_without(*bad), 5.3, 11)
    assert_array_equal(bank.knots, kept)
    assert bank.excluded == excluded
    # What lies beyond the gap has no influence on the curve.
    curve = PchipInterpolator(kept, [curves(p) for p in kept], axis=0)
    for q in (kept[0] + 0.3, 5.3, kept[-1]):
        assert_allclose(bank(q), curve(q), rtol=1e-12)


def test_excluded_values_are_physical():
    def forward(p):
        return [np.nan if p < 0.9 else p]

    bank = build_bank(ForwardModel(forward, {"p": LOG}, {"p": 2.0}), np.log(2.0), 5)
    assert_allclose(np.exp(bank.knots), [1, 2, 4, 8], rtol=1e-14)
    ((value, reason),) = bank.excluded.items()
    assert value == pytest.approx(0.5, rel=1e-14)
    assert reason == "forward returned values that are not finite"


@pytest.mark.parametrize(
    ("center", "bad", "named"),
    [(5.3, (5,), 5), (5.3, (6,), 6), (5.3, (5, 6), 5), (0.0, (1,), 1), (10.0, (9,), 9)],
)
def test_center_in_a_gap(center, bad, named):
    with pytest.raises(InputError, match=rf"both sides of the center.*p={named} \(forward raised"):
        build_bank(model_without(*bad, works_at=5.5), center, 11)
