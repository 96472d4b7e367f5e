"""A contract for every picture: it draws on the given axis whatever the audit holds."""

import re
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import twoaxis as ta
from twoaxis import plots
from twoaxis.report.figures.profile import close_limits
from twoaxis.report.sections import profile_section

FORBIDDEN = re.compile("(?<!standard )error|truth", re.IGNORECASE)

# A picture, its options, and the groups of which the audit needs one.
PICTURES = {
    "decision map": (plots.plot_decision_map, {}, ()),
    "profile": (plots.plot_profile, {}, ()),
    "training profile": (plots.plot_profile, {"training_view": True}, ()),
    "resolution": (plots.plot_resolution, {}, ("resolution",)),
    "spectrum": (plots.plot_spectrum, {}, ("spectrum",)),
    "delivery": (plots.plot_delivery, {}, ("delivery",)),
    "evidence": (plots.plot_evidence, {}, ()),
    "residual": (plots.plot_evidence, {"quantity": "residual"}, ()),
    "field": (plots.plot_evidence, {"quantity": "field"}, ("field/field",)),
    "training": (plots.plot_along_training, {}, ("snapshots", "history/value")),
    "loss": (plots.plot_along_training, {"quantity": "loss"}, ("history",)),
    "strength": (plots.plot_along_training, {"quantity": "strength"}, ("snapshots",)),
    "gap": (plots.plot_along_training, {"quantity": "gap"}, ("snapshots",)),
}


def holds(audit, needed):
    def one(path):
        group, _, variable = path.partition("/")
        found = audit.group(f"/{group}")
        return found is not None and (not variable or variable in found)

    return not needed or any(map(one, needed))


def words(ax):
    """All texts of a drawn figure."""
    figure = ax.figure
    return [text.get_text() for text in figure.findobj(plt.Text) if text.get_visible()]


@pytest.mark.parametrize("picture", PICTURES)
def test_every_picture_of_every_audit(audit_of, case, picture):
    draw, options, needed = PICTURES[picture]
    audit = audit_of(case)
    for name in audit.names:
        figure, ax = plt.subplots(layout="constrained")
        if not holds(audit, needed):
            with pytest.raises(ta.InputError, match="fix: use twoaxis"):
                draw(audit, parameter=name, ax=ax, **options)
            continue
        assert draw(audit, parameter=name, ax=ax, **options) is ax
        figure.canvas.draw()
        if audit.centered_on != "truth":
            assert not [text for text in words(ax) if FORBIDDEN.search(text)]
        assert ax.has_data() or words(ax)
        plt.close(figure)


@pytest.mark.parametrize("picture", PICTURES)
def test_a_fresh_axis_and_a_loaded_audit(audit_of, loaded, picture):
    draw, options, _ = PICTURES[picture]
    for data in (audit_of("everything"), loaded):
        before = plt.get_fignums()
        ax = draw(data, **options)
        assert len(plt.get_fignums()) == len(before) + 1
        ax.figure.canvas.draw()


@pytest.mark.parametrize("picture", [p for p in PICTURES if p not in ("decision map", "residual")])
def test_several_parameters_have_to_be_named(audit_of, picture):
    draw, options, needed = PICTURES[picture]
    audit = audit_of("two")
    if not holds(audit, needed):
        return
    with pytest.raises(ta.InputError, match="one of the parameters c, k"):
        draw(audit, **options)
    with pytest.raises(ta.InputError, match="'nu'"):
        draw(audit, parameter="nu", **options)


@pytest.mark.parametrize("picture", PICTURES)
def test_what_is_no_audit_is_refused(audit_of, picture):
    draw, options, _ = PICTURES[picture]
    for data in ("audit.nc", None, audit_of("everything").data):
        with pytest.raises(ta.InputError, match=r"twoaxis\.audit"):
            draw(data, **options)


def test_unknown_quantities_are_refused(audit_of):
    with pytest.raises(ta.InputError, match="residual"):
        plots.plot_evidence(audit_of("everything"), quantity="colour")
    with pytest.raises(ta.InputError, match="strength"):
        plots.plot_along_training(audit_of("everything"), quantity="colour")
    with pytest.raises(ta.InputError, match="one of the layouts all"):
        plots.plot_resolution(audit_of("everything"), layout="noon")


