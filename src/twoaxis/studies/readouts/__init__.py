"""What is read out of a trained field, one readout a file.

A readout is a function of one run alone, so it can be computed when the field is trained, kept
in a table, and used by any block afterwards without the field.
"""

from __future__ import annotations

from twoaxis.studies.readouts.readout import Readout

__all__ = ["Readout"]
