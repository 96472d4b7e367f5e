"""Polishing against losses whose joint minimum is known, and what is said about it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.io import write_netcdf
from twoaxis.remedies import polish
from twoaxis.training_loss import Objective

RNG = np.random.default_rng(5)
POINTS = np.linspace(0, 1, 30)
FIELD = RNG.normal(size=(30, 6))  # residual = FIELD @ weights - k * PULL - CONSTANT
PULL, CONSTANT = RNG.normal(size=(2, 30))
READ, VALUES = RNG.normal(size=(12, 6)), RNG.normal(size=12)
FACTOR = 2.0
START = np.array([*RNG.normal(size=6), 4.0])


def verdict(found):
    return found.messages[0].code


@dataclass
class LinearObjective:
    """A field that is linear in its weights and a parameter in a linear coordinate."""

    start: np.ndarray
    view: ta.views.View
    declared: ta.views.View
    truth: float | None = 1.0
    names: tuple[str, ...] = ("k",)

    def value_and_gradient(self, vector):
        M = self.view.bind(POINTS).matrix()
        weights, k = vector[:-1], vector[-1]
        misfit = READ @ weights - VALUES
        r = FIELD @ weights - k * PULL - CONSTANT
        by_weights = 2 * READ.T @ misfit / 12 + 2 * FACTOR * FIELD.T @ M @ r
        by_k = -2 * FACTOR * PULL @ M @ r
        return misfit @ misfit / 12 + FACTOR * r @ M @ r, np.append(by_weights, by_k)

    def frozen(self, vector):
        known = ta.Parameter(
            truth=self.truth, delivered=float(vector[-1]), bounds=(-60.0, 60.0),
            coordinate="linear", scale=1.0,
        )  # fmt: skip
        base = FIELD @ vector[:-1] - CONSTANT
        return ta.FrozenResidual(lambda k: base - k * PULL, {"k": known}, POINTS, self.declared)


def objective(view=None, declared=None, start=START, truth=1.0):
    view = view or ta.views.Pointwise()
    return LinearObjective(start, view, declared or view, truth)


def joint_minimum(view):
    """The joint minimum by one linear least-squares problem, weights and k together."""
    values, vectors = np.linalg.eigh(view.bind(POINTS).matrix())
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T * np.sqrt(FACTOR)
    top = np.column_stack([READ, np.zeros(12)]) / np.sqrt(12)
    system = np.vstack([top, root @ np.column_stack([FIELD, -PULL])])
    return np.linalg.lstsq(
        system, np.concatenate([VALUES / np.sqrt(12), root @ CONSTANT]), rcond=None
    )[0]


@pytest.mark.parametrize(
    "view",
    [
        ta.views.Pointwise(),
        ta.views.Patch(cells=5),
        ta.views.Gaussian(),
        ta.views.Weighted(loss_weights=np.linspace(0.1, 2, 30)),
    ],
    ids=lambda view: view.describe(),
)
def test_finishing_reaches_the_joint_minimum_and_closes_the_gap(view):
    own = objective(view)
    found = polish(own.frozen(START), own, progress=False)
    best = joint_minimum(view)
    assert found.finish.loss_after == pytest.approx(own.value_and_gradient(best)[0], rel=1e-9)
    assert found.finished["k"] == pytest.approx(best[-1], abs=1e-4)
    assert abs(found.gap_after["k"]) < 0.01
    assert found.closed_percent["k"] > 99.9
    assert found.finish.gradient_after < 1e-5 < found.finish.gradient_before
    assert verdict(found) == "polish.gap_closed"
    assert found.messages[0].numbers["closed_percent"] == found.closed_percent["k"]


def test_the_frozen_minimum_is_the_closed_form():
    own = objective()
    found = polish(own.frozen(START))
    base = FIELD @ START[:-1] - CONSTANT
    expected = PULL @ base / (PULL @ PULL)
    assert found.frozen_minimum["k"] == pytest.approx(expected, rel=1e-10)
    assert found.gap_before["k"] == pytest.approx(100 * (4.0 - expected), rel=1e-9)
    assert found.data["affine"].values.all()
    table = found.summary()
    assert table.loc[("frozen minimum", "k"), "gap_percent"] == pytest.approx(0, abs=1e-9)
    left = base - expected * PULL
    assert table.loc[("frozen minimum", "k"), "residual_loss"] == pytest.approx(left @ left / 30)
    assert table.loc[("delivered", "k"), "error_percent"] == pytest.approx(300)
    assert found.finish is None
    assert found.finished is None
    assert verdict(found) == "polish.gap_unexplained"


def test_little_to_gain_is_said_of_a_state_that_has_arrived():
    best = joint_minimum(ta.views.Pointwise())
    own = objective(start=best)
    found = polish(own.frozen(best), own, progress=False)
    assert found.little_to_gain
    assert verdict(found) == "polish.little_to_gain"
    assert found.loss_fall_percent == pytest.approx(0, abs=1e-6)
    assert found.messages[1].code == "polish.moved"


def test_a_small_gap_does_not_hide_an_unfinished_field():
    base = FIELD @ START[:-1] - CONSTANT
    start = np.append(START[:-1], PULL @ base / (PULL @ PULL))
    own = objective(start=start)
    found = polish(own.frozen(start), own, progress=False)
    assert found.little_to_gain
    assert verdict(found) == "polish.field_unfinished"
    assert found.messages[0].numbers["loss_fall_percent"] == found.loss_fall_percent > 25


def test_a_wrong_view_keeps_the_gap_open():
    """A loss that is not the declared one is stationary where the declared profile is not."""
    weights = np.where(POINTS < 0.3, 30.0, 0.01)
    start = joint_minimum(ta.views.Pointwise()) + 0.001
    own = objective(ta.views.Pointwise(), ta.views.Weighted(loss_weights=weights), start)
    found = polish(own.frozen(start), own, progress=False)
    assert found.finish.gradient_after < 1e-5
    assert abs(found.gap_after["k"]) > 5
    assert abs(found.closed_percent["k"]) < 10
    assert verdict(found) == "polish.gap_remains"


def test_messages_name_the_change_of_the_error():
    own = objective()
    found = polish(own.frozen(START), own, progress=False)
    before, _, after = found.data["error_percent"].sel(parameter="k").values
    assert before == pytest.approx(300)
    assert after == pytest.approx(100 * (found.finished["k"] - 1))
    numbers = {"k": found.finished["k"], "k_error_before": before, "k_error_after": after}
    assert found.messages[1].numbers == numbers
    unknown = objective(truth=None)
    without = polish(unknown.frozen(START), unknown, progress=False)
    assert without.messages[1].numbers == {"k": found.finished["k"]}
    assert "error_percent" not in without.summary()
    assert without.verdict == found.verdict


def test_iterations_are_a_limit():
    own = objective()
    found = polish(own.frozen(START), own, iterations=1, progress=False)
    assert found.finish.iterations == 1
    assert not found.finish.converged
    assert "not converged" in repr(found)


def test_dataset_and_text():
    own = objective()
    found = polish(own.frozen(START), own, progress=False)
    data = found.data
    assert list(data["stage"].values) == ["delivered", "frozen minimum", "finished"]
    assert float(data["value"].sel(stage="delivered", parameter="k")) == 4.0
    assert data.attrs["iterations"] == found.finish.iterations
    assert data.attrs["loss_after"] < data.attrs["loss_before"]
    assert found.verdict in repr(found)
    assert isinstance(own, Objective)


def frozen(residual, delivered=1.0, bounds=(0.5, 2.0)):
    known = {"k": ta.Parameter(delivered=delivered, bounds=bounds)}
    return ta.FrozenResidual(residual, known, POINTS, ta.views.Pointwise())


def test_a_minimum_outside_the_bounds_is_looked_for():
    found = polish(frozen(lambda k: k - 6.0 + 0 * POINTS))
    assert found.frozen_minimum["k"] == pytest.approx(6.0)
    assert found.gap_before["k"] == pytest.approx(-100 * 5 / 6)


def test_a_profile_without_a_minimum_has_no_gap():
    found = polish(frozen(lambda k: k + 6.0 + 0 * POINTS))
    assert found.gap_before is None
    assert found.little_to_gain is None
    assert verdict(found) == "polish.no_interior_minimum"
    assert "lower bound of k" in str(found.data["scan_status"].sel(stage="delivered").item())
    assert "gap_percent" not in found.summary()


def test_bounds_are_not_widened_into_where_the_residual_is_not_defined():
    def residual(k):
        return (k - 6.0 if k <= 2.0 else np.nan) + 0 * POINTS

    found = polish(frozen(residual))
    assert found.frozen_minimum["k"] == pytest.approx(2.0)
    assert found.gap_before is None


def test_a_flat_profile_has_nothing_to_move():
    found = polish(frozen(lambda k: 1.0 + 0 * k * POINTS))
    assert found.frozen_minimum is None
    assert [message.code for message in found.messages] == ["polish.flat", "polish.not_moved"]
    assert list(found.summary().index.get_level_values("stage")) == ["delivered"]


def test_steps_into_an_infinite_loss_are_taken_back():
    @dataclass
    class Walled(LinearObjective):
        def value_and_gradient(self, vector):
            value, gradient = super().value_and_gradient(vector)
            return (np.nan if vector[-1] < -50 else value), gradient

    view = ta.views.Pointwise()
    own = Walled(START, view, view)
    found = polish(own.frozen(START), own, progress=False)
    assert np.isfinite(found.finish.loss_after)
    assert found.closed_percent["k"] > 99.9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"small_gap": 0.0}, "small_gap as a positive percentage"),
        ({"small_gap": "no"}, "small_gap as a positive percentage"),
        ({"iterations": 0}, "at least one iteration"),
        ({"iterations": 2.5}, "at least one iteration"),
        ({"candidates": 1}, "from 3 to 100000 candidates"),
        ({"objective": object()}, "an objective with names"),
        ({"objective": LinearObjective}, "an objective with names"),
    ],
)
def test_bad_options(change, words):
    own = objective()
    options = {"objective": own, "progress": False, **change}
    with pytest.raises(ta.InputError, match=words):
        polish(own.frozen(START), **options)


def test_bad_objectives():
    own = objective()
    before = own.frozen(START)

    def refused(words, **changes):
        other = objective()
        for name, value in changes.items():
            setattr(other, name, value)
        with pytest.raises(ta.InputError, match=words):
            polish(before, other, progress=False)

    refused("an objective of the parameters k", names=("nu",))
    refused("a flat vector", start=START[:, None])
    refused("a flat vector", start=np.arange(7))
    refused("a finite loss", value_and_gradient=lambda vector: (np.nan, vector))
    refused("a gradient of shape", value_and_gradient=lambda vector: (1.0, vector[:3]))
    refused("starts from the delivered k = 4.0", start=START + 1)
    refused("no such pair, but float", value_and_gradient=lambda vector: vector.sum())
    refused("no such pair, but tuple", value_and_gradient=lambda vector: (vector, vector))
    refused("no such pair, but tuple", value_and_gradient=lambda vector: (1.0,))  # noqa: ARG005
    refused("ZeroDivisionError: division", value_and_gradient=lambda vector: 1 / int(0 * vector[0]))
    refused("TypeError: 'float' object is not callable", value_and_gradient=1.0)
    refused("frozen to return the FrozenResidual", frozen=lambda vector: vector)
    refused("frozen to return .* got KeyError", frozen=lambda vector: {}[0])  # noqa: ARG005


def test_an_objective_that_fails_later_is_refused():
    own = objective()
    sound, calls = own.value_and_gradient, []

    def failing(vector):
        calls.append(vector)
        if len(calls) == 4:
            raise ArithmeticError("no loss here")
        return sound(vector)

    own.value_and_gradient = failing
    with pytest.raises(ta.InputError, match="ArithmeticError: no loss here"):
        polish(own.frozen(START), own, progress=False)


def test_bad_subjects():
    with pytest.raises(ta.InputError, match="a frozen residual, or a run"):
        polish(3.0)
    with pytest.raises(ta.InputError, match="a delivered value for every parameter"):
        polish(frozen(lambda k: k + 0 * POINTS, delivered=None))
    bare = ta.FrozenResidual(
        lambda k: k + 0 * POINTS, {"k": ta.Parameter(delivered=1.0, bounds=(0.5, 2.0))}, POINTS
    )
    with pytest.raises(ta.InputError, match="a view of the residual"):
        polish(bare)
    assert polish(bare, view=ta.views.Pointwise()).frozen_minimum is not None


def test_a_parameter_whose_place_is_known_cannot_run_away():
    @dataclass
    class Runaway:
        """A loss that falls for ever as the coordinate of the parameter does."""

        start: np.ndarray
        names: tuple[str, ...] = ("k",)

        def value_and_gradient(self, vector):
            return float(np.exp(vector[0]) + vector[1] ** 2), np.array(
                [np.exp(vector[0]), 2 * vector[1]]
            )

        def frozen(self, vector):
            value = float(np.exp(vector[0]))
            known = ta.Parameter(delivered=value, bounds=(min(0.5, value), 2.0))
            residual = lambda k: k - 1.0 + 0 * POINTS  # noqa: E731
            return ta.FrozenResidual(residual, {"k": known}, POINTS, ta.views.Pointwise())

    start = np.array([0.3, 1.0])
    free = polish(Runaway(start).frozen(start), Runaway(start), progress=False)
    assert free.finished["k"] < 1e-3
    held = Runaway(start)
    held.positions = {"k": 0}
    assert polish(held.frozen(start), held, progress=False).finished["k"] == pytest.approx(0.05)


@pytest.mark.parametrize("bounds", [(0.001, 0.005), (0.002, 0.05), (0.003, 0.007)])
@pytest.mark.parametrize("target", [1e3, -1e3])
def test_a_minimum_on_a_bound_is_no_gap(bounds, target):
    """exp(log(bound)) may lie a last digit beyond the bound."""
    found = polish(frozen(lambda k: k * np.ones(30) - target, delivered=0.004, bounds=bounds))
    edge = 10 * bounds[1] if target > 0 else bounds[0] / 10
    moved = found.data["value"].sel(stage="frozen minimum", parameter="k")
    assert float(moved) == pytest.approx(edge, rel=1e-12)
    assert verdict(found) == "polish.no_interior_minimum"


@dataclass
class Bowl:
    """The loss ``a (x - 1)^2 / 2 + (y - 2)^2 / 2``, not finite for x above a wall; k = x."""

    start: np.ndarray
    steep: float = 1000.0
    wall: float = np.inf
    names: tuple[str, ...] = ("k",)
    calls: int = 0

    def value_and_gradient(self, vector):
        self.calls += 1
        x, y = vector
        value = np.nan if x > self.wall else self.steep * (x - 1) ** 2 / 2 + (y - 2) ** 2 / 2
        return value, np.array([self.steep * (x - 1), y - 2])

    def frozen(self, vector):
        value = float(vector[0])
        room = ta.Parameter(bounds=(-9.0, 9.0), coordinate="linear").holding(value)
        known = replace(room, delivered=value)
        return ta.FrozenResidual(
            lambda k: k - 1.0 + 0 * POINTS, {"k": known}, POINTS, ta.views.Pointwise()
        )


@pytest.mark.parametrize("wall", [1.05, 1.5])
def test_a_step_over_a_wall_does_not_end_the_search(wall):
    """The first step is of length one, and leads to where the loss is not finite."""
    start = np.array([0.99, 0.0])
    own = Bowl(start, wall=wall)
    found = polish(own.frozen(start), own, progress=False)
    np.testing.assert_allclose(found.finish.vector, [1.0, 2.0], atol=1e-8)
    assert found.finish.converged
    assert own.calls == found.finish.evaluations + 1


def test_a_loss_that_ceased_to_fall_has_not_converged():
    """Beside a large constant the fall is below the last digit, and the search ends content."""

    @dataclass
    class Lifted(Bowl):
        def value_and_gradient(self, vector):
            value, gradient = super().value_and_gradient(vector)
            return value + 1e20, gradient

    start = np.array([0.99, 0.0])
    own = Lifted(start, steep=10.0)
    found = polish(own.frozen(start), own, progress=False)
    assert found.finish.gradient_after > 0.01
    assert not found.finish.converged
    assert "(not converged)" in repr(found)


def test_a_gradient_against_a_bound_has_converged():
    start = np.array([8.0, 0.0])
    own = Bowl(start, steep=-1.0)
    own.positions = {"k": 0}
    found = polish(own.frozen(start), own, progress=False)
    assert found.finished["k"] == 27.0  # three times as wide: from -27 to 27
    assert found.finish.gradient_after == pytest.approx(26.0)
    assert found.finish.converged


@dataclass
class OneOfTwo:
    """The residual ``FIELD w - k PULL - c CONSTANT``, with c held at its delivered value."""

    start: np.ndarray
    exact: bool = False
    held: float = 2.0
    names: tuple[str, ...] = ("k", "c")

    @property
    def positions(self):
        return {"k": self.start.size - 1}

    def value_and_gradient(self, vector):
        misfit = READ @ vector[:-1] - VALUES
        r = FIELD @ vector[:-1] - vector[-1] * PULL - self.held * CONSTANT
        slope = 2 * READ.T @ misfit / 12 + 2 * FIELD.T @ r / 30
        return misfit @ misfit / 12 + r @ r / 30, np.append(slope, -2 * PULL @ r / 30)

    def frozen(self, vector):
        known = {
            name: ta.Parameter(
                delivered=value, truth=1.0, bounds=(-60.0, 60.0), coordinate="linear", scale=1.0
            )
            for name, value in (("k", float(vector[-1])), ("c", self.held))
        }
        base = FIELD @ vector[:-1]
        return ta.FrozenResidual(
            lambda k, c: base - k * PULL - c * CONSTANT, known, POINTS, ta.views.Pointwise(),
            jacobian=(lambda **_: -np.column_stack([PULL, CONSTANT])) if self.exact else None,
        )  # fmt: skip


@pytest.mark.parametrize("exact", [False, True])
def test_a_parameter_that_the_objective_holds_has_no_gap(exact):
    own = OneOfTwo(START, exact)
    found = polish(own.frozen(START), own, progress=False)
    expected = PULL @ (FIELD @ START[:-1] - 2.0 * CONSTANT) / (PULL @ PULL)
    assert found.frozen_minimum == {"k": pytest.approx(expected, rel=1e-9)}
    assert found.gap_before == {"k": pytest.approx(100 * (4.0 - expected), rel=1e-8)}
    assert abs(found.gap_after["k"]) < 0.01
    assert verdict(found) == "polish.gap_closed"
    assert list(found.parameters) == ["k"]
    assert list(found.finish.frozen.parameters) == ["k", "c"]


@pytest.mark.parametrize("positions", [{"nu": 0}, {"k": 7}, {"k": 0.5}, [6], None])
def test_positions_that_cannot_be_used(positions):
    own = objective()
    own.positions = positions
    with pytest.raises(ta.InputError, match="positions from names of parameters"):
        polish(own.frozen(START), own, progress=False)


def test_it_comes_back_from_a_file_without_its_field(tmp_path):
    own = objective()
    found = polish(own.frozen(START), own, progress=False)
    again = ta.load(found.save(tmp_path / "polish.nc"))
    assert repr(again) == repr(found)
    assert again.messages == found.messages
    assert again.closed_percent == found.closed_percent
    assert again.finish.vector is None
    assert again.finish.loss_after == found.finish.loss_after
    moved = polish(own.frozen(START))
    assert ta.load(moved.save(tmp_path / "moved.nc")).finish is None


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.assign(gap_percent=d["gap_percent"] + 1),
        lambda d: d.assign(error_percent=d["error_percent"] * 0),
        lambda d: d.assign(value=d["value"] + 1),
        lambda d: d.drop_vars("scan_status"),
        lambda d: d.drop_attrs(),
    ],
)
def test_a_file_that_was_changed_is_refused(change, tmp_path):
    own = objective()
    found = polish(own.frozen(START))
    with pytest.raises(ta.InputError):
        ta.load(write_netcdf(tmp_path / "polish.nc", change(found.data)))


def test_a_parameter_that_the_field_does_not_determine_has_no_gap():
    u = np.random.default_rng(0).standard_normal(30)
    known = {name: ta.Parameter(bounds=(0.1, 5), delivered=1.0) for name in "abc"}
    frozen = ta.FrozenResidual(
        lambda a, b, c: np.append((a + c) * u - 1.5 * u, (b - 1.1) * u),
        known,
        np.linspace(0, 1, 60),
        view=ta.views.Pointwise(),
    )
    found = ta.polish(frozen, progress=False)
    # Only a + c is determined, and b.
    assert found.frozen_minimum == pytest.approx({"b": 1.1})
    assert found.gap_before == pytest.approx({"b": 100 * (1 / 1.1 - 1)})
    assert np.isnan(found.data["preferred"].sel(parameter=["a", "c"])).all()
    assert np.isfinite(found.data["value"]).all()
    alone = ta.FrozenResidual(
        lambda a, c: (a + c) * u - 1.5 * u,
        {name: known[name] for name in "ac"},
        np.linspace(0, 1, 30),
        view=ta.views.Pointwise(),
    )
    assert "does not determine a and c" in ta.polish(alone, progress=False).verdict