def test_pyplot_waits_until_it_is_needed():
    code = "import twoaxis, sys; sys.exit('matplotlib' in sys.modules or 'jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def position(ax, line):
    """A marker's place in data."""
    inside = ax.transAxes.transform(np.column_stack(line.get_data()))
    return ax.transData.inverted().transform(inside)[0]


def test_the_point_lies_at_the_measured_coordinates(audit_of):
    audit = audit_of("everything")
    ax = plots.plot_decision_map(audit)
    row = audit.summary().loc["k"]
    [marker] = [line for line in ax.lines if line.get_marker() == "o"]
    x, y = position(ax, marker)
    assert x == pytest.approx(row["preference_percent"])
    assert y == pytest.approx(row["resolution_percent"])
    shown = words(ax)
    for route in ("improve observations", "co-design", "inspect endpoint", "strengthen residual"):
        assert any(route in " ".join(text.split()) for text in shown)
    assert next(line.get_xdata()[0] for line in ax.lines if line.get_marker() == "None") == 5.0


def test_every_parameter_is_on_the_map(audit_of):
    audit = audit_of("two")
    ax = plots.plot_decision_map(audit)
    markers = [line for line in ax.lines if line.get_marker() not in ("None", "")]
    table = audit.summary()
    for line, name in zip(markers, "ck", strict=True):
        assert position(ax, line)[0] == pytest.approx(table.loc[name, "preference_percent"])
    assert len(markers) == 2
    one = plots.plot_decision_map(audit, parameter="k")
    assert len([line for line in one.lines if line.get_marker() not in ("None", "")]) == 1


def test_a_missing_coordinate_is_a_line_and_a_note(audit_of):
    ax = plots.plot_decision_map(audit_of("no resolution"))
    assert any("not known" in text for text in words(ax))
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    expected = audit_of("no resolution").summary()["preference_percent"].item()
    assert dashed[0].get_xdata()[0] == pytest.approx(expected)
    assert any(
        "neither coordinate" in text for text in words(plots.plot_decision_map(audit_of("flat")))
    )


def test_around_a_candidate_the_map_has_no_evidence_column(audit_of, candidate_case):
    ax = plots.plot_decision_map(audit_of(candidate_case))
    shown = " ".join(" ".join(words(ax)).split())
    assert "residual evidence" not in shown
    assert "co-design" not in shown
    assert "self-consistent" in shown


def test_around_a_candidate_delivery_is_read_under_the_training_view(audit_of):
    audit = audit_of("another view, candidate")
    ax = plots.plot_decision_map(audit)
    [marker] = [line for line in ax.lines if line.get_marker() == "o"]
    expected = audit.summary()["training_preference_percent"].item()
    assert position(ax, marker)[0] == pytest.approx(expected)
    point = audit_of("around a point")
    [marker] = [line for line in plots.plot_decision_map(point).lines if line.get_marker() == "o"]
    at = marker.axes.transAxes.transform((marker.get_xdata()[0], 0.5))
    x = marker.axes.transData.inverted().transform(at)[0]
    assert x == pytest.approx(abs(point.summary()["gap_percent"].item()))


def test_the_profile_and_its_marks(audit_of):
    audit = audit_of("everything")
    ax = plots.plot_profile(audit)
    scan = audit.group("/scan")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), scan["profile"].values[0])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), scan["quadratic_model"].values[0])
    labels = {text.get_text() for text in ax.get_legend().texts}
    assert {"truth 1", "delivered 1.28"} <= labels
    assert any(label.startswith("minimum 1.3") for label in labels)
    assert ax.get_yscale() == "log"
    labels = {t.get_text() for t in plots.plot_profile(audit_of("on a bound")).get_legend().texts}
    assert "minimum 3, upper bound" in labels
    labels = {t.get_text() for t in plots.plot_profile(audit_of("flat")).get_legend().texts}
    assert "flat: no minimum" in labels


