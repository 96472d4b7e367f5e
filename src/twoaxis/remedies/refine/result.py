"""What a refinement found: parameters with standard errors, and a model without a solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import checked_points
from twoaxis.diagnosis.actions import Action, Number
from twoaxis.diagnosis.questions import LINEARIZED
from twoaxis.errors import InputError
from twoaxis.frozen import FrozenResidual
from twoaxis.io import Layout, Variable
from twoaxis.labels import coordinate_columns
from twoaxis.parameters import Parameter, Parameters
from twoaxis.remedies.refine.coordinates import per_coordinate
from twoaxis.resolution.layouts import Noise
from twoaxis.resolution.misfit import against, check_residuals, is_noise_free
from twoaxis.result import (
    MESSAGE_LAYOUT,
    PARAMETER_LAYOUT,
    Message,
    Result,
    Severity,
    message_variables,
    messages_from,
)
from twoaxis.statistics import squares_limit
from twoaxis.text import measured

if TYPE_CHECKING:
    from twoaxis.resolution import Resolution

FloatArray = NDArray[np.float64]

STAGE = ("stage", "parameter")
# A field follows the data while its mean square misfit is above one by fewer standard deviations.
MISFIT_SIGMAS = 4.0
# A right refinement is not trusted with at most this probability because of its residuals: that is
# five times what an audit allows itself, since a wrong one that is trusted costs more.
DOUBT = 0.05
# The equation counts as unsatisfied where its term is so many times the number of observations.
UNSATISFIED = 1.0
# Readings that are left to test a fit, at least.
LEAST_LEFT = 0.5
FREE_FIELD = "refine.free_field"
# A direction in which the observations decide on the field, in noise levels of all of them.
FREE_DIRECTION = Parameter(
    delivered=0.0, bounds=(-1e4, 1e4), coordinate="linear", scale=1.0, nuisance=True
)
SETTLED, NOT_SETTLED, ON_BOUND = "settled", "not settled", "on a bound"


class Refinement(Result[xr.Dataset]):
    """Parameters with standard errors from a field that obeys its equation.

    Made by `twoaxis.refine`.

    Attributes
    ----------
    data : xarray.Dataset
        By stage of the continuation: ``weight`` of the equation, ``misfit`` (mean square, in units
        of the noise variance), ``residual`` (root mean square) and the ``value`` of every
        parameter. At the end: ``covariance`` of the coordinates and ``sensitivity`` of the field
        at the observed points.
    frozen : FrozenResidual or None
        The refined field; None from a file.

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
    >>> found.status, found.trusted
    ('settled', True)
    >>> round(found.values["rate"], 2), bool(found.standard_error["rate"] < 0.05)
    (1.2, True)
    """

    schema = "refinement"
    layouts: ClassVar[Mapping[str, Layout]] = {
        "/": {
            **PARAMETER_LAYOUT,
            **MESSAGE_LAYOUT,
            "weight": Variable(("stage",), "float", "weight of the equation", finite=True),
            "misfit": Variable(("stage",), "float", "mean squared misfit in noise variances"),
            "residual": Variable(("stage",), "float", "root mean square of the residual"),
            "value": Variable(STAGE, "float", "value of the parameter", finite=True),
            "standard_error_along": Variable(STAGE, "float", "standard error of the coordinate"),
            "covariance": Variable(
                ("parameter", "other"), "float", "covariance of the coordinates", finite=True
            ),
            "sensitivity": Variable(
                ("observation", "parameter"), "float", "derivative of the field by q", finite=True
            ),
            "fitted": Variable(("observation",), "float", "refined field", finite=True),
            "observed_value": Variable(("observation",), "float", "observed value", finite=True),
            "noise_level": Variable(("observation",), "float", "standard deviation", finite=True),
            "noise_covariance": Variable(
                ("observation", "other_observation"), "float", "noise covariance", required=False
            ),
            "site": Variable(("observation", "axis"), "float", "observed point", finite=True),
            "standard_error": Variable(("parameter",), "float", "standard error of the value"),
            "lower": Variable(("parameter",), "float", "lower end of the 95% interval"),
            "upper": Variable(("parameter",), "float", "upper end of the 95% interval"),
        }
    }
    attributes: ClassVar[Mapping[str, Iterable[str]]] = {
        "/": ("status", "noise", "noise_freedom", "how", "seconds")
    }
    frozen: FrozenResidual | None = None
    before_frozen: FrozenResidual | None = None
    _routes: tuple[str, str] | None = None
    _sensitivity_at: Callable[[FloatArray], tuple[FloatArray, FloatArray]] | None = None
    # How the field may move where equation and conditions leave it free, (n, k), and the readings.
    _free_at: Callable[[FloatArray], FloatArray] | None = None
    _free_moves: FloatArray | None = None

    def derived(self) -> dict[str, Any]:
        """Return standard errors and 95% intervals of the values."""
        known, values = self.parameters, self.data["value"].values[-1]
        spread = np.sqrt(np.diag(self.data["covariance"].values))
        center = known.coordinates(known.named(values))
        bounds = known.coordinate_bounds
        reach = interval_reach(spread, float(self.data.attrs["noise_freedom"]))
        ends = [known.physical(np.clip(center + side * reach, *bounds)) for side in (-1, 1)]
        return {
            "standard_error": spread * per_coordinate(known, center),
            "lower": np.asarray(ends[0], dtype=float),
            "upper": np.asarray(ends[1], dtype=float),
        }

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters; `delivered` are the values before refinement."""
        return Parameters.from_dataset(self.data)

    @property
    def values(self) -> dict[str, float]:
        """The refined parameters."""
        return self.parameters.named(self.data["value"].values[-1])

    @property
    def standard_error(self) -> dict[str, float]:
        """Their standard errors."""
        return self.parameters.named(self.data["standard_error"].values)

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Their 95% intervals in the coordinates: normal, or Student's t of estimated noise.

        They end at the bounds of a parameter at the latest.
        """
        ends = zip(self.data["lower"].values, self.data["upper"].values, strict=True)
        return {n: (float(a), float(b)) for n, (a, b) in zip(self.parameters, ends, strict=True)}

    @property
    def status(self) -> str:
        """Why it ended: "settled", "not settled" or "on a bound"."""
        return str(self.data.attrs["status"])

    @property
    def trusted(self) -> bool:
        """Whether values and intervals can be used: settled, and no warning.

        Then the residuals look like noise, and no other minimum that was found is as good.
        """
        return self.status == SETTLED and all(m.severity == "info" for m in self.messages)

    @property
    def messages(self) -> list[Message]:
        """What a reader must know besides the numbers."""
        return messages_from(self.data)

    def summary(self) -> pd.DataFrame:
        """Return a row per parameter: value, standard error, 95% interval, value before."""
        known = self.parameters
        table = pd.DataFrame(
            {
                "value": self.data["value"].values[-1],
                "standard_error": self.data["standard_error"].values,
                "lower": self.data["lower"].values,
                "upper": self.data["upper"].values,
                "before": [p.delivered for p in known.values()],
                "truth": [p.truth for p in known.values()],
            },
            index=pd.Index(known.names, name="parameter"),
        )
        return table.dropna(axis=1, how="all")

    def forward(self, **parameters: Any) -> FloatArray:
        """Predict the observations, linear in the coordinates around the refined field.

        Vectors of parameters give predictions with a leading axis: a forward model for
        `twoaxis.resolve` that needs no solver. An array or an unknown function may also be given
        entry by entry, by the names of `values`.
        """
        return self._linear(
            self.data["fitted"].values, self.data["sensitivity"].values, **parameters
        )

    def _linear(
        self,
        field: FloatArray,
        sensitivity: FloatArray,
        free: FloatArray | None = None,
        **parameters: Any,
    ) -> FloatArray:
        known = self.parameters
        q = known.coordinates(known.by_member(parameters))
        moved = np.asarray(field + (q - known.coordinates(self.values)) @ sensitivity.T)
        if free is None or not free.shape[1]:
            return moved
        along = np.stack([np.asarray(parameters[n], float) for n in _free_names(free)], axis=-1)
        return np.asarray(moved + along @ free.T)

    def forward_inputs(self) -> dict[str, Any]:
        """Return this linearized model as arguments of `twoaxis.resolve`."""
        known = self.parameters
        delivered = dict(known.delivering(self.values))
        return {
            "forward": self.forward,
            "parameters": delivered,
            "noise": self._noise,
            "points": self.data["site"].values,
            "vectorized": True,
        }

    @property
    def _noise(self) -> Noise:
        known = "noise_covariance" in self.data
        array = self.data["noise_covariance" if known else "noise_level"].values
        return Noise(array, float(self.data.attrs["noise_freedom"]))

    @property
    def free_directions(self) -> float:
        """In so many directions equation and conditions leave the field to the observations."""
        told = [m for m in self.messages if m.code == FREE_FIELD]
        return float(told[0].numbers["directions"]) if told else 0.0

    def resolution_messages(self, other_sites: bool = False) -> list[Message]:
        """Return what a resolution that rests on this refinement must say.

        Parameters
        ----------
        other_sites : bool
            Whether it is about other layouts than all observed points.
        """
        text = (
            "the forward model is linearized around a refined field, without a solver; the "
            f"refinement is {self.status}"
        )
        severity: Severity = "info"
        if not self.trusted:
            severity = "warning"
            reasons = "; ".join(m.text for m in self.messages if m.severity == "warning")
            text = f"the refinement that stands for a solver should not be used: {reasons}"
        said = [Message(LINEARIZED, text, severity)]
        if other_sites and self.free_directions:
            text = (
                f"equation and conditions leave the refined field free in about "
                f"{self.free_directions:.0f} directions, on which the present observations "
                "decided: for other sites deviations are too small. If initial or boundary values "
                "are known, pass conditions=... to the adapter and refine again; if not, use a "
                "simulator in which they are nuisance parameters"
            )
            said.append(Message("forward.free_field", text, "warning"))
        return said

    def predict(self, points: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return field and sensitivity at any points, such as candidate sites.

        Returns
        -------
        field : array, shape (n,)
            In the order of the points; of several observed fields, one after another at each.
        sensitivity : array, shape (n, d)
            Its derivatives by the coordinates of the parameters, along fields that go on to obey
            the equation.
        """
        if self._sensitivity_at is None:
            raise InputError(
                "a refinement that holds its field",
                "one that was read from a file",
                "refine again; a file keeps the sensitivities at the observed points",
            )
        return self._sensitivity_at(checked_points(points))

    def site_inputs(
        self, points: ArrayLike | Mapping[str, ArrayLike] | None, *, observed: bool = True
    ) -> dict[str, Any]:
        """Return the linearized model at candidate points as arguments of `twoaxis.suggest_sites`.

        Of several observed fields, every point is a candidate for each of them, and a last
        coordinate, ``field``, numbers them. Directions in which equation and conditions leave the
        field free are nuisance parameters: other sites must decide on them again.

        Parameters
        ----------
        points : array, shape (N, k), or mapping of str to array
        observed : bool
            Whether the present observations follow the candidates, as ``present``.
        """
        if points is None:
            raise InputError(
                "points as candidate sites of a refinement, which has no grid of its own",
                "none",
                "pass points=..., an array of shape (N, k)",
            )
        known = () if self.frozen is None else self.frozen.axes
        where = checked_points(coordinate_columns(points, known))
        names = self._axis_names(where.shape[1])
        if isinstance(points, Mapping) and not known:
            names = list(points)
        fitted, sensitivity = self.predict(where)
        candidates, several = len(fitted), len(fitted) // len(where)
        free = np.zeros((candidates, 0)) if self._free_at is None else self._free_at(where)
        where = np.repeat(where, several, axis=0)
        if observed:
            present = self.data["site"].values
            fitted = np.append(fitted, self.data["fitted"].values)
            sensitivity = np.concatenate([sensitivity, self.data["sensitivity"].values])
            if self._free_moves is not None:
                free = np.concatenate([free, self._free_moves])
            else:
                free = np.zeros((len(fitted), 0))
            where = np.concatenate([where, present])
        coordinates = dict(zip(names, where.T, strict=True))
        if several > 1:
            coordinates["field"] = np.arange(len(where)) % several
        given = self.forward_inputs()
        return {
            **given,
            "noise": float(self.data.attrs["noise"]),
            "forward": partial(self._linear, fitted, sensitivity, free),
            "parameters": given["parameters"] | dict.fromkeys(_free_names(free), FREE_DIRECTION),
            "points": coordinates,
            "present": np.arange(candidates, len(where)),
        }

    def _axis_names(self, count: int) -> list[str]:
        return [f"x{k}" for k in range(count)] if self.frozen is None else self.frozen.axis_names

    def audit_inputs(
        self,
        *,
        field: str = "after",
        truth: bool = True,
        resolution: Resolution | None = None,
        replicas: int = 200,
        seed: int = 0,
        progress: bool = True,
    ) -> dict[str, Any]:
        """Return the field, its data and axis 1 as keyword arguments of `twoaxis.audit`.

        So ``twoaxis.audit(refinement)`` has both axes without a solver.

        Parameters
        ----------
        field : {"after", "before"}
            The refined field, or the one as it was.
        truth : bool
            Whether axis 1 is simulated at the truth, where there is one.
        resolution : Resolution, optional
            Axis 1 from elsewhere; that of this refinement without it.
        replicas, seed, progress
            For `twoaxis.resolve`.
        """
        from twoaxis.resolution import resolve

        chosen = {"before": self.before_frozen, "after": self.frozen}.get(field)
        if chosen is None:
            raise InputError(
                'field="before" or "after", of a refinement that holds its fields',
                f"{field!r}" + ("" if field in ("before", "after") else ", which is neither"),
                "refine again; a file keeps no fields",
            )
        if resolution is None:
            at = None if truth else "delivered"
            resolution = resolve(self, at=at, replicas=replicas, seed=seed, progress=progress)
        return {
            "residual": chosen,
            "resolution": resolution,
            "data": self.data["observed_value"].values,
            "notes": self.messages if field == "after" else [],
        }

    def routed(self, before: str, after: str) -> Refinement:
        """Return this refinement with the routes of the field before and after it."""
        self._routes = before, after
        return self

    def actions(self) -> list[Action]:
        """Return what refinement found, for the actions of an audit."""
        numbers = []
        for name, value in self.values.items():
            parameter = self.parameters[name]
            numbers.append(Number(f"{name}, refined", value, parameter.unit))
            numbers.append(
                Number(f"{name}, standard error", self.standard_error[name], parameter.unit)
            )
        text = f"Refined: {self._sentence()}"
        if self._routes is not None:
            before, after = self._routes
            text += f" The route was {before!r}; of the refined field it is {after!r}."
        text += "".join(f" {m.text[0].upper()}{m.text[1:]}." for m in self.messages)
        return [Action("evidence", "Refine the field", text, "twoaxis.refine(run)", tuple(numbers))]

    def _sentence(self) -> str:
        parts = []
        for name, value in self.values.items():
            low, high = self.interval[name]
            shown = measured(value, self.standard_error[name])
            parts.append(f"{name} = {shown} (95% {low:.4g} to {high:.4g})")
        return ", ".join(parts) + f"; {self.status} after {self.data.sizes['stage']} stages."

    def __repr__(self) -> str:
        lines = [self._sentence()]
        lines.append(self.summary().to_string(float_format=lambda v: f"{v:.5g}"))
        lines += [f"{m.severity}: {m.text}" for m in self.messages]
        return "\n".join(lines)


