"""The layout of an audit: one `xarray.DataTree`, in memory and on disk alike.

An `Audit` holds nothing but this tree. ``audit.to_netcdf`` writes it, ``xarray.open_datatree``
opens it again without this library, and pictures take it as their data. Every variable has the
attributes ``long_name`` (what it means) and ``units``. Dimensions stand in brackets; variables
and groups in square brackets are there only where the sentence after them holds. A number that
could not be had is NaN, and a ``status``, ``reason`` or ``message`` beside it says why.

Physical values are in the unit of the parameter. Displacements are differences of *coordinates*
(``log p``, or ``p`` where the parameter is linear), with their sign. Percentages are relative to
the centre, unsigned unless the name or the meaning says signed.

``/``
    ``parameter`` (parameter), the names. ``center``, ``lower_bound``, ``upper_bound``,
    ``coordinate``, ``scale`` (parameter). ``message`` (sentence): what a reader must know, in
    sentences. [``delivered`` (parameter)]: a delivered value is known. [``truth`` (parameter)]:
    the audit is centred on it.
    Attributes: ``schema``, ``title``, ``written_by``; ``centered_on``: "truth", "delivered" or
    "point"; ``route`` and ``reason`` of the whole audit; ``view``, ``training_view``, in words;
    ``view_relation``: "the training view", "another view" or "taken as the training view".
``/verdict``
    ``route``, ``reason`` (parameter); ``preference_percent``, ``scan_percent`` (parameter).
    [``delivered_percent`` (parameter)]: centred on a truth, and a value was delivered.
    [``resolution_percent`` (parameter)]: a resolution was given. [``gap_percent``
    (parameter)]: signed, delivery could be read. [``training_preference_percent`` (parameter)]:
    the view is another one than the training view.
    Eigen-directions of the strength, weakest first, parameters in units of 100 percent:
    ``direction`` (direction), ``direction_vector`` (direction, parameter),
    ``direction_strength``, ``direction_status`` ("seen", "weak" or "null"),
    ``direction_displacement``, ``direction_preference_percent``, ``direction_route``,
    ``direction_reason`` (direction); [``direction_delivered_percent``,
    ``direction_resolution_percent`` (direction)] under the conditions above.
    [``tolerance_material``, ``tolerance_resolution``, ``tolerance_preference`` ()]: tolerances
    were declared. Attribute ``statistic``: "mean" or "p90", that of ``resolution_percent``.
``/score``
    ``B``, ``displacement``, ``diagonal_displacement``, ``delta_percent``, ``alignment``,
    ``sampling_deviation`` (parameter); ``H``, ``C`` (parameter, other_parameter);
    ``other_parameter`` (other_parameter); ``eigenvalue``, ``null`` (eigen), ``eigenvector``
    (eigen, parameter), of H in the coordinates, weakest first; ``residual_norm`` ().
    Attributes: ``view``, ``derivative``.
``/scan``
    ``candidate_value``, ``profile``, ``quadratic_model`` (parameter, candidate): the profile
    along each parameter with the others at the centre, and its linearised model there.
    ``minimum``, ``grid_minimum``, ``displacement`` (parameter): of the global minimum, NaN when
    the profile is flat. ``profile_at_center`` (). All minima, lowest first: ``local_minimum``
    (local, parameter), ``local_profile``, ``local_status``, ``local_holds_center`` (local).
    Attributes: ``status``, ``affine`` (0 or 1), ``affine_checked`` and ``affine_deviation``
    (number of values compared with an affine form, largest relative deviation),
    ``start_spread``, ``view``.
[``/training_view/score``, ``/training_view/scan``]
    The same two groups under the training view, where the audited view is another one.
[``/delivery``]
    Under the training view, where a delivered value and a minimum exist: ``preferred``,
    ``gap``, ``gap_percent`` (parameter; signed). [``preference``, ``total`` (parameter)]:
    centred on a truth; total = preference + gap. Attribute ``view``.
``/field``
    ``points`` (point, axis), ``axis`` (axis), ``residual`` (point), ``sensitivity``,
    ``contribution`` (point, parameter): J and J (M r), whose sum over all points is B.
    [``field`` (point)]: the frozen residual offers its field. At most 20,000 points are kept.
    Attributes: ``points_total``, ``points_kept``, ``field_name``.
[``/spectrum``]
    Where it was asked for or is cheap. ``mode`` (mode), ``eigenvalue`` (mode), ``strength``,
    ``signed`` (mode, parameter): contributions to the diagonal of H and to B, of leading modes;
    ``strength_total``, ``signed_total`` (parameter): of all modes. Attributes: ``basis``, in
    words; ``complete`` (0 or 1): whether the listed modes are all that count.
[``/resolution``]
    Where one was given: the variables of ``Resolution.to_netcdf`` with "error" in their names
    replaced by "deviation", and their old name in the attribute ``resolution_name``. Among them
    ``estimate``, ``deviation_percent`` (parameter, layout, replica),
    ``fisher_deviation_percent`` (parameter, layout): the predicted mean deviation. Added:
    ``fisher_sd_percent`` (parameter, layout), the predicted standard deviation; ``used``
    (layout): whether the layout counts for this audit.
[``/matched``]
    The matched fit to the audited data, where there is one: ``estimate``, ``lower``, ``upper``,
    ``open_lower``, ``open_upper`` (parameter), its likelihood-profile set. ``noise_scale`` ().
    [``difference_percent`` (parameter)]: signed, delivered relative to matched.
    [``deviation_percent``, ``excess_percent`` (parameter)]: centred on a truth; the excess is
    the delivered deviation minus the matched one, in points. Attribute ``layout``.
[``/resimulation``]
    The forward model at fixed values against the data, where both were at hand. ``value_of``
    (value_of): "delivered", "matched", and "truth" when centred on it; ``value`` (value_of,
    parameter); ``chi_square``, ``freedom``, ``reduced_chi_square``, ``rms``, ``deviance``,
    ``p_value``, ``status`` (value_of). Attributes: ``layout``, ``observations``.
[``/history``]
    Where one was given: ``step`` (step), ``quantity`` (quantity), ``recorded`` (step, quantity).
    [``value`` (step, parameter)]: the parameter was recorded along training.
[``/snapshots``]
    What `twoaxis.follow` returned, where it was given: ``step`` (step); ``delivered``,
    ``displacement``, ``preference``, ``gap`` (step, parameter); ``strength`` (step, parameter,
    other_parameter); ``other_parameter`` (other_parameter); ``center`` (parameter); ``status``
    (step). Attribute ``centered_on``.
[``/actions``]
    What `twoaxis.remedy` computed for this audit: ``kind``, ``title``, ``text``, ``call``
    (action). Their numbers: ``number_action``, the action that each belongs to;
    ``number_label``, ``number_value``, ``number_unit`` (number).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

SCHEMA = "twoaxis.audit/1"

PARAMETER_UNIT = "unit of the parameter"
COORDINATE_UNIT = "coordinate of the parameter"
PERCENT = "percent"
LOSS_UNIT = "unit of the loss"
NO_UNIT = "1"
TEXT = "text"


@dataclass(frozen=True)
class Variable:
    """What one variable of the tree is.

    Attributes
    ----------
    dims : tuple of str
    units : str
        "text" marks a variable of strings.
    meaning : str
        The ``long_name``; the words suit an audit around a candidate, too.
    required : bool
        Whether the group always has it.
    """

    dims: tuple[str, ...]
    units: str
    meaning: str
    required: bool = True


def _optional(dims: tuple[str, ...], units: str, meaning: str) -> Variable:
    return Variable(dims, units, meaning, required=False)


_P, _D, _L = ("parameter",), ("direction",), ("local",)
_A, _N = ("action",), ("number",)
_PAIR, _PC = ("parameter", "other_parameter"), ("parameter", "candidate")
_OTHERS = Variable(("other_parameter",), TEXT, "names of the parameters, again")

_SCORE = {
    "B": Variable(_P, LOSS_UNIT, "signed score J^T M r"),
    "displacement": Variable(_P, COORDINATE_UNIT, "displacement D = -H^+ B from the centre"),
    "diagonal_displacement": Variable(
        _P, COORDINATE_UNIT, "displacement of each parameter by itself"
    ),
    "delta_percent": Variable(_P, PERCENT, "relative size of the displacement, 100 |exp(D) - 1|"),
    "alignment": Variable(_P, NO_UNIT, "signed alignment of residual and sensitivity, -1 to 1"),
    "sampling_deviation": Variable(
        _P, COORDINATE_UNIT, "standard deviation of the displacement over samples of points"
    ),
    "H": Variable(_PAIR, LOSS_UNIT, "strength J^T M J"),
    "C": Variable(_PAIR, LOSS_UNIT, "curvature term r^T M d2r"),
    "other_parameter": _OTHERS,
    "eigenvalue": Variable(("eigen",), LOSS_UNIT, "eigenvalues of H, weakest first"),
    "null": Variable(("eigen",), NO_UNIT, "whether the residual does not see the direction"),
    "eigenvector": Variable(
        ("eigen", "parameter"), NO_UNIT, "eigen-directions of H in the coordinates"
    ),
    "residual_norm": Variable((), "unit of the residual", "sqrt(r^T M r) at the centre"),
}
_SCAN = {
    "candidate_value": Variable(_PC, PARAMETER_UNIT, "candidate values of the scan"),
    "profile": Variable(_PC, LOSS_UNIT, "frozen profile r^T M r, other parameters at the centre"),
    "quadratic_model": Variable(_PC, LOSS_UNIT, "linearised model of the profile at the centre"),
    "minimum": Variable(_P, PARAMETER_UNIT, "refined global minimum of the frozen profile"),
    "grid_minimum": Variable(_P, PARAMETER_UNIT, "global minimum on the grid"),
    "displacement": Variable(_P, COORDINATE_UNIT, "refined minimum minus centre"),
    "profile_at_center": Variable((), LOSS_UNIT, "frozen profile at the centre"),
    "local_minimum": Variable(
        ("local", "parameter"), PARAMETER_UNIT, "all minima that were found, lowest first"
    ),
    "local_profile": Variable(_L, LOSS_UNIT, "frozen profile at these minima"),
    "local_status": Variable(_L, TEXT, "whether the minimum is interior, or on which bound"),
    "local_holds_center": Variable(_L, NO_UNIT, "whether its basin holds the centre"),
}

TREE: dict[str, dict[str, Variable]] = {
    "/": {
        "parameter": Variable(_P, TEXT, "names of the parameters"),
        "center": Variable(_P, PARAMETER_UNIT, "the value around which the audit is made"),
        "lower_bound": Variable(_P, PARAMETER_UNIT, "lower bound"),
        "upper_bound": Variable(_P, PARAMETER_UNIT, "upper bound"),
        "coordinate": Variable(_P, TEXT, "coordinate, log or linear"),
        "scale": Variable(_P, PARAMETER_UNIT, "what 100 percent stands for; NaN: not declared"),
        "message": Variable(("sentence",), TEXT, "what a reader must know"),
        "delivered": _optional(_P, PARAMETER_UNIT, "the value that training returned"),
        "truth": _optional(_P, PARAMETER_UNIT, "the true value"),
    },
    "/verdict": {
        "route": Variable(_P, TEXT, "what to do next about the parameter"),
        "reason": Variable(_P, TEXT, "the measurements that the route rests on"),
        "preference_percent": Variable(
            _P, PERCENT, "size of the field's displacement from the centre; NaN: not determined"
        ),
        "scan_percent": Variable(_P, PERCENT, "distance of the scan's minimum from the centre"),
        "delivered_percent": _optional(_P, PERCENT, "distance of the delivered value from truth"),
        "resolution_percent": _optional(
            _P, PERCENT, "deviation of matched fits to repeated noise, mean or 90th percentile"
        ),
        "gap_percent": _optional(
            _P, PERCENT, "signed, delivered value relative to the training view's preference"
        ),
        "training_preference_percent": _optional(
            _P, PERCENT, "size of the displacement from the centre under the training view"
        ),
        "direction": Variable(_D, NO_UNIT, "number of the eigen-direction, weakest first"),
        "direction_vector": Variable(
            ("direction", "parameter"), NO_UNIT, "direction in units of 100 percent"
        ),
        "direction_strength": Variable(_D, LOSS_UNIT, "strength along the direction"),
        "direction_status": Variable(_D, TEXT, "whether it is seen, weak or null"),
        "direction_displacement": Variable(
            _D, "100 percent", "the field's displacement along the direction"
        ),
        "direction_preference_percent": Variable(_D, PERCENT, "size of that displacement"),
        "direction_route": Variable(_D, TEXT, "what to do next about the direction"),
        "direction_reason": Variable(_D, TEXT, "the measurements that this route rests on"),
        "direction_delivered_percent": _optional(
            _D, PERCENT, "distance of the delivered value from truth along the direction"
        ),
        "direction_resolution_percent": _optional(
            _D, PERCENT, "deviation of matched fits along the direction"
        ),
        "tolerance_material": _optional((), PERCENT, "delivered deviation that would not matter"),
        "tolerance_resolution": _optional((), PERCENT, "matched deviation that is tolerated"),
        "tolerance_preference": _optional((), PERCENT, "frozen displacement that is tolerated"),
    },
    "/score": _SCORE,
    "/scan": _SCAN,
    "/training_view/score": _SCORE,
    "/training_view/scan": _SCAN,
    "/delivery": {
        "preferred": Variable(_P, PARAMETER_UNIT, "what the field prefers, by the scan"),
        "gap": Variable(_P, COORDINATE_UNIT, "delivered minus preferred"),
        "gap_percent": Variable(_P, PERCENT, "the gap relative to the preferred value, signed"),
        "preference": _optional(_P, COORDINATE_UNIT, "preferred minus true value"),
        "total": _optional(_P, COORDINATE_UNIT, "delivered minus true value"),
    },
    "/field": {
        "axis": Variable(("axis",), TEXT, "names of the coordinates of the points"),
        "points": Variable(("point", "axis"), "units of the domain", "residual points"),
        "residual": Variable(("point",), "unit of the residual", "residual r at the centre"),
        "sensitivity": Variable(
            ("point", "parameter"),
            "unit of the residual",
            "derivative J of the residual by the coordinate",
        ),
        "contribution": Variable(
            ("point", "parameter"), LOSS_UNIT, "signed contribution J (M r) of the point to B"
        ),
        "field": _optional(("point",), "unit of the field", "learned field at the points"),
    },
    "/spectrum": {
        "mode": Variable(("mode",), NO_UNIT, "number of the mode, from 1"),
        "eigenvalue": Variable(("mode",), NO_UNIT, "eigenvalue of the basis"),
        "strength": Variable(("mode", "parameter"), LOSS_UNIT, "contribution to H"),
        "signed": Variable(("mode", "parameter"), LOSS_UNIT, "signed contribution to B"),
        "strength_total": Variable(_P, LOSS_UNIT, "H, of all modes"),
        "signed_total": Variable(_P, LOSS_UNIT, "B, of all modes"),
    },
    "/matched": {
        "estimate": Variable(_P, PARAMETER_UNIT, "matched estimate from the data"),
        "lower": Variable(_P, PARAMETER_UNIT, "lower end of its likelihood-profile set"),
        "upper": Variable(_P, PARAMETER_UNIT, "upper end of its likelihood-profile set"),
        "open_lower": Variable(_P, NO_UNIT, "whether the set runs into the range's lower end"),
        "open_upper": Variable(_P, NO_UNIT, "whether the set runs into the range's upper end"),
        "noise_scale": Variable((), "unit of the data", "rms residual of the matched fit"),
        "difference_percent": _optional(
            _P, PERCENT, "signed, delivered value relative to the matched estimate"
        ),
        "deviation_percent": _optional(_P, PERCENT, "distance of the estimate from truth"),
        "excess_percent": _optional(
            _P, "percentage points", "distance from truth, delivered minus matched"
        ),
    },
    "/resimulation": {
        "value_of": Variable(("value_of",), TEXT, "which value was put into the forward model"),
        "value": Variable(("value_of", "parameter"), PARAMETER_UNIT, "that value"),
        "chi_square": Variable(("value_of",), NO_UNIT, "whitened sum of squares against the data"),
        "freedom": Variable(("value_of",), NO_UNIT, "observations minus fitted parameters"),
        "reduced_chi_square": Variable(("value_of",), NO_UNIT, "chi-square over freedom"),
        "rms": Variable(("value_of",), "standard deviations of the noise", "rms misfit"),
        "deviance": Variable(("value_of",), NO_UNIT, "chi-square above that of the matched fit"),
        "p_value": Variable(
            ("value_of",), NO_UNIT, "chance of such a deviance if the value were right"
        ),
        "status": Variable(("value_of",), TEXT, "simulated, or why not"),
    },
    "/history": {
        "step": Variable(("step",), "training steps", "when it was recorded"),
        "quantity": Variable(("quantity",), TEXT, "what was recorded"),
        "recorded": Variable(("step", "quantity"), "units of the quantity", "recorded values"),
        "value": _optional(("step", "parameter"), PARAMETER_UNIT, "parameter along training"),
    },
    "/snapshots": {
        "step": Variable(("step",), "training steps", "when the snapshot was taken"),
        "center": Variable(_P, PARAMETER_UNIT, "the value that displacements start from"),
        "delivered": Variable(("step", "parameter"), PARAMETER_UNIT, "value at the step"),
        "displacement": Variable(
            ("step", "parameter"), COORDINATE_UNIT, "displacement D from the centre"
        ),
        "preference": Variable(
            ("step", "parameter"), COORDINATE_UNIT, "minimum of the frozen scan minus centre"
        ),
        "gap": Variable(("step", "parameter"), COORDINATE_UNIT, "delivered minus preferred"),
        "strength": Variable(("step", *_PAIR), LOSS_UNIT, "strength H"),
        "other_parameter": _OTHERS,
        "status": Variable(("step",), TEXT, "where the scan's minimum lies"),
    },
    "/actions": {
        "kind": Variable(_A, TEXT, "what the action is about"),
        "title": Variable(_A, TEXT, "the action in a few words"),
        "text": Variable(_A, TEXT, "what it brings, in sentences"),
        "call": Variable(_A, TEXT, "the call that computed it, or would"),
        "number_action": Variable(_N, NO_UNIT, "the action that a number belongs to"),
        "number_label": Variable(_N, TEXT, "what the number is"),
        "number_value": Variable(_N, "see number_unit", "the number"),
        "number_unit": Variable(_N, TEXT, "its unit; empty where it has none"),
    },
}

REQUIRED_GROUPS = ("/", "/verdict", "/score", "/scan", "/field")


def labelled(
    group: str, values: Mapping[str, Any], attributes: Mapping[str, Any] | None = None
) -> xr.Dataset:
    """Return a group of the tree from plain values; those that are None are left out."""
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        known = TREE[group][name]
        array = np.asarray(value, dtype=str) if known.units == TEXT else np.asarray(value)
        labels = {"long_name": known.meaning, "units": known.units}
        where = coordinates if known.dims == (name,) else variables
        where[name] = (known.dims, array, labels)
    return xr.Dataset(variables, coordinates, dict(attributes or {}))


def has_group(tree: xr.DataTree, path: str) -> bool:
    """Whether the tree has a group with this path."""
    return path in (node.path for node in tree.subtree)


def group_of(tree: xr.DataTree, path: str) -> xr.Dataset:
    """Return a group of the tree as a dataset, with the names of the parameters."""
    node: Any = tree[path]
    found: xr.Dataset = node.to_dataset()
    return found
