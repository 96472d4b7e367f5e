"""Confidence sets with nuisance parameters: plug-ins, level and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import twoaxis as ta
from twoaxis.errors import InputError

T = np.linspace(0.0, 1.0, 20)
X, Z = T, np.exp(-2 * T)
DESIGN = np.column_stack([X, Z])
NOISE = 0.2
RIDGE = np.linalg.solve(DESIGN.T @ DESIGN + np.eye(2), DESIGN.T)
PLAIN = np.linalg.pinv(DESIGN)


def number(**more):
    return ta.Parameter(bounds=(-4.0, 6.0), coordinate="linear", scale=1.0, **more)


PARAMETERS = {"a": number(nuisance=True, start=0.0), "p": number()}


def forward(a, p):
    return np.outer(p, X) + np.outer(a, Z)


def pipeline(weights):
    return lambda values, _: dict(zip(("p", "a"), weights @ values.T, strict=True))


def observed(seed, p=1.5, a=1.0):
    return p * X + a * Z + NOISE * np.random.default_rng(seed).normal(size=len(T))


def made(data, weights=RIDGE, **options):
    known = {"candidates": 9, "replicas": 59, "vectorized": True, "vectorized_pipeline": True}
    return ta.confidence_set(
        pipeline(weights), forward, PARAMETERS, NOISE, data, progress=False, **known | options
    )


@pytest.fixture(scope="module")
def found():
    return made(observed(0))


def test_plug_ins_are_the_fit_to_the_data_with_the_candidate_held(found):
    """In closed form: ``z (y - p x) / (z z)``, for the grid and for refined candidates."""
    known, data = found.calibration, observed(0)
    assert known.name == "p"
    assert known.plug_in == "data"
    assert (found.candidates["round"] > 0).any()
    expected = [Z @ (data - p * X) / (Z @ Z) for p in known.candidates]
    inside = np.clip(expected, -4.0, 6.0)
    assert_allclose(known.nuisance["a"], inside, rtol=1e-6, atol=1e-8)
    assert (np.abs(expected) < 4).any()


def test_answers_of_a_candidate_are_those_at_its_plug_in(found):
    known = found.calibration
    at = known.data["simulated_at"].values  # a, p
    middle = at[:, ::-1] @ (RIDGE[0] @ DESIGN)
    spread = NOISE * np.linalg.norm(RIDGE[0]) / np.sqrt(known.replicas)
    assert np.abs(known.data["estimate"].mean("replica") - middle).max() < 5 * spread


def test_estimates_that_do_not_depend_on_the_nuisance_parameter_give_exact_sets():
    """Least squares: bounds are known quantiles around the candidate, whatever the plug-in."""
    one = made(observed(1), PLAIN, replicas=1999, refine=0)
    half = norm.ppf(0.95) * NOISE * np.linalg.norm(PLAIN[0])
    lower, upper = one.bounds
    assert_allclose(lower, one.calibration.coordinates - half, atol=0.15 * half)
    assert_allclose(upper, one.calibration.coordinates + half, atol=0.15 * half)


@pytest.mark.long
def test_coverage_keeps_the_level():
    """400 datasets and a biased pipeline; the level is kept up to four standard errors."""
    held = [made(observed(seed), seed=seed).contains(1.5) for seed in range(400)]
    assert np.mean(held) > 0.9 - 4 * np.sqrt(0.09 / 400)


def test_a_pipeline_need_not_return_nuisance_parameters():
    data = observed(2)
    both = made(data, refine=0)
    alone = ta.confidence_set(
        lambda values, _: float(RIDGE[0] @ values),
        lambda a, p: p * X + a * Z,
        PARAMETERS,
        NOISE,
        data,
        candidates=9,
        refine=0,
        progress=False,
    )
    assert_allclose(alone.interval[:2], both.interval[:2], rtol=1e-9)


def test_without_data_nuisance_parameters_stand_and_a_message_says_so():
    known = ta.calibrate(
        pipeline(RIDGE),
        forward,
        PARAMETERS,
        NOISE,
        candidates=5,
        replicas=19,
        vectorized=True,
        vectorized_pipeline=True,
    )
    assert known.plug_in == "standing"
    assert_allclose(known.nuisance["a"], 0.0)
    assert [message.code for message in known.messages] == ["calibration.nuisance_not_fitted"]
    assert "calibration.nuisance_not_fitted" in {
        m.code for m in known.confidence_set(estimate=1.0).messages
    }


def test_a_calibration_serves_the_data_that_it_was_fitted_to(found):
    again = found.calibration.confidence_set(observed(0))
    assert again.intervals == found.intervals
    with pytest.raises(InputError, match="the data that nuisance parameters were fitted to"):
        found.calibration.confidence_set(observed(1))


def test_saved_and_loaded(found, tmp_path):
    loaded = ta.load(found.save(tmp_path / "set.nc"))
    assert loaded.intervals == found.intervals
    assert_allclose(loaded.calibration.nuisance, found.calibration.nuisance)
    assert loaded.calibration.name == "p"


def test_refusals():
    with pytest.raises(InputError, match="one parameter of interest") as error:
        ta.calibrate(pipeline(RIDGE), forward, {"a": number(), "p": number()}, NOISE)
    assert "nuisance=True" in error.value.fix
    unknown = {"a": number(nuisance=True), "p": number()}
    with pytest.raises(InputError, match="no start for a"):
        ta.calibrate(pipeline(RIDGE), forward, unknown, NOISE)
