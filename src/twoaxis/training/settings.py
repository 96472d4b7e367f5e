"""What defines a run: the settings that a batch shares, and what differs from run to run.

Everything is checked here before any work is done: datasets, seeds, values, snapshots.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from twoaxis.arrays import is_integer, is_real
from twoaxis.datasets import Dataset, published_dataset
from twoaxis.errors import InputError
from twoaxis.problems import EvolutionProblem, Problem, get_problem
from twoaxis.training.methods import Method, get_method
from twoaxis.training.methods.method import StoredMethod
from twoaxis.training.network import Network, derivative_orders, input_count

Conditions = Literal["soft", "exact", "layered"]
Precision = Literal["float32", "float64"]

# Changes when the same settings would give other numbers, so that stored runs are told apart.
PROTOCOL = 1
# Bits of observations that the name of a run holds: those of the float32 that it is trained with.
DIGEST_BITS = 24
# What of a parameter the name of a run holds.
DEFINING = ("truth", "delivered", "bounds", "coordinate", "scale", "start")

# The published protocol.
STEPS = 5000
LEARNING_RATE = 1e-3
PHYSICS_WEIGHT = 2.0
RESIDUAL_POINTS = {"evolution": 2000, "steady": 2048}
BOUNDARY_POINTS = 512
# Open in the study: the boundary term counts like the data.
BOUNDARY_WEIGHT = 1.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all runs of a batch share.

    Parameters
    ----------
    problem : Problem
    method : Method
    network : Network
    steps : int
        Adam steps.
    conditions : {"soft", "exact", "layered"}
        ``"exact"`` builds initial and boundary conditions into the field. ``"soft"`` leaves
        them to the observations; steady problems get a boundary term. ``"layered"`` is exact,
        and the network also reads the variables of the layer that a jump in them creates.
    precision : {"float32", "float64"}
        Of the training. Diagnosis is always in float64.
    learning_rate : float
    physics_weight : float
        Factor of the residual term beside the data term.
    residual_points, boundary_points : int
        Sites of the residual, and of the boundary term of a steady problem.
    boundary_weight : float
        Factor of the boundary term beside the data term, which it joins.
    warmup : float
        Share of the steps during which the parameters rest.

    Examples
    --------
    >>> import dataclasses, twoaxis as ta
    >>> run = ta.train("burgers", datasets=8, steps=3, residual_points=50, progress=False)[0]
    >>> run.settings.steps, run.settings.conditions, run.settings.precision
    (3, 'soft', 'float32')
    >>> longer = dataclasses.replace(run.settings, steps=5000)  # for twoaxis.runs.train_specs
    >>> longer.steps
    5000
    """

    problem: Problem
    method: Method
    network: Network
    steps: int
    conditions: Conditions
    precision: Precision
    learning_rate: float
    physics_weight: float
    residual_points: int
    boundary_points: int
    boundary_weight: float
    warmup: float

    def __post_init__(self) -> None:
        for name in ("steps", "residual_points"):
            _check_count(name, getattr(self, name), 1)
        _check_count("boundary_points", self.boundary_points, 0)
        for name in ("learning_rate", "physics_weight"):
            _check_positive(name, getattr(self, name))
        _check_positive("boundary_weight", self.boundary_weight, or_zero=True)
        _check_choice("conditions", self.conditions, ("soft", "exact", "layered"))
        _check_choice("precision", self.precision, ("float32", "float64"))
        if not (is_real(self.warmup) and 0 <= self.warmup < 1):
            raise InputError(
                "a warm-up from 0 to below 1, as a share of the steps",
                f"warmup={self.warmup!r}",
                "pass warmup=0.2 for the first fifth",
            )
        if not isinstance(self.network, Network):
            raise InputError(
                "a network", repr(self.network), "pass twoaxis.Network(width=64, depth=3)"
            )
        if self.conditions != "soft" and self.problem.ansatz is None:
            raise InputError(
                "a problem with an exact-condition ansatz",
                f"{self.problem.name}, which has none",
                'pass conditions="soft", or give the problem an ansatz',
            )
        if self.conditions == "layered" and _closest(self.problem, "layered") != "layered":
            raise InputError(
                "a problem whose ansatz has the variables of a layer",
                f"{self.problem.name}, which has none",
                'pass conditions="exact"',
            )
        if self.precision == "float32" and self._continued:
            raise InputError(
                f'precision="float64" for the method {self.method.name}',
                'precision="float32"',
                "leave precision out: its linear systems need all digits",
            )
        derivative_orders(self.problem.derivatives, self.axes)
        for name in ("steps", "residual_points", "boundary_points"):
            object.__setattr__(self, name, int(getattr(self, name)))
        for name in ("learning_rate", "physics_weight", "boundary_weight", "warmup"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def _continued(self) -> bool:
        known = not isinstance(self.method, StoredMethod)
        return known and self.method.recipe().continuation is not None

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the coordinates, in the order of a point's columns."""
        return tuple(self.problem.domain)

    @property
    def inputs(self) -> int:
        """Number of inputs of the network."""
        return input_count(self.problem, self.conditions)

    @property
    def warmup_steps(self) -> int:
        """The step at which the parameters begin to move."""
        return round(self.warmup * self.steps)

    @property
    def has_boundary_term(self) -> bool:
        """Whether the field is held to boundary values by a term of the loss."""
        steady = not isinstance(self.problem, EvolutionProblem)
        return steady and self.conditions == "soft" and self.boundary_points > 0

    @property
    def conditions_are_open(self) -> bool:
        """Whether initial or boundary values are left to the observations."""
        return self.conditions == "soft" and not self.has_boundary_term

    def describe(self) -> dict[str, Any]:
        """Return everything that defines the numbers, as plain values."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain["problem"] = self.problem.name
        plain["network"] = dataclasses.asdict(self.network)
        plain["method"] = {"name": self.method.name, "options": method_options(self.method)}
        return plain


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What differs from run to run.

    Parameters
    ----------
    dataset : Dataset
        The observations.
    seed : int
        Seed of the initial network and of the residual sites.
    start : mapping of str to float
        Physical values at which the parameters start.
    fixed : frozenset of str
        Parameters that keep their starting value.

    Examples
    --------
    >>> import twoaxis as ta
    >>> from twoaxis.training import RunSpec
    >>> spec = RunSpec(
    ...     dataset=ta.published_dataset("burgers", 8),
    ...     seed=0,
    ...     start={"nu": 0.02},
    ...     fixed=frozenset({"nu"}),
    ... )
    >>> spec.dataset.label, spec.seed, spec.start
    ('8', 0, {'nu': 0.02})
    """

    dataset: Dataset
    seed: int
    start: Mapping[str, float]
    fixed: frozenset[str] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        _check_count("seed", self.seed, 0)
        if not isinstance(self.start, Mapping):
            raise InputError(
                "start as a mapping from names to values",
                repr(self.start)[:100],
                'pass start={"nu": 0.02}, with every parameter',
            )

    def describe(self) -> dict[str, Any]:
        """Return what defines the run beside its settings, as plain values."""
        return {
            "dataset": self.dataset.label,
            "provenance": self.dataset.provenance,
            "observations": _digest(self.dataset.values, self.dataset.coordinates),
            "seed": int(self.seed),
            "start": {name: float(value) for name, value in self.start.items()},
            "fixed": sorted(self.fixed),
        }

    def generator(self, stream: int) -> np.random.Generator:
        """Return random stream number `stream` of this run: 0 network, 1 sites, 2 boundary.

        Methods share the streams, so that runs of two methods with one seed and one dataset
        start from the same network at the same sites.
        """
        own = zlib.crc32(f"{self.dataset.problem}|{self.dataset.provenance}".encode())
        return np.random.default_rng([int(self.seed), own, stream])


def _digest(*arrays: NDArray[np.float64]) -> str:
    """Return a checksum of arrays, each to `DIGEST_BITS` bits of its largest number.

    The last bits of a simulated field differ between processors, whose libraries compute a sine
    or an exponential in different ways. Runs on the same data have the same key on all of them.
    """
    found = hashlib.sha256()
    for array in arrays:
        _, exponent = np.frexp(np.max(np.abs(array), initial=0.0))
        scaled = np.rint(np.ldexp(array, DIGEST_BITS - exponent))
        with np.errstate(invalid="ignore"):  # what is not finite is refused when it is trained on
            found.update(scaled.astype("<i8").tobytes())
    return found.hexdigest()


def _closest(problem: Problem, conditions: Conditions) -> Conditions:
    """Return the kind of conditions that a problem has in place of one that it lacks."""
    if conditions == "soft" or problem.ansatz is None:
        return "soft"
    return "exact" if problem.ansatz.layer_inputs is None else conditions


def settings_for(
    problem: str | Problem,
    method: str | Method = "rba",
    *,
    steps: int | None = None,
    network: Network | None = None,
    conditions: Conditions | None = None,
    precision: Precision | None = None,
    learning_rate: float = LEARNING_RATE,
    physics_weight: float = PHYSICS_WEIGHT,
    residual_points: int | None = None,
    boundary_points: int = BOUNDARY_POINTS,
    boundary_weight: float = BOUNDARY_WEIGHT,
    warmup: float | None = None,
) -> Settings:
    """Return the settings of a training; see `train`.

    Where nothing is given, they are those of the method, or else the published ones.
    """
    problem, method = get_problem(problem), get_method(method)
    recipe, steady = method.recipe(), not isinstance(problem, EvolutionProblem)
    chosen: dict[str, Any] = {
        "steps": STEPS,
        "network": Network(64, 4 if steady else 3),
        "conditions": "soft",
        "precision": "float32",
        "residual_points": RESIDUAL_POINTS["steady" if steady else "evolution"],
        **recipe.defaults,
    }
    chosen["conditions"] = _closest(problem, chosen["conditions"])
    given = {
        "steps": steps,
        "network": network,
        "conditions": conditions,
        "precision": precision,
        "residual_points": residual_points,
    }
    chosen |= {name: value for name, value in given.items() if value is not None}
    return Settings(
        problem=problem,
        method=method,
        learning_rate=learning_rate,
        physics_weight=physics_weight,
        boundary_points=boundary_points if steady else 0,
        boundary_weight=boundary_weight if steady else 0.0,
        warmup=recipe.warmup if warmup is None else warmup,
        **chosen,
    )


def specs_for(
    problem: Problem,
    *,
    datasets: int | Dataset | Iterable[int | Dataset] | None = None,
    seeds: int | Iterable[int] = 0,
    start: Mapping[str, float] | None = None,
    fixed: Mapping[str, float] | None = None,
) -> list[RunSpec]:
    """Return a run for every dataset and seed, in this order; see `train`."""
    started = starting_values(problem, start, fixed)
    each_seed = chosen_seeds(seeds)
    return [
        RunSpec(dataset=dataset, seed=seed, start=started, fixed=frozenset(fixed or {}))
        for dataset in chosen_datasets(problem, datasets)
        for seed in each_seed
    ]


def run_key(settings: Settings, spec: RunSpec) -> str:
    """Return a name that holds everything which defines the run, the last part as a hash.

    It looks like ``burgers-rba-d8-s0-1c0a5b7e0d2f``. A user's own problem is identified
    by its name, equation, domain and parameters, not by its code. What of a parameter does not
    reach the training, such as its unit, is no part of it: stored runs keep their names.
    """
    problem = settings.problem
    known = {
        name: {field: getattr(parameter, field) for field in DEFINING}
        for name, parameter in problem.parameters.items()
    }
    equation = [problem.equation, dict(problem.domain), known]
    defined = {"protocol": PROTOCOL, "equation": equation}
    defined |= {**settings.describe(), **spec.describe()}
    text = json.dumps(defined, sort_keys=True, default=plain_value)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    label = f"d{spec.dataset.label}-s{spec.seed}"
    return _safe(f"{settings.problem.name}-{settings.method.name}-{label}") + f"-{digest}"


def method_options(method: Method) -> dict[str, Any]:
    """Return the fields of a method; one that is no dataclass has none that we could name."""
    if isinstance(method, StoredMethod):
        return method.options
    if dataclasses.is_dataclass(method) and not isinstance(method, type):
        return dataclasses.asdict(method)
    return {}


def plain_value(value: Any) -> Any:
    """Return what stands in JSON for a value that JSON does not know."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return repr(value)


def _safe(text: str) -> str:
    """Keep letters, digits, dots, dashes: a key becomes a file name."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in text)[:120]


def _check_count(name: str, value: Any, least: int) -> None:
    if not (is_integer(value) and least <= value < 2**31):
        raise InputError(
            f"an integer of at least {least} as {name}", f"{name}={value!r}", f"change {name}"
        )


def _check_positive(name: str, value: Any, or_zero: bool = False) -> None:
    if not (is_real(value) and np.isfinite(value) and (value > 0 or (or_zero and value == 0))):
        kind = "not negative" if or_zero else "positive"
        raise InputError(
            f"a number that is {kind} as {name}", f"{name}={value!r}", f"change {name}"
        )


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} among {', '.join(choices)}", repr(value), "choose one of them")


