"""Models whose solution is known, and refinement on splines against least squares with it."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

import twoaxis as ta


@dataclass(frozen=True)
class Case:
    """Readings of a solution in closed form.

    Attributes
    ----------
    solution : callable
        ``solution(parameter, points)``, (n, 1).
    truth, noise : float
    points, readings : array, shape (n, k), (n, 1)
    """

    solution: object
    truth: float
    noise: float
    points: np.ndarray

    @property
    def readings(self):
        noise = np.random.default_rng(0).standard_normal((len(self.points), 1))
        return self.solution(self.truth, self.points) + self.noise * noise

    def estimate(self):
        """Return the logarithm of the parameter by least squares, and its standard error."""

        def misfit(logarithm):
            found = self.solution(np.exp(logarithm[0]), self.points)
            return (found - self.readings).ravel() / self.noise

        fit = least_squares(misfit, [np.log(self.truth)])
        return fit.x[0], 1 / np.linalg.norm(fit.jac)


DECAY = Case(
    lambda rate, at: np.exp(-rate * at), 1.3, 0.02, np.linspace(0.1, 1.9, 15)[:, None]
)  # u' = -rate u, u(0) = 1, up to t = 2
HEAT = Case(
    lambda k, at: np.sin(np.pi * at[:, :1]) * np.exp(-k * np.pi**2 * at[:, 1:]),
    0.13,
    0.02,
    np.random.default_rng(1).uniform(0.05, 0.95, (40, 2)),
)  # u_t = k u_xx in the unit square, u = 0 at both ends, u = sin(pi x) at the start


def assert_refined_as_least_squares(frozen, case, within):
    """Refine on splines: as near to least squares as `within` standard errors."""
    found = ta.refine(
        frozen, ta.Observations(case.readings, case.points, noise=case.noise), progress=False
    )
    assert found.data.attrs["how"].startswith("a field of")
    (name,) = frozen.names
    value, error = case.estimate()
    assert abs(np.log(found.values[name]) - value) <= within * error
    refined = found.frozen
    delivered = frozen.parameters[name].delivered
    assert refined.parameters[name].delivered == found.values[name]
    sizes = [
        np.linalg.norm(refined.at(refined.coordinates({name: each})))
        for each in (found.values[name], delivered)
    ]
    assert sizes[0] < 0.1 * sizes[1]
    exact = case.solution(np.exp(value), case.points)
    np.testing.assert_allclose(refined.fitted.ravel(), exact.ravel(), atol=0.2 * case.noise)
    score = ta.score(refined)
    assert abs(score.displacement[name]) < abs(ta.score(frozen).displacement[name])
    assert abs(score.displacement[name]) < 0.02
    return found
