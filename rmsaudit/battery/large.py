"""large: rows at every scale from 16 to the largest finite value of the input.

Shows where squares and their sum leave the range of the dtype that holds them: from there on the output is zero or NaN.
"""

from collections.abc import Iterator

import numpy as np

from rmsaudit.battery._draw import powers_of_two, spread
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = (
    "input_clamp",
    "prescale",
    "statistic_algorithm",
    "compute_dtype",
    "square_dtype",
    "accumulate_dtype",
    "mean_dtype",
    "statistic_dtype",
)
LOWEST = 4


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows ±[1, 2] · 2^e, e from LOWEST to that of the largest value, which is the last element."""
    count = setup.lines(at_least=4)
    exponents = spread(LOWEST, setup.format.max_exponent, count)
    lines = setup.draw("large").binade(count, setup.size)
    with np.errstate(over="ignore"):  # the top row reaches beyond the largest value and is cut there
        lines *= powers_of_two(exponents, setup.format)[:, None]
    np.clip(lines, -setup.format.max, setup.format.max, out=lines)
    lines[-1, -1] = np.copysign(setup.format.max, lines[-1, -1])
    yield from cases(setup, "large", lines)
