"""What every result of the library has in common.

A result is one class around one labelled dataset, which is the same in memory, on disk and on
the page: an `xarray.Dataset`, or an `xarray.DataTree` where the parts differ in shape. Its
properties read from that dataset, so that a loaded result and a fresh one are the same thing.
Each class declares its layout (names, dimensions, kinds and meanings of its variables), and
which variables follow from the others: those are computed again when a file is loaded, and a
file that contradicts itself is refused.

Pictures and notebook views belong to `twoaxis.report`, which sits above every result. `Result`
reaches it through one lazy lookup, so that loading a result draws nothing.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from twoaxis.errors import InputError
from twoaxis.files import write_whole
from twoaxis.io import Layout, Variable, labelled, read_attributes, read_netcdf, write_netcdf
from twoaxis.parameters import ENCODED, Center, Parameters
from twoaxis.text import visible
from twoaxis.unknown_function import Basis, FloatArray, place_words
from twoaxis.version import __version__

Data = TypeVar("Data", xr.Dataset, xr.DataTree)
Severity = Literal["info", "warning"]

# Where the class of each schema lives. Modules are imported when a file asks for them.
CLASSES = {
    "audit": "twoaxis.diagnosis:Audit",
    "calibration": "twoaxis.remedies:Calibration",
    "comparison": "twoaxis.diagnosis:Comparison",
    "confidence-set": "twoaxis.remedies:ConfidenceSet",
    "delivery": "twoaxis.geometry:Delivery",
    "evidence-map": "twoaxis.remedies:EvidenceMap",
    "frozen-scan": "twoaxis.geometry:FrozenScan",
    "function-preference": "twoaxis.geometry.function:FunctionPreference",
    "function-resolution": "twoaxis.resolution.function:FunctionResolution",
    "polish": "twoaxis.remedies:Polish",
    "refinement": "twoaxis.remedies:Refinement",
    "residual": "twoaxis.exported:ExportedResidual",
    "resolution": "twoaxis.resolution:Resolution",
    "runs": "twoaxis.runs:Runs",
    "score": "twoaxis.geometry:Score",
    "scoreboard": "twoaxis.diagnosis:Scoreboard",
    "simulated-audit": "twoaxis.remedies:SimulatedAudit",
    "snapshots": "twoaxis.diagnosis:Snapshots",
    "spectrum": "twoaxis.geometry:Spectrum",
    "suggested-sites": "twoaxis.remedies:SuggestedSites",
}
# Stored derived values may differ from recomputed ones by rounding on another machine.
DERIVED_RTOL = 1e-6


PARAMETER_LAYOUT: Layout = {
    "parameter": Variable(("parameter",), "text", "name of the parameter"),
    "lower_bound": Variable(("parameter",), "float", "lower parameter bound", finite=True),
    "upper_bound": Variable(("parameter",), "float", "upper parameter bound", finite=True),
    "coordinate": Variable(("parameter",), "text", 'coordinate q: "log" or "linear"'),
    "scale": Variable(("parameter",), "float", "value that 100% refers to; NaN: not declared"),
    "truth": Variable(("parameter",), "float", "true value; NaN: not known"),
    "delivered": Variable(("parameter",), "float", "value from training; NaN: not known"),
    "start": Variable(("parameter",), "float", "initial value in training; NaN: not known"),
    "nuisance": Variable(("parameter",), "bool", "whether it is a nuisance parameter"),
    "unit": Variable(("parameter",), "text", "unit of the values; empty: not declared"),
    "label": Variable(("parameter",), "text", "label in figures; empty: the name"),
    "function": Variable(("parameter",), "text", "unknown function that it is a node value of"),
    "function_node": Variable(("parameter",), "float", "place of the node; NaN: no function"),
    "function_second": Variable(
        ("parameter",), "float", "place of the node along the second variable", required=False
    ),
    "function_basis": Variable(("parameter",), "text", 'basis: "hat" or "spline"'),
    "function_argument": Variable(("parameter",), "text", "variable that the function depends on"),
    "array": Variable(("parameter",), "text", "array that it is an entry of; empty: none"),
}
# Places along the second variable, in results about a function of two.
PLACES: Layout = {
    "node_second": Variable(
        ("node",), "float", "place of the node, second variable", required=False, finite=True
    ),
    "place_second": Variable(("place",), "float", "second argument", required=False),
}
CENTER_LAYOUT: Layout = {
    "center": Variable(("parameter",), "float", "value that the result refers to", finite=True),
}


# ---------------------------------------------------------------- messages


@dataclass(frozen=True)
class Message:
    """One thing that a reader must know besides the numbers.

    Attributes
    ----------
    code : str
        A stable identifier such as ``"scan.on_bound"``; programs test this, not the text.
    text : str
        One sentence.
    severity : {"info", "warning"}
    numbers : dict of str to float
        The numbers that the sentence rests on.

    Examples
    --------
    >>> from twoaxis import Message
    >>> message = Message("scan.on_bound", "the minimum lies on a bound", "warning", {"bound": 0.1})
    >>> message.code, str(message)
    ('scan.on_bound', 'the minimum lies on a bound')
    """

    code: str
    text: str
    severity: Severity = "info"
    numbers: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


MESSAGE_LAYOUT: Layout = {
    "message_code": Variable(("message",), "text", "identifier of the message"),
    "message_severity": Variable(("message",), "text", '"info" or "warning"'),
    "message_text": Variable(("message",), "text", "the message as a sentence"),
    "message_number_of": Variable(("message_number",), "int", "row of the message it belongs to"),
    "message_number_name": Variable(("message_number",), "text", "name of the number"),
    "message_number_value": Variable(("message_number",), "float", "value of the number"),
}


def message_variables(messages: Sequence[Message]) -> dict[str, Any]:
    """Return messages as the variables of `MESSAGE_LAYOUT`."""
    numbers = [(k, n, v) for k, m in enumerate(messages) for n, v in m.numbers.items()]
    return {
        "message_code": [m.code for m in messages],
        "message_severity": [m.severity for m in messages],
        # A message is one line, whatever it quotes.
        "message_text": [" ".join(m.text.split()) for m in messages],
        "message_number_of": np.array([k for k, _, _ in numbers], dtype=np.int64),
        "message_number_name": [name for _, name, _ in numbers],
        "message_number_value": np.array([value for _, _, value in numbers], dtype=float),
    }


def messages_from(data: xr.Dataset) -> list[Message]:
    """Return the messages that a labelled dataset holds."""
    rows = zip(
        data["message_number_of"].values.tolist(),
        map(str, data["message_number_name"].values),
        data["message_number_value"].values.tolist(),
        strict=True,
    )
    numbers: dict[int, dict[str, float]] = {}
    for owner, name, value in rows:
        numbers.setdefault(owner, {})[name] = value
    found = []
    for k, code in enumerate(data["message_code"].values):
        severity: Any = str(data["message_severity"].values[k])
        text = str(data["message_text"].values[k])
        found.append(Message(str(code), text, severity, numbers.get(k, {})))
    return found


# ---------------------------------------------------------------- the base class


class Result(Generic[Data]):
    """A labeled result: a dataset, with a table, a picture, a notebook view and a file.

    Attributes
    ----------
    data : xarray.Dataset or xarray.DataTree
        Everything that was found. Every variable has the attributes ``long_name`` and
        ``units``.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> score = ta.score(frozen)
    >>> isinstance(score, ta.Result)
    True
    >>> list(score.summary().columns)[:3]
    ['center', 'displacement', 'delta_percent']
    >>> score.data["B"].attrs["long_name"]
    'signed score J^T M r'
    """

    #: Name of the kind of result in a file, and the version of its layout.
    schema: ClassVar[str]
    version: ClassVar[int] = 1
    #: Layout of each group, "/" for the dataset itself.
    layouts: ClassVar[Mapping[str, Layout]]
    #: Attributes that each group must have.
    attributes: ClassVar[Mapping[str, Iterable[str]]] = {}
    #: Groups that may be absent.
    optional_groups: ClassVar[Sequence[str]] = ()

    def __init__(self, data: Data) -> None:
        self.data: Data = data

    @classmethod
    def from_values(cls, values: Mapping[str, Any], attributes: Mapping[str, Any]) -> Self:
        """Build a result of one dataset from its basic variables; the others are derived."""
        layout = cls.layouts["/"]
        given = {name: each for name, each in layout.items() if name in values}
        partial: Any = labelled(given, values, attributes)
        derived = cls(partial).derived()
        data: Any = labelled(layout, {**values, **derived}, {**cls._stamp(), **attributes})
        return cls(data)

    @classmethod
    def from_groups(cls, groups: Mapping[str, xr.Dataset]) -> Self:
        """Build a result from its labeled groups."""
        if set(cls.layouts) == {"/"}:
            whole: Any = groups["/"]
        else:
            whole = xr.DataTree.from_dict(dict(groups), name=cls.schema)
        whole.attrs = {**cls._stamp(), **groups["/"].attrs}
        return cls(whole)

    @classmethod
    def _stamp(cls) -> dict[str, str]:
        return {
            "schema": f"twoaxis.{cls.schema}/{cls.version}",
            "written_by": f"twoaxis {__version__}",
        }

    def derived(self) -> dict[str, Any]:
        """Return the variables that follow from the others, computed from them."""
        return {}

    def check(self) -> None:
        """Raise `InputError` if values contradict each other; called when a file is loaded."""
        data: Any = self.data
        if isinstance(data, xr.Dataset) and set(ENCODED) <= set(data.variables):
            _check_parameters(data)
        for name, value in self.derived().items():
            if value is None or (isinstance(data, xr.Dataset) and name not in data):
                continue
            if not _same(data[name].values, value):
                raise InputError(
                    f"{name} as it follows from the other values",
                    f"{_short(data[name].values)}, not {_short(value)}",
                    "write the file again; it was changed after it was saved",
                )

    def summary(self) -> pd.DataFrame:
        """Return the main numbers as a table."""
        raise NotImplementedError  # every result has one

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the result into matplotlib axes, or into a new figure, and return the axes."""
        return report_package().plot(self, ax=ax, **options)

    def _repr_html_(self) -> str:
        html: str = report_package().notebook_html(self)
        return html

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write a page: one HTML file that works offline, in light and dark, on paper too."""
        page: str = report_package().page(self)
        return write_whole(path, lambda target: target.write_text(page, encoding="utf-8"))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one netCDF file, completely or not at all.

        `twoaxis.load` opens it again, and so does plain xarray.
        """
        return write_netcdf(path, self.data)

    @property
    def opened(self) -> Any:
        """What `load` returns: the result itself, unless it stands for another object."""
        return self


