"""The mean square is computed, or held, in a low-precision dtype.

In float16 a square overflows from 256 on, and a sum long before; what is infinite there becomes a row of zeros. In
bfloat16 a running sum of ones stops at 256. Both also round every square to few bits, which moves whole rows by up
to half a percent.

How it shows: one common factor for each row, of either sign; in float16 zeros or NaN in large and edge from an
amplitude on; in bfloat16 constant and wide rows are far too large.

What to check: the dtype of x where it is squared, and of the accumulator; compilers and exporters drop explicit
upcasts.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("compute_dtype", "square_dtype", "mean_dtype", "statistic_dtype")
NEXT_STEP = (
    "Check the dtype in which squares, sum and root are computed on each side: is the cast to float32 still there?"
)


def propose(clues: "Clues") -> Iterator[Words]:
    """Every other dtype; narrow ones also with the orders in which narrow sums are formed."""
    from rmsaudit.formats import FORMATS

    for name in VARIABLES:
        for word in clues.other_values(name):
            yield {name: word}
            if name == "compute_dtype" and FORMATS[word].precision < FORMATS["float32"].precision:
                for order in ("sequential", "torch_cpu", "lanes:8"):
                    yield {"compute_dtype": word, "accumulate_order": order}
                yield {"compute_dtype": word, "accumulate_dtype": "float32"}
