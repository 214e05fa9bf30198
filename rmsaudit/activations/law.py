"""What eps does to a row: A = √S / D, where S is the row's sum of squares and D what the row is divided by.

D² = S + E(S), with n the elements of a row where the root is taken of their mean, and 1 where eps acts on the sum:

    inside   added under the root         E = n·eps
    outside  added to the root            E = n·eps² + 2·eps·√(n·S)
    floor    the larger of root and eps   E = n·eps² − S, or 0 where that is negative

The gain, the dtypes and the order of the sum only add rounding to that. Every question here is whether some
α + β·√(n·S) is above 0, with α, β and S rational, and so has an exact answer.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Literal

import numpy as np

from rmsaudit.arrays import Array, round_to
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.eps import effective
from rmsaudit.semantics.scope import group_size, statistic_size

Guard = Literal["inside", "outside", "floor"]
_GUARDS: dict[str, Guard] = {
    "outside_sqrt": "outside",
    "floor_rms": "floor",
    "floor_norm": "floor",
    "floor_sum": "floor",
}
ON_THE_SUM = ("inside_sum", "floor_norm", "floor_sum")

_ROUNDINGS = 32  # more than the steps from a sum to a change, each counted as often as it enters


@dataclass(frozen=True, kw_only=True)
class Law:
    """eps as it is used, and where it acts. size: how many squares a row adds up; times: the n of the formulas."""

    guard: Guard
    eps: Fraction
    times: int
    size: int

    @property
    def at_zero(self) -> Fraction:
        """E where S is 0."""
        return self.times * (self.eps if self.guard == "inside" else self.eps**2)

    @property
    def knee(self) -> float:
        """The mean square at which eps acts as strongly as the row itself; 0 where there is no eps."""
        return float(self.at_zero / self.size)

    def limit(self, max_loss: Fraction) -> Fraction:
        """The sum of squares from which on A >= 1 − max_loss.

        With k = 1 − max_loss, A < k is S < k²·(S + E), solved for S.
        """
        kept = 1 - max_loss
        match self.guard:
            case "inside":
                return self.at_zero * kept**2 / (1 - kept**2)
            case "outside":
                return self.at_zero * (kept / max_loss) ** 2
            case "floor":
                return self.at_zero * kept**2

    def excess(self, total: Fraction) -> tuple[Fraction, Fraction]:
        """E of one sum, exactly: first + second·√(times·total)."""
        match self.guard:
            case "inside":
                return self.at_zero, Fraction(0)
            case "outside":
                return self.at_zero, 2 * self.eps
            case "floor":
                return max(Fraction(0), self.at_zero - total), Fraction(0)

    def excess_of(self, totals: Array) -> Array:
        """E of many sums, in float64."""
        at_zero = float(self.at_zero)
        match self.guard:
            case "inside":
                return np.full_like(totals, at_zero)
            case "outside":
                return np.asarray(at_zero + 2 * float(self.eps) * np.sqrt(self.times) * np.sqrt(totals))
            case "floor":
                return np.maximum(at_zero - totals, 0.0)

    def reach_of(self, totals: Array) -> Array:
        """What the error of `excess_of` is a small part of: E, and a floor's own size while the sum is near it."""
        if self.guard != "floor":
            return self.excess_of(totals)
        return np.where(totals <= 2 * float(self.at_zero), float(self.at_zero), 0.0)

    def loss_of(self, totals: Array) -> Array:
        """1 − A of many sums, in float64, as E / (D·(D + √S)), which does not cancel."""
        excess = self.excess_of(totals)
        divisor = np.sqrt(totals + excess)
        loss: Array = excess / divisor / (divisor + np.sqrt(totals))
        return loss


def law_of(spec: NormSpec) -> Law:
    """The law of a norm. eps is the one that it computes with: after eps_min, and rounded to eps_dtype.

    Raises ValueError, with the reason, for a norm whose eps does not meet the sum of a row's own squares.
    """
    reason = _no_law(spec)
    if reason:
        raise ValueError(f"rows cannot be weighed for a norm that {reason}")
    size = statistic_size(group_size(1, spec), spec)
    on_the_sum = spec.statistic == "sum_square" or spec.eps_placement in ON_THE_SUM
    return Law(
        guard=_GUARDS.get(spec.eps_placement, "inside"),
        eps=Fraction(_used_eps(spec)),
        times=1 if on_the_sum else size,
        size=size,
    )


