"""One category's numbers, gathered case by case and turned into the record's own words at the end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, hex_of
from rmsaudit.attenuation import attenuation
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS
from rmsaudit.gate import closer_side
from rmsaudit.measure.distance import distance
from rmsaudit.measure.element import Element
from rmsaudit.measure.measurement import Distance, Measurement
from rmsaudit.measure.statistics import measure
from rmsaudit.oracle import Answer
from rmsaudit.record import (
    CategoryResult,
    NonFinite,
    OracleResult,
    Range,
    RowFactor,
    SideName,
    SmallestPassing,
)
from rmsaudit.record import Worst as WorstRecord
from rmsaudit.semantics import NormSpec, scope
from rmsaudit.semantics.eps import knee


def mean_squares(spec: NormSpec, case: Case) -> Array:
    """q of each statistic, float64 [outer, groups]: the mean square of what the reference's formula squares.

    Near the edges of float64 the square overflows or vanishes; the range of q is a help to the reader, not a judgement.
    """
    x = case.x.astype(np.float64)
    if spec.residual == "add":
        x = x + case.residual.astype(np.float64)
    rows = scope.unfold(x, spec)
    entering = rows[..., : scope.statistic_size(rows.shape[-1], spec)]
    with np.errstate(all="ignore"):
        found: Array = np.mean(entering * entering, axis=-1)
    return found


def ratios_of(spec: NormSpec, case: Case) -> Array | None:
    """q/eps of each statistic, float64 [outer, groups]; None where the reference has no eps that acts."""
    point = knee_of(spec, case)
    with np.errstate(all="ignore"):
        return mean_squares(spec, case) / point if point else None


def knee_of(spec: NormSpec, case: Case) -> float:
    """The mean square at which the reference's eps acts as strongly as the row."""
    size = scope.statistic_size(scope.group_size(case.x.shape[0], spec), spec)
    return knee(spec, size, spec.statistic == "sum_square")


Place = tuple[str, int, int]


@dataclass
class Tally:
    """What is known of one category so far: small, whatever it was fed, and mergeable.

    named: what the record says of the elements that are the worst so far. ratios: smallest and largest finite q/eps.
    """

    category: str
    measurement: Measurement | None = None
    reference: Distance | None = None
    candidate: Distance | None = None
    ratios: tuple[float, float] | None = None
    named: dict[Place, WorstRecord] = field(default_factory=dict)
    violations: int | None = None
    failures: list[str] = field(default_factory=list)

    def add(
        self, spec: NormSpec, case: Case, outputs: tuple[Array, Array], answers: tuple[Answer, Answer] | None
    ) -> None:
        """Adds one case that both sides ran. spec: the reference's at this width. answers: the oracle in each output
        dtype; None where it was not asked."""
        found = measure(*outputs, case=case.label)
        ratios = ratios_of(spec, case)
        added = Tally(self.category, measurement=found, ratios=finite_range(ratios))
        if answers is not None:
            added.reference, added.candidate = (
                distance(output, answer.values) for output, answer in zip(outputs, answers, strict=True)
            )
        oracle = None if answers is None else answers[0].values
        spread = ratio_of_element(ratios, spec, case)
        added.named = {each.place: worst_of(each, case, oracle, spread) for each in most_different(found)}
        self.merge(added)

    def merge(self, other: "Tally") -> None:
        """Takes in what another tally of the same category knows. The order of merging decides nothing but ties."""
        self.measurement = _together(self.measurement, other.measurement)
        self.reference = _together(self.reference, other.reference)
        self.candidate = _together(self.candidate, other.candidate)
        ranges = [found for found in (self.ratios, other.ratios) if found]
        self.ratios = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
        worst = most_different(self.measurement) if self.measurement else []
        named = self.named | other.named
        self.named = {each.place: named[each.place] for each in worst}
        if other.violations is not None:
            self.violations = (self.violations or 0) + other.violations
        self.failures += other.failures

    def result(self, output_dtype: str) -> CategoryResult:
        """The category as the record holds it, still without a verdict. output_dtype: where nothing was measured."""
        found = self.measurement
        if found is None:
            return CategoryResult(
                verdict="not_judged",
                output_dtype=output_dtype,
                elements=0,
                max_abs_error=0.0,
                max_rel_error=0.0,
                max_ulp=0,
                differing_share=0.0,
                failures=tuple(self.failures),
            )
        return CategoryResult(
            verdict="not_judged",
            output_dtype=found.unit,
            elements=found.elements,
            max_abs_error=found.max_abs_error,
            max_rel_error=found.max_rel_error,
            max_ulp=found.max_ulp,
            differing_share=found.differing_share,
            zero_reference=found.zero_reference,
            signed_zero=found.signed_zero,
            violations=self.violations,
            nonfinite=NonFinite(
                reference=found.nonfinite.reference.total,
                candidate=found.nonfinite.candidate.total,
                mismatched=found.nonfinite.mismatched,
            ),
            q_over_eps=self._range(lambda ratio: ratio),
            attenuation=self._range(attenuation),
            row_factor=_row_factor(found),
            worst=tuple(self.named.values()),
            oracle=self._oracle(found.unit),
            smallest_passing=_smallest_passing(found),
            points=found.points,
            points_exact=found.points_exact,
            failures=tuple(self.failures),
        )

    def _range(self, law: Callable[[float], float]) -> Range | None:
        """The law's range over the finite q/eps of the category, or None where nothing is known."""
        if self.ratios is None:
            return None
        low, high = self.ratios
        return Range(min=shortened(law(low)), max=shortened(law(high)))

    def _oracle(self, unit: str) -> OracleResult | None:
        reference, candidate = self.reference, self.candidate
        if reference is None or candidate is None:
            return None
        near: dict[SideName, Distance] = {"reference": reference, "candidate": candidate}
        return OracleResult(
            reference_ulp=reference.max_ulp,
            candidate_ulp=candidate.max_ulp,
            reference_rounded=shortened(1.0 - reference.incorrect_share),
            candidate_rounded=shortened(1.0 - candidate.incorrect_share),
            reference_lost=reference.mismatched,
            candidate_lost=candidate.mismatched,
            closer=closer_side(reference.max_ulp, candidate.max_ulp, reference.mismatched, candidate.mismatched),
            far=tuple(name for name, side in near.items() if _is_far(side, unit)),
        )


