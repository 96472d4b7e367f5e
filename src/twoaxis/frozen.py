"""A frozen residual: a trained field reduced to what axis 2 needs of it.

The field no longer changes; only the physical parameters do. What is left is a function
from parameters to residual values at fixed points. It may come from arrays, from JAX or
PyTorch code, or from an adapter, and everything downstream takes it in this one form.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.arrays import as_array, checked_points, real_array
from twoaxis.errors import (
    InputError,
    check_callable,
    check_mapping,
    check_words,
)
from twoaxis.labels import Labels, check_labels
from twoaxis.parameters import Parameter, Parameters, Unknowns
from twoaxis.training_loss import Objective, check_members
from twoaxis.weighted_model import WeightedModel, check_weighted

if TYPE_CHECKING:
    from twoaxis.result import Message
    from twoaxis.views import BoundView, View

FloatArray = NDArray[np.float64]

TAKEN_NAMES = {"profile", "status", "holds_center"}
# Values whose squares, and products of few of them, are far from underflow and overflow.
SMALLEST, LARGEST = 1e-140, 1e140
# Units of rounding of floating-point types other than double precision.
ROUNDING = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}
# Two evaluations may differ by this many units of rounding, as sums in parallel do.
REPEATABLE = 1e4


@dataclass(frozen=True, eq=False)
class FrozenResidual:
    """The residual of a frozen field at fixed points, as a function of the parameters.

    Arrays are copied: changing them later, as a training that draws its points again, changes
    nothing here. What `residual` itself has captured is not copied.

    Parameters
    ----------
    residual : callable
        ``residual(**parameters)``: residual values at the points, shape (N,) or (N, 1), with an
        unknown function as a `Function` that can be called; for
        several equations a tuple or list of such arrays, which are joined in order. It may
        return NumPy, JAX or PyTorch arrays.
    parameters : mapping of str to Parameter or UnknownFunction
    points : array, shape (N, k) or (N,)
        Where the residual is evaluated. For several equations on points of their own, a
        sequence with one array for each: the equation inside, an initial condition, a flux on
        the boundary. A parameter may appear in some of them only.
    view : View, optional
        The residual metric that the field was trained under; for several equations
        `twoaxis.views.Blocks`, with a view and a weight for each.
    jacobian : callable, optional
        ``jacobian(**parameters)``: exact derivatives with respect to the physical
        parameters, shape (N, d), where they are known.
    residual_at : callable, optional
        ``residual_at(points, **parameters)``: the residual at any other points.
    field : array, shape (N,), optional
        Values of the learned field at the points, for figures only; with points for each
        equation, joined in the same order.
    field_name : str
        Name of the field in figures.
    axes : tuple of str
        Names of the coordinates of a point, for figures.
    notes : tuple of Message or str
        What a reader of a diagnosis must know, such as the precision of the model.
    fitted : array, optional
        What the learned field predicts for each observation, in the shape and order of the
        data. With it an audit asks whether the network has fitted the data.
    data : array, optional
        The observed values, in the shape of `fitted`: one row per observation, and a column for
        each observed field where there are several.
    observed : array, shape (n, k), optional
        Where the observations lie.
    objective : Objective, optional
        The whole training loss, from `twoaxis.objective`. With it an audit asks whether training
        has finished, and `twoaxis.polish` needs no other.
    weights : WeightedModel, optional
        The model as a least-squares system in its weights: residual, field and conditions at any
        weights, with their Jacobians. The adapters of trained models supply it.
    about : mapping of str to str
        What the field is, for the head of a page, such as ``{"problem": "Burgers", "method":
        "RBA", "seed": "3"}``.
    equations : tuple of str
        Names of the equations, for figures, where the residual returns several arrays.
    fields : tuple of str
        Names of the observed fields, such as ``("S", "I")``, where the last axis of the data runs
        over several.
    labels : Labels, optional
        Of the rows of `data` or `observed`, where these are xarray or pandas objects.

    Examples
    --------
    >>> import numpy as np, twoaxis as ta
    >>> t = np.linspace(0, 5, 40)
    >>> known = {"k": ta.Parameter(truth=0.8, delivered=0.93, bounds=(0.1, 4.0))}
    >>> u, u_t = np.exp(-0.9 * t), -0.9 * np.exp(-0.9 * t)  # a learned field
    >>> frozen = ta.FrozenResidual(lambda k: u_t + k * u, known, t, view=ta.views.Pointwise())
    >>> frozen.names, frozen.size
    (['k'], 40)
    >>> round(ta.frozen_scan(frozen).minimum["k"], 6)
    0.9
    """

    residual: Callable[..., Any]
    parameters: Mapping[str, Parameter]
    points: Any
    view: View | None = None
    jacobian: Callable[..., Any] | None = None
    residual_at: Callable[..., Any] | None = None
    field: Any = None
    field_name: str = "u"
    axes: tuple[str, ...] = ()
    notes: tuple[Message | str, ...] = ()
    fitted: Any = None
    data: Any = None
    observed: Any = None
    objective: Objective | None = None
    weights: WeightedModel | None = None
    about: Mapping[str, str] = dataclasses.field(default_factory=dict)
    equations: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    labels: Labels | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", Parameters(self.parameters))
        taken = sorted(TAKEN_NAMES & set(self.parameters))
        if taken:
            raise InputError(
                f"names of parameters other than {', '.join(sorted(TAKEN_NAMES))}",
                ", ".join(map(repr, taken)),
                "rename it: the table of a scan has columns of these names",
            )
        for name, parameter in self.parameters.items():
            if parameter.coordinate == "linear" and max(map(abs, parameter.bounds)) > LARGEST:
                raise InputError(
                    f"bounds of {name} between {-LARGEST:g} and {LARGEST:g} in linear coordinates",
                    f"bounds={parameter.bounds}",
                    'narrow them, or pass coordinate="log" for a positive parameter',
                )
        object.__setattr__(self, "points", _checked_points(self.points))
        for name in ("axes", "notes", "equations", "fields"):
            check_words(name, getattr(self, name))
        check_mapping("about", self.about)
        if self.axes and len(self.axes) != self._width:
            raise InputError(
                f"a name for each of the {self._width} coordinates of a point",
                f"axes={self.axes!r}",
                "give as many names as the points have columns, or leave them out",
            )
        several = len(self.points) if isinstance(self.points, tuple) else 0
        if several and self.equations and len(self.equations) != several:
            raise InputError(
                f"a name for each of the {several} equations that have points of their own",
                f"equations={self.equations!r}",
                "give as many names as sets of points, or leave them out",
            )
        check_callable("residual", self.residual, self.known.argument_names)
        for name in ("jacobian", "residual_at"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise InputError(
                    f"{name} as a function",
                    type(given).__name__,
                    "pass a callable, or leave it out",
                )
        if self.view is not None:
            _check_view(self.view)
        if self.field is not None:
            object.__setattr__(self, "field", _checked_field(self.field, self.points))
        labels = Labels.of(self.data, "data") or Labels.of(self.observed, "observed") or self.labels
        if labels is not None:
            rows = labels.rows()
            check_labels("fitted", self.fitted, labels, rows)
            check_labels("observed", self.observed, rows)
            source = "the observations of the frozen residual"
            object.__setattr__(self, "labels", replace(rows, source=source))
        if self.fitted is not None:
            object.__setattr__(self, "fitted", checked_fitted(self.fitted))
        if self.observed is not None:
            object.__setattr__(self, "observed", checked_points(self.observed).copy())
        if self.data is not None:
            object.__setattr__(self, "data", real_array("data", self.data).copy())
        self._check_observations()
        if self.objective is not None:
            check_members(self.objective)
        if self.weights is not None:
            check_weighted(self.weights)

    def _check_observations(self) -> None:
        """Refuse data, fitted values and observed points of different lengths."""
        sizes = {}
        if self.data is not None:
            sizes["data"] = np.shape(self.data)
        if self.fitted is not None and not isinstance(self.fitted, Mapping):
            sizes["fitted"] = np.shape(self.fitted)
        differ = len(set(sizes.values())) > 1
        rows = {shape[0] if shape else 0 for shape in sizes.values()}
        if self.observed is not None and rows:
            differ = differ or rows != {len(self.observed)}
            sizes["observed"] = np.shape(self.observed)
        last = {shape[-1:] for name, shape in sizes.items() if name != "observed"}
        if len(self.fields) > 1 and last - {(len(self.fields),)}:
            raise InputError(
                f"data and fitted with a column for each of the {len(self.fields)} fields",
                ", ".join(f"{name} of shape {shape}" for name, shape in sizes.items()),
                "stack the observed fields as columns, or name only those that were observed",
            )
        if differ:
            raise InputError(
                "data and fitted of one shape, and an observed point for each of their rows",
                ", ".join(f"{name} of shape {shape}" for name, shape in sizes.items()),
                "evaluate the field at the observed points, in the order of the data",
            )

    def __repr__(self) -> str:
        values = ", ".join(
            name + (f"={p.delivered:.6g}" if p.delivered is not None else "")
            for name, p in self.parameters.items()
        )
        view = "no training view" if self.view is None else self.view.describe()
        several = isinstance(self.points, tuple)
        count = sum(map(len, self.points)) if several else len(self.points)
        return f"<FrozenResidual of {values} at {count:,} points; {view}>"

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return list(self.parameters)

    @property
    def size(self) -> int:
        """Number of residual values that the points call for, or 0 where that is open.

        With one array of points and several equations only a call can tell.
        """
        return 0 if isinstance(self.points, tuple) else len(self.points)

    @property
    def axis_names(self) -> list[str]:
        """Names of the coordinates of a point: `axes`, or else x0, x1, ..."""
        return [str(name) for name in self.axes] or [f"x{k}" for k in range(self._width)]

    @property
    def _width(self) -> int:
        """Number of coordinates of a point; the largest one where equations differ."""
        several = self.points if isinstance(self.points, tuple) else (self.points,)
        return max(int(part.shape[1]) for part in several)

    def places(self, size: int) -> FloatArray:
        """Return where each of `size` residual values lies, shape (size, k).

        Equations on shared points repeat them; points with fewer coordinates than others are
        filled up with 0.
        """
        if not isinstance(self.points, tuple):
            return np.tile(self.points, (size // len(self.points), 1))
        width = self._width
        return np.concatenate([np.pad(p, ((0, 0), (0, width - p.shape[1]))) for p in self.points])

    def equation_of(self, size: int) -> tuple[list[str], NDArray[np.intp]]:
        """Return the names of the equations, and the row in them of each of `size` values.

        Without names of their own, equations are numbered from 1.
        """
        if isinstance(self.points, tuple):
            lengths = [len(part) for part in self.points]
        else:
            lengths = [len(self.points)] * max(1, size // len(self.points))
        names = [f"equation {k}" for k in range(1, len(lengths) + 1)]
        if len(self.equations) == len(lengths):
            names = [str(name) for name in self.equations]
        return names, np.repeat(np.arange(len(lengths)), lengths)

    def raw(self, values: Mapping[str, Any]) -> Any:
        """Call the residual as it is; what it raises becomes an `InputError` with that cause.

        `values` are by parameter name; the residual gets unknown functions as `Function`.
        """
        known = self.known
        arguments = known.arguments(values)
        output = called("residual", self.residual, arguments)
        known.check_reached("residual", arguments)
        return output

    @property
    def known(self) -> Parameters:
        """The parameters, which were checked when the residual was made."""
        assert isinstance(self.parameters, Parameters)  # `__post_init__` made it so
        return self.parameters

    def at(self, coordinates: FloatArray) -> FloatArray:
        """Residual values, float64, at coordinates of shape (d,)."""
        values = self.physical(coordinates)
        return self.checked(self.raw(values), values)

    def physical(self, coordinates: FloatArray) -> dict[str, float]:
        """Physical parameters by name.

        Coordinates inside the bounds give values inside them, and a bound gives itself:
        ``exp(log(p))`` is p only to rounding.
        """
        found = self.known.named(self.known.physical(coordinates))
        ends = zip(coordinates, *self.coordinate_bounds, strict=True)
        for (name, p), (q, low, high) in zip(self.parameters.items(), ends, strict=True):
            if q in (low, high):
                found[name] = p.bounds[0] if q == low else p.bounds[1]
            elif low < q < high:
                found[name] = min(max(found[name], p.bounds[0]), p.bounds[1])
        return found

    def coordinates(self, values: Mapping[str, float]) -> FloatArray:
        """Coordinates, shape (d,), of physical parameters by name."""
        return np.array([float(p.to_coordinate(values[n])) for n, p in self.parameters.items()])

    @property
    def coordinate_bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the coordinates, each of shape (d,)."""
        return self.known.coordinate_bounds

    def checked(self, output: Any, values: Mapping[str, float]) -> FloatArray:
        """Return the residual's output as a vector of floats, or say what is wrong with it."""
        at = ", ".join(f"{name}={value:g}" for name, value in values.items())
        parts = output if isinstance(output, (tuple, list)) else [output]
        vectors = [_as_vector(part, at) for part in parts]
        vector = np.concatenate(vectors)
        if isinstance(self.points, tuple):
            expected, got = [len(p) for p in self.points], [len(v) for v in vectors]
            if expected != got:
                raise InputError(
                    f"equations with as many residual values as they have points, {expected}",
                    f"{got} for {at}",
                    "return one array for each set of points, in the same order",
                )
        if len(parts) == 1 and self.size and len(vector) != self.size:
            raise InputError(
                f"as many residual values as points, {self.size}",
                f"{len(vector)} for {at}",
                "pass points.T: they have a row for each point, as np.column_stack([x, t]) has"
                if self._width == len(vector)
                else "return a tuple, one entry per equation, where there are several"
                if len(vector) % self.size == 0
                else "evaluate the residual at exactly the points that you pass, and return a "
                "tuple, one entry per equation, where there are several",
            )
        bad = np.flatnonzero(~np.isfinite(vector))
        if bad.size:
            shown = ", ".join(map(str, bad[:5])) + (", ..." if bad.size > 5 else "")
            raise InputError(
                "a finite residual at every point",
                f"{bad.size} of {len(vector)} values not finite for {at} (points {shown})",
                "leave those points out, or correct the field there",
            )
        return vector

    def moved_to(self, points: ArrayLike) -> FrozenResidual:
        """Return the same field at other points; needs `residual_at`."""
        if self.residual_at is None:
            raise InputError(
                "a residual that can be evaluated elsewhere",
                "one that is known at its points alone",
                "pass residual_at=lambda points, **parameters: ... to FrozenResidual",
            )
        where, function = _checked_points(points), self.residual_at
        return replace(
            self,
            points=where,
            residual=lambda **values: function(where, **values),
            jacobian=None,
            field=None,
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write what an audit needs to one netCDF file, without the model behind it.

        A residual that is affine in its physical parameters is stored exactly. Any other is
        called at Chebyshev nodes inside the bounds, as often as interpolation between them
        needs to be accurate to 1e-8 (1e-5 in single precision), at most 5,000 times; the
        accuracy that was reached is stored and is the last note of the loaded residual.
        `residual_at`, `objective` and `weights` are not stored.

        Parameters
        ----------
        path : path-like
            The file to write, such as ``"residual.nc"``, completely or not at all.

        Returns
        -------
        Path
            Of the file. `twoaxis.load` returns the residual; plain xarray opens the file, too.

        Examples
        --------
        >>> import tempfile, twoaxis as ta
        >>> frozen = ta.FrozenResidual(
        ...     lambda k: np.exp(-k * np.arange(4.0)) - 0.2, points=np.arange(4.0),
        ...     parameters={"k": ta.Parameter(truth=1.0, bounds=(0.5, 2.0))},
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     loaded = ta.load(frozen.save(folder + "/residual.nc"))
        >>> bool(abs(loaded.residual(k=1.3) - frozen.residual(k=1.3)).max() < 1e-11)
        True
        """
        # At call time: writing builds upon this module.
        from twoaxis.exported.file import save_residual

        return save_residual(self, path)


def called(what: str, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a user's function of the parameters, and say with what it was called if it raises."""
    try:
        return function(**values)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever a user's function or its library raises
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in values.items())
        raise InputError(
            f"a {what} that can be evaluated inside the parameter bounds",
            f"{type(error).__name__} from {what}({shown}): {error}",
            f"correct {what} there, or narrow the bounds to where it is defined",
        ) from error


def _shown(value: Any) -> str:
    """A parameter value in an error; automatic differentiation passes objects of its own."""
    try:
        return f"{float(value):.6g}"
    except Exception:
        return type(value).__name__


def rounding_unit(output: Any) -> float:
    """Return the unit of rounding of the least precise array that a residual returned."""
    parts = output if isinstance(output, (tuple, list)) else [output]
    kinds = [str(getattr(part, "dtype", "float64")).removeprefix("torch.") for part in parts]
    return max(ROUNDING.get(kind, 2.0**-52) for kind in kinds)


def check_repeatable(
    frozen: FrozenResidual, output: Any, residual: FloatArray, values: Mapping[str, float]
) -> None:
    """Evaluate a residual once more at the same values, and refuse a random one."""
    again = frozen.checked(frozen.raw(values), values)
    shown = ", ".join(f"{name}={value:g}" for name, value in values.items())
    check_same(f"residual for {shown}", residual, again, rounding_unit(output))


def check_same(what: str, first: FloatArray, again: FloatArray, unit: float = 2.0**-52) -> None:
    """Refuse two evaluations that differ by more than some units of rounding."""
    size = float(np.abs(first).max(initial=0.0))
    same_shape = first.shape == again.shape
    with np.errstate(invalid="ignore"):  # values that are not finite are refused for that
        difference = float(np.abs(again - first).max(initial=0.0)) if same_shape else np.inf
    if difference > REPEATABLE * unit * size:
        refuse_random(what, f"differ by up to {difference:.3g}, of at most {size:.3g}")


def refuse_random(what: str, how: str) -> NoReturn:
    """Raise for a function that draws random numbers whenever it is called."""
    raise InputError(
        f"a deterministic {what}",
        f"two evaluations that {how}: it is not deterministic",
        "draw random points and noise once, before it is called, or with fixed seeds inside; "
        "switch dropout off with net.eval(), and leave noise out of the network",
    )


def same_size(values: FloatArray, residual: FloatArray) -> FloatArray:
    """Return `values`, unless the residual has changed its length with the parameter."""
    if len(values) != len(residual):
        raise InputError(
            "a residual of the same length for every parameter",
            f"{len(residual)} values at the center and {len(values)} elsewhere",
            "evaluate the residual at the same points for every parameter",
        )
    return values


def check_magnitude(largest: float, what: str, *, tiny: bool = True) -> None:
    """Refuse values whose squares overflow, or, where `tiny`, underflow; zero is fine."""
    if largest > LARGEST or (tiny and 0 < largest < SMALLEST):
        raise InputError(
            f"a {what} between {SMALLEST:g} and {LARGEST:g}, so that its square can be represented",
            f"values of at most {largest:.3g}",
            "multiply the residual by a constant, which changes no displacement, or narrow the "
            "bounds",
        )


def as_frozen(
    residual: Callable[..., Any] | FrozenResidual,
    parameters: Unknowns | None,
    points: Any,
) -> FrozenResidual:
    """Return the first argument of an axis-2 function as a frozen residual."""
    if isinstance(residual, FrozenResidual):
        if parameters is not None or points is not None:
            raise InputError(
                "a frozen residual alone, which carries its parameters and points",
                "a frozen residual and parameters or points beside it",
                "leave them out, or replace them in the frozen residual",
            )
        return residual
    if parameters is None or points is None:
        missing = "parameters" if parameters is None else "points"
        raise InputError(
            "the residual function with its parameters and its points",
            f"no {missing}",
            f"pass {missing}=..., or a twoaxis.FrozenResidual that carries them",
        )
    return FrozenResidual(residual, Parameters(parameters), points)


def _checked_points(points: Any) -> Any:
    """Return a copy of points as a float array (N, k), or a tuple of them for several equations."""
    if isinstance(points, (tuple, list)) and len(points) and hasattr(points[0], "shape"):
        shapes = [tuple(part.shape) for part in points]
        if any(len(shape) == 2 for shape in shapes) or len(set(shapes)) > 1:
            return tuple(checked_points(part).copy() for part in points)
    return checked_points(points).copy()


def checked_fitted(fitted: Any) -> Any:
    """Return what a field predicts for the observations as copied arrays of finite numbers.

    One array, or a mapping of layout names to arrays, as data are given.
    """
    if isinstance(fitted, Mapping):
        return {str(name): checked_fitted(values) for name, values in fitted.items()}
    array = real_array("fitted", fitted)
    if not array.size or not np.isfinite(array).all():
        raise InputError(
            "fitted as finite numbers, what the field predicts for each observation",
            f"{int((~np.isfinite(array)).sum())} of {array.size} values not finite",
            "evaluate the trained field at the observed points",
        )
    return array.copy()


def _checked_field(field: Any, points: Any) -> FloatArray:
    """Return the field as a float vector with a value for each point."""
    count = sum(map(len, points)) if isinstance(points, tuple) else len(points)
    array = as_array("the field", field)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    finite = array.dtype.kind in "iuf" and np.isfinite(array).all()
    if array.shape != (count,) or not finite:
        raise InputError(
            f"the field as {count} finite numbers, one for each point",
            f"an array of {array.dtype} with shape {array.shape}",
            "evaluate the field at exactly these points, or leave it out",
        )
    return array.astype(float)


def _as_vector(part: Any, at: str) -> FloatArray:
    """One equation's residual as a float vector."""
    array = as_array(f"the residual for {at}", part)
    if array.dtype.kind != "f":
        raise InputError(
            "a residual of real floating-point numbers",
            f"an array of {array.dtype} for {at}",
            "return its real and its imaginary part in a tuple, two equations of floats"
            if array.dtype.kind == "c"
            else "return float arrays; integers usually mean that a cast was forgotten",
        )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            "a residual of shape (N,), or (N, 1), or a tuple of such for several equations",
            f"the shape {array.shape} for {at}",
            "return a tuple with an array (N,) for each equation",
        )
    return array.astype(float)