def interval_reach(spread: FloatArray, freedom: float) -> FloatArray:
    """Return half the widths of 95% intervals: Student's t where the noise was estimated."""
    return np.asarray(np.sqrt(squares_limit(0.95, freedom=freedom)) * spread)


def _free_names(free: FloatArray) -> list[str]:
    return [f"free direction {k + 1}" for k in range(free.shape[1])]


def check_enough(observations: int, parameters: int) -> None:
    """Refuse fewer observations than parameters."""
    if observations < parameters:
        raise InputError(
            f"at least as many observations as parameters, {parameters}",
            f"{observations}",
            "observe more, or fix some parameters",
        )


def most_misfit(count: int) -> float:
    """Return the largest mean square of so many readings' misfits that noise can explain."""
    return float(1 + MISFIT_SIGMAS * np.sqrt(2 / count))


def equation_share(weight: float, residual: float, count: int) -> float:
    """Return the term of the equation as a multiple of the number of observations."""
    return weight * residual**2 / count


@dataclass
class Path:
    """What a refinement leaves behind, stage by stage."""

    weight: list[float] = field(default_factory=list)
    misfit: list[float] = field(default_factory=list)
    residual: list[float] = field(default_factory=list)
    coordinates: list[FloatArray] = field(default_factory=list)
    errors: list[FloatArray] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class End:
    """The last state of a refinement.

    Attributes
    ----------
    coordinates : array, shape (d,)
    covariance : array, shape (d, d)
    sensitivity : array, shape (n, d)
    fitted, data : array, shape (n,)
    sites : array, shape (n, k)
    noise : Noise
        Of the readings.
    settled : bool
    free : float
        Number of directions in which the data alone decide on the field.
    free_moves : array, shape (n, k)
        How the fitted values move along those in which the data mostly do.
    """

    coordinates: FloatArray
    covariance: FloatArray
    sensitivity: FloatArray
    fitted: FloatArray
    data: FloatArray
    sites: FloatArray
    noise: Noise
    settled: bool
    free: float
    free_moves: FloatArray

    @property
    def level(self) -> float:
        """Root mean square of the noise."""
        variance = np.diag(self.noise.array) if self.noise.array.ndim == 2 else self.noise.array**2
        return float(np.sqrt(variance.mean()))


