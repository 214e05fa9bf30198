"""What the explainer looks at: what both sides gave, in the order in which hypotheses are held against it.

A bounded choice of rows comes first. Rows of cases that share gain and bias are put together, so that a hypothesis
costs a handful of emulator calls. Every case as it was fed comes last: nothing is told that one of its rows
contradicts. Where a statistic crosses rows, only whole cases can be emulated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, bits, dtype_of, ordered, round_to, word_of
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS, coarser

ROWS_OF = {"near-eps": 10, "exact-sum": 6, "edge": 6, "tiny": 5, "large": 5, "blocks": 3, "gains": 2, "mixed-scale": 3}
"""How many rows of a case are looked at in the end; OTHER_ROWS in every other category."""
OTHER_ROWS = 2
GUIDES = {"near-eps": 4, "exact-sum": 2, "zero": 0, "sign": 0, "scale": 0, "nonfinite": 0, "mixed-scale": 2}
"""How many rows of a case every hypothesis is run on, however wide they are; 1 elsewhere. The others come after."""
GUIDING = 1 << 15
"""Elements that every hypothesis is run on where rows are narrow: then all rows that are looked at."""
ALL_ROWS = 72  # what ROWS_OF and OTHER_ROWS come to over the whole battery
LEFT_OUT = ("rows", "views", "repeat", "untouched")  # about behaviour, not about the formula
WHOLE = ("ordinary", "blocks", "exact-sum")
ALIKE, MOSTLY = 2.0**-4, 0.5
"""Outputs that are this close, relative, are alike; two rows of which more than this share are alike, are as well."""
MOST_OF_WHOLE = 1 << 16
"""Elements of them that every hypothesis is run on, about."""
MOST_WHOLE = 64  # rows of a case that are kept
GUIDING_GAINS = ("near 0", "near 1", "lost beside 1")
MOST_CASES = 3  # of one category at the battery's own width, besides gains and tail
BEYOND = 40.0
"""The distance, in powers of two of an ulp, of an element that is finite on one side only."""
NOT_FINITE = 1 << 16
ANOTHER_DTYPE = 1.0
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

    def taken(self, rows: Array) -> "Sample":
        """Some of its rows, by index."""
        return Sample(
            case=Case(
                category=self.case.category, label=self.case.label, x=self.case.x[rows], gain=self.case.gain,
                bias=self.case.bias, residual=self.case.residual[rows],
            ),
            reference=self.reference[rows],
            candidate=self.candidate[rows],
            category=tuple(self.category[row] for row in rows),
            number=tuple(self.number[row] for row in rows),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that hypotheses are held against.

    guide: rows that numbers are read from and hypotheses are run on; rest: what the shares that are told are of,
    besides. cases: all that was fed; of a case of more than MOST_WHOLE rows, so many.
    """

    guide: tuple[Sample, ...]
    rest: tuple[Sample, ...] = ()
    cases: tuple[Sample, ...] = ()

    @cached_property
    def whole(self) -> tuple[Sample, ...]:
        """The cases that a statistic which crosses rows is looked for in: of wide ones, the first."""
        named = [case for case in self.fed((-2,)) if case.case.category in WHOLE]
        few = max(1, MOST_OF_WHOLE // max((case.candidate.size for case in named), default=1))
        return tuple(named[:few])

    def guides(self, axes: tuple[int, ...]) -> tuple[Sample, ...]:
        """The samples that guide the search for a spec with these axes."""
        return self.guide if axes == (-1,) else self.whole

    def told(self, axes: tuple[int, ...]) -> tuple[Sample, ...]:
        """The samples that shares and distances are told of."""
        return (*self.guide, *self.rest) if axes == (-1,) else self.whole

    def fed(self, axes: tuple[int, ...]) -> tuple[Sample, ...]:
        """The cases that a spec with these axes can be run on: where a statistic crosses rows, only whole ones."""
        return self.cases if axes == (-1,) else tuple(case for case in self.cases if case.whole)

    @cached_property
    def rows_stand_alone(self) -> bool:
        """True where a row that is another one times a power of two is given back as that one is.

        Also where each row is normalised by itself, that may fail: at a clamp, or where squares overflow.
        """
        alike = [share for case in self.cases if case.case.category == "scale" for share in _alike(case)]
        return max(alike, default=0.0) > MOSTLY

    def turned(self) -> "Evidence":
        """The same with the reference's outputs in the candidate's place: for a side held against its own belief."""
        groups = self.guide, self.rest, self.cases
        return Evidence(*(tuple(_of_reference(sample) for sample in group) for group in groups))

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """Every category that is in it, in order of appearance."""
        return tuple(dict.fromkeys(name for sample in (*self.guide, *self.rest) for name in sample.category))


def _alike(sample: Sample) -> list[float]:
    """For rows that are multiples of one another: the largest share of outputs in which one of them is like that of the
    largest, which every statistic that crosses rows is most like."""
    with np.errstate(all="ignore"):
        x, y = sample.case.x.astype(np.float64), sample.candidate.astype(np.float64)
        pattern = x / x[:, :1]
        starts = [row for row in range(len(x)) if row == 0 or not np.array_equal(pattern[row], pattern[row - 1])]
        found = []
        for rows in np.split(np.arange(len(x)), starts[1:]):
            largest = rows[np.abs(x[rows, 0]).argmax()]
            near = (np.abs(y[rows] - y[largest]) <= ALIKE * np.abs(y[largest])) & (y[largest] != 0)
            found += sorted(near.mean(axis=-1)[rows != largest])[-1:]
    return found


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
    cases: list[Sample] = field(default_factory=list)

    def add(self, case: Case, reference: Array, candidate: Array) -> None:
        """Keeps a case, and chooses rows of it. case: as the candidate was fed, so with its gains."""
        name = case.category
        if name in LEFT_OUT or reference.shape != candidate.shape:
            return
        whole = _whole(case, reference, candidate)
        self.cases.append(whole if whole.rows <= MOST_WHOLE else whole.taken(np.array(_spread(whole.rows, MOST_WHOLE))))
        of_its_kind = sum(each.case.category == name for each in self.cases)
        if name not in ("gains", "tail") and of_its_kind > MOST_CASES:
            return
        guiding, others = _choose(case, reference, candidate)
        if len(guiding) and self._guides(case):
            self.parts.append(whole.taken(guiding))
        else:
            others = np.union1d(guiding, others).astype(int)
        if len(others):
            self.later.append(whole.taken(others))

    def evidence(self) -> Evidence:
        """What was gathered, with rows of the same gain and bias put together."""
        return Evidence(_together(self.parts), _together(self.later), tuple(self.cases))

    def _guides(self, case: Case) -> bool:
        own_width = case.width == self.width
        return own_width and (case.category != "gains" or case.label.partition(",")[0] in GUIDING_GAINS)


def _choose(case: Case, reference: Array, candidate: Array) -> tuple[Array, Array]:
    """Rows for every hypothesis, and further ones; spread evenly over the case, and the one with most differences."""
    differing = unlike(reference, candidate).sum(axis=-1)
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


def _whole(case: Case, reference: Array, candidate: Array) -> Sample:
    rows = len(case.x)
    return Sample(
        case=case,
        reference=reference,
        candidate=candidate,
        category=(case.category,) * rows,
        number=tuple(range(rows)),
        whole=True,
    )


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


def unlike(first: Array, second: Array) -> Array:
    """Where two outputs are not the same, quickly: of one dtype, by their bits."""
    if first.dtype == second.dtype:
        differing: Array = bits(first) != bits(second)
        return differing
    apart: Array = steps(first, second) != 0
    return apart


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
    if found.dtype != wanted.dtype:  # told in ulp of the finer one, so that a coarser one does not look nearer
        precision = [FORMATS[word_of(each)].precision for each in (found, wanted)]
        return _far(np.abs(steps(found, wanted))) + ANOTHER_DTYPE + max(precision) - min(precision)
    far: Array = np.zeros(len(found))
    rows = np.flatnonzero((bits(found) != bits(wanted)).any(axis=-1))
    if len(rows):
        half = FORMATS[word_of(found)].bits == 16
        far[rows] = _far_in_half(found[rows], wanted[rows]) if half else _far(np.abs(steps(found[rows], wanted[rows])))
    return far


def _far(apart: Array) -> Array:
    far: Array = np.minimum(np.log2(1.0 + apart), BEYOND).mean(axis=-1)
    return far


def _far_in_half(found: Array, wanted: Array) -> Array:
    """As `_far`, of two arrays of one 16-bit dtype: by tables, where all of their values are finite."""
    places, logarithms = _places(word_of(found)), _logarithms()
    one, two = places[bits(found)], places[bits(wanted)]
    if max(one.max(), two.max()) == NOT_FINITE:
        return _far(np.abs(steps(found, wanted)))
    far: Array = logarithms[np.abs(one - two)].mean(axis=-1)
    return far


@cache
def _places(word: str) -> Array:
    """The place of every pattern of a 16-bit dtype on the ordered line of its values; NOT_FINITE for what has none."""
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(word))
    return np.where(np.isfinite(values.astype(np.float32)), ordered(values), NOT_FINITE)


@cache
def _logarithms() -> Array:
    """log2(1 + n) for every distance of two places."""
    found: Array = np.log2(1.0 + np.arange(1 << 16))
    return found
