"""blocks: rows in equal parts (2, 4, 8 ... and the groups of both sides), each part at its own power-of-two scale.

A statistic over heads, groups or shards instead of the row, or over a part of the row, differs by a factor that is
constant within each part.
"""

from collections.abc import Iterator

import numpy as np

from rmsaudit.battery._draw import powers_of_two
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("axes", "groups", "statistic_width")
COUNTS = (2, 4, 8, 16, 32, 64)
EXPONENTS = (0, 3, -3, 1, 5, -4, 2)  # a prime number of them: parts that are 2, 4 or 8 apart differ too


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Bell-shaped rows, each in as many parts as one of `_counts` says; neighbours differ in scale."""
    size = setup.size
    if size == 1:
        yield Skipped("blocks", "a row of one element has no parts")
        return
    counts = _counts(setup)
    count = setup.lines(at_least=len(counts))
    lines = setup.draw("blocks").bell(count, size)
    scales = powers_of_two(EXPONENTS, setup.format)
    for index, line in enumerate(lines):
        part = np.arange(size) * counts[index % len(counts)] // size
        line *= scales[(part + index) % len(scales)]
    yield from cases(setup, "blocks", lines)


def _counts(setup: Setup) -> list[int]:
    """How many parts: what divides the row; halves, one of them longer, where nothing does."""
    groups = [spec.groups for _, spec in setup.sides if spec.groups > 1]
    even = [count for count in (*groups, *COUNTS) if setup.size % count == 0]
    return list(dict.fromkeys(even)) or [2]
