"""The complete pipeline, run again on simulated data of many candidates in one batch.

Every candidate gets the same standardised noise and the same seeds. Each candidate is then tested
with draws that are independent between replicas, which is all that its rank needs, and the answers
move smoothly from candidate to candidate. More candidates only sharpen the same set: there is no
new chance in them, so that refining where an edge lies does not select lucky draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.parameters import Parameter
from twoaxis.remedies.calibration.answers import FIRST_CALLS, Answer, ask, is_constant
from twoaxis.remedies.calibration.simulation import Simulator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rerun:
    """A pipeline and a simulator, ready to be run at any candidate.

    Attributes
    ----------
    pipeline : callable
    simulator : Simulator
    parameters : dict of str to Parameter
        One parameter.
    draws : array, shape (R, n)
        Standardised noise, the same for every candidate.
    seeds : array of int, shape (R + 1,)
        Of the pipeline: the first for the real data, the others for the replicas.
    vectorized : bool, optional
    progress : bool
    """

    pipeline: Callable[..., Any]
    simulator: Simulator
    parameters: Mapping[str, Parameter]
    draws: FloatArray
    seeds: IntArray
    vectorized: bool | None
    progress: bool

    @property
    def parameter(self) -> Parameter:
        """The parameter in question."""
        return next(iter(self.parameters.values()))

    @property
    def name(self) -> str:
        """Its name."""
        return next(iter(self.parameters))

    def answers(
        self,
        values: FloatArray,
        seeds: IntArray,
        title: str,
        order: IntArray | None = None,
        proven: bool = False,
    ) -> list[Answer]:
        """Run the pipeline on datasets of shape (m, n); see `ask`."""
        return ask(
            self.pipeline,
            values,
            seeds,
            self.parameters,
            vectorized=self.vectorized,
            progress=self.progress,
            title=title,
            order=order,
            proven=proven,
        )

    def at(self, candidates: FloatArray, number: int) -> xr.Dataset:
        """Run the pipeline on every replica of every candidate, in one batch.

        Parameters
        ----------
        candidates : array, shape (K,)
            Physical values.
        number : int
            The round: 0 for the grid, then refinements. A pipeline that fails everywhere on the
            grid is refused; in a refinement it has answered before, and its failures are counted.

        Returns
        -------
        xarray.Dataset
            A row for each candidate. Where the forward model could not be used there is no
            answer, and no run was spent.
        """
        coordinates = self.parameter.to_coordinate(candidates)[:, None]
        values, reasons = self.simulator.simulate(coordinates, self.draws)
        usable = np.array([not reason for reason in reasons])
        count, replicas = len(candidates), len(self.draws)
        estimate = np.full((count, replicas), np.nan)
        reason = np.broadcast_to(np.array(reasons, dtype=object)[:, None], estimate.shape).copy()
        seeds = np.tile(self.seeds[1:], int(usable.sum()))
        datasets = values[usable].reshape(len(seeds), values.shape[-1])
        title = f"{usable.sum()} candidates, {replicas} replicas each"
        order = turns(int(usable.sum()), replicas)
        found = self.answers(datasets, seeds, title, order, proven=number > 0)
        if number == 0 and found and all(answer.failure for answer in found):
            raise InputError(
                "a pipeline that answers on simulated data",
                f"{len(found)} failures, the first: {found[0].failure}",
                "run it on one simulated dataset by itself and correct it",
            )
        # What came as an object may be large, such as a trained network: only values are kept.
        estimate[usable] = np.reshape(
            [answer.delivered.get(self.name, np.nan) for answer in found], (-1, replicas)
        )
        if number == 0:
            self._check_dependence(estimate[usable])
        reason[usable] = np.reshape(
            np.array([answer.failure for answer in found], dtype=object), (-1, replicas)
        )
        return xr.Dataset(
            {
                "estimate": (
                    ("candidate", "replica"),
                    estimate,
                    {"long_name": f"what the pipeline delivered for {self.name}"},
                ),
                "reason": (
                    ("candidate", "replica"),
                    reason,
                    {"long_name": "why there is no estimate; empty where there is one"},
                ),
                "round": ("candidate", np.full(count, number)),
                "simulated": ("candidate", usable),
            },
            {"candidate": candidates, "replica": np.arange(replicas)},
        )

    def _check_dependence(self, estimate: FloatArray) -> None:
        """Refuse answers, shape (K, R), that do not depend on the data.

        All candidates share noise and seeds: a replica's answers differ between them as soon as
        the pipeline uses its data.
        """
        constant, several = is_constant(estimate, axis=0), np.isfinite(estimate).sum(axis=0) > 1
        if several.any() and (constant | ~several).all():
            shown = estimate[np.isfinite(estimate)][0]
            raise InputError(
                "a pipeline whose answers depend on the data",
                f"the same answers at all {len(estimate)} candidates, such as {self.name} = "
                f"{shown:.6g}",
                "check that the pipeline fits the values that it is given, that its parameter is "
                "free, and that it does not end on a bound",
            )


def turns(count: int, replicas: int) -> IntArray:
    """Return the order of the runs: replica by replica, candidates far apart first.

    A pipeline may diverge at one end of the candidates alone. The first calls, whose failure is
    taken for a defect, therefore reach from one end to the other.

    Parameters
    ----------
    count, replicas : int
        The runs are numbered candidate by candidate.

    Examples
    --------
    >>> turns(7, 2).tolist()
    [0, 2, 6, 8, 12, 4, 10, 1, 3, 7, 9, 13, 5, 11]
    """
    spread = np.linspace(0, max(count - 1, 0), min(FIRST_CALLS, count)).astype(np.int64)
    rest = np.setdiff1d(np.arange(count), spread)
    candidates = np.concatenate([spread, rest])
    return np.asarray(candidates * replicas + np.arange(replicas)[:, None]).ravel()


def trimmed(data: xr.Dataset) -> tuple[xr.Dataset, list[str]]:
    """Leave out candidates at either end that could not be simulated, and say which.

    One between others stays: without a test nothing speaks against it, so it is kept in every set.
    """
    usable = np.flatnonzero(data["simulated"].values)
    if usable.size < 2:
        reasons: Sequence[str] = [str(r) for r in data["reason"].values[:, 0] if r]
        raise InputError(
            "a forward model that works at two candidates at least",
            f"{usable.size} of {data.sizes['candidate']}; the first reason: {reasons[0]}",
            "choose an interval in which the simulator can be used",
        )
    inside = data.isel(candidate=slice(int(usable[0]), int(usable[-1]) + 1))
    told = []
    values = data["candidate"].values
    for beyond, word in ((values[: usable[0]], "below"), (values[usable[-1] + 1 :], "above")):
        if beyond.size:
            end = inside["candidate"].values[0 if word == "below" else -1]
            told.append(
                f"{beyond.size} candidates {word} {end:.5g} could not be simulated and are not "
                f"tested"
            )
    hole = int((~inside["simulated"].values).sum())
    if hole:
        told.append(f"{hole} candidates between others could not be simulated and count as kept")
    return inside, told
