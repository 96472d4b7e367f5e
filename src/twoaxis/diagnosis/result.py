"""The audit as a result: one tree whose groups are the datasets of the results that it holds.

An `Audit` holds a `Score`, a `FrozenScan`, a `Delivery`, a `Resolution` and a `Spectrum`; their
groups in the tree are their own datasets, and ``audit.score`` is a `Score` around its group. A
number that is not known is NaN.

``/``
    Tolerances (NaN: none declared), and as attributes the route and reason of the whole audit,
    how the views relate, and the layout of the observations ("" for all layouts together).
``/messages``
    What a reader must know besides (`twoaxis.diagnosis.messages`).
``/score``, ``/scan``
    `Score` and `FrozenScan` under the audited view.
``/training_view/score``, ``/training_view/scan``
    The same under the training view, where the audited view is another one.
``/verdict``
    Coordinates and routes of parameters and eigen-directions (`twoaxis.diagnosis.verdict`);
    derived from the other groups, and derived again when a file is loaded.
``/field``
    Residual, sensitivity J and contributions J (M r), whose sum is B, at the points, and the
    equation that each value belongs to.
``/delivery``, ``/resolution``, ``/spectrum``, ``/snapshots``
    `Delivery`, `Resolution`, `Spectrum` and `Snapshots`, where they are known.
``/matched``, ``/checks``, ``/resimulation``, ``/likelihood``
    The matched fit to the data of the field, checks of its residuals, the forward model at fixed
    values against the data, and the profile likelihood (`twoaxis.diagnosis.data_check`).
``/observations``, ``/field_fit``
    Data, field and forward model at the observations, and how well the field fits
    (`twoaxis.diagnosis.field_check`).
``/training``
    What is left of the path of the parameters (`twoaxis.diagnosis.training_check`).
``/questions``
    What is asked before the decision map, and the answers (`twoaxis.diagnosis.questions`); derived
    from the other groups like the verdict.
``/about``
    What the audit is about: problem, data, method, seed, date, versions, the call.
``/history``
    What training recorded.
``/actions``
    What `twoaxis.remedy` computed (`twoaxis.diagnosis.actions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis.actions import (
    ACTION_LAYOUT,
    Action,
    action_variables,
    actions_from,
    next_step,
)
from twoaxis.diagnosis.actions import first_steps as first_steps_of
from twoaxis.diagnosis.answer import Severity, answer_of, severity_of
from twoaxis.diagnosis.data_check import (
    CHECK_LAYOUT,
    LIKELIHOOD_LAYOUT,
    MATCHED_LAYOUT,
    RESIMULATION_LAYOUT,
    derived_of_data,
)
from twoaxis.diagnosis.decision_map import Route, Statistic, Tolerance, Verdict, join
from twoaxis.diagnosis.field_check import FIELD_LAYOUT as FIELD_FIT_LAYOUT
from twoaxis.diagnosis.field_check import OBSERVATION_LAYOUT
from twoaxis.diagnosis.follow import Snapshots
from twoaxis.diagnosis.functions import functions_of_interest, verdicts_by_subject
from twoaxis.diagnosis.history import HISTORY_LAYOUT
from twoaxis.diagnosis.messages import collect_messages
from twoaxis.diagnosis.overview import as_text
from twoaxis.diagnosis.questions import (
    LEVEL,
    QUESTION_LAYOUT,
    Question,
    ask,
    question_variables,
)
from twoaxis.diagnosis.tolerances import judged_at, routes_by_tolerance
from twoaxis.diagnosis.training_check import TRAINING_LAYOUT
from twoaxis.diagnosis.verdict import LAYOUT as VERDICT_LAYOUT
from twoaxis.diagnosis.verdict import Reading, judge
from twoaxis.errors import InputError
from twoaxis.geometry import Delivery, FrozenScan, Score, Spectrum
from twoaxis.geometry import delivery as delivery_of
from twoaxis.io import Layout, Variable, labelled
from twoaxis.parameters import Center, Parameters
from twoaxis.resolution import Resolution
from twoaxis.result import (
    MESSAGE_LAYOUT,
    Message,
    Result,
    message_variables,
    messages_from,
)
from twoaxis.unknown_function import FunctionGroup

FloatArray = NDArray[np.float64]
Part = TypeVar("Part", bound=Result[xr.Dataset])

TOLERANCES = ("material", "resolution", "preference")
# How the audited view relates to the training view.
SAME_VIEW, OTHER_VIEW, ASSUMED_VIEW = "same", "other", "assumed"

# The results that an audit holds, by group.
PARTS: Mapping[str, type[Result[xr.Dataset]]] = {
    "/score": Score,
    "/scan": FrozenScan,
    "/training_view/score": Score,
    "/training_view/scan": FrozenScan,
    "/delivery": Delivery,
    "/resolution": Resolution,
    "/spectrum": Spectrum,
    "/snapshots": Snapshots,
}
ROOT_LAYOUT: Layout = {
    **{
        f"tolerance_{name}": Variable((), "float", f"{name} tolerance; NaN: none declared", "%")
        for name in TOLERANCES
    },
    "level": Variable(
        (), "float", "confidence level of all tests together", finite=True, least=0, most=1
    ),
}
ABOUT_LAYOUT: Layout = {
    "key": Variable(("entry",), "text", "what is named"),
    "value": Variable(("entry",), "text", "its name"),
}
FIELD_LAYOUT: Layout = {
    "parameter": Variable(("parameter",), "text", "name of the parameter"),
    "axis": Variable(("axis",), "text", "name of the coordinate of the points"),
    "points": Variable(("point", "axis"), "float", "residual points", finite=True),
    "equation": Variable(("equation",), "text", "name of the equation"),
    "equation_of": Variable(("point",), "int", "row of the equation that the value belongs to"),
    "residual": Variable(("point",), "float", "residual r at the center", finite=True),
    "sensitivity": Variable(
        ("point", "parameter"),
        "float",
        "derivative J of the residual that nuisance parameters leave",
        finite=True,
    ),
    "contribution": Variable(
        ("point", "parameter"), "float", "signed contribution J (M r) to the score", finite=True
    ),
    "field": Variable(
        ("point",), "float", "learned field at the points", required=False, finite=True
    ),
}

REQUIRED = (
    "/",
    "/messages",
    "/verdict",
    "/questions",
    "/about",
    "/score",
    "/scan",
    "/field",
)

# What an absent part would have shown, and the call that adds it.
MISSING = {
    "/resolution": (
        "what the observations can resolve",
        "twoaxis.audit(..., resolution=twoaxis.resolve(forward, parameters, noise=...))",
    ),
    "/resimulation": (
        "the forward model at the delivered value, compared with the data",
        "twoaxis.audit(..., resolution=twoaxis.resolve(forward, parameters, noise=...), data=...)",
    ),
    "/observations": (
        "the data beside the field and the forward model",
        "twoaxis.audit(..., resolution=twoaxis.resolve(forward, parameters, noise=...), data=...)",
    ),
    "/likelihood": (
        "the profile likelihood of the data",
        "twoaxis.audit(..., resolution=twoaxis.resolve(forward, parameters, noise=...), data=...)",
    ),
    "/delivery": (
        "the step from the value that the field prefers to the delivered value",
        "twoaxis.audit(...) with Parameter(delivered=..., bounds=...)",
    ),
    "/spectrum": ("strength and evidence by residual mode", "twoaxis.audit(..., spectrum=True)"),
    "/history": ("losses along training", "twoaxis.audit(..., history=...)"),
    "/snapshots": (
        "preferred value, strength and delivery gap along training",
        "twoaxis.audit(..., snapshots=twoaxis.follow([(step, frozen), ...]))",
    ),
    "field": (
        "the learned field",
        "twoaxis.FrozenResidual(..., field=...) with its values at the points",
    ),
}


def _stamped(cls: type[Result[xr.Dataset]]) -> tuple[str, ...]:
    """Attributes of the group of a result: its own, and those that make it a file by itself."""
    return ("schema", "written_by", *cls.attributes.get("/", ()))


class Audit(Result[xr.DataTree]):
    """Why the parameter came out as it did, and what to do next.

    Made by `twoaxis.audit` or `twoaxis.load`. All of it is in `data`, an `xarray.DataTree`
    whose groups `group` returns; the properties read from it.

    Attributes
    ----------
    data : xarray.DataTree

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> audit = ta.audit(frozen, tolerance=ta.Tolerance(material=5, resolution=5, preference=5))
    >>> audit.route.value, len(audit.actions)
    ('undetermined', 1)
    >>> audit.summary()[["delivered_percent", "preference_percent"]].round(1).values.tolist()
    [[16.2, 12.5]]
    """

    schema = "audit"
    layouts: ClassVar[Mapping[str, Layout]] = {
        "/": ROOT_LAYOUT,
        "/messages": MESSAGE_LAYOUT,
        "/verdict": VERDICT_LAYOUT,
        "/field": FIELD_LAYOUT,
        "/questions": QUESTION_LAYOUT,
        "/about": ABOUT_LAYOUT,
        "/matched": MATCHED_LAYOUT,
        "/checks": CHECK_LAYOUT,
        "/resimulation": RESIMULATION_LAYOUT,
        "/likelihood": LIKELIHOOD_LAYOUT,
        "/observations": OBSERVATION_LAYOUT,
        "/field_fit": FIELD_FIT_LAYOUT,
        "/training": TRAINING_LAYOUT,
        "/history": HISTORY_LAYOUT,
        "/actions": ACTION_LAYOUT,
        **{path: cls.layouts["/"] for path, cls in PARTS.items()},
    }
    attributes: ClassVar[Mapping[str, Sequence[str]]] = {
        "/": (
            "written_by",
            "title",
            "route",
            "reason",
            "view_relation",
            "layout",
            "tolerance_statistic",
            "tolerance_assumed",
            "run",
        ),
        "/field": ("points_total", "points_kept", "field_name"),
        "/matched": ("layout",),
        "/resimulation": (
            "layout",
            "observations",
            "fitted",
            "held",
            "noise_freedom",
            "noise_free",
        ),
        "/observations": ("layout", "observations", "kept"),
        **{path: _stamped(cls) for path, cls in PARTS.items()},
    }
    optional_groups = tuple(path for path in layouts if path not in REQUIRED)

    # ------------------------------------------------------------------ building

    @classmethod
    def from_parts(
        cls,
        parts: Mapping[str, xr.Dataset | None],
        attributes: Mapping[str, Any],
        tolerance: Tolerance | None = None,
        level: float = LEVEL,
        about: Mapping[str, str] | None = None,
    ) -> Audit:
        """Build an audit from its parts; answers and verdict follow from them.

        Parameters
        ----------
        parts : mapping of str to xarray.Dataset
            By group, without ``/``, ``/questions`` and ``/verdict``; None leaves a group out.
        attributes : mapping of str to str
            ``view_relation``, ``layout``, ``run``.
        tolerance : Tolerance, optional
        level : float
            Confidence level of all tests together.
        about : mapping of str to str, optional
            What the audit is about.
        """
        groups = {path: part for path, part in parts.items() if part is not None}
        stamp = {
            **cls._stamp(),
            **attributes,
            "tolerance_statistic": "mean" if tolerance is None else tolerance.statistic,
            "tolerance_assumed": int(tolerance is not None and tolerance.assumed),
        }
        limits = {
            f"tolerance_{name}": np.nan if tolerance is None else getattr(tolerance, name)
            for name in TOLERANCES
        }
        root = labelled(ROOT_LAYOUT, {**limits, "level": level}, stamp)
        named = about or {}
        entries = {"key": list(map(str, named)), "value": list(map(str, named.values()))}
        groups["/about"] = labelled(ABOUT_LAYOUT, entries, {})
        groups["/messages"] = labelled(MESSAGE_LAYOUT, message_variables(()), {})
        tree = xr.DataTree.from_dict({"/": root, **groups}, name=cls.schema)
        partial = cls(tree)
        questions = labelled(QUESTION_LAYOUT, question_variables(partial.questions), {})
        verdict = labelled(VERDICT_LAYOUT, judge(partial), {})
        whole = _joined(verdict, partial.parameters)
        # Added to the tree: to build a new one would take a tenth of the time of a small audit.
        tree["/questions"], tree["/verdict"] = xr.DataTree(questions), xr.DataTree(verdict)
        tree.attrs |= {
            "title": f"twoaxis: audit around the {partial.center_word}",
            "route": whole.route.value,
            "reason": whole.reason,
        }
        return cls(tree)

    def with_messages(self, messages: Sequence[Message]) -> Audit:
        """Return the same audit with these messages."""
        return self._with("/messages", labelled(MESSAGE_LAYOUT, message_variables(messages), {}))

    def with_actions(self, actions: Sequence[Action]) -> Audit:
        """Return the same audit with these actions, in place of `first_steps`."""
        return self._with("/actions", labelled(ACTION_LAYOUT, action_variables(actions), {}))

    def at_tolerance(self, tolerance: Tolerance | None) -> Audit:
        """Return what the same measurements lead to at other tolerances.

        Parameters
        ----------
        tolerance : Tolerance, optional
            None leaves the route undetermined.

        Examples
        --------
        ``audit.at_tolerance(ta.Tolerance(material=1, resolution=1, preference=1)).route``
        """
        found = judged_at(self, tolerance)
        known = {message.text for message in collect_messages(self)}
        given = [message for message in self.messages if message.text not in known]
        return found.with_messages([*given, *collect_messages(found)])

    def routes_by_tolerance(self) -> pd.DataFrame:
        """Return the route for every tolerance, with one for all three of them.

        Returns
        -------
        pandas.DataFrame
            A row for each stretch ``lower <= tolerance < upper``, in percent, with its ``route``.
        """
        return routes_by_tolerance(self)

    def _with(self, path: str, group: xr.Dataset) -> Audit:
        groups = {node.path: node.to_dataset(inherit=False) for node in self.data.subtree}
        return Audit(xr.DataTree.from_dict({**groups, path: group}, name=self.schema))

    # ------------------------------------------------------------------ parts

    @cached_property
    def _paths(self) -> set[str]:
        return {node.path for node in self.data.subtree}

    def _group(self, path: str) -> xr.Dataset:
        node: Any = self.data[path]
        found: xr.Dataset = node.to_dataset(inherit=False)
        return found

    def group(self, path: str) -> xr.Dataset | None:
        """Return a group of the tree as a dataset, or None where the audit has none."""
        return self._group(path) if path in self._paths else None

    def need(self, path: str) -> xr.Dataset:
        """Return a group, or raise an error with the call that adds it."""
        found = self.group(path)
        if found is None:
            what, call = MISSING.get(path, (f"the group {path}", "twoaxis.audit(...)"))
            raise InputError(f"an audit with {what}", f"one without {path}", f"use {call}")
        return found

    def _part(self, path: str, cls: type[Part]) -> Part | None:
        group = self.group(path)
        return None if group is None else cls(group)

    @cached_property
    def score(self) -> Score:
        """Axis 2 to first order, under the audited view."""
        return Score(self._group("/score"))

    @cached_property
    def scan(self) -> FrozenScan:
        """The frozen scan under the audited view."""
        return FrozenScan(self._group("/scan"))

    @cached_property
    def audited(self) -> Reading:
        """Score and scan under the audited view."""
        return Reading(self.score, self.scan)

    @cached_property
    def training(self) -> Reading:
        """Score and scan under the training view, in which alone delivery can be assessed."""
        if not self.cross_view:
            return self.audited
        inside = "/training_view"
        return Reading(
            Score(self._group(f"{inside}/score")), FrozenScan(self.need(f"{inside}/scan"))
        )

    @cached_property
    def delivery(self) -> Delivery | None:
        """The delivery identity under the training view, where it can be assessed."""
        return self._part("/delivery", Delivery)

    @cached_property
    def resolution(self) -> Resolution | None:
        """Axis 1, without its forward model."""
        return self._part("/resolution", Resolution)

    @cached_property
    def spectrum(self) -> Spectrum | None:
        """Strength and score by residual mode, where they were computed."""
        return self._part("/spectrum", Spectrum)

    @cached_property
    def snapshots(self) -> Snapshots | None:
        """What `twoaxis.follow` found along training, where it was given."""
        return self._part("/snapshots", Snapshots)

    @property
    def verdict(self) -> xr.Dataset:
        """Coordinates on the decision map, and routes, of parameters and eigen-directions."""
        return self._group("/verdict")

    @property
    def field(self) -> xr.Dataset:
        """Residual, sensitivity and evidence at the points."""
        return self._group("/field")

    # ------------------------------------------------------------------ what it is about

    @property
    def parameters(self) -> Parameters:
        """The audited parameters; with truths only where the audit is centered on them."""
        return self.score.parameters

    @property
    def names(self) -> list[str]:
        """Names of the parameters of interest; `parameters` has the nuisance parameters, too."""
        return self.parameters.of_interest

    @property
    def center(self) -> Center:
        """The point that the audit refers to."""
        return self.score.center

    @property
    def centered_on(self) -> str:
        """What that point is: "truth", "delivered" or "point"."""
        return self.center.kind

    @property
    def around_truth(self) -> bool:
        """Whether deviations from the center are errors."""
        return self.centered_on == "truth"

    @property
    def center_word(self) -> str:
        """The center in words: truth, candidate or chosen point."""
        return {"truth": "truth", "delivered": "candidate"}.get(self.centered_on, "chosen point")

    @property
    def matched_noun(self) -> str:
        """What a deviation of matched fits is called: an error only around a truth."""
        return "matched error" if self.around_truth else "matched deviation"

    @property
    def cross_view(self) -> bool:
        """Whether the audited view differs from the training view."""
        return bool(self.data.attrs["view_relation"] == OTHER_VIEW)

    @property
    def layout(self) -> str | None:
        """The layout that the field's data come from; None for all layouts together."""
        return str(self.data.attrs["layout"]) or None

    @property
    def run(self) -> str:
        """Key of the audited run; empty where the field is not a run of `twoaxis.train`."""
        return str(self.data.attrs["run"])

    @property
    def used_layouts(self) -> xr.Dataset:
        """The resolution, restricted to the layouts that count for this audit."""
        data = self.need("/resolution")
        return data if self.layout is None else data.sel(layout=[self.layout])

    @property
    def undelivered(self) -> bool:
        """Whether the audit is made around a point, and no value was delivered."""
        return self.centered_on == "point" and self.parameters.delivered is None

    @property
    def reads_gap(self) -> bool:
        """Whether stability is the delivery gap itself, not the displacement.

        Around a point that is not what training delivered, the two differ.
        """
        return self.centered_on == "point" and self.delivery is not None

    @property
    def delivered_displacement(self) -> FloatArray | None:
        """Delivered minus center, in coordinates."""
        delivered = self.parameters.delivered
        if delivered is None:
            return None
        coordinates = self.parameters.coordinates
        return coordinates(delivered) - coordinates(self.center.values)

    # ------------------------------------------------------------------ verdict

    @property
    def route(self) -> Route:
        """What to do next; with several parameters, what their needs add up to."""
        return Route(str(self.data.attrs["route"]))

    @property
    def reason(self) -> str:
        """The measurements that the route rests on, or why there is none."""
        return str(self.data.attrs["reason"])

    @property
    def routes(self) -> dict[str, Route]:
        """The route of each parameter."""
        return {name: v.route for name, v in self.verdicts.items()}

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Route and reason of each parameter."""
        return _verdicts(self.verdict)

    @property
    def subjects(self) -> dict[str, Verdict]:
        """One verdict for each number and for each unknown function, which has many nodes."""
        return verdicts_by_subject(self.parameters, self.verdicts)

    @property
    def functions(self) -> dict[str, FunctionGroup]:
        """The unknown functions of interest, by name."""
        return functions_of_interest(self.parameters)

    @property
    def scalars(self) -> list[str]:
        """Names of the parameters of interest that are numbers, not nodes of a function."""
        return [name for name in self.names if self.parameters[name].node is None]

    @cached_property
    def questions(self) -> list[Question]:
        """What is asked before the decision map, in order, with the answers."""
        return ask(self)

    @property
    def answer(self) -> str:
        """The parameter with its interval, and the verdict, in a line."""
        return answer_of(self)

    @property
    def severity(self) -> Severity:
        """How the answer reads: "good", "attention", "bad" or "neutral"."""
        return severity_of(self)

    @property
    def about(self) -> dict[str, str]:
        """What the audit is about: problem, data, method, seed, date, versions, the call."""
        group = self._group("/about")
        return dict(
            zip(map(str, group["key"].values), map(str, group["value"].values), strict=True)
        )

    @property
    def level(self) -> float:
        """Confidence level of all tests of this audit together."""
        return float(self._group("/")["level"])

    @property
    def standard_error_percent(self) -> dict[str, float]:
        """Standard error of each parameter that the observations predict; NaN: not known."""
        if self.resolution is None:
            return dict.fromkeys(self.names, np.nan)
        predicted = self.used_layouts["fisher_sd_percent"].mean("layout")
        return {name: float(predicted.sel(parameter=name)) for name in self.names}

    def undetermined_direction(self, name: str) -> str:
        """Return a direction with this parameter that the observations do not depend on, in words.

        Empty where they depend on all of them. More observations of the same kind do not help
        with such a direction.
        """
        if self.resolution is None or not np.isinf(self.standard_error_percent[name]):
            return ""
        found = self.resolution.directions()
        null = found[np.isinf(found["standard_error_percent"])]
        if self.layout is not None:
            null = null[null.index.get_level_values("layout") == self.layout]
        if null.empty:
            return ""
        row = null.loc[null[name].abs().idxmax()]
        shares = [float(row[n]) if n in row.index else 0.0 for n in self.parameters]
        return self.parameters.direction_words(shares)

    @cached_property
    def tolerance(self) -> Tolerance | None:
        """The declared tolerances."""
        root = self._group("/")
        limits = {n: float(root[f"tolerance_{n}"]) for n in TOLERANCES}
        if np.isnan(list(limits.values())).all():
            return None
        statistic: Statistic = self.data.attrs["tolerance_statistic"]
        assumed = bool(self.data.attrs["tolerance_assumed"])
        return Tolerance(**limits, statistic=statistic, assumed=assumed)

    def percent(self, quantity: str, name: str) -> float:
        """Return one of the percentages of ``/verdict`` for one parameter; NaN: not known."""
        return float(self.verdict[f"{quantity}_percent"].sel(parameter=name))

    def off(self, name: str, value: float, center: float | None = None) -> float:
        """Return a value relative to the center, or to another one, in signed percent."""
        own = self.center.values[name]
        home = own if center is None else center
        return float(self.parameters[name].percent_from(value, home, own))

    @property
    def messages(self) -> list[Message]:
        """What a reader must know beside the route."""
        return messages_from(self._group("/messages"))

    @cached_property
    def actions(self) -> list[Action]:
        """What to do: what `twoaxis.remedy` computed, or what the audit alone can say."""
        group = self.group("/actions")
        return first_steps_of(self) if group is None else actions_from(group)

    @property
    def next_step(self) -> str:
        """What to do next, in a sentence; `actions` says how."""
        return next_step(self)

    # ------------------------------------------------------------------ for readers

    def summary(self) -> pd.DataFrame:
        """Return a table with one row per parameter: the answer first, then what was measured.

        The first columns are the delivered value, the interval that the data allow (NaN without
        data) and the route; ``summary().attrs["answer"]`` is the answer in a line.
        """
        verdict, parameters = self.verdict, self.parameters
        matched = self.group("/matched")
        table: dict[str, Any] = {}
        if parameters.delivered is not None:
            table["delivered"] = [parameters.delivered[n] for n in self.names]
        if matched is not None:
            matched = matched.sel(parameter=self.names)
            table["matched"] = matched["estimate"].values
            table |= {name: matched[name].values for name in ("lower", "upper")}
        table["route"] = [route.value for route in self.routes.values()]
        table["center"] = [self.center.values[n] for n in self.names]
        known = {
            "delivered_percent": self.around_truth and parameters.delivered is not None,
            "resolution_percent": self.resolution is not None,
            "preference_percent": True,
            "local_percent": True,
            "gap_percent": self.delivery is not None,
            "training_preference_percent": self.cross_view,
        }
        table |= {name: verdict[name].values for name, there in known.items() if there}
        table["displacement"] = [self.score.displacement[n] for n in self.names]
        if matched is not None:
            for name in ("difference_percent", "excess_percent"):
                if matched[name].notnull().all():
                    table[name] = matched[name].values
        found = pd.DataFrame(table, index=pd.Index(self.names, name="parameter"))
        found.attrs["answer"] = self.answer
        return found

    def directions(self) -> pd.DataFrame:
        """Return the eigen-directions of the strength, weakest first, each with its route.

        The columns ``share of ...`` hold the direction, in units of 100%.
        """
        verdict = self.verdict
        vectors = verdict["direction_vector"].transpose("direction", "parameter").values
        table: dict[str, Any] = {f"share of {n}": vectors[:, j] for j, n in enumerate(self.names)}
        columns = ["strength", "status", "displacement", "preference_percent"]
        if self.around_truth and self.parameters.delivered is not None:
            columns.append("delivered_percent")
        if self.resolution is not None:
            columns.append("resolution_percent")
        for name in (*columns, "route", "reason"):
            table[name] = verdict[f"direction_{name}"].values
        return pd.DataFrame(table).rename_axis("direction")

    def __repr__(self) -> str:
        return as_text(self)

    # ------------------------------------------------------------------ agreement of a file

    def derived(self) -> dict[str, Any]:
        """Return the variables of ``/verdict`` and ``/delivery`` as they follow from the parts."""
        stored = self.verdict["direction_vector"].transpose("direction", "parameter").values
        found = {f"/verdict/{n}": v for n, v in judge(self, stored).items()}
        answers = question_variables(self.questions)
        # Readers see reasons as they follow now; another version may have worded them otherwise.
        found |= {f"/questions/{n}": v for n, v in answers.items() if n != "reason"}
        found |= derived_of_data(self)
        if self.delivery is not None:
            again = delivery_of(self.parameters, self.training.preferred or {})
            for name, variable in again.data.data_vars.items():
                found[f"/delivery/{name}"] = variable.values
        return found

    def check(self) -> None:
        """Raise `InputError` if parts contradict themselves or each other."""
        for path, cls in PARTS.items():
            part = self._part(path, cls)
            if part is None:
                continue
            _agree(part.data.attrs["schema"], cls._stamp()["schema"], f"schema of {path}")
            part.check()
            names = list(map(str, part.data["parameter"].values))
            if path == "/resolution":  # each side may have nuisance parameters of its own
                _agree(Parameters.from_dataset(part.data).of_interest, self.names, path)
            else:
                _agree(names, self.parameters.names, f"names in {path}")
            if path.endswith(("score", "scan", "spectrum")):
                _agree(part.data["center"].values.tolist(), list(self.center.values.values()), path)
                _agree(Parameters.from_dataset(part.data), self.parameters, path)
        for path in ("/field", "/matched", "/resimulation", "/likelihood", "/training", "/history"):
            group = self.group(path)
            if group is not None:
                names = [n for n in map(str, group["parameter"].values) if n in self.names]
                _agree(names, self.names, f"names in {path}")
        _agree(("/training_view/score" in self._paths), self.cross_view, "views")
        rows = self.field["equation_of"].values
        within = bool(((rows >= 0) & (rows < self.field.sizes["equation"])).all())
        _agree(within, True, "rows of equations in /field")
        super().check()
        whole = _joined(self.verdict, self.parameters)
        _agree((self.route, self.reason), (whole.route, whole.reason), "route and reason")
        self.directions(), self.tolerance, self.messages, self.actions


def _verdicts(verdict: xr.Dataset) -> dict[str, Verdict]:
    rows = zip(
        map(str, verdict["parameter"].values),
        map(str, verdict["route"].values),
        map(str, verdict["reason"].values),
        strict=True,
    )
    return {name: Verdict(Route(route), reason) for name, route, reason in rows}


def _joined(verdict: xr.Dataset, parameters: Parameters) -> Verdict:
    return join(verdicts_by_subject(parameters, _verdicts(verdict)))


def _agree(found: Any, expected: Any, what: str) -> None:
    if found != expected:
        raise InputError(
            f"{what}: {expected}", f"{found}", "write the file again; it was changed after saving"
        )
