"""Damaged files and mutated calls: each is refused, or gives what can be used.

Files of every kind that the library reads are made, damaged in many ways and read again: bits
flipped, parts cut, doubled and exchanged; numbers that are huge, negative or none, or that mean
something else; headers that promise terabytes; texts nested a hundred thousand deep; links to
other files; and changes after which every checksum was made right again. Calls of every public
door are made with arguments that nobody should pass (`fuzz_calls`). A case ends well if it is
refused with an InputError (a checkpoint with a DamageWarning); if a file is read unchanged; or if
what came back is *used*: summarized, drawn, shown as a page, saved and loaded again. Everything
else is a finding: another exception, content that differs under the old checksum, more than
500 MB of memory, more than 10 seconds of the processor, no answer within two minutes, a crash of
the interpreter.

    python benchmarks/fuzz.py                        # 10,000 files and 2,000 calls
    python benchmarks/fuzz.py --quick                # 100 files and 28 calls
    python benchmarks/fuzz.py --seed 7 --cases 500   # others
    python benchmarks/fuzz.py --only run:1234        # one case again, with its traceback

A case is made of the seed, its kind and its number alone. Files are read in a child process that
may take at most 3 GiB more than at its start; peaks are measured on Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random

SECONDS = 10.0  # of the processor: other work on the machine does not count
PATIENCE = 120.0
START_SECONDS = 300.0
PEAK = 500 * 10**6
MOST = 3 * 2**30
CALL = "call "  # before the name of a door
OUTCOMES = ("refused", "unchanged", "used", "finding")
# Shares of the cases; audits take the longest.
WEIGHTS = {
    **{"run": 2.0, "checkpoint": 1.5, "audit": 1.0, "resolution": 1.0},
    **{"residual": 1.0, "set": 0.5, "simulated": 0.5, "table": 0.5, "record": 0.75},
    **{"score": 0.5, "scan": 0.5, "spectrum": 0.5, "delivery": 0.5, "map": 0.4, "comparison": 0.4},
    **{"snapshots": 0.4, "sites": 0.4, "curve": 0.4, "calibration": 0.4},
}


def main() -> int:
    """Run the cases and print a line for each kind; the exit status tells of findings."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="damaged files")
    parser.add_argument("--calls", type=int, default=2_000, help="mutated calls")
    parser.add_argument("--seed", type=int, default=20261115)
    parser.add_argument("--quick", action="store_true", help="100 files and 28 calls")
    parser.add_argument("--workers", type=int, default=2, help="kinds at the same time")
    parser.add_argument("--only", help="one case, as KIND:NUMBER")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(Path(given.child[0]), given.child[1], int(given.child[2]), given.seed)
    with tempfile.TemporaryDirectory(prefix="twoaxis-fuzz-") as folder:
        home = Path(folder)
        _in_path()
        if given.only:
            return one(home, given.only, given.seed)
        files, calls = (100, 28) if given.quick else (given.cases, given.calls)
        return everything(home, files, calls, given.seed, given.workers)