class CenteredResult(Result[xr.Dataset]):
    """A result about parameters around a center.

    Its layout holds `PARAMETER_LAYOUT` and `CENTER_LAYOUT`, its attributes ``centered_on``.
    """

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters, in order."""
        return Parameters.from_dataset(self.data)

    # Results do not change; a page of many parameters asks for these very often.
    @cached_property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return [str(name) for name in self.data["parameter"].values]

    @cached_property
    def center(self) -> Center:
        """The point that the result refers to."""
        return Center(str(self.data.attrs["centered_on"]), self.named("center"))

    @property
    def center_words(self) -> str:
        """What the center is, with its values of interest."""
        center = self.center
        values = self.parameters.value_words(center.values)
        kind = {"truth": "truth", "delivered": "delivered candidate", "point": "point"}
        return f"{kind[center.kind]} {values}"

    def named(self, variable: str) -> dict[str, float]:
        """Return a variable with the dimension "parameter" as values by parameter name."""
        return dict(zip(self.names, self.data[variable].values.tolist(), strict=True))

    def check(self) -> None:
        """Raise `InputError` if values contradict each other; called when a file is loaded."""
        center = self.center
        at: Any = center.values if center.kind == "point" else center.kind
        if (expected := self.parameters.center(at)) != center:
            raise InputError(
                f"the center {expected.values}, as it is the {center.kind}",
                f"{center.values}",
                "write the file again; it was changed after it was saved",
            )
        super().check()


class FunctionResult(Result[xr.Dataset]):
    """A result about an unknown function.

    Its layout holds the places ``node`` and ``place``, along the second variable of two
    ``node_second`` and ``place_second`` (`PLACES`), its attributes ``function``, ``argument``,
    ``basis`` and ``coordinate``.
    """

    @property
    def name(self) -> str:
        """Name of the function."""
        return str(self.data.attrs["function"])

    @property
    def basis(self) -> Basis:
        """The nodes and the functions that interpolate between them."""
        kind: Any = str(self.data.attrs["basis"])
        axes = [np.unique(self.data[n].values) for n in self._along("node")]
        return Basis(tuple(tuple(axis.tolist()) for axis in axes), kind)

    def _along(self, what: str) -> list[str]:
        return [name for name in (what, f"{what}_second") if name in self.data]

    @property
    def nodes(self) -> FloatArray:
        """Places of the nodes, shape (n, variables)."""
        return np.stack([self.data[name].values for name in self._along("node")], axis=-1)

    @property
    def places(self) -> FloatArray:
        """Places at which the function is evaluated, shape (N, variables)."""
        return np.stack([self.data[name].values for name in self._along("place")], axis=-1)

    def place_words(self, at: ArrayLike) -> str:
        """Return a place in words."""
        return place_words(visible(str(self.data.attrs["argument"])), at)

    def node_index(self) -> pd.Index:
        """Return the places of the nodes as the index of a table."""
        argument = visible(str(self.data.attrs["argument"]))
        if self.nodes.shape[1] == 1:
            return pd.Index(self.nodes[:, 0], name=argument)
        return pd.MultiIndex.from_arrays(list(self.nodes.T), names=argument.split(", "))

    @property
    def logarithmic(self) -> bool:
        """Whether the coordinate is the logarithm."""
        return str(self.data.attrs["coordinate"]) == "log"


def places_along(name: str, columns: ArrayLike) -> dict[str, FloatArray]:
    """Return the columns of an array as one variable of a `FunctionResult` each."""
    return dict(zip((name, f"{name}_second"), np.transpose(columns), strict=False))


def _check_parameters(data: xr.Dataset) -> None:
    """Raise `InputError` unless what `data` says of its parameters is what they are read as."""
    for name, value in Parameters.from_dataset(data).variables().items():
        if not _same(data[name].values, value):
            raise InputError(
                f"{name} of the parameters: {_short(value)}",
                _short(data[name].values),
                "write the file again; it was changed after it was saved",
            )


def interest_first(columns: Mapping[str, Any], parameters: Parameters) -> pd.DataFrame:
    """Return a table with a row for each parameter, nuisance parameters last and marked.

    Parameters
    ----------
    columns : mapping of str to array
        One entry per parameter, in the order of `parameters`.
    parameters : Parameters
    """
    hidden = parameters.nuisance
    table = pd.DataFrame(dict(columns), index=pd.Index(parameters.names, name="parameter"))
    if hidden.any():
        table = table.assign(nuisance=hidden).iloc[np.argsort(hidden, kind="stable")]
    return table


def interest_only(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `interest_first` that are no nuisance parameters, for a headline."""
    if "nuisance" not in table:
        return table
    return table[~table["nuisance"]].drop(columns="nuisance")


