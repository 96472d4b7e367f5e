"""What a labelled file must hold to be taken for one of ours, and what is said if it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from twoaxis.errors import InputError

# For each variable its dimensions, and the kinds of NumPy that its values may have.
Layout = Mapping[str, tuple[tuple[str, ...], str]]


def load_dataset(path: Path) -> xr.Dataset:
    """Read a file whole, and let go of it."""
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        return opened.load()


def check_schema(attributes: Mapping[Any, Any], schema: str, path: Path, fix: str) -> None:
    """Refuse a file of another schema, with the instruction `fix`."""
    came = attributes.get("schema")
    if came != schema:
        raise InputError(f"a file with schema {schema!r}", f"schema {came!r} in {str(path)!r}", fix)


def layout_fault(data: xr.Dataset, attributes: Iterable[str], variables: Layout) -> str:
    """Say which attribute or variable is missing or of another kind; empty where none is."""
    for name in attributes:
        if name not in data.attrs:
            return f"no attribute {name}"
    for name, (dims, kinds) in variables.items():
        if name not in data.variables:
            return f"no {name}"
        variable = data.variables[name]
        if variable.dims != dims or not variable.size or variable.dtype.kind not in kinds:
            return f"{name} of {variable.dtype} with dimensions {variable.dims}"
    return ""


def contradiction(use: Callable[[], object]) -> str:
    """Try what a reader will ask of loaded values; say what it led to, empty where all is well."""
    try:
        use()
    # Whatever it is that contradictory values lead to.
    except Exception as error:
        return f"values that contradict each other ({type(error).__name__}: {error})"
    return ""


def refuse(path: Path, fault: str) -> None:
    """Refuse a file with a fault; without one there is nothing to say."""
    if fault:
        raise InputError(
            "a complete file",
            f"{str(path)!r} with {fault}",
            "write it again; the file was changed after it was saved",
        )
