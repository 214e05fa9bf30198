"""Tier 1: plain float64 and a bound that holds in any order of summation.

For outputs of at most 32 bits. u = 2^-53; bounds are relative and of first order, and `_UP` makes room for the rest.
A row is trusted where its divisor is far from over- and underflow. Then each product here has a relative error of u,
but for those so small that they change nothing: outputs under 2^-570, which are zero in every format of 32 bits, and
squares under 2^-1022, which together are less than 2^-90 of their sum. What is not trusted or not certain is left
open.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array, bits, bits_of, dtype_of, round_to, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.oracle.formulas import Formula
from rmsaudit.semantics.orders import sum_last_axis
from rmsaudit.semantics.scope import statistic_size

U = 2.0**-53
_CHUNK = 128  # elements summed first; with sums of sums, a term takes part in fewer additions
_UP = 1.0 + 2.0**-20
_SAFE_SQUARE, _SAFE_FACTOR = 2.0**900, 2.0**450
_USEFUL = 2.0**-24  # up to such a relative error `_UP` covers the terms of second order; others are not trusted
_THROUGH_FLOAT32 = 2.0**-23  # twice the rounding to float32, 2^-24
_TINY = 2.0**-560  # more than all that underflow can do to an output, in absolute terms
_DIRECT = ("float32", "float16")  # numpy rounds float64 to these at once; others go through float32


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """x, residual: [outer, groups, size] in any dtype; factor (gain + offset), bias: float64, broadcast against x."""

    x: Array
    residual: Array | None
    factor: Array | None
    bias: Array | None


class Screened(NamedTuple):
    """values: right wherever not `open_`; approx: float64, near y within the bound, or None if not asked for."""

    values: Array
    open_: Array
    approx: Array | None


class _Factors(NamedTuple):
    """[outer, groups, 1] each: y is numerator · factor within a relative `spread`; numerators are off by `shift`."""

    factor: Array
    spread: Array
    shift: Array | None
    trusted: Array


class Prepared(NamedTuple):
    """Numerators before a gain that comes last, and what belongs to each row."""

    numerator: Array
    factors: _Factors


def applies(formula: Formula, size: int, word: str) -> bool:
    """Whether float64 is any use: not for float64 results, and not where a numerator may cancel after a rounding.

    x · gain + residual is such a sum, unless the product is exact (24 + 24 bits, no offset); so is x + residual where
    the limit that x is clamped to is no float64.
    """
    if FORMATS[word].bits > 32 or not statistic_size(size, formula):
        return False
    if formula.residual_dtype is None:
        return True
    exact_product = all(FORMATS[dtype].precision <= 24 for dtype in (formula.input_dtype, formula.gain_dtype) if dtype)
    product_is_exact = not formula.gain_first or (exact_product and not formula.gain_offset)
    limit = formula.input_clamp
    return product_is_exact and (limit is None or Fraction(float(limit)) == limit)


def is_out_of_range(factor: Array | None, bias: Array | None) -> Array | None:
    """[width]: features that this tier leaves alone, NaN and infinities among them; None if there are none."""
    beyond = np.zeros(1, dtype=bool)
    if factor is not None:
        magnitude = np.abs(factor)
        beyond = beyond | ~((magnitude == 0) | ((magnitude > 1 / _SAFE_SQUARE) & (magnitude < _SAFE_SQUARE)))
    if bias is not None:
        beyond = beyond | ~np.isfinite(bias)
    return beyond if beyond.any() else None


def prepare(formula: Formula, block: Block) -> Prepared:
    """What the last products begin from. It depends on the gain only where the formula has that first."""
    return Prepared(*_factors(formula, _values(formula, block)))


def screen(formula: Formula, block: Block, prepared: Prepared, word: str, *, with_approx: bool) -> Screened:
    """Each output of the block rounded once to `word`, where float64 can prove it. Overflow is not reported."""
    numerator, factors = prepared
    if formula.gain_last and block.factor is not None:
        numerator = numerator * block.factor
    if factors.shift is None and block.bias is None:
        screened = _screen_products(numerator, factors, word)
        approx = numerator * factors.factor if with_approx else None
    else:
        y, radius = _sums(numerator, factors, block, formula)
        screened = _screen_sums(y, radius, word)
        approx = y
    values, open_ = screened
    if not factors.trusted.all():
        open_ = open_ | ~factors.trusted
    return Screened(values, open_, approx)


def _values(formula: Formula, block: Block) -> Array:
    """What is squared and normalised, before the mean: within 3u (a limit, or an inexact factor; a product; a sum)."""
    values = block.x.astype(np.float64, order="C")
    if formula.input_clamp is not None:
        limit = float(formula.input_clamp)
        np.clip(values, -limit, limit, out=values)
    if formula.gain_first and block.factor is not None:
        values = values * block.factor
    if block.residual is not None:
        values += block.residual.astype(np.float64)
    return values


def _factors(formula: Formula, values: Array) -> tuple[Array, _Factors]:
    """The numerators (values, less their mean where the formula subtracts it), and what belongs to each row.

    The spread, in u, beside that of Σ itself. Divisor: the values in Σ have 3 once rooted, added · m² has 9 and so 4.5;
    half of an addition and of a division, 1; root 1; beside · m has less, and its addition 1: under 8. post_scale or
    √size 1, division 1. Numerator: values 3, gain 2, their product 1. The end of the factor 2, its product with the
    numerator 1. Together under 19; 24 are taken.
    """
    entering = statistic_size(values.shape[-1], formula)
    guarding = formula.guarding(entering)
    largest = np.max(np.abs(values), axis=-1, keepdims=True) if formula.prescale else 1.0
    numerator, shift = _about_mean(values) if formula.center else (values, None)
    squared, offset = numerator[..., :entering], shift
    if formula.statistic == "variance":
        squared, offset = _about_mean(values[..., :entering])
    total, spread = _sum_of_squares(squared)
    if offset is not None:
        spread = spread + offset * np.sqrt(entering / total)
    regular = np.maximum(total + _float(guarding.added) * largest**2, _float(guarding.floor) * largest**2)
    divisor = np.sqrt(regular / guarding.over) + _float(guarding.beside) * largest
    scale = np.sqrt(values.shape[-1]) if formula.post_scale is None else _float(formula.post_scale)
    factor = scale / divisor
    spread = (spread + 24 * U) * _UP
    trusted = (regular > 1 / _SAFE_SQUARE) & (regular < _SAFE_SQUARE) & (spread < _USEFUL)
    trusted &= (np.abs(factor) > 1 / _SAFE_FACTOR) & (np.abs(factor) < _SAFE_FACTOR)
    if offset is not None or entering < values.shape[-1]:
        trusted &= np.isfinite(values).all(axis=-1, keepdims=True)
    return numerator, _Factors(factor, spread, shift, trusted)


def _about_mean(values: Array) -> tuple[Array, Array]:
    """values − mean, and the absolute error of each, [outer, groups, 1], beside the rounding of the difference itself.

    By halving, an element takes part in ceil(log2 n) additions, so Σ is within that many u of Σ|v|; then u for the
    division. The values' own 3u, in Σ and where the mean is subtracted from them: 6u of the largest.
    """
    size = values.shape[-1]
    magnitudes = np.abs(values)
    mean_magnitude = np.mean(magnitudes, axis=-1, keepdims=True)
    error = (ceil(log2(size)) + 2) * U * mean_magnitude + 6 * U * np.max(magnitudes, axis=-1, keepdims=True)
    return values - sum_last_axis(values, "pairwise") / size, error * _UP


def _sum_of_squares(values: Array) -> tuple[Array, Array]:
    """Σ v² (axis kept), and the relative error of its root.

    Each term has one rounding as a square (none if it is fused into the addition), and one for each addition that it
    takes part in, in whatever order numpy adds. All are non-negative, so the sum has the relative error of its worst
    term.
    """
    size = values.shape[-1]
    chunks = size // _CHUNK
    head = values[..., : chunks * _CHUNK].reshape(*values.shape[:-1], chunks, _CHUNK)
    tail = values[..., chunks * _CHUNK :]
    total = np.einsum("...ci,...ci->...c", head, head).sum(axis=-1) + np.einsum("...i,...i->...", tail, tail)
    total = total[..., None]
    return total, np.full_like(total, (_CHUNK + chunks + 3) * U / 2)


def _float(value: Fraction) -> float:
    """The nearest float64; out of range (eps² can be), one that makes a row untrusted where it matters."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _screen_products(numerator: Array, factors: _Factors, word: str) -> tuple[Array, Array]:
    """numerator · (both ends of the row's factor), rounded: where both give one result, so does the true y.

    Rounding is monotone, and y lies strictly between (or is 0), so a tie at an end does no harm.
    """
    if word in _DIRECT:
        values, other = (_product(numerator, end, word) for end in _ends(factors.factor, factors.spread))
        return values, bits(values) != bits(other)
    ends = _ends(factors.factor, factors.spread + _THROUGH_FLOAT32)
    values, other = (_product(numerator, end, "float32").astype(dtype_of(word)) for end in ends)
    open_ = bits(values) != bits(other)
    if (small := _below_float32(values, word)) is not None:
        open_ |= small & (numerator != 0)
    at = np.flatnonzero(open_ & factors.trusted)
    row = at // numerator.shape[-1]
    y = numerator.flat[at] * factors.factor.flat[row]
    _refine(values, open_, at, y, np.abs(y) * factors.spread.flat[row])
    return values, open_


