"""What to do: the numbers of each action, against what the construction implies."""

import math

import numpy as np
import pytest

import twoaxis as ta


def audited(made, level, rate, delivered, **options):
    return ta.audit(
        made.heat_field(rate, delivered, **options),
        resolution=made.heat_resolution(level),
        tolerance=made.TOLERANCE,
    )


def numbers(action):
    return {each.label: each.value for each in action.numbers}


def test_an_early_stop_is_told_where_its_field_wants_the_parameter(made):
    (action,) = audited(made, made.TIGHT, 1.0, 1.3).actions
    assert action.kind == "delivery"
    found = numbers(action)
    assert found["delivered value"] == 1.3
    assert found["frozen scan minimum"] == pytest.approx(1.0, abs=0.003)
    assert found["delivery gap"] == pytest.approx(30, abs=0.4)
    assert "twoaxis.polish" in action.call


def test_a_distorted_field_is_told_how_much_less_residual_would_do(made):
    found = audited(made, made.TIGHT, 1.3, 1.3)
    (action,) = found.actions
    assert action.kind == "evidence"
    moved = found.score.displacement["k"]
    assert moved == pytest.approx(0.3, abs=0.003)
    found_numbers = numbers(action)
    factor = found_numbers["factor by which the residual norm must fall"]
    assert factor == pytest.approx(abs(moved) / math.log(1.05))
    # The residual -0.3 u is smaller in late boxes: the strongest is an early one.
    assert "x0 0.79 to" in action.text or "x0 1.57 to" in action.text
    assert "x1 0.00 to" in action.text
    assert 100 / 16 < found_numbers["share of the displacement from the leading region"] < 100


def test_a_smaller_residual_norm_is_enough_indeed(made):
    """Shrink the residual of the constructed field by the factor that was found_numbers."""
    found = audited(made, made.TIGHT, 1.3, 1.3)
    factor = numbers(found.actions[0])["factor by which the residual norm must fall"]
    again = audited(made, made.TIGHT, 1 + 0.3 / factor, 1.3)
    assert again.score.displacement["k"] == pytest.approx(math.log(1.05), abs=0.002)


def test_downwards_the_tolerated_displacement_is_that_of_a_smaller_value(made):
    found = audited(made, made.TIGHT, 0.8, 0.8)
    moved = found.score.displacement["k"]
    assert moved == pytest.approx(-0.2, abs=0.003)
    factor = numbers(found.actions[0])["factor by which the residual norm must fall"]
    assert factor == pytest.approx(moved / math.log(0.95))


def test_noise_is_told_how_many_observations_would_do(made):
    found = audited(made, made.WEAK, 1.0, 1.3)
    (action,) = found.actions
    assert action.kind == "observations"
    found_numbers = numbers(action)
    measured = found.summary().loc["k", "resolution_percent"]
    assert found_numbers["matched error (mean)"] == measured
    assert found_numbers["observations"] == len(made.SITES)
    assert found_numbers["observations needed, of the same kind"] == math.ceil(
        len(made.SITES) * (measured / 5.0) ** 2
    )
    assert found_numbers["noise factor that is enough instead"] == pytest.approx(5.0 / measured)


def test_less_noise_by_the_told_factor_is_enough_indeed(made):
    noise = made.WEAK / 6  # where the errors are linear in the noise
    found = ta.audit(
        made.heat_field(1.3, 1.3),
        resolution=made.heat_resolution(noise),
        tolerance=ta.Tolerance(material=1.0, resolution=1.0, preference=5.0),
    )
    (first,) = [each for each in found.actions if each.kind == "observations"]
    less = made.heat_resolution(noise * numbers(first)["noise factor that is enough instead"])
    assert float(less.error_percent.mean()) == pytest.approx(1.0, rel=0.05)


def test_both_come_in_the_order_of_their_size(made):
    resolution = made.heat_resolution(made.WEAK)
    measured = float(resolution.error_percent.mean())

    def order(resolved, preferred):
        found = ta.audit(
            made.heat_field(1.3, 1.3),
            resolution=resolution,
            tolerance=ta.Tolerance(material=5.0, resolution=resolved, preference=preferred),
        )
        return [action.kind for action in found.actions]

    assert order(measured / 2, 30.0) == ["observations", "evidence"]
    assert order(measured / 1.05, 5.0) == ["evidence", "observations"]


