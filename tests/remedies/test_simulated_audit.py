"""The bias of a pipeline, measured on data simulated at its delivered value."""

import pickle

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.datasets import standard_noise
from twoaxis.io import write_netcdf
from twoaxis.remedies import SimulatedAudit, simulated_audit

T = np.linspace(0.5, 1.5, 8)
X = np.linspace(0, 1, 12)
DELIVERED = 2.4
GAP = 0.03
TOLERANCE = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)


def forward(k):
    return k * T


def best(values):
    return values @ T / (T @ T)


def parameter(coordinate="linear", **known):
    scale = 1.0 if coordinate == "linear" else None
    return ta.Parameter(bounds=(0.5, 9.0), coordinate=coordinate, scale=scale, **known)


class Pipeline:
    """Delivers 1.2 k + .1; its field prefers a value that lies .03 below."""

    def __init__(self, coordinate="linear", view=ta.views.Pointwise(), slope=1.2):  # noqa: B008
        self.coordinate, self.view, self.slope = coordinate, view, slope

    def __call__(self, values, _):
        delivered = self.slope * best(values) + 0.1
        return ta.FrozenResidual(
            lambda k: (1 + X) * (k - (delivered - GAP)),
            {"k": parameter(self.coordinate, delivered=delivered)},
            X,
            view=self.view,
        )


def study(pipeline=None, coordinate="linear", noise=0.2, **options):
    given = {"replicas": 12, "seed": 3, "progress": False, **options}
    known = {"k": parameter(coordinate, delivered=DELIVERED)}
    return simulated_audit(pipeline or Pipeline(coordinate), forward, known, noise, **given)


def matched(noise=0.2, replicas=12, seed=3):
    """Closed-form fits to the datasets that the audit simulates."""
    return best(forward(DELIVERED) + noise * standard_noise(seed, replicas, T.size))


def values(found, name):
    return found.data[name].sel(parameter="k").values


def test_every_replica_has_its_closed_form():
    found = study()
    fits = matched()
    delivered = 1.2 * fits + 0.1
    assert values(found, "estimate") == pytest.approx(delivered)
    assert values(found, "delivered_error") == pytest.approx(delivered - DELIVERED)
    assert values(found, "displacement") == pytest.approx(delivered - GAP - DELIVERED)
    assert values(found, "preferred_error") == pytest.approx(delivered - GAP - DELIVERED, abs=1e-9)
    assert values(found, "gap") == pytest.approx(GAP, abs=1e-9)
    # Axis 1 refits the very datasets that the pipeline was run on.
    assert values(found, "matched_error") == pytest.approx(fits - DELIVERED, abs=1e-4)


def test_in_log_coordinates_the_displacement_is_relative():
    found = study(coordinate="log")
    preferred = 1.2 * matched() + 0.1 - GAP
    assert values(found, "displacement") == pytest.approx(preferred / DELIVERED - 1)
    assert values(found, "preferred_error") == pytest.approx(np.log(preferred / DELIVERED))


def test_the_bias_is_a_mean_with_its_standard_error_and_is_taken_off():
    found = study()
    errors = 1.2 * matched() + 0.1 - DELIVERED
    assert found.bias["k"] == pytest.approx(errors.mean())
    assert found.bias_error["k"] == pytest.approx(errors.std(ddof=1) / np.sqrt(12))
    assert found.corrected["k"] == pytest.approx(DELIVERED - errors.mean())
    assert found.corrected_error["k"] == found.bias_error["k"]
    assert found.displacement["k"] == pytest.approx(errors.mean() - GAP)
    table = found.summary()
    assert table.loc[("k", "delivered"), "mean"] == found.bias["k"]
    assert table.loc[("k", "gap"), "standard_error"] == pytest.approx(0, abs=1e-9)
    sizes = 100 * np.abs(errors)
    assert table.loc[("k", "delivered"), "mean_size_percent"] == pytest.approx(sizes.mean())


