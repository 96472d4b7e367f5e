"""No residual, no sensitivity, one point, one cell, repeated points, a line, few points."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis import views

K = {"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))}
RNG = np.random.default_rng(0)


def views_for(n):
    return {
        "pointwise": views.Pointwise(),
        "patch": views.Patch(),
        "one patch": views.Patch(cells=1),
        "Gaussian": views.Gaussian(),
        "Gaussian, rank": views.Gaussian(rank=64),
        "weighted": views.Weighted(np.arange(1.0, n + 1)),
        "dense": views.Dense(np.eye(n) + 1),
        "blocks": views.Blocks([views.Patch()]),
    }


POINTS = {
    "one point": np.array([[0.3, 0.2]]),
    "two points": np.array([[0.3, 0.2], [0.1, 0.9]]),
    "repeated points": np.repeat(RNG.random((4, 2)), 5, axis=0),
    "all the same": np.full((20, 2), 0.3),
    "a line": np.column_stack([np.linspace(0, 1, 30), np.full(30, 7.0)]),
    "a diagonal": np.linspace(0, 1, 30)[:, None] * [1.0, -3.0],
    "one axis": np.linspace(0, 1, 30),
    "fewer than the rank": RNG.random((12, 2)),
}
WHERE = [(where, view) for where in POINTS for view in views_for(1)]


@pytest.mark.parametrize(("where", "name"), WHERE)
def test_every_set_of_points_has_a_result(where, name):
    points = POINTS[where]
    n = len(points)
    view = views_for(n)[name]
    shape = 1 + 0.3 * np.cos(np.arange(n))  # k = 1.2 fits exactly, whatever the view
    arguments = (lambda k: shape * (k - 1.2), K, view)
    score = ta.score(*arguments, points=points)
    assert score.displacement["k"] == pytest.approx(0.2, rel=1e-6)
    assert score.alignment == pytest.approx(-1.0, rel=1e-12)
    assert np.isfinite(list(score.sampling_deviation.values())).all()
    assert score.sampling_deviation["k"] < 1e-6
    scan = ta.frozen_scan(*arguments, points=points)
    assert (scan.status, scan.affine) == ("interior", True)
    assert scan.minimum["k"] == pytest.approx(1.2, rel=1e-12)
    spectrum = ta.spectrum(*arguments, points=points)
    assert spectrum.strength.sum() == pytest.approx(score.H, rel=1e-10)
    assert spectrum.signed.sum() == pytest.approx(score.B, rel=1e-10)
    assert spectrum.cancellation == pytest.approx(0.0, abs=1e-9)
    assert spectrum.region_contributions()["contribution"].sum() == pytest.approx(score.B, rel=1e-9)
    M = view.bind(points).matrix()
    assert pytest.approx(shape @ M @ shape, rel=1e-5) == score.H


@pytest.mark.parametrize("name", views_for(1))
def test_no_residual(name):
    # Nothing is left to push: B = D = 0, and the alignment is zero by convention.
    points = RNG.random((20, 2))
    shape = 1 + points[:, 0]
    arguments = (lambda k: shape * (k - 1.0), K, views_for(20)[name])
    score = ta.score(*arguments, points=points)
    assert score.B == score.residual_norm == score.alignment == score.C == 0.0
    assert score.H > 0
    assert score.displacement["k"] == 0.0
    assert score.delta_percent["k"] == 0.0
    assert score.trusted
    scan = ta.frozen_scan(*arguments, points=points)
    assert scan.minimum["k"] == pytest.approx(1.0, abs=1e-12)
    assert ta.spectrum(*arguments, points=points).cancellation == 0.0


@pytest.mark.parametrize("name", views_for(1))
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_no_sensitivity(name, size):
    points = RNG.random((20, 2))
    r = size * RNG.normal(size=20)
    arguments = (lambda k: r, K, views_for(20)[name])  # noqa: ARG005
    score = ta.score(*arguments, points=points)
    assert score.H == score.B == score.alignment == 0.0
    assert score.displacement["k"] == score.diagonal_displacement["k"] == 0.0
    assert [each.code for each in score.doubts] == ["score.null_direction"]
    assert score.directions()["status"].tolist() == ["null"]
    assert score.sampling_deviation == {"k": 0.0}
    scan = ta.frozen_scan(*arguments, points=points)
    assert scan.status.startswith("flat")
    assert scan.minimum is None
    spectrum = ta.spectrum(*arguments, points=points)
    assert spectrum.strength_share((1, 1)) == spectrum.signed_share((1, 1)) == 0.0
    assert spectrum.cancellation == 0.0
    assert spectrum.rank_for(0.5) is None


def test_a_view_that_is_blind_to_the_parameter():
    # Only differences inside cells depend on k, and the patch view does not see them.
    points = (np.arange(32) + 0.5) / 32
    sign = np.where(np.arange(32) % 2, 1.0, -1.0)
    arguments = (lambda k: 1.0 + sign * k, K)
    blind = ta.score(*arguments, views.Patch(cells=8), points=points)
    assert blind.H == 0.0
    assert not blind.identified
    assert ta.frozen_scan(*arguments, views.Patch(cells=8), points=points).minimum is None
    assert ta.score(*arguments, views.Pointwise(), points=points).identified


def test_fewer_points_than_parameters():
    # One equation for three unknowns: the solution of minimum norm, two directions unseen.
    parameters = {name: ta.Parameter(truth=1.0, bounds=(0.5, 2.0)) for name in "abc"}
    J = np.array([[1.0, 2.0, 2.0]])
    frozen = ta.FrozenResidual(
        lambda a, b, c: J @ np.log([a, b, c]) - 0.9, parameters, [0.0],
        jacobian=lambda a, b, c: J / [a, b, c],
    )  # fmt: skip
    score = ta.score(frozen, view=views.Pointwise())
    np.testing.assert_allclose(list(score.displacement.values()), 0.9 * J[0] / 9, rtol=1e-12)
    assert score.directions()["status"].tolist() == ["null", "null", "seen"]
