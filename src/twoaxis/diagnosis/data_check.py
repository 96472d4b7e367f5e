"""The data of this one field: the matched fit to them, and the forward model against them.

Before any diagnosis users ask one thing: if the delivered parameter is put back into the forward
model, does it explain the data? And what would the matched estimator have found with the same
data? The difference of the two errors is what the neural pipeline adds.

Where there are nuisance parameters, a value is one of the parameters of interest: nuisance
parameters are fitted again at each of them, so that a deviance is that of the profile likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from twoaxis.diagnosis.field_check import (
    field_group,
    fields_of,
    fitted_values,
    grouped,
    observations_given,
    observations_group,
    observed_alone,
)
from twoaxis.diagnosis.questions import FIELD_FAR, LEVEL
from twoaxis.errors import InputError
from twoaxis.io import Layout, Variable, labelled
from twoaxis.labels import aligned
from twoaxis.observations import Observations
from twoaxis.parameters import Center, Parameters
from twoaxis.resolution import Resolution
from twoaxis.resolution.data_fit import (
    DataFit,
    LiveModel,
    Observed,
    deviation,
    minima_messages,
    noise_free_messages,
)
from twoaxis.resolution.layouts import ALL_LAYOUTS, Missing, output_points
from twoaxis.result import Message
from twoaxis.statistics import squares_above
from twoaxis.text import percent

if TYPE_CHECKING:
    from twoaxis.diagnosis.result import Audit

FloatArray = NDArray[np.float64]

_P, _V = ("parameter",), ("value_of",)
_NAMES = Variable(_P, "text", "name of the parameter")
_OTHER = ("other",)
MATCHED_LAYOUT: Layout = {
    "parameter": _NAMES,
    "estimate": Variable(
        _P, "float", "matched estimate from the data; NaN: not a parameter of the forward model"
    ),
    "lower": Variable(_P, "float", "lower end of its likelihood-profile interval"),
    "upper": Variable(_P, "float", "upper end of its likelihood-profile interval"),
    "open_lower": Variable(_P, "bool", "the interval reaches the lower end of the usable range"),
    "open_upper": Variable(_P, "bool", "the interval reaches the upper end of the usable range"),
    "level": Variable((), "float", "confidence level of the interval", finite=True),
    "noise_scale": Variable((), "float", "RMS residual of the matched fit"),
    "difference_percent": Variable(
        _P, "float", "delivered relative to matched, signed; NaN: none delivered", "%"
    ),
    "deviation_percent": Variable(_P, "float", "matched error; NaN: no truth", "%"),
    "excess_percent": Variable(
        _P, "float", "delivered error minus matched error, in points; NaN: not known", "%"
    ),
    "other": Variable(_OTHER, "text", "nuisance parameter of the forward model alone"),
    "other_estimate": Variable(_OTHER, "float", "its matched estimate"),
    "other_lower": Variable(_OTHER, "float", "lower end of its likelihood-profile interval"),
    "other_upper": Variable(_OTHER, "float", "upper end of its likelihood-profile interval"),
}
CHECK_LAYOUT: Layout = {
    "check": Variable(("check",), "text", "what is checked of the residuals of the matched fit"),
    "statistic": Variable(("check",), "float", "value of the test statistic"),
    "p_value": Variable(("check",), "float", "probability of a larger one by chance"),
    "meaning": Variable(("check",), "text", "what a failed check means"),
}
LIKELIHOOD_LAYOUT: Layout = {
    "parameter": _NAMES,
    "value": Variable(
        ("parameter", "candidate"), "float", "values of the parameter; NaN: of no interest"
    ),
    "deviance": Variable(
        ("parameter", "candidate"), "float", "deviance of the profile likelihood; NaN: failed"
    ),
}
RESIMULATION_LAYOUT: Layout = {
    "parameter": _NAMES,
    "value_of": Variable(_V, "text", "which value was simulated"),
    "value": Variable(
        ("value_of", "parameter"), "float", "that value; nuisance parameters are fitted to it"
    ),
    "chi_square": Variable(_V, "float", "whitened sum of squares against the data; NaN: failed"),
    "freedom": Variable(_V, "int", "observations minus fitted parameters"),
    "reduced_chi_square": Variable(_V, "float", "chi_square / freedom"),
    "rms": Variable(_V, "float", "RMS misfit in standard deviations of the noise"),
    "deviance": Variable(_V, "float", "chi_square minus that of the matched fit"),
    "p_value": Variable(_V, "float", "probability of such a deviance; NaN: noise-free data"),
    "status": Variable(_V, "text", '"simulated", or the reason of the failure'),
}

NO_FORWARD = Message(
    "data.no_forward_model",
    "the resolution was loaded from a file and has no forward model, so the data are neither "
    "fitted nor simulated; pass what twoaxis.resolve(...) returned in this session",
)
NO_RESOLUTION = Message(
    "data.no_resolution",
    "data are given without a forward model to compare them with; add "
    "resolution=twoaxis.resolve(forward, parameters, noise=...), or, if you have no solver, audit "
    "what twoaxis.refine(frozen, data) returns",
)
OTHER_FITTED = Message(
    "data.other_fitted",
    "the frozen residual predicts other observations than the data, so it is not said how well the "
    "field fits them; add fitted=..., what the trained field predicts for each of the data",
)
SAVED_FIT = Message(
    "data.saved_fit",
    "the matched estimate is the one that the resolution was saved with; without its forward "
    "model nothing is simulated",
)


def _no_noise(data: Observations, subject: Subject) -> Message:
    """Say how far the field is from data of unknown noise, where its predictions are known."""
    add = "add noise=..., or a resolution"
    fitted = None
    if not (subject.fitted is None or isinstance(subject.fitted, Mapping)):
        fitted = aligned("fitted", subject.fitted, data.labels).ravel()
    if fitted is None or fitted.size != data.values.size:
        text = "the noise of the data is not known, so it cannot be said how well the field fits"
        return Message("data.no_noise", f"{text} them; {add}")
    size, rest = deviation(data.readings), fitted[data.kept.ravel()] - data.readings
    left = float(np.sqrt(np.mean(rest**2))) / size if size else np.nan
    text = (
        f"the field misses the data by {percent(100 * left)} of their standard deviation (RMS); "
        f"their noise is not known, so that it cannot be said whether that is much; {add}"
    )
    return Message("data.no_noise", text, numbers={"relative_misfit": left})


def _several_layouts(resolution: Resolution) -> Message:
    names = resolution.layout_names
    text = (
        "the resolution has fits to the data of several layouts; name the one that the field was "
        f'trained on, as in layout="{names[0]}"'
    )
    return Message("data.several_layouts", text, numbers={"layouts": len(names)})


# Values at which a profile likelihood is drawn, and how far from the estimate they lie at most, in
# widths of its interval.
CANDIDATES = 41
FAR = 10.0


@dataclass(frozen=True, eq=False)
class Matching:
    """What the data of the field say.

    Attributes
    ----------
    groups : dict of str to xarray.Dataset
        The groups ``/matched``, ``/checks``, ``/resimulation``, ``/likelihood``,
        ``/observations`` and ``/field_fit``, as far as they are known.
    messages : tuple of Message
    """

    groups: dict[str, xr.Dataset] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, eq=False)
class Subject:
    """What the data are compared with.

    Attributes
    ----------
    parameters : Parameters
        The audited ones.
    center : Center
    preferred : mapping of str to float or None, optional
        The values that the field prefers under its training view; None where it does not see a
        parameter.
    fitted : array, optional
        What the field predicts for the observations.
    axes : sequence of str
        Names of the coordinates of the field.
    observed : array, shape (n, k), optional
        Where the observations lie, if the frozen residual knows.
    fields : sequence of str
        Names of the observed fields.
    certain : bool
        Whether the user gave `fitted`. What a frozen residual carries is left aside where it
        does not belong to the data.
    """

    parameters: Parameters
    center: Center
    preferred: Mapping[str, float | None] | None = None
    fitted: Any = None
    axes: Sequence[str] = ()
    observed: FloatArray | None = None
    fields: Sequence[str] = ()
    certain: bool = True

    def axis_names(self, points: FloatArray, index: FloatArray) -> list[str]:
        """Return names of the coordinates of observations (n, k) with these indices (n, ...).

        They are those of the field, unless the points are nothing but the indices.
        """
        names, count = [str(name) for name in self.axes], points.shape[1]
        bare = points.shape == index.shape and bool((points == index).all())
        if len(names) == count and not bare:
            return names
        return ["index"] if count == 1 else [f"index {k}" for k in range(count)]


def resolution_for(
    resolution: Resolution | None, parameters: Parameters, layout: object
) -> tuple[Resolution | None, str | None]:
    """Return a resolution of the audited parameters, and the name of its layout."""
    if resolution is None:
        if layout is not None:
            raise InputError(
                "a resolution that has layouts",
                f"layout={layout!r} and no resolution",
                "pass resolution=twoaxis.resolve(...), or leave layout out",
            )
        return None, None
    if not isinstance(resolution, Resolution):
        raise InputError(
            "what twoaxis.resolve returned as resolution",
            type(resolution).__name__,
            "pass resolution=twoaxis.resolve(forward, parameters, noise=...)",
        )
    chosen = None if layout is None else str(layout)
    resolution.select(resolution.names[0], chosen)  # an unknown layout is refused here
    return resolution.in_order_of(parameters), chosen


def match(
    resolution: Resolution | None,
    layout: str | None,
    data: ArrayLike | Mapping[Any, ArrayLike] | Observations | None,
    noise: ArrayLike | None,
    subject: Subject,
    missing: Missing = "raise",
) -> Matching:
    """Fit and simulate the data, and compare the field with them, as far as the parts allow."""
    live = None if resolution is None else resolution.live
    if live is not None and data is not None and data is live.setup.observations:
        data = None  # those of the resolution
    if live is None and data is not None:
        alone = _without_model(data, noise, subject, missing)
        return alone if resolution is None else _joined(alone, NO_FORWARD)
    if noise is not None:
        raise InputError(
            "noise for data without a forward model",
            "noise=... and no data"
            if resolution is None
            else "noise=... beside a resolution, which has its noise",
            "pass data=..., or leave noise out"
            if resolution is None
            else "leave noise out, or pass it to twoaxis.resolve",
        )
    if resolution is None:
        return Matching()
    chosen = data if data is not None else live.data if live is not None else None
    if live is None or chosen is None:
        return _from_file(resolution, layout, subject)
    if data is None and layout is None and len(resolution.layout_names) > 1:
        return Matching(messages=(_several_layouts(resolution),))
    level = float(resolution.data.attrs["level"])
    observed = live.observed(chosen, layout, missing)
    return _from_live(live, observed, level, subject, own=data is None)


def _joined(found: Matching, *messages: Message) -> Matching:
    return Matching(found.groups, (*found.messages, *messages))


def _without_model(
    data: ArrayLike | Mapping[Any, ArrayLike] | Observations,
    noise: ArrayLike | None,
    subject: Subject,
    missing: Missing,
) -> Matching:
    """Compare the field with data for which there is no forward model."""
    if isinstance(data, Mapping):
        return Matching(messages=(NO_RESOLUTION,))
    observations = observations_given(data, noise, missing)
    _check_count(observations, subject)
    observed = observed_alone(observations)
    if observed is None:
        return Matching(messages=(NO_RESOLUTION, _no_noise(observations, subject)))
    groups, messages = _of_field(observed, None, observations.values.shape, {}, subject)
    return Matching(groups, (NO_RESOLUTION, *observed.messages, *messages))


def _check_count(data: Observations, subject: Subject) -> None:
    """Refuse another number of data than the frozen residual predicts, missing ones included."""
    if subject.certain or subject.fitted is None or isinstance(subject.fitted, Mapping):
        return
    count = np.size(subject.fitted)
    if count not in (data.values.size, data.count):
        raise InputError(
            f"data with the {count} observations that the frozen residual predicts",
            f"{data.values.size} values",
            "pass the data that the field was trained on, in the order of observed; for others "
            "add fitted=..., what the trained field predicts for each of them",
        )


def _where_observed(index: FloatArray, shape: tuple[int, ...], subject: Subject) -> FloatArray:
    """Return points of observations of which the indices (n, k) are known, as far as possible.

    A frozen residual that knows where they lie has a row for each entry of the first axis of the
    data; other axes, such as several fields, keep their index.
    """
    if subject.observed is None or not shape or len(subject.observed) != shape[0]:
        return index
    return np.column_stack([subject.observed[index[:, 0].astype(int)], index[:, 1:]])


def _of_field(
    observed: Observed,
    points: FloatArray | None,
    shape: tuple[int, ...],
    predictions: Mapping[str, FloatArray],
    subject: Subject,
) -> tuple[dict[str, xr.Dataset], list[Message]]:
    """Return ``/observations``, and ``/field_fit`` where the field's predictions are known."""
    sites = observed.layout.sites
    fields = fields_of(sites, shape, subject.fields)
    index = np.column_stack(np.unravel_index(sites, shape or (1,))).astype(float)
    if points is None:
        points = _where_observed(index, shape, subject)
        if len(fields.names) > 1:  # the last index is the field
            points, index = points[:, :-1], index[:, :-1]
    axes = subject.axis_names(points, index)
    alone = {"/observations": observations_group(observed, points, axes, predictions, fields)}
    if subject.fitted is None:
        return alone, []
    try:
        fitted = fitted_values(subject.fitted, observed, shape)
    except InputError:
        if subject.certain:
            raise
        return alone, [OTHER_FITTED]
    misfit = observed.layout.white(observed.values - fitted)
    both = {"field": fitted, **predictions}
    return {
        "/observations": observations_group(observed, points, axes, both, fields),
        "/field_fit": field_group(misfit, grouped(points, axes, fields), observed.layout.freedom),
    }, []


