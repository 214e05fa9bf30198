"""What tier 1 left open or could not take on: rules, then double-double, then whole numbers."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array, bits, bits_of, dtype_of, ordered, round_to, word_of
from rmsaudit.formats import FORMATS, Format
from rmsaudit.oracle import double_double_tier as tier2
from rmsaudit.oracle import integer_tier as tier3
from rmsaudit.oracle import output_clamp, positions, row_factor, rules
from rmsaudit.oracle.double_double_tier import Common
from rmsaudit.oracle.formulas import Formula
from rmsaudit.oracle.row_factor import Factor, Interval
from rmsaudit.oracle.rows import Prepared, Rows
from rmsaudit.oracle.rules import Ruled
from rmsaudit.oracle.scaled import Scaled, bracket
from rmsaudit.oracle.tiers import Tiers


class Settled(NamedTuple):
    """values[rows, size] in the output dtype and approx in float64, right where wanted; and who decided how many."""

    values: Array
    approx: Array
    tiers: Tiers


class Brackets(NamedTuple):
    """[rows, size] each, meaningful where they were asked for: the true rounding is neither below nor above them.

    is_known: [rows, 1], False where tier 2 knows nothing of the row.
    """

    lower: Array
    upper: Array
    approx: Array
    is_known: Array


def settle(formula: Formula, rows: Rows, wanted: Array, word: str) -> Settled:
    """The outputs of the formula at `wanted`[rows, size], each rounded once to the dtype `word`."""
    prepared = Prepared(formula, rows)
    ruled = rules.ruled(prepared)
    by_rule, asked = wanted & ruled.decided, wanted & ~ruled.decided
    edge = output_clamp.edge_of(formula, word)
    values, approx = _by_rule(ruled, by_rule, word, edge)
    counts = Tiers(by_rule=int(np.count_nonzero(by_rule)))
    if not asked.any():
        return Settled(values, approx, counts)
    brackets = _brackets(prepared, asked, word)
    np.copyto(values, output_clamp.limited(brackets.lower, edge), where=asked)
    np.copyto(approx, brackets.approx, where=asked)
    open_ = asked & ((bits(brackets.lower) != bits(brackets.upper)) | ~brackets.is_known)
    places = np.flatnonzero(open_)
    values.flat[places] = output_clamp.limited(_exactly(prepared, places, brackets), edge)
    integers = len(places)
    counts += Tiers(double_double=int(np.count_nonzero(asked)) - integers, integers=integers)
    return Settled(values, approx, counts)


def _by_rule(ruled: Ruled, where: Array, word: str, edge: int | None) -> tuple[Array, Array]:
    """Values and their float64, 0 elsewhere; a NaN stays NaN under a clamp, an infinity does not."""
    values, approx = np.zeros(where.shape, dtype=dtype_of(word)), np.zeros(where.shape)
    if not where.any():
        return values, approx
    decided = np.broadcast_to(ruled.values, where.shape)[where]
    rounded = round_to(decided, word)
    approx[where] = decided
    values[where] = np.where(np.isnan(decided), rounded, output_clamp.limited(rounded, edge))
    return values, approx


# --- tier 2


def _brackets(rows: Prepared, asked: Array, word: str) -> Brackets:
    """Of the outputs asked for; where these are few, only they are worked out."""
    factors = _row_factors(rows, [bool(row.any()) for row in asked])
    is_known = np.array([[factor is not None] for factor in factors])
    row_factors = _as_column(factors)
    factor = rows.factor if rows.formula.gain_last else None
    if 2 * np.count_nonzero(asked) > asked.size:
        result = tier2.outputs(rows.numerators, factor, row_factors, rows.finite.bias)
        return Brackets(*bracket(result, word), result.as_float64(), is_known)
    shape = rows.shape
    at = np.unravel_index(np.flatnonzero(asked), shape)
    bias = None if rows.finite.bias is None else np.broadcast_to(rows.finite.bias, shape)[at]
    few, factor_of_few, row_factor_of_few = (
        None if part is None else part.broadcast_to(shape).at(at) for part in (rows.numerators, factor, row_factors)
    )
    assert few is not None
    assert row_factor_of_few is not None
    result = tier2.outputs(few, factor_of_few, row_factor_of_few, bias)
    lower, upper, approx = (_placed(part, shape, at) for part in (*bracket(result, word), result.as_float64()))
    return Brackets(lower, upper, approx, is_known)


def _placed(values: Array, shape: tuple[int, ...], at: tuple[Array, ...]) -> Array:
    whole = np.zeros(shape, dtype=values.dtype)
    whole[at] = values
    return whole


def _row_factors(rows: Prepared, asked: list[bool]) -> list[Factor | None]:
    """One for each row that is asked for; None where there is none of use."""
    guarding = rows.formula.guarding(rows.entering)
    exponents, totals = rows.common.exponent[:, 0].tolist(), _totals(rows, asked)
    largest: list[Interval] | list[None] = [None] * len(asked)
    if rows.formula.prescale:
        largest = _intervals(tier2.largest_magnitude(rows.common))
    return [
        row_factor.enclose(
            guarding, rows.formula.post_scale, row_factor.Row(rows.size, exponent, total, magnitude, rows.multiple)
        )
        if total is not None
        else None
        for exponent, total, magnitude in zip(exponents, totals, largest, strict=True)
    ]


def _totals(rows: Prepared, asked: list[bool]) -> list[Interval | None]:
    """Σ of squares of each row asked for, in whole numbers where double-double lost too much of it."""
    common, multiple = rows.total
    certain, zero, exponents = (
        part[:, 0].tolist() for part in (rows.total_is_certain, rows.total_is_zero, rows.common.exponent)
    )
    totals: list[Interval | None] = []
    for row, interval in enumerate(_intervals(common)):
        if not asked[row]:
            totals.append(None)
        elif zero[row]:
            totals.append(Interval(0, 0))
        elif certain[row]:
            totals.append(row_factor.divided(interval, multiple))
        else:
            exact = rows.exact(row).total / Fraction(4) ** exponents[row]
            totals.append(row_factor.interval_of_fraction(exact))
    return totals


def _intervals(x: Common) -> list[Interval]:
    columns = (np.broadcast_to(part, x.hi.shape)[:, 0].tolist() for part in (x.hi, x.lo, x.radius))
    return [row_factor.interval_of(*one) for one in zip(*columns, strict=True)]


def _as_column(factors: list[Factor | None]) -> Scaled:
    """[rows, 1]; where there is none, 1 holds its place."""
    placeholder = Factor(1.0, 0.0, 0.0, 0)
    hi, lo, radius, exponent = zip(*(factor or placeholder for factor in factors), strict=True)
    return Scaled(np.array(hi)[:, None], np.array(lo)[:, None], np.array(radius)[:, None], np.array(exponent)[:, None])


# --- tier 3


def _exactly(rows: Prepared, places: Array, brackets: Brackets) -> Array:
    """The outputs at some flat indices, in the brackets' dtype."""
    word = word_of(brackets.lower)
    fmt = FORMATS[word]
    gain = _at_places(rows.finite.gain, rows, places) if rows.formula.gain_last else [None] * len(places)
    bias = _at_places(rows.finite.bias, rows, places)
    patterns = []
    for place, one_gain, one_bias, span in zip(
        places.tolist(), gain, bias, _spans(rows, places, brackets, fmt), strict=True
    ):
        row, column = divmod(place, rows.size)
        side = rows.exact(row).comparison(column, one_gain, one_bias or 0.0)
        sign, position = tier3.rounded(fmt, side, span)
        negative = sign < 0 or (sign == 0 and _is_negative_zero(rows, row, column))
        patterns.append(position | (negative << (fmt.bits - 1)))
    return np.array(patterns, dtype=bits_of(word)).view(brackets.lower.dtype)


