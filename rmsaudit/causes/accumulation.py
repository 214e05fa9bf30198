"""The squares are added up in another dtype or another order.

A sum rounds at every addition, and where it rounds depends on the order: pairwise, left to right, in lanes of a
vector unit, in blocks of a kernel. In float32 that is a few ulp, on wide rows with a running sum some hundred. In
16 bits a running sum stops growing once its terms are below half of its ulp.

How it shows: exact-sum agrees bit for bit, everything else differs by a few float32 ulp, and 16-bit outputs in one
element of some thousands. With a 16-bit accumulator: whole rows, more the wider they are.

What to check: whether a limit of so many ulp leaves room for the order; the accumulator's dtype where rows are far
off.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("accumulate_dtype", "accumulate_order")
NEXT_STEP = "Where only the order differs, leave room for it in the limit; where the accumulator is narrow, widen it."


def propose(clues: "Clues") -> Iterator[Words]:
    """Every other dtype; narrow ones in several orders, and a narrow accumulator that is there in another order."""
    from rmsaudit.formats import FORMATS

    orders = ("pairwise", "sequential", "torch_cpu", "lanes:8", "lanes:128")
    narrow = FORMATS["float32"].precision
    for word in clues.other_values("accumulate_dtype"):
        yield {"accumulate_dtype": word}
        if FORMATS[word].precision < narrow:
            yield from ({"accumulate_dtype": word, "accumulate_order": order} for order in orders[1:])
    if FORMATS[clues.spec.accumulate_dtype].precision < narrow:
        yield from ({"accumulate_order": order} for order in orders if order != clues.spec.accumulate_order)
