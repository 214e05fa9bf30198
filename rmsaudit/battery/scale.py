"""scale: each row at four scales, exact powers of two apart.

Away from eps, and where nothing overflows, the output does not depend on the scale. Where it does, eps is at work, a
clamp, a root that was taken twice, or a dtype at the end of its range.
"""

from collections.abc import Iterator

import numpy as np

from rmsaudit.battery._draw import powers_of_two
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("eps", "eps_placement", "input_clamp", "prescale", "statistic_algorithm", "compute_dtype")
FARTHEST = 20


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows ±[1, 2] · 2^e; each four times, with another e."""
    fmt = setup.format
    top = min(fmt.max_exponent, setup.x_format.max_exponent)
    far = min(FARTHEST, top // 2 - 1)  # squares stay finite in the input's own format
    exponents = (0, far, -far, far // 2)
    count = setup.lines(at_least=len(exponents))
    base = setup.draw("scale").binade(-(-count // len(exponents)), setup.size)
    base = fmt.round(base).astype(fmt.draft)  # rounded before it is scaled: the rows differ by nothing but the scale
    lines = base[:, None, :] * powers_of_two(exponents, fmt)[None, :, None]
    yield from cases(setup, "scale", np.reshape(lines, (-1, setup.size))[:count])