def refinement(
    known: Parameters,
    path: Path,
    end: End,
    how: str,
    seconds: float,
    notes: Sequence[Message] = (),
) -> Refinement:
    """Return a result from a path and its end, with what must be said about it."""
    low, high = known.coordinate_bounds
    on_bound = bool(((end.coordinates <= low) | (end.coordinates >= high)).any())
    status = ON_BOUND if on_bound else SETTLED if end.settled else NOT_SETTLED
    values = np.array([known.physical(q) for q in path.coordinates], dtype=float)
    return Refinement.from_values(
        {
            **known.variables(),
            **message_variables([*notes, *_messages(known, path, end, status)]),
            "weight": path.weight,
            "misfit": path.misfit,
            "residual": path.residual,
            "value": values,
            "standard_error_along": np.array(path.errors),
            "covariance": end.covariance,
            "sensitivity": end.sensitivity,
            "fitted": end.fitted,
            "observed_value": end.data,
            "site": end.sites,
            **_noise_variables(end.noise),
        },
        {
            "status": status,
            "noise": end.level,
            "noise_freedom": float(end.noise.freedom),
            "how": how,
            "seconds": float(seconds),
        },
    )


def _noise_variables(noise: Noise) -> dict[str, FloatArray]:
    if noise.array.ndim == 1:
        return {"noise_level": noise.array}
    return {"noise_level": np.sqrt(np.diag(noise.array)), "noise_covariance": noise.array}


