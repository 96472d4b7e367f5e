"""The inverse examples of other libraries: rebuilt, followed while they train, and audited.

The scripts in ``benchmarks/foreign/`` are written as users of each library write them, up to the
line ``# --- train``, which is the training of the library itself. What stands below
``# --- follow`` takes its place; then come a first verdict and the whole audit. Each example runs
in its own process: one training without a follower, one with it, first verdict, audit. The table
has

* lines: what was added to the script, as it is formatted, imports and tolerances included;
* following: CPU time of the followed training over that of the other, minus one, without the
  first check and what is compiled for it, which come once;
* measuring: the share of the time in measurements, by the clock of the follower;
* once: CPU seconds of what comes once;
* first verdict: CPU seconds until the audit without axis 1 (axis 2, data fit, convergence);
* audit: CPU seconds of axis 1 and the whole audit;
* model runs: calls of the forward model, where a batch counts once for each member;
* the answer: the first line of the audit.

Both trainings run in one process and one thread, so that their ratio holds on a machine that is
shared; other times depend on it. JAX compiles with several threads, all of which count.

    python benchmarks/foreign_examples.py                            # prints the rows
    python benchmarks/foreign_examples.py --out results/foreign      # writes the table, too
    python benchmarks/foreign_examples.py --quick                    # one of each library, briefly
    python benchmarks/foreign_examples.py --only lorenz --steps 500
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "foreign"
PARTS = ("train", "follow", "first verdict", "audit")
# What each example is in its library, and the training steps of a full and of a quick run, which
# has one example of each library.
EXAMPLES = {
    "lorenz": ("DeepXDE: Lorenz", 5_000, 0),
    "lorenz_jax": ("DeepXDE on JAX: Lorenz", 5_000, 0),
    "lorenz_forced": ("DeepXDE: Lorenz with a force", 5_000, 0),
    "reaction": ("DeepXDE: diffusion and reaction", 2_000, 0),
    "brinkman": ("DeepXDE: Brinkman-Forchheimer", 5_000, 100),
    "navier_stokes": ("DeepXDE: Navier-Stokes", 200, 0),
    "poisson": ("PINA: tutorial 7, Poisson", 1_500, 20),
    "poisson_zoo": ("PINA: Poisson of its collection", 1_500, 0),
    "burgers_jinns": ("jinns: Burgers", 3_000, 0),
    "lotka_volterra": ("jinns: generalized Lotka-Volterra", 3_000, 100),
    "burgers_torch": ("PyTorch: Raissi's Burgers", 600, 20),
    "navier_stokes_torch": ("PyTorch: Raissi's Navier-Stokes", 400, 0),
}
COLUMNS = (
    "example", "unknowns", "lines", "following", "measuring", "once", "first verdict", "audit",
    "model runs", "answer",
)  # fmt: skip


def lines_of(code: str) -> int:
    """Return how many lines of a script are no comment and not empty."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in code.split("\n"))


class Counted:
    """A forward model that counts its runs."""

    def __init__(self, forward: Any) -> None:
        self.forward, self.runs = forward, 0
        functools.update_wrapper(self, forward)

    def __call__(self, **values: Any) -> Any:
        """Solve the model once, or once for each member of a batch."""
        found = self.forward(**values)
        first = next(iter(values.values()))
        batched = getattr(first, "ndim", 0) > 1
        self.runs += len(first) if batched else 1
        return found


def timed(name: str, code: str, space: dict[str, Any]) -> float:
    """Run a part of a script, and return its CPU seconds."""
    before = time.process_time()
    exec(compile(code, f"{name}.py", "exec"), space)
    return time.process_time() - before


def trained(name: str, setup: str, train: str) -> tuple[dict[str, Any], float]:
    """Run a script up to the end of its training; return its names and the training's seconds."""
    space: dict[str, Any] = {"__name__": "__main__"}
    timed(name, setup, space)
    return space, timed(name, train, space)


def count_setup() -> list[float]:
    """Return a list that gets the CPU seconds of what every follower does once."""
    import twoaxis as ta

    seconds: list[float] = []
    set_up = ta.Follower._set_up

    def counted(self: Any, *given: Any) -> None:
        before = time.process_time()
        set_up(self, *given)
        seconds.append(time.process_time() - before)

    ta.Follower._set_up = counted
    return seconds


def run_here(name: str, steps: int) -> dict[str, Any]:
    """Train one example in this process without and with a follower, and audit it."""
    setup, *texts = re.split(
        "|".join(f"# --- {part}\n" for part in PARTS), (FOLDER / f"{name}.py").read_text()
    )
    train, follow, first, whole = texts
    sys.argv = [name, str(steps)]
    plain = trained(name, setup, train)[1]
    once = count_setup()
    space, followed = trained(name, setup, follow)
    model = space["simulate"] = Counted(space["simulate"])
    seconds = [timed(name, part, space) for part in (first, whole)]
    follower = space["follower"]
    audit = space["audit"]
    return {
        "unknowns": len(audit.names),
        "lines": lines_of(follow + first + whole) - lines_of(train),
        "training": plain,
        "followed": (followed - sum(once)) / plain - 1,
        "measurements": len(follower.rows),
        "share": follower.share,
        "once": sum(once),
        "state": follower.state.code,
        "first verdict": seconds[0],
        "audit": seconds[1],
        "model runs": model.runs,
        "route": audit.route.value,
        "questions": {q.code: q.answer for q in audit.questions},
        "answer": audit.answer.split("\n"),
    }


def run_apart(name: str, steps: int) -> dict[str, Any]:
    """Run one example in a process of its own: DeepXDE takes its backend once."""
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, __file__, "--here", name, "--steps", str(steps)],
        env={**os.environ, **one},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    made: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return made


def row(name: str, found: dict[str, Any]) -> str:
    answer = found["answer"][0] if len(found["answer"]) == 1 else "; ".join(found["answer"][:3])
    cells = [
        f"{EXAMPLES[name][0]}, {found['steps']:,} steps",
        str(found["unknowns"]),
        str(found["lines"]),
        f"{100 * found['followed']:+.1f}%",
        f"{100 * found['share']:.1f}%",
        f"{found['once']:.1f} s",
        f"{found['first verdict']:.1f} s",
        f"{found['audit']:.1f} s",
        f"{found['model runs']:,}",
        answer.replace("|", "/"),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument(
        "--quick", action="store_true", help="one example of each library, few steps"
    )
    options.add_argument("--only", choices=EXAMPLES, help="one example")
    options.add_argument("--steps", type=int, help="training steps")
    options.add_argument("--out", type=Path, help="folder for the table")
    options.add_argument("--here", choices=EXAMPLES, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.here:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run_here(given.here, given.steps)
        print(json.dumps(found))
        return
    found = {}
    for name, (_, full, quick) in EXAMPLES.items():
        steps = given.steps or (quick if given.quick else full)
        if given.only in (None, name) and steps:
            found[name] = {"steps": steps, **run_apart(name, steps)}
            print(row(name, found[name]), flush=True)
    if given.out:
        write(given.out, found)


def write(folder: Path, found: dict[str, Any]) -> None:
    """Write the table; examples that did not run this time keep their rows."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "foreign.json"
    every = json.loads(file.read_text()) if file.exists() else {}
    every |= found
    file.write_text(json.dumps(every, indent=1) + "\n")
    head = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    rows = [row(name, every[name]) for name in EXAMPLES if name in every]
    (folder / "foreign.md").write_text("\n".join([*head, *rows]) + "\n")


if __name__ == "__main__":
    main()
