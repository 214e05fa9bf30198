"""The input or the result is limited to ± a number.

Some runtimes clamp to the largest finite value of float16 before or after the norm, so that nothing becomes
infinite.

How it shows: only large and edge differ: the largest elements of a row stop growing while the rest of the row
changes its scale, or outputs stop at one number.

What to check: whether the limit is meant, and whether activations of the model reach it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("input_clamp", "output_clamp")
NEXT_STEP = "Find out whether the limit is meant, and whether activations of this model reach it."


def propose(clues: "Clues") -> Iterator[Words]:
    """The limits that the outputs show, and none where there is one."""
    for name, limits in (("input_clamp", clues.input_limits), ("output_clamp", clues.output_limits)):
        if getattr(clues.spec, name) != "none":
            yield {name: "none"}
        yield from ({name: limit} for limit in limits() if limit != getattr(clues.spec, name))