def _misfits(end: End) -> list[Message]:
    """Say where the residuals contradict the equation or the noise: as of a matched fit."""
    white = end.noise.whitener(np.arange(len(end.data)), "data")
    residuals, fitted = white(end.data - end.fitted), end.coordinates.size + end.free
    known = bool(np.isinf(end.noise.freedom))
    moves = white(np.concatenate([end.sensitivity, end.free_moves], axis=1).T).T
    checks = check_residuals(residuals, fitted, end.sites, noise_known=known, moves=moves)
    deciding = sum(check.name != "normality" for check in checks)
    scale = float(np.std(end.data - end.fitted))
    if is_noise_free(residuals, scale, float(np.std(end.data)), checks, fitted=fitted):
        return []
    return [
        Message(
            f"refine.misfit_{check.name}",
            f"{check.meaning} (p = {check.p_value:.2g})",
            "warning",
            {"statistic": check.statistic, "p_value": check.p_value},
        )
        for check in against(checks, DOUBT / max(deciding, 1))
    ]


def _undetermined(known: Parameters, end: End) -> list[Message]:
    """Say which parameters may lie anywhere between their bounds."""
    low, high = known.coordinate_bounds
    reach = interval_reach(np.sqrt(np.diag(end.covariance)), end.noise.freedom)
    wide = (end.coordinates - reach <= low) & (end.coordinates + reach >= high)
    if not wide.any():
        return []
    names = ", ".join(name for name, open_ends in zip(known, wide, strict=True) if open_ends)
    text = f"these data do not determine {names}: the 95% interval reaches both bounds"
    return [Message("refine.not_determined", text, "warning")]


