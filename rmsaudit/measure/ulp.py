"""Steps between two values along the ordered values of one format: −0 and +0 are one place, subnormals are counted."""

import numpy as np

from rmsaudit.arrays import Array, bits, round_to, word_of
from rmsaudit.formats import FORMATS


def coarser(one: str, other: str) -> str:
    """Of two dtypes the one with fewer significant bits; of two with the same, `one`."""
    return min(one, other, key=lambda word: FORMATS[word].precision)


def ulp_distance(reference: Array, candidate: Array) -> Array:
    """Steps between the two in the coarser of their dtypes, into which both are rounded; unsigned, of its size.

    What overflows there counts as one step beyond the largest value. Where either is NaN the number has no meaning.
    """
    unit = coarser(word_of(reference), word_of(candidate))
    with np.errstate(over="ignore", invalid="ignore"):
        reference_bits, candidate_bits = (bits(round_to(side, unit)) for side in (reference, candidate))
    sign = reference_bits.dtype.type(1 << (FORMATS[unit].bits - 1))
    one, other = reference_bits & ~sign, candidate_bits & ~sign
    apart = np.maximum(one, other) - np.minimum(one, other)  # of one sign; unsigned, so that nothing overflows
    crossing = (reference_bits ^ candidate_bits) & sign != 0
    steps: Array = np.where(crossing, one + other, apart)
    return steps