def check_specs(problem: Problem, specs: Any) -> None:
    """Refuse runs that cannot be trained, whoever composed them."""
    if not isinstance(specs, Sequence) or not all(isinstance(spec, RunSpec) for spec in specs):
        raise InputError(
            "a list of twoaxis.training.RunSpec", repr(specs)[:100], "make one for every run"
        )
    for spec in specs:
        _check_dataset(problem, spec.dataset)
        known = starting_values(problem, spec.start, None)
        if set(spec.start) != set(known) or not spec.fixed <= set(known):
            raise InputError(
                f"values for {', '.join(known)}, of which some may be fixed",
                f"start={dict(spec.start)}, fixed={sorted(spec.fixed)}",
                "use the names of the problem's parameters",
            )


def starting_values(
    problem: Problem, start: Mapping[str, float] | None, fixed: Mapping[str, float] | None
) -> dict[str, float]:
    """Return where every parameter starts: the problem's values, replaced by those given."""
    for name, values_of in (("start", start), ("fixed", fixed)):
        if values_of is not None and not isinstance(values_of, Mapping):
            raise InputError(
                f"{name} as a mapping from names to values",
                repr(values_of)[:100],
                f"pass {name}={{{next(iter(problem.parameters))!r}: ...}}",
            )
    given = {**(start or {}), **(fixed or {})}
    unknown = sorted(set(given) - set(problem.parameters))
    both = sorted(set(start or {}) & set(fixed or {}))
    if unknown or both:
        raise InputError(
            f"starting or fixed values for {', '.join(problem.parameters)}, each once",
            f"values for {', '.join(unknown or both)}" + ("" if unknown else " twice"),
            "use the names of the problem's parameters",
        )
    values = {}
    for name, parameter in problem.parameters.items():
        value = given.get(name, parameter.start)
        if value is None:
            raise InputError(
                f"a starting value for {name}",
                "none in the problem and none given",
                f"pass start={{{name!r}: ...}}",
            )
        kind = "fixed value" if name in (fixed or {}) else "start"
        values[name] = parameter._checked_value(kind, value)
    return values


