"""Data, field and solver in one picture; what is left of the data; the likelihood."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import twoaxis as ta
from twoaxis import plots


def lines(ax):
    return {line.get_label(): line for line in ax.lines}


def test_one_coordinate_has_lines_a_band_and_the_data(audit_of):
    audit = audit_of("decay")
    group = audit.group("/observations")
    ax = plots.plot_observations(audit)
    t = group["points"].values[:, 0]
    drawn = lines(ax)
    for words, variable in (
        ("data", "data"),
        ("learned field", "field"),
        ("solver, matched estimate", "matched"),
        ("solver, delivered value", "delivered"),
    ):
        x, y = drawn[words].get_data()
        np.testing.assert_array_equal(x, t)
        np.testing.assert_array_equal(y, group[variable].values)
    [band] = ax.collections
    corners = band.get_paths()[0].vertices
    matched, noise = group["matched"].values, group["noise"].values
    assert corners[:, 1].max() == pytest.approx((matched + 2 * noise).max())
    assert corners[:, 1].min() == pytest.approx((matched - 2 * noise).min())
    assert drawn["data"].get_linestyle() == "None"


def test_sensors_have_panels_and_the_worst_fitted_one_comes_first(audit_of):
    audit = audit_of("sensors")
    group = audit.group("/observations")
    first, *panels = plots.plot_observations(audit)
    x, y = lines(first)["learned field"].get_data()
    np.testing.assert_array_equal(x, group["data"].values)
    np.testing.assert_array_equal(y, group["field"].values)
    titles = [panel.get_title(loc="left") for panel in panels]
    assert titles[0] == "x = 2.5"
    assert set(titles) == {"x = 0.5", "x = 1.2", "x = 2.5"}
    here = group["points"].values[:, 0] == 2.5
    t, y = lines(panels[0])["data"].get_data()
    np.testing.assert_array_equal(t, group["points"].values[here, 1])
    np.testing.assert_array_equal(y, group["data"].values[here])
    assert panels[0].get_xlabel() == "t"


def test_scattered_observations_are_cut_into_slices_of_time(audit_of):
    audit = audit_of("scattered")
    group = audit.group("/observations")
    _, *panels = plots.plot_observations(audit)
    sizes = [len(lines(panel)["data"].get_xdata()) for panel in panels]
    assert sum(sizes) == group.sizes["observation"]
    assert max(sizes) - min(sizes) <= 1
    assert {panel.get_xlabel() for panel in panels} == {"x"}
    # Points of a slice are not neighbors: no lines between them.
    assert lines(panels[0])["learned field"].get_linestyle() == "None"


def test_observations_in_no_order_are_not_joined_by_lines(audit_of):
    # Scattered sites whose coordinates were not given: only their numbers are known.
    drawn = lines(plots.plot_observations(audit_of("everything")))
    assert drawn["solver, matched estimate"].get_linestyle() == "None"
    drawn = lines(plots.plot_observations(audit_of("many")))
    assert drawn["solver, matched estimate"].get_linestyle() != "None"


def test_several_fields_are_separate_panels_and_rows():
    t = np.linspace(0, 3, 20)

    def forward(k):
        return np.column_stack([np.exp(-k * t), 1 - np.exp(-k * t)])

    known = {"k": ta.Parameter(delivered=1.0, bounds=(0.3, 3.0))}
    noise = 0.01 * np.random.default_rng(1).standard_normal((20, 2))
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.0) * t, known, t, ta.views.Pointwise(), axes=("t",), fields=("S", "I"),
        fitted=forward(1.0) + np.array([0.0, 0.05]),
    )  # fmt: skip
    found = ta.resolve(
        forward, known, noise=0.01, replicas=5, bank=21, validate=0, progress=False,
        points=np.repeat(t, 2)[:, None],
    )  # fmt: skip
    audit = ta.audit(frozen, resolution=found, data=forward(1.0) + noise)
    _, *panels = plots.plot_observations(audit)
    assert [panel.get_title(loc="left") for panel in panels] == ["I", "S"]
    x, y = lines(panels[0])["data"].get_data()
    np.testing.assert_array_equal(x, t)
    np.testing.assert_array_equal(y, (forward(1.0) + noise)[:, 1])
    rows = [text.get_text() for text in plots.plot_misfit(audit).get_yticklabels()]
    assert {row.split(",")[0] for row in rows} == {"S", "I"}


def test_one_axis_has_the_first_panel_and_a_figure_all(audit_of):
    audit = audit_of("sensors")
    _, ax = plt.subplots()
    assert plots.plot_observations(audit, ax=ax) is ax
    assert ax.get_xlabel() == "observed"
    figure = plt.figure(layout="constrained")
    top, _ = figure.subfigures(2, 1)
    panels = plots.plot_observations(audit, ax=top)
    assert all(panel.figure is top for panel in panels)
    figure.canvas.draw()


def test_misfits_are_in_noise_levels_with_their_bands(audit_of):
    audit = audit_of("decay")
    group = audit.group("/observations")
    ax = plots.plot_misfit(audit)
    drawn = [line for line in ax.lines if line.get_marker() != "None"]
    for line, variable in zip(drawn, ("field_misfit", "matched_misfit"), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), group[variable].values)
        rms = np.sqrt(np.mean(group[variable].values ** 2))
        assert f"rms {rms:.2g}" in line.get_label()
    heights = sorted(patch.get_height() for patch in ax.patches)
    assert heights == pytest.approx([2.0, 4.0])


def test_misfits_by_sensor(audit_of):
    audit = audit_of("sensors")
    group = audit.group("/observations")
    ax = plots.plot_misfit(audit)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x = 0.5", "x = 1.2", "x = 2.5"]
    field = lines(ax)["learned field"]
    row = field.get_xdata()[np.round(field.get_ydata()) == 2]
    here = group["points"].values[:, 0] == 2.5
    np.testing.assert_allclose(row, np.sort(group["field_misfit"].values[here]))


def test_the_likelihood_has_its_levels_and_the_delivered_value(audit_of):
    audit = audit_of("decay")
    upper, lower = plots.plot_likelihood(audit)
    drawn = lines(upper)
    x, y = drawn["profile likelihood"].get_data()
    matched = audit.group("/matched").sel(parameter="beta")
    assert x[np.argmin(y)] == pytest.approx(float(matched["estimate"]), rel=1e-6)
    # Where the deviance is 3.84 the 95% interval of the matched fit ends.
    inside = x[y <= 3.841]
    assert inside.min() == pytest.approx(float(matched["lower"]), rel=2e-3)
    assert inside.max() == pytest.approx(float(matched["upper"]), rel=2e-3)
    levels = [line.get_ydata()[0] for line in upper.lines if line.get_linestyle() == "--"]
    assert levels[:2] == [1.0, 4.0]
    deviance = float(audit.group("/resimulation")["deviance"].sel(value_of="delivered"))
    assert f"delivered 0.8 (deviance {deviance:.3g})" in drawn
    assert upper.get_xlim() == lower.get_xlim()
    # The frozen profile is never called a likelihood.
    assert lower.get_ylabel() == "residual loss of the frozen field"
    _, ax = plt.subplots()
    assert plots.plot_likelihood(audit, ax=ax) is ax


def test_a_part_of_a_frozen_profile_goes_through_what_was_computed(audit_of):
    audit = audit_of("everything")
    ax = plots.plot_profile(audit, limits=(1.0, 1.6), legend=False)
    x, y = ax.lines[0].get_data()
    scan = audit.scan.data.sel(parameter="k")
    computed = scan["candidate_value"].values
    here = (computed > 1.0) & (computed < 1.6)
    got = [y[np.argmin(np.abs(x - value))] for value in computed[here]]
    np.testing.assert_allclose(got, scan["profile"].values[here], rtol=1e-6)
    assert x[np.argmin(y)] == pytest.approx(audit.scan.minimum["k"], rel=1e-6)
    assert ax.get_legend() is None


def test_the_matched_interval_is_a_band_over_the_traces(audit_of):
    audit = audit_of("everything")
    ax = plots.plot_along_training(audit)
    [band] = [patch for patch in ax.patches if "interval" in patch.get_label()]
    matched = audit.group("/matched").sel(parameter="k")
    assert band.get_y() == pytest.approx(float(matched["lower"]))
    assert band.get_y() + band.get_height() == pytest.approx(float(matched["upper"]))


@pytest.mark.parametrize("draw", [plots.plot_observations, plots.plot_likelihood])
def test_what_is_missing_is_named_with_its_call(audit_of, draw):
    with pytest.raises(ta.InputError, match=r"fix: use twoaxis\.audit"):
        draw(audit_of("no resolution"))
