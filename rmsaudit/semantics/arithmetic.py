"""The arithmetic of declared implementations: every operation rounds once, to a named dtype.

An operation in dtype T converts its operands to `formats.opmath(T)`, operates there, and rounds the result to T, which
is what frameworks do on CPUs. For operands that are T already this is the correctly rounded result.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rmsaudit import double_double
from rmsaudit.arrays import Array, dtype_of, round_to, round_toward_zero, word_of
from rmsaudit.formats import FORMATS, opmath
from rmsaudit.semantics.orders import sum_last_axis


@dataclass(frozen=True)
class Arithmetic:
    """Operations on arrays that carry their own dtype. Scalars enter through `constant`."""

    subnormals: Literal["keep", "flush"] = "keep"
    rounding: Literal["nearest_even", "toward_zero"] = "nearest_even"

    def constant(self, value: float, dtype: str | None = None) -> Array:
        """A 0-d array: `value` rounded to `dtype`, or in float64 where the operation itself is to round it."""
        exact = np.asarray(value, dtype=np.float64)
        return exact if dtype is None else self._rounded(exact, dtype)

    def cast(self, values: Array, dtype: str) -> Array:
        """`values` in `dtype`; this is the step that `rounding` is about."""
        if values.dtype == dtype_of(dtype):
            return self._flushed(values)
        narrows = FORMATS[dtype].bits <= FORMATS[word_of(values)].bits
        if self.rounding == "toward_zero" and narrows:
            return self._flushed(round_toward_zero(values, dtype))
        return self._flushed(round_to(values, dtype))

    def add(self, a: Array, b: Array, dtype: str) -> Array:
        return self._operate(np.add, a, b, dtype)

    def sub(self, a: Array, b: Array, dtype: str) -> Array:
        return self._operate(np.subtract, a, b, dtype)

    def mul(self, a: Array, b: Array, dtype: str) -> Array:
        return self._operate(np.multiply, a, b, dtype)

    def div(self, a: Array, b: Array, dtype: str) -> Array:
        return self._operate(np.divide, a, b, dtype)

    def maximum(self, a: Array, b: Array, dtype: str) -> Array:
        """The larger; NaN if either is."""
        return self._operate(np.maximum, a, b, dtype)

    def sqrt(self, a: Array, dtype: str) -> Array:
        return self._rounded(np.sqrt(_widened(a, dtype)), dtype)

    def rsqrt(self, a: Array, dtype: str) -> Array:
        """1/√a with one rounding.

        Below 64 bits: through float64, whose two roundings are 29 bits finer than float32; that no float32 argument
        lies so near a rounding boundary was checked exhaustively (tests/semantics/test_arithmetic.py). float64: one
        Newton step with the residual 1 − a·y² in double-double, whose error is far below half an ulp.
        """
        if dtype != "float64":
            wide = _widened(a, dtype).astype(np.float64)
            return self._flushed(round_to(1.0 / np.sqrt(wide), dtype))
        return self._flushed(double_double.rsqrt(_widened(a, dtype)))

    def clamp(self, values: Array, limit: float) -> Array:
        """`values` limited to ± limit (rounded to their dtype, at most its largest value); NaN stays NaN."""
        word = word_of(values)
        edge = round_to(np.asarray(min(limit, FORMATS[word].max)), word)
        return np.minimum(np.maximum(values, -edge), edge)

    def largest_magnitude(self, values: Array) -> Array:
        largest: Array = np.max(np.abs(values), axis=-1, keepdims=True)
        return largest

    def zero_to_one(self, values: Array) -> Array:
        """Zeros replaced by ones, so that they can divide."""
        return np.where(values == 0, np.ones_like(values), values)

    def sum(self, terms: Array, order: str, dtype: str) -> Array:
        """Σ over the last axis (kept, length 1), each addition rounded once to `dtype`, in the named order.

        Where subnormals are flushed, the terms and the total are; sums of squares pass through no others.
        """
        return self._flushed(sum_last_axis(round_to(terms, dtype), order))

    def _operate(self, operation: Any, a: Array, b: Array, dtype: str) -> Array:
        wide_a, wide_b = _widened(a, dtype), _widened(b, dtype)
        ours = wide_a is not a and np.broadcast(wide_a, wide_b).shape == wide_a.shape  # a copy that can take the result
        return self._rounded(operation(wide_a, wide_b, out=wide_a if ours else None), dtype)

    def _rounded(self, wide: Array, dtype: str) -> Array:
        return self._flushed(round_to(wide, dtype))

    def _flushed(self, values: Array) -> Array:
        if self.subnormals == "keep":
            return values
        tiny = np.abs(values) < values.dtype.type(FORMATS[word_of(values)].smallest_normal)
        return np.where(tiny, np.copysign(np.zeros_like(values), values), values)


def _widened(values: Array, dtype: str) -> Array:
    wide = dtype_of(opmath(dtype))
    return values if values.dtype == wide else values.astype(wide)
