r"""An audit without a truth, made in a world where there is one.

Around a delivered value the frozen field says nothing about error: it was trained to agree with it.
But with a simulator and a noise model, data can be made *at* the delivered value :math:`\hat q`.
There the truth is known, and the same pipeline, run on such data, shows its bias:

.. math:: b(\hat q) = \operatorname{mean}_r\,(\hat q_r - \hat q), \qquad
          \bar D = \operatorname{mean}_r D_r .

If the bias changes little between :math:`\hat q` and the unknown truth, the corrected estimate is
:math:`\hat q - b(\hat q)`, and the decision map can be read from the simulated replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.diagnosis import Tolerance
from twoaxis.errors import InputError
from twoaxis.parameters import Center, Parameter, Parameters
from twoaxis.remedies.calibration.pipeline import (
    LAYOUT,
    Answer,
    ask,
    build_simulator,
    check_count,
    check_pipeline,
    is_constant,
    noise_draws,
    pipeline_seeds,
)
from twoaxis.remedies.simulated.result import SimulatedAudit, assemble, measure_replica
from twoaxis.resolution import resolve
from twoaxis.views import View

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
    vectorized: bool | None = None,
    vectorized_forward: bool = False,
    progress: bool = True,
) -> SimulatedAudit:
    """Audit a pipeline on data simulated at the value that it delivered.

    Parameters
    ----------
    pipeline, forward, noise, layout, seed, vectorized, vectorized_forward, progress
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
    simulator = build_simulator(forward, checked, noise, layout, center.values, vectorized_forward)
    draws = noise_draws(seed, replicas, len(simulator.sites))
    q = np.array([[float(p.to_coordinate(center.values[n])) for n, p in checked.items()]])
    values, _ = simulator.simulate(q, draws)
    seeds = pipeline_seeds(seed, replicas)[1:]
    answers = _answers(pipeline, values[0], seeds, checked, view, vectorized, progress)
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
            vectorized=vectorized_forward,
            progress=progress,
        )
    data = assemble(found, checked, center, fits, tolerance, seed, view)
    return SimulatedAudit(data, tuple(answers))


def _checked(
    parameters: Mapping[str, Parameter], at: str | Mapping[str, float]
) -> tuple[dict[str, Parameter], Center]:
    checked = Parameters(parameters)
    Parameters(checked).center("delivered")  # without delivered values there is nothing to correct
    if at == "truth":
        raise InputError(
            'at="delivered" or a mapping from names to values',
            'at="truth"',
            "use twoaxis.audit where the truth is known",
        )
    return checked, Parameters(checked).center(at)


def _answers(
    pipeline: Callable[..., Any],
    values: FloatArray,
    seeds: IntArray,
    parameters: Mapping[str, Parameter],
    view: View | None,
    vectorized: bool | None,
    progress: bool,
) -> list[Answer]:
    """Run the pipeline on all replicas, and refuse answers that allow no audit."""

    def some(part: slice, title: str) -> list[Answer]:
        return ask(
            pipeline,
            values[part],
            seeds[part],
            parameters,
            vectorized=vectorized,
            progress=progress,
            title=title,
        )

    together = getattr(pipeline, "vectorized", False) if vectorized is None else vectorized
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


def _check_dependence(answers: Sequence[Answer], parameters: Mapping[str, Parameter]) -> None:
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