def test_a_constant_bias_is_found_exactly_up_to_noise():
    # Delivered = truth + .1: with little noise the corrected value is the delivered less .1.
    found = study(Pipeline(slope=1.0), noise=1e-4)
    assert found.corrected["k"] == pytest.approx(DELIVERED - 0.1, abs=1e-3)
    # In log coordinates the bias is taken off as a factor.
    relative = study(Pipeline("log", slope=1.0), "log", noise=1e-4)
    assert relative.corrected["k"] == pytest.approx(DELIVERED**2 / (DELIVERED + 0.1), abs=1e-3)


def test_it_says_when_the_bias_is_unclear_or_smaller_than_the_scatter_of_runs():
    # The bias is .1; single runs scatter by noise / |T|.
    steady = Pipeline(slope=1.0)
    assert not study(steady, noise=0.05).messages
    (message,) = study(steady, noise=0.6, replicas=100).messages
    scatter = (0.6 * standard_noise(3, 100, T.size) @ T / (T @ T)).std(ddof=1)
    assert message.code == "simulation.bias_within_scatter"
    assert message.numbers["sd"] == pytest.approx(scatter)
    (message,) = study(steady, noise=2.0).messages
    assert message.code == "simulation.bias_unclear"


def test_simulating_at_the_corrected_value_checks_the_assumption():
    truth = (DELIVERED - 0.1) / 1.2
    found = study(at={"k": truth}, noise=1e-4)
    assert found.simulated_at == {"k": pytest.approx(truth)}
    # From its own truth the pipeline returns what it delivered: nothing is left to correct.
    assert values(found, "estimate") == pytest.approx(DELIVERED, abs=1e-3)
    assert found.corrected["k"] == pytest.approx(truth, abs=1e-3)


@pytest.mark.parametrize(
    ("slope", "noise", "route"),
    [
        (1.2, 1e-3, ta.Route.STRENGTHEN_RESIDUAL_EVIDENCE),
        (1.2, 2.0, ta.Route.CODESIGN_OBSERVATIONS_AND_RESIDUAL_EVIDENCE),
        (23 / 24, 1e-3, ta.Route.WITHIN_TOLERANCE),
    ],
)
def test_the_route_follows_the_decision_map(slope, noise, route):
    found = study(Pipeline(slope=slope), noise=noise, tolerance=TOLERANCE)
    assert found.route is route
    assert "delivered error" in found.reason
    assert found.data["route"].item() == route.value


def test_without_a_tolerance_or_a_resolution_nothing_is_decided():
    assert study().route is ta.Route.UNDETERMINED
    found = study(tolerance=TOLERANCE, matched=False)
    assert found.route is ta.Route.UNDETERMINED
    assert "no resolution given" in found.reason
    assert "matched" not in found.summary().index.get_level_values("term")


def test_another_view_than_the_training_view_is_kept_apart():
    weights = np.linspace(0, 1, X.size)

    def pipeline(values, _):
        best_k = best(values)
        return ta.FrozenResidual(
            lambda k: (k - best_k) - np.where(X > 0.5, 0.4, 0.0),
            {"k": parameter(delivered=best_k)},
            X,
            view=ta.views.Pointwise(),
        )

    other = ta.views.Weighted(loss_weights=weights)
    found = study(pipeline, view=other, noise=1e-6)
    assert values(found, "training_displacement") == pytest.approx(0.4 * np.mean(X > 0.5), abs=1e-4)
    share = weights[X > 0.5].sum() / weights.sum()
    assert values(found, "displacement") == pytest.approx(0.4 * share, abs=1e-4)
    same = study(pipeline)
    assert (values(same, "training_displacement") == values(same, "displacement")).all()
    table = found.rank_views({"own": ta.views.Pointwise(), "other": other})
    assert table.index.tolist() == ["own", "other"]
    assert table.loc["other", "mean"] == pytest.approx(0.4 * share, abs=1e-4)


def test_failures_are_left_out_and_counted():
    def sometimes(values, seed):
        if seed % 3 == 0:
            raise RuntimeError("diverged")
        return Pipeline()(values, seed)

    found = study(sometimes, replicas=20)
    assert 0 < found.failures < 20
    message = found.messages[0]
    assert message.code == "simulation.failures"
    assert message.numbers == {"failures": found.failures, "replicas": 20}
    assert "the pipeline raised" in message.text
    assert found.summary().loc[("k", "delivered"), "replicas"] == 20 - found.failures
    assert len(found.frozen) == 20 - found.failures


