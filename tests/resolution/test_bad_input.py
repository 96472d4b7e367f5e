"""Every bad input ends in an error that says what was expected, what came and what to do."""

import numpy as np
import pytest

import twoaxis as ta

T = np.linspace(0, 1, 20)
RATE = {"rate": ta.Parameter(truth=2.0, bounds=(0.5, 8.0))}


def decay(rate):
    return np.exp(-rate * T)


def half_nan(rate):
    values = decay(rate)
    values[7] = np.nan
    return values


def growing(rate):
    return np.ones(20 if rate == 2.0 else 21)


def says(*words):
    """A pattern that finds the words in this order."""
    return "(?s)" + ".*".join(words)


PARAMETER_CASES = {
    "truth outside bounds": (
        dict(truth=9.0, bounds=(0.5, 8.0)),
        says("truth inside the bounds", "truth=9", "widen bounds"),
    ),
    "truth not positive in log coordinates": (
        dict(truth=-1.0, bounds=(-2.0, 8.0)),
        says("positive truth", "truth=-1", 'coordinate="linear"'),
    ),
    "bounds not positive in log coordinates": (
        dict(bounds=(0.0, 8.0)),
        says("bounds above zero", r"bounds=\(0.0, 8.0\)", 'coordinate="linear"'),
    ),
    "bounds reversed": (
        dict(bounds=(8.0, 0.5)),
        says("lower one first", r"bounds=\(8, 0.5\)", r"bounds=\(0.5, 8\)"),
    ),
    "bounds not numbers": (dict(bounds="wide"), says("two finite numbers", "wide")),
}


@pytest.mark.parametrize(("settings", "message"), PARAMETER_CASES.values(), ids=PARAMETER_CASES)
def test_parameters(settings, message):
    with pytest.raises(ta.InputError, match=message):
        ta.Parameter(**settings)


CASES = {
    "noise zero": (dict(noise=0.0), says("positive standard deviations", "0", "above zero")),
    "noise negative": (dict(noise=-0.1), says("positive standard deviations", "-0.1")),
    "noise not finite": (dict(noise=np.nan), says("finite noise")),
    "noise not a number": (dict(noise="loud"), says("real numbers")),
    "noise of the wrong length": (
        dict(noise=np.ones(7)),
        says("20 entries", r"\(7,\)", "index noise like the whole output"),
    ),
    "covariance not positive definite": (
        dict(noise=np.ones((20, 20)) - 2 * np.eye(20)),
        says("positive definite", "smallest eigenvalue", "diagonal"),
    ),
    "covariance not symmetric": (
        dict(noise=np.eye(20) + np.triu(np.ones((20, 20)), 1)),
        says("symmetric", "transpose"),
    ),
    "no noise and no data": (dict(noise=None), says("noise, or data", "neither")),
    "forward returns NaN": (
        dict(forward=half_nan),
        says("finite predictions", "1 of 20", "entry 7", "layouts"),
    ),
    "forward changes its shape": (
        dict(forward=growing),
        says(r"shape \(20,\)", r"shape \(21,\)", "rate=", "same entries"),
    ),
    "forward takes other names": (
        dict(forward=lambda speed: decay(speed)),
        says("keywords rate", "speed", "lambda"),
    ),
    "forward ignores its parameter": (
        dict(forward=lambda rate: T),  # noqa: ARG005
        says("depend on the parameters", "do not change", "uses its arguments"),
    ),
    "forward returns complex numbers": (
        dict(forward=lambda rate: decay(rate) * 1j),
        says("real numbers", "complex128"),
    ),
    "forward returns nothing": (dict(forward=lambda rate: None), says("real numbers")),  # noqa: ARG005
    "forward raises": (
        dict(forward=lambda rate: 1 / 0),  # noqa: ARG005
        says(r"forward\(rate=2\)", "ZeroDivisionError", "by itself"),
    ),
    "forward is no function": (dict(forward=decay(2.0)), says("function", "ndarray")),
    "layout out of range": (
        dict(layouts={"a": [0, 20]}),
        says("layout 'a' from 0 to 19", "20", "ravel_multi_index"),
    ),
    "layout negative": (dict(layouts={"a": [-1, 3]}), says("from 0 to 19", "-1")),
    "layout repeated": (dict(layouts={"a": [3, 5, 3]}), says("once", "3", "drop")),
    "layout a mask": (dict(layouts={"a": T > 0.5}), says("flat indices", "bool", "flatnonzero")),
    "layout empty": (dict(layouts={"a": []}), says("flat indices", r"\(0,\)")),
    "no layouts": (dict(layouts={}), says("at least one layout")),
    "zero replicas": (dict(replicas=0), says("replicas", "from 1", "replicas=0")),
    "replicas not an integer": (dict(replicas=2.5), says("replicas", "2.5")),
    "noise far below rounding": (dict(noise=1e-300), says("of the noise", "e\\+299", "units")),
    "noise beyond all predictions": (dict(noise=1e300), says("of the noise", "e-301", "units")),
    "bank too small": (dict(bank=2), says("bank", "from 5")),
    "level out of range": (dict(level=95), says("between 0 and 1", "95")),
    "unknown method": (dict(method="magic"), says("bank", "direct", "magic")),
    "unknown center": (dict(at="middle"), says("truth", "delivered", "middle")),
    "center without a value": (dict(at="delivered"), says("delivered value for every", "rate")),
    "center outside the bounds": (dict(at={"rate": 99.0}), says("inside the bounds", "99")),
    "center of another name": (dict(at={"nu": 1.0}), says("rate", "nu")),
    "data of the wrong shape": (dict(data=np.ones(3)), says("data in the shape", r"\(3,\)")),
    "data not finite": (dict(data=half_nan(2.0)), says("finite observations", "position 7")),
    "data for other layouts": (
        dict(layouts={"a": [1, 2, 3]}, data={"b": [1, 2, 3]}),
        says("layouts a", "data for b"),
    ),
    "fit model of another shape": (
        dict(fit_forward=lambda rate: decay(rate)[:5]),
        says("fit_forward", r"\(20,\)", r"\(5,\)", "interpolate"),
    ),
    "parameters as a list": (dict(parameters=["rate"]), says("mapping", "list")),
    "parameters as numbers": (dict(parameters={"rate": 2.0}), says("twoaxis.Parameter", "2.0")),
    "points of another length": (
        dict(points=np.ones((3, 1)), data=decay(2.0)),
        says(r"\(20, k\)", r"\(3, 1\)"),
    ),
}


