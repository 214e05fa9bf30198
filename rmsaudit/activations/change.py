"""How much a change of eps weighs on real rows: which of them it moves, and by how much."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from rmsaudit.activations.law import Pair
from rmsaudit.activations.sums import Sums
from rmsaudit.arrays import Array
from rmsaudit.formats import FORMATS, coarser
from rmsaudit.semantics import NormSpec

ONE_PERCENT = Fraction(1, 100)


@dataclass(frozen=True, kw_only=True)
class Change:
    """What the candidate's eps changes beside the reference's, over many rows. Merges exactly.

    A row's change is (its output by the candidate) ÷ (that by the reference) − 1, as eps alone has it; all its elements
    share it. rows: with a mean square, as in `Distribution`. bounds: changes that were asked about. changed: how many
    rows are changed by more than each of them, exactly. largest: the change that is farthest from 0, with its sign.
    losses: the largest 1 − A under the reference's eps, and under the candidate's.
    """

    bounds: tuple[Fraction, ...]
    rows: int
    changed: tuple[int, ...]
    largest: float = 0.0
    losses: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def none(cls, bounds: tuple[Fraction, ...]) -> Self:
        """That of no rows."""
        return cls(bounds=bounds, rows=0, changed=(0,) * len(bounds))

    @classmethod
    def of(cls, sums: Sums, pair: Pair, bounds: tuple[Fraction, ...]) -> Self:
        """That of one block."""
        if not sums.totals.size:
            return cls.none(bounds)
        changes, errors = pair.changes_of(sums.totals), pair.errors_of(sums.totals)
        errors = np.where(sums.is_sure, errors, np.inf)
        reference, candidate = (float(law.loss_of(sums.totals).max()) for law in (pair.reference, pair.candidate))
        return cls(
            bounds=bounds,
            rows=len(sums.totals),
            changed=tuple(_more(sums, pair, (np.abs(changes), errors), bound) for bound in bounds),
            largest=float(changes[np.argmax(np.abs(changes))]),
            losses=(reference, candidate),
        )

    def merge(self, other: Self) -> Self:
        """That of both together. Raises ValueError where they were asked about different bounds."""
        if self.bounds != other.bounds:
            raise ValueError("changes by different bounds do not merge")
        return type(self)(
            bounds=self.bounds,
            rows=self.rows + other.rows,
            changed=tuple(one + another for one, another in zip(self.changed, other.changed, strict=True)),
            largest=max(self.largest, other.largest, key=lambda change: (abs(change), change)),
            losses=(max(self.losses[0], other.losses[0]), max(self.losses[1], other.losses[1])),
        )


def usual_bounds(reference: NormSpec, candidate: NormSpec) -> tuple[Fraction, ...]:
    """Half an ulp of the coarser output dtype, and 1 %.

    2^-p, with p the significant bits, is half an ulp at the lower end of a binade, and less than that of any value
    elsewhere: a row that changes by more moves every one of its normal outputs by more than half an ulp.
    """
    precision = FORMATS[coarser(reference.output_dtype, candidate.output_dtype)].precision
    return Fraction(1, 2**precision), ONE_PERCENT


def _more(sums: Sums, pair: Pair, known: tuple[Array, Array], bound: Fraction) -> int:
    """How many rows change by more than `bound`. known: |change| and a bound on its error; exact where they leave it
    open."""
    changes, errors = known
    near = float(bound)
    margin = errors + 2.0**-52 * near
    surely = int(np.count_nonzero(changes - near > margin))
    open_ = np.flatnonzero(~(np.abs(changes - near) > margin))
    return surely + sums.count(open_, lambda total: pair.changes_more(total, bound))