def _used_eps(spec: NormSpec) -> float:
    if spec.eps_placement == "none":
        return 0.0
    with np.errstate(over="ignore", under="ignore"):
        return float(round_to(np.asarray(effective(spec)), spec.eps_dtype))


def _no_law(spec: NormSpec) -> str | None:
    if spec.axes != (-1,):
        return "takes its statistic across rows"
    if spec.center or spec.statistic == "variance":
        return "subtracts the mean of the row first"
    if spec.prescale != "none":
        return "divides each row by its largest magnitude before eps is added"
    if spec.gain_applied and spec.gain_position == "before_statistic":
        return "multiplies by its gain before it squares"
    if not isfinite(_used_eps(spec)):
        return f"has an eps of {effective(spec):g}, which {spec.eps_dtype} cannot hold"
    return None


@dataclass(frozen=True)
class Pair:
    """Two laws for the same sums. Made by `pair_of`."""

    reference: Law
    candidate: Law

    def changes_of(self, totals: Array) -> Array:
        """A of the candidate ÷ A of the reference − 1 of many sums, in float64.

        With D the reference's divisor and d the candidate's, D/d − 1 = (D² − d²) / (d·(D + d)). The sums cancel in the
        numerator on paper: what is left is the difference of the two E.
        """
        first, second = (law.excess_of(totals) for law in (self.reference, self.candidate))
        divisor = np.sqrt(totals + second)
        changes: Array = (first - second) / divisor / (np.sqrt(totals + first) + divisor)
        return changes

    def errors_of(self, totals: Array) -> Array:
        """A bound on the error of `changes_of` where each sum is off by no more than `sum_error` of itself.

        Let g be that share, with the other roundings in it. Each E is off by g of its reach, and the difference of both
        is no larger than both reaches. The divisors are off by g at most, and there are two of them. That makes 3·g of
        the reaches over the divisors; 4 cover what is of second order.
        """
        reach = self.reference.reach_of(totals) + self.candidate.reach_of(totals)
        other, divisor = (np.sqrt(totals + law.excess_of(totals)) for law in (self.reference, self.candidate))
        errors: Array = 4 * sum_error(self.reference.size) * reach / divisor / (other + divisor)
        return errors

    def changes_more(self, total: Fraction, than: Fraction) -> bool:
        """Whether |D/d − 1| > than for an exact sum: D² > (1 + than)²·d², or D² < (1 − than)²·d²."""
        larger = self._compare(total, (1 + than) ** 2) > 0
        return larger or (than < 1 and self._compare(total, (1 - than) ** 2) < 0)

    def _compare(self, total: Fraction, factor: Fraction) -> int:
        """The sign of D² − factor·d². Only a guard outside has a root in it, and two of them have the same one."""
        (first, root_of_first), (second, root_of_second) = (
            law.excess(total) for law in (self.reference, self.candidate)
        )
        times = max((law.times for law in (self.reference, self.candidate) if law.guard == "outside"), default=1)
        without_root = (1 - factor) * total + first - factor * second
        return _sign(without_root, root_of_first - factor * root_of_second, times * total)


def pair_of(reference: NormSpec, candidate: NormSpec) -> Pair:
    """Both laws. Raises ValueError, with the reason, where one has none, or where more than eps sets them apart."""
    pair = Pair(law_of(reference), law_of(candidate))
    if pair.reference.size != pair.candidate.size:
        sizes = f"{pair.reference.size} squares and the candidate {pair.candidate.size}"
        raise ValueError(f"rows cannot be weighed where the reference adds up {sizes}")
    if (reference.statistic == "sum_square") != (candidate.statistic == "sum_square"):
        raise ValueError("rows cannot be weighed where one side takes the root of the mean and the other of the sum")
    return pair


def sum_error(size: int) -> float:
    """By how much of itself a float64 sum of `size` squares is off at most, in any order, with what is done to it
    after.

    A square of float64 is off by half an ulp, and of a narrower format by nothing; each term of the sum goes through
    size − 1 roundings at most, and as all terms are positive, so large a share is lost of the sum.
    """
    return (size + _ROUNDINGS) * 2.0**-53


def _sign(first: Fraction, second: Fraction, radicand: Fraction) -> int:
    """The sign of first + second·√radicand."""
    signs = (first > 0) - (first < 0), (second > 0) - (second < 0) if radicand else 0
    if signs[0] * signs[1] >= 0:
        return signs[0] or signs[1]
    larger = first**2 - second**2 * radicand
    return signs[0] * ((larger > 0) - (larger < 0))
