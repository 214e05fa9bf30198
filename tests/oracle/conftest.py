"""A second oracle that shares no code with the package: gmpy2's rationals, one root at 3000 bits, its own rounding.

It reads the fields of a spec by itself, element by element. 3000 bits tell apart whatever is not a tie with hundreds of
bits to spare: what lies within 2^-2800 (relative) of a midpoint is taken for the tie that a test built.
"""

from collections.abc import Callable, Iterator
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq, mpz

BITS = 3000
NEARNESS = mpq(1, mpz(2) ** 2800)
HALF = mpq(1, 2)

FORMATS = {  # precision, least exponent, greatest finite value, what overflow gives
    "float64": (53, -1022, (2 - mpq(1, 2**52)) * mpq(2) ** 1023, np.inf),
    "float32": (24, -126, (2 - mpq(1, 2**23)) * mpq(2) ** 127, np.inf),
    "float16": (11, -14, mpq(65504), np.inf),
    "bfloat16": (8, -126, (2 - mpq(1, 2**7)) * mpq(2) ** 127, np.inf),
    "float8_e4m3fn": (4, -6, mpq(448), np.nan),
    "float8_e5m2": (3, -14, mpq(57344), np.inf),
}

Number = Any  # a gmpy2 rational; its package has no types


def declared(value: Any) -> Number:
    return mpq(repr(float(value)))


def rounded(y: Number, word: str) -> float:
    """A nonzero rational in a format, ties to even."""
    precision, least, greatest, overflow = FORMATS[word]
    magnitude = abs(y)
    exponent = gmpy2.bit_length(magnitude.numerator) - gmpy2.bit_length(magnitude.denominator)
    if magnitude < mpq(2) ** exponent:
        exponent -= 1
    quantum = mpq(2) ** (max(exponent, least) - precision + 1)
    scaled = magnitude / quantum
    whole = scaled.numerator // scaled.denominator
    excess = scaled - whole - HALF
    is_tie = abs(excess) <= NEARNESS * max(scaled, 1)
    if (whole % 2 == 1) if is_tie else excess > 0:
        whole += 1
    value = whole * quantum
    return float(np.copysign(overflow if value > greatest else float(value), -1.0 if y < 0 else 1.0))


def runs(spec: Any, rows: int, width: int) -> Iterator[list[tuple[int, int]]]:
    """The places that are normalised together, in order."""
    if spec.axes == (-2,):
        for column in range(width):
            yield [(row, column) for row in range(rows)]
    elif spec.axes == (-2, -1):
        yield [(row, column) for row in range(rows) for column in range(width)]
    else:
        size = width // spec.groups
        for row in range(rows):
            for first in range(0, width, size):
                yield [(row, first + i) for i in range(size)]


def sign_class(value: float) -> np.float64:
    """NaN, infinities and zeros as they are; ±1 for the rest, so that nothing over- or underflows."""
    return np.float64(np.sign(value)) if value and np.isfinite(value) else np.float64(value)


