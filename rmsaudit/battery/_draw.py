"""Raw integers into values, the same ones on every machine.

The integers are those of PCG64 (O'Neill, HMC-CS-2014-0905: a 128-bit linear congruential generator, XSL-RR output),
whose stream numpy promises to keep (NEP 19), read as little-endian parts. Values are made of them by integer
arithmetic, powers of two and single IEEE 754 additions, never by a `Generator` distribution or a function of a math
library, which may differ from build to build.
"""

import hashlib
from math import ldexp, prod
from typing import Any

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.battery._common import CommonFormat

_SPARE_BITS = 8  # beyond a format's precision, so that all but the smallest values have every bit drawn


class Draw:
    """One stream of values for one format, composed in `fmt.draft`. Each call goes on where the last one stopped.

    The generator starts at sha256 of its key, seed/category/stream, so no category depends on which others are built.
    """

    def __init__(self, key: str, fmt: CommonFormat) -> None:
        digest = hashlib.sha256(key.encode()).digest()
        state, increment = (int.from_bytes(half, "little") for half in (digest[:16], digest[16:]))
        self._source = np.random.PCG64(0)
        self._source.state = {
            "bit_generator": "PCG64",
            "state": {"state": state, "inc": increment | 1},  # odd, as the generator demands
            "has_uint32": 0,
            "uinteger": 0,
        }
        self._dtype = fmt.draft
        self._bits = next(bits for bits in (16, 32, 64) if bits >= fmt.precision + _SPARE_BITS)

    def bell(self, *shape: int) -> Array:
        """Bell-shaped values within ±4, rms 2/√3 = 1.15: sums of four uniform integers."""
        count = prod(shape)
        parts = self._parts(4 * count, self._bits).reshape(4, count)
        parts >>= 2  # the sum of four fits where one did
        total = parts[0] + parts[1]
        total += parts[2]
        total += parts[3]
        return self._scaled(total, 3 - self._bits).reshape(shape)

    def binade(self, *shape: int) -> Array:
        """Values of both signs, magnitudes evenly in [1, 2]: mean square 7/3, and never outside 1 to 4."""
        fraction = self._scaled(self._parts(prod(shape), self._bits), 1 - self._bits)
        fraction += np.copysign(self._dtype.type(1), fraction)
        return fraction.reshape(shape)

    def integers(self, bound: int, *shape: int) -> Array:
        """Whole numbers in [−bound, bound], as floats; bound < 2^23."""
        return self._scaled(self.below(2 * bound + 1, *shape) - bound, 0)

    def below(self, bound: int, *shape: int) -> Array:
        """int64 in [0, bound), bound <= 2^31. Even within bound / 2^32."""
        parts = self._parts(prod(shape), 32).view("<u4").astype(np.int64)
        return ((parts * bound) >> 32).reshape(shape)

    def raw(self, count: int) -> Array:
        """uint64[count] as the generator gives them."""
        return self._source.random_raw(count)

    def _parts(self, count: int, bits: int) -> Array:
        """`count` signed integers of `bits` bits each."""
        words = self._source.random_raw(-(-count * bits // 64)).astype("<u8", copy=False)
        return words.view(f"<i{bits // 8}")[:count]

    def _scaled(self, integers: Array, exponent: int) -> Array:
        """integers · 2^exponent: one rounding where an integer has more bits than the draft."""
        values = integers.astype(self._dtype)
        if exponent:
            values *= self._dtype.type(ldexp(1.0, exponent))
        return values


def powers_of_two(exponents: Any, fmt: CommonFormat) -> Array:
    """2^exponents in the draft dtype of `fmt`; exact, subnormal ones too."""
    whole = np.asarray(exponents, dtype=np.int32)
    return np.ldexp(np.ones(whole.shape, dtype=fmt.draft), whole)


def spread(low: int, high: int, count: int) -> Array:
    """`count` whole numbers from `low` to `high`, both included, evenly; the middle one where count is 1."""
    if count == 1:
        return np.array([(low + high) // 2])
    return low + (high - low) * np.arange(count) // (count - 1)
