"""The named intermediates of a norm, in the order of the formula, and looking on while they are formed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmsaudit.arrays import Array

Watch = Callable[[str, "Array"], None]
"""Called with the name of a step and its value, which must not be changed: [outer, groups, size], or 1 for size."""

STEPS = (
    "x",  # what is normalised: cast, clamped, added to, centred
    "squares",
    "sum",
    "sum and eps",
    "mean square",
    "mean square and eps",
    "norm",  # the root of the sum, where 1/√n comes after it
    "norm and eps",
    "root",
    "root and eps",
    "inverse",
    "normalised",
    "gain",
    "output",
)


def unwatched(name: str, value: "Array") -> None:
    """Nobody looks on."""
