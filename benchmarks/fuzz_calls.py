"""Mutated calls: every public door with arguments that nobody should pass.

A call is made of sound arguments, of which one or two are replaced: by numbers that are huge, tiny,
negative or none, by arrays of other shapes and types, by functions that fail, return nonsense or
change from call to call, by parameters with extreme bounds. It ends well if it is refused with an
InputError, or gives a result that can be summarized, drawn, shown, saved and loaded again.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import twoaxis as ta
from twoaxis.gauss_newton import Continuation

X = np.linspace(0.0, 1.0, 12)
DECAY = np.exp(-X)
PARAMETERS = {"k": ta.Parameter(truth=1.0, delivered=1.1, bounds=(0.5, 2.0))}
TWO = {
    "k": ta.Parameter(truth=1.0, delivered=1.1, bounds=(0.5, 2.0)),
    "a": ta.Parameter(truth=0.3, delivered=0.2, bounds=(-1.0, 1.0), coordinate="linear", scale=1.0),
}


def residual(k: Any) -> Any:
    """A residual that is linear in its parameter."""
    return k * DECAY - DECAY + 0.1 * np.cos(7 * X)


def forward(k: Any) -> Any:
    """A forward model."""
    return np.exp(-k * X)


def pipeline(values: Any, seed: int) -> float:
    """A pipeline that answers at once."""
    return float(np.clip(1.0 - np.log(max(values[-1], 1e-3)) / 2 + 1e-3 * (seed % 7), 0.5, 2.0))


# ------------------------------------------------------------------ using what came back


def use(found: Any) -> None:
    """Do with a result what every reader may do, and find the same in its file."""
    if isinstance(found, ta.FrozenResidual):  # a promise, which is kept or broken here
        repr(found)
        try:
            found = ta.score(found, view=found.view or ta.views.Pointwise())
        except ta.InputError:
            return
    if not isinstance(found, ta.Result):
        return
    repr(found), found.summary(), found._repr_html_()
    found.plot()
    plt.close("all")
    with tempfile.TemporaryDirectory() as folder:
        found.to_html(Path(folder) / "page.html")
        again = ta.load(found.save(Path(folder) / "result.nc"))
        if repr(again) != repr(found):
            raise AssertionError("the loaded result differs from the saved one")


# ------------------------------------------------------------------ the doors


@dataclass(frozen=True)
class Door:
    """A public function, arguments with which it works, and the library that it needs."""

    call: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]
    library: str = ""


def _field_arguments() -> dict[str, Any]:
    return {
        "residual": residual,
        "parameters": PARAMETERS,
        "view": ta.views.Pointwise(),
        "points": X[:, None],
        "at": None,
    }


def _world() -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "forward": forward,
        "parameters": {"k": ta.Parameter(delivered=1.1, bounds=(0.5, 2.0))},
        "noise": 0.05,
        "seed": 0,
        "progress": False,
    }


def _resolved() -> ta.Resolution:
    return ta.resolve(forward, PARAMETERS, 0.05, replicas=4, bank=41, progress=False)


def _audited(delivered: float = 1.1) -> ta.Audit:
    known = {"k": replace(PARAMETERS["k"], delivered=delivered)}
    return ta.audit(residual, known, ta.views.Pointwise(), points=X[:, None])


def _follow(frozen: Any, first: Any, second: Any, view: Any) -> Any:
    return ta.follow([(first, frozen), (second, frozen)], view)


def _trained(values: Any, seed: int) -> ta.FrozenResidual:  # noqa: ARG001
    known = {"k": ta.Parameter(delivered=float(1 + 0.1 * values[0]), bounds=(0.5, 2.0))}
    return ta.FrozenResidual(residual, known, X, view=ta.views.Pointwise())


# ------------------------------------------------------------------ a network of four weights

KNOWN = {"k": ta.Parameter(delivered=1.3, bounds=(0.5, 2.0))}
WEIGHTS = np.array([0.9, -0.7, 0.2, 0.0])


def field(weights: Any, points: Any) -> Any:
    """A polynomial, for any library whose arrays it is given."""
    x = points[:, 0]
    return weights[0] + x * (weights[1] + x * (weights[2] + x * weights[3]))


def equation(weights: Any, points: Any, k: Any) -> Any:
    """The residual of u' + k u = 0."""
    x = points[:, 0]
    return weights[1] + x * (2 * weights[2] + 3 * x * weights[3]) + k * field(weights, points)


def condition(weights: Any) -> Any:
    """The misfit of u(0) = 1."""
    return weights[:1] - 1.0


