"""Which runs are there: a row for each, from its manifest alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pandas as pd

from twoaxis.errors import InputError
from twoaxis.runs.checks import Check, check_manifest
from twoaxis.runs.contents import Place, look_through, size_of
from twoaxis.training.store import RunStore

COLUMNS = (
    *("key", "problem", "method", "dataset", "seed", "steps", "conditions", "precision"),
    *("status", "twoaxis", "bytes"),
)
NUMBERS = ("seed", "steps", "bytes")


def list_runs(store: RunStore) -> pd.DataFrame:
    """Return a row for each run of a store, in the order of the keys.

    The columns are ``key``, ``problem``, ``method``, ``dataset``, ``seed``, ``steps``,
    ``conditions``, ``precision``, ``status``, ``twoaxis`` (the version that wrote the run),
    ``bytes`` on disk, and ``delivered_NAME`` for every parameter. Arrays are not read. Whatever
    stands where a run belongs has a row; of one that is damaged, the status says so and the
    columns that its manifest would tell are empty.

    Parameters
    ----------
    store : RunStore
    """
    return frame_of(run_rows(store))


def run_rows(store: RunStore) -> list[dict[str, Any]]:
    """Return what `list_runs` shows as plain values, with ``delivered`` as one of them."""
    rows = [_row(place) for place in look_through(store).places]
    return [row for row in rows if row is not None]


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows as a table, with a column for each delivered parameter."""
    names = {name: None for row in rows for name in row["delivered"]}
    flat = [
        row | {f"delivered_{name}": value for name, value in row["delivered"].items()}
        for row in rows
    ]
    columns = [*COLUMNS[:8], *(f"delivered_{name}" for name in names), *COLUMNS[8:]]
    frame = pd.DataFrame(flat, columns=columns, dtype=object)
    # Whole numbers stay whole beside the empty cells of a damaged run, and text stays text: the
    # name of a file need not be one that every string type can hold.
    numbers = [
        name
        for name in columns
        if name.startswith("delivered_") or (name in NUMBERS and frame[name].notna().all())
    ]
    return frame.assign(**{name: frame[name].infer_objects() for name in numbers})


def find_runs(store: RunStore, names: Sequence[str]) -> list[Place]:
    """Return the places of runs, in the order of their names, each once.

    Parameters
    ----------
    store : RunStore
    names : sequence of str
        Keys, beginnings that only one key has, or patterns with ``*``.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError("keys of runs as a list of text", repr(names)[:100], "pass keys=[KEY]")
    places = look_through(store).places
    found = [place for name in names for place in _matching(name, places)]
    return sorted(set(found), key=lambda place: place.path.name)


def find_run(store: RunStore, name: str) -> Place:
    """Return the place of one run, named by its key or a beginning that only one key has."""
    if "*" in name:
        raise InputError("the key of one run", repr(name), "write it without *")
    (place,) = find_runs(store, [name])
    return place


def _matching(name: str, places: list[Place]) -> list[Place]:
    keys = {place.path.name: place for place in reversed(places)}  # a faultless one comes first
    if name in keys:
        return [keys[name]]
    pattern = "*" in name
    fitting = [k for k in keys if (fnmatchcase(k, name) if pattern else k.startswith(name))]
    if not fitting or (len(fitting) > 1 and not pattern):
        some = f" ({', '.join(map(repr, sorted(fitting)[:3]))}, ...)" if fitting else ""
        raise InputError(
            "the key of one run, or a beginning that only one has",
            f"{name!r}, which fits {len(fitting)} of {len(keys)} runs{some}",
            "write more of the key; twoaxis runs list DIR shows them all",
        )
    return [keys[key] for key in fitting]


def described(manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield everything in a manifest as names with dots and texts, in its order."""
    waiting: list[tuple[str, Any]] = [("", manifest)]
    while waiting:  # without recursion: the depth is chosen by whoever wrote the file
        name, value = waiting.pop()
        parts: list[tuple[str, Any]] = []
        if isinstance(value, dict):
            parts = [(key, part) for key, part in value.items()]
        elif isinstance(value, list) and any(isinstance(part, (dict, list)) for part in value):
            parts = [(str(number), part) for number, part in enumerate(value)]
        if parts:
            waiting += [(f"{name}.{key}" if name else key, part) for key, part in reversed(parts)]
        elif isinstance(value, (dict, list)):
            yield name, ", ".join(str(part) for part in value) or "none"
        else:
            yield name, str(value)


def _row(place: Place) -> dict[str, Any] | None:
    manifest, found = check_manifest(place)
    if found.state == "gone":
        return None
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {"delivered": {}}
    row |= {"key": place.path.name, "bytes": size_of(place.path)}
    try:
        if found.state == "sound":
            return row | _told(manifest)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        found = Check("damaged", "its manifest does not say what a run says")
    return row | {"status": f"{found.state}: {found.reason}"}


def _told(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what a manifest tells; anything may stand in it, and an error says that it does."""
    settings, run = manifest["settings"], manifest["run"]
    return {
        "problem": _text(settings["problem"]),
        "method": _text(settings["method"]["name"]),
        "dataset": _text(run["dataset"]),
        "seed": _whole(run["seed"]),
        "steps": _whole(manifest["snapshots"][-1]["step"]),
        "conditions": _text(settings["conditions"]),
        "precision": _text(settings["precision"]),
        "delivered": {
            _text(name): float(value) if isinstance(value, float) else float(_whole(value))
            for name, value in dict(manifest["delivered"]).items()
        },
        "status": _text(manifest["status"]),
        "twoaxis": _text(manifest["twoaxis"]),
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    value.encode()  # JSON can spell characters that do not exist
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("no whole number")
    return value
