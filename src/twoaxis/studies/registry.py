"""The blocks of the study in the order of the paper, and how to find one by name."""

from __future__ import annotations

from twoaxis.errors import named
from twoaxis.studies.block import Block
from twoaxis.studies.blocks import (
    architecture,
    calibration,
    cutoff,
    darcy,
    development,
    fresh_noise,
    generating_solver,
    hard_conditions,
    heldout_pilot,
    holdout,
    interventions,
    noise_draws,
    proxies,
    rba_replay,
    resolution,
    robustness,
    selector,
    spectrum,
    view_alignment,
)

BLOCKS: dict[str, Block] = {
    module.BLOCK.name: module.BLOCK
    for module in (
        resolution,
        generating_solver,
        development,
        holdout,
        architecture,
        fresh_noise,
        noise_draws,
        proxies,
        view_alignment,
        robustness,
        interventions,
        spectrum,
        cutoff,
        selector,
        rba_replay,
        heldout_pilot,
        hard_conditions,
        darcy,
        calibration,
    )
}

__all__ = ["BLOCKS", "get_block"]


def get_block(name: str) -> Block:
    """Return the block with this name."""
    return named("blocks", str(name), BLOCKS)
