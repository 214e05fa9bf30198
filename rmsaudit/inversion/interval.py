"""Intervals in float64 whose ends are rounded outward, so that what they enclose stays enclosed.

Each operation rounds once to nearest and then moves outward by one step or two, which is never less than the half step
that the rounding may have gone inward; underflow is covered, since a step from zero is the smallest subnormal.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array


class Interval(NamedTuple):
    """lo <= value <= hi, element by element; empty where lo > hi."""

    lo: Array
    hi: Array

    def at(self, index: Array | int) -> "Interval":
        """The intervals at `index`."""
        return Interval(self.lo[index], self.hi[index])

    def is_empty(self) -> Array:
        empty: Array = ~(self.lo <= self.hi)
        return empty


def exactly(values: Array) -> Interval:
    """One value each."""
    return Interval(values, values)


def down(values: Array) -> Array:
    """The next float64 below."""
    return np.nextafter(values, -np.inf)


def up(values: Array) -> Array:
    """The next float64 above."""
    return np.nextafter(values, np.inf)


def add(one: Interval, other: Interval) -> Interval:
    """one + other."""
    return Interval(down(one.lo + other.lo), up(one.hi + other.hi))


def subtract(one: Interval, other: Interval) -> Interval:
    """one − other. Where both are infinite nothing is known."""
    with np.errstate(invalid="ignore"):
        lo, hi = one.lo - other.hi, one.hi - other.lo
    return Interval(down(np.where(np.isnan(lo), -np.inf, lo)), up(np.where(np.isnan(hi), np.inf, hi)))


def give_or_take(one: Interval, off: Array) -> Interval:
    """Every value, up to `off` more or less."""
    return Interval(down(one.lo - off), up(one.hi + off))


# What follows is for numbers that are not negative.

_STEP = 2.0**-52  # v · 2^-52 is one step of a normal v at least, and less than two
_SMALLEST = 2.0**-1074


def lower(values: Array) -> Array:
    """A little less, but not below 0."""
    return np.maximum(values * (1.0 - _STEP) - _SMALLEST, 0.0)


def higher(values: Array) -> Array:
    """A little more."""
    more: Array = values * (1.0 + _STEP) + _SMALLEST
    return more


def not_negative(one: Interval) -> Interval:
    """What of the interval is not below 0."""
    return Interval(np.maximum(one.lo, 0.0), one.hi)


def multiply(one: Interval, other: Interval) -> Interval:
    """one · other. 0 · ∞ is anything: an infinite end stands for values that are finite."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        lo, hi = one.lo * other.lo, one.hi * other.hi
        return Interval(lower(np.where(np.isnan(lo), 0.0, lo)), higher(np.where(np.isnan(hi), np.inf, hi)))


def divide(one: Interval, other: Interval) -> Interval:
    """one / other; a divisor that may be 0 leaves the quotient unbounded."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
        lo, hi = one.lo / other.hi, one.hi / other.lo
        return Interval(lower(np.where(np.isnan(lo), 0.0, lo)), higher(np.where(np.isnan(hi), np.inf, hi)))


def root(one: Interval) -> Interval:
    """√one."""
    with np.errstate(over="ignore", under="ignore"):
        return Interval(lower(np.sqrt(one.lo)), higher(np.sqrt(one.hi)))


def widen(one: Interval, relative: Array | float) -> Interval:
    """Every value times a factor from 1 − relative to 1/(1 − relative); everything where relative is 1 or more."""
    kept = exactly(np.maximum(down(1.0 - np.asarray(relative, dtype=np.float64)), 0.0))
    return Interval(multiply(one, kept).lo, divide(one, kept).hi)


def meet(one: Interval) -> Interval:
    """What all the intervals along the last axis have in common."""
    return Interval(one.lo.max(axis=-1), one.hi.min(axis=-1))


def join(parts: Sequence[Interval]) -> Interval:
    """The intervals of several sets of rows, one after the other."""
    return Interval(np.concatenate([part.lo for part in parts]), np.concatenate([part.hi for part in parts]))