@pytest.mark.parametrize(("changes", "message"), CASES.values(), ids=CASES)
def test_resolve(changes, message):
    arguments = {"forward": decay, "parameters": RATE, "noise": 0.1, "replicas": 3, **changes}
    with pytest.raises(ta.InputError, match=message):
        ta.resolve(**arguments)


def test_the_forward_model_fails_on_one_side_of_the_center():
    def edge(rate):
        return decay(rate) if rate <= 2.0 else np.full(20, np.inf)

    with pytest.raises(ta.InputError, match=says("close to the center", "not finite")):
        ta.resolve(edge, RATE, 0.1, replicas=3)


def test_a_center_of_zero_needs_a_scale():
    parameters = {"c": ta.Parameter(truth=0.0, bounds=(-1, 1), coordinate="linear")}
    with pytest.raises(ta.InputError, match=says("magnitude", "zero", "scale=0.1")):
        ta.resolve(lambda c: c * T, parameters, 0.1, replicas=3)


def test_a_bank_is_for_one_parameter():
    parameters = {**RATE, "size": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))}
    with pytest.raises(ta.InputError, match=says("one parameter", "rate, size", "direct")):
        ta.resolve(lambda rate, size: size * decay(rate), parameters, 0.1, method="bank")


def test_an_unknown_statistic_or_parameter_is_named(found):
    with pytest.raises(ta.InputError, match="median"):
        found.interval("mode")
    with pytest.raises(ta.InputError, match="rate"):
        found.interval(parameter="nu")
    with pytest.raises(ta.InputError, match="all"):
        found.interval(layout="9")


@pytest.fixture(scope="module")
def found():
    return ta.resolve(decay, RATE, 0.1, replicas=3, validate=0)


def changed(found, **values):
    """Return the result with some variables replaced, as if its file had been edited."""
    data = found.data.copy(deep=True)
    for name, value in values.items():
        data[name] = (data[name].dims, value, data[name].attrs)
    return type(found)(data)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("estimate", 1.01),
        ("deviation_percent", 1.01),
        ("fisher_deviation_percent", 2.0),
        ("noiseless_estimate", 2.0),
        ("fisher_information", 1.1),
        ("direction_sd_percent", 0.9),
        ("direction_vector", 0.5),
        ("deviance", 1e9),
        ("center", 1.1),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path, found, name, factor):
    path = changed(found, **{name: found.data[name].values * factor}).save(tmp_path / "found.nc")
    with pytest.raises(ta.InputError, match="values agree"):
        ta.load(path)


