"""Would another residual view be better? Ranked in simulations, then trained.

On data that were simulated at the delivered value the truth is known. Views are ranked there by the
displacement that they give the trained fields, which costs no training. A field that is *trained*
under another view is another field, so the best of the ranking is trained on the same simulated
data, and on the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from twoaxis.diagnosis.actions import Action, Number
from twoaxis.errors import InputError
from twoaxis.remedies.simulated.rank_views import displacements
from twoaxis.remedies.simulated.result import CLEAR, SimulatedAudit

if TYPE_CHECKING:
    from twoaxis.runs import Run
    from twoaxis.runs.pipeline import Pipeline

FloatArray = NDArray[np.float64]
# The published methods whose view is known before training; RBA and the selector learn theirs.
CANDIDATES = ("pcgrad", "patch", "gaussian-64", "gaussian")


@dataclass(frozen=True, eq=False)
class OtherViews:
    """How the views rank in simulations, and what training under the first of them gave.

    Attributes
    ----------
    own : str
        The method of the run.
    ranking : pandas.DataFrame
        A row for each method, that of the run among them: ``mean_size`` is the mean size of D
        under its view, over the simulated fields and the parameters; ``status`` says why one
        could not be scored.
    before, after : SimulatedAudit
        Trained by the method of the run, and by the first of the others; `after` is None where
        nothing was trained.
    delivered : dict of str to float
        What the first of the others delivers on the real data; empty where it did not finish.
    status : str
        Of that training.
    """

    own: str
    ranking: pd.DataFrame
    before: SimulatedAudit
    after: SimulatedAudit | None = None
    delivered: dict[str, float] | None = None
    status: str = ""

    @property
    def chosen(self) -> str:
        """The first of the other methods that could be scored; empty where none could."""
        others = self.ranking.drop(index=self.own).dropna(subset="mean_size")
        return str(others.index[0]) if len(others) else ""

    @property
    def displaces_less(self) -> bool:
        """Whether the chosen view displaces the simulated fields less than that of the run."""
        sizes = self.ranking["mean_size"]
        return bool(self.chosen and sizes[self.chosen] < sizes[self.own])

    @property
    def comparison(self) -> dict[str, str]:
        """By parameter: whether the chosen method is "better", "worse", "unclear" or "too few".

        It compares the sizes of the delivered errors on the same simulated datasets; empty where
        nothing was trained.
        """
        if self.after is None:
            return {}
        return {
            name: _comparison(_sizes(self.before, name), _sizes(self.after, name))
            for name in self.before.parameters
        }

    def actions(self) -> list[Action]:
        """Return how the views compare, for the actions of an audit."""
        sizes, chosen = self.ranking["mean_size"], self.chosen
        numbers = [Number(f"mean size of D, view of {name}", float(v)) for name, v in sizes.items()]
        if not chosen:
            text = "None of the other views could be scored on the simulated fields."
        else:
            less = "less" if self.displaces_less else "not less"
            text = (
                f"Of the other views, that of {chosen} displaces the simulated fields least, and "
                f"{less} than that of {self.own}: by {sizes[chosen]:.3g} on average, compared to "
                f"{sizes[self.own]:.3g}."
            )
        if self.after is not None:
            text += _trained(self, self.after)
            for name in self.before.parameters:
                bias = self.before.bias[name], self.after.bias[name]
                numbers += [
                    Number(f"bias of {name}, {method}", value)
                    for method, value in zip((self.own, chosen), bias, strict=True)
                ]
        elif chosen and self.displaces_less:
            text += (
                " These fields were not trained under it; twoaxis remedy --retrain does that, on "
                "the simulated and on the real data."
            )
        numbers = [number for number in numbers if np.isfinite(number.value)]
        title = f"Compare the view of {self.own} with others"
        call = f'twoaxis.Pipeline.like(run, method="{chosen}")' if chosen else ""
        return [Action("evidence", title, text, call, tuple(numbers))]


def rank_other_views(
    run: Run, simulated: SimulatedAudit, methods: Sequence[str] = CANDIDATES
) -> OtherViews:
    """Rank the views of methods by the displacement that they give the simulated fields.

    Parameters
    ----------
    run : Run
    simulated : SimulatedAudit
        By the pipeline of the run, with its fields; from a file it has none.
    methods : sequence of str
    """
    # Not at the top: remedies of other models need no JAX.
    from twoaxis.training.methods import get_method

    own = run.settings.method.name
    views = {
        name: get_method(name).recipe().view for name in methods if get_method(name).name != own
    }
    if not views:
        raise InputError(
            f"methods other than {own}", ", ".join(methods) or "none", "name at least one"
        )
    fields = simulated.frozen
    rows = {own: (_mean_size(simulated.data["displacement"].values), "its own view")}
    for name, view in views.items():
        found, status = displacements(fields, view)
        sizes = [list(each.values()) for each in found]
        rows[name] = (_mean_size(sizes), status if fields else "no field")
    ranking = pd.DataFrame.from_dict(rows, orient="index", columns=["mean_size", "status"])
    ranking = ranking.sort_values("mean_size", na_position="last", kind="stable")
    return OtherViews(own, ranking.rename_axis("method"), simulated)


def _mean_size(values: ArrayLike) -> float:
    """Return the mean size of the values that are known; NaN where none is."""
    sizes = np.abs(np.asarray(values, dtype=float))
    return float(np.nanmean(sizes)) if np.isfinite(sizes).any() else np.nan


def train_under(
    ranked: OtherViews,
    run: Run,
    pipeline: Pipeline,
    simulate: Callable[[Pipeline], SimulatedAudit],
) -> OtherViews:
    """Train the simulated and the real data under the first of the other views.

    Parameters
    ----------
    ranked : OtherViews
    run : Run
    pipeline : Pipeline
        ``Pipeline.like(run, method=ranked.chosen)``.
    simulate : callable
        ``simulate(pipeline)``: the simulated audit of `ranked.before` with another pipeline.
    """
    after = simulate(pipeline)
    again = pipeline(run.dataset.values, run.seed)
    delivered = dict(again.delivered) if again.finished else {}
    return replace(ranked, after=after, delivered=delivered, status=again.status)


def _trained(found: OtherViews, after: SimulatedAudit) -> str:
    text = ""
    for name in found.before.parameters:
        sizes = [_sizes(audit, name) for audit in (found.before, after)]
        both = np.isfinite(sizes).all(axis=0)
        if both.any():
            before, now = (float(each[both].mean()) for each in sizes)
            text += (
                f" Trained on the same simulated datasets ({both.sum()} of {after.replicas} were "
                f"finished by both), {found.chosen} has a mean absolute error of {now:.3g} in the "
                f"coordinate of {name}, and {found.own} of {before:.3g}: "
                f"{COMPARISONS[found.comparison[name]].format(found.chosen, found.own)}."
            )
        if found.delivered:
            text += (
                f" On the real data {found.chosen} delivers {name} = {found.delivered[name]:.5g} "
                f"instead of {found.before.delivered[name]:.5g}."
            )
    if not found.delivered:
        text += f" On the real data {found.chosen} did not finish: {found.status}."
    return text


# What a comparison says; {0} is the other method, {1} that of the run.
COMPARISONS = {
    "too few": "too few replicas to compare them",
    "unclear": "no clear difference",
    "better": "{0} is better here",
    "worse": "{1} is better here",
}


def _comparison(before: FloatArray, after: FloatArray) -> str:
    """Compare the two on the same datasets, by the mean of the differences."""
    differences = (after - before)[np.isfinite(after - before)]
    if len(differences) < 2:
        return "too few"
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    if abs(differences.mean()) < CLEAR * error:
        return "unclear"
    return "better" if differences.mean() < 0 else "worse"


def _sizes(simulated: SimulatedAudit, name: str) -> FloatArray:
    """Return the size of the delivered error of each replica, NaN where it did not finish."""
    sizes: FloatArray = np.abs(simulated.data["delivered_error"].sel(parameter=name).values)
    return sizes