def _from_live(
    live: LiveModel, observed: Observed, level: float, subject: Subject, *, own: bool
) -> Matching:
    """Fit and simulate observations; `own` are those of the resolution."""
    fit = live.fit(observed)
    parameters, center = subject.parameters, subject.center
    known = Parameters(live.setup.parameters)
    ends = {
        name: known.physical(each[0])
        for name, each in (
            ("estimate", fit.fits.estimate),
            ("lower", fit.fits.lower),
            ("upper", fit.fits.upper),
        )
        if each is not None  # a fit to data always has its sets
    }
    opens = {name: np.asarray(getattr(fit.fits, name))[0] for name in ("open_lower", "open_upper")}
    place = {name: j for j, name in enumerate(known)}
    rows = [place.get(name, -1) for name in parameters]
    others = [name for name in known if name not in parameters]

    def audited(array: Any, absent: Any) -> Any:
        return np.array([absent if j < 0 else array[j] for j in rows])

    estimate = audited(ends["estimate"], np.nan)
    layout = "" if observed.layout.name == ALL_LAYOUTS else observed.layout.name
    matched = labelled(
        MATCHED_LAYOUT,
        {
            "parameter": parameters.names,
            **{name: audited(array, np.nan) for name, array in ends.items()},
            **{name: audited(array, True) for name, array in opens.items()},
            "level": level,
            "noise_scale": fit.noise_scale,
            **_comparison(estimate, parameters, center),
            "other": others,
            **{
                f"other_{name}": np.array([array[place[n]] for n in others], dtype=float)
                for name, array in ends.items()
            },
        },
        {"layout": layout},
    )
    interest = [name for name in parameters.of_interest if name in known]
    candidates = {"matched": known.named(ends["estimate"])}
    if parameters.delivered is not None:
        candidates = {"delivered": dict(parameters.delivered), **candidates}
    preferred = {n: v for n, v in (subject.preferred or {}).items() if v is not None}
    if set(interest) <= set(preferred):
        candidates["preferred"] = _inside(known, interest, preferred)
    if center.kind == "truth":
        candidates["truth"] = center.values
    asked = {
        label: {n: values[n] for n in (known if label == "matched" else interest)}
        for label, values in candidates.items()
    }
    again, predictions = _resimulate(
        live, observed, asked, parameters, len(interest), layout, fit.noise_free
    )
    messages = [
        Message(
            "data.not_simulated", f"the {label} value could not be simulated: {status}", "warning"
        )
        for label, status in zip(again["value_of"].values, again["status"].values, strict=True)
        if status != "simulated"
    ]
    checks = labelled(
        CHECK_LAYOUT,
        {
            "check": [check.name for check in fit.checks],
            "statistic": np.array([check.statistic for check in fit.checks]),
            "p_value": np.array([check.p_value for check in fit.checks]),
            "meaning": [check.meaning for check in fit.checks],
        },
        {},
    )
    shape = live.setup.model.shape
    bare = np.array_equal(live.setup.points, output_points(None, shape))  # nobody gave points
    points = None if bare else live.setup.points[observed.layout.sites]
    of_field, doubts = _of_field(observed, points, shape, predictions, subject)
    groups = {
        "/matched": matched,
        "/checks": checks,
        "/resimulation": again,
        "/likelihood": _likelihood(
            live, observed, fit, matched, subject, near=_field_fails(of_field)
        ),
        **of_field,
    }
    if not own:  # of its own data the resolution says it
        values = {fit.layout: observed.values}
        messages += noise_free_messages([fit], values, live.noise, live.setup.noise is None)
        messages += minima_messages(known, [fit])
    return Matching(groups, (*messages, *observed.messages, *doubts))


