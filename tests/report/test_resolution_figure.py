"""The picture shows the numbers it was given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import twoaxis as ta

T = np.linspace(0, 1, 30)


@pytest.fixture
def found():
    parameters = {"rate": ta.Parameter(truth=2.0, bounds=(0.2, 20.0))}
    layouts = {"early": np.arange(15), "late": np.arange(15, 30)}
    return ta.resolve(
        lambda rate: np.exp(-rate * T), parameters, 0.05, layouts, replicas=150, seed=0
    )


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_bars_are_a_density_of_the_signed_deviations(found):
    ax = ta.plots.plot_resolution(found)
    area = sum(bar.get_width() * bar.get_height() for bar in ax.patches)
    assert area == pytest.approx(1)
    deviations = 100 * (found.estimate / 2.0 - 1)
    left = min(bar.get_x() for bar in ax.patches)
    right = max(bar.get_x() + bar.get_width() for bar in ax.patches)
    assert left == pytest.approx(float(deviations.min()))
    assert right == pytest.approx(float(deviations.max()))


def test_the_curve_is_the_fisher_prediction(found):
    ax = ta.plots.plot_resolution(found, layout="early")
    x, density = ax.lines[0].get_data()
    sigma = float(found.fisher_error_percent.sel(layout="early")) * np.sqrt(np.pi / 2)
    assert np.trapezoid(density, x.ravel()) == pytest.approx(1, abs=1e-3)
    assert np.max(density) == pytest.approx(1 / (sigma * np.sqrt(2 * np.pi)), rel=1e-3)


def test_it_draws_on_a_given_axis_and_returns_it(found):
    _, ax = plt.subplots()
    assert ta.plots.plot_resolution(found, ax=ax) is ax
    mean = float(found.error_percent.mean())
    assert f"mean error {mean:.2f}%" in ax.get_title()


def test_without_truth_it_does_not_speak_of_error():
    parameters = {"rate": ta.Parameter(delivered=2.0, bounds=(0.2, 20.0))}
    found = ta.resolve(lambda rate: np.exp(-rate * T), parameters, 0.05, replicas=20)
    ax = ta.plots.plot_resolution(found)
    texts = [ax.get_title(), ax.get_xlabel(), *(t.get_text() for t in ax.get_legend().texts)]
    assert not any("error" in text or "truth" in text for text in texts)


def test_unknown_layouts_and_parameters_are_refused(found):
    with pytest.raises(ta.InputError, match="early, late"):
        ta.plots.plot_resolution(found, layout="noon")
    with pytest.raises(ta.InputError, match="rate"):
        ta.plots.plot_resolution(found, parameter="nu")
