"""The number formats by name: what a dtype word means, without numpy.

A `Format` is five numbers. Everything else (smallest subnormal, largest value, ulp at 1) follows from them.
Sources: IEEE 754-2019 for binary16/32/64; bfloat16 as the upper half of binary32; OCP "OFP8" 1.0 for the two float8
formats (E4M3 has no infinity and one NaN pattern, so its top binade is usable up to mantissa 110).
"""

from dataclasses import dataclass
from math import frexp, ldexp


@dataclass(frozen=True, kw_only=True)
class Format:
    """A binary floating-point format.

    precision: significant bits, hidden bit included. min_exponent, max_exponent: of the smallest normal and the
    largest finite value, as in 1.m × 2^e. has_infinity: False means that overflow gives NaN. bits: storage size.
    """

    name: str
    bits: int
    precision: int
    min_exponent: int
    max_exponent: int
    has_infinity: bool = True

    @property
    def max(self) -> float:
        """The largest finite value."""
        top_mantissa = 2.0 - ldexp(1.0, 1 - self.precision) * (1 if self.has_infinity else 2)
        return ldexp(top_mantissa, self.max_exponent)

    @property
    def smallest_normal(self) -> float:
        return ldexp(1.0, self.min_exponent)

    @property
    def smallest_subnormal(self) -> float:
        return ldexp(1.0, self.min_exponent - self.precision + 1)

    @property
    def machine_epsilon(self) -> float:
        """The gap between 1 and the next value (torch.finfo(dtype).eps)."""
        return ldexp(1.0, 1 - self.precision)

    @property
    def is_half(self) -> bool:
        """16 bits wide: the formats that frameworks call half precision."""
        return self.bits == 16

    def ulp(self, value: float) -> float:
        """The gap between neighbours of this format at |value|, as a float."""
        exponent = max(frexp(abs(value))[1] - 1, self.min_exponent) if value else self.min_exponent
        return ldexp(1.0, min(exponent, self.max_exponent) - self.precision + 1)


FORMATS = {
    f.name: f
    for f in (
        Format(name="float64", bits=64, precision=53, min_exponent=-1022, max_exponent=1023),
        Format(name="float32", bits=32, precision=24, min_exponent=-126, max_exponent=127),
        Format(name="float16", bits=16, precision=11, min_exponent=-14, max_exponent=15),
        Format(name="bfloat16", bits=16, precision=8, min_exponent=-126, max_exponent=127),
        Format(name="float8_e4m3fn", bits=8, precision=4, min_exponent=-6, max_exponent=8, has_infinity=False),
        Format(name="float8_e5m2", bits=8, precision=3, min_exponent=-14, max_exponent=15),
    )
}

ALIASES = {
    "f64": "float64", "fp64": "float64", "double": "float64", "F64": "float64",
    "f32": "float32", "fp32": "float32", "float": "float32", "F32": "float32",
    "f16": "float16", "fp16": "float16", "half": "float16", "F16": "float16",
    "bf16": "bfloat16", "BF16": "bfloat16",
    "e4m3": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "float8_e4m3": "float8_e4m3fn", "F8_E4M3": "float8_e4m3fn",
    "e5m2": "float8_e5m2", "fp8_e5m2": "float8_e5m2", "F8_E5M2": "float8_e5m2",
}  # fmt: skip


def canonical(word: str) -> str | None:
    """The full dtype word for `word` ("bf16" gives "bfloat16"), or None if it names no format."""
    name = ALIASES.get(word, word)
    return name if name in FORMATS else None


def promote(first: str, second: str) -> str:
    """The dtype that a product of both has in torch, JAX and MLX: the wider one; float16 with bfloat16 gives
    float32."""
    if first == second:
        return first
    a, b = FORMATS[first], FORMATS[second]
    wide, narrow = (a, b) if a.bits >= b.bits else (b, a)
    holds = wide.precision >= narrow.precision and wide.min_exponent <= narrow.min_exponent
    return wide.name if holds and wide.bits > narrow.bits else "float32"


def coarser(first: str, second: str) -> str:
    """The dtype with fewer significant bits: the one whose ulp two outputs are compared in."""
    return min(first, second, key=lambda word: FORMATS[word].precision)


def opmath(dtype: str) -> str:
    """The dtype in which frameworks carry out one operation on `dtype`: float32 below 32 bits, `dtype` itself
    otherwise.

    For operands of `dtype` itself, + − × ÷ √ done there and rounded back are correctly rounded, because float32's 24
    bits are at least 2p + 2 for every p <= 11 (Figueroa, "When is double rounding innocuous?", 1995). The theorem is
    about normal results; bfloat16's subnormal ones are safe as well: sums are multiples of its smallest subnormal s,
    products that reach s/2 have no bit below float32's last, and quotients that are not a multiple of s/2 are s/512 or
    more away from one.
    """
    return dtype if FORMATS[dtype].bits >= 32 else "float32"
