"""What was measured, as plain numbers that merge exactly: blocks in any order give what one pass over all gives."""

from dataclasses import dataclass
from math import inf
from sys import float_info
from typing import NamedTuple, Self

from rmsaudit.measure.element import Element
from rmsaudit.measure.frontier import MOST, bounded, frontier, larger_error, larger_quotient, thinned
from rmsaudit.measure.limits import Limit, Point, quotient, smallest_rtol, to_float

POINTS_RECORDED = 32  # as many as a reader of a record can be asked to skip
ROWS_KEPT = 128  # rows of which the factor is known; every row of a battery case, an even spread of a large tensor


@dataclass(frozen=True, kw_only=True)
class Classes:
    """How many values of one side are not finite, by kind."""

    nan: int = 0
    plus_inf: int = 0
    minus_inf: int = 0

    def __add__(self, other: Self) -> "Classes":
        return Classes(
            nan=self.nan + other.nan,
            plus_inf=self.plus_inf + other.plus_inf,
            minus_inf=self.minus_inf + other.minus_inf,
        )

    @property
    def total(self) -> int:
        return self.nan + self.plus_inf + self.minus_inf


@dataclass(frozen=True, kw_only=True)
class NonFinite:
    """Counts per side; `mismatched` are the positions where the sides are of different kinds, `first` is one of them.

    NaN beside NaN, or an infinity beside the same one, is agreement. What is not finite on either side enters no other
    number than these, `elements` and, where mismatched, `differing`.
    """

    reference: Classes = Classes()
    candidate: Classes = Classes()
    mismatched: int = 0
    first: Element | None = None

    def merge(self, other: Self) -> "NonFinite":
        places = [e for e in (self.first, other.first) if e]
        return NonFinite(
            reference=self.reference + other.reference,
            candidate=self.candidate + other.candidate,
            mismatched=self.mismatched + other.mismatched,
            first=min(places, key=lambda e: e.place, default=None),
        )


class RowFactor(NamedTuple):
    """The median over columns of candidate ÷ reference in one row, and the width of the middle nine tenths of them.

    Both are None for a row without a finite pair over a non-zero reference. `key` orders rows for keeping.
    """

    key: int
    median: float | None
    spread: float | None


