"""What observations determine of an unknown function, against closed forms of linear models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import twoaxis as ta
from twoaxis.resolution.function import (
    about_function,
    length_scales,
    resolution_matrix,
    standard_error,
)
from twoaxis.unknown_function import Basis

NODES = np.linspace(0, 1, 6)
VALUES = np.array([1.0, 2.0, 1.5, 1.2, 2.5, 3.0])
X = np.linspace(0, 1, 61)
BASIS = Basis((tuple(NODES),), "hat")
MATRIX = BASIS.matrix(X)
Z = norm.ppf(0.975)


def resolve(forward, coordinate="linear", **others):
    unknown = ta.UnknownFunction(
        nodes=NODES, bounds=(0.1, 10.0), truth=VALUES, coordinate=coordinate, argument="depth"
    )
    return ta.resolve(
        forward, {"k": unknown, **others}, noise=0.1, replicas=40, seed=2, vectorized=True
    )


@pytest.fixture(scope="module")
def direct():
    """A linear model: the function is observed as it is."""
    return resolve(lambda k: k(X))


def test_the_band_is_that_of_linear_least_squares(direct):
    found = direct.function("k")
    places = found.data["place"].values
    assert set(NODES) <= set(places)
    rows = BASIS.matrix(places)
    error = 0.1 * np.sqrt(np.einsum("xi,ij,xj->x", rows, np.linalg.inv(MATRIX.T @ MATRIX), rows))
    assert_allclose(found.data["center"], rows @ VALUES, rtol=1e-13)
    assert_allclose(found.data["standard_error"], error, rtol=1e-8)
    assert_allclose(found.data["lower"], rows @ VALUES - Z * error, rtol=1e-8)
    assert_allclose(found.data["upper"], rows @ VALUES + Z * error, rtol=1e-8)
    assert found.data["determined"].values.all()
    assert found.determined_places == [(0.0, 1.0)]
    assert_allclose(found.band_percent, 100 * Z * error / (rows @ VALUES), rtol=1e-8)


def test_the_band_of_the_replicas_is_that_of_their_closed_form_fits(direct):
    noise = np.random.default_rng(2).standard_normal((40, len(X))) * 0.1
    fits = VALUES + noise @ MATRIX @ np.linalg.inv(MATRIX.T @ MATRIX)
    found = direct.function().data
    curves = fits @ BASIS.matrix(found["place"].values).T
    low, high = np.quantile(curves, [0.025, 0.975], axis=0)
    assert_allclose(found["replica_lower"], low, rtol=1e-5)
    assert_allclose(found["replica_upper"], high, rtol=1e-5)


def test_the_band_in_log_coordinates_is_relative():
    found = resolve(lambda k: k(X), "log").function().data
    rows = BASIS.matrix(found["place"].values)
    center = rows @ VALUES
    slopes = MATRIX * VALUES  # derivatives of the predictions by the logarithms
    covariance = 0.1**2 * np.linalg.inv(slopes.T @ slopes)
    slope = rows * VALUES / center[:, None]
    error = np.sqrt(np.einsum("xi,ij,xj->x", slope, covariance, slope))
    assert_allclose(found["standard_error"], error, rtol=1e-6)
    assert_allclose(found["upper"], center * np.exp(Z * error), rtol=1e-6)


def test_other_parameters_are_left_free():
    offset = ta.Parameter(bounds=(-5.0, 5.0), coordinate="linear", truth=0.5, nuisance=True)
    pattern = np.cos(3 * X) + X
    found = resolve(lambda k, offset: k(X) + offset[:, None] * pattern, offset=offset).function()
    every = np.column_stack([MATRIX, pattern])
    covariance = 0.1**2 * np.linalg.inv(every.T @ every)[:6, :6]
    rows = BASIS.matrix(found.data["place"].values)
    error = np.sqrt(np.einsum("xi,ij,xj->x", rows, covariance, rows))
    assert_allclose(found.data["standard_error"], error, rtol=1e-7)


def test_the_block_of_the_inverse_is_the_inverse_of_the_schur_complement():
    root = np.random.default_rng(0).standard_normal((9, 5))
    matrix = root.T @ root
    columns = np.array([0, 2, 4])
    block = np.linalg.inv(matrix)[np.ix_(columns, columns)]
    assert_allclose(about_function(matrix, columns), np.linalg.inv(block), rtol=1e-10)


def test_the_resolution_matrix_weighs_data_against_the_bounds(direct):
    found = direct.function().data
    information = MATRIX.T @ MATRIX / 0.1**2
    prior = np.eye(6) * 12 / 9.9**2
    expected = np.linalg.inv(information + prior) @ information
    assert_allclose(found["resolution_matrix"], expected, rtol=1e-6, atol=1e-9)
    assert_allclose(direct.function().degrees_of_freedom, np.trace(expected), rtol=1e-7)
    assert_allclose(resolution_matrix(np.zeros((2, 2)), np.ones(2)), 0.0)


def test_a_perfect_kernel_is_as_wide_as_its_hat_and_a_mean_as_wide_as_what_it_averages():
    perfect = length_scales(np.eye(6), BASIS)[:, 0]
    assert_allclose(perfect, [0.1, 0.2, 0.2, 0.2, 0.2, 0.1], atol=1e-12)
    mean = np.eye(6)
    mean[2] = [0, 1 / 3, 1 / 3, 1 / 3, 0, 0]
    assert_allclose(length_scales(mean, BASIS)[2], 0.6, atol=1e-12)  # 0.1 to 0.7 at half height
    mean[2] = [0, 0, 0.4, 0, 0.8, 0]  # the peak is elsewhere, and the node has to be held
    assert_allclose(length_scales(mean, BASIS)[2], 0.9 - 0.4, atol=1e-12)
    assert np.isinf(length_scales(np.diag([1, 1, 0.005, 1, 1, 1.0]), BASIS)[2])


def test_data_that_see_means_of_neighbors_have_a_longer_length_scale():
    # Only the sum of nodes 2 and 3 is observed, and every other node by itself.
    seen = np.delete(np.eye(6), [2, 3], axis=0)
    rows = np.vstack([seen, [[0, 0, 0.5, 0.5, 0, 0]]])
    found = resolve(lambda k: k.values @ rows.T).function()
    scales = found.data["length_scale"].values
    assert_allclose(scales[[0, 1, 4, 5]], [0.1, 0.2, 0.2, 0.1], rtol=1e-2)
    assert_allclose(scales[2:4], 0.4, rtol=1e-2)
    share = 0.5 * 50 / (50 + 12 / 9.9**2)  # half of what is seen of the mean
    assert_allclose(found.data["determined_share"].values[2:4], share, rtol=1e-7)
    # What is not observed is a direction: the difference of the two.
    assert np.isinf(found.data["direction_sd"].values[0])
    expected = np.array([0, 0, 1, -1, 0, 0]) / np.sqrt(2)
    vector = found.data["direction_vector"].values[0]
    assert_allclose(np.abs(vector @ expected), 1.0, rtol=1e-9)
    curve = found.data["direction_curve"].values[0]
    assert_allclose(curve, BASIS.matrix(found.data["place"].values) @ vector, atol=1e-12)
    inside = (found.data["place"].values > 0.2) & (found.data["place"].values < 0.8)
    determined = found.data["determined"].values
    halfway = np.isclose(found.data["place"].values, 0.5)  # where the difference does not matter
    assert not determined[inside & ~halfway].any()
    assert determined[~inside].all()


def test_the_standard_error_along_a_null_direction_is_infinite():
    information = np.diag([4.0, 0.0])
    assert_allclose(standard_error(information, np.array([[1.0, 0.0], [0.0, 1.0]])), [0.5, np.inf])


def test_a_conductivity_is_not_determined_where_no_heat_flows():
    edges = np.linspace(0, 1, 201)
    middle, sites = (edges[:-1] + edges[1:]) / 2, np.arange(4, 200, 5)

    def temperature(k):
        resistance = 1 / k(middle)
        constant = (resistance * 10 * middle).sum(-1) / resistance.sum(-1)
        slope = (constant[..., None] - 10 * middle) * resistance
        return np.cumsum(slope, axis=-1)[:, sites] / 200

    unknown = ta.UnknownFunction(
        nodes=9, domain=(0, 1), bounds=(0.1, 10.0), truth=lambda x: 1 + 0.5 * x
    )
    found = ta.resolve(temperature, {"k": unknown}, noise=0.01, replicas=2, vectorized=True)
    band = found.function("k")
    # k u' = c - 10 x vanishes at c / 10; for this k, c follows from two integrals by hand.
    flat = (2 - 4 * np.log(1.5)) / (2 * np.log(1.5))
    widest = float(band.data["place"][int(np.argmax(band.band_percent.values))])
    assert abs(widest - flat) < 0.125  # within one node
    narrow = band.band_percent.sel(place=[0.0, 1.0]).values
    assert band.band_percent.max() > 8 * narrow.max()
    assert 7 < band.degrees_of_freedom < 9


def test_layouts_and_functions_are_named_where_there_are_several(direct):
    with pytest.raises(ta.InputError, match="one of the unknown functions k"):
        direct.function("kappa")
    two = ta.resolve(
        lambda k: k(X),
        {"k": ta.UnknownFunction(nodes=NODES, bounds=(0.1, 10.0), truth=VALUES)},
        noise=0.1,
        layouts={"all": np.arange(61), "half": np.arange(0, 61, 2)},
        replicas=2,
        vectorized=True,
    )
    with pytest.raises(ta.InputError, match="one of the layouts all, half"):
        two.function("k")
    few, many = (two.function(layout=name).data["standard_error"] for name in ("half", "all"))
    assert (few.values > many.values).all()
    plain = ta.resolve(
        lambda r: r[:, None] * X, {"r": ta.Parameter(bounds=(1, 3), truth=2.0)}, noise=0.1,
        replicas=2, vectorized=True,
    )  # fmt: skip
    with pytest.raises(ta.InputError, match="an unknown function"):
        plain.function()


def test_it_is_a_result_with_a_file_a_table_and_a_sentence(direct, tmp_path):
    found = direct.function()
    loaded = ta.load(found.save(tmp_path / "function.nc"))
    assert loaded.data.identical(found.data)
    table = found.summary()
    assert table.index.name == "depth"
    assert_allclose(table.index, NODES)
    assert_allclose(table["center"], VALUES)
    assert "k(depth)" in found.headline()
    found.data["upper"].values[3] += 0.1
    found.save(tmp_path / "changed.nc")
    with pytest.raises(ta.InputError, match="upper as it follows"):
        ta.load(tmp_path / "changed.nc")


def test_intervals_of_many_nodes_come_from_one_bootstrap(direct):
    told = direct.to_dict()["by_parameter"]
    for name in ("k[0]", "k[0.4]"):
        for statistic, key in (("mean", "ci95"), ("median", "median_ci95"), ("p90", "p90_ci95")):
            one = direct.interval(statistic, parameter=name)
            assert_allclose(told[name]["error_percent"][key], [one.low, one.high], rtol=1e-12)
