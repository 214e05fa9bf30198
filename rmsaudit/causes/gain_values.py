"""The candidate multiplies by other gains than those stored: by their squares, in another order, without their sign.

The tensors may be of another layer, permuted, or moved by one column; or the gain is multiplied in twice, once
folded into the next matrix and once here.

How it shows: candidate / reference is one number a column, the same in every row.

What to check: the name, layer and order of the tensor on each side; whether gains were folded into another matrix.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("gain_values",)
NEXT_STEP = "Compare the two gain tensors value by value: the same layer, the same order, applied once?"


def propose(clues: "Clues") -> Iterator[Words]:  # noqa: ARG001  nothing is read from the data
    """Each of the forms."""
    from rmsaudit.gains import FORMS

    for form in FORMS:
        yield {"gain_values": form}


def claim(before: Words, after: Words) -> str | None:  # noqa: ARG001  the reference's are the declared ones
    """Which form."""
    return f"The candidate multiplies by the reference's gains {after['gain_values']}."