def everything(home: Path, cases: int, calls: int, seed: int, workers: int) -> int:
    import fuzz_calls

    began = time.monotonic()
    with _child(home, "record:0", 0, seed) as first:  # makes the undamaged files
        first.communicate()
    print(f"seed {seed}, {cases} files, {calls} calls")
    print(f"{'kind':22}{'cases':>8}" + "".join(f"{word:>11}" for word in OUTCOMES) + "      peak")
    findings: list[str] = []
    total: Counter[str] = Counter()
    counts = {k: max(1, round(cases * w / sum(WEIGHTS.values()))) for k, w in WEIGHTS.items()}
    each = -(-calls // len(fuzz_calls.DOORS))
    counts |= {f"{CALL}{door}": each for door in fuzz_calls.DOORS if each}
    with ThreadPoolExecutor(workers) as threads:
        coming = [threads.submit(of_kind, home, kind, counts[kind], seed) for kind in counts]
        for kind, found in zip(counts, coming, strict=True):
            outcomes, peak, detail = found.result()
            findings += detail
            row = "".join(f"{outcomes[word]:>11}" for word in OUTCOMES)
            print(f"{kind:22}{counts[kind]:>8}{row}{peak / 1e6:>7.0f} MB", flush=True)
            for line in detail:
                print(f"finding: {line}", flush=True)
            total += outcomes
    row = "".join(f"{total[word]:>11}" for word in OUTCOMES)
    print(f"{'all':22}{sum(total.values()):>8}{row}")
    print(f"{time.monotonic() - began:.0f} s; at most {PEAK / 1e6:g} MB and {SECONDS:g} s a case")
    return 1 if findings else 0


def of_kind(home: Path, kind: str, count: int, seed: int) -> tuple[Counter[str], int, list[str]]:
    """Run the cases of a kind; return how often each outcome came, the peak and the findings."""
    counts: Counter[str] = Counter()
    peak, findings = 0, []
    for number, (outcome, detail, grown) in enumerate(results(home, kind, count, seed)):
        counts[outcome] += 1
        peak = max(peak, grown)
        if outcome == "finding":
            findings.append(f"{kind}:{number} {detail}")
    return counts, peak, findings


def results(home: Path, kind: str, count: int, seed: int) -> Iterator[tuple[str, str, int]]:
    """Yield outcome, words and growth of memory; a child that dies is followed by another."""
    done = 0
    while done < count:
        with _child(home, f"{kind}:{count}", done, seed) as process:
            for line in _lines(process):
                done += 1
                yield line
                if done == count:
                    break
            else:
                status = _ended(process)
                if status is not None:
                    done += 1
                    yield "finding", status, 0


def _child(home: Path, kind: str, first: int, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--seed", str(seed), "--child", str(home), kind]
    return subprocess.Popen([*command, str(first)], stdout=subprocess.PIPE)


def _lines(process: subprocess.Popen[bytes]) -> Iterator[tuple[str, str, int]]:
    """Yield what the child says until it ends, or stays silent for too long."""
    assert process.stdout is not None
    seconds, rest = START_SECONDS, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(seconds):
            read = os.read(process.stdout.fileno(), 2**16)
            if not read and seconds == START_SECONDS:
                raise RuntimeError("the child could not begin")
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                seconds = PATIENCE
                if line != b"ready":
                    yield tuple(json.loads(line))
        process.kill()
        process.wait()


def _ended(process: subprocess.Popen[bytes]) -> str | None:
    status = process.wait()
    if status == -9:
        return f"no answer within {PATIENCE:g} s"
    return f"the interpreter ended with {status}" if status else None


# ------------------------------------------------------------------ the child


def child(home: Path, kind: str, first: int, seed: int) -> int:
    """Run the cases of one kind from `first` on, a line of JSON for each."""
    _in_path()
    import fuzz_calls
    import fuzz_kinds

    kind, _, count = kind.partition(":")
    made, place = home / "made", home / f"case-{kind}"
    if not made.exists():
        fuzz_kinds.make_all(home / "begun")
        (home / "begun").rename(made)
    called = kind.startswith(CALL)
    original = None if called else fuzz_kinds.KINDS[kind].read(made / kind)
    _limit_memory()
    print("ready", flush=True)
    for number in range(first, int(count)):
        random = Random(f"{seed}/{kind}/{number}")
        shutil.rmtree(place, ignore_errors=True)
        if not called:
            shutil.copytree(made / kind, place)
        _reset_peak()
        before, began = _memory("VmRSS"), time.process_time()
        if called:
            outcome, detail = fuzz_calls.outcome_of(kind.removeprefix(CALL), random)
        else:
            outcome, detail = fuzz_kinds.outcome_of(fuzz_kinds.KINDS[kind], random, place, original)
        grown = max(0, _memory("VmHWM") - before)
        took = time.process_time() - began
        if grown > PEAK and outcome != "finding":
            outcome, detail = "finding", f"{grown / 2**20:.0f} MiB of memory"
        if took > SECONDS and outcome != "finding":
            outcome, detail = "finding", f"{took:.0f} s of the processor"
        print(json.dumps([outcome, detail, grown]), flush=True)
    return 0


def one(home: Path, name: str, seed: int) -> int:
    """Read one case in this process, with whatever comes of it."""
    import fuzz_calls
    import fuzz_kinds

    kind, _, number = name.partition(":")
    random = Random(f"{seed}/{kind}/{number}")
    if kind.startswith(CALL):
        door = fuzz_calls.DOORS[kind.removeprefix(CALL)]
        fuzz_calls.use(door.call(**fuzz_calls.mutated(random, door.arguments())))
    else:
        fuzz_kinds.make_all(home / "made")
        known = fuzz_kinds.KINDS[kind]
        known.damage(random, home / "made" / kind)
        known.read(home / "made" / kind)
        if known.use is not None:
            known.use(home / "made" / kind)
    print("used")
    return 0


def _in_path() -> None:
    folder = str(Path(__file__).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _memory(name: str) -> int:
    """Return a line of /proc/self/status in bytes, or 0 where there is none."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(x.split()[1]) * 1024 for x in text.splitlines() if x.startswith(name)), 0)


def _reset_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _limit_memory() -> None:
    most = _memory("VmData") + MOST
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    sys.exit(main())
