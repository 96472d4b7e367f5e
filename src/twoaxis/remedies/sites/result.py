"""The suggested sites as their reader meets them: labelled, predicted, ready to be verified.

Put what was chosen and predicted under labels.

The parameter values for which a layout is designed.

How much an observation knows depends on the parameter, which is what is sought. A design
therefore belongs to one value (a truth, a delivered value), to several candidates, or to an
interval that axis 1 leaves open. An interval becomes points: the midpoints of equal parts of it
in the parameter's coordinate. Several intervals are filled by a Halton sequence.

Is the predicted error true? Refits of simulated data on the suggested layout answer it.

For each parameter value, `twoaxis.resolve` adds noise to the noise-free observations of the
layout, fits them again and takes the mean error; a bootstrap over the replicas gives its interval.
The prediction is first order: it fails where the error is so large that the model bends within it.

The forward model at a few sites, for the refits that verify a layout.

The candidates may be a whole field, of which a layout keeps a handful of entries. For one
parameter the refits at several design points share one bank of solved values; what has been
solved is therefore kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import qmc

from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.parameters import Parameter, Parameters
from twoaxis.remedies.sites.search import (
    Criterion,
    Free,
    Rules,
    exchange,
    greedy,
    mean_error_percent,
    total,
    unpacked,
)
from twoaxis.resolution import Resolution, resolve

FloatArray = NDArray[np.float64]

HOW = (
    'write at={"nu": 0.01} for one point, at={"nu": (0.005, 0.02)} for an interval, or a list of '
    "points for several candidates"
)


@dataclass(frozen=True)
class DesignPoints:
    """Parameter values that count alike in the design.

    Attributes
    ----------
    kind : {"truth", "delivered", "point", "interval", "candidates"}
    values : list of dict of str to float
        In physical units.
    coordinates : array, shape (P, d)
    units : array, shape (P, d)
        The step in each coordinate that stands for 100 percent.
    """

    kind: str
    values: list[dict[str, float]]
    coordinates: FloatArray
    units: FloatArray


def design_points(parameters: Mapping[str, Parameter], at: Any, count: int) -> DesignPoints:
    """Read `at` as one point, several candidates or an interval of `count` points."""
    if isinstance(at, Sequence) and not isinstance(at, str):
        if not at or not all(isinstance(one, Mapping) for one in at):
            raise InputError("candidates as mappings from names to values", f"at={at!r}", HOW)
        values = [Parameters(parameters).center(one).values for one in at]
        kind = "candidates" if len(values) > 1 else "point"
    elif isinstance(at, Mapping) and any(np.ndim(value) for value in at.values()):
        values, kind = _interval(parameters, at, count), "interval"
    elif at is None or isinstance(at, (str, Mapping)):
        center = Parameters(parameters).center(at)
        values, kind = [center.values], center.kind
    else:
        raise InputError(
            '"truth", "delivered", a point, an interval or candidates', f"at={at!r}", HOW
        )
    coordinates = [
        [float(p.to_coordinate(one[n])) for n, p in parameters.items()] for one in values
    ]
    units = [[p.unit(one[n]) for n, p in parameters.items()] for one in values]
    return DesignPoints(kind, values, np.array(coordinates), np.array(units))


def _interval(
    parameters: Mapping[str, Parameter], at: Mapping[str, Any], count: int
) -> list[dict[str, float]]:
    """Fill the intervals that `at` names; single values in it stay fixed."""
    ends = {name: _ends(name, value) for name, value in at.items()}
    # Each end is checked like a point of its own: names, bounds, finite numbers.
    lows, highs = (
        Parameters(parameters).center({n: e[i] for n, e in ends.items()}).values for i in (0, 1)
    )
    open_names = [name for name in parameters if lows[name] < highs[name]]
    backwards = [name for name in parameters if lows[name] > highs[name]]
    if backwards or not open_names:
        raise InputError(
            "an interval with the lower end first",
            f"at={at!r}",
            HOW,
        )
    if len(open_names) == 1:
        places = (np.arange(count)[:, None] + 0.5) / count
    else:  # the first Halton point is a corner of the box; it is left out
        places = qmc.Halton(len(open_names), scramble=False).random(count + 1)[1:]
    filled = dict(lows)
    result = []
    for place in places:
        for name, share in zip(open_names, place, strict=True):
            low, high = parameters[name].to_coordinate([lows[name], highs[name]])
            filled[name] = float(parameters[name].to_value(low + share * (high - low)))
        result.append(dict(filled))
    return result


def _ends(name: str, value: Any) -> tuple[Any, Any]:
    """Return the two ends of an interval; a single value is both of them."""
    if np.ndim(value) == 0:
        return value, value
    if np.shape(value) != (2,):
        raise InputError(
            f"one value or a pair (low, high) for {name}",
            f"{name}={value!r}",
            HOW,
        )
    return value[0], value[1]


IndexArray = NDArray[np.intp]

# Mean absolute value to standard deviation of a normal distribution.
TO_DEVIATION = np.sqrt(np.pi / 2)


def assemble(
    *,
    parameters: list[str],
    points: DesignPoints,
    names: list[str],
    positions: FloatArray,
    shape: tuple[int, ...],
    candidates: IndexArray,
    present: IndexArray,
    ordered: list[int],
    known: FloatArray,
    start: FloatArray,
    criterion: Criterion,
    swaps: int,
) -> xr.Dataset:
    """Return the labelled result of a search.

    Predictions leave out what the bounds know: like `fisher_error_percent` they speak of the
    observations alone.
    """
    k = len(ordered)
    # (P, k + 1, d, d): the information of the present layout and of each longer one.
    steps = np.moveaxis(unpacked(np.moveaxis(criterion.products[:, :, ordered], 1, 2)), 1, 0)
    zero = np.zeros((1, *known.shape))
    information = np.moveaxis(known + np.concatenate([zero, np.cumsum(steps, axis=0)]), 0, 1)
    # A site at random adds the mean information of the candidates.
    mean = unpacked(criterion.products.mean(axis=2))
    random = known[:, None] + np.arange(k + 1)[:, None, None] * mean[:, None]
    predicted = np.moveaxis(mean_error_percent(information), 1, 2)
    worth = np.full(len(positions), np.nan)
    last = start + information[:, -1] - known
    worth[candidates] = 100 * criterion.leverage(last) / len(parameters)
    sites = candidates[ordered]
    curve = ("point", "parameter", "observations")
    return xr.Dataset(
        {
            "index": ("site", sites),
            "site_position": (("site", "axis"), positions[sites]),
            "present": ("present_site", present),
            "value": (
                ("point", "parameter"),
                np.array([[one[name] for name in parameters] for one in points.values]),
            ),
            "predicted_error_percent": (curve, predicted),
            "predicted_sd_percent": (curve, predicted * TO_DEVIATION),
            "random_error_percent": (curve, np.moveaxis(mean_error_percent(random), 1, 2)),
            "worth_percent": ("entry", worth),
            "position": (("entry", "axis"), positions),
        },
        coords={
            "parameter": parameters,
            "axis": names,
            "site": np.arange(1, k + 1),
            "observations": len(present) + np.arange(k + 1),
        },
        attrs={"kind": points.kind, "shape": list(shape), "swaps": swaps},
    )


# Vectors of parameters in, by keyword; predictions (B, n) at the sites out.
SiteForward = Callable[..., FloatArray]


@dataclass(frozen=True)
class Live:
    """What a verification needs and no file can hold.

    Attributes
    ----------
    parameters : dict of str to Parameter
    deviations : array, shape (N,)
        Standard deviation of the noise of every entry.
    positions : array, shape (N, k)
    forward_at : callable
        From flat indices to the vectorised forward model at those sites.
    """

    parameters: dict[str, Parameter]
    deviations: FloatArray
    positions: FloatArray
    forward_at: Callable[[IndexArray], SiteForward]


class Remembered:
    """A forward model at fixed sites that solves each parameter value once.

    A value at which the model fails gives a row of NaN, which `twoaxis.resolve` excludes.
    """

    def __init__(self, model: ForwardModel, sites: IndexArray) -> None:
        self._model = model
        self._sites = sites
        self._solved: dict[tuple[float, ...], FloatArray] = {}

    def __call__(self, **values: Any) -> FloatArray:
        """Predict at the sites for vectors of parameters, (B, n)."""
        names = self._model.parameters
        columns = [p.to_coordinate(np.atleast_1d(values[n])) for n, p in names.items()]
        rows = list(map(tuple, np.column_stack(columns).tolist()))
        new = [row for row in dict.fromkeys(rows) if row not in self._solved]
        if new:
            entries = np.sort(self._sites)
            self._model.observe(entries)
            solved = self._model(np.array(new)).values[:, np.searchsorted(entries, self._sites)]
            self._solved.update(zip(new, solved, strict=True))
        found = np.stack([self._solved[row] for row in rows])
        if len(names) > 1:  # fits of several parameters never come to the same point again
            self._solved.clear()
        return found


def remembering(model: ForwardModel) -> Callable[[IndexArray], SiteForward]:
    """Return a maker of forward models at given sites."""
    kept: dict[bytes, Remembered] = {}

    def forward_at(sites: IndexArray) -> SiteForward:
        return kept.setdefault(sites.tobytes(), Remembered(model, sites))

    return forward_at


def described(values: Mapping[str, float]) -> str:
    """Parameter values as ``nu=0.01``."""
    return ", ".join(f"{name}={value:g}" for name, value in values.items())


# Of more points than this the printed table shows the mean and the worst; summary() has them all.
SHOWN_POINTS = 8


class Verification:
    """Predicted beside verified mean error of a layout, in percent.

    Made by `SuggestedSites.verify`. Where there is one parameter, or one point, its dimension is
    left out.

    Attributes
    ----------
    data : xarray.Dataset
        ``value``, ``predicted``, ``verified``, ``low``, ``high`` and ``inside``, all over (point,
        parameter).
    resolutions : list of Resolution
        The refits behind each point.
    """

    def __init__(self, data: xr.Dataset, resolutions: list[Resolution]) -> None:
        self.data = data
        self.resolutions = resolutions

    def _of(self, name: str) -> xr.DataArray:
        array = self.data[name]
        alone = {dim: 0 for dim in ("point", "parameter") if array.sizes[dim] == 1}
        return array.isel(alone, drop=True)

    @property
    def predicted(self) -> xr.DataArray:
        """First-order prediction of the mean error."""
        return self._of("predicted")

    @property
    def verified(self) -> xr.DataArray:
        """Mean error of the refits."""
        return self._of("verified")

    @property
    def interval(self) -> xr.DataArray:
        """Ends of the verified mean's interval, with a last dimension ``end``."""
        ends = xr.concat([self._of("low"), self._of("high")], "end").assign_coords(
            end=["low", "high"]
        )
        return ends.transpose(..., "end")

    @property
    def inside(self) -> xr.DataArray:
        """Whether the prediction lies inside the interval."""
        return self._of("inside")

    def summary(self) -> pd.DataFrame:
        """Return a table with a row for each point and parameter."""
        table = self.data.to_dataframe().reset_index()
        columns = ["parameter", "value", "predicted", "verified", "low", "high", "inside"]
        return table[columns].set_index("parameter")

    def __repr__(self) -> str:
        inside = self.data["inside"].values
        attrs = self.data.attrs
        # Only around a truth may a deviation be called an error.
        truth = all(one.centered_on == "truth" for one in self.resolutions)
        head = (
            f"Mean {'error' if truth else 'deviation'} in percent over {attrs['replicas']} refits "
            f"on {attrs['observations']} sites: {int(inside.sum())} of {inside.size} "
            f"prediction(s) inside the {100 * attrs['level']:g}% interval"
        )
        table = self.summary() if len(inside) <= SHOWN_POINTS else self._overview()
        return head + "\n" + table.to_string(float_format=lambda v: f"{v:.4g}")

    def _overview(self) -> pd.DataFrame:
        """Return a table with a row for each parameter, over all points."""
        rows = self.summary().groupby(level="parameter", sort=False)
        return pd.DataFrame(
            {
                "points": rows.size(),
                "from": rows["value"].min(),
                "to": rows["value"].max(),
                "predicted": rows["predicted"].mean(),
                "verified": rows["verified"].mean(),
                "worst": rows["verified"].max(),
                "inside": rows["inside"].sum(),
            }
        )


