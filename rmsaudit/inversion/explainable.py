"""Can rounding explain why two outputs differ? Four answers, each with its proof.

The question is put to the candidate as if it computed the reference's formula in its own dtypes and orders. Then each
output is within its own bound of one exact y, and each row has one exact divisor.

bit-equal                    nothing differs
not explainable by rounding  an element lies beyond the sum of both bounds; or the row's factors that the two outputs
                             allow, each widened by what its side's statistic can be off, have no value in common
explainable by rounding      what differs is within both
not observable               what differs is where a bound says nothing
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from rmsaudit.arrays import Array, bits
from rmsaudit.case import Case
from rmsaudit.inversion.bounds import Bound, bound
from rmsaudit.inversion.interval import Interval, widen
from rmsaudit.inversion.row_scale import Allowance, row_scales
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
    """An element that is farther apart than both bounds reach."""

    row: int
    column: int
    apart: float
    bound: float


class RowWitness(NamedTuple):
    """A row (or the part of it that begins at `column`) whose factor cannot be the same on both sides."""

    row: int
    column: int
    reference: tuple[float, float]
    candidate: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Explained:
    """The answer for one case. Counts are of parts: rows times groups.

    largest_share: of the elements that differ, the largest |difference| ÷ bound; 1 or less where all are within.
    witness: the part farthest out, where rounding cannot be it. reasons: why nothing is said of the parts that are not
    observable. terms: of each side, by name; the row's, then the element's.
    """

    verdict: Verdict
    equal: int
    explainable: int
    not_explainable: int
    not_observable: int
    largest_share: float
    witness: ElementWitness | RowWitness | None
    reasons: tuple[str, ...]
    terms: Mapping[str, Mapping[str, float]]


def explainable(case: Case, reference: Observed, candidate: Observed) -> Explained:
    """Whether the two outputs can be roundings of the reference's formula on `case`.

    Nothing is assumed of an order that is not declared: give such a side accumulate_order sequential, which no order
    exceeds. An output that is not of its declared dtype is judged by the declared roundings all the same.
    """
    groups = reference.spec.groups
    differs = _parts(_differs(reference.output, candidate.output), groups)
    if not differs.any():
        return _answer(differs, np.zeros(len(differs), bool), np.zeros(len(differs), bool))
    as_if = replace(candidate.spec, **{name: getattr(reference.spec, name) for name in FORMULA})
    bounds = bound(reference.spec, case), bound(as_if, case)
    for reason in bounds:
        if isinstance(reason, str):
            void = differs.any(axis=-1)
            return _answer(differs, void, np.zeros_like(void), reasons=(reason,))
    return _judged(differs, _Side(bounds[0], reference.output, groups), _Side(bounds[1], candidate.output, groups))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _Side:
    """A bound and the output it is for."""

    bound: Bound
    whole: Array
    groups: int

    @property
    def output(self) -> Array:
        return _parts(self.whole, self.groups).astype(np.float64)

    def reach(self) -> tuple[Array, Array, Array]:
        """θ, α, and the largest that |y| may be: (|ŷ| + α) / (1 − θ)."""
        theta, alpha = self.bound.theta, self.bound.alpha
        return theta, alpha, np.where(theta < 1, (np.abs(self.output) + alpha) / (1 - theta), np.inf)

    def factors(self) -> Interval:
        """What the output allows 1/D to be, [parts], whatever the side's rounding did."""
        given = self.bound.operands
        allowance = Allowance(
            relative=-np.expm1(-self.bound.before_last),
            absolute=self.bound.absolute,
            rounding=self.bound.rounding,
            flushes=self.bound.flushes,
        )
        factor = given.gain * given.post_scale
        scales = row_scales(given.x, self.output, factor=factor, fmt=self.bound.fmt, allowance=allowance)
        return widen(scales.scale, -np.expm1(-self.bound.slack))


