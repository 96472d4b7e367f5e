"""Two parameters of a damped oscillation, observed with correlated noise.

The position is x(t) = exp(-zeta w t) cos(w sqrt(1 - zeta^2) t). The noise of neighboring
readings is correlated: its covariance decreases as rho^|i - j|, as in a first-order
autoregression. Errors over repeated noise are compared with the Fisher prediction.
"""

import numpy as np

import twoaxis as ta

t = np.linspace(0, 12, 120)


def position(zeta, w):
    """Return one row of positions per pair of parameters."""
    zeta, w = zeta[:, None], w[:, None]
    return np.exp(-zeta * w * t) * np.cos(w * np.sqrt(1 - zeta**2) * t)


def autoregressive(scale, rho):
    """Return the covariance scale^2 rho^|i - j| of the readings."""
    lag = np.abs(np.subtract.outer(np.arange(t.size), np.arange(t.size)))
    return scale**2 * rho**lag


parameters = {
    "zeta": ta.Parameter(truth=0.1, bounds=(0.01, 0.6)),
    "w": ta.Parameter(truth=2.0, bounds=(1.0, 4.0)),
}


def study(noise):
    return ta.resolve(
        position, parameters, noise, replicas=200, seed=3, vectorized=True, progress=False
    )


correlated = study(autoregressive(0.1, 0.7))
independent = study(0.1)

print("parameter  noise        mean error [95% interval]   Fisher   mean/Fisher   coverage")
for name in parameters:
    for label, found in (("correlated", correlated), ("independent", independent)):
        one = found.data.sel(parameter=name)
        mean = float(one["deviation_percent"].mean())
        fisher = float(one["fisher_deviation_percent"].mean())
        ends = found.interval("mean", parameter=name)
        print(
            f"{name:9}  {label:11}  {mean:6.2f}% [{ends.low:5.2f}, {ends.high:5.2f}]       "
            f"{fisher:6.2f}%   {mean / fisher:8.3f}      {100 * float(one['covered'].mean()):6.1f}%"
        )

together = 100 * float(correlated.data["jointly_covered"].mean())
between = float(correlated.data["correlation"].sel(parameter="zeta", other_parameter="w").item())
print(f"\nThe joint 95% set contains both true values in {together:.1f}% of the replicas.")
print(f"Predicted correlation of the two estimates (log coordinates): {between:+.3f}.")
