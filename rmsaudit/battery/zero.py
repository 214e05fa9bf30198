"""zero: rows of +0, of −0 and of both, where nothing but eps stands in the denominator.

Without an eps, or with one that a dtype has rounded away, 0/0 makes NaN of a padded row.
"""

from collections.abc import Iterator

import numpy as np

from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("eps_placement", "statistic_dtype", "prescale", "bias")


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows of +0, of −0 and of both, in turn."""
    lines = np.zeros((setup.lines(at_least=3), setup.size), dtype=setup.format.draft)
    lines[1::3] = -0.0
    lines[2::3, ::2] = -0.0
    yield from cases(setup, "zero", lines)