def _inside(
    known: Parameters, interest: Sequence[str], values: Mapping[str, float]
) -> dict[str, float]:
    """Return values of the parameters of interest, clipped to the bounds of the forward model."""
    return {n: float(np.clip(values[n], *known[n].bounds)) for n in interest}


def _field_fails(of_field: Mapping[str, xr.Dataset]) -> bool:
    """Whether the field misses the data: its delivered value is then not compared with them."""
    fit = of_field.get("/field_fit")
    return fit is not None and bool((fit["rms"] > FIELD_FAR) & (fit["p_above"] < 1 - LEVEL))


def _likelihood(
    live: LiveModel,
    observed: Observed,
    fit: DataFit,
    matched: xr.Dataset,
    subject: Subject,
    *,
    near: bool,
) -> xr.Dataset:
    """Return the profile likelihood of every parameter of interest, around its estimate.

    It reaches from the interval of the matched fit about as far again on both sides, and to the
    delivered value where that is not much further: refits far away take the most model runs, and
    no picture shows how improbable such a value is. With `near` it stays where the interpolant of
    the model is accurate.
    """
    parameters = subject.parameters
    values = np.full((len(parameters), CANDIDATES), np.nan)
    deviance = np.full_like(values, np.nan)
    for j, (name, parameter) in enumerate(parameters.items()):
        if parameter.nuisance or name not in live.setup.parameters:
            continue
        model = live.setup.parameters[name]
        low, best, high = (
            float(model.to_coordinate(float(matched[n].values[j])))
            for n in ("lower", "estimate", "upper")
        )
        ends = [low - (best - low), high + (high - best)]
        if parameter.delivered is not None and not near:
            far = FAR * (high - low)
            delivered = float(model.to_coordinate(parameter.delivered))
            ends.append(min(max(delivered, best - far), best + far))
        least, most = model.coordinate_bounds
        around = np.linspace(max(min(ends), least), min(max(ends), most), CANDIDATES)
        values[j] = np.clip(model.to_value(around), *model.bounds)
        deviance[j] = live.profile(observed, name, values[j], fit, refits=not near)
    found = {"parameter": parameters.names, "value": values, "deviance": deviance}
    return labelled(LIKELIHOOD_LAYOUT, found, {})


