"""What was measured: places, noise and missing readings, against closed forms."""

import pickle

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import twoaxis as ta
from twoaxis.observations import as_observations, experiments_of

GENERATOR = np.random.default_rng(0)
NAN = np.nan
TABLE = np.array([[1.0, 2.0], [NAN, NAN], [3.0, NAN], [5.0, 6.0]])
PLACES = np.array([[0.0, 1.0], [0.5, 1.0], [1.0, 1.0], [2.0, 0.0]])


def covariance(size):
    root = GENERATOR.standard_normal((size, size))
    return root @ root.T + size * np.eye(size)


def test_missing_readings_are_left_out_and_counted():
    data = ta.Observations(TABLE, PLACES, 0.1)
    assert (len(data), data.count, data.missing) == (5, 5, 3)
    assert_array_equal(data.readings, [1, 2, 3, 5, 6])
    assert_array_equal(data.sites, PLACES[[0, 2, 3]])
    assert_array_equal(data.row, [0, 0, 1, 2, 2])
    assert_array_equal(data.column, [0, 1, 0, 0, 1])
    assert_array_equal(data.kept, ~np.isnan(TABLE))
    assert repr(data) == "Observations(5 readings at 3 places, 3 missing, noise 0.1)"


def test_predictions_are_taken_at_the_readings():
    data = ta.Observations(TABLE, PLACES, 0.1)
    everywhere = np.arange(8.0).reshape(4, 2)
    expected = [0, 1, 4, 6, 7]
    assert_array_equal(data.take(everywhere), expected)
    assert_array_equal(data.take(everywhere.ravel()), expected)
    assert_array_equal(data.take(everywhere[[0, 2, 3]]), expected)
    line = ta.Observations(TABLE[:, 0], noise=1.0)
    for predicted in (everywhere[:, 0], everywhere[:, :1]):
        assert_array_equal(line.take(predicted), [0, 4, 6])


@pytest.mark.parametrize(
    ("values", "of", "columns"),
    [(TABLE[:, 0], 2, [2, 2, 2]), (TABLE, (2, 0), [2, 0, 2, 2, 0]), (TABLE[:, :1], [1], [1, 1, 1])],
)
def test_the_observed_outputs_are_selected(values, of, columns):
    data = ta.Observations(values, PLACES, 0.1, of=of)
    predicted = GENERATOR.standard_normal((len(data.sites), 3))
    assert_array_equal(data.column, columns)
    assert_array_equal(data.take(predicted), predicted[data.row, data.column])


def test_predictions_of_a_callable_are_used_as_they_are():
    data = ta.Observations([1.0, 2.0], at=[0.0, 1.0], of=lambda model, points: model(points))
    assert_array_equal(data.take([3.0, 4.0]), [3, 4])


NOISES = {
    "number": (0.3, np.full((4, 2), 0.3)),
    "columns": ([0.1, 0.2], np.tile([0.1, 0.2], (4, 1))),
    "rows": ([0.1, 0.2, 0.3, 0.4], np.repeat([[0.1], [0.2], [0.3], [0.4]], 2, axis=1)),
    "each": (np.abs(TABLE) / 10, np.abs(TABLE) / 10),  # NaN where the reading is missing
    "flat": (np.arange(1.0, 9.0), np.arange(1.0, 9.0).reshape(4, 2)),
}


@pytest.mark.parametrize(("noise", "expected"), NOISES.values(), ids=NOISES)
def test_noise_of_every_form(noise, expected):
    data = ta.Observations(TABLE, noise=noise)
    assert_array_equal(data.standard_deviations(), expected[data.kept])
    assert data.noise_known
    assert not data.correlated


def test_rows_are_whitened_as_with_the_dense_inverse():
    matrix = covariance(8)
    data = ta.Observations(TABLE, noise=matrix)
    kept = np.flatnonzero(data.kept)
    part = matrix[np.ix_(kept, kept)]
    rows = GENERATOR.standard_normal((5, 3))
    assert data.correlated
    assert_allclose(data.whiten(rows).T @ data.whiten(rows), rows.T @ np.linalg.inv(part) @ rows)
    assert_allclose(data.whiten(rows), np.linalg.inv(np.linalg.cholesky(part)) @ rows)
    assert_allclose(data.whiten(rows[:, 0]), data.whiten(rows)[:, 0])
    assert_allclose(data.standard_deviations() ** 2, np.diag(part))


