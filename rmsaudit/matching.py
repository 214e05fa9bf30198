"""Whether an emulated spec is the candidate: bit for bit, up to what the order of a sum can do, or not.

Other orders are run, never guessed at: their spread on the very rows is what is put down to them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Literal

import numpy as np

from rmsaudit import gains
from rmsaudit.arrays import Array, bits
from rmsaudit.emulator import emulate
from rmsaudit.evidence import Sample, steps, unlike
from rmsaudit.formats import FORMATS
from rmsaudit.semantics import NormSpec, factor_of, finish, gain, reduce
from rmsaudit.semantics.arithmetic import Arithmetic
from rmsaudit.semantics.resolve import at_width

ORDERS = ("pairwise", "sequential", "torch_cpu", "lanes:8", "exact")
"""Reduction orders whose spread is what order alone can do; the largest terms first is one more."""
FLIPS = 4.0
"""How many times the likely number of 16-bit outputs that an order moves by one ulp is still put down to it."""
EXACT = ("exact-sum", "zero")
"""Rows whose squares add up exactly, so that no order can move them: where the input itself is squared."""
UNLUCKY = 5.0
"""How many standard deviations of a running sum of n squares (√(n/12) roundoffs of its root) are put down to order."""
OTHER_ORDERS = 2.0
"""How many times farther than the orders that are run an order that is not run may be."""
MOST_FLIPS, LUCK = 2.0**-9, 4
"""Over everything looked at: no more 16-bit outputs than this share and this number may be put down to order."""
GROSS_FLIPS = 2.0**-4
"""More than this share of 16-bit outputs that differ needs no orders to be run."""
TOLD_APART = 3
"""How many of the rows of a sample that contradict a spec are handed back."""

Word = Literal[
    "bit-equal", "explainable by rounding", "not explainable by rounding", "not observable with these inputs"
]


@dataclass(frozen=True, eq=False)
class Match:
    """How an emulated spec meets the candidate. share: of the elements that differ from the reference, those met.

    word: bit-equal, or explainable by rounding where only the order of the sum can be behind what is left; None where
    something else is. worst: the largest distance left, in ulp.
    """

    word: Word | None
    share: float
    worst: int
    left_in: tuple[str, ...]


NO_MATCH = Match(None, 0.0, 0, ())


@dataclass(frozen=True)
class Emulated:
    """What is run: a spec, and the form of the gains (one of `gains.FORMS`) that it multiplies by; None for the gains
    as they are."""

    spec: NormSpec
    form: str | None = None

    def on(self, sample: Sample) -> Array:
        """The output on a sample; the candidate's own, at another width that says nothing about the spec."""
        spec = self.spec
        other_width = spec.width != sample.case.width
        fitted = at_width(spec, sample.case.width) if other_width else spec
        counted = isinstance(spec.statistic_width, int) and other_width
        if fitted is None or counted:
            return sample.candidate
        case = sample.case
        if self.form is not None:
            case = case.with_gain(gains.transformed(case.gain, self.form))
        return emulate(fitted, case)

    def summed(self, order: str) -> "Emulated":
        """The same with the sum in another order."""
        return Emulated(replace(self.spec, accumulate_order=order), self.form)


