"""The quick path: a block of one dtype in which many elements differ, in about a dozen passes that stay in the cache.

The passes work in the screening dtype: float32 for formats up to 32 bits, float64 for float64. They are trusted only where
every d/|reference| is below 1/2: there the subtraction is exact (Sterbenz), no sign is crossed and no reference is zero
under a non-zero candidate. Any other block is handed back. Of the elements only those go on that one corner, an element on
the frontier so far, does not stand for; rounding is monotone, so the screening quotient can hide none of them.
"""

from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array, bits, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.measure.prefilter import Contenders
from rmsaudit.measure.tally import Tally

BLOCK = 1 << 15  # elements; the buffers of a float32 block, 128 KiB each, stay in the L2 cache
_FOLDS = 16  # a block is looked at as so many rows, of which the largest of each column is found first
_ENOUGH = 1024  # suspects that wait before they are looked at together


class _Beyond(NamedTuple):
    """An element that the corner does not stand for has a larger error, or at least this quotient; in the screening dtype."""

    error: Array
    quotient: Array
    judged_by: Contenders  # what the prefilter kept when this was chosen


class DensePath:
    """Buffers for blocks of exactly BLOCK elements of two flat tensors of one dtype. Call `settle` after the last block."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        word = word_of(tally.reference)
        self.screening = np.dtype(np.float64 if word == "float64" else np.float32)
        self.error, self.quotient, self.wide_reference, self.wide_candidate = np.empty((4, BLOCK), self.screening)
        self.steps = np.empty(BLOCK, np.dtype(f"i{FORMATS[word].bits // 8}"))
        self.larger = np.empty(BLOCK, bool)
        self.beyond: _Beyond | None = None
        self.suspects: list[Array] = []

    def examine(self, start: int, differing: int) -> bool:
        """Takes in the block at `start`, of which `differing` elements differ in bits; or False: this path cannot."""
        block = slice(start, start + BLOCK)
        reference, candidate = self._widened(block)
        with np.errstate(all="ignore"):
            np.abs(np.subtract(candidate, reference, out=self.error), out=self.error)
            errors = _folded(self.error).max(axis=0)
            np.divide(self.error, np.abs(reference, out=self.quotient), out=self.quotient)
            quotients = np.fmax.reduce(_folded(self.quotient), axis=0)  # passes over 0/0, which is no error
        exact = np.isfinite(errors).all() and np.fmax.reduce(quotients) < 0.5
        if not exact or not self._count(block, differing):
            return False
        self._suspect(start, errors, quotients)
        return True

    def settle(self) -> None:
        """Offers the waiting suspects to the prefilter."""
        if not self.suspects:
            return
        at = np.concatenate(self.suspects)
        self.suspects.clear()
        reference, candidate = (side[at].astype(np.float64) for side in (self.tally.reference, self.tally.candidate))
        unequal = reference != candidate
        self.tally.offer_errors(at[unequal], reference[unequal], candidate[unequal])

    def _widened(self, block: slice) -> tuple[Array, Array]:
        reference, candidate = self.tally.reference[block], self.tally.candidate[block]
        if reference.dtype == self.screening:
            return reference, candidate
        self.wide_reference[:], self.wide_candidate[:] = reference, candidate
        return self.wide_reference, self.wide_candidate

    def _count(self, block: slice, differing: int) -> bool:
        """Counts steps, which go toward the larger magnitude where positive. False where −0 stands beside +0."""
        reference, candidate = (bits(side[block]) for side in (self.tally.reference, self.tally.candidate))
        np.subtract(candidate, reference, out=self.steps.view(candidate.dtype))
        up, down = int(self.steps.max()), int(self.steps.min())
        if down == np.iinfo(self.steps.dtype).min:
            return False
        self.tally.differing += differing
        self.tally.candidate_larger += int(np.count_nonzero(np.greater(self.steps, 0, out=self.larger)))
        if (most := max(up, -down)) > self.tally.max_ulp:
            first = np.argmax((self.steps == most) | (self.steps == -most))
            self.tally.offer_ulp(most, block.start + int(first))
        return True

    def _suspect(self, start: int, errors: Array, quotients: Array) -> None:
        """Notes the elements that no corner stands for; `errors` and `quotients` are the largest of each column."""
        if not self.tally.prefilter.kept.at.size:
            self.suspects.append(start + np.append(np.arange(0, BLOCK, _FOLDS), self.error.argmax()))
            self.settle()
        beyond = self._choose(errors, quotients)
        columns = np.flatnonzero((errors > beyond.error) | (quotients >= beyond.quotient))
        if not columns.size:
            return
        suspect = _folded(self.error)[:, columns] > beyond.error
        suspect |= _folded(self.quotient)[:, columns] >= beyond.quotient
        fold, column = np.nonzero(suspect)
        self.suspects.append(start + fold * (BLOCK // _FOLDS) + columns[column])
        if sum(map(len, self.suspects)) >= _ENOUGH:
            self.settle()

    def _choose(self, errors: Array, quotients: Array) -> _Beyond:
        """The bounds that follow from the best corner for this block; chosen again when the prefilter has moved."""
        prefilter = self.tally.prefilter
        if self.beyond is not None and self.beyond.judged_by is prefilter.kept:
            return self.beyond
        corner = prefilter.corner(errors, quotients)
        error, quotient = (value.astype(self.screening) for value in (corner.error, corner.quotient))
        if self.screening != np.float64:
            error = error if error <= corner.error else np.nextafter(error, np.float32(0))
            quotient = np.nextafter(quotient, np.float32(0))  # rounded twice, to float64 and to float32
        self.beyond = _Beyond(error, quotient, prefilter.kept)
        return self.beyond


def _folded(buffer: Array) -> Array:
    return buffer.reshape(_FOLDS, -1)