class JointLoss:
    """A training loss of the polynomial and its parameter, with its gradient."""

    names = ("k",)

    def __init__(self, loss: Any, start: Any, frozen: Any) -> None:
        self.value_and_gradient, self.start, self._frozen = loss, start, frozen

    def frozen(self, vector: Any) -> Any:
        """Return the frozen residual of a state."""
        return replace(
            self._frozen,
            residual=lambda k: equation(vector[:-1], X[:, None], k),
            parameters={"k": replace(self._frozen.parameters["k"], delivered=float(vector[-1]))},
        )


def joint_loss(vector: Any) -> Any:
    """Return the mean square of the residual and of the misfit of u(0) = 1, with the gradient."""
    weights, k = vector[:-1], vector[-1]
    powers = X[:, None] ** np.arange(4)
    slopes = np.column_stack([0 * X, *(n * X ** (n - 1) for n in (1, 2, 3))]) + k * powers
    r, c = slopes @ weights, weights[0] - 1.0
    by_weights = 2 * slopes.T @ r / len(X) + np.array([2 * c, 0, 0, 0])
    gradient = np.append(by_weights, 2 * r @ (powers @ weights) / len(X))
    return float(r @ r / len(X) + c * c), gradient


def _polish(residual: Any, parameters: Any, points: Any, loss: Any, **options: Any) -> Any:
    frozen = ta.FrozenResidual(residual, parameters, points, view=ta.views.Pointwise())
    start = np.append(WEIGHTS, 1.3)
    objective = None if loss is None else JointLoss(loss, start, frozen)
    return ta.polish(frozen, objective, progress=False, **options)


def _from_jax(**options: Any) -> Any:
    return ta.from_jax(**options)  # not at the top: without JAX the other doors are open, too


def _refine(data: Any, noise: Any, seed: Any, continuation: Any, **options: Any) -> Any:
    return ta.refine(
        ta.from_jax(WEIGHTS, **options),
        data,
        noise=noise,
        seed=seed,
        continuation=continuation,
        progress=False,
    )


# ------------------------------------------------------------------ arguments that work

DOORS: dict[str, Door] = {
    "score": Door(
        ta.score,
        lambda: {
            **_field_arguments(),
            "derivative": "auto",
            "step": 1e-3,
            "fresh": None,
            "seed": 0,
        },
    ),
    "frozen_scan": Door(
        ta.frozen_scan, lambda: {**_field_arguments(), "candidates": 21, "starts": 2}
    ),
    "spectrum": Door(
        ta.spectrum,
        lambda: {**_field_arguments(), "view": ta.views.Gaussian(), "parameter": None, "modes": 5},
    ),
    "evidence_map": Door(
        ta.evidence_map,
        lambda: {**_field_arguments(), "regions": None, "modes": None, "progress": False},
    ),
    "delivery": Door(
        ta.delivery,
        lambda: {"parameters": PARAMETERS, "preferred": {"k": 0.9}, "view": "pointwise"},
    ),
    "frozen": Door(
        ta.FrozenResidual,
        lambda: {
            "residual": residual,
            "parameters": PARAMETERS,
            "points": X,
            "view": ta.views.Pointwise(),
            "jacobian": lambda k: DECAY,  # noqa: ARG005
            "field": X**2,
            "axes": ("t",),
            "notes": ("made up",),
        },
    ),
    "resolve": Door(
        ta.resolve,
        lambda: {
            "forward": forward,
            "parameters": PARAMETERS,
            "noise": 0.05,
            "layouts": {"a": [0, 3, 7, 11], "b": [1, 2, 9]},
            "replicas": 4,
            "seed": 0,
            "at": None,
            "data": forward(1.05) + 0.05 * np.cos(40 * X),
            "points": X[:, None],
            "bank": 21,
            "starts": 2,
            "level": 0.95,
            "validate": 1,
            "progress": False,
        },
    ),
    "audit": Door(
        ta.audit,
        lambda: {
            **_field_arguments(),
            "resolution": _resolved(),
            "data": forward(1.05) + 0.05 * np.cos(40 * X),
            "tolerance": ta.Tolerance(5.0, 5.0, 5.0),
            "level": 0.99,
            "candidates": 21,
            "history": None,
            "notes": (),
            "about": None,
        },
    ),
    "compare": Door(
        ta.compare, lambda: {"audits": {"first": _audited(1.1), "second": _audited(1.2)}}
    ),
    "follow": Door(
        _follow,
        lambda: {
            "frozen": ta.FrozenResidual(residual, PARAMETERS, X),
            "first": 1,
            "second": 5,
            "view": ta.views.Pointwise(),
        },
    ),
    "suggest_sites": Door(
        ta.suggest_sites,
        lambda: {
            "forward": forward,
            "parameters": PARAMETERS,
            "noise": 0.05,
            "count": 3,
            "points": X[:, None],
            "present": [0, 5],
            "spacing": None,
            "design_points": 5,
            "progress": False,
        },
    ),
    "calibrate": Door(ta.calibrate, lambda: {**_world(), "candidates": 4, "replicas": 19}),
    "confidence_set": Door(
        ta.confidence_set,
        lambda: {
            **_world(),
            **{"data": forward(1.1), "candidates": 4, "replicas": 19, "refine": 0, "level": 0.9},
        },
    ),
    "simulated_audit": Door(
        ta.simulated_audit,
        lambda: {**_world(), "pipeline": _trained, "replicas": 3, "matched": True},
    ),
    "polish": Door(
        _polish,
        lambda: {
            "residual": lambda k: equation(WEIGHTS, X[:, None], k),
            "parameters": KNOWN,
            "points": X,
            "loss": joint_loss,
            "small_gap": 1.0,
            "iterations": 20,
            "candidates": 21,
        },
    ),
    "from_jax": Door(
        _from_jax,
        lambda: {
            "model": WEIGHTS,
            "residual": equation,
            "parameters": KNOWN,
            "points": X[:, None],
            "view": ta.views.Pointwise(),
            "loss_weights": None,
            "precision": "float64",
            "field": field,
            "observed": X[:5, None],
            "conditions": condition,
            "axes": ("t",),
        },
        library="jax",
    ),
    "refine": Door(
        _refine,
        lambda: {
            "residual": equation,
            "parameters": KNOWN,
            "points": X[:, None],
            "field": field,
            "observed": X[:, None],
            "conditions": condition,
            "data": forward(1.05) + 0.05 * np.cos(40 * X),
            "noise": 0.05,
            "seed": 0,
            "continuation": Continuation(10, 100, 1e3, 1e3, steps=1, free_steps=2, more=1),
        },
        library="jax",
    ),
}