@dataclass
class Meeting:
    """A spec held against one sample after another.

    orders: whether what other orders of the sum can do is met as well. flips: 16-bit outputs that differ, beyond the
    share of all that orders may move. contrary: rows of the first sample with such that are not met.
    """

    met_by: Emulated
    orders: bool = True
    differing: int = 0
    met: int = 0
    worst: float = 0.0
    flips: float = 0.0
    equal: bool = True
    left: dict[str, None] = field(default_factory=dict)
    contrary: Sample | None = None

    def add(self, sample: Sample) -> None:
        """Holds it against one more sample, and counts what is met."""
        _, unmet = self.hold(sample, self.met_by.on(sample))
        changed = unlike(sample.reference, sample.candidate)
        self.differing += int(changed.sum())
        self.met += int((changed & ~unmet).sum())

    def hold(self, sample: Sample, output: Array) -> tuple[Array, Array]:
        """How many ulp `output` is apart from the sample's, and where that is not met; both [rows, width]."""
        if output.dtype != sample.candidate.dtype:
            self.equal = False
            self._note(sample, np.arange(sample.rows))
            return np.zeros(output.shape), np.ones(output.shape, dtype=bool)
        apart = steps(output, sample.candidate)
        if not apart.any():
            return apart, apart != 0
        self.equal = False
        self.worst = max(self.worst, float(np.abs(apart[np.isfinite(apart)]).max(initial=0.0)))
        if _is_narrow(self.met_by.spec) and not _has_wide_factor(self.met_by.spec):
            self.flips += np.count_nonzero(apart) - MOST_FLIPS * apart.size
        unmet: Array = np.abs(apart) > (_allowed(self.met_by, sample, output, apart) if self.orders else 0.0)
        if unmet.any():
            furthest = np.argsort(-np.where(unmet, np.abs(apart), 0.0).max(axis=-1), kind="stable")
            self._note(sample, furthest[: int(unmet.any(axis=-1).sum())])
        return apart, unmet

    def _note(self, sample: Sample, rows: Array) -> None:
        self.left |= dict.fromkeys(sample.category[row] for row in rows)
        if self.contrary is None:
            self.contrary = sample.taken(rows[:TOLD_APART]) if self.met_by.spec.axes == (-1,) else sample

    @property
    def word(self) -> Word | None:
        """What may be said after everything that was added."""
        if self.equal:
            return "bit-equal"
        return None if self.left or self.flips > LUCK else "explainable by rounding"

    def match(self) -> Match:
        """All of it in numbers."""
        share = self.met / self.differing if self.differing else 0.0
        return Match(self.word, share, int(self.worst), tuple(self.left))


def met(by: Emulated, samples: Iterable[Sample], *, orders: bool = True) -> Meeting:
    """`by` held against all samples."""
    meeting = Meeting(by, orders)
    for sample in samples:
        meeting.add(sample)
    return meeting


def contradicted(meeting: Meeting, samples: Sequence[Sample]) -> Sample | None:
    """Rows that contradict what has met everything so far, of the first of these samples that has any.

    Differing outputs where sums are exact, and more 16-bit ones than any order moves, are looked for first: that takes
    no orders to be run.
    """
    by = meeting.met_by
    left = LUCK + GROSS_FLIPS * sum(sample.candidate.size for sample in samples)
    outputs: list[Array] = []
    for sample in samples:
        outputs.append(by.on(sample))
        differing = _differing(outputs[-1], sample.candidate)
        left -= int(differing.sum())
        exact = np.isin(np.array(sample.category), EXACT) & (differing > 0) & squares_the_input(by.spec)
        if (left < 0 and _is_narrow(by.spec)) or exact.any():
            worst = np.argsort(-differing * (1 + exact), kind="stable")[:TOLD_APART]
            return sample.taken(worst) if by.spec.axes == (-1,) else sample
    for sample, output in zip(samples, outputs, strict=True):
        meeting.hold(sample, output)
        if meeting.contrary is not None:
            return meeting.contrary
    return None


def _differing(output: Array, candidate: Array) -> Array:
    """How many outputs of each row differ."""
    if output.dtype == candidate.dtype and np.array_equal(bits(output), bits(candidate)):
        return np.zeros(len(output), dtype=int)
    found: Array = np.count_nonzero(steps(output, candidate), axis=-1)
    return found


def _is_narrow(spec: NormSpec) -> bool:
    return FORMATS[spec.output_dtype].bits < 32


def _allowed(by: Emulated, sample: Sample, output: Array, apart: Array) -> Array:
    """How many ulp the order of the sum may be behind, [rows, width]; 0 in rows where orders agree."""
    allowed = np.zeros(output.shape)
    spec = at_width(by.spec, sample.case.width)
    rows = np.flatnonzero(apart.any(axis=-1) & _perhaps_by_order(by.spec, apart))
    if not len(rows) or spec is None or FORMATS[spec.accumulate_dtype].precision < 24:
        return allowed
    rows_alone = spec.axes == (-1,)
    if not rows_alone:
        rows = np.arange(len(apart))
    by, part = Emulated(spec, by.form), sample.taken(rows) if rows_alone else sample
    if _is_narrow(spec) and rows_alone and _has_wide_factor(spec):
        beyond, moved = _by_factor(by, part, apart[rows])
    else:
        beyond, moved = _by_orders(by, part, output[rows], apart[rows])
    exact = np.isin(np.array(part.category), EXACT)[:, None] & rows_alone & (moved == 0)
    allowed[rows] = np.where(exact, 0.0, beyond)
    return allowed