def test_the_reason_of_a_failure_is_not_that_of_a_field_without_a_score():
    calls = []

    def mixed(values, seed):
        calls.append(seed)
        if len(calls) == 3:
            raise RuntimeError("diverged")
        if len(calls) == 2:
            known = {"k": parameter(delivered=best(values))}
            return ta.FrozenResidual(lambda k: 1 + 0 * k * X, known, X, view=ta.views.Pointwise())
        return Pipeline()(values, seed)

    (message,) = (one for one in study(mixed).messages if one.code == "simulation.failures")
    assert message.numbers["failures"] == 1
    assert "the first: the pipeline raised RuntimeError: diverged" in message.text


def test_a_high_quantile_leaves_out_fits_that_are_missing():
    tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0, statistic="p90")
    whole = study(noise=1e-3, tolerance=tolerance)
    data = whole.data.copy(deep=True)
    data["matched_error"][{"replica": 4}] = np.nan
    assert SimulatedAudit(data).route is whole.route
    assert "nan" not in SimulatedAudit(data).reason
    data["matched_error"][:] = np.nan
    assert SimulatedAudit(data).route is ta.Route.UNDETERMINED


def test_a_minimum_on_a_bound_is_no_preference():
    def far(values, _):
        known = {"k": parameter(delivered=best(values))}
        return ta.FrozenResidual(
            lambda k: (1 + X) * (k - 20.0), known, X, view=ta.views.Pointwise()
        )

    found = study(far, tolerance=TOLERANCE)
    assert np.isnan(values(found, "preferred_error")).all()
    assert np.isnan(values(found, "gap")).all()
    assert np.isfinite(values(found, "delivered_error")).all()
    assert "on the upper bound of k" in str(found.data["status"].values[0])
    assert "nan" not in repr(found).split("Route")[1]


def test_a_field_that_does_not_see_the_parameter_leaves_the_route_open():
    def blind(values, _):
        known = {"k": parameter(delivered=1.4 * best(values))}
        return ta.FrozenResidual(
            lambda k: np.ones(X.size) + 0 * k, known, X, view=ta.views.Pointwise()
        )

    found = study(blind, tolerance=TOLERANCE)
    assert found.route is ta.Route.UNDETERMINED
    assert found.bias["k"] > 0.5
    assert np.isnan(found.displacement["k"])
    assert "does not depend on" in str(found.data["status"].values[0])


def test_several_parameters_are_audited_together():
    design = np.column_stack([T, np.ones(T.size)])
    known = {
        "a": parameter(delivered=2.0),
        "b": parameter("log", delivered=3.0),
    }

    def pipeline(values, _):
        a, b = np.linalg.lstsq(design, values)[0]
        delivered = {"a": a + 0.2, "b": 1.1 * b}
        return ta.FrozenResidual(
            lambda a, b: np.concatenate([(a - delivered["a"]) * np.ones(4),
                                         (b - delivered["b"]) * np.ones(4)]),
            {n: parameter(p.coordinate, delivered=delivered[n]) for n, p in known.items()},
            np.arange(8.0),
            view=ta.views.Pointwise(),
        )  # fmt: skip

    found = simulated_audit(
        pipeline, lambda a, b: a * T + b, known, 1e-4, replicas=5, progress=False
    )
    assert found.corrected["a"] == pytest.approx(1.8, abs=1e-2)
    assert found.corrected["b"] == pytest.approx(3 / 1.1, abs=1e-2)
    assert found.displacement["a"] == pytest.approx(0.2, abs=1e-2)
    assert set(found.summary().index.get_level_values("parameter")) == {"a", "b"}


