"""
Two parameters that the data tie together
=========================================

A cup is heated and cools at the same time: ``u_t = s - k u``. A network was trained on thirty
readings; its field looks right. Are the cooling rate ``k`` and the heating ``s`` also right?
"""

import numpy as np

import twoaxis as ta

t = np.linspace(0, 2, 30)


def temperature(k, s):
    return s / k + (1 - s / k) * np.exp(-k * t)


readings = temperature(1.0, 0.3) + 0.01 * np.random.default_rng(0).standard_normal(30)

# %%
# The trained field
# -----------------
# These arrays stand for a trained network: its values at the residual points, here the times of
# the readings, and its derivative there. Training delivered ``k = 1.12`` and ``s = 0.37``.

u = temperature(1.1, 0.37)
u_t = 0.37 - 1.1 * u
known = {
    "k": ta.Parameter(delivered=1.12, bounds=(0.2, 5.0)),
    "s": ta.Parameter(delivered=0.37, bounds=(0.05, 2.0)),
}

# %%
# What can the readings tell?
# ---------------------------
# The forward model is fitted to noisy replicas. The estimates of the two parameters are strongly
# correlated: the readings determine mostly a combination of them.

resolution = ta.resolve(temperature, known, noise=0.01, replicas=100)
print(resolution.summary()[["mean", "fisher", "coverage"]].round(2))
ta.plots.plot_correlation(resolution)

# %%
# The audit
# ---------
# The first lines are the answer.

audit = ta.audit(
    lambda k, s: u_t + k * u - s,
    known,
    ta.views.Pointwise(),
    points=t,
    resolution=resolution,
    data=readings,
    fitted=u,
    tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
)
print(audit.answer)

# %%
# Delivered, preferred and matched values side by side, with the intervals that the data allow:

ta.plots.plot_forest(audit)

# %%
# Data, field and solver:

ta.plots.plot_observations(audit)