def test_luck_is_called_luck(made):
    (action,) = audited(made, made.WEAK, 1.0, 1.01).actions
    assert action.kind == "observations"
    assert action.title.startswith("Before the next dataset")
    assert audited(made, made.TIGHT, 1.0, 1.01).actions == []


def test_a_candidate_is_sent_to_simulations(made):
    found = ta.audit(
        made.heat_field(1.3, 1.3, truth=None),
        resolution=made.heat_resolution(made.TIGHT, 1.3, known=False),
        tolerance=made.TOLERANCE,
    )
    (action,) = found.actions
    assert (action.kind, action.numbers) == ("bias", ())
    assert "simulated_audit" in action.call


def test_parameters_that_agree_with_the_data_have_one_action():
    t = np.linspace(0, 3, 40)
    values = {"a": 1.0, "b": 0.5, "c": 2.0}
    known = {n: ta.Parameter(delivered=v, bounds=(0.1, 9.0)) for n, v in values.items()}

    def forward(a, b, c):
        return a * np.exp(-b * t) + c * t

    data = forward(**values) + 0.01 * np.random.default_rng(0).standard_normal(40)
    resolution = ta.resolve(forward, known, 0.01, replicas=5, progress=False)
    best = resolution.live.fit(resolution.live.observed(data, None)).fits.estimate[0]
    own = dict(zip(values, np.exp(best), strict=True))
    found = ta.audit(
        lambda **p: np.concatenate([(p[n] - own[n]) * t**k for k, n in enumerate(own)]),
        {n: ta.Parameter(delivered=v, bounds=(0.1, 9.0)) for n, v in own.items()},
        ta.views.Pointwise(),
        points=np.tile(t, 3)[:, None],
        resolution=resolution,
        data=data,
        tolerance=ta.Tolerance(5, 5, 5),
    )
    assert set(found.routes.values()) == {ta.Route.CONSISTENT_WITH_DATA}
    (action,) = found.actions
    assert action.kind == "bias"
    assert "a, b and c" in action.title


def test_what_is_missing_is_told(made):
    (action,) = ta.audit(made.heat_field(1.3, 1.3)).actions
    assert action.kind == "declare"
    assert "tolerance" in action.text


def test_actions_survive_a_file(made, tmp_path):
    found = audited(made, made.WEAK, 1.3, 1.3)
    kept = found.with_actions(found.actions)
    assert "/actions" not in (node.path for node in found.data.subtree)
    kept.save(tmp_path / "audit.nc")
    back = ta.load(tmp_path / "audit.nc")
    assert back.actions == found.actions
    assert str(back) == str(found)
    empty = found.with_actions([])
    empty.save(tmp_path / "empty.nc")
    assert ta.load(tmp_path / "empty.nc").actions == []


def test_the_page_and_the_terminal_say_what_to_do(made, tmp_path):
    found = audited(made, made.WEAK, 1.3, 1.3, name="k")
    page = found.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "What to do" in page
    for action in found.actions:
        assert action.title in page
        assert f"Next step: {action.title}" in str(found)
        for each in action.numbers:
            assert each.label in page


def test_names_are_escaped_in_actions(made, tmp_path):
    name = "<b>k"
    found = ta.audit(
        made.heat_field(1.0, 1.3, name=name),
        resolution=made.heat_resolution(made.WEAK, name=name),
        tolerance=made.TOLERANCE,
    )
    page = found.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<b>k" not in page
    assert "&lt;b&gt;k" in page


T = np.linspace(0.0, 3.0, 40)


def decay(data_of, model, delivered, bounds=(0.2, 5.0), noise=0.02, real=None):
    """Audit a field that is right for what it delivers, with data and without a truth.

    The data have the noise that is declared, unless the `real` one is given.
    """
    known = {n: ta.Parameter(delivered=v, bounds=bounds) for n, v in delivered.items()}
    size = noise if real is None else real
    data = data_of + size * np.random.default_rng(2).standard_normal(len(T))
    u, rate = model(**delivered), math.prod(delivered.values())
    return ta.audit(
        lambda **values: (math.prod(values.values()) - rate) * u,
        known,
        ta.views.Pointwise(),
        points=T,
        resolution=ta.resolve(model, known, noise, replicas=20, progress=False),
        data=data,
        fitted=u,
        tolerance=ta.Tolerance(5, 5, 5),
    )


