r"""An audit without a known truth, from data simulated at the delivered value.

Around a delivered value the frozen field says nothing about error: it was trained to agree with it.
But with a simulator and a noise model, data can be simulated *at* the delivered value
:math:`\hat q`. There the truth is known, and the same pipeline, run on such data, shows its bias:

.. math:: b(\hat q) = \operatorname{mean}_r\,(\hat q_r - \hat q), \qquad
          \bar D = \operatorname{mean}_r D_r .

For each simulated field the bookkeeping of the diagnosis closes, with :math:`q_0 = \hat q`,

.. math:: \hat q_r - q_0 = (q_{{\rm profile}, r} - q_0) + (\hat q_r - q_{{\rm profile}, r}),

delivered error = preference of the frozen field + delivery gap. If the bias changes little between
:math:`\hat q` and the unknown truth, the corrected estimate is :math:`\hat q - b(\hat q)`, and the
decision map can be read from the simulated replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.diagnosis import Tolerance
from twoaxis.errors import InputError
from twoaxis.geometry import frozen_scan, score
from twoaxis.parameters import Center, Parameter, Parameters
from twoaxis.remedies.pipeline import Answer, check_pipeline, is_constant, run_pipeline
from twoaxis.remedies.simulated.result import LIMITS, SimulatedAudit, known_truth
from twoaxis.remedies.simulator import (
    LAYOUT,
    build_simulator,
    check_count,
    noise_draws,
    pipeline_seeds,
)
from twoaxis.resolution import Resolution, resolve
from twoaxis.views import View

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# ------------------------------------------------------------------ one replica


NO_FROZEN = "the answer carries no frozen residual"


@dataclass(frozen=True)
class Replica:
    """Measurements of one simulated dataset; differences of coordinates, by parameter.

    Attributes
    ----------
    delivered : dict of str to float
        Physical values.
    error : dict of str to float
        Delivered minus the parameter of the simulation.
    displacement : dict of str to float
        D of the frozen field under the audited view; NaN where `status` says why.
    training_displacement : dict of str to float
        The same under the view of the training.
    preferred : dict of str to float
        Minimum of the frozen scan minus the parameter of the simulation; NaN on a bound.
    status : str
        "measured", or a sentence.
    """

    delivered: dict[str, float]
    error: dict[str, float]
    displacement: dict[str, float]
    training_displacement: dict[str, float]
    preferred: dict[str, float]
    status: str


def measure_replica(
    answer: Answer, parameters: Parameters, at: Mapping[str, float], view: View | None
) -> Replica:
    """Score and scan the field of one answer at the parameter that its data were simulated at."""
    nothing = dict.fromkeys(parameters, np.nan)
    if answer.failure:
        return Replica(nothing, nothing, nothing, nothing, nothing, answer.failure)
    error = {
        name: float(p.to_coordinate(answer.delivered[name]) - p.to_coordinate(at[name]))
        for name, p in parameters.items()
    }
    if answer.frozen is None:
        return Replica(answer.delivered, error, nothing, nothing, nothing, NO_FROZEN)
    frozen = known_truth(answer.frozen, at, answer.delivered)
    found = score(frozen, view=view, at="truth")
    own = found if view is None or frozen.view is None else score(frozen, at="truth")
    scan = frozen_scan(frozen, view=view, at="truth")
    status = "measured"
    displacement = found.displacement
    if not found.identified:
        displacement, status = nothing, str(found.doubts[0])
    elif scan.cut_off:
        status = f"minimum of the frozen scan: {scan.status}"
    return Replica(
        answer.delivered,
        error,
        displacement,
        own.displacement if own.identified else nothing,
        # A minimum on a bound is where the scan was cut off, not what the field prefers.
        nothing if scan.cut_off else scan.displacement or nothing,
        status,
    )


# ------------------------------------------------------------------ the function


def simulated_audit(
    pipeline: Callable[..., Any],
    forward: Callable[..., Any],
    parameters: Mapping[str, Parameter],
    noise: ArrayLike,
    *,
    layout: ArrayLike | None = None,
    at: str | Mapping[str, float] = "delivered",
    view: View | None = None,
    replicas: int = 20,
    seed: int | Sequence[int] = 0,
    tolerance: Tolerance | None = None,
    matched: bool = True,
    vectorized: bool = False,
    vectorized_pipeline: bool | None = None,
    progress: bool = True,
) -> SimulatedAudit:
    """Audit a pipeline on data simulated at the value that it delivered.

    Parameters
    ----------
    pipeline, forward, noise, layout, seed, vectorized, vectorized_pipeline, progress
        As for `twoaxis.calibrate`. The answers of the pipeline must carry a frozen residual: a
        `twoaxis.FrozenResidual` with ``delivered`` values, or an object with ``delivered`` and
        ``frozen``, such as a `twoaxis.Run`.
    parameters : mapping of str to Parameter
        With ``delivered``; one or several. A truth is not used.
    at : "delivered" or mapping of str to float
        Where to simulate. Once a corrected value is known, simulating there shows whether the
        pipeline really returns from it what it delivered.
    view : View, optional
        The audited view; by default that of the training.
    replicas : int
        Simulated datasets, each a run of the pipeline.
    tolerance : Tolerance, optional
        For the route.
    matched : bool
        Fit the same simulated datasets with the forward model itself: axis 1.

    Returns
    -------
    SimulatedAudit

    Examples
    --------
    >>> import numpy as np
    >>> from twoaxis import FrozenResidual, Parameter, views
    >>> def pipeline(values, seed):
    ...     best = 1.2 * values.mean()
    ...     known = {"k": Parameter(bounds=(0.2, 5.0), delivered=best)}
    ...     return FrozenResidual(
    ...         lambda k: k * np.ones(8) - best, known, np.arange(8.0), view=views.Pointwise()
    ...     )
    >>> found = simulated_audit(
    ...     pipeline, lambda k: k * np.ones(30), {"k": Parameter(bounds=(0.2, 5.0), delivered=1.2)},
    ...     noise=0.05, replicas=10, progress=False,
    ... )
    >>> round(found.corrected["k"], 2)
    1.0
    """
    checked, center = _checked(parameters, at)
    check_pipeline(pipeline)
    check_count("replicas", replicas, 2)
    for name, kind, value in (("view", View, view), ("tolerance", Tolerance, tolerance)):
        if value is not None and not isinstance(value, kind):
            raise InputError(
                f"{name} as a twoaxis {kind.__name__}", type(value).__name__, "see its reference"
            )
    simulator = build_simulator(forward, checked, noise, layout, center.values, vectorized)
    draws = noise_draws(seed, replicas, len(simulator.sites))
    values, _ = simulator.simulate(checked.coordinates(center.values)[None], draws)
    seeds = pipeline_seeds(seed, replicas)[1:]
    answers = _answers(pipeline, values[0], seeds, checked, view, vectorized_pipeline, progress)
    _check_dependence(answers, checked)
    found = [measure_replica(answer, checked, center.values, view) for answer in answers]
    fits = None
    if matched:
        fits = resolve(
            forward,
            checked,
            noise,
            {LAYOUT: simulator.sites},
            replicas=replicas,
            seed=seed,
            at=center.values,
            vectorized=vectorized,
            progress=progress,
        )
    result = SimulatedAudit.from_values(
        _values(found, checked, center, fits),
        {
            "seed": " ".join(map(str, np.atleast_1d(seed))),
            "view": "the training view" if view is None else view.describe(),
            **{f"tolerance_{name}": getattr(tolerance, name, np.nan) for name in LIMITS},
            "tolerance_statistic": "mean" if tolerance is None else tolerance.statistic,
        },
    )
    result._answers = tuple(answers)
    return result


def _values(
    found: Sequence[Replica], parameters: Parameters, center: Center, fits: Resolution | None
) -> dict[str, Any]:
    """Return the basic variables of a simulated audit."""

    def array(field: str) -> FloatArray:
        return np.array([[getattr(each, field)[name] for each in found] for name in parameters])

    matched = None
    if fits is not None:
        estimates = fits.data["estimate"].isel(layout=0).transpose("replica", "parameter").values
        coordinates = parameters.coordinates(dict(zip(parameters, estimates.T, strict=True)))
        matched = (coordinates - parameters.coordinates(center.values)).T
    return {
        **parameters.variables(),
        "center": [center.values[name] for name in parameters],
        "replica": np.arange(len(found)),
        "estimate": array("delivered"),
        "status": [each.status for each in found],
        "displacement": array("displacement"),
        "training_displacement": array("training_displacement"),
        "preferred_error": array("preferred"),
        **({} if matched is None else {"matched_error": matched}),
    }


def _checked(
    parameters: Mapping[str, Parameter], at: str | Mapping[str, float]
) -> tuple[Parameters, Center]:
    checked = Parameters(parameters).replace(truth=None)
    checked.require("delivered")  # without delivered values there is nothing to correct
    if at == "truth":
        raise InputError(
            'at="delivered" or a mapping from names to values',
            'at="truth"',
            "use twoaxis.audit where the truth is known",
        )
    return checked, checked.center(at)


def _answers(
    pipeline: Callable[..., Any],
    values: FloatArray,
    seeds: IntArray,
    parameters: Parameters,
    view: View | None,
    vectorized_pipeline: bool | None,
    progress: bool,
) -> list[Answer]:
    """Run the pipeline on all replicas, and refuse answers that allow no audit."""

    def some(part: slice, title: str) -> list[Answer]:
        return run_pipeline(
            pipeline,
            values[part],
            seeds[part],
            parameters,
            vectorized=vectorized_pipeline,
            progress=progress,
            title=title,
        )

    together = (
        getattr(pipeline, "vectorized", False)
        if vectorized_pipeline is None
        else vectorized_pipeline
    )
    # One by one, the first answer is looked at before the others are waited for.
    first = [] if together else some(slice(0, 1), "the first replica")
    _check_usable(first, view)
    found = first + some(slice(len(first), None), f"{len(values)} simulated replicas")
    usable = [answer for answer in found if not answer.failure]
    if len(usable) < 2:
        raise InputError(
            "a pipeline that answers on two simulated datasets at least",
            f"{len(found) - len(usable)} failures of {len(found)}, the first: {found[0].failure}",
            "run it on one simulated dataset by itself and correct it",
        )
    _check_usable(usable, view)
    return found


def _check_dependence(answers: Sequence[Answer], parameters: Parameters) -> None:
    """Refuse answers that are the same for every noise: they do not depend on the data."""
    good = [answer.delivered for answer in answers if not answer.failure]
    if all(is_constant(np.array([each[name] for each in good])) for name in parameters):
        shown = ", ".join(f"{name} = {good[0][name]:.6g}" for name in parameters)
        raise InputError(
            "a pipeline whose answers depend on the data",
            f"the same answer on all {len(good)} simulated datasets, {shown}",
            "check that the pipeline fits the values that it is given, that its parameters are "
            "free, and that it does not end on a bound",
        )


def _check_usable(answers: Sequence[Answer], view: View | None) -> None:
    """Refuse answers without a frozen residual, or without a view to read it in."""
    good = [answer for answer in answers if not answer.failure]
    for answer in good[:1]:
        if answer.frozen is None:
            raise InputError(
                "answers of the pipeline that carry a frozen residual",
                f"{type(answer.source).__name__} without one",
                "return a twoaxis.FrozenResidual, or an object with delivered and frozen; for "
                "numbers alone use twoaxis.calibrate",
            )
        if view is None and answer.frozen.view is None:
            raise InputError(
                "a view of the residual",
                "none, and the frozen residuals of the pipeline carry no training view",
                "pass one, for instance view=twoaxis.views.Pointwise()",
            )
