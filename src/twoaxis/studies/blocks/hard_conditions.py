r"""Hard conditions: does exact satisfaction of the conditions repair the parameter?

PCGrad, PatchEvidence and RBA on the twelve benchmark datasets, once as published ("soft") and
once with initial and boundary conditions built into the field ("exact"). With mean parameter
errors :math:`e` over the same datasets, and that of the matched forward fit,

.. math:: \text{gap closure} =
          100\,\frac{e_\text{soft} - e_\text{exact}}{e_\text{soft} - e_\text{forward}}.

The gate, fixed by the study before its run, asks for an overall closure of at least 50%.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from twoaxis.forward import get_solver
from twoaxis.forward.explicit import ExplicitSolver
from twoaxis.problems import SCALAR_BENCHMARKS, EvolutionProblem
from twoaxis.problems.problem import FixedEnds
from twoaxis.studies.block import Block, Measured, Need, Rows
from twoaxis.studies.fields import LAYOUTS, PROBLEMS, TITLES, Field
from twoaxis.studies.matched import matched_errors
from twoaxis.studies.readouts import CONDITIONS, DELIVERED
from twoaxis.studies.resampling import Figure
from twoaxis.studies.scale import Scale

METHODS = ("pcgrad", "patch", "rba")
SOFT, EXACT = "soft", "exact"
GATE_PERCENT = 50.0
# The problem and the method that the study singles out.
SINGLED_OUT = ("burgers", "rba")


def condition_fields(conditions: str) -> list[Field]:
    """Return the thirty-six fields with soft or exact conditions."""
    return [
        Field(problem=problem, method=method, dataset=dataset, conditions=conditions)
        for problem in PROBLEMS
        for method in METHODS
        for dataset in LAYOUTS
    ]


def gap_closure(soft: Any, exact: Any, forward: Any) -> Any:
    """Return the percentage of the way from soft to forward that exact conditions go."""
    return 100 * (soft - exact) / (soft - forward)


def paired(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each dataset and method: errors with both conditions, and forward."""
    size = rows.assign(error=rows["error_percent"].abs())
    keys = ["problem", "method", "dataset"]
    wide = size.pivot(index=keys, columns="conditions", values=["error", "field_error"])
    pairs = pd.DataFrame(
        {
            "soft": wide["error", SOFT],
            "hard": wide["error", EXACT],
            "soft_field": wide["field_error", SOFT],
            "hard_field": wide["field_error", EXACT],
        }
    ).reset_index()
    cases = zip(pairs["problem"], pairs["dataset"], strict=True)
    return pairs.assign(forward=[matched_errors()[case] for case in cases])


def _needs(scale: Scale) -> Sequence[Need]:
    del scale
    soft, exact = condition_fields(SOFT), condition_fields(EXACT)
    return [Need(DELIVERED, [*soft, *exact]), Need(CONDITIONS, exact)]


def _measure(rows: Rows, scale: Scale) -> Measured:
    del scale
    measured = Measured()
    delivered = rows[DELIVERED.name]
    pairs = paired(delivered)
    measured.tables["methods"] = _by_method(measured, pairs)
    _put_singled_out(measured, pairs)
    exact = delivered[delivered["conditions"] == EXACT]
    measured.put("completed", float(exact["finished"].sum()))
    met = rows[CONDITIONS.name].groupby("problem", sort=False)
    worst = met[["initial_error", "boundary_error"]].max()
    single = single_precision_errors()
    rounded, exact = single["initial_error_to_rounded"].max(), single["initial_error"].max()
    measured.put("initial_error", Figure(exact, ends=(min(exact, rounded), max(exact, rounded))))
    measured.put("boundary_error", single["boundary_error"].max())
    measured.tables["problems"] = _by_problem(pairs)
    measured.tables["conditions"] = worst.rename(index=TITLES).reset_index()
    measured.tables["conditions_in_single_precision"] = single.rename(index=TITLES).reset_index()
    return measured


def single_precision_errors() -> pd.DataFrame:
    """Return how far the exact ansatz misses the conditions in float32, for each problem.

    Points and every operation are in float32.

    ``initial_error`` is the relative L2 error of the initial field over the fine grid,
    ``initial_error_to_rounded`` the same against the declared field in float32, and
    ``boundary_error`` the RMSE of the boundary values, or of the slope where the flux is zero. The
    network is left out: its factor is zero at time zero and at given values. At the ends of
    Allen–Cahn it adds its own slope times cos(π/2), which is 4e-8 in float32: with the network of
    a trained RBA run the slope at the ends is 4.8e-7 (``benchmarks/decode.py --only float32``).
    """
    table = {}
    for problem in SCALAR_BENCHMARKS:
        solver, ansatz = get_solver(problem), problem.ansatz
        assert isinstance(solver, ExplicitSolver)
        assert ansatz is not None
        declared = problem.initial(solver.x)
        found = ansatz.lift(_single(solver.x, solver.t[0]))["u"]
        missed = []
        for place, value in zip(problem.domain["x"], _end_values(problem), strict=True):
            lift = ansatz.lift(_single(place, solver.t[1:]))
            missed.append(lift["u_x" if value is None else "u"] - (value or 0))
        table[problem.name] = {
            "initial_error": _relative(found, declared),
            "initial_error_to_rounded": _relative(found, declared.astype(np.float32)),
            "boundary_error": float(np.sqrt(np.mean(np.square(missed, dtype=float)))),
        }
    return pd.DataFrame(table).T.rename_axis("problem")


