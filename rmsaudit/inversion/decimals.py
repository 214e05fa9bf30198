"""The number somebody wrote: the simplest decimal within an interval, and the ways it may have been rounded on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, isfinite, log10

import numpy as np

from rmsaudit.arrays import round_to
from rmsaudit.formats import FORMATS

_FAVOURED = (1, 5, 2)  # of several with the same number of digits: 1e-6 before 5e-6 before 2e-6


@dataclass(frozen=True)
class Written:
    """A number as it was probably written. digits: significant ones. dtype: rounded to it before use, or None.

    name: set where it is a number with a name of its own ("machine epsilon of float32").
    """

    value: float
    digits: int
    dtype: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        shown = f"{self.value:.{self.digits}g}" if self.name is None else f"{self.value:.6g} ({self.name})"
        return shown if self.dtype is None else f"{shown} rounded to {self.dtype}"


def simplest(lo: float, hi: float) -> Written | None:
    """The decimal of fewest significant digits in [lo, hi], decided exactly; None where lo is 0 or hi infinite."""
    if not (0 < lo <= hi and isfinite(hi)):
        return None
    low, high = Fraction(lo), Fraction(hi)
    exponent = floor(log10(hi)) + 1
    while True:
        unit = Fraction(10) ** exponent
        first, last = ceil(low / unit), floor(high / unit)
        if first <= last:
            whole = _choose(first, last)
            value = float(whole * unit)
            return Written(value, len(str(whole).rstrip("0")))
        exponent -= 1


def written(lo: float, hi: float, narrow: Sequence[str] = ()) -> Written | None:
    """The likeliest number behind [lo, hi]: a short decimal, one that was rounded to 16 bits, or a named constant.

    narrow: dtypes that it may have been rounded to, likeliest first. A longer story is told only where it saves three
    digits or more, which is a chance of one in a thousand.
    """
    plain = simplest(lo, hi)
    if plain is None:
        return None
    stories = [story for story in (_named(lo, hi), *(_rounded(lo, hi, word) for word in narrow)) if story]
    best = min(stories, key=lambda story: story.digits, default=plain)
    return best if best.digits + 3 <= plain.digits else plain


def digits_known(lo: float, hi: float) -> float:
    """−log10 of the relative half width: 5 means that the number is known to one part in 100 000; 0 without a lower end."""
    if lo <= 0 or not isfinite(hi):
        return 0.0
    half = (hi - lo) / (hi + lo)
    return -log10(half) if half > 0 else inf


def _choose(first: int, last: int) -> int:
    favoured = [whole for whole in _FAVOURED if first <= whole <= last]
    return favoured[0] if favoured else (first + last) // 2


def _named(lo: float, hi: float) -> Written | None:
    for word in ("float32", "float16", "bfloat16", "float64"):
        value = FORMATS[word].machine_epsilon
        if lo <= value <= hi:
            return Written(value, 1, name=f"machine epsilon of {word}")
    return None


def _rounded(lo: float, hi: float, word: str) -> Written | None:
    """The simplest decimal that rounds into [lo, hi], where the interval holds one value of the format."""
    value = float(round_to(np.asarray((lo + hi) / 2), word))
    if not lo <= value <= hi or value == 0:
        return None
    half_gap = FORMATS[word].ulp(value) / 2
    decimal = simplest(max(value - half_gap, 0.0), value + half_gap)
    if decimal is None or lo <= decimal.value <= hi:
        return None
    return Written(decimal.value, decimal.digits, dtype=word)
