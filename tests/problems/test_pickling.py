"""Problems travel between processes: built-in ones by their name, others with all they have."""

import copy
import pickle
from dataclasses import replace

import pytest

from twoaxis.problems import PROBLEMS


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_built_in_problem_comes_out_as_itself(problem):
    assert pickle.loads(pickle.dumps(problem)) is problem
    assert copy.copy(problem) is problem


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_changed_problem_keeps_its_changes(problem):
    other = replace(problem, title="another")
    found = pickle.loads(pickle.dumps(other))
    assert found is not problem
    assert found.title == "another"
    assert found.residual is problem.residual
    assert dict(found.parameters) == dict(problem.parameters)
    with pytest.raises(AttributeError):  # still frozen
        found.title = "changed"
