"""Every end is compared with exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from rmsaudit.inversion.interval import (
    Interval,
    add,
    divide,
    exactly,
    join,
    meet,
    multiply,
    root,
    subtract,
    widen,
)

RNG = np.random.default_rng(1)
POSITIVE = np.concatenate([RNG.uniform(0, 1, 300), np.exp2(RNG.uniform(-1000, 1000, 300)), [5e-324, 1e-310, 1.0, 2.0]])
OTHER = np.concatenate([RNG.uniform(0, 1, 300), np.exp2(RNG.uniform(-20, 20, 300)), [5e-324, 0.5, 3.0, 1 / 3]])
OPERATIONS = {
    "add": (add, lambda a, b: a + b, np.add),
    "subtract": (subtract, lambda a, b: a - b, np.subtract),
    "multiply": (multiply, lambda a, b: a * b, np.multiply),
    "divide": (divide, lambda a, b: a / b, np.divide),
}


def encloses(found, exact):
    return [
        (not np.isfinite(lo) or Fraction(float(lo)) <= value) and (np.isinf(hi) or value <= Fraction(float(hi)))
        for lo, hi, value in zip(found.lo, found.hi, exact, strict=True)
    ]


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_exact_result_is_enclosed(name):
    operation, exactly_so, _ = OPERATIONS[name]
    exact = [exactly_so(Fraction(a), Fraction(b)) for a, b in zip(POSITIVE.tolist(), OTHER.tolist(), strict=True)]
    assert all(encloses(operation(exactly(POSITIVE), exactly(OTHER)), exact))


@pytest.mark.parametrize("name", OPERATIONS)
def test_rounding_to_nearest_alone_would_not_enclose_it(name):
    """The twin: without the step outward most results are no enclosure."""
    _, exactly_so, plain = OPERATIONS[name]
    exact = [exactly_so(Fraction(a), Fraction(b)) for a, b in zip(POSITIVE.tolist(), OTHER.tolist(), strict=True)]
    with np.errstate(all="ignore"):
        assert not all(encloses(exactly(plain(POSITIVE, OTHER)), exact))


def test_a_root_squares_back_to_both_sides():
    found = root(exactly(POSITIVE))
    for lo, hi, value in zip(found.lo, found.hi, POSITIVE.tolist(), strict=True):
        assert Fraction(float(lo)) ** 2 <= Fraction(value) <= Fraction(float(hi)) ** 2


def test_an_enclosure_is_at_most_four_steps_wide():
    normal = POSITIVE[POSITIVE > 1e-300]
    found = multiply(exactly(normal), exactly(np.ones_like(normal)))
    assert (found.hi - found.lo <= 4 * np.spacing(normal)).all()


@pytest.mark.parametrize(
    ("one", "other", "lo", "hi"),
    [
        ((0.0, np.inf), (0.0, 1.0), 0.0, np.inf),
        ((0.0, 0.0), (1.0, np.inf), 0.0, np.inf),
        ((1.0, 2.0), (0.0, 4.0), 0.25, np.inf),
    ],
)
def test_what_is_unbounded_stays_so(one, other, lo, hi):
    found = (divide if lo else multiply)(Interval(*map(np.array, one)), Interval(*map(np.array, other)))
    assert found.lo <= lo
    assert found.hi == hi


def test_widening_reaches_both_factors_and_everything_from_1_on():
    three = exactly(np.array([3.0]))
    found = widen(three, 0.25)
    assert found.lo <= 2.25 <= 4.0 <= found.hi
    assert widen(three, 1.0).lo == 0
    assert widen(three, 1.0).hi == np.inf


def test_meet_and_join():
    one = Interval(np.array([[0.0, 1.0], [0.0, 3.0]]), np.array([[2.0, 4.0], [2.0, 4.0]]))
    common = meet(one)
    assert (common.lo.tolist(), common.hi.tolist()) == ([1.0, 3.0], [2.0, 2.0])
    assert common.is_empty().tolist() == [False, True]
    assert join([common, common.at(0)._replace(lo=np.array([7.0]), hi=np.array([8.0]))]).lo.tolist() == [1.0, 3.0, 7.0]
