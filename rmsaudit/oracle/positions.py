"""The non-negative values of a format as whole numbers: its bit patterns, which are in order.

Position 0 is zero, each position is the next larger value, and the last is the one after the largest finite value:
infinity, or NaN in a format without infinity. So rounding is a search for a position, overflow included.
"""

from collections.abc import Callable
from fractions import Fraction

from rmsaudit.formats import Format


def last(fmt: Format) -> int:
    """The position of overflow."""
    binades = fmt.max_exponent - fmt.min_exponent + 2  # the subnormals count as one
    return (binades << (fmt.precision - 1)) - (0 if fmt.has_infinity else 1)


def midpoint_above(position: int, fmt: Format) -> tuple[int, int]:
    """m and e, where m · 2^e lies half-way between the value at `position` and the next.

    The gap above a value is its own ulp, also where the next value begins a binade. Above the largest finite value
    this is IEEE 754's limit of overflow.
    """
    mantissa, exponent = value_at(position, fmt)
    return 2 * mantissa + 1, exponent - 1


def value_at(position: int, fmt: Format) -> tuple[int, int]:
    """m and e, where m · 2^e is the value and 2^e its ulp."""
    binade, fraction = divmod(position, 1 << (fmt.precision - 1))
    if binade:
        fraction += 1 << (fmt.precision - 1)
    return fraction, fmt.min_exponent - fmt.precision + max(binade, 1)


def nearest(low: int, high: int, side_of_midpoint: Callable[[int], int]) -> int:
    """The position in low … high that a value rounds to, ties to the even one.

    side_of_midpoint(position): the sign of value − midpoint_above(position). Patterns alternate between even and odd
    mantissas, and the one after the largest finite value is even in IEEE formats (a tie there overflows) and odd in
    float8_e4m3fn (464 stays 448), so the same rule serves for overflow.
    """
    while low < high:
        middle = (low + high) // 2
        side = side_of_midpoint(middle)
        if side == 0:
            return middle + middle % 2
        if side > 0:
            low = middle + 1
        else:
            high = middle
    return low


def of_fraction(value: Fraction, fmt: Format) -> int:
    """The position that a non-negative rational number rounds to."""

    def side_of_midpoint(position: int) -> int:
        mantissa, exponent = midpoint_above(position, fmt)
        difference = value - mantissa * Fraction(2) ** exponent
        return (difference > 0) - (difference < 0)

    return nearest(0, last(fmt), side_of_midpoint)
