"""A training loss as an objective, and what a few more iterations of training change."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import twoaxis as ta
from twoaxis.training_loss import Objective, probe

POINTS = np.linspace(0, 1, 5)
SCALES = np.array([1.0, 9.0, 40.0, 3.0])
MINIMUM = np.array([0.5, -1.0, 2.0, np.log(0.4)])


@dataclass
class Quadratic:
    """``1 + sum(SCALES (x - MINIMUM)^2) / 2``; its last entries are the coordinates of k and c."""

    start: np.ndarray
    positions: dict = field(default_factory=lambda: {"k": 3, "c": 2})
    names: tuple[str, ...] = ("k", "c")
    held: float = 2.5
    calls: int = 0

    def value_and_gradient(self, vector):
        self.calls += 1
        away = vector - MINIMUM
        return 1 + SCALES @ away**2 / 2, SCALES * away

    def frozen(self, vector):
        c = float(vector[2]) if "c" in self.positions else self.held
        known = {
            "k": ta.Parameter(delivered=float(np.exp(vector[3])), bounds=(0.01, 10.0)),
            "c": ta.Parameter(delivered=c, bounds=(-9.0, 9.0), coordinate="linear", scale=1.0),
        }
        return ta.FrozenResidual(
            lambda k, c: k + c * POINTS, known, POINTS, ta.views.Pointwise(), objective=self
        )


START = np.array([1.0, 1.0, 2.5, np.log(0.5)])


def test_a_probe_moves_an_unfinished_training_towards_its_minimum():
    own = Quadratic(START)
    found = probe(own)
    assert found.displacement["k"] == pytest.approx(np.log(0.4 / 0.5), abs=1e-6)
    assert found.displacement["c"] == pytest.approx(-0.5, abs=1e-6)
    before = 1 + SCALES @ (START - MINIMUM) ** 2 / 2
    assert found.losses[0] == before
    assert found.relative_decrease == pytest.approx(1 - 1 / before)
    assert found.gradient_before == pytest.approx(np.abs(SCALES * (START - MINIMUM)).max())
    assert found.converged
    assert found.gradient_after < 1e-9
    assert found.path.shape == (found.iterations + 1, 2) == (len(found.losses), 2)
    np.testing.assert_array_equal(found.path[-1], list(found.displacement.values()))
    assert (np.diff(found.losses) <= 0).all()


def test_a_probe_leaves_a_finished_training_where_it_is():
    found = probe(Quadratic(MINIMUM))
    assert found.displacement == {"k": 0.0, "c": 0.0}
    assert found.relative_decrease == 0.0
    assert found.converged


def test_a_probe_is_repeatable_and_bounded():
    own = Quadratic(START)
    short = probe(own, iterations=2)
    assert short.iterations == 2
    assert not short.converged
    assert short.evaluations + 1 == own.calls  # one more to check the objective first
    again = probe(Quadratic(START), iterations=2)
    np.testing.assert_array_equal(short.path, again.path)
    np.testing.assert_array_equal(short.losses, again.losses)
    np.testing.assert_array_equal(own.start, START)


def test_a_held_parameter_does_not_move():
    own = Quadratic(START, positions={"k": 3})
    found = probe(own, own.frozen(START))
    assert found.displacement["c"] == 0.0
    assert found.displacement["k"] == pytest.approx(np.log(0.4 / 0.5), abs=1e-6)


def test_without_positions_the_ends_of_the_path_are_known():
    @dataclass
    class Silent(Quadratic):
        def frozen(self, vector):
            return replace(Quadratic(vector).frozen(vector), objective=None)

    found = probe(Silent(START, positions={}))
    assert found.path.shape == (2, 2)
    assert found.displacement["k"] == pytest.approx(np.log(0.4 / 0.5), abs=1e-6)
    assert found.displacement["c"] == pytest.approx(-0.5, abs=1e-6)


def test_a_frozen_residual_holds_an_objective_and_refuses_anything_else():
    own = Quadratic(START)
    frozen = own.frozen(START)
    assert frozen.objective is own
    assert isinstance(own, Objective)
    for wrong in (3.0, Quadratic, lambda vector: (0.0, vector)):
        with pytest.raises(ta.InputError, match="an objective with names"):
            replace(frozen, objective=wrong)


def test_an_objective_is_not_evaluated_before_it_is_used():
    class Lazy(Quadratic):
        @property
        def start(self):
            raise AssertionError("built too early")

        @start.setter
        def start(self, value):
            pass

    replace(Quadratic(START).frozen(START), objective=Lazy(START))


def test_polish_uses_the_objective_of_the_frozen_residual():
    own = Quadratic(START)
    found = ta.polish(own.frozen(START), progress=False)
    assert found.finished["k"] == pytest.approx(0.4)
    assert found.finished["c"] == pytest.approx(2.0)


@pytest.mark.parametrize("iterations", [0, 1.5, "many"])
def test_iterations_are_a_count(iterations):
    with pytest.raises(ta.InputError, match="at least one iteration"):
        probe(Quadratic(START), iterations=iterations)


def test_an_objective_of_another_state_is_refused():
    own = Quadratic(START)
    with pytest.raises(ta.InputError, match="starts from the delivered k"):
        probe(Quadratic(START + 0.1), own.frozen(START))