def test_sparse_rows_are_whitened_like_dense_ones():
    rows = sparse.random_array((5, 7), density=0.3, rng=1, format="csr")
    independent = ta.Observations(TABLE, noise=[0.1, 0.2])
    white = independent.whiten(rows)
    assert sparse.issparse(white)
    assert_allclose(white.toarray(), independent.whiten(rows.toarray()))
    correlated = ta.Observations(TABLE, noise=covariance(8))
    assert_allclose(correlated.whiten(rows), correlated.whiten(rows.toarray()))


def test_noise_of_the_logarithm():
    values = np.array([1.0, NAN, 4.0])
    data = ta.Observations(values, at=[0.0, 1.0, 2.0], noise=0.1, transform="log")
    predicted = np.array([2.0, 5.0])
    assert_allclose(data.readings, np.log([1.0, 4.0]))
    assert_allclose(data.take(predicted), np.log(predicted))
    slopes = np.array([[1.0, 0.0], [3.0, 2.0]])
    assert_allclose(data.take_jacobian(predicted, slopes), slopes / predicted[:, None])
    found = data.take_jacobian(predicted, sparse.csr_array(slopes))
    assert_allclose(found.toarray(), slopes / predicted[:, None])
    assert repr(data).endswith("1 missing, noise 0.1 of logarithms)")
    step = 1e-6
    moved = (data.take(predicted + step * slopes[:, 0]) - data.take(predicted)) / step
    assert_allclose(moved, data.take_jacobian(predicted, slopes)[:, 0], rtol=1e-5)


def test_unknown_sizes_of_noise_are_estimated_by_group():
    data = ta.Observations(TABLE)
    assert data.group_count == 2
    residuals = np.array([1.0, 2.0, 1.0, -1.0, -2.0])
    left = 1 - 2 / 5
    assert_allclose(data.estimated_levels(residuals, 2), np.sqrt([3 / (3 * left), 8 / (2 * left)]))
    assert_array_equal(data.standard_deviations([0.1, 0.2]), [0.1, 0.2, 0.1, 0.1, 0.2])
    assert_allclose(data.whiten(residuals, [1.0, 2.0]), [1, 1, 1, -1, -1])
    assert repr(data) == "Observations(5 readings, 3 missing, noise to be estimated in 2 groups)"
    logs = ta.Observations(np.abs(TABLE[:, 0]), transform="log")
    assert repr(logs) == "Observations(3 readings, 1 missing, noise of logarithms to be estimated)"
    assert "correlated noise" in repr(ta.Observations([1.0, 2.0], noise=[[2, 0.5], [0.5, 2]]))
    with pytest.raises(ta.InputError, match="pass levels="):
        data.standard_deviations()


@pytest.mark.parametrize(
    ("sensors", "groups", "names"),
    [
        (["a", "b"], [0, 1, 0, 0, 1], ["a", "b"]),
        (["a", "x", "b", "a"], [0, 0, 1, 0, 0], ["a", "b"]),
        ([["a", "b"], ["a", "a"], ["c", "c"], ["a", "b"]], [0, 1, 2, 0, 1], ["a", "b", "c"]),
    ],
)
def test_groups_follow_the_sensors(sensors, groups, names):
    data = ta.Observations(TABLE, sensors=sensors)
    assert_array_equal(data.groups, groups)
    assert data.group_names == names


def test_labels_of_pandas_are_matched():
    index, columns = pd.Index([3.0, 1.0, 2.0, 7.0], name="t"), pd.Index(["u", "v"], name="state")
    values = pd.DataFrame(TABLE, index, columns)
    sizes = pd.DataFrame(np.arange(1.0, 9.0).reshape(4, 2), index, columns)
    places = pd.DataFrame(PLACES, index)
    plain = ta.Observations(TABLE, PLACES, sizes.to_numpy())
    turned = ta.Observations(values, places.sort_index(), sizes.sort_index().T)
    assert_array_equal(turned.standard_deviations(), plain.standard_deviations())
    assert_array_equal(turned.at, plain.at)
    each = ta.Observations(values, noise=pd.Series([2.0, 1.0], pd.Index(["v", "u"], name="state")))
    assert_array_equal(each.standard_deviations(), [1, 2, 1, 1, 2])
    sensors = ta.Observations(values, sensors=pd.Series(["b", "a"], ["v", "u"]))
    assert sensors.group_names == ["a", "b"]
    rows = pd.Series([0.3, 0.1, 0.2, 0.7], index).sort_index()
    assert_array_equal(
        ta.Observations(values, noise=rows).standard_deviations(), [0.3, 0.3, 0.2, 0.7, 0.7]
    )
    with pytest.raises(ta.InputError, match="noise with the labels of the observations") as error:
        ta.Observations(values, noise=sizes.set_axis(index + 0.5))
    assert ".to_numpy()" in error.value.fix