def require(expectations: Mapping[str, Any]) -> None:
    """Raise `InputError` for the first expectation that does not hold.

    Parameters
    ----------
    expectations : mapping of str to bool
        What is expected, in words, and whether it holds.
    """
    for expected, holds in expectations.items():
        if not holds:
            raise InputError(expected, "other values", "compute the result again")


def load(path: str | os.PathLike[str]) -> Any:
    """Load any result, or a frozen residual, from the file that its ``save`` wrote.

    Nothing in the file is executed.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Result or FrozenResidual
        Of the class that was saved: `Audit`, `Resolution`, `Score`, ...

    Examples
    --------
    >>> import tempfile, numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = ta.load(ta.score(frozen).save(f"{folder}/score.nc"))
    >>> type(again).__name__, again.names
    ('Score', ['k'])
    """
    cls = _class_of(str(read_attributes(path).get("schema", "")), path)
    groups = read_netcdf(path, cls.layouts, cls.attributes, optional=cls.optional_groups)
    found = cls.from_groups(groups)
    try:
        found.check()
    except Exception as error:  # whatever contradictory values lead to
        raise InputError(
            "a file whose values agree with each other",
            f"{str(path)!r} ({error})",
            "write it again; it was changed after it was saved",
        ) from error
    return found.opened


