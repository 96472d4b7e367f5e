"""A store of runs that nobody trained."""

from dataclasses import replace

import made_up_runs
import pytest

from twoaxis.problems import BURGERS
from twoaxis.runs import RunStore


@pytest.fixture
def own_problem():
    return replace(BURGERS, name="own-burgers")


@pytest.fixture
def store(tmp_path):
    """A store with three runs."""
    made = RunStore(tmp_path / "store", create=True)
    for number in range(3):
        made.save(made_up_runs.run_of(number))
    return made


@pytest.fixture(scope="session")
def makers():
    """The made-up runs and ways to spoil them, for tables of tests that take them by name."""
    return made_up_runs
