"""A user's callable: what is refused at once, what becomes a row of NaN, what is batched."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.forward import model as model_module
from twoaxis.parameters import Parameter

NU = {"nu": Parameter(bounds=(0.1, 10.0))}
TWO = {"nu": Parameter(bounds=(0.1, 10.0)), "shift": Parameter(bounds=(-5, 5), coordinate="linear")}
CENTER = {"nu": 1.0}
HERE = np.log([[0.5], [1.0], [2.0]])


def forward_model(forward, **options):
    return ForwardModel(forward, NU, CENTER, **options)


# What is refused at the center.


@pytest.mark.parametrize("forward", [None, 3.0, np.ones(4)])
def test_not_callable(forward):
    with pytest.raises(InputError, match="to be a function of the parameters"):
        forward_model(forward)


@pytest.mark.parametrize(
    "forward",
    [lambda: 1.0, lambda mu: mu, lambda nu, mu: nu + mu, lambda nu, /: nu],
    ids=["none", "another", "one more", "positional only"],
)
def test_wrong_names(forward):
    with pytest.raises(InputError, match=r"to take the keywords nu, got the signature forward\("):
        forward_model(forward)


@pytest.mark.parametrize(
    "forward",
    [lambda nu, more=1.0: [nu * more], lambda **every: [every["nu"]], np.vectorize(lambda nu: nu)],
    ids=["default", "all keywords", "callable object"],
)
def test_signatures_that_do(forward):
    assert forward_model(forward).center_values.tolist() == [1.0]


@pytest.mark.parametrize("vectorized", [False, True])
def test_failure_at_the_center(vectorized):
    def forward(nu):  # noqa: ARG001
        raise RuntimeError("no convergence")

    with pytest.raises(InputError, match=r"forward\(nu=1\), got RuntimeError: no conv") as caught:
        forward_model(forward, vectorized=vectorized)
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (np.ones(3) + 1j, "an array of real numbers, got an array of complex128 for nu=1"),
        (None, "an array of real numbers"),
        ([[1.0], [1.0, 2.0]], "an array of real numbers"),
        (["one", "two"], "an array of real numbers"),
        ({"u": 1.0}, "an array of real numbers"),
        ([], "to return predictions, got an empty array"),
        (np.ones((0, 4)), "got an empty array"),
    ],
    ids=["complex", "None", "ragged", "text", "dict", "empty list", "empty array"],
)
def test_output_that_cannot_be_used(output, message):
    with pytest.raises(InputError, match=message):
        forward_model(lambda nu: output)  # noqa: ARG005


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_vectorised_model_needs_a_leading_row_for_each_value(shape):
    with pytest.raises(InputError, match=r"one leading row for each.*vectorized=False"):
        forward_model(lambda nu: np.ones(shape), vectorized=True)  # noqa: ARG005


def test_messages_use_the_model_s_name():
    with pytest.raises(InputError, match="fit_forward to be a function"):
        forward_model(None, name="fit_forward")


# What is refused later.


def test_shape_that_changes():
    varying = forward_model(lambda nu: np.ones((2, 3)) if nu < 1.5 else np.ones((3, 2)))
    with pytest.raises(InputError, match=r"the shape \(2, 3\) .*, got the shape \(3, 2\) for nu=2"):
        varying(HERE)


def test_vectorised_model_with_the_wrong_number_of_rows():
    first_row_only = forward_model(lambda nu: np.ones((1, len(nu) * 4))[:, :4], vectorized=True)
    with pytest.raises(InputError, match=r"\(3, 4\) .*, got the shape \(1, 4\) for nu=0.5\.\.\.2"):
        first_row_only(HERE)


def test_output_that_stops_being_real():
    drifting = forward_model(lambda nu: [nu] if nu < 1.5 else [nu * 1j])
    with pytest.raises(InputError, match="complex128 for nu=2"):
        drifting(HERE)


def test_nan_at_the_center_matters_only_where_it_is_observed():
    partly = forward_model(lambda nu: [nu, np.nan, 2 * nu, np.inf])
    with pytest.raises(InputError, match=r"2 of 3 observed entries not finite \(first: entry 3\)"):
        partly.observe(np.array([3, 2, 1]))
    partly.observe(np.array([2, 0]))
    values, reasons = partly(HERE)
    assert_allclose(values, [[1.0, 0.5], [2.0, 1.0], [4.0, 2.0]], rtol=1e-15)
    assert reasons == ["", "", ""]


# What becomes a row of NaN.


def test_failure_away_from_the_center_is_a_row_with_a_reason():
    def forward(nu):
        if nu > 1.5:
            raise OverflowError("too stiff")
        return [nu, np.nan if nu < 0.7 else 1.0]

    values, reasons = forward_model(forward)(HERE)
    assert_array_equal(np.isnan(values), [[True, True], [False, False], [True, True]])
    assert values[1].tolist() == [1.0, 1.0]
    assert reasons == [
        "forward returned values that are not finite",
        "",
        "forward raised OverflowError: too stiff",
    ]


def test_vectorised_rows_fail_one_by_one_when_they_are_not_finite():
    values, reasons = forward_model(
        lambda nu: np.sqrt(1.5 - nu)[:, None] * [1, 2], vectorized=True
    )(HERE)
    assert_allclose(values[:2], np.sqrt([[1.0], [0.5]]) * [1, 2], rtol=1e-14)
    assert np.isnan(values[2]).all()
    assert reasons == ["", "", "forward returned values that are not finite"]


def test_numpy_warnings_of_a_failing_model_are_kept_quiet():
    values, _ = forward_model(lambda nu: [nu / np.float64(nu < 1.5)])(HERE)
    assert np.isfinite(values).ravel().tolist() == [True, True, False]


def test_interrupt_is_not_a_failure_of_the_model():
    def forward(nu):
        if nu > 1.5:
            raise KeyboardInterrupt
        return [nu]

    with pytest.raises(KeyboardInterrupt):
        forward_model(forward)(HERE)


# What comes out.


@pytest.mark.parametrize(
    ("output", "shape", "flat"),
    [
        (3, (), [3.0]),
        (np.arange(6).reshape(2, 3), (2, 3), [0, 1, 2, 3, 4, 5]),
        ([True, False], (2,), [1, 0]),
        (np.float32([0.5, 1.5]), (2,), [0.5, 1.5]),
    ],
    ids=["one integer", "integers", "booleans", "float32"],
)
def test_real_numbers_of_any_kind_and_shape(output, shape, flat):
    model = forward_model(lambda nu: output)  # noqa: ARG005
    assert (model.shape, model.size) == (shape, len(flat))
    values, reasons = model(HERE)
    assert values.dtype == np.float64
    assert values.tolist() == [flat] * 3
    assert reasons == [""] * 3


def test_parameters_come_by_keyword_in_physical_units():
    def forward(shift, nu):
        assert (type(nu), type(shift)) == (float, float)
        return [nu, shift]

    model = ForwardModel(forward, TWO, {"shift": 0.0, "nu": 1.0})
    values, _ = model(np.array([[np.log(4.0), -2.0], [0.0, 3.0]]))
    assert_allclose(values, [[4.0, -2.0], [1.0, 3.0]], rtol=1e-15)


@pytest.mark.parametrize(("limit", "largest"), [(4, 4), (1000, 2)], ids=["rows", "memory"])
def test_batches_do_not_change_values(monkeypatch, limit, largest):
    """A batch ends at the number of rows allowed, or before that where memory ends."""
    lengths = []

    def forward(nu, shift):
        lengths.append(len(nu))
        return np.sin(nu)[:, None, None] * np.ones((2, 3)) + shift[:, None, None]

    batched = ForwardModel(forward, TWO, {"nu": 1.0, "shift": 0.0}, vectorized=True)
    batched.observe(np.array([5, 0]))
    coordinates = np.random.default_rng(0).uniform(-1, 1, (11, 2))
    whole, _ = batched(coordinates)
    monkeypatch.setattr(model_module, "MAX_BATCH", limit)
    monkeypatch.setattr(model_module, "BATCH_BYTES", 2 * 6 * 8 if limit > 4 else 2**20)
    lengths.clear()
    steps = []
    values, reasons = batched(coordinates, steps.append)
    assert max(lengths) == largest
    assert sum(lengths) == sum(steps) == 11
    assert_array_equal(values, whole)
    assert_allclose(values[:, 0], np.sin(np.exp(coordinates[:, 0])) + coordinates[:, 1], rtol=1e-13)
    assert reasons == [""] * 11


@pytest.mark.parametrize("vectorized", [False, True])
def test_repeated_coordinates_are_solved_once(vectorized):
    solved = []

    def forward(nu):
        solved.extend(np.ravel(nu))
        return np.stack([nu, -nu], axis=-1)

    repeated = forward_model(forward, vectorized=vectorized)
    solved.clear()
    q = np.log([[3.0], [0.5], [3.0], [1.0], [0.5]])
    values, reasons = repeated(q)
    assert len(solved) == 3
    assert_allclose(values, np.exp(q) * [1, -1], rtol=1e-14)
    assert reasons == [""] * 5


def test_one_failure_does_not_take_its_batch_with_it():
    def fragile(nu):
        if (nu > 3.0).any():
            raise RuntimeError("diverged")
        return nu[:, None] * np.ones(3)

    model = ForwardModel(fragile, NU, CENTER, vectorized=True)
    values, reasons = model(np.log([[1.0], [2.0], [4.0]]))
    np.testing.assert_allclose(values[:2, 0], [1.0, 2.0])
    assert np.isnan(values[2]).all()
    assert reasons == ["", "", "forward raised RuntimeError: diverged"]


def test_masked_entries_are_not_predictions():
    def masked(nu):
        return np.ma.masked_array([nu, 1.0], mask=[False, True])

    model = forward_model(masked)
    with pytest.raises(InputError, match="entry 1"):
        model.observe(np.array([0, 1]))


def test_a_tensor_that_requires_gradients_is_named():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"Tensor.*detach"):
        ForwardModel(lambda nu: torch.ones(3, requires_grad=True) * nu, NU, CENTER)