def chosen_datasets(problem: Problem, datasets: Any) -> list[Dataset]:
    """Return the datasets, each checked against the problem."""
    if datasets is None:
        datasets = problem.observed.layouts
    given = [datasets] if isinstance(datasets, (int, np.integer, Dataset)) else datasets
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise InputError(
            "datasets as published numbers or Dataset objects",
            repr(datasets)[:100],
            "pass datasets=[8, 9], or twoaxis.fresh_dataset(...)",
        )
    return [_checked_dataset(problem, each) for each in given]


def _checked_dataset(problem: Problem, dataset: Any) -> Dataset:
    if is_integer(dataset):
        return published_dataset(problem, int(dataset))
    if not isinstance(dataset, Dataset):
        raise InputError(
            "a dataset as a published number or a Dataset",
            repr(dataset)[:100],
            "pass datasets=[8, 9], or twoaxis.fresh_dataset(...)",
        )
    _check_dataset(problem, dataset)
    return dataset


def _check_dataset(problem: Problem, dataset: Any) -> None:
    """Refuse observations that cannot be used, before any work is done."""
    if not isinstance(dataset, Dataset) or dataset.problem != problem.name:
        raise InputError(
            f"a dataset of {problem.name}",
            f"one of {dataset.problem}" if isinstance(dataset, Dataset) else repr(dataset)[:100],
            "make it for the problem that you train on",
        )
    parts = ("values", "coordinates", "sites", "noise_scale")
    values, where, _, noise = (_numbers(dataset, name) for name in parts)
    if noise.ndim or not 0 <= noise < np.inf:
        raise InputError(
            "a finite noise_scale that is not negative",
            f"noise_scale={dataset.noise_scale!r}",
            "give the standard deviation of the noise, or 0 where none is known",
        )
    if values.ndim != 1 or where.shape != (len(values), len(problem.domain)) or not len(values):
        raise InputError(
            "observations of shape (n,) at coordinates of shape (n, 2)",
            f"values {values.shape} and coordinates {where.shape}",
            "give every observation its place in the domain",
        )
    if not np.isfinite(values).all():
        bad = np.flatnonzero(~np.isfinite(values))
        raise InputError(
            "finite observations",
            f"{len(bad)} of {len(values)} that are not (number {bad[0]} first)",
            "leave those observations out, with their coordinates",
        )
    low, high = np.array(list(problem.domain.values())).T
    outside = ~((where >= low) & (where <= high)).all(axis=1)
    if outside.any():
        first = where[outside][0]
        raise InputError(
            f"observation sites inside the domain {dict(problem.domain)}",
            f"{int(outside.sum())} outside, the first at {tuple(map(float, first))}",
            "check the order of the columns, or leave those sites out",
        )