def _from_file(resolution: Resolution, layout: str | None, subject: Subject) -> Matching:
    """Take the matched fit that was made with the resolution, where there is one."""
    parameters, center = subject.parameters, subject.center
    data = resolution.data if layout is None else resolution.data.sel(layout=[layout])
    if "data_estimate" not in data:
        return Matching()
    if data.sizes["layout"] > 1:
        return Matching(messages=(_several_layouts(resolution),))
    one = data.isel(layout=0)
    place = {name: j for j, name in enumerate(resolution.parameters)}

    def audited(name: str, absent: Any) -> Any:
        array = one[name].values
        return np.array([array[place[n]] if n in place else absent for n in parameters])

    estimate = audited("data_estimate", np.nan)
    values = {
        "parameter": parameters.names,
        "estimate": estimate,
        **{n: audited(f"data_set_{n}", np.nan) for n in ("lower", "upper")},
        **{n: audited(f"data_set_{n}", True) for n in ("open_lower", "open_upper")},
        "level": float(data.attrs["level"]),
        "noise_scale": float(one["data_noise_scale"]),
        **_comparison(estimate, parameters, center),
        "other": [],
        **{f"other_{name}": np.empty(0) for name in ("estimate", "lower", "upper")},
    }
    found = labelled(MATCHED_LAYOUT, values, {"layout": str(one["layout"].values)})
    return Matching({"/matched": found}, (SAVED_FIT,))