def _judged(differs: Array, reference: _Side, candidate: _Side) -> Explained:
    with np.errstate(all="ignore"):
        apart, reach = _elements(reference, candidate)
        ours, theirs = reference.factors(), candidate.factors()
    void_by = [first or second for first, second in zip(reference.bound.void, candidate.bound.void, strict=True)]
    silent = np.array([bool(reason) for reason in void_by])
    share = np.where(differs, apart / reach, 0.0)
    share = np.where(np.isnan(share), np.inf, share)
    unknown = silent | (differs & ~np.isfinite(reach)).any(axis=-1)
    disjoint = ~(np.maximum(ours.lo, theirs.lo) <= np.minimum(ours.hi, theirs.hi)) & ~silent
    beyond = ((share > 1).any(axis=-1) & ~silent) | disjoint
    void = differs.any(axis=-1) & unknown & ~beyond
    reasons = {void_by[part] or "an element may leave the range of a format" for part in np.flatnonzero(void)}
    return _answer(
        differs,
        void,
        beyond,
        largest_share=float(np.where(silent[:, None], 0.0, share).max(initial=0.0)),
        witness=_witness(share, beyond, (apart, reach), (ours, theirs), reference.groups),
        reasons=tuple(sorted(reasons)),
        terms=_terms(reference.bound, candidate.bound),
    )


def _elements(reference: _Side, candidate: _Side) -> tuple[Array, Array]:
    """How far apart the outputs are, and how far rounding can have driven them apart; infinite where it is not known."""
    (theta, alpha, most), (their_theta, their_alpha, their_most) = reference.reach(), candidate.reach()
    apart = np.abs(reference.output - candidate.output)
    y = np.minimum(most, their_most)
    return apart, np.nextafter((theta + their_theta) * y + alpha + their_alpha, np.inf)


def _witness(
    share: Array, beyond: Array, elements: tuple[Array, Array], factors: tuple[Interval, Interval], groups: int
) -> ElementWitness | RowWitness | None:
    """Of the parts that rounding cannot explain: the element farthest out, or else a row whose factors are apart."""
    if not beyond.any():
        return None
    size = share.shape[-1]
    part, inside = np.unravel_index(np.where(beyond[:, None], share, -1.0).argmax(), share.shape)
    if share[part, inside] > 1:
        row, column = divmod(int(part) * size + int(inside), size * groups)
        apart, reach = elements
        return ElementWitness(row, column, float(apart[part, inside]), float(reach[part, inside]))
    ours, theirs = factors
    gap = np.where(beyond, np.maximum(ours.lo, theirs.lo) / np.minimum(ours.hi, theirs.hi), -1.0)
    part = int(np.nan_to_num(gap, nan=np.inf).argmax())
    row, column = divmod(part * size, size * groups)
    return RowWitness(
        row,
        column,
        (float(ours.lo[part]), float(ours.hi[part])),
        (float(theirs.lo[part]), float(theirs.hi[part])),
    )


def _answer(
    differs: Array,
    void: Array,
    beyond: Array,
    *,
    largest_share: float = 0.0,
    witness: ElementWitness | RowWitness | None = None,
    reasons: tuple[str, ...] = (),
    terms: Mapping[str, Mapping[str, float]] | None = None,
) -> Explained:
    some = differs.any(axis=-1)
    verdict: Verdict = "explainable by rounding"
    if not some.any():
        verdict = "bit-equal"
    elif beyond.any():
        verdict = "not explainable by rounding"
    elif void.any():
        verdict = "not observable"
    return Explained(
        verdict=verdict,
        equal=int((~some).sum()),
        explainable=int((some & ~void & ~beyond).sum()),
        not_explainable=int(beyond.sum()),
        not_observable=int(void.sum()),
        largest_share=largest_share,
        witness=witness,
        reasons=reasons,
        terms=terms or {},
    )


def _differs(one: Array, other: Array) -> Array:
    """Where two outputs are not the same number: by bits where the dtypes are equal; −0 is not 0, every NaN is NaN."""
    both_nan = np.isnan(one.astype(np.float64)) & np.isnan(other.astype(np.float64))
    if one.dtype == other.dtype:
        return (bits(np.ascontiguousarray(one)) != bits(np.ascontiguousarray(other))) & ~both_nan
    unequal: Array = (one.astype(np.float64) != other.astype(np.float64)) & ~both_nan
    return unequal


def _parts(values: Array, groups: int) -> Array:
    return values.reshape(len(values) * groups, -1)


def _terms(reference: Bound, candidate: Bound) -> dict[str, dict[str, float]]:
    sides = {"reference": reference, "candidate": candidate}
    return {name: {**side.row, **{f"element: {term}": value for term, value in side.element.items()}} for name, side in sides.items()}
