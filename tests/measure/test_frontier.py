from fractions import Fraction
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmsaudit.measure.element import Element
from rmsaudit.measure.frontier import exceeds, frontier, larger_error, larger_quotient, thinned
from rmsaudit.measure.limits import Limit, Point

VALUES = st.one_of(
    st.floats(width=32, min_value=0, allow_infinity=False),
    st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0, 2.0**-149, 1e-300, 1.7e308]),
)
POINTS = st.lists(st.builds(Point, VALUES, VALUES), max_size=30)


def quotient(point: Point) -> Fraction | float:
    return Fraction(point.abs_error) / Fraction(point.abs_reference) if point.abs_reference else inf


def stands_for(one: Point, other: Point) -> bool:
    return one.abs_error >= other.abs_error and quotient(one) >= quotient(other)


@settings(deadline=None)
@given(POINTS)
def test_every_point_has_one_on_the_frontier_that_stands_for_it_and_none_there_is_spare(points: list[Point]) -> None:
    kept = frontier(points)
    assert all(any(stands_for(one, other) for one in kept) for other in points if other.abs_error)
    assert not any(stands_for(one, other) for one in kept for other in kept if one is not other)


@settings(deadline=None)
@given(POINTS, st.randoms())
def test_the_order_of_the_points_does_not_matter_and_parts_merge(points: list[Point], random: Random) -> None:
    shuffled = points.copy()
    random.shuffle(shuffled)
    cut = random.randint(0, len(shuffled))
    assert frontier(shuffled) == frontier(points)
    assert frontier(frontier(shuffled[:cut]) + frontier(shuffled[cut:])) == frontier(points)


def test_points_without_an_error_are_left_out() -> None:
    assert frontier([Point(1.0, 0.0), Point(0.0, 0.0)]) == ()


def test_a_zero_reference_stands_for_every_smaller_error() -> None:
    over_zero, larger, smaller = Point(0.0, 1.0), Point(8.0, 2.0), Point(1e-9, 0.5)
    assert frontier([smaller, over_zero, larger]) == (larger, over_zero)


def test_quotients_that_round_alike_are_told_apart() -> None:
    """(n − 4)/(n − 2) and (n − 3)/(n − 1) with n = 2^53 both round to 1 − 2^-52; the second is larger."""
    large, small = Point(2.0**53 - 2, 2.0**53 - 4), Point((2.0**53 - 1) / 4, (2.0**53 - 3) / 4)
    assert large.abs_error / large.abs_reference == small.abs_error / small.abs_reference
    assert exceeds(small, large)
    assert not exceeds(large, small)
    assert frontier([large, small]) == (large, small)


def element(reference: float, candidate: float, column: int = 0) -> Element:
    return Element(case="", row=0, column=column, reference=reference, candidate=candidate)


def test_of_two_elements_the_worse_and_of_equals_the_first() -> None:
    small, large, first = element(1.0, 2.0, 1), element(4.0, 8.0, 2), element(-4.0, -8.0, 0)
    for choose in (larger_error, larger_quotient):
        assert choose(small, large) is choose(large, small) is large  # of equal quotients too
        assert choose(first, large) is choose(large, first) is first
        assert choose(None, small) is choose(small, None) is small
        assert choose(None, None) is None
    steep = element(0.5, 1.5, 3)
    assert larger_quotient(large, steep) is steep
    assert larger_error(large, steep) is large
    assert larger_error(small, steep) is steep  # the same d, over the smaller reference


def test_an_error_beyond_float64_is_its_largest_value() -> None:
    assert element(-1.5e308, 1.5e308).abs_error == pytest.approx(1.7976931348623157e308, rel=0)


# --- thinned ---------------------------------------------------------------------------------------------------------


def long_frontier(count: int, spread: float) -> tuple[Point, ...]:
    """Each d a little smaller than the one before, and each quotient larger by `spread` of its size."""
    points = [Point(2.0 - index / count, (2.0 - index / count) * (0.25 + spread * index)) for index in range(count)]
    return frontier(points)


@pytest.mark.parametrize("spread", [2.0**-50, 2.0**-30, 2.0**-12])
@pytest.mark.parametrize("most", [3, 10, 50])
def test_a_thinned_frontier_refuses_all_that_the_frontier_refuses(spread: float, most: int) -> None:
    whole = long_frontier(200, spread)
    assert len(whole) > 150
    few = [point for point, _ in thinned(whole, most)]
    assert most / 8 < len(few) <= most  # the difference it neglects grows by fours
    assert all(any(stands_for(one, other) for one in few) for other in whole)
    assert (few[0], few[-1]) == (whole[0], whole[-1])


def test_points_with_almost_the_same_error_are_joined_as_well() -> None:
    whole = frontier([Point(2.0 ** (20 - index / 5), 1 - index * 2.0**-40) for index in range(200)])
    few = [point for point, _ in thinned(whole, 10)]
    for point in few:
        closest = Limit(
            rule="either", atol=point.abs_error * (1 - 2.0**-30), rtol=float(quotient(point)) * (1 - 2.0**-40)
        )
        assert not all(map(closest.allows, whole))  # 200 · 2^-40 is all that the errors differ by


def test_a_thinned_frontier_is_too_strict_only_by_the_difference_it_neglects() -> None:
    whole = long_frontier(200, 2.0**-30)
    few = [point for point, _ in thinned(whole, 10)]
    for point in few:
        closest = Limit(
            rule="either", atol=point.abs_error * (1 - 2.0**-20), rtol=float(quotient(point)) * (1 - 2.0**-20)
        )
        assert not all(map(closest.allows, whole))  # 200 · 2^-30 is all that the quotients differ by


def test_a_frontier_that_is_short_enough_stays_as_it_is() -> None:
    whole = long_frontier(10, 2.0**-30)
    assert thinned(whole, 10) == tuple((point, index) for index, point in enumerate(whole))
    assert thinned((), 3) == ()


def test_a_thinned_frontier_names_the_largest_of_each_run() -> None:
    whole = long_frontier(200, 2.0**-30)
    assert all(whole[index].abs_error == point.abs_error for point, index in thinned(whole, 10))


def test_a_zero_reference_stays_the_last_point() -> None:
    whole = (*long_frontier(50, 2.0**-30), Point(0.0, 1e-3))
    assert thinned(whole, 5)[-1] == (Point(0.0, 1e-3), len(whole) - 1)
