"""The judge of single roundings: GNU MPFR, which shares no code with rmsaudit."""

from collections.abc import Callable
from typing import Any

import gmpy2
import numpy as np
import pytest

from rmsaudit.arrays import Array, bits_of, dtype_of
from rmsaudit.formats import FORMATS

Nearest = Callable[[Any, str], float]
SomeValues = Callable[[str, int], Array]


def contexts() -> dict[str, gmpy2.context]:
    """A rounding context for each format. MPFR counts exponents with mantissas in [1/2, 1)."""
    return {
        word: gmpy2.context(
            precision=f.precision,
            emin=f.min_exponent - f.precision + 2,
            emax=f.max_exponent + 1,
            subnormalize=True,
        )
        for word, f in FORMATS.items()
    }


@pytest.fixture(scope="session")
def nearest() -> Nearest:
    """nearest(q, word): q (float, Fraction, mpfr; taken exactly) rounded once to a format, ties to even, as a float."""
    known = contexts()

    def rounded(value: Any, word: str) -> float:
        with known[word]:
            result = float(gmpy2.mpfr(gmpy2.mpq(value)))
        if word == "float8_e4m3fn" and abs(result) > 448:  # its top pattern is NaN, and it has no infinity
            return float("nan")
        return result

    return rounded


@pytest.fixture(scope="session")
def some_values() -> SomeValues:
    """some_values(word, count): finite values of a format whose bit patterns are drawn evenly, subnormals included."""

    def draw(word: str, count: int) -> Array:
        rng = np.random.default_rng(FORMATS[word].bits)
        size = FORMATS[word].bits
        patterns = rng.integers(0, 1 << size, size=2 * count, dtype=np.uint64, endpoint=False)
        values = patterns.astype(bits_of(word)).view(dtype_of(word))
        finite = values[np.isfinite(values)]
        return finite[:count]

    return draw