def _has_wide_factor(spec: NormSpec) -> bool:
    """True where all that an order moves is the factor of a row, which is held in at least 24 bits."""
    held = (spec.mean_dtype, spec.statistic_dtype, spec.inverse_dtype)
    return not spec.center and all(FORMATS[word].precision >= 24 for word in held)


def _by_factor(by: Emulated, part: Sample, apart: Array) -> tuple[Array, Array]:
    """How many ulp 16-bit outputs move by where the factor of their row does, and how far orders move that: [rows, 1].

    Only outputs that stand beside a rounding boundary are moved, by the last products formed anew on both sides of the
    factor; each to the side on which the candidate is.
    """
    spec, case = by.spec, part.case
    arithmetic = Arithmetic(spec.subnormals, spec.rounding)
    gain_values = case.gain if by.form is None else gains.transformed(case.gain, by.form)
    with np.errstate(all="ignore"):
        factor = factor_of(spec, gain_values, part.rows, arithmetic)
        first, *others = (
            reduce(replace(spec, accumulate_order=order), case.x, case.residual, factor, arithmetic)
            for order in (spec.accumulate_order, *ORDERS)
        )
        scale = first.scale.astype(np.float64)
        moved = np.max([np.abs(other.scale.astype(np.float64) / scale - 1.0) for other in others], axis=0) * 2.0**24
        moved = np.where(np.isfinite(moved), moved, 0.0).max(axis=(1, 2))[:, None]
        off = (OTHER_ORDERS * np.maximum(moved, _absorbed(spec, part)) + 2.0)[:, :, None] * 2.0**-24
        ends = []
        for end in (1.0 - off, 1.0 + off):
            there = first._replace(scale=(scale * end).astype(first.scale.dtype))
            ends.append(finish(spec, there, factor, case.bias, case.x.shape, arithmetic))
        given = finish(spec, first, factor, case.bias, case.x.shape, arithmetic)
    sides = [steps(given, end) for end in ends]
    upwards, downwards = np.maximum(*sides), -np.minimum(*sides)
    beyond: Array = np.maximum(np.where(apart > 0, upwards, downwards), 0.0)
    return np.where(np.isfinite(beyond), beyond, 0.0), moved


def _by_orders(by: Emulated, part: Sample, output: Array, apart: Array) -> tuple[Array, Array]:
    """How many ulp outputs move by where the sum is formed in other orders, and by how much those differ: [rows, 1]."""
    ran = [steps(output, by.summed(order).on(part)) for order in ORDERS]
    low, high = np.minimum(np.min(ran, axis=0), 0.0), np.maximum(np.max(ran, axis=0), 0.0)
    spread = np.where(np.isfinite(high - low), high - low, 0.0).max(axis=-1, keepdims=True)
    absorbed = _absorbed(by.spec, part)
    if not _is_narrow(by.spec):  # any row may have the luck of any other
        walk = UNLUCKY * sqrt(part.case.width / 12)
        luck = max(OTHER_ORDERS * float(spread.max(initial=0.0)), walk) + 2.0
        return np.broadcast_to(np.maximum(luck, OTHER_ORDERS * absorbed), apart.shape), spread
    beyond = np.maximum(np.maximum(high, -low), 0.0) + spread
    few = _few_flips(by, part, apart, absorbed)
    return np.where(few, np.maximum(beyond, _flip(by.spec)), beyond), spread


