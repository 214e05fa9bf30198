"""tail: the last one to four elements hold nearly all the energy of a row; at the declared width and at 1, 31, 33, 513.

A kernel that drops what is left over after whole vectors is 0.2 % off on ordinary rows, and altogether here.
"""

from collections.abc import Iterator

from rmsaudit.arrays import Array
from rmsaudit.battery._draw import powers_of_two
from rmsaudit.battery._loud import LOUD, quiet_exponent
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("groups", "statistic_width", "accumulate_order", "mean_scaling")
WIDTHS = (1, 31, 33, 513)
LONGEST = 4


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Bell-shaped rows whose last elements are ±[64, 128]; a case a width."""
    for width in dict.fromkeys((setup.width, *WIDTHS)):
        there = setup if width == setup.width else setup.at_width(width)
        if isinstance(there, str):
            yield Skipped("tail", there)
        else:
            yield from cases(there, "tail", _lines(there), label=f"width {width}")


def _lines(setup: Setup) -> Array:
    count, size = setup.lines(at_least=LONGEST), setup.size
    draw = setup.draw("tail", f"width {setup.width}")
    lines = draw.bell(count, size) * powers_of_two(quiet_exponent(size), setup.format)
    loud = draw.binade(count, LONGEST) * powers_of_two(LOUD, setup.format)
    for longest in range(LONGEST):
        length = min(longest + 1, size)
        lines[longest::LONGEST, -length:] = loud[longest::LONGEST, :length]
    return lines
