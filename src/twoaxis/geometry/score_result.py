"""A score as its reader meets it: labelled, with its doubts said aloud."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from twoaxis.geometry.sampling import PointSample
from twoaxis.geometry.terms import Terms
from twoaxis.parameters import Center, Parameter

FloatArray = NDArray[np.float64]

# Eigenvalues of H below this share of the largest are weak: such a direction is seen thirty
# times less than the best one.
WEAK_SHARE = 1e-3
# The local reading is trusted while the curvature term stays below this share of H.
TRUSTED_CURVATURE = 0.2


@dataclass(frozen=True, eq=False)
class Score:
    """What the frozen field prefers, to first order, around a centre.

    Made by `twoaxis.score`. For one parameter `B`, `H`, `C` and `alignment` are floats; for
    several they are arrays in the order of `names`.

    Attributes
    ----------
    parameters : dict of str to Parameter
    center : Center
    terms : Terms
    curvature : array, shape (d, d)
        The matrix C.
    view : str
        The view, in words.
    derivative : str
        Where the derivatives come from.
    sample : PointSample
        How much of the displacement is the sample of points.
    """

    parameters: dict[str, Parameter]
    center: Center
    terms: Terms
    curvature: FloatArray
    view: str
    derivative: str
    sample: PointSample = field(repr=False)

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return list(self.parameters)

    def _scalar(self, array: FloatArray) -> Any:
        return float(array.reshape(())) if array.size == 1 else array

    @property
    def B(self) -> Any:
        """Signed score ``J^T M r``."""
        return self._scalar(self.terms.B)

    @property
    def H(self) -> Any:
        """Strength ``J^T M J``."""
        return self._scalar(self.terms.H)

    @property
    def C(self) -> Any:
        """Curvature term ``r^T M d^2 r``."""
        return self._scalar(self.curvature)

    @property
    def alignment(self) -> Any:
        """Signed alignment of the residual with each sensitivity, in [-1, 1]."""
        return self._scalar(self.terms.alignment)

    @property
    def residual_norm(self) -> float:
        """``sqrt(r^T M r)``."""
        return self.terms.residual_norm

    @property
    def identified(self) -> bool:
        """Whether the residual sees every direction of the parameters."""
        return not bool(self.terms.null.any())

    @property
    def displacement(self) -> dict[str, float]:
        """Displacement D of each coordinate; minimum norm where a direction is not seen."""
        return dict(zip(self.names, self.terms.displacement.tolist(), strict=True))

    @property
    def diagonal_displacement(self) -> dict[str, float]:
        """The displacement that ignores the coupling between parameters."""
        return dict(zip(self.names, self.terms.diagonal_displacement.tolist(), strict=True))

    @property
    def delta_percent(self) -> dict[str, float]:
        """Relative size of the displacement in percent, unsigned.

        ``100 |exp(D) - 1|`` in log coordinates, ``100 |D| / scale`` in linear ones.
        """
        return {
            name: _percent(parameter, self.center.values[name], self.displacement[name])
            for name, parameter in self.parameters.items()
        }

    @property
    def coupling(self) -> FloatArray:
        """``H_ij / sqrt(H_ii H_jj)``, shape (d, d); zero where a parameter is not seen."""
        strength = np.sqrt(np.maximum(np.diag(self.terms.H), 0.0))
        size = np.outer(strength, strength)
        return np.where(size > 0, self.terms.H / np.where(size > 0, size, 1.0), 0.0)

    @property
    def doubts(self) -> list[str]:
        """Why the local reading is not to be trusted, as sentences; empty when it is."""
        reasons = []
        if self.terms.null.any():
            blind = [
                self._in_words(row)
                for row, null in zip(self.terms.eigenvectors, self.terms.null, strict=True)
                if null
            ]
            reasons.append(f"the residual does not see {'; '.join(blind)}")
        if self.terms.null.all():
            return reasons
        ratio, lowest = self._relative_curvature()
        if lowest <= 0:
            reasons.append("H + C is not positive: the centre does not lie in a basin")
        elif ratio > TRUSTED_CURVATURE:
            reasons.append(f"the curvature term is {ratio:.2f} of H: let the frozen scan decide")
        return reasons

    @property
    def trusted(self) -> bool:
        """Whether the displacement may be read without a scan."""
        return not self.doubts

    def _in_words(self, direction: FloatArray) -> str:
        return " ".join(f"{s:+.2f} {n}" for s, n in zip(direction, self.names, strict=True))

    def _relative_curvature(self) -> tuple[float, float]:
        """Size of C relative to H, and the least curvature relative to H, where H sees."""
        seen = ~self.terms.null
        basis = self.terms.eigenvectors[seen] / np.sqrt(self.terms.eigenvalues[seen])[:, None]
        relative = np.linalg.eigvalsh(basis @ self.curvature @ basis.T)
        return float(np.abs(relative).max()), float(1 + relative.min())

    def directions(self) -> pd.DataFrame:
        """Return the eigen-directions of H, weakest first.

        Columns: eigenvalue, the displacement along the direction, its status ("null", "weak"
        or "seen"), and the step in each parameter's own units that the displacement means.
        """
        terms = self.terms
        slope = np.array(
            [
                value if p.coordinate == "log" else 1.0
                for p, value in zip(
                    self.parameters.values(), self.center.values.values(), strict=True
                )
            ]
        )
        rows = []
        for value, direction, null in zip(
            terms.eigenvalues, terms.eigenvectors, terms.null, strict=True
        ):
            along = float(direction @ terms.displacement)
            weak = value < WEAK_SHARE * terms.eigenvalues[-1]
            step = dict(zip(self.names, along * direction * slope, strict=True))
            status = "null" if null else "weak" if weak else "seen"
            rows.append({"eigenvalue": value, "displacement": along, "status": status, **step})
        return pd.DataFrame(rows).rename_axis("direction")

    def summary(self) -> pd.DataFrame:
        """Return a table with one row for each parameter."""
        terms = self.terms
        table = {
            "center": list(self.center.values.values()),
            "displacement": terms.displacement,
            "delta_percent": list(self.delta_percent.values()),
            "diagonal": terms.diagonal_displacement,
            "B": terms.B,
            "H": np.diag(terms.H),
            "C": np.diag(self.curvature),
            "alignment": terms.alignment,
        }
        table["standard_error"] = self.sample.standard_error
        if self.sample.fresh_displacement is not None:
            table["fresh_displacement"] = self.sample.fresh_displacement
        return pd.DataFrame(table, index=pd.Index(self.names, name="parameter"))

    def to_dataset(self) -> xr.Dataset:
        """Return everything as a labelled dataset."""
        terms, one, two = self.terms, ["parameter"], ["parameter", "other_parameter"]
        variables: dict[str, Any] = {
            "center": (one, list(self.center.values.values()), {"long_name": "expansion point"}),
            "B": (one, terms.B, {"long_name": "signed score J^T M r"}),
            "H": (two, terms.H, {"long_name": "strength J^T M J"}),
            "C": (two, self.curvature, {"long_name": "curvature term r^T M d2r"}),
            "displacement": (one, terms.displacement, {"long_name": "displacement -H^+ B"}),
            "diagonal_displacement": (
                one,
                terms.diagonal_displacement,
                {"long_name": "displacement of each parameter by itself"},
            ),
            "delta_percent": (
                one,
                list(self.delta_percent.values()),
                {"long_name": "relative size of the displacement", "units": "percent"},
            ),
            "alignment": (one, terms.alignment, {"long_name": "residual-sensitivity alignment"}),
        }
        variables["standard_error"] = (
            one,
            self.sample.standard_error,
            {"long_name": "standard error of the displacement over samples of points"},
        )
        if self.sample.fresh_displacement is not None:
            variables["fresh_displacement"] = (
                one,
                self.sample.fresh_displacement,
                {"long_name": "displacement on fresh points"},
            )
        attributes = {
            "centered_on": self.center.kind,
            "view": self.view,
            "derivative": self.derivative,
            "residual_norm": terms.residual_norm,
            "doubts": "\n".join(self.doubts),
        }
        coordinates = {"parameter": self.names, "other_parameter": self.names}
        return xr.Dataset(variables, coordinates, attributes)

    def __repr__(self) -> str:
        lines = [
            f"Score around the {_center_word(self.center)}, view: {self.view}, "
            f"derivatives: {self.derivative}",
            self.summary().to_string(float_format=lambda v: f"{v:.5g}"),
            *(f"! {line}" for line in self.doubts),
        ]
        return "\n".join(lines)


def _percent(parameter: Parameter, center: float, displacement: float) -> float:
    if parameter.coordinate == "log":
        with np.errstate(over="ignore"):  # a displacement beyond all measure is infinite
            return float(100 * abs(np.expm1(displacement)))
    return float(100 * abs(displacement) / parameter.unit(center))


def _center_word(center: Center) -> str:
    values = ", ".join(f"{name} = {value:g}" for name, value in center.values.items())
    kind = {"truth": "truth", "delivered": "delivered candidate", "point": "point"}[center.kind]
    return f"{kind} {values}"
