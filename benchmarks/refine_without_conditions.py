"""Are standard errors right where a refinement knows no initial values? Against a solver.

An SIR epidemic, observed on forty days. A network is refined to several draws of the noise, without
the initial shares of susceptible and infected people. Beside it are least-squares fits with a
solver: with the initial shares as further unknowns, and with the initial shares known. The first of
them is what the refinement must find.

    python benchmarks/refine_without_conditions.py --out results/refine/without-conditions.txt
    python benchmarks/refine_without_conditions.py --quick      # one draw, few steps
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import twoaxis as ta
from twoaxis.files import write_whole
from twoaxis.gauss_newton import Continuation

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--draws", type=int, default=10)
options.add_argument("--quick", action="store_true", help="one draw, few steps")
options.add_argument("--out", type=Path)

NOISE, START, TRUTH, DAYS = 0.02, (0.98, 0.02), (0.40, 0.10), np.linspace(0, 60, 40)


def solved(values, start):
    def rates(_, y):
        beta, gamma = values
        return -beta * y[0] * y[1], beta * y[0] * y[1] - gamma * y[1]

    return solve_ivp(rates, (0, 60), start, t_eval=DAYS, rtol=1e-9, atol=1e-11).y.T


def by_the_solver(data, known_start):
    """Return estimates and standard errors of the two rates."""

    def misfit(p):
        start = START if known_start else p[2:]
        return ((solved(np.exp(p[:2]), start) - data) / NOISE).ravel()

    first = np.log(TRUTH) if known_start else np.append(np.log(TRUTH), START)
    found = least_squares(misfit, first, x_scale=0.1)
    spread = np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac)))
    return np.exp(found.x[:2]), np.exp(found.x[:2]) * spread[:2]


class Epidemic(torch.nn.Sequential):
    """A network of the scaled time."""

    def forward(self, t):
        """Return the shares, (n, 2), at times (n, 1)."""
        return super().forward(t / 30 - 1)


def sir(model, t, beta, gamma):
    s, i = model(t).T
    ds, di = (torch.autograd.grad(u.sum(), t, create_graph=True)[0][:, 0] for u in (s, i))
    return ds + beta * s * i, di - beta * s * i + gamma * i


def untrained():
    torch.manual_seed(0)
    net = Epidemic(
        torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh(),
        torch.nn.Linear(16, 2),
    )  # fmt: skip
    bounds = {"bounds": (0.01, 2.0), "unit": "per day"}
    known = {
        "beta": ta.Parameter(delivered=0.6, **bounds),
        "gamma": ta.Parameter(delivered=0.2, **bounds),
    }
    points = torch.linspace(0, 60, 100)[:, None]
    return ta.from_torch(net, sir, known, points=points, observed=torch.tensor(DAYS)[:, None])


def main():
    chosen = options.parse_args()
    torch.set_num_threads(1)
    plan = Continuation(steps=1, free_steps=2, more=1) if chosen.quick else None
    frozen, exact, rows = untrained(), solved(TRUTH, START), []
    for draw in range(1 if chosen.quick else chosen.draws):
        data = exact + NOISE * np.random.default_rng(draw).standard_normal(exact.shape)
        found = ta.refine(frozen, data, noise=NOISE, continuation=plan, progress=False)
        frozen = found.frozen  # the next draw starts from here
        refined = [np.array(list(part.values())) for part in (found.values, found.standard_error)]
        rows.append((refined, by_the_solver(data, False), by_the_solver(data, True), found))
    lines = [f"command: python benchmarks/{Path(__file__).name}", ""]
    for k, name in enumerate(("beta", "gamma")):
        lines.append(
            f"{name}  refined            solver, start free   solver, start known  trusted"
        )
        for *fits, found in rows:
            shown = "  ".join(f"{value[k]:.5f} +- {error[k]:.5f}" for value, error in fits)
            lines.append(f"      {shown}  {found.trusted}")
    free = [m.numbers["directions"] for *_, f in rows for m in f.messages if "free" in m.code]
    lines.append(f"free directions: {', '.join(f'{each:.3f}' for each in free)}")
    text = "\n".join(lines)
    print(text)
    if chosen.out:
        write_whole(chosen.out, lambda path: path.write_text(text + "\n", "utf-8"))


if __name__ == "__main__":
    main()