def _single(x: ArrayLike, t: ArrayLike) -> Any:
    """Return points (N, 2) in float32."""
    return np.stack(np.broadcast_arrays(x, t), axis=1).astype(np.float32)


def _end_values(problem: EvolutionProblem) -> tuple[float | None, float | None]:
    """Return the given boundary values; None where the slope is given."""
    ends = problem.ends
    return (ends.left, ends.right) if isinstance(ends, FixedEnds) else (None, None)


def _relative(found: NDArray[np.floating], declared: NDArray[np.floating]) -> float:
    wanted = declared.astype(float)
    return float(np.linalg.norm(found.astype(float) - wanted) / np.linalg.norm(wanted))


def _by_method(measured: Measured, pairs: pd.DataFrame) -> pd.DataFrame:
    """Add errors and gap of each method and of all, and return them as a table."""
    columns = ["soft", "hard", "forward", "soft_field", "hard_field"]
    table = pairs.groupby("method")[columns].mean().loc[list(METHODS)]
    table.loc["overall"] = pairs[columns].mean()
    table["gap"] = gap_closure(table["soft"], table["hard"], table["forward"])
    found = table.to_dict("index")
    for method, row in found.items():
        for column in ("soft", "hard", "gap"):
            measured.put(f"{method}_{column}", row[column])
    measured.put("forward", found["overall"]["forward"])
    measured.put("gate_passed", float(found["overall"]["gap"] >= GATE_PERCENT))
    return table.reset_index()


def _put_singled_out(measured: Measured, pairs: pd.DataFrame) -> None:
    problem, method = SINGLED_OUT
    of_method = pairs[pairs["method"] == method]
    one = of_method[of_method["problem"] == problem]
    for column in ("soft", "hard", "forward", "soft_field", "hard_field"):
        measured.put(f"{problem}_{method}_{column}", one[column].mean())
    mean = of_method[["soft", "hard", "soft_field", "hard_field"]].mean()
    for column in ("soft_field", "hard_field"):
        measured.put(f"{method}_{column}", mean[column])
    better_field, worse = mean["hard_field"] < mean["soft_field"], mean["hard"] > mean["soft"]
    measured.put(f"{method}_better_field_worse_parameter", float(better_field and worse))


def _by_problem(pairs: pd.DataFrame) -> pd.DataFrame:
    columns = ["soft", "hard", "forward", "soft_field", "hard_field"]
    table = pairs.groupby(["problem", "method"])[columns].mean()
    ordered = [(problem, method) for problem in PROBLEMS for method in METHODS]
    return table.loc[ordered].rename(index=TITLES, level="problem").reset_index()


BLOCK = Block(
    name="hard-conditions",
    title="Exact initial and boundary conditions",
    claim=(
        "May rule out that violated initial and boundary conditions explain the gap to the "
        "forward fit as a whole, and show that their effect depends on problem and method. The "
        "exact field is another hypothesis class, so it says no more than that."
    ),
    needs=_needs,
    measure=_measure,
    notes=(
        "The study does not print its exact ansatz. Here a lift with the declared values is "
        "added to a network times a factor that vanishes where they are given. For "
        "Buckley–Leverett the lift is the step that diffusion has smoothed, which at time zero "
        "is the step itself, with the jump at x = .25 as declared; for Allen–Cahn the network "
        "reads sin(πx/2), whose slope vanishes at both ends.",
        "Allen–Cahn's initial field has slopes of -2 and 2 at the ends, where the boundary "
        "condition wants zero. The ansatz meets the initial condition everywhere and the boundary "
        "condition after time zero, and boundary errors are taken over times after zero.",
        "Errors of the conditions are taken over the nodes of the fine grid; a boundary error is "
        "that of the value, for Allen–Cahn that of the slope. The printed ones have the size of "
        "rounding in single precision, and so they are judged in single precision, from the "
        "ansatz without its network. The network's part at the ends of Allen–Cahn, its slope times "
        "cos(π/2), is not zero in single precision either: with that of one trained RBA run the "
        "error is 4.8e-7, farther from the printed one, so that precision does not explain it. "
        "Whether the declared field was rounded as well is not said: "
        "our initial error has the range of both readings. In double precision the trained fields "
        "meet the conditions to 1e-15: see the table of conditions.",
    ),
)
