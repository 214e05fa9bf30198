"""The format that values were last rounded to, whatever they are stored in."""

import numpy as np

from rmsaudit.arrays import Array, round_to, word_of
from rmsaudit.formats import FORMATS

_COARSE_FIRST = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "float32")


def grid_of(values: Array) -> str:
    """The coarsest format that holds every value: what was rounded to 16 bits stays recognisable in 32."""
    own = word_of(values)
    for word in _COARSE_FIRST:
        if FORMATS[word].precision < FORMATS[own].precision and _holds(word, values):
            return word
    return own


def _holds(word: str, values: Array) -> bool:
    with np.errstate(all="ignore"):
        return np.array_equal(round_to(values, word).astype(values.dtype), values, equal_nan=True)
