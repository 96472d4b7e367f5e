"""
Six readings in the right places
================================

A front travels along a channel with an unknown speed. Sixty readings at random places leave the
speed uncertain. Where should the next six be taken?
"""

import numpy as np

import twoaxis as ta

x, t = np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, 1, 21))


def front(speed):
    return 0.5 * (1 - np.tanh((x - 0.2 - speed * t) / 0.05))


known = {"speed": ta.Parameter(truth=0.5, bounds=(0.1, 1.5))}
random = np.random.default_rng(1).choice(x.size, 60, replace=False)

# %%
# What the random readings resolve
# --------------------------------

before = ta.resolve(front, known, noise=0.2, layouts={"random": random}, replicas=200)
print(before.summary()[["mean", "fisher", "coverage"]].round(2))

# %%
# Six more
# --------
# Bright places tell most about the speed. The curve is the error that is predicted after each
# new reading.

points = {"x": x.ravel(), "t": t.ravel()}
sites = ta.suggest_sites(front, known, 0.2, 6, present=random, points=points, spacing=(0.05, 0.05))
sites.plot()

# %%
# Is the prediction right? Fit replicas on the new layout, and on as many readings at random:

more = np.random.default_rng(2).choice(x.size, 66, replace=False)
layouts = {"66 at random": more, "60 and 6 suggested": sites.layout}
after = ta.resolve(front, known, noise=0.2, layouts=layouts, replicas=200)
print(after.summary()[["mean", "fisher", "coverage"]].round(2))
