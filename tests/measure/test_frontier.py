from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmsaudit.measure.element import Element
from rmsaudit.measure.frontier import exceeds, frontier, larger_quotient


def element(reference: float, candidate: float, column: int = 0) -> Element:
    return Element(case="", row=0, column=column, reference=reference, candidate=candidate)


VALUES = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, 1.0, -1.0, 1.5, 2.0, 3.0, 2.0**-149, 1e-300, 1.7e308]),
)
ELEMENTS = st.lists(st.tuples(VALUES, VALUES), max_size=30).map(
    lambda pairs: [element(*pair, column) for column, pair in enumerate(pairs)]
)


def quotient(one: Element) -> Fraction | None:
    return Fraction(one.abs_error) / abs(Fraction(one.reference)) if one.reference else None


def stands_for(one: Element, other: Element) -> bool:
    mine, its = quotient(one), quotient(other)
    return one.abs_error >= other.abs_error and (mine is None or (its is not None and mine >= its))


@given(ELEMENTS)
def test_every_element_has_one_on_the_frontier_that_stands_for_it_and_none_there_is_spare(
    elements: list[Element],
) -> None:
    kept = frontier(elements)
    assert all(any(stands_for(one, other) for one in kept) for other in elements if other.abs_error)
    assert not any(stands_for(one, other) for one in kept for other in kept if one is not other)


@given(ELEMENTS, st.randoms())
def test_the_order_of_the_elements_does_not_matter_and_parts_merge(elements: list[Element], random: Random) -> None:
    shuffled = elements.copy()
    random.shuffle(shuffled)
    cut = random.randint(0, len(shuffled))
    assert frontier(shuffled) == frontier(elements)
    assert frontier(frontier(shuffled[:cut]) + frontier(shuffled[cut:])) == frontier(elements)


def test_the_first_place_of_equal_elements_is_kept() -> None:
    assert frontier([element(-1.0, -2.0, 5), element(1.0, 2.0, 3), element(1.0, 0.0, 4)])[0].column == 3


def test_a_zero_reference_stands_for_every_smaller_error() -> None:
    over_zero, larger, smaller = element(0.0, 1.0), element(8.0, 10.0, 1), element(1e-9, 0.5, 2)
    assert frontier([smaller, over_zero, larger]) == (larger, over_zero)


def test_quotients_that_round_alike_are_told_apart() -> None:
    """(n − 4)/(n − 2) and (n − 3)/(n − 1) with n = 2^53 both round to 1 − 2^-52; the second is larger."""
    large, small = element(2.0**53 - 2, 2.0), element((2.0**53 - 1) / 4, 0.5, 1)
    assert large.abs_error / large.reference == small.abs_error / small.reference
    assert exceeds(small.point, large.point)
    assert frontier([large, small]) == (large, small)
    assert larger_quotient(large, small) is small


def test_the_larger_error_wins_among_equal_quotients() -> None:
    small, large = element(1.0, 2.0), element(4.0, 8.0, 1)
    assert larger_quotient(small, large) is larger_quotient(large, small) is large
    assert larger_quotient(None, small) is small
    assert larger_quotient(None, None) is None


def test_an_error_beyond_float64_is_its_largest_value() -> None:
    assert element(-1.5e308, 1.5e308).abs_error == pytest.approx(1.7976931348623157e308, rel=0)
