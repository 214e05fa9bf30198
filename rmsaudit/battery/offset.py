"""offset: rows whose mean is 1 to 2^10 times their standard deviation.

LayerNorm's mean subtraction leaves only the deviation; variance and mean square are far apart.
"""

from collections.abc import Iterator

from rmsaudit.battery._draw import powers_of_two, spread
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("center", "statistic", "statistic_algorithm", "accumulate_order")
FARTHEST = 10


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows m + 2^-e · bell, m of magnitude [1, 2], e from 0 as far as the format keeps the deviation."""
    count = setup.lines(at_least=3)
    draw = setup.draw("offset")
    means = draw.binade(count)
    lines = draw.bell(count, setup.size)
    kept_by_the_format = min(FARTHEST, setup.format.precision - 2)
    lines *= powers_of_two(-spread(0, kept_by_the_format, count), setup.format)[:, None]
    lines += means[:, None]
    yield from cases(setup, "offset", lines)
