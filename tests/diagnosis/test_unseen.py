"""Parameters that the residual does not see: no displacement, no gap, and it is said."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.diagnosis.actions import strongest_pull
from twoaxis.diagnosis.overview import coordinate_rows

X = np.linspace(0.0, 1.0, 40)


def audited(residual, points=X, view=None, **parameters):
    known = {n: ta.Parameter(delivered=v, bounds=(0.1, 10.0)) for n, v in parameters.items()}
    return ta.audit(
        residual,
        known,
        view or ta.views.Pointwise(),
        points=points,
        tolerance=ta.Tolerance(5, 5, 5),
    )


def test_one_parameter():
    found = audited(lambda k: np.cos(X) + 0 * k, k=2.0)
    assert found.delivery is None
    readings = {row.label: row.reading for row in coordinate_rows(found, "k")}
    assert readings["delivery gap"] == readings["field displacement"] == "not seen by the residual"


@pytest.fixture(scope="module")
def two():
    return audited(lambda a, k: (k - 1.9) * (1 + X) + 0 * a, a=3.0, k=2.0)


def test_one_of_two_has_no_gap(two):
    assert two.score.unseen == {"a"}
    assert np.isnan([two.delivery.gap["a"], two.delivery.preferred["a"]]).all()
    assert two.delivery.gap["k"] == pytest.approx(np.log(2.0 / 1.9))
    readings = {row.label: row.reading for row in coordinate_rows(two, "a")}
    assert readings["delivery gap"] == "not seen by the residual"
    assert np.isnan(two.summary().loc["a", "gap_percent"])


def test_it_is_drawn_compared_and_kept(two, tmp_path):
    ax = two.delivery.plot(parameter="a")
    assert [text.get_text() for text in ax.texts] == ["the residual does not see the parameter"]
    assert "nan" not in two._repr_html_().lower().split()
    compared = ta.compare([two, two])
    assert np.isnan(compared.data["preference"].sel(parameter="a")).all()
    assert np.isfinite(compared.data["preference"].sel(parameter="k")).all()
    again = ta.load(two.save(tmp_path / "audit.nc"))
    assert np.isnan(again.delivery.gap["a"])


def test_the_first_action_asks_where_it_enters(two):
    action, *rest = two.actions
    assert action.kind == "equation"
    assert "of a:" in action.text
    assert "equation" not in {other.kind for other in rest}


def test_directions_of_two_that_are_seen_only_together():
    found = audited(lambda a, k: (a * k - 5.7) * (1 + X), a=3.0, k=2.0)
    assert found.score.unseen == {"a", "k"}
    assert "equation" not in {action.kind for action in found.actions}  # each enters by itself
    assert np.isnan(list(found.delivery.gap.values())).all()
    null, seen = found.verdict["direction_preference_percent"].values
    assert np.isnan(null)
    # Along (1, 1) / sqrt(2) the product moves by the root of two times the step.
    assert seen == pytest.approx(100 * abs(np.expm1(np.log(5.7 / 6) / np.sqrt(2))), rel=1e-3)


def test_the_region_that_pulls_most_is_that_of_the_joint_step():
    """Two coupled parameters and two equations, each with a bump of its own."""
    t = np.linspace(0.0, 1.0, 200)
    bump = np.exp(-(((t - 0.8) / 0.05) ** 2))

    def residual(a, k):
        first = (k - 1) + (a - 1) * 0.9 + 0.3 * bump
        second = (k - 1) * 0.2 + (a - 1) * t - 0.1 * bump[::-1]
        return first, second

    both = ta.views.Blocks([ta.views.Pointwise(), ta.views.Pointwise()])
    found = audited(residual, t, both, a=1.0, k=1.0)
    jacobian = np.r_[np.column_stack([0.9 + 0 * t, 1 + 0 * t]), np.column_stack([t, 0.2 + 0 * t])]
    r = np.r_[0.3 * bump, -0.1 * bump[::-1]]
    box = np.minimum((4 * np.r_[t, t]).astype(int), 3) + 4 * (np.arange(400) >= 200)
    H = jacobian.T @ jacobian
    parts = np.array([-np.linalg.solve(H, jacobian[box == b].T @ r[box == b]) for b in range(8)])
    whole = -np.linalg.solve(H, jacobian.T @ r)
    for j, name in enumerate(("a", "k")):
        assert found.score.displacement[name] == pytest.approx(whole[j], rel=1e-6)
        moved = parts[:, j] * np.sign(whole[j])
        region = strongest_pull(found, name)
        assert region.share == pytest.approx(moved.max() / np.abs(moved).sum(), rel=1e-6)
        assert region.words.startswith(f"equation {1 + moved.argmax() // 4}: ")
