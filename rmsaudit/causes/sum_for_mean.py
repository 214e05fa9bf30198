"""The sum of squares stands where the mean square belongs, or a variance does.

Without the division by n outputs are smaller by √n: exactly 1/8 at width 64. A sharded norm that divides by the
number of shards only, and an L2 normalisation used as RMSNorm, do the same.

How it shows: candidate / reference is 1/√n in every element of every row. A cosine is exactly 1 and hides it.

What to check: whether the reduction is a sum or a mean, and whether a factor √n follows.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("statistic", "statistic_algorithm")
NEXT_STEP = "Check whether the reduction over the row is a sum or a mean on each side."


def propose(clues: "Clues") -> Iterator[Words]:
    """Every other statistic and algorithm; a sum also with eps where it stands then."""
    for name in VARIABLES:
        for value in clues.other_values(name):
            yield {name: value}
    if clues.spec.statistic != "sum_square":
        for fit in clues.eps_fits:
            if fit.placement in ("inside_sum", "floor_norm"):
                placement = "inside_sqrt" if fit.placement == "inside_sum" else "floor_rms"
                yield {"statistic": "sum_square", "eps": fit.number.value, "eps_placement": placement}
