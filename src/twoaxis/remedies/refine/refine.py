r"""Refinement: from a diagnosed parameter to the one that data and equation determine together.

A field whose residual prefers a wrong parameter does not obey its equation well enough. Refinement
puts a field of splines in the place of the network, with coefficients c, and moves it and the
coordinates q of the parameters to where the equation holds. Its weight :math:`\lambda` grows until
it no longer matters,

.. math:: \min_{c, q} \sum_i \frac{(u_c(x_i) - y_i)^2}{\sigma^2}
          + \lambda \sum_k w_k \frac{r(c, q; z_k)^2}{s^2} .

On the plateau of large :math:`\lambda` that is the estimate of least squares with an exact solver.
Standard errors are those of the data, for a field that goes on to obey the equation as the
parameters change. `of_splines` chooses the starts, `spline_problem` is the stacked residual, and
`spline_continuation` raises the weight and cuts cells.

Where splines cannot take the place of the network (`spline_problem` returns the reason), or
`continuation` asks for it, the network itself takes the steps (`of_model`). The parameters are held
in each stage, and move at its end to the minimum of the linearized problem, with the field
eliminated: `StackedModel.reduced`, and `twoaxis.training.gauss_newton.StackedResidual.reduced` for
runs of the engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twoaxis.arrays import check_seed, is_real
from twoaxis.errors import InputError, needs_extra
from twoaxis.frozen import FrozenResidual
from twoaxis.gauss_newton import Continuation
from twoaxis.remedies.refine.observed import given_kinds, observations_of
from twoaxis.remedies.refine.of_model import refine_model
from twoaxis.remedies.refine.of_splines import refined_on_splines
from twoaxis.remedies.refine.result import NOT_SETTLED, SETTLED, Refinement

# A network of so few weights is refined itself where splines do not settle.
FEW_WEIGHTS = 1000


def refine(
    subject: Any,
    data: Any = None,
    *,
    noise: Any = None,
    continuation: Continuation | None = None,
    seed: int = 0,
    progress: bool = True,
    **training: Any,
) -> Refinement:
    """Move field and parameters to where the equation holds and the data are fitted.

    A field of splines takes the place of the network of a model, whatever its size. It starts from
    the data, from the trained network and from values between the bounds; the best minimum is
    reported. Where splines cannot take its place, the network itself is refined, which takes
    longer: ``refined.data.attrs["how"]`` says which, and why.

    Parameters
    ----------
    subject : FrozenResidual, Run, str or Problem
        A frozen residual of an adapter. A run of the engine: a narrower network with exact
        conditions is trained in its place, from its delivered value. A built-in problem, with a
        `twoaxis.Dataset` as `data`.
    data : Observations, array or Dataset, optional
        The observations: with their places and noise, or an array in the order of `observed`.
        Missing readings (NaN) are left out. Those that the subject carries by default.
    noise : float, optional
        Standard deviation of the noise of an array. Estimated from the misfit of the refined field
        where nothing says it; `twoaxis.Observations` may have any other noise.
    continuation : Continuation, optional
        Refine the network itself, with a weight of the equation that grows in this way:
        ``twoaxis.gauss_newton.Continuation(...)``.
    seed : int
        Of the starts between the bounds; of a network, of the draws of collocation points.
    progress : bool
        Show a progress bar.
    **training
        For a run or a problem: options of `twoaxis.train`, such as ``store``, ``device`` or
        ``network``. With a store an interrupted refinement goes on where it stopped.

    Returns
    -------
    Refinement
        With ``values``, ``standard_error``, ``trusted`` and the refined field as ``frozen``.
        ``twoaxis.resolve(refinement)`` is axis 1 without a solver.

    See Also
    --------
    twoaxis.estimate : The same from an equation and data; nothing is trained.

    Examples
    --------
    >>> import numpy as np, torch, twoaxis as ta
    >>> _ = torch.manual_seed(0)
    >>> t = torch.linspace(0, 2, 30, dtype=torch.float64)[:, None]
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    >>> def decay(model, t, rate):
    ...     u = model(t)
    ...     (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    ...     return u_t + rate * u
    >>> known = {"rate": ta.Parameter(delivered=0.5, bounds=(0.1, 10))}
    >>> frozen = ta.from_torch(net.double(), decay, known, points=t, observed=t)
    >>> data = np.exp(-1.2 * t.numpy().ravel())
    >>> found = ta.refine(frozen, data, noise=0.01, progress=False)
    >>> round(found.values["rate"], 2)
    1.2
    """
    if continuation is not None and not isinstance(continuation, Continuation):
        raise InputError(
            "continuation as a twoaxis.gauss_newton.Continuation",
            type(continuation).__name__,
            "pass Continuation(last=1e7), for instance",
        )
    check_seed(seed)
    if isinstance(subject, FrozenResidual):
        if training:
            raise InputError(
                "options of a training for a run or a built-in problem only",
                ", ".join(training),
                "leave them out: the network of a frozen residual is its own",
            )
        return _refine_frozen(subject, data, noise, continuation, seed, progress)
    if noise is not None and not (is_real(noise) and 0 < noise < np.inf):
        raise InputError(
            "noise of a run or a built-in problem as one positive standard deviation",
            f"noise={noise!r}" if is_real(noise) else f"noise of shape {np.shape(noise)}",
            "pass one number, or leave it out: it is then estimated",
        )
    # Not at the top: models of other libraries need no JAX.
    with needs_extra("train", "twoaxis.refine of a run or a built-in problem"):
        from twoaxis.remedies.refine.of_run import refine_run

    return refine_run(subject, data, noise, continuation, seed, progress, training)


def _refine_frozen(
    frozen: FrozenResidual,
    data: Any,
    noise: Any,
    continuation: Continuation | None,
    seed: int,
    progress: bool,
) -> Refinement:
    """Refine on splines; the network itself where nothing can take its place, or where asked."""
    experiments = [
        [observations_of(frozen, each, noise) for each in kinds] for kinds in given_kinds(data)
    ]
    found, why = None, "as continuation= asks"
    if continuation is None:
        found, why = refined_on_splines(frozen, experiments, seed, progress)
        if found is not None:
            size = frozen.weights.start.size if frozen.weights is not None else 0
            if found.status != NOT_SETTLED or size > FEW_WEIGHTS:
                return found
            why = "a field of splines did not settle"
    if len(experiments) > 1 or len(experiments[0]) > 1:
        if found is not None:
            return found
        raise InputError(
            "one kind of readings in one experiment, for a refinement of the network itself",
            f"{sum(map(len, experiments))}",
            f"pass one twoaxis.Observations; there are no splines, because {why}",
        )
    other = refine_model(frozen, experiments[0][0], continuation, seed, progress, why)
    return other if found is None or other.status == SETTLED else found


def refine_quickly(
    frozen: FrozenResidual, data: Any, noise: Any, progress: bool
) -> Refinement | None:
    """Refine on splines; None where nothing can take the place of the network."""
    observations = observations_of(frozen, data, noise)
    return refined_on_splines(frozen, [[observations]], 0, progress)[0]