def _absorbed(spec: NormSpec, part: Sample) -> Array:
    """How many float32 ulp rows move by where their largest elements are added up first, so that the running sum
    absorbs the others: [rows, 1]; 0 where the rows are not added up as they are."""
    if (
        spec.axes != (-1,)
        or spec.groups > 1
        or spec.statistic_width != "all"
        or spec.gain_position != "after_normalize"
    ):
        return np.zeros((part.rows, 1))
    case = part.case
    order = np.argsort(-np.abs(case.x.astype(np.float64)), axis=-1, kind="stable")
    first = replace(
        case,
        x=np.take_along_axis(case.x, order, axis=-1),
        residual=np.take_along_axis(case.residual, order, axis=-1),
    )
    plain = replace(spec, gain_applied=False, bias=False, cast_point="after_gain", output_dtype="float32")
    given = np.take_along_axis(emulate(plain, case), order, axis=-1)
    moved = np.abs(steps(given, emulate(replace(plain, accumulate_order="sequential"), first)))
    found: Array = np.where(np.isfinite(moved), moved, 0.0).max(axis=-1, keepdims=True)
    return found


def squares_the_input(spec: NormSpec) -> bool:
    """True where nothing is done to a row before it is squared, so that exact sums are exact."""
    plain = spec.input_clamp == spec.prescale == spec.residual == "none" and spec.gain_position == "after_normalize"
    direct = spec.statistic_algorithm == "direct" and spec.mean_scaling != "per_element"
    return plain and direct and spec.axes == (-1,) and not spec.center and spec.statistic != "variance"


def _perhaps_by_order(spec: NormSpec, apart: Array) -> Array:
    """Rows of `apart` that are not farther off than any order can move them; the others need no orders run. bool [rows]

    A sum of n squares of p bits in any order is n roundoffs 2^-p off at most, two sums twice that, their roots half of
    it: n 2^-p relative, so n ulp of p bits. That may move an intermediate of fewer bits to its neighbour. Four times
    both is for the roundings that follow. Where the mean is subtracted first, a difference is taken of numbers that may
    be much larger, and there is no such bound.
    """
    if spec.center or spec.statistic == "variance" or spec.statistic_algorithm != "direct":
        return np.ones(len(apart), dtype=bool)
    width, precision = apart.shape[-1], FORMATS[spec.output_dtype].precision
    row = min(FORMATS[word].precision for word in (spec.mean_dtype, spec.statistic_dtype, spec.inverse_dtype))
    element = min(
        FORMATS[word].precision for word in (spec.compute_dtype, spec.normalized_dtype, spec.gain_product_dtype)
    )
    most = 4.0 * (width * 2.0 ** (precision - 24) + 2.0 ** (precision - min(row, element, precision) + 1))
    near: Array = np.abs(apart).max(axis=-1) <= most
    return near


def _flip(spec: NormSpec) -> float:
    """How many ulp an output moves by where its normalised value is beside a rounding boundary.

    Its own rounding moves it by one. A value of 16 bits that is rounded before the gain moves by one ulp as well, which
    may be two of the product; a constant factor rounds once more.
    """
    point = gain.rounding_point(spec, spec.compute_dtype)
    if FORMATS[point].precision >= 24:
        return 1.0
    return 2.0 if spec.post_scale == "none" else 3.0


def _few_flips(by: Emulated, part: Sample, apart: Array, absorbed: Array) -> Array:
    """Rows in which no more 16-bit outputs moved by one ulp than their order can be behind, bool [rows, 1].

    A factor that orders move by s float32 ulp moves a share of about s · 2^(p − 24) of the outputs of p bits over
    a rounding boundary.
    """
    wide = Emulated(replace(by.spec, output_dtype="float32", cast_point="after_gain", gain_product_dtype="float32"))
    base = wide.summed("exact").on(part)
    moved = [steps(base, wide.summed(order).on(part)) for order in ("pairwise", "sequential", "lanes:8")]
    found = np.abs(np.stack(moved)).max(axis=(0, 2))
    found = np.maximum(np.where(np.isfinite(found), found, 0.0), absorbed[:, 0])
    share = FLIPS * (found + 2.0) * 2.0 ** (FORMATS[by.spec.output_dtype].precision - 24)
    few: Array = np.count_nonzero(apart, axis=-1) <= np.maximum(1.0, share * apart.shape[-1])
    return few[:, None]
