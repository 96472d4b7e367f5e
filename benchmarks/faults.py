"""Sweeps that are disturbed on purpose, and whether anybody can tell afterwards.

A sweep runs in a process of its own and is disturbed at random moments until it is done: its
client, its workers or its scheduler are killed with SIGKILL, a second client fills the same
store, the disk is full, stored files are damaged. ``twoaxis train`` is interrupted as by Ctrl-C in
its first ten seconds of processor time, and when its workers start, and must exit with 130. After
each sweep the store must be the one of a sweep that nobody disturbed: every run once, all checksums
right, the same bits, the same table, and nothing left over that a later sweep does not remove.

    python benchmarks/faults.py            # 50 killed clients and some of everything else
    python benchmarks/faults.py --quick    # one killed client, one worker, four damaged files
    python benchmarks/faults.py --kinds dask=10,scheduler=3 --seed 1
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from fault_kinds import STARTS, Faults
from fault_sweeps import RUNS, STEPS, client

import twoaxis as ta
from twoaxis.files import write_whole

# What is counted as a kill, each of one process.
KILLS = (
    *("killed client", "killed local worker", "killed dask worker", "restarted scheduler"),
    "killed client beside another",
)
# Who does a fault, and how often: in full, and for a check.
KINDS = {
    "client": (Faults.kill_clients, 50, 1),
    "interrupt": (Faults.interrupt_trainings, 20, 2),
    "start": (Faults.interrupt_starts, 20, 2),
    "local": (Faults.kill_local_workers, 6, 1),
    "dask": (Faults.kill_dask_workers, 5, 1),
    "scheduler": (Faults.restart_schedulers, 3, 1),
    "two": (Faults.two_clients, 4, 1),
    "disk": (Faults.fill_disks, 4, 1),
    "files": (Faults.damage_files, 24, 4),
}


def report(counts: Counter[str], seed: int, seconds: float) -> str:
    """Return the text for people: command and versions on top, then what was done."""
    command = " ".join(["python", "benchmarks/faults.py", *sys.argv[1:]])
    versions = (
        f"twoaxis {ta.__version__}, JAX {version('jax')}, Dask {version('distributed')}, "
        f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores"
    )
    lines = [f"$ {command}", versions, f"{RUNS} runs a sweep, {STEPS} steps a run, seed {seed}"]
    done = sorted(counts.items(), key=lambda item: item[0].endswith("checked"))
    lines += ["", *(f"{name:50}{count:7,}" for name, count in done), ""]
    checked = counts["runs checked"] + counts["runs of interrupted trainings checked"]
    if checked:
        lines += [
            "Afterwards every run was there once, with its checksums, the bits and the table of"
        ]
        lines += [f"an undisturbed sweep: all {checked:,} runs, in {seconds:.0f} s."]
    if counts[STARTS]:
        lines += [
            "All that were interrupted while workers start exited with 130 and left no process."
        ]
    kills = sum(count for name, count in counts.items() if name in KILLS)
    lines += [f"{kills} processes were killed."] if kills else []
    return "\n".join(lines) + "\n"


def disturbed(wanted: dict[str, int], seed: int) -> Counter[str]:
    """Do so many faults of each kind, and return what was done."""
    with tempfile.TemporaryDirectory() as home:
        # Every process compiles the same programs: once is enough.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(home, "programs"))
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"
        faults = Faults(Path(home), seed)
        print(f"an undisturbed client works for {faults.seconds:.1f} s", flush=True)
        for kind, count in wanted.items():
            began = time.monotonic()
            KINDS[kind][0](faults, count)
            print(f"{kind:12}{time.monotonic() - began:8.0f} s", flush=True)
        return faults.counts


# What a check does; the tests kill Dask workers and schedulers, too.
QUICK = ("client", "interrupt", "start", "local", "files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one of some faults")
    parser.add_argument("--kinds", help=f"which faults, as client=10,dask: {','.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--out", type=Path, help="file for the counts")
    parser.add_argument("--client", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        sys.exit(client(*options.client))
    usual = QUICK if options.quick else tuple(KINDS)
    kinds = options.kinds.split(",") if options.kinds else usual
    counts = {kind: count for kind, _, count in (each.partition("=") for each in kinds)}
    if not set(counts) <= set(KINDS) or not all(
        count.isdigit() for count in counts.values() if count
    ):
        parser.error(f"--kinds takes some of {', '.join(KINDS)}, each with or without =COUNT")
    column = 2 if options.quick else 1
    wanted = {kind: int(count or KINDS[kind][column]) for kind, count in counts.items()}
    began = time.monotonic()
    done = disturbed(wanted, options.seed)
    text = report(done, options.seed, time.monotonic() - began)
    print("\n" + text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(options.out, lambda path: path.write_text(text))


if __name__ == "__main__":
    main()
