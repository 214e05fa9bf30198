"""gains: gains that are zero, negative, near 0, near 1, around and above 16, all different, or lost when 1 is added.

Each has a case of its own. Gains of 1 hide a missing offset behind a factor of 2, and hide every rounding point.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.battery._draw import powers_of_two
from rmsaudit.battery._gains import distinct_gains
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = (
    "gain_applied",
    "gain_cast",
    "gain_offset",
    "gain_offset_dtype",
    "gain_position",
    "association",
    "cast_point",
    "gain_product_dtype",
)
ROWS = 4  # there are seven cases, and what a gain does is the same in every row


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """A case for each of `_gains`, with the same few bell-shaped rows."""
    few = replace(setup, rows=min(setup.rows, ROWS))
    lines = few.draw("gains").bell(few.lines(), few.size)
    for label, gain in _gains(few):
        yield from cases(few, "gains", lines, label=label, gain=gain)


def _gains(setup: Setup) -> Iterator[tuple[str, Array]]:
    """Gains [width] with a word for them, in the common gain format."""
    fmt, width = setup.gain_format, setup.width
    draw = setup.draw_gain("gains")
    around = draw.binade(width)  # ±[1, 2]
    column = np.arange(width)
    yield "zero", fmt.round(np.zeros(width, dtype=fmt.draft))
    yield "negative", fmt.round(-np.abs(around) * powers_of_two(-column % 3 - 1, fmt))
    yield "near 0", fmt.round(around * powers_of_two(-3 - column % 4, fmt))
    steps = draw.integers(min(8, 1 << max(fmt.precision - 3, 0)), width)
    yield "near 1", fmt.round(1 + steps * powers_of_two(1 - fmt.precision, fmt))
    below = 16 - np.abs(steps) * powers_of_two(4 - fmt.precision, fmt)
    yield "above 16", fmt.round(np.where(column % 2, around * 16, below))
    yield "all different", distinct_gains(width, fmt, draw)
    lowest = max(
        min(-27, -3 - fmt.precision), fmt.smallest_exponent
    )  # lost in float32 too, and in the gain's own dtype
    yield "lost beside 1", fmt.round(around * powers_of_two(lowest + column % (-7 - lowest), fmt))
