"""constant: rows of one value, of both signs and several magnitudes.

RMSNorm gives ±1 (before the gain), LayerNorm gives 0. All roundings of the running sum go the same way, and one of low
precision stops growing: a bfloat16 sum of ones stays at 256.
"""

from collections.abc import Iterator

import numpy as np

from rmsaudit.battery._draw import powers_of_two, spread
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("center", "statistic", "accumulate_dtype", "accumulate_order", "mean_scaling")
LOWEST, HIGHEST = -8, 6


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """One value a row: +1, −1, then ±[1, 2] · 2^e, e from LOWEST to HIGHEST."""
    count = setup.lines(at_least=4)
    values = np.abs(setup.draw("constant").binade(count))
    values *= powers_of_two(spread(LOWEST, HIGHEST, count), setup.format)
    values[:2] = 1
    values[1::2] *= -1
    yield from cases(setup, "constant", np.repeat(values[:, None], setup.size, axis=1))
