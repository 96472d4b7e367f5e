"""Evidence maps: the right region first, tables, files, errors."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.io import write_netcdf
from twoaxis.remedies import evidence_map

KAPPA = {"kappa": ta.Parameter(truth=0.1, bounds=(0.01, 1.0))}


def distorted(seed, size=500):
    """A heat field that is exact but for a bump in the diffusive term inside one random cell."""
    generator = np.random.default_rng(seed)
    points = generator.random((size, 2))
    x, t = points.T
    u_t = -np.exp(-t) * (1.3 + np.sin(np.pi * x))
    u_xx = u_t / 0.1
    middle = (generator.integers(0, 5, 2) + 0.5) / 5
    bump = np.exp(-(((x - middle[0]) ** 2 + (t - middle[1]) ** 2) / 0.05**2))
    u_xx = u_xx * (1 + 0.8 * bump)
    small = 0.01 * generator.standard_normal(size)
    return points, middle, lambda kappa: u_t - kappa * u_xx + small


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "view",
    [
        ta.views.Pointwise(),
        ta.views.Patch(cells=8),
        ta.views.Gaussian(),
        ta.views.Gaussian(rank=64),
        ta.views.Weighted(loss_weights=np.linspace(0.5, 1.5, 500)),
    ],
    ids=lambda view: view.describe(),
)
def test_the_distorted_cell_is_found_first(view, seed):
    points, middle, residual = distorted(seed)
    found = evidence_map(residual, KAPPA, view, points=points, regions=5, modes=False)
    first = found.data.isel(region=0)
    assert (first["low"].values <= middle).all()
    assert (middle <= first["high"].values).all()
    leading = found.leading()
    # Most of the displacement goes with it.
    assert abs(leading["without"]) < 0.5 * abs(found.displacement["kappa"])
    assert leading["change"] * found.displacement["kappa"] < 0


def test_large_quiet_regions_do_not_lead():
    """A region full of strength moves D when it goes, but it does not cause it."""
    x = np.linspace(0, 1, 400)
    bump = 2 * np.exp(-(((x - 0.8) / 0.03) ** 2))
    labels = np.where(x < 0.7, "quiet half", "the bump's")
    found = evidence_map(
        lambda k: k * np.ones(400) - 1 - bump, {"k": ta.Parameter(truth=1.0, bounds=(0.2, 5))},
        ta.views.Pointwise(), points=x, regions=labels,
    )  # fmt: skip
    table = found.summary()
    assert list(table.index) == ["the bump's", "quiet half"]
    assert table["change"].iloc[0] < 0 < table["change"].iloc[1]
    assert table["without"].iloc[0] == pytest.approx(0, abs=1e-3)


def test_cells_are_those_of_the_box():
    points = np.array([[0.0, 5.0], [1.0, 5.0], [0.26, 5.0], [0.6, 5.0], [0.55, 5.0]])
    found = evidence_map(
        lambda k: k * np.arange(1.0, 6.0) - 1, {"k": ta.Parameter(truth=1.0, bounds=(0.2, 5))},
        ta.views.Pointwise(), points=points, regions=4,
    )  # fmt: skip
    data = found.data.sortby("region")
    names = ["x0 0.00 to 0.25", "x0 0.25 to 0.50", "x0 0.50 to 0.75", "x0 0.75 to 1.00"]
    assert list(data["region"].values) == names
    np.testing.assert_array_equal(data["points_in_region"], [1, 1, 2, 1])
    np.testing.assert_allclose(data["low"][:, 0], [0, 0.25, 0.5, 0.75])


@pytest.mark.parametrize("view", [ta.views.Patch(cells=6), ta.views.Gaussian(rank=20)])
def test_modes_are_those_of_the_spectrum(view):
    points, _, residual = distorted(0, size=300)
    found = evidence_map(residual, KAPPA, view, points=points)
    modes = found.modes()
    spectrum = ta.spectrum(residual, KAPPA, view, points=points)
    np.testing.assert_allclose(modes["strength"], spectrum.strength, rtol=1e-9)
    np.testing.assert_allclose(modes["signed"], spectrum.signed, rtol=1e-9, atol=1e-15)
    assert modes["strength_share"].sum() == pytest.approx(1.0)
    assert modes["signed_share"].abs().sum() == pytest.approx(1.0)


def test_modes_of_a_pointwise_view_keep_the_sums():
    points, _, residual = distorted(0, size=120)
    found = evidence_map(residual, KAPPA, ta.views.Pointwise(), points=points, modes=120)
    whole = ta.score(residual, KAPPA, ta.views.Pointwise(), points=points)
    assert found.modes()["signed"].sum() == pytest.approx(whole.B, rel=1e-9)
    assert found.modes()["strength_share"].sum() == pytest.approx(1.0)


def test_table_words_and_dataset():
    points, _, residual = distorted(1)
    found = evidence_map(residual, KAPPA, ta.views.Patch(cells=8), points=points, regions=4)
    table = found.summary()
    whole = ta.score(residual, KAPPA, ta.views.Patch(cells=8), points=points)
    assert table["B"].sum() == pytest.approx(whole.B)
    assert found.displacement == whole.displacement
    assert table["H_share"].sum() == pytest.approx(1.0)
    assert table["B_share"].abs().sum() == pytest.approx(1.0)
    np.testing.assert_allclose(table["without"] - table["change"], found.displacement["kappa"])
    text = repr(found)
    assert f"D of kappa is {found.displacement['kappa']:+.4g}" in text
    assert str(table.index[0]) in text
    assert found.data.sizes["region"] == 16


def test_several_parameters_are_named():
    points, _, _ = distorted(1)
    known = {**KAPPA, "c": ta.Parameter(truth=1.0, bounds=(0.1, 10.0))}
    x, t = points.T
    found = evidence_map(
        lambda kappa, c: np.sin(x) - kappa * np.cos(t) + c * x, known, ta.views.Pointwise(),
        points=points,
    )  # fmt: skip
    with pytest.raises(ta.InputError, match="one of the parameters kappa, c"):
        found.leading()
    assert found.summary().loc["c"].equals(found.summary("c"))
    for name in known:
        gone = -found.summary(name)["change"] * np.sign(found.displacement[name])
        assert gone.is_monotonic_decreasing


@pytest.mark.parametrize(
    ("regions", "words"),
    [
        (0, "number of cells"),
        (1, "at least two regions"),
        (2.5, "number of cells"),
        (True, "number of cells"),
        ("left", "number of cells"),
        (np.zeros(200, int), "at least two regions"),
        (np.zeros(7, int), "label each of the 200"),
        (np.linspace(0, 1, 200), "an array of float64"),
        (np.zeros((200, 2), int), "shape"),
    ],
)
def test_regions_that_cannot_be_used(regions, words):
    points = np.random.default_rng(0).random((200, 2))
    with pytest.raises(ta.InputError, match=words):
        evidence_map(
            lambda k: k * points[:, 0] - 1, {"k": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))},
            ta.views.Pointwise(), points=points, regions=regions,
        )  # fmt: skip


def test_other_bad_input():
    points = np.random.default_rng(0).random((30, 2))
    known = {"k": ta.Parameter(truth=1.0, bounds=(0.2, 5.0))}

    def residual(k):
        return k * points[:, 0] - 1

    with pytest.raises(ta.InputError, match="a view of the residual"):
        evidence_map(residual, known, points=points)
    with pytest.raises(ta.InputError, match="a view of 30 residual values"):
        evidence_map(residual, known, ta.views.Pointwise().bind(points[:20]), points=points)
    with pytest.raises(ta.InputError, match="spectrum as True"):
        evidence_map(residual, known, ta.views.Pointwise(), points=points, modes=-1)
    found = evidence_map(residual, known, ta.views.Pointwise(), points=points, modes=False)
    with pytest.raises(ta.InputError, match="modes=128"):
        found.modes()


@pytest.mark.parametrize("labels", [[0, 1], [0, 1] * 100, np.arange(800)])
def test_labels_of_another_length_are_refused(labels):
    x = np.linspace(0, 1, 400)
    with pytest.raises(ta.InputError, match="label each of the 400 residual values"):
        evidence_map(
            lambda k: k * np.ones(400) - 1, {"k": ta.Parameter(truth=1.0, bounds=(0.2, 5))},
            ta.views.Pointwise(), points=x, regions=labels,
        )  # fmt: skip


def test_labels_of_shared_points_are_as_many_as_points_or_values():
    x = np.linspace(0, 1, 40)
    shared = ta.FrozenResidual(
        lambda k: (k * x - 1, k * np.ones(40) - x), {"k": ta.Parameter(truth=1.0, bounds=(0.2, 5))},
        x, ta.views.Blocks([ta.views.Pointwise(), ta.views.Pointwise()]),
    )  # fmt: skip
    halves = (x > 0.5).astype(int)
    by_point = evidence_map(shared, regions=halves)
    by_value = evidence_map(shared, regions=np.tile(halves, 2))
    np.testing.assert_array_equal(by_point.data["change"], by_value.data["change"])
    with pytest.raises(ta.InputError, match="80 residual values, or each of the 40 points"):
        evidence_map(shared, regions=halves[:20])


@pytest.mark.parametrize("modes", [False, 16])
def test_a_map_comes_back_from_a_file(modes, tmp_path):
    points, _, residual = distorted(1, size=200)
    found = evidence_map(residual, KAPPA, ta.views.Patch(cells=8), points=points, modes=modes)
    again = ta.load(found.save(tmp_path / "map.nc"))
    assert repr(again) == repr(found)
    assert again.summary().equals(found.summary())
    if modes:
        assert again.modes().equals(found.modes())


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.assign(change=d["change"] * 1.1),
        lambda d: d.assign(H_share=d["H_share"] + 0.1),
        lambda d: d.assign(region_of_point=d["region_of_point"] * 0),
        lambda d: d.assign(region_of_point=d["region_of_point"] + 99),
        lambda d: d.drop_vars("points"),
    ],
)
def test_a_file_that_was_changed_is_refused(change, tmp_path):
    points, _, residual = distorted(1, size=60)
    found = evidence_map(residual, KAPPA, ta.views.Pointwise(), points=points, regions=3)
    with pytest.raises(ta.InputError):
        ta.load(write_netcdf(tmp_path / "map.nc", change(found.data)))
