r"""What a frozen field prefers of an unknown function: a displacement curve and weak directions.

The displacement :math:`D_j` of the node values, from the score or from the frozen scan, is a curve
on the basis of the function,

.. math:: D(x) = \sum_j D_j\,\varphi_j(x),

in the coordinate of the node values: in log coordinates :math:`D(x) = 0.1` at a node means that the
field prefers a value 11% higher there. The eigenvectors of the strength H, other parameters
left free (their Schur complement taken), are functions on the same basis: along a weak one the
residual says little about k.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.geometry.score import NULL_SHARE, direction_status, terms_of
from twoaxis.io import Layout, Variable
from twoaxis.result import PLACES, FunctionResult, places_along
from twoaxis.text import number, percent, visible
from twoaxis.unknown_function import directions_of

if TYPE_CHECKING:
    from twoaxis.geometry.scan import FrozenScan
    from twoaxis.geometry.score import Score

FloatArray = NDArray[np.float64]

_N, _X, _D = ("node",), ("place",), ("direction",)
_UNIT = "unit of the function"
LAYOUT: Layout = {
    **PLACES,
    "node": Variable(_N, "float", "place of the node", finite=True),
    "other_node": Variable(("other_node",), "float", "place of the node", required=False),
    "center_value": Variable(_N, "float", "node value at the center", _UNIT, finite=True),
    "node_displacement": Variable(_N, "float", "displacement of the coordinate", finite=True),
    "strength": Variable(
        ("node", "other_node"),
        "float",
        "strength H, other parameters free",
        required=False,
        finite=True,
    ),
    "direction_vector": Variable(
        ("direction", "node"), "float", "eigenvector of H, weakest first", required=False
    ),
    "truth_value": Variable(_N, "float", "true node value", _UNIT, required=False),
    "delivered_value": Variable(_N, "float", "delivered node value", _UNIT, required=False),
    "place": Variable(_X, "float", "argument of the function"),
    "center": Variable(_X, "float", "function at the center", _UNIT),
    "preferred_value": Variable(_N, "float", "preferred node value", _UNIT),
    "preferred": Variable(_X, "float", "preferred function", _UNIT),
    "displacement": Variable(_X, "float", "displacement of the coordinate as a function"),
    "truth": Variable(_X, "float", "true function", _UNIT, required=False),
    "delivered": Variable(_X, "float", "delivered function", _UNIT, required=False),
    "direction_curve": Variable(
        ("direction", "place"), "float", "direction as a function", required=False
    ),
    "eigenvalue": Variable(_D, "float", "eigenvalue of H, weakest first", required=False),
    "direction_status": Variable(_D, "text", '"null", "weak" or "seen"', required=False),
}


@final
class FunctionPreference(FunctionResult):
    """What a frozen field prefers of an unknown function.

    Made by `Score.function`, which adds the directions, or by `FrozenScan.function`.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 40)
    >>> k = ta.UnknownFunction(nodes=3, domain=(0, 1), bounds=(0.1, 10.0), delivered=[1, 2, 4])
    >>> score = ta.score(lambda k: k(x) - (1 + x), {"k": k}, ta.views.Pointwise(), points=x)
    >>> print(score.function("k").summary().round(2).to_string(index_names=False))
         center  preferred  displacement
    0.0     1.0       1.00         -0.00
    0.5     2.0       1.56         -0.25
    1.0     4.0       2.43         -0.50
    """

    schema = "function-preference"
    layouts: ClassVar = {"/": LAYOUT}
    attributes: ClassVar = {
        "/": ("function", "argument", "basis", "coordinate", "source", "centered_on")
    }

    def derived(self) -> dict[str, Any]:
        """Return the curves, computed from the node values."""
        data, basis = self.data, self.basis
        places = basis.grid()
        matrix = basis.matrix(places)
        center, moved = data["center_value"].values, data["node_displacement"].values
        with np.errstate(over="ignore"):
            preferred = center * np.exp(moved) if self.logarithmic else center + moved
        found: dict[str, Any] = {
            **places_along("place", places),
            "center": matrix @ center,
            "preferred_value": preferred,
            "preferred": matrix @ preferred,
            "displacement": matrix @ moved,
        }
        for kind in ("truth", "delivered"):
            if f"{kind}_value" in data:
                found[kind] = matrix @ data[f"{kind}_value"].values
        if "strength" in data:
            vectors = data["direction_vector"].values
            values = np.einsum("kj,ji,ki->k", vectors, data["strength"].values, vectors)
            values = np.maximum(values, 0.0)
            null = values <= NULL_SHARE * values.max()
            found |= {
                "other_node": data["node"].values,
                "direction_curve": vectors @ matrix.T,
                "eigenvalue": values,
                "direction_status": direction_status(values, null),
            }
        return found

    @property
    def largest(self) -> tuple[Any, float]:
        """Where the displacement is largest, and the signed displacement there.

        Of a function of two variables the place is a pair.
        """
        moved = self.data["displacement"].values
        at = int(np.abs(moved).argmax())
        place = tuple(self.places[at].tolist())
        return place[0] if len(place) == 1 else place, float(moved[at])

    @property
    def rms(self) -> float:
        """Root mean square of the displacement over the range of the nodes."""
        mesh = self.basis.mesh()
        square = self.data["displacement"].values.reshape([len(axis) for axis in mesh]) ** 2
        for axis in mesh:
            square = np.trapezoid(square, axis, axis=0) / (axis[-1] - axis[0])
        return float(np.sqrt(square))

    @property
    def weak_directions(self) -> int:
        """Number of directions along which the residual says little or nothing about it."""
        if "direction_status" not in self.data:
            return 0
        return int((self.data["direction_status"].values != "seen").sum())

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each node."""
        data = self.data
        table = {
            "center": data["center_value"].values,
            "preferred": data["preferred_value"].values,
            "displacement": data["node_displacement"].values,
        }
        return pd.DataFrame(table, index=self.node_index())

    def headline(self) -> str:
        """Return in one sentence how far, and where, the field displaces the function."""
        data, argument = self.data, visible(str(self.data.attrs["argument"]))
        where, size = self.largest
        shown = number(size, "+.3g")
        if self.logarithmic:
            shown += f" ({percent(100 * float(np.expm1(min(size, 700.0))), '+')})"
        weak = self.weak_directions
        kind = {"truth": "the truth", "delivered": "the candidate"}
        return (
            f"{visible(self.name)}({argument}): the field prefers a function displaced by up to "
            f"{shown} from {kind.get(str(data.attrs['centered_on']), 'the chosen point')}, at "
            f"{self.place_words(where)}; rms {number(self.rms, '.3g')}"
            + (f"; {weak} of {len(data['node'])} directions are weak" if weak else "")
        )

    def __repr__(self) -> str:
        table = self.summary().to_string(float_format=lambda v: f"{v:.4g}")
        return f"{self.headline()}\n{table}"


