"""Layouts and noise: the published draws to the last bit, and streams of our own."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from twoaxis.datasets import (
    FRESH_NOISE_SEED,
    RECOVERABILITY_SEED,
    fresh_dataset,
    layout,
    noise_scale,
    noise_seed,
    published_dataset,
    standard_noise,
)
from twoaxis.errors import InputError
from twoaxis.forward import get_solver
from twoaxis.problems import DARCY, PROBLEMS, SCALAR_BENCHMARKS

SCALAR = pytest.mark.parametrize("problem", SCALAR_BENCHMARKS, ids=lambda p: p.name)
EVERY_PROBLEM = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


def noise_of(dataset):
    """Return the standardized noise inside a dataset."""
    clean = get_solver(dataset.problem).true_field().ravel()[dataset.sites]
    return (dataset.values - clean) / dataset.noise_scale


@SCALAR
@pytest.mark.parametrize("seed", [8, 9, 10, 11])
def test_published_layout_and_noise(problem, seed):
    rng = np.random.RandomState(seed)
    sites = rng.choice(2001 * 201, 200, replace=False)
    noise = rng.randn(200)
    u = get_solver(problem).true_field()

    assert_array_equal(layout(problem, seed), sites)
    dataset = published_dataset(problem.name, seed)
    assert dataset.problem == problem.name
    assert_array_equal(dataset.sites, sites)
    assert_allclose(dataset.values, u.ravel()[sites] + 0.3 * u.std() * noise, rtol=1e-14)
    assert dataset.noise_scale == 0.3 * u.std()
    assert dataset.provenance == f"RandomState({seed}): layout, then noise"


def test_a_dataset_keeps_its_own_sites_and_no_other_node():
    # The legacy generator returns a slice of all nodes, shuffled: millions of bytes a dataset.
    first, again = published_dataset("burgers", 8), published_dataset("burgers", 8)
    assert first.sites.base is None
    assert first.sites.nbytes == 8 * len(first.values)
    first.sites[:] = 0
    assert_array_equal(again.sites, published_dataset("burgers", 8).sites)


@EVERY_PROBLEM
def test_declared_noise(problem):
    fraction = 0.05 if problem is DARCY else 0.3
    u = get_solver(problem).true_field()
    assert noise_scale(problem) == noise_scale(problem.name) == fraction * u.std()


@EVERY_PROBLEM
def test_coordinates_are_those_of_the_sites(problem):
    solver, (first, second) = get_solver(problem), problem.domain.values()
    dataset = published_dataset(problem, 10)
    rows, columns = np.divmod(dataset.sites, solver.shape[1])
    wanted = [
        first[0] + (first[1] - first[0]) * columns / (solver.shape[1] - 1),
        second[0] + (second[1] - second[0]) * rows / (solver.shape[0] - 1),
    ]
    assert dataset.coordinates.shape == (problem.observed.sites, 2)
    assert len(set(dataset.sites)) == problem.observed.sites
    assert_allclose(dataset.coordinates, np.transpose(wanted), rtol=0, atol=1e-14)


@EVERY_PROBLEM
def test_a_replica_is_the_same_whatever_comes_beside_it(problem):
    many = standard_noise(noise_seed(problem, FRESH_NOISE_SEED), 20, problem.observed.sites)
    for replica in (0, 3, 19):
        dataset = fresh_dataset(problem, layout=11, replica=replica)
        assert_allclose(noise_of(dataset), many[replica], rtol=0, atol=1e-13)
        assert_array_equal(dataset.sites, layout(problem, 11))
        assert dataset.noise_scale == noise_scale(problem)


def test_layouts_share_the_noise():
    eight, nine = (fresh_dataset("burgers", layout=seed, replica=2) for seed in (8, 9))
    assert not np.array_equal(eight.sites, nine.sites)
    assert_allclose(noise_of(eight), noise_of(nine), rtol=0, atol=1e-13)


def test_replicas_seeds_and_problems_have_streams_of_their_own():
    datasets = [
        fresh_dataset("burgers", layout=8, replica=0),
        fresh_dataset("burgers", layout=8, replica=1),
        fresh_dataset("burgers", layout=8, replica=0, seed=RECOVERABILITY_SEED),
        fresh_dataset("allen-cahn", layout=8, replica=0),
        fresh_dataset("buckley-leverett", layout=8, replica=0),
        published_dataset("burgers", 8),
    ]
    for one, other in combinations(datasets, 2):
        # Independent vectors of 200: the correlation has a standard deviation of 0.07.
        assert abs(np.corrcoef(noise_of(one), noise_of(other))[0, 1]) < 0.3
    assert len({noise_seed(problem, 1) for problem in PROBLEMS}) == len(PROBLEMS)


def test_published_seeds():
    assert (RECOVERABILITY_SEED, FRESH_NOISE_SEED) == (20260719, 20260721)


def test_standard_noise_has_unit_scale():
    noise = standard_noise(0, 1000, 200)
    assert noise.shape == (1000, 200)
    assert_array_equal(noise[:10], standard_noise(0, 10, 200))
    # Five standard deviations of the mean and of the standard deviation of 200,000 draws.
    assert abs(noise.mean()) < 5 / np.sqrt(200_000)
    assert abs(noise.std() - 1) < 5 / np.sqrt(2 * 200_000)


def test_fresh_provenance_tells_how_to_make_it_again():
    made = fresh_dataset("burgers", layout=9, replica=4, seed=77).provenance
    for part in ("RandomState(9)", "default_rng((77", "replica 4"):
        assert part in made
    assert str(FRESH_NOISE_SEED) in fresh_dataset("burgers", layout=9, replica=4).provenance


@pytest.mark.parametrize(
    ("problem", "published"), [("burgers", range(8, 12)), ("darcy", range(10, 20))]
)
def test_only_what_was_published_is_a_published_dataset(problem, published):
    for seed in (0, published[0] - 1, published[-1] + 1, 999):
        with pytest.raises(InputError, match=f"{published[0]}, {published[1]}") as caught:
            published_dataset(problem, seed)
        assert "twoaxis.fresh_dataset" in caught.value.fix
    for seed in (published[0], published[-1]):
        assert published_dataset(problem, seed).label == str(seed)
    assert fresh_dataset(problem, layout=999, replica=0).label == "999r0"


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, 8.0, "8", None])
@pytest.mark.parametrize(
    "call",
    [
        lambda seed: layout("burgers", seed),
        lambda seed: published_dataset("burgers", seed),
        lambda seed: noise_seed("burgers", seed),
        lambda seed: fresh_dataset("burgers", layout=seed, replica=0),
        lambda seed: fresh_dataset("burgers", layout=8, replica=0, seed=seed),
    ],
    ids=["layout", "published", "noise", "fresh layout", "fresh seed"],
)
def test_bad_seeds(call, seed):
    with pytest.raises(InputError) as caught:
        call(seed)
    assert "a seed from 0 to 4294967295" in str(caught.value)
    assert caught.value.got == repr(seed)


@pytest.mark.parametrize("replica", [-1, 1.0, "1", None])
def test_bad_replicas(replica):
    with pytest.raises(InputError) as caught:
        fresh_dataset("burgers", layout=8, replica=replica)
    assert "replica" in caught.value.expected
    assert caught.value.got == repr(replica)


def test_numpy_integers_are_seeds_too():
    wanted = fresh_dataset("burgers", layout=8, replica=1, seed=3)
    found = fresh_dataset("burgers", layout=np.int64(8), replica=np.int64(1), seed=np.uint32(3))
    assert_array_equal(found.values, wanted.values)
    assert found.provenance == wanted.provenance


def test_unknown_problem():
    with pytest.raises(InputError, match='did you mean "burgers"'):
        layout("burger", 8)
