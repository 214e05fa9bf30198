"""Can rounding explain why two outputs differ? Four answers, each with its proof.

The question is put to the candidate as if it computed the reference's formula in its own dtypes and orders. Then each
output is within its own bound of one exact y, and each row has one exact divisor.

bit-equal                    nothing differs
not explainable by rounding  an element lies beyond the sum of both bounds; or the factors of a row that the two outputs
                             allow, each widened by what its side's statistic can be off, have no value in common
explainable by rounding      what differs is within both
not observable               what differs is where a bound says nothing
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from rmsaudit.arrays import Array, bits
from rmsaudit.case import Case
from rmsaudit.inversion.bounds import Bound, bound
from rmsaudit.inversion.interval import Interval, widen
from rmsaudit.semantics import NormSpec

Verdict = Literal["bit-equal", "explainable by rounding", "not explainable by rounding", "not observable"]

FORMULA = (
    "width", "axes", "groups", "statistic_width", "input_clamp", "prescale", "residual", "gain_position", "center",
    "statistic", "eps", "eps_placement", "eps_min", "gain_applied", "gain_offset", "bias", "post_scale", "output_clamp",
)  # fmt: skip
"""The variables that say what is computed. The others say how."""


class Observed(NamedTuple):
    """One side: what it declares and what it returned, [rows, width]."""

    spec: NormSpec
    output: Array


class ElementWitness(NamedTuple):
    """An element that is farther apart than both bounds together reach."""

    row: int
    column: int
    apart: float
    reach: float


class RowWitness(NamedTuple):
    """A row (or the part of it that begins at `column`) whose factor cannot be the same on both sides; lo, hi of each.

    Where lo > hi, the side's own outputs have no factor in common under what it declares.
    """

    row: int
    column: int
    reference: tuple[float, float]
    candidate: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Explained:
    """The answer for one case. The four counts are of parts: rows times groups.

    largest_share: of the elements that differ, the largest |difference| ÷ reach; at most 1 where all are within.
    witness: the part farthest out, where rounding cannot be it. reasons: why nothing is said of the parts that are not
    observable. terms: of each side, by name; the row's, then the element's.
    """

    equal: int
    explainable: int
    not_explainable: int
    not_observable: int
    largest_share: float = 0.0
    witness: ElementWitness | RowWitness | None = None
    reasons: tuple[str, ...] = ()
    terms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        if self.not_explainable:
            return "not explainable by rounding"
        if self.not_observable:
            return "not observable"
        return "explainable by rounding" if self.explainable else "bit-equal"


def explainable(case: Case, reference: Observed, candidate: Observed) -> Explained:
    """Whether the two outputs can be roundings of the reference's formula on `case`.

    Nothing is assumed of an order that is not declared: give such a side accumulate_order sequential, whose bound no
    order exceeds. The specs must be for the width of the case, and divide a row into equal groups.
    """
    with np.errstate(all="ignore"):
        differs = _parts(_differs(reference.output, candidate.output), reference.spec.groups)
        as_if = replace(candidate.spec, **{name: getattr(reference.spec, name) for name in FORMULA})
        return _compare(differs, case, reference, Observed(as_if, candidate.output))


def _compare(differs: Array, case: Case, reference: Observed, candidate: Observed) -> Explained:
    some = np.asarray(differs.any(axis=-1))
    if not some.any():
        return _count(some, some, some)
    ours, theirs = bound(reference.spec, case), bound(candidate.spec, case)
    if isinstance(ours, Bound) and isinstance(theirs, Bound):
        return _judge(differs, _Side(ours, reference.output), _Side(theirs, candidate.output))
    reasons = {reason for reason in (ours, theirs) if isinstance(reason, str)}
    return replace(_count(some, some, np.zeros_like(some)), reasons=tuple(sorted(reasons)))


@dataclass(frozen=True, eq=False)
class _Side:
    """A bound and the output it is for."""

    bound: Bound
    whole: Array

    @property
    def output(self) -> Array:
        """[parts, size]"""
        parts: Array = self.whole.astype(np.float64).reshape(self.bound.operands.x.shape)
        return parts

    def reach(self) -> tuple[Array, Array, Array]:
        """θ, α, and the largest that |y| may be: (|ŷ| + α) / (1 − θ)."""
        theta, alpha = self.bound.theta, self.bound.alpha
        return theta, alpha, np.where(theta < 1, (np.abs(self.output) + alpha) / (1 - theta), np.inf)

    def factors(self) -> Interval:
        """What the output allows 1/D to be, [parts], whatever the side's rounding did."""
        return widen(self.bound.factors(self.whole), -np.expm1(-self.bound.slack))


