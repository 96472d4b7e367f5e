"""netCDF files from anybody, read without trusting them."""

from __future__ import annotations

from twoaxis.netcdf.reading import MOST_OBJECTS, read_netcdf

__all__ = ["MOST_OBJECTS", "read_netcdf"]
