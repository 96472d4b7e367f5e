"""The picture shows what the data hold."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import twoaxis as ta
from twoaxis.remedies.sites.suggest import suggest_sites

T = np.linspace(0, 5, 51)
RATE = {"rate": ta.Parameter(truth=1.0, bounds=(0.1, 10))}


@pytest.fixture(autouse=True)
def _quiet_figures():
    with mpl.rc_context({"backend": "Agg"}):
        yield
    plt.close("all")


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_one_coordinate_is_a_line_and_the_curve_the_prediction():
    found = suggest_sites(
        lambda rate: np.exp(-rate * T), RATE, 0.1, 4, present=[5, 9], points={"t": T}
    )
    left, right = found.plot()
    line = left.get_lines()[0]
    assert T[np.nanargmax(line.get_ydata())] == pytest.approx(T[found.sites[0]], abs=0.5)
    assert texts(left) == ["present (2)", "suggested (4)"]
    assert left.get_xlabel() == "t"
    np.testing.assert_allclose(right.get_lines()[0].get_ydata(), found.predicted)
    np.testing.assert_allclose(right.get_lines()[1].get_ydata(), found.at_random)
    left.get_figure().canvas.draw()


def test_the_sites_as_a_table_and_as_a_file(tmp_path):
    found = suggest_sites(lambda rate: np.exp(-rate * T), RATE, 0.1, 4, points={"index": T})
    table = found.to_dataframe()
    assert table.columns.tolist() == ["index", "index_0", "gain_percent", "predicted_rate_percent"]
    assert table.index.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(table["index"], found.sites)
    np.testing.assert_allclose(table["index_0"], T[found.sites])
    np.testing.assert_allclose(table["predicted_rate_percent"], found.predicted.values[1:])
    worth = found.data["worth_percent"].values[found.sites]
    np.testing.assert_allclose(table["gain_percent"], worth)
    table.to_csv(tmp_path / "sites.csv")
    again = pd.read_csv(tmp_path / "sites.csv", index_col="site")
    pd.testing.assert_frame_equal(again, table)


def field(rate):
    x = np.linspace(0, 1, 1000)
    return np.exp(-rate * T[:, None]) * np.sin(np.pi * x)


@pytest.mark.parametrize("turned", [False, True])
def test_a_grid_is_a_map_that_keeps_its_ridge(turned):
    t, x = np.meshgrid(T, np.linspace(0, 1, 1000), indexing="ij")
    coordinates = {"t": t, "x": x} if turned else {"x": x, "t": t}
    found = suggest_sites(field, RATE, 0.1, 50, points=coordinates)
    left, _ = found.plot()
    mesh = next(c for c in left.collections if hasattr(c, "get_coordinates"))
    assert float(mesh.get_array().max()) == pytest.approx(float(found.data["worth_percent"].max()))
    assert max(mesh.get_array().shape) <= 500
    assert (left.get_xlabel(), left.get_ylabel()) == tuple(coordinates)
    marks = left.get_lines()[0]
    np.testing.assert_allclose(marks.get_xdata(), found.points[:, 0])
    left.get_figure().canvas.draw()


def test_scattered_sites_and_several_points_are_drawn():
    place = np.random.default_rng(0).random((80, 2))
    found = suggest_sites(
        lambda rate: np.exp(-rate * place[:, 0]) * (1 + place[:, 1]),
        RATE, 0.1, 3, at={"rate": (0.5, 2)}, design_points=4, points=place,
        forbidden=lambda p: p[:, 1] > 0.9,
    )  # fmt: skip
    axes = plt.subplots(1, 2)[1]
    left, right = found.plot(ax=axes)
    assert left is axes[0]
    assert len(left.collections[0].get_offsets()) == (place[:, 1] <= 0.9).sum()
    assert "over 4 design points" in texts(right)
    assert "deviation" in right.get_ylabel()
    left.get_figure().canvas.draw()


def test_one_of_several_parameters_is_named():
    parameters = {**RATE, "size": ta.Parameter(truth=2.0, bounds=(0.5, 8))}
    found = suggest_sites(lambda rate, size: size * np.exp(-rate * T), parameters, 0.1, 5)
    _, right = found.plot(parameter="rate")
    # A single site at the start sees the size alone, and nothing is drawn for the rate.
    drawn = right.get_lines()[0]
    assert drawn.get_xdata().tolist() == [2, 3, 4, 5]
    np.testing.assert_allclose(drawn.get_ydata(), found.predicted.sel(parameter="rate")[2:])
    with pytest.raises(ta.InputError, match="one of the parameters"):
        found.plot(parameter="colour")
    with pytest.raises(ta.InputError, match="two axes"):
        found.plot(ax=plt.figure())