def test_the_waterfall_adds_up(audit_of):
    audit = audit_of("everything")
    ax = plots.plot_delivery(audit)
    widths = [bar.get_width() for bar in ax.patches]
    found = audit.delivery
    assert widths == pytest.approx([found.preference["k"], found.gap["k"], found.total["k"]])
    assert widths[0] + widths[1] == pytest.approx(widths[2])
    ax = plots.plot_delivery(audit_of("candidate"))
    gap = audit_of("candidate").delivery.gap["k"]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([-gap, gap])


def test_cancellation_is_seen(audit_of):
    audit = audit_of("two")
    modes = audit.group("/spectrum").sel(parameter="c")
    ax = plots.plot_spectrum(audit, parameter="c")
    up, down, net, strength = [artist.get_data().values for artist in ax.patches]
    pull = -modes["signed"].values
    assert net[-1] == pytest.approx(100 * pull.sum() / np.abs(pull).sum())
    assert up[-1] - down[-1] == pytest.approx(100)
    assert strength[-1] == pytest.approx(
        100 * float(modes["strength"].sum() / modes["strength_total"])
    )


def test_evidence_is_centered_on_zero_and_robust(audit_of):
    audit = audit_of("everything")
    for quantity in ("residual", "evidence"):
        image = plots.plot_evidence(audit, quantity=quantity).images[0]
        low, high = image.get_clim()
        assert low == -high
        assert image.cmap(0.5)[3] < 0.1  # nothing is no colour
    group = audit.group("/field")
    assert high == pytest.approx(np.quantile(np.abs(group["contribution"].values), 0.98))
    assert image.get_array().min() == pytest.approx(float(group["contribution"].min()), rel=0.2)


def test_evidence_at_one_place_adds_up(audit_of):
    audit = audit_of("several equations")
    image = plots.plot_evidence(audit).images[0].get_array().compressed()
    both = audit.group("/field")["contribution"].values.reshape(2, 12).sum(axis=0)
    assert set(np.round(image, 12)) <= set(np.round(both, 12))


def test_each_equation_of_a_system_has_its_own_picture(audit_of):
    audit = audit_of("several equations")
    group = audit.group("/field")
    each = group["contribution"].values.reshape(2, 12)
    for name, own in zip(("mass", "heat"), each, strict=True):
        image = plots.plot_evidence(audit, equation=name).images[0].get_array().compressed()
        assert set(np.round(image, 12)) == set(np.round(own, 12))
    ax = plots.plot_evidence(audit, quantity="residual", equation="heat")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "t")
    with pytest.raises(ta.InputError, match="equations mass, heat"):
        plots.plot_evidence(audit, equation="momentum")


def test_along_training_shows_what_was_recorded(audit_of):
    audit = audit_of("everything")
    ax = plots.plot_along_training(audit)
    preferred = next(line for line in ax.lines if line.get_label() == "preferred by the field")
    expected = np.exp(audit.group("/snapshots")["preference"].values[:, 0])
    np.testing.assert_allclose(preferred.get_ydata(), expected)
    labels = [
        t.get_text() for t in plots.plot_along_training(audit, quantity="loss").get_legend().texts
    ]
    assert [label.strip() for label in labels] == ["loss", "_data"]


def test_resolution_of_an_audit_marks_delivered_and_matched(audit_of):
    audit = audit_of("everything")
    ax = plots.plot_resolution(audit)
    area = sum(bar.get_width() * bar.get_height() for bar in ax.patches)
    assert area == pytest.approx(1)
    labels = [text.get_text() for text in ax.get_legend().texts]
    matched = audit.summary()["matched"].item()
    assert any(f"matched estimate {matched:.4g}" in label for label in labels)
    assert any("delivered 1.28" in label for label in labels)
    mean = audit.summary()["resolution_percent"].item()
    assert f"mean error {mean:.2f}%" in ax.get_title()
    away = [t.get_text() for t in plots.plot_resolution(audit_of("elsewhere")).get_legend().texts]
    assert any("center of the replicas 1.5" in label for label in away)
    assert any(label.startswith("truth 1 ") for label in away)


