"""Several retrainings of one problem: what they have in common, and how much they vary.

Retrainings that differ only in their initialization see the same data. A displacement that they
share is a property of data, view and method; the variation between them is that of the training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis.decision_map import Route
from twoaxis.diagnosis.result import Audit
from twoaxis.errors import InputError
from twoaxis.io import Variable
from twoaxis.parameters import Parameters
from twoaxis.result import PARAMETER_LAYOUT, Result
from twoaxis.text import visible

# Centers closer than this, relative to their size, are the same.
SAME_CENTER = 1e-9
QUANTITIES = ("total", "preference", "gap", "displacement")

_AP = ("audit", "parameter")


@final
class Comparison(Result[xr.Dataset]):
    """What several audits have in common; made by `twoaxis.compare`.

    The dataset holds, per audit and parameter and in coordinates: ``total`` (delivered minus
    reference), ``preference`` (frozen scan minimum minus reference), ``gap`` (delivered minus
    preferred, so that total = preference + gap), ``displacement`` (D), ``matched`` (matched
    estimate minus reference) with its interval, and the ``route``. The
    reference is the common center; around candidates, which differ, it is the mean candidate, and
    D starts from each candidate.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> found = ta.compare({"first": ta.audit(frozen), "second": ta.audit(frozen)})
    >>> found.count, found.names
    (2, ['first', 'second'])
    """

    schema = "comparison"
    layouts: ClassVar = {
        "/": {
            **PARAMETER_LAYOUT,
            "reference": Variable(
                ("parameter",), "float", "value that displacements start from", finite=True
            ),
            "audit": Variable(("audit",), "int", "number of the audit"),
            "name": Variable(
                ("audit",), "text", "name of the audit; its number where none is given"
            ),
            "run": Variable(("audit",), "text", "key of the audited run; empty: not known"),
            "total": Variable(_AP, "float", "delivered minus reference; NaN: none delivered"),
            "preference": Variable(_AP, "float", "scan minimum minus reference; NaN: none"),
            "gap": Variable(_AP, "float", "delivered minus preferred; NaN: not known"),
            "displacement": Variable(_AP, "float", "displacement D from the center", finite=True),
            "matched": Variable(_AP, "float", "matched estimate minus reference; NaN: not known"),
            "matched_lower": Variable(_AP, "float", "lower end of its interval, minus reference"),
            "matched_upper": Variable(_AP, "float", "upper end of its interval, minus reference"),
            "matched_level": Variable(("audit",), "float", "level of that interval; NaN: none"),
            "route": Variable(_AP, "text", "what to do next; empty: a nuisance parameter"),
        }
    }
    attributes: ClassVar = {"/": ("centered_on",)}

    def derived(self) -> dict[str, Any]:
        """Return the gap: total - preference."""
        return {"gap": self.data["total"].values - self.data["preference"].values}

    @property
    def parameters(self) -> Parameters:
        """The parameters, without delivered values: they differ between audits."""
        return Parameters.from_dataset(self.data)

    @property
    def reference(self) -> dict[str, float]:
        """Physical values that displacements start from."""
        return self.parameters.named(self.data["reference"].values)

    @property
    def centered_on(self) -> str:
        """What the audits are centered on: "truth", "delivered" or "point"."""
        return str(self.data.attrs["centered_on"])

    @property
    def count(self) -> int:
        """Number of audits."""
        return int(self.data.sizes["audit"])

    @property
    def names(self) -> list[str]:
        """Names of the audits; their numbers where none were given."""
        return [str(name) for name in self.data["name"].values]

    def values(self, quantity: str, parameter: str) -> NDArray[np.float64]:
        """Return a quantity of one parameter as physical values, one for each audit.

        Parameters
        ----------
        quantity : {"total", "preference", "matched", "matched_lower", "matched_upper"}
            "total" gives the delivered values, "preference" the preferred ones.
        parameter : str
        """
        one = self.parameters[parameter]
        home = float(one.to_coordinate(self.reference[parameter]))
        return one.to_value(home + self.data[quantity].sel(parameter=parameter).values)

    @property
    def table(self) -> pd.DataFrame:
        """A row per audit and parameter."""
        columns = (*QUANTITIES, "matched", "route")
        rows = {n: self.data[n].transpose("audit", "parameter").values.ravel() for n in columns}
        index = pd.MultiIndex.from_product(
            [self.names, self.parameters.names], names=["audit", "parameter"]
        )
        return pd.DataFrame(rows, index=index)

    @property
    def routes(self) -> dict[Route, int]:
        """How many of the parameters' verdicts chose each route, most frequent first."""
        routes = self.table["route"]
        counts = routes[routes != ""].value_counts()
        return {Route(str(name)): int(n) for name, n in counts.items()}

    def summary(self) -> pd.DataFrame:
        """Return mean and spread per parameter and quantity.

        ``mean`` over the audits, ``se`` of that mean, ``sd`` the standard deviation between
        audits, and ``count``, how many audits have the quantity. A single audit has neither
        ``se`` nor ``sd``.
        """
        rows = {}
        for name in self.parameters:
            for quantity in QUANTITIES:
                values = self.data[quantity].sel(parameter=name).values
                values = values[~np.isnan(values)]
                sd = float(values.std(ddof=1)) if len(values) > 1 else np.nan
                rows[name, quantity] = {
                    "mean": float(values.mean()) if len(values) else np.nan,
                    "se": sd / np.sqrt(len(values)) if len(values) > 1 else np.nan,
                    "sd": sd,
                    "count": len(values),
                }
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index = pd.MultiIndex.from_tuples(rows, names=["parameter", "quantity"])
        return table.astype({"count": int})

    def __repr__(self) -> str:
        values = ", ".join(f"{visible(n)} = {v:.6g}" for n, v in self.reference.items())
        what = {"truth": "truth", "point": "point", "delivered": "mean candidate"}
        table = self.summary()
        shown = table.rename(index=visible, level="parameter")
        lines = [
            f"{self.count} retrainings around the {what[self.centered_on]} {values}",
            shown.to_string(float_format=lambda v: f"{v:.4f}"),
        ]
        for name in self.parameters:
            row: Any = table.loc[(name, "preference")]
            if row["count"] > 1:
                lines.append(
                    f"{visible(name)}: frozen scan minimum minus {what[self.centered_on]} "
                    f"{row['mean']:+.4f} ± {row['se']:.2g} on average; standard deviation "
                    f"between retrainings {row['sd']:.2g}"
                )
        named = [name for k, name in enumerate(self.names) if name != str(k)]
        if named:
            lines.append(f"Audits: {', '.join(map(visible, self.names))}")
        routes = ", ".join(f"{route.value} ({n})" for route, n in self.routes.items())
        return "\n".join([*lines, f"Routes: {routes}"])


