"""Draw the pictures of these pages when they are built; none is kept in the repository."""

from __future__ import annotations

from pathlib import Path

import snippets

import twoaxis as ta
from twoaxis.forward import get_solver

DOCS = Path(__file__).parent
FOLDER = DOCS / "_build" / "figures"


def draw(app: object) -> None:  # noqa: ARG001
    """Draw everything; the tutorial's pictures come from the tutorial's own code."""
    import matplotlib.pyplot as plt

    FOLDER.mkdir(parents=True, exist_ok=True)
    snippets.run(DOCS / "tutorial.md", FOLDER)
    observations_and_refits().savefig(FOLDER / "burgers.png", dpi=150)
    plt.close("all")


def observations_and_refits():
    """Where Burgers' field is observed, and how far off its viscosity then comes back."""
    import matplotlib.pyplot as plt

    solver = get_solver("burgers")
    data = ta.published_dataset("burgers", 8)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    left.pcolormesh(
        solver.t[::10], solver.x, solver.true_field()[::10].T, cmap="RdBu_r", shading="nearest"
    )
    left.plot(data.coordinates[:, 1], data.coordinates[:, 0], ".", color="black", ms=3)
    left.set(xlabel="t", ylabel="x", title="Burgers' field, observed at 200 noisy sites")
    found = ta.resolve_problem("burgers", layouts=[8], replicas=1000, progress=False)
    ta.plot_resolution(found, ax=right)
    return figure