@pytest.mark.parametrize("name", ["covered", "direction_poorly_resolved"])
def test_a_flag_that_contradicts_the_numbers_is_refused(tmp_path, found, name):
    path = changed(found, **{name: ~found.data[name].values}).save(tmp_path / "found.nc")
    with pytest.raises(ta.InputError, match=name):
        ta.load(path)


def test_a_target_that_cannot_be_written_is_refused(tmp_path, found):
    with pytest.raises(ta.InputError, match="directory"):
        found.save(tmp_path)
    with pytest.raises(ta.InputError, match="create the directory"):
        found.save(tmp_path / "missing" / "found.nc")


def test_a_file_without_a_variable_is_refused(tmp_path, found):
    path = type(found)(found.data.drop_vars("estimate")).save(tmp_path / "hollow.nc")
    with pytest.raises(ta.InputError, match="no variable 'estimate'"):
        ta.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        dict(seed="x"),
        dict(seed=1.5),
        dict(seed=np.random.default_rng(0)),
        dict(level="a"),
        dict(layouts=5),
        dict(layouts={"a": [[1], [2, 3]]}),
        dict(layouts={1: [0], "1": [1]}),
        dict(layouts={"all layouts": [0, 1]}),
        dict(noise=[[1], [2, 3]]),
        dict(data="abc"),
        dict(data={"all": "abc"}),
        dict(data=decay(2.0) * 1j),
        dict(points="abc", data=decay(2.0)),
    ],
)
def test_nothing_escapes_as_a_raw_exception(changes):
    arguments = {"forward": decay, "parameters": RATE, "noise": 0.1, "replicas": 3, **changes}
    with pytest.raises(ta.InputError):
        ta.resolve(**arguments)


@pytest.mark.parametrize("method", ["auto", "direct"])
@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_units_of_any_size_are_scaled_away_or_refused(method, scale):
    def scaled(rate):
        return scale * decay(rate)

    settings = dict(replicas=3, method=method)
    expected = ta.resolve(decay, RATE, noise=0.1, **settings)
    found = ta.resolve(scaled, RATE, noise=0.1 * scale, **settings)
    np.testing.assert_allclose(found.estimate, expected.estimate, rtol=1e-6)
    for options in (dict(noise=0.1), dict(data=scaled(2.0) * (1 + 0.01 * np.cos(99 * T)))):
        with pytest.raises(ta.InputError, match="in units in which they are near 1"):
            ta.resolve(scaled, RATE, **settings, **options)


def test_data_that_lie_beyond_the_range_of_squares_are_refused():
    with pytest.raises(ta.InputError, match="observations on layout 'all' below 1e\\+60"):
        ta.resolve(decay, RATE, noise=0.1, replicas=3, data=np.full(20, 1e300))


def test_an_integrator_that_stops_early_is_a_failed_run():
    """solve_ivp returns fewer times where it gives up; the center must work."""
    times = np.linspace(0, 1, 20)

    def forward(rate):
        return np.exp(-rate * times)[: 20 if rate < 5 else 7]

    rate = {"rate": ta.Parameter(truth=2.0, bounds=(0.5, 8.0))}
    found = ta.resolve(forward, rate, noise=0.05, replicas=5, bank=41, progress=False)
    assert np.isfinite(found.data["estimate"]).all()
    assert "resolution.excluded_values" in [message.code for message in found.messages]


@pytest.mark.parametrize("method", ["bank", "direct", "interpolant", "linear"])
@pytest.mark.parametrize("data", [None, np.exp(-1.1 * np.arange(9.0))])
def test_a_forward_model_that_draws_random_numbers(method, data):
    generator = np.random.default_rng(0)
    with pytest.raises(ta.InputError) as raised:
        ta.resolve(
            lambda k: np.exp(-k * np.arange(9.0)) + 0.01 * generator.standard_normal(9),
            {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))},
            noise=0.02,
            replicas=5,
            method=method,
            data=data,
        )
    assert "deterministic" in raised.value.expected