class Run:
    """Elements that are normalised together: x, gain, bias, residual as stored, and the spec."""

    def __init__(self, spec: Any, operands: list[list[float]]) -> None:
        self.spec = spec
        self.x, self.gain, self.bias, self.residual = operands
        self.n = len(self.x)
        width = spec.statistic_width
        self.k = self.n if width == "all" else int(self.n * width) if isinstance(width, float) else min(width, self.n)
        self.eps = mpq(0)
        if spec.eps_placement != "none":
            self.eps = max(declared(spec.eps), mpq(0) if spec.eps_min == "none" else declared(spec.eps_min))
        self.offset = declared(spec.gain_offset)
        self.gain_first = spec.gain_applied and spec.gain_position == "before_statistic"
        self.gain_last = spec.gain_applied and not self.gain_first
        self.values = [self.value(i) for i in range(self.n)]

    def answers(self, word: str) -> list[float]:
        by_rule = self.by_rule()
        real: list[Number] = [None] * self.n if None not in by_rule else self.real()
        return [self.finish(y if rule is None else rule, word) for y, rule in zip(real, by_rule, strict=True)]

    def finish(self, y: Any, word: str) -> float:
        if y == 0 or (isinstance(y, float) and np.isnan(y)):
            return float(y)
        if self.spec.output_clamp != "none":
            edge = declared(self.spec.output_clamp)
            y = y if abs(y) <= edge else edge if y > 0 else -edge
        if isinstance(y, float) and np.isinf(y):
            return float(np.copysign(FORMATS[word][3], y))
        return rounded(mpq(y), word)

    # --- in real numbers

    def factor(self, i: int) -> Number:
        """Of a finite gain; 0 stands for others, which no real result depends on."""
        return mpq(self.gain[i]) + self.offset if np.isfinite(self.gain[i]) else mpq(0)

    def value(self, i: int) -> Number:
        x = self.x[i]
        v = mpq(x) if np.isfinite(x) else mpq(0)
        if self.spec.input_clamp != "none":
            edge = declared(self.spec.input_clamp)
            v = min(max(v, -edge), edge) if not np.isinf(x) else edge if x > 0 else -edge
        if self.gain_first:
            v = v * self.factor(i)
        if self.spec.residual == "add" and np.isfinite(self.residual[i]):
            v = v + mpq(self.residual[i])
        return v

    def real(self) -> list[Number]:
        """Every output, where the divisor is not 0; only those of finite operands mean anything."""
        spec, v = self.spec, self.values
        if spec.prescale == "max_abs":
            largest = max(map(abs, v))
            v = [value / largest for value in v]
        if spec.center:
            mean = sum(v) / self.n
            v = [value - mean for value in v]
        with gmpy2.context(precision=BITS, emin=-(10**9), emax=10**9):
            divisor = gmpy2.sqrt(mpfr(self.under_root(v[: self.k])))
            if spec.eps_placement == "outside_sqrt":
                divisor += mpfr(self.eps)
            scale = mpfr(1)
            if spec.post_scale != "none":
                scale = gmpy2.sqrt(mpfr(self.n)) if spec.post_scale == "sqrt_width" else mpfr(declared(spec.post_scale))
            return [self.output(i, mpfr(value) * scale / divisor) for i, value in enumerate(v)]

    def output(self, i: int, normalised: Number) -> Number:
        y = mpq(normalised) * (self.factor(i) if self.gain_last else 1)
        if not self.spec.bias or not np.isfinite(self.bias[i]):
            return y
        total = y + mpq(self.bias[i])
        return total if abs(total) > NEARNESS * abs(y) else mpq(0)

    def under_root(self, entering: list[Number]) -> Number:
        spec = self.spec
        if spec.statistic == "variance":
            mean = sum(entering) / self.k
            entering = [value - mean for value in entering]
        total = sum(value * value for value in entering)
        if spec.eps_placement == "inside_sum":
            total += self.eps
        if spec.eps_placement in ("floor_sum", "floor_norm"):
            total = max(total, self.eps**2)
        if spec.statistic != "sum_square":
            total /= self.k
        if spec.eps_placement == "inside_sqrt":
            total += self.eps
        return max(total, self.eps**2) if spec.eps_placement == "floor_rms" else total

    # --- by IEEE 754

    def by_rule(self) -> list[float | None]:
        """What the formula gives in IEEE arithmetic on the signs of its operands; None for an ordinary number."""
        with np.errstate(all="ignore"):
            factors = [self.factor_class(i) for i in range(self.n)]
            v = [self.value_class(i, factors[i]) for i in range(self.n)]
            if self.spec.prescale == "max_abs":
                largest = np.max(np.abs(v))
                v = [value / largest for value in v]
            if self.spec.center:
                v = self.centred_classes(v)
            divisor = np.sqrt(self.statistic_class(v[: self.k]))
            return [self.output_class(i, v[i] / divisor * (factors[i] if self.gain_last else 1)) for i in range(self.n)]

    def factor_class(self, i: int) -> np.float64:
        gain = self.gain[i]
        if not np.isfinite(gain) or not self.offset:
            return sign_class(gain)
        return np.float64(gmpy2.sign(self.factor(i)))

    def value_class(self, i: int, factor: np.float64) -> np.float64:
        v = sign_class(self.x[i])
        if self.spec.input_clamp != "none" and np.isinf(v):
            v = np.sign(v)
        if self.gain_first:
            v = v * factor
        if self.spec.residual != "add":
            return v
        residual = sign_class(self.residual[i])
        if np.isfinite(v) and np.isfinite(residual) and (v or residual):
            return np.float64(gmpy2.sign(self.values[i]))
        return v + residual

    def centred_classes(self, v: list[np.float64]) -> list[np.float64]:
        if not np.isfinite(v).all():
            return [np.float64(np.nan)] * self.n
        mean = sum(self.values) / self.n
        negative_zero = [value == 0 and np.signbit(value) for value in v]
        mixed = not all(negative_zero)
        zeros = [np.float64(-0.0 if mixed and mean == 0 and negative else 0.0) for negative in negative_zero]
        return [
            np.float64(gmpy2.sign(exact - mean)) if exact != mean else zero
            for exact, zero in zip(self.values, zeros, strict=True)
        ]

    def statistic_class(self, v: list[np.float64]) -> np.float64:
        total = np.float64(0.0)
        for value in v:
            total = total + value * value
        if self.spec.statistic == "variance":
            if not np.isfinite(total):
                total = np.float64(np.nan)
            elif len(set(self.values[: self.k])) == 1:
                total = np.float64(0.0)
        if self.eps and total == 0:
            total = np.float64(1.0)
        return total if self.k or self.spec.statistic == "sum_square" else np.float64(np.nan)

    def output_class(self, i: int, product: np.float64) -> float | None:
        scale = self.spec.post_scale
        if scale not in ("none", "sqrt_width"):
            product = product * np.sign(np.float64(scale))
        if np.isfinite(product) and product != 0:
            return float(self.bias[i]) if self.spec.bias and not np.isfinite(self.bias[i]) else None
        return float(product + np.float64(self.bias[i]) if self.spec.bias else product)


def independent(spec: Any, operands: dict[str, Any], word: str) -> Any:
    """What the outputs must be: float64[rows, width], values of the format `word`."""
    x, residual = operands["x"].astype(np.float64), operands["residual"].astype(np.float64)
    gain, bias = operands["gain"].astype(np.float64).tolist(), operands["bias"].astype(np.float64).tolist()
    out = np.empty(x.shape)
    for places in runs(spec, *x.shape):
        per_feature = [[values[column] for _, column in places] for values in (gain, bias)]
        run = Run(spec, [[float(x[p]) for p in places], *per_feature, [float(residual[p]) for p in places]])
        for place, y in zip(places, run.answers(word), strict=True):
            out[place] = y
    return out


@pytest.fixture(name="independent", scope="session")
def _independent() -> Callable[[Any, dict[str, Any], str], Any]:
    return independent