def _numbers(dataset: Dataset, name: str) -> Any:
    try:
        array = np.asarray(getattr(dataset, name))
    except ValueError:  # rows of different length
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"real numbers as {name} of the dataset",
            f"{name}={getattr(dataset, name)!r}"[:100],
            "convert them to floats, or leave the dataset out",
        )
    return array


def chosen_seeds(seeds: Any) -> list[int]:
    """Return the seeds as a list."""
    given = [seeds] if isinstance(seeds, (int, np.integer)) else seeds
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise InputError("seeds as integers", repr(seeds)[:100], "pass seeds=range(10)")
    return cast("list[int]", list(given))


def snapshot_steps(snapshots: Any, steps: int) -> tuple[int, ...]:
    """Return after which steps the field is kept."""
    if is_integer(snapshots):
        if 0 <= snapshots <= steps:
            found = np.linspace(0, steps, int(snapshots) + 1)[1:]
            return tuple(sorted({round(float(step)) for step in found}))
    elif isinstance(snapshots, Sequence) and not isinstance(snapshots, (str, bytes)):
        kinds = {type(step) for step in snapshots}
        whole = all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds)
        if whole and all(1 <= step <= steps for step in snapshots):
            return tuple(sorted({int(step) for step in snapshots}))
    raise InputError(
        f"a number of snapshots from 0 to {steps}, or a list of steps from 1 to {steps}",
        f"snapshots={snapshots!r}",
        "pass snapshots=10, or snapshots=[100, 1000, 5000]",
    )
