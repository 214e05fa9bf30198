"""tiny: rows at every scale from 1/16 down to the smallest subnormal of the input.

Shows what is left when the squares vanish: eps alone, nothing, or a division by zero; and whether subnormals are kept.
"""

from collections.abc import Iterator

from rmsaudit.battery._draw import powers_of_two, spread
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = (
    "eps",
    "eps_placement",
    "eps_min",
    "compute_dtype",
    "statistic_algorithm",
    "prescale",
    "residual_dtype",
    "subnormals",
)
HIGHEST = -4


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows ±[1, 2] · 2^e, e from −4 to that of the smallest subnormal."""
    count = setup.lines(at_least=4)
    exponents = spread(HIGHEST, setup.format.smallest_exponent, count)
    lines = setup.draw("tiny").binade(count, setup.size)
    lines *= powers_of_two(exponents, setup.format)[:, None]
    yield from cases(setup, "tiny", lines)
