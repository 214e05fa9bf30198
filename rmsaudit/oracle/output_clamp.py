"""The last step, y limited to ± a number, after the rounding instead of before it.

Rounding is monotone, so round(min(y, limit)) = min(round(y), round(limit)). On bit patterns that holds for overflow
too: infinity, or the NaN that stands for it in a format without infinity, is the position after the largest finite
value.
"""

import numpy as np

from rmsaudit.arrays import Array, bits, bits_of, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.oracle import positions
from rmsaudit.oracle.formulas import Formula


def edge_of(formula: Formula, word: str) -> int | None:
    """The position of the limit in a format, or None where there is no limit."""
    limit = formula.output_clamp
    return None if limit is None else positions.of_fraction(limit, FORMATS[word])


def limited(values: Array, edge: int | None) -> Array:
    """Values that were rounded from real numbers (any NaN among them stands for overflow), limited to ± the edge."""
    if edge is None:
        return values
    word = word_of(values)
    unsigned = bits_of(word).type
    sign_bit = unsigned(1 << (FORMATS[word].bits - 1))
    patterns = bits(values)
    magnitudes = np.minimum(patterns & ~sign_bit, unsigned(edge))
    limited_patterns: Array = (patterns & sign_bit) | magnitudes
    return limited_patterns.view(values.dtype)
