"""A confidence set for what a biased pipeline delivers, without knowing the truth.

A population grows as u' = r u (1 - u). The pipeline is one of the reader's own: a field is fitted
to noisy counts and to the equation at once, as an inverse PINN does, and the growth rate r comes
with it. The field, a polynomial of degree five, is too stiff for a steep rise, so that r comes out
too small, and the more so the faster the growth. Nobody tells the library that. It repeats the
whole fit on data simulated at several candidates, and keeps those at which the delivered value is
ordinary.
"""

import numpy as np
from numpy.polynomial import chebyshev

import twoaxis as ta

times, points = np.linspace(0, 6, 40), np.linspace(0, 6, 60)
noise, truth = 0.06, 1.8
bounds = (0.5, 2.5)


def population(r):
    """The exact solution at the times of observation, from u(0) = 0.05."""
    return 1 / (1 + 19 * np.exp(-r * times))


def basis(t, degree=5):
    """Polynomials and their derivatives, a column for each."""
    slopes = [chebyshev.chebval(t / 3 - 1, chebyshev.chebder(row)) for row in np.eye(degree + 1)]
    return chebyshev.chebvander(t / 3 - 1, degree), np.stack(slopes, axis=1) / 3


at_times, _ = basis(times)
at_points, slopes = basis(points)
data, equation = np.sqrt(1 / times.size), np.sqrt(2 / points.size)


def pipeline(values, _):
    """Fit field and log r together by Gauss-Newton; there is no chance in it, so no seed."""
    weights, log_r = np.linalg.lstsq(at_times, values)[0], 0.0
    for _ in range(15):
        u, r = at_points @ weights, np.exp(log_r)
        by_weights = slopes - r * (1 - 2 * u)[:, None] * at_points
        matrix = np.block(
            [
                [data * at_times, np.zeros((times.size, 1))],
                [equation * by_weights, -equation * r * (u * (1 - u))[:, None]],
            ]
        )
        residual = slopes @ weights - r * u * (1 - u)
        misfit = np.concatenate([data * (at_times @ weights - values), equation * residual])
        step = np.linalg.lstsq(matrix, misfit)[0]
        weights, log_r = weights - step[:-1], log_r - np.clip(step[-1], -0.5, 0.5)
    return np.exp(log_r)


observed = population(truth) + noise * np.random.default_rng(0).standard_normal(times.size)
known = {"r": ta.Parameter(bounds=bounds)}
found = ta.confidence_set(
    pipeline, population, known, noise, observed, candidates=11, replicas=59, seed=1
)
print(found, "\n")
print(found.candidates.round(4).to_string(), "\n")
print(f"The truth, r = {truth}, is {'in' if found.contains(truth) else 'not in'} the set.")
print(f"Error of the delivered value {found.estimate / truth - 1:+.1%}, ", end="")
print(f"of the corrected one {found.corrected / truth - 1:+.1%}.")

# The same calibration serves any other dataset of this layout and noise. How often is it right?
generator = np.random.default_rng(8)
truths = np.exp(generator.uniform(np.log(0.7), np.log(2.2), 100))
sets = [
    found.calibration.confidence_set(
        estimate=pipeline(population(r) + noise * generator.standard_normal(times.size), 0)
    )
    for r in truths
]
held = sum(one.contains(r) for one, r in zip(sets, truths, strict=True))
delivered = np.array([one.estimate for one in sets])
corrected = np.array([one.corrected or np.nan for one in sets])
print(f"\n100 new datasets at other truths: {held} sets hold theirs.")
print(f"Mean error: delivered {np.mean(np.abs(delivered / truths - 1)):.1%}, ", end="")
print(f"corrected {np.nanmean(np.abs(corrected / truths - 1)):.1%}.")
