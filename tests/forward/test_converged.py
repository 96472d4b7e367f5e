"""The converged solver at the sites of the declared one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from twoaxis.forward.converged import converged_at_sites
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.problems import ALLEN_CAHN, BUCKLEY_LEVERETT


def test_sites_are_the_same_places_on_both_grids():
    declared = ExplicitSolver(ALLEN_CAHN, levels=41, nodes=21)
    fine = ExplicitSolver(ALLEN_CAHN, levels=241, nodes=41).field(lam=5.0)
    sites = np.arange(declared.levels * declared.nodes)
    (found,) = converged_at_sites(declared, sites, finer=2, more_levels=6, lam=[5.0])
    assert found.reshape(41, 21) == pytest.approx(fine[::6, ::2], rel=1e-6, abs=1e-9)


def test_a_node_on_a_step_has_the_mean_of_both_sides():
    declared = ExplicitSolver(BUCKLEY_LEVERETT, levels=401, nodes=41)
    first = np.arange(declared.nodes)
    (found,) = converged_at_sites(declared, first, finer=1, more_levels=1, M=[2.0])
    assert found[9:12].tolist() == [1.0, 0.5, 0.0]
    assert declared.x[10] == 0.25


def test_several_parameters_of_one_problem_come_in_order():
    declared = ExplicitSolver(replace(ALLEN_CAHN), levels=41, nodes=21)
    found = converged_at_sites(declared, [400, 500], finer=2, more_levels=2, lam=[4.0, 6.0])
    alone = converged_at_sites(declared, [400, 500], finer=2, more_levels=2, lam=[6.0])
    assert found.shape == (2, 2)
    assert found[1] == pytest.approx(alone[0], rel=1e-12)