def _product(numerator: Array, factor: Array, word: str) -> Array:
    """In float64, cast as it is written."""
    return np.multiply(numerator, factor, out=np.empty(numerator.shape, dtype_of(word)), casting="same_kind")


def _ends(factor: Array, spread: Array) -> tuple[Array, Array]:
    return factor * (1 - spread), factor * (1 + spread)


def _sums(numerator: Array, factors: _Factors, block: Block, formula: Formula) -> tuple[Array, Array]:
    """y = numerator · factor + bias and its radius, where errors are absolute: x − mean and a sum can cancel.

    The radius has 4u of y for the rounding of y itself and of y ± radius; its own roundings are in `_UP`.
    """
    y = numerator * factors.factor
    radius = np.abs(y) * factors.spread
    radius += _TINY
    if factors.shift is not None:
        reach = factors.shift * np.abs(factors.factor) * _UP
        radius += reach * np.abs(block.factor) if formula.gain_last and block.factor is not None else reach
    if block.bias is not None:
        y += block.bias
    radius += 4 * U * np.abs(y)
    return y, radius


def _screen_sums(y: Array, radius: Array, word: str) -> tuple[Array, Array]:
    """y ± radius, rounded: where both give one result, so does the true y."""
    if word in _DIRECT:
        values, other = (y - radius).astype(dtype_of(word)), (y + radius).astype(dtype_of(word))
        return values, (bits(values) != bits(other)) | ~np.isfinite(y)
    wide = radius + _THROUGH_FLOAT32 * (np.abs(y) + radius)
    values, other = (end.astype(np.float32).astype(dtype_of(word)) for end in (y - wide, y + wide))
    open_ = bits(values) != bits(other)
    if (small := _below_float32(values, word)) is not None:
        open_ |= small
    at = np.flatnonzero(open_)
    _refine(values, open_, at, y.flat[at], radius.flat[at])
    return values, open_ | ~np.isfinite(y)


def _below_float32(values: Array, word: str) -> Array | None:
    """Where a rounding to float32 on the way can be more than 2^-24 of y and matter: bfloat16 below 2^-125.

    Other narrow formats end far above 2^-126; what float32 rounds coarsely is zero to them.
    """
    fmt, float32 = FORMATS[word], FORMATS["float32"]
    if fmt.min_exponent > float32.min_exponent:
        return None
    unsigned = bits_of(word).type
    magnitudes = bits(values) & unsigned((1 << (fmt.bits - 1)) - 1)
    return np.asarray(magnitudes < unsigned(2 << (fmt.precision - 1)))


def _refine(values: Array, open_: Array, at: Array, y: Array, radius: Array) -> None:
    """Decides some again, in place, rounding y ± radius from float64 at once instead of through float32.

    at: flat indices; y, radius: at these.
    """
    if not len(at):
        return
    word = word_of(values)
    below, above = round_to(y - radius, word), round_to(y + radius, word)
    values.flat[at] = below
    open_.flat[at] = bits(below) != bits(above)
