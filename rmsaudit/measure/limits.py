"""What a limit allows, decided exactly: every comparison is between rational numbers, none is rounded.

d is the error of one element, |candidate − reference|, correctly rounded to float64 once when it is measured (see
`element.Element`); from there on nothing is rounded again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, nextafter
from typing import Literal, NamedTuple

Rule = Literal["sum", "either", "max", "ulp", "exact"]


class Point(NamedTuple):
    """One element as the rules see it: |reference| and d, both finite float64."""

    abs_reference: float
    abs_error: float


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A rule with its numbers.

    sum      d <= atol + rtol · |reference|
    either   d <= atol or d <= rtol · |reference|
    max      d <= max(atol, rtol · |reference|), which refuses the same elements as `either`
    ulp      at most max_ulp steps of the unit dtype
    exact    the same value, the sign of a zero included; NaN equals NaN

    Numbers that a rule does not use are ignored. Raises ValueError for a number that is negative or not finite.
    """

    rule: Rule
    atol: float = 0.0
    rtol: float = 0.0
    max_ulp: int = 0

    def __post_init__(self) -> None:
        for name in ("atol", "rtol", "max_ulp"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name} {getattr(self, name)} is no limit; it must be finite and not negative")

    def bound(self, abs_reference: float) -> Fraction:
        """The largest d that the rule allows beside |reference|. Raises ValueError for a rule that is not about d."""
        relative = Fraction(self.rtol) * Fraction(abs_reference)
        match self.rule:
            case "sum":
                return Fraction(self.atol) + relative
            case "either" | "max":
                return max(Fraction(self.atol), relative)
        raise ValueError(f"rule {self.rule} sets no bound on d")

    def allows(self, point: Point) -> bool:
        return Fraction(point.abs_error) <= self.bound(point.abs_reference)


def margin(limit: Limit, points: Iterable[Point]) -> float:
    """The largest d ÷ bound over `points`, rounded to float64: at most 1 exactly where the limit allows all of them.

    inf where the bound is 0, 0.0 where there is no point. Over a frontier it is the margin over every element measured,
    for d ÷ bound falls neither with d nor with d ÷ |reference|.
    """
    return max((_margin(limit, point) for point in points), default=0.0)


def _margin(limit: Limit, point: Point) -> float:
    bound = limit.bound(point.abs_reference)
    if not bound:
        return inf if point.abs_error else 0.0
    exact = Fraction(point.abs_error) / bound
    return max(to_float(exact), nextafter(1.0, inf)) if exact > 1 else to_float(exact)


def to_float(exact: Fraction) -> float:
    """The nearest float64 to a fraction that is not negative; inf beyond the largest."""
    try:
        return float(exact)
    except OverflowError:
        return inf


def quotient(point: Point) -> Fraction:
    """d/|reference|. Raises ZeroDivisionError for a zero reference."""
    return Fraction(point.abs_error) / Fraction(point.abs_reference)


def smallest_rtol(point: Point) -> float | None:
    """The smallest float64 rtol with d <= rtol · |reference|, or None if there is none. |reference| must not be 0."""
    exact = quotient(point)
    nearest = to_float(exact)
    if isfinite(nearest) and nearest < exact:
        nearest = nextafter(nearest, inf)
    return nearest if isfinite(nearest) else None
