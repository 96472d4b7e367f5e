"""Along one training, and over several of them."""

import numpy as np
import pytest

import twoaxis as ta


def test_the_readings_follow_the_training(made):
    rates, delivered = [2.0, 1.5, 1.3], [1.0, 1.2, 1.28]
    snapshots = [
        (100 * n, made.heat_field(rate, value))
        for n, (rate, value) in enumerate(zip(rates, delivered, strict=True))
    ]
    found = ta.follow(iter(snapshots))
    assert found.data["step"].values.tolist() == [0, 100, 200]
    one = found.data.sel(parameter="k")
    np.testing.assert_allclose(one["preference"], np.log(rates), atol=5e-3)
    np.testing.assert_allclose(one["displacement"], np.array(rates) - 1, atol=5e-3)
    np.testing.assert_allclose(one["gap"], np.log(delivered) - np.log(rates), atol=5e-3)
    np.testing.assert_array_equal(one["value"], delivered)
    np.testing.assert_allclose(one["preference"] + one["gap"], np.log(delivered), atol=1e-12)
    last = ta.score(snapshots[-1][1])
    assert one["strength"].values[-1].item() == last.H
    assert found.data["status"].values.tolist() == ["interior"] * 3


def test_without_a_truth_the_last_value_is_the_centre(made):
    snapshots = [(n, made.heat_field(1.3, v, truth=None)) for n, v in ((1, 1.0), (2, 1.2))]
    found = ta.follow(snapshots)
    assert found.center.kind == "delivered"
    assert found.center.values == {"k": 1.2}
    np.testing.assert_allclose(found.data["preference"], np.log(1.3 / 1.2), atol=5e-3)
    np.testing.assert_allclose(
        found.data["gap"].values.ravel(), np.log([1.0, 1.2]) - np.log(1.3), atol=5e-3
    )


def test_a_flat_snapshot_is_a_row_with_a_status(made):
    flat = ta.FrozenResidual(
        lambda k: np.ones(9) + 0 * k,
        {"k": ta.Parameter(truth=1.0, delivered=1.0, bounds=made.BOUNDS)},
        np.arange(9.0),
        ta.views.Pointwise(),
    )
    found = ta.follow([(0, flat), (1, made.heat_field(1.3, 1.0))])
    assert np.isnan(found.data["preference"].values[0, 0])
    assert found.data["status"].values[0].startswith("flat")
    assert np.isfinite(found.data["preference"].values[1, 0])


BAD = {
    "none": ([], "at least one snapshot"),
    "no pairs": ([3], "pairs of a step"),
    "no frozen residual": ([(1, "field")], "FrozenResidual"),
}


@pytest.mark.parametrize(("snapshots", "message"), BAD.values(), ids=BAD)
def test_snapshots_that_are_none(snapshots, message):
    with pytest.raises(ta.InputError, match=message):
        ta.follow(snapshots)


def test_snapshots_of_different_trainings(made):
    with pytest.raises(ta.InputError, match="ascending"):
        ta.follow([(2, made.heat_field(1.3, 1.0)), (1, made.heat_field(1.3, 1.0))])
    with pytest.raises(ta.InputError, match=r"(?s)parameters d.*k at step 1"):
        ta.follow([(1, made.heat_field(1.3, 1.0)), (2, made.heat_field(1.3, 1.0, name="d"))])
    snapshots = ta.follow([(2, made.heat_field(1.3, 1.0, name="d"))])
    with pytest.raises(ta.InputError, match=r"(?s)parameters k.*d"):
        ta.audit(made.heat_field(1.3, 1.0), snapshots=snapshots)


RATES = [1.28, 1.30, 1.34]


def retrainings(made, truth=1.0, gap=0.98):
    return [ta.audit(made.heat_field(r, gap * r, truth), tolerance=made.TOLERANCE) for r in RATES]


def test_what_retrainings_share_and_where_they_differ(made):
    found = ta.compare(retrainings(made))
    table = found.summary()
    preferred = [a.scan.displacement["k"] for a in retrainings(made)]
    row = table.loc[("k", "preference")]
    assert row["mean"] == pytest.approx(np.mean(preferred))
    assert row["sd"] == pytest.approx(np.std(preferred, ddof=1))
    assert row["se"] == pytest.approx(row["sd"] / np.sqrt(3))
    assert row["count"] == 3
    assert table.loc[("k", "gap"), "mean"] == pytest.approx(np.log(0.98), abs=5e-3)
    assert table.loc[("k", "total"), "mean"] == pytest.approx(
        row["mean"] + table.loc[("k", "gap"), "mean"], abs=1e-12
    )
    assert found.routes == {ta.Route.UNDETERMINED: 3}
    assert "3 retrainings around the truth k = 1" in str(found)
    assert "preference" in found._repr_html_()


def test_around_candidates_they_are_compared_with_their_mean(made):
    found = ta.compare(retrainings(made, truth=None))
    table = found.summary()
    assert table.loc[("k", "total"), "mean"] == pytest.approx(0.0, abs=1e-12)
    assert table.loc[("k", "preference"), "mean"] == pytest.approx(-np.log(0.98), abs=5e-3)
    assert table.loc[("k", "preference"), "sd"] == pytest.approx(
        np.std(np.log(RATES), ddof=1), rel=0.02
    )
    for text in (str(found), found._repr_html_(), table.to_string()):
        assert "error" not in text.lower()
        assert "truth" not in text.lower()


def test_one_audit_has_no_spread(made):
    table = ta.compare(retrainings(made)[:1]).summary()
    assert table["sd"].isna().all()
    assert table["count"].tolist() == [1] * 4


def test_saved_audits_compare_alike(made, tmp_path):
    audits = retrainings(made)
    loaded = [ta.load(a.save(tmp_path / f"{n}.nc")) for n, a in enumerate(audits)]
    assert str(ta.compare(loaded)) == str(ta.compare(audits))


def test_audits_that_cannot_be_compared(made):
    one = ta.audit(made.heat_field(1.3, 1.28))
    others = {
        "parameters": ta.audit(made.heat_field(1.3, 1.28, name="d")),
        "centered on": ta.audit(made.heat_field(1.3, 1.28, truth=None)),
        "same center": ta.audit(made.heat_field(1.3, 1.28, truth=1.1)),
    }
    for message, other in others.items():
        with pytest.raises(ta.InputError, match=message):
            ta.compare([one, other])
    with pytest.raises(ta.InputError, match="none"):
        ta.compare([])
    with pytest.raises(ta.InputError, match="str"):
        ta.compare([one, "audit.nc"])
