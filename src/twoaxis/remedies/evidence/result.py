"""An evidence map as its reader meets it: ranked regions, a table, a picture, a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.errors import InputError
from twoaxis.geometry.regions import Regions
from twoaxis.geometry.score import Score

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]


# Rows of the printed table.
SHOWN = 6


@dataclass(frozen=True, eq=False)
class EvidenceMap:
    """Regions of the domain, ranked by how much of the displacement goes with them.

    The first ones cause the displacement; the last ones hold it back, and without them it would
    be larger. Made by `twoaxis.evidence_map`.

    Attributes
    ----------
    score : Score
        Of the whole field.
    data : xarray.Dataset
        Everything, by region (in the order of the ranking), parameter and mode.
    regions : Regions
        As they were before they were ranked.
    """

    score: Score
    data: xr.Dataset = field(repr=False)
    regions: Regions = field(repr=False)

    @property
    def displacement(self) -> dict[str, float]:
        """Displacement D of the whole field, by parameter."""
        return self.score.displacement

    @property
    def doubts(self) -> list[str]:
        """What stands in the way of a plain reading, as sentences."""
        lost = self.data["region"].values[~self.data["seen_without"].values]
        reasons = [doubt.text for doubt in self.score.doubts]
        if lost.size:
            some = "; ".join(map(str, lost[:3])) + ("; ..." if lost.size > 3 else "")
            reasons.append(f"without one of these a parameter is no longer seen: {some}")
        return reasons

    def leading(self, parameter: str | None = None) -> pd.Series[Any]:
        """Return the row of the region with which most of the displacement goes."""
        return self.summary(parameter).iloc[0]

    def summary(self, parameter: str | None = None) -> pd.DataFrame:
        """Return a table with a row for each region, the main cause of the displacement first.

        Parameters
        ----------
        parameter : str, optional
            Needed when there are several. The regions are then ranked for this one.

        Returns
        -------
        pandas.DataFrame
            ``points``; ``B`` and ``H``, the contributions; ``B_share``, of all contributions
            taken positive, and ``H_share``; ``residual_norm`` and ``alignment`` inside the
            region; ``without``, the displacement without it, and ``change``, that less D.
        """
        name = self._chosen(parameter)
        own = self.data.sel(parameter=name)
        columns: dict[str, Any] = {
            "points": own["points_in_region"].values,
            "B": own["B"].values,
            "B_share": own["B_share"].values,
            "H": own["H"].sel(other_parameter=name).values,
            "H_share": own["H_share"].values,
            "residual_norm": own["residual_norm"].values,
            "alignment": own["alignment"].values,
            "without": own["displacement_without"].values,
            "change": own["change"].values,
        }
        table = pd.DataFrame(columns, index=pd.Index(self.data["region"].values, name="region"))
        return table.iloc[ranking(columns["change"][:, None], np.array([self.displacement[name]]))]

    def modes(self, parameter: str | None = None) -> pd.DataFrame:
        """Return strength, signed contribution and their shares by residual mode.

        The modes are the view's own eigenvectors; a view that weighs every point by itself has
        none that mean something, and is resolved in those of the Gaussian kernel.
        """
        if "mode_strength" not in self.data:
            raise InputError(
                "an evidence map with modes",
                f"one of {self.score.view}, for which they were not computed",
                "pass modes=128 to evidence_map",
            )
        own = self.data.sel(parameter=self._chosen(parameter))
        strength, signed = own["mode_strength"].values, own["mode_signed"].values
        index = self.score.names.index(str(own["parameter"].item()))
        total, size = float(self.score.terms.H[index, index]), float(np.abs(signed).sum())
        columns = {
            "eigenvalue": own["mode_eigenvalue"].values,
            "strength": strength,
            "strength_share": strength / total if total > 0 else 0 * strength,
            "signed": signed,
            "signed_share": signed / size if size > 0 else 0 * signed,
        }
        return pd.DataFrame(columns, index=pd.Index(own["mode"].values, name="mode"))

    def to_dataset(self) -> xr.Dataset:
        """Return everything as a labelled dataset."""
        return self.data.copy()

    def plot(self, *, parameter: str | None = None, figure: Any = None) -> Any:
        """Draw the domain, coloured by what leaving a region out does to D, and the leading ones.

        Parameters
        ----------
        parameter : str, optional
            Needed when there are several.
        figure : matplotlib.figure.Figure, optional
            An empty one to draw into.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from twoaxis.remedies.evidence.figure import draw

        return draw(self, self._chosen(parameter), figure)

    def _chosen(self, parameter: str | None) -> str:
        names = self.score.names
        if parameter is None and len(names) == 1:
            return names[0]
        if parameter not in names:
            raise InputError(
                f"one of the parameters {', '.join(names)}", f"parameter={parameter!r}", "name one"
            )
        return parameter

    def __repr__(self) -> str:
        blocks = [
            f"Evidence map of {len(self.regions)} regions, view: {self.score.view}",
        ]
        for name, displacement in self.displacement.items():
            table = self.summary(name)
            shown = table.head(SHOWN).drop(columns=["B", "H", "points"])
            first = table.iloc[0]
            blocks += [
                f"D of {name} is {displacement:+.4g}; without {first.name} it would be "
                f"{first['without']:+.4g}",
                shown.to_string(float_format=lambda v: f"{v:.3g}"),
            ]
        blocks += [f"! {line}" for line in self.doubts]
        return "\n".join(blocks)


def ranking(change: FloatArray, displacement: FloatArray) -> NDArray[np.intp]:
    """Order regions by how much of the displacement (d,) goes with them; changes are (R, d).

    That is the part of the change that is opposite to the displacement. Where there is no
    displacement, pulls cancel, and the size of the change decides.
    """
    size = float(np.linalg.norm(displacement))
    gone = -change @ displacement / size if size > 0 else np.linalg.norm(change, axis=1)
    return np.argsort(-gone, kind="stable")