def test_labels_of_a_covariance_are_matched():
    times = pd.Index([3.0, 1.0, 2.0], name="t")
    matrix = covariance(3)
    data = ta.Observations(
        pd.Series([1.0, 2.0, 3.0], times), noise=pd.DataFrame(matrix, times, times).sort_index()
    )
    assert_array_equal(data.noise, matrix)


def test_observations_are_brought_into_the_order_of_labels():
    grid = xr.DataArray(TABLE, {"t": [1.0, 2.0, 3.0, 4.0], "s": [0.1, 0.2]}, ("t", "s"))
    data = ta.Observations(grid[[2, 0, 3, 1]], PLACES[[2, 0, 3, 1]], noise=covariance(8))
    plain = data.in_order_of(ta.Observations(grid).labels)
    assert_array_equal(plain.values, TABLE)
    assert_array_equal(plain.at, PLACES)
    residual = GENERATOR.standard_normal(TABLE.shape)
    residual_then = residual[[2, 0, 3, 1]]
    one, other = residual[plain.kept], residual_then[data.kept]
    assert_allclose(np.sum(plain.whiten(one) ** 2), np.sum(data.whiten(other) ** 2))


def test_replicas_have_other_values_and_the_same_noise():
    matrix = covariance(8)
    data = ta.Observations(TABLE, PLACES, matrix)
    other = data.with_values(2 * np.arange(5.0))
    assert_array_equal(other.readings, 2 * np.arange(5.0))
    assert_array_equal(data.readings, [1, 2, 3, 5, 6])
    assert_array_equal(other.whiten(np.ones(5)), data.whiten(np.ones(5)))
    full = data.with_values(np.arange(8.0).reshape(4, 2))
    assert_array_equal(full.readings, [0, 1, 4, 6, 7])
    assert full.missing == data.missing
    with pytest.raises(ta.InputError, match="a value for each reading"):
        data.with_values(TABLE[::-1])
    with pytest.raises(ta.InputError, match="one for each of 5 readings"):
        data.with_values(np.ones(4))


def test_arrays_are_copied_and_read_only():
    values, noise = np.array([1.0, 2.0]), np.array([0.1, 0.2])
    data = ta.Observations(values, noise=noise)
    values[:] = noise[:] = 7
    assert_array_equal(data.readings, [1, 2])
    assert_array_equal(data.standard_deviations(), [0.1, 0.2])
    with pytest.raises(ValueError, match="read-only"):
        data.values[0] = 3
    again = pickle.loads(pickle.dumps(data))
    assert_array_equal(again.readings, data.readings)


def test_arrays_become_observations():
    data = as_observations([1.0, 2.0], 0.1, [3.0, 4.0])
    assert as_observations(data) is data
    with pytest.raises(ta.InputError, match="noise in one place") as error:
        as_observations(data, 0.2)
    assert "leave noise= out" in error.value.fix
    with pytest.raises(ta.InputError, match="at in one place"):
        as_observations(data, at=[1.0, 2.0])


def test_bare_arrays_have_noise_of_one_size():
    assert as_observations(TABLE).group_count == 1
    assert ta.Observations(TABLE).group_count == 2


def test_further_axes_are_outputs():
    values = np.arange(24.0).reshape(2, 3, 4)
    values[1, 2, 3] = NAN
    data = ta.Observations(values, at=[0.0, 1.0], noise=values + 1)
    assert (data.count, data.columns) == (23, 12)
    assert_array_equal(data.take(10 * np.nan_to_num(values)), 10 * data.readings)
    assert_array_equal(data.standard_deviations(), data.readings + 1)


def test_observations_with_noise_and_of_one_output():
    times = pd.Index([3.0, 1.0, 2.0, 5.0], name="t")
    data = ta.Observations(pd.DataFrame(TABLE, times), PLACES, name="flow")
    known = data.with_noise([0.1, 0.2])
    assert known.labels is data.labels
    assert repr(known) == (
        "Observations('flow', 5 readings at 3 places, 3 missing, noise 0.1 to 0.2)"
    )
    for each in (data, known):
        flat = each.flattened()
        assert_array_equal(flat.readings, each.readings)
        assert_array_equal(flat.groups, each.groups)
        assert_array_equal(flat.sites[flat.row], each.sites[each.row])
    assert_array_equal(known.flattened().standard_deviations(), known.standard_deviations())