@dataclass(frozen=True, kw_only=True)
class RowFactors:
    """Factors of the ROWS_KEPT rows with the smallest keys: all rows where there are no more, else an even spread.

    rows: how many were measured. A row off by a factor alone (eps, the statistic, its inverse) has a spread of a few
    roundings; a wrong gain has a large one.
    """

    rows: int = 0
    kept: tuple[RowFactor, ...] = ()

    def merge(self, other: Self) -> "RowFactors":
        together = sorted(self.kept + other.kept, key=_in_order)
        return RowFactors(rows=self.rows + other.rows, kept=tuple(together[:ROWS_KEPT]))

    @property
    def factors(self) -> list[float]:
        """The known medians, in rising order."""
        return sorted(row.median for row in self.kept if row.median is not None)

    @property
    def min(self) -> float | None:
        return min(self.factors, default=None)

    @property
    def median(self) -> float | None:
        """The lower one of the two in the middle, where there are two."""
        factors = self.factors
        return factors[(len(factors) - 1) // 2] if factors else None

    @property
    def max(self) -> float | None:
        return max(self.factors, default=None)

    @property
    def spread(self) -> float | None:
        """The largest spread within a row."""
        return max((row.spread for row in self.kept if row.spread is not None), default=None)


def _in_order(row: RowFactor) -> tuple[int, float, float]:
    return row.key, -inf if row.median is None else row.median, row.spread or 0.0


@dataclass(frozen=True, kw_only=True)
class SmallestPassing:
    """The smallest limits that pass, each by itself; rtol_at_atol_0 is None where no rtol does (a zero reference)."""

    max_ulp: int
    atol_at_rtol_0: float
    rtol_at_atol_0: float | None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A candidate against a reference, in this order, over `elements` elements.

    unit              the dtype in which ulp are counted: that of the outputs, or the coarser of two
    differing         elements with another value; −0 and +0 are one value, NaN and NaN as well
    signed_zero       elements that are −0 on one side and +0 on the other
    zero_reference    elements with a zero reference and another candidate; they have no relative error
    candidate_larger  differing finite elements with |candidate| > |reference|
    max_ulp           the most steps between two elements along the ordered values of `unit`
    frontier          the points that decide for all elements under `sum`, `either` and `max`; see `frontier`
    frontier_exact    False where it was too long, and neighbours were joined: never too lenient, but merging may then
                      give other points than measuring at once
    largest_abs       the element with the largest d; of several the one with the smallest |reference|, then the first
    largest_rel       the element with the largest d/|reference| over a reference that is not zero; of several the one
                      with the largest d, then the first
    largest_ulp       the element that is max_ulp apart; of several the first place
    """

    unit: str
    elements: int
    differing: int
    signed_zero: int
    zero_reference: int
    candidate_larger: int
    max_ulp: int
    nonfinite: NonFinite
    frontier: tuple[Point, ...]
    frontier_exact: bool
    largest_abs: Element | None
    largest_rel: Element | None
    largest_ulp: Element | None
    row_factors: RowFactors

    def merge(self, other: Self) -> "Measurement":
        """The measurement of both together. Raises ValueError where they count ulp in different dtypes."""
        if self.unit != other.unit:
            raise ValueError(f"ulp of {self.unit} and of {other.unit} have no common maximum")
        points = frontier(self.frontier + other.frontier)
        return Measurement(
            unit=self.unit,
            elements=self.elements + other.elements,
            differing=self.differing + other.differing,
            signed_zero=self.signed_zero + other.signed_zero,
            zero_reference=self.zero_reference + other.zero_reference,
            candidate_larger=self.candidate_larger + other.candidate_larger,
            max_ulp=max(self.max_ulp, other.max_ulp),
            nonfinite=self.nonfinite.merge(other.nonfinite),
            frontier=bounded(points),
            frontier_exact=self.frontier_exact and other.frontier_exact and len(points) <= MOST,
            largest_abs=larger_error(self.largest_abs, other.largest_abs),
            largest_rel=larger_quotient(self.largest_rel, other.largest_rel),
            largest_ulp=_more_steps(self, other),
            row_factors=self.row_factors.merge(other.row_factors),
        )

    @property
    def max_abs_error(self) -> float:
        return self.largest_abs.abs_error if self.largest_abs else 0.0

    @property
    def max_rel_error(self) -> float:
        """The largest d/|reference| over references that are not zero, as the nearest finite float64."""
        if self.largest_rel is None:
            return 0.0
        return min(to_float(quotient(self.largest_rel.point)), float_info.max)

    @property
    def points(self) -> tuple[Point, ...]:
        """What a record needs for judging again: the frontier, thinned to POINTS_RECORDED where it is longer."""
        return tuple(point for point, _ in thinned(self.frontier, POINTS_RECORDED))

    @property
    def points_exact(self) -> bool:
        """False where `points` may refuse a limit that every element is within, by a hair."""
        return self.frontier_exact and len(self.frontier) <= POINTS_RECORDED

    @property
    def differing_share(self) -> float:
        return self.differing / self.elements if self.elements else 0.0

    @property
    def larger_share(self) -> float | None:
        """candidate_larger ÷ the differing finite elements: near 0 or 1 where the error is coherent."""
        finite = self.differing - self.nonfinite.mismatched
        return self.candidate_larger / finite if finite else None

    @property
    def worst(self) -> tuple[Element, ...]:
        """The elements with the largest ulp distance, d and d/|reference|; each once."""
        chosen = (self.largest_ulp, self.largest_abs, self.largest_rel)
        return tuple({element.place: element for element in chosen if element}.values())

    @property
    def smallest_passing(self) -> SmallestPassing | None:
        """None where a non-finite value stands beside another one: no limit passes then."""
        if self.nonfinite.mismatched:
            return None
        rtol = smallest_rtol(self.largest_rel.point) if self.largest_rel else 0.0
        return SmallestPassing(
            max_ulp=self.max_ulp,
            atol_at_rtol_0=self.max_abs_error,
            rtol_at_atol_0=None if self.zero_reference else rtol,
        )

    def passes(self, limit: Limit) -> bool:
        """Whether no element violates `limit`; a mismatched non-finite one always does. True for no elements."""
        if self.nonfinite.mismatched:
            return False
        match limit.rule:
            case "ulp":
                return self.max_ulp <= limit.max_ulp
            case "exact":
                return not self.differing and not self.signed_zero
        return all(map(limit.allows, self.frontier))


def _more_steps(one: Measurement, other: Measurement) -> Element | None:
    if one.max_ulp != other.max_ulp:
        return one.largest_ulp if one.max_ulp > other.max_ulp else other.largest_ulp
    places = [e for e in (one.largest_ulp, other.largest_ulp) if e]
    return min(places, key=lambda e: e.place, default=None)


@dataclass(frozen=True, kw_only=True)
class Distance:
    """One side's output against the oracle, which is of the same dtype.

    incorrect         elements that are not the correctly rounded value; −0 for +0 is not counted
    mismatched        those of them where one value is not finite, and the other is finite or of another kind
    max_ulp           over the finite ones
    """

    unit: str
    elements: int
    incorrect: int
    mismatched: int
    max_ulp: int

    def merge(self, other: Self) -> "Distance":
        """The distance of both together. Raises ValueError where they count ulp in different dtypes."""
        if self.unit != other.unit:
            raise ValueError(f"ulp of {self.unit} and of {other.unit} have no common maximum")
        return Distance(
            unit=self.unit,
            elements=self.elements + other.elements,
            incorrect=self.incorrect + other.incorrect,
            mismatched=self.mismatched + other.mismatched,
            max_ulp=max(self.max_ulp, other.max_ulp),
        )

    @property
    def incorrect_share(self) -> float:
        return self.incorrect / self.elements if self.elements else 0.0