# ------------------------------------------------------------------ mutations

NUMBERS = (
    *(0, 1, -1, 2, 3, 2.5, 10**9, 10**30, True, False, 1e-300, 5e-324, 1e300, -1e300),
    *(float("nan"), float("inf"), -float("inf"), 1e-20, 1e16, np.float32(0.5), np.int8(3)),
)
STRANGE = (
    *(None, "", "a", "truth", "delivered", b"x", [], {}, (), set(), object(), ..., 1j, range(3)),
    *({"k": 1.0}, {"k": None}, {"x": 1.0}, {"k": float("nan")}, ["k"], Ellipsis, type, "é\0\ud800"),
)


def _parameters() -> tuple[Callable[[], Any], ...]:
    """Parameters at the edges; making them may be refused, too."""
    make = ta.Parameter
    return (
        lambda: {"k": make(truth=1.0, delivered=1.1, bounds=(1e-300, 1e300))},
        lambda: {"k": make(truth=1.0, delivered=1.1, bounds=(1.0 - 1e-12, 1.0 + 1e-12))},
        lambda: {"k": make(truth=0.5, delivered=2.0, bounds=(0.5, 2.0))},
        lambda: {"k": make(truth=1e-320, delivered=1e-320, bounds=(1e-321, 1e-319))},
        lambda: {"k": make(truth=0.0, bounds=(-1.0, 1.0), coordinate="linear")},
        lambda: {"k": make(delivered=0.0, bounds=(-1e300, 1e300), coordinate="linear", scale=1.0)},
        lambda: {"k": make(truth=1.0, bounds=(0.5, 2.0), nuisance=True)},
        lambda: {"k": make(bounds=(0.5, 2.0))},
        lambda: {"k": make(truth=1.0, delivered=9.0, bounds=(0.5, 2.0))},
        lambda: {"k": ta.ParameterArray(truth=[1.0, 1.1], bounds=(0.5, 2.0))},
        lambda: {"k": ta.UnknownFunction(nodes=[0.0, 1.0], bounds=(0.5, 2.0), truth=[1.0, 1.0])},
        lambda: {"": make(truth=1.0, bounds=(0.5, 2.0))},
        lambda: {"k\n<b>": make(truth=1.0, bounds=(0.5, 2.0))},
        lambda: TWO,
        lambda: {"k": 1.0},
        dict,
    )