def _comparison(
    estimate: FloatArray, parameters: Parameters, center: Center
) -> dict[str, FloatArray]:
    """Compare delivered and matched; with the truth as well, where the audit knows it."""
    unknown = np.full(len(parameters), np.nan)
    difference = own = excess = unknown
    delivered = parameters.delivered
    if delivered is not None:
        difference = np.array(
            [
                p.percent_from(delivered[name], matched, center.values[name])
                for (name, p), matched in zip(parameters.items(), estimate.tolist(), strict=True)
            ]
        )
    if center.kind == "truth":
        own = np.abs(parameters.percent(estimate, center.values))
        if delivered is not None:
            excess = np.abs(parameters.percent(list(delivered.values()), center.values)) - own
    return {"difference_percent": difference, "deviation_percent": own, "excess_percent": excess}


def _resimulate(
    live: LiveModel,
    observed: Observed,
    values: Mapping[str, Mapping[str, float]],
    parameters: Parameters,
    interest: int,
    layout: str,
    noise_free: bool,
) -> tuple[xr.Dataset, dict[str, FloatArray]]:
    """Return the misfit of the forward model at each value, and its predictions there."""
    found = {label: live.misfit(observed, point) for label, point in values.items()}
    basic = {
        "parameter": parameters.names,
        "value_of": list(found),
        "value": [[each.values.get(n, np.nan) for n in parameters] for each in found.values()],
        "chi_square": np.array([float(e.residuals @ e.residuals) for e in found.values()]),
        "status": [each.reason or "simulated" for each in found.values()],
    }
    about = {
        "layout": layout,
        "observations": len(observed.values),
        "fitted": len(live.setup.parameters),
        "held": interest,
        "noise_freedom": observed.layout.freedom,
        "noise_free": int(noise_free),
    }
    group = labelled(RESIMULATION_LAYOUT, {**basic, **_misfits(basic, about)}, about)
    predictions = {
        label: observed.values - observed.layout.white.color(each.residuals)
        for label, each in found.items()
        if label in ("matched", "delivered") and not each.reason
    }
    return group, predictions


