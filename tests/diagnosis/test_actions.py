"""What to do: the numbers of each action, against what the construction implies."""

import math

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
    assert found["delivered"] == 1.3
    assert found["preferred by the frozen field"] == pytest.approx(1.0, abs=0.003)
    assert found["gap"] == pytest.approx(30, abs=0.4)
    assert "twoaxis.polish" in action.call


def test_a_distorted_field_is_told_how_much_less_residual_would_do(made):
    found = audited(made, made.TIGHT, 1.3, 1.3)
    (action,) = found.actions
    assert action.kind == "evidence"
    moved = found.score.displacement["k"]
    assert moved == pytest.approx(0.3, abs=0.003)
    told = numbers(action)
    factor = told["residual norm to be smaller by a factor of"]
    assert factor == pytest.approx(abs(moved) / math.log(1.05))
    # The residual -0.3 u is smaller in late boxes: the strongest is an early one.
    assert "x0 from 0.7" in action.text or "x0 from 1.5" in action.text
    assert "x1 from 0.0" in action.text
    assert 100 / 16 < told["share of the pull in its strongest region"] < 100


def test_a_smaller_residual_norm_is_enough_indeed(made):
    """Shrink the residual of the constructed field by the factor that was told."""
    found = audited(made, made.TIGHT, 1.3, 1.3)
    factor = numbers(found.actions[0])["residual norm to be smaller by a factor of"]
    again = audited(made, made.TIGHT, 1 + 0.3 / factor, 1.3)
    assert again.score.displacement["k"] == pytest.approx(math.log(1.05), abs=0.002)


def test_downwards_the_tolerated_displacement_is_that_of_a_smaller_value(made):
    found = audited(made, made.TIGHT, 0.8, 0.8)
    moved = found.score.displacement["k"]
    assert moved == pytest.approx(-0.2, abs=0.003)
    factor = numbers(found.actions[0])["residual norm to be smaller by a factor of"]
    assert factor == pytest.approx(moved / math.log(0.95))


def test_noise_is_told_how_many_observations_would_do(made):
    found = audited(made, made.WEAK, 1.0, 1.3)
    (action,) = found.actions
    assert action.kind == "observations"
    told = numbers(action)
    measured = found.summary().loc["k", "resolution_percent"]
    assert told["mean matched error"] == measured
    assert told["observations now"] == len(made.SITES)
    assert told["observations needed, of the same kind"] == math.ceil(
        len(made.SITES) * (measured / 5.0) ** 2
    )
    assert told["or noise, times the present"] == pytest.approx(5.0 / measured)


def test_less_noise_by_the_told_factor_is_enough_indeed(made):
    noise = made.WEAK / 6  # where the errors are linear in the noise
    found = ta.audit(
        made.heat_field(1.3, 1.3),
        resolution=made.heat_resolution(noise),
        tolerance=ta.Tolerance(material=1.0, resolution=1.0, preference=5.0),
    )
    (first,) = [each for each in found.actions if each.kind == "observations"]
    less = made.heat_resolution(noise * numbers(first)["or noise, times the present"])
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
    assert "not because the data say so" in action.text
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


def test_what_is_missing_is_told(made):
    (action,) = ta.audit(made.heat_field(1.3, 1.3)).actions
    assert action.kind == "declare"
    assert "tolerance" in action.text


def test_actions_survive_a_file(made, tmp_path):
    found = audited(made, made.WEAK, 1.3, 1.3)
    kept = found.with_actions(found.actions)
    assert "/actions" not in (node.path for node in found.tree.subtree)
    kept.to_netcdf(tmp_path / "audit.nc")
    back = ta.load_audit(tmp_path / "audit.nc")
    assert back.actions == found.actions
    assert str(back) == str(found)
    empty = found.with_actions([])
    empty.to_netcdf(tmp_path / "empty.nc")
    assert ta.load_audit(tmp_path / "empty.nc").actions == []


def test_the_page_and_the_terminal_say_what_to_do(made, tmp_path):
    found = audited(made, made.WEAK, 1.3, 1.3, name="k")
    page = found.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "What to do" in page
    for action in found.actions:
        assert action.title in page
        assert f"To do: {action.title}" in str(found)
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
