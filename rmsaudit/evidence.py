"""What the explainer looks at: a bounded choice of rows, with what both sides gave for them.

Rows of cases that share gain and bias are put together, so that a hypothesis costs a handful of emulator calls. Where a
statistic crosses rows, only whole cases can be emulated; a few of them are kept for that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, bits, ordered, round_to, word_of
from rmsaudit.case import Case
from rmsaudit.formats import coarser

ROWS_OF = {"near-eps": 10, "exact-sum": 6, "edge": 6, "tiny": 5, "large": 5, "blocks": 3, "gains": 2, "mixed-scale": 3}
"""How many rows of a case are looked at in the end; OTHER_ROWS in every other category."""
OTHER_ROWS = 2
GUIDES = {"near-eps": 4, "exact-sum": 2, "zero": 0, "sign": 0, "scale": 0, "nonfinite": 0, "mixed-scale": 0}
"""How many rows of a case every hypothesis is run on, however wide they are; 1 elsewhere. The others come after."""
GUIDING = 1 << 15
"""Elements that every hypothesis is run on where rows are narrow: then all rows that are looked at."""
ALL_ROWS = 72  # what ROWS_OF and OTHER_ROWS come to over the whole battery
LEFT_OUT = ("rows", "views", "repeat", "untouched")  # about behaviour, not about the formula
WHOLE = ("ordinary", "blocks", "exact-sum")
MOST_WHOLE = 64  # rows of a case that is kept whole
GUIDING_GAINS = ("near 0", "near 1", "lost beside 1")
MOST_CASES = 3  # of one category at the battery's own width, besides gains and tail
BEYOND = 40.0
"""The distance, in powers of two of an ulp, of an element that is finite on one side only."""
ANOTHER_DTYPE = 8.0
"""What an output of another dtype counts on top of its distance in the coarser one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sample:
    """Rows with the same gain and bias. reference, candidate: [rows, width]; category, number: of each row."""

    case: Case
    reference: Array
    candidate: Array
    category: tuple[str, ...]
    number: tuple[int, ...]
    whole: bool = False

    @property
    def rows(self) -> int:
        return len(self.category)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that hypotheses are held against.

    guide: what every hypothesis is run on; rest: what one must meet besides before it is told. whole: cases with every
    row, for a statistic that crosses rows.
    """

    guide: tuple[Sample, ...]
    rest: tuple[Sample, ...] = ()
    whole: tuple[Sample, ...] = ()

    def seen_by(self, axes: tuple[int, ...]) -> tuple[Sample, ...]:
        """The samples that a spec with these axes is run on."""
        return self.guide if axes == (-1,) else self.whole

    def turned(self) -> "Evidence":
        """The same with the reference's outputs in the candidate's place: for a side held against its own belief."""
        groups = self.guide, self.rest, self.whole
        return Evidence(*(tuple(_of_reference(sample) for sample in group) for group in groups))

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """Every category that is in it, in order of appearance."""
        return tuple(dict.fromkeys(name for sample in (*self.guide, *self.rest) for name in sample.category))


def _of_reference(sample: Sample) -> Sample:
    return Sample(
        case=sample.case,
        reference=sample.reference,
        candidate=sample.reference,
        category=sample.category,
        number=sample.number,
        whole=sample.whole,
    )


@dataclass
class Gathering:
    """Evidence on its way: cases are handed in one by one, and only the chosen rows are kept."""

    width: int
    parts: list[Sample] = field(default_factory=list)
    later: list[Sample] = field(default_factory=list)
    whole: list[Sample] = field(default_factory=list)
    cases: dict[str, int] = field(default_factory=dict)

    def add(self, case: Case, reference: Array, candidate: Array) -> None:
        """Keeps some rows of a case. case: as the candidate was fed, so with its gains."""
        name = case.category
        if name in LEFT_OUT or reference.shape != candidate.shape:
            return
        self.cases[name] = self.cases.get(name, 0) + 1
        if name not in ("gains", "tail") and self.cases[name] > MOST_CASES:
            return
        if name in WHOLE and len(case.x) <= MOST_WHOLE:
            self.whole.append(_take(case, reference, candidate, np.arange(len(case.x)), whole=True))
        guiding, others = _choose(case, reference, candidate)
        if len(guiding) and self._guides(case):
            self.parts.append(_take(case, reference, candidate, guiding))
        else:
            others = np.union1d(guiding, others).astype(int)
        if len(others):
            self.later.append(_take(case, reference, candidate, others))

    def evidence(self) -> Evidence:
        """What was gathered, with rows of the same gain and bias put together."""
        return Evidence(_together(self.parts), _together(self.later), tuple(self.whole))

    def _guides(self, case: Case) -> bool:
        own_width = case.width == self.width
        return own_width and (case.category != "gains" or case.label.partition(",")[0] in GUIDING_GAINS)


def _choose(case: Case, reference: Array, candidate: Array) -> tuple[Array, Array]:
    """Rows for every hypothesis, and further ones; spread evenly over the case, and the one with most differences."""
    differing = (steps(reference, candidate) != 0).sum(axis=-1)
    worst = [int(differing.argmax())] if differing.any() else []
    looked_at = _spread(len(reference), ROWS_OF.get(case.category, OTHER_ROWS))
    if ALL_ROWS * case.width <= GUIDING:
        return np.array(sorted({*looked_at, *worst})), np.array([], dtype=int)
    few = GUIDES.get(case.category, 1)
    guiding = {*_spread(len(reference), few)} if few > 1 or not worst else {*worst[:few]}
    return np.array(sorted(guiding), dtype=int), np.array(sorted({*looked_at, *worst} - guiding), dtype=int)


def _spread(count: int, wanted: int) -> list[int]:
    """`wanted` rows of `count`, the first and the last among them."""
    return list(map(int, np.linspace(0, count - 1, min(wanted, count)).round()))


def _together(parts: list[Sample]) -> tuple[Sample, ...]:
    groups: dict[tuple[Any, ...], list[Sample]] = {}
    for part in parts:
        operands = bits(part.case.gain).tobytes(), bits(np.ascontiguousarray(part.case.bias)).tobytes()
        words = word_of(part.reference), word_of(part.candidate)
        groups.setdefault((part.case.width, *operands, *words), []).append(part)
    return tuple(map(_joined, groups.values()))


def _take(case: Case, reference: Array, candidate: Array, rows: Array, *, whole: bool = False) -> Sample:
    return Sample(
        case=Case(
            category=case.category, label=case.label, x=case.x[rows], gain=case.gain, bias=case.bias,
            residual=case.residual[rows],
        ),
        reference=reference[rows],
        candidate=candidate[rows],
        category=(case.category,) * len(rows),
        number=tuple(map(int, rows)),
        whole=whole,
    )  # fmt: skip


def _joined(parts: Sequence[Sample]) -> Sample:
    first = parts[0].case
    return Sample(
        case=Case(
            category="chosen",
            label="",
            x=np.concatenate([part.case.x for part in parts]),
            gain=first.gain,
            bias=first.bias,
            residual=np.concatenate([part.case.residual for part in parts]),
        ),
        reference=np.concatenate([part.reference for part in parts]),
        candidate=np.concatenate([part.candidate for part in parts]),
        category=tuple(name for part in parts for name in part.category),
        number=tuple(number for part in parts for number in part.number),
    )


def steps(first: Array, second: Array) -> Array:
    """How many values of the coarser dtype apart, with sign (second − first), float64 [rows, width].

    0 for two NaN and for zeros of either sign; ±inf where only one is finite, or only one is NaN.
    """
    if first.dtype == second.dtype:
        if bits(first).tobytes() == bits(second).tobytes():
            return np.zeros(first.shape)
    else:
        common = coarser(word_of(first), word_of(second))
        with np.errstate(over="ignore"):
            first, second = round_to(first, common), round_to(second, common)
    apart: Array = (ordered(second) - ordered(first)).astype(np.float64)
    one, two = first.astype(np.float64), second.astype(np.float64)
    finite = np.isfinite(one) & np.isfinite(two)
    if finite.all():
        return apart
    alike = (np.isnan(one) & np.isnan(two)) | (one == two)
    return np.where(finite, apart, np.where(alike, 0.0, np.inf))


def distance(found: Array, wanted: Array) -> Array:
    """How far `found` is from `wanted`, a number a row: the mean of log2(1 + ulp), BEYOND where only one is finite."""
    far: Array = np.zeros(len(found))
    rows = np.arange(len(found))
    if found.dtype == wanted.dtype:
        rows = np.flatnonzero((bits(found) != bits(wanted)).any(axis=-1))
    if len(rows):
        apart = np.abs(steps(found[rows], wanted[rows]))
        far[rows] = np.minimum(np.log2(1.0 + apart), BEYOND).mean(axis=-1)
    return far if found.dtype == wanted.dtype else far + ANOTHER_DTYPE
