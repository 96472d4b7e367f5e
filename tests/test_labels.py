"""Labels of xarray and pandas input: the same answer in any order, or an error."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import twoaxis as ta
from twoaxis.labels import coordinate_columns

# Wrong orders are fitted as well, to see that the order matters.
pytestmark = pytest.mark.filterwarnings("ignore::twoaxis.MisfitWarning")

SIZE = 8
AXIS = np.linspace(0.0, 1.0, SIZE)
GRID = xr.DataArray(np.zeros((SIZE, SIZE)), {"t": AXIS, "x": AXIS}, ("t", "x"))
NOISE = 0.02 * (1 + GRID.t + 0 * GRID.x)
PARAMETERS = {"k": ta.Parameter(bounds=(0.3, 3.0), delivered=1.0)}
SHUFFLED = np.random.default_rng(1).permutation(SIZE)
TIMES = pd.Index(np.linspace(0.0, 2.0, 30), name="t")


def field(k):
    return np.exp(-k * GRID.t) * np.sin(3 * GRID.x + k)


DATA = field(1.2) + NOISE * np.random.default_rng(0).standard_normal(GRID.shape)


def decay(k):
    return np.exp(-k * TIMES.to_numpy())


SIZES = pd.Series(np.linspace(0.02, 0.08, 30), TIMES)
SERIES = pd.Series(decay(1.2) + SIZES * np.random.default_rng(3).standard_normal(30), TIMES)


def estimate(data, forward=field, noise=NOISE, **options):
    found = ta.resolve(forward, PARAMETERS, noise, data=data, replicas=2, progress=False, **options)
    return float(found.data["data_estimate"].values.item())


REORDERED = {
    "transposed": lambda a: a.T,
    "entries": lambda a: a.isel(x=SHUFFLED),
    "both": lambda a: a.T.isel(t=SHUFFLED),
    "frame": lambda a: a.to_pandas().T,
    "stacked": lambda a: a.stack(p=("x", "t")),
    "pairs": lambda a: a.stack(p=("x", "t")).to_series().sample(frac=1.0, random_state=0),
    "rounded": lambda a: a.assign_coords(x=AXIS.astype("f4"), t=AXIS * (1 + 1e-12)).T,
}


@pytest.mark.parametrize("change", REORDERED.values(), ids=REORDERED)
def test_data_and_noise_follow_the_labels_of_forward(change):
    assert abs(estimate(DATA.values.T) / estimate(DATA) - 1) > 0.05  # the order matters
    assert estimate(change(DATA)) == estimate(DATA)
    assert estimate(DATA, noise=change(NOISE)) == estimate(DATA)


@pytest.mark.parametrize("change", REORDERED.values(), ids=REORDERED)
def test_observations_follow_the_labels_of_forward(change):
    values = change(DATA)
    data = ta.Observations(values, noise=NOISE if values.ndim == 2 else change(NOISE))
    assert_allclose(estimate(data, noise=None), estimate(DATA), rtol=1e-12)
    with pytest.raises(ta.InputError, match="labels of what forward returns"):
        estimate(ta.Observations(DATA.assign_coords(x=AXIS + 0.1), noise=0.1), noise=None)


def test_a_vectorized_forward_has_labels_after_its_first_axis():
    def forward(k):
        return field(xr.DataArray(k, dims="run")).transpose("run", "t", "x")

    assert estimate(DATA.T, forward, vectorized=True) == estimate(DATA)


def test_data_of_a_layout_follow_the_labels_of_its_sites():
    sites = np.array([3, 60, 9, 17, 33])
    pairs = DATA.stack(p=("t", "x")).to_series().iloc[sites]
    plain = estimate({"a": pairs.to_numpy()}, layouts={"a": sites})
    assert estimate({"a": pairs.iloc[[4, 2, 0, 1, 3]]}, layouts={"a": sites}) == plain
    assert estimate(pairs.swaplevel().iloc[::-1], layouts={"a": sites}) == plain
    with pytest.raises(ta.InputError, match="labels that are not there"):
        estimate({"a": pairs}, layouts={"a": sites + 1})


MISMATCHED = {
    "axes": DATA.rename(x="z"),
    "entries": DATA.assign_coords(x=AXIS + 0.1),
    "repeated": DATA.isel(x=[0, *range(SIZE - 1)]),
}


@pytest.mark.parametrize("data", MISMATCHED.values(), ids=MISMATCHED)
def test_labels_that_do_not_match_are_refused_and_the_fix_works(data):
    with pytest.raises(ta.InputError, match="labels of what forward returns") as error:
        estimate(data)
    assert ".to_numpy()" in error.value.fix
    with np.errstate(all="ignore"):
        assert np.isfinite(estimate(DATA.to_numpy()))


def test_noise_and_points_follow_the_data_where_forward_has_no_labels():
    whole = estimate(SERIES, decay, SIZES)
    assert abs(estimate(SERIES, decay, SIZES.to_numpy()[::-1]) / whole - 1) > 1e-3
    assert estimate(SERIES, decay, SIZES.iloc[::-1]) == whole
    covariance = pd.DataFrame(np.diag(SIZES**2), TIMES, TIMES)
    for other in (covariance.iloc[::-1], covariance.iloc[::-1, ::-1], covariance):
        assert_allclose(estimate(SERIES, decay, other), whole, rtol=1e-9)
    counted = SIZES.reset_index(drop=True).sample(frac=1.0, random_state=0)
    assert estimate(SERIES.to_numpy(), decay, counted.sort_index()) == whole
    assert estimate(SERIES.reset_index(drop=True), decay, counted) == whole
    points = pd.DataFrame({"t": TIMES.to_numpy()}, TIMES).iloc[::-1]
    found = ta.resolve(
        decay, PARAMETERS, SIZES, data=SERIES, points=points, replicas=2, progress=False
    )
    assert_array_equal(found.live.setup.points[:, 0], TIMES)
    with pytest.raises(ta.InputError, match="labels of data"):
        estimate(SERIES, decay, SIZES.set_axis(TIMES + 0.01))


def test_noise_does_not_put_data_into_an_order_that_forward_may_not_have():
    shuffled, all_of = SIZES.sample(frac=1.0, random_state=1), {"a": np.arange(30)}
    turned = DATA.stack(p=("t", "x"))
    for data, forward, noise, layouts in (
        ({"a": SERIES}, decay, shuffled, all_of),
        (SERIES.to_frame(), decay, shuffled, None),
        (turned, lambda k: field(k).to_numpy(), NOISE.T, None),
    ):
        with pytest.raises(ta.InputError, match="data and noise in the order of what forward"):
            estimate(data, forward, noise, layouts=layouts)
    whole = estimate(SERIES, decay, SIZES)
    assert estimate({"a": SERIES}, decay, shuffled.reindex(TIMES), layouts=all_of) == whole
    assert (
        estimate({"a": SERIES}, lambda k: SERIES * 0 + decay(k), shuffled, layouts=all_of) == whole
    )
    assert estimate(turned, lambda k: field(k).to_numpy(), NOISE) == estimate(DATA)
    with pytest.raises(ta.InputError, match="data and noise in the order of what forward"):
        ta.confidence_set(
            pipeline, decay, PARAMETERS, noise=shuffled, data=SERIES, candidates=5, replicas=9,
            level=0.8, progress=False,
        )  # fmt: skip


def test_only_one_labeled_input_has_nothing_to_match():
    by_size = SERIES.sort_values()
    assert estimate(by_size, decay, 0.05) == estimate(by_size.to_numpy(), decay, 0.05)
    later = SERIES.set_axis(np.arange(10, 40))  # rows of a larger table
    assert estimate(later, decay, 0.05) == estimate(SERIES, decay, 0.05)


def test_fitted_and_later_data_follow_the_labels_of_a_resolution():
    found = ta.resolve(field, PARAMETERS, NOISE, data=DATA, replicas=2, progress=False)
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.0) * AXIS, PARAMETERS, AXIS, view=ta.views.Pointwise()
    )
    expected = ta.audit(frozen, data=DATA, fitted=field(1.0), resolution=found)
    other = ta.audit(frozen, data=DATA.T, fitted=field(1.0).isel(x=SHUFFLED).T, resolution=found)
    for group in ("/field_fit", "/observations", "/matched"):
        assert other.group(group).equals(expected.group(group))
    by_layout = ta.resolve(decay, PARAMETERS, 0.05, data={"all": SERIES}, replicas=2)
    plain = ta.audit(frozen, fitted=decay(1.0), resolution=by_layout).group("/field_fit")
    turned = pd.Series(decay(1.0), TIMES).iloc[::-1]
    assert ta.audit(frozen, fitted=turned, resolution=by_layout).group("/field_fit").equals(plain)


def test_noise_and_fitted_follow_data_without_a_forward_model():
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.0) * AXIS, PARAMETERS, AXIS, view=ta.views.Pointwise()
    )
    fitted = pd.Series(decay(1.0), TIMES)
    plain = ta.audit(frozen, data=SERIES, noise=SIZES, fitted=fitted)
    other = ta.audit(frozen, data=SERIES, noise=SIZES.iloc[::-1], fitted=fitted.iloc[::-1])
    assert other.group("/field_fit").equals(plain.group("/field_fit"))
    with pytest.raises(ta.InputError, match="fitted with the labels of the observations"):
        ta.audit(frozen, data=SERIES, noise=SIZES, fitted=fitted.set_axis(TIMES + 1))


def test_suggested_sites_follow_the_labels_of_forward():
    def chosen(change=lambda a: a):
        forbidden = (GRID.t > 0.5) & (GRID.x < 2)
        points = {"t": change(GRID.t + 0 * GRID.x), "x": change(0 * GRID.t + GRID.x)}
        found = ta.suggest_sites(
            field, PARAMETERS, change(NOISE), 4, points=points, spacing=0.3,
            forbidden=change(forbidden), progress=False,
        )  # fmt: skip
        return found.points.values

    assert_array_equal(chosen(REORDERED["both"]), chosen())


def pipeline(values, seed):
    return float(np.mean(values)) + 0 * seed


def test_confidence_sets_follow_the_labels_of_forward():
    def found(data, noise):
        return ta.confidence_set(
            pipeline, lambda k: k + 0 * GRID, PARAMETERS,
            noise=noise, data=data, candidates=5, replicas=9, level=0.8, layout=[0, 1, 2],
            progress=False,
        )  # fmt: skip

    expected = found(DATA, NOISE)
    other = found(DATA.T, NOISE.T)
    assert (other.estimate, other.intervals) == (expected.estimate, expected.intervals)


def test_another_order_of_the_fitting_model_is_refused():
    with pytest.raises(ta.InputError, match="order of forward"):
        estimate(DATA, fit_forward=lambda k: field(k).T)
    assert estimate(DATA, fit_forward=field) == estimate(DATA)


def test_what_the_caller_changes_later_does_not_change_the_result():
    data, noise = SERIES.to_numpy().copy(), SIZES.to_numpy().copy()
    points, sites = TIMES.to_numpy()[:, None].copy(), np.arange(30)
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.0) * AXIS, PARAMETERS, AXIS, view=ta.views.Pointwise()
    )
    options = dict(layouts={"a": sites}, points=points, replicas=2, progress=False)
    for given in (data, {"a": data}):
        found = ta.resolve(decay, PARAMETERS, noise, data=given, **options)
        before = ta.audit(frozen, fitted=decay(1.0), resolution=found)
        kept = [each.copy() for each in (data, noise, points, sites)]
        for each in (data, noise, points):
            each *= 3
        sites[:] = sites[::-1].copy()
        after = ta.audit(frozen, fitted=decay(1.0), resolution=found)
        for group in ("/matched", "/observations", "/resimulation", "/likelihood"):
            assert after.group(group).equals(before.group(group))
        for each, old in zip((data, noise, points, sites), kept, strict=True):
            each[:] = old


def test_named_coordinates_of_candidates_are_put_in_the_order_of_the_field():
    x, t = np.arange(3.0), np.arange(3.0) + 10
    expected = np.column_stack([x, t])
    frame = pd.DataFrame({"t": t, "x": x})
    turned = {"t": pd.Series(t).iloc[::-1], "x": pd.Series(x)}
    for points in ({"t": t, "x": x}, frame, turned):
        found = coordinate_columns(points, ("x", "t"))
        assert_array_equal(found[np.argsort(found[:, 0])], expected)
    assert_array_equal(coordinate_columns({"b": x, "a": t}, ()), expected)
    with pytest.raises(ta.InputError, match="points with the coordinates x, t"):
        coordinate_columns({"x": x, "y": t}, ("x", "t"))


def test_rows_of_a_frozen_residual_belong_together():
    def freeze(data=SERIES, **given):
        given = {"fitted": pd.Series(decay(1.0), TIMES), "observed": TIMES.to_frame()} | given
        return ta.FrozenResidual(
            lambda k: (k - 1.0) * AXIS, PARAMETERS, AXIS, ta.views.Pointwise(), data=data, **given
        )

    shuffled = SERIES.sample(frac=1.0, random_state=0)
    for given in (
        {"data": shuffled},
        {"fitted": pd.Series(decay(1.0), TIMES).iloc[::-1]},
        {"observed": TIMES.to_frame().iloc[::-1]},
    ):
        with pytest.raises(ta.InputError, match="in the order of data"):
            freeze(**given)
    with pytest.raises(ta.InputError, match="fitted in the order of data"):
        freeze(DATA, fitted=field(1.0).T, observed=None)
    frozen = freeze()
    with pytest.raises(ta.InputError, match="data in the order of the observations"):
        ta.audit(frozen, data=shuffled, noise=0.05)
    expected = ta.audit(frozen, data=SERIES, noise=0.05).group("/field_fit")
    mended = ta.audit(frozen, data=shuffled.reindex(TIMES), noise=0.05)
    assert mended.group("/field_fit").equals(expected)
