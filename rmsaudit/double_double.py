"""Numbers as unevaluated sums of two float64: about 106 significant bits in plain numpy.

Every step here needs IEEE binary64 with round to nearest and no flush to zero; each numpy ufunc is one IEEE operation,
so nothing is contracted into an FMA. Error bounds: Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic
building blocks of double-word arithmetic", ACM TOMS 44 (2017); u = 2^-53.
"""

from math import fsum
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array, round_to

_SPLITTER = float(2**27 + 1)  # Veltkamp: splits 53 bits into 26 + 26


class DoubleDouble(NamedTuple):
    """hi + lo, with |lo| <= ulp(hi) / 2."""

    hi: Array
    lo: Array


def two_sum(a: Array, b: Array) -> DoubleDouble:
    """a + b exactly (Knuth), barring overflow."""
    total = a + b
    from_b = total - a
    return DoubleDouble(total, (a - (total - from_b)) + (b - from_b))


def fast_two_sum(a: Array, b: Array) -> DoubleDouble:
    """a + b exactly (Dekker), where |a| >= |b| or a is 0."""
    total = a + b
    return DoubleDouble(total, b - (total - a))


def two_product(a: Array, b: Array) -> DoubleDouble:
    """a · b exactly (Dekker, Veltkamp), where nothing over- or underflows: 2^-480 <= |a|, |b| <= 2^480 or 0."""
    product = a * b
    a_hi, a_lo = _split(a)
    b_hi, b_lo = _split(b)
    return DoubleDouble(product, ((a_hi * b_hi - product) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo)


def _split(a: Array) -> tuple[Array, Array]:
    scaled = _SPLITTER * a
    hi = scaled - (scaled - a)
    return hi, a - hi


def add(x: DoubleDouble, y: DoubleDouble) -> DoubleDouble:
    """x + y within 3u² / (1 − 4u) relative, for any signs (AccurateDWPlusDW, theorem 3.1)."""
    s, t = two_sum(x.hi, y.hi), two_sum(x.lo, y.lo)
    first = fast_two_sum(s.hi, s.lo + t.hi)
    return fast_two_sum(first.hi, t.lo + first.lo)


def sum_last_axis(x: DoubleDouble) -> DoubleDouble:
    """Σ over the last axis (kept, length 1) by halving: ceil(log2 n) levels of `add`, 3u² each for terms of one
    sign."""
    hi, lo = x
    while (size := hi.shape[-1]) > 1:
        half = size // 2
        added = add(
            DoubleDouble(hi[..., :half], lo[..., :half]),
            DoubleDouble(hi[..., half : 2 * half], lo[..., half : 2 * half]),
        )
        if size == 2 * half:
            hi, lo = added
        else:
            hi = np.concatenate([added.hi, hi[..., -1:]], axis=-1)
            lo = np.concatenate([added.lo, lo[..., -1:]], axis=-1)
    return DoubleDouble(hi, lo)


def round_once(x: DoubleDouble, word: str) -> Array:
    """hi + lo rounded once to a format of at most 51 bits.

    Round to odd: a nonzero lo makes the last bit of hi odd, so that the one rounding that follows can neither see a tie
    that is not there nor miss one that is (Boldo and Melquiond, 2008). float64 itself is hi.
    """
    if word == "float64":
        return x.hi
    even = (x.hi.view(np.uint64) & np.uint64(1)) == 0
    inexact_even = (x.lo != 0) & even & np.isfinite(x.hi)
    toward_lo = np.where(x.lo > 0, np.inf, -np.inf)
    odd = np.where(inexact_even, np.nextafter(x.hi, toward_lo), x.hi)
    return round_to(odd, word)


def exact_sum(terms: Array, word: str) -> Array:
    """Σ terms over the last axis (kept, length 1), rounded once to `word`.

    `math.fsum` rounds the exact sum of float64 values once. What that left out, summed the same way, has the right
    sign, which is all that `round_once` needs: about as fast as a double-double sum in numpy, and right for every row.
    """
    rows = terms.astype(np.float64).reshape(-1, terms.shape[-1]).tolist()
    hi, lo = np.array([_total_and_rest(row) for row in rows]).reshape(-1, 2).T
    return round_once(DoubleDouble(hi.copy(), lo), word).reshape(*terms.shape[:-1], 1)


def _total_and_rest(row: list[float]) -> tuple[float, float]:
    """Σ row rounded once, and Σ row minus that."""
    try:
        total = fsum(row)
        return total, fsum([*row, -total])
    except (OverflowError, ValueError):  # beyond float64 on the way, or inf − inf: what IEEE additions give
        return float(np.sum(row)), 0.0


def rsqrt(a: Array) -> Array:
    """1/√a in float64, correctly rounded unless it lies within about 2^-100 (relative) of a rounding boundary.

    The argument is scaled by an even power of two into [1, 4). y = fl(1/√a) has a relative error e of a few u; with the
    residual r = 1 − a·y² held in double-double, y + y·r/2 is off by 3e²/8, below 2^-102.
    """
    special = ~(np.isfinite(a) & (a > 0))
    safe = np.where(special, 1.0, a)
    mantissa, exponent = np.frexp(safe)
    odd = exponent % 2
    scaled, half_exponent = np.ldexp(mantissa, 2 - odd), (exponent - 2 + odd) // 2
    y = 1.0 / np.sqrt(scaled)
    square = two_product(y, y)
    product = two_product(scaled, square.hi)
    residual = ((1.0 - product.hi) - product.lo) - scaled * square.lo
    refined = y + y * residual / 2
    with np.errstate(all="ignore"):
        return np.where(special, 1.0 / np.sqrt(a), np.ldexp(refined, -half_exponent))
