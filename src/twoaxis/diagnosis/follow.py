r"""Along one training: parameter, preferred value, strength, alignment and delivery gap.

At every recorded step the frozen field has a score :math:`B, H, D`, a value that it prefers (the
minimum of its frozen profile), and the delivery gap, the value of the parameter minus the preferred
one. `follow` reads frozen residuals that were kept; `twoaxis.Follower` reads a model while it
trains. Both make the same rows and the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np
import pandas as pd

from twoaxis.arrays import FloatArray, is_integer
from twoaxis.errors import InputError
from twoaxis.exported.interpolant import AffineForm
from twoaxis.frozen import FrozenResidual, bound_view
from twoaxis.geometry.affine import affine_profile
from twoaxis.geometry.derivatives import Linearization, linearize
from twoaxis.geometry.scan import FLAT_STATUS, INTERIOR, bound_status, scan_from
from twoaxis.geometry.score import Terms, check_metric_size, score_terms, unseen_parameters
from twoaxis.io import Variable
from twoaxis.parameters import Center, Parameters
from twoaxis.result import (
    CENTER_LAYOUT,
    MESSAGE_LAYOUT,
    PARAMETER_LAYOUT,
    CenteredResult,
    Message,
    message_variables,
    messages_from,
)

if TYPE_CHECKING:
    from twoaxis.views import View

_S = ("step",)
_SP = ("step", "parameter")
# A local search for the preferred value: most iterations, and the step, relative to the width of
# the bounds, at which it has converged.
ITERATIONS = 20
CONVERGED = 1e-7
NOT_FOUND = f"not found: no minimum within {ITERATIONS} iterations"


@final
class Snapshots(CenteredResult):
    """What was measured along one training; made by `twoaxis.follow` and by `twoaxis.Follower`.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> def frozen(preferred, delivered):
    ...     k = ta.Parameter(truth=1.0, delivered=delivered, bounds=(0.5, 2.0))
    ...     return ta.FrozenResidual(
    ...         lambda k: k * np.ones(20) - preferred,
    ...         {"k": k},
    ...         np.linspace(0, 1, 20),
    ...         view=ta.views.Pointwise(),
    ...     )
    >>> along = ta.follow([(100, frozen(1.2, 1.0)), (200, frozen(1.1, 1.1))])
    >>> table = along.summary()[["value", "preferred", "gap"]].droplevel("parameter")
    >>> print(table.round(3).to_string(index_names=False))
         value  preferred    gap
    100    1.0        1.2 -0.182
    200    1.1        1.1  0.000
    """

    schema = "snapshots"
    version = 2
    layouts: ClassVar = {
        "/": {
            **PARAMETER_LAYOUT,
            **CENTER_LAYOUT,
            **MESSAGE_LAYOUT,
            "step": Variable(_S, "int", "training step"),
            "value": Variable(_SP, "float", "value of the parameter at the step; NaN: not known"),
            "preferred": Variable(
                _SP, "float", "value that the frozen field prefers; NaN: none inside the bounds"
            ),
            "displacement": Variable(
                _SP, "float", "displacement D from the center, or from the value; NaN: not measured"
            ),
            "preference": Variable(
                _SP, "float", "preferred value minus center, in coordinates; NaN: none"
            ),
            "gap": Variable(_SP, "float", "value minus preferred value, in coordinates"),
            "alignment": Variable(_SP, "float", "alignment of residual and sensitivity"),
            "strength": Variable(
                ("step", "parameter", "other_parameter"), "float", "strength H; NaN: not measured"
            ),
            "other_parameter": Variable(("other_parameter",), "text", "name of the parameter"),
            "residual_norm": Variable(_S, "float", "norm of the residual, sqrt(r^T M r)"),
            "data_misfit": Variable(
                _S, "float", "RMS misfit of the field to the data, in noise levels; NaN: not known"
            ),
            "seconds": Variable(_S, "float", "time that the measurement took; NaN: not known", "s"),
            "status": Variable(_S, "text", "where the preferred value lies, or why there is none"),
            "standard_error": Variable(
                ("parameter",), "float", "standard error in the coordinate; NaN: no resolution"
            ),
            "time_share": Variable(
                (), "float", "share of the training time spent on measurements; NaN: not known"
            ),
        }
    }
    attributes: ClassVar = {"/": ("centered_on",)}

    def derived(self) -> dict[str, Any]:
        """Return differences of coordinates: preferred - center, and value - preferred."""
        data, parameters = self.data, self.parameters
        home = parameters.coordinates(self.center.values)

        def coordinates(name: str) -> FloatArray:
            values = data[name].transpose("step", "parameter").values
            return parameters.coordinates(dict(zip(parameters, values.T, strict=True)))

        with np.errstate(invalid="ignore", divide="ignore"):
            reached, preferred = coordinates("value"), coordinates("preferred")
        return {
            "preference": preferred - home,
            "gap": reached - preferred,
            "other_parameter": parameters.names,
        }

    @property
    def messages(self) -> list[Message]:
        """What a reader must know besides the numbers."""
        return messages_from(self.data)

    def summary(self) -> pd.DataFrame:
        """Return a table with one row per step and parameter.

        Columns that end in ``_se`` are in standard errors; they and the misfit of the data are
        there where a resolution or the noise was given.
        """
        data = self.data
        names = ("value", "preferred", "displacement", "preference", "gap")
        table = {n: data[n].transpose("step", "parameter").values for n in names}
        error = data["standard_error"].values
        if np.isfinite(error).any():
            for name in ("displacement", "gap"):
                table[f"{name}_se"] = table[name] / error
        H = data["strength"].transpose("step", "parameter", "other_parameter").values
        table["strength"] = np.diagonal(H, axis1=1, axis2=2)
        table["alignment"] = data["alignment"].transpose("step", "parameter").values
        rows = pd.MultiIndex.from_product(
            [data["step"].values, self.names], names=["step", "parameter"]
        )
        found = pd.DataFrame({n: column.ravel() for n, column in table.items()}, index=rows)
        per_step = ["residual_norm", "data_misfit", "status"]
        if np.isnan(data["data_misfit"].values).all():
            per_step.remove("data_misfit")
        for name in per_step:
            found[name] = np.repeat(data[name].values, len(self.names))
        return found

    def __repr__(self) -> str:
        steps = self.data["step"].values
        head = f"{len(steps)} snapshots of one training, steps {steps[0]} to {steps[-1]}"
        share = float(self.data["time_share"])
        if np.isfinite(share):
            head += f", {100 * share:.2g}% of its time"
        lines = [head, self.summary().to_string(float_format=lambda v: f"{v:.4g}")]
        return "\n".join([*lines, *(f"{m.severity}: {m.text}" for m in self.messages)])


# ------------------------------------------------------------------ one row


class Row(NamedTuple):
    """What was measured at one step; arrays have an entry for each of d parameters."""

    step: int
    value: FloatArray
    preferred: FloatArray
    displacement: FloatArray
    alignment: FloatArray
    strength: FloatArray
    residual_norm: float
    status: str
    data_misfit: float = np.nan
    seconds: float = np.nan

    @property
    def measured(self) -> bool:
        """Whether there is a score of this step."""
        return bool(np.isfinite(self.residual_norm))


def empty_row(step: int, count: int, status: str) -> Row:
    """Return the row of a step at which nothing could be measured."""
    nothing = np.full(count, np.nan)
    square = np.full((count, count), np.nan)
    return Row(step, nothing, nothing, nothing, nothing, square, np.nan, status)


def full_row(
    step: int, frozen: FrozenResidual, view: View | None, center: Center, candidates: int = 81
) -> tuple[Row, bool]:
    """Measure with every check and a scan over the bounds; also tell whether r is affine."""
    metric = bound_view(frozen, view)
    local = linearize(frozen, frozen.coordinates(center.values))
    check_metric_size(metric, local.residual)
    terms = score_terms(local.residual, local.jacobian, metric, frozen.known.nuisance)
    scan = scan_from(frozen, metric, center, candidates, local=local)
    # A minimum on a bound is where the scan was cut off, not what the field prefers.
    found = None if scan.minimum is None or scan.cut_off else list(scan.minimum.values())
    return _row(step, frozen, terms, found, scan.status), scan.affine


def quick_row(
    step: int, frozen: FrozenResidual, view: View | None, center: Center, affine: bool
) -> Row:
    """Measure with as few evaluations as possible, and search from the center alone.

    An affine residual needs one evaluation and one derivative. Any other is followed by
    Gauss-Newton steps into the minimum of the basin that holds the center.
    """
    metric = bound_view(frozen, view)
    q = frozen.coordinates(center.values)
    local = linearize(frozen, q, check=False)
    terms = score_terms(local.residual, local.jacobian, metric, frozen.known.nuisance)
    if terms.null.all():
        return _row(step, frozen, terms, None, FLAT_STATUS)
    search = _affine_minimum if affine else _basin_minimum
    found = search(frozen, metric, q, local, terms)
    if found is None:
        return _row(step, frozen, terms, None, NOT_FOUND)
    low, high = np.array([p.bounds for p in frozen.known.values()]).T
    status = bound_status(frozen.known, np.clip(found, low, high))
    return _row(step, frozen, terms, found if status == INTERIOR else None, status)


def _row(step: int, frozen: FrozenResidual, terms: Terms, preferred: Any, status: str) -> Row:
    known = frozen.known
    found = np.full(len(known), np.nan) if preferred is None else np.array(preferred, dtype=float)
    blind = unseen_parameters(known, terms.strength, terms.null)
    found[[name in blind for name in known]] = np.nan
    value = [np.nan if p.delivered is None else p.delivered for p in known.values()]
    return Row(
        step,
        np.array(value),
        found,
        terms.displacement,
        terms.alignment,
        terms.H,
        terms.residual_norm,
        status,
    )


def _affine_minimum(
    frozen: FrozenResidual, metric: Any, q: FloatArray, local: Linearization, _: Terms
) -> FloatArray | None:
    """Return the exact minimum, in physical values, from one linearization."""
    physical = np.array(list(frozen.physical(q).values()))
    slope = np.where([p.coordinate == "log" for p in frozen.known.values()], physical, 1.0)
    slopes = local.jacobian / slope
    form = AffineForm(local.residual - slopes @ physical, slopes)
    return affine_profile(form, metric).minimizer()


def _basin_minimum(
    frozen: FrozenResidual, metric: Any, q: FloatArray, local: Linearization, terms: Terms
) -> FloatArray | None:
    """Return the minimum, in physical values, that Gauss-Newton steps from `q` lead to."""
    low, high = frozen.coordinate_bounds
    height = terms.residual_norm
    for _ in range(ITERATIONS):
        step = terms.displacement
        for _ in range(ITERATIONS):  # halve a step that climbs
            moved = np.clip(q + step, low, high)
            local = linearize(frozen, moved, check=False)
            there = score_terms(local.residual, local.jacobian, metric)
            if there.residual_norm <= height:
                break
            step = step / 2
        else:
            return frozen.known.physical(q)
        change = np.abs(moved - q) / (high - low)
        q, terms, height = moved, there, there.residual_norm
        if change.max() <= CONVERGED:
            return frozen.known.physical(q)
    return None


# ------------------------------------------------------------------ the result of all rows


def snapshots_of(
    rows: Sequence[Row],
    parameters: Parameters,
    center: Center,
    *,
    standard_error: FloatArray | None = None,
    messages: Sequence[Message] = (),
    time_share: float = np.nan,
) -> Snapshots:
    """Return rows as a labelled result."""
    names = [name for name in Row._fields if name != "status"]
    return Snapshots.from_values(
        {
            **parameters.variables(),
            **message_variables(messages),
            "center": [center.values[name] for name in parameters],
            **{name: np.array([getattr(row, name) for row in rows]) for name in names},
            "status": [row.status for row in rows],
            "standard_error": np.full(len(parameters), np.nan)
            if standard_error is None
            else standard_error,
            "time_share": time_share,
        },
        {"centered_on": center.kind},
    )


def center_of_step(frozen: FrozenResidual, center: Center) -> Center:
    """Return the center at one step: around no truth and no point, the value of that step."""
    own = frozen.known.delivered
    return center if center.kind != "delivered" or own is None else Center("delivered", own)


def follow(
    snapshots: Iterable[tuple[int, FrozenResidual]],
    view: View | None = None,
    at: str | Mapping[str, float] | None = None,
    *,
    candidates: int = 81,
) -> Snapshots:
    """Follow preferred value, strength and delivery gap along kept snapshots of one training.

    `twoaxis.Follower` does the same while a model trains.

    Parameters
    ----------
    snapshots : iterable of (int, FrozenResidual)
        Training steps, ascending, with the field frozen there. Each snapshot's parameters
        carry the value at that step as ``delivered``.
    view : View, optional
        By default the training view that each snapshot carries: adaptive weights change.
    at : {"truth", "delivered"} or mapping of str to float, optional
        The center, one for all steps. By default the truth where it is known. Around the
        delivered value, score and displacement of each step refer to the value of that step,
        and preferences to the last one.
    candidates : int
        Of the scan of each snapshot.

    Returns
    -------
    Snapshots
        NaN where a profile is flat or its minimum lies on a bound. ``audit(..., snapshots=...)``
        keeps it.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 20)
    >>> def frozen(preferred, delivered):
    ...     k = ta.Parameter(truth=1.0, delivered=delivered, bounds=(0.5, 2.0))
    ...     return ta.FrozenResidual(
    ...         lambda k: k * np.ones(20) - preferred, {"k": k}, x, view=ta.views.Pointwise()
    ...     )
    >>> found = ta.follow([(100, frozen(1.2, 1.0)), (200, frozen(1.1, 1.1))])
    >>> found.data["gap"].values.round(3).ravel().tolist()
    [-0.182, 0.0]
    """
    rows = [_checked(item) for item in snapshots]
    if not rows:
        raise InputError("at least one snapshot", "none", "pass (step, FrozenResidual) pairs")
    steps = [step for step, _ in rows]
    if sorted(set(steps)) != steps:
        raise InputError("steps in ascending order, each once", repr(steps), "sort them")
    last = rows[-1][1]
    for step, frozen in rows:
        check_same_parameters(frozen, last.names, step)
    center = last.known.center(at)
    found = [
        full_row(step, frozen, view, center_of_step(frozen, center), candidates)[0]
        for step, frozen in rows
    ]
    return snapshots_of(found, last.known, center)


def check_same_parameters(frozen: FrozenResidual, names: list[str], step: int) -> None:
    """Refuse a snapshot of another training."""
    if frozen.names != names:
        raise InputError(
            f"the parameters {', '.join(names)} in every snapshot",
            f"{', '.join(frozen.names)} at step {step}",
            "follow one training at a time",
        )


def _checked(item: Any) -> tuple[int, FrozenResidual]:
    try:
        step, frozen = item
    except (TypeError, ValueError):
        step, frozen = None, item
    if not is_integer(step) or not isinstance(frozen, FrozenResidual):
        raise InputError(
            "snapshots as pairs of a step and a twoaxis.FrozenResidual",
            repr(item),
            "write follow([(1000, frozen_1000), (2000, frozen_2000)])",
        )
    return int(step), frozen
