"""The few elements from which any `sum`, `either` or `max` limit can be judged later, exactly.

Element j stands for element i where d_j >= d_i and d_j/|ref_j| >= d_i/|ref_i|; over a zero reference the quotient is
infinite. The elements that no other stands for are the frontier, and it gives the verdict of all elements:

sum      Let i violate: d_i > atol + rtol·|ref_i|, that is d_i · (1 − rtol·|ref_i|/d_i) > atol >= 0. Neither factor is
         smaller for j, so j violates as well.
either   Let i violate: d_i > atol and d_i/|ref_i| > rtol. Neither is smaller for j, so j violates as well.

Elements without an error violate nothing and are left out. Where d and the quotient are independent, n elements leave
about ln n. In the worst case (every larger d has a smaller quotient) all of them stay: no fewer would be exact.
"""

from collections.abc import Iterable
from fractions import Fraction
from math import inf

from rmsaudit.measure.element import Element
from rmsaudit.measure.limits import Point


def frontier(elements: Iterable[Element]) -> tuple[Element, ...]:
    """The frontier by falling d, which is also by rising d/|reference|. Of equal points the first place is kept."""
    kept: list[Element] = []
    for element in sorted(elements, key=_by_falling_error):
        if element.abs_error and (not kept or exceeds(element.point, kept[-1].point)):
            kept.append(element)
    return tuple(kept)


def exceeds(one: Point, other: Point) -> bool:
    """Whether d/|reference| of `one` is larger than that of `other`, exactly. Both d must be positive."""
    quotients = _quotient(one), _quotient(other)
    if quotients[0] != quotients[1]:
        return quotients[0] > quotients[1]  # rounding is monotone
    return _product(one.abs_error, other.abs_reference) > _product(other.abs_error, one.abs_reference)


def larger_quotient(one: Element | None, other: Element | None) -> Element | None:
    """Of two elements the one with the larger d/|reference|; of equal ones the larger d, then the first place."""
    if one is None or other is None:
        return one or other
    if exceeds(one.point, other.point):
        return one
    if exceeds(other.point, one.point):
        return other
    return min(one, other, key=_by_falling_error)


def _quotient(point: Point) -> float:
    return point.abs_error / point.abs_reference if point.abs_reference else inf


def _product(one: float, other: float) -> Fraction:
    return Fraction(one) * Fraction(other)


def _by_falling_error(element: Element) -> tuple[float, float, tuple[str, int, int]]:
    return -element.abs_error, abs(element.reference), element.place
