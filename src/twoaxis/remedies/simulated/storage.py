"""Loading a simulated audit: nothing in the file is executed, strange files are refused."""

from __future__ import annotations

import os

from twoaxis.files import existing_netcdf
from twoaxis.netcdf import (
    check_schema,
    contradiction,
    layout_fault,
    load_dataset,
    read_netcdf,
    refuse,
)
from twoaxis.netcdf.contents import Layout
from twoaxis.remedies.simulated.assemble import BOTH, SCHEMA
from twoaxis.remedies.simulated.result import SimulatedAudit

ONE = ("parameter",)
REQUIRED: Layout = {
    "parameter": (ONE, "UOT"),
    "replica": (("replica",), "iu"),
    "delivered": (BOTH, "f"),
    "delivered_error": (BOTH, "f"),
    "displacement": (BOTH, "f"),
    "training_displacement": (BOTH, "f"),
    "preferred_error": (BOTH, "f"),
    "gap": (BOTH, "f"),
    "status": (("replica",), "UOT"),
    "center": (ONE, "f"),
    "given": (ONE, "f"),
    "lower_bound": (ONE, "f"),
    "upper_bound": (ONE, "f"),
    "coordinate": (ONE, "UOT"),
    "scale": (ONE, "f"),
}
ATTRIBUTES = ("seed", "view", "cross_view", "route", "reason")


def load_simulated_audit(path: str | os.PathLike[str]) -> SimulatedAudit:
    """Load a `SimulatedAudit` from a netCDF file. It holds no frozen residuals any more."""
    path = existing_netcdf(path)
    data = read_netcdf(path, load_dataset, "SimulatedAudit.to_netcdf", "write it again")
    check_schema(data.attrs, SCHEMA, path, "load a file that SimulatedAudit.to_netcdf wrote")
    found = SimulatedAudit(data)
    fault = layout_fault(data, ATTRIBUTES, REQUIRED)
    refuse(path, fault or contradiction(lambda: (repr(found), found.to_dataframe())))
    return found
