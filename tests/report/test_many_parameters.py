"""Forest plot, correlation matrix and weak directions show what audits and comparisons hold."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import twoaxis as ta
from twoaxis import plots


def line(ax, words):
    [found] = [one for one in ax.lines if one.get_label() == words]
    return found


def test_the_forest_of_an_audit(audit_of):
    audit = audit_of("many")
    ax = plots.plot_forest(audit)
    labels = [text.get_text() for text in ax.get_yticklabels()]
    # The nuisance parameter comes last, and small.
    order = [0, 1, 3, 4, 5, 6, 7, 2]
    assert labels == [rf"$a_{j}$" for j in order]
    sizes = [text.get_fontsize() for text in ax.get_yticklabels()]
    assert sizes[-1] < min(sizes[:-1])
    interest = np.array(order[:-1])
    delivered = line(ax, "delivered")
    np.testing.assert_allclose(delivered.get_xdata(), 6.0)
    np.testing.assert_array_equal(delivered.get_ydata(), np.arange(7))
    matched = line(ax, "matched")
    expected = 100 * (audit.group("/matched")["estimate"].values - 1)
    np.testing.assert_allclose(matched.get_xdata(), expected[interest], atol=1e-9)
    preferred = line(ax, "preferred")
    minimum = np.array(list(audit.scan.minimum.values()))
    np.testing.assert_allclose(preferred.get_xdata(), 100 * (minimum[interest] - 1), atol=1e-9)
    lower, upper = (100 * (audit.group("/matched")[n].values - 1) for n in ("lower", "upper"))
    np.testing.assert_allclose(
        line(ax, "matched 95% interval").get_xdata(), [lower[0], upper[0]], atol=1e-9
    )


def test_the_forest_of_a_comparison_is_in_the_unit_of_the_parameter(audit_of):
    audits = {"first": audit_of("everything"), "no data": audit_of("no resolution")}
    found = ta.compare(audits)
    assert found.names == ["first", "no data"]
    assert found.table.index.get_level_values("audit").tolist() == ["first", "no data"]
    ax = found.plot()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["first", "no data"]
    np.testing.assert_allclose(line(ax, "delivered").get_xdata(), [1.28, 1.28])
    matched = audits["first"].group("/matched").sel(parameter="k")
    np.testing.assert_allclose(line(ax, "matched").get_xdata(), [matched["estimate"]])
    interval = line(ax, "matched 95% interval")
    np.testing.assert_allclose(interval.get_xdata(), [matched["lower"], matched["upper"]])
    np.testing.assert_allclose(found.values("total", "k"), [1.28, 1.28])
    assert line(ax, "truth 1").get_xdata()[0] == 1.0
    assert "first" in repr(found)
    assert "Audits" not in repr(ta.compare(list(audits.values())))


def test_a_comparison_keeps_its_names_in_a_file(audit_of, tmp_path):
    found = ta.compare({"a": audit_of("everything"), "b": audit_of("everything")})
    again = ta.load(found.save(tmp_path / "comparison.nc"))
    assert again.names == ["a", "b"]
    np.testing.assert_array_equal(again.values("matched", "k"), found.values("matched", "k"))


def test_many_audits_are_dots(audit_of):
    found = ta.compare([audit_of("everything")] * 31)
    assert len(found.plot().get_yticklabels()) == 3


def test_the_correlation_is_that_of_the_observations_or_of_the_residual(audit_of):
    audit = audit_of("two")
    drawn = plots.plot_correlation(audit).images[0].get_array()
    expected = audit.resolution.data["correlation"].isel(layout=0).values
    np.testing.assert_allclose(drawn, expected)
    np.testing.assert_allclose(
        plots.plot_correlation(audit.resolution).images[0].get_array(), expected
    )
    H = audit.score.data["H"].values
    drawn = plots.plot_correlation(audit, source="residual").images[0].get_array()
    np.testing.assert_allclose(np.diag(drawn), 1)
    assert drawn[0, 1] == pytest.approx(H[0, 1] / np.sqrt(H[0, 0] * H[1, 1]))
    with pytest.raises(ta.InputError, match="source"):
        plots.plot_correlation(audit, source="colour")
    with pytest.raises(ta.InputError, match="a resolution or an audit"):
        plots.plot_correlation(audit.score)


def test_the_weakest_directions_come_first(audit_of):
    audit = audit_of("many")
    ax = plots.plot_directions(audit, count=3)
    drawn = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(drawn, audit.directions().iloc[:3, :7].to_numpy())
    # In units of 100% a direction's Rayleigh quotient is an eigenvalue; truths of 1 have unit 1.
    strength = audit.score.strength
    values = np.linalg.eigvalsh(strength)
    np.testing.assert_allclose(np.diag(drawn @ strength @ drawn.T), values[:3], rtol=1e-9)
    names = [text.get_text() for text in ax.get_xticklabels()]
    assert names == [rf"$a_{j}$" for j in (0, 1, 3, 4, 5, 6, 7)]
    ax.figure.canvas.draw()


def test_what_is_neither_is_refused():
    with pytest.raises(ta.InputError, match="an audit or a comparison"):
        plots.plot_forest("audit.nc")
    plt.close("all")
