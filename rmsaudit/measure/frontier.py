"""The few points by which any `sum`, `either` or `max` limit can be judged later, exactly.

Element j stands for element i where d_j >= d_i and d_j/|ref_j| >= d_i/|ref_i|; over a zero reference the quotient is
infinite. The elements that no other stands for are the frontier, and it gives the verdict of all elements:

sum      Let i violate: d_i > atol + rtol·|ref_i|, that is d_i · (1 − rtol·|ref_i|/d_i) > atol >= 0. Neither factor is
         smaller for j, so j violates as well.
either   Let i violate: d_i > atol and d_i/|ref_i| > rtol. Neither is smaller for j, so j violates as well.

Elements without an error violate nothing and are left out. Where d and the quotient are independent, n elements leave
about ln n. Where every larger d has a smaller quotient all of them stay: 3·x rounded to the format of x is like that in
a good part of a binade. `thinned` bounds such a frontier, on the safe side.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import inf, nextafter

from rmsaudit.measure.element import Element
from rmsaudit.measure.limits import Point, quotient, to_float

MOST = 4096  # points; a longer frontier is thinned
_FINEST = 2.0**-52  # the smallest difference that `thinned` tries to neglect


def frontier(points: Iterable[Point]) -> tuple[Point, ...]:
    """The frontier by falling d, which is also by rising d/|reference|."""
    kept: list[Point] = []
    for point in sorted(points, key=_by_falling_error):
        if point.abs_error and (not kept or exceeds(point, kept[-1])):
            kept.append(point)
    return tuple(kept)


def bounded(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """A frontier of at most MOST points; the same where it is none longer."""
    return tuple(point for point, _ in thinned(points, MOST))


def exceeds(one: Point, other: Point) -> bool:
    """Whether d/|reference| of `one` is larger than that of `other`, exactly. Both d must be positive."""
    quotients = _quotient(one), _quotient(other)
    if quotients[0] != quotients[1]:
        return quotients[0] > quotients[1]  # rounding is monotone
    return _product(one.abs_error, other.abs_reference) > _product(other.abs_error, one.abs_reference)


def larger_error(one: Element | None, other: Element | None) -> Element | None:
    """Of two elements the one with the larger d; of equal ones the one with the smaller |reference|, then the first."""
    return min((element for element in (one, other) if element), key=_order, default=None)


def larger_quotient(one: Element | None, other: Element | None) -> Element | None:
    """Of two elements the one with the larger d/|reference|; of equal ones that with the larger d, then the first."""
    if one is None or other is None:
        return one or other
    if exceeds(one.point, other.point):
        return one
    return other if exceeds(other.point, one.point) else larger_error(one, other)


def thinned(points: Sequence[Point], most: int) -> tuple[tuple[Point, int], ...]:
    """At most `most` (3 or more) points that refuse all that the frontier `points` refuse, each with an index into it.

    Neighbours whose quotients, or whose d, differ little become one point with the largest d and the largest quotient
    of them, so that what is accepted is within the limit at every element. "Little" is as small as `most` allows. The
    first and the last point, which have the largest d and the largest quotient of all, stay what they are.
    """
    slack = _FINEST
    clusters = [(index, index) for index in range(len(points))]
    while len(clusters) > most:
        clusters = list(_clusters(points, slack))
        slack *= 4
    return tuple((_lifted(points[first], points[last]), first) for first, last in clusters)


def _clusters(points: Sequence[Point], slack: float) -> Iterator[tuple[int, int]]:
    """First and last index of runs in which the quotient, or d, differs by `slack` of its size at most."""
    end = len(points) - 1
    yield 0, 0
    first = 1
    for index in range(2, end + 1):
        rises = _quotient(points[index]) > _quotient(points[first]) * (1 + slack)
        falls = points[first].abs_error > points[index].abs_error * (1 + slack)
        if index == end or (rises and falls):
            yield first, index - 1
            first = index
    yield end, end


def _lifted(largest: Point, steepest: Point) -> Point:
    """A point with the d of the one and at least the quotient of the other."""
    if largest is steepest:
        return largest
    exact = Fraction(largest.abs_error) / quotient(steepest) if steepest.abs_reference else Fraction(0)
    nearest = to_float(exact)
    return Point(nextafter(nearest, 0) if nearest > exact else nearest, largest.abs_error)


def _quotient(point: Point) -> float:
    return point.abs_error / point.abs_reference if point.abs_reference else inf


def _product(one: float, other: float) -> Fraction:
    return Fraction(one) * Fraction(other)


def _by_falling_error(point: Point) -> tuple[float, float]:
    return -point.abs_error, point.abs_reference


def _order(element: Element) -> tuple[float, float, tuple[str, int, int]]:
    return *_by_falling_error(element.point), element.place
