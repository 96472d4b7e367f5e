"""Several retrainings of one problem: what they share, and how far they lie apart.

Retrainings that differ in their initialisation alone see the same data. A preference that they
share is a property of data, view and method; the spread between them is that of the training.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd

from twoaxis.diagnosis.decision_map import Route
from twoaxis.diagnosis.result import Audit
from twoaxis.errors import InputError
from twoaxis.parameters import Parameter, Parameters
from twoaxis.text import visible

# Centres closer than this, relative to their size, are one.
SAME_CENTER = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What several audits have in common.

    Made by `twoaxis.compare`.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each audit and parameter, all in coordinates: ``delivered`` (delivered minus
        reference), ``preference`` (scan minimum minus reference), ``gap`` (delivered minus
        preferred, so that delivered = preference + gap), ``displacement`` (D), and the
        ``route``. The reference is the common centre; around candidates, which differ, it is
        the mean candidate, and D starts from each candidate.
    centered_on : str
    reference : dict of str to float
        Physical values that displacements start from.
    parameters : dict of str to Parameter
    """

    table: pd.DataFrame
    centered_on: str
    reference: dict[str, float]
    parameters: dict[str, Parameter]

    @property
    def count(self) -> int:
        """Number of audits."""
        return len(self.table) // len(self.parameters)

    @property
    def routes(self) -> dict[Route, int]:
        """How many of the parameters' verdicts chose each route, most frequent first."""
        counts = self.table["route"].value_counts()
        return {Route(str(name)): int(n) for name, n in counts.items()}

    def summary(self) -> pd.DataFrame:
        """Return, for each parameter and quantity, what is shared and what is spread.

        ``shared`` is the mean over the audits, ``shared_se`` how well that mean is known,
        ``spread`` the standard deviation between audits, ``count`` how many have the quantity.
        A single audit has neither ``shared_se`` nor ``spread``.
        """
        rows = {}
        for name in self.parameters:
            chosen = self.table.xs(name, level="parameter")
            for quantity in ("delivered", "preference", "gap", "displacement"):
                values = chosen[quantity].dropna().to_numpy(dtype=float)
                spread = float(values.std(ddof=1)) if len(values) > 1 else np.nan
                rows[name, quantity] = {
                    "shared": float(values.mean()) if len(values) else np.nan,
                    "shared_se": spread / np.sqrt(len(values)) if len(values) > 1 else np.nan,
                    "spread": spread,
                    "count": len(values),
                }
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index = pd.MultiIndex.from_tuples(rows, names=["parameter", "quantity"])
        return table.astype({"count": int})

    def _lines(self) -> list[str]:
        known = self.centered_on == "truth"
        values = ", ".join(f"{visible(n)} = {v:.6g}" for n, v in self.reference.items())
        what = {"truth": "truth", "point": "point", "delivered": "mean candidate"}
        lines = [f"{self.count} retrainings around the {what[self.centered_on]} {values}"]
        table = self.summary()
        for name in self.parameters:
            row = table.xs((name, "preference"))
            if row["count"] > 1:
                away = f"{row['shared']:+.4f} ± {row['shared_se']:.2g}"
                noun = "the preference they share" if known else "the mean preferred value"
                lines.append(
                    f"{visible(name)}: {noun} lies {away} away; between retrainings it "
                    f"spreads by {row['spread']:.2g}"
                )
        routes = ", ".join(f"{route.value} ({n})" for route, n in self.routes.items())
        return [*lines, f"Routes: {routes}"]

    def _shown(self) -> pd.DataFrame:
        return self.summary().rename(index=visible, level="parameter")

    def __repr__(self) -> str:
        table = self._shown().to_string(float_format=lambda v: f"{v:.4f}")
        first, *rest = self._lines()
        return "\n".join([first, table, *rest])

    def _repr_html_(self) -> str:
        first, *rest = (escape(line) for line in self._lines())
        table = self._shown().to_html(float_format=lambda v: f"{v:.4f}", border=0)
        return f"<p>{first}</p>{table}<p>{'<br>'.join(rest)}</p>"


def compare(audits: Iterable[Audit]) -> Comparison:
    """Compare several retrainings of one problem.

    Parameters
    ----------
    audits : iterable of Audit
        Of the same parameters, in the same coordinates, around the same kind of centre; around
        a truth or a point, around the same one.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> x = np.linspace(0, 1, 20)
    >>> def one(wanted):
    ...     k = ta.Parameter(truth=1.0, delivered=wanted, bounds=(0.5, 2.0))
    ...     return ta.audit(lambda k: k - wanted + 0 * x, {"k": k}, ta.views.Pointwise(), points=x)
    >>> table = ta.compare([one(1.1), one(1.2), one(1.15)]).summary()
    >>> table.loc[("k", "preference"), ["shared", "spread"]].round(3).tolist()
    [0.139, 0.044]
    """
    found = list(audits)
    _check(found)
    first = found[0]
    parameters = first.parameters
    names = list(parameters)
    homes = np.stack([Parameters(a.parameters).coordinates(a.center.values) for a in found])
    # Candidates differ from one retraining to the next; displacements then start from their mean.
    reference = homes.mean(axis=0) if first.centered_on == "delivered" else homes[0]
    rows = {}
    for number, audit in enumerate(found):
        minimum, routes = _preferred(audit), audit.routes
        delivered = {n: p.delivered for n, p in audit.parameters.items()}
        moved = audit.score.displacement
        for j, name in enumerate(names):
            parameter, value = parameters[name], delivered[name]
            at = np.nan if value is None else float(parameter.to_coordinate(value))
            best = np.nan if minimum is None else float(parameter.to_coordinate(minimum[name]))
            rows[number, name] = {
                "delivered": at - reference[j],
                "preference": best - reference[j],
                "gap": at - best,
                "displacement": moved[name],
                "route": routes[name].value,
            }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(rows, names=["audit", "parameter"])
    values = [float(p.to_value(q)) for p, q in zip(parameters.values(), reference, strict=True)]
    return Comparison(table, first.centered_on, dict(zip(names, values, strict=True)), parameters)


def _preferred(audit: Audit) -> dict[str, float] | None:
    """What the field prefers under the training view, in which delivery is read."""
    group = audit.group("/training_view/scan")
    if group is None:
        return audit.scan.minimum
    values = dict(zip(map(str, group["parameter"].values), group["minimum"].values, strict=True))
    return None if any(np.isnan(v) for v in values.values()) else values


def _check(audits: list[Audit]) -> None:
    if not audits or not all(isinstance(audit, Audit) for audit in audits):
        raise InputError(
            "audits to compare",
            "none" if not audits else ", ".join(sorted({type(a).__name__ for a in audits})),
            "pass what twoaxis.audit or twoaxis.load_audit returned, in a list",
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
                f"audits that are all centred on the {first.centered_on}",
                f"one centred on the {other.centered_on}, audit {number}",
                "make them with the same at=...",
            )
        if first.centered_on != "delivered":
            for name, value in first.center.values.items():
                there = other.center.values[name]
                if abs(there - value) > SAME_CENTER * max(abs(value), abs(there)):
                    raise InputError(
                        f"audits around one centre, {name} = {value:g}",
                        f"{name} = {there:g} in audit {number}",
                        "compare retrainings of one problem, with the same at=...",
                    )


def _kinds(audit: Audit) -> dict[str, str]:
    return {name: p.coordinate for name, p in audit.parameters.items()}
