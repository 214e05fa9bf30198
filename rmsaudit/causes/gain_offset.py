"""One side multiplies by the gain, the other by the gain plus a constant (1 + g), or the constant is added twice.

Some families store gains around 0 and apply 1 + g. A converter that adds the 1 and a loader that adds it again make
2 + g; one that forgets it makes g. Keys, shapes and dtypes are the same in all of these.

How it shows: candidate / reference is one number a column, the same in every row: g/(1 + g), or (2 + g)/(1 + g).
Gains that are all 1 hide it behind a plain factor 2.

What to check: the mean of the stored gains (near 0: the offset belongs at run time; near 1: it was added before),
and the convention that the loader believes in.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("gain_offset",)
NEXT_STEP = "Compare the mean of the stored gains of both sides: near 0 they are stored without the 1, near 1 with it."


def propose(clues: "Clues") -> Iterator[Words]:
    """No offset, 1, 2, and what the columns agree on."""
    for value in dict.fromkeys((0.0, 1.0, 2.0, *clues.offsets())):
        if value != clues.spec.gain_offset:
            yield {"gain_offset": value}


def claim(before: Words, after: Words) -> str | None:
    """In the words of the two formulas."""
    candidate, reference = (f"gain + {w['gain_offset']:g}" if w["gain_offset"] else "gain" for w in (after, before))
    return f"The candidate multiplies by {candidate}; the reference by {reference}."
