"""Only a part of the row enters the statistic: the leading elements, or all but a last partial block.

Partial RMSNorm does so by design. A reduction that drops the last, unfilled block does so by accident, and only at
widths that the block does not divide: with ordinary rows it is a quarter of a percent.

How it shows: one common factor a row, which is far off where the energy lies in the columns that are left out: tail
differs most.

What to check: the width modulo the block size, and whether a partial statistic is meant.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("statistic_width",)
NEXT_STEP = "Compare the width with the number of elements that enter the sum; look at how the last block is handled."


def propose(clues: "Clues") -> Iterator[Words]:
    """The leading widths that the factors ask for, whole blocks, and everything."""
    width = clues.spec.width // clues.spec.groups
    blocks = (width - 1, *(width - width % block for block in (4, 8, 16, 32, 64, 128, 256, 512, 1024)))
    if clues.spec.statistic_width != "all":
        yield {"statistic_width": "all"}
    for count in dict.fromkeys((*clues.leading_widths(), *blocks, width // 2)):
        if 0 < count < width and count != clues.spec.statistic_width:
            yield {"statistic_width": count}
