"""Matched fits of the study's datasets with the declared solver, each computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.datasets import FRESH_NOISE_SEED, layout, noise_scale, published_dataset
from twoaxis.forward import get_solver
from twoaxis.problems import get_problem, truth_of
from twoaxis.resolution import Resolution, benchmark_draws, resolve
from twoaxis.studies.fields import LAYOUTS


@lru_cache
def matched_fits(problem: str, replicas: int, stream: int = 0) -> Resolution:
    """Return the matched fits of a problem's fresh datasets, computed once.

    The noise stream is that of `twoaxis.fresh_dataset`: ``estimate`` at a layout and replica
    number k is the matched fit of ``fresh_dataset(problem, layout=layout, replica=k)``. Layouts
    are labelled by their seed as text. The bank is not checked here; the resolution block
    does that.
    """
    return resolve(
        problem,
        layouts=LAYOUTS,
        replicas=replicas,
        seed=FRESH_NOISE_SEED + stream,
        validate=0,
        progress=False,
    )


# Entries of the bank of candidates, as in the study.
BANK = 241


@dataclass(frozen=True)
class StandardErrors:
    """The standard error of a matched fit at every candidate, on one layout.

    Attributes
    ----------
    q : array, shape (K,)
        Candidates as log(p / truth), ascending.
    sigma : array, shape (K,)
        In log units.
    """

    q: NDArray[np.float64]
    sigma: NDArray[np.float64]


@lru_cache
def standard_errors(problem: str) -> Mapping[int, StandardErrors]:
    r"""Return :math:`\sigma(q, d)` by layout, over the bank of candidates.

    :math:`\sigma(q, d) = s\,\lVert \partial_q G(q; d) \rVert^{-1}` with the noise scale s;
    derivatives are centered differences of the bank. Candidates at which the solver is unstable
    lie at the lower end, and are left out.
    """
    declared, solver = get_problem(problem), get_solver(problem)
    ((name, parameter),) = declared.parameters.items()
    q = np.linspace(*parameter.coordinate_bounds, BANK)
    sites = np.concatenate([layout(problem, seed) for seed in LAYOUTS])
    predicted = solver.at_sites(sites, **{name: parameter.to_value(q)})
    stable = np.isfinite(predicted).all(axis=1)
    q, slope = q[stable], np.gradient(predicted[stable], q[stable], axis=0)
    size = np.linalg.norm(slope.reshape(len(q), len(LAYOUTS), -1), axis=2)
    truth = float(parameter.to_coordinate(truth_of(declared)[name]))
    return {
        seed: StandardErrors(q - truth, noise_scale(problem) / size[:, k])
        for k, seed in enumerate(LAYOUTS)
    }


@lru_cache
def matched_draws() -> pd.DataFrame:
    """Return the table of `twoaxis.benchmark_draws`, computed once."""
    return benchmark_draws(progress=False)


@lru_cache
def matched_errors() -> Mapping[tuple[str, int], float]:
    """Return the matched errors in percent by problem and dataset."""
    draws = matched_draws()
    keys = zip(draws["problem"], draws["dataset"], strict=True)
    return dict(zip(keys, draws["error_percent"], strict=True))


@lru_cache
def gauss_newton_error(problem: str, dataset: int, delivered: float) -> float:
    r"""Return the error in percent after one step of the forward model from a delivered value.

    The step is taken in the logarithm, under the matched likelihood of the published data:
    :math:`q + (S^\top S)^{-1} S^\top (y - f(q))` with the sensitivities
    :math:`S = \partial f / \partial q` at :math:`q = \log p`. A value outside the bounds
    widens them.
    """
    declared = get_problem(problem)
    ((name, parameter),) = declared.parameters.items()
    held = replace(parameter.holding(delivered), delivered=delivered)
    found = resolve(
        declared,
        {name: held},
        layouts=[dataset],
        replicas=1,
        data={dataset: published_dataset(problem, dataset).values},
        validate=0,
        progress=False,
    )
    return float(found.data["data_gauss_newton_deviation_percent"].squeeze())