def _at_places(operand: Array | None, rows: Prepared, places: Array) -> list[float] | list[None]:
    if operand is None:
        return [None] * len(places)
    chosen: list[float] = np.broadcast_to(operand, rows.shape)[np.unravel_index(places, rows.shape)].tolist()
    return chosen


def _spans(rows: Prepared, places: Array, brackets: Brackets, fmt: Format) -> list[tuple[int, int]]:
    """The positions of the magnitudes that tier 2 left possible."""
    lows, highs = (ordered(part.reshape(-1)[places]) for part in (brackets.lower, brackets.upper))
    known = brackets.is_known.reshape(-1)[places // rows.size]
    return [
        _span_of_magnitudes(low, high) if is_known else (0, positions.last(fmt))
        for low, high, is_known in zip(lows.tolist(), highs.tolist(), known.tolist(), strict=True)
    ]


def _span_of_magnitudes(low: int, high: int) -> tuple[int, int]:
    if low >= 0:
        return low, high
    return (-high, -low) if high <= 0 else (0, max(-low, high))


def _is_negative_zero(rows: Prepared, row: int, column: int) -> bool:
    """The sign of an output that is exactly 0 where no rule saw it: x − mean is +0, but for −0 − 0; p − p is +0."""
    if rows.exact(row).numerator(column) != 0:
        return False
    value = rules.value_classes(rows)[row, column]
    negative = bool(value == 0 and np.signbit(value))
    factor = rules.factor_classes(rows)
    if rows.formula.gain_last and factor is not None:
        negative ^= bool(np.signbit(np.broadcast_to(factor, rows.shape)[row, column]))
    if rows.formula.post_scale is not None:
        negative ^= rows.formula.post_scale < 0
    bias = rows.finite.bias
    return negative and (bias is None or bool(np.signbit(np.broadcast_to(bias, rows.shape)[row, column])))
