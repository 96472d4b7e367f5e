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


class Trained:
    """What a run of `twoaxis.train` offers to an audit."""

    def __init__(self, made):
        self.made, self.asked = made, None

    def audit_inputs(self, *, truth, resolution, replicas=200):
        self.asked = {"truth": truth, "resolution": resolution, "replicas": replicas}
        truth = 1.0 if truth else None
        return {
            "residual": self.made.heat_field(1.3, 1.28, truth),
            "resolution": resolution or self.made.heat_resolution(self.made.TIGHT),
            "history": {"step": [1, 2], "loss": [0.5, 0.1]},
            "notes": [ta.Message("training.unfinished", "the training did not finish")],
            "run": "key-of-the-run",
        }


def test_an_audit_of_a_run_takes_what_the_run_brings(made):
    run = Trained(made)
    found = ta.audit(run, tolerance=made.TOLERANCE, notes=["seen on Monday"], replicas=5)
    assert run.asked == {"truth": True, "resolution": None, "replicas": 5}
    assert found.run == "key-of-the-run"
    assert found.route is ta.Route.STRENGTHEN_RESIDUAL_EVIDENCE
    assert [m.code for m in found.messages][:2] == ["training.unfinished", "note"]
    assert found.group("/history") is not None
    given = made.heat_resolution(made.WEAK)
    other = ta.audit(run, resolution=given, history=None, view=ta.views.Patch(cells=4))
    assert run.asked["resolution"] is given
    assert other.cross_view
    with pytest.raises(ta.InputError, match='at="delivered"'):
        ta.audit(run, truth=False)
    candidate = ta.audit(run, at="delivered")
    assert run.asked["truth"] is False
    assert candidate.centered_on == "delivered"


def test_arguments_that_an_audit_does_not_have(made):
    with pytest.raises(ta.InputError, match="replicas"):
        ta.audit(made.heat_field(1.3, 1.28), replicas=5)
    with pytest.raises(ta.InputError, match="parameters"):
        ta.audit(Trained(made), {"k": ta.Parameter(bounds=(0.5, 2.0))})


def test_snapshots_survive_a_file_and_draw_themselves(made, tmp_path):
    found = ta.follow([(n, made.heat_field(r, d)) for n, r, d in ((1, 2.0, 1.0), (2, 1.3, 1.2))])
    loaded = ta.load(found.save(tmp_path / "snapshots.nc"))
    assert loaded.data.identical(found.data)
    assert loaded.summary().loc[(2, "k"), "gap"] == pytest.approx(np.log(1.2 / 1.3), abs=5e-3)
    loaded.plot().figure.canvas.draw()


def test_a_comparison_survives_a_file(made, tmp_path):
    found = ta.compare(retrainings(made))
    loaded = ta.load(found.save(tmp_path / "comparison.nc"))
    assert loaded.data.identical(found.data)
    assert str(loaded) == str(found)
