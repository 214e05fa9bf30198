"""Arrays that carry their own format: numpy dtypes by word, one correct rounding, and the ordered line of values.

Every array in the bench half is a numpy array whose dtype is one of `formats.FORMATS` (`ml_dtypes` supplies bfloat16
and float8). Widening is exact. Narrowing goes through `round_to`, which rounds once: ml_dtypes casts float64 to
bfloat16 and float8 by way of float32 and so rounds twice (1 + 2^-8 + 2^-40 becomes 1.0 instead of 1.0078125).
"""

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from rmsaudit.formats import FORMATS, Format, canonical

Array = np.ndarray[Any, np.dtype[Any]]

_DTYPES: dict[str, np.dtype[Any]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
_WORDS = {dtype: word for word, dtype in _DTYPES.items()}
_EXACT_BY_LIBRARY = {"float64", "float32", "float16"}  # numpy rounds float64 to these directly, once


def dtype_of(word: str) -> np.dtype[Any]:
    """The numpy dtype of a dtype word. Raises KeyError for a word that `formats.canonical` does not know."""
    return _DTYPES[canonical(word) or word]


def word_of(array: Array) -> str:
    """The dtype word of an array. Raises KeyError for a dtype that is not one of the six formats."""
    return _WORDS[array.dtype]


def format_of(array: Array) -> Format:
    """The format of an array's values."""
    return FORMATS[word_of(array)]


@cache
def bits_of(word: str) -> np.dtype[Any]:
    """The unsigned integer dtype of the same size, for looking at bit patterns."""
    return np.dtype(f"u{FORMATS[word].bits // 8}")


def bits(array: Array) -> Array:
    """A view of the same memory as unsigned integers."""
    return array.view(bits_of(word_of(array)))


def round_to(values: Array, word: str) -> Array:
    """`values` in format `word`, rounded once to nearest, ties to even; overflow as IEEE 754 says (NaN for e4m3fn).

    Shapes are kept. From float32 and narrower, ml_dtypes' casts round once; from float64 to the formats that it takes
    through float32, `_quantise` does the rounding and the cast is exact.
    """
    target = _DTYPES[word]
    if values.dtype == target:
        return values
    if values.dtype == np.float64 and word not in _EXACT_BY_LIBRARY:
        return _quantise(values, FORMATS[word]).astype(target)
    return values.astype(target)


def _quantise(values: Array, fmt: Format) -> Array:
    """float64 values rounded to the grid of `fmt`, still as float64. Proven against all 16-bit patterns in the tests.

    The quantum of |v| is 2^max(e − p + 1, emin − p + 1). v / quantum, rint and the product back are exact in float64
    (a power of two, and rint's argument stays under 2^53 for every p <= 51); rint is ties-to-even. What ends up beyond
    the largest finite value has overflowed.
    """
    _, exponent = np.frexp(values)  # values = m * 2^exponent, m in [1/2, 1)
    quantum = np.maximum(exponent, fmt.min_exponent + 1) - fmt.precision
    rounded = np.ldexp(np.rint(np.ldexp(values, -quantum)), quantum)
    rounded = np.where(np.isfinite(values), rounded, values)
    overflow = np.abs(rounded) > fmt.max
    if not overflow.any():
        return rounded
    return np.where(overflow, np.copysign(np.inf if fmt.has_infinity else np.nan, values), rounded)


def round_toward_zero(values: Array, word: str) -> Array:
    """As `round_to`, but never past the value: the last step away from zero is taken back. Finite input stays
    finite."""
    nearest = round_to(values, word)
    if nearest.dtype == values.dtype:
        return nearest
    with np.errstate(invalid="ignore"):
        overshot = np.abs(nearest.astype(np.float64)) > np.abs(values.astype(np.float64))
        overshot |= np.isnan(nearest) & np.isfinite(values)  # e4m3fn overflow: NaN is one step above its largest value
    patterns = bits(nearest).copy()
    patterns[overshot] -= 1  # sign and magnitude: one less is one step toward zero
    return patterns.view(nearest.dtype)


def ordered(array: Array) -> Array:
    """int64 positions on the format's ordered line of values: −0 and +0 are 0, each neighbour is one step further.

    NaN has no place on the line; its position is meaningless and must be masked by the caller.
    """
    word = word_of(array)
    magnitude_bits = FORMATS[word].bits - 1
    patterns = bits(array)
    magnitude: Array = (patterns & bits_of(word).type((1 << magnitude_bits) - 1)).astype(np.int64)
    positions: Array = np.where(patterns >> magnitude_bits, -magnitude, magnitude)
    return positions


def hex_of(value: float) -> str:
    """A float as a C99 hex literal without trailing zeros: 0x1.4f8b58p-17."""
    mantissa, _, exponent = float(value).hex().partition("p")
    if not exponent:
        return mantissa  # inf, nan
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}"
