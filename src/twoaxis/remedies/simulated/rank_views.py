"""Which residual view displaces the parameter least? Views ranked where the truth is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.geometry import score
from twoaxis.views import View


def rank_views(
    frozen: Iterable[FrozenResidual],
    views: Mapping[str, View] | Iterable[View],
    *,
    parameter: str | None = None,
) -> pd.DataFrame:
    """Rank residual views by the displacement that they give fields whose truth is known.

    The fields are held fixed; see `SimulatedAudit.rank_views`, which calls this.

    Parameters
    ----------
    frozen : iterable of FrozenResidual
        Each with the truth of its data in its parameters, such as ``SimulatedAudit.frozen``.
    views : mapping of str to View, or iterable of View
    parameter : str, optional
        Which one, where there are several.

    Examples
    --------
    >>> import numpy as np
    >>> from twoaxis import FrozenResidual, Parameter, views
    >>> x = np.linspace(0, 1, 64)
    >>> ripple = np.cos(40 * x)  # of the field: points take it for a wrong k, patches do not
    >>> field = FrozenResidual(
    ...     lambda k: (k - 1) * (1 + ripple) - 0.3 * ripple,
    ...     {"k": Parameter(truth=1.0, bounds=(0.5, 2.0))}, x,
    ... )
    >>> rank_views([field], {"points": views.Pointwise(), "patches": views.Patch(cells=4)}).index[0]
    'patches'
    """
    fields = _checked_fields(frozen)
    named = _named(views)
    name = _chosen(fields[0], parameter)
    rows = {label: _row(fields, view, name) for label, view in named.items()}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("view")
    return table.sort_values("mean_size", na_position="last", kind="stable")


def displacements(
    fields: Iterable[FrozenResidual], view: View
) -> tuple[list[dict[str, float]], str]:
    """Return D of every field that can be scored under a view, and why others cannot.

    Each field has the truth of its data in its parameters.
    """
    found, status = [], ""
    for field in fields:
        try:
            scored = score(field, view=view, at="truth")
        except InputError as error:  # a view that does not fit these points is a row with a reason
            status = status or str(error)
            continue
        if scored.identified:
            found.append(scored.displacement)
        else:
            status = status or str(scored.doubts[0])
    return found, status or "scored"


def _row(fields: list[FrozenResidual], view: View, name: str) -> dict[str, Any]:
    found, status = displacements(fields, view)
    sample = np.array([each[name] for each in found])
    size = np.abs(sample)
    return {
        "mean_size": size.mean() if found else np.nan,
        "mean": sample.mean() if found else np.nan,
        "sd": sample.std(ddof=1) if len(found) > 1 else np.nan,
        "worst": size.max() if found else np.nan,
        "fields": len(found),
        "status": status,
    }


def _checked_fields(frozen: Any) -> list[FrozenResidual]:
    fields = list(frozen) if isinstance(frozen, Iterable) else [frozen]
    if not fields or not all(isinstance(field, FrozenResidual) for field in fields):
        raise InputError(
            "frozen residuals, at least one",
            ", ".join(type(field).__name__ for field in fields[:5]) or "none",
            "pass the frozen residuals of simulated runs, such as SimulatedAudit.frozen",
        )
    return fields


def _named(views: Any) -> dict[str, View]:
    named = dict(views) if isinstance(views, Mapping) else None
    if named is None:
        listed = list(views) if isinstance(views, Iterable) else [views]
        named = {
            each.describe() if isinstance(each, View) else str(number): each
            for number, each in enumerate(listed)
        }
        if len(named) < len(listed):
            raise InputError(
                "views that differ", "some of them twice", "give them names in a mapping"
            )
    if not named or not all(isinstance(view, View) for view in named.values()):
        raise InputError(
            "views of the residual, at least one",
            repr(views)[:100],
            'pass {"patches": twoaxis.views.Patch(cells=8), ...}',
        )
    return {str(label): view for label, view in named.items()}


def _chosen(field: FrozenResidual, parameter: str | None) -> str:
    names = field.names
    if parameter is None and len(names) == 1:
        return names[0]
    if parameter not in names:
        raise InputError(
            f"one of the parameters {', '.join(names)}",
            f"parameter={parameter!r}",
            f'name one, as in parameter="{names[0]}"',
        )
    return parameter
