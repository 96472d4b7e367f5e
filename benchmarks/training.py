"""How fast inverse PINNs train, beside DeepXDE and beside the matrix products alone.

The study's network (three hidden layers of 64), 2,000 residual and 200 data points, Adam, RBA.
All rows of one table come from one run of this script: compare them with each other only.

    python benchmarks/training.py            # CPU: DeepXDE on PyTorch, one run, a batch
    python benchmarks/training.py --gpu      # GPU: run-steps per second against the batch size
    python benchmarks/training.py --quick    # a few steps of everything on the CPU

The *products* row is the time that the hidden layers' matrix products of one step take alone, in
the same shapes, by the same library and with all cores: no step can be faster.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np

from twoaxis.datasets import published_dataset
from twoaxis.problems import get_problem
from twoaxis.runs.train import LEARNING_RATE, PHYSICS_WEIGHT
from twoaxis.training import Network, RunSpec, Settings, get_method
from twoaxis.training.backends import Backend, JaxDevice, Programs, WorkerProcess
from twoaxis.training.batch import Batch
from twoaxis.training.settings import starting_values

WIDTH, DEPTH, RESIDUAL, COEFFICIENTS = 64, 3, 2000, 4
# Multiply-adds of the hidden products of one step: forward, and backward by input and weight.
PRODUCTS = 3 * (DEPTH - 1) * WIDTH**2 * RESIDUAL * COEFFICIENTS


def batch_of(runs: int, steps: int) -> Batch:
    problem = get_problem("burgers")
    settings = Settings(
        problem=problem,
        method=get_method("rba"),
        network=Network(WIDTH, DEPTH),
        steps=steps,
        conditions="soft",
        precision="float32",
        learning_rate=LEARNING_RATE,
        physics_weight=PHYSICS_WEIGHT,
        residual_points=RESIDUAL,
        boundary_points=0,
        boundary_weight=0.0,
        warmup=0.0,
    )
    start = starting_values(problem, None, None)
    dataset = published_dataset(problem, 8)
    return Batch(settings, [RunSpec(dataset=dataset, seed=n, start=start) for n in range(runs)])


def seconds_a_step(backend: Backend, runs: int, steps: int) -> tuple[float, float]:
    """Return the best of three times of one step of the batch, and what compiling took."""
    work = batch_of(runs, steps)
    data = work.data()
    state = work.begin(data).state
    with backend.session(work.settings, data) as session:
        start = time.perf_counter()
        session.advance(state, 0, 1)
        compiling = time.perf_counter() - start
        return best(lambda: session.advance(state, 0, steps)) / steps, compiling


def seconds_on_workers(workers: int, runs: int, steps: int) -> float:
    """Return the best of three times of one step of `runs` runs, shared by worker processes."""
    programs = Programs()
    processes = [WorkerProcess(programs) for _ in range(workers)]
    whole = batch_of(runs, steps)
    batches = [Batch(whole.settings, [spec]) for spec in whole.specs]
    data = [batch.data() for batch in batches]
    states = [batch.begin(each).state for batch, each in zip(batches, data, strict=True)]

    def share(number: int, count: int) -> None:
        for k in range(number, runs, workers):
            with processes[number].session(batches[k].settings, data[k]) as session:
                session.advance(states[k], 0, count)

    def all_shares(count: int) -> None:
        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(share, range(workers), [count] * workers))

    try:
        all_shares(1)  # starts the processes and compiles
        return best(lambda: all_shares(steps)) / steps
    finally:
        for process in processes:
            process.close()
            process.release()


def best(work: Callable[[], object], times: int = 3) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def products_alone(runs: int, steps: int, dtype: str = "float32") -> float:
    """Return the seconds that the hidden products of one step of `runs` runs take."""
    weight = jnp.ones((runs, WIDTH, WIDTH), dtype)
    columns = jnp.ones((runs, COEFFICIENTS, WIDTH, RESIDUAL), dtype)

    def once(_: int, columns: jax.Array) -> jax.Array:
        with jax.default_matmul_precision("highest" if dtype == "float32" else "default"):
            for _ in range(DEPTH - 1):
                forward = jnp.einsum("rij,rcjn->rcin", weight, columns)
                gradient = jnp.einsum("rcin,rcjn->rij", forward, columns)
                columns = jnp.einsum("rji,rcjn->rcin", weight + 1e-9 * gradient, forward)
                columns = columns * jnp.asarray(1e-4, dtype)
        return columns

    loop = jax.jit(lambda x: jax.lax.fori_loop(0, steps, once, x))
    jax.block_until_ready(loop(columns))
    return best(lambda: jax.block_until_ready(loop(columns))) / steps


def deepxde_step(steps: int) -> float:
    """Return the seconds that one step of the same problem takes in DeepXDE on PyTorch."""
    os.environ["DDE_BACKEND"] = "pytorch"
    import deepxde as dde

    dataset = published_dataset("burgers", 8)
    log_nu = dde.Variable(float(np.log(0.02)))

    def residual(x: object, u: object) -> object:
        u_x = dde.grad.jacobian(u, x, i=0, j=0)
        u_t = dde.grad.jacobian(u, x, i=0, j=1)
        u_xx = dde.grad.hessian(u, x, i=0, j=0)
        return u_t + u * u_x - dde.backend.exp(log_nu) * u_xx

    domain = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1))
    observed = dde.icbc.PointSetBC(dataset.coordinates, dataset.values[:, None], component=0)
    # The observations are no residual sites here either: exactly 2,000 of those.
    data = dde.data.TimePDE(domain, residual, [observed], num_domain=RESIDUAL)
    network = dde.nn.FNN([2, *[WIDTH] * DEPTH, 1], "tanh", "Glorot uniform")
    model = dde.Model(data, network)
    model.compile(
        "adam",
        lr=LEARNING_RATE,
        loss_weights=[PHYSICS_WEIGHT, 1],
        external_trainable_variables=[log_nu],
        verbose=0,
    )

    def run(iterations: int) -> None:
        model.train(iterations=iterations, display_every=10**9, verbose=0)

    run(5)
    # A call also evaluates the losses before and after: that is not counted as steps.
    return (best(lambda: run(steps + 1)) - best(lambda: run(1))) / steps


def on_cpu(steps: int, batch: int) -> None:
    cores = len(os.sched_getaffinity(0))
    rows = [
        ("DeepXDE on PyTorch, one run", deepxde_step(steps)),
        ("twoaxis, one run", seconds_a_step(JaxDevice(jax.devices("cpu")[0]), 1, steps)[0]),
        (
            f"twoaxis, {batch} runs on {cores} workers",
            seconds_on_workers(cores, batch, steps) / batch,
        ),
        ("the products alone", products_alone(1, steps)),
    ]
    reference = rows[0][1]
    print(f"CPU, {cores} cores, {steps} steps, float32, best of three")
    print(f"{'':40}{'ms per run-step':>14}{'run-steps/s':>14}{'DeepXDE = 1':>13}")
    for name, each in rows:
        print(f"{name:40}{1e3 * each:14.2f}{1 / each:14.0f}{reference / each:13.2f}")


def on_gpu(steps: int) -> None:
    device = jax.devices("gpu")[0]
    print(f"GPU, {device.device_kind}, {steps} steps, float32 products at full precision")
    print(f"{'runs':>6}{'ms a step':>12}{'run-steps/s':>14}{'compiling, s':>14}")
    for runs in (1, 10, 40, 80, 160, 240, 480):
        each, compiling = seconds_a_step(JaxDevice(device), runs, steps)
        print(f"{runs:6}{1e3 * each:12.3f}{runs / each:14.0f}{compiling:14.1f}", flush=True)
        if runs == 240:
            whole = each
    print(f"\n240 runs of 5,000 steps: {5000 * whole:.1f} s, compiling apart")
    for dtype in ("float32", "bfloat16"):
        alone = products_alone(240, min(steps, 100), dtype)
        rate = 2 * PRODUCTS * 240 / alone / 1e12
        print(
            f"the products alone in {dtype}: {5000 * alone:.1f} s ({rate:.0f} TFLOP/s), "
            f"{100 * alone / whole:.0f}% of the step"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few steps, for a check")
    parser.add_argument("--gpu", action="store_true", help="measure on the GPU")
    options = parser.parse_args()
    if options.gpu:
        on_gpu(20 if options.quick else 500)
    else:
        on_cpu(10 if options.quick else 200, 2 if options.quick else 8)


if __name__ == "__main__":
    main()
