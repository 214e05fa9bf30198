"""nonfinite: a NaN, +inf, −inf, and NaN with inf, each in one row among ordinary ones.

Shows whether a side lets them through, clamps them, zeroes the row, or lets them reach another row. Formats without
infinity have the NaN alone.
"""

from collections.abc import Iterator
from math import inf, nan

from rmsaudit.battery._draw import powers_of_two
from rmsaudit.battery._setup import ADDED_EXPONENT, Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = ("axes", "groups", "input_clamp", "output_clamp", "prescale", "statistic_algorithm")
KINDS = ((nan,), (inf,), (-inf,), (nan, inf))


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Bell-shaped rows, as many of them as there are KINDS with those values at a drawn place."""
    kinds = _kinds(setup)
    count = setup.lines(at_least=len(kinds) + 1)
    draw = setup.draw("nonfinite")
    lines = draw.bell(count, setup.size)
    added = lines[::-1] * powers_of_two(ADDED_EXPONENT, setup.format)  # finite, so that no row gets a second place
    places = draw.below(setup.size, len(kinds))
    for index, values in enumerate(kinds):
        line = 1 + index * (count - 1) // len(kinds)
        for step, value in enumerate(values):
            lines[line, (places[index] + step) % setup.size] = value
    yield from cases(setup, "nonfinite", lines, added=added)


def _kinds(setup: Setup) -> tuple[tuple[float, ...], ...]:
    if not setup.format.has_infinity:
        return KINDS[:1]
    return KINDS if setup.size > 1 else KINDS[:3]
