"""The row is normalised in parts on one side, or in other parts: by head, by shard, by group.

Per-head norms, grouped gated norms, and rows split over devices without combining the sums, all divide each part by
its own rms. Parts of about the same scale hide it.

How it shows: candidate / reference is constant within each part of the row and differs between parts; blocks
differs most.

What to check: the shape that the norm is given (heads apart or together), the group size, and whether sums are
combined across devices.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("groups",)
NEXT_STEP = "Compare the length that each side normalises over with the head size, group size and number of devices."


MOST = 24


def propose(clues: "Clues") -> Iterator[Words]:
    """Every number of equal parts, fewest first, and the most ones."""
    few = clues.divisors[:MOST]
    yield from ({"groups": parts} for parts in few)


def claim(before: Words, after: Words) -> str | None:
    """In how many parts each side takes the row."""
    return f"The candidate normalises the row in {_parts(after)}; the reference in {_parts(before)}."


def _parts(words: Words) -> str:
    number = words["groups"]
    return "one piece" if number == 1 else f"{number} parts of {words['width'] // number}"
