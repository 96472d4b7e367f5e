"""The fresh-noise fields that several blocks read, and the matched fits of the same datasets."""

from __future__ import annotations

from functools import lru_cache

from twoaxis.observations import FRESH_NOISE_SEED
from twoaxis.resolution import Resolution, resolve_problem
from twoaxis.studies.fields import LAYOUTS, PROBLEMS, Field
from twoaxis.studies.scale import Scale

METHOD = "rba"


def fresh_fields(scale: Scale) -> list[Field]:
    """Return the RBA fields on fresh noise: every problem, layout and replica, in that order."""
    return [
        Field(problem=problem, method=METHOD, dataset=layout, replica=replica)
        for problem in PROBLEMS
        for layout in LAYOUTS
        for replica in range(scale.fresh_replicas)
    ]


@lru_cache
def matched_fits(problem: str, replicas: int, stream: int = 0) -> Resolution:
    """Return the matched fits of a problem's fresh datasets, computed once.

    The noise stream is that of `twoaxis.fresh_dataset`: ``estimate`` at a layout and replica
    number k is the matched fit of ``fresh_dataset(problem, layout=layout, replica=k)``. Layouts
    are labelled by their seed as text. The bank is not checked here; the resolution block
    does that.
    """
    return resolve_problem(
        problem,
        layouts=LAYOUTS,
        replicas=replicas,
        seed=FRESH_NOISE_SEED + stream,
        validate=0,
        progress=False,
    )