def _together(one: Any, other: Any) -> Any:
    """Both merged; the one that is there where only one is."""
    return other if one is None else one if other is None else one.merge(other)


def finite_range(ratios: Array | None) -> tuple[float, float] | None:
    """The smallest and the largest of what is finite; None where nothing is."""
    finite = np.empty(0) if ratios is None else ratios[np.isfinite(ratios)]
    return (float(finite.min()), float(finite.max())) if finite.size else None


def worst_of(element: Element, case: Case, oracle: Array | None, ratios: Array) -> WorstRecord:
    """The element with what belongs to it. ratios: q/eps of every element [rows, width], or empty."""
    place = element.row, element.column
    ratio = float(ratios[place]) if ratios.size else np.nan
    return WorstRecord(
        case=element.case,
        row=element.row,
        column=element.column,
        q_over_eps=shortened(ratio) if np.isfinite(ratio) else None,
        input=_written(case.x[place]),
        reference=_written(element.reference),
        candidate=_written(element.candidate),
        oracle=None if oracle is None else _written(oracle[place]),
        reference_hex=hex_of(element.reference),
        candidate_hex=hex_of(element.candidate),
    )


def ratio_of_element(ratios: Array | None, spec: NormSpec, case: Case) -> Array:
    """q/eps for every element [rows, width] as a broadcast view, so that a worst element can name its own."""
    if ratios is None:
        return np.empty((0, 0))
    unfolded = scope.unfold(case.x, spec)
    spread = np.broadcast_to(ratios[..., None], unfolded.shape)
    return scope.fold(spread, case.x.shape, spec)


def _is_far(side: Distance, unit: str) -> bool:
    """More than half of the format's digits lost, two bits of grace; an honest float32 running sum (485 ulp) is not
    far."""
    bits = max(2, FORMATS[unit].precision // 2 - 2)
    return side.mismatched > 0 or side.max_ulp > 1 << bits


def _row_factor(found: Measurement) -> RowFactor | None:
    """The rows' medians; None where no row has a finite pair over a reference that is not zero."""
    rows = found.row_factors
    if rows.min is None or rows.median is None or rows.max is None or rows.spread is None:
        return None
    return RowFactor(
        min=shortened(rows.min),
        median=shortened(rows.median),
        max=shortened(rows.max),
        spread=shortened(rows.spread),
    )


def most_different(found: Measurement) -> list[Element]:
    """A non-finite mismatch, then the largest in ulp, in d and in d/|reference|; each element once."""
    first = (found.nonfinite.first, *found.worst)
    return list({element.place: element for element in first if element}.values())


def _smallest_passing(found: Measurement) -> SmallestPassing:
    smallest = found.smallest_passing
    if smallest is None:
        return SmallestPassing()
    return SmallestPassing(
        max_ulp=smallest.max_ulp,
        atol_at_rtol_0=smallest.atol_at_rtol_0,
        rtol_at_atol_0=smallest.rtol_at_atol_0,
    )


def _written(value: float | Array) -> float | str:
    """A float, or the word for what YAML and JSON have no common number for."""
    number = float(value)
    return number if np.isfinite(number) else str(number)


def shortened(value: float) -> float:
    """Six significant digits: for numbers that help a reader and decide nothing."""
    return float(f"{value:.6g}")
