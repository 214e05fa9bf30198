"""The quick path: a block of one dtype in which many elements differ, in about a dozen passes that stay in the cache.

The passes work in the screening dtype: float32 for formats up to 32 bits, float64 for float64. They are trusted only where
every d/|reference| is below 1/2: there the subtraction is exact (Sterbenz), no sign is crossed and no reference is zero
under a non-zero candidate. Any other block is handed back. Of the elements only those go on that a corner of the prefilter
does not stand for; rounding is monotone, so the screening quotient can hide none of them.
"""

import numpy as np

from rmsaudit.arrays import Array, bits, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.measure.prefilter import Contenders
from rmsaudit.measure.tally import Tally

BLOCK = 1 << 15  # elements; the buffers of a float32 block, 128 KiB each, stay in the L2 cache
_FOLDS = 16  # a block is looked at as so many rows, of which the largest of each column is found first


class DensePath:
    """Buffers for blocks of exactly BLOCK elements of two flat tensors of one dtype."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        word = word_of(tally.reference)
        self.screening = np.dtype(np.float64 if word == "float64" else np.float32)
        self.error, self.quotient, self.wide_reference, self.wide_candidate = np.empty((4, BLOCK), self.screening)
        self.steps = np.empty(BLOCK, np.dtype(f"i{FORMATS[word].bits // 8}"))
        self.larger = np.empty(BLOCK, bool)
        self.beyond: tuple[Array, Contenders] | None = None

    def examine(self, start: int, differing: int) -> bool:
        """Takes in the block at `start`, of which `differing` elements differ in bits. False: it must be handled otherwise."""
        block = slice(start, start + BLOCK)
        reference, candidate = self._widened(block)
        with np.errstate(all="ignore"):
            np.abs(np.subtract(candidate, reference, out=self.error), out=self.error)
            errors = _folded(self.error).max(axis=0)
            np.divide(self.error, np.abs(reference, out=self.quotient), out=self.quotient)
            quotients = np.fmax.reduce(_folded(self.quotient), axis=0)  # passes over 0/0, which is no error
        if not (np.isfinite(errors).all() and np.fmax.reduce(quotients) < 0.5 and self._count(block, differing)):
            return False
        if not self.tally.prefilter.kept.at.size:
            self._hand_on(start, np.arange(0, BLOCK, _FOLDS), reference, candidate)
        corner = self.tally.prefilter.corner(errors, quotients)
        self._hand_on(start, self._suspects(corner, errors, quotients), reference, candidate)
        return True