def test_it_comes_back_from_a_file_without_its_fields(tmp_path):
    found = study(tolerance=TOLERANCE)
    again = ta.load(found.save(tmp_path / "audit.nc"))
    assert repr(again) == repr(found)
    assert again.route is found.route
    assert again.messages == found.messages
    assert again.frozen == []
    assert pickle.loads(pickle.dumps(found)).corrected == found.corrected


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.drop_vars("gap"),
        lambda d: d.assign(gap=d["gap"] + 1),
        lambda d: d.assign(route=("parameter", np.array(["within tolerance"], dtype=object))),
        lambda d: d.assign(estimate=-d["estimate"]),
        lambda d: d.assign_attrs(tolerance_statistic="median"),
        lambda d: d.assign_attrs(tolerance_material=-5.0),
        lambda d: d.assign_attrs(tolerance_material=1e9),
        lambda d: d.assign_attrs(schema="x"),
    ],
)
def test_a_file_that_was_changed_is_refused(change, tmp_path):
    found = study(tolerance=TOLERANCE)
    with pytest.raises(ta.InputError):
        ta.load(write_netcdf(tmp_path / "audit.nc", change(found.data)))


def test_bad_input_is_refused():
    def never(_values, _seed):
        raise AssertionError("the pipeline must not run")

    known = {"k": parameter(delivered=DELIVERED)}
    for match, arguments, options in (
        ("a delivered value", (never, forward, {"k": parameter()}, 0.2), {}),
        ("where the truth is known", (never, forward, known, 0.2), {"at": "truth"}),
        ("replicas as an integer", (never, forward, known, 0.2), {"replicas": 1}),
        ("view as a twoaxis View", (never, forward, known, 0.2), {"view": "patch"}),
        ("tolerance as a twoaxis Tolerance", (never, forward, known, 0.2), {"tolerance": 5}),
        ("function of observed values", (None, forward, known, 0.2), {}),
        ("positive standard deviations", (never, forward, known, -1), {}),
        ("as the seed", (never, forward, known, 0.2), {"seed": 1.5}),
    ):
        with pytest.raises(ta.InputError, match=match):
            simulated_audit(*arguments, progress=False, **options)
    with pytest.raises(ta.InputError, match="for numbers alone use"):
        study(lambda values, _: best(values))
    asked = []

    def viewless(values, seed):
        asked.append(seed)
        return Pipeline(view=None)(values, seed)

    with pytest.raises(ta.InputError, match="carry no training view"):
        study(viewless)
    assert len(asked) == 1  # the others are not waited for
    assert study(viewless, view=ta.views.Pointwise()).failures == 0
    with pytest.raises(ta.InputError, match="two simulated datasets at least"):
        study(lambda *_: None)

    class Run:
        def __init__(self, values):
            self.delivered = {"k": best(values)}

        frozen = ta.FrozenResidual(
            lambda nu: nu * np.ones(3), {"nu": parameter()}, np.arange(3.0), ta.views.Pointwise()
        )

    with pytest.raises(ta.InputError, match="frozen residuals of the parameters k"):
        study(lambda values, _: Run(values))


def test_a_pipeline_whose_answers_do_not_depend_on_the_data_is_refused():
    fixed = Pipeline()(forward(0.632), 0)
    with pytest.raises(ta.InputError, match="the same answer on all 12 simulated datasets"):
        study(lambda *_: fixed)


def test_a_parameter_that_the_pipeline_holds_is_not_corrected():
    known = {name: parameter(delivered=2.0) for name in ("a", "b")}

    def pipeline(values, _):
        a = best(values)
        moved = {"a": parameter(delivered=a), "b": parameter(delivered=2.5)}
        return ta.FrozenResidual(
            lambda a, b: np.concatenate([a - moved["a"].delivered + 0 * X, b * X - X]),
            moved,
            np.concatenate([X, X + 1]),
            view=ta.views.Pointwise(),
        )

    found = simulated_audit(
        pipeline, lambda a, b: a * T + 1e-3 * b * T**2, known, 0.2, replicas=6, seed=3,
        matched=False, progress=False,
    )  # fmt: skip
    assert np.isnan(found.corrected["b"])
    assert np.isfinite(found.corrected["a"])
    assert "simulation.constant" in [message.code for message in found.messages]
    assert "corrected nan" not in repr(found)
