"""Stopping by a follower on 48 runs, and what following costs in each library.

    python benchmarks/follower.py --runs small        (two CPU cores: minutes)
    python benchmarks/follower.py --runs adam newton  (a GPU: minutes)
    python benchmarks/follower.py --replay FILE.npz   another rule on the recorded runs
    python benchmarks/follower.py --libraries         (two CPU cores: minutes)
    python benchmarks/follower.py --quick             a few steps of everything on a CPU

*Runs.* Three problems, four datasets and four seeds each. *small*: networks of one layer of four
and 100 residual points, which Adam trains to their minimum within 240,000 steps. *adam*: the
study's network by RBA, 20,000 steps, which go on to fit noise. *newton*: the Gauss-Newton method
for all steps of its continuation (its own end is switched off). A follower reads the snapshots of
each run in order. Where it finishes, the value at that step is compared with the one that the
whole training delivers, in standard errors.

*Libraries.* The same training without and with a follower, 2,000 residual points and three layers
of 64, in CPU time of one thread, so that other work on the machine does not count; the table has
their ratio and the share of the time that the follower says itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import twoaxis as ta
from twoaxis.diagnosis.follow import empty_row
from twoaxis.diagnosis.settling import DRIFT, PATIENCE, SETTLED, Unit, settling
from twoaxis.files import write_whole
from twoaxis.gauss_newton import Continuation
from twoaxis.parameters import Parameters
from twoaxis.problems import get_problem
from twoaxis.training.backends import find_gpu

PROBLEMS = ("burgers", "allen-cahn", "buckley-leverett")
# Seeds 0 to 3 were looked at when the rule was made, and are not used here.
DATASETS, SEEDS = (8, 9, 10, 11), range(4, 8)
ADAM_STEPS, ADAM_EVERY, NEWTON_EVERY = 20_000, 500, 20
SMALL_STEPS, SMALL_EVERY = 240_000, 3000
# What counts as the same value, in standard errors.
SAME = 0.1
# What is kept of a followed run besides its steps.
RECORDED = ("value", "preferred", "data_misfit", "residual_norm")


# ------------------------------------------------------------------ runs of the engine


def trainings(quick: bool) -> dict[str, dict[str, Any]]:
    """Return the settings of the two kinds of training."""
    continuation = Continuation(settled=1e-9)
    steps, every = ADAM_STEPS, ADAM_EVERY
    small: dict[str, Any] = {}
    if quick:
        steps, every = 80, 8
        small = {"network": ta.Network(8, 2), "residual_points": 60}
        continuation = Continuation(
            first=1e4, free=1e4, plateau=3e4, last=3e4, free_steps=2, more=4, settled=1e-9
        )
    newton = NEWTON_EVERY if not quick else 2
    return {
        "small": {
            "method": "adam",
            "network": ta.Network(4, 1),
            "residual_points": 100,
            "learning_rate": 1e-2,
            "steps": SMALL_STEPS if not quick else steps,
            "every": SMALL_EVERY if not quick else every,
            **({} if find_gpu() else {"engine": "in-process", "batch": 16}),
        },
        "adam": {"method": "rba", "steps": steps, "every": every, **small},
        "newton": {
            "method": ta.methods.GaussNewton(continuation=continuation),
            "steps": continuation.all_steps,
            "every": newton,
            **small,
        },
    }


def followed(run: Any, resolution: Any, every: int) -> dict[str, Any]:
    """Follow one run to its end, and return what a rule for stopping reads."""
    follower = ta.Follower(
        lambda frozen: frozen, every=every, resolution=resolution, max_share=1.0, progress=False
    )
    for step, frozen in run.follow():
        follower.measure(step, frozen)
    found = follower.result.data.isel(parameter=0)
    return {
        "step": found["step"].values,
        **{name: found[name].values for name in RECORDED},
        "standard_error": float(found["standard_error"]),
        "delivered": next(iter(run.delivered.values())),
        "dataset": run.dataset.label,
        "seed": run.seed,
        "finite": run.finished,
    }


def replayed(
    paths: dict[str, Any], problem: str, fitted: bool, length: int | None
) -> list[dict[str, float]]:
    """Return where a follower of each recorded run stops, and how far from its end.

    Parameters
    ----------
    paths : mapping
        Recorded runs.
    problem : str
    fitted : bool
        Whether the noise is known, so that the misfit of the field counts.
    length : int, optional
        Of the training, as the follower knows it.
    """
    known = Parameters(get_problem(problem).parameters)
    found = []
    for value, preferred, misfit, error, end in zip(
        *(paths[name] for name in ("value", "preferred", "data_misfit", "standard_error")),
        known.coordinates(dict.fromkeys(known, paths["delivered"]))[:, 0],
        strict=True,
    ):
        empty = empty_row(0, 1, "")
        rows = [
            empty._replace(
                step=int(step),
                value=v[None],
                preferred=p[None],
                data_misfit=m if fitted else np.nan,
                residual_norm=1.0,
            )
            for step, v, p, m in zip(paths["step"], value, preferred, misfit, strict=True)
            if np.isfinite(v)
        ]
        unit, states = Unit(np.array([error]), "standard errors"), []
        for n, row in enumerate(rows):
            states.append(settling(rows[: n + 1], known, unit, DRIFT, length))
            if [each.code for each in states[-PATIENCE:]] == [SETTLED] * PATIENCE:
                here = known.coordinates(known.named(row.value))[0]
                found.append({"step": row.step, "moved": abs(end - here) / error, "finished": 1.0})
                break
        else:
            last = states[-1].numbers.get("moved", np.nan)
            whole = float(paths["steps"])
            found.append({"step": whole, "moved": 0.0, "finished": 0.0, "drift": last})
    return found


def recorded_runs(
    options: dict[str, Any], problem: str, seeds: list[int], quick: bool, store: Path | None
) -> dict[str, Any]:
    """Train and follow the runs of one problem; arrays have the runs first, then the steps."""
    every, steps = options["every"], options["steps"]
    began = time.perf_counter()
    runs = ta.train(
        problem,
        datasets=DATASETS[:1] if quick else DATASETS,
        seeds=seeds[:2] if quick else seeds,
        snapshots=list(range(every, steps + 1, every)),
        store=store,
        progress=False,
        **{name: value for name, value in options.items() if name != "every"}
        | ({"engine": "in-process", "device": "cpu"} if quick else {}),
    )
    print(f"{problem}: {len(runs)} runs in {time.perf_counter() - began:.0f} s", flush=True)
    studies: dict[str, Any] = {}
    found = []
    for run in runs:
        key = run.dataset.label
        if key not in studies:
            studies[key] = run.resolve(replicas=2, progress=False)
        found.append(followed(run, studies[key], every))
    longest = max((each["step"] for each in found), key=len)
    for each in found:  # a run that diverged ends early
        lost = len(longest) - len(each["step"])
        each |= {name: np.pad(each[name], (0, lost), constant_values=np.nan) for name in RECORDED}
    return {
        **{name: np.array([each[name] for each in found]) for name in found[0] if name != "step"},
        "step": longest,
        "steps": steps,
    }


def runs_table(recorded: dict[str, dict[str, Any]]) -> list[str]:
    """Return the table of recorded runs under the rule as it is now."""
    lines = []
    for fitted, told in ((True, True), (True, False), (False, True), (False, False)):
        lines += [
            f"noise {'known' if fitted else 'not known'}, length of the training "
            f"{'known' if told else 'not known'}",
            f"{'training':<14}{'problem':<18}{'runs':>5}{'stopped':>9}{'steps saved':>13}"
            f"{'moved after the stop (se)':>28}{'below 0.1':>11}{'others still moved (se)':>25}",
        ]
        for name, paths in recorded.items():
            (label, problem), steps = name.split("/"), int(paths["steps"])
            found = replayed(paths, problem, fitted, steps if told else None)
            lines.append(row_of(label, problem, found, steps))
    return lines


def write_paths(file: Path, recorded: dict[str, dict[str, Any]]) -> None:
    """Write recorded runs to one compressed file of arrays without Python objects."""
    arrays = {
        f"{group}/{name}": np.asarray(values)
        for group, paths in recorded.items()
        for name, values in paths.items()
    }
    write_whole(file, lambda path: _save(path, arrays))


def _save(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as opened:
        np.savez_compressed(opened, **arrays)


def read_paths(file: Path) -> dict[str, dict[str, Any]]:
    """Return what `write_paths` wrote."""
    recorded: dict[str, dict[str, Any]] = {}
    with np.load(file, allow_pickle=False) as arrays:
        for name in arrays.files:
            group, quantity = name.rsplit("/", 1)
            recorded.setdefault(group, {})[quantity] = arrays[name]
    return recorded


def row_of(label: str, problem: str, found: list[dict[str, float]], steps: int) -> str:
    """Return one row of the table: medians and extremes over the runs."""
    ended = [each for each in found if each["finished"]]
    rest = [each["drift"] for each in found if not each["finished"]]
    saved = 100 * float(np.mean([1 - each["step"] / steps for each in found]))
    moved = [each["moved"] for each in ended]
    words = f"median {np.median(moved):.3f}, most {max(moved):.3f}" if moved else "-"
    known = [each for each in rest if np.isfinite(each)]
    others = f"{min(known):.2g} to {max(known):.2g}" if known else "-"
    below = f"{sum(each < SAME for each in moved)}/{len(moved)}" if moved else "-"
    return (
        f"{label:<14}{problem:<18}{len(found):>5}{len(ended):>9}{saved:>12.0f}%{words:>28}"
        f"{below:>11}{others:>25}"
    )


# ------------------------------------------------------------------ overhead in each library


def heat_readings() -> tuple[Any, Any]:
    """Return sites (x, t) and noisy temperatures of a bar with conductivity 0.05."""
    generator = np.random.default_rng(0)
    sites = generator.random((200, 2))
    x, t = sites.T
    field = np.exp(-0.05 * np.pi**2 * t) * np.sin(np.pi * x)
    return sites, field + 0.02 * generator.standard_normal(200)


KNOWN = {"bounds": (0.005, 0.5)}
Make = Callable[[int], Callable[[bool], Any]]


def in_torch(points: int, steps: int) -> Callable[[bool], Any]:
    import torch

    sites, readings = (torch.tensor(each, dtype=torch.float32) for each in heat_readings())
    inside = torch.rand(points, 2, generator=torch.Generator().manual_seed(0))

    def heat(model: Any, at: Any, k: Any) -> Any:
        u = model(at)
        first = torch.autograd.grad(u.sum(), at, create_graph=True)[0]
        second = torch.autograd.grad(first[:, 0].sum(), at, create_graph=True)[0]
        return first[:, 1] - k * second[:, 0]

    def train(following: bool) -> Any:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(2, 64), torch.nn.Tanh()]
        for _ in range(2):
            layers += [torch.nn.Linear(64, 64), torch.nn.Tanh()]
        net = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
        log_k = torch.tensor(-2.0, requires_grad=True)
        optimizer = torch.optim.Adam([*net.parameters(), log_k], lr=1e-3)
        follower = ta.Follower(
            lambda: ta.from_torch(
                net,
                heat,
                {"k": ta.Parameter(delivered=log_k.exp().item(), **KNOWN)},
                points=inside,
                observed=sites,
            ),
            data=heat_readings()[1],
            noise=0.02,
            progress=False,
        )
        at = inside.clone().requires_grad_(True)
        began = time.process_time()
        for step in range(steps):
            optimizer.zero_grad()
            misfit = ((net(sites)[:, 0] - readings) ** 2).mean()
            (misfit + (heat(net, at, log_k.exp()) ** 2).mean()).backward()
            optimizer.step()
            if following:
                follower(step)
        return time.process_time() - began, follower

    return train


def in_jax(points: int, steps: int) -> Callable[[bool], Any]:
    import jax
    import jax.numpy as jnp

    sites, readings = (jnp.asarray(each, "float32") for each in heat_readings())
    inside = jax.random.uniform(jax.random.PRNGKey(0), (points, 2))

    def field(weights: Any, at: Any) -> Any:
        for weight, bias in weights[:-1]:
            at = jnp.tanh(at @ weight + bias)
        return (at @ weights[-1][0] + weights[-1][1])[..., 0]

    def heat(weights: Any, at: Any, k: Any) -> Any:
        def one(point: Any) -> Any:
            slope = jax.grad(field, 1)(weights, point)
            return slope[1] - k * jax.hessian(field, 1)(weights, point)[0, 0]

        return jax.vmap(one)(at)

    def loss(state: Any) -> Any:
        weights, log_k = state
        misfit = jnp.mean((field(weights, sites) - readings) ** 2)
        return misfit + jnp.mean(heat(weights, inside, jnp.exp(log_k)) ** 2)

    @jax.jit
    def move(state: Any, first: Any, second: Any, step: Any) -> Any:
        slope = jax.grad(loss)(state)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, slope)
        rate = 1e-3 * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        state = jax.tree.map(
            lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), state, first, second
        )
        return state, first, second

    compiled = jax.jit(heat)

    def train(following: bool) -> Any:
        keys = jax.random.split(jax.random.PRNGKey(1), 4)
        sizes = ((2, 64), (64, 64), (64, 64), (64, 1))
        weights = [
            (jax.random.normal(key, size) / size[0] ** 0.5, jnp.zeros(size[1]))
            for key, size in zip(keys, sizes, strict=True)
        ]
        state = (weights, jnp.asarray(-2.0))
        first = second = jax.tree.map(jnp.zeros_like, state)
        follower = ta.Follower(
            lambda state: ta.from_jax(
                state[0],
                compiled,
                {"k": ta.Parameter(delivered=float(jnp.exp(state[1])), **KNOWN)},
                points=inside,
                field=field,
                observed=sites,
            ),
            data=heat_readings()[1],
            noise=0.02,
            progress=False,
        )
        state, first, second = move(state, first, second, 1)  # compiled before the clock starts
        jax.block_until_ready(state)
        began = time.process_time()
        for step in range(1, steps):
            state, first, second = move(state, first, second, step + 1)
            if following:
                follower(step, state)
        jax.block_until_ready(state)
        return time.process_time() - began, follower

    return train


def in_deepxde(points: int, steps: int) -> Callable[[bool], Any]:
    os.environ.setdefault("DDE_BACKEND", "pytorch")
    import deepxde as dde

    sites, readings = heat_readings()

    def train(following: bool) -> Any:
        dde.config.set_random_seed(0)
        k = dde.Variable(0.1)

        def heat(x: Any, u: Any) -> Any:
            return dde.grad.jacobian(u, x, j=1) - k * dde.grad.hessian(u, x, i=0, j=0)

        bar = dde.geometry.GeometryXTime(dde.geometry.Interval(0, 1), dde.geometry.TimeDomain(0, 1))
        seen = dde.icbc.PointSetBC(sites, readings[:, None])
        data = dde.data.TimePDE(bar, heat, [seen], num_domain=points)
        model = dde.Model(data, dde.nn.FNN([2, 64, 64, 64, 1], "tanh", "Glorot normal"))
        model.compile("adam", lr=1e-3, external_trainable_variables=[k], verbose=0)
        follower = ta.Follower(
            lambda: ta.from_deepxde(model, {"k": (k, ta.Parameter(**KNOWN))}),
            noise=0.02,
            progress=False,
        )
        callbacks = [ta.deepxde_callback(follower)] if following else []
        began = time.process_time()
        model.train(iterations=steps, display_every=steps, verbose=0, callbacks=callbacks)
        return time.process_time() - began, follower

    return train


def in_pina(points: int, steps: int) -> Callable[[bool], Any]:
    import logging

    import torch
    from pina import Condition, LabelTensor, Trainer
    from pina.domain import CartesianDomain
    from pina.equation import Equation
    from pina.model import FeedForward
    from pina.operator import grad, laplacian
    from pina.optim import TorchOptimizer
    from pina.problem import InverseProblem, SpatialProblem, TimeDependentProblem
    from pina.solver import PhysicsInformedSingleModelSolver

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    sites, readings = (torch.tensor(each).float() for each in heat_readings())

    def heat(input_: Any, output_: Any, params_: Any) -> Any:
        return grad(output_, input_, d=["t"]) - params_["k"] * laplacian(output_, input_, d=["x"])

    class Bar(TimeDependentProblem, SpatialProblem, InverseProblem):
        output_variables = ["u"]  # noqa: RUF012
        spatial_domain = CartesianDomain({"x": [0, 1]})
        temporal_domain = CartesianDomain({"t": [0, 1]})
        unknown_parameter_domain = CartesianDomain({"k": [0.005, 0.5]})
        domains = {"inside": CartesianDomain({"x": [0, 1], "t": [0, 1]})}  # noqa: RUF012
        conditions = {  # noqa: RUF012
            "inside": Condition(domain="inside", equation=Equation(heat)),
            "readings": Condition(
                input=LabelTensor(sites, ["x", "t"]),
                target=LabelTensor(readings[:, None], ["u"]),
            ),
        }

    def train(following: bool) -> Any:
        torch.manual_seed(0)
        bar = Bar()
        bar.discretise_domain(points, "lh")
        solver = PhysicsInformedSingleModelSolver(
            problem=bar,
            model=FeedForward(2, 1, layers=[64, 64, 64]),
            optimizer=TorchOptimizer(torch.optim.Adam, lr=1e-3),
        )
        follower = ta.Follower(lambda: ta.from_pina(solver), noise=0.02, progress=False)
        off = ("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger")
        trainer = Trainer(
            solver,
            max_epochs=steps,
            accelerator="cpu",
            callbacks=[ta.lightning_callback(follower)] if following else [],
            **dict.fromkeys(off, False),
        )
        began = time.process_time()
        trainer.train()
        return time.process_time() - began, follower

    return train


def in_jinns(points: int, steps: int) -> Callable[[bool], Any]:
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import jinns
    import optax
    from jinns.parameters import Params

    sites, readings = heat_readings()
    sites = sites[:, ::-1].copy()  # jinns has time before space
    layer, tanh = eqx.nn.Linear, (jax.nn.tanh,)
    layers = ((layer, 2, 64), tanh, (layer, 64, 64), tanh, (layer, 64, 64), tanh, (layer, 64, 1))
    keys = jax.random.split(jax.random.PRNGKey(0), 3)

    class Heat(jinns.loss.PDENonStatio):
        def equation(self, t_x: Any, u: Any, params: Any) -> Any:
            slope = jax.grad(lambda at: u(at, params)[0])(t_x)
            curved = jax.hessian(lambda at: u(at, params)[0])(t_x)[1, 1]
            return slope[:1] - params.eq_params.k * curved

    def train(following: bool) -> Any:
        u, weights = jinns.nn.PINN_MLP.create(key=keys[0], eqx_list=layers, eq_type="PDENonStatio")
        start = Params(nn_params=weights, eq_params={"k": jnp.array(0.1)})
        loss = jinns.loss.LossPDENonStatio(
            u=u,
            dynamic_loss=Heat(),
            loss_weights=jinns.loss.LossWeightsPDENonStatio(dyn_loss=1.0, observations=1.0),
            derivative_keys=jinns.parameters.DerivativeKeysPDENonStatio.from_str(
                params=start, dyn_loss="both"
            ),
        )
        data = jinns.data.CubicMeshPDENonStatio(
            key=keys[1], n=points, ni=2, nb=None, dim=1, min_pts=(0.0,), max_pts=(1.0,),
            tmin=0.0, tmax=1.0,
        )  # fmt: skip
        seen = jinns.data.DataGeneratorObservations(
            key=keys[2],
            observed_pinn_in=jnp.array(sites),
            observed_values=jnp.array(readings)[:, None],
        )
        known = {"k": ta.Parameter(**KNOWN)}
        follower = ta.Follower(
            lambda loss, params, data, observed: ta.from_jinns(
                loss, params, known, points=data, observed=observed
            ),
            noise=0.02,
            progress=False,
        )
        arguments = {
            "n_iter": steps,
            "init_params": start,
            "data": data,
            "loss": loss,
            "optimizer": optax.adam(1e-3),
            "obs_data": seen,
            "verbose": False,
        }
        began = time.process_time()
        if following:
            ta.jinns_solve(follower, **arguments)
        else:
            jinns.solve(**arguments)
        return time.process_time() - began, follower

    return train


LIBRARIES: dict[str, Callable[[int, int], Callable[[bool], Any]]] = {
    "PyTorch": in_torch,
    "JAX": in_jax,
    "DeepXDE": in_deepxde,
    "PINA": in_pina,
    "jinns": in_jinns,
}


def one_thread(name: str) -> None:
    """Let PyTorch use one thread: waiting ones would count as CPU time."""
    if name in ("PyTorch", "DeepXDE", "PINA"):
        import torch

        torch.set_num_threads(1)


def libraries_table(quick: bool, only: list[str]) -> list[str]:
    points, steps, turns = (50, 12, 1) if quick else (2000, 1001, 1)
    lines = [
        f"{'library':<10}{'ms a step':>11}{'with / without':>16}{'its own share':>15}"
        f"{'measured':>10}{'ms each':>9}{'once, s':>9}"
    ]
    for name in only or LIBRARIES:
        train = LIBRARIES[name](points, steps)
        one_thread(name)
        LIBRARIES[name](points, 2)(False)  # whatever is compiled or loaded once
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(turns):
            for following in (False, True):
                seconds, follower = train(following)
                times[following].append(seconds)
        plain, with_it = (statistics.median(times[key]) for key in (False, True))
        each = 1e3 * statistics.median(row.seconds for row in follower.rows) if follower.rows else 0
        lines.append(
            f"{name:<10}{1e3 * plain / steps:>11.2f}{with_it / plain:>16.3f}"
            f"{100 * follower.share:>14.2f}%{len(follower.rows):>10}{each:>9.1f}"
            f"{follower.setup_seconds:>9.2f}"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", nargs="*", help="stopping on 48 runs: small, adam, newton")
    parser.add_argument("--problems", nargs="*", default=PROBLEMS, choices=PROBLEMS)
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    parser.add_argument("--replay", nargs="*", type=Path, help="files of recorded runs to judge")
    parser.add_argument("--store", type=Path, help="directory that keeps the runs")
    parser.add_argument("--libraries", nargs="*", help="overhead, in all libraries or in some")
    parser.add_argument("--quick", action="store_true", help="a few steps of everything")
    parser.add_argument("--out", type=Path, help="text file for the tables; paths: FILE.npz")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "Initial condition wasn't provided")
    lines: list[str] = []
    recorded: dict[str, dict[str, Any]] = {}
    for file in options.replay or ():
        recorded |= read_paths(file)
    if options.runs is not None or options.quick:
        for label, chosen in trainings(options.quick).items():
            for problem in PROBLEMS[:1] if options.quick else options.problems:
                if not options.runs or label in options.runs:
                    recorded[f"{label}/{problem}"] = recorded_runs(
                        chosen, problem, options.seeds, options.quick, options.store
                    )
                    if options.out is not None:
                        write_paths(options.out.with_suffix(".npz"), recorded)
    if recorded:
        lines += runs_table(recorded)
        print(*lines, sep="\n", flush=True)
    if options.libraries is not None or options.quick:
        lines += libraries_table(options.quick, options.libraries or [])
    if options.out is not None:
        write_whole(options.out, lambda path: path.write_text("\n".join(lines) + "\n"))


if __name__ == "__main__":
    main()
