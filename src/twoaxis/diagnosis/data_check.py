"""The data of this one field: the matched fit to them, and the forward model against them.

Before any diagnosis users ask one thing: if the delivered parameter is put back into the forward
model, does it explain the data? And what would the matched estimator have found with the same
data? The difference of the two errors is what the neural pipeline adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from twoaxis.errors import InputError
from twoaxis.io import Layout, Variable, labelled
from twoaxis.parameters import Center, Parameters
from twoaxis.resolution import Resolution
from twoaxis.resolution.data_fit import LiveModel, Observed
from twoaxis.resolution.layouts import ALL_LAYOUTS
from twoaxis.resolution.misfit import ALARM
from twoaxis.result import Message

if TYPE_CHECKING:
    from twoaxis.diagnosis.result import Audit

FloatArray = NDArray[np.float64]

_P, _V = ("parameter",), ("value_of",)
_NAMES = Variable(_P, "text", "name of the parameter")
MATCHED_LAYOUT: Layout = {
    "parameter": _NAMES,
    "estimate": Variable(_P, "float", "matched estimate from the data", finite=True),
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
}
RESIMULATION_LAYOUT: Layout = {
    "parameter": _NAMES,
    "value_of": Variable(_V, "text", "which value was simulated"),
    "value": Variable(("value_of", "parameter"), "float", "that value", finite=True),
    "chi_square": Variable(_V, "float", "whitened sum of squares against the data; NaN: failed"),
    "freedom": Variable(_V, "int", "observations minus fitted parameters"),
    "reduced_chi_square": Variable(_V, "float", "chi_square / freedom"),
    "rms": Variable(_V, "float", "RMS misfit in standard deviations of the noise"),
    "deviance": Variable(_V, "float", "chi_square minus that of the matched fit"),
    "p_value": Variable(_V, "float", "probability of such a deviance if the value were right"),
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
    "resolution=twoaxis.resolve(forward, parameters, noise=...)",
)
SAVED_FIT = Message(
    "data.saved_fit",
    "the matched estimate is the one that the resolution was saved with; without its forward "
    "model nothing is simulated",
)


def _several_layouts(resolution: Resolution) -> Message:
    names = resolution.layout_names
    text = (
        "the resolution has fits to the data of several layouts; name the one that the field was "
        f'trained on, as in layout="{names[0]}"'
    )
    return Message("data.several_layouts", text, numbers={"layouts": len(names)})


@dataclass(frozen=True, eq=False)
class Matching:
    """What the data of the field say.

    Attributes
    ----------
    matched, resimulation : xarray.Dataset, optional
        The groups ``/matched`` and ``/resimulation``.
    messages : list of Message
    """

    matched: xr.Dataset | None = None
    resimulation: xr.Dataset | None = None
    messages: tuple[Message, ...] = ()


def resolution_for(
    resolution: Resolution | None, parameters: Parameters, layout: object
) -> tuple[Resolution | None, str | None]:
    """Return a resolution in the order of the audited parameters, and the name of its layout."""
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
    if set(resolution.names) != set(parameters):
        raise InputError(
            f"a resolution of the parameters {', '.join(parameters)}",
            f"one of {', '.join(resolution.names)}",
            "resolve the same parameters that the residual takes",
        )
    chosen = None if layout is None else str(layout)
    resolution.select(resolution.names[0], chosen)  # an unknown layout is refused here
    names = parameters.names
    data = resolution.data.sel(parameter=names, other_parameter=names)
    return Resolution(data, resolution.live), chosen


def match(
    resolution: Resolution | None,
    layout: str | None,
    data: ArrayLike | Mapping[Any, ArrayLike] | None,
    parameters: Parameters,
    center: Center,
) -> Matching:
    """Fit and simulate the data, as far as the given parts allow."""
    if resolution is None:
        return Matching(messages=() if data is None else (NO_RESOLUTION,))
    live = resolution.live
    if live is None and data is not None:
        return Matching(messages=(NO_FORWARD,))
    chosen = data if data is not None else live.data if live is not None else None
    if live is None or chosen is None:
        return _from_file(resolution, layout, parameters, center)
    if data is None and layout is None and len(resolution.layout_names) > 1:
        return Matching(messages=(_several_layouts(resolution),))
    level = float(resolution.data.attrs["level"])
    return _from_live(live, live.observed(chosen, layout), level, parameters, center)


def _from_live(
    live: LiveModel, observed: Observed, level: float, parameters: Parameters, center: Center
) -> Matching:
    fit = live.fit(observed)
    order = [list(live.setup.parameters).index(name) for name in parameters]
    fits: Any = fit.fits  # with its sets, which a fit to data always has
    estimate, lower, upper = (
        parameters.physical(each[0][order]) for each in (fits.estimate, fits.lower, fits.upper)
    )
    name = "" if observed.layout.name == ALL_LAYOUTS else observed.layout.name
    matched = labelled(
        MATCHED_LAYOUT,
        {
            "parameter": parameters.names,
            "estimate": estimate,
            "lower": lower,
            "upper": upper,
            "open_lower": fits.open_lower[0][order],
            "open_upper": fits.open_upper[0][order],
            "level": level,
            "noise_scale": fit.noise_scale,
            **_comparison(estimate, parameters, center),
        },
        {"layout": name},
    )
    values = {"matched": parameters.named(estimate)}
    if parameters.delivered is not None:
        values = {"delivered": parameters.delivered, **values}
    if center.kind == "truth":
        values["truth"] = center.values
    messages = [
        Message(
            f"data.{check.name}",
            f"the matched fit to the data: {check.meaning} (p = {check.p_value:.2g})",
            "warning",
            {"p_value": check.p_value},
        )
        for check in fit.checks
        if check.p_value * len(fit.checks) < ALARM
    ]
    again = _resimulate(live, observed, values, parameters, name)
    messages += [
        Message(
            "data.not_simulated", f"the {label} value could not be simulated: {status}", "warning"
        )
        for label, status in zip(again["value_of"].values, again["status"].values, strict=True)
        if status != "simulated"
    ]
    return Matching(matched, again, tuple(messages))


def _from_file(
    resolution: Resolution, layout: str | None, parameters: Parameters, center: Center
) -> Matching:
    """Take the matched fit that was made with the resolution, where there is one."""
    data = resolution.data if layout is None else resolution.data.sel(layout=[layout])
    if "data_estimate" not in data:
        return Matching()
    if data.sizes["layout"] > 1:
        return Matching(messages=(_several_layouts(resolution),))
    one = data.isel(layout=0)
    estimate = one["data_estimate"].values
    values = {
        "parameter": parameters.names,
        "estimate": estimate,
        **{
            name: one[f"data_set_{name}"].values
            for name in ("lower", "upper", "open_lower", "open_upper")
        },
        "level": float(data.attrs["level"]),
        "noise_scale": float(one["data_noise_scale"]),
        **_comparison(estimate, parameters, center),
    }
    found = labelled(MATCHED_LAYOUT, values, {"layout": str(one["layout"].values)})
    return Matching(found, None, (SAVED_FIT,))


def _comparison(
    estimate: FloatArray, parameters: Parameters, center: Center
) -> dict[str, FloatArray]:
    """Compare delivered and matched; with the truth as well, where the audit knows it."""
    unknown = np.full(len(parameters), np.nan)
    difference = own = excess = unknown
    delivered = parameters.delivered
    if delivered is not None:
        difference = parameters.percent(list(delivered.values()), parameters.named(estimate))
    if center.kind == "truth":
        own = np.abs(parameters.percent(estimate, center.values))
        if delivered is not None:
            excess = np.abs(parameters.percent(list(delivered.values()), center.values)) - own
    return {"difference_percent": difference, "deviation_percent": own, "excess_percent": excess}


def _resimulate(
    live: LiveModel,
    observed: Observed,
    values: dict[str, dict[str, float]],
    parameters: Parameters,
    layout: str,
) -> xr.Dataset:
    """Whitened misfit of the forward model at each value."""
    count = len(observed.values)
    residuals, reasons = {}, {}
    for label, point in values.items():
        residuals[label], reasons[label], _ = live.misfit(observed, point)
    basic = {
        "parameter": parameters.names,
        "value_of": list(values),
        "value": [[point[name] for name in parameters] for point in values.values()],
        "chi_square": np.array([float(r @ r) for r in residuals.values()]),
        "status": [reasons[label] or "simulated" for label in values],
    }
    about = {"layout": layout, "observations": count}
    return labelled(RESIMULATION_LAYOUT, {**basic, **_misfits(basic, count)}, about)


def _misfits(basic: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return what follows from the sums of squares."""
    kinds = list(map(str, basic["value_of"]))
    chi_square = np.asarray(basic["chi_square"], dtype=float)
    dimension = len(basic["parameter"])
    freedom = np.array([max(count - (dimension if k == "matched" else 0), 1) for k in kinds])
    # A bank's estimate may miss the minimum slightly: no value is better than the best.
    deviance = np.maximum(chi_square - chi_square[kinds.index("matched")], 0.0)
    return {
        "freedom": freedom,
        "reduced_chi_square": chi_square / freedom,
        "rms": np.sqrt(chi_square / count),
        "deviance": deviance,
        "p_value": chdtrc(dimension, deviance),
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
        values = _misfits(basic, int(again.attrs["observations"]))
        found |= {f"/resimulation/{name}": value for name, value in values.items()}
    return found
