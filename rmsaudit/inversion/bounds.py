"""A deterministic bound on what rounding can do to a declared RMSNorm, term by term.

    |ŷ − y| <= θ |y| + α        θ = exp(Σ terms) − 1

Terms are those of `roundoff.py`. About a row's divisor D they weigh 1/2 inside the root: squares are not negative, so
nothing cancels, and the sum of n squares is off by no more than the h roundings of its most travelled term
(`depth.py`). α is for results that become subnormal, whose rounding is absolute. Where an intermediate value may leave
the range of its format, or θ reaches 1, nothing is said: such a row is void.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array, round_to
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS, Format
from rmsaudit.inversion.depth import depth
from rmsaudit.inversion.divisor import eps_share
from rmsaudit.inversion.interval import Interval, up
from rmsaudit.inversion.operands import SLACK, Operands, by_part, operands
from rmsaudit.inversion.preimage import Rounding
from rmsaudit.inversion.ranges import absolute_error, out_of_range, underflow
from rmsaudit.inversion.roundoff import cast, entering, operation, term, unit
from rmsaudit.inversion.row_scale import Allowance, row_scales
from rmsaudit.semantics import NormSpec, takes_root_of_sum
from rmsaudit.semantics.eps import effective
from rmsaudit.semantics.gain import NORMALIZE_FIRST, rounding_point


@dataclass(frozen=True, eq=False, kw_only=True)
class Bound:
    """What rounding can do to the outputs of one spec on one input. Rows are taken apart in their groups: parts[rows ·
    groups, size].

    row, element: the terms of a row's divisor, and of an element beside it, by name; of those that differ between rows
    or columns, the largest. slack: Σ of the row's terms, [parts]. before_last: Σ of the element's terms but for its
    last rounding, which is `last`, to format `fmt`; [parts, size], or [1, 1]. absolute: α without the last rounding,
    [parts, size]; infinite where an element may overflow. void: why nothing is said of a part; "" where something is.
    operands: the exact ones.
    """

    row: Mapping[str, float]
    element: Mapping[str, float]
    slack: Array
    before_last: Array
    last: float
    fmt: Format
    rounding: Rounding
    flushes: bool
    absolute: Array
    void: tuple[str, ...]
    operands: Operands

    @property
    def theta(self) -> Array:
        """θ; broadcasts against [parts, size]."""
        with np.errstate(over="ignore"):
            return up(np.expm1((self.slack[:, None] + self.before_last + self.last) * (1 + SLACK)))

    @property
    def alpha(self) -> Array:
        """α, [parts, size]."""
        alpha: Array = self.absolute + (self.fmt.smallest_normal if self.flushes else self.fmt.smallest_subnormal)
        return alpha

    def factors(self, output: Array) -> Interval:
        """What output[rows, width] allows 1/D to be, [parts], as the side computed it: without the row's own terms."""
        allowance = Allowance(
            relative=-np.expm1(-self.before_last),
            absolute=self.absolute,
            rounding=self.rounding,
            flushes=self.flushes,
        )
        given = self.operands
        parts = output.astype(np.float64).reshape(given.x.shape)
        return row_scales(given.x, parts, factor=given.gain * given.post_scale, fmt=self.fmt, allowance=allowance).scale


def bound(spec: NormSpec, case: Case) -> Bound | str:
    """The bound of `spec` on `case`, or why there is none for such a spec."""
    reason = _underivable(spec)
    if reason:
        return reason
    with np.errstate(all="ignore"):
        return _bound(spec, operands(spec, case), case.gain.astype(np.float64))


def _underivable(spec: NormSpec) -> str | None:
    if spec.axes != (-1,):
        return "no bound is derived for a statistic over columns or over all rows"
    if spec.center or spec.statistic == "variance" or spec.statistic_algorithm == "variance_plus_mean_square":
        return "subtracting a mean can cancel every digit, so no bound holds for all inputs"
    if spec.bias:
        return "adding a bias can cancel every digit, so no bound holds for all inputs"
    if spec.residual == "add" and spec.gain_applied and spec.gain_position == "before_statistic":
        return "a rounded product can cancel against the residual, so no bound holds for all inputs"
    if spec.gain_position == "before_statistic" and (spec.gain_offset != 0 or spec.gain_cast != "none"):
        return "no bound is derived for a gain that is shifted or cast before the statistic"
    if spec.input_clamp != "none" or spec.output_clamp != "none":
        return "no bound is derived for clamped values"
    return None