def _messages(known: Parameters, path: Path, end: End, status: str) -> list[Message]:
    """Say where a refinement did not succeed, and why."""
    found, count = _undetermined(known, end), len(end.data)
    weight, residual = path.weight[-1], path.residual[-1]
    if np.isfinite(end.noise.freedom):
        text = f"the noise was estimated from the misfit of the refined field, {end.level:.3g}"
        found.append(Message("noise.estimated", text, "info", {"noise": end.level}))
    found += _misfits(end)
    if count - end.coordinates.size - end.free < LEAST_LEFT:
        text = (
            f"{count} readings decide on {end.coordinates.size} parameters and about "
            f"{end.free:.0f} directions of the field: none is left that could contradict them"
        )
        found.append(Message("refine.few_readings", text, "warning", {"readings": count}))
    share = equation_share(weight, residual, count)
    if share > UNSATISFIED:
        text = (
            f"the field does not obey the equation well enough: its term is {share:.3g} times the "
            "number of observations. Smoother conditions may help; a network needs more weights "
            "and points"
        )
        found.append(Message("refine.residual", text, "warning", {"share": share}))
    if status == NOT_SETTLED:
        text = "the parameters still moved by more than a tenth of a standard error at the end"
        found.append(Message("refine.not_settled", text, "warning"))
    if status == ON_BOUND:
        text = "a parameter ended on a bound: widen the bounds, or the data do not determine it"
        found.append(Message("refine.on_bound", text, "warning"))
    return found
