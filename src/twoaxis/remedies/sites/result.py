"""Suggested sites: labelled, with their predicted errors, ready to be verified.

Is the predicted error right? Refits of simulated data on the suggested layout answer that. For each
parameter value, `twoaxis.resolve` adds noise to the noise-free observations of the layout, fits
them again and takes the mean error; a bootstrap over the replicas gives its interval. The
prediction is first order: it fails where the error is so large that the model is nonlinear within
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.diagnosis.actions import Action, Number
from twoaxis.errors import InputError
from twoaxis.forward import ForwardModel
from twoaxis.io import Layout, Variable
from twoaxis.parameters import Parameters
from twoaxis.remedies.sites.rules import Free, Rules
from twoaxis.remedies.sites.search import Criterion, exchange, greedy, total
from twoaxis.resolution import Resolution, resolve
from twoaxis.result import PARAMETER_LAYOUT, Result, interest_first, interest_only

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Kept = TypeVar("Kept")

# Mean absolute value to standard deviation of a normal distribution.
TO_DEVIATION = np.sqrt(np.pi / 2)
# Number of sites in printed text; the others are in the data.
SHOWN_SITES = 6
# Number of sites in the text of an action.
NAMED_SITES = 5
# With more points than this the printed table shows the mean and the worst; summary() has all.
SHOWN_POINTS = 8

CURVE = ("point", "parameter", "observations")


@dataclass(frozen=True)
class Searched:
    """The search behind a suggestion: what is needed to compare it with others."""

    criterion: Criterion
    start: FloatArray
    rules: Rules
    present: IndexArray
    chosen: list[int]


# Vectors of parameters in, by keyword; predictions (B, n) at the sites out.
SiteForward = Callable[..., FloatArray]


@dataclass(frozen=True)
class Live:
    """What a verification needs and a file does not hold.

    Attributes
    ----------
    parameters : Parameters
    deviations : array, shape (N,)
        Standard deviation of the noise of every entry.
    positions : array, shape (N, k)
    forward_at : callable
        From flat indices to the vectorized forward model at those sites.
    """

    parameters: Parameters
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
    """Return a function from sites to the forward model at these sites, which keeps solutions."""
    kept: dict[bytes, Remembered] = {}

    def forward_at(sites: IndexArray) -> SiteForward:
        return kept.setdefault(sites.tobytes(), Remembered(model, sites))

    return forward_at


class SuggestedSites(Result[xr.Dataset]):
    """The next observations, and the error that they are predicted to leave.

    Made by `twoaxis.suggest_sites`. Where there is one parameter, or one design point, its
    dimension is left out of the attributes below; ``data`` has it.

    Attributes
    ----------
    data : xarray.Dataset

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> found = ta.suggest_sites(
    ...     lambda k: np.exp(-k * t), known, 0.02, 3, points={"t": t}, progress=False
    ... )
    >>> sorted(found.sites.tolist()), round(float(found.predicted.sel(observations=3)), 1)
    ([9, 10, 11], 2.5)
    """

    schema = "suggested-sites"
    layouts: ClassVar[Mapping[str, Layout]] = {
        "/": {
            **PARAMETER_LAYOUT,
            "axis": Variable(("axis",), "text", "name of the coordinate"),
            "shape": Variable(("output_axis",), "int", "shape of the output of forward"),
            "position": Variable(("entry", "axis"), "float", "coordinates", finite=True),
            "worth_percent": Variable(("entry",), "float", "information gain; NaN: forbidden", "%"),
            "present": Variable(("present_site",), "int", "flat indices of present sites"),
            "site": Variable(("site",), "int", "number of the new site, from 1"),
            "index": Variable(("site",), "int", "flat indices of new sites"),
            "site_position": Variable(("site", "axis"), "float", "coordinates of new sites"),
            "value": Variable(("point", "parameter"), "float", "design points", finite=True),
            "observations": Variable(("observations",), "int", "number of observations"),
            "predicted_error_percent": Variable(CURVE, "float", "predicted mean error", "%"),
            "predicted_sd_percent": Variable(CURVE, "float", "predicted standard deviation", "%"),
            "random_error_percent": Variable(CURVE, "float", "same, average sites", "%"),
        }
    }
    attributes: ClassVar[Mapping[str, Iterable[str]]] = {"/": ("kind", "swaps")}
    _live: Live | None = None
    _searched: Searched | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The forward model is the user's code, which need not survive the way to another process.
        return {"data": self.data}

    def derived(self) -> dict[str, Any]:
        """Return numbers and positions of the sites, and predicted standard deviations."""
        data, index = self.data, self.data["index"].values
        return {
            "site": np.arange(1, len(index) + 1),
            "site_position": data["position"].values[index],
            "observations": data.sizes["present_site"] + np.arange(len(index) + 1),
            "predicted_sd_percent": data["predicted_error_percent"].values * TO_DEVIATION,
        }

    def check(self) -> None:
        """Raise `InputError` for sites outside of the output."""
        size = self.data.sizes["entry"]
        sites = self.layout
        if np.prod(self.data["shape"].values) != size or not ((sites >= 0) & (sites < size)).all():
            raise InputError(f"sites within {size} entries", f"{sites}", "write the file again")
        super().check()

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters."""
        return Parameters.from_dataset(self.data)

    @staticmethod
    def _kept(part: Kept | None, purpose: str) -> Kept:
        if part is None:
            raise InputError(
                f"the forward model, to {purpose}",
                "suggested sites from a file or from another process",
                "call twoaxis.suggest_sites again",
            )
        return part

    @property
    def sites(self) -> IndexArray:
        """Flat indices of the new sites; the first k of them are a good layout for every k."""
        return np.asarray(self.data["index"].values, dtype=np.intp)

    @property
    def layout(self) -> IndexArray:
        """Flat indices of present and new sites together, as `twoaxis.resolve` takes them."""
        return np.concatenate([self.data["present"].values.astype(np.intp), self.sites])

    @property
    def points(self) -> xr.DataArray:
        """Where the new sites lie, (site, axis)."""
        found: xr.DataArray = self.data["site_position"]
        return found

    @property
    def design_points(self) -> pd.DataFrame:
        """The parameter values that the layout is made for, one row each."""
        return pd.DataFrame(self.data["value"].values, columns=self.parameters.names)

    @property
    def predicted(self) -> xr.DataArray:
        """Predicted mean error in % over the number of observations.

        The same quantity as `Resolution.fisher_error_percent`, (point, parameter, observations).
        It is infinite while too few observations identify every parameter.
        """
        return self._curve("predicted_error_percent")

    @property
    def predicted_sd(self) -> xr.DataArray:
        """Predicted standard deviation of the estimates in %, like `predicted`."""
        return self._curve("predicted_sd_percent")

    @property
    def at_random(self) -> xr.DataArray:
        """The prediction for sites of average information, like `predicted`."""
        return self._curve("random_error_percent")

    def _curve(self, name: str) -> xr.DataArray:
        return _squeezed(self.data[name])

    def efficiency(self) -> xr.DataArray:
        """Return the share of the best possible information at each design point, (point,).

        ``(det I_p(S) / det I_p(S_p))^(1/d)`` of the d parameters of interest, where S_p is the
        layout that the same search makes for that point alone. The smallest is the worst case over
        the points.
        """
        made = self._kept(self._searched, "compare layouts")
        count = len(made.criterion.products)
        shares = np.ones(count)
        for p in range(count if count > 1 else 0):
            one, start = made.criterion.at(p), made.start[p : p + 1]
            free = Free(made.rules, made.present)
            best, _ = exchange(one, start, free, greedy(one, start, free, len(made.chosen)))
            ours, most = (
                one.log_information(total(one, start, each)) for each in (made.chosen, best)
            )
            shares[p] = np.exp((ours - most)[0] / len(self.parameters.of_interest))
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
            Another parameter value to simulate at, such as a truth that was not used in the design.
            By default every design point.
        level : float
            Confidence level of the interval around the verified mean.
        bank, starts, validate, progress
            As for `twoaxis.resolve`. For one parameter all points share the solutions of one
            bank.

        Returns
        -------
        Verification
        """
        return verify_layout(
            self.data,
            self.layout,
            self._kept(self._live, "simulate data"),
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
        """Return a row per parameter, nuisance parameters last; errors are in %.

        ``before`` and ``predicted`` are means over the design points, ``worst`` is the largest of
        them, ``sd`` the mean standard deviation and ``at_random`` the prediction for as many sites
        of average information.
        """
        curve, random = self.data["predicted_error_percent"], self.data["random_error_percent"]
        last = {"observations": -1}
        table = interest_first(
            {
                "observations": int(self.data["observations"][-1]),
                "before": curve.isel(observations=0).mean("point").values,
                "predicted": curve.isel(last).mean("point").values,
                "worst": curve.isel(last).max("point").values,
                "sd": self.data["predicted_sd_percent"].isel(last).mean("point").values,
                "at_random": random.isel(last).mean("point").values,
            },
            self.parameters,
        )
        return table if self.data.sizes["point"] > 1 else table.drop(columns="worst")

    def to_dataframe(self) -> pd.DataFrame:
        """Return the new sites as a table, one row each, in the order in which they help.

        ``index`` into the flattened output of forward, the coordinates by the names of their
        axes, ``gain_percent``, the information gain of one observation there beside the present
        ones, and ``predicted_NAME_percent``, the mean error of each parameter in % once this site
        and those before it are observed (over the design points, their mean).
        ``to_dataframe().to_csv("sites.csv")`` writes it to a file.
        """
        data = self.data
        table: dict[str, Any] = {"index": self.sites}
        for k, axis in enumerate(map(str, data["axis"].values)):
            # A coordinate keeps its own name unless a column has that already.
            table[axis if axis not in table else f"{axis}_{k}"] = self.points.values[:, k]
        table["gain_percent"] = data["worth_percent"].values[self.sites]
        curves = data["predicted_error_percent"].mean("point").isel(observations=slice(1, None))
        for name in self.parameters:
            table[f"predicted_{name}_percent"] = curves.sel(parameter=name).values
        return pd.DataFrame(table, index=pd.Index(data["site"].values, name="site"))

    def actions(self) -> list[Action]:
        """Return where to observe, for the actions of an audit."""
        table = interest_only(self.summary())
        count = int(table["observations"].iloc[0])
        sentences, numbers = [], []
        for name, row in table.iterrows():
            sentences.append(
                f"{len(self.sites)} suggested sites are predicted to reduce the mean deviation of "
                f"{name} to {row['predicted']:.3g}%; the same number of sites of average "
                f"information gives {row['at_random']:.3g}%."
            )
            numbers += [
                Number(
                    f"{name}: predicted with {count} observations", float(row["predicted"]), "%"
                ),
                Number(f"{name}: predicted at average sites", float(row["at_random"]), "%"),
            ]
        axes = ", ".join(map(str, self.data["axis"].values))
        first = "; ".join(
            ", ".join(f"{value:.4g}" for value in site) for site in self.points.values[:NAMED_SITES]
        )
        sentences.append(f"The first of them are at ({axes}) = {first}.")
        title = f"Observe at {len(self.sites)} suggested sites"
        call = "twoaxis.suggest_sites(...).sites"
        return [Action("observations", title, " ".join(sentences), call, tuple(numbers))]

    def __repr__(self) -> str:
        table = self.summary().to_string(float_format=lambda v: f"{v:.3g}")
        first = self.points.values[:SHOWN_SITES]
        names = ", ".join(map(str, self.data["axis"].values))
        listed = "; ".join(", ".join(f"{v:.4g}" for v in row) for row in first)
        more = len(self.sites) - len(first)
        tail = f"; and {more} more" if more > 0 else ""
        return "\n".join([self._headline(), table, f"sites ({names}): {listed}{tail}"])

    def _headline(self) -> str:
        count, before = len(self.sites), self.data.sizes["present_site"]
        what = f"{count} new site(s)" + (f" beside {before}" if before else "")
        low, high = self.design_points.min(), self.design_points.max()
        ends = ", ".join(
            f"{n} = {low[n]:.4g}" + (f" to {high[n]:.4g}" if high[n] > low[n] else "")
            for n in self.parameters
        )
        made_for = {
            "truth": f"the truth {ends}",
            "delivered": f"the delivered {ends}",
            "point": ends,
        }.get(self.data.attrs["kind"], f"the average over {len(self.design_points)} points, {ends}")
        noun = "error" if self.data.attrs["kind"] == "truth" else "deviation"
        return f"{what}, made for {made_for}; mean {noun} in %, to first order"


def _squeezed(array: xr.DataArray) -> xr.DataArray:
    """Leave out the dimensions of a single parameter and of a single design point."""
    alone = {dim: 0 for dim in ("point", "parameter") if array.sizes[dim] == 1}
    return array.isel(alone, drop=True)


class Verification:
    """Predicted and verified mean error of a layout, in %.

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
        return _squeezed(self.data[name])

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
        """Return a row per point and parameter."""
        table = self.data.to_dataframe().reset_index()
        columns = ["parameter", "value", "predicted", "verified", "low", "high", "inside"]
        return table[columns].set_index("parameter")

    def actions(self) -> list[Action]:
        """Return what the refits found, for the actions of an audit."""
        sentences, numbers = [], []
        for name, rows in self.summary().groupby(level="parameter", sort=False):
            worst = rows.loc[rows["verified"] == rows["verified"].max()].iloc[0]
            level = f"{100 * self.data.attrs['level']:g}%"
            interval = (
                f"{worst['verified']:.3g}% ({level} interval {worst['low']:.3g} to "
                f"{worst['high']:.3g})"
            )
            if len(rows) == 1:
                place = "inside" if worst["inside"] else "outside"
                sentences.append(
                    f"Refits at {name} = {worst['value']:.4g} give {interval}; the prediction lies "
                    f"{place}."
                )
            else:
                sentences.append(
                    f"Refits at {len(rows)} points give {rows['verified'].mean():.3g}% for {name} "
                    f"on average and {interval} at the worst of them, {name} = "
                    f"{worst['value']:.4g}; {int(rows['inside'].sum())} of {len(rows)} predictions "
                    "lie inside."
                )
                numbers.append(
                    Number(f"{name}: verified on average", float(rows["verified"].mean()), "%")
                )
            label = f"{name}: verified by refits at {worst['value']:.4g}"
            numbers.append(Number(label, float(worst["verified"]), "%"))
        return [Action("observations", "Verify the sites", " ".join(sentences), "", tuple(numbers))]

    def __repr__(self) -> str:
        inside = self.data["inside"].values
        attrs = self.data.attrs
        # Only around a truth may a deviation be called an error.
        truth = all(one.centered_on == "truth" for one in self.resolutions)
        head = (
            f"Mean {'error' if truth else 'deviation'} in % over {attrs['replicas']} refits "
            f"on {attrs['observations']} sites: {int(inside.sum())} of {inside.size} "
            f"prediction(s) inside the {100 * attrs['level']:g}% interval"
        )
        table = self.summary() if len(inside) <= SHOWN_POINTS else self._overview()
        return head + "\n" + table.to_string(float_format=lambda v: f"{v:.4g}")

    def _overview(self) -> pd.DataFrame:
        """Return a row per parameter, over all points."""
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
    """Return the `at` of `twoaxis.resolve` for each point."""
    if at is not None:
        live.parameters.center(at)  # finds faults before any refit
        return [at]
    if suggested.attrs["kind"] in ("truth", "delivered"):
        return [suggested.attrs["kind"]]
    names = [str(name) for name in suggested["parameter"].values]
    return [dict(zip(names, row, strict=True)) for row in suggested["value"].values.tolist()]