def _judge(differs: Array, reference: _Side, candidate: _Side) -> Explained:
    apart, reach = _elements(reference, candidate)
    factors = reference.factors(), candidate.factors()
    void_by = [first or second for first, second in zip(reference.bound.void, candidate.bound.void, strict=True)]
    said = np.array([not reason for reason in void_by])
    known = np.isfinite(reach)
    share = np.where(differs & known, apart / reach, 0.0)
    share = np.where(said[:, None], np.where(np.isnan(share), np.inf, share), 0.0)
    some = np.asarray(differs.any(axis=-1))
    beyond = some & said & ((share > 1).any(axis=-1) | _disjoint(*factors))
    void = some & ~beyond & (~said | (differs & ~known).any(axis=-1))
    reasons = {void_by[part] or "an element may leave the range of a format" for part in np.flatnonzero(void)}
    return replace(
        _count(some, void, beyond),
        largest_share=float(share.max(initial=0.0)),
        witness=_placed(_witness(share, beyond, (apart, reach), factors), reference) if beyond.any() else None,
        reasons=tuple(sorted(reasons)),
        terms={"reference": _terms(reference.bound), "candidate": _terms(candidate.bound)},
    )


def _elements(reference: _Side, candidate: _Side) -> tuple[Array, Array]:
    """How far apart the outputs are, and how far rounding can have driven them apart; infinite where nobody knows."""
    (theta, alpha, most), (their_theta, their_alpha, their_most) = reference.reach(), candidate.reach()
    y = np.fmin(most, their_most)  # NaN on one side leaves what the other allows
    reach = np.nextafter((theta + their_theta) * y + alpha + their_alpha, np.inf)
    return np.abs(reference.output - candidate.output), reach


def _disjoint(ours: Interval, theirs: Interval) -> Array:
    disjoint: Array = ~(np.maximum(ours.lo, theirs.lo) <= np.minimum(ours.hi, theirs.hi))
    return disjoint


def _witness(
    share: Array, beyond: Array, elements: tuple[Array, Array], factors: tuple[Interval, Interval]
) -> ElementWitness | RowWitness:
    """Of the parts that rounding cannot explain, the element farthest out, or else the one whose factors are apart. Its
    row is the number of the part."""
    part, column = (int(index) for index in np.unravel_index(share.argmax(), share.shape))
    if share[part, column] > 1:
        apart, reach = elements
        return ElementWitness(part, column, float(apart[part, column]), float(reach[part, column]))
    ours, theirs = factors
    gap = np.maximum(ours.lo, theirs.lo) / np.minimum(ours.hi, theirs.hi)
    part = int(np.where(beyond, np.nan_to_num(gap, nan=np.inf), -1.0).argmax())
    return RowWitness(
        part,
        0,
        (float(ours.lo[part]), float(ours.hi[part])),
        (float(theirs.lo[part]), float(theirs.hi[part])),
    )


def _placed(witness: ElementWitness | RowWitness, side: _Side) -> ElementWitness | RowWitness:
    """The same with the row and column of the whole output."""
    size = side.bound.operands.x.shape[-1]
    row, column = divmod(witness.row * size + witness.column, side.whole.shape[-1])
    return witness._replace(row=row, column=column)


def _count(some: Array, void: Array, beyond: Array) -> Explained:
    """some: the parts that differ. void: those of which nothing is said. beyond: those that rounding cannot be."""
    return Explained(
        equal=int((~some).sum()),
        explainable=int((some & ~void & ~beyond).sum()),
        not_explainable=int(beyond.sum()),
        not_observable=int((void & ~beyond).sum()),
    )


def _differs(one: Array, other: Array) -> Array:
    """Where two outputs are not the same number: by bits where the dtypes are equal; every NaN is the same."""
    both_nan = np.isnan(one.astype(np.float64)) & np.isnan(other.astype(np.float64))
    if one.dtype == other.dtype:
        unequal: Array = bits(np.ascontiguousarray(one)) != bits(np.ascontiguousarray(other))
    else:
        unequal = one.astype(np.float64) != other.astype(np.float64)
    return unequal & ~both_nan


def _parts(values: Array, groups: int) -> Array:
    return values.reshape(len(values) * groups, -1)


def _terms(bound: Bound) -> dict[str, float]:
    return {**bound.row, **{f"element: {name}": value for name, value in bound.element.items()}}
