"""exact-sum: whole numbers whose squares sum exactly, so that the order of the sum cannot matter.

What still differs here is not reduction order. The sums are exact in float32, and in the dtypes that both sides
accumulate in where those leave room for more than ±2. A square that a compute dtype has rounded is still whole.
"""

from collections.abc import Iterator
from math import isqrt

from rmsaudit.battery._draw import powers_of_two
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS

VERSION = 1
REVEALS = (
    "association",
    "cast_point",
    "inverse",
    "inverse_dtype",
    "mean_scaling",
    "gain_product_dtype",
    "square_dtype",
    "mean_dtype",
    "statistic_dtype",
)
LARGEST = 200
SCALES = (0, -12, -18)
FLOAT32_BITS = 24


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows of whole numbers times one of SCALES."""
    bound = _bound(setup)
    if bound < 1:
        yield Skipped("exact-sum", f"not even {setup.size} ones sum exactly in float32")
        return
    count = setup.lines(at_least=len(SCALES))
    draw = setup.draw("exact-sum")
    small = max(bound // 8, 1) if setup.adds_residual else 0
    scales = _scales(setup)
    factors = powers_of_two([scales[line % len(scales)] for line in range(count)], setup.format)[:, None]
    lines = draw.integers(bound - small, count, setup.size) * factors
    added = draw.integers(small, count, setup.size) * factors if small else None
    yield from cases(setup, "exact-sum", lines, added=added)


def _bound(setup: Setup) -> int:
    """The largest whole number used: `size` squares of it are at most 2^bits, and the input holds it."""
    held_exactly = 1 << min(setup.format.precision, setup.x_format.precision)
    bits = min(FLOAT32_BITS, *(FORMATS[spec.accumulate_dtype].precision for _, spec in setup.sides))
    summed_exactly = isqrt((1 << bits) // setup.size)
    if summed_exactly < 3:
        summed_exactly = isqrt((1 << FLOAT32_BITS) // setup.size)
    return min(LARGEST, held_exactly, summed_exactly)


def _scales(setup: Setup) -> list[int]:
    """Exponents at which a unit is still a value of the input, and its square one of the dtypes it is squared in."""
    used = [FORMATS[word] for _, spec in setup.sides for word in (spec.square_dtype, spec.accumulate_dtype)]
    squared = max(fmt.min_exponent - fmt.precision + 1 for fmt in used)
    return [
        exponent
        for exponent in SCALES
        if exponent >= max(setup.format.smallest_exponent, setup.x_format.smallest_exponent) and 2 * exponent >= squared
    ]
