"""An oracle that shares no code with the package: rationals of gmpy2, one root at 3000 bits, and its own rounding.

It reads the fields of a spec by itself, element by element. 3000 bits decide whatever is not a tie by hundreds of bits to
spare: what lies within 2^-2800 (relative) of a midpoint is taken for the tie that the test built.
"""

from collections.abc import Callable, Iterator
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq, mpz

BITS = 3000
NEARNESS = mpq(1, mpz(2) ** 2800)

FORMATS = {  # precision, least exponent, greatest finite value, overflow
    "float64": (53, -1022, (2 - mpq(1, 2**52)) * mpq(2) ** 1023, np.inf),
    "float32": (24, -126, (2 - mpq(1, 2**23)) * mpq(2) ** 127, np.inf),
    "float16": (11, -14, mpq(65504), np.inf),
    "bfloat16": (8, -126, (2 - mpq(1, 2**7)) * mpq(2) ** 127, np.inf),
    "float8_e4m3fn": (4, -6, mpq(448), np.nan),
    "float8_e5m2": (3, -14, mpq(57344), np.inf),
}


def round_rational(y: Any, word: str) -> float:
    """A nonzero rational in a format, ties to even."""
    precision, least, greatest, overflow = FORMATS[word]
    magnitude = abs(y)
    exponent = gmpy2.bit_length(magnitude.numerator) - gmpy2.bit_length(magnitude.denominator)
    if magnitude < mpq(2) ** exponent:
        exponent -= 1
    quantum = mpq(2) ** (max(exponent, least) - precision + 1)
    scaled = magnitude / quantum
    whole = scaled.numerator // scaled.denominator
    excess = scaled - whole - mpq(1, 2)
    is_tie = abs(excess) <= NEARNESS * max(scaled, 1)
    if (whole % 2 == 1) if is_tie else excess > 0:
        whole += 1
    rounded = whole * quantum
    result = overflow if rounded > greatest else float(rounded)
    return float(np.copysign(result, -1.0 if y < 0 else 1.0))


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
            for group in range(spec.groups):
                yield [(row, group * size + i) for i in range(size)]


def declared(value: Any) -> Any:
    return mpq(repr(float(value)))


