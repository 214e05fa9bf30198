"""The statistic is taken over another axis.

A last-axis norm used on data whose channels come first, or one statistic over everything.

How it shows: rows of the candidate do not have the same rms; its columns do. With equal lengths nothing complains.

What to check: the axis argument, and the layout of the data at that place.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("axes",)
NEXT_STEP = "Check which axis holds the channels where the norm is called, on each side."


def propose(clues: "Clues") -> Iterator[Words]:
    """Rows, or columns and everything, whichever the sizes of the candidate's rows speak for."""
    for axes in ((-1,),) if clues.rows_stand_alone else ((-2,), (-2, -1)):
        if axes != clues.spec.axes:
            yield {"axes": axes}
