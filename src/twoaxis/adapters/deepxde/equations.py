"""The equations of a frozen DeepXDE model as functions of its physical parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from twoaxis.adapters.deepxde.backend import Backend, FloatArray
from twoaxis.adapters.deepxde.unknowns import Unknown
from twoaxis.errors import InputError


@final
class Equations:
    """The equations of a frozen model as functions of physical parameters."""

    def __init__(self, backend: Backend, unknowns: Sequence[Unknown]) -> None:
        self.backend = backend
        self.unknowns = {unknown.name: unknown for unknown in unknowns}

    def _raw(self, values: Mapping[str, Any]) -> dict[int, float]:
        return {each.place: each.raw(float(values[n])) for n, each in self.unknowns.items()}

    def residual(self, points: FloatArray, skipped: int, values: Mapping[str, Any]) -> Any:
        """Return the residual at all points but the first ones, an array for each equation."""
        parts = self.backend.equations(points, self._raw(values))
        columns = tuple(column[skipped:] for part in parts for column in part.T)
        return columns if len(columns) > 1 else columns[0]

    def jacobian(self, points: FloatArray, skipped: int, values: Mapping[str, Any]) -> FloatArray:
        """Return exact derivatives by the physical parameters, (N, d)."""
        raw = self._raw(values)
        parts = self.backend.derivatives(points, raw)
        rows = np.concatenate([part[skipped:, n] for part in parts for n in range(part.shape[1])])
        slopes = [each.physical(raw[each.place])[1] for each in self.unknowns.values()]
        with np.errstate(divide="ignore", invalid="ignore"):  # a transform that is flat there
            found: FloatArray = rows / np.array(slopes)
        return found

    def first_call(self, points: FloatArray, center: Mapping[str, Any]) -> list[int]:
        """Evaluate once, in order to say plainly what is wrong; return the equations' widths."""
        raw = self._raw(center)
        try:
            values = self.backend.equations(points, raw)
            slopes = self.backend.derivatives(points, raw)
        except InputError:
            raise
        except Exception as error:
            mixed = self.backend.precision != self.backend.own
            raise InputError(
                "a PDE that can be evaluated at the training points"
                + (f" in {self.backend.precision}" if mixed else ""),
                f"{type(error).__name__}: {error}",
                'use precision="model"' if mixed else "check shapes, devices and derivatives",
            ) from error
        for j, name in enumerate(self.unknowns):
            if not any(part[..., j].any() for part in slopes):
                self._check_unseen(points, raw, name, values, j)
        return [part.shape[1] for part in values]

    def _check_unseen(
        self,
        points: FloatArray,
        raw: dict[int, float],
        name: str,
        values: list[FloatArray],
        j: int,
    ) -> None:
        """Say so where the residual changes with a parameter and its derivative is zero."""
        place = self.unknowns[name].place
        moved = {**raw, place: raw[place] * 1.1 + 0.1}
        changed = any(
            not np.array_equal(a, b, equal_nan=True)
            for a, b in zip(values, self.backend.equations(points, moved), strict=True)
        )
        slopes = self.backend.derivatives(points, moved)
        if changed and not any(part[..., j].any() for part in slopes):
            raise InputError(
                f"a PDE that can be differentiated by {name}",
                f"one that changes with {name} and has no derivative by it; training could not "
                "move it either",
                "compute with the variable itself, not with .item(), .detach() or float() of it",
            )