def verify_layout(
    suggested: xr.Dataset,
    layout: IndexArray,
    live: Live,
    at: str | Mapping[str, float] | None,
    *,
    replicas: int,
    level: float,
    **options: Any,
) -> Verification:
    """Refit simulated data on a layout, at every design point or at `at`.

    Further options are those of `twoaxis.resolve`.
    """
    if replicas == 1:
        raise InputError("at least two replicas", "replicas=1", "pass replicas=200")
    forward = live.forward_at(layout)
    names = list(live.parameters)
    found = [
        resolve(
            forward,
            live.parameters,
            live.deviations[layout],
            {"suggested": np.arange(len(layout))},
            replicas=replicas,
            at=where,
            points=live.positions[layout],
            vectorized=True,
            level=level,
            **options,
        )
        for where in _where(suggested, live, at)
    ]
    intervals = [[one.interval(parameter=n, level=level) for n in names] for one in found]
    low = [[np.nan if i is None else i.low for i in row] for row in intervals]
    high = [[np.nan if i is None else i.high for i in row] for row in intervals]

    def per_point(variable: str) -> Any:
        return np.array([one.data[variable].values.reshape(len(names), -1) for one in found])

    predicted = per_point("fisher_deviation_percent").mean(axis=2)
    verified = per_point("deviation_percent").mean(axis=2)
    both = ("point", "parameter")
    data = xr.Dataset(
        {
            "value": (both, per_point("center")[..., 0]),
            "predicted": (both, predicted),
            "verified": (both, verified),
            "low": (both, np.array(low)),
            "high": (both, np.array(high)),
            "inside": (both, (np.array(low) <= predicted) & (predicted <= np.array(high))),
        },
        coords={"parameter": names},
        attrs={"replicas": replicas, "observations": len(layout), "level": level},
    )
    return Verification(data, found)


