"""Two tensors to the numbers between them, block by block, in memory that does not grow with the tensors."""

import numpy as np

from rmsaudit.arrays import Array, bits, bits_of, round_to, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.measure.dense import BLOCK, DensePath
from rmsaudit.measure.element import Element
from rmsaudit.measure.frontier import frontier, larger_error
from rmsaudit.measure.limits import Point
from rmsaudit.measure.measurement import Measurement, NonFinite, RowFactors
from rmsaudit.measure.row_factors import row_factors
from rmsaudit.measure.tally import NOWHERE, Tally

_PIECE = 1 << 14
_SCREENED = 4 * BLOCK  # elements whose bits are compared at once


def measure(
    reference: Array,
    candidate: Array,
    *,
    input: Array | None = None,  # noqa: A002 - the word of the record
    case: str = "",
    first_row: int = 0,
) -> Measurement:
    """How far the candidate lies from the reference, in this order: the reference is the denominator.

    reference, candidate, input: [rows, width], each in its own dtype. `case` and `first_row` name places in what is
    returned, so that blocks of rows and cases of a category can be measured apart and merged. `input` is only looked up
    for the elements that are kept. Raises ValueError for sides that are not of one shape.
    """
    tally = _scanned(reference, candidate)
    factors = row_factors(reference, candidate, case=case, first_row=first_row)
    return _Places(reference, candidate, input, case, first_row).measurement(tally, factors)


def _scanned(reference: Array, candidate: Array) -> Tally:
    if reference.shape != candidate.shape or reference.ndim != 2:
        raise ValueError(f"the sides must have one shape [rows, width], not {reference.shape} and {candidate.shape}")
    tally = Tally(np.ascontiguousarray(reference).reshape(-1), np.ascontiguousarray(candidate).reshape(-1))
    with np.errstate(all="ignore"):  # NaN, infinities and what overflows are what this is about
        scan = _scan_screened if reference.dtype == candidate.dtype else _scan_everything
        scan(tally)
    return tally


def _scan_everything(tally: Tally) -> None:
    for start in range(0, tally.reference.size, BLOCK):
        block = slice(start, start + BLOCK)
        tally.examine(start + np.arange(tally.reference[block].size), tally.reference[block], tally.candidate[block])


def _scan_screened(tally: Tally) -> None:
    """Elements with equal bits and a finite value need no look; few others wait until there are enough of them."""
    screen, dense, waiting = _Screen(tally.reference, tally.candidate), DensePath(tally), _Waiting(tally)
    for start in range(0, tally.reference.size, _SCREENED):
        left = screen.differs(start)
        count = int(np.count_nonzero(left))
        if count >= dense.many and dense.examine(start, left):
            count = int(np.count_nonzero(left))
        elif not screen.finite(start):
            count = screen.add_nonfinite(left)
        if count:
            waiting.add(start + np.flatnonzero(left))
    dense.settle()
    waiting.settle()


class _Waiting:
    """Elements that wait for the general path, which is quicker on many at a time; picked while the cache has them."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.picked: list[tuple[Array, Array, Array]] = []
        self.count = 0

    def add(self, at: Array) -> None:
        self.picked.append((at, self.tally.reference[at], self.tally.candidate[at]))
        self.count += at.size
        if self.count >= BLOCK:
            self.settle()

    def settle(self) -> None:
        if self.picked:
            at, reference, candidate = map(np.concatenate, zip(*self.picked, strict=True))
            for start in range(0, at.size, _PIECE):
                piece = slice(start, start + _PIECE)
                self.tally.examine(at[piece], reference[piece], candidate[piece])
        self.picked.clear()
        self.count = 0


class _Screen:
    """Looks at bits: which elements differ in them, and which references are not finite."""

    def __init__(self, reference: Array, candidate: Array) -> None:
        word = word_of(reference)
        self.values = reference if word in ("float32", "float64") else None  # numpy's isfinite is quick for these
        self.reference, self.candidate = bits(reference), bits(candidate)
        self.magnitude = bits_of(word).type((1 << (FORMATS[word].bits - 1)) - 1)
        self.first_not_finite = bits(round_to(np.array([FORMATS[word].max]), word))[0] + 1
        size = min(_SCREENED, reference.size)
        self.mask, self.is_finite = np.empty((2, size), dtype=bool)
        self.scratch = np.empty(size, dtype=self.reference.dtype)

    def differs(self, start: int) -> Array:
        """A mask of the elements from `start` on that differ in bits; valid until the next call."""
        reference, candidate = (side[start : start + _SCREENED] for side in (self.reference, self.candidate))
        return np.not_equal(reference, candidate, out=self.mask[: reference.size])

    def finite(self, start: int) -> bool:
        """Whether every reference from `start` on is finite."""
        reference = self.reference[start : start + _SCREENED]
        finite = self.is_finite[: reference.size]
        if self.values is not None:
            np.isfinite(self.values[start : start + _SCREENED], out=finite)
        else:
            magnitudes = np.bitwise_and(reference, self.magnitude, out=self.scratch[: reference.size])
            np.less(magnitudes, self.first_not_finite, out=finite)
        return bool(finite.all())

    def add_nonfinite(self, mask: Array) -> int:
        """Adds what `finite` has just found not to be so to a mask over the same elements; how many are set then."""
        np.greater_equal(mask, self.is_finite[: mask.size], out=mask)  # set, or not finite
        return int(np.count_nonzero(mask))


class _Places:
    """Names the elements that a tally has kept."""

    def __init__(self, reference: Array, candidate: Array, x: Array | None, case: str, first_row: int) -> None:
        self.reference, self.candidate, self.x = reference, candidate, x
        self.case, self.first_row = case, first_row

    def measurement(self, tally: Tally, factors: RowFactors) -> Measurement:
        kept = tally.prefilter.kept
        over_zero = [Point(0.0, tally.zero_error)] if tally.zero_reference else []
        largest, steepest = (int(at[0]) if at.size else NOWHERE for at in (kept.at, tally.prefilter.steepest.at))
        return Measurement(
            unit=tally.unit,
            elements=self.reference.size,
            differing=tally.differing,
            signed_zero=tally.signed_zero,
            zero_reference=tally.zero_reference,
            candidate_larger=tally.candidate_larger,
            max_ulp=tally.max_ulp,
            nonfinite=NonFinite(
                reference=tally.reference_classes,
                candidate=tally.candidate_classes,
                mismatched=tally.mismatched,
                first=self.element(tally.mismatched_at),
            ),
            frontier=frontier([*kept.points(), *over_zero]),
            frontier_exact=tally.prefilter.exact,
            largest_abs=larger_error(self.element(largest), self.element(tally.zero_at)),
            largest_rel=self.element(steepest),
            largest_ulp=self.element(tally.max_ulp_at),
            row_factors=factors,
        )

    def element(self, index: int) -> Element | None:
        if index == NOWHERE:
            return None
        row, column = divmod(index, self.reference.shape[1])
        return Element(
            case=self.case,
            row=self.first_row + row,
            column=column,
            reference=float(self.reference[row, column]),
            candidate=float(self.candidate[row, column]),
            input=None if self.x is None else float(self.x[row, column]),
        )
