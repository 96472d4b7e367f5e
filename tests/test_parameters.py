"""Parameters: every refusal, coordinates there and back, percentages and centres."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from twoaxis.errors import InputError
from twoaxis.io import labelled
from twoaxis.parameters import Center, Parameter, Parameters
from twoaxis.result import PARAMETER_LAYOUT

LOG = Parameter(bounds=(1e-12, 1e12))
LINEAR = Parameter(bounds=(-1.0, 1.0), coordinate="linear")


@pytest.mark.parametrize("bounds", [None, 3.0, (1.0,), (1, 2, 3), (1, math.nan), (1, math.inf)])
def test_bounds_that_are_not_two_finite_numbers(bounds):
    with pytest.raises(InputError, match="expected bounds as two finite numbers, got"):
        Parameter(bounds=bounds)


@pytest.mark.parametrize(
    ("given_as", "message"),
    [
        ({"bounds": ("a", "b")}, "two finite numbers"),
        ({"bounds": (2, 1)}, r"got bounds=\(2, 1\); fix: write bounds=\(1, 2\)"),
        ({"bounds": (1, 1)}, "leave room between them"),
        ({"bounds": (1, 2), "coordinate": "ln"}, 'coordinate "log" or "linear", got \'ln\''),
        ({"bounds": (0, 2)}, "bounds above zero"),
        ({"bounds": (-1, 2)}, 'pass coordinate="linear"'),
    ],
)
def test_bounds_and_coordinate_that_cannot_be_used(given_as, message):
    with pytest.raises(InputError, match=message):
        Parameter(**given_as)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, "1"])
def test_scale_must_be_positive_and_finite(scale):
    with pytest.raises(InputError, match="a positive, finite scale, got scale="):
        Parameter(bounds=(-1, 1), coordinate="linear", scale=scale)


@pytest.mark.parametrize("field", ["truth", "delivered", "start"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "a finite number as {}"),
        ("1.5", "a finite number as {}"),
        (1j, "a finite number as {}"),
        (0.0, "a positive {} for a parameter in log coordinates, got {}=0"),
        (-1.5, "a positive {} for a parameter in log coordinates, got {}=-1.5"),
        (0.99, r"{} inside the bounds \[1, 2\], got {}=0.99"),
        (2.01, r"{} inside the bounds \[1, 2\], got {}=2.01"),
    ],
)
def test_values_that_cannot_be_used_are_named(field, value, message):
    with pytest.raises(InputError, match=message.replace("{}", field)):
        Parameter(bounds=(1, 2), **{field: value})


def test_linear_parameters_may_be_zero_or_negative():
    parameter = Parameter(bounds=(-2, 1), truth=0, delivered=-1.5, coordinate="linear")
    assert (parameter.truth, parameter.delivered) == (0.0, -1.5)


def test_values_become_floats_and_may_lie_on_the_bounds():
    parameter = Parameter(bounds=np.array([1, 2]), truth=np.float32(1), start=2)
    assert parameter.bounds == (1.0, 2.0)
    kept = (*parameter.bounds, parameter.truth, parameter.start)
    assert [type(value) for value in kept] == [float] * 4


@settings(deadline=None)
@given(st.floats(1e-12, 1e12))
def test_log_coordinate_there_and_back(value):
    assert LOG.to_coordinate(value) == np.log(value)
    assert_allclose(LOG.to_value(LOG.to_coordinate(value)), value, rtol=1e-14)


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_linear_coordinate_is_the_value(value):
    assert LINEAR.to_coordinate(value) == value
    assert LINEAR.to_value(value) == value


@pytest.mark.parametrize("parameter", [LOG, LINEAR])
def test_coordinates_are_elementwise(parameter):
    values = np.array([[0.25, 0.5], [0.75, 1.0]])
    coordinates = parameter.to_coordinate(values)
    assert coordinates.shape == (2, 2)
    assert coordinates[1, 0] == parameter.to_coordinate(0.75)


def test_coordinate_bounds():
    assert LOG.coordinate_bounds == (math.log(1e-12), math.log(1e12))
    assert LINEAR.coordinate_bounds == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("options", "center", "unit"),
    [
        ({}, 0.5, 1.0),
        ({"coordinate": "linear"}, -0.25, 0.25),
        ({"coordinate": "linear", "scale": 0.1}, -0.25, 0.1),
        ({"coordinate": "linear", "scale": 0.1}, 0.0, 0.1),
    ],
)
def test_unit_is_the_step_of_100_percent(options, center, unit):
    assert Parameter(bounds=(0.1, 1.0), **options).percent_unit(center) == unit


def test_unit_around_zero_needs_a_scale():
    with pytest.raises(InputError, match=r"Parameter\(scale=0.1"):
        LINEAR.percent_unit(0.0)
    with pytest.raises(InputError, match="no scale"):
        LINEAR.percent(0.5, 0.0)


@pytest.mark.parametrize(
    ("options", "center", "percents"),
    [
        ({}, 0.5, [-50.0, 100.0]),
        ({"coordinate": "linear"}, -0.5, [150.0, 300.0]),
        ({"coordinate": "linear", "scale": 0.25}, -0.5, [300.0, 600.0]),
    ],
)
def test_percent_is_signed_and_refers_to_the_magnitude(options, center, percents):
    parameter = Parameter(bounds=(0.1, 1.0), **options)
    assert parameter.percent([0.25, 1.0], center).tolist() == percents


def test_percent_is_the_unit_to_first_order():
    """A small step h in the coordinate is ``100 h / unit`` percent, in either coordinate."""
    for options in ({}, {"coordinate": "linear"}, {"coordinate": "linear", "scale": 0.3}):
        parameter = Parameter(bounds=(0.1, 1.0), **options)
        moved = parameter.to_value(parameter.to_coordinate(0.5) + 1e-6)
        assert_allclose(
            parameter.percent(moved, 0.5), 1e-4 / parameter.percent_unit(0.5), rtol=1e-6
        )


@pytest.mark.parametrize("bad", [{}, None, [LOG], LOG])
def test_parameters_must_be_a_filled_mapping(bad):
    with pytest.raises(InputError, match="a mapping from parameter names"):
        Parameters(bad)


@pytest.mark.parametrize("bad", [{"nu": 0.01}, {1: LOG}, {"nu": LOG, "k": (1, 2)}])
def test_parameters_must_be_names_and_parameters(bad):
    with pytest.raises(InputError, match=r"wrap the bounds and the truth in twoaxis\.Parameter"):
        Parameters(bad)


def test_good_parameters_are_copied():
    given_as = {"b": LOG, "a": LINEAR}
    checked = Parameters(given_as)
    assert list(checked.items()) == list(given_as.items())
    assert checked is not given_as


BOTH = Parameter(bounds=(1, 5), truth=2.0, delivered=3.0)
DELIVERED = Parameter(bounds=(1, 5), delivered=4.0)


@pytest.mark.parametrize(
    ("parameters", "at", "center"),
    [
        ({"p": BOTH}, None, Center("truth", {"p": 2.0})),
        ({"p": BOTH}, "truth", Center("truth", {"p": 2.0})),
        ({"p": BOTH}, "delivered", Center("delivered", {"p": 3.0})),
        ({"p": BOTH}, {"p": 5}, Center("point", {"p": 5.0})),
        ({"p": DELIVERED}, None, Center("delivered", {"p": 4.0})),
        ({"p": BOTH, "r": DELIVERED}, None, Center("delivered", {"p": 3.0, "r": 4.0})),
        ({"p": BOTH, "r": BOTH}, {"r": 1.5, "p": 1}, Center("point", {"p": 1.0, "r": 1.5})),
    ],
)
def test_center_of(parameters, at, center):
    found = Parameters(parameters).center(at)
    assert found == center
    assert list(found.values) == list(parameters)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("start", "at='start'"),
        ("truth", r"a truth value for every parameter, got none for r.*Parameter\(truth="),
        ({"p": 2.0}, r"name the parameters \['p', 'r'\], got the names \['p'\]"),
        ({"p": 2.0, "r": 9.0}, r"inside the bounds \[1, 5\], got at=9"),
        ({"p": 2.0, "r": math.nan}, "a finite number as at"),
    ],
)
def test_centers_that_cannot_be_used(at, message):
    with pytest.raises(InputError, match=message):
        Parameters({"p": BOTH, "r": DELIVERED}).center(at)


def test_delivered_center_needs_a_delivered_value():
    with pytest.raises(InputError, match=r"Parameter\(delivered=\.\.\., bounds=\.\.\.\)$"):
        Parameters({"p": Parameter(bounds=(1, 5), truth=2.0)}).center("delivered")


def test_delivered_values_are_all_there_or_named():
    known = {
        "k": Parameter(bounds=(0.5, 2.0), delivered=1.5),
        "b": Parameter(bounds=(-1.0, 1.0), coordinate="linear", delivered=0.0),
    }
    assert Parameters(known).require("delivered") == {"k": 1.5, "b": 0.0}
    with pytest.raises(InputError, match=r"a delivered value for every parameter, got none for c"):
        Parameters(known | {"c": Parameter(bounds=(0.5, 2.0))}).require("delivered")


SEVERAL = Parameters(
    {
        "k": Parameter(bounds=(0.5, 8.0), truth=2.0, delivered=3.0, start=1.0),
        "b": Parameter(bounds=(-4.0, 4.0), coordinate="linear", scale=0.5, delivered=1.0),
    }
)


def test_coordinates_of_many_points_there_and_back():
    values = {"k": np.array([1.0, 2.0, 4.0]), "b": np.array([-1.0, 0.0, 3.0])}
    coordinates = SEVERAL.coordinates(values)
    assert_allclose(coordinates, np.column_stack([np.log(values["k"]), values["b"]]))
    assert_allclose(SEVERAL.physical(coordinates), np.column_stack(list(values.values())))
    assert SEVERAL.named([1, 2]) == {"k": 1.0, "b": 2.0}


def test_bounds_units_and_percentages_of_several_parameters():
    low, high = SEVERAL.coordinate_bounds
    assert_allclose([low, high], [[math.log(0.5), -4.0], [math.log(8.0), 4.0]])
    center = {"k": 2.0, "b": 1.0}
    assert_allclose(SEVERAL.percent_units(center), [1.0, 0.5])
    assert_allclose(SEVERAL.percent([[3.0, 1.5], [1.0, 0.0]], center), [[50, 100], [-50, -200]])
    step = [math.log(1.5), -0.25]
    assert_allclose(SEVERAL.displacement_percent(step, center), [50.0, 50.0])


def test_truth_is_known_for_all_parameters_or_for_none():
    assert SEVERAL.truth is None
    assert SEVERAL.delivered == {"k": 3.0, "b": 1.0}
    assert SEVERAL.replace(truth={"k": 1.0, "b": 0.0}).truth == {"k": 1.0, "b": 0.0}
    assert SEVERAL.replace(delivered=None).delivered is None


def test_parameters_as_labelled_data_there_and_back():
    data = labelled(PARAMETER_LAYOUT, SEVERAL.variables(), {})
    assert dict(Parameters.from_dataset(data)) == dict(SEVERAL)
    assert math.isnan(data["scale"].values[0])
    assert math.isnan(data["truth"].values[1])


# ------------------------------------------------------------- nuisance parameters

INTEREST = Parameter(truth=1.5, delivered=1.2, bounds=(1, 2))


def with_nuisance(**known):
    return Parameters({"nu": INTEREST, "a": Parameter(nuisance=True, bounds=(1, 4), **known)})


@pytest.mark.parametrize(
    ("known", "truth", "delivered"),
    [
        ({"start": 3.0}, 3.0, 3.0),
        ({"delivered": 2.0, "start": 3.0}, 2.0, 2.0),
        ({"truth": 2.5, "start": 3.0}, 2.5, 3.0),
        ({"truth": 2.5, "delivered": 2.0}, 2.5, 2.0),
    ],
)
def test_a_nuisance_parameter_stands_at_the_best_known_value(known, truth, delivered):
    parameters = with_nuisance(**known)
    assert parameters.center(None) == Center("truth", {"nu": 1.5, "a": truth})
    assert parameters.center("delivered").values == {"nu": 1.2, "a": delivered}
    assert parameters.center({"nu": 1.7}).values == {"nu": 1.7, "a": delivered}
    assert parameters.center({"nu": 1.7, "a": 1.1}).values == {"nu": 1.7, "a": 1.1}


@pytest.mark.parametrize("at", [None, "truth", "delivered"])
def test_a_nuisance_parameter_without_any_value_has_no_center(at):
    parameters = with_nuisance()
    assert parameters.truth is None
    assert parameters.delivered is None
    with pytest.raises(InputError) as error:
        parameters.center(at)
    assert error.value.got.endswith("value and no start for a")
    with pytest.raises(InputError, match="at to name the parameters"):
        parameters.center({"nu": 1.5})
    assert parameters.center({"nu": 1.5, "a": 2.0}).values["a"] == 2.0


def test_a_truth_never_stands_in_for_a_delivered_value():
    parameters = with_nuisance(truth=2.5)
    assert parameters.center("truth").values["a"] == 2.5
    with pytest.raises(InputError, match="no delivered value and no start for a"):
        parameters.center("delivered")


def test_a_parameter_of_interest_is_never_replaced_by_its_start():
    parameters = Parameters({"nu": Parameter(start=1.5, bounds=(1, 2))})
    assert parameters.delivered is None
    with pytest.raises(InputError, match="a delivered value for every parameter"):
        parameters.center(None)


def test_a_nuisance_parameter_at_zero_refers_to_its_bounds():
    offset = Parameter(nuisance=True, start=0.0, bounds=(-3.0, 2.0), coordinate="linear")
    assert offset.percent_unit(0.0) == 3.0
    assert offset.percent_unit(0.5) == 0.5
    with pytest.raises(InputError, match="a magnitude to which percentages"):
        Parameter(bounds=(-3.0, 2.0), coordinate="linear").percent_unit(0.0)


def test_names_and_mask():
    parameters = with_nuisance(start=2.0)
    assert parameters.of_interest == ["nu"]
    assert parameters.nuisance.tolist() == [False, True]


def test_a_direction_is_named_by_what_is_in_it():
    known = Parameters({n: Parameter(truth=1.0, bounds=(0.5, 2.0)) for n in ("nu", "rate")})
    assert known.direction_words([0.001, -1.0]) == "rate"
    assert known.direction_words([0.6, -0.8]) == "+0.60 nu -0.80 rate"
