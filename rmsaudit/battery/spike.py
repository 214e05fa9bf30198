"""spike: one element holds at least 98 % of a row's energy, at the first place, the last and others between.

An element that a kernel skips or counts twice is most of the answer; its square swallows the small ones.
"""

from collections.abc import Iterator

import numpy as np

from rmsaudit.battery._draw import powers_of_two
from rmsaudit.battery._loud import LOUD, quiet_exponent
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("groups", "statistic_width", "statistic_algorithm", "accumulate_dtype", "accumulate_order", "output_clamp")


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Bell-shaped rows with one element of ±[64, 128]."""
    count = setup.lines(at_least=3)
    draw = setup.draw("spike")
    lines = draw.bell(count, setup.size) * powers_of_two(quiet_exponent(setup.size), setup.format)
    spikes = draw.binade(count) * powers_of_two(LOUD, setup.format)
    places = np.arange(count)
    lines[places, places * (setup.size - 1) // (count - 1)] = spikes
    yield from cases(setup, "spike", lines)
