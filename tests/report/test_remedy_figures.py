"""Pictures of remedies show what their data hold."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import twoaxis as ta
from twoaxis.remedies import calibrate, evidence_map, polish, simulated_audit

K = {"k": ta.Parameter(truth=1.0, delivered=1.2, bounds=(0.2, 5.0))}
T = np.linspace(0.5, 1.5, 6)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def forward(k):
    return k * T


def pipeline(values, _):
    best = 1.2 * values @ T / (T @ T)
    known = {"k": ta.Parameter(bounds=(0.01, 20.0), delivered=best)}
    return ta.FrozenResidual(lambda k: (k - best) * T, known, T, view=ta.views.Pointwise())


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_confidence_set_and_its_calibration():
    made = calibrate(pipeline, forward, K, 0.1, candidates=7, replicas=19, progress=False)
    found = made.confidence_set(estimate=1.2)
    ax = found.plot()
    assert "delivered 1.2" in legend(ax)
    assert "90% set" in legend(ax)
    assert ax.get_xscale() == "log"
    ax.figure.canvas.draw()
    assert made.confidence_set(estimate=90.0).plot().get_ylim()[1] > 90
    made.plot().figure.canvas.draw()


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("labels", [False, True])
def test_an_evidence_map_and_its_bars(axes, labels):
    points = np.random.default_rng(0).random((200, axes))
    found = evidence_map(
        lambda k: k * points[:, 0] - points[:, 0] ** 2, K, ta.views.Pointwise(), points=points,
        regions=(points[:, 0] * 3).astype(int) if labels else 3,
    )  # fmt: skip
    panels = np.atleast_1d(found.plot())
    panels[0].figure.canvas.draw()
    assert len(panels) == (2 if axes <= 2 else 1)
    bars = [patch.get_width() for patch in panels[-1].patches]
    expected = found.summary()["change"]
    kept = expected[expected.abs().rank(ascending=False, method="first") <= 8]
    np.testing.assert_allclose(bars, kept)


def test_the_outline_is_around_the_leading_region_of_the_parameter_drawn():
    x = np.linspace(0, 1, 400)
    left, right = (x < 0.5).astype(float), (x >= 0.5).astype(float)
    bumps = [np.exp(-(((x - middle) / 0.03) ** 2)) for middle in (0.3, 0.9)]
    known = {name: ta.Parameter(truth=1.0, bounds=(0.2, 5.0)) for name in ("a", "b")}
    found = evidence_map(
        lambda a, b: a * left + b * right - 1 - 2 * bumps[0] - bumps[1], known,
        ta.views.Pointwise(), points=x, regions=5,
    )  # fmt: skip
    for name, low in (("a", 0.2), ("b", 0.8)):
        panel, _ = found.plot(parameter=name)
        (frame,) = panel.patches
        assert frame.get_x() == pytest.approx(low)
        assert frame.get_width() == pytest.approx(0.2)


def test_the_stages_of_polishing_and_the_replicas_of_a_simulated_audit():
    frozen = ta.FrozenResidual(lambda k: (k - 1.1) * T, K, T, view=ta.views.Pointwise())
    ax = polish(frozen).plot()
    values = next(line for line in ax.get_lines() if line.get_label() == "value")
    np.testing.assert_allclose(values.get_ydata(), [1.2, 1.1])
    simulated = simulated_audit(pipeline, forward, K, 0.1, replicas=4, progress=False)
    simulated.plot().figure.canvas.draw()


def test_every_remedy_has_a_notebook_view_and_a_page(tmp_path):
    frozen = ta.FrozenResidual(lambda k: (k - 1.1) * T, K, T, view=ta.views.Pointwise())
    made = calibrate(pipeline, forward, K, 0.1, candidates=5, replicas=3, progress=False)
    found = [
        polish(frozen),
        evidence_map(frozen, regions=2),
        ta.suggest_sites(forward, K, 0.1, 2, progress=False),
        simulated_audit(pipeline, forward, K, 0.1, replicas=4, progress=False),
        made,
        made.confidence_set(estimate=1.2, level=0.5),
    ]
    for each in found:
        assert "<table" in each._repr_html_()
        assert "<svg" in each._repr_html_()
        page = each.to_html(tmp_path / f"{each.schema}.html").read_text(encoding="utf-8")
        assert "k" in page
