"""Other noise: the fresh-noise block again, with noise vectors that nobody has seen.

The study printed one draw of twenty noise vectors for each problem. Repetition k of this block
takes stream k of the noise and initialization k, so its spread includes everything that is random
in a published figure: the vectors, the networks and the residual sites. Repetition 0 is the
fresh-noise block itself.
"""

from __future__ import annotations

from twoaxis.studies.block import Block
from twoaxis.studies.blocks.fresh_noise import fresh_needs, measure_fresh
from twoaxis.studies.fields import Field

BLOCK = Block(
    name="noise-draws",
    title="Fresh RBA noise, other draws",
    claim=(
        "Not in the study. Places each published figure of the fresh-noise block among repetitions "
        "in which noise and initialization are both new, because one block is one draw."
    ),
    needs=fresh_needs,
    measure=measure_fresh,
    published="fresh-noise",
    fresh_noise=True,
    repeat=Field.with_noise_of,
)