class Run:
    """One group of elements: x, g, b, r as lists of float, already as stored."""

    def __init__(self, spec: Any, x: list[float], g: list[float], b: list[float], r: list[float]) -> None:
        self.spec, self.x, self.g, self.b, self.r = spec, x, g, b, r
        self.n = len(x)
        width = spec.statistic_width
        self.k = self.n if width == "all" else int(self.n * width) if isinstance(width, float) else min(width, self.n)
        self.eps = mpq(0)
        if spec.eps_placement != "none":
            self.eps = max(declared(spec.eps), mpq(0) if spec.eps_min == "none" else declared(spec.eps_min))

    def answers(self, word: str) -> list[float]:
        special = self.special()
        if all(s is not None for s in special):
            return [self.limit(s, word) for s in special]
        y = self.real()
        return [self.limit(y[i] if s is None else s, word) for i, s in enumerate(special)]

    def limit(self, y: Any, word: str) -> float:
        if self.spec.output_clamp != "none" and not (isinstance(y, float) and np.isnan(y)):
            edge = declared(self.spec.output_clamp)
            if isinstance(y, float):
                y = y if abs(y) <= edge else (edge if y > 0 else -edge)
            else:
                y = min(max(y, -edge), edge)
        if isinstance(y, float):
            if y == 0 or np.isnan(y):
                return y
            if np.isinf(y):
                return float(np.copysign(FORMATS[word][3], y))
            y = mpq(y)
        return round_rational(y, word)

    def factor(self, i: int) -> Any:
        if not self.spec.gain_applied:
            return mpq(1)
        return mpq(self.g[i]) + declared(self.spec.gain_offset)

    def values(self) -> list[Any]:
        out = []
        for i, x in enumerate(self.x):
            v = mpq(x) if np.isfinite(x) else mpq(0)
            if self.spec.input_clamp != "none":
                edge = declared(self.spec.input_clamp)
                v = (edge if x > 0 else -edge) if np.isinf(x) else min(max(v, -edge), edge)
            if self.spec.gain_position == "before_statistic" and np.isfinite(self.g[i]):
                v = v * self.factor(i)
            if self.spec.residual == "add" and np.isfinite(self.r[i]):
                v = v + mpq(self.r[i])
            out.append(v)
        return out

    def real(self) -> list[Any]:
        """The outputs of finite operands; None where the divisor is 0."""
        spec, v = self.spec, self.values()
        if spec.prescale == "max_abs":
            largest = max(map(abs, v))
            v = [value / largest for value in v] if largest else v
        if spec.center:
            mean = sum(v) / self.n
            v = [value - mean for value in v]
        root, eps = self.root(v[: self.k]), mpq(0)
        if spec.eps_placement == "outside_sqrt":
            eps = self.eps
        out = []
        for i, value in enumerate(v):
            if spec.gain_position == "after_normalize" and np.isfinite(self.g[i]):
                value = value * self.factor(i)
            with gmpy2.context(precision=BITS, emin=-10**9, emax=10**9):
                divisor = root + mpfr(eps)
                y = mpfr(value) / divisor if divisor else mpfr(0)
                if spec.post_scale == "sqrt_width":
                    y = y * gmpy2.sqrt(mpfr(self.n))
                elif spec.post_scale != "none":
                    y = y * mpfr(declared(spec.post_scale))
                exact = mpq(y)
            out.append(exact + (mpq(self.b[i]) if spec.bias and np.isfinite(self.b[i]) else 0))
        return out

    def root(self, entering: list[Any]) -> Any:
        """The divisor but for an eps outside of it, at 3000 bits."""
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
        if spec.eps_placement == "floor_rms":
            total = max(total, self.eps**2)
        with gmpy2.context(precision=BITS, emin=-10**9, emax=10**9):
            return gmpy2.sqrt(mpfr(total))

    def special(self) -> list[float | None]:
        """What float64 itself says of NaN, inf and 0, each operation written out; None where the output is an ordinary number.

        Finite numbers are replaced by the signs of the exact ones, so that nothing over- or underflows.
        """
        spec = self.spec
        exact = self.values()
        with np.errstate(all="ignore"):
            v = [np.float64(x) for x in self.x]
            if spec.input_clamp != "none":
                v = [np.clip(value, -1e300, 1e300) if declared(spec.input_clamp) else value * 0 for value in v]
            f = [np.float64(1.0)] * self.n
            if spec.gain_applied:
                offset = np.float64(spec.gain_offset)
                f = [np.float64(g) + offset if offset else np.float64(g) for g in self.g]
                f = [self._sign(fi, self.factor(i)) if np.isfinite(fi) else fi for i, fi in enumerate(f)]
            for i in range(self.n):
                zero_like, finite = np.sign(v[i]) if v[i] else v[i], np.isfinite(v[i])
                if spec.gain_position == "before_statistic":
                    v[i] = (zero_like if finite else v[i]) * f[i]
                    finite = np.isfinite(v[i])
                    zero_like = v[i]
                if spec.residual == "add":
                    r = np.float64(self.r[i])
                    v[i] = v[i] + r if not (finite and np.isfinite(r)) else (zero_like + r if not zero_like and not r else np.float64(0.0))
                    if np.isfinite(v[i]) and exact[i]:
                        v[i] = np.float64(1.0)
                v[i] = self._sign(v[i], exact[i]) if np.isfinite(v[i]) else v[i]
            return self._special(v, f, exact)

    @staticmethod
    def _sign(zero_or_not: Any, exact: Any) -> Any:
        if exact == 0:
            return zero_or_not * np.float64(0.0) if zero_or_not else zero_or_not
        return np.float64(1.0 if exact > 0 else -1.0)

    def _special(self, v: list[Any], f: list[Any], exact: list[Any]) -> list[float | None]:
        spec = self.spec
        if spec.prescale == "max_abs":
            largest = np.float64(0.0)
            for value in v:
                largest = np.maximum(largest, abs(value))
            v = [value / largest for value in v]
        if spec.center:
            if not all(np.isfinite(value) for value in v):
                return [float("nan")] * self.n
            mean = sum(exact) / self.n
            v = [
                np.float64(0.0 if e == mean and not (e == 0 and np.signbit(value) and any(exact + [not np.signbit(w) for w in v])) else -0.0 if e == mean else (1.0 if e > mean else -1.0))
                for e, value in zip(exact, v, strict=True)
            ]
            exact = [e - mean for e in exact]
        entering = v[: self.k]
        total = np.float64(0.0)
        for value in entering:
            total = total + value * value
        if spec.statistic == "variance":
            if not np.isfinite(total):
                total = np.float64("nan")
            elif self.k and all(e == exact[0] for e in exact[: self.k]):
                total = np.float64(0.0)
        if self.eps and total == 0:
            total = np.float64(1.0)
        if self.k == 0 and spec.statistic != "sum_square":
            total = np.float64("nan")
        out: list[float | None] = []
        for i, value in enumerate(v):
            p = value / np.sqrt(total)
            if spec.gain_position == "after_normalize":
                p = p * f[i]
            if spec.post_scale not in ("none", "sqrt_width"):
                p = p * np.sign(np.float64(spec.post_scale))
            b = np.float64(self.b[i])
            ordinary = np.isfinite(p) and p != 0
            if not spec.bias:
                out.append(None if ordinary else float(p))
            elif ordinary:
                out.append(None if np.isfinite(b) else float(b))
            else:
                out.append(float(p + b))
        return out


def independent(spec: Any, operands: dict[str, Any], word: str) -> np.ndarray:
    """[rows, width] float64: what the outputs must be, in the values of `word`."""
    x, r = operands["x"].astype(np.float64), operands["residual"].astype(np.float64)
    g, b = operands["gain"].astype(np.float64).tolist(), operands["bias"].astype(np.float64).tolist()
    out = np.empty(x.shape)
    for places in runs(spec, *x.shape):
        columns = [column for _, column in places]
        run = Run(spec, [float(x[p]) for p in places], [g[c] for c in columns], [b[c] for c in columns], [float(r[p]) for p in places])
        for place, y in zip(places, run.answers(word), strict=True):
            out[place] = y
    return out


@pytest.fixture(name="independent", scope="session")
def _independent() -> Callable[[Any, dict[str, Any], str], np.ndarray]:
    return independent