def test_experiments_by_name():
    one, two = ta.Observations([1.0]), ta.Observations([2.0])
    assert experiments_of(one) == {"data": [one]}
    assert experiments_of([one, two]) == {"data": [one, two]}
    assert experiments_of({"a": one, "b": [one, two]}) == {"a": [one], "b": [one, two]}
    (only,) = experiments_of([1.0, 2.0])["data"]
    assert_array_equal(only.readings, [1, 2])
    for wrong in ({}, {1: one, "1": two}):
        with pytest.raises(ta.InputError, match="names of their own"):
            experiments_of(wrong)


SQUARE = np.ones((2, 2))
NOT_DEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])
# What is refused, a part of the message, and the same after its fix.
REFUSED = {
    "number": (dict(values=0.3), "values of shape", dict(values=[0.3])),
    "nothing": (dict(values=[NAN]), "NaN alone", dict(values=[1.0])),
    "infinite": (dict(values=[1, np.inf]), "1 infinite", dict(values=[1, NAN])),
    "text": (dict(values=["a"]), "values as real numbers", dict(values=[1.0])),
    "negative noise": (dict(values=[1.0], noise=-1.0), "positive", dict(values=[1.0], noise=1.0)),
    "noise of a reading": (
        dict(values=[1.0, 2.0], noise=[1.0, NAN]), "finite noise",
        dict(values=[1.0, NAN], noise=[1.0, NAN]),
    ),
    "shape of noise": (
        dict(values=[1.0, 2.0], noise=[1, 2, 3]), "a 2 by 2 covariance",
        dict(values=[1.0, 2.0], noise=[1, 2]),
    ),
    "rows or columns": (
        dict(values=SQUARE, noise=[1, 2]), "by row or by column",
        dict(values=SQUARE, noise=np.reshape([1, 2], (1, -1))),
    ),
    "asymmetric": (
        dict(values=[1.0, 2.0], noise=[[2, 1], [0, 2]]), "symmetric",
        dict(values=[1.0, 2.0], noise=[[2, 0.5], [0.5, 2]]),
    ),
    "not definite": (
        dict(values=[1.0, 2.0], noise=NOT_DEFINITE), "positive definite .* -1",
        dict(values=[1.0, 2.0], noise=NOT_DEFINITE + 1.1 * np.eye(2)),
    ),
    "places": (
        dict(values=[1.0, 2.0], at=[1.0]), "coordinates of the 2 rows",
        dict(values=[1.0, 2.0], at=np.column_stack([[1.0, 2.0], [3.0, 4.0]])),
    ),
    "place of a reading": (
        dict(values=[1.0, 2.0], at=[1.0, NAN]), "finite coordinates",
        dict(values=[1.0, NAN], at=[1.0, NAN]),
    ),
    "output": (dict(values=SQUARE, of=0), "the 2 numbers", dict(values=SQUARE, of=(0, 1))),
    "output name": (dict(values=[1.0], of="u"), "the number", dict(values=[1.0], of=0)),
    "logarithm": (
        dict(values=[1.0, 0.0], transform="log"), "positive values",
        dict(values=[1.0, NAN], transform="log"),
    ),
    "transform": (dict(values=[1.0], transform="exp"), 'transform "log"', dict(values=[1.0])),
    "sensors": (
        dict(values=SQUARE, sensors=["a"]), "sensors as labels",
        dict(values=SQUARE, sensors=[["a", "a"], ["a", "b"]]),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "message", "right"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_and_the_fix_works(wrong, message, right):
    with pytest.raises(ta.InputError, match=message):
        ta.Observations(**wrong)
    assert ta.Observations(**right).count >= 1


def test_predictions_that_do_not_belong_are_refused():
    data = ta.Observations(TABLE, PLACES)
    with pytest.raises(ta.InputError, match="3 places of the observations, or all 4 rows"):
        data.take(np.ones((5, 2)))
    with pytest.raises(ta.InputError, match="2 observed outputs") as error:
        data.take(np.ones((4, 3)))
    assert "of=(0, 1)" in error.value.fix
    assert ta.Observations(TABLE, PLACES, of=(0, 1)).take(np.ones((4, 3))).size == 5
    with pytest.raises(ta.InputError, match="where they were taken"):
        _ = ta.Observations([1.0]).sites
