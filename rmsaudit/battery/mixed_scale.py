"""mixed-scale: rows far apart in scale, and elements far apart within each row.

Small squares vanish beside large ones, so the order and the dtype of the sum matter; a scale taken from another row is
plain to see.
"""

from collections.abc import Iterator

from rmsaudit.battery._draw import powers_of_two, spread
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("axes", "accumulate_dtype", "accumulate_order", "compute_dtype")
WIDEST = 20  # exponents between the rows' scale and 1, and between the elements of a row


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows ±[1, 2] · 2^(e + f): e by row, from −r to r; f by element, from −r to 0."""
    fmt = setup.format
    reach = min(WIDEST, (fmt.max_exponent - fmt.smallest_exponent) // 6)
    count = setup.lines(at_least=3)
    draw = setup.draw("mixed-scale")
    lines = draw.binade(count, setup.size)
    lines *= powers_of_two(spread(-reach, reach, count), fmt)[:, None]
    lines *= powers_of_two(range(-reach, 1), fmt)[draw.below(reach + 1, count, setup.size)]
    yield from cases(setup, "mixed-scale", lines)