def _bound(spec: NormSpec, given: Operands, gain: Array) -> Bound:
    row, (element, last) = row_terms(spec, given.entering), element_terms(spec)
    by_row = {"eps rounded": _eps_rounded(spec, given), "underflow": underflow(spec, given)}
    by_column = _gain_rounded(spec, gain)
    known = np.isfinite(by_column)
    slack: Array = np.asarray(sum(row.values()) + SLACK) + sum(by_row.values())
    before_last = np.full((1, 1), sum(element.values()) - last.term + SLACK)
    absolute = absolute_error(spec, given)
    if by_column.any():
        before_last = before_last + by_part(np.where(known, by_column, 0.0), spec, len(given.x))
        absolute = np.where(by_part(known, spec, len(given.x)), absolute, inf)
    relative = slack[:, None] + before_last + last.term
    largest = {name: float(values.max(initial=0.0)) for name, values in by_row.items() if values.any()}
    columns = float(by_column[known].max(initial=0.0))
    return Bound(
        row={**row, **largest},
        element={**element, **({"gain rounded": columns} if columns else {})},
        slack=slack,
        before_last=before_last,
        last=last.term,
        fmt=FORMATS[last.dtype],
        rounding=spec.rounding if last.is_cast else "nearest_even",
        flushes=spec.subnormals == "flush",
        absolute=absolute * np.exp(relative),
        void=_void(spec, given, {**row, **by_row}, relative),
        operands=given,
    )


def _void(spec: NormSpec, given: Operands, terms: Mapping[str, float | Array], relative: Array) -> tuple[str, ...]:
    """For each part why nothing is said of it, or ""."""
    reasons = list(out_of_range(spec, given))
    for part in np.flatnonzero(~(np.expm1(relative).max(axis=-1) < 1)):
        own = {name: float(np.broadcast_to(value, len(reasons))[part]) for name, value in terms.items()}
        name = max(own, key=lambda name: own[name])
        reasons[part] = reasons[part] or (
            f"rounding may be everything: the term {name!r} alone is {own[name]:.3g} ({spec.accumulate_order} sums in"
            f" {spec.accumulate_dtype}, statistic in {spec.statistic_dtype})"
        )
    return tuple(reasons)


# --- a row's divisor -------------------------------------------------------------------------------------------------


def row_terms(spec: NormSpec, size: int) -> dict[str, float]:
    """The terms of D that no input changes; `size` elements enter the statistic."""
    compute, accumulate = operation(spec.compute_dtype), operation(spec.accumulate_dtype)
    terms = dict(_operand(spec, spec.statistic_source))
    terms["squares"] = operation(spec.square_dtype) / 2 + entering(spec.compute_dtype, spec.square_dtype)
    if spec.statistic_algorithm == "max_scaled":  # x/max, twice in a square; twice max, halved by the root
        terms["scaled by max"] = compute + accumulate + entering(spec.compute_dtype, spec.accumulate_dtype)
    terms["sum"] = (
        depth(spec.accumulate_order, size) * accumulate + cast(spec.square_dtype, spec.accumulate_dtype, spec)
    ) / 2
    terms["mean"] = _mean(spec, size)
    terms["statistic"] = _held(spec) / 2
    terms["eps added"] = _eps_added(spec)
    terms["root"] = operation(spec.statistic_dtype) + cast(spec.statistic_dtype, spec.inverse_dtype, spec)
    terms["inverse"] = _inverse(spec)
    return {name: value for name, value in terms.items() if value}


def _operand(spec: NormSpec, source: str) -> Iterator[tuple[str, float]]:
    """What the operand went through. In D it counts whole: squaring doubles it, the root halves it."""
    compute = operation(spec.compute_dtype)
    yield "input", cast(spec.input_dtype, spec.compute_dtype, spec)
    if spec.gain_applied and spec.gain_position == "before_statistic":
        product = compute + _gain(spec, spec.compute_dtype) + cast(spec.compute_dtype, spec.input_dtype, spec)
        yield "gain before the statistic", product
    if spec.residual == "add":
        rounded = cast(spec.compute_dtype, spec.residual_out_dtype, spec) if source == "rounded" else 0.0
        yield "residual", compute + entering(spec.residual_dtype, spec.compute_dtype) + rounded
    if spec.prescale != "none":
        yield "prescale", compute


def _mean(spec: NormSpec, size: int) -> float:
    if spec.statistic == "sum_square":
        return 0.0
    power_of_two = size & (size - 1) == 0
    if takes_root_of_sum(spec):
        exact = power_of_two and size.bit_length() % 2 == 1  # a power of four: 1/√n is a power of two
        rounded = term(2.0**-52) + entering("float64", spec.inverse_dtype) + operation(spec.inverse_dtype)
        return 0.0 if exact else rounded
    if power_of_two:
        return 0.0
    match spec.mean_scaling:
        case "per_element":  # 1/n, and the product with it
            return operation(spec.compute_dtype)
        case "multiply_by_reciprocal":
            return operation(spec.accumulate_dtype)
    return operation(spec.accumulate_dtype) / 2


def _held(spec: NormSpec) -> float:
    """The sum or mean on its way to statistic_dtype."""
    if takes_root_of_sum(spec):
        return cast(spec.accumulate_dtype, spec.statistic_dtype, spec)
    mean = cast(spec.accumulate_dtype, spec.mean_dtype, spec)
    if spec.eps_placement == "inside_sqrt":
        return mean + entering(spec.mean_dtype, spec.statistic_dtype)
    return mean + cast(spec.mean_dtype, spec.statistic_dtype, spec)


def _eps_added(spec: NormSpec) -> float:
    match spec.eps_placement:
        case "inside_sum":
            return operation(spec.accumulate_dtype) / 2
        case "inside_sqrt":
            return operation(spec.statistic_dtype) / 2
        case "outside_sqrt":
            return operation(spec.inverse_dtype)
    return 0.0