def function_preference(found: Score | FrozenScan, name: str | None = None) -> FunctionPreference:
    """Return what a score or a scan says about an unknown function."""
    known = found.parameters
    group = known.function(name)
    own = found.data.sel(parameter=list(group.members))
    moved = own["displacement"].values
    if not np.isfinite(moved).all():
        raise InputError(
            f"a frozen scan with a minimum in {group.name}",
            "a flat one",
            "look at the score; the residual may not depend on the function",
        )
    values: dict[str, Any] = {
        **places_along("node", group.points),
        "center_value": own["center"].values,
        "node_displacement": moved,
    }
    for kind in ("truth", "delivered"):
        if np.isfinite(own[kind].values).all():
            values[f"{kind}_value"] = own[kind].values
    if "H" in found.data:
        # The other parameters are projected out as nuisance parameters are.
        others = ~np.isin(np.arange(len(known)), group.columns)
        terms = terms_of(found.data["B"].values, found.data["H"].values, 0.0, others)
        values["strength"] = terms.strength
        values["direction_vector"] = directions_of(values["strength"])
    about = {
        "function": group.name,
        "argument": group.argument,
        "basis": group.basis.kind,
        "coordinate": known[group.members[0]].coordinate,
        "source": found.schema,
        "centered_on": found.center.kind,
    }
    return FunctionPreference.from_values(values, about)