def _check_view(view: Any) -> None:
    if not hasattr(view, "bind") or isinstance(view, type):
        raise InputError(
            "a view of the residual",
            f"the class {view.__name__}" if isinstance(view, type) else type(view).__name__,
            "pass one of twoaxis.views, for instance twoaxis.views.Patch(cells=8)",
        )


def bound_view(frozen: FrozenResidual, view: View | BoundView | None) -> Any:
    """Bind the given view, or else the training view, to the residual's points.

    A view that is bound already passes through, so that several calls can share it.
    """
    chosen: Any = view if view is not None else frozen.view
    if chosen is None:
        raise InputError(
            "a view of the residual",
            "none, and the frozen residual carries no training view",
            "pass one, for instance twoaxis.views.Pointwise()",
        )
    if hasattr(chosen, "apply") and not isinstance(chosen, type):
        return chosen  # bound already: its eigenpairs need not be computed again
    _check_view(chosen)
    # Here and not above: views are needed to bind one, and not to hold a residual.
    from twoaxis.views import Blocks

    if isinstance(frozen.points, tuple) and not isinstance(chosen, Blocks):
        count = len(frozen.points)
        raise InputError(
            f"a view for each of the {count} equations, which have points of their own",
            f"one for all, {chosen.describe()}",
            f"pass twoaxis.views.Blocks([...], weights=[...]) with {count} of each",
        )
    return chosen.bind(frozen.points)


# Whether models are frozen again and again while they train. Adapters then take a model that has
# not been trained yet, and leave out what only a finished one needs: its loss and its Jacobians.
_TRAINING: ContextVar[list[Any] | None] = ContextVar("training", default=None)


@contextmanager
def while_training(programs: list[Any]) -> Iterator[None]:
    """Let adapters freeze a model quickly, in the middle of its training.

    `programs` keeps what they compiled from one measurement to the next; see `kept_program`.
    """
    token = _TRAINING.set(programs)
    try:
        yield
    finally:
        _TRAINING.reset(token)


def in_training() -> bool:
    """Whether a model is frozen in the middle of its training."""
    return _TRAINING.get() is not None


Program = TypeVar("Program")


def kept_program(fits: Callable[[Any], bool], make: Callable[[], Program]) -> Program:
    """Return a compiled program that fits a model, from an earlier step of its training.

    Outside of a training, and where none fits, one is made.
    """
    programs = _TRAINING.get()
    found: Program | None = next(filter(fits, programs or ()), None)
    if found is None:
        found = make()
        if programs is not None:
            programs.append(found)
    return found


Residual = Callable[..., Any] | FrozenResidual
Points = ArrayLike | Sequence[ArrayLike] | None
