"""Matched fits to real data: estimate, profile set, noise and residual checks.

A resolution is data and can be saved; the model and the noise that it was made with are code and
cannot. As long as both live in one session (`LiveModel`), data that arrive later can be fitted,
and any parameter value can be put back into the solver and compared with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import real_array
from twoaxis.errors import InputError
from twoaxis.labels import Labels, aligned
from twoaxis.observations import Observations
from twoaxis.parameters import Parameters
from twoaxis.progress import Advance, progress_bar
from twoaxis.resolution.direct_fit import DirectEstimator
from twoaxis.resolution.interpolant_fit import Interpolant, local_interpolant
from twoaxis.resolution.layouts import (
    ALL_LAYOUTS,
    Missing,
    Noise,
    WhitenedLayout,
    checked_data,
    noise_of,
)
from twoaxis.resolution.linear_fit import LinearEstimator, variances
from twoaxis.resolution.matched_fit import Estimator, Fits, gauss_newton_step, profile_start
from twoaxis.resolution.misfit import NOISE_FREE, Check, check_residuals, is_noise_free
from twoaxis.resolution.setup import Setup, observations_for
from twoaxis.result import Message
from twoaxis.statistics import squares_limit

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

# Model runs that an interpolant for a profile may take, per value; a direct fit takes more.
RUNS_PER_VALUE = 10

# Noise that is assumed for noise-free data, as a share of their standard deviation.
NOMINAL_NOISE = 1e-2
# Fits by which the sizes of the noise of several groups are estimated: they change the weights, and
# these the sizes, by little after the first.
REWEIGHTED = 3


@dataclass(frozen=True)
class DataFit:
    """The matched fit to the observations on one layout.

    Attributes
    ----------
    layout : str
    fits : Fits
        Of one row, with its likelihood-profile sets.
    gauss_newton : array, shape (d,)
        Coordinates after one Gauss-Newton step from the delivered value.
    noise_scale : float
        Root mean square residual of the fit, in the units of the data, with n - d degrees of
        freedom.
    checks : list of Check
        None of noise-free data, whose residuals are those of a solver.
    noise_free : bool
        Whether the fit leaves next to nothing of the noise.
    """

    layout: str
    fits: Fits
    gauss_newton: FloatArray
    noise_scale: float
    checks: list[Check]
    noise_free: bool = False


def estimate_noise(setup: Setup, estimator: Estimator) -> Noise:
    """Estimate one standard deviation from the matched fits, pooled over the layouts.

    ``sqrt(sum of squared residuals / (observations - fitted parameters))``. Of noise-free data it
    is a nominal 1% of their standard deviation.
    """
    assert setup.data is not None  # `prepare` asks for noise or data
    data, total, freedom = setup.data, 0.0, 0
    layouts = setup.whitened(setup.unit_noise)
    for layout in layouts:
        fits = fit_row(estimator, layout, layout.row(data[layout.name])[None])
        total += float(fits.chi2[0])
        freedom += len(layout.sites) - fits.estimate.shape[1]
    size = deviation(np.concatenate([data[layout.name] for layout in layouts]))
    if freedom < 1 or size == 0:
        raise InputError(
            "data that leave a residual to estimate the noise from",
            f"{freedom} degrees of freedom and a residual sum of squares of {total:.3g}",
            "pass noise=... instead",
        )
    left = np.sqrt(max(total, 0.0) / freedom)  # differences of sums round below zero
    if left < NOISE_FREE * size:
        return Noise(np.full(setup.model.size, NOMINAL_NOISE * size))
    noise = Noise(np.full(setup.model.size, left), float(freedom))
    if setup.observations is None or setup.observations.group_count == 1:
        return noise
    return _noise_by_group(setup, setup.observations, estimator, noise)


def _noise_by_group(
    setup: Setup, observations: Observations, estimator: Estimator, noise: Noise
) -> Noise:
    """Estimate one standard deviation for each group of sensors, from fits weighted by them."""
    ordered = observations_for(observations, setup.model.shape, setup.labels)
    group = np.zeros(setup.model.size, dtype=np.intp)
    group[ordered.kept.ravel()] = ordered.groups
    assert setup.data is not None
    for _ in range(REWEIGHTED):
        squares, counts = np.zeros((2, ordered.group_count))
        for layout in setup.whitened(noise):
            row = layout.row(setup.data[layout.name])
            fits = fit_row(estimator, layout, row[None])
            rest = layout.white.color(row - estimator.predict(layout, fits.estimate[0]))
            squares += np.bincount(group[layout.sites], rest**2, ordered.group_count)
            counts += np.bincount(group[layout.sites], minlength=ordered.group_count)
        # Each group takes its share of the degrees of freedom that the fits used.
        levels = np.sqrt(squares / np.maximum(counts * noise.freedom / counts.sum(), 1e-300))
        if not (levels > 0).all():
            raise InputError(
                "residuals in each group of sensors, to estimate its noise from",
                f"none of {ordered.group_names[int(levels.argmin())]}",
                "pass noise=... to Observations, or join sensors to larger groups",
            )
        noise = replace(noise, array=levels[group])
    return noise


def deviation(values: FloatArray) -> float:
    """Return the standard deviation of data; of constant ones their size."""
    return float(np.std(values)) or float(np.abs(values).max())


def noise_free_messages(
    fits: Iterable[DataFit], data: Mapping[str, FloatArray], noise: Noise, nominal: bool
) -> list[Message]:
    """Say which data, by layout, are noise-free, and with which noise they are discussed."""
    messages = []
    for fit in fits:
        if not fit.noise_free:
            continue
        left = fit.noise_scale / (deviation(data[fit.layout]) or 1.0)
        assumed = "the declared noise is used"
        if nominal:
            assumed = f"noise of {float(noise.array[0]):.3g}, 1% of it, is assumed"
        text = (
            f"layout {fit.layout}: the data are noise-free: the matched fit leaves "
            f"{left:.1g} of their standard deviation; {assumed} for what such data would resolve, "
            "and residuals are not tested"
        )
        messages.append(Message("data.noise_free", text, numbers={"left": left}))
    return messages


def minima_messages(parameters: Parameters, fits: Iterable[DataFit]) -> list[Message]:
    """Say where data have several minima, or allow a parameter in separate intervals.

    Of a function the parameter with the most intervals stands for all its nodes.
    """
    messages = []
    for fit in fits:
        chi2 = fit.fits.minima_chi2
        if chi2 is not None and not fit.fits.center_won[0]:
            higher, starts = float(chi2[0, 0] - fit.fits.chi2[0]), chi2.shape[1]
            agreeing = int(fit.fits.agreeing_starts[0])
            text = (
                f"layout {fit.layout}: the start at the center ends in another minimum, whose chi2 "
                f"is {higher:.3g} higher than that of the estimate, the lowest of {starts} starts; "
                f"{agreeing} of them agree"
            )
            numbers = {"higher": higher, "starts": float(starts), "agreeing": float(agreeing)}
            messages.append(Message("resolution.data_minima", text, numbers=numbers))
        parts = fit.fits.parts
        if parts is None:
            continue
        counts = np.isfinite(parts[0, :, :, 0]).sum(axis=1)
        place = {name: j for j, name in enumerate(parameters)}
        told = [place[name] for name in parameters.scalars]
        for group in parameters.functions.values():
            nodes = [place[name] for name in group.members]
            told.append(max(nodes, key=lambda j: counts[j]))
        names = list(parameters)
        for j in told:
            if counts[j] < 2:
                continue
            name = names[j]
            values = np.asarray(parameters[name].to_value(parts[0, j, : counts[j]]))
            text = " and ".join(f"{low:.4g} to {high:.4g}" for low, high in values.tolist())
            numbers = {"intervals": float(counts[j])}
            for k, (low, high) in enumerate(values.tolist(), 1):
                numbers |= {f"lower {k}": low, f"upper {k}": high}
            messages.append(
                Message(
                    "resolution.separate_intervals",
                    f"layout {fit.layout}: the data allow {name} in {counts[j]} separate "
                    f"intervals, {text}; the interval that is reported spans all of them",
                    "warning",
                    numbers,
                )
            )
    return messages


def fit_row(
    estimator: Estimator, layout: WhitenedLayout, row: FloatArray, advance: Advance | None = None
) -> Fits:
    """Fit data, (1, n): a direct fit is made from more starts where there are several minima."""
    if isinstance(estimator, DirectEstimator):
        return estimator.search(layout, row, advance)
    return estimator.fit(layout, row, advance)


def fit_steps(setup: Setup) -> int:
    """Return by how much `fit_data` advances a progress bar: the fit, and the ends of the sets."""
    return 1 + 2 * len(setup.parameters)


def fit_data(
    setup: Setup,
    estimator: Estimator,
    layout: WhitenedLayout,
    values: FloatArray,
    advance: Advance | None = None,
) -> DataFit:
    """Fit the observed values of one layout and check the residuals."""
    rows = layout.row(values)[None]
    limit = squares_limit(setup.level, freedom=layout.freedom)
    fits = fit_row(estimator, layout, rows, advance)
    fits = estimator.sets(layout, rows, fits, limit, advance)
    dimension = fits.estimate.shape[1]
    residuals = rows[0] - estimator.predict(layout, fits.estimate[0])
    freedom = len(residuals) - dimension
    plain = layout.white.color(residuals)
    scale = float(np.sqrt(plain @ plain / max(freedom, 1)))
    checks = check_residuals(
        residuals,
        dimension,
        setup.points[layout.sites],
        noise_known=setup.noise is not None and np.isinf(setup.noise.freedom),
    )
    silent = is_noise_free(residuals, scale, deviation(values), checks, fitted=dimension)
    newton = gauss_newton_step(estimator, layout, rows, setup.start)[0]
    ends = np.clip(newton, *setup.bounds)
    return DataFit(layout.name, fits, ends, scale, [] if silent else checks, silent)


@dataclass(frozen=True)
class Observed:
    """Observations on one layout.

    Attributes
    ----------
    layout : WhitenedLayout
        Without the sites whose observation is missing.
    values : array, shape (n,)
    kept : array of int, shape (n,)
        Positions of these values in the layout as it was declared.
    messages : list of Message
        How many observations are missing, where any is.
    labels : tuple of Labels or None
        Of the layout as it was declared, and of what the forward model returns.
    """

    layout: WhitenedLayout
    values: FloatArray
    kept: IndexArray
    messages: list[Message]
    labels: tuple[Labels | None, ...] = ()


@dataclass
class Around:
    """The neighborhood of the fit to some observations.

    Attributes
    ----------
    observed : Observed
    fits : Fits
    slope : array, shape (n, d)
        Whitened sensitivities at the estimate.
    interpolant : Interpolant, optional
        Of the model around the estimate, once it was tried.
    tried : bool
    """

    observed: Observed
    fits: Fits
    slope: FloatArray
    interpolant: Interpolant | None = None
    tried: bool = False


class Misfit(NamedTuple):
    """The fitting model at some parameter values, against the observations.

    Attributes
    ----------
    residuals : array, shape (n,)
        Whitened, in noise levels; NaN where the model failed.
    reason : str
        Of the failure; empty where there is none.
    values : dict of str to float
        Physical values of all parameters: as given, and fitted where none was given.
    """

    residuals: FloatArray
    reason: str
    values: dict[str, float]


@dataclass(frozen=True, eq=False)
class LiveModel:
    """Forward model, estimator and noise of one resolution.

    Attributes
    ----------
    setup : Setup
    estimator : Estimator
    noise : Noise
        As declared, or as estimated from the data.
    """

    setup: Setup
    estimator: Estimator
    noise: Noise
    _last: dict[str, Around] = field(default_factory=dict, init=False, repr=False)

    @property
    def data(self) -> dict[str, FloatArray] | None:
        """Observations by layout, where the resolution was made with some."""
        return self.setup.data

    def observed(
        self,
        data: ArrayLike | Mapping[Any, ArrayLike] | Observations,
        layout: str | None,
        missing: Missing = "raise",
    ) -> Observed:
        """Return the observations of one layout, or of all together.

        Parameters
        ----------
        data : array, mapping of str to array or Observations
            In the shape that forward returns, as long as the layout, or by layout. Observations
            that know their noise are taken with it.
        layout : str, optional
            May be left out where there is one, or where the data have the shape that forward
            returns: then every site counts that some layout observes.
        missing : {"raise", "drop"}
            What to do with NaN: refuse the data, or leave those sites out.
        """
        # The data of the resolution itself are without what is missing.
        own = data is self.setup.data
        layouts = self.setup.layouts if own else self.setup.declared
        shape, known = self.setup.model.shape, self.setup.labels
        noise = self.noise
        if isinstance(data, Observations):
            ordered = observations_for(self._alike(data), shape, known)
            data, missing = ordered.scaled_values, "drop"
            noise = noise_of(ordered) or noise
        if layout is None and len(layouts) > 1:
            if isinstance(data, Mapping) or aligned("data", data, known).shape != shape:
                raise InputError(
                    f"the layout that the data belong to, one of {', '.join(layouts)}",
                    f"{len(layouts)} layouts and layout=None",
                    f'name it, as in layout="{next(iter(layouts))}"',
                )
            layout = ALL_LAYOUTS
            layouts = {layout: np.unique(np.concatenate(list(layouts.values())))}
        name = next(iter(layouts)) if layout is None else layout
        if name not in layouts:
            raise InputError(
                f"one of the layouts {', '.join(layouts)}", f"layout={layout!r}", "name one of them"
            )
        chosen: Any = data
        if isinstance(data, Mapping):
            chosen = {str(key): values for key, values in data.items() if str(key) == name}
        sites = {name: layouts[name]}
        readings = checked_data(chosen, sites, shape, missing, known)
        (whitened,) = self.setup.whitened(noise, readings.layouts)
        declared = self.setup.declared[name] if own else layouts[name]
        kept = np.flatnonzero(np.isin(declared, whitened.sites))
        told = self.setup.readings if own and self.setup.readings is not None else readings
        labels = (told.labels.get(name), known)
        return Observed(whitened, readings.values[name], kept, told.messages(name), labels)

    def _alike(self, data: Observations) -> Observations:
        """Return observations, if the forward model predicts what they observed."""
        own = self.setup.observations
        same = own is not None and (own.of, own.transform) == (data.of, data.transform)
        if not same and not (data.as_predicted and (own is None or own.as_predicted)):
            raise InputError(
                "observations of the outputs that the resolution was made for",
                f"of={data.of!r}, transform={data.transform!r}",
                "make the resolution with them: twoaxis.resolve(forward, parameters, data=...)",
            )
        return data

    def fit(self, observed: Observed, *, progress: bool = True) -> DataFit:
        """Fit the observations and check the residuals of the fit."""
        with progress_bar("fitting the data", fit_steps(self.setup), progress) as advance:
            found = fit_data(self.setup, self.estimator, observed.layout, observed.values, advance)
        self._last.clear()
        self._around(observed, found)
        return found

    def misfit(self, observed: Observed, values: Mapping[str, float]) -> Misfit:
        """Put physical values back into the fitting model and compare it with the observations.

        Parameters
        ----------
        observed : Observed
        values : mapping of str to float
            Parameters that are not named are fitted again, with the named ones held: these are
            the residuals of the profile likelihood.
        """
        parameters = self.setup.parameters
        self._check_names(values)
        layout, row = observed.layout, observed.layout.row(observed.values)
        named = np.array([name in values for name in parameters])
        if named.all():
            point = parameters.coordinates(values)
        else:
            around = self._around(observed)
            fits, slope = around.fits, around.slope
            given = np.where(named, 0.0, fits.estimate[0])
            for j, (name, parameter) in enumerate(parameters.items()):
                if name in values:
                    given[j] = parameter.to_coordinate(values[name])
            # Far from the estimate its linear continuation may be the worse start of the two.
            line = profile_start(slope, fits.estimate[0], given[None], named)
            starts = np.where(named, given, np.clip(np.vstack([line, given]), *self.setup.bounds))
            rows = np.broadcast_to(row, (2, len(row)))
            held = self.estimator.refit(layout, rows, starts, ~np.tile(named, (2, 1)))
            point = held.q[int(held.chi2.argmin())]
        predictions, reasons = self.setup.fit_model(point[None])
        residuals = np.full(len(layout.sites), np.nan)
        if not reasons[0]:
            residuals = layout.white(observed.values - predictions[0][layout.columns])
        return Misfit(residuals, reasons[0], parameters.named(parameters.physical(point)))

    def profile(
        self,
        observed: Observed,
        name: str,
        values: ArrayLike,
        fit: DataFit | None = None,
        *,
        refits: bool = True,
    ) -> FloatArray:
        """Return the deviance of the profile likelihood of one parameter, shape (V,).

        ``deviance(v) = min over the others of chi2(v, others) - min chi2``: the other parameters
        are fitted again at every value. It is zero at the estimate, and 3.84 at the ends of a 95%
        profile set; more where the noise was estimated (`twoaxis.statistics.squares_limit`). For
        several parameters, values within a few standard errors are computed on an interpolant of
        the model (`twoaxis.resolution.interpolant_fit`) where it is accurate enough, and the others
        with the model itself; for many, from its tangent (`twoaxis.resolution.linear_fit`).

        Parameters
        ----------
        observed : Observed
        name : str
            Of the parameter.
        values : array, shape (V,)
            Physical values of it, inside its bounds.
        fit : DataFit, optional
            What `fit` returned for the same observations; it is made again without it.
        refits : bool
            Whether the others are fitted with the model itself where there is no interpolant.

        Returns
        -------
        array, shape (V,)
            NaN where the model fails, or where it would be fitted and `refits` is false.
        """
        parameters = self.setup.parameters
        self._check_names({name: None})
        physical = np.atleast_1d(real_array("values", values))
        low, high = parameters[name].bounds
        if physical.ndim != 1 or not ((physical >= low) & (physical <= high)).all():
            raise InputError(
                f"values of {name} inside the bounds [{low:g}, {high:g}], shape (V,)",
                f"{physical.size} values from {physical.min():g} to {physical.max():g}"
                if physical.size
                else "none",
                "leave values beyond the bounds out, or widen the bounds",
            )
        around = self._around(observed, fit)
        estimate = around.fits.estimate[0]
        held = np.array([each == name for each in parameters])
        given = np.tile(estimate, (len(physical), 1))
        given[:, held] = parameters[name].to_coordinate(physical)[:, None]
        start = np.clip(profile_start(around.slope, estimate, given, held), *self.setup.bounds)
        start[:, held] = given[:, held]
        deviance = np.full(len(physical), np.nan)
        if isinstance(self.estimator, LinearEstimator):
            moved = (given - estimate)[:, held][:, 0]
            return np.asarray(moved**2 / variances(around.slope, self.setup.units)[held])
        if not held.all():
            deviance = self._interpolated_profile(observed, around, start, held)
        left = np.flatnonzero(np.isnan(deviance))
        if left.size and (refits or held.all()):
            found = self._held_chi2(observed, start[left], given[left], held)
            deviance[left] = np.maximum(found - around.fits.chi2[0], 0.0)
        return np.where(np.isfinite(deviance), deviance, np.nan)

    def _interpolated_profile(
        self, observed: Observed, around: Around, start: FloatArray, held: BoolArray
    ) -> FloatArray:
        """Return deviances of the profile on an interpolant around the estimate.

        NaN beyond its region, or everywhere where none is accurate enough.
        """
        unknown = np.full(len(start), np.nan)
        direct, layout = self.estimator, observed.layout
        if not isinstance(direct, DirectEstimator):
            return unknown
        if not around.tried:
            around.tried = True
            around.interpolant = local_interpolant(
                direct, layout, around.fits.estimate[0], around.slope, RUNS_PER_VALUE * len(start)
            )
        if around.interpolant is None:
            return unknown
        rows = np.tile(layout.row(observed.values), (len(start), 1))
        found = around.interpolant.refit(layout, rows, start, np.tile(~held, (len(start), 1)))
        lowest = around.interpolant.refit(layout, rows[:1], around.fits.estimate).chi2[0]
        known = np.isfinite(found.chi2) & found.converged & ~around.interpolant.left(found.q)
        return np.where(known, np.maximum(found.chi2 - lowest, 0.0), np.nan)

    def _held_chi2(
        self, observed: Observed, start: FloatArray, given: FloatArray, held: BoolArray
    ) -> FloatArray:
        """Return chi2 with some coordinates held, fitting the others with the model itself."""
        layout = observed.layout
        rows = np.tile(layout.row(observed.values), (len(start), 1))
        free = np.tile(~held, (len(start), 1))
        chi2 = self.estimator.refit(layout, rows, start, free).chi2
        failed = ~np.isfinite(chi2)
        if failed.any() and not held.all():  # the line may have left where the model works
            again = self.estimator.refit(layout, rows[failed], given[failed], free[failed])
            chi2[failed] = again.chi2
        return chi2

    def _around(self, observed: Observed, fit: DataFit | None = None) -> Around:
        """Return the fit to the observations; it is remembered for the last ones."""
        known = self._last.get("around")
        if known is not None and known.observed is observed:
            return known
        layout = observed.layout
        fits = (
            fit_row(self.estimator, layout, layout.row(observed.values)[None])
            if fit is None
            else fit.fits
        )
        slope = self.estimator.slope(layout, fits.estimate[0])
        self._last["around"] = Around(observed, fits, slope)
        return self._last["around"]

    def _check_names(self, names: Iterable[str]) -> None:
        unknown = [name for name in names if name not in self.setup.parameters]
        if unknown:
            raise InputError(
                f"names among {', '.join(self.setup.parameters)}",
                ", ".join(map(repr, unknown)),
                "name parameters of the forward model",
            )
