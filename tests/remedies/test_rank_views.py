"""Views ranked by the displacement that they give fields of known truth."""

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.remedies.simulated.rank_views import rank_views

X = np.linspace(0, 1, 64)
K = {"k": ta.Parameter(truth=1.0, bounds=(0.2, 5.0), coordinate="linear", scale=1.0)}


def field(ripple):
    return ta.FrozenResidual(lambda k: (k - 1) * (1 + X) - ripple, K, X)


def test_the_table_holds_the_moments_of_the_displacement():
    sizes = np.array([0.1, -0.3, 0.5])
    table = rank_views([field(size * (1 + X)) for size in sizes], [ta.views.Pointwise()])
    (row,) = table.to_dict("records")
    assert row["mean_size"] == pytest.approx(np.abs(sizes).mean())
    assert row["mean"] == pytest.approx(sizes.mean())
    assert row["sd"] == pytest.approx(sizes.std(ddof=1))
    assert row["worst"] == pytest.approx(0.5)
    assert row["fields"] == 3
    assert row["status"] == "scored"


def test_the_least_displacing_view_comes_first_and_one_that_does_not_fit_comes_last():
    late = ta.views.Weighted(loss_weights=np.where(X > 0.5, 1.0, 0.0))
    early = ta.views.Weighted(loss_weights=np.where(X > 0.5, 0.0, 1.0))
    wrong = ta.views.Weighted(loss_weights=np.ones(3))
    fields = [field(np.where(X > 0.5, 0.2, 0.0))] * 2
    table = rank_views(
        fields, {"wrong": wrong, "late": late, "all": ta.views.Pointwise(), "early": early}
    )
    assert table.index.tolist() == ["early", "all", "late", "wrong"]
    assert table["fields"].tolist() == [2, 2, 2, 0]
    assert table.loc["early", "mean_size"] == pytest.approx(0, abs=1e-12)
    assert table.loc["wrong", "status"].startswith("expected one loss weight")


def test_bad_input_is_refused():
    one = field(0 * X)
    for frozen, views, options, match in (
        ([], [ta.views.Pointwise()], {}, "at least one"),
        ([3], [ta.views.Pointwise()], {}, "frozen residuals"),
        ([one], [], {}, "views of the residual"),
        ([one], {"a": "patch"}, {}, "views of the residual"),
        ([one], [ta.views.Pointwise()] * 2, {}, "some of them twice"),
        ([one], [ta.views.Pointwise()], {"parameter": "nu"}, "one of the parameters k"),
    ):
        with pytest.raises(ta.InputError, match=match):
            rank_views(frozen, views, **options)