def _array(values: Any) -> Any:
    """Return an array, which stays one of its library, even while that traces it."""
    return values if hasattr(values, "dtype") else np.asarray(values)


def _changed_function(random: Random, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does something else with what the sound one gives."""
    state = {"calls": 0}

    def raising(*_: Any, **__: Any) -> Any:
        raise KeyError("inside a function of the user")

    def later(*given: Any, **named: Any) -> Any:
        state["calls"] += 1
        if state["calls"] > 6:
            raise ZeroDivisionError("after some calls")
        return function(*given, **named)

    def noisy(*given: Any, **named: Any) -> Any:
        state["calls"] += 1
        return _array(function(*given, **named)) * (1 + 0.01 * np.sin(state["calls"]))

    after: tuple[Callable[[Any], Any], ...] = (
        lambda _: None,
        lambda _: "text",
        lambda _: np.nan,
        lambda _: np.array([]),
        lambda y: _array(y) * np.nan,
        lambda y: _array(y) * 1e200,
        lambda y: _array(y) * 1e-200,
        lambda y: _array(y) * 1e300,
        lambda y: _array(y) * 0,
        lambda y: _array(y) + 0j,
        lambda y: _array(y).astype(np.float32) if np.ndim(y) else y,
        lambda y: _array(y)[..., None],
        lambda y: (y, y),
        lambda y: np.ma.masked_greater(_array(y), 0.5),
        lambda y: _array(y)[:3] if np.ndim(y) else y,
        lambda y: np.round(_array(y), 1),
        lambda y: np.asarray(y, dtype=object),
        lambda y: {"y": y},
    )
    chosen = random.choice(after)
    changed = random.choice((raising, later, noisy, *([None] * 9)))
    return changed or (lambda *given, **named: chosen(function(*given, **named)))


def _changed_array(random: Random, array: Any) -> Any:
    values = np.array(array, dtype=float)
    what = random.randrange(14)
    if what < 5:
        values.flat[random.randrange(values.size)] = random.choice(
            (np.nan, np.inf, -1e300, 1e300, 1e-320)
        )
        return values
    return (
        values[:-1],
        values[:0],
        values.ravel()[None],
        values * 0,
        values * 1e200,
        np.ma.masked_greater(values, float(np.median(values))),
        values.astype(complex),
        values.astype(object),
        values.tolist(),
    )[what - 5]


def mutated(random: Random, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of which one or two were replaced; may raise `InputError` itself."""
    changed = dict(arguments)
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice([each for each in sorted(changed) if each != "progress"])
        value = arguments[name]
        if random.random() < 0.3:
            changed[name] = random.choice((*NUMBERS, *STRANGE))
        elif name == "parameters":
            changed[name] = random.choice(_parameters())()
        elif callable(value) and not isinstance(value, ta.views.View):
            changed[name] = _changed_function(random, value)
        elif isinstance(value, np.ndarray):
            changed[name] = _changed_array(random, value)
        elif name == "view":
            changed[name] = random.choice(_views())()
        else:
            changed[name] = random.choice((*NUMBERS, *NUMBERS, *STRANGE))
    return changed


def _views() -> tuple[Callable[[], Any], ...]:
    views = ta.views
    return (
        views.Pointwise,
        views.Gaussian,
        lambda: views.Gaussian(rank=10**9),
        lambda: views.Patch(cells=1),
        lambda: views.Patch(cells=10**7),
        lambda: views.Weighted(np.arange(12.0)),
        lambda: views.Weighted(np.full(12, 1e300)),
        lambda: views.Weighted(-DECAY),
        lambda: views.Weighted(0 * DECAY),
        lambda: views.Dense(np.eye(12)),
        lambda: views.Dense(np.ones((12, 12))),
        lambda: views.Dense(-np.eye(12)),
        lambda: views.Dense(np.eye(12) * 1e-300),
        lambda: views.Dense(np.eye(3)),
    )


def outcome_of(name: str, random: Random) -> tuple[str, str]:
    """Make one mutated call of a door, use what it gives, and say how that ended."""
    door = DOORS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = door.call(**mutated(random, door.arguments()))
        except ta.InputError:
            return "refused", ""
        except BaseException as error:
            return "finding", in_words(error)
        try:
            use(found)
        except BaseException as error:
            return "finding", f"a result that is not usable: {in_words(error)}"
    return "used", ""


def in_words(error: BaseException) -> str:
    """Return an exception with the place that it comes from."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    line = "" if where is None else f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
    return f"{type(error).__name__}: {str(error)[:200]} at {line}"
