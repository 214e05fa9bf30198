"""The numbers that both sides can hold, so that both are fed the same ones."""

from dataclasses import dataclass
from functools import cache
from math import floor, frexp, ldexp
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, dtype_of, round_to
from rmsaudit.formats import FORMATS, Format


@dataclass(frozen=True, kw_only=True)
class CommonFormat:
    """The values that two formats share: a format itself where one contains the other.

    held: the dtype word of arrays of such values. through: rounding to these dtypes, one after the other, ends on a
    shared value. The rest is as for a `Format`; float16 and bfloat16 share the multiples of 2^-24 that have 8 bits, up
    to 65280.
    """

    held: str
    through: tuple[str, ...]
    precision: int
    min_exponent: int
    max: float
    has_infinity: bool

    @property
    def max_exponent(self) -> int:
        return frexp(self.max)[1] - 1

    @property
    def smallest_exponent(self) -> int:
        """log2 of the smallest positive value."""
        return self.min_exponent - self.precision + 1

    @property
    def draft(self) -> np.dtype[Any]:
        """The dtype in which values are composed before they are rounded: float32, unless float64 is what is held."""
        return dtype_of("float64" if self.held == "float64" else "float32")

    def round(self, values: Array) -> Array:
        """`values`, rounded until both formats hold them, in dtype `held`; beyond `max` they overflow."""
        for word in self.through:
            values = round_to(values, word)
        return values.astype(dtype_of(self.held), copy=False)

    def floor(self, value: float) -> float:
        """The largest shared value that is not above the positive `value`."""
        quantum = max(frexp(value)[1] - self.precision, self.smallest_exponent)
        return min(ldexp(floor(ldexp(value, -quantum)), quantum), self.max)

    def above(self, value: float) -> float:
        """The next shared value above the positive shared `value`, or infinity after `max`."""
        if value >= self.max:
            return float("inf")
        return value + ldexp(1.0, max(frexp(value)[1] - self.precision, self.smallest_exponent))


@cache
def common_format(first: str, second: str) -> CommonFormat:
    """What the dtypes `first` and `second` share: the coarser one; held in float32 where neither contains the other."""
    coarse, fine = sorted((FORMATS[first], FORMATS[second]), key=lambda f: (f.precision, f.bits))
    contained = _contains(fine, coarse)
    smallest_exponent = max(f.min_exponent - f.precision + 1 for f in (coarse, fine))
    return CommonFormat(
        held=coarse.name if contained else "float32",
        through=(coarse.name,) if contained else (coarse.name, fine.name),
        precision=coarse.precision,
        min_exponent=smallest_exponent + coarse.precision - 1,
        max=_truncated(min(coarse.max, fine.max), coarse.precision),
        has_infinity=coarse.has_infinity and fine.has_infinity,
    )


def _contains(outer: Format, inner: Format) -> bool:
    return (
        outer.precision >= inner.precision
        and outer.smallest_subnormal <= inner.smallest_subnormal
        and outer.max >= inner.max
        and (outer.has_infinity or not inner.has_infinity)
    )


def _truncated(value: float, precision: int) -> float:
    mantissa, exponent = frexp(value)
    return ldexp(floor(ldexp(mantissa, precision)), exponent - precision)