def test_a_dollar_is_a_dollar(audit_of):
    for kind in ("mathematics", "broken mathematics"):
        audit = audit_of(f"named {kind}")
        for draw in (plots.plot_decision_map, plots.plot_profile, plots.plot_resolution):
            ax = draw(audit)
            for text in ax.figure.findobj(plt.Text):
                if "$" in text.get_text():
                    assert not text.get_parse_math()


def two_parameters(**options):
    x = np.linspace(0, 1, 30)
    return ta.frozen_scan(
        lambda a, k: (k - 1.3) * (1 + x) + (a - 1.1) * x**2 + 0.01 * np.cos(9 * x),
        {
            "a": ta.Parameter(delivered=1.0, bounds=(0.2, 5.0), **options),
            "k": ta.Parameter(delivered=1.0, bounds=(0.2, 5.0)),
        },
        ta.views.Pointwise(),
        points=x,
        candidates=20,
    )


def test_with_others_at_the_center_the_curve_is_called_a_slice():
    ax = plots.plot_profile(two_parameters(), parameter="k")
    assert "slice of the frozen loss" in [line.get_label() for line in ax.lines]
    assert "others at the center" in ax.get_xlabel()


def test_over_nuisance_parameters_it_is_a_profile_that_holds_the_minimum():
    scan = two_parameters(nuisance=True)
    ax = plots.plot_profile(scan, parameter="k")
    assert "frozen profile" in [line.get_label() for line in ax.lines]
    assert "center" not in ax.get_xlabel()
    (dot,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert dot.get_xdata()[0] == scan.minimum["k"]


def test_a_part_of_a_slice_is_not_cut_off_between_the_candidates():
    scan = two_parameters()
    ax = plots.plot_profile(scan, parameter="k", limits=(0.9, 1.7))
    (curve,) = [line for line in ax.lines if line.get_label() == "slice of the frozen loss"]
    y = curve.get_ydata()
    assert np.sum(y == y.min()) == 1  # no flat bottom
    assert y.min() < scan.slices["k"][1].min()


@pytest.mark.parametrize("axes", [("x", "y", "t"), ("t", "x", "y"), ("x", "y", "z")])
def test_three_coordinates_are_drawn_in_slices(axes):
    points = np.random.default_rng(0).uniform(0, 1, (400, 3))
    frozen = ta.FrozenResidual(
        lambda k: (k - 1.1) * np.cos(3 * points[:, 0]),
        {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))},
        points,
        view=ta.views.Pointwise(),
        axes=axes,
    )
    ax = plots.plot_evidence(ta.audit(frozen, spectrum=False))
    cut = axes.index("t") if "t" in axes else 2
    quarters = np.quantile(points[:, cut], [0, 0.25, 0.5, 0.75, 1])
    maps = [child for child in ax.child_axes if child.images]
    assert len(maps) == 4
    for part, low in zip(maps, quarters, strict=False):
        name, _, ends = part.get_title().partition(" = ")
        assert name == axes[cut]
        assert float(ends.split(" to ")[0]) == pytest.approx(low, abs=0.02)
    shown = [name for name in axes if name != axes[cut]]
    assert (maps[2].get_xlabel(), maps[2].get_ylabel()) == tuple(shown)
    assert len({part.images[0].get_clim() for part in maps}) == 1


def test_close_values_have_a_picture_of_their_own():
    x = np.linspace(0, 1, 40)

    def audited(low, high):
        k = ta.Parameter(truth=1.0, delivered=1.02, bounds=(low, high))
        return ta.audit(lambda k: (k - 1.05) * x + 0.01, {"k": k}, ta.views.Pointwise(), points=x)

    far, near = audited(1e-3, 1e3), audited(0.9, 1.2)
    low, high = close_limits(far.scan, "k")
    marks = [1.0, 1.02, far.scan.minimum["k"]]
    span = np.log(max(marks) / min(marks))
    assert np.log([low, high]) == pytest.approx(
        [np.log(min(marks)) - span, np.log(max(marks)) + span]
    )
    assert close_limits(near.scan, "k") is None
    assert len(profile_section(far).pictures) == 1 + len(profile_section(near).pictures) == 2