def _where(suggested: xr.Dataset, live: Live, at: Any) -> list[Any]:
    """Return what `twoaxis.resolve` is told to simulate at, one for each point."""
    if at is not None:
        Parameters(live.parameters).center(at)  # a wrong one is found out before any refit
        return [at]
    if suggested.attrs["kind"] in ("truth", "delivered"):
        return [suggested.attrs["kind"]]
    names = [str(name) for name in suggested["parameter"].values]
    return [dict(zip(names, row, strict=True)) for row in suggested["value"].values.tolist()]


# So many sites are written out by name; the rest is in the data.
SHOWN_SITES = 6


@dataclass(frozen=True)
class Searched:
    """The search behind a suggestion: what is needed to compare it with others."""

    criterion: Criterion
    start: FloatArray
    rules: Rules
    present: IndexArray
    chosen: list[int]


class SuggestedSites:
    """The next observations, and the error that they are predicted to leave.

    Made by `twoaxis.suggest_sites`. Everything is in ``data``, an `xarray.Dataset`; the attributes
    below are views of it. Where there is one parameter, or one design point, its dimension is left
    out.

    Attributes
    ----------
    data : xarray.Dataset
    live : Live
        The forward model and the noise, for the verification.
    searched : Searched
        The search behind the sites.
    """

    def __init__(self, data: xr.Dataset, live: Live, searched: Searched) -> None:
        self.data = data
        self.live = live
        self.searched = searched

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters."""
        return [str(name) for name in self.data["parameter"].values]

    @property
    def sites(self) -> IndexArray:
        """Flat indices of the new sites; every beginning of the list is a good layout."""
        return np.asarray(self.data["index"].values, dtype=np.intp)

    @property
    def layout(self) -> IndexArray:
        """Flat indices of present and new sites together, as `twoaxis.resolve` takes them."""
        return np.concatenate([self.data["present"].values.astype(np.intp), self.sites])

    @property
    def coordinates(self) -> xr.DataArray:
        """Where the new sites lie, (site, axis)."""
        return self.data["site_position"]

    @property
    def points(self) -> pd.DataFrame:
        """The parameter values that the layout is made for, a row each."""
        return pd.DataFrame(self.data["value"].values, columns=self.parameters)

    @property
    def predicted(self) -> xr.DataArray:
        """Predicted mean error in percent over the number of observations.

        The same quantity as `Resolution.fisher_error_percent`, (point, parameter, observations).
        It is infinite while there are too few observations to see every parameter.
        """
        return self._curve("predicted_error_percent")

    @property
    def predicted_sd(self) -> xr.DataArray:
        """Predicted standard deviation of the estimates in percent, like `predicted`."""
        return self._curve("predicted_sd_percent")

    @property
    def at_random(self) -> xr.DataArray:
        """The same prediction for sites of average information instead, like `predicted`."""
        return self._curve("random_error_percent")

    def _curve(self, name: str) -> xr.DataArray:
        array = self.data[name]
        alone = {dim: 0 for dim in ("point", "parameter") if array.sizes[dim] == 1}
        return array.isel(alone, drop=True)

    def efficiency(self) -> xr.DataArray:
        """Return the share of the best possible information at each design point, (point,).

        ``(det I_p(S) / det I_p(S_p))^(1/d)``, where S_p is the layout that the same search makes
        for that point alone. The smallest is the worst case over the points.
        """
        made = self.searched
        none = len(made.criterion.products)
        shares = np.ones(none)
        for p in range(none if none > 1 else 0):
            one, start = Criterion(made.criterion.products[p : p + 1]), made.start[p : p + 1]
            free = Free(made.rules, made.present)
            best, _ = exchange(one, start, free, greedy(one, start, free, len(made.chosen)))
            ours = np.linalg.slogdet(total(one, start, made.chosen))[1]
            most = np.linalg.slogdet(total(one, start, best))[1]
            shares[p] = np.exp((ours - most)[0] / len(self.parameters))
        return xr.DataArray(shares, dims="point", name="efficiency")

    def verify(
        self,
        replicas: int = 200,
        seed: int | Sequence[int] = 0,
        *,
        at: str | Mapping[str, float] | None = None,
        level: float = 0.95,
        bank: int = 241,
        starts: int = 3,
        validate: int = 3,
        progress: bool = True,
    ) -> Verification:
        """Check the prediction by refits of simulated data on the suggested layout.

        Parameters
        ----------
        replicas : int
            Noisy datasets for each design point, at least two.
        seed : int or sequence of int
            Of their noise.
        at : {"truth", "delivered"} or mapping of str to float, optional
            Another parameter value to simulate at, such as a truth that the design did not know.
            By default every design point.
        level : float
            Confidence level of the interval around the verified mean.
        bank, starts, validate, progress
            As in `twoaxis.resolve`. For one parameter all points share the solved values of one
            bank.

        Returns
        -------
        Verification
        """
        return verify_layout(
            self.data,
            self.layout,
            self.live,
            at,
            replicas=replicas,
            seed=seed,
            level=level,
            bank=bank,
            starts=starts,
            validate=validate,
            progress=progress,
        )

    def summary(self) -> pd.DataFrame:
        """Return a table with a row for each parameter; errors are in percent.

        ``before`` and ``predicted`` are means over the design points, ``worst`` is the largest of
        them, ``sd`` the mean standard deviation and ``at_random`` the prediction for as many sites
        of average information.
        """
        curve, random = self.data["predicted_error_percent"], self.data["random_error_percent"]
        last = {"observations": -1}
        table = pd.DataFrame(
            {
                "observations": int(self.data["observations"][-1]),
                "before": curve.isel(observations=0).mean("point").values,
                "predicted": curve.isel(last).mean("point").values,
                "worst": curve.isel(last).max("point").values,
                "sd": self.data["predicted_sd_percent"].isel(last).mean("point").values,
                "at_random": random.isel(last).mean("point").values,
            },
            index=pd.Index(self.parameters, name="parameter"),
        )
        return table if self.data.sizes["point"] > 1 else table.drop(columns="worst")

    def plot(self, *, parameter: str | None = None, axes: Any = None) -> Any:
        """Draw the map of the candidates with the chosen sites, and the predicted curve.

        Parameters
        ----------
        parameter : str, optional
            Whose curve to draw, where there are several; by default the first.
        axes : pair of matplotlib.axes.Axes, optional

        Returns
        -------
        array of two matplotlib.axes.Axes
        """
        from twoaxis.remedies.sites.figure import draw_suggestion

        return draw_suggestion(self.data, parameter, axes)

    def __repr__(self) -> str:
        table = self.summary().to_string(float_format=lambda v: f"{v:.3g}")
        first = self.coordinates.values[:SHOWN_SITES]
        names = ", ".join(map(str, self.data["axis"].values))
        listed = "; ".join(", ".join(f"{v:.4g}" for v in row) for row in first)
        more = len(self.sites) - len(first)
        tail = f"; and {more} more" if more > 0 else ""
        return "\n".join([self._headline(), table, f"sites ({names}): {listed}{tail}"])

    def _headline(self) -> str:
        count, before = len(self.sites), self.data.sizes["present_site"]
        what = f"{count} new site(s)" + (f" beside {before}" if before else "")
        low, high = self.points.min(), self.points.max()
        ends = ", ".join(
            f"{n} = {low[n]:.4g}" + (f" to {high[n]:.4g}" if high[n] > low[n] else "")
            for n in self.parameters
        )
        made_for = {
            "truth": f"the truth {ends}",
            "delivered": f"the delivered {ends}",
            "point": ends,
        }.get(self.data.attrs["kind"], f"the average over {len(self.points)} points, {ends}")
        noun = "error" if self.data.attrs["kind"] == "truth" else "deviation"
        return f"{what}, made for {made_for}; mean {noun} in percent, to first order"
