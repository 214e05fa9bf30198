from fractions import Fraction
from math import inf, nan, nextafter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmsaudit.measure.limits import Limit, Point, Rule, margin, smallest_rtol

PLAIN = st.floats(min_value=0, max_value=1e300)
POSITIVE = st.floats(min_value=1e-300, max_value=1e300)


@pytest.mark.parametrize("rule", ["sum", "either", "max"])
def test_a_limit_passes_at_its_bound_and_fails_one_step_beyond(rule: Rule) -> None:
    limit = Limit(rule=rule, atol=0.25, rtol=0.125)
    bound = 0.25 + 0.125 * 8 if rule == "sum" else 0.125 * 8
    assert limit.allows(Point(8.0, bound))
    assert not limit.allows(Point(8.0, nextafter(bound, inf)))


def test_a_bound_that_float64_cannot_hold_is_not_rounded() -> None:
    limit = Limit(rule="sum", atol=1.0, rtol=2.0**-60)
    assert limit.allows(Point(1.0, 1.0))
    assert not limit.allows(Point(1.0, nextafter(1.0, inf)))  # 1 + 2^-60 rounds to 1, and 1 + 2^-52 is more
    tenth = Limit(rule="sum", rtol=0.1)  # 0.1 is a little more than 1/10 in float64, and 0.1 · 3 rounds up further
    assert Fraction(0.1 * 3) > 3 * Fraction(0.1)
    assert not tenth.allows(Point(3.0, 0.1 * 3))


def test_zero_limits_allow_no_error_and_a_zero_reference_leaves_only_atol() -> None:
    assert not Limit(rule="sum").allows(Point(1e300, 5e-324))
    assert not Limit(rule="either", atol=1.0, rtol=1e300).allows(Point(0.0, nextafter(1.0, inf)))
    assert Limit(rule="either", atol=1.0, rtol=1e300).allows(Point(0.0, 1.0))


@pytest.mark.parametrize("wrong", [{"atol": nan}, {"rtol": nan}, {"atol": -1e-9}, {"rtol": inf}, {"max_ulp": -1}])
def test_what_is_no_limit_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is no limit"):
        Limit(rule="sum", **wrong)  # type: ignore[arg-type]


def test_rules_that_are_not_about_d_have_no_bound() -> None:
    with pytest.raises(ValueError, match="no bound"):
        Limit(rule="ulp", max_ulp=1).bound(1.0)


@settings(deadline=None)
@given(PLAIN, PLAIN, PLAIN, POSITIVE)
def test_either_and_max_allow_the_same(atol: float, rtol: float, magnitude: float, error: float) -> None:
    either, largest = (Limit(rule=rule, atol=atol, rtol=rtol) for rule in ("either", "max"))  # type: ignore[arg-type]
    allowed = Fraction(error) <= Fraction(atol) or Fraction(error) <= Fraction(rtol) * Fraction(magnitude)
    assert either.allows(Point(magnitude, error)) == largest.allows(Point(magnitude, error)) == allowed


@settings(deadline=None)
@given(st.sampled_from(["sum", "either"]), PLAIN, PLAIN, st.lists(st.tuples(PLAIN, POSITIVE), max_size=4))
def test_the_margin_is_over_one_exactly_where_a_point_is_refused(
    rule: Rule, atol: float, rtol: float, pairs: list[tuple[float, float]]
) -> None:
    limit, points = Limit(rule=rule, atol=atol, rtol=rtol), [Point(*pair) for pair in pairs]
    assert (margin(limit, points) <= 1) == all(map(limit.allows, points))


def test_the_margin_of_an_error_a_hair_over_the_limit_does_not_round_to_one() -> None:
    limit = Limit(rule="sum", atol=1.0, rtol=1e-18)
    error = nextafter(1.0, inf)
    assert margin(limit, [Point(200.0, error)]) == nextafter(1.0, inf)
    assert margin(limit, [Point(1.0, 0.5)]) == pytest.approx(0.5, abs=1e-15)  # by 0.5 / (1 + 1e-18)
    assert margin(limit, []) == 0.0
    assert margin(Limit(rule="sum"), [Point(1.0, 1e-30)]) == inf


@settings(deadline=None)
@given(st.floats(min_value=5e-324, max_value=1e300), st.floats(min_value=5e-324, max_value=1e300))
def test_the_smallest_rtol_passes_and_the_float_below_it_does_not(magnitude: float, error: float) -> None:
    point = Point(magnitude, error)
    rtol = smallest_rtol(point)
    if rtol is None:
        assert Fraction(error) > Fraction(1.7976931348623157e308) * Fraction(magnitude)
        return
    assert Limit(rule="sum", rtol=rtol).allows(point)
    assert not Limit(rule="sum", rtol=nextafter(rtol, 0)).allows(point)