def _class_of(schema: str, path: str | os.PathLike[str]) -> type[Result[Any]]:
    name, _, version = schema.removeprefix("twoaxis.").partition("/")
    if not schema.startswith("twoaxis.") or name not in CLASSES:
        raise InputError(
            f"a file of one of the results {', '.join(CLASSES)}",
            f"schema {schema!r} in {str(path)!r}",
            "pass a file that the save() of a result wrote",
        )
    module, _, attribute = CLASSES[name].partition(":")
    cls: type[Result[Any]] = getattr(importlib.import_module(module), attribute)
    if version != str(cls.version):
        raise InputError(
            f"version {cls.version} of the schema twoaxis.{name}",
            f"version {version!r} in {str(path)!r}",
            "load it with the version of twoaxis that wrote it, or compute it again",
        )
    return cls


def report_package() -> Any:
    """Return `twoaxis.report`, the one module above that results reach for."""
    return importlib.import_module("twoaxis.report")


def _same(stored: Any, derived: Any) -> bool:
    stored, derived = np.asarray(stored), np.asarray(derived)
    if stored.shape != derived.shape:
        return False
    if derived.dtype.kind in "fc":
        size = float(np.max(np.abs(derived), initial=0.0, where=np.isfinite(derived)))
        return np.allclose(
            stored, derived, rtol=DERIVED_RTOL, atol=DERIVED_RTOL * size * 1e-3, equal_nan=True
        )
    return bool(np.array_equal(stored.astype(str), derived.astype(str)))


def _short(value: Any) -> str:
    text = np.array2string(np.asarray(value), precision=6, threshold=6, separator=", ")
    return text if len(text) <= 80 else text[:77] + "..."