def compare(audits: Iterable[Audit] | Mapping[str, Audit]) -> Comparison:
    """Compare several retrainings of one problem, or several methods for it.

    Parameters
    ----------
    audits : iterable of Audit, or mapping of str to Audit
        Of the same parameters, in the same coordinates, around the same kind of center; around
        a truth or a point, around the same one. The names of a mapping appear in the table and
        in the picture, as in ``compare({"RBA": one, "no weights": other})``.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 20)
    >>> def one(preferred):
    ...     k = ta.Parameter(truth=1.0, delivered=preferred, bounds=(0.5, 2.0))
    ...     view = ta.views.Pointwise()
    ...     return ta.audit(lambda k: k - preferred + 0 * x, {"k": k}, view, points=x)
    >>> table = ta.compare([one(1.1), one(1.2), one(1.15)]).summary()
    >>> table.loc[("k", "preference"), ["mean", "sd"]].round(3).tolist()
    [0.139, 0.044]
    """
    if not isinstance(audits, Iterable):
        raise InputError(
            "several audits, or a mapping from names to them", repr(audits), "pass a list of audits"
        )
    named = isinstance(audits, Mapping)
    names = [str(name) for name in audits] if named else None
    found: list[Audit] = list(audits.values() if isinstance(audits, Mapping) else audits)
    _check(found)
    first = found[0]
    parameters = first.parameters.replace(delivered=None)
    homes = np.stack([a.parameters.coordinates(a.center.values) for a in found])
    # Candidates differ from one retraining to the next; displacements then start from their mean.
    reference = homes.mean(axis=0) if first.centered_on == "delivered" else homes[0]
    unknown = np.full(len(parameters), np.nan)

    def coordinates(values: dict[str, float] | None) -> Any:
        return unknown if values is None else parameters.coordinates(values) - reference

    def matched(variable: str) -> Any:
        rows = []
        for audit in found:
            group = audit.group("/matched")
            # The forward model need not have every nuisance parameter.
            known = {} if group is None else dict(group[variable].to_series())
            rows.append(coordinates({name: known.get(name, np.nan) for name in parameters}))
        return np.stack(rows)

    return Comparison.from_values(
        {
            **parameters.variables(),
            "reference": parameters.physical(reference),
            "audit": np.arange(len(found)),
            "name": names or [str(k) for k in range(len(found))],
            "run": [audit.run for audit in found],
            "total": np.stack([coordinates(audit.parameters.delivered) for audit in found]),
            # Delivery is assessed under the training view.
            "preference": np.stack([coordinates(audit.training.minimum) for audit in found]),
            "displacement": np.stack([a.score.data["displacement"].values for a in found]),
            "matched": matched("estimate"),
            "matched_lower": matched("lower"),
            "matched_upper": matched("upper"),
            "matched_level": [
                np.nan if (g := audit.group("/matched")) is None else float(g["level"])
                for audit in found
            ],
            "route": [
                [audit.routes[n].value if n in audit.routes else "" for n in parameters]
                for audit in found
            ],
        },
        {"centered_on": first.centered_on},
    )


def _check(audits: list[Audit]) -> None:
    if not audits or not all(isinstance(audit, Audit) for audit in audits):
        raise InputError(
            "audits to compare",
            "none" if not audits else ", ".join(sorted({type(a).__name__ for a in audits})),
            "pass a list of what twoaxis.audit or twoaxis.load returned",
        )
    first = audits[0]
    for number, other in enumerate(audits[1:], start=1):
        if _kinds(other) != _kinds(first):
            raise InputError(
                f"audits of the same parameters, {_kinds(first)}",
                f"{_kinds(other)} in audit {number}",
                "compare retrainings of one problem",
            )
        if other.centered_on != first.centered_on:
            raise InputError(
                f"audits that are all centered on the {first.centered_on}",
                f"one centered on the {other.centered_on}, audit {number}",
                "make them with the same at=...",
            )
        if first.centered_on != "delivered":
            for name, value in first.center.values.items():
                there = other.center.values[name]
                if abs(there - value) > SAME_CENTER * max(abs(value), abs(there)):
                    raise InputError(
                        f"audits around the same center, {name} = {value:g}",
                        f"{name} = {there:g} in audit {number}",
                        "compare retrainings of one problem, with the same at=...",
                    )


def _kinds(audit: Audit) -> dict[str, str]:
    return {name: p.coordinate for name, p in audit.parameters.items()}