def _misfits(basic: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what follows from the sums of squares.

    With d fitted parameters, of which h are of interest and held at a value, the freedom is
    n - (d - h) there and n - d at the matched estimate, and the deviance follows chi-square with
    h degrees of freedom. Where the noise was estimated from f degrees of freedom, a deviance over h
    follows F with h and f: for a linear model exactly. Noise-free data have no probabilities.
    """
    kinds = list(map(str, basic["value_of"]))
    chi_square = np.asarray(basic["chi_square"], dtype=float)
    count, dimension, held = (int(about[n]) for n in ("observations", "fitted", "held"))
    free = [dimension if kind == "matched" else dimension - held for kind in kinds]
    freedom = np.maximum(count - np.array(free), 1)
    # A bank's estimate may miss the minimum slightly: no value is better than the best.
    deviance = np.maximum(chi_square - chi_square[kinds.index("matched")], 0.0)
    p_value = squares_above(deviance, held, float(about["noise_freedom"]))
    return {
        "freedom": freedom,
        "reduced_chi_square": chi_square / freedom,
        "rms": np.sqrt(chi_square / count),
        "deviance": deviance,
        "p_value": np.full(len(kinds), np.nan) if about["noise_free"] else p_value,
    }


def derived_of_data(audit: Audit) -> dict[str, Any]:
    """Return variables of ``/matched`` and ``/resimulation`` that follow from the others."""
    found: dict[str, Any] = {}
    matched, again = audit.group("/matched"), audit.group("/resimulation")
    if matched is not None:
        values = _comparison(matched["estimate"].values, audit.parameters, audit.center)
        found |= {f"/matched/{name}": value for name, value in values.items()}
    if again is not None:
        basic = {n: again[n].values for n in ("parameter", "value_of", "chi_square")}
        values = _misfits(basic, again.attrs)
        found |= {f"/resimulation/{name}": value for name, value in values.items()}
    return found
