"""The number somebody wrote: the simplest decimal in an interval, or what rounding or a root made of a simpler one."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, isfinite, log10, sqrt

import numpy as np

from rmsaudit.arrays import round_to
from rmsaudit.formats import FORMATS

_FAVOURED = (1, 5, 2)  # of several with the same number of digits: 1e-6 before 5e-6 before 2e-6
_SAVED = 3  # digits that a longer story has to save: a chance of one in a thousand


@dataclass(frozen=True)
class Written:
    """A number as it was probably written. digits: significant ones of what was written.

    dtype: it is rounded to that before use. story: set where what was written is not the value itself ("machine epsilon
    of float32", "the root of 1e-05").
    """

    value: float
    digits: int
    dtype: str | None = None
    story: str | None = None

    def __str__(self) -> str:
        shown = f"{self.value:.{self.digits}g}" if self.story is None else f"{self.value:.6g}, {self.story}"
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
            return Written(float(whole * unit), len(str(whole).rstrip("0")))
        exponent -= 1


def written(lo: float, hi: float, *, narrow: Sequence[str] = (), squared: bool = False) -> Written | None:
    """The likeliest number behind [lo, hi]: a short decimal, one that was rounded to 16 bits, or a named constant.

    narrow: dtypes that it may have been rounded to, likeliest first. squared: the square may be what was written (a
    floor of the mean square reads as its root).
    """
    plain = simplest(lo, hi)
    if plain is None:
        return None
    stories = [_named(lo, hi), *(_rounded(lo, hi, word) for word in narrow), _root(lo, hi) if squared else None]
    told = [story for story in stories if story is not None]
    best = min(told, key=lambda story: story.digits, default=plain)
    return best if best.digits + _SAVED <= plain.digits else plain


def digits_known(lo: float, hi: float) -> float:
    """−log10 of the relative half width: 5 means known to one part in 100 000; 0 where the lower end is 0."""
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
            return Written(value, 1, story=f"machine epsilon of {word}")
    return None


def _root(lo: float, hi: float) -> Written | None:
    square = simplest(lo * lo, hi * hi)
    return square and Written(sqrt(square.value), square.digits, story=f"the root of {square}")


def _rounded(lo: float, hi: float, word: str) -> Written | None:
    """The simplest decimal that `word` rounds into [lo, hi]."""
    value = float(round_to(np.asarray((lo + hi) / 2), word))
    if not lo <= value <= hi or value == 0:
        return None
    half_gap = FORMATS[word].ulp(value) / 2
    decimal = simplest(max(value - half_gap, 0.0), value + half_gap)
    if decimal is None or lo <= decimal.value <= hi:
        return None
    return Written(decimal.value, decimal.digits, dtype=word)