def _inverse(spec: NormSpec) -> float:
    """What follows the root. rsqrt rounds once in place of twice, below 64 bits by way of float64."""
    root_is_final = spec.eps_placement not in ("outside_sqrt", "floor_rms") and not takes_root_of_sum(spec)
    if spec.inverse == "divide_by_sqrt":
        return 0.0
    if not root_is_final:
        return operation(spec.inverse_dtype)
    if spec.inverse == "rsqrt":
        return term(2.0**-51)
    return operation(spec.statistic_dtype)


def _eps_rounded(spec: NormSpec, given: Operands) -> Array:
    """What rounding eps does to each D, [parts]; infinite where eps becomes 0 and is needed."""
    off = _eps_off(spec)
    share = eps_share(spec, given.squares, given.entering, off)
    return np.where(share > 0, share * off, 0.0)


def _eps_off(spec: NormSpec) -> float:
    """How far the eps that is used may be from the declared one, as a term."""
    declared = effective(spec)
    if spec.eps_placement == "none" or declared == 0:
        return 0.0
    used = float(round_to(np.asarray(declared), spec.eps_dtype))
    if used == 0 or (spec.subnormals == "flush" and used < FORMATS[spec.eps_dtype].smallest_normal):
        return inf
    on_the_sum = spec.eps_placement in ("inside_sum", "floor_sum")
    inside = spec.statistic_dtype if spec.eps_placement == "inside_sqrt" else spec.inverse_dtype
    into = spec.accumulate_dtype if on_the_sum else inside
    squared = operation(spec.accumulate_dtype) / 2 if spec.eps_placement == "floor_sum" else 0.0
    return abs(float(np.log(used / declared))) + entering(spec.eps_dtype, into) + squared + term(2.0**-50)


# --- an element ------------------------------------------------------------------------------------------------------


class Last(NamedTuple):
    """The last rounding of an element: to which dtype, its term, and whether it is a cast or an operation."""

    dtype: str
    term: float
    is_cast: bool


def element_terms(spec: NormSpec) -> tuple[dict[str, float], Last]:
    """The terms of an element beside D, and which of them is the last rounding."""
    terms = dict(_operand(spec, spec.numerator_source))
    terms["normalise"] = operation(spec.compute_dtype) + entering(spec.inverse_dtype, spec.compute_dtype)
    last, held = _operated(spec.compute_dtype), spec.compute_dtype
    multiplies = spec.gain_applied and spec.gain_position == "after_normalize"
    if multiplies and spec.association != NORMALIZE_FIRST:
        terms["gain"] = operation(held) + _gain(spec, held)
    elif narrowed := cast(held, held := rounding_point(spec, held), spec):
        terms["cast before gain"] = narrowed
        last = _cast_to(held, spec)
    if spec.post_scale != "none":
        terms["post scale"] = term(2.0**-52) + entering("float64", held) + operation(held)
        last = _operated(held)
    if multiplies and spec.association == NORMALIZE_FIRST:
        product = spec.gain_product_dtype
        terms["gain"] = operation(product) + entering(held, product) + _gain(spec, product)
        last, held = _operated(product), product
    elif multiplies and (narrowed := cast(held, held := spec.gain_product_dtype, spec)):
        terms["cast of the product"] = narrowed
        last = _cast_to(held, spec)
    if narrowed := cast(held, spec.output_dtype, spec):
        terms["output"] = narrowed
        last = _cast_to(spec.output_dtype, spec)
    return {name: value for name, value in terms.items() if value}, last


def _operated(dtype: str) -> Last:
    return Last(dtype, term(unit(dtype)), is_cast=False)


def _cast_to(dtype: str, spec: NormSpec) -> Last:
    return Last(dtype, term(2 * unit(dtype) if spec.rounding == "toward_zero" else unit(dtype)), is_cast=True)


def _gain(spec: NormSpec, dtype: str) -> float:
    """gain + offset rounded, and entering a product in `dtype`; what rounding the gain first does is another term."""
    if spec.gain_offset != 0:
        return operation(spec.gain_offset_dtype) + entering(spec.gain_offset_dtype, dtype)
    return entering(spec.gain_dtype if spec.gain_cast == "none" else spec.gain_cast, dtype)


def _gain_rounded(spec: NormSpec, gain: Array) -> Array:
    """What rounding the gain before an offset is added does to the sum, [width]; infinite where they nearly cancel."""
    off = 0.0 if spec.gain_cast == "none" else cast(spec.gain_dtype, spec.gain_cast, spec)
    if spec.gain_offset != 0:
        off += entering(spec.gain_dtype, spec.gain_offset_dtype)
    if not spec.gain_applied or off == 0:
        return np.zeros(len(gain))
    own = np.abs(gain) * np.expm1(off) * (1 + SLACK)
    share = np.where(own == 0, 0.0, own / np.abs(gain + spec.gain_offset))
    return np.where(share < 1 / 2, -np.log1p(-np.minimum(share, 1 / 2)), inf)
