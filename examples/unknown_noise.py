"""Observations with unknown noise, and what happens if the model is wrong.

A tank cools towards the temperature of the room. The noise is estimated from the matched fit.
The second dataset comes from a tank that is also heated a little: the fit converges, and a
MisfitWarning says that its result is unreliable.
"""

import warnings

import numpy as np

import twoaxis as ta

minutes = np.linspace(0, 60, 90)


def cooling(rate):
    """Temperature above the room's, from 40 degrees, without any heating."""
    return 40 * np.exp(-rate * minutes)


def heated(rate, level):
    """The same tank when a heater holds it `level` degrees above the room in the end."""
    return level + (40 - level) * np.exp(-rate * minutes)


# No truth is known; a network delivered 0.05 per minute.
parameters = {"rate": ta.Parameter(delivered=0.05, bounds=(0.01, 0.2))}
generator = np.random.default_rng(11)
clean_tank = cooling(0.048) + 0.8 * generator.standard_normal(minutes.size)
heated_tank = heated(0.048, level=3.0) + 0.8 * generator.standard_normal(minutes.size)


def study(title, data):
    print(title)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", ta.MisfitWarning)
        found = ta.resolve(cooling, parameters, data=data, replicas=200, seed=0, progress=False)
    fit = found.data.sel(parameter="rate", layout="all")
    print(f"  estimated noise   {float(fit['data_noise_scale']):.3f} degrees")
    print(
        f"  matched estimate  {float(fit['data_estimate']):.5f} per minute, 95% profile interval "
        f"{float(fit['data_set_lower']):.5f} to {float(fit['data_set_upper']):.5f}"
    )
    print(
        f"  spread of refits around the delivered 0.05: {float(found.error_percent.mean()):.2f}%"
        f" (Fisher {float(found.fisher_error_percent.item()):.2f}%)"
    )
    for check in ("normality", "whiteness"):
        print(f"  p-value of the residuals' {check}: {float(fit[f'data_{check}_p_value']):.3g}")
    for warning in raised:
        print(f"  {warning.category.__name__}: {warning.message}")
    if not raised:
        print("  no warning: the residuals look like the model plus white Gaussian noise")
    print()


study("A tank that cools (data made with rate 0.048, noise 0.8):", clean_tank)
study("A tank that is heated as well (same rate and noise):", heated_tank)
