"""The suggested sites as their reader meets them: labelled, predicted, ready to be verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.remedies.observations.criterion import Criterion
from twoaxis.remedies.observations.live import Live
from twoaxis.remedies.observations.rules import Free, Rules
from twoaxis.remedies.observations.search import exchange, greedy, total
from twoaxis.remedies.observations.verification import Verification, verify_layout

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

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
        from twoaxis.remedies.observations.figure import draw_suggestion

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
