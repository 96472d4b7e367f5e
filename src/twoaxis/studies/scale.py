"""How much of the study is run: all of it, or just enough to see that every part works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The sizes that a block may vary; everything else is the published protocol.

    Attributes
    ----------
    name : str
    steps : int
        Adam steps of a training.
    residual_points, steady_points : int
        Residual sites of an evolution problem, and of the Darcy problem.
    replicas : int
        Noise replicas of the repeated-noise reference.
    fresh_replicas : int
        Noise replicas of the fresh-noise block; even, for two halves of the calibration.
    darcy_datasets : tuple of int
    darcy_grid : int
        Candidates along each axis of the Darcy box.
    pilot_candidates : int
        Candidates of the held-out pilot.
    most_draws : int
        Bootstrap draws, where a block asks for more.
    judged : bool
        Whether outcomes may be compared with published figures.
    """

    name: str
    steps: int
    residual_points: int
    steady_points: int
    replicas: int
    fresh_replicas: int
    darcy_datasets: tuple[int, ...]
    darcy_grid: int
    pilot_candidates: int
    most_draws: int
    judged: bool


FULL = Scale(
    name="full",
    steps=5000,
    residual_points=2000,
    steady_points=2048,
    replicas=200,
    fresh_replicas=20,
    darcy_datasets=tuple(range(10, 20)),
    darcy_grid=81,
    pilot_candidates=17,
    most_draws=20_000,
    judged=True,
)

# The bands of the spectrum end at mode 256, so that there must be more points than that.
SMOKE = Scale(
    name="smoke",
    steps=40,
    residual_points=300,
    steady_points=300,
    replicas=8,
    fresh_replicas=2,
    darcy_datasets=(10, 11),
    darcy_grid=9,
    pilot_candidates=5,
    most_draws=200,
    judged=False,
)

SCALES = {scale.name: scale for scale in (FULL, SMOKE)}
