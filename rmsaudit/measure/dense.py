"""The quick path: blocks of one dtype in which many elements differ, in about a dozen passes that stay in the cache.

The passes work in the screening dtype: float32 for formats up to 32 bits, float64 for float64. They hold for an element
where d/|reference| < 1/2: both values are finite then, the subtraction is exact (Sterbenz) and no sign is crossed. The
others, if they are few, are left to the general path. Of the rest only those go on that one corner, an element on the
frontier so far, does not stand for; rounding is monotone, so the screening quotient can hide none of them.
"""

from typing import Any, NamedTuple

import numpy as np

from rmsaudit.arrays import Array, bits, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.measure.tally import Tally

BLOCK = 1 << 16  # elements at most: buffers that stay in the cache, and few calls an element
_FEW = 1 << 12  # a tensor with fewer elements goes the general path, which has fewer calls
_FOLDS = 32  # a block is looked at as so many rows, of which the largest of each column is found first
_ENOUGH = 1024  # suspects that wait before they are looked at together


class _Beyond(NamedTuple):
    """What a corner does not stand for has a larger error or at least this quotient; scalars of the screening dtype."""

    error: Any
    quotient: Any


class DensePath:
    """Works through blocks of exactly `size` elements of two flat tensors of one dtype, into a tally.

    To be used under np.errstate(all="ignore"). Call `settle` after the last block.
    """

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.size = min(BLOCK, tally.reference.size // _FOLDS * _FOLDS) or BLOCK
        self.many = self.size // 16  # picking so many elements costs more than passes over a whole block
        if self.size < _FEW:
            self.many = self.size + 1
        word = word_of(tally.reference)
        self.screening = np.dtype(np.float64 if word == "float64" else np.float32)
        self.error, self.quotient, self.wide_reference, self.wide_candidate = np.empty((4, self.size), self.screening)
        self.short = FORMATS[word].precision <= 11
        self.steps = np.empty(self.size, np.dtype(f"i{FORMATS[word].bits // 8}"))
        self.usual = np.empty(self.size, bool)
        nothing = self.screening.type(0)
        self.beyond = _Beyond(nothing, np.nextafter(nothing, self.screening.type(1)))
        self.suspects: list[Array] = []
        self.waiting = 0

    def examine(self, start: int, differs: Array) -> bool:
        """Takes in what it can from `start` on; `differs` masks what differs in bits, and keeps the elements left over.

        True where every block was taken, so that every value that is not finite is among those left over.
        """
        offsets = range(0, differs.size, self.size)
        taken = [self._examine_block(start + at, differs[at : at + self.size]) for at in offsets]
        return all(taken)

    def settle(self) -> None:
        """Offers the waiting suspects to the prefilter."""
        if not self.suspects:
            return
        at = np.concatenate(self.suspects)
        self.suspects.clear()
        self.waiting = 0
        reference, candidate = (side[at].astype(np.float64) for side in (self.tally.reference, self.tally.candidate))
        self.tally.offer_errors(at, reference, candidate)

    def _examine_block(self, start: int, differs: Array) -> bool:
        """False, and nothing is taken, where it does not pay: too few elements differ, or too many are unusual."""
        if differs.size != self.size or np.count_nonzero(differs) < self.many:
            return False
        block = slice(start, start + self.size)
        self._divide(block)
        errors, quotients = self._maxima()
        unusual = np.empty(0, dtype=np.int64)
        if not quotients.max() < 0.5:  # NaN where a quotient is 0/0, or a value is not finite
            unusual = np.flatnonzero(~np.less(self.quotient, 0.5, out=self.usual))
            if unusual.size > self.size // 2:
                return False
            self.error[unusual] = self.quotient[unusual] = 0
            errors, quotients = self._maxima()
        self._count(block, differs, unusual)
        self._suspect(start, errors, quotients)
        return True

    def _divide(self, block: slice) -> None:
        """d and d/|reference| of every element, into their buffers."""
        reference, candidate = self.tally.reference[block], self.tally.candidate[block]
        if reference.dtype != self.screening:
            self.wide_reference[:], self.wide_candidate[:] = reference, candidate
            reference, candidate = self.wide_reference, self.wide_candidate
        np.abs(np.subtract(candidate, reference, out=self.error), out=self.error)
        np.divide(self.error, np.abs(reference, out=self.quotient), out=self.quotient)

    def _maxima(self) -> tuple[Array, Array]:
        """The largest d and the largest quotient of each column of the folded block."""
        return _folded(self.error).max(axis=0), _folded(self.quotient).max(axis=0)

    def _count(self, block: slice, differs: Array, unusual: Array) -> None:
        """Counts all but the unusual. Both sides have one sign: a positive step goes toward the larger magnitude."""
        reference, candidate = (bits(side[block]) for side in (self.tally.reference, self.tally.candidate))
        np.subtract(candidate, reference, out=self.steps.view(candidate.dtype))
        left_over = unusual[differs[unusual] | ~np.isfinite(self.tally.reference[block][unusual])]
        self.steps[unusual] = 0
        differs[unusual] = False
        self.tally.differing += int(np.count_nonzero(differs))
        self.tally.candidate_larger += int(np.count_nonzero(np.greater(self.steps, 0, out=self.usual)))
        most = max(int(self.steps.max()), -int(self.steps.min()))
        if most > self.tally.max_ulp:
            first = np.argmax((self.steps == most) | (self.steps == -most))
            self.tally.offer_ulp(most, block.start + int(first))
        differs[:] = False
        differs[left_over] = True

    def _suspect(self, start: int, errors: Array, quotients: Array) -> None:
        """Notes what the corner does not stand for; `errors` and `quotients` are the largest of each column."""
        columns = np.flatnonzero(self._is_beyond(errors, quotients))
        if columns.size > _FOLDS:  # another corner may do better here
            if not self.tally.prefilter.kept.at.size:  # a start, with the first of any equal elements in it
                self._note(start, np.append(np.arange(self.size // _FOLDS), self.error.argmax()))
            self._choose(errors, quotients)
            columns = np.flatnonzero(self._is_beyond(errors, quotients))
        if 4 * columns.size > errors.size:
            self._note(start, np.flatnonzero(self._is_beyond(self.error, self.quotient)))
        elif columns.size:
            fold, column = np.nonzero(
                self._is_beyond(_folded(self.error)[:, columns], _folded(self.quotient)[:, columns])
            )
            self._note(start, fold * (self.size // _FOLDS) + columns[column])
        if self.waiting >= _ENOUGH:
            self.settle()

    def _note(self, start: int, at: Array) -> None:
        """Lets the elements `at` of the block wait, but for those that are equal or unusual: their error is 0."""
        at = at[self.error[at] > 0]
        self.suspects.append(start + at)
        self.waiting += at.size

    def _is_beyond(self, errors: Array, quotients: Array) -> Array:
        found: Array = (errors > self.beyond.error) | (quotients >= self.beyond.quotient)
        return found

    def _choose(self, errors: Array, quotients: Array) -> None:
        """Takes the bounds of the corner that stands for the most of this block.

        In a format of at most 11 bits, d below |reference|/2 has no more bits either (Sterbenz). So two quotients that
        differ do so by 2^-22 of their size, and float32 keeps them apart: a corner stands for its ties. Elsewhere ties
        must go on, and the corner's quotient, which was rounded to float64 before, is taken a step lower.
        """
        self.settle()
        corner = self.tally.prefilter.corner(errors, quotients)
        if self.screening == np.float64:
            self.beyond = _Beyond(corner.error, corner.quotient)
            return
        error, quotient = corner.error.astype(np.float32), corner.quotient.astype(np.float32)
        error = error if error <= corner.error else np.nextafter(error, np.float32(0))
        if self.short and quotient < 0.5 and self.tally.prefilter.exact:
            self.beyond = _Beyond(error, np.nextafter(quotient, np.float32(1)))
        else:
            self.beyond = _Beyond(error, np.nextafter(quotient, np.float32(0)))


def _folded(buffer: Array) -> Array:
    return buffer.reshape(_FOLDS, -1)
