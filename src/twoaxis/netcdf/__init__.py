"""netCDF files from anybody, read without trusting them."""

from __future__ import annotations

from twoaxis.netcdf.contents import (
    check_schema,
    contradiction,
    layout_fault,
    load_dataset,
    refuse,
)
from twoaxis.netcdf.reading import MOST_OBJECTS, read_netcdf

__all__ = [
    "MOST_OBJECTS",
    "check_schema",
    "contradiction",
    "layout_fault",
    "load_dataset",
    "read_netcdf",
    "refuse",
]