def test_no_number_of_observations_separates_two_factors():
    found = decay(np.exp(-2 * T), lambda a, b: np.exp(-a * b * T), {"a": 1.3, "b": 2 / 1.3})
    assert found.route is ta.Route.IMPROVE_OBSERVATIONS
    direction = found.undetermined_direction("a")
    assert direction in ("+0.71 a -0.71 b", "-0.71 a +0.71 b")
    assert all(direction in line for line in found.answer.splitlines())
    (action,) = found.actions  # one for both, which does not count observations
    assert action.kind == "identifiability"
    assert found.next_step.startswith("Observe something else")  # not more of the same
    assert direction in action.text
    assert action.numbers == ()


def test_a_determined_parameter_has_no_such_direction():
    found = decay(np.exp(-2 * T), lambda k: np.exp(-k * T), {"k": 2.0})
    assert found.undetermined_direction("k") == ""


def test_bounds_that_hide_how_little_is_resolved():
    # The standard error is 100%, and the bounds allow a deviation of a tenth.
    faint = decay(0.02 * np.exp(-2 * T), lambda k: 0.02 * np.exp(-k * T), {"k": 2.0}, (1.8, 2.2))
    (action,) = faint.actions
    found = numbers(action)
    error = found["standard error without bounds"]
    assert error > 3 * found["matched deviation (mean)"]
    assert found["observations needed, of the same kind"] == math.ceil(40 * (error / 5) ** 2)


def test_noise_that_is_declared_too_large_comes_before_more_observations():
    def model(k):
        return np.exp(-k * T)

    found = decay(model(0.8), model, {"k": 0.9}, noise=1.0, real=0.01)
    assert found.route is ta.Route.IMPROVE_OBSERVATIONS
    assert found.actions[0].kind == "noise"
    assert found.next_step == f"{found.actions[0].title}."
    (left,) = found.actions[0].numbers
    assert left.value == pytest.approx(0.01, rel=0.3)
    # The value is far off by the noise that is there, and the declared noise hides that.
    (asked,) = [q for q in found.questions if q.code == "contradiction"]
    assert (asked.answer, asked.route) == ("not known", None)
    right = decay(model(0.8), model, {"k": 0.9}, noise=0.01)
    assert right.severity == "bad"
    assert "noise" not in {action.kind for action in right.actions}


def test_values_of_either_sign_are_not_told_apart_by_more_of_the_same():
    def model(k):
        return np.exp(-(k**2) * T)

    k = {"k": ta.Parameter(delivered=1.0, bounds=(-3.0, 3.0), coordinate="linear", scale=1.0)}
    data = model(1.0) + 0.02 * np.random.default_rng(0).standard_normal(len(T))
    frozen = ta.FrozenResidual(
        lambda k: (k - 1) * np.exp(-T) + 1e-3 * np.cos(9 * T), k, T, view=ta.views.Pointwise()
    )
    resolution = ta.resolve(model, k, 0.02, replicas=40, progress=False)
    limits = ta.Tolerance(5, 5, 5)
    found = ta.audit(frozen, resolution=resolution, data=data, tolerance=limits)
    assert found.route is ta.Route.IMPROVE_OBSERVATIONS
    (action,) = found.actions
    assert action.kind == "identifiability"
    assert "times as many" not in action.text
    assert found.next_step.startswith("Tell separate values of k apart")


def test_a_product_around_a_truth_is_not_asked_for_more_of_the_same():
    known = {
        name: ta.Parameter(truth=value, delivered=1.5 * value, bounds=(0.2, 5.0))
        for name, value in {"a": 1.3, "b": 2 / 1.3}.items()
    }
    frozen = ta.FrozenResidual(
        lambda a, b: (a * b - 3) * np.exp(-T) + 1e-3 * np.cos(9 * T),
        known,
        T,
        view=ta.views.Pointwise(),
    )
    resolution = ta.resolve(
        lambda a, b: np.exp(-a * b * T), known, 0.02, replicas=10, progress=False
    )
    found = ta.audit(frozen, resolution=resolution, tolerance=ta.Tolerance(5, 5, 5))
    assert found.actions[0].kind == "identifiability"
    assert found.next_step.startswith("Observe something else")


def test_a_count_of_observations_has_an_end():
    found = decay(1e-5 * np.exp(-0.8 * T), lambda k: 1e-5 * np.exp(-k * T), {"k": 0.8}, noise=3.0)
    assert found.route is ta.Route.IMPROVE_OBSERVATIONS
    assert "more than a billion observations" in found.actions[0].text
