"""Which sensor layout resolves the diffusivity of a bar, and how much does a sensor add?

A bar of length one is heated in the middle and cools at its ends. The positions of the
thermometers matter more than their number.
"""

import numpy as np

import twoaxis as ta

x = np.linspace(0.05, 0.95, 19)
t = np.linspace(0.15, 3.0, 20)
mode = np.arange(1, 60)
heat = 2 / (mode * np.pi) * (np.cos(0.4 * mode * np.pi) - np.cos(0.6 * mode * np.pi))
shape = heat[:, None] * np.sin(np.pi * np.outer(mode, x))


def temperature(kappa):
    """Return u[time, place] for each diffusivity, as a sine series."""
    decay = np.exp(-kappa[:, None, None] * (mode * np.pi) ** 2 * t[:, None])
    return decay @ shape


entry = np.arange(t.size * x.size).reshape(t.size, x.size)
layouts = {
    "1 in the middle": entry[:, [9]],
    "2 near the ends": entry[:, [0, 18]],
    "2 at the quarters": entry[:, [4, 14]],
    "2 near the middle": entry[:, [8, 10]],
    "5 spread evenly": entry[:, ::4],
    "19 everywhere": entry,
}
found = ta.resolve(
    temperature,
    {"kappa": ta.Parameter(truth=0.02, bounds=(0.002, 0.2))},
    noise=0.03,
    layouts={name: sites.ravel() for name, sites in layouts.items()},
    replicas=300,
    seed=5,
    vectorized=True,
    progress=False,
)

table = found.summary().drop(index="all layouts")
table.insert(0, "readings", found.data["observations"].values)
print("error of the diffusivity in %, best layout first\n")
columns = ["readings", "mean", "ci_low", "ci_high", "p90", "fisher", "coverage", "on_bound"]
print(table.sort_values("mean")[columns].round(2).to_string())

for line in found.messages:
    print(f"! {line}")

tolerance = 6.0
good = table[table["p90"] <= tolerance].sort_values("readings")
print(f"\nSmallest layout with nine draws in ten inside {tolerance:g}%: {good.index[0]}.")
