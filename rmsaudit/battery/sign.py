"""sign: rows x, and after them the rows −x.

RMSNorm is odd: apart from a bias and a rounding towards one side, the second half of the outputs is the first, negated.
"""

from collections.abc import Iterator

import numpy as np

from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("bias", "center", "cast_point", "association")


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Bell-shaped rows, and the same negated."""
    count = setup.lines(at_least=2)
    half = setup.draw("sign").bell(-(-count // 2), setup.size)
    yield from cases(setup, "sign", np.concatenate([half, -half])[:count])
