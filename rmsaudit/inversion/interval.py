"""Intervals in float64 whose ends are rounded outward, so that what they enclose stays enclosed.

Each operation rounds once to nearest and then takes one step outward, which is never less than the half step that the
rounding may have gone inward; underflow is covered, since a step from zero is the smallest subnormal.
"""

from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array


class Interval(NamedTuple):
    """lo <= value <= hi, element by element; empty where lo > hi."""

    lo: Array
    hi: Array

    def at(self, index: Array | slice | int) -> "Interval":
        """The intervals of the rows at `index`."""
        return Interval(self.lo[index], self.hi[index])

    def is_empty(self) -> Array:
        return ~(self.lo <= self.hi)


def exactly(values: Array) -> Interval:
    return Interval(values, values)


def down(values: Array) -> Array:
    return np.nextafter(values, -np.inf)


def up(values: Array) -> Array:
    return np.nextafter(values, np.inf)


def add(one: Interval, other: Interval) -> Interval:
    return Interval(down(one.lo + other.lo), up(one.hi + other.hi))


def subtract(one: Interval, other: Interval) -> Interval:
    """one − other. Where both are infinite nothing is known."""
    with np.errstate(invalid="ignore"):
        lo, hi = one.lo - other.hi, one.hi - other.lo
    return Interval(down(np.where(np.isnan(lo), -np.inf, lo)), up(np.where(np.isnan(hi), np.inf, hi)))


# What follows is for numbers that are not negative.


def multiply(one: Interval, other: Interval) -> Interval:
    """one · other. 0 · ∞ is anything: the ends of an interval that reaches infinity are not attained."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        lo, hi = one.lo * other.lo, one.hi * other.hi
    return Interval(_not_negative(down(np.where(np.isnan(lo), 0.0, lo))), up(np.where(np.isnan(hi), np.inf, hi)))


def divide(one: Interval, other: Interval) -> Interval:
    """one / other; a divisor that may be 0 leaves the quotient unbounded."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
        lo, hi = one.lo / other.hi, one.hi / other.lo
    return Interval(_not_negative(down(np.where(np.isnan(lo), 0.0, lo))), up(np.where(np.isnan(hi), np.inf, hi)))


def root(one: Interval) -> Interval:
    return Interval(_not_negative(down(np.sqrt(one.lo))), up(np.sqrt(one.hi)))


def widen(one: Interval, relative: Array | float) -> Interval:
    """Every value times a factor from 1 − relative to 1/(1 − relative); everything where relative is 1 or more."""
    kept = down(np.maximum(1.0 - np.asarray(relative, dtype=np.float64), 0.0))
    shrunk = exactly(np.maximum(kept, 0.0))
    return Interval(multiply(one, shrunk).lo, divide(one, shrunk).hi)


def meet(one: Interval) -> Interval:
    """What all the intervals along the last axis have in common."""
    return Interval(one.lo.max(axis=-1), one.hi.min(axis=-1))


def join(parts: "list[Interval]") -> Interval:
    """The intervals of several sets of rows, one after the other."""
    return Interval(np.concatenate([part.lo for part in parts]), np.concatenate([part.hi for part in parts]))


def _not_negative(values: Array) -> Array:
    return np.maximum(values, 0.0)
