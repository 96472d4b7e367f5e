"""Where should the next six stations stand, when nobody knows the truth?

A steady plume drifts downwind from a stack. Its spread (the diffusivity) and its source are sought
from a few stations. An inverse model delivered values; more stations may be built, at least 300 m
apart and not on the lake.
"""

import argparse

import numpy as np

import twoaxis as ta

parser = argparse.ArgumentParser()
parser.add_argument("--plot", help="write the picture to this file")
options = parser.parse_args()

x, y = np.meshgrid(np.linspace(0.2, 6, 59), np.linspace(-2, 2, 41))  # kilometres


def plume(diffusivity, source):
    """Return the concentration at every place where a station could stand."""
    width = 4 * diffusivity * x
    return source * np.exp(-(y**2) / width) / np.sqrt(np.pi * width)


delivered = {
    "diffusivity": ta.Parameter(delivered=0.06, bounds=(0.01, 0.5)),
    "source": ta.Parameter(delivered=1.2, bounds=(0.2, 5.0)),
}
noise = 0.05
lake = (x > 1) & (x < 2.5) & (y > 0.2)
rules = {
    "coordinates": {"x": x, "y": y},
    "spacing": 0.3,
    "forbidden": lake,
}
stations = np.random.default_rng(7).choice(np.flatnonzero(~lake), 8, replace=False)

print("What the present stations resolve, around the delivered values")
now = ta.resolve(
    plume, delivered, noise, {"8 stations": stations}, replicas=100, starts=1, progress=False
)
print(now.summary()[["mean", "fisher", "coverage"]].round(2).to_string())
spread = now.fisher_error_percent.sel(layout="8 stations")
worst = str(spread.idxmax("parameter").item())
print(f"{worst}: {ta.needed_observations(float(spread.max()), 5.0, len(stations))}\n")

print("Six more, made for the delivered values")
found = ta.suggest_sites(plume, delivered, noise, 6, present=stations, progress=False, **rules)
print(found)
print(found.verify(replicas=100, starts=1, progress=False))

print("\nSix more, made for a factor of two around the delivered values")
ranges = {"diffusivity": (0.03, 0.12), "source": (0.6, 2.4)}
robust = ta.suggest_sites(
    plume, delivered, noise, 6, at=ranges, points=32, present=stations, progress=False, **rules
)
print(robust)
print(f"worst efficiency over the points: {float(robust.efficiency().min()):.2f}")

if options.plot:
    left, _ = robust.plot()
    left.get_figure().savefig(options.plot, dpi=110)
